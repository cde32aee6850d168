//! Whether the objects of small bundles need no git to be judged: each plain, and everything that the tips reach there.
//! Says yes or nothing: what it cannot follow in few steps is for git to check, whatever it is.
//!
//! An ordinary commit differs from its parent in a few entries. So its trees are read beside those of its parents, and
//! what stands there too is as complete as the parent is. A parent outside is a prerequisite; that it is complete is for
//! the caller to prove, by a ref that names it. A change that is taken back is like a prerequisite, not like its parent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gix::ObjectId;
use gix::hash::oid;
use gix::objs::{CommitRefIter, Kind};

use super::plain::{self, Entry, EntryKind, NameKind};
use super::stores::Stores;
use crate::pack::entries::Budget;
use crate::pack::resolve::Object;

/// How much of commits and trees outside may be held in memory.
const HELD_BYTES: u64 = 16 << 20; // 16 MiB
/// How many bytes of trees may be read in all, each time that one is read.
const READ_BYTES: u64 = 64 << 20; // 64 MiB
/// How many trees another may be compared with.
const MOST_BESIDE: usize = 8;
/// How deep a tree may lie in others.
const MOST_DEPTH: usize = 64;
/// How many files of the repository may be named where they were not before. Each takes a look at the disk.
const MOST_HERE: usize = 10_000;

/// Objects that came together, by their names.
pub(super) type Objects = HashMap<ObjectId, Arc<Object>>;

/// Objects that are plain, and what they rest on.
pub(super) struct Vouched {
    pub(super) objects: Objects,
    /// Files of the repository.
    pub(super) here: HashSet<ObjectId>,
}

impl Vouched {
    /// All of them.
    pub(super) fn ids(&self) -> Vec<ObjectId> {
        self.objects.keys().chain(&self.here).copied().collect()
    }
}

/// Files of the repository on which this rests besides the prerequisites, if all of the objects are plain, the tips are
/// commits among them, and everything that these reach is among them, or in the repository, as long as the prerequisites
/// are complete there. None says nothing.
pub(super) fn vouches(
    objects: &Objects,
    tips: &[ObjectId],
    prerequisites: &HashSet<ObjectId>,
    stores: &Stores,
) -> Option<HashSet<ObjectId>> {
    let mut walk = Walk {
        objects,
        prerequisites,
        stores,
        outside: HashMap::new(),
        seen: HashSet::new(),
        accounted: HashMap::new(),
        here: HashSet::new(),
        held: Budget::of(HELD_BYTES),
        read: Budget::of(READ_BYTES),
    };
    // What no tip reaches has not been looked at.
    walk.commits(tips)?;
    (walk.seen.len() == objects.len()).then_some(walk.here)
}

struct Walk<'w> {
    objects: &'w Objects,
    prerequisites: &'w HashSet<ObjectId>,
    stores: &'w Stores,
    /// What was read of the repository.
    outside: Objects,
    /// Those of the objects that were looked at.
    seen: HashSet<ObjectId>,
    /// The trees that were gone through, each with those beside it, and how deep they lay at most. Beside others it may
    /// lack something, or have what git obeys where nobody had it; deeper, what lies in it may lie too deep.
    accounted: HashMap<(ObjectId, Vec<ObjectId>), usize>,
    /// Files that are not among the objects, and in the repository.
    here: HashSet<ObjectId>,
    held: Budget,
    read: Budget,
}

/// On the way through history.
enum Step {
    /// To this commit, and before it to its parents.
    To(ObjectId),
    /// Back from them, to the commit.
    Back(plain::PlainCommit),
}

/// A tree that came, where it lies, and what its parents have there.
struct Waiting {
    tree: ObjectId,
    depth: usize,
    beside: Vec<ObjectId>,
}

