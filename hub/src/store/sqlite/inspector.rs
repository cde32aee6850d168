//! A database looked at from outside its hub, which may be running: read in short transactions, so that the log of the
//! database does not grow behind them. Judges nothing and writes nothing; what it hands out is as it stands.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row};

use super::data_directory::{self, DATABASE_FILE, DirectoryLock};
use super::{OpenError, connection, schema};

/// Most messages of one slice.
const SLICE_MESSAGES: usize = 512;
/// A slice ends when it passes this size.
const SLICE_BYTES: usize = 4 << 20; // 4 MiB
/// Most blobs of one slice: of those in the database each may be 64 KiB.
const SLICE_BLOBS: usize = 64;

/// A room's row.
#[derive(Debug, Clone)]
pub(crate) struct StoredRoom {
    pub(crate) row: i64,
    pub(crate) key: String,
    pub(crate) name: String,
    /// Whether it is a service's.
    pub(crate) is_service: bool,
    pub(crate) head_seq: i64,
    pub(crate) head_h: Vec<u8>,
    pub(crate) head_ts: i64,
    pub(crate) push_seq: i64,
    pub(crate) object_format: Option<String>,
    pub(crate) head_ref: Option<String>,
}

/// A message's row.
#[derive(Debug)]
pub(crate) struct StoredMessage {
    pub(crate) seq: i64,
    pub(crate) id: Vec<u8>,
    /// Its author's key; none where there is no such agent.
    pub(crate) agent: Option<Vec<u8>>,
    /// Whether the author is a token, whose jobs sign with keys of their own.
    pub(crate) is_by_token: bool,
    pub(crate) digest: Vec<u8>,
    pub(crate) h: Vec<u8>,
    pub(crate) is_push: bool,
    pub(crate) dropped_at: Option<i64>,
    pub(crate) body: Vec<u8>,
}

/// A ref's row.
#[derive(Debug)]
pub(crate) struct StoredRef {
    pub(crate) name: String,
    pub(crate) oid: Vec<u8>,
    pub(crate) seq: i64,
}

/// A job's row.
#[derive(Debug)]
pub(crate) struct StoredJob {
    pub(crate) seq: i64,
    /// Its requester's key.
    pub(crate) requester: Vec<u8>,
    pub(crate) state: String,
}

/// A part of a room, all of it seen at the same moment.
#[derive(Debug)]
pub(crate) struct RoomSlice {
    pub(crate) room: StoredRoom,
    pub(crate) messages: Vec<StoredMessage>,
    /// What belongs to the room besides its log, where no message follows.
    pub(crate) end: Option<RoomEnd>,
}

/// What a room has besides its log.
#[derive(Debug)]
pub(crate) struct RoomEnd {
    pub(crate) refs: Vec<StoredRef>,
    /// Cursors behind the head, with whose they are.
    pub(crate) cursors_too_far: Vec<(Vec<u8>, i64)>,
    /// How many blobs the room holds.
    pub(crate) blobs: i64,
    /// The jobs of a service.
    pub(crate) jobs: Vec<StoredJob>,
}

/// A blob's row.
#[derive(Debug)]
pub(crate) struct StoredBlob {
    pub(crate) id: Vec<u8>,
    pub(crate) size: i64,
    /// None: it is a file.
    pub(crate) bytes: Option<Vec<u8>>,
    /// How many rooms hold it.
    pub(crate) rooms: i64,
}

/// How a blob belongs to a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoomBlobRow {
    /// It is there, brought by this message.
    Held { size: i64, seq: i64 },
    /// It was there.
    Dropped,
    /// The room knows nothing of it.
    Unknown,
}

/// A database that is looked at.
#[derive(Debug)]
pub(crate) struct Inspector {
    connection: Connection,
    directory: PathBuf,
    /// Held while nobody else has the directory.
    lock: Option<DirectoryLock>,
}

