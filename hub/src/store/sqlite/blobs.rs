//! Which blobs a room holds, and the bytes of the small ones. A blob is stored once however many rooms hold it, and
//! exists only for the members of those.

use std::collections::HashSet;

use parler_protocol::{AgentId, BundleId, RoomName, Seq};
use rusqlite::{Connection, OptionalExtension};

use super::failure::Failure;
use super::{column, retention, rooms};
use crate::fail_point::{FailPoint, reached};
use crate::store::{BlobLocation, Need, NewBlob, StoreError};

/// Stores the blob unless it is there, and links it to the room unless it is.
pub(super) fn bring(connection: &Connection, room: i64, seq: Seq, blob: &NewBlob) -> Result<(), Failure> {
    let (id, size) = (blob.id(), blob.size());
    let bytes = match blob {
        NewBlob::Inline { bytes, .. } => Some(bytes.as_ref()),
        NewBlob::File { .. } => None,
    };
    connection
        .prepare_cached("INSERT INTO blobs (id, size, bytes) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING")?
        .execute((id.as_bytes(), size.cast_signed(), bytes))?;
    reached(FailPoint::BlobInserted);
    connection
        .prepare_cached(
            "INSERT INTO room_blobs (room, blob, seq) SELECT ?1, blob, ?3 FROM blobs WHERE id = ?2
             ON CONFLICT (room, blob) DO NOTHING",
        )?
        .execute((room, id.as_bytes(), column(seq)))?;
    retention::is_back(connection, room, &id)?;
    reached(FailPoint::BlobLinked);
    Ok(())
}

/// Why a room does not hold a blob.
fn absent(connection: &Connection, room: i64, id: &BundleId) -> Result<Failure, Failure> {
    Ok(match retention::was_dropped(connection, room, id)? {
        true => StoreError::NoLongerKept(*id).into(),
        false => StoreError::NotFound.into(),
    })
}

/// The length of a blob in bytes, where the room holds it.
pub(super) fn size_in_room(connection: &Connection, room: i64, id: &BundleId) -> Result<Option<u64>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT b.size FROM blobs b JOIN room_blobs l ON l.blob = b.blob AND l.room = ?1 WHERE b.id = ?2",
    )?;
    let size: Option<i64> = select.query_row((room, id.as_bytes()), |row| row.get(0)).optional()?;
    Ok(size.map(i64::unsigned_abs))
}

/// Where the bytes of a blob are, for a member of a room that holds it.
pub(super) fn locate(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    id: &BundleId,
) -> Result<BlobLocation, Failure> {
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Read)?;
    locate_in_room(connection, room.row, id)
}

/// The same of the first of several blobs: of one at least, and then until `max_bytes` of them are held.
pub(super) fn locate_first(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    ids: &[BundleId],
    max_bytes: usize,
) -> Result<Vec<BlobLocation>, Failure> {
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Read)?;
    let (mut found, mut held) = (Vec::new(), 0);
    for id in ids {
        let location = match locate_in_room(connection, room.row, id) {
            // What is wrong with it is said to whoever begins with it.
            Err(_) if !found.is_empty() => break,
            located => located?,
        };
        if let BlobLocation::Inline(bytes) = &location {
            held += bytes.len();
        }
        found.push(location);
        if held >= max_bytes {
            break;
        }
    }
    Ok(found)
}

/// The lengths in bytes of blobs, for a member of a room that holds all of them.
pub(super) fn sizes(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    ids: &[BundleId],
) -> Result<Vec<u64>, Failure> {
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Read)?;
    ids.iter()
        .map(|id| match size_in_room(connection, room.row, id)? {
            Some(size) => Ok(size),
            None => Err(absent(connection, room.row, id)?),
        })
        .collect()
}

fn locate_in_room(connection: &Connection, room: i64, id: &BundleId) -> Result<BlobLocation, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT b.size, b.bytes FROM blobs b JOIN room_blobs l ON l.blob = b.blob AND l.room = ?1 WHERE b.id = ?2",
    )?;
    let found: Option<(i64, Option<Vec<u8>>)> = select
        .query_row((room, id.as_bytes()), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        None => Err(absent(connection, room, id)?),
        Some((size, None)) => Ok(BlobLocation::File(size.unsigned_abs())),
        Some((_, Some(bytes))) if BundleId::of(&bytes) == *id => Ok(BlobLocation::Inline(bytes.into())),
        Some((_, Some(_))) => Err(Failure::damaged(&format!("blob {id}"))),
    }
}

/// The blobs that are files and whose ids begin with this byte.
pub(super) fn files(connection: &Connection, first_byte: u8) -> Result<HashSet<BundleId>, Failure> {
    let (mut first, mut last) = ([0; 32], [0xff; 32]);
    (first[0], last[0]) = (first_byte, first_byte);
    let mut select = connection.prepare_cached("SELECT id FROM blobs WHERE id BETWEEN ?1 AND ?2 AND bytes IS NULL")?;
    let ids = select.query_map((first, last), |row| row.get::<_, [u8; 32]>(0))?;
    ids.map(|id| Ok(BundleId::from_digest(id?))).collect()
}
