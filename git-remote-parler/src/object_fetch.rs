//! One fetch of objects from a configured remote, by git as its user set it up: writes no ref, tag or `FETCH_HEAD`, asks
//! nobody, and never takes an address that came over the wire.

use std::time::Duration;

use crate::git::{GitError, Side};
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
    fetch
        .args(["--end-of-options", remote])
        .args(refspecs)
        .patience(patience)
        .run()
        .map(|_| ())
}

/// Ends what holds git's lock of the record of where history ends and was started by a process of ours that was killed: it
/// would hold it for as long as its remote is silent.
pub(crate) fn end_orphans(repository: &Repository) {
    #[cfg(target_os = "linux")]
    if repository.common_dir().join("shallow.lock").exists() {
        crate::git::orphans::end_fetches(repository.git_dir());
    }
    #[cfg(not(target_os = "linux"))]
    let _ = repository;
}
