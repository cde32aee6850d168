//! Where a worker works: a directory of its own, with one for each job in it. What killed workers left there the next one
//! removes. What runs in a job's directory is not known here.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use git_remote_parler::held;
use git_remote_parler::room_cache::RoomCache;
use parler_protocol::{Fence, ServiceName};
use rustix::process::geteuid;
use tempfile::{NamedTempFile, TempDir};

use crate::error::{Error, ErrorKind, Result};
use crate::home::create_private_dir;

/// How the names of workers' files begin, and their directories end.
const WORKER: &str = "worker-";
const DIRECTORY: &str = "d";
/// How many characters of chance follow.
const CHANCE: usize = 6;
/// How often a name is looked for under which a job's directory stays.
const MOST_KEPT: u32 = 1000;

/// A worker's directory. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Yard {
    directory: PathBuf,
    above: PathBuf,
    /// Locked as long as the worker lives.
    lock: NamedTempFile,
    left: Vec<PathBuf>,
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
    /// Makes one in this directory, which is made too, and is this user's alone.
    pub(crate) fn make(above: &Path) -> Result<Self> {
        create_private_dir(above)?;
        require_own(above)?;
        // What is told to other programs is no path that depends on where they stand.
        let above = above.canonicalize().map_err(failed("look at", above))?;
        if above.to_str().is_none() {
            // A job is told its directory as JSON.
            return Err(Error::usage(format_args!(
                "{} is not UTF-8, and jobs need that",
                above.display()
            )));
        }
        let left = sweep(&above);
        let private = fs::Permissions::from_mode(0o600);
        let lock = held::make_file(&above, WORKER, private).map_err(failed("make a file in", &above))?;
        let directory = lock.path().with_extension(DIRECTORY);
        let made = DirBuilder::new().mode(0o700).create(&directory);
        made.map_err(failed("make", &directory))?;
        Ok(Self {
            directory,
            above,
            lock,
            left,
        })
    }

    /// What workers before this one left and this one cannot remove.
    pub(crate) fn left(&self) -> &[PathBuf] {
        &self.left
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

    /// Makes a directory for the repository that reads what a job left: beside those of the jobs, under a name that no
    /// command can know, so that nothing is prepared in it.
    pub(super) fn result(&self) -> Result<TempDir> {
        let made = tempfile::Builder::new().prefix("result-").tempdir_in(&self.directory);
        made.map_err(failed("make a directory in", &self.directory))
    }

    /// What is known of rooms, for the jobs of this worker.
    pub(super) fn cache(&self) -> RoomCache {
        RoomCache::in_directory(&self.directory.join("cache"))
    }
}

impl Place {
    /// All of it.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// A text for others, without where on this machine it is.
    pub(super) fn without(&self, text: &str) -> String {
        let worker = self.directory.parent().unwrap_or(&self.directory);
        let places = [
            (&*self.work(), "work"),
            (&*self.home(), "home"),
            (&*self.temporary(), "tmp"),
            (&*self.directory, "job"),
            (worker, "worker"),
        ];
        let text = text.to_owned();
        places.into_iter().fold(text, |text, (place, name)| {
            text.replace(&*place.to_string_lossy(), name)
        })
    }

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

    /// Leaves it for somebody to look at, and says where. Where something has the name, under the next one.
    pub(super) fn keep(&self) -> Result<PathBuf> {
        let mut kept = self.kept.clone();
        for number in 2..=MOST_KEPT {
            match DirBuilder::new().mode(0o700).create(&kept) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    kept.clone_from(&self.kept);
                    kept.as_mut_os_string().push(format!("-{number}"));
                }
                Err(error) => return Err(failed("make", &kept)(error)),
                Ok(()) => break,
            }
        }
        // Takes the place of a directory that is empty, and of nothing else.
        fs::rename(&self.directory, &kept).map_err(failed("keep", &self.directory))?;
        Ok(kept)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Refuses a directory in which somebody else could put things, and closes one that others may look into.
fn require_own(directory: &Path) -> Result<()> {
    let meta = directory.symlink_metadata().map_err(failed("look at", directory))?;
    let refused = |what: &str| {
        let what = format!("jobs are not worked on in {}: {what}", directory.display());
        Err(Error::new(ErrorKind::Refused, what).then("name another directory with --workdir"))
    };
    if !meta.is_dir() {
        return refused("it is a link");
    }
    if meta.uid() != geteuid().as_raw() {
        return refused("it is somebody else's");
    }
    if meta.mode() & 0o077 != 0 {
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(directory, private).map_err(failed("close", directory))?;
    }
    Ok(())
}

/// Removes a directory, whatever was done to the permissions in it, and says whether it is gone.
fn remove(directory: &Path) -> bool {
    let is_gone = || {
        directory
            .symlink_metadata()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    };
    if fs::remove_dir_all(directory).is_ok() || is_gone() {
        return true;
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
    fs::remove_dir_all(directory).is_ok() || is_gone()
}

/// Removes what killed workers left. Gives what cannot be removed.
fn sweep(above: &Path) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let path = entry.path();
        if let Some(_lock) = is_lock(&path).then(|| held::lock_unless_gone(&path)).flatten() {
            let directory = path.with_extension(DIRECTORY);
            if remove(&directory) {
                // Last: what is left is found again by it.
                let _ = fs::remove_file(&path);
            } else {
                left.push(directory);
            }
        }
    }
    left
}

