//! What the log of a service's room says of a job before somebody works on it: whether it was told before, under another
//! number, and whether it has come to its end. An honest hub offers no such job; what the log says is signed. Read on from
//! where it was read before, so that each message is asked for once. Posts nothing.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use parler_client::Client;
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{AgentId, HubId, MessageId, Part, ReadMessage, RoomName, Seq, TaskStatus};

use super::job::Job;
use crate::error::{ErrorKind, Result};
use crate::log_entry::LogEntry;
use crate::room_log::read_page;
use crate::trust::Trust;

/// Most messages that are remembered; beyond that the log is read anew.
const MOST_MESSAGES: usize = 50_000;
/// How many messages an author may be behind to be looked after, where that was not read anyway.
const MOST_BEFORE: u64 = 20 * MAX_PAGE_MESSAGES as u64;

/// Why nobody works on a job that a hub has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It is the same as this message.
    Told(Seq),
    /// It may be the same as one that is not there to be compared.
    Perhaps,
    /// It has come to its end, as this message says.
    Ended(Seq),
    /// The log has another message in its place.
    NotThere,
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not worked on: ")?;
        match self {
            Self::Told(seq) => write!(f, "the hub gives it again, it is the same as message {seq}"),
            Self::Perhaps => {
                f.write_str("the hub may be giving it again, and what was said before is not there to compare")
            }
            Self::Ended(seq) => write!(f, "the hub gives it again, and message {seq} says how it ended"),
            Self::NotThere => f.write_str("the hub's log has another message in its place"),
        }
    }
}

/// What is known of one service's jobs, for all threads of a worker.
pub(crate) struct Past {
    /// To notice where the hub tells another history.
    trust: Arc<Trust>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    log: Log,
    /// Which jobs this worker was given, under which number.
    given: HashMap<Said, Seq>,
}

/// Whose message it is by its own word, and under which id.
type Said = (AgentId, MessageId);

/// A piece of the room's log.
#[derive(Debug, Default)]
struct Log {
    /// Behind the first of these, up to the second.
    read: Option<(Seq, Seq)>,
    /// Where each message stands first.
    places: HashMap<Said, Seq>,
    /// What cannot be compared.
    unknown: BTreeSet<Seq>,
    /// Which jobs have ended, and where that is said first.
    ends: HashMap<MessageId, Seq>,
}

impl Past {
    pub(crate) fn new(trust: Arc<Trust>) -> Self {
        Self {
            trust,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody is to work on this job, and why. Noted as given, where it is not.
    pub(crate) fn look(&self, client: &Client, hub: &HubId, job: &Job) -> Result<Option<Again>> {
        let said = (job.requester.id, job.id);
        let claimed = (&job.entry).says().map(|head| head.seq);
        let seen = claimed.unwrap_or_default();
        let mut state = self.lock();
        if state.log.places.len() + state.given.len() > MOST_MESSAGES {
            *state = State::default();
        }
        // From where it can be hashed, if that is near: other messages than those that were there are noticed as everywhere.
        let certain = self.trust.history(hub, &job.room).newest_until(seen);
        let is_near = seen.get() - certain.get() <= MOST_BEFORE;
        let room = Room {
            trust: &self.trust,
            client,
            hub,
            name: &job.room,
        };
        let again = match state.log.read_on(&room, if is_near { certain } else { seen }) {
            Ok(()) => state.log.again(said, claimed, job.seq()),
            // Its token is to claim and not to read: it knows what it was given itself.
            Err(error) if client.token().is_some() && error.kind == ErrorKind::NotAuthorised => state.log.ended(job.id),
            Err(error) => return Err(error),
        };
        let first = *state.given.entry(said).or_insert(job.seq());
        Ok(again.or_else(|| (first != job.seq()).then_some(Again::Told(first))))
    }

    /// This worker has said so of a job.
    pub(crate) fn note_end(&self, job: &Job, said_in: Seq) {
        self.lock().log.ends.entry(job.id).or_insert(said_in);
    }
}

/// Where jobs are said.
struct Room<'a> {
    trust: &'a Trust,
    client: &'a Client,
    hub: &'a HubId,
    name: &'a RoomName,
}

impl Log {
    /// Reads what there is behind a message, as far as it was not read before.
    fn read_on(&mut self, room: &Room<'_>, after: Seq) -> Result<()> {
        let (from, to) = *self.read.get_or_insert((after, after));
        if after < from && from.get() - after.get() <= MOST_BEFORE {
            self.read_between(room, (after, Some(from)))?;
            self.read = Some((after, to));
        }
        self.read_between(room, (to, None))
    }

