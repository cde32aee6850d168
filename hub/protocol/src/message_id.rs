//! The id a sender gives its message, unique in the room.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::{ParseError, serde_as_string};

/// A UUID in its lowercase, hyphenated form. Chosen by the sender, so that a message sent again is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Uuid);

impl MessageId {
    /// A new time-ordered id (UUID version 7).
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id's bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

impl FromStr for MessageId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        // `Uuid` also reads braces, URNs and upper case; one id has one spelling here because the spelling is signed.
        Uuid::try_parse(text)
            .ok()
            .map(Self)
            .filter(|id| id.to_string() == text)
            .ok_or_else(|| ParseError::new("message id", text, "is not a lowercase hyphenated UUID"))
    }
}

serde_as_string!(MessageId);
