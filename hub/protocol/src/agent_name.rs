//! What an agent or a role is called: a label, chosen by the agent, never a permission.

use std::fmt;
use std::str::FromStr;

use crate::hidden::flaw_of_line;
use crate::limits::MAX_AGENT_NAME_BYTES;
use crate::{ParseError, TOKEN_SENDER_PREFIX, serde_as_string};

/// The name of an agent, or of a role: 1 to 128 bytes of visible text without control, zero-width or
/// text-direction characters, without blanks at either end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentName(String);

impl AgentName {
    /// The name as spelled.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is a token, `ci/NAME`, and not an agent: each of its jobs has a key of its own.
    pub fn is_token(&self) -> bool {
        self.0.starts_with(TOKEN_SENDER_PREFIX)
    }

    /// Whether somebody who typed `other` means this name: without case, blanks at the ends aside.
    pub fn is_called(&self, other: &str) -> bool {
        self.0.to_lowercase() == other.trim().to_lowercase()
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AgentName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no = |why| Err(ParseError::new("name", text, why));
        if text.is_empty() || text.len() > MAX_AGENT_NAME_BYTES {
            return no("is not 1 to 128 bytes long");
        }
        match flaw_of_line(text) {
            Some(flaw) => no(flaw),
            None => Ok(Self(text.to_owned())),
        }
    }
}

serde_as_string!(AgentName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_visible_text() {
        let name: AgentName = "Ada Lovelace".parse().unwrap();
        assert!(name.is_called(" ada lovelace"));
        assert!(!name.is_called("ada"));
        for bad in [
            "",
            " x",
            "x\n",
            "a\u{1b}[0m",
            "a\u{202e}b",
            "a\u{200b}b",
            "a\u{e0041}",
            &"x".repeat(129),
        ] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad:?}");
        }
    }
}
