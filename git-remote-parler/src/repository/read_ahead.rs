//! Reading history ahead: while git decides what to push, a thread reads the commits that we walk over afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parler_protocol::Oid;

use super::Repository;

/// How long git may take before anything is read: what takes less is not worth opening the repository once more.
const GRACE: Duration = Duration::from_millis(5);

/// A thread that reads commits for as long as this lives. Nothing depends on how far it comes: it only fills what
/// the repository remembers of commits.
pub(crate) struct ReadAhead {
    is_wanted: Arc<AtomicBool>,
    grace: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins with what [`Repository::boundary`] would read of the same. None where git is asked, since nothing is
    /// remembered then.
    pub(crate) fn begin(repository: &Repository, tips: Vec<Oid>, haves: Vec<Oid>) -> Option<Self> {
        if repository.asks_git() {
            return None;
        }
        let is_wanted = Arc::new(AtomicBool::new(true));
        let wanted = Arc::clone(&is_wanted);
        let (grace, is_over) = mpsc::channel();
        let (git, git_dir, read_commits) = (
            repository.git.clone(),
            repository.git_dir.clone(),
            repository.read_commits.clone(),
        );
        let read = move || {
            if is_over.recv_timeout(GRACE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // A handle of the library is for one thread, what was read of commits for all.
            let read = Repository::open(git, &git_dir).and_then(|repository| {
                let repository = Repository {
                    read_commits,
                    ..repository
                };
                repository.boundary_while(&wanted, &tips, &haves)
            });
            // Whoever asks for it later is told of errors.
            tracing::debug!(commits = ?read.map(|boundary| boundary.commits), "push: read ahead");
        };
        let thread = thread::Builder::new().name("read-ahead".to_owned()).spawn(read).ok()?;
        Some(Self {
            is_wanted,
            grace: Some(grace),
            thread: Some(thread),
        })
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.is_wanted.store(false, Ordering::Relaxed);
        drop(self.grace.take());
        if let Some(thread) = self.thread.take() {
            // It looks before each commit. A panic of its own has been told.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::{Git, GitEnvironment, GitProgram};

    #[test]
    fn what_is_read_ahead_is_remembered_and_nothing_is_that_is_not_wanted() {
        let directory = tempfile::tempdir().unwrap();
        let made = gix::init_bare(directory.path()).unwrap();
        let tree = made.empty_tree().id;
        let by = gix::actor::SignatureRef {
            name: "x".into(),
            email: "x@example.invalid".into(),
            time: "1700000000 +0000",
        };
        let mut commits: Vec<gix::ObjectId> = Vec::new();
        for _ in 0..5 {
            let parents = commits.last().copied();
            let commit = made.commit_as(by, by, "HEAD", "x", tree, parents).unwrap();
            commits.push(commit.detach());
        }
        let search_path = std::env::var_os("PATH").unwrap();
        let git = Git::new(GitProgram::find(&search_path).unwrap(), GitEnvironment::default());
        let repository = Repository::open(git.clone(), directory.path()).unwrap();
        let oid = |position: usize| super::super::from_gix(&commits[position]);
        let commits_found = |is_wanted: bool| {
            let found = repository.boundary_while(&AtomicBool::new(is_wanted), &[oid(4)], &[oid(1)]);
            found.unwrap().commits
        };
        assert_eq!(commits_found(true), 3);
        assert_eq!(commits_found(false), 0);
        // What a thread reads is known to whoever it reads for.
        let repository = Repository::open(git, directory.path()).unwrap();
        let ahead = ReadAhead::begin(&repository, vec![oid(4)], vec![oid(1)]);
        let is_read = || (repository.read_commits.len() >= 4).then_some(());
        parler_harness::look_for(is_read, || "nothing is remembered".to_owned());
        drop(ahead);
    }
}