/// Whether a worker made that to have its directory known: whoever named a file of theirs so, it has something in it.
fn is_lock(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let chance = name.and_then(|name| name.strip_prefix(WORKER));
    let is_name =
        chance.is_some_and(|chance| chance.len() == CHANCE && chance.bytes().all(|b| b.is_ascii_alphanumeric()));
    is_name
        && path
            .symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() == 0 && meta.uid() == geteuid().as_raw())
}

impl Drop for Yard {
    fn drop(&mut self) {
        if !remove(&self.directory) {
            // The next worker finds it by this, and says so if it cannot remove it either.
            self.lock.disable_cleanup(true);
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
        assert_eq!(left.as_slice(), std::slice::from_ref(&kept));
        assert!(kept.ends_with("test-4-7"));
    }

    #[test]
    fn what_a_killed_worker_left_is_removed_and_what_lives_is_not() {
        let above = tempfile::tempdir().unwrap();
        let alive = Yard::make(above.path()).unwrap();
        let killed = above.path().join("worker-a1B2c3");
        fs::create_dir(killed.with_extension(DIRECTORY)).unwrap();
        fs::write(&killed, "").unwrap();
        let second = Yard::make(above.path()).unwrap();
        assert!(!killed.exists() && !killed.with_extension(DIRECTORY).exists());
        assert!(alive.directory.exists() && second.directory.exists());
    }

    #[test]
    fn what_only_looks_like_a_workers_is_left_alone() {
        let above = tempfile::tempdir().unwrap();
        let names = ["worker-notes.txt", "worker-pool.rs", "worker-abcdef"];
        for name in names {
            fs::write(above.path().join(name), "mine").unwrap();
        }
        fs::write(above.path().join("worker-empty"), "").unwrap();
        for name in ["worker-notes.d", "worker-abcdef.d", "worker-empty.d"] {
            fs::create_dir(above.path().join(name)).unwrap();
        }
        drop(Yard::make(above.path()).unwrap());
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 7);
    }

    #[test]
    fn a_link_or_a_place_of_others_is_refused_and_an_open_one_closed() {
        let above = tempfile::tempdir().unwrap();
        let (real, link) = (above.path().join("real"), above.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(Yard::make(&link).unwrap_err().kind, ErrorKind::Refused);
        drop(Yard::make(&real).unwrap());
        assert_eq!(real.metadata().unwrap().mode() & 0o777, 0o700);
        if geteuid().is_root() {
            std::os::unix::fs::chown(&real, Some(12_345), None).unwrap();
            assert_eq!(Yard::make(&real).unwrap_err().kind, ErrorKind::Refused);
        }
    }

    #[test]
    fn others_are_not_told_where_it_is() {
        let above = tempfile::tempdir().unwrap();
        let yard = Yard::make(above.path()).unwrap();
        let place = yard.place(&"test".parse().unwrap(), fence(3)).unwrap();
        let result = yard.result().unwrap();
        let text = format!(
            "{}/.git/x, {}, {} and {}/objects lead out",
            place.work().display(),
            place.home().display(),
            place.directory().display(),
            result.path().display()
        );
        let result = result.path().file_name().unwrap().display();
        assert_eq!(
            place.without(&text),
            format!("work/.git/x, home, job and worker/{result}/objects lead out")
        );
    }

    #[test]
    fn what_is_kept_replaces_nothing() {
        let above = tempfile::tempdir().unwrap();
        fs::create_dir(above.path().join("test-3-7")).unwrap();
        fs::write(above.path().join("test-3-7-2"), "").unwrap();
        let yard = Yard::make(above.path()).unwrap();
        let kept = yard.place(&"test".parse().unwrap(), fence(3)).unwrap().keep().unwrap();
        assert!(kept.ends_with("test-3-7-3") && kept.join("home").exists());
        assert_eq!(fs::read_dir(above.path().join("test-3-7")).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_removed_is_found_again() {
        let above = tempfile::tempdir().unwrap();
        let yard = Yard::make(above.path()).unwrap();
        // A directory cannot be removed as one when it is a file: stands for what the system refuses.
        fs::remove_dir(&yard.directory).unwrap();
        fs::write(&yard.directory, "").unwrap();
        let (directory, lock) = (yard.directory.clone(), yard.lock.path().to_owned());
        drop(yard);
        assert!(lock.exists());
        let next = Yard::make(above.path()).unwrap();
        assert_eq!(next.left(), std::slice::from_ref(&directory));
        fs::remove_file(&directory).unwrap();
        drop(next);
        assert!(Yard::make(above.path()).unwrap().left().is_empty() && !lock.exists());
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
