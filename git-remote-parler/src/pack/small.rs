//! The pack of a small push, made without git: commits on what the receiver has, and what they change. Says yes with a
//! pack, or nothing; what it does not know is for git to pack, whatever it is.
//!
//! An ordinary commit differs from its parent in a few entries. So its trees are read beside those of its parents, and
//! what these have is left out: parents come first, so what they have is with the receiver or in this pack by then. Of
//! everything that is read the hash is compared, for a pack that is made of damaged objects is a damaged pack.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gix::ObjectId;
use gix::hash::oid;
use gix::objs::commit::ref_iter::Token;
use gix::objs::{CommitRefIter, Find, FindHeader, Kind, TagRefIter, TreeRefIter};

use super::entries::{Budget, PackFlaw};
use super::large::LargeFile;
use super::resolve::Object;
use super::write::{PackWriter, Place};
use crate::bundle::BundleHeader;
use crate::repository::{Repository, kind_of, to_gix};

/// Most commits that are new.
const MOST_COMMITS: usize = 32;
/// Most commits that receivers are expected to have.
const MOST_PREREQUISITES: usize = 8;
/// Most objects in a pack.
const MOST_OBJECTS: usize = 256;
/// How many bytes of objects are read in all, with those that others are differences to.
const READ_BYTES: u64 = 1 << 20; // 1 MiB
/// How large the root trees of all new commits may be together. There are more trees, and what is in them: where these are
/// large, the others do not find room either.
const ROOT_BYTES: u64 = READ_BYTES / 4;
/// How many trees another may be compared with.
const MOST_BESIDE: usize = 8;
/// How deep a tree may lie in others, or a tag on others.
const MOST_DEPTH: usize = 64;

/// Settings that tell git how to pack. Whoever has one of these wants git's pack.
const SETTINGS: [&str; 2] = ["core.bigFileThreshold", "core.compression"];
/// The section of the others.
const SECTION: &str = "pack";

/// A pack with everything that its tips reach and its prerequisites do not.
pub(super) struct SmallPack {
    pub(super) bytes: Vec<u8>,
    pub(super) objects: u32,
}

/// The pack that this header announces, where this many `commits` are new and all is as it is in an ordinary push.
pub(super) fn pack(repository: &Repository, header: &BundleHeader, commits: u64) -> Option<SmallPack> {
    if header.prerequisites.is_empty() {
        // git finds what is alike in all of a history.
        return None;
    }
    news(repository, header, commits, None)?.written().ok()
}

/// What is new, where it is little. Files from a size on are not read, and given apart.
pub(super) fn news(
    repository: &Repository,
    header: &BundleHeader,
    commits: u64,
    large_from: Option<u64>,
) -> Option<Listing> {
    if !is_ordinary(repository, header, commits) {
        return None;
    }
    let local = repository.local();
    let mut news = News::new(&local.objects, header, large_from);
    news.collect(header, commits)?;
    Some(Listing {
        hash: news.hash,
        listed: news.listed,
        large: news.large,
    })
}

/// The objects for a pack.
pub(super) struct Listing {
    hash: gix::hash::Kind,
    listed: Vec<Listed>,
    large: Vec<LargeFile>,
}

impl Listing {
    fn written(self) -> Result<SmallPack, PackFlaw> {
        let pack = self.pack()?;
        let objects = pack.objects();
        Ok(SmallPack {
            bytes: pack.finish()?,
            objects,
        })
    }

    /// The pack as far as the large files, how many objects it has with these, and these.
    pub(super) fn beginning(self) -> Result<(Vec<u8>, u32, Vec<LargeFile>), PackFlaw> {
        let pack = self.pack()?;
        let more = u32::try_from(self.large.len()).map_err(|_| PackFlaw::TooLarge)?;
        let (bytes, objects) = pack.beginning(more);
        Ok((bytes, objects, self.large))
    }

    fn pack(&self) -> Result<PackWriter, PackFlaw> {
        let own: HashSet<ObjectId> = self.listed.iter().map(|listed| listed.object.id).collect();
        let mut pack = PackWriter::new(self.hash);
        for Listed { object, bases } in &self.listed {
            let place = |id| match own.contains(id) {
                true => Place::Pack,
                false => Place::Receiver,
            };
            pack.add(object, bases.iter().map(|base| (&**base, place(&base.id))))?;
        }
        Ok(pack)
    }
}