    /// Reads up to a message that is known, or to where the log ends when this begins.
    fn read_between(&mut self, room: &Room<'_>, (mut at, known): (Seq, Option<Seq>)) -> Result<()> {
        let mut end = known;
        loop {
            let limit = end.map_or(u64::from(MAX_PAGE_MESSAGES), |end| end.get() - at.get());
            let limit = u32::try_from(limit).unwrap_or(u32::MAX).min(MAX_PAGE_MESSAGES);
            let mut page = read_page(room.client, room.hub, room.name, Some(at), limit)?;
            let me = room.client.identity();
            room.trust.read_on(room.hub, room.name, me, at, &mut page.entries);
            page.entries.iter().for_each(|entry| self.meet(entry));
            let Some(last) = page.entries.last().map(|last| last.seq) else {
                return Ok(());
            };
            at = last;
            if known.is_none()
                && let Some((_, to)) = &mut self.read
            {
                *to = at;
            }
            // Not what comes meanwhile: somebody waits for the job.
            if at >= *end.get_or_insert(page.head.seq) {
                return Ok(());
            }
        }
    }

    fn meet(&mut self, entry: &LogEntry) {
        let Some(message) = entry.unverified() else {
            self.unknown.insert(entry.seq);
            return;
        };
        let place = self.places.entry((message.from.id, message.id)).or_insert(entry.seq);
        *place = (*place).min(entry.seq);
        let ended: Vec<MessageId> = message
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Task(part) if is_end(part.status) => part.about(message.reply_to),
                _ => None,
            })
            .collect();
        // The hub stores no such word but from whoever has the job.
        if !ended.is_empty() && entry.message().is_some_and(|(_, verdict)| verdict.is_valid()) {
            for id in ended {
                self.ends.entry(id).or_insert(entry.seq);
            }
        }
    }

    /// What there is against a job that stands in this place, whose author signed for the log up to there, if it did.
    fn again(&self, said: Said, claimed: Option<Seq>, seq: Seq) -> Option<Again> {
        match self.places.get(&said) {
            Some(first) if *first != seq => return Some(Again::Told(*first)),
            Some(_) => {}
            None => return Some(Again::NotThere),
        }
        let seen = claimed.unwrap_or_default();
        let is_read = self.read.is_some_and(|(from, to)| from <= seen && seq <= to);
        // Who was never there signs for the empty room: of its first job it is enough that nothing that was read is the same.
        let is_first = claimed == Some(Seq::ZERO);
        if !is_first && (!is_read || self.unknown.range(seen.next()..seq).next().is_some()) {
            return Some(Again::Perhaps);
        }
        self.ended(said.1)
    }

    fn ended(&self, job: MessageId) -> Option<Again> {
        self.ends.get(&job).copied().map(Again::Ended)
    }
}

const fn is_end(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Done | TaskStatus::Failed | TaskStatus::Cancelled)
}

#[cfg(test)]
mod tests {
    use parler_protocol::TaskPart;
    use serde_json::json;

    use super::*;
    use crate::log_entry::tests::{entry, handoff, identity};

    fn log(entries: &[LogEntry]) -> Log {
        let mut log = Log::default();
        entries.iter().for_each(|entry| log.meet(entry));
        let last = entries.last().unwrap().seq;
        log.read = Some((Seq::new(entries[0].seq.get() - 1), last));
        log
    }

    fn said(entry: &LogEntry) -> Said {
        let message = entry.unverified().unwrap();
        (message.from.id, message.id)
    }

