//! A small private file that several processes keep together: each joins what it knows with what is there. Never in the
//! way: where there is no home, no permission or no space, nothing is kept. A file that was damaged is not believed.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_protocol::BundleId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;
use crate::file_lock;
use crate::home::{create_private_dir, read_private, write_private, write_private_soon};

/// Changes whenever a file of the last version would be misread.
const FORMAT: u32 = 1;
/// How long another process is waited for, which needs a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// What a file holds.
#[derive(Debug, PartialEq)]
pub(crate) enum Kept<T> {
    /// There is none, or none that this program may read.
    Nothing,
    /// This.
    Content(T),
    /// Something that is not to be believed.
    Damaged,
    /// A newer program's, which this one leaves alone.
    Newer,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// A power cut may take it back.
    Soon,
    /// It is on the disk when the write returns.
    Now,
}

#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

#[derive(Deserialize)]
struct Read<T> {
    content: T,
}

#[derive(Serialize)]
struct Written<'a, T> {
    format: u32,
    content: &'a T,
}

/// Where one piece of state is kept.
#[derive(Debug, Clone)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// How long another process is waited for.
    patience: Duration,
}

impl StateFile {
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self {
            path,
            patience: PATIENCE,
        }
    }

    /// What is kept.
    pub(crate) fn load<T: DeserializeOwned>(&self) -> Kept<T> {
        let bytes = match read_private(&self.path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Kept::Nothing,
            // Another user's, a link, or open to others: somebody else may have written it.
            Err(error) if error.kind == ErrorKind::Refused => return Kept::Damaged,
            Err(_) => return Kept::Nothing,
        };
        let Some(json) = checked(&bytes) else {
            return Kept::Damaged;
        };
        match serde_json::from_slice::<Versioned>(json) {
            Ok(versioned) if versioned.format > FORMAT => Kept::Newer,
            Ok(_) => match serde_json::from_slice::<Read<T>>(json) {
                Ok(read) => Kept::Content(read.content),
                Err(_) => Kept::Damaged,
            },
            Err(_) => Kept::Damaged,
        }
    }

    /// Puts a damaged file out of the way, for somebody to look at. None where that cannot be done.
    pub(crate) fn set_aside(&self) -> Option<PathBuf> {
        let aside = self.path.with_added_extension("damaged");
        fs::rename(&self.path, &aside).ok()?;
        Some(aside)
    }

    /// Replaces what is kept by what `join` makes of it, while no other process does the same. None: it could not be
    /// kept.
    pub(crate) fn update<T: Serialize + DeserializeOwned>(
        &self,
        durability: Durability,
        join: impl FnOnce(Option<T>) -> T,
    ) -> Option<T> {
        create_private_dir(self.path.parent()?).ok()?;
        let _lock = self.lock().ok()?;
        let joined = match self.load() {
            Kept::Content(kept) => join(Some(kept)),
            Kept::Nothing => join(None),
            Kept::Damaged => {
                self.set_aside()?;
                join(None)
            }
            Kept::Newer => return None,
        };
        let written = Written {
            format: FORMAT,
            content: &joined,
        };
        let json = serde_json::to_vec(&written).ok()?;
        let bytes = [format!("{}\n", BundleId::of(&json)).as_bytes(), &json].concat();
        match durability {
            Durability::Now => write_private(&self.path, &bytes).ok()?,
            Durability::Soon => write_private_soon(&self.path, &bytes).ok()?,
        }
        Some(joined)
    }

    /// Keeps other processes out until it is dropped. A process that was stopped in the middle is not waited for.
    fn lock(&self) -> io::Result<File> {
        file_lock::take(&self.path.with_added_extension("lock"), self.patience)
    }

    /// The file's place.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// What follows the digest in the first line, if it is the digest of that.
fn checked(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
    (line == BundleId::of(rest).to_string().as_bytes()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn add(file: &StateFile, number: u32) -> Option<Vec<u32>> {
        file.update(Durability::Soon, |kept: Option<Vec<u32>>| {
            let mut all = kept.unwrap_or_default();
            all.push(number);
            all
        })
    }

    #[test]
    fn what_one_process_knows_joins_what_others_do() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = StateFile::at(directory.path().join("a/b/x"));
        assert_eq!(file.load::<Vec<u32>>(), Kept::Nothing);
        // What each adds is to be there, however long a busy machine takes for all of it.
        file.patience = Duration::MAX;
        std::thread::scope(|scope| {
            for number in 0..8 {
                let file = file.clone();
                scope.spawn(move || (0..20).for_each(|_| assert!(add(&file, number).is_some())));
            }
        });
        let Kept::Content(all) = file.load::<Vec<u32>>() else {
            panic!()
        };
        assert_eq!(all.len(), 160);
        assert_eq!(file.path().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_was_damaged_is_set_aside_and_what_is_newer_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::at(directory.path().join("x"));
        add(&file, 1).unwrap();
        let good = fs::read(file.path()).unwrap();
        let text = String::from_utf8(good.clone()).unwrap();
        for bad in [
            &b""[..],
            b"{}",
            &good[..good.len() - 1],
            text.replace("[1]", "[2]").as_bytes(),
        ] {
            write_private(file.path(), bad).unwrap();
            assert_eq!(file.load::<Vec<u32>>(), Kept::Damaged);
        }
        assert_eq!(add(&file, 3), Some(vec![3]));
        assert!(directory.path().join("x.damaged").exists());
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o646)).unwrap();
        assert_eq!(file.load::<Vec<u32>>(), Kept::Damaged, "others could have written it");
        let json = r#"{"format":2,"content":"?"}"#;
        let newer = format!("{}\n{json}", BundleId::of(json.as_bytes()));
        write_private(file.path(), newer.as_bytes()).unwrap();
        assert_eq!(file.load::<Vec<u32>>(), Kept::Newer);
        assert_eq!(add(&file, 4), None);
        assert_eq!(fs::read(file.path()).unwrap(), newer.as_bytes());
    }

    #[test]
    fn where_nothing_can_be_kept_nothing_is() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), "x").unwrap();
        let file = StateFile::at(directory.path().join("file/x"));
        assert_eq!(file.load::<Vec<u32>>(), Kept::Nothing);
        assert_eq!(add(&file, 1), None);
        // Somebody else holds the lock and was stopped.
        let held = StateFile::at(directory.path().join("held"));
        let _lock = held.lock().unwrap();
        assert_eq!(add(&held, 1), None);
    }
}
