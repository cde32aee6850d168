//! Which messages a hub tells a second time. A signature holds wherever its message is put behind the head that its author
//! knew, so one that was said lies between that head and its repetition: there it is looked for, by its id, among what
//! was read anyway and else with a few requests. Judges nothing else.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{AgentId, HubId, MessageId, ReadMessage, RoomName, Seq};

use crate::context::Context;
use crate::error::Result;
use crate::log_entry::{LogEntry, SaidBefore};
use crate::room_log::read_page;

/// Most pages that are asked for at once, and how many messages an author may be behind to be looked after.
const MOST_PAGES: u64 = 4;
const MOST_MESSAGES: u64 = MOST_PAGES * MAX_PAGE_MESSAGES as u64;

/// The newest messages of one room that were come across.
#[derive(Debug, Default)]
pub(crate) struct Retold {
    /// None: nothing tells what it was.
    known: BTreeMap<Seq, Option<(AgentId, MessageId)>>,
    /// The first place of each.
    places: HashMap<(AgentId, MessageId), Seq>,
}

impl Retold {
    /// Marks which of these consecutive messages were said before. What was not read is asked for where one of the
    /// `acted_on` may be among them; the others are marked by what is known.
    ///
    /// # Errors
    /// When the hub does not give what lies between: then nothing of these is to be shown as new.
    pub(crate) fn mark(
        &mut self,
        context: &Context,
        client: &Client,
        (hub, room): (&HubId, &RoomName),
        entries: &mut [LogEntry],
        acted_on: impl Fn(&LogEntry) -> bool,
    ) -> Result<()> {
        self.meet(entries);
        let mut pages = MOST_PAGES;
        for entry in entries {
            // Most authors knew the message just before their own: nothing can lie between.
            let seen = (&*entry).says().map(|head| head.seq);
            let Some(seen) = seen.filter(|seen| seen.next() < entry.seq) else {
                continue;
            };
            if self.earlier(entry).is_none() {
                if !acted_on(entry) {
                    continue;
                }
                self.read_between(context, client, (hub, room), seen, entry.seq, &mut pages)?;
            }
            entry.said_before = match self.earlier(entry) {
                Some(first) => Some(SaidBefore::In(first)),
                None if self.knows_all(seen, entry.seq) => None,
                None => Some(SaidBefore::Perhaps),
            };
        }
        self.forget_old();
        Ok(())
    }

    fn meet(&mut self, entries: &[LogEntry]) {
        for entry in entries {
            let said = said(entry);
            self.known.insert(entry.seq, said);
            if let Some(said) = said {
                let place = self.places.entry(said).or_insert(entry.seq);
                *place = (*place).min(entry.seq);
            }
        }
    }

    /// Where it was said first, if that is before.
    fn earlier(&self, entry: &LogEntry) -> Option<Seq> {
        let first = self.places.get(&said(entry)?)?;
        (*first < entry.seq).then_some(*first)
    }

    /// Reads what is not known between two messages, as far as it is not too much.
    fn read_between(
        &mut self,
        context: &Context,
        client: &Client,
        (hub, room): (&HubId, &RoomName),
        after: Seq,
        before: Seq,
        pages: &mut u64,
    ) -> Result<()> {
        if before.get() - after.get() > MOST_MESSAGES {
            return Ok(());
        }
        let mut at = after;
        while at.next() < before {
            if self.known.contains_key(&at.next()) {
                at = at.next();
                continue;
            }
            let Some(left) = pages.checked_sub(1) else {
                return Ok(());
            };
            *pages = left;
            let limit = u32::try_from(before.get() - 1 - at.get()).unwrap_or(MAX_PAGE_MESSAGES);
            let mut page = read_page(client, hub, room, Some(at), limit.min(MAX_PAGE_MESSAGES))?;
            let Some(last) = page.entries.last().map(|last| last.seq) else {
                return Ok(());
            };
            // Other messages than those that were there are noticed like everywhere.
            let trust = context.trust();
            trust.read_on(hub, room, client.identity(), at, &mut page.entries);
            self.meet(&page.entries);
            at = last;
        }
        Ok(())
    }

    /// Whether every message between these two is one that could be compared.
    fn knows_all(&self, after: Seq, before: Seq) -> bool {
        let between = self.known.range((Bound::Excluded(after), Bound::Excluded(before)));
        let known = between.filter(|(_, said)| said.is_some()).count() as u64;
        known == before.get() - 1 - after.get()
    }

    fn forget_old(&mut self) {
        while self.known.len() as u64 > MOST_MESSAGES {
            if let Some((seq, Some(said))) = self.known.pop_first()
                && self.places.get(&said) == Some(&seq)
            {
                self.places.remove(&said);
            }
        }
    }
}

/// Whose message it is by its own word, and under which id.
fn said(entry: &LogEntry) -> Option<(AgentId, MessageId)> {
    let message = entry.unverified()?;
    Some((message.from.id, message.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log_entry::tests::{entry, handoff, identity};

    #[test]
    fn a_message_is_the_same_as_an_earlier_one_of_its_author_and_id() {
        let (alice, carol) = (identity(1, "alice", None), identity(3, "carol", None));
        let first = entry(&alice, 5, vec![handoff(None)], |_| ());
        let id = first.unverified().unwrap().id;
        let told_as = |from, seq| entry(from, seq, vec![handoff(None)], |value| value["id"] = json!(id));
        let other = entry(&alice, 6, vec![handoff(None)], |_| ());
        let mut retold = Retold::default();
        retold.meet(&[other, told_as(&alice, 7), told_as(&carol, 8)]);
        assert_eq!(
            retold.earlier(&told_as(&alice, 7)),
            None,
            "the earlier one is not known"
        );
        assert!(!retold.knows_all(Seq::new(4), Seq::new(7)));
        retold.meet(&[first]);
        assert_eq!(retold.earlier(&told_as(&alice, 7)), Some(Seq::new(5)));
        assert_eq!(retold.earlier(&told_as(&alice, 5)), None);
        assert_eq!(retold.earlier(&told_as(&carol, 8)), None);
        assert!(retold.knows_all(Seq::new(4), Seq::new(7)));
        // What cannot be compared could be anything.
        retold.meet(&[entry(&alice, 9, Vec::new(), |value| value["id"] = json!("?"))]);
        assert!(!retold.knows_all(Seq::new(4), Seq::new(10)));
    }

    #[test]
    fn the_newest_are_remembered() {
        let alice = identity(1, "alice", None);
        let mut retold = Retold::default();
        let first = entry(&alice, 1, Vec::new(), |_| ());
        let again = entry(&alice, 2, Vec::new(), |value| {
            value["id"] = json!(first.unverified().unwrap().id)
        });
        retold.meet(&[first]);
        assert!(retold.earlier(&again).is_some());
        for seq in 0..MOST_MESSAGES {
            retold.known.insert(Seq::new(seq + 2), None);
        }
        retold.forget_old();
        assert_eq!(retold.known.len() as u64, MOST_MESSAGES);
        assert!(retold.earlier(&again).is_none() && retold.places.is_empty());
    }
}
