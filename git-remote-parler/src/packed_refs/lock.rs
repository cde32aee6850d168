//! Git's lock on `packed-refs`, in such a way that what a killed process leaves is known to be its own, and goes.
//!
//! The lock file is a second name of a file of ours, which is locked in the kernel as long as its process lives. So a lock
//! file that is the same file as one of ours that nobody holds belongs to nobody.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

use super::Obstacle;
use crate::held::{self, is_at, lock_unless_gone};
use crate::repository::SharedMode;

/// Our files begin so.
const PREFIX: &str = "packed-refs.parler-";
/// Between two attempts to take the lock.
const PAUSE: Duration = Duration::from_millis(10);

/// The files of this process that are there, under names of our own and as the lock. Held while one is made, given its name
/// or removed.
static THERE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn there() -> MutexGuard<'static, Vec<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every lock file of this process, which is about to end. No thread takes another one while the result lives.
pub(crate) fn remove_all() -> impl Drop {
    let mut there = there();
    // Without its other name a lock file would not be known any more.
    held::remove_last_first(&mut there);
    there
}

/// Git's lock, held by this process until it is dropped, and the file that takes the place of `packed-refs`.
#[derive(Debug)]
pub(super) struct Lock {
    packed: PathBuf,
    lock: PathBuf,
    /// Whether the lock file is this one, as far as we know.
    is_taken: bool,
    /// The lock file, under a name of our own, locked in the kernel. Removed when this is dropped.
    new: NamedTempFile,
}

impl Lock {
    /// Waits for the lock for so long, and makes an empty file of this mode under it.
    pub(super) fn take(packed: &Path, mode: SharedMode, patience: Duration) -> Result<Self, Obstacle> {
        let directory = packed.parent().unwrap_or(packed);
        let lock = packed.with_extension("lock");
        sweep(directory);
        let mut taken = {
            let mut there = there();
            let new = held::make_file(directory, PREFIX, Permissions::from_mode(0o666))?;
            there.push(new.path().to_owned());
            Self {
                packed: packed.to_owned(),
                lock,
                is_taken: false,
                new,
            }
        };
        let made = taken.file().metadata()?.permissions().mode();
        if let Some(mode) = mode.applied_to(made) {
            taken.file().set_permissions(Permissions::from_mode(mode))?;
        }
        let began = Instant::now();
        while !taken.is_taken {
            let mut there = there();
            match fs::hard_link(taken.new.path(), &taken.lock) {
                Ok(()) => {
                    there.push(taken.lock.clone());
                    taken.is_taken = true;
                }
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error.into()),
                Err(_) if began.elapsed() >= patience => {
                    let lock = taken.lock.clone();
                    return Err(Obstacle::Busy { lock });
                }
                Err(_) => {
                    drop(there);
                    std::thread::sleep(PAUSE);
                }
            }
        }
        Ok(taken)
    }

    /// The file under the lock.
    pub(super) fn file(&self) -> &File {
        self.new.as_file()
    }

    /// Puts the file in the place of `packed-refs`, which lets go of the lock at the same moment.
    pub(super) fn commit(mut self) -> io::Result<()> {
        {
            let mut there = there();
            // Somebody may have taken it for a lock that was left behind.
            if !is_at(self.file(), &self.lock)? {
                return Err(io::Error::other("the lock file packed-refs.lock was removed meanwhile"));
            }
            fs::rename(&self.lock, &self.packed)?;
            there.retain(|name| *name != self.lock);
            self.is_taken = false;
        }
        File::open(self.packed.parent().unwrap_or(&self.packed))?.sync_all()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let mut there = there();
        if self.is_taken {
            there.retain(|name| *name != self.lock);
            if matches!(is_at(self.file(), &self.lock), Ok(true)) {
                let _ = fs::remove_file(&self.lock);
            }
        }
        let _ = fs::remove_file(self.new.path());
        there.retain(|name| name != self.new.path());
    }
}

/// Removes what processes left behind that were ended while they wrote. Failures are left for the next time.
pub(crate) fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let is_ours = |name: &OsStr| name.as_bytes().starts_with(PREFIX.as_bytes());
    for entry in entries.flatten().filter(|entry| is_ours(&entry.file_name())) {
        if let Some(abandoned) = lock_unless_gone(&entry.path()) {
            let lock = directory.join("packed-refs.lock");
            if matches!(is_at(&abandoned, &lock), Ok(true)) {
                let _ = fs::remove_file(lock);
            }
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(directory: &Path) -> Result<Lock, Obstacle> {
        Lock::take(&directory.join("packed-refs"), SharedMode::default(), Duration::ZERO)
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_a_dead_process_left_goes_and_what_is_held_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let dead = path(&format!("{PREFIX}dead"));
        fs::write(&dead, "half").unwrap();
        fs::hard_link(&dead, path("packed-refs.lock")).unwrap();
        let held = take(directory.path()).unwrap();
        assert_eq!(names(directory.path()).len(), 2, "{:?}", names(directory.path()));
        sweep(directory.path());
        assert!(matches!(take(directory.path()), Err(Obstacle::Busy { .. })));
        assert_eq!(names(directory.path()).len(), 2);
        drop(held);
        assert_eq!(names(directory.path()), [""; 0]);
    }

    #[test]
    fn the_lock_of_another_program_is_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("packed-refs.lock");
        fs::write(&lock, "git's").unwrap();
        fs::write(directory.path().join(format!("{PREFIX}dead")), "half").unwrap();
        assert!(matches!(take(directory.path()), Err(Obstacle::Busy { .. })));
        assert_eq!(names(directory.path()), ["packed-refs.lock"]);

        // Removed by hand, and taken by git.
        fs::remove_file(&lock).unwrap();
        let ours = take(directory.path()).unwrap();
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, "git's").unwrap();
        assert!(ours.commit().is_err());
        assert_eq!(fs::read(&lock).unwrap(), b"git's");
        assert_eq!(names(directory.path()), ["packed-refs.lock"]);
    }
}
