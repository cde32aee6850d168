//! What clients saw of a room while others worked in it, and whether one order of events explains all of it: the room's log.
//! Each operation has a moment between its begin and its end at which it happened, or it did not happen; so whatever ended
//! before another began comes before it. That the log gives the order makes the search for one needless: what remains is to
//! see that nobody saw anything that this order forbids.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use parler_protocol::{MessageId, Oid, Part, RefName};

use crate::ReadLog;

/// What a client did, and what it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Posted a message, and was told its number.
    Stored {
        /// The message.
        id: MessageId,
        /// Its number.
        seq: u64,
    },
    /// Moved a ref to where no other message moves it, and was told of success alone.
    Moved {
        /// The ref.
        name: RefName,
        /// Where it is now.
        to: Oid,
    },
    /// Was told that a ref is not where it expected it, and where it is instead, if that was told.
    Refused {
        /// The ref.
        name: RefName,
        /// Where the client expected it.
        expected: Option<Oid>,
        /// Where the hub said it is.
        actual: Option<Option<Oid>>,
    },
    /// Read where the log ends.
    SawHead {
        /// The number of the last message.
        seq: u64,
    },
    /// Read all refs, as of this message.
    SawRefs {
        /// The number of the last message.
        seq: u64,
        /// The refs.
        refs: BTreeMap<RefName, Oid>,
    },
    /// Posted a message, and does not know what became of it.
    Unknown {
        /// The message.
        id: MessageId,
    },
}

/// An event with the time it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// When it was asked for.
    pub begun: Duration,
    /// When the answer was there.
    pub ended: Duration,
    /// What was answered.
    pub event: Event,
}

/// What no order explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Anomaly {
    /// A message moved a ref that was not where it expected it.
    Overwritten {
        /// The message.
        seq: u64,
        /// The ref.
        name: RefName,
    },
    /// An acknowledged message is not in the log where it was said to be.
    Lost(Box<Operation>),
    /// A message is in the log twice.
    Twice(MessageId),
    /// The log has a message that nobody posted.
    FromNobody(MessageId),
    /// It happened before something that had ended before it began.
    WentBack {
        /// What came too early.
        operation: Box<Operation>,
        /// How far the log was known to reach.
        known: u64,
    },
    /// Refs were read that the log did not lead to at that message.
    WrongRefs(Box<Operation>),
    /// A move was refused that was right at every moment it can have happened at, or was told of a place where the ref was
    /// at none.
    RefusedWithoutReason(Box<Operation>),
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// One message of the log, as far as a history goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The message.
    pub id: MessageId,
    /// The refs it moved: from where, and to where.
    pub moves: Vec<(RefName, Option<Oid>, Option<Oid>)>,
}

/// What all clients of a room did together.
#[derive(Debug)]
pub struct History {
    clock: Instant,
    operations: Mutex<Vec<Operation>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            clock: Instant::now(),
            operations: Mutex::default(),
        }
    }
}

impl History {
    /// Does something, and notes what came of it with the time it took. `ask` may say that nothing is to be noted.
    pub fn record<T>(&self, ask: impl FnOnce() -> (T, Option<Event>)) -> T {
        let begun = self.clock.elapsed();
        let (result, event) = ask();
        let ended = self.clock.elapsed();
        if let Some(event) = event {
            let operation = Operation { begun, ended, event };
            self.operations.lock().expect("nobody panics with it").push(operation);
        }
        result
    }

    /// How much was noted.
    pub fn len(&self) -> usize {
        self.operations.lock().expect("nobody panics with it").len()
    }

    /// Whether nothing was.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the log explains everything that was noted. `before` messages were there when it began.
    ///
    /// # Errors
    /// The first thing that it does not explain.
    pub fn check(&self, log: &ReadLog, before: usize) -> Result<(), Anomaly> {
        let entries = log.messages.iter().map(|message| Entry {
            id: message.id,
            moves: message
                .parts
                .iter()
                .filter_map(|part| if let Part::Refs(refs) = part { Some(refs) } else { None })
                .flat_map(|refs| &refs.updates)
                .map(|update| (update.name.clone(), update.old, update.new))
                .collect(),
        });
        let entries: Vec<_> = entries.collect();
        let operations = self.operations.lock().expect("nobody panics with it");
        check(&operations, &entries, before)
    }
}

