//! What became of the handoffs of a room, folded from its messages in their order: which takes the place of which, and
//! what those they are for say of them. Asks nobody and shows nothing. A log that is read from its middle on gives what is
//! said of the handoffs in it; receipts of earlier ones are passed over.

mod handoff;

use std::collections::{BTreeMap, HashMap, HashSet};

use parler_protocol::{
    AgentId, AgentName, BundleId, HandoffPart, Message, MessageId, Part, RefName, Sender, Seq, TaskPart, TaskStatus,
};

pub(crate) use handoff::{Handoff, Receipt};

use crate::log_entry::LogEntry;
use crate::time::{end_of, is_over};

/// The handoffs of a room, or of a piece of its log.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    handoffs: BTreeMap<Seq, Handoff>,
    numbers: HashMap<MessageId, Seq>,
    /// The messages that were folded: one that the hub tells again says nothing new.
    folded: HashSet<MessageId>,
    /// The newest handoff with which an author moved a ref.
    moved: HashMap<(AgentId, RefName), Seq>,
}

impl Ledger {
    /// Folds consecutive entries, whose authors' standing is known ([`crate::trust::Trust::read_on`]).
    pub(crate) fn of<'e>(entries: impl IntoIterator<Item = &'e LogEntry>) -> Self {
        let mut ledger = Self::default();
        entries.into_iter().for_each(|entry| ledger.add(entry));
        ledger
    }

    /// Folds the next entry. Only what is signed for this room counts.
    pub(crate) fn add(&mut self, entry: &LogEntry) {
        // Most of a long log says nothing of handoffs, and needs no verified signature for that.
        let is_about = |part: &Part| matches!(part, Part::Handoff(_) | Part::Task(_));
        if !entry
            .unverified()
            .is_some_and(|message| message.parts.iter().any(is_about))
        {
            return;
        }
        let Some((message, _)) = entry.message().filter(|(_, verdict)| verdict.is_valid()) else {
            return;
        };
        if entry.said_before.is_some() || !self.folded.insert(message.id) {
            return;
        }
        let leads = entry.standing().leads();
        for part in &message.parts {
            if let Part::Task(part) = part {
                self.receive(message, part, leads, entry.is_role_anothers);
            }
        }
        self.hand_over(message, leads, entry.read_at);
    }

    /// It is this moment by now, milliseconds since 1970: what was to hold for a time may hold no longer.
    pub(crate) fn set_time(&mut self, now: i64) {
        for handoff in self.handoffs.values_mut() {
            handoff.is_over = is_over(handoff.until, now);
        }
    }

    fn receive(&mut self, message: &Message, part: &TaskPart, leads: bool, is_role_anothers: bool) {
        let task = part.task.as_ref().and_then(|task| task.parse().ok());
        let Some(handoff) = task.and_then(|task: MessageId| self.by_id_mut(&task)) else {
            return;
        };
        let calls_off = part.status == TaskStatus::Cancelled;
        let role = message.from.role.as_ref().filter(|_| !is_role_anothers);
        let known = Sender {
            role: role.cloned(),
            ..message.from.clone()
        };
        let counts = if calls_off {
            message.from.id == handoff.from.id
        } else {
            leads && handoff.is_for_sender(&known)
        };
        handoff.receipts.push(Receipt {
            seq: message.seq,
            id: message.id,
            from: message.from.clone(),
            ts: message.ts,
            part: part.clone(),
            counts,
        });
    }

    fn hand_over(&mut self, message: &Message, leads: bool, now: i64) {
        let parts: Vec<&HandoffPart> = message
            .parts
            .iter()
            .filter_map(|part| {
                if let Part::Handoff(part) = part {
                    Some(part)
                } else {
                    None
                }
            })
            .collect();
        let Some(first) = parts.first() else { return };
        let (seq, author) = (message.seq, message.from.id);
        for revised in parts.iter().filter_map(|part| part.revises) {
            self.supersede(revised, seq, &author);
        }
        let refs = message.parts.iter().filter_map(|part| match part {
            Part::Refs(refs) => Some(&refs.updates),
            _ => None,
        });
        for update in refs.flatten() {
            let before = self.moved.insert((author, update.name.clone()), seq);
            // What has come to its end is history: the next push of the branch is the next task.
            let going_on = before.filter(|before| {
                let newest = self.newest(*before);
                self.handoffs.get(&newest).is_some_and(Handoff::is_open)
            });
            if let Some(before) = going_on {
                self.supersede(before, seq, &author);
            }
        }
        // As long as any of them leads.
        let ttls: Option<Vec<_>> = parts.iter().map(|part| part.ttl_secs).collect();
        let until = end_of(message, ttls.and_then(|ttls| ttls.into_iter().max()));
        let handoff = Handoff {
            seq,
            id: message.id,
            from: message.from.clone(),
            ts: message.ts,
            part: (*first).clone(),
            leads,
            receipts: Vec::new(),
            superseded_by: None,
            until,
            is_over: is_over(until, now),
            to: parts.iter().map(|part| part.to.clone()).collect(),
        };
        self.numbers.insert(message.id, seq);
        self.handoffs.insert(seq, handoff);
    }

    /// The newest in the place of `earlier` gives way to `by`, if it is of the same author.
    fn supersede(&mut self, earlier: Seq, by: Seq, author: &AgentId) {
        let newest = self.newest(earlier);
        if let Some(handoff) = self.handoffs.get_mut(&newest)
            && handoff.from.id == *author
            && handoff.seq < by
        {
            handoff.superseded_by = Some(by);
        }
    }

    /// These are in the room, under these names. Whose role is the name of another one speaks for nobody by it: who has
    /// said nothing yet is not known from the log.
    pub(crate) fn meet<'m>(&mut self, members: impl Iterator<Item = (&'m AgentId, &'m AgentName)> + Clone) {
        for handoff in self.handoffs.values_mut() {
            let mut receipts = std::mem::take(&mut handoff.receipts);
            for receipt in receipts.iter_mut().filter(|receipt| receipt.counts) {
                let Some(role) = receipt.from.role.as_deref() else {
                    continue;
                };
                let is_anothers = |(id, name): (&AgentId, &AgentName)| *id != receipt.from.id && name.is_called(role);
                if receipt.part.status != TaskStatus::Cancelled && members.clone().any(is_anothers) {
                    let by_name = Sender {
                        role: None,
                        ..receipt.from.clone()
                    };
                    receipt.counts = handoff.is_for_sender(&by_name);
                }
            }
            handoff.receipts = receipts;
        }
    }

    /// The handoff of this number.
    pub(crate) fn handoff(&self, seq: Seq) -> Option<&Handoff> {
        self.handoffs.get(&seq)
    }

    fn by_id_mut(&mut self, id: &MessageId) -> Option<&mut Handoff> {
        self.handoffs.get_mut(self.numbers.get(id)?)
    }

    /// The handoff in whose place no other is, for this one: itself, or the newest revision of it.
    pub(crate) fn newest(&self, seq: Seq) -> Seq {
        let mut newest = seq;
        // Each is later than the one before: this ends.
        while let Some(later) = self.handoffs.get(&newest).and_then(|handoff| handoff.superseded_by) {
            newest = later;
        }
        newest
    }

    /// Those in whose place this one is, oldest first.
    pub(crate) fn earlier(&self, seq: Seq) -> Vec<Seq> {
        let before = self.handoffs.range(..seq).map(|(number, _)| *number);
        before.filter(|number| self.newest(*number) == seq).collect()
    }

    /// All of them, in the log's order.
    pub(crate) fn handoffs(&self) -> impl DoubleEndedIterator<Item = &Handoff> {
        self.handoffs.values()
    }

    /// Those of which something is expected, in the log's order.
    pub(crate) fn open(&self) -> impl DoubleEndedIterator<Item = &Handoff> {
        self.handoffs().filter(|handoff| handoff.is_open())
    }

    /// Those that are about this bundle.
    pub(crate) fn about(&self, bundle: &BundleId) -> Vec<&Handoff> {
        let is_about = |handoff: &&Handoff| handoff.part.bundle.as_ref() == Some(bundle);
        self.handoffs().filter(is_about).collect()
    }
}