/// Whether git would do nothing else than usually: what it would do otherwise it does itself.
fn is_ordinary(repository: &Repository, header: &BundleHeader, commits: u64) -> bool {
    let is_small = commits <= MOST_COMMITS as u64 && header.prerequisites.len() <= MOST_PREREQUISITES;
    // Where gix does not see what git sees, where history is cut, and where objects may be missing on purpose.
    let is_whole = || !repository.asks_git() && !repository.is_shallow() && matches!(repository.promisor(), Ok(None));
    let is_set = |key: &&str| !matches!(repository.config_string(key), Ok(None));
    let is_usual = || !SETTINGS.iter().any(is_set) && matches!(repository.config_has_section(SECTION), Ok(false));
    is_small && header.object_format == repository.object_format() && is_whole() && is_usual()
}

/// What an entry of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum EntryKind {
    /// Or a symbolic link.
    File,
    Tree,
    /// A commit of another repository.
    Submodule,
}

/// An entry of a tree.
#[derive(Debug, Clone, Copy)]
struct Entry<'t> {
    kind: EntryKind,
    name: &'t [u8],
    oid: &'t oid,
}

/// An object for the pack, and what may be alike.
struct Listed {
    object: Arc<Object>,
    bases: Vec<Arc<Object>>,
}

/// A tree that may be new, where it lies, and what its parents have there.
struct Waiting {
    tree: ObjectId,
    depth: usize,
    beside: Vec<ObjectId>,
}

/// A file that may be new, and what its parents have in its place.
struct File {
    id: ObjectId,
    beside: Vec<ObjectId>,
}

/// A new commit, as far as it is followed.
struct NewCommit {
    object: Arc<Object>,
    tree: ObjectId,
    parents: Vec<ObjectId>,
}

/// On the way through history.
enum Step {
    /// To this commit, and before it to its parents.
    To(ObjectId),
    /// Back from them, to the commit.
    Back(NewCommit),
}

/// What is to be sent, while it is looked for.
struct News<'o, S> {
    objects: &'o S,
    hash: gix::hash::Kind,
    prerequisites: HashSet<ObjectId>,
    /// What was read.
    read: HashMap<ObjectId, Arc<Object>>,
    left: Budget,
    /// What is with the receiver or in the list: of a tree also all that is in it, once nothing waits any more.
    accounted: HashSet<(EntryKind, ObjectId)>,
    listed: Vec<Listed>,
    /// Files of this size are large, if any are.
    large_from: Option<u64>,
    large: Vec<LargeFile>,
}

impl<'o, S: Find + FindHeader> News<'o, S> {
    fn new(objects: &'o S, header: &BundleHeader, large_from: Option<u64>) -> Self {
        Self {
            objects,
            hash: kind_of(header.object_format),
            prerequisites: header.prerequisites.iter().map(to_gix).collect(),
            read: HashMap::new(),
            left: Budget::of(READ_BYTES),
            accounted: HashSet::new(),
            listed: Vec::new(),
            large_from,
            large: Vec::new(),
        }
    }

    fn collect(&mut self, header: &BundleHeader, commits: u64) -> Option<()> {
        let mut bases = Vec::new();
        for oid in &header.prerequisites {
            let tree = self.commit(&to_gix(oid))?.tree;
            self.accounted.insert((EntryKind::Tree, tree));
            bases.push(tree);
        }
        let mut tips = Vec::new();
        for tip in &header.refs {
            tips.push(self.peeled(to_gix(&tip.oid))?);
        }
        let tags = std::mem::take(&mut self.listed);
        let new = self.parents_first(&tips)?;
        // Where a walk comes to more, it went past what the receiver has.
        if new.len() as u64 != commits {
            return None;
        }
        if let Some(last) = new.last()
            && self.objects.try_header(&last.tree).ok()??.size > ROOT_BYTES / commits
        {
            return None;
        }
        let trees: HashMap<ObjectId, ObjectId> = new.iter().map(|commit| (commit.object.id, commit.tree)).collect();
        for commit in &new {
            let bases = commit.parents.iter().filter_map(|parent| self.read.get(parent));
            let bases = bases
                .filter(|parent| trees.contains_key(&parent.id))
                .map(Arc::clone)
                .collect();
            let object = Arc::clone(&commit.object);
            self.list(Listed { object, bases })?;
        }
        for tag in tags {
            self.list(tag)?;
        }
        let mut files = Vec::new();
        for commit in &new {
            let mut beside = Vec::new();
            for parent in &commit.parents {
                beside.push(match trees.get(parent) {
                    Some(tree) => *tree,
                    None => self.commit(parent)?.tree,
                });
            }
            beside.extend_from_slice(&bases);
            // In their order, since a parent is most alike.
            let mut seen = HashSet::new();
            beside.retain(|tree| seen.insert(*tree));
            beside.truncate(MOST_BESIDE);
            files.extend(self.trees(commit.tree, beside)?);
            if files.len() > MOST_OBJECTS {
                return None;
            }
        }
        self.files(files)
    }

