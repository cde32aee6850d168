//! What a hook says to the coding agent that called it, if anything: decided from what is unread, the moment, and what was
//! told before. Asks no hub, reads no file and prints nothing; the edge is `commands/hook.rs`.

pub(crate) mod edit;
pub(crate) mod host;
pub(crate) mod install;
pub(crate) mod memory;
pub(crate) mod spool;
mod words;

use git_remote_parler::repository::Repository;
use parler_client::Identity;
use parler_protocol::{HandoffPart, Message, Part};

use crate::bundles::BundleView;
use crate::log_entry::LogEntry;
use host::{Event, Moment};
use memory::Memory;

/// Most text that is put into a conversation, in units of UTF-16, as hosts count: they cut at 10,000 and more.
pub(crate) const MOST_CHARS: usize = 9_000;
/// How many turns hooks make in an hour, where `parler.hook.maxPerHour` says nothing.
pub(crate) const TURNS_PER_HOUR: u32 = 20;

/// A handoff that waits for this agent.
#[derive(Debug, Clone)]
pub(crate) struct Lead {
    pub(crate) message: Message,
    handoff: HandoffPart,
    /// What it brings.
    bundle: Option<BundleView>,
}

impl Lead {
    /// The handoff in an entry, if it is one that leads this agent.
    pub(crate) fn of(entry: &LogEntry, me: &Identity, repository: Option<&Repository>) -> Option<Self> {
        let (message, handoff) = entry.handoff_to(me)?;
        let bundle = message.parts.iter().find_map(|part| match part {
            Part::Bundle(bundle) if Some(bundle.blob) == handoff.bundle => Some(BundleView::of(bundle, repository)),
            _ => None,
        });
        Some(Self {
            message: message.clone(),
            handoff: handoff.clone(),
            bundle,
        })
    }
}

/// What waits for an agent on a hub.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waiting {
    /// The handoffs to it of which nothing was said yet, newest first.
    pub(crate) leads: Vec<Lead>,
    /// How many messages of others are above its cursors, and in how many rooms; none where the hub did not say.
    pub(crate) unread: Option<(u64, usize)>,
    /// Handoffs that are known and could not be read: what their authors said was too long to keep.
    pub(crate) unreadable: usize,
}

/// When and how much hooks may say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// When the hook was called, milliseconds since 1970.
    pub(crate) called_at: i64,
    /// Now, milliseconds since 1970.
    pub(crate) now: i64,
    /// How many turns hooks may make in an hour.
    pub(crate) turns_per_hour: u32,
}

