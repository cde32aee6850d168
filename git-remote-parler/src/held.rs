//! Files and directories of ours where others work too: each is locked as long as a process of ours uses it, so what nobody
//! holds was left by one that was killed, and is removed by the next.

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// How often a new one is made that another process takes for one that was left, at the very moment it is made.
pub(crate) const ATTEMPTS: u32 = 32;

/// Makes an empty file whose name begins so, held until it is closed. Dropping it before it has another name removes it.
///
/// # Errors
/// When the directory takes no file.
pub fn make_file(directory: &Path, prefix: &str, permissions: Permissions) -> io::Result<NamedTempFile> {
    for _ in 0..ATTEMPTS {
        let file = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(permissions.clone())
            .tempfile_in(directory)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // A sweep is about to remove it.
            Err(Errno::WOULDBLOCK) => {}
            Ok(()) if !is_at(file.as_file(), file.path())? => {}
            // Where files cannot be locked, no sweep can lock it either.
            Ok(()) | Err(_) => return Ok(file),
        }
    }
    Err(io::Error::other("a file vanishes as soon as it is made"))
}

/// Removes files of a process that is about to end, the last first. A lock is removed only where it is a second name of
/// another of them: somebody may have taken it for one that was left, and hold one of his own there.
pub(crate) fn remove_last_first(names: &mut Vec<PathBuf>) {
    let is_lock = |name: &Path| name.extension().is_some_and(|extension| extension == "lock");
    let file = |name: &Path| fs::symlink_metadata(name).ok().map(|found| (found.dev(), found.ino()));
    let own: HashSet<(u64, u64)> = names
        .iter()
        .filter(|name| !is_lock(name))
        .filter_map(|name| file(name))
        .collect();
    for name in names.drain(..).rev() {
        if !is_lock(&name) || file(&name).is_some_and(|found| own.contains(&found)) {
            let _ = fs::remove_file(name);
        }
    }
}

/// Whether that is what the path names.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok((held.ino(), held.dev()) == (named.ino(), named.dev())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a file or directory to read it, whatever somebody put there: a pipe keeps nobody waiting, and a link leads nowhere.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY)
}

fn open(path: &Path, access: OFlags) -> io::Result<File> {
    let flags = access | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Removes files of a directory whose names begin so and which nobody holds. Failures are left for the next time.
pub(crate) fn sweep_files(directory: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if entry.file_name().as_bytes().starts_with(prefix.as_bytes()) && is_file() {
            remove_file_unless_held(&entry.path());
        }
    }
}

/// Removes a file that nobody holds. A failure is left for the next time.
pub fn remove_file_unless_held(path: &Path) {
    // Held until it is gone: whoever made it just now must not take it for its own in between.
    if let Some(_lock) = lock_unless_gone(path) {
        let _ = fs::remove_file(path);
    }
}

/// Locks a file or directory that nobody else holds, if it is still the one of that name once it is locked.
pub fn lock_unless_gone(path: &Path) -> Option<File> {
    // NFS locks no file that is open for reading alone.
    let file = open(path, OFlags::RDWR).or_else(|_| open_without_waiting(path)).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_at(&file, path).ok()?.then_some(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// Files that are made while sweeps go on.
    const FILES: usize = 500;

    #[test]
    fn who_ends_removes_no_lock_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mut names = ["claim", "ours.lock", "taken.lock"].map(path).to_vec();
        fs::write(&names[0], "").unwrap();
        fs::hard_link(&names[0], &names[1]).unwrap();
        fs::write(&names[2], "").unwrap();
        remove_last_first(&mut names);
        assert_eq!(
            ["claim", "ours.lock", "taken.lock"].map(|name| path(name).exists()),
            [false, false, true]
        );
    }

    #[test]
    fn no_sweep_takes_a_file_that_is_just_made() {
        let directory = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        sweep_files(directory.path(), "new-");
                    }
                });
            }
            let made: Vec<_> = (0..FILES)
                .map(|number| {
                    let file = make_file(directory.path(), "new-", Permissions::from_mode(0o600));
                    file.and_then(|file| fs::hard_link(file.path(), directory.path().join(number.to_string())))
                })
                .collect();
            is_over.store(true, Ordering::Relaxed);
            for (number, made) in made.into_iter().enumerate() {
                made.unwrap_or_else(|error| panic!("file {number}: {error}"));
            }
        });
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), FILES);
    }
}
