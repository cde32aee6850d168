//! The hash chain over a room's log. Whoever reads a room from its first message computes what the hub computes, so
//! a log that was shortened, reordered or rewritten does not reach the head that somebody else was told.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::{parse_hex, write_hex};
use crate::{DroppedMessage, HubId, MessageHash, ParseError, RoomName, Seq, serde_as_string};

/// One link: h_0 = SHA-256(hub id, NUL, room), h_n = SHA-256(h_(n-1) || SHA-256(message n as stored)).
/// 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainHash([u8; 32]);

impl ChainHash {
    /// Where the chain of a room begins. `room` as its maker spelled it.
    pub fn start(hub: &HubId, room: &RoomName) -> Self {
        Self(Sha256::digest(format!("{hub}\0{room}")).into())
    }

    /// The link after this one, for the exact bytes of the next message as every read returns it, or of the note that
    /// stands in its place ([`DroppedMessage`]), which names the hash of what was there.
    pub fn next(&self, stored_message: &[u8]) -> Self {
        let of_message = match DroppedMessage::parse(stored_message) {
            Some(note) => note.dropped,
            None => MessageHash::of(stored_message),
        };
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(of_message.as_bytes());
        Self(hash.finalize().into())
    }

    /// The hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The link of these bytes, as stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.0)
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ChainHash {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse_hex(text)
            .map(Self)
            .ok_or_else(|| ParseError::new("chain hash", text, "is not 64 lowercase hexadecimal digits"))
    }
}

serde_as_string!(ChainHash);

/// How far a room's log reaches: the newest message's number and its link of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// The newest message, or 0 in an empty room.
    pub seq: Seq,
    /// The chain at that message.
    pub h: ChainHash,
}

/// The form of the `Parler-Head` response header: `SEQ H`.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.seq, self.h)
    }
}

impl FromStr for Head {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let no = || ParseError::new("head", text, "is not a message number, a blank and a chain hash");
        let (seq, h) = text.split_once(' ').ok_or_else(no)?;
        Ok(Self {
            seq: seq.parse().map_err(|_| no())?,
            h: h.parse().map_err(|_| no())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(messages: &[Vec<u8>]) -> ChainHash {
        let start = ChainHash::start(&HubId::from_bytes([1; 16]), &"Build".parse().unwrap());
        messages.iter().fold(start, |h, message| h.next(message))
    }

    proptest! {
        /// Two logs have one head where they hold the same messages in the same order, whatever of them is no longer kept.
        #[test]
        fn a_head_is_of_one_log_alone(
            log in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 1..8),
            other in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 1..8),
            dropped in prop::collection::vec(any::<bool>(), 8),
            (from, to) in (0..8_usize, 0..8_usize),
        ) {
            let room: RoomName = "Build".parse().unwrap();
            let kept: Vec<Vec<u8>> = log
                .iter()
                .zip(1..)
                .zip(&dropped)
                .map(|((message, seq), dropped)| match dropped {
                    true => DroppedMessage::in_place_of(Seq::new(seq), &room, message).to_bytes(),
                    false => message.clone(),
                })
                .collect();
            prop_assert_eq!(head(&kept), head(&log));
            prop_assert_eq!(head(&other) == head(&log), other == log);
            let mut moved = log.clone();
            moved.swap(from % log.len(), to % log.len());
            prop_assert_eq!(head(&moved) == head(&log), moved == log);
            let mut shorter = log.clone();
            shorter.remove(from % log.len());
            prop_assert_ne!(head(&shorter), head(&log));
        }
    }
}
