//! A `.keep` file beside a pack: as long as it is there no repack removes the pack. One that another process made is
//! respected and never removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::quarantine::lock_unless_gone;

/// What our keep files begin with; git shows it to nobody.
const MARK: &str = "parler ";

/// A pack's keep file, removed when this is dropped if we made it.
#[derive(Debug)]
pub(crate) struct Keep {
    path: PathBuf,
    /// Locked while in use; none when the file is somebody else's.
    lock: Option<File>,
}

impl Keep {
    /// Makes the file, unless there is one.
    pub(crate) fn place(path: PathBuf) -> io::Result<Self> {
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    // Locked before it says whose it is: a sweep removes only files that say so and are not locked.
                    let Some(lock) = lock_unless_gone(&path) else { continue };
                    writeln!(file, "{MARK}{}", std::process::id())?;
                    return Ok(Self { path, lock: Some(lock) });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Self { path, lock: None }),
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes keep files that processes of ours left behind. Failures are left for the next time.
    pub(crate) fn sweep(packs: &Path) {
        let Ok(entries) = fs::read_dir(packs) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ours = || {
                let mut beginning = [0; MARK.len()];
                File::open(&path)
                    .and_then(|mut file| file.read_exact(&mut beginning))
                    .is_ok()
                    && beginning == *MARK.as_bytes()
            };
            if path.extension().is_some_and(|extension| extension == "keep")
                && ours()
                && lock_unless_gone(&path).is_some()
            {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // Git has removed it already when it was told of it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_and_abandoned_keeps_are_removed() {
        let packs = tempfile::tempdir().unwrap();
        let path = |name: &str| packs.path().join(name);
        fs::write(path("user.keep"), "because\n").unwrap();
        fs::write(path("empty.keep"), "").unwrap();
        fs::write(path("dead.keep"), "parler 1\n").unwrap();
        let used = Keep::place(path("used.keep")).unwrap();
        let theirs = Keep::place(path("user.keep")).unwrap();
        assert!(used.lock.is_some() && theirs.lock.is_none());
        Keep::sweep(packs.path());
        assert!(!path("dead.keep").exists());
        drop(theirs);
        assert!(path("used.keep").exists() && path("user.keep").exists() && path("empty.keep").exists());
        drop(used);
        assert!(!path("used.keep").exists());
    }
}
