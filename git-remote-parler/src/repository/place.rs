//! What a commit's tree has where somebody names a place in it: whether there is such a file, how many lines it has, and what
//! one of them says. Reads the tree and the file, and nothing of the work tree.

use std::num::NonZeroU32;

use gix::bstr::ByteSlice;
use parler_protocol::{Oid, TreePath};

use super::{Repository, tree_of};

/// Larger files are not read: how many lines they have is not known.
const MAX_BLOB_BYTES: u64 = 8 << 20; // 8 MiB

/// What a path means in a commit's tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Nothing of that name is there.
    Nowhere,
    /// A file. None where it cannot be read here, as in a clone that left the file out.
    File(Option<Lines>),
    /// A directory or another repository, which have no lines.
    NoFile,
    /// The tree is not here, so that nobody can tell.
    Unknown,
}

/// What is known of a file's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// How many there are; the last one counts without a newline behind it, too.
    pub count: u64,
    /// What the line that was asked for says, if there is that one.
    pub asked: Option<String>,
}

/// The places of one commit. Remembers the file that was asked for last: whoever asks for many asks for those of a file
/// together.
pub struct Places<'r> {
    repository: &'r Repository,
    commit: Oid,
    last: Option<(TreePath, Found)>,
}

enum Found {
    Nothing(Place),
    /// With how many lines it has.
    Content(Vec<u8>, u64),
}

impl Repository {
    /// The places of a commit.
    pub fn places(&self, commit: &Oid) -> Places<'_> {
        Places {
            repository: self,
            commit: *commit,
            last: None,
        }
    }
}

impl Places<'_> {
    /// What a path means, and what a line of it says.
    pub fn place(&mut self, path: &TreePath, line: Option<NonZeroU32>) -> Place {
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            self.last = Some((path.clone(), find(self.repository, &self.commit, path)));
        }
        match &self.last {
            Some((_, Found::Content(content, count))) => {
                let number = line.map(|line| line.get() as usize - 1);
                let asked = number.and_then(|number| content.as_bstr().lines().nth(number));
                Place::File(Some(Lines {
                    count: *count,
                    asked: asked.map(|line| line.to_str_lossy().into_owned()),
                }))
            }
            Some((_, Found::Nothing(place))) => place.clone(),
            None => Place::Unknown,
        }
    }
}

fn find(repository: &Repository, commit: &Oid, path: &TreePath) -> Found {
    let local = repository.local();
    let Some(mut tree) = tree_of(&local, commit) else {
        return Found::Nothing(Place::Unknown);
    };
    let mut components = path.as_str().split('/').peekable();
    while let Some(component) = components.next() {
        let Ok(read) = local.find_tree(tree) else {
            return Found::Nothing(Place::Unknown);
        };
        let is_it = |entry: &gix::object::tree::EntryRef<'_, '_>| entry.filename() == component.as_bytes();
        let entry = match read.iter().find(|entry| entry.as_ref().map_or(true, is_it)) {
            Some(Ok(entry)) => entry,
            Some(Err(_)) => return Found::Nothing(Place::Unknown),
            None => return Found::Nothing(Place::Nowhere),
        };
        let (id, mode) = (entry.object_id(), entry.mode());
        match components.peek() {
            Some(_) if mode.is_tree() => tree = id,
            Some(_) => return Found::Nothing(Place::Nowhere),
            None if mode.is_blob_or_symlink() => {
                return match content(&local, id) {
                    Some(content) => {
                        let count = content.as_bstr().lines().count() as u64;
                        Found::Content(content, count)
                    }
                    None => Found::Nothing(Place::File(None)),
                };
            }
            None => return Found::Nothing(Place::NoFile),
        }
    }
    Found::Nothing(Place::Nowhere)
}

fn content(local: &gix::Repository, blob: gix::ObjectId) -> Option<Vec<u8>> {
    let size = local.find_header(blob).ok()?.size();
    if size > MAX_BLOB_BYTES {
        return None;
    }
    local.find_blob(blob).ok().map(|mut blob| blob.take_data())
}
