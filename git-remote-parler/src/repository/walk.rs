//! Commits as they are walked: parents and dates, read once for all walks of a repository, with the cut of a shallow one
//! observed.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gix::ObjectId;

use super::RepositoryError;

type Graph<'a> = gix::revwalk::Graph<'a, 'a, ()>;

/// Most commits that are remembered. Those beyond are read again by each walk.
const MOST_READ: usize = 1 << 18;

/// What a walk noted on a commit: bits that each walk defines.
pub(super) type Marks = u8;

/// Where a commit stands in history: it says the same for ever.
#[derive(Debug)]
struct Place {
    date: i64,
    parents: Vec<ObjectId>,
}

/// Commits that were read. A push walks over the same ones several times.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadCommits(Arc<Mutex<HashMap<ObjectId, Arc<Place>>>>);

impl ReadCommits {
    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, Arc<Place>>> {
        // The map is whole between any two of its calls.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}

/// A commit that a walk has met.
struct Met {
    place: Arc<Place>,
    marks: Marks,
}

/// The commits met by a walk, newest first.
pub(super) struct Walk<'a> {
    graph: Graph<'a>,
    read: ReadCommits,
    met: HashMap<ObjectId, Met>,
    /// Commits whose parents are not here on purpose.
    cut: HashSet<ObjectId>,
    queue: BinaryHeap<(i64, ObjectId)>,
    /// Once this is false the queue counts as empty.
    is_wanted: Option<&'a AtomicBool>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(graph: Graph<'a>, read: &ReadCommits, cut: impl IntoIterator<Item = ObjectId>) -> Self {
        Self {
            graph,
            read: read.clone(),
            met: HashMap::new(),
            cut: cut.into_iter().collect(),
            queue: BinaryHeap::new(),
            is_wanted: None,
        }
    }

    /// The same, over when this becomes false.
    pub(super) fn for_as_long_as(mut self, is_wanted: Option<&'a AtomicBool>) -> Self {
        self.is_wanted = is_wanted;
        self
    }

    /// Adds marks to a commit. Gives those it had, or none if it was not met before.
    pub(super) fn mark(&mut self, id: ObjectId, marks: Marks) -> Result<Option<Marks>, RepositoryError> {
        if let Some(met) = self.met.get_mut(&id) {
            let before = met.marks;
            met.marks |= marks;
            return Ok(Some(before));
        }
        let place = self.place(id)?;
        self.met.insert(id, Met { place, marks });
        Ok(None)
    }

    fn place(&mut self, id: ObjectId) -> Result<Arc<Place>, RepositoryError> {
        let known = self.read.lock().get(&id).map(Arc::clone);
        if let Some(place) = known {
            return Ok(place);
        }
        let found = self.graph.try_lookup(&id);
        let commit = found
            .and_then(|found| found.map(|commit| commit.to_owned(|| ())).transpose())
            .map_err(RepositoryError::reading("a commit"))?
            .ok_or_else(|| RepositoryError::MissingObject {
                oid: super::from_gix(&id),
            })?;
        let place = Arc::new(Place {
            date: commit.commit_time,
            parents: commit.parents.to_vec(),
        });
        let mut read = self.read.lock();
        if read.len() < MOST_READ {
            read.insert(id, Arc::clone(&place));
        }
        Ok(place)
    }

    pub(super) fn marks(&self, id: &ObjectId) -> Marks {
        self.met.get(id).map_or(0, |met| met.marks)
    }

    pub(super) fn date(&self, id: &ObjectId) -> i64 {
        self.met.get(id).map_or(0, |met| met.place.date)
    }

    /// The parents, none where history is cut.
    pub(super) fn parents(&self, id: &ObjectId) -> Vec<ObjectId> {
        if self.is_cut(id) {
            return Vec::new();
        }
        self.met
            .get(id)
            .map(|met| met.place.parents.clone())
            .unwrap_or_default()
    }

    pub(super) fn is_cut(&self, id: &ObjectId) -> bool {
        self.cut.contains(id)
    }

    pub(super) fn push(&mut self, id: ObjectId) {
        self.queue.push((self.date(&id), id));
    }

    pub(super) fn pop(&mut self) -> Option<ObjectId> {
        let is_over = self.is_wanted.is_some_and(|wanted| !wanted.load(Ordering::Relaxed));
        self.queue.pop().filter(|_| !is_over).map(|(_, id)| id)
    }

    /// The date of the newest commit in the queue.
    pub(super) fn newest(&self) -> Option<i64> {
        self.queue.peek().map(|(date, _)| *date)
    }
}