impl Inspector {
    /// Opens the database of a data directory, whose lock is taken where it is free. Makes nothing.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let directory = path.canonicalize().map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        let database = directory.join(DATABASE_FILE);
        let lock = data_directory::lock_if_free(&directory)?;
        let failed = |source| OpenError::Database {
            path: database.clone(),
            source,
        };
        // With nobody there and nothing in the log, not even the log's index has to be made.
        let is_whole =
            std::fs::metadata(directory.join(format!("{DATABASE_FILE}-wal"))).map_or(true, |log| log.len() == 0);
        let connection = if lock.is_some() && is_whole {
            connection::open_unchanging(&database).map_err(failed)?
        } else {
            connection::open_reader(&database).map_err(failed)?
        };
        schema::check(&connection, &database)?;
        let found = schema::format(&connection).map_err(failed)?;
        if found < schema::NEWEST {
            return Err(OpenError::OlderFormat {
                path: database,
                found,
                newest: schema::NEWEST,
            });
        }
        Ok(Self {
            connection,
            directory,
            lock,
        })
    }

    /// The directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a hub has the directory open meanwhile.
    pub(crate) fn is_in_use(&self) -> bool {
        self.lock.is_none()
    }

    /// The hub's id.
    pub(crate) fn hub(&self) -> rusqlite::Result<Option<[u8; 16]>> {
        self.connection
            .query_row("SELECT id FROM hub", (), |row| row.get(0))
            .optional()
    }

    /// How many rooms and messages there are, about.
    pub(crate) fn counts(&self) -> rusqlite::Result<(u64, u64)> {
        self.connection
            .query_row("SELECT count(*), coalesce(sum(head_seq), 0) FROM rooms", (), |row| {
                Ok((
                    row.get::<_, i64>(0)?.unsigned_abs(),
                    row.get::<_, i64>(1)?.unsigned_abs(),
                ))
            })
    }

    /// What SQLite itself finds wrong with the file.
    pub(crate) fn integrity(&self, mut found: impl FnMut(String)) -> rusqlite::Result<()> {
        let mut check = self.connection.prepare("PRAGMA integrity_check")?;
        let mut rows = check.query(())?;
        while let Some(row) = rows.next()? {
            let line: String = row.get(0)?;
            if line != "ok" {
                found(line);
            }
        }
        Ok(())
    }

    /// Rows that refer to rows that are not there.
    pub(crate) fn foreign_keys(&self, mut found: impl FnMut(String)) -> rusqlite::Result<()> {
        let mut check = self.connection.prepare("PRAGMA foreign_key_check")?;
        let mut rows = check.query(())?;
        while let Some(row) = rows.next()? {
            let (table, number, parent): (String, Option<i64>, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let number = number.map_or_else(String::new, |number| format!(" {number}"));
            found(format!(
                "row{number} of {table} refers to a row of {parent} that is not there"
            ));
        }
        Ok(())
    }

    /// Keys of requests whose message is gone, or another agent's.
    pub(crate) fn idempotency(&self, mut found: impl FnMut(String)) -> rusqlite::Result<()> {
        let mut select = self.connection.prepare(
            "SELECT i.entry, m.message IS NULL FROM idempotency i LEFT JOIN messages m ON m.message = i.message
             WHERE m.message IS NULL OR m.agent <> i.agent",
        )?;
        let mut rows = select.query(())?;
        while let Some(row) = rows.next()? {
            let (entry, is_gone): (i64, bool) = (row.get(0)?, row.get(1)?);
            let what = if is_gone {
                "to no message"
            } else {
                "to another agent's message"
            };
            found(format!("idempotency record {entry} leads {what}"));
        }
        Ok(())
    }

    /// The room after this row, as it is now.
    pub(crate) fn room_after(&self, row: i64) -> rusqlite::Result<Option<StoredRoom>> {
        let mut select = self.connection.prepare_cached(
            "SELECT room, key, name, head_seq, head_h, head_ts, push_seq, object_format, head_ref,
                        kind = 'service'
             FROM rooms WHERE room > ?1 ORDER BY room LIMIT 1",
        )?;
        select.query_row([row], stored_room).optional()
    }

    /// The messages of a room after this number, and what there is besides where none follow.
    pub(crate) fn slice(&self, room: i64, after: i64) -> rusqlite::Result<RoomSlice> {
        let transaction = self.connection.unchecked_transaction()?;
        let stored = transaction
            .prepare_cached(
                "SELECT room, key, name, head_seq, head_h, head_ts, push_seq, object_format, head_ref,
                        kind = 'service'
                 FROM rooms WHERE room = ?1",
            )?
            .query_row([room], stored_room)?;
        let mut messages = Vec::new();
        let mut bytes = 0;
        let mut select = transaction.prepare_cached(
            "SELECT m.seq, m.id, a.id, t.agent IS NOT NULL, m.digest, m.h, m.is_push, m.dropped_at, m.body
             FROM messages m LEFT JOIN agents a ON a.agent = m.agent LEFT JOIN tokens t ON t.agent = m.agent
             WHERE m.room = ?1 AND m.seq > ?2 ORDER BY m.seq",
        )?;
        let mut rows = select.query((room, after))?;
        while messages.len() < SLICE_MESSAGES
            && bytes < SLICE_BYTES
            && let Some(row) = rows.next()?
        {
            let message = stored_message(row)?;
            bytes += message.body.len();
            messages.push(message);
        }
        let end = match messages.is_empty() {
            true => Some(room_end(&transaction, room)?),
            false => None,
        };
        Ok(RoomSlice {
            room: stored,
            messages,
            end,
        })
    }

    /// How a blob belongs to a room.
    pub(crate) fn room_blob(&self, room: i64, id: &[u8]) -> rusqlite::Result<RoomBlobRow> {
        let mut select = self.connection.prepare_cached(
            "SELECT b.size, l.seq FROM blobs b JOIN room_blobs l ON l.blob = b.blob AND l.room = ?1 WHERE b.id = ?2",
        )?;
        let held = select.query_row((room, id), |row| {
            Ok(RoomBlobRow::Held {
                size: row.get(0)?,
                seq: row.get(1)?,
            })
        });
        if let Some(held) = held.optional()? {
            return Ok(held);
        }
        let mut select = self
            .connection
            .prepare_cached("SELECT 1 FROM dropped_blobs WHERE room = ?1 AND id = ?2")?;
        Ok(match select.exists((room, id))? {
            true => RoomBlobRow::Dropped,
            false => RoomBlobRow::Unknown,
        })
    }

    /// The blobs of a room after this one, each with the message that brought it.
    pub(crate) fn blobs_of_room(&self, room: i64, after: i64) -> rusqlite::Result<Vec<(i64, Vec<u8>, i64)>> {
        let mut select = self.connection.prepare_cached(
            "SELECT l.blob, b.id, l.seq FROM room_blobs l JOIN blobs b ON b.blob = l.blob
             WHERE l.room = ?1 AND l.blob > ?2 ORDER BY l.blob LIMIT 1000",
        )?;
        let rows = select.query_map((room, after), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    }

    /// What is stored as this message of a room.
    pub(crate) fn body(&self, room: i64, seq: i64) -> rusqlite::Result<Option<Vec<u8>>> {
        let mut select = self
            .connection
            .prepare_cached("SELECT body FROM messages WHERE room = ?1 AND seq = ?2")?;
        select.query_row((room, seq), |row| row.get(0)).optional()
    }

    /// Blobs after this id, in their order.
    pub(crate) fn blobs_after(&self, id: &[u8]) -> rusqlite::Result<Vec<StoredBlob>> {
        let mut select = self.connection.prepare_cached(
            "SELECT id, size, bytes, (SELECT count(*) FROM room_blobs l WHERE l.blob = b.blob)
             FROM blobs b WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        let rows = select.query_map((id, SLICE_BLOBS as i64), |row| {
            Ok(StoredBlob {
                id: row.get(0)?,
                size: row.get(1)?,
                bytes: row.get(2)?,
                rooms: row.get(3)?,
            })
        })?;
        rows.collect()
    }

    /// Whether this blob is to be a file.
    pub(crate) fn is_file(&self, id: &[u8]) -> rusqlite::Result<bool> {
        self.connection
            .prepare_cached("SELECT 1 FROM blobs WHERE id = ?1 AND bytes IS NULL")?
            .exists([id])
    }
}

fn stored_room(row: &Row<'_>) -> rusqlite::Result<StoredRoom> {
    Ok(StoredRoom {
        row: row.get(0)?,
        key: row.get(1)?,
        name: row.get(2)?,
        head_seq: row.get(3)?,
        head_h: row.get(4)?,
        head_ts: row.get(5)?,
        push_seq: row.get(6)?,
        object_format: row.get(7)?,
        head_ref: row.get(8)?,
        is_service: row.get(9)?,
    })
}

fn stored_message(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    Ok(StoredMessage {
        seq: row.get(0)?,
        id: row.get(1)?,
        agent: row.get(2)?,
        is_by_token: row.get(3)?,
        digest: row.get(4)?,
        h: row.get(5)?,
        is_push: row.get(6)?,
        dropped_at: row.get(7)?,
        body: row.get(8)?,
    })
}

fn room_end(connection: &Connection, room: i64) -> rusqlite::Result<RoomEnd> {
    let mut select = connection.prepare_cached("SELECT name, oid, seq FROM refs WHERE room = ?1 ORDER BY name")?;
    let refs = select.query_map([room], |row| {
        Ok(StoredRef {
            name: row.get(0)?,
            oid: row.get(1)?,
            seq: row.get(2)?,
        })
    })?;
    let refs = refs.collect::<Result<_, _>>()?;
    let mut select = connection.prepare_cached(
        "SELECT a.id, m.cursor FROM members m JOIN rooms r ON r.room = m.room JOIN agents a ON a.agent = m.agent
         WHERE m.room = ?1 AND m.cursor > r.head_seq",
    )?;
    let cursors = select.query_map([room], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let cursors_too_far = cursors.collect::<Result<_, _>>()?;
    let blobs = connection
        .prepare_cached("SELECT count(*) FROM room_blobs WHERE room = ?1")?
        .query_row([room], |row| row.get(0))?;
    let mut select = connection.prepare_cached(
        "SELECT j.seq, a.id, j.state FROM jobs j JOIN agents a ON a.agent = j.requester WHERE j.room = ?1 ORDER BY j.seq",
    )?;
    let jobs = select.query_map([room], |row| {
        Ok(StoredJob {
            seq: row.get(0)?,
            requester: row.get(1)?,
            state: row.get(2)?,
        })
    })?;
    let jobs = jobs.collect::<Result<_, _>>()?;
    Ok(RoomEnd {
        refs,
        cursors_too_far,
        blobs,
        jobs,
    })
}
