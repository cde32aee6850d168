//! What rooms are called, and their kinds.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE32_NOPAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::limits::MAX_ROOM_NAME_BYTES;
use crate::{AgentId, ParseError, serde_as_string};

/// How the name of a direct room begins, and how many characters of base 32 follow.
const DIRECT_PREFIX: &str = "dm.";
const DIRECT_CHARS: usize = 32;
/// Bytes of the hash that these are.
const DIRECT_BYTES: usize = 20;

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

    /// The direct room of two agents: one name for the pair, whoever asks. Both can tell from it that no third one's
    /// room was put in its place.
    pub fn direct(one: &AgentId, other: &AgentId) -> Self {
        let (first, second) = match one.as_bytes() <= other.as_bytes() {
            true => (one, other),
            false => (other, one),
        };
        let mut hash = Sha256::new();
        hash.update(b"parler dm\0");
        hash.update(first.as_bytes());
        hash.update(second.as_bytes());
        let digits = BASE32_NOPAD.encode(&hash.finalize()[..DIRECT_BYTES]);
        Self(format!("{DIRECT_PREFIX}{}", digits.to_ascii_lowercase()))
    }

    /// Whether the name is one that only a direct room has.
    pub fn is_direct(&self) -> bool {
        let key = self.key();
        key.strip_prefix(DIRECT_PREFIX).is_some_and(|digits| {
            digits.len() == DIRECT_CHARS && digits.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
        })
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
    use crate::AgentKey;

    #[test]
    fn two_agents_have_one_direct_room() {
        let [alice, bob, carol] = [1, 2, 3].map(|seed| AgentKey::from_random([seed; 32]).id());
        let room = RoomName::direct(&alice, &bob);
        assert_eq!(room, RoomName::direct(&bob, &alice));
        assert_ne!(room, RoomName::direct(&alice, &carol));
        assert_eq!(room.as_str().parse::<RoomName>().unwrap(), room);
        // On the wire: an agent that computes it in another way finds no room.
        assert_eq!(room.as_str(), "dm.kt4mi2at5rogfw7bahu2367iy3326ndq");
        assert!(room.is_direct());
        assert!(room.as_str().to_uppercase().parse::<RoomName>().unwrap().is_direct());
        for other in ["dm", "dm.alice", "dm.x", &room.as_str()[1..], &format!("{room}a")] {
            assert!(!other.parse::<RoomName>().unwrap().is_direct(), "{other}");
        }
    }

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
