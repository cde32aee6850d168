//! What a git child of ours locks, written down so that the locks which it leaves when it is killed are known to be
//! nobody's. Never takes a lock itself, and never removes one that it does not know.
//!
//! A claim is a file beside the refs, locked in the kernel as long as its process or the child lives: the child has it open
//! as well. It says which file each lock is, as soon as that can be known. For an `update-ref` it names the pins before, and
//! what their locks will say, which nobody else's do.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File, Metadata, Permissions};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
#[cfg(target_os = "linux")]
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use crate::git::{GitError, QUERY_PATIENCE};
use crate::held::{self, lock_unless_gone, open_without_waiting};
use crate::pins::{PIN_ROOT, Pin};
use crate::repository::{LocalRef, Repository};

mod held_refs;

pub(crate) use held_refs::HeldRefs;

/// How a claim tells of a lock that is a second name of its own.
const LINKED: &str = "linked";
/// Our files begin so.
const PREFIX: &str = "locks.parler-";
/// Most that is read of one, in bytes. A larger one is left alone.
const MOST_BYTES: u64 = 64 << 20; // 64 MiB
/// Most that is read of a lock: the name of an object, and a little to see that there is no more.
const LOCK_BYTES: u64 = 256;
/// How long another process is waited for that makes a claim or looks at those that are there: as long as git is for a lock
/// on refs. Whoever locks without a claim may be taken for a dead one with the same pins.
const TURN_PATIENCE: Duration = Duration::from_secs(10);
/// How long a lock stays empty that is somebody's: git writes into the lock of a new ref as soon as it has it.
const EMPTY_PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// Git's record of where history ends, which `git fetch` locks while it changes it.
const SHALLOW: &str = "shallow";
/// Refs that each work tree has for itself, and elsewhere than the others.
const OF_A_WORK_TREE: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// The claims of this process that are there, and its own locks. Held while one is made or removed.
static THERE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn there() -> MutexGuard<'static, Vec<PathBuf>> {
    THERE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every claim of this process, which is about to end, and the locks that it holds itself: a child whose input ends
/// removes its own.
pub(crate) fn remove_all() -> impl Drop {
    let mut there = there();
    // Without its claim a lock would not be known any more.
    held::remove_last_first(&mut there);
    there
}

/// A claim of this process. Removed when it is dropped, with nothing else.
#[derive(Debug)]
pub(crate) struct LockClaim {
    common_dir: PathBuf,
    /// Of this work tree.
    head: PathBuf,
    /// What the child locks, below the common directory.
    names: Vec<String>,
    /// Locked in the kernel.
    file: NamedTempFile,
}

impl LockClaim {
    /// The claim of an `update-ref` on the refs that it is about to lock. None where that cannot be: then a lock that is
    /// left is its user's to remove.
    pub(crate) fn of_refs(repository: &Repository, pins: &[Pin], verify: &[LocalRef]) -> Option<Self> {
        if !repository.has_ref_files() {
            return None;
        }
        let mut text = String::new();
        for pin in pins {
            let _ = writeln!(text, "pin {} {}", pin.oid, pin.name);
        }
        let pins = pins.iter().map(|pin| &pin.name);
        let names = pins.chain(verify.iter().map(|local| &local.name)).cloned();
        Self::make(repository, &text, names.collect())
    }

    /// The claim of a `git fetch` in a repository whose history ends somewhere. None where that cannot be.
    pub(crate) fn of_shallow(repository: &Repository) -> Option<Self> {
        Self::make(repository, "", vec![SHALLOW.to_owned()])
    }

    /// Removes what dead ones left, and writes this down.
    fn make(repository: &Repository, text: &str, names: Vec<String>) -> Option<Self> {
        let common_dir = repository.common_dir();
        sweep(common_dir);
        let _turn = take_turn(common_dir)?;
        let mut there = there();
        let mut file = held::make_file(common_dir, PREFIX, Permissions::from_mode(0o666)).ok()?;
        file.write_all(text.as_bytes()).ok()?;
        there.push(file.path().to_owned());
        Some(Self {
            common_dir: common_dir.to_owned(),
            head: repository.git_dir().join("HEAD"),
            names,
            file,
        })
    }

    /// What the child is to have open.
    pub(crate) fn shared(&self) -> Option<OwnedFd> {
        self.file.as_file().try_clone().ok().map(OwnedFd::from)
    }

