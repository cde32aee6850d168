//! New refs put into `packed-refs` in one piece, under git's own lock: all of them or none. Never changes a ref that
//! is there, and steps aside wherever it finds what it does not know, so that git writes the refs as files.
//!
//! gix's own transaction can write to `packed-refs` too, but makes and removes a lock file for each ref, which is what is
//! slow, waits for no disk, and does not know of shared repositories. git does the same in `git clone` alone.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_protocol::Oid;
use rustix::fs::{Mode, OFlags};

use crate::pins::PIN_ROOT;
use crate::repository::{LocalRef, Repository, RepositoryError, parse_bytes};

mod lock;
mod merge;

use lock::Lock;
pub(crate) use lock::{remove_all, sweep};

/// How long git waits for somebody else's lock, unless `core.packedRefsTimeout` says otherwise.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long we wait where git can write the refs as well as we, or somebody may wait for refs that we hold.
const SHORT_PATIENCE: Duration = Duration::from_millis(50);
/// How long we wait where that says without end.
const LONGEST_PATIENCE: Duration = Duration::from_secs(120);

/// Longest part of a name between slashes, in bytes: with `.lock` it is a file's name.
const LONGEST_COMPONENT: usize = 250;
/// Longest path of a ref's file, in bytes, with something to spare for `.lock`.
const LONGEST_PATH: usize = 4000;

/// A ref to be written: below [`PIN_ROOT`], new or there with the same value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NewRef<'a> {
    /// The full name.
    pub(crate) name: &'a str,
    /// What it names.
    pub(crate) oid: Oid,
    /// Where that is a tag object: what it leads to in the end.
    pub(crate) peeled: Option<Oid>,
}

/// Whether there is another way that is as good as to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    /// We wait as long as git would.
    None,
    /// We wait for a moment.
    Some,
}

/// A new `packed-refs` that lies beside the old one, on the disk, under git's lock. Dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct PackedRefs {
    lock: Lock,
}

impl PackedRefs {
    /// Takes the lock and writes what the file will be. Each ref of `held`, which nobody else can change meanwhile, must
    /// have its value.
    pub(crate) fn prepare(
        repository: &Repository,
        mut refs: Vec<NewRef<'_>>,
        held: &[LocalRef],
        haste: Haste,
    ) -> Result<Self, Obstacle> {
        check_settings(repository)?;
        let packed = repository.common_dir().join("packed-refs");
        // Before the lock as well, so that nobody is kept waiting for nothing.
        drop(open(&packed)?);
        refs.sort_unstable();
        refs.dedup();
        check_names(repository.common_dir(), &refs)?;
        let patience = match haste {
            Haste::Some => SHORT_PATIENCE,
            Haste::None => patience(repository)?,
        };
        let lock = Lock::take(&packed, repository.shared_mode()?, patience)?;
        let mut there = loose_refs(repository.common_dir(), &refs)?;
        let mut packed_values = held_in_packed(repository.common_dir(), held)?;
        let digits = 2 * repository.object_format().raw_len();
        {
            let mut new = BufWriter::new(lock.file());
            match open(&packed)? {
                Some(old) => {
                    let mut old = BufReader::new(old);
                    merge::merge(&mut old, &refs, digits, &mut new, &mut there, &mut packed_values)?;
                }
                None => merge::merge(
                    &mut io::empty(),
                    &refs,
                    digits,
                    &mut new,
                    &mut there,
                    &mut packed_values,
                )?,
            }
            new.flush()?;
        }
        merge::check_directories(&there, &refs)?;
        if let Some(name) = packed_values.into_keys().next() {
            return Err(moved(name));
        }
        lock.file().sync_all()?;
        Ok(Self { lock })
    }

    /// Gives the new file its name: all refs are there from one moment on.
    pub(crate) fn commit(self) -> io::Result<()> {
        self.lock.commit()
    }
}

/// What git would do beside writing the refs, or instead of it, is left to git.
fn check_settings(repository: &Repository) -> Result<(), Obstacle> {
    let logs = repository.config_string("core.logAllRefUpdates")?;
    if !repository.has_ref_files() {
        Err(Obstacle::Unfamiliar("refs are not kept in files"))
    } else if logs.is_some_and(|value| value.eq_ignore_ascii_case("always"))
        || repository.common_dir().join("logs").join(PIN_ROOT).exists()
    {
        Err(Obstacle::Unfamiliar("pins have logs"))
    } else {
        Ok(())
    }
}

