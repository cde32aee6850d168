//! The number of a message in its room.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ParseError;

/// A message's number in its room: 1 for the first, no gaps. 0 stands for "before the first".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Seq(u64);

/// SQLite and other JSON readers hold 63-bit integers: a larger number could not be stored or compared.
const MAX: u64 = i64::MAX as u64;

impl TryFrom<u64> for Seq {
    type Error = ParseError;

    fn try_from(number: u64) -> Result<Self, ParseError> {
        if number <= MAX {
            Ok(Self(number))
        } else {
            Err(ParseError::new("message number", &number.to_string(), "is too large"))
        }
    }
}

impl From<Seq> for u64 {
    fn from(seq: Seq) -> Self {
        seq.0
    }
}

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
        text.parse::<u64>()
            .ok()
            .filter(|_| digits)
            .and_then(|number| Self::try_from(number).ok())
            .ok_or_else(|| ParseError::new("message number", text, "is not a whole number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fits_every_reader() {
        assert_eq!("42".parse::<Seq>().unwrap(), Seq::new(42));
        assert_eq!(serde_json::from_str::<Seq>("42").unwrap(), Seq::new(42));
        assert_eq!(serde_json::to_string(&Seq::new(42)).unwrap(), "42");
        for bad in [
            "",
            "-1",
            "+1",
            "1.5",
            " 1",
            "x",
            "9223372036854775808",
            "18446744073709551615",
        ] {
            assert!(bad.parse::<Seq>().is_err(), "{bad}");
            assert!(serde_json::from_str::<Seq>(bad).is_err() || bad == " 1", "{bad}");
        }
    }
}
