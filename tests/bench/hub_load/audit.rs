//! What the hub acknowledged, read back: each message once, under the number that was answered, with the bytes that were
//! sent, and no number missing.

use std::collections::HashMap;

use parler_protocol::{MessageId, RoomName, paths};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::connection::Connection;

/// A message that was acknowledged.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    pub(crate) id: MessageId,
    pub(crate) seq: u64,
    /// Its parts, as they were sent.
    pub(crate) parts: String,
}

#[derive(Deserialize)]
struct Page<'p> {
    #[serde(borrow)]
    messages: Vec<Stored<'p>>,
}

#[derive(Deserialize)]
struct Stored<'p> {
    seq: u64,
    id: MessageId,
    #[serde(borrow)]
    parts: &'p RawValue,
}

/// What was answered to a message. `last` is the number that the same client had before, in the same room.
#[track_caller]
pub(crate) fn acknowledged(body: &[u8], id: MessageId, last: &mut u64, parts: String) -> Acknowledged {
    #[derive(Deserialize)]
    struct Posted {
        id: MessageId,
        seq: u64,
    }
    let posted: Posted = serde_json::from_slice(body).unwrap();
    assert_eq!(posted.id, id, "an answer to another message");
    assert!(posted.seq > *last, "message {} came after {last}", posted.seq);
    *last = posted.seq;
    Acknowledged {
        id,
        seq: posted.seq,
        parts,
    }
}

/// Reads a room and asserts that these messages are in it, and no others.
#[track_caller]
pub(crate) fn audit(connection: &mut Connection, room: &RoomName, sent: &[Acknowledged]) {
    let mut missing: HashMap<_, _> = sent.iter().map(|message| (message.id, message)).collect();
    let mut after = 0;
    loop {
        let path = format!("{}?after={after}&limit=1000", paths::messages(room));
        let body = connection.get(&path).expect(200);
        let page: Page<'_> = serde_json::from_slice(&body).unwrap();
        for stored in &page.messages {
            after += 1;
            assert_eq!(stored.seq, after, "{room}: a gap, or out of order");
            let sent = missing.remove(&stored.id);
            let sent = sent.unwrap_or_else(|| panic!("{room}: message {after} is there twice, or was never sent"));
            assert_eq!(sent.seq, after, "{room}: not where the answer said");
            assert_eq!(
                sent.parts,
                stored.parts.get(),
                "{room}: message {after} has other bytes"
            );
        }
        if page.messages.is_empty() {
            assert!(
                missing.is_empty(),
                "{room}: {} acknowledged messages are lost",
                missing.len()
            );
            return;
        }
    }
}
