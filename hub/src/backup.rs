//! A hub's data copied while the hub serves, and brought back from the copy. A backup is a database as it was at one moment,
//! the blobs that it refers to, and a note written last that says so: without the note there is no backup. What is brought
//! back is checked whole before it gets its name.

mod blob_copies;
mod manifest;
mod restore;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use parler_protocol::HubId;
use rustix::fs::{FlockOperation, Mode, OFlags};
use sha2::{Digest, Sha256};

use self::blob_copies::BlobCopies;
use self::manifest::{MANIFEST_FILE, Manifest};
use crate::check::CheckError;
use crate::directory::sync_directory;
use crate::hub::BLOBS_DIRECTORY;
use crate::store::{OpenError, Snapshot, SnapshotSource};

pub use self::restore::{Restored, restore};

/// Locked while a backup is made there.
const LOCK_FILE: &str = "backup.lock";
/// How the name of a copied database begins; what follows tells one from another.
const DATABASE_PREFIX: &str = "hub-";
const DATABASE_SUFFIX: &str = ".db";
/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10; // 256 KiB

/// How a backup is made.
#[derive(Debug, Clone, Default)]
pub struct BackupOptions {
    /// Copy blobs also where a second name for the same file would do.
    pub copy: bool,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// What a backup holds, and what it took.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackedUp {
    /// The hub.
    pub hub: HubId,
    /// Rooms.
    pub rooms: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
    /// Blobs that are files.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
    /// Those of them that were not there from before.
    pub new_blobs: u64,
}

