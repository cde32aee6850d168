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

/// How long git waits for somebody else's lock on a ref.
const PATIENCE: Duration = Duration::from_millis(100);

/// Refs that nobody else changes until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldRefs {
    claim: LockClaim,
    locks: Vec<PathBuf>,
}

impl HeldRefs {
    /// Locks all of them. None where one cannot be locked, and then none of them is.
    pub(crate) fn take(repository: &Repository, refs: &[LocalRef]) -> Option<Self> {
        let are_files = repository.has_ref_files() && refs.iter().all(|local| may_be_ours(&local.name));
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
