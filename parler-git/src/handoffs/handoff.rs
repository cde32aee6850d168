//! One handoff, what was said of it, and how it stands by that. Judges nobody: whether a receipt counts is decided by the
//! ledger that folds it.

use std::collections::HashMap;

use parler_client::Identity;
use parler_protocol::{AgentId, AgentName, HandoffPart, MessageId, Sender, Seq, TaskPart, TaskStatus};

/// How a handoff stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Nobody whom it is for has said anything.
    Open,
    /// As the newest receipt that counts has it.
    Answered(TaskStatus),
    /// Nobody whom it is for has said anything, and its time is over.
    Expired,
}

impl State {
    /// The word for it, for people and programs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Answered(status) => status.as_str(),
            Self::Expired => "expired",
        }
    }

    /// Whether nothing more is expected of anybody.
    pub(crate) const fn is_final(self) -> bool {
        match self {
            Self::Open => false,
            Self::Answered(status) => is_end(status),
            Self::Expired => true,
        }
    }
}

/// Whether nothing more is expected after this. A later receipt may say otherwise all the same.
pub(crate) const fn is_end(status: TaskStatus) -> bool {
    matches!(
        status,
        TaskStatus::Done | TaskStatus::Failed | TaskStatus::Declined | TaskStatus::Cancelled
    )
}

/// Whether somebody has this name or role.
fn is_called(who: &Sender, to: &str) -> bool {
    let is = |name: &str| name.parse::<AgentName>().is_ok_and(|name| name.is_called(to));
    is(&who.name) || who.role.as_deref().is_some_and(is)
}

/// What somebody said of a handoff.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Receipt {
    /// The message that says it.
    pub(crate) seq: Seq,
    /// That message's id.
    pub(crate) id: MessageId,
    /// Who. Names are text from elsewhere.
    pub(crate) from: Sender,
    /// When the hub stored it, milliseconds since 1970.
    pub(crate) ts: i64,
    /// What: status, note, result.
    pub(crate) part: TaskPart,
    /// Whether it was for them to say. Others are shown and change nothing.
    pub(crate) counts: bool,
}

/// One handoff, as its signed message has it.
#[derive(Debug, Clone)]
pub(crate) struct Handoff {
    /// The message.
    pub(crate) seq: Seq,
    /// The id that receipts name it by.
    pub(crate) id: MessageId,
    /// Its author. Names are text from elsewhere.
    pub(crate) from: Sender,
    /// When the hub stored it, milliseconds since 1970.
    pub(crate) ts: i64,
    /// What is to be done.
    pub(crate) part: HandoffPart,
    /// Whether its author's key belongs to the name that it goes by: else it leads nobody.
    pub(crate) leads: bool,
    /// What has been said of it, in the log's order.
    pub(crate) receipts: Vec<Receipt>,
    /// The later handoff of the same author that takes its place, which may itself have been superseded.
    pub(crate) superseded_by: Option<Seq>,
    /// Until when it leads whom it is for, milliseconds since 1970; none: without end.
    pub(crate) until: Option<i64>,
    /// Whether that has come, by the ledger's time.
    pub(super) is_over: bool,
    /// All that it is for: a message may have more than one such part.
    pub(super) to: Vec<Option<String>>,
}

impl Handoff {
    /// Whether it is for somebody of this key, name and role.
    pub(super) fn is_for_sender(&self, who: &Sender) -> bool {
        who.id != self.from.id
            && self
                .to
                .iter()
                .any(|to| to.as_deref().is_none_or(|to| is_called(who, to)))
    }

    /// Whether it is for a member of this key, name and role.
    pub(crate) fn is_for_member(&self, id: &AgentId, name: &AgentName, role: Option<&AgentName>) -> bool {
        let called = |to: &str| name.is_called(to) || role.is_some_and(|role| role.is_called(to));
        *id != self.from.id && self.to.iter().any(|to| to.as_deref().is_none_or(called))
    }

    /// Whether its author has the name or role that it is for. It is not for its author, all the same.
    pub(crate) fn names_its_author(&self) -> bool {
        self.to.iter().flatten().any(|to| is_called(&self.from, to))
    }

    /// Whether it is for this agent, by name or role or because it is for anybody. Never for its own author.
    pub(crate) fn is_for(&self, me: &Identity) -> bool {
        self.is_for_member(&me.key.id(), &me.name, me.role.as_ref())
    }

