//! The code that lets an agent into a room.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::{ParseError, serde_as_string};

/// Letters and digits that are not mistaken for each other: no I, O, 0 or 1.
const ALPHABET: &[u8; 32] = b"ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
/// Characters of a new code: 60 bits.
const NEW_CODE_CHARS: usize = 12;

/// An invite code: 8 to 32 characters of A-Z 2-9 without I and O. Typed in any case, also as the last component of
/// a link `.../join/CODE`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct InviteCode(String);

impl InviteCode {
    /// The code of these random bytes.
    pub fn from_random(bytes: [u8; NEW_CODE_CHARS]) -> Self {
        Self(
            bytes
                .iter()
                .map(|byte| char::from(ALPHABET[usize::from(byte % 32)]))
                .collect(),
        )
    }

    /// What names it to those who may not know the code.
    pub fn id(&self) -> InviteId {
        InviteId::of_hash(&Sha256::digest(&self.0).into())
    }

    /// The code's characters. Whoever has them can join: keep them out of logs.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for InviteCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for InviteCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InviteCode(..)")
    }
}

impl FromStr for InviteCode {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let code = text.rsplit_once("/join/").map_or(text, |(_, code)| code);
        let code = code.trim().to_ascii_uppercase();
        if (8..=32).contains(&code.len()) && code.bytes().all(|byte| ALPHABET.contains(&byte)) {
            Ok(Self(code))
        } else {
            // The text may be a mistyped secret, so the error does not repeat it.
            Err(ParseError::new(
                "invite code",
                "..",
                "is not 8 to 32 of A-Z 2-9 without I and O",
            ))
        }
    }
}

serde_as_string!(InviteCode);

/// Bytes of an [`InviteId`].
const ID_BYTES: usize = 6;

/// What an invite is called in lists and paths: 12 lowercase hexadecimal digits of the hash of its code, which lead nobody
/// in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InviteId([u8; ID_BYTES]);

impl InviteId {
    /// The id of the invite whose code has this SHA-256.
    pub fn of_hash(hash: &[u8; 32]) -> Self {
        let mut id = [0; ID_BYTES];
        id.copy_from_slice(&hash[..ID_BYTES]);
        Self(id)
    }

    /// The bytes that the digits stand for.
    pub const fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }
}

impl fmt::Display for InviteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for InviteId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).ok();
        let id = bytes.and_then(|bytes| bytes.try_into().ok()).map(Self);
        // It may be most of a code.
        id.ok_or_else(|| ParseError::new("invite id", "..", "is not 12 lowercase hexadecimal digits"))
    }
}

serde_as_string!(InviteId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_links_read_alike() {
        let code = InviteCode::from_random(*b"\0\x01\x02\x03\x04\x05\x06\x07\x08\x09\xff\x1f");
        assert_eq!(code.as_str(), "ABCDEFGHJK99");
        for text in ["abcdefghjk99", "parler://hub:1/join/ABCDEFGHJK99", " ABCDEFGHJK99 "] {
            assert_eq!(text.parse::<InviteCode>().unwrap(), code);
        }
        assert!("88LZT69C".parse::<InviteCode>().is_ok());
        for bad in ["", "SHORT", "ABCDEFGI", "ABCDEFG0", &"A".repeat(33)] {
            assert!(bad.parse::<InviteCode>().is_err(), "{bad}");
        }
    }
}
