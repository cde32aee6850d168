//! Where an agent's keys, state and the local hub's data are, and the only way private files are read and written:
//! 0600 in directories of 0700, complete or not there at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use git_remote_parler::held;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};

/// Largest private file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20; // 1 MiB

/// How the names of files begin that are not complete yet; their process follows.
const TEMPORARY: &str = ".new-";
/// After this long nobody is writing such a file any more.
const TEMPORARY_AGE: Duration = Duration::from_secs(60);

/// The directories of one user's agents.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    config: PathBuf,
    state: PathBuf,
    data: PathBuf,
}

impl Home {
    /// `PARLER_HOME`, else the user's directories.
    pub(crate) fn of(environment: &Environment) -> Result<Self> {
        if let Some(root) = &environment.parler_home {
            let root = environment.directory.join(root);
            return Ok(Self {
                config: root.join("config"),
                state: root.join("state"),
                data: root.join("data"),
            });
        }
        match &environment.directories {
            Some(user) => Ok(Self {
                config: user.config.join("parler"),
                state: user.state.join("parler"),
                data: user.data.join("parler"),
            }),
            None => Err(Error::fatal("this user has no home directory").then("set PARLER_HOME to a directory")),
        }
    }

    /// Where nothing is, and nothing can be put: for a job that has a token, and keeps nothing.
    pub(crate) fn nowhere() -> Self {
        let nothing = Path::new("/dev/null/parler");
        Self {
            config: nothing.to_owned(),
            state: nothing.to_owned(),
            data: nothing.to_owned(),
        }
    }

    /// Where keys, state and the local hub are: each with what it holds.
    pub(crate) fn directories(&self) -> [(&'static str, &Path); 3] {
        [
            ("keys", &self.config),
            ("state", &self.state),
            ("the local hub", &self.data),
        ]
    }

    /// Keys of agents.
    pub(crate) fn agents_dir(&self) -> PathBuf {
        self.config.join("agents")
    }

    /// Open sessions.
    pub(crate) fn sessions_dir(&self) -> PathBuf {
        self.state.join("sessions")
    }

    /// What hubs said of their rooms, and whose keys belong to names.
    pub(crate) fn trust_dir(&self) -> PathBuf {
        self.state.join("trust")
    }

    /// How far rooms were shown to readers.
    pub(crate) fn offered_dir(&self) -> PathBuf {
        self.state.join("offered")
    }

    /// What hooks of coding agents told, and what they know of unread handoffs.
    pub(crate) fn hooks_dir(&self) -> PathBuf {
        self.state.join("hooks")
    }

    /// Where jobs of services are worked on.
    pub(crate) fn jobs_dir(&self) -> PathBuf {
        self.state.join("jobs")
    }

    /// Which jobs of services agents have claimed by hand.
    pub(crate) fn claims_dir(&self) -> PathBuf {
        self.state.join("claims")
    }

    /// What waits to be sent.
    pub(crate) fn outbox_dir(&self) -> PathBuf {
        self.state.join("outbox")
    }

    /// The local hub.
    pub(crate) fn hub_dir(&self) -> PathBuf {
        self.data.join("hub")
    }
}

/// Makes a directory that only its owner may enter, and those above it. One that exists keeps its mode.
pub(crate) fn create_private_dir(path: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| Error::io(format_args!("make {}", path.display()), &source))
}

/// Replaces a file as a whole: whoever reads it sees the old content or the new, also after a crash.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> io::Result<()> {
        let directory = parent(path);
        private_temporary(directory, content)?
            .persist(path)
            .map_err(|error| error.error)?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|source| Error::io(format_args!("write {}", path.display()), &source))
}

/// As [`write_private`], where losing the new content to a power cut does no harm: waits for no disk.
pub(crate) fn write_private_soon(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = parent(path);
    sweep(directory);
    let mut file = unfinished(directory)?;
    file.write_all(content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Makes a file unless there is one of that name. False: there was, perhaps since a moment ago; it is complete.
pub(crate) fn create_private(path: &Path, content: &[u8]) -> Result<bool> {
    let create = || -> io::Result<bool> {
        let directory = parent(path);
        match private_temporary(directory, content)?.persist_noclobber(path) {
            Ok(_) => File::open(directory)?.sync_all().map(|()| true),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error),
        }
    };
    create().map_err(|source| Error::io(format_args!("write {}", path.display()), &source))
}

fn private_temporary(directory: &Path, content: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    sweep(directory);
    let mut file = unfinished(directory)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file)
}

/// An empty file of this user alone. Its lock tells whoever sweeps on another machine, where our process number means
/// nothing, that it is in use.
fn unfinished(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let prefix = format!("{TEMPORARY}{}-", std::process::id());
    held::make_file(directory, &prefix, Permissions::from_mode(0o600))
}

