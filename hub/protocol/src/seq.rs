//! The number of a message in its room.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ParseError;

/// A message's number in its room: 1 for the first, no gaps. 0 stands for "before the first".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(u64);

impl Seq {
    /// Before the first message.
    pub const ZERO: Self = Self(0);

    /// The seq of this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The message after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Seq {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // SQLite and JSON readers hold 63-bit integers; a larger number could not be stored or compared.
        text.parse::<u64>()
            .ok()
            .filter(|number| digits && *number <= i64::MAX as u64)
            .map(Self)
            .ok_or_else(|| ParseError::new("message number", text, "is not a whole number"))
    }
}
