//! Git object ids of either hash, and which hash a repository uses.

use std::fmt;
use std::str::FromStr;

use crate::digest::{parse_hex, write_hex};
use crate::{ParseError, serde_as_string};

/// The hash function that names a repository's objects, as git's `extensions.objectFormat` spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectFormat {
    /// 20-byte ids.
    Sha1,
    /// 32-byte ids.
    Sha256,
}

impl ObjectFormat {
    /// Bytes of one object id, which is also the length of a pack's trailing checksum.
    pub const fn raw_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

impl fmt::Display for ObjectFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        })
    }
}

impl FromStr for ObjectFormat {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "sha1" => Ok(Self::Sha1),
            "sha256" => Ok(Self::Sha256),
            _ => Err(ParseError::new("object format", text, "is neither sha1 nor sha256")),
        }
    }
}

serde_as_string!(ObjectFormat);

/// The id of one git object: 40 (SHA-1) or 64 (SHA-256) lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Oid {
    /// An object of a SHA-1 repository.
    Sha1([u8; 20]),
    /// An object of a SHA-256 repository.
    Sha256([u8; 32]),
}

impl Oid {
    /// Which hash the id is of.
    pub const fn format(&self) -> ObjectFormat {
        match self {
            Self::Sha1(_) => ObjectFormat::Sha1,
            Self::Sha256(_) => ObjectFormat::Sha256,
        }
    }

    /// The id's bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Sha1(bytes) => bytes,
            Self::Sha256(bytes) => bytes,
        }
    }

    /// The id of 20 or 32 raw bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        match bytes.len() {
            20 => bytes.try_into().ok().map(Self::Sha1),
            32 => bytes.try_into().ok().map(Self::Sha256),
            _ => None,
        }
    }

    /// True for the all-zero id, which names no object.
    pub fn is_null(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, self.as_bytes())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Oid {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.len() {
            40 => parse_hex(text).map(Self::Sha1),
            64 => parse_hex(text).map(Self::Sha256),
            _ => None,
        }
        .ok_or_else(|| ParseError::new("object id", text, "is not 40 or 64 lowercase hexadecimal digits"))
    }
}

serde_as_string!(Oid);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hashes_round_trip_and_nothing_else_parses() {
        for text in ["a".repeat(40), "0123456789abcdef".repeat(4)] {
            assert_eq!(text.parse::<Oid>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "abc",
            &"A".repeat(40),
            &"a".repeat(41),
            &"g".repeat(64),
            &"é".repeat(20),
        ] {
            assert!(text.parse::<Oid>().is_err(), "{text}");
        }
        assert!("0".repeat(40).parse::<Oid>().unwrap().is_null());
    }
}
