//! What a bundle, or any other blob, is called: the SHA-256 of its bytes.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::digest::{hex, parse_hex, write_hex};
use crate::{ParseError, serde_as_string};

/// SHA-256 of a blob's bytes, 64 lowercase hexadecimal digits. Bytes that hash to anything else are not the blob.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BundleId([u8; 32]);

impl BundleId {
    /// The id of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The id that a finished SHA-256 gave.
    pub const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 12 digits: what people see, and the name of the pin.
    pub fn short(&self) -> String {
        hex(&self.0[..6])
    }
}

impl fmt::Display for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for BundleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BundleId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ParseError::new("bundle id", text, "is not 64 lowercase hexadecimal digits"))
    }
}

serde_as_string!(BundleId);

/// The beginning of a bundle id as a person types it: 4 to 64 lowercase hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleIdPrefix(String);

impl BundleIdPrefix {
    /// Whether this id begins so.
    pub fn matches(&self, id: &BundleId) -> bool {
        id.to_string().starts_with(&self.0)
    }
}

impl fmt::Display for BundleIdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BundleIdPrefix {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if digits && (4..=64).contains(&text.len()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError::new(
                "bundle id",
                text,
                "is not 4 to 64 lowercase hexadecimal digits",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_only_the_beginning() {
        let id = BundleId::of(b"x");
        let text = id.to_string();
        assert_eq!(text.parse::<BundleId>().unwrap(), id);
        assert_eq!(id.short(), text[..12]);
        assert!(text[..4].parse::<BundleIdPrefix>().unwrap().matches(&id));
        assert!(!text[1..9].parse::<BundleIdPrefix>().unwrap().matches(&id));
        for bad in ["abc", "ABCD", "zzzz", "-abc", &"é".repeat(4), &"a".repeat(65)] {
            assert!(bad.parse::<BundleIdPrefix>().is_err(), "{bad}");
        }
    }
}
