//! Content given up, row by row: a message's body gives way to its note, a blob's link to a word that it was there. Each
//! call is one short transaction.

use parler_protocol::{BundleId, DroppedMessage, Message, RoomName, Seq};
use rusqlite::{Connection, OptionalExtension};

use super::failure::Failure;
use super::{column, parsed, rooms, seq_of};
use crate::message_parts::blob_references;
use crate::retention::{Age, age};
use crate::store::{BlobDrop, DroppedBlobs, DroppedMessages, RoomMark, SlicedMessage, StoreError};

/// Messages looked at in one transaction.
const MESSAGES_AT_ONCE: i64 = 256;
/// And about so many bytes of them.
const BYTES_AT_ONCE: usize = 1 << 20; // 1 MiB
/// Messages read at once, when nothing is written.
const SLICE_MESSAGES: i64 = 512;
/// And about so many bytes of them.
const SLICE_BYTES: usize = 4 << 20; // 4 MiB
/// Blobs named at once.
const SLICE_BLOBS: i64 = 1_000;
/// Messages that may have come since it was decided what is needed: with more it is decided anew.
const MOST_SINCE: i64 = 512;

/// All rooms, by name.
pub(super) fn all_rooms(connection: &Connection) -> Result<Vec<RoomMark>, Failure> {
    let mut select =
        connection.prepare_cached("SELECT name, created_at, head_seq, push_seq FROM rooms ORDER BY key")?;
    let mut rows = select.query(())?;
    let mut rooms = Vec::new();
    while let Some(row) = rows.next()? {
        rooms.push(RoomMark {
            room: parsed(row, 0)?,
            made_at: row.get(1)?,
            head: seq_of(row.get(2)?),
            newest_push: seq_of(row.get(3)?),
        });
    }
    Ok(rooms)
}

