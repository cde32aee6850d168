//! What stands in a log in place of a message that the hub no longer keeps: its number, its room, and the hash of what
//! was there, so that the chain can still be computed. Says nothing of who wrote it or what it said.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::{hex, parse_hex};
use crate::{ParseError, RoomName, Seq, serde_as_string};

/// Longer bytes are no note of this kind: a number, a room's name and a hash.
const MAX_BYTES: usize = 512;

/// SHA-256 of a message exactly as it was stored. 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageHash([u8; 32]);

impl MessageHash {
    /// Of these bytes.
    pub fn of(stored_message: &[u8]) -> Self {
        Self(Sha256::digest(stored_message).into())
    }

    /// The hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for MessageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for MessageHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MessageHash {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ParseError::new("message hash", text, "is not 64 lowercase hexadecimal digits"))
    }
}

serde_as_string!(MessageHash);

/// A message that is no longer kept. Exactly these fields; a message has others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DroppedMessage {
    /// Its number in the room.
    pub seq: Seq,
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// The hash of what was there.
    pub dropped: MessageHash,
}

impl DroppedMessage {
    /// What stands in place of this message.
    pub fn in_place_of(seq: Seq, room: &RoomName, stored_message: &[u8]) -> Self {
        Self {
            seq,
            room: room.clone(),
            dropped: MessageHash::of(stored_message),
        }
    }

    /// Reads one, from the exact bytes the hub returns. None: it is a message, or nothing.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        // serde would take a list of the fields as well.
        if bytes.len() > MAX_BYTES || bytes.first() != Some(&b'{') {
            return None;
        }
        serde_json::from_slice(bytes).ok()
    }

    /// The bytes that the hub stores and returns.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a number and two strings always fit a byte vector")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChainHash, HubId};

    #[test]
    fn the_chain_goes_on_over_it() {
        let room: RoomName = "Build".parse().unwrap();
        let start = ChainHash::start(&HubId::from_bytes([1; 16]), &room);
        let message = br#"{"seq":1,"id":"x","room":"Build","parts":[]}"#;
        let note = DroppedMessage::in_place_of(Seq::new(1), &room, message);
        assert_eq!(DroppedMessage::parse(&note.to_bytes()), Some(note.clone()));
        assert_eq!(start.next(&note.to_bytes()), start.next(message));
        let other = DroppedMessage::in_place_of(Seq::new(1), &room, b"another");
        assert_ne!(start.next(&other.to_bytes()), start.next(message));
    }

    #[test]
    fn nothing_with_more_or_less_in_it_is_one() {
        let hash = "a".repeat(64);
        for no in [
            format!(r#"{{"seq":1,"room":"b","dropped":"{hash}","id":"x"}}"#),
            format!(r#"{{"seq":1,"room":"b","dropped":"{hash}","dropped":"{hash}"}}"#),
            format!(r#"{{"room":"b","dropped":"{hash}"}}"#),
            format!(r#"{{"seq":1,"room":"b","dropped":"{}"}}"#, "A".repeat(64)),
            format!(r#"{{"seq":1,"room":"b","dropped":true,"hash":"{hash}"}}"#),
            format!("[1,\"b\",\"{hash}\"]"),
            format!("{}{{\"seq\":1,\"room\":\"b\",\"dropped\":\"{hash}\"}}", " ".repeat(512)),
        ] {
            assert_eq!(DroppedMessage::parse(no.as_bytes()), None, "{no}");
        }
    }
}