    /// Writes down which files the locks are, now that the child has all of them.
    pub(crate) fn note(&mut self) {
        let mut text = String::new();
        let names = self.names.iter().map(String::as_str);
        for name in names.chain(self.locked_head()) {
            if let Ok(lock) = fs::symlink_metadata(lock_of(&self.common_dir, name)) {
                let _ = writeln!(text, "held {} {name}", Identity::of(&lock));
            }
        }
        // In one piece, or what was written before counts.
        let _ = self.file.write_all(text.as_bytes());
    }

    /// Writes down which file the lock is whenever a child of ours is seen to hold it, while this runs.
    #[cfg(target_os = "linux")]
    pub(crate) fn noting<T>(&self, run: impl FnOnce() -> T) -> T {
        let (ended, end) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let watch = move || {
                let mut noted = HashSet::new();
                while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                    for name in &self.names {
                        let Ok(lock) = fs::symlink_metadata(lock_of(&self.common_dir, name)) else {
                            continue;
                        };
                        let line = format!("held {} {name}\n", Identity::of(&lock));
                        if !noted.contains(&line) && crate::git::orphans::is_held_by_ours(&lock) {
                            let _ = self.file.as_file().write_all(line.as_bytes());
                            noted.insert(line);
                        }
                    }
                }
            };
            // Without it a lock that is left is its user's to remove.
            let _ = std::thread::Builder::new().spawn_scoped(scope, watch);
            let result = run();
            drop(ended);
            result
        })
    }

    /// `HEAD` as a place below the common directory. git locks it beside the branch that it leads to, and writes nothing
    /// into that lock.
    fn locked_head(&self) -> Option<&str> {
        let place = self.head.strip_prefix(&self.common_dir).ok()?.to_str()?;
        let head = fs::read_to_string(&self.head).ok()?;
        let branch = head.strip_prefix("ref: ")?.trim_end();
        let is_empty = fs::symlink_metadata(lock_of(&self.common_dir, place)).is_ok_and(|lock| lock.len() == 0);
        let is_locked = is_empty && self.names.iter().any(|name| name == branch);
        is_locked.then_some(place)
    }

    /// The child has ended so.
    pub(crate) fn end<T>(self, end: &Result<T, GitError>) {
        // One that has an exit code has removed its locks.
        if !matches!(end, Ok(_) | Err(GitError::Failed { code: Some(_), .. })) {
            self.release();
        }
    }

    /// Removes the locks of a child that has been ended before it could.
    fn release(self) {
        match take_turn(&self.common_dir) {
            Some(_turn) => {
                let others = claimed_by_others(&self.common_dir, self.file.path());
                remove_locks(&self.common_dir, self.file.path(), &others, wait);
            }
            // The next sweep will.
            None => self.leave(),
        }
    }

    /// Lets go of it without removing it.
    fn leave(mut self) {
        let mut there = there();
        there.retain(|path| path != self.file.path());
        self.file.disable_cleanup(true);
    }
}

impl Drop for LockClaim {
    fn drop(&mut self) {
        let mut there = there();
        if there.iter().any(|path| path == self.file.path()) {
            let _ = fs::remove_file(self.file.path());
            there.retain(|path| path != self.file.path());
        }
    }
}

/// Removes the locks that killed processes left, and their claims. Failures are left for the next time.
pub(crate) fn sweep(common_dir: &Path) {
    if claims_in(common_dir).is_empty() {
        return;
    }
    let Some(_turn) = take_turn(common_dir) else { return };
    // One wait serves all of them.
    let mut is_waited = false;
    for path in claims_in(common_dir) {
        // A child that goes on has it open, and removes its locks as soon as it sees that its input is over.
        if let Some(_abandoned) = lock_unless_gone(&path) {
            let wait = || {
                if !std::mem::replace(&mut is_waited, true) {
                    wait();
                }
            };
            remove_locks(common_dir, &path, &claimed_by_others(common_dir, &path), wait);
            let _ = fs::remove_file(&path);
        }
    }
}

/// No claim is made or removed for its locks while the result lives.
fn take_turn(common_dir: &Path) -> Option<File> {
    let directory = open_without_waiting(common_dir).ok()?;
    let began = Instant::now();
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(directory),
            Err(Errno::WOULDBLOCK) if began.elapsed() < TURN_PATIENCE => std::thread::sleep(PAUSE),
            // Where nothing can be locked, nothing can be claimed either.
            Err(_) => return None,
        }
    }
}