/// Messages after `after`, for nobody but the hub itself.
pub(super) fn log_slice(connection: &Connection, room: &RoomName, after: Seq) -> Result<Vec<SlicedMessage>, Failure> {
    let (room, _) = rooms::find(connection, room, None)?.ok_or(StoreError::NotFound)?;
    let (mut bytes, mut messages) = (0, Vec::new());
    let mut select = connection
        .prepare_cached("SELECT body, dropped_at FROM messages WHERE room = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?;
    let mut rows = select.query((room.row, column(after), SLICE_MESSAGES))?;
    while bytes < SLICE_BYTES
        && let Some(row) = rows.next()?
    {
        let body: Vec<u8> = row.get(0)?;
        bytes += body.len();
        messages.push(SlicedMessage {
            stored: body.into(),
            dropped_at: row.get(1)?,
        });
    }
    Ok(messages)
}

/// Blobs of the room that came with messages up to `up_to`, in the order of their ids, each with its length.
pub(super) fn held_blobs(
    connection: &Connection,
    room: &RoomName,
    up_to: Seq,
    after: Option<BundleId>,
) -> Result<Vec<(BundleId, u64)>, Failure> {
    let (room, _) = rooms::find(connection, room, None)?.ok_or(StoreError::NotFound)?;
    let mut select = connection.prepare_cached(
        "SELECT b.id, b.size FROM room_blobs l JOIN blobs b ON b.blob = l.blob
         WHERE l.room = ?1 AND l.seq <= ?2 AND b.id > ?3 ORDER BY b.id LIMIT ?4",
    )?;
    let after: &[u8] = after.as_ref().map_or(&[], |id| id.as_bytes());
    let rows = select.query_map((room.row, column(up_to), after, SLICE_BLOBS), |row| {
        Ok((BundleId::from_digest(row.get(0)?), row.get::<_, i64>(1)?.unsigned_abs()))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Looks at the next messages after `from`, or after those that were looked at before, and gives up those that may be and
/// are older than `before`, unless it is only asked what would be.
pub(super) fn drop_messages(
    connection: &Connection,
    room: &RoomName,
    before: i64,
    now: i64,
    from: Option<Seq>,
    dry_run: bool,
) -> Result<DroppedMessages, Failure> {
    let (room, _) = rooms::find(connection, room, None)?.ok_or(StoreError::NotFound)?;
    let swept: i64 = connection
        .prepare_cached("SELECT swept_seq FROM rooms WHERE room = ?1")?
        .query_row([room.row], |row| row.get(0))?;
    let mut at = from.map_or(swept, column);
    let mut dropped = DroppedMessages::default();
    let (mut looked_at, mut bytes, mut is_over) = (0, 0, false);
    let mut notes = Vec::new();
    {
        let mut select = connection.prepare_cached(
            "SELECT message, seq, body FROM messages WHERE room = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )?;
        let mut rows = select.query((room.row, at, MESSAGES_AT_ONCE))?;
        while bytes < BYTES_AT_ONCE
            && let Some(row) = rows.next()?
        {
            let (message, seq, body): (i64, i64, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
            match age(&body) {
                Age::Droppable(ts) | Age::Kept(Some(ts)) if ts >= before => {
                    // Times never go back along a log: all that follow are young as well.
                    is_over = true;
                    break;
                }
                Age::Droppable(_) => {
                    dropped.messages += 1;
                    dropped.bytes += body.len() as u64;
                    notes.push((message, DroppedMessage::in_place_of(seq_of(seq), &room.name, &body)));
                }
                Age::Kept(_) | Age::Dropped => {}
            }
            bytes += body.len();
            at = seq;
            looked_at += 1;
        }
    }
    if !dry_run {
        let mut update =
            connection.prepare_cached("UPDATE messages SET body = ?2, dropped_at = ?3 WHERE message = ?1")?;
        for (message, note) in notes {
            update.execute((message, note.to_bytes(), now))?;
        }
    }
    if !dry_run && at > swept {
        connection
            .prepare_cached("UPDATE rooms SET swept_seq = ?2 WHERE room = ?1")?
            .execute((room.row, at))?;
    }
    dropped.next = (looked_at > 0 && !is_over).then(|| seq_of(at));
    Ok(dropped)
}

/// Gives up blobs of a room that were found not to be needed when its log reached `as_of`. None: since then something came
/// that may need them.
pub(super) fn drop_blobs(connection: &Connection, drop: &BlobDrop) -> Result<Option<DroppedBlobs>, Failure> {
    let (room, _) = rooms::find(connection, &drop.room, None)?.ok_or(StoreError::NotFound)?;
    let made_at: i64 = connection
        .prepare_cached("SELECT created_at FROM rooms WHERE room = ?1")?
        .query_row([room.row], |row| row.get(0))?;
    if made_at != drop.made_at || room.end.seq < drop.as_of {
        // Another one, under the same name.
        return Ok(None);
    }
    let mut spoken_of = Vec::new();
    {
        let mut select = connection
            .prepare_cached("SELECT is_push, body FROM messages WHERE room = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?;
        let mut rows = select.query((room.row, column(drop.as_of), MOST_SINCE + 1))?;
        let mut since = 0;
        while let Some(row) = rows.next()? {
            since += 1;
            let (is_push, body): (bool, Vec<u8>) = (row.get(0)?, row.get(1)?);
            let Ok(message) = Message::parse(&body) else {
                return Ok(None);
            };
            if since > MOST_SINCE || is_push {
                return Ok(None);
            }
            spoken_of.extend(
                blob_references(&message.parts)
                    .into_iter()
                    .map(|reference| reference.id),
            );
        }
    }
    let mut dropped = DroppedBlobs::default();
    for id in drop.ids.iter().filter(|id| !spoken_of.contains(id)) {
        let found: Option<(i64, i64, bool)> = connection
            .prepare_cached(
                "SELECT b.blob, b.size, b.bytes IS NULL FROM blobs b JOIN room_blobs l ON l.blob = b.blob
                 WHERE b.id = ?1 AND l.room = ?2 AND l.seq <= ?3",
            )?
            .query_row((id.as_bytes(), room.row, column(drop.up_to)), |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let Some((blob, size, is_file)) = found else { continue };
        connection
            .prepare_cached("DELETE FROM room_blobs WHERE room = ?1 AND blob = ?2")?
            .execute((room.row, blob))?;
        connection
            .prepare_cached("DELETE FROM fetches WHERE room = ?1 AND blob = ?2")?
            .execute((room.row, blob))?;
        connection
            .prepare_cached("INSERT OR REPLACE INTO dropped_blobs (room, id, dropped_at) VALUES (?1, ?2, ?3)")?
            .execute((room.row, id.as_bytes(), drop.now))?;
        let is_elsewhere = connection
            .prepare_cached("SELECT 1 FROM room_blobs WHERE blob = ?1")?
            .exists([blob])?;
        if !is_elsewhere {
            connection
                .prepare_cached("DELETE FROM blobs WHERE blob = ?1")?
                .execute([blob])?;
            dropped.files.extend(is_file.then_some(*id));
        }
        dropped.blobs += 1;
        dropped.bytes += size.unsigned_abs();
    }
    Ok(Some(dropped))
}

/// Whether the room held this blob and no longer does.
pub(super) fn was_dropped(connection: &Connection, room: i64, id: &BundleId) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached("SELECT 1 FROM dropped_blobs WHERE room = ?1 AND id = ?2")?;
    Ok(select.exists((room, id.as_bytes()))?)
}

/// The room holds this blob again.
pub(super) fn is_back(connection: &Connection, room: i64, id: &BundleId) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM dropped_blobs WHERE room = ?1 AND id = ?2")?
        .execute((room, id.as_bytes()))?;
    Ok(())
}

/// How many blobs the room held and no longer does, and when the newest of them was given up: two answers are the same
/// where nothing changed between them.
pub(super) fn drops(connection: &Connection, room: i64) -> Result<Option<(i64, i64)>, Failure> {
    let mut select =
        connection.prepare_cached("SELECT count(*), max(dropped_at) FROM dropped_blobs WHERE room = ?1")?;
    let (count, newest): (i64, Option<i64>) = select.query_row([room], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(newest.map(|newest| (count, newest)))
}

/// The blobs that the room held and no longer does.
pub(super) fn dropped_ids(connection: &Connection, room: i64) -> Result<Vec<BundleId>, Failure> {
    let mut select = connection.prepare_cached("SELECT id FROM dropped_blobs WHERE room = ?1 ORDER BY id")?;
    let ids = select.query_map([room], |row| row.get::<_, [u8; 32]>(0))?;
    ids.map(|id| Ok(BundleId::from_digest(id?))).collect()
}
