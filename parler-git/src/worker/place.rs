//! Where a worker works: a directory of its own, with one for each job in it. What killed workers left there the next one
//! removes. What runs in a job's directory is not known here.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use git_remote_parler::room_cache::RoomCache;
use parler_protocol::{Fence, ServiceName};
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::file_lock;
use crate::home::create_private_dir;

/// How the directories of workers begin.
const WORKER: &str = "worker-";
/// The file in one that is locked as long as its worker lives.
const LOCK: &str = "in-use";

/// A worker's directory. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Yard {
    directory: TempDir,
    above: PathBuf,
    _lock: File,
}

/// A job's directory. Removed when it is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    kept: PathBuf,
}

fn failed(doing: &str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let what = format!("{doing} {}", path.display());
    move |error| Error::io(what, &error)
}

impl Yard {
    /// Makes one in this directory, which is made too.
    pub(crate) fn make(above: &Path) -> Result<Self> {
        create_private_dir(above)?;
        // What is told to other programs is no path that depends on where they stand.
        let above = above.canonicalize().map_err(failed("look at", above))?;
        sweep(&above);
        let directory = tempfile::Builder::new()
            .prefix(WORKER)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&above)
            .map_err(failed("make a directory in", &above))?;
        let lock = directory.path().join(LOCK);
        let lock = file_lock::take(&lock, std::time::Duration::ZERO).map_err(failed("lock", &lock))?;
        Ok(Self {
            directory,
            above,
            _lock: lock,
        })
    }

    /// Makes a place for a job.
    pub(super) fn place(&self, service: &ServiceName, fence: Fence) -> Result<Place> {
        let name = format!("{service}-{}-{}", fence.seq, fence.number);
        let place = Place {
            directory: self.directory.path().join(&name),
            kept: self.above.join(name),
        };
        for directory in [place.directory.clone(), place.home(), place.temporary()] {
            let made = DirBuilder::new().mode(0o700).create(&directory);
            made.map_err(failed("make", &directory))?;
        }
        Ok(place)
    }

    /// What is known of rooms, for the jobs of this worker.
    pub(super) fn cache(&self) -> RoomCache {
        RoomCache::in_directory(&self.directory.path().join("cache"))
    }
}

impl Place {
    /// Where the job's command runs.
    pub(super) fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    /// Its home.
    pub(super) fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    /// For its temporary files.
    pub(super) fn temporary(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// What it finds on its standard input.
    pub(super) fn input(&self) -> PathBuf {
        self.directory.join("job.json")
    }

    /// The repository that reads what it left.
    pub(super) fn result(&self) -> PathBuf {
        self.directory.join("result.git")
    }

    /// Leaves it for somebody to look at, and says where.
    pub(super) fn keep(&self) -> Result<PathBuf> {
        fs::rename(&self.directory, &self.kept).map_err(failed("keep", &self.directory))?;
        Ok(self.kept.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Removes a directory, whatever was done to the permissions in it. What cannot be removed the next worker tries again.
fn remove(directory: &Path) {
    if fs::remove_dir_all(directory).is_ok() || !directory.is_dir() {
        return;
    }
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        // Not behind a link: what that leads to is not ours.
        let is_directory = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if is_directory && fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).is_ok() {
            left.extend(
                fs::read_dir(&path)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path()),
            );
        }
    }
    let _ = fs::remove_dir_all(directory);
}

/// Removes what killed workers left.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let is_worker = entry.file_name().to_str().is_some_and(|name| name.starts_with(WORKER));
        // One that has no lock yet is just being made.
        let Ok(lock) = File::options().append(true).open(entry.path().join(LOCK)) else {
            continue;
        };
        if is_worker && lock.try_lock().is_ok() {
            remove(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use parler_protocol::Seq;

    use super::*;

    fn fence(seq: u64) -> Fence {
        Fence {
            seq: Seq::new(seq),
            number: 7,
        }
    }

    #[test]
    fn nothing_is_left_but_what_is_kept() {
        let above = tempfile::tempdir().unwrap();
        let service = "test".parse().unwrap();
        let yard = Yard::make(above.path()).unwrap();
        let place = yard.place(&service, fence(3)).unwrap();
        fs::create_dir_all(place.work().join("a")).unwrap();
        fs::write(place.work().join("a/b"), "x").unwrap();
        fs::set_permissions(place.work().join("a"), fs::Permissions::from_mode(0o500)).unwrap();
        drop(place);
        let kept = yard.place(&service, fence(4)).unwrap();
        let kept = kept.keep().unwrap();
        drop(yard);
        let left: Vec<_> = fs::read_dir(above.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(left, [kept.clone()]);
        assert!(kept.ends_with("test-4-7"));
    }

    #[test]
    fn what_a_killed_worker_left_is_removed_and_what_lives_is_not() {
        let above = tempfile::tempdir().unwrap();
        let alive = Yard::make(above.path()).unwrap();
        let killed = above.path().join("worker-dead");
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join(LOCK), "").unwrap();
        let other = above.path().join("worker-new");
        fs::create_dir(&other).unwrap();
        let second = Yard::make(above.path()).unwrap();
        assert!(!killed.exists() && other.exists());
        assert!(alive.directory.path().exists() && second.directory.path().exists());
    }
}