#[cfg(test)]
mod tests {
    use parler_client::Identity;
    use parler_protocol::{ObjectFormat, ReadMessage, RefUpdate, RefsPart};
    use serde_json::json;

    use super::handoff::State;
    use super::*;
    use crate::log_entry::tests::{entry, identity};
    use crate::names::Standing;

    struct Room {
        alice: Identity,
        bob: Identity,
        carol: Identity,
        log: Vec<LogEntry>,
    }

    impl Room {
        fn new() -> Self {
            Self {
                alice: identity(1, "alice", Some("planner")),
                bob: identity(2, "Bob", Some("Reviewer")),
                carol: identity(3, "carol", Some("reviewer")),
                log: Vec::new(),
            }
        }

        fn who(&self, name: &str) -> &Identity {
            match name {
                "alice" => &self.alice,
                "bob" => &self.bob,
                _ => &self.carol,
            }
        }

        fn post(&mut self, from: &str, parts: Vec<Part>) -> Seq {
            let number = self.log.len() as u64 + 1;
            let entry = entry(self.who(from), number, parts, |_| ());
            self.log.push(entry);
            Seq::new(number)
        }

        fn hand_over(&mut self, from: &str, to: Option<&str>, revises: Option<u64>, branch: Option<&str>) -> Seq {
            let part = HandoffPart {
                next: "look".into(),
                to: to.map(str::to_owned),
                revises: revises.map(Seq::new),
                ..HandoffPart::default()
            };
            let refs = branch.map(|branch| {
                RefsPart {
                    updates: vec![RefUpdate {
                        name: format!("refs/heads/{branch}").parse().unwrap(),
                        old: None,
                        new: Some("a".repeat(40).parse().unwrap()),
                        forced: false,
                        peeled: None,
                    }],
                    atomic: false,
                    object_format: ObjectFormat::Sha1,
                    head: None,
                    base_hint: None,
                }
                .into()
            });
            self.post(from, refs.into_iter().chain([part.into()]).collect())
        }

