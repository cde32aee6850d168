//! One fetch of objects from a configured remote, by git as its user set it up: writes no ref, tag or `FETCH_HEAD`, asks
//! nobody, and never takes an address that came over the wire.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::git::{GitCommand, GitError, Side, one_line};
use crate::lock_claim::{self, LockClaim};
use crate::repository::Repository;

/// How far back a fetch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// As far as the repository does: a shallow one does not grow.
    AsHere,
    /// To the beginning: a shallow repository becomes a whole one, as far as what is asked for leads.
    Whole,
}

/// Fetches what these refspecs without destination mean: names of the remote's refs, or objects.
pub(crate) fn fetch_objects(
    repository: &Repository,
    remote: &str,
    refspecs: &[String],
    depth: Depth,
    patience: Duration,
) -> Result<(), GitError> {
    end_orphans(repository);
    let mut fetch = repository
        .command(Side::Push, "fetch")
        .known_as_ours()
        // Nobody sees a question: git's stderr is ours. A program that answers for the user, as in GIT_ASKPASS, may.
        .env("GIT_TERMINAL_PROMPT", "0")
        .metered(&["--progress"], &["--quiet"])
        .args([
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            // Without it git would move the remote's tracking refs on the way.
            "--refmap=",
        ]);
    if repository.is_shallow() {
        fetch = fetch.arg(match depth {
            Depth::AsHere => "--depth=1",
            Depth::Whole => "--unshallow",
        });
    }
    let fetch = fetch
        .args(["--end-of-options", remote])
        .args(refspecs)
        .patience(patience);
    let claim = repository
        .is_shallow()
        .then(|| LockClaim::of_shallow(repository))
        .flatten();
    run(fetch, claim).map(|_| ())
}

#[cfg(target_os = "linux")]
fn run(fetch: GitCommand, claim: Option<LockClaim>) -> Result<Vec<u8>, GitError> {
    let Some((claim, shared)) = claim.and_then(|claim| claim.shared().map(|shared| (claim, shared))) else {
        return fetch.run();
    };
    let result = claim.noting(|| fetch.sharing(shared).run());
    claim.end(&result);
    result
}

/// Who holds a lock cannot be told here.
#[cfg(not(target_os = "linux"))]
fn run(fetch: GitCommand, _claim: Option<LockClaim>) -> Result<Vec<u8>, GitError> {
    fetch.run()
}

/// Ends what holds git's lock of the record of where history ends and was started by a process of ours that was killed: it
/// would hold it for as long as its remote is silent. Removes the lock that such a one has left.
pub(crate) fn end_orphans(repository: &Repository) {
    if shallow_lock(repository).exists() {
        #[cfg(target_os = "linux")]
        crate::git::orphans::end_fetches(repository.git_dir());
        lock_claim::sweep(repository.common_dir());
    }
}

/// Git's lock of the record of where history ends.
fn shallow_lock(repository: &Repository) -> PathBuf {
    repository.common_dir().join("shallow.lock")
}

/// What that lock is, where it is there and no process that can be seen here has it open, as git has while it holds it.
/// Its holder may be another user's, or in a container: it is never removed for that.
pub(crate) fn abandoned_lock(repository: &Repository) -> Option<String> {
    let lock = shallow_lock(repository);
    let found = fs::symlink_metadata(&lock).ok()?;
    if is_held(&found) {
        return None;
    }
    let lock = one_line(lock.as_os_str().as_bytes());
    Some(format!(
        "{lock} is there and nobody is seen to hold it; if no git command runs here, remove it"
    ))
}

#[cfg(target_os = "linux")]
fn is_held(lock: &Metadata) -> bool {
    crate::git::orphans::is_held(lock)
}

#[cfg(not(target_os = "linux"))]
fn is_held(_lock: &Metadata) -> bool {
    true
}

/// Whether git's lock of the record of where history ends is there.
pub(crate) fn is_locked(repository: &Repository) -> bool {
    shallow_lock(repository).exists()
}
