//! Commits as they are walked: parents and dates, read once, with the cut of a shallow repository observed.

use std::collections::{BinaryHeap, HashSet};

use gix::ObjectId;

use super::RepositoryError;

type Graph<'a> = gix::revwalk::Graph<'a, 'a, gix::revwalk::graph::Commit<Marks>>;

/// What a walk noted on a commit: bits that each walk defines.
pub(super) type Marks = u8;

/// The commits met by a walk, newest first.
pub(super) struct Walk<'a> {
    graph: Graph<'a>,
    /// Commits whose parents are not here on purpose.
    cut: HashSet<ObjectId>,
    queue: BinaryHeap<(i64, ObjectId)>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(graph: Graph<'a>, cut: impl IntoIterator<Item = ObjectId>) -> Self {
        Self {
            graph,
            cut: cut.into_iter().collect(),
            queue: BinaryHeap::new(),
        }
    }

    /// Adds marks to a commit. Gives those it had, or none if it was not met before.
    pub(super) fn mark(&mut self, id: ObjectId, marks: Marks) -> Result<Option<Marks>, RepositoryError> {
        if let Some(commit) = self.graph.get_mut(&id) {
            let before = commit.data;
            commit.data |= marks;
            return Ok(Some(before));
        }
        let found = self.graph.get_or_insert_full_commit(id, |commit| commit.data = marks);
        match found.map_err(RepositoryError::reading("a commit"))? {
            Some(_) => Ok(None),
            None => Err(RepositoryError::MissingObject {
                oid: super::from_gix(&id),
            }),
        }
    }

    pub(super) fn marks(&self, id: &ObjectId) -> Marks {
        self.graph.get(id).map_or(0, |commit| commit.data)
    }

    pub(super) fn date(&self, id: &ObjectId) -> i64 {
        self.graph.get(id).map_or(0, |commit| commit.commit_time)
    }

    /// The parents, none where history is cut.
    pub(super) fn parents(&self, id: &ObjectId) -> Vec<ObjectId> {
        if self.is_cut(id) {
            return Vec::new();
        }
        self.graph
            .get(id)
            .map(|commit| commit.parents.to_vec())
            .unwrap_or_default()
    }

    pub(super) fn is_cut(&self, id: &ObjectId) -> bool {
        self.cut.contains(id)
    }

    pub(super) fn push(&mut self, id: ObjectId) {
        self.queue.push((self.date(&id), id));
    }

    pub(super) fn pop(&mut self) -> Option<ObjectId> {
        self.queue.pop().map(|(_, id)| id)
    }

    /// The date of the newest commit in the queue.
    pub(super) fn newest(&self) -> Option<i64> {
        self.queue.peek().map(|(date, _)| *date)
    }
}
