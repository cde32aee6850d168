//! The note that makes a directory a backup: whose it is, how far its rooms reach, which database and how many blobs belong to
//! it. Written last, and replaced in one step.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use parler_protocol::{Head, HubId, RoomName};
use serde::{Deserialize, Serialize};

use super::{BackupError, at};
use crate::directory::sync_directory;

/// The note.
pub(super) const MANIFEST_FILE: &str = "backup.json";
/// The note while it is written.
const UNFINISHED: &str = "backup.json-new";
/// The form of a backup.
const FORMAT: u32 = 1;

/// What a backup is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Manifest {
    pub(super) format: u32,
    pub(super) hub: HubId,
    /// Counts the backups made to this place.
    pub(super) number: u64,
    /// When it was made, milliseconds since 1970.
    pub(super) made_at: i64,
    /// The name of its database.
    pub(super) database: String,
    pub(super) database_bytes: u64,
    /// 64 lowercase hexadecimal digits.
    pub(super) database_sha256: String,
    /// Blobs that are files.
    pub(super) blobs: u64,
    pub(super) blob_bytes: u64,
    /// How far each room reaches, by name.
    pub(super) rooms: Vec<RoomAt>,
}

/// A room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RoomAt {
    pub(super) room: RoomName,
    pub(super) head: Head,
}

impl Manifest {
    pub(super) fn new(hub: HubId, number: u64, made_at: i64, database: String, heads: Vec<(RoomName, Head)>) -> Self {
        Self {
            format: FORMAT,
            hub,
            number,
            made_at,
            database,
            database_bytes: 0,
            database_sha256: String::new(),
            blobs: 0,
            blob_bytes: 0,
            rooms: heads.into_iter().map(|(room, head)| RoomAt { room, head }).collect(),
        }
    }

    /// Reads the one of this place, where a backup was finished.
    pub(super) fn read(place: &Path) -> Result<Option<Self>, BackupError> {
        let damaged = |what: String| BackupError::Damaged {
            path: place.to_owned(),
            what,
        };
        let path = place.join(MANIFEST_FILE);
        // What is no file could keep a reader waiting for ever.
        let bytes = match fs::metadata(&path).and_then(|found| match found.is_file() {
            true => fs::read(&path),
            false => Err(io::Error::other("it is no file")),
        }) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        let read: Self =
            serde_json::from_slice(&bytes).map_err(|error| damaged(format!("{MANIFEST_FILE}: {error}")))?;
        if read.format != FORMAT {
            return Err(damaged(format!(
                "it has form {}, and this program knows form {FORMAT}",
                read.format
            )));
        }
        // It chooses a file: one of this place, and no other.
        if read.database.contains('/') || !read.database.ends_with(super::DATABASE_SUFFIX) {
            return Err(damaged(format!("{MANIFEST_FILE} names no database of a backup")));
        }
        Ok(Some(read))
    }

    /// Makes it the one of this place: from now on the backup is whole.
    pub(super) fn write(&self, place: &Path) -> Result<(), BackupError> {
        let unfinished = place.join(UNFINISHED);
        let written = || {
            let mut file: File = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&unfinished)?;
            let mut bytes = serde_json::to_vec_pretty(self)?;
            bytes.push(b'\n');
            file.write_all(&bytes)?;
            file.sync_all()
        };
        written().map_err(at(&unfinished))?;
        fs::rename(&unfinished, place.join(MANIFEST_FILE)).map_err(at(&unfinished))?;
        sync_directory(place).map_err(at(place))
    }
}
