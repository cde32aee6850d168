//! What is legal in a difference between commits and dangerous when it is checked out: links that leave the tree, what
//! configures agents and tools, hooks, filters, submodules, names that are not what they seem. Reads trees and a few small
//! blobs, never changes anything, and judges nobody: it is a list for whoever decides.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use gix::ObjectId;
use gix::objs::tree::EntryMode;
use parler_protocol::Oid;
use serde::Serialize;

use crate::repository::{Repository, tree_of};

mod content;
mod names;

use names::HookPlace;

/// Most trees that are read.
const MOST_TREES: usize = 5_000;
/// Most entries that are looked at, in all trees together.
const MOST_ENTRIES: usize = 200_000;
/// Largest tree that is read.
const MAX_TREE_BYTES: u64 = 8 << 20; // 8 MiB
/// Longest path that is followed.
const MAX_PATH_BYTES: usize = 4 << 10; // 4 KiB
/// Most blobs that are read.
const MOST_BLOBS: usize = 1_000;
/// Most commits of what a change builds on that it is compared with.
const MOST_BASES: usize = 8;
/// Most risks that are listed.
const MOST_RISKS: usize = 200;

/// What kind of danger it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RiskKind {
    /// What coding agents read as instructions or settings.
    AgentConfiguration,
    /// What editors, build tools and CI run or are configured by.
    ToolConfiguration,
    /// A file that git may run as a hook.
    Hook,
    /// A filter, diff or merge driver that is named for files: the receiver's command runs on the sender's bytes.
    Filter,
    /// A submodule, or where one comes from.
    Submodule,
    /// A symbolic link that leads out of the tree, or into `.git`.
    Link,
    /// A name that some systems take for another one's.
    Collision,
    /// A name that some systems or terminals do not take as it is.
    OddName,
}

impl RiskKind {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::AgentConfiguration => "agent configuration",
            Self::ToolConfiguration => "tool configuration",
            Self::Hook => "hooks",
            Self::Filter => "filters",
            Self::Submodule => "submodules",
            Self::Link => "links out of the tree",
            Self::Collision => "names that fall together",
            Self::OddName => "odd names",
        }
    }
}

/// Something dangerous.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Risk {
    /// Of which kind.
    pub kind: RiskKind,
    /// Where: a file, or with `/` at its end a directory. What is not UTF-8 is replaced. Not escaped.
    pub path: String,
    /// How many new or changed files that is.
    pub files: u64,
    /// Where a link leads, where a submodule comes from, which filter, or the other name. Not escaped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The dangers in changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RiskReport {
    /// Each once, by kind and path; at most 200.
    pub risks: Vec<Risk>,
    /// How many more there are.
    pub more: u64,
    /// Whether all that is new was looked at: not where it is very much, or not all of it is here.
    pub complete: bool,
}

/// Commits, and what they build on.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// What comes. Tags stand for their commits.
    pub tips: &'a [Oid],
    /// What the receiver has: an entry that one of them has at the same path is not new.
    pub bases: &'a [Oid],
}

impl RiskReport {
    /// Looks through what these changes bring.
    pub fn of<'a>(repository: &Repository, changes: impl IntoIterator<Item = Change<'a>>) -> Self {
        let mut scan = Scan {
            local: repository.local(),
            hooks: HookPlace::of(repository),
            found: BTreeMap::new(),
            hasher: RandomState::new(),
            more: 0,
            is_complete: true,
            trees: 0,
            entries: 0,
            blobs: 0,
        };
        for change in changes {
            let bases: Vec<_> = change
                .bases
                .iter()
                .take(MOST_BASES)
                .filter_map(|oid| scan.tree_of(oid))
                .collect();
            // A branch and HEAD are often the same.
            let trees: BTreeSet<_> = change.tips.iter().filter_map(|tip| scan.tree_of(tip)).collect();
            for tree in trees {
                scan.walk(tree, &bases);
            }
        }
        Self {
            risks: scan
                .found
                .into_iter()
                .map(|(key, files)| key.into_risk(files.len() as u64))
                .collect(),
            more: scan.more,
            complete: scan.is_complete,
        }
    }

    /// Whether there is nothing to be told.
    pub fn is_clear(&self) -> bool {
        self.risks.is_empty() && self.complete
    }
}

/// What makes a risk the same as another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: RiskKind,
    path: Vec<u8>,
    detail: Option<String>,
}