/// What to put into the conversation, if anything; noted in the memory as told.
pub(crate) fn offer(
    memory: &mut Memory,
    event: &Event,
    waiting: &Waiting,
    me: &Identity,
    rules: Rules,
) -> Option<String> {
    let is_end = matches!(event.moment, Moment::TurnEnd | Moment::TurnOver);
    if is_end && event.is_complete {
        memory.turn_ended(event.session.as_deref(), rules.called_at);
    }
    let makes_a_turn = matches!(event.moment, Moment::TurnEnd | Moment::Wait);
    let is_held_back = makes_a_turn
        && (is_end && event.is_continued
            || !event.is_complete
            || !memory.may_make_a_turn(rules.now, rules.turns_per_hour));
    if event.moment == Moment::TurnOver || is_held_back {
        return None;
    }
    let due: Vec<_> = waiting
        .leads
        .iter()
        .filter(|lead| memory.is_due(&lead.message.id, event))
        .collect();
    if due.is_empty() {
        return None;
    }
    let (text, told) = words::compose(&due, waiting, me);
    if event.is_heard {
        let ids = due.iter().take(told).map(|lead| &lead.message.id);
        memory.tell(ids, event.session.as_deref(), rules.now, makes_a_turn);
    }
    Some(text)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::log_entry::tests::{entry, identity};

    pub(crate) fn lead(number: u64, next: &str) -> Lead {
        let (alice, bob) = (identity(1, "alice", Some("planner")), identity(2, "bob", None));
        let part = HandoffPart {
            next: next.into(),
            summary: Some("tests are green".into()),
            to: Some("bob".into()),
            ..HandoffPart::default()
        };
        Lead::of(&entry(&alice, number, vec![part.into()], |_| ()), &bob, None).unwrap()
    }

    fn waiting(leads: Vec<Lead>) -> Waiting {
        Waiting {
            leads,
            ..Waiting::default()
        }
    }

    fn rules(now: i64) -> Rules {
        Rules {
            called_at: now,
            now,
            turns_per_hour: 2,
        }
    }

    fn at(moment: Moment, session: &str) -> Event {
        Event {
            session: Some(session.to_owned()),
            ..Event::at(moment)
        }
    }

    struct Agent {
        memory: Memory,
        now: i64,
    }

    impl Agent {
        fn new() -> Self {
            Self {
                memory: Memory::default(),
                now: 1_796_000_000_000,
            }
        }

        /// Whether the hook says something.
        fn says(&mut self, event: &Event, leads: &[&Lead]) -> bool {
            self.now += 1000;
            let waiting = waiting(leads.iter().copied().cloned().collect());
            let me = identity(2, "bob", None);
            offer(&mut self.memory, event, &waiting, &me, rules(self.now)).is_some()
        }
    }

    use Moment::{Prompt, SessionStart, TurnEnd, TurnOver, Wait};

    #[test]
    fn a_handoff_is_told_until_a_turn_had_it() {
        let (mut agent, one) = (Agent::new(), lead(7, "look"));
        assert!(!agent.says(&at(SessionStart, "s"), &[]));
        assert!(agent.says(&at(Prompt, "s"), &[&one]));
        assert!(!agent.says(&at(Prompt, "s"), &[&one]), "it is in the conversation");
        // The host ended without a word, and the conversation is taken up again, or another one begins.
        assert!(agent.says(&at(SessionStart, "s"), &[&one]));
        assert!(agent.says(&at(Prompt, "t"), &[&one]));
        assert!(!agent.says(&at(TurnEnd, "t"), &[&one]), "and now a turn had it");
        assert!(!agent.says(&at(SessionStart, "t"), &[&one]));
        assert!(!agent.says(&at(Prompt, "u"), &[&one]));
    }

    #[test]
    fn a_turn_that_was_broken_off_proves_nothing() {
        let (mut agent, one) = (Agent::new(), lead(7, "look"));
        assert!(agent.says(&at(SessionStart, "s"), &[&one]));
        let broken = Event {
            is_complete: false,
            ..at(TurnEnd, "s")
        };
        assert!(!agent.says(&broken, &[&one, &lead(8, "more")]));
        assert!(agent.says(&at(SessionStart, "s"), &[&one]));
        // Of another conversation.
        assert!(!agent.says(&at(TurnOver, "t"), &[&one]));
        assert!(agent.says(&at(SessionStart, "s"), &[&one]));
        assert!(!agent.says(&at(TurnOver, "s"), &[&one]));
        assert!(!agent.says(&at(SessionStart, "s"), &[&one]));
    }

    #[test]
    fn a_message_makes_one_turn_and_an_hour_has_so_many() {
        let mut agent = Agent::new();
        let (one, two, three) = (lead(7, "one"), lead(8, "two"), lead(9, "three"));
        assert!(agent.says(&at(TurnEnd, "s"), &[&one]));
        assert!(!agent.says(&at(Wait, "s"), &[&one]));
        assert!(!agent.says(&at(TurnEnd, "s"), &[&one]));
        let continued = Event {
            is_continued: true,
            ..at(TurnEnd, "s")
        };
        assert!(!agent.says(&continued, &[&two, &one]), "the host has enough");
        assert!(agent.says(&at(Wait, "s"), &[&two, &one]));
        assert!(!agent.says(&at(TurnEnd, "s"), &[&three]), "the hour has had its turns");
        assert!(agent.says(&at(Prompt, "s"), &[&three]), "what leads is no turn");
        agent.now += 3_600_000;
        // It may wait long beyond the turn that it began with.
        let parked = Event {
            is_continued: true,
            ..at(Wait, "s")
        };
        assert!(agent.says(&parked, &[&lead(10, "four")]));
    }

    #[test]
    fn what_a_host_ignores_was_not_told() {
        let (mut agent, one) = (Agent::new(), lead(7, "look"));
        let unheard = Event {
            is_heard: false,
            ..at(SessionStart, "s")
        };
        assert!(agent.says(&unheard, &[&one]));
        assert!(agent.says(&at(TurnEnd, "s"), &[&one]));
    }
}
