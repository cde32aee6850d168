//! What rooms are called, and their kinds.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::MAX_ROOM_NAME_BYTES;
use crate::{ParseError, serde_as_string};

/// A room's name: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, as its maker spelled it. A hub holds no two rooms whose names
/// differ only in case, see [`RoomName::key`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomName(String);

impl RoomName {
    /// The name as spelled.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without case, which is what must be unique on a hub.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }
}

impl fmt::Display for RoomName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for RoomName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !text.is_empty()
            && text.len() <= MAX_ROOM_NAME_BYTES
            && text.bytes().all(good)
            && text.as_bytes()[0].is_ascii_alphanumeric()
        {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError::new(
                "room name",
                text,
                "is not 1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit",
            ))
        }
    }
}

serde_as_string!(RoomName);

/// What a room is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoomKind {
    /// A shared room with any number of members.
    Channel,
    /// A room of exactly two agents.
    Dm,
    /// A queue of jobs that workers claim.
    Service,
}

impl fmt::Display for RoomKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channel => "channel",
            Self::Dm => "dm",
            Self::Service => "service",
        })
    }
}

impl FromStr for RoomKind {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "channel" => Ok(Self::Channel),
            "dm" => Ok(Self::Dm),
            "service" => Ok(Self::Service),
            _ => Err(ParseError::new("room kind", text, "is not channel, dm or service")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_rooms() {
        for good in ["x", "feature-checkout", "svc.review", "A_1", &"a".repeat(64)] {
            assert!(good.parse::<RoomName>().is_ok(), "{good}");
        }
        for bad in ["", "-x", ".x", "a/b", "a b", "..", "é", "a\n", &"a".repeat(65)] {
            assert!(bad.parse::<RoomName>().is_err(), "{bad}");
        }
    }
}
