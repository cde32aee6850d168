//! A directory's entries, brought to the disk. What is in the files is their writers' to sync.

use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Returns when the names in this directory will be there after power loss.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::fsync(rustix::fs::open(path, flags, Mode::empty())?)?;
    Ok(())
}