        fn answer(&mut self, from: &str, of: Seq, status: TaskStatus) -> Seq {
            let index = usize::try_from(of.get()).unwrap() - 1;
            let id = self.log[index].message().unwrap().0.id;
            let part = TaskPart {
                status,
                task: Some(id.to_string()),
                note: None,
                result: None,
                tokens: None,
                elapsed_ms: None,
            };
            self.post(from, vec![part.into()])
        }

        fn ledger(&self) -> Ledger {
            Ledger::of(&self.log)
        }

        fn state(&self, seq: Seq) -> &'static str {
            self.ledger().handoff(seq).unwrap().state().word()
        }
    }

    use TaskStatus::{Accepted, Cancelled, Declined, Done, Failed, Working};

    #[test]
    fn a_handoff_goes_from_open_to_its_end_and_may_be_reopened() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, None);
        assert_eq!(room.state(one), "open");
        for (status, word, open) in [
            (Accepted, "accepted", true),
            (Working, "working", true),
            (Done, "done", false),
            (Accepted, "accepted", true),
            (Failed, "failed", false),
            (Accepted, "accepted", true),
            (Declined, "declined", false),
        ] {
            let receipt = room.answer("bob", one, status);
            let ledger = room.ledger();
            let handoff = ledger.handoff(one).unwrap();
            assert_eq!((handoff.state().word(), handoff.is_open()), (word, open));
            assert_eq!(handoff.holder().unwrap().seq, receipt);
            assert_eq!(ledger.open().count(), usize::from(open));
            assert!(!handoff.is_contested());
        }
        assert_eq!(room.ledger().handoff(one).unwrap().receipts.len(), 7);
    }

    #[test]
    fn only_those_it_is_for_answer_it_and_others_are_shown() {
        let mut room = Room::new();
        for (to, bob, carol) in [
            (Some("bob"), true, false),
            (Some("reviewer"), true, true),
            (Some("planner"), false, false),
            (None, true, true),
        ] {
            let handoff = room.hand_over("alice", to, None, None);
            for (who, may) in [("bob", bob), ("carol", carol), ("alice", false)] {
                room.answer(who, handoff, Accepted);
                let ledger = room.ledger();
                let receipt = ledger.handoff(handoff).unwrap().receipts.last().unwrap().clone();
                assert_eq!(receipt.counts, may, "{to:?} {who}");
                assert_eq!(receipt.from.name, room.who(who).name.as_str());
            }
            let expected = if bob || carol { "accepted" } else { "open" };
            assert_eq!(room.state(handoff), expected, "{to:?}");
        }
    }

    #[test]
    fn a_decline_is_for_its_author_alone_and_differences_are_told() {
        let mut room = Room::new();
        let one = room.hand_over("alice", None, None, None);
        room.answer("bob", one, Declined);
        assert_eq!(room.state(one), "declined");
        room.answer("carol", one, Accepted);
        assert_eq!(room.state(one), "accepted");
        room.answer("bob", one, Declined);
        assert_eq!(room.state(one), "accepted", "it is carol who has it");
        assert!(room.ledger().handoff(one).unwrap().is_contested());
        room.answer("carol", one, Declined);
        assert_eq!(room.state(one), "declined");
        assert!(!room.ledger().handoff(one).unwrap().is_contested());
    }

    #[test]
    fn a_role_of_the_name_it_is_for_settles_nothing_for_who_has_the_name() {
        let mut room = Room::new();
        room.carol.role = Some("BOB".parse().unwrap());
        let one = room.hand_over("alice", Some("bob"), None, None);
        let for_anybody = room.hand_over("alice", None, None, None);
        let open_for_bob = |room: &Room, seq| room.ledger().handoff(seq).unwrap().is_open_for(&room.bob);
        for handoff in [one, for_anybody] {
            assert!(open_for_bob(&room, handoff));
            room.answer("carol", handoff, Done);
        }
        assert!(open_for_bob(&room, one));
        assert!(!open_for_bob(&room, for_anybody));
        room.answer("bob", one, Done);
        assert!(!open_for_bob(&room, one));
        room.answer("carol", one, Accepted);
        assert!(!open_for_bob(&room, one));
        let two = room.hand_over("alice", Some("bob"), None, None);
        room.answer("alice", two, Cancelled);
        assert!(!open_for_bob(&room, two));
    }

    #[test]
    fn its_author_may_call_it_off_and_nobody_else() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, None);
        room.answer("bob", one, Cancelled);
        assert_eq!(room.state(one), "open");
        room.answer("bob", one, Accepted);
        room.answer("alice", one, Cancelled);
        assert_eq!(room.state(one), "cancelled");
        room.answer("bob", one, Done);
        assert_eq!(room.state(one), "cancelled");
        assert!(room.ledger().handoff(one).unwrap().is_contested());
    }

    #[test]
    fn revisions_collapse_to_the_newest() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, Some("feature"));
        let two = room.hand_over("alice", Some("bob"), None, Some("feature"));
        let other = room.hand_over("alice", Some("bob"), None, Some("other"));
        // Says the first and means what is in its place by now.
        let three = room.hand_over("alice", Some("carol"), Some(1), None);
        let ledger = room.ledger();
        assert_eq!(ledger.newest(one), three);
        assert_eq!(ledger.newest(two), three);
        assert_eq!(ledger.newest(other), other);
        assert_eq!(ledger.earlier(three), [one, two]);
        assert_eq!(ledger.earlier(other), []);
        assert_eq!(ledger.handoff(one).unwrap().superseded_by, Some(two));
        let open: Vec<_> = ledger.open().map(|handoff| handoff.seq).collect();
        assert_eq!(open, [other, three]);
    }

    #[test]
    fn nobody_supersedes_anothers_and_nothing_what_is_not_there() {
        let mut room = Room::new();
        let alices = room.hand_over("alice", None, None, Some("feature"));
        let bobs = room.hand_over("bob", None, Some(1), Some("feature"));
        let text = room.post("alice", vec![parler_protocol::TextPart { text: "x".into() }.into()]);
        let odd = room.hand_over("alice", None, Some(text.get()), None);
        room.hand_over("alice", None, Some(99), None);
        let own = room.log.len() as u64 + 1;
        let itself = room.hand_over("alice", None, Some(own), None);
        let ledger = room.ledger();
        assert!(ledger.handoffs().all(|handoff| handoff.superseded_by.is_none()));
        assert_eq!(ledger.newest(alices), alices);
        assert_eq!(ledger.newest(itself), itself);
        assert_eq!((ledger.earlier(bobs), ledger.earlier(odd)), (vec![], vec![]));
    }

    #[test]
    fn what_nobody_took_in_time_is_expired_and_what_somebody_took_goes_on() {
        const SAID: i64 = 1_796_000_000_000;
        let mut room = Room::new();
        let hand_over = |room: &mut Room| {
            let part = HandoffPart {
                next: "look".into(),
                to: Some("reviewer".into()),
                ttl_secs: std::num::NonZeroU32::new(60),
                ..HandoffPart::default()
            };
            room.post("alice", vec![part.into()])
        };
        let (one, two) = (hand_over(&mut room), hand_over(&mut room));
        room.answer("bob", one, Accepted);
        for entry in &mut room.log {
            entry.read_at = SAID;
        }
        let mut ledger = room.ledger();
        let words = |ledger: &Ledger| [one, two].map(|seq| ledger.handoff(seq).unwrap().state().word());
        let leads = |ledger: &Ledger| [one, two].map(|seq| ledger.handoff(seq).unwrap().awaits(&room.carol));
        assert_eq!((words(&ledger), leads(&ledger)), (["accepted", "open"], [false, true]));
        ledger.set_time(SAID + 60_000);
        assert_eq!(
            (words(&ledger), leads(&ledger)),
            (["accepted", "expired"], [false, false])
        );
        assert_eq!(ledger.open().map(|handoff| handoff.seq).collect::<Vec<_>>(), [one]);
        assert!(ledger.handoff(one).unwrap().is_open_for(&room.bob));
        assert!(!ledger.handoff(two).unwrap().is_open_for(&room.bob));
        // Who comes too late may say so all the same.
        room.answer("carol", two, Done);
        room.log.iter_mut().for_each(|entry| entry.read_at = SAID + 3_600_000);
        assert_eq!(words(&room.ledger()), ["accepted", "done"]);
    }

    #[test]
    fn what_has_come_to_its_end_is_not_revised_by_the_next_push() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, Some("feature"));
        room.answer("bob", one, Done);
        let two = room.hand_over("alice", Some("bob"), None, Some("feature"));
        assert_eq!(room.ledger().newest(one), one);
        assert_eq!(room.state(one), "done");
        // Unless its author says so.
        room.answer("bob", two, Declined);
        let three = room.hand_over("alice", Some("bob"), Some(two.get()), None);
        assert_eq!(room.ledger().newest(two), three);
    }

    #[test]
    fn what_is_not_signed_or_not_known_counts_for_nothing() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, None);
        let index = room.log.len();
        room.answer("bob", one, Done);
        let unsigned: serde_json::Value = serde_json::from_slice((&room.log[index]).bytes()).unwrap();
        let task = unsigned["parts"][0]["task"].as_str().unwrap().to_owned();
        let part = |task: Option<String>| -> Vec<Part> {
            vec![
                TaskPart {
                    status: Done,
                    task,
                    note: None,
                    result: None,
                    tokens: None,
                    elapsed_ms: None,
                }
                .into(),
            ]
        };
        room.log[index] = entry(&room.bob, 2, part(Some(task.clone())), |value| {
            value["parts"].as_array_mut().unwrap().truncate(1);
        });
        assert_eq!(room.state(one), "open");
        // A receipt that names another task, or none.
        for task in [None, Some("42".into()), Some(MessageId::generate().to_string())] {
            room.post("bob", part(task));
        }
        // A new key under a known name.
        room.answer("bob", one, Accepted);
        room.log
            .last_mut()
            .unwrap()
            .set_standing(Standing::NewKey { of: "bob".into() });
        let ledger = room.ledger();
        let handoff = ledger.handoff(one).unwrap();
        assert_eq!((handoff.state(), handoff.receipts.len()), (State::Open, 1));
        // Moved to another message, its signature no longer holds.
        let moved = entry(&room.bob, 9, part(Some(task)), |value| {
            value["parts"][0]["task"] = json!(one)
        });
        room.log.push(moved);
        assert_eq!(room.state(one), "open");
    }

    #[test]
    fn what_the_hub_tells_again_changes_no_handoff() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, None);
        room.answer("bob", one, Accepted);
        let declined = room.answer("bob", one, Declined);
        room.answer("bob", one, Accepted);
        for seq in [one, declined] {
            let index = usize::try_from(seq.get()).unwrap() - 1;
            let mut again: serde_json::Value = serde_json::from_slice((&room.log[index]).bytes()).unwrap();
            again["seq"] = json!(room.log.len() + 1);
            let author = if seq == one { &room.alice } else { &room.bob };
            let entry = entry(author, room.log.len() as u64 + 1, Vec::new(), |value| *value = again);
            assert!(entry.message().is_some_and(|(_, verdict)| verdict.is_valid()));
            room.log.push(entry);
        }
        assert_eq!(room.state(one), "accepted");
        assert_eq!(room.ledger().handoffs().count(), 1);
    }

    #[test]
    fn a_log_read_from_its_middle_tells_of_what_is_in_it() {
        let mut room = Room::new();
        let one = room.hand_over("alice", Some("bob"), None, Some("feature"));
        room.answer("bob", one, Done);
        let two = room.hand_over("alice", Some("bob"), Some(1), Some("feature"));
        room.answer("bob", two, Accepted);
        let ledger = Ledger::of(&room.log[1..]);
        assert!(ledger.handoff(one).is_none());
        let handoff = ledger.handoff(two).unwrap();
        assert_eq!(handoff.state().word(), "accepted");
        assert!(handoff.is_for(&room.bob) && !handoff.is_for(&room.alice) && handoff.is_by(&room.alice));
    }
}
