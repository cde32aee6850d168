//! What one reader holds for true about a room's log, and what it notices when a hub says something else. Decides from
//! what it is given: reads no clock, asks nobody, and keeps nothing but itself.
//!
//! A head is *certain* when the hub told it or the reader hashed its way there; on first use it is believed. Two facts
//! hold whatever the order in which answers arrive: a log has one chain at a number, and it does not get shorter. The
//! second needs care with answers that overtake each other: an answer is compared with what was known when its request
//! was **sent**, so an older answer is no shorter log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{AgentId, ChainHash, Head, Message, Part, Seq, Verdict};

/// The newest heads are all kept: so many messages back.
const NEWEST_HEADS: u64 = 128;
/// Of older ones at most so many are, evenly spread.
const OLDER_HEADS: u64 = 64;
/// Most messages of members who saw something else that are kept.
const MAX_STRANGERS: usize = 8;

/// Where a head is known from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The hub told it.
    Told,
    /// The reader hashed every message since a head that it knew.
    Computed,
    /// A member says in a signed message that it was told so.
    Claimed(Box<Claimant>),
}

/// Whose word a claimed head is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// The message that says it.
    pub message: Seq,
    /// Its author's key.
    pub id: AgentId,
    /// What its author was called. Text from elsewhere: escape it before it reaches a terminal.
    pub name: String,
}

/// A head that is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownHead {
    /// The chain there.
    pub h: ChainHash,
    /// Since when, milliseconds since 1970.
    pub at: i64,
    /// Where from.
    pub source: Source,
}

impl KnownHead {
    /// Whether it is more than a member's word.
    pub const fn is_certain(&self) -> bool {
        !matches!(self.source, Source::Claimed(_))
    }
}

/// What an author of a verified message says it was told: the head in its `com.parler.seen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Who says it, and where.
    pub by: Claimant,
    /// The head.
    pub head: Head,
}

impl Claim {
    /// The claim in a message, which only one that is signed and bound to its place makes.
    pub fn of(message: &Message, verdict: &Verdict) -> Option<Self> {
        if !verdict.is_valid() {
            return None;
        }
        message.parts.iter().find_map(|part| match part {
            Part::Seen(seen) => Some(Self {
                by: Claimant {
                    message: message.seq,
                    id: message.from.id,
                    name: message.from.name.clone(),
                },
                head: Head {
                    seq: seen.seq,
                    h: seen.h,
                },
            }),
            _ => None,
        })
    }
}

/// A message as whoever reads a log has it.
pub trait ReadMessage {
    /// Exactly as stored.
    fn bytes(&self) -> &[u8];

    /// The head in its `com.parler.seen`, before any signature is checked.
    fn says(&self) -> Option<Head>;

    /// What its author says to have seen, if it is signed and bound to its place.
    fn claim(&self) -> Option<Claim>;
}

impl ReadMessage for (&[u8], Option<&Claim>) {
    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn says(&self) -> Option<Head> {
        self.1.map(|claim| claim.head)
    }

    fn claim(&self) -> Option<Claim> {
        self.1.cloned()
    }
}

/// The hub contradicts what was known: from then on nothing is signed for this room until the reader accepts the log as
/// it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum Doubt {
    /// The log is shorter than it was.
    #[error("it ends at message {found}, and message {known} was there")]
    RolledBack {
        /// How far it reaches by the hub's word.
        found: Seq,
        /// How far it reached.
        known: Seq,
        /// Since when that was known, milliseconds since 1970.
        since: i64,
    },
    /// A message is not the one that was there: changed, left out, or in another place.
    #[error("{}", rewritten(*.after, *.at))]
    Rewritten {
        /// Up to here the log is the one that was known.
        after: Seq,
        /// From here on it is another.
        at: Seq,
        /// Since when the other was known, milliseconds since 1970.
        since: i64,
    },
}

fn rewritten(after: Seq, at: Seq) -> String {
    if after.next() >= at {
        return format!("message {at} is not the message {at} that was told of before");
    }
    let first = after.next();
    format!("a message from {first} to {at} is not the one that was told of before")
}

impl Doubt {
    /// Since when what is contradicted was known, milliseconds since 1970.
    pub const fn since(&self) -> i64 {
        match self {
            Self::RolledBack { since, .. } | Self::Rewritten { since, .. } => *since,
        }
    }
}

/// A member's signed word against what is known: it was shown another history, or it does not say the truth. Nothing
/// stops for it, because any member can write what it likes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stranger {
    /// Whose message it is.
    pub by: Claimant,
    /// The message about which it says something else.
    pub at: Seq,
    /// Whose word is against it, where that is another member's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Claimant>,
}

/// What one reader holds for true about one room's log.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    heads: BTreeMap<Seq, KnownHead>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubt: Option<Doubt>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    strangers: Vec<Stranger>,
    /// How often the reader accepted another log in place of this one.
    #[serde(default)]
    accepted: u64,
}

