//! The name of an upload that is under way.

use std::fmt;
use std::str::FromStr;

use crate::digest::{hex, parse_hex};
use crate::{ParseError, serde_as_string};

/// An upload's id: 128 bits that the hub drew, written as 32 lowercase hexadecimal digits. It opens nothing by itself:
/// an upload is only its owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UploadId([u8; 16]);

impl UploadId {
    /// The id of these random bytes.
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for UploadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for UploadId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ParseError::new("upload id", text, "is not 32 lowercase hexadecimal digits"))
    }
}

serde_as_string!(UploadId);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_has_one_spelling() {
        let text = "000102030405060708090a0b0c0d0eff";
        assert_eq!(text.parse::<UploadId>().unwrap().to_string(), text);
        for bad in ["", "00", &text.to_uppercase(), &text[1..], &format!("{text}00"), "../x"] {
            assert!(bad.parse::<UploadId>().is_err(), "{bad}");
        }
    }
}