/// What could not be a file either is for git to judge: it looks for a file of each name first.
fn check_names(common_dir: &Path, refs: &[NewRef<'_>]) -> Result<(), Obstacle> {
    let is_fit = |new: &NewRef<'_>| {
        common_dir.as_os_str().len() + new.name.len() <= LONGEST_PATH
            && new
                .name
                .split('/')
                .all(|component| component.len() <= LONGEST_COMPONENT)
    };
    if let Some(twice) = refs.windows(2).find(|pair| pair[0].name == pair[1].name) {
        let name = twice[0].name.to_owned();
        Err(Obstacle::Taken { name })
    } else if refs.iter().all(is_fit) {
        Ok(())
    } else {
        Err(Obstacle::Unfamiliar("a name is too long for a file"))
    }
}

fn patience(repository: &Repository) -> Result<Duration, RepositoryError> {
    let set = repository.config_string("core.packedRefsTimeout")?;
    Ok(match set.as_deref().map(str::trim) {
        Some(text) if text.starts_with('-') => LONGEST_PATIENCE,
        Some(text) => parse_bytes(text).map_or(PATIENCE, Duration::from_millis),
        None => PATIENCE,
    })
}

/// The file, if there is one. A symbolic link, as some keep it for several work trees, is not followed: git puts the new
/// file where the link leads.
fn open(packed: &Path) -> Result<Option<File>, Obstacle> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(packed, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(Obstacle::Io(error.into())),
    };
    if file.metadata()?.is_file() {
        Ok(Some(file))
    } else {
        Err(Obstacle::Unfamiliar("packed-refs is not a regular file"))
    }
}

/// The names of refs below [`PIN_ROOT`] that are files of their own, which count more than what is packed. Those that are
/// to be written must have their value, and nobody may be about to write them.
fn loose_refs(common_dir: &Path, refs: &[NewRef<'_>]) -> Result<HashSet<String>, Obstacle> {
    let mut names = HashSet::new();
    let mut open = vec![PIN_ROOT.trim_end_matches('/').to_owned()];
    while let Some(directory) = open.pop() {
        let path = common_dir.join(&directory);
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Ok(_) => return Err(Obstacle::Taken { name: directory }),
            Err(error) => return Err(error.into()),
        }
        for entry in fs::read_dir(&path)? {
            let entry = entry?;
            // What is not UTF-8 is no ref of ours, nor above or below one.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let name = format!("{directory}/{name}");
            if entry.file_type()?.is_dir() {
                open.push(name);
            } else if let Some(locked) = name.strip_suffix(".lock") {
                if refs.binary_search_by(|new| new.name.cmp(locked)).is_ok() {
                    let lock = entry.path();
                    return Err(Obstacle::Busy { lock });
                }
            } else {
                if let Ok(found) = refs.binary_search_by(|new| new.name.cmp(&name)) {
                    let value = fs::read(entry.path())?;
                    if value.trim_ascii_end() != refs[found].oid.to_string().as_bytes() {
                        return Err(Obstacle::Taken { name });
                    }
                }
                names.insert(name);
            }
        }
    }
    Ok(names)
}

/// Those of the refs that are no files of their own: `packed-refs` must have them. Each that is one must have its value.
fn held_in_packed<'a>(common_dir: &Path, held: &'a [LocalRef]) -> Result<HashMap<&'a str, Oid>, Obstacle> {
    let mut packed = HashMap::new();
    for LocalRef { name, oid } in held {
        match fs::read(common_dir.join(name)) {
            Ok(value) if value.trim_ascii_end() == oid.to_string().as_bytes() => {}
            Ok(_) => return Err(moved(name)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                packed.insert(name.as_str(), *oid);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(packed)
}

fn moved(name: &str) -> Obstacle {
    Obstacle::Moved { name: name.to_owned() }
}

/// Why git has to write the refs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    /// Somebody else writes, or has been ended while writing.
    #[error("{} is held by another process, or was left by one", lock.display())]
    Busy {
        /// The lock file.
        lock: PathBuf,
    },
    /// The repository keeps refs in a way that is not known here.
    #[error("{0}")]
    Unfamiliar(&'static str),
    /// A ref stands where a new one is to be.
    #[error("{name} is there and names something else")]
    Taken {
        /// The ref.
        name: String,
    },
    /// A ref has another value than was found before, or leads to another.
    #[error("{name} has moved, or is no plain ref")]
    Moved {
        /// The ref.
        name: String,
    },
    /// The files could not be read or written.
    #[error("cannot write packed-refs: {0}")]
    Io(#[from] io::Error),
    /// The configuration could not be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
}