impl History {
    /// How far the log reaches for certain. What an answer is compared with is what this was when its request was sent.
    pub fn newest(&self) -> Seq {
        let newest = self.certain().next_back();
        newest.map_or(Seq::ZERO, |(seq, _)| seq)
    }

    /// The newest message up to this one from which a reader can hash on.
    pub fn newest_until(&self, seq: Seq) -> Seq {
        let until = self.certain().rfind(|(known, _)| *known <= seq);
        until.map_or(Seq::ZERO, |(seq, _)| seq)
    }

    /// The newest head that is certain.
    pub fn newest_head(&self) -> Option<(Seq, &KnownHead)> {
        self.certain().next_back()
    }

    /// The newest head that the reader hashed its way to.
    pub fn newest_computed(&self) -> Option<(Seq, &KnownHead)> {
        self.certain().rfind(|(_, known)| known.source == Source::Computed)
    }

    /// What the hub contradicted.
    pub const fn doubt(&self) -> Option<&Doubt> {
        self.doubt.as_ref()
    }

    /// Members who were shown something else.
    pub fn strangers(&self) -> &[Stranger] {
        &self.strangers
    }

    fn certain(&self) -> impl DoubleEndedIterator<Item = (Seq, &KnownHead)> {
        let heads = self.heads.iter().map(|(seq, known)| (*seq, known));
        heads.filter(|(_, known)| known.is_certain())
    }

    /// The hub told a head in answer to a request that was sent when `asked` was the [newest](Self::newest) known.
    pub fn told(&mut self, head: &Head, asked: Seq, now_ms: i64) {
        if self.doubt.is_some() {
            return;
        }
        if head.seq < asked {
            let since = self.heads.get(&asked).map_or(now_ms, |known| known.at);
            self.doubt = Some(Doubt::RolledBack {
                found: head.seq,
                known: asked,
                since,
            });
            return;
        }
        if let Some(doubt) = self.note(*head, now_ms, Source::Told, Seq::ZERO) {
            self.doubt = Some(doubt);
        }
        self.thin();
    }

    /// Consecutive messages were read, each exactly as stored and with what its author says to have seen, the first of
    /// them the one after `after`. `start` is the room's first link. Where nothing certain is known at `after` there is
    /// nothing to hash on from, and authors' words are held against what is known otherwise.
    ///
    /// A signature is verified only where the author's word is news: a long log that fits together needs none.
    pub fn read(&mut self, start: &ChainHash, after: Seq, messages: impl IntoIterator<Item: ReadMessage>, now_ms: i64) {
        let from_start = after == Seq::ZERO;
        if from_start && self.doubt.is_none() {
            let begin = Head { seq: after, h: *start };
            self.doubt = self.note(begin, now_ms, Source::Computed, after);
        }
        let mut h = match self.heads.get(&after) {
            _ if from_start => *start,
            Some(known) if known.is_certain() => known.h,
            _ => {
                return messages.into_iter().for_each(|message| self.hear(&message, now_ms));
            }
        };
        let (mut seq, mut good) = (after, after);
        for message in messages {
            seq = seq.next();
            h = h.next(message.bytes());
            let known = self.heads.get(&seq).filter(|known| known.is_certain());
            // Whether the log is the known one before the place where reading began is known only from its start, or
            // where the reader has hashed its way to both ends.
            let since_good = from_start || known.is_some_and(|known| known.source == Source::Computed);
            let is_known = known.is_some();
            let after = if since_good { good } else { Seq::ZERO };
            let found = match self.doubt {
                None => self.note(Head { seq, h }, now_ms, Source::Computed, after),
                // A doubtful log teaches nothing more than where it begins to differ.
                Some(_) => known.filter(|known| known.h != h).map(|known| Doubt::Rewritten {
                    after,
                    at: seq,
                    since: known.at,
                }),
            };
            if let Some(found) = found {
                if self.doubt.as_ref().is_none_or(|doubt| found.is_narrower_than(doubt)) {
                    self.doubt = Some(found);
                }
                return;
            }
            if is_known {
                good = seq;
            }
            self.hear(&message, now_ms);
        }
        self.thin();
    }

    /// Takes in what a message says, where that is anything new.
    fn hear(&mut self, message: &impl ReadMessage, now_ms: i64) {
        if message.says().is_some_and(|head| self.is_news(&head))
            && let Some(claim) = message.claim()
        {
            self.claimed(&claim, now_ms);
        }
    }

    /// Whether an author's word about this head would change anything.
    fn is_news(&self, head: &Head) -> bool {
        self.doubt.is_none()
            && match self.heads.get(&head.seq) {
                Some(known) => known.h != head.h,
                None => self.is_recent(head.seq),
            }
    }

