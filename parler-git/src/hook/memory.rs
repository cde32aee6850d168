//! What hooks of one agent have told, message by message, so that each is told until a turn has had it, and then no more;
//! and how often they made turns by themselves. Knows no host, and of a message only its id.

use std::collections::BTreeMap;

use parler_protocol::MessageId;
use serde::{Deserialize, Serialize};

use super::host::{Event, Moment};

/// Most messages that are remembered; the oldest are forgotten first.
const MOST_TOLD: usize = 1000;
/// How long the turns that hooks made count.
const HOUR_MS: i64 = 3_600_000;

/// What was told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memory {
    told: BTreeMap<MessageId, Told>,
    /// When hooks made turns, milliseconds since 1970.
    turns: Vec<i64>,
}

/// One message that was put into a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Told {
    /// When, milliseconds since 1970.
    at: i64,
    /// In which conversation, where its host says that.
    session: Option<String>,
    /// Whether the turn that had it came to its end.
    is_acknowledged: bool,
}

impl Memory {
    /// A turn of this conversation has come to its end: what was put into it before the hook was called has been read.
    pub(crate) fn turn_ended(&mut self, session: Option<&str>, called_at: i64) {
        for told in self.told.values_mut() {
            let is_same = told.session.is_none() || session.is_none() || told.session.as_deref() == session;
            told.is_acknowledged |= is_same && told.at <= called_at;
        }
    }

    /// Whether a message is to be told at this moment.
    pub(crate) fn is_due(&self, id: &MessageId, event: &Event) -> bool {
        let Some(told) = self.told.get(id) else { return true };
        let is_elsewhere = told.session.is_some() && event.session.is_some() && told.session != event.session;
        match event.moment {
            _ if told.is_acknowledged => false,
            // Whoever begins has nothing of what was told before: a crash, or another conversation.
            Moment::SessionStart => true,
            Moment::Prompt => is_elsewhere,
            // What was told anywhere makes no turn: each message makes one at most.
            Moment::TurnEnd | Moment::Wait | Moment::TurnOver => false,
        }
    }

    /// Whether hooks have made fewer turns in the last hour than they may.
    pub(crate) fn may_make_a_turn(&self, now: i64, most: u32) -> bool {
        let recent = self.turns.iter().filter(|at| now - **at < HOUR_MS).count();
        (recent as u64) < u64::from(most)
    }

    /// These are told now. `makes_a_turn`: by a hook's own will.
    pub(crate) fn tell<'i>(
        &mut self,
        ids: impl Iterator<Item = &'i MessageId>,
        session: Option<&str>,
        now: i64,
        makes_a_turn: bool,
    ) {
        for id in ids {
            let told = Told {
                at: now,
                session: session.map(str::to_owned),
                is_acknowledged: false,
            };
            self.told.insert(*id, told);
        }
        if makes_a_turn {
            self.turns.retain(|at| now - at < HOUR_MS);
            self.turns.push(now);
        }
        while self.told.len() > MOST_TOLD {
            let oldest = self.told.iter().min_by_key(|(_, told)| told.at).map(|(id, _)| *id);
            let Some(oldest) = oldest else { break };
            self.told.remove(&oldest);
        }
    }
}
