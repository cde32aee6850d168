//! Which hub a signature, a token or a cached state belongs to.

use std::fmt;
use std::str::FromStr;

use crate::digest::{hex, parse_hex};
use crate::{ParseError, serde_as_string};

/// 128 random bits made when a hub's data directory is, 32 lowercase hexadecimal digits. It stays the same when the
/// hub moves to another address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HubId([u8; 16]);

impl HubId {
    /// The id of these random bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for HubId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for HubId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ParseError::new("hub id", text, "is not 32 lowercase hexadecimal digits"))
    }
}

serde_as_string!(HubId);