    /// Whether heads so far back are all kept, and the log reaches so far.
    fn is_recent(&self, seq: Seq) -> bool {
        let newest = self.newest();
        seq <= newest && seq.get() + NEWEST_HEADS >= newest.get()
    }

    /// A verified message, not read with those around it, says what its author was told. It is remembered where the
    /// log will be known so far back.
    pub fn claimed(&mut self, claim: &Claim, now_ms: i64) {
        if self.doubt.is_some() {
            return;
        }
        let against = match self.heads.get(&claim.head.seq) {
            Some(known) if known.h == claim.head.h => return,
            Some(known) => match &known.source {
                Source::Claimed(other) => Some((**other).clone()),
                Source::Told | Source::Computed => None,
            },
            None => {
                let source = Source::Claimed(Box::new(claim.by.clone()));
                let (h, at) = (claim.head.h, now_ms);
                if self.is_recent(claim.head.seq) {
                    self.heads.insert(claim.head.seq, KnownHead { h, at, source });
                }
                return;
            }
        };
        self.add_stranger(Stranger {
            by: claim.by.clone(),
            at: claim.head.seq,
            against,
        });
    }

    /// Notes a certain head, unless another one is known there. `good`: up to here the log is the one that was known.
    fn note(&mut self, head: Head, now_ms: i64, source: Source, good: Seq) -> Option<Doubt> {
        let (h, at) = (head.h, now_ms);
        let Some(known) = self.heads.get_mut(&head.seq) else {
            self.heads.insert(head.seq, KnownHead { h, at, source });
            return None;
        };
        if let Source::Claimed(by) = &known.source {
            let (by, differs) = ((**by).clone(), known.h != h);
            *known = KnownHead { h, at, source };
            if differs {
                let (at, against) = (head.seq, None);
                self.add_stranger(Stranger { by, at, against });
            }
            return None;
        }
        if known.h != h {
            return Some(Doubt::Rewritten {
                after: good,
                at: head.seq,
                since: known.at,
            });
        }
        if source == Source::Computed {
            known.source = source;
        }
        None
    }

    fn add_stranger(&mut self, stranger: Stranger) {
        let is_new = !self.strangers.iter().any(|other| other.by == stranger.by);
        if is_new && self.strangers.len() < MAX_STRANGERS {
            self.strangers.push(stranger);
        }
    }

    /// The reader accepts the log as the hub has it now: all that was known is forgotten, and this is where it begins.
    pub fn accept(&mut self, head: &Head, now_ms: i64) {
        let accepted = self.accepted + 1;
        *self = Self {
            accepted,
            ..Self::default()
        };
        self.told(head, Seq::ZERO, now_ms);
    }

    /// Takes in what another process of the same reader came to know meanwhile. Answers that it got may be newer or
    /// older than this one's, so lengths are not compared; one chain at one number there is all the same.
    pub fn merge(&mut self, other: &Self) {
        if other.accepted != self.accepted {
            // What was known of a log that was given up says nothing about the one that was accepted.
            if other.accepted > self.accepted {
                self.clone_from(other);
            }
            return;
        }
        let mut good = Seq::ZERO;
        for (seq, theirs) in &other.heads {
            let certain = theirs.is_certain();
            match self.heads.get(seq) {
                Some(ours) if ours.h == theirs.h => {
                    if certain {
                        good = *seq;
                    }
                    if theirs.source == Source::Computed || matches!(ours.source, Source::Claimed(_)) {
                        let at = ours.at.min(theirs.at);
                        self.heads.insert(*seq, KnownHead { at, ..theirs.clone() });
                    }
                }
                _ if certain => {
                    let head = Head { seq: *seq, h: theirs.h };
                    let doubt = self.note(head, theirs.at, theirs.source.clone(), good);
                    self.doubt = self.doubt.take().or(doubt);
                }
                Some(_) => {}
                None => {
                    self.heads.insert(*seq, theirs.clone());
                }
            }
        }
        self.doubt = self.doubt.take().or_else(|| other.doubt.clone());
        for stranger in &other.strangers {
            self.add_stranger(stranger.clone());
        }
        self.thin();
    }

    /// Keeps the size bounded. Which heads are kept is fixed by the newest one alone, so that reading a log again does
    /// not crowd out what was known of it.
    fn thin(&mut self) {
        let newest = self.newest().get();
        let stride = (newest / OLDER_HEADS).next_power_of_two().max(1);
        self.heads
            .retain(|seq, _| seq.get() + NEWEST_HEADS >= newest || seq.get() % stride == 0);
    }
}

impl Doubt {
    /// Whether this one says more exactly where a log begins to differ.
    fn is_narrower_than(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rewritten { after, at, .. }, Self::Rewritten { after: a, at: b, .. }) => {
                at < b || (at == b && after > a)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