    /// Whether this agent wrote it.
    pub(crate) fn is_by(&self, me: &Identity) -> bool {
        me.key.id() == self.from.id
    }

    /// The receipt that says how it stands. A decline takes back what its author had accepted and nobody else's word; what
    /// the author of the handoff called off stays so.
    pub(crate) fn holder(&self) -> Option<&Receipt> {
        self.holder_among(|_| true)
    }

    fn holder_among(&self, is_heard: impl Fn(&Receipt) -> bool) -> Option<&Receipt> {
        let mut holder: Option<&Receipt> = None;
        for receipt in self
            .receipts
            .iter()
            .filter(|receipt| receipt.counts && is_heard(receipt))
        {
            let status = receipt.part.status;
            let stays = holder.is_some_and(|held| match held.part.status {
                TaskStatus::Cancelled => true,
                TaskStatus::Declined | TaskStatus::Failed => false,
                // What is done cannot be called off.
                TaskStatus::Done if status == TaskStatus::Cancelled => true,
                _ => status == TaskStatus::Declined && held.from.id != receipt.from.id,
            });
            if !stays {
                holder = Some(receipt);
            }
        }
        holder
    }

    /// How it stands.
    pub(crate) fn state(&self) -> State {
        match self.holder() {
            Some(receipt) => State::Answered(receipt.part.status),
            None if self.is_over => State::Expired,
            None => State::Open,
        }
    }

    /// Whether something is still expected of somebody.
    pub(crate) fn is_open(&self) -> bool {
        self.superseded_by.is_none() && !self.state().is_final()
    }

    /// Whether something is still expected of this agent. Anybody may call its own role by the agent's name: what is for the
    /// agent by its name is settled by those alone who have the name, and by its author.
    pub(crate) fn is_open_for(&self, me: &Identity) -> bool {
        let is_for_name = self.to.iter().flatten().any(|to| me.name.is_called(to));
        let has_name = |who: &Sender| {
            who.name
                .parse()
                .is_ok_and(|name: AgentName| name.is_called(me.name.as_str()))
        };
        let holder = self.holder_among(|receipt| {
            !is_for_name || has_name(&receipt.from) || receipt.from.id == self.from.id || receipt.from.id == me.key.id()
        });
        // Whoever took it in time goes on with it.
        let is_settled = holder.map_or(self.is_over, |receipt| is_end(receipt.part.status));
        self.superseded_by.is_none() && !is_settled
    }

    /// Whether it has to be told to this agent: it is expected to do something, has said nothing of it, and nobody else
    /// took up what is for several.
    pub(crate) fn awaits(&self, me: &Identity) -> bool {
        let is_for_name = self.to.iter().flatten().any(|to| me.name.is_called(to));
        self.is_for(me)
            && self.is_open_for(me)
            && self.last_of(&me.key.id()).is_none()
            && (is_for_name || self.state() == State::Open)
    }

    /// The newest receipt of this agent.
    pub(crate) fn last_of(&self, agent: &AgentId) -> Option<&Receipt> {
        self.receipts.iter().rev().find(|receipt| receipt.from.id == *agent)
    }

    /// Whether this agent took it up, and has not come to an end with it.
    pub(crate) fn is_taken_by(&self, me: &Identity) -> bool {
        let last = self.last_of(&me.key.id());
        last.is_some_and(|receipt| receipt.counts && !is_end(receipt.part.status))
    }

    /// Whether the newest words of those who may speak differ: some took it and others turned it down, for one.
    ///
    /// That its author calls it off contradicts nobody: only what is said after that does.
    pub(crate) fn is_contested(&self) -> bool {
        let mut last: HashMap<AgentId, TaskStatus> = HashMap::new();
        let called_off = self
            .holder()
            .filter(|holder| holder.part.status == TaskStatus::Cancelled);
        for receipt in self.receipts.iter().filter(|receipt| receipt.counts) {
            let is_before = called_off.is_some_and(|called_off| receipt.seq < called_off.seq);
            let is_late = called_off.is_none() && receipt.part.status == TaskStatus::Cancelled;
            if !is_before && !is_late {
                last.insert(receipt.from.id, receipt.part.status);
            }
        }
        let mut words = last.values();
        let first = words.next();
        words.any(|word| Some(word) != first)
    }
}
