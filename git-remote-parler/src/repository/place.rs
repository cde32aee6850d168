//! Whether a commit's tree has a file, and how many lines that has: for whoever names a place in it. Reads the tree and the
//! file, and nothing of the work tree.

use gix::bstr::ByteSlice;
use parler_protocol::{Oid, TreePath};

use super::{Repository, tree_of};

/// Larger files are not read: how many lines they have is not known.
const MAX_BLOB_BYTES: u64 = 64 << 20; // 64 MiB

/// What a path means in a commit's tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Nothing of that name is there.
    Nowhere,
    /// A file of so many lines; the last one counts without a newline behind it, too. None where they cannot be counted
    /// here, as in a clone that left the file out.
    File(Option<u64>),
    /// A directory or another repository, which have no lines.
    NoFile,
    /// The tree is not here, so that nobody can tell.
    Unknown,
}

impl Repository {
    /// What a path means in a commit's tree.
    pub fn place(&self, commit: &Oid, path: &TreePath) -> Place {
        let local = self.local();
        let Some(mut tree) = tree_of(&local, commit) else {
            return Place::Unknown;
        };
        let mut components = path.as_str().split('/').peekable();
        while let Some(component) = components.next() {
            let Some(Ok(read)) = local.find_object(tree).ok().map(gix::Object::try_into_tree) else {
                return Place::Unknown;
            };
            let is_it = |entry: &gix::object::tree::EntryRef<'_, '_>| entry.filename() == component.as_bytes();
            let entry = match read.iter().find(|entry| entry.as_ref().map_or(true, is_it)) {
                Some(Ok(entry)) => entry,
                Some(Err(_)) => return Place::Unknown,
                None => return Place::Nowhere,
            };
            let (id, mode) = (entry.object_id(), entry.mode());
            match components.peek() {
                Some(_) if mode.is_tree() => tree = id,
                Some(_) => return Place::Nowhere,
                None if mode.is_blob_or_symlink() => return Place::File(lines(&local, id)),
                None => return Place::NoFile,
            }
        }
        Place::Nowhere
    }
}

fn lines(local: &gix::Repository, blob: gix::ObjectId) -> Option<u64> {
    let size = local.find_header(blob).ok()?.size();
    if size > MAX_BLOB_BYTES {
        return None;
    }
    let object = local.find_object(blob).ok()?;
    Some(object.data.as_bstr().lines().count() as u64)
}
