//! How an agent ceases to be in a room or to own it, and a room to be. A membership takes the invites that its agent made
//! with it, what tokens of its agent may do there, and what it had to do with jobs.

use parler_protocol::api::RoomAnswer;
use parler_protocol::{AgentId, BundleId, RoomKind, RoomName};
use rusqlite::Connection;

use super::batch::Batch;
use super::failure::Failure;
use super::outsiders::{self, Standing};
use super::rooms::{self, RoomRow};
use super::{agent_id, agents, jobs, members};
use crate::store::{DeletedRoom, StoreError};

/// The room for one of its owners.
pub(super) fn of_owner(connection: &Connection, room: &RoomName, agent: &AgentId) -> Result<RoomRow, Failure> {
    let (room, membership) = rooms::of_member(connection, room, agent)?;
    match membership.is_owner {
        true => Ok(room),
        false => Err(StoreError::NotOwner(room.name).into()),
    }
}

/// A member by its key.
fn member(connection: &Connection, room: &RoomRow, agent: &AgentId) -> Result<i64, Failure> {
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotFound)?;
    match members::is_member(connection, room.row, agent)? {
        true => Ok(agent),
        false => Err(StoreError::NotFound.into()),
    }
}

/// Whether the room has members, and none of them owns it.
fn is_ownerless(connection: &Connection, room: i64) -> Result<bool, Failure> {
    Ok(!has_owner(connection, room)?
        && connection
            .prepare_cached("SELECT 1 FROM members WHERE room = ?1")?
            .exists([room])?)
}

/// Whether somebody owns the room.
pub(super) fn has_owner(connection: &Connection, room: i64) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached("SELECT 1 FROM members WHERE room = ?1 AND is_owner = 1")?;
    Ok(select.exists([room])?)
}

/// Ends the membership of an agent: by its own wish, or by that of an owner.
pub(super) fn end_membership(
    batch: &mut Batch<'_>,
    room: &RoomName,
    by: &AgentId,
    agent: &AgentId,
    now: i64,
) -> Result<RoomName, Failure> {
    let connection = batch.connection;
    let is_removal = by != agent;
    let room = match is_removal {
        true => of_owner(connection, room, by)?,
        false => rooms::of_member(connection, room, by)?.0,
    };
    let agent = member(connection, &room, agent)?;
    if room.kind == RoomKind::Service {
        jobs::forget_member(connection, room.row, agent, now)?;
    }
    for statement in [
        "DELETE FROM members WHERE room = ?1 AND agent = ?2",
        "DELETE FROM invites WHERE room = ?1 AND invited_by = ?2",
    ] {
        connection.prepare_cached(statement)?.execute((room.row, agent))?;
    }
    if room.kind != RoomKind::Dm && is_ownerless(connection, room.row)? {
        return Err(StoreError::LastOwner(room.name).into());
    }
    if is_removal {
        outsiders::set(connection, room.row, agent, Standing::Removed, now)?;
    }
    Ok(room.name)
}

/// Makes a member an owner, or no longer one.
pub(super) fn set_owner(
    batch: &mut Batch<'_>,
    room: &RoomName,
    by: &AgentId,
    agent: &AgentId,
    is_owner: bool,
) -> Result<RoomAnswer, Failure> {
    let connection = batch.connection;
    let room = of_owner(connection, room, by)?;
    let agent = member(connection, &room, agent)?;
    connection
        .prepare_cached("UPDATE members SET is_owner = ?3 WHERE room = ?1 AND agent = ?2")?
        .execute((room.row, agent, is_owner))?;
    match has_owner(connection, room.row)? {
        true => Ok(room.answer(batch.head(&room).head())),
        false => Err(StoreError::LastOwner(room.name).into()),
    }
}

/// Deletes a room, with its log, its refs, and the blobs that no other room holds.
pub(super) fn delete_room(
    batch: &mut Batch<'_>,
    room: &RoomName,
    by: &AgentId,
    now: i64,
) -> Result<DeletedRoom, Failure> {
    let connection = batch.connection;
    let room = of_owner(connection, room, by)?;
    let mut deleted = DeletedRoom {
        room: room.name.clone(),
        members: Vec::new(),
        files: Vec::new(),
    };
    let mut members =
        connection.prepare_cached("SELECT a.id FROM members m JOIN agents a ON a.agent = m.agent WHERE m.room = ?1")?;
    let mut rows = members.query([room.row])?;
    while let Some(row) = rows.next()? {
        deleted.members.push(agent_id(row, 0)?);
    }
    // What other rooms hold stays.
    let mut own = connection.prepare_cached(
        "SELECT b.blob, b.id, b.bytes IS NULL FROM room_blobs l JOIN blobs b ON b.blob = l.blob
         WHERE l.room = ?1 AND NOT EXISTS (
             SELECT 1 FROM room_blobs other WHERE other.blob = l.blob AND other.room <> l.room)",
    )?;
    let mut blobs: Vec<i64> = Vec::new();
    let mut rows = own.query([room.row])?;
    while let Some(row) = rows.next()? {
        blobs.push(row.get(0)?);
        if row.get(2)? {
            deleted.files.push(BundleId::from_digest(row.get(1)?));
        }
    }
    for statement in [
        "DELETE FROM idempotency WHERE message IN (SELECT message FROM messages WHERE room = ?1)",
        "DELETE FROM members WHERE room = ?1",
        "DELETE FROM invites WHERE room = ?1",
        "DELETE FROM refs WHERE room = ?1",
        "DELETE FROM room_blobs WHERE room = ?1",
        "DELETE FROM dropped_blobs WHERE room = ?1",
        "DELETE FROM messages WHERE room = ?1",
    ] {
        connection.prepare_cached(statement)?.execute([room.row])?;
    }
    let mut delete = connection.prepare_cached("DELETE FROM blobs WHERE blob = ?1")?;
    for blob in blobs {
        delete.execute([blob])?;
    }
    connection
        .prepare_cached("DELETE FROM rooms WHERE room = ?1")?
        .execute([room.row])?;
    // No two of a name were deleted at one time.
    connection
        .prepare_cached(
            "INSERT INTO deleted_rooms (key, deleted_at) VALUES (?1, ?2)
             ON CONFLICT (key) DO UPDATE SET deleted_at = max(deleted_at + 1, excluded.deleted_at)",
        )?
        .execute((room.name.key(), now))?;
    // The row's number may be another room's soon.
    batch.forget_room(room.row);
    Ok(deleted)
}

/// When a room of this name was deleted last, milliseconds since 1970.
pub(super) fn deleted_at(connection: &Connection, room: &RoomName) -> Result<Option<i64>, Failure> {
    let mut select = connection.prepare_cached("SELECT deleted_at FROM deleted_rooms WHERE key = ?1")?;
    let mut rows = select.query([room.key()])?;
    rows.next()?.map(|row| Ok(row.get(0)?)).transpose()
}
