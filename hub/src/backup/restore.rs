//! A hub's data brought back from a backup: made beside its place, checked whole, and only then given its name.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use parler_protocol::HubId;
use rustix::fs::FlockOperation;

use super::blob_copies::BlobCopies;
use super::manifest::Manifest;
use super::{BackupError, at, digest};
use crate::check::{CheckEvent, CheckOptions, Severity, check};
use crate::directory::sync_directory;
use crate::hub::BLOBS_DIRECTORY;
use crate::store::{Snapshot, SqliteOptions, SqliteStore, Store};

/// What is added to the name of the directory, behind a dot, until it is whole.
const UNFINISHED: &str = ".parler-restoring";
/// The database's name in a data directory.
const DATABASE_FILE: &str = "hub.db";

/// What was brought back.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// The hub.
    pub hub: HubId,
    /// When the backup was made, milliseconds since 1970.
    pub made_at: i64,
    /// Rooms.
    pub rooms: u64,
    /// Messages.
    pub messages: u64,
    /// Blobs, in the database and as files.
    pub blobs: u64,
}

/// Brings the backup in `from` back as the data directory `data_dir`, which must not be there, or be empty. Tells how many
/// blobs are done, and what a check of the result finds: then nothing is brought back.
pub async fn restore(
    from: &Path,
    data_dir: &Path,
    copy: bool,
    tell: &mut (dyn FnMut(CheckEvent) + Send),
) -> Result<Restored, BackupError> {
    let manifest = Manifest::read(from)?.ok_or_else(|| BackupError::Unfinished(from.to_owned()))?;
    check_free(data_dir)?;
    let name = data_dir
        .file_name()
        .ok_or_else(|| BackupError::NotEmpty(data_dir.to_owned()))?;
    let parent = match data_dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(at(parent))?;
    let parent = &parent.canonicalize().map_err(at(parent))?;
    let _lock = lock(parent)?;
    let mut unfinished = std::ffi::OsString::from(".");
    unfinished.push(name);
    unfinished.push(UNFINISHED);
    let unfinished = parent.join(unfinished);
    // Of one that was killed: nobody else makes such a name.
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&unfinished)(error)),
        _ => {}
    }
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&unfinished)
        .map_err(at(&unfinished))?;

    match bring_back(from, &manifest, &unfinished, copy, tell).await {
        Ok(restored) => {
            // An empty directory gives way.
            fs::rename(&unfinished, data_dir).map_err(at(data_dir))?;
            sync_directory(parent).map_err(at(parent))?;
            Ok(restored)
        }
        Err(error) => {
            // It may be as large as the hub. What cannot be removed now goes with the next try.
            let _ = fs::remove_dir_all(&unfinished);
            Err(error)
        }
    }
}

/// Copies the backup to the directory `unfinished` and checks it.
async fn bring_back(
    from: &Path,
    manifest: &Manifest,
    unfinished: &Path,
    copy: bool,
    tell: &mut (dyn FnMut(CheckEvent) + Send),
) -> Result<Restored, BackupError> {
    let source = from.join(&manifest.database);
    let damaged = |what: String| BackupError::Damaged {
        path: from.to_owned(),
        what,
    };
    let database = unfinished.join(DATABASE_FILE);
    copy_database(&source, &database)?;
    let (bytes, sha256) = digest(&database).map_err(at(&database))?;
    if (bytes, &sha256) != (manifest.database_bytes, &manifest.database_sha256) {
        return Err(damaged(format!(
            "{} is not the database that was copied",
            manifest.database
        )));
    }
    let snapshot = Snapshot::open(&database)?;
    let heads = snapshot.heads()?;
    let is_same =
        |((room, head), noted): (&(_, _), &super::manifest::RoomAt)| *room == noted.room && *head == noted.head;
    if snapshot.hub()? != manifest.hub
        || heads.len() != manifest.rooms.len()
        || !heads.iter().zip(&manifest.rooms).all(is_same)
    {
        return Err(damaged("its note is another database's".to_owned()));
    }
    copy_blobs(from, unfinished, &snapshot, copy).map_err(|error| match error {
        BackupError::Blob { what } => damaged(what),
        error => error,
    })?;
    drop(snapshot);

    // As a hub would: an older format is brought up to date.
    let store = SqliteStore::open(unfinished, SqliteOptions::default())?;
    store.close().await.map_err(|error| damaged(error.to_string()))?;
    drop(store);
    let mut first = None;
    let summary = check(unfinished, &CheckOptions::default(), &mut |event| {
        if let CheckEvent::Found(finding) = &event
            && finding.severity == Severity::Damage
        {
            first.get_or_insert_with(|| finding.to_string());
        }
        tell(event);
    })
    .await?;
    if let Some(first) = first {
        return Err(damaged(match summary.damage {
            1 => first,
            more => format!("{first}, and {} more", more - 1),
        }));
    }
    sync_tree(unfinished)?;
    Ok(Restored {
        hub: manifest.hub,
        made_at: manifest.made_at,
        rooms: summary.rooms,
        messages: summary.messages,
        blobs: summary.blobs,
    })
}

/// Refuses a place that has something in it.
fn check_free(data_dir: &Path) -> Result<(), BackupError> {
    let not_empty = || BackupError::NotEmpty(data_dir.to_owned());
    match fs::read_dir(data_dir) {
        Ok(mut entries) => entries.next().map_or(Ok(()), |_| Err(not_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(not_empty()),
        Err(error) => Err(at(data_dir)(error)),
    }
}

/// Keeps other restores out of the directory in which this one works.
fn lock(parent: &Path) -> Result<fs::File, BackupError> {
    let directory = fs::File::open(parent).map_err(at(parent))?;
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(directory),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(BackupError::InUse(parent.to_owned())),
        Err(error) => Err(at(parent)(error.into())),
    }
}

fn copy_database(from: &Path, to: &Path) -> Result<(), BackupError> {
    use std::os::unix::fs::OpenOptionsExt;
    if !fs::metadata(from).map_err(at(from))?.is_file() {
        return Err(at(from)(io::Error::other("it is no file")));
    }
    let mut source = fs::File::open(from).map_err(at(from))?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .map_err(at(to))?;
    io::copy(&mut source, &mut file).map_err(at(to))?;
    file.sync_all().map_err(at(to))
}

fn copy_blobs(from: &Path, to: &Path, snapshot: &Snapshot, copy: bool) -> Result<(), BackupError> {
    let mut blobs = BlobCopies::open(from.join(BLOBS_DIRECTORY), to.join(BLOBS_DIRECTORY), copy)?;
    let mut after = None;
    loop {
        let wanted = snapshot.file_blobs_after(after.as_ref())?;
        let Some((last, _)) = wanted.last() else {
            return blobs.finish();
        };
        after = Some(*last);
        for (id, size) in wanted {
            blobs.need(&id, size, &mut |_| ())?;
        }
    }
}

/// The directory and those in it; the files have been synced as they were made.
fn sync_tree(directory: &Path) -> Result<(), BackupError> {
    let mut directories: Vec<PathBuf> = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(at(&directory))? {
            let entry = entry.map_err(at(&directory))?;
            if entry.file_type().map_err(at(&entry.path()))?.is_dir() {
                directories.push(entry.path());
            }
        }
        sync_directory(&directory).map_err(at(&directory))?;
    }
    Ok(())
}