fn claims_in(common_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common_dir).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()));
    ours.map(|entry| entry.path()).collect()
}

/// The refs that other processes lock at this moment, or are about to.
fn claimed_by_others(common_dir: &Path, own: &Path) -> HashSet<String> {
    let others = claims_in(common_dir).into_iter().filter(|path| path != own);
    let living = others.filter(|path| path.exists() && lock_unless_gone(path).is_none());
    let mut names = HashSet::new();
    for path in living {
        let text = read(&path, MOST_BYTES).map(|(text, _)| text).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        names.extend(lines.map(|(_, name)| name.to_owned()));
    }
    names
}

fn read(path: &Path, most: u64) -> Option<(String, Metadata)> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || meta.len() > most {
        return None;
    }
    Some((fs::read_to_string(path).ok()?, meta))
}

fn wait() {
    std::thread::sleep(EMPTY_PATIENCE);
}

/// Removes the locks of a claim whose child is gone. `wait` is called before an empty one is.
fn remove_locks(common_dir: &Path, claim: &Path, others: &HashSet<String>, wait: impl FnOnce()) {
    let Some((text, claimed)) = read(claim, MOST_BYTES) else {
        return;
    };
    let is_noted = text.lines().any(|line| line.starts_with("held "));
    let mut empty = Vec::new();
    for line in text.lines() {
        let Some((what, name)) = line.rsplit_once(' ') else {
            continue;
        };
        if !may_be_ours(name) {
            continue;
        }
        let lock = lock_of(common_dir, name);
        if what == LINKED {
            let is_it = |found: Metadata| (found.dev(), found.ino()) == (claimed.dev(), claimed.ino());
            if fs::symlink_metadata(&lock).is_ok_and(is_it) {
                remove(&lock);
            }
            continue;
        }
        if others.contains(name) {
            continue;
        }
        match what.split_once(' ') {
            Some(("held", identity)) if identity_of(&lock).is_some_and(|found| found.to_string() == identity) => {
                remove(&lock);
            }
            Some(("pin", oid)) if !is_noted && name.starts_with(PIN_ROOT) => match read(&lock, LOCK_BYTES) {
                Some((_, found)) if !is_of_its_time(&found, &claimed) => {}
                Some((value, _)) if value.trim_end() == oid => remove(&lock),
                // It was killed at once. Where the ref is there, its lock is empty for longer, when git prunes.
                Some((value, found)) if value.is_empty() && !common_dir.join(name).exists() => {
                    empty.push((lock, Identity::of(&found)));
                }
                _ => {}
            },
            _ => {}
        }
    }
    if !empty.is_empty() {
        wait();
    }
    for (lock, found) in empty {
        if identity_of(&lock) == Some(found) {
            remove(&lock);
        }
    }
}

fn remove(lock: &Path) {
    tracing::debug!(lock = %lock.display(), "git: a killed child left its lock");
    let _ = fs::remove_file(lock);
}

fn identity_of(lock: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(lock).ok()?;
    found.is_file().then(|| Identity::of(&found))
}

/// Whether a lock was made while the child of this claim may have lived.
fn is_of_its_time(lock: &Metadata, claim: &Metadata) -> bool {
    let (Ok(lock), Ok(claim)) = (lock.modified(), claim.modified()) else {
        return false;
    };
    lock.duration_since(claim).is_ok_and(|later| later <= QUERY_PATIENCE)
}

/// Whether this is the place of a ref that all work trees share, of a work tree's `HEAD`, or of git's record of where
/// history ends, below the common directory.
fn may_be_ours(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_plain = parts.iter().all(|part| !matches!(*part, "" | "." | ".."));
    is_plain
        && match parts[..] {
            ["HEAD" | SHALLOW] | ["worktrees", _, "HEAD"] => true,
            ["refs", _, ..] => !OF_A_WORK_TREE.iter().any(|root| name.starts_with(root)),
            _ => false,
        }
}

fn lock_of(common_dir: &Path, name: &str) -> PathBuf {
    common_dir.join(format!("{name}.lock"))
}

