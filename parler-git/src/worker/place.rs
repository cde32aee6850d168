//! Where a worker works: a directory of its own, with one for each job in it. What killed workers left there the next one
//! removes. What runs in a job's directory is not known here.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use git_remote_parler::held;
use git_remote_parler::room_cache::RoomCache;
use parler_protocol::{Fence, ServiceName};
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::home::create_private_dir;

/// How the names of workers' files begin, and their directories end.
const WORKER: &str = "worker-";
const DIRECTORY: &str = "d";

/// A worker's directory. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Yard {
    directory: PathBuf,
    above: PathBuf,
    /// Locked as long as the worker lives.
    _lock: NamedTempFile,
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
        let private = fs::Permissions::from_mode(0o600);
        let lock = held::make_file(&above, WORKER, private).map_err(failed("make a file in", &above))?;
        let directory = lock.path().with_extension(DIRECTORY);
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(failed("make", &directory))?;
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
            directory: self.directory.join(&name),
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
        RoomCache::in_directory(&self.directory.join("cache"))
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
        let path = entry.path();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let is_worker = entry.file_name().to_str().is_some_and(|name| name.starts_with(WORKER));
        if let Some(_lock) = (is_file && is_worker).then(|| held::lock_unless_gone(&path)).flatten() {
            remove(&path.with_extension(DIRECTORY));
            // Last: what is left is found again by it.
            let _ = fs::remove_file(&path);
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        remove(&self.directory);
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
        assert_eq!(left.as_slice(), std::slice::from_ref(&kept));
        assert!(kept.ends_with("test-4-7"));
    }

    #[test]
    fn what_a_killed_worker_left_is_removed_and_what_lives_is_not() {
        let above = tempfile::tempdir().unwrap();
        let alive = Yard::make(above.path()).unwrap();
        let killed = above.path().join("worker-dead");
        fs::create_dir(killed.with_extension(DIRECTORY)).unwrap();
        fs::write(&killed, "").unwrap();
        let second = Yard::make(above.path()).unwrap();
        assert!(!killed.exists() && !killed.with_extension(DIRECTORY).exists());
        assert!(alive.directory.exists() && second.directory.exists());
    }

    #[test]
    fn workers_that_begin_at_once_leave_each_other_alone() {
        let above = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let yard = Yard::make(above.path()).unwrap();
                        yard.place(&"test".parse().unwrap(), fence(1)).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