    /// What a tip is or leads to, which has to be a commit. Tags on the way to it are listed.
    fn peeled(&mut self, tip: ObjectId) -> Option<ObjectId> {
        let mut id = tip;
        for _ in 0..MOST_DEPTH {
            let object = self.object(&id)?;
            if object.kind != Kind::Tag {
                return Some(id);
            }
            id = TagRefIter::from_bytes(&object.content, self.hash).target_id().ok()?;
            if !self.listed.iter().any(|tag| tag.object.id == object.id) {
                let bases = Vec::new();
                self.list(Listed { object, bases })?;
            }
        }
        None
    }

    /// The new commits, each behind its parents. These are new too, or prerequisites.
    fn parents_first(&mut self, tips: &[ObjectId]) -> Option<Vec<NewCommit>> {
        let mut parents_first = Vec::new();
        let mut seen = HashSet::new();
        let mut waiting: Vec<Step> = tips.iter().rev().copied().map(Step::To).collect();
        while let Some(step) = waiting.pop() {
            let id = match step {
                Step::To(id) => id,
                Step::Back(commit) => {
                    parents_first.push(commit);
                    continue;
                }
            };
            if self.prerequisites.contains(&id) || !seen.insert(id) {
                continue;
            }
            let commit = self.commit(&id)?;
            // A history of its own, beside what the receiver has, builds on nothing.
            let is_apart = commit.parents.is_empty() && !self.prerequisites.is_empty();
            if seen.len() > MOST_COMMITS || is_apart {
                return None;
            }
            let parents = commit.parents.clone();
            waiting.push(Step::Back(commit));
            waiting.extend(parents.into_iter().map(Step::To));
        }
        Some(parents_first)
    }

    fn commit(&mut self, id: &oid) -> Option<NewCommit> {
        let object = self.object(id).filter(|object| object.kind == Kind::Commit)?;
        let mut tree = None;
        let mut parents = Vec::new();
        for token in CommitRefIter::from_bytes(&object.content, self.hash) {
            match token.ok()? {
                Token::Tree { id } => tree = Some(id),
                Token::Parent { id } => parents.push(id),
                _ => break,
            }
        }
        let tree = tree?;
        Some(NewCommit { object, tree, parents })
    }

    /// Lists the trees that are new of a commit's, beside those of its parents. Gives the files that are new in them.
    fn trees(&mut self, root: ObjectId, beside: Vec<ObjectId>) -> Option<Vec<File>> {
        let mut waiting = vec![Waiting {
            tree: root,
            depth: 0,
            beside,
        }];
        // What its parents do not have in this place they may have in another, which is seen when all others were read.
        let (mut alone, mut files) = (Vec::new(), Vec::new());
        while let Some(next) = waiting.pop().or_else(|| alone.pop()) {
            let Waiting { tree, depth, beside } = next;
            if beside.contains(&tree) || self.accounted.contains(&(EntryKind::Tree, tree)) {
                continue;
            }
            let theirs = beside.iter().map(|id| self.tree(id)).collect::<Option<Vec<_>>>()?;
            let object = self.tree(&tree).filter(|_| depth < MOST_DEPTH)?;
            self.accounted.insert((EntryKind::Tree, tree));
            let of_theirs = theirs.iter().map(|tree| entries(tree)).collect::<Option<Vec<_>>>()?;
            let mut names: HashMap<&[u8], Vec<Entry<'_>>> = HashMap::new();
            for entry in of_theirs.into_iter().flatten() {
                self.accounted.insert((entry.kind, entry.oid.to_owned()));
                names.entry(entry.name).or_default().push(entry);
            }
            for entry in entries(&object)? {
                let id = entry.oid.to_owned();
                if entry.kind == EntryKind::Submodule || self.accounted.contains(&(entry.kind, id)) {
                    continue;
                }
                let alike = names.get(entry.name).map(Vec::as_slice).unwrap_or_default();
                let alike = alike.iter().filter(|other| other.kind == entry.kind);
                let mut beside: Vec<ObjectId> = Vec::new();
                for other in alike {
                    if !beside.iter().any(|known| *known == other.oid) {
                        beside.push(other.oid.to_owned());
                    }
                }
                match entry.kind {
                    EntryKind::Tree => {
                        let list = if beside.is_empty() { &mut alone } else { &mut waiting };
                        let depth = depth + 1;
                        list.push(Waiting {
                            tree: id,
                            depth,
                            beside,
                        });
                    }
                    _ => files.push(File { id, beside }),
                }
            }
            self.list(Listed { object, bases: theirs })?;
        }
        files.retain(|file| self.accounted.insert((EntryKind::File, file.id)));
        Some(files)
    }