/// What tells a file from every other that had or will have its name.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    /// In nanoseconds, of a clock that may be wrong.
    changed: (i64, i64),
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (seconds, nanoseconds) = self.changed;
        write!(formatter, "{}:{}:{seconds}.{nanoseconds}", self.device, self.inode)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const PIN: &str = "refs/parler/0123456789ab";
    const OID: &str = "0123456789abcdef0123456789abcdef01234567";

    fn repository() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for place in ["refs/parler", "refs/heads", "refs/bisect"] {
            fs::create_dir_all(directory.path().join(place)).unwrap();
        }
        directory
    }

    fn lock(directory: &Path, name: &str, value: &str) -> PathBuf {
        let lock = lock_of(directory, name);
        fs::write(&lock, value).unwrap();
        lock
    }

    fn claim(directory: &Path, name: &str, lines: &[String]) -> PathBuf {
        let claim = directory.join(format!("{PREFIX}{name}"));
        fs::write(&claim, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        claim
    }

    fn held(lock: &Path, name: &str) -> String {
        format!("held {} {name}", Identity::of(&fs::symlink_metadata(lock).unwrap()))
    }

    #[test]
    fn what_a_dead_one_left_goes_and_nothing_else() {
        let directory = repository();
        let place = directory.path();
        let value = format!("{OID}\n");
        let names = ["old", "other", "empty", "pruned"];
        let [old, other, empty, pruned] = names.map(|name| format!("refs/parler/{name}"));
        fs::write(place.join(&pruned), &value).unwrap();
        let before = lock(place, &old, &value);
        let earlier = SystemTime::now() - QUERY_PATIENCE;
        File::options()
            .write(true)
            .open(&before)
            .unwrap()
            .set_modified(earlier)
            .unwrap();
        let names = [
            PIN,
            &old,
            &other,
            &empty,
            "refs/heads/main",
            "refs/parler/../heads/x",
            "../x",
        ];
        let claim = claim(place, "dead", &names.map(|name| format!("pin {OID} {name}")));
        let ours = [lock(place, PIN, &value), lock(place, &empty, "")];
        let others = [
            lock(place, &other, &format!("{}\n", OID.replace('0', "1"))),
            // Of somebody who will not write anything.
            lock(place, &pruned, ""),
            lock(place, "refs/heads/main", &value),
            lock(place, "refs/heads/x", &value),
        ];
        sweep(place);
        assert!(!ours.iter().any(|lock| lock.exists()) && !claim.exists());
        assert!(
            others.iter().all(|lock| lock.exists()),
            "what is not ours by its value or name"
        );
        assert!(before.exists(), "older than what claims it");
    }

    #[test]
    fn a_lock_that_was_noted_is_known_by_its_file() {
        let directory = repository();
        let place = directory.path();
        let names = ["refs/heads/left", "HEAD", "refs/heads/taken", "refs/bisect/bad", PIN];
        let locks = names.map(|name| lock(place, name, ""));
        // A pin that git had not locked when it was ready is not ours either.
        let mut lines = vec![format!("pin {OID} {PIN}")];
        lines.extend(locks.iter().zip(names).take(4).map(|(lock, name)| held(lock, name)));
        claim(place, "dead", &lines);
        // Made while the other is there, so that it is another file.
        let taken = lock(place, "refs/heads/other", "");
        fs::rename(taken, &locks[2]).unwrap();
        fs::write(&locks[4], OID).unwrap();
        sweep(place);
        assert_eq!(locks.map(|lock| lock.exists()), [false, false, true, true, true]);
    }

    #[test]
    fn what_a_living_one_claims_stays() {
        let directory = repository();
        let place = directory.path();
        let [dead, living] = ["dead", "living"].map(|name| claim(place, name, &[format!("pin {OID} {PIN}")]));
        let process = lock_unless_gone(&living).unwrap();
        // As the child has it.
        let child = process.try_clone().unwrap();
        let ours = lock(place, PIN, OID);
        sweep(place);
        assert!(ours.exists() && !dead.exists());
        drop(process);
        sweep(place);
        assert!(ours.exists() && living.exists());
        drop(child);
        // A process that another test starts has it open too, for the moment before it is another program.
        let began = Instant::now();
        while living.exists() && began.elapsed() < TURN_PATIENCE {
            sweep(place);
        }
        assert!(!ours.exists() && !living.exists());
    }

    #[test]
    fn an_empty_lock_is_left_to_whoever_writes_into_it() {
        let directory = repository();
        let place = directory.path();
        let claim = claim(place, "dead", &[format!("pin {OID} {PIN}")]);
        let ours = lock(place, PIN, "");
        remove_locks(place, &claim, &HashSet::new(), || fs::write(&ours, OID).unwrap());
        assert!(ours.exists());
    }
}
