//! What an agent says that it is at: a few words for people, in no log.

use std::fmt;
use std::str::FromStr;

use crate::hidden::flaw_of_line;
use crate::limits::MAX_STATUS_BYTES;
use crate::{ParseError, serde_as_string};

/// A status: 1 to 200 bytes of visible text in one line, without blanks at either end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StatusText(String);

impl StatusText {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StatusText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for StatusText {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no = |why| Err(ParseError::new("status", text, why));
        if text.is_empty() || text.len() > MAX_STATUS_BYTES {
            return no("is not 1 to 200 bytes long");
        }
        match flaw_of_line(text) {
            Some(flaw) => no(flaw),
            None => Ok(Self(text.to_owned())),
        }
    }
}

serde_as_string!(StatusText);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_visible_line() {
        assert!("reviewing feature/checkout".parse::<StatusText>().is_ok());
        for bad in ["", " x", "a\nb", "a\u{1b}[2J", "a\u{202e}b", &"x".repeat(201)] {
            assert!(bad.parse::<StatusText>().is_err(), "{bad:?}");
        }
    }
}