    /// Lists the files, if there is room for all of them and for what they are differences to.
    fn files(&mut self, mut files: Vec<File>) -> Option<()> {
        // Looked at one by one they would take long.
        if self.listed.len() + files.len() > MOST_OBJECTS {
            return None;
        }
        if let Some(from) = self.large_from {
            let mut small = Vec::new();
            for file in files {
                let size = self.objects.try_header(&file.id).ok()??.size;
                match size >= from {
                    true => self.large.push(LargeFile { id: file.id, size }),
                    false => small.push(file),
                }
            }
            files = small;
        }
        let mut room = self.left;
        let all = files.iter().flat_map(|file| file.beside.iter().chain([&file.id]));
        for id in all.collect::<HashSet<_>>() {
            room.take(self.objects.try_header(id).ok()??.size).ok()?;
        }
        for File { id, beside } in files {
            let bases = beside.iter().map(|id| self.file(id)).collect::<Option<Vec<_>>>()?;
            let object = self.file(&id)?;
            self.list(Listed { object, bases })?;
        }
        Some(())
    }

    fn list(&mut self, listed: Listed) -> Option<()> {
        self.listed.push(listed);
        (self.listed.len() + self.large.len() <= MOST_OBJECTS).then_some(())
    }

    fn tree(&mut self, id: &oid) -> Option<Arc<Object>> {
        self.object(id).filter(|object| object.kind == Kind::Tree)
    }

    fn file(&mut self, id: &oid) -> Option<Arc<Object>> {
        self.object(id).filter(|object| object.kind == Kind::Blob)
    }

    /// An object of the repository, if it is there, whole, and there is room for it.
    fn object(&mut self, id: &oid) -> Option<Arc<Object>> {
        if let Some(object) = self.read.get(id) {
            return Some(Arc::clone(object));
        }
        // Its size first: one that is too large must not be read.
        let header = self.objects.try_header(id).ok()??;
        self.left.take(header.size).ok()?;
        let mut content = Vec::new();
        let found = self.objects.try_find(id, &mut content).ok()??;
        let (kind, length) = (found.kind, found.data.len());
        content.truncate(length);
        let hashed = gix::objs::compute_hash(self.hash, kind, &content).ok()?;
        let object = Arc::new(Object {
            id: hashed,
            kind,
            content,
        });
        if hashed != id {
            return None;
        }
        self.read.insert(hashed, Arc::clone(&object));
        Some(object)
    }
}

/// The entries of a tree, in its order; none where one is of no kind that git writes.
fn entries(tree: &Object) -> Option<Vec<Entry<'_>>> {
    let entries = TreeRefIter::from_bytes(&tree.content, tree.id.kind());
    let entries = entries.map(|entry| {
        let entry = entry.ok()?;
        let mode = entry.mode;
        // The library takes 140000 for a tree, and git for a submodule; and it does not tell that from 040000.
        if mode.is_tree() && *mode.as_bytes(&mut [0; 6]) != *b"40000" {
            return None;
        }
        let kind = match (mode.is_tree(), mode.is_commit(), mode.is_blob() || mode.is_link()) {
            (true, ..) => EntryKind::Tree,
            (_, true, _) => EntryKind::Submodule,
            (.., true) => EntryKind::File,
            _ => return None,
        };
        Some(Entry {
            kind,
            name: entry.filename,
            oid: entry.oid,
        })
    });
    entries.collect()
}