impl Key {
    fn into_risk(self, files: u64) -> Risk {
        Risk {
            kind: self.kind,
            path: String::from_utf8_lossy(&self.path).into_owned(),
            files,
            detail: self.detail,
        }
    }
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    mode: EntryMode,
    id: ObjectId,
}

/// Reads what a file tells.
type Details = fn(&[u8]) -> BTreeSet<String>;

/// A directory that is looked at: where it is, what it is now, and what it was.
struct Directory {
    path: Vec<u8>,
    tree: ObjectId,
    bases: Vec<ObjectId>,
}

struct Scan {
    local: gix::Repository,
    hooks: HookPlace,
    /// Each with the files that it stands for, by the hashes of their paths: several changes may touch the same.
    found: BTreeMap<Key, HashSet<u64>>,
    hasher: RandomState,
    more: u64,
    is_complete: bool,
    trees: usize,
    entries: usize,
    blobs: usize,
}

impl Scan {
    /// The tree of a commit, or of a tag of one.
    fn tree_of(&mut self, oid: &Oid) -> Option<ObjectId> {
        let tree = tree_of(&self.local, oid);
        self.is_complete &= tree.is_some();
        tree
    }

    fn walk(&mut self, tree: ObjectId, bases: &[ObjectId]) {
        let mut left = vec![Directory {
            path: Vec::new(),
            tree,
            bases: bases.to_vec(),
        }];
        while let Some(directory) = left.pop() {
            if directory.bases.contains(&directory.tree) {
                continue;
            }
            let Some(entries) = self.read_tree(directory.tree) else {
                continue;
            };
            let known: Vec<HashMap<_, _>> = directory
                .bases
                .iter()
                .filter_map(|base| Some(self.read_tree(*base)?.into_iter().collect()))
                .collect();
            let was = |name: &Vec<u8>| {
                known
                    .iter()
                    .filter_map(|base| base.get(name).copied())
                    .collect::<Vec<Entry>>()
            };
            let mut folded: HashMap<String, (Vec<u8>, bool)> = HashMap::new();
            for (name, entry) in entries {
                let before = was(&name);
                let is_new = !before.contains(&entry);
                let path = [directory.path.as_slice(), &name].concat();
                self.look_for_collision(&mut folded, &directory.path, &name, is_new);
                if !is_new {
                    continue;
                }
                if before.is_empty() && names::is_odd(&name) {
                    self.add(RiskKind::OddName, &path, None);
                }
                if !entry.mode.is_tree() {
                    self.look_at_file(&path, entry, &before);
                } else if path.len() < MAX_PATH_BYTES {
                    let trees = before.iter().filter(|base| base.mode.is_tree());
                    left.push(Directory {
                        path: [path.as_slice(), b"/"].concat(),
                        tree: entry.id,
                        bases: trees.map(|base| base.id).collect(),
                    });
                } else {
                    self.is_complete = false;
                }
            }
        }
    }

    /// A tree's entries. None: it is not here, or too much was read already.
    fn read_tree(&mut self, id: ObjectId) -> Option<Vec<(Vec<u8>, Entry)>> {
        self.trees += 1;
        let entries = (self.trees <= MOST_TREES && self.entries <= MOST_ENTRIES)
            .then(|| self.entries_of(id))
            .flatten();
        match entries {
            Some(entries) => {
                self.entries += entries.len();
                Some(entries)
            }
            None => {
                self.is_complete = false;
                None
            }
        }
    }

    fn entries_of(&self, id: ObjectId) -> Option<Vec<(Vec<u8>, Entry)>> {
        if self.local.try_find_header(id).ok()??.size() > MAX_TREE_BYTES {
            return None;
        }
        let tree = self.local.find_tree(id).ok()?;
        tree.iter()
            .map(|entry| {
                let entry = entry.ok()?;
                let found = Entry {
                    mode: entry.mode(),
                    id: entry.object_id(),
                };
                Some((entry.filename().to_vec(), found))
            })
            .collect()
    }

