//! A message as a room's log holds it.

use std::borrow::Cow;
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use crate::{AgentId, JsonError, MessageId, Part, RoomName, Seq, parse_json};

/// Who sent a message, as the hub noted it then.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct Sender {
    /// The sender's key.
    pub id: AgentId,
    /// Its name at that time. Text from elsewhere: escape it before it reaches a terminal.
    pub name: String,
    /// Its role at that time.
    #[serde(default)]
    pub role: Option<String>,
}

/// One message of a room.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Its number in the room.
    pub seq: Seq,
    /// The id its sender gave it.
    pub id: MessageId,
    /// The room.
    pub room: RoomName,
    /// The sender.
    pub from: Sender,
    /// Its parts.
    pub parts: Vec<Part>,
    /// Names it mentions.
    pub mentions: Vec<String>,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// When the hub stored it, milliseconds since 1970.
    pub ts: i64,
    /// The parts as they came, which is what was signed.
    raw_parts: Vec<Value>,
}

/// Why bytes are no message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// Not JSON that can be signed.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A field is missing or of another type.
    #[error("not a message: {0}")]
    Form(#[from] serde_json::Error),
}

/// A message exactly as stored.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    /// Its number in the room.
    seq: Seq,
    /// The id its sender gave it.
    id: MessageId,
    /// The room, as its maker spelled it.
    room: RoomName,
    /// The sender as its session had it.
    from: Sender,
    /// As they were posted.
    #[schemars(with = "Vec<Part>")]
    parts: Vec<Value>,
    /// Names it mentions.
    #[serde(default)]
    mentions: Vec<String>,
    /// The message it answers.
    #[serde(default)]
    reply_to: Option<MessageId>,
    /// When the hub stored it, milliseconds since 1970.
    ts: i64,
}

impl JsonSchema for Message {
    fn schema_name() -> Cow<'static, str> {
        "Message".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Envelope::json_schema(generator)
    }
}

impl Message {
    /// Reads a message from the exact bytes the hub stores and returns.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut whole = parse_json(bytes)?;
        // Taken out, and not read again: an object whose first key is one of serde_json's own would become another value.
        let parts = whole.get_mut("parts").and_then(Value::as_array_mut);
        let parts = parts.map(std::mem::take);
        let envelope = Envelope::deserialize(whole)?;
        let raw_parts = parts.unwrap_or(envelope.parts);
        Ok(Self {
            seq: envelope.seq,
            id: envelope.id,
            room: envelope.room,
            from: envelope.from,
            parts: raw_parts.iter().map(Part::from_value).collect(),
            mentions: envelope.mentions,
            reply_to: envelope.reply_to,
            ts: envelope.ts,
            raw_parts,
        })
    }

    /// When it was said, milliseconds since 1970: when its author signed it, or when the hub stored it where that was earlier.
    /// So neither a clock that is ahead nor a hub makes what is said for a time hold longer.
    pub fn said_at(&self) -> i64 {
        let signed_at = self.parts.iter().find_map(|part| match part {
            Part::Sig(sig) => Some(sig.ts),
            _ => None,
        });
        signed_at.map_or(self.ts, |signed_at| signed_at.min(self.ts))
    }

    /// The end of what it says for so many seconds, milliseconds since 1970: from then on that holds no longer.
    pub fn until(&self, ttl_secs: NonZeroU32) -> i64 {
        self.said_at().saturating_add(i64::from(ttl_secs.get()) * 1000)
    }

    /// The parts as they came, signature included.
    pub fn raw_parts(&self) -> &[Value] {
        &self.raw_parts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(signed_at: Option<i64>, stored_at: i64) -> Message {
        let agent = crate::AgentKey::from_random([3; 32]).id();
        let sig = signed_at.map(|signed_at| {
            json!({
                "kind": "com.parler.sig", "alg": "ed25519", "sig": "", "v": 1, "uid": "x", "ts": signed_at,
                "target": { "kind": "room", "room": "build" },
            })
        });
        let message = json!({
            "seq": 5, "id": MessageId::generate(), "room": "build", "from": { "id": agent, "name": "alice" },
            "parts": sig.into_iter().collect::<Vec<_>>(), "ts": stored_at,
        });
        Message::parse(message.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_holds_for_a_time_is_counted_from_the_earlier_of_two_clocks() {
        let ttl = NonZeroU32::new(60).unwrap();
        for (signed_at, stored_at, until) in [
            (Some(1_000), 2_000, 61_000),
            (Some(2_000), 1_000, 61_000),
            (None, 1_000, 61_000),
            (Some(i64::MIN), 1_000, i64::MIN + 60_000),
            (Some(i64::MAX), i64::MAX, i64::MAX),
        ] {
            assert_eq!(message(signed_at, stored_at).until(ttl), until);
        }
    }
}