/// As [`History::check`], of these operations.
///
/// # Errors
/// The first thing that the log does not explain.
pub(crate) fn check(operations: &[Operation], log: &[Entry], before: usize) -> Result<(), Anomaly> {
    let folds = Folds::of(log)?;
    let mut places = HashMap::new();
    for (entry, seq) in log.iter().zip(1..) {
        if places.insert(entry.id, seq).is_some() {
            return Err(Anomaly::Twice(entry.id));
        }
    }
    let moved: HashMap<_, _> = log
        .iter()
        .zip(1..)
        .flat_map(|(entry, seq)| {
            entry
                .moves
                .iter()
                .map(move |(name, _, to)| ((name, *to), (seq, entry.id)))
        })
        .collect();
    check_authors(operations, log, before, &moved)?;

    // Where in the log each happened; of what was refused or is unknown that is not told.
    let mut placed: Vec<(&Operation, u64, bool)> = Vec::new();
    for operation in operations {
        match &operation.event {
            Event::Stored { id, seq } => match places.get(id) {
                Some(place) if seq == place => placed.push((operation, *place, true)),
                _ => return Err(Anomaly::Lost(Box::new(operation.clone()))),
            },
            Event::Moved { name, to } => match moved.get(&(name, Some(*to))) {
                Some((place, _)) => placed.push((operation, *place, true)),
                None => return Err(Anomaly::Lost(Box::new(operation.clone()))),
            },
            Event::SawHead { seq } => placed.push((operation, *seq, false)),
            Event::SawRefs { seq, refs } => {
                if folds.at(*seq) != Some(refs) {
                    return Err(Anomaly::WrongRefs(Box::new(operation.clone())));
                }
                placed.push((operation, *seq, false));
            }
            Event::Refused { .. } | Event::Unknown { .. } => {}
        }
    }
    let known_before = |moment: Duration| {
        let ended = placed.iter().filter(|(operation, ..)| operation.ended < moment);
        ended.map(|(_, place, _)| *place).max().unwrap_or(0)
    };
    for (operation, place, is_new) in &placed {
        let known = known_before(operation.begun);
        // A message comes behind everything that was known, a reader may see the same again.
        if *place > log.len() as u64 || *place < known + u64::from(*is_new) {
            return Err(Anomaly::WentBack {
                operation: Box::new((*operation).clone()),
                known,
            });
        }
    }
    let first_after = |moment: Duration| {
        let begun = placed.iter().filter(|(operation, ..)| operation.begun > moment);
        let latest = begun.map(|(_, place, is_new)| place - u64::from(*is_new)).min();
        latest.unwrap_or(log.len() as u64)
    };
    for operation in operations {
        let Event::Refused { name, expected, actual } = &operation.event else {
            continue;
        };
        let mut moments = known_before(operation.begun)..=first_after(operation.ended);
        let explains = |seq: u64| {
            let place = folds.at(seq).and_then(|refs| refs.get(name).copied());
            place != *expected && actual.is_none_or(|actual| actual == place)
        };
        if !moments.any(explains) {
            return Err(Anomaly::RefusedWithoutReason(Box::new(operation.clone())));
        }
    }
    Ok(())
}

/// What the log has behind its beginning was posted by somebody who noted it.
fn check_authors(
    operations: &[Operation],
    log: &[Entry],
    before: usize,
    moved: &HashMap<(&RefName, Option<Oid>), (u64, MessageId)>,
) -> Result<(), Anomaly> {
    let posted: HashSet<_> = operations
        .iter()
        .filter_map(|operation| match &operation.event {
            Event::Stored { id, .. } | Event::Unknown { id } => Some(*id),
            Event::Moved { name, to } => Some(moved.get(&(name, Some(*to)))?.1),
            _ => None,
        })
        .collect();
    match log.iter().skip(before).find(|entry| !posted.contains(&entry.id)) {
        Some(entry) => Err(Anomaly::FromNobody(entry.id)),
        None => Ok(()),
    }
}

/// The refs after each message.
struct Folds(Vec<BTreeMap<RefName, Oid>>);

impl Folds {
    /// Fails where a message moved a ref from where it was not.
    fn of(log: &[Entry]) -> Result<Self, Anomaly> {
        let mut folds = vec![BTreeMap::new()];
        for (entry, seq) in log.iter().zip(1..) {
            let mut refs: BTreeMap<RefName, Oid> = folds.last().expect("never empty").clone();
            for (name, old, new) in &entry.moves {
                if refs.get(name) != old.as_ref() {
                    let name = name.clone();
                    return Err(Anomaly::Overwritten { seq, name });
                }
                match new {
                    Some(new) => refs.insert(name.clone(), *new),
                    None => refs.remove(name),
                };
            }
            folds.push(refs);
        }
        Ok(Self(folds))
    }

    fn at(&self, seq: u64) -> Option<&BTreeMap<RefName, Oid>> {
        self.0.get(usize::try_from(seq).ok()?)
    }
}

#[cfg(test)]
mod tests;