    /// Two names of a directory that are one where case, or how an accent is written, does not count.
    fn look_for_collision(
        &mut self,
        folded: &mut HashMap<String, (Vec<u8>, bool)>,
        directory: &[u8],
        name: &[u8],
        is_new: bool,
    ) {
        let key = names::folded(name);
        match folded.get(&key) {
            Some((other, other_is_new)) if is_new || *other_is_new => {
                let other = String::from_utf8_lossy(other).into_owned();
                self.add(RiskKind::Collision, &[directory, name].concat(), Some(other));
            }
            Some(_) => {}
            None => _ = folded.insert(key, (name.to_vec(), is_new)),
        }
    }

    /// A file, link or submodule that is new or changed.
    fn look_at_file(&mut self, path: &[u8], entry: Entry, before: &[Entry]) {
        if entry.mode.is_commit() {
            self.add(RiskKind::Submodule, path, None);
            return;
        }
        if entry.mode.is_link() {
            let target = self.read_blob(entry.id, content::MAX_LINK_BYTES);
            match target {
                Some(target) if !content::link_leaves(path, &target) => {}
                Some(target) => {
                    let target = String::from_utf8_lossy(&target).into_owned();
                    self.add(RiskKind::Link, path, Some(target));
                }
                None => self.add(RiskKind::Link, path, None),
            }
        }
        if let Some(place) = self.hooks.holding(path) {
            self.note(RiskKind::Hook, &place, path, None);
        }
        if let Some((kind, place)) = names::configured_by(path) {
            let is_told = names::base_name(&place) != b"package.json" || self.has_new_scripts(entry, before);
            if is_told {
                self.note(kind, &place, path, None);
            }
        }
        let attributes = names::is_called(names::base_name(path), b".gitattributes");
        if attributes || names::is_called(path, b".gitmodules") {
            let (kind, of): (_, Details) = match attributes {
                true => (RiskKind::Filter, content::drivers),
                false => (RiskKind::Submodule, content::submodule_urls),
            };
            let known: BTreeSet<String> = self.contents(before).iter().flat_map(|text| of(text)).collect();
            match self.read_blob(entry.id, content::MAX_TEXT_BYTES) {
                Some(text) => {
                    for detail in of(&text).into_iter().filter(|detail| !known.contains(detail)) {
                        self.add(kind, path, Some(detail));
                    }
                }
                None => self.add(kind, path, None),
            }
        }
    }

    /// Whether the scripts of a `package.json` are others than before, or cannot be read.
    fn has_new_scripts(&mut self, entry: Entry, before: &[Entry]) -> bool {
        let known: Vec<_> = self
            .contents(before)
            .iter()
            .map(|text| content::scripts(text))
            .collect();
        let scripts = self
            .read_blob(entry.id, content::MAX_TEXT_BYTES)
            .map(|text| content::scripts(&text));
        match scripts {
            Some(Some(scripts)) => !scripts.is_empty() && !known.contains(&Some(scripts)),
            Some(None) | None => true,
        }
    }

    /// What was there, as far as it can be read.
    fn contents(&mut self, before: &[Entry]) -> Vec<Vec<u8>> {
        let blobs = before.iter().filter(|base| base.mode.is_blob());
        blobs
            .filter_map(|base| self.read_blob(base.id, content::MAX_TEXT_BYTES))
            .collect()
    }

    /// A blob of at most so many bytes.
    fn read_blob(&mut self, id: ObjectId, most: u64) -> Option<Vec<u8>> {
        self.blobs += 1;
        if self.blobs > MOST_BLOBS {
            self.is_complete = false;
            return None;
        }
        match self.local.try_find_header(id) {
            Ok(Some(header)) if header.size() <= most => {}
            Ok(Some(_)) => return None,
            _ => {
                self.is_complete = false;
                return None;
            }
        }
        let blob = self.local.find_blob(id).ok();
        self.is_complete &= blob.is_some();
        blob.map(|mut blob| blob.take_data())
    }

    fn add(&mut self, kind: RiskKind, path: &[u8], detail: Option<String>) {
        self.note(kind, path, path, detail);
    }

    /// Notes a file under the path that stands for it.
    fn note(&mut self, kind: RiskKind, path: &[u8], file: &[u8], detail: Option<String>) {
        let key = Key {
            kind,
            path: path.to_vec(),
            detail,
        };
        let file = self.hasher.hash_one(file);
        if let Some(files) = self.found.get_mut(&key) {
            files.insert(file);
        } else if self.found.len() < MOST_RISKS {
            self.found.insert(key, HashSet::from([file]));
        } else {
            self.more += 1;
        }
    }
}
