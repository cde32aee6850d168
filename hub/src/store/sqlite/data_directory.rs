//! The directory of a hub: made for its owner only, and held by one process at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::OpenError;
use crate::directory::sync_directory;

/// Held while a process has the directory open. Its content means nothing.
const LOCK_FILE: &str = "hub.lock";
/// The database.
pub(super) const DATABASE_FILE: &str = "hub.db";

/// A data directory that this process holds until it is dropped.
#[derive(Debug)]
pub(super) struct DataDirectory {
    path: PathBuf,
    /// The kernel drops the lock with the last descriptor, so also when the process is killed.
    _lock: File,
}

impl DataDirectory {
    /// Makes the directory if need be, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source: io::Error| OpenError::Io { path, source }
        };
        make_directory(path).map_err(at(path))?;
        // A link on the way is the operator's business; below the directory none is followed, and SQLite can only
        // refuse links in the whole path.
        let path = &path.canonicalize().map_err(at(path))?;
        let lock_path = path.join(LOCK_FILE);
        let lock = make_file(&lock_path).map_err(at(&lock_path))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(OpenError::InUse(path.to_owned())),
            Err(error) => return Err(at(&lock_path)(error.into())),
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// The directory's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The database's path.
    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }
}

/// A data directory that nobody else opens until this is dropped.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    /// The kernel drops the lock with the last descriptor.
    _file: Option<File>,
}

/// Locks a directory unless a process has it open, and makes nothing there. One that no hub ever had open, such as a copy,
/// has nothing to lock.
pub(super) fn lock_if_free(path: &Path) -> Result<Option<DirectoryLock>, OpenError> {
    let lock_path = path.join(LOCK_FILE);
    let at = |error: Errno| OpenError::Io {
        path: lock_path.clone(),
        source: error.into(),
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&lock_path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(Some(DirectoryLock { _file: None })),
        Err(error) => return Err(at(error)),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(DirectoryLock { _file: Some(file) })),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(at(error)),
    }
}

/// Makes what is missing of the path, each with its entry on disk before anything is put into it.
fn make_directory(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    make_directory(parent)?;
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    sync_directory(parent)
}

/// Opens a file that only its owner can read, made if need be and never through a link.
pub(super) fn make_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}
