//! Git's locks on refs whose values something rests on for a moment, taken in-process. Writes no ref, and waits no longer
//! than git does: what somebody else locks, or what is no plain file, is for git to judge.
//!
//! Each lock is a second name of a claim that tells of it, so that a lock which a killed process leaves is known by being
//! the same file.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::{LINKED, LockClaim, PAUSE, lock_of, may_be_ours, there};
use crate::held::{ATTEMPTS, is_at};
use crate::repository::{LocalRef, Repository, SharedMode};

/// Most that are held. More take long to let go.
const MOST: usize = 64;
/// Branches of this repository, which its user commits to: a process that is killed would leave its lock in the way.
const BRANCHES: &str = "refs/heads/";
/// How long git waits for somebody else's lock on a ref.
const PATIENCE: Duration = Duration::from_millis(100);

/// Refs that nobody else changes until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldRefs {
    claim: LockClaim,
    locks: Vec<PathBuf>,
}

impl HeldRefs {
    /// Locks all of them. None where one cannot be locked, is a branch or there are many, and then none of them is.
    pub(crate) fn take(repository: &Repository, refs: &[LocalRef]) -> Option<Self> {
        let may_be_held = |local: &LocalRef| may_be_ours(&local.name) && !local.name.starts_with(BRANCHES);
        let are_files = repository.has_ref_files() && refs.len() <= MOST && refs.iter().all(may_be_held);
        // Whoever else may write there would have to be let into the directories that are made.
        if !are_files || repository.shared_mode().ok()? != SharedMode::Umask {
            return None;
        }
        let text: String = refs.iter().map(|local| format!("{LINKED} {}\n", local.name)).collect();
        let mut held = Self {
            claim: LockClaim::make(repository, &text, Vec::new())?,
            locks: Vec::new(),
        };
        for local in refs {
            held.lock(&local.name)
                .inspect_err(|error| tracing::debug!(name = local.name, %error, "git has to lock a ref"))
                .ok()?;
        }
        Some(held)
    }

    fn lock(&mut self, name: &str) -> io::Result<()> {
        let lock = lock_of(&self.claim.common_dir, name);
        let began = Instant::now();
        let mut attempts = 0;
        loop {
            let mut there = there();
            match fs::hard_link(self.claim.file.path(), &lock) {
                Ok(()) => {
                    there.push(lock.clone());
                    self.locks.push(lock);
                    return Ok(());
                }
                // Of a packed ref, or one that was packed a moment ago.
                Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS => {
                    attempts += 1;
                    let directory = lock.parent().unwrap_or(&self.claim.common_dir);
                    DirBuilder::new().recursive(true).create(directory)?;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && began.elapsed() < PATIENCE => {
                    drop(there);
                    std::thread::sleep(PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for HeldRefs {
    fn drop(&mut self) {
        let mut there = there();
        for lock in &self.locks {
            if matches!(is_at(self.claim.file.as_file(), lock), Ok(true)) {
                let _ = fs::remove_file(lock);
            }
            there.retain(|path| path != lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::git::{Git, GitEnvironment, GitProgram};

    fn git(directory: &Path, arguments: &[&str]) -> bool {
        let status = Command::new("git")
            .args(arguments)
            .current_dir(directory)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_NAME"), "x")))
            .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_EMAIL"), "x@example.invalid")))
            .stderr(std::process::Stdio::null())
            .status();
        status.unwrap().success()
    }

    #[test]
    fn git_moves_no_ref_that_is_held() {
        const REF: &str = "refs/remotes/origin/main";
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        assert!(git(place, &["init", "-q"]));
        for message in ["first", "second"] {
            assert!(git(place, &["commit", "-q", "--allow-empty", "-m", message]));
        }
        assert!(git(place, &["update-ref", REF, "HEAD~1"]));
        let search_path = std::env::var_os("PATH").unwrap();
        let git_program = Git::new(GitProgram::find(&search_path).unwrap(), GitEnvironment::default());
        let repository = Repository::open(git_program, &place.join(".git")).unwrap();
        for packed in [false, true] {
            if packed {
                assert!(git(place, &["pack-refs", "--all", "--prune"]));
            }
            let refs = repository.refs("refs/remotes/").unwrap();
            let held = HeldRefs::take(&repository, &refs).unwrap();
            assert!(!git(place, &["update-ref", REF, "HEAD"]));
            assert!(!git(place, &["update-ref", "-d", REF]));
            drop(held);
            for value in ["HEAD", "HEAD~1"] {
                assert!(git(place, &["update-ref", REF, value]));
            }
        }
        let branches = repository.refs("refs/heads/").unwrap();
        assert!(HeldRefs::take(&repository, &branches).is_none());
        for number in 0..=MOST {
            assert!(git(place, &["update-ref", &format!("refs/tags/{number}"), "HEAD"]));
        }
        let mut many = repository.refs("refs/tags/").unwrap();
        assert!(HeldRefs::take(&repository, &many).is_none());
        many.pop();
        assert!(HeldRefs::take(&repository, &many).is_some());
        let left = std::fs::read_dir(place.join(".git")).unwrap();
        let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.filter(|name| name.starts_with("locks.")).count(), 0);
    }
}
