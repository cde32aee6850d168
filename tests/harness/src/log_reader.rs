//! Reads a whole room and checks what a log must be: numbered without gaps, chained from its first message, and with
//! refs that each change found where the one before left them.

use std::collections::BTreeMap;
use std::time::Instant;

use parler_client::{Client, ReadFrom};
use parler_protocol::{ChainHash, Head, HubId, Message, MessageId, Oid, Part, RefName, RoomName, Seq, verify};

use crate::DEADLINE;

/// A room's whole log, checked.
#[derive(Debug)]
pub struct ReadLog {
    /// Every message, in order.
    pub messages: Vec<Message>,
    /// The refs after the last message.
    pub refs: BTreeMap<RefName, Oid>,
    /// The head that the hub told and that the messages lead to.
    pub head: Head,
}

impl ReadLog {
    /// Where a message is, by the id its sender gave it. It is there once, or not at all.
    #[track_caller]
    pub fn seq_of(&self, id: MessageId) -> Option<Seq> {
        let mut found = self
            .messages
            .iter()
            .filter(|message| message.id == id)
            .map(|message| message.seq);
        let seq = found.next();
        assert_eq!(found.next(), None, "message {id} is there twice");
        seq
    }
}

/// Reads a room from its first message and checks it.
#[track_caller]
pub fn read_log(calls: &Client, hub: &HubId, room: &RoomName) -> ReadLog {
    let mut messages = Vec::new();
    let mut refs = BTreeMap::new();
    let mut chain = ChainHash::start(hub, room);
    let mut after = Seq::default();
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < DEADLINE, "the log has no end: {after}");
        let from = ReadFrom {
            after: Some(after),
            limit: None,
            wait: None,
        };
        let page = calls.messages(room, &from).expect("a room of mine");
        for stored in &page.messages {
            let message = Message::parse(stored.get().as_bytes()).expect("a message");
            assert_eq!(message.seq, after.next(), "a gap, or out of order");
            after = message.seq;
            chain = chain.next(stored.get().as_bytes());
            assert!(
                verify(&message, hub).is_valid(),
                "message {after}: {:?}",
                verify(&message, hub)
            );
            apply(&message, &mut refs);
            messages.push(message);
        }
        if page.messages.is_empty() {
            assert_eq!(
                (page.head.seq, page.head.h),
                (after, chain),
                "the messages do not lead to the head"
            );
            return ReadLog {
                messages,
                refs,
                head: page.head,
            };
        }
    }
}

#[track_caller]
fn apply(message: &Message, refs: &mut BTreeMap<RefName, Oid>) {
    for part in &message.parts {
        let Part::Refs(changes) = part else { continue };
        for update in &changes.updates {
            let name = &update.name;
            assert_eq!(
                refs.get(name),
                update.old.as_ref(),
                "message {}: {name} was elsewhere",
                message.seq
            );
            match update.new {
                Some(new) => refs.insert(name.clone(), new),
                None => refs.remove(name),
            };
        }
    }
}