/// Why there is no backup, or nothing was brought back from one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// No hub has its data there.
    #[error("{} is no hub's data directory: it has no hub.db", .0.display())]
    NoHub(PathBuf),
    /// The hub's data cannot be opened, or the copy cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The place has something else in it.
    #[error("{} is no backup and not empty: name a new directory", .0.display())]
    NotABackup(PathBuf),
    /// The place is within the hub's own data.
    #[error("a backup inside {} would be lost with it: name a directory elsewhere", .0.display())]
    Inside(PathBuf),
    /// The place has another hub's backup.
    #[error("{} has the backup of hub {found}, and this is hub {this}: name another directory", path.display())]
    OtherHub {
        /// The place.
        path: PathBuf,
        /// Whose backup is there.
        found: HubId,
        /// Whose was to be made.
        this: HubId,
    },
    /// Another process works there.
    #[error("{} is in use by another backup or restore", .0.display())]
    InUse(PathBuf),
    /// A backup was begun there, and none was finished.
    #[error("{} has no finished backup", .0.display())]
    Unfinished(PathBuf),
    /// What is there is not what the backup's note says.
    #[error("the backup in {} is damaged: {what}", path.display())]
    Damaged {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A blob that the hub's data refers to is not there as it should be.
    #[error("{what}: `parler-hub check` says more")]
    Blob {
        /// Which, and what is wrong with it.
        what: String,
    },
    /// There is something where the data was to be brought back to.
    #[error("{} is not empty: a hub's data is brought back to a new directory", .0.display())]
    NotEmpty(PathBuf),
    /// What was brought back could not be looked at.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// For the errors of a file.
fn at(path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { path, source }
}

/// Copies the data in `data_dir`, whose hub may serve meanwhile, to the directory `to`, which is made if need be. Done again
/// to the same place it copies only blobs that are not there yet. Whenever it is ended, what was finished before is whole.
/// Tells how many blobs are done. Blocks.
pub fn backup(
    data_dir: &Path,
    to: &Path,
    options: &BackupOptions,
    tell: &mut dyn FnMut(u64),
) -> Result<BackedUp, BackupError> {
    if !data_dir.join("hub.db").is_file() {
        return Err(BackupError::NoHub(data_dir.to_owned()));
    }
    let source = SnapshotSource::open(data_dir)?;
    let hub = source.hub()?;
    let (to, _lock) = open_place(to, source.directory())?;
    let previous = Manifest::read(&to)?;
    if let Some(previous) = &previous
        && previous.hub != hub
    {
        return Err(BackupError::OtherHub {
            path: to,
            found: previous.hub,
            this: hub,
        });
    }
    remove_databases(&to, previous.as_ref())?;

    let from = source.directory().join(BLOBS_DIRECTORY);
    let copies = to.join(BLOBS_DIRECTORY);
    // A link that leads back: nothing would be copied, and what is not needed there be removed from the hub.
    if copies
        .canonicalize()
        .is_ok_and(|copies| copies.starts_with(source.directory()))
    {
        return Err(BackupError::Inside(source.directory().to_owned()));
    }
    let mut blobs = BlobCopies::open(from, copies, options.copy)?;
    // Before the database: retention may give up a blob between the two, and then it is not needed; given up after, it
    // has a copy by then. What comes between is too young to be given up.
    blobs.copy_all_there_are(tell)?;
    // No backup is the last one that fits: somebody wrote the note.
    let number = previous
        .as_ref()
        .map_or(Some(1), |previous| previous.number.checked_add(1));
    let number = number.ok_or_else(|| BackupError::Damaged {
        path: to.clone(),
        what: format!("{MANIFEST_FILE} counts more backups than can be"),
    })?;
    let name = format!("{DATABASE_PREFIX}{number}{DATABASE_SUFFIX}");
    let database = to.join(&name);
    source.copy_to(&database)?;
    File::open(&database)
        .and_then(|file| file.sync_all())
        .map_err(at(&database))?;

    let snapshot = Snapshot::open(&database)?;
    let heads = snapshot.heads()?;
    let mut manifest = Manifest::new(hub, number, options.now, name, heads);
    let mut after = None;
    loop {
        let wanted = snapshot.file_blobs_after(after.as_ref())?;
        let Some((last, _)) = wanted.last() else { break };
        after = Some(*last);
        for (id, size) in wanted {
            blobs.need(&id, size, tell)?;
            manifest.blobs += 1;
            manifest.blob_bytes += size;
        }
    }
    blobs.finish()?;
    (manifest.database_bytes, manifest.database_sha256) = digest(&database).map_err(at(&database))?;
    sync_directory(&to).map_err(at(&to))?;
    manifest.write(&to)?;

    // It is finished. What follows makes room.
    remove_databases(&to, Some(&manifest))?;
    blobs.remove_others(|id| snapshot.has_file(id))?;
    Ok(BackedUp {
        hub,
        rooms: manifest.rooms.len() as u64,
        messages: manifest.rooms.iter().map(|room| room.head.seq.get()).sum(),
        database_bytes: manifest.database_bytes,
        blobs: manifest.blobs,
        blob_bytes: manifest.blob_bytes,
        new_blobs: blobs.copied(),
    })
}

/// Makes the place, or finds it, and locks it.
fn open_place(to: &Path, data: &Path) -> Result<(PathBuf, File), BackupError> {
    use std::os::unix::fs::DirBuilderExt;
    let is_new = !to.exists();
    if is_new {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(to)
            .map_err(at(to))?;
    }
    let to = to.canonicalize().map_err(at(to))?;
    if to.starts_with(data) {
        if is_new {
            // It was made here, and is empty.
            let _ = std::fs::remove_dir(&to);
        }
        return Err(BackupError::Inside(data.to_owned()));
    }
    if is_new {
        let parent = to.parent().unwrap_or(Path::new("/"));
        sync_directory(parent).map_err(at(parent))?;
    }
    let lock_path = to.join(LOCK_FILE);
    let is_empty = std::fs::read_dir(&to).map_err(at(&to))?.next().is_none();
    if !is_empty && !lock_path.exists() && !to.join(MANIFEST_FILE).exists() {
        return Err(BackupError::NotABackup(to));
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock =
        rustix::fs::open(&lock_path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| at(&lock_path)(error.into()))?;
    let lock = File::from(lock);
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok((to, lock)),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(BackupError::InUse(to)),
        Err(error) => Err(at(&lock_path)(error.into())),
    }
}

/// Removes copies of the database that are not the one of this note: of a backup that was cut off, or of the one before.
fn remove_databases(to: &Path, keep: Option<&Manifest>) -> Result<(), BackupError> {
    for entry in std::fs::read_dir(to).map_err(at(to))? {
        let name = entry.map_err(at(to))?.file_name();
        let is_copy = name.to_str().is_some_and(|name| {
            let number = name
                .strip_prefix(DATABASE_PREFIX)
                .and_then(|name| name.split_once(DATABASE_SUFFIX));
            number.is_some_and(|(number, _)| number.parse::<u64>().is_ok())
        });
        let is_kept = keep.is_some_and(|keep| name.to_str() == Some(&keep.database));
        if is_copy && !is_kept {
            let path = to.join(name);
            std::fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// The length and the SHA-256 of a file.
fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let (mut hash, mut length) = (Sha256::new(), 0);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = file.read(&mut piece)?;
        if read == 0 {
            return Ok((length, data_encoding::HEXLOWER.encode(&hash.finalize())));
        }
        hash.update(&piece[..read]);
        length += read as u64;
    }
}