/// Removes what killed processes left half written: it may be a key. Failures are left for the next time.
fn sweep(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY)) else {
            continue;
        };
        let maker = rest
            .split_once('-')
            .and_then(|(pid, _)| Pid::from_raw(pid.parse().ok()?));
        let is_gone = maker.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        let age = entry
            .metadata()
            .ok()
            .and_then(|meta| meta.modified().ok()?.elapsed().ok());
        let is_old = age.is_some_and(|age| age > TEMPORARY_AGE);
        if is_gone || is_old {
            held::remove_file_unless_held(&entry.path());
        }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| Path::new("/"))
}

/// Reads a file that must be this user's alone. None where there is no such file.
///
/// A secret that others could read, or a file that others could have put there, is refused with the way to mend it.
pub(crate) fn read_private(path: &Path) -> Result<Option<Vec<u8>>> {
    let shown = path.display();
    let failed = |source: &io::Error| Error::io(format_args!("read {shown}"), source);
    // Not through a symbolic link, and without waiting where somebody put a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = match OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
    {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(
                Error::new(ErrorKind::Refused, format_args!("{shown} is a symbolic link"))
                    .then("put the file itself there"),
            );
        }
        Err(error) => return Err(failed(&error)),
    };
    let meta = file.metadata().map_err(|error| failed(&error))?;
    let refused = |why: &str| Error::new(ErrorKind::Refused, format_args!("{shown} {why}"));
    if !meta.is_file() {
        return Err(refused("is not a file"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("belongs to another user").then(format!("chown it, or remove it: rm '{shown}'")));
    }
    if meta.mode() & 0o077 != 0 {
        return Err(refused("is open to other users").then(format!("chmod 600 '{shown}'")));
    }
    if meta.len() > MAX_FILE_BYTES {
        return Err(refused("is too large to be ours"));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(|error| failed(&error))?;
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn parler_home_replaces_the_user_directories() {
        let environment = Environment::for_test(&[("PARLER_HOME", "/p")]);
        let home = Home::of(&environment).unwrap();
        assert_eq!(home.agents_dir(), Path::new("/p/config/agents"));
        assert_eq!(home.sessions_dir(), Path::new("/p/state/sessions"));
        assert_eq!(home.hub_dir(), Path::new("/p/data/hub"));
        let error = Home::of(&Environment::for_test(&[])).unwrap_err();
        assert!(error.line().contains("PARLER_HOME"), "{error}");
    }

    #[test]
    fn files_are_private_and_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        create_private_dir(parent(&path)).unwrap();
        assert_eq!(parent(&path).metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(read_private(&path).unwrap(), None);
        assert!(create_private(&path, b"one").unwrap());
        assert!(!create_private(&path, b"two").unwrap());
        assert_eq!(read_private(&path).unwrap().unwrap(), b"one");
        write_private(&path, b"three").unwrap();
        assert_eq!(read_private(&path).unwrap().unwrap(), b"three");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(parent(&path)).unwrap().count(),
            1,
            "a temporary file was left"
        );
    }

    #[test]
    fn what_killed_processes_left_is_removed_and_what_is_being_written_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let place = |name: String| {
            fs::write(directory.path().join(&name), "secret").unwrap();
            directory.path().join(name)
        };
        let dead = place(format!(".new-{}-abc", ended.id()));
        let alive = place(format!(".new-{}-abc", std::process::id()));
        let old = place(".new-xyz".to_owned());
        let long_ago = std::time::SystemTime::now() - 2 * TEMPORARY_AGE;
        File::options()
            .write(true)
            .open(&old)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        let held = place(format!(".new-{}-def", ended.id()));
        let lock = File::open(&held).unwrap();
        lock.try_lock().unwrap();
        write_private(&directory.path().join("key"), b"x").unwrap();
        assert_eq!(
            [&dead, &alive, &old, &held].map(|path| path.exists()),
            [false, true, false, true]
        );
        drop(lock);
        assert!(create_private(&directory.path().join("other"), b"x").unwrap());
        assert!(!held.exists());
    }

    #[test]
    fn what_others_can_read_or_put_there_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        write_private(&path, b"secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = read_private(&path).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused);
        assert!(error.line().contains("chmod 600"), "{error}");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(read_private(&link).unwrap_err().line().contains("symbolic link"));
        // Another user's: one that root has given away, or one of root's.
        let others = match rustix::process::geteuid().is_root() {
            true => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
                std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
                path.as_path()
            }
            false => Path::new("/etc/passwd"),
        };
        let error = read_private(others).unwrap_err();
        assert!(error.line().contains("belongs to another user"), "{error}");
    }
}
