//! Which handoffs and jobs the receipts of a log are about: their numbers and authors, for whoever reads a receipt by itself. What
//! is not in the messages at hand is looked for in those just before them, and no further. Judges no receipt.

use std::collections::{HashMap, HashSet};

use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{HubId, MessageId, Part, RoomName, Seq};

use crate::log_entry::{Answered, LogEntry};
use crate::room_log::read_page;

/// How far before what is shown a handoff is looked for: a page.
const EARLIER_MESSAGES: u64 = MAX_PAGE_MESSAGES as u64;

/// The handoffs that were come across in one room.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    known: HashMap<MessageId, Answered>,
    /// What was looked for in vain.
    missed: HashSet<MessageId>,
}

impl Answers {
    /// Notes in each of these consecutive messages which handoffs it answers.
    pub(crate) fn name(&mut self, client: &Client, hub: &HubId, room: &RoomName, entries: &mut [LogEntry]) {
        let wanted: HashSet<_> = entries.iter().flat_map(tasks).collect();
        let Some(first) = entries.iter().map(|entry| entry.seq).min() else {
            return;
        };
        self.meet(entries, is_answerable);
        let missing: HashSet<_> = wanted
            .iter()
            .filter(|id| !self.known.contains_key(id) && !self.missed.contains(id))
            .copied()
            .collect();
        if !missing.is_empty() {
            self.look_before(client, hub, room, first, &missing);
            let found = missing.into_iter().filter(|id| !self.known.contains_key(id));
            self.missed.extend(found);
        }
        for entry in entries {
            entry.answered = tasks(entry).filter_map(|id| self.known.get(&id).cloned()).collect();
        }
    }

    /// Nothing depends on it: where the hub does not answer the handoffs stay unnamed.
    fn look_before(&mut self, client: &Client, hub: &HubId, room: &RoomName, first: Seq, wanted: &HashSet<MessageId>) {
        let mut at = Seq::new(first.get().saturating_sub(1 + EARLIER_MESSAGES));
        while at.next() < first {
            let limit = u32::try_from(first.get() - 1 - at.get()).unwrap_or(MAX_PAGE_MESSAGES);
            let Ok(page) = read_page(client, hub, room, Some(at), limit) else {
                return;
            };
            let Some(last) = page.entries.last() else { return };
            at = last.seq;
            let is_wanted = |entry: &LogEntry| entry.unverified().is_some_and(|message| wanted.contains(&message.id));
            self.meet(&page.entries, |entry| is_wanted(entry) && is_answerable(entry));
        }
    }

    fn meet(&mut self, entries: &[LogEntry], is_one: impl Fn(&LogEntry) -> bool) {
        for entry in entries.iter().filter(|entry| is_one(entry)) {
            let Some((message, _)) = entry.message().filter(|(_, verdict)| verdict.is_valid()) else {
                continue;
            };
            let answered = Answered {
                id: message.id,
                seq: message.seq,
                from: message.from.clone(),
                is_job: message.parts.iter().any(|part| matches!(part, Part::Dispatch(_))),
            };
            self.known.entry(message.id).or_insert(answered);
        }
    }
}

fn is_answerable(entry: &LogEntry) -> bool {
    let is_one = |part: &Part| matches!(part, Part::Handoff(_) | Part::Dispatch(_));
    entry
        .unverified()
        .is_some_and(|message| message.parts.iter().any(is_one))
}

/// What a message says to be about.
fn tasks(entry: &LogEntry) -> impl Iterator<Item = MessageId> + use<'_> {
    let parts = entry.unverified().map(|message| message.parts.as_slice());
    parts.unwrap_or_default().iter().filter_map(|part| match part {
        Part::Task(part) => part.task.as_ref()?.parse().ok(),
        _ => None,
    })
}