    fn word(id: MessageId, status: TaskStatus) -> Part {
        TaskPart {
            status,
            task: Some(id.to_string()),
            note: None,
            result: None,
            tokens: None,
            elapsed_ms: None,
        }
        .into()
    }

    #[test]
    fn a_job_is_new_at_the_one_place_where_it_stands() {
        let (alice, carol) = (identity(1, "alice", None), identity(3, "carol", None));
        let job = entry(&alice, 3, vec![handoff(None)], |_| ());
        let (job_said, id) = (said(&job), said(&job).1);
        let again = entry(&alice, 5, vec![handoff(None)], |value| value["id"] = json!(id));
        let others = entry(&carol, 4, vec![handoff(None)], |value| value["id"] = json!(id));
        let log = log(&[job, others, again]);
        assert_eq!(log.again(job_said, Some(Seq::new(2)), Seq::new(3)), None);
        assert_eq!(
            log.again(job_said, Some(Seq::new(2)), Seq::new(5)),
            Some(Again::Told(Seq::new(3)))
        );
        assert_eq!(
            log.again((job_said.0, MessageId::generate()), Some(Seq::new(2)), Seq::new(3)),
            Some(Again::NotThere)
        );
        // What was not read could be anything.
        assert_eq!(
            log.again(job_said, Some(Seq::new(1)), Seq::new(3)),
            Some(Again::Perhaps)
        );
    }

    #[test]
    fn what_cannot_be_compared_is_in_doubt() {
        let alice = identity(1, "alice", None);
        let unreadable = entry(&alice, 2, Vec::new(), |value| value["id"] = json!("?"));
        let job = entry(&alice, 3, vec![handoff(None)], |_| ());
        let job_said = said(&job);
        let log = log(&[unreadable, job]);
        assert_eq!(
            log.again(job_said, Some(Seq::new(1)), Seq::new(3)),
            Some(Again::Perhaps)
        );
        // Before its author looked.
        assert_eq!(log.again(job_said, Some(Seq::new(2)), Seq::new(3)), None);
    }

    /// Its author was never there, so it says nothing of how far back to look.
    #[test]
    fn a_first_job_is_compared_with_what_was_read() {
        let (alice, carol) = (identity(1, "alice", None), identity(3, "carol", None));
        let before = entry(&carol, 5001, vec![handoff(None)], |_| ());
        let job = entry(&alice, 5002, vec![handoff(None)], |_| ());
        let job_said = said(&job);
        let again = entry(&alice, 5003, vec![handoff(None)], |value| {
            value["id"] = json!(job_said.1)
        });
        let log = log(&[before, job, again]);
        assert_eq!(log.again(job_said, Some(Seq::ZERO), Seq::new(5002)), None);
        assert_eq!(
            log.again(job_said, Some(Seq::ZERO), Seq::new(5003)),
            Some(Again::Told(Seq::new(5002)))
        );
        // One that says how far it had looked, or that does not say.
        for claimed in [Some(Seq::new(1)), None] {
            assert_eq!(log.again(job_said, claimed, Seq::new(5002)), Some(Again::Perhaps));
        }
    }

    #[test]
    fn a_job_has_ended_where_that_is_signed() {
        let (alice, bob) = (identity(1, "alice", None), identity(2, "bob", None));
        let job = entry(&alice, 1, vec![handoff(None)], |_| ());
        let (job_said, id) = (said(&job), said(&job).1);
        let forged = entry(&bob, 2, vec![word(id, TaskStatus::Done)], |value| {
            value["from"]["name"] = json!("mallory");
        });
        let working = entry(&bob, 3, vec![word(id, TaskStatus::Working)], |_| ());
        let mut log = log(&[job, forged, working]);
        assert_eq!(log.again(job_said, Some(Seq::ZERO), Seq::new(1)), None);
        for (seq, status) in [(4, TaskStatus::Failed), (5, TaskStatus::Done)] {
            log.meet(&entry(&bob, seq, vec![word(id, status)], |_| ()));
            assert_eq!(
                log.again(job_said, Some(Seq::ZERO), Seq::new(1)),
                Some(Again::Ended(Seq::new(4)))
            );
        }
    }
}
