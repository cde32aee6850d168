//! A copy of a database as it was at one moment, made while its hub writes on; and what such a copy says is needed with it.
//! Knows no blob's bytes but those in the database.

use std::path::{Path, PathBuf};

use parler_protocol::{BundleId, ChainHash, Head, HubId, RoomName};
use rusqlite::Connection;

use super::data_directory::{self, DATABASE_FILE, DirectoryLock, make_file};
use super::{OpenError, connection, schema, seq_of};

/// A database that can be copied. A hub may have it open.
#[derive(Debug)]
pub(crate) struct SnapshotSource {
    connection: Connection,
    directory: PathBuf,
    database: PathBuf,
    /// Held while nobody else has the directory.
    _lock: Option<DirectoryLock>,
}

impl SnapshotSource {
    /// Opens the database of a data directory. Makes nothing there but the log's index, where a killed hub left a log.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let directory = path.canonicalize().map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        let database = directory.join(DATABASE_FILE);
        let lock = data_directory::lock_if_free(&directory)?;
        let connection = connection::open_source(&database).map_err(|source| OpenError::Database {
            path: database.clone(),
            source,
        })?;
        schema::check(&connection, &database)?;
        Ok(Self {
            connection,
            directory,
            database,
            _lock: lock,
        })
    }

    /// The data directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The hub's id.
    pub(crate) fn hub(&self) -> Result<HubId, OpenError> {
        hub(&self.connection, &self.database)
    }

    /// Copies the database as it is now to a new file that only its owner can read, and that is not synced yet. One read
    /// transaction: the writer goes on, and its log grows meanwhile.
    pub(crate) fn copy_to(&self, to: &Path) -> Result<(), OpenError> {
        let made = make_file(to).map_err(|source| OpenError::Io {
            path: to.to_owned(),
            source,
        })?;
        drop(made);
        // A path is text to SQLite, so it has to be some.
        let name = to.to_str().ok_or_else(|| OpenError::Io {
            path: to.to_owned(),
            source: std::io::Error::other("the path is no UTF-8"),
        })?;
        let copied = self.connection.execute("VACUUM INTO ?1", [name]);
        copied.map(drop).map_err(|source| OpenError::Database {
            path: to.to_owned(),
            source,
        })
    }
}

/// A copy that nobody writes to.
#[derive(Debug)]
pub(crate) struct Snapshot {
    connection: Connection,
    database: PathBuf,
}

impl Snapshot {
    /// Opens it.
    pub(crate) fn open(database: &Path) -> Result<Self, OpenError> {
        let connection = connection::open_unchanging(database).map_err(|source| OpenError::Database {
            path: database.to_owned(),
            source,
        })?;
        schema::check(&connection, database)?;
        Ok(Self {
            connection,
            database: database.to_owned(),
        })
    }

    /// The hub's id.
    pub(crate) fn hub(&self) -> Result<HubId, OpenError> {
        hub(&self.connection, &self.database)
    }

    /// How far each room reaches, by name.
    pub(crate) fn heads(&self) -> Result<Vec<(RoomName, Head)>, OpenError> {
        let select = || {
            let mut select = self
                .connection
                .prepare("SELECT name, head_seq, head_h FROM rooms ORDER BY key")?;
            let rows = select.query_map((), |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, i64>(1)?,
                    row.get::<_, [u8; 32]>(2)?,
                ))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = select().map_err(|source| self.failed(source))?;
        let head = |(name, seq, h): (String, i64, [u8; 32])| {
            let name = name.parse().map_err(|_| OpenError::NotAHub(self.database.clone()))?;
            let (seq, h) = (seq_of(seq), ChainHash::from_bytes(h));
            Ok((name, Head { seq, h }))
        };
        rows.into_iter().map(head).collect()
    }

    /// The blobs that are files, after this one: the first of them, each with its length in bytes.
    pub(crate) fn file_blobs_after(&self, after: Option<&BundleId>) -> Result<Vec<(BundleId, u64)>, OpenError> {
        let select = || {
            let mut select = self
                .connection
                .prepare_cached("SELECT id, size FROM blobs WHERE id > ?1 AND bytes IS NULL ORDER BY id LIMIT 1000")?;
            let after: &[u8] = after.map_or(&[], |id| id.as_bytes());
            let rows = select.query_map([after], |row| {
                let size: i64 = row.get(1)?;
                Ok((BundleId::from_digest(row.get(0)?), size.unsigned_abs()))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        select().map_err(|source| self.failed(source))
    }

    /// Whether this blob is a file.
    pub(crate) fn has_file(&self, id: &BundleId) -> Result<bool, OpenError> {
        let select = || {
            self.connection
                .prepare_cached("SELECT 1 FROM blobs WHERE id = ?1 AND bytes IS NULL")?
                .exists([id.as_bytes()])
        };
        select().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: rusqlite::Error) -> OpenError {
        OpenError::Database {
            path: self.database.clone(),
            source,
        }
    }
}

fn hub(connection: &Connection, database: &Path) -> Result<HubId, OpenError> {
    let id = connection.query_row("SELECT id FROM hub", (), |row| row.get(0));
    id.map(HubId::from_bytes).map_err(|source| OpenError::Database {
        path: database.to_owned(),
        source,
    })
}
