//! A `.keep` file beside a pack: as long as it is there no repack removes the pack. One that another process made is
//! respected and never removed.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::held::{self, open_without_waiting, remove_file_unless_held, sweep_files};

/// What our keep files begin with; git shows it to nobody.
const MARK: &str = "parler ";

/// What one that has no name yet begins with. Git clears away what begins with `tmp_`, should we ever leave it.
const PREFIX: &str = "tmp_keep-parler-";

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
        // It has its name when it is locked and says whose it is: a sweep removes what says so and is not locked, and one
        // that says nothing would stay for ever.
        let directory = path.parent().unwrap_or(&path);
        let mut new = held::make_file(directory, PREFIX, Permissions::from_mode(0o600))?;
        writeln!(new, "{MARK}{}", std::process::id())?;
        match fs::hard_link(new.path(), &path) {
            Ok(()) => Ok(Self {
                path,
                lock: Some(new.into_file()),
            }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Self { path, lock: None }),
            Err(error) => Err(error),
        }
    }

    /// Removes keep files that processes of ours left behind. Failures are left for the next time.
    pub(crate) fn sweep(packs: &Path) {
        sweep_files(packs, PREFIX);
        let Ok(entries) = fs::read_dir(packs) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let ours = || {
                let mut beginning = [0; MARK.len()];
                let is_file = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file());
                let file = open_without_waiting(&path).ok().filter(is_file);
                file.is_some_and(|mut file| file.read_exact(&mut beginning).is_ok()) && beginning == *MARK.as_bytes()
            };
            if path.extension().is_some_and(|extension| extension == "keep") && ours() {
                remove_file_unless_held(&path);
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
        fs::write(path("tmp_keep-parler-dead"), "par").unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path("pipe.keep"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let used = Keep::place(path("used.keep")).unwrap();
        let theirs = Keep::place(path("user.keep")).unwrap();
        assert!(used.lock.is_some() && theirs.lock.is_none());
        Keep::sweep(packs.path());
        assert!(!path("dead.keep").exists() && !path("tmp_keep-parler-dead").exists());
        assert!(path("pipe.keep").exists(), "a pipe keeps nobody waiting");
        drop(theirs);
        assert!(path("used.keep").exists() && path("user.keep").exists() && path("empty.keep").exists());
        drop(used);
        assert!(!path("used.keep").exists());
    }
}
