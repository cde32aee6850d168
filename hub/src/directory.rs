//! A directory's entries, brought to the disk. What is in the files is their writers' to sync.

use std::fs::File;
use std::io;
use std::path::Path;

/// Returns when the names in this directory will be there after power loss. Goes through the C library, as SQLite does
/// and all else that a promise rests on: there a test sees in which order it happens.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
