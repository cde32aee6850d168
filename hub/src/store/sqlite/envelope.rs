//! A message as it is stored and as every read returns it: one JSON object around the parts as they came. Never parses
//! or rewrites the parts: they are what their author signed.

use parler_protocol::{AgentId, AgentName, MessageId, RoomName, Seq};
use serde::Serialize;

/// Everything of a message but its parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Envelope<'a> {
    pub(super) seq: Seq,
    pub(super) id: MessageId,
    pub(super) room: &'a RoomName,
    pub(super) agent: AgentId,
    pub(super) name: &'a AgentName,
    pub(super) role: Option<&'a AgentName>,
    pub(super) mentions: &'a [String],
    pub(super) reply_to: Option<MessageId>,
    /// Milliseconds since 1970.
    pub(super) ts: i64,
}

/// Room for everything around the parts of an ordinary message.
const USUAL_ENVELOPE_BYTES: usize = 384;

impl Envelope<'_> {
    /// The stored bytes. `parts` is one JSON array.
    pub(super) fn around(&self, parts: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(USUAL_ENVELOPE_BYTES + parts.len());
        field(&mut out, b"{\"seq\":", &self.seq);
        field(&mut out, b",\"id\":", &self.id);
        field(&mut out, b",\"room\":", self.room);
        field(&mut out, b",\"from\":{\"id\":", &self.agent);
        field(&mut out, b",\"name\":", self.name);
        if let Some(role) = self.role {
            field(&mut out, b",\"role\":", role);
        }
        out.extend_from_slice(b"},\"parts\":");
        out.extend_from_slice(parts);
        if !self.mentions.is_empty() {
            field(&mut out, b",\"mentions\":", self.mentions);
        }
        if let Some(reply_to) = &self.reply_to {
            field(&mut out, b",\"replyTo\":", reply_to);
        }
        field(&mut out, b",\"ts\":", &self.ts);
        out.push(b'}');
        out
    }
}

fn field<T: Serialize + ?Sized>(out: &mut Vec<u8>, key: &[u8], value: &T) {
    out.extend_from_slice(key);
    serde_json::to_writer(out, value).expect("numbers, strings and lists of strings always fit a byte vector");
}

#[cfg(test)]
mod tests {
    use parler_protocol::{AgentKey, Message};

    use super::*;

    #[test]
    fn the_parts_stay_byte_for_byte_and_the_rest_is_a_message() {
        let parts = br#"[ {"kind":"text", "text":"\u00e9 \/ 1.0e2"},{"n":1.50}]"#;
        let agent = AgentKey::from_random([1; 32]).id();
        let (room, name, role) = (
            "Build".parse().unwrap(),
            "a \"b\" \\ é".parse().unwrap(),
            "reviewer".parse().unwrap(),
        );
        let full = Envelope {
            seq: Seq::new(7),
            id: MessageId::generate(),
            room: &room,
            agent,
            name: &name,
            role: Some(&role),
            mentions: &["bob".to_owned()],
            reply_to: Some(MessageId::generate()),
            ts: 5,
        };
        let stored = full.around(parts);
        assert!(stored.windows(parts.len()).any(|window| window == parts));
        let message = Message::parse(&stored).unwrap();
        assert_eq!(
            (message.seq, message.id, &message.room, message.ts),
            (full.seq, full.id, &room, 5)
        );
        assert_eq!(
            (message.from.name.as_str(), message.from.role.as_deref()),
            (name.as_str(), Some("reviewer"))
        );
        assert_eq!(
            (message.mentions.as_slice(), message.reply_to),
            (full.mentions, full.reply_to)
        );

        let bare = Envelope {
            role: None,
            mentions: &[],
            reply_to: None,
            ..full
        };
        let text = String::from_utf8(bare.around(b"[]")).unwrap();
        let (id, name) = (full.id, r#"a \"b\" \\ é"#);
        assert_eq!(
            text,
            format!(
                r#"{{"seq":7,"id":"{id}","room":"Build","from":{{"id":"{agent}","name":"{name}"}},"parts":[],"ts":5}}"#
            )
        );
    }
}