impl Walk<'_> {
    fn commits(&mut self, tips: &[ObjectId]) -> Option<()> {
        let prerequisites: Vec<ObjectId> = self.prerequisites.iter().copied().take(MOST_BESIDE).collect();
        let bases = prerequisites
            .iter()
            .map(|id| self.tree_outside(id))
            .collect::<Option<Vec<_>>>()?;
        // Parents come first: what a tree is read beside has been accounted for by then. Else two trees that change places
        // would account for each other.
        let mut parents_first = Vec::new();
        let mut trees = HashMap::new();
        let mut waiting: Vec<Step> = tips.iter().copied().map(Step::To).collect();
        while let Some(step) = waiting.pop() {
            let id = match step {
                Step::To(id) => id,
                Step::Back(commit) => {
                    parents_first.push(commit);
                    continue;
                }
            };
            if !self.seen.insert(id) {
                continue;
            }
            let commit = self.commit(&id)?;
            trees.insert(id, commit.tree);
            let mut came = commit.parents.clone();
            came.retain(|parent| self.objects.contains_key(parent));
            waiting.push(Step::Back(commit));
            waiting.extend(came.into_iter().map(Step::To));
        }
        for commit in parents_first {
            let mut beside = Vec::new();
            for parent in &commit.parents {
                if let Some(tree) = trees.get(parent) {
                    beside.push(*tree);
                } else if self.prerequisites.contains(parent) {
                    beside.push(self.tree_outside(parent)?);
                } else {
                    return None;
                }
            }
            beside.extend_from_slice(&bases);
            // In their order, since a parent is most alike.
            let mut seen = HashSet::new();
            beside.retain(|tree| seen.insert(*tree));
            beside.truncate(MOST_BESIDE);
            self.trees(Waiting {
                tree: commit.tree,
                depth: 0,
                beside,
            })?;
        }
        Some(())
    }

    /// A commit that came.
    fn commit(&mut self, id: &oid) -> Option<plain::PlainCommit> {
        let object = self.objects.get(id).filter(|object| object.kind == Kind::Commit)?;
        self.read.take(object.content.len() as u64).ok()?;
        plain::commit(&object.content, id.kind())
    }

    /// The tree of a commit in the repository.
    fn tree_outside(&mut self, commit: &oid) -> Option<ObjectId> {
        // Anything can be named by a ref, and begin like a commit.
        let base = self.outside(commit).filter(|base| base.kind == Kind::Commit)?;
        CommitRefIter::from_bytes(&base.content, commit.kind()).tree_id().ok()
    }

    fn trees(&mut self, root: Waiting) -> Option<()> {
        let mut waiting = vec![root];
        while let Some(Waiting { tree, depth, beside }) = waiting.pop() {
            if beside.contains(&tree) {
                continue;
            }
            // One that is neither beside nor among the objects may be anywhere in the repository, or nowhere.
            let object = self.objects.get(&tree).filter(|object| object.kind == Kind::Tree)?;
            self.seen.insert(tree);
            let place = (tree, beside);
            if self.accounted.get(&place).is_some_and(|deepest| depth <= *deepest) {
                continue;
            }
            if depth == MOST_DEPTH {
                return None;
            }
            let object = Arc::clone(object);
            self.read.take(object.content.len() as u64).ok()?;
            let entries = plain::entries(&object.content, tree.kind())?;
            if !plain::is_in_order(&entries) {
                return None;
            }
            let theirs = place.1.iter().map(|id| self.tree(id)).collect::<Option<Vec<_>>>()?;
            self.accounted.insert(place, depth);
            let theirs = theirs
                .iter()
                .map(|object| by_name(object))
                .collect::<Option<Vec<_>>>()?;
            for entry in &entries {
                let theirs = || theirs.iter().filter_map(|names| names.get(entry.name));
                if theirs().any(|other| other.kind == entry.kind && other.oid == entry.oid) {
                    // What git obeys here is what it obeyed there.
                    if plain::name_kind(entry) == NameKind::Odd {
                        return None;
                    }
                    continue;
                }
                if plain::name_kind(entry) != NameKind::Plain {
                    return None;
                }
                match entry.kind {
                    EntryKind::Submodule => {}
                    EntryKind::Tree => waiting.push(Waiting {
                        tree: entry.oid.to_owned(),
                        depth: depth + 1,
                        beside: theirs()
                            .filter(|other| other.kind == EntryKind::Tree)
                            .map(|other| other.oid.to_owned())
                            .collect(),
                    }),
                    EntryKind::File | EntryKind::Link => self.blob(entry)?,
                }
            }
        }
        Some(())
    }

    fn blob(&mut self, entry: &Entry<'_>) -> Option<()> {
        let Some(object) = self.objects.get(entry.oid) else {
            // Such as that of a file that was moved. git too asks only whether it is there, unless it is a link's target.
            if entry.kind == EntryKind::Link {
                return None;
            }
            if !self.here.contains(entry.oid) {
                if self.here.len() == MOST_HERE || !self.stores.is_blob(entry.oid) {
                    return None;
                }
                self.here.insert(entry.oid.to_owned());
            }
            return Some(());
        };
        let is_plain =
            object.kind == Kind::Blob && (entry.kind != EntryKind::Link || plain::is_plain_target(&object.content));
        self.seen.insert(object.id);
        is_plain.then_some(())
    }

    /// A tree of a parent.
    fn tree(&mut self, id: &oid) -> Option<Arc<Object>> {
        let object = match self.objects.get(id) {
            Some(object) => Arc::clone(object),
            None => self.outside(id)?,
        };
        self.read.take(object.content.len() as u64).ok()?;
        (object.kind == Kind::Tree).then_some(object)
    }

    /// An object of the repository.
    fn outside(&mut self, id: &oid) -> Option<Arc<Object>> {
        if let Some(object) = self.outside.get(id) {
            return Some(Arc::clone(object));
        }
        let object = self.stores.find(id, &mut self.held).ok()??;
        self.outside.insert(object.id, Arc::clone(&object));
        Some(object)
    }
}

/// What a tree of a parent has. It need not be plain, only readable.
fn by_name(object: &Object) -> Option<HashMap<&[u8], Entry<'_>>> {
    let entries = plain::entries(&object.content, object.id.kind())?;
    Some(entries.into_iter().map(|entry| (entry.name, entry)).collect())
}
