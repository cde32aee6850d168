//! A file while it is written: under a name of its own beside the place it is for, which it takes as a whole. Told to
//! end meanwhile, or failing, the program leaves nothing of it.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use git_remote_parler::held;
use tempfile::NamedTempFile;

use crate::ending;
use crate::error::{Error, ErrorKind, Result};

/// What its own name begins with.
const PREFIX: &str = ".parler-";

/// A file that is not complete yet.
#[derive(Debug)]
pub(crate) struct NewFile {
    temporary: NamedTempFile,
    path: PathBuf,
    replaces: bool,
}

impl NewFile {
    /// Begins a file for `path`, with the mode of any file of this user. `replaces`: whether it may take the place of a
    /// file that is there; anything else that is there stays in any case.
    pub(crate) fn begin(path: PathBuf, replaces: bool) -> Result<Self> {
        refuse_in_the_way(&path, replaces)?;
        let directory = path.parent().unwrap_or_else(|| Path::new("/"));
        sweep(directory);
        // The umask takes away what it takes away.
        let make = || held::make_file(directory, PREFIX, Permissions::from_mode(0o666));
        let temporary = ending::make_unfinished(make).map_err(|error| writing(&path, &error))?;
        Ok(Self {
            temporary,
            path,
            replaces,
        })
    }

    /// With the mode of the file whose place it takes, if there is one.
    pub(crate) fn keep_mode(&self) -> Result<()> {
        let Ok(meta) = self.path.metadata() else {
            return Ok(());
        };
        let set = self.temporary.as_file().set_permissions(meta.permissions());
        set.map_err(|error| writing(&self.path, &error))
    }

    /// Puts the file in its place.
    pub(crate) fn finish(self) -> Result<()> {
        let Self {
            temporary,
            path,
            replaces,
        } = self;
        let unfinished = temporary.path().to_owned();
        let synced = temporary.as_file().sync_all();
        let placed = synced.and_then(|()| {
            let persisted = match replaces {
                true => temporary.persist(&path),
                false => temporary.persist_noclobber(&path),
            };
            persisted.map(drop).map_err(|error| error.error)
        });
        ending::finished(&unfinished);
        match placed {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(is_there(&path)),
            placed => placed.map_err(|error| writing(&path, &error)),
        }
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Named as the file that it is for.
        let written = self.temporary.as_file_mut().write(bytes);
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", self.path.display())))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

/// Removes what killed processes of this user left here half written. Failures are left for the next time.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let own = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let name = entry.file_name();
        // As tempfile makes them: six letters or digits behind the beginning.
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = rest.is_some_and(|rest| rest.len() == 6 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        let meta = entry
            .metadata()
            .ok()
            .filter(|meta| is_ours && meta.is_file() && meta.uid() == own);
        if meta.is_some() {
            held::remove_file_unless_held(&entry.path());
        }
    }
}

/// Says of what is at `path` that it is in the way, before anything is fetched for it.
fn refuse_in_the_way(path: &Path, replaces: bool) -> Result<()> {
    // A rename would put a file in the place of a directory's entry, a device or a pipe.
    if path.metadata().is_ok_and(|meta| !meta.is_file()) {
        let what = format_args!("{} is there and is not a file", path.display()).to_string();
        return Err(Error::new(ErrorKind::Refused, what).then("-o FILE writes to another place"));
    }
    if !replaces && path.symlink_metadata().is_ok() {
        return Err(is_there(path));
    }
    Ok(())
}

fn is_there(path: &Path) -> Error {
    Error::new(ErrorKind::Conflict, format_args!("{} is there already", path.display()))
        .then("--force replaces it, -o FILE writes to another place")
}

fn writing(path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn what_is_there_is_replaced_on_request_only() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let write = |text: &str, replaces| -> Result<()> {
            let mut file = NewFile::begin(path.clone(), replaces)?;
            file.write_all(text.as_bytes()).unwrap();
            file.finish()
        };
        write("one", false).unwrap();
        assert_eq!(write("two", false).unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write("three", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "three");
        // Somebody else was faster.
        std::fs::remove_file(&path).unwrap();
        let late = NewFile::begin(path.clone(), false).unwrap();
        std::fs::write(&path, "other").unwrap();
        assert_eq!(late.finish().unwrap_err().kind, ErrorKind::Conflict);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
        drop(NewFile::begin(directory.path().join("never"), false).unwrap());
        assert_eq!(names(directory.path()), ["file"]);
    }

    #[test]
    fn what_killed_processes_left_is_removed_and_what_is_being_written_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = directory.path().join(name);
            fs::write(&path, "half").unwrap();
            path
        };
        let (dead, somebodys) = (place(".parler-abc123"), place(".parler-notes.txt"));
        let held = place(".parler-def456");
        let lock = File::open(&held).unwrap();
        lock.try_lock().unwrap();
        let being_written = NewFile::begin(directory.path().join("file"), false).unwrap();
        assert_eq!(
            [&dead, &somebodys, &held].map(|path| path.exists()),
            [false, true, true]
        );
        assert!(being_written.temporary.path().exists());
    }

    #[test]
    fn what_is_no_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for path in [link, directory.path().to_owned()] {
            assert_eq!(NewFile::begin(path, true).unwrap_err().kind, ErrorKind::Refused);
        }
        let dangling = directory.path().join("dangling");
        std::os::unix::fs::symlink("nowhere", &dangling).unwrap();
        assert_eq!(NewFile::begin(dangling, false).unwrap_err().kind, ErrorKind::Conflict);
    }
}
