//! Who is in a room, and what each has acknowledged. Coming in twice is coming in once, and a cursor never goes back.

use parler_protocol::api::{Member, RoomAnswer, WakePath};
use parler_protocol::{AgentId, Head, HubId, RoomKind, RoomName, Seq};
use rusqlite::Connection;

use super::batch::Batch;
use super::failure::Failure;
use super::{agent_id, agents, column, departures, names, optional, outsiders, parsed, rooms, seq_of};
use crate::store::{Admission, StoreError};

/// Adds a member. It must not be one.
pub(super) fn insert(connection: &Connection, room: i64, agent: i64, is_owner: bool, now: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT INTO members (room, agent, is_owner, joined_at, cursor) VALUES (?1, ?2, ?3, ?4, 0)")?
        .execute((room, agent, is_owner, now))?;
    Ok(())
}

/// Whether the agent is in the room.
pub(super) fn is_member(connection: &Connection, room: i64, agent: i64) -> Result<bool, Failure> {
    let mut select = connection.prepare_cached("SELECT 1 FROM members WHERE room = ?1 AND agent = ?2")?;
    Ok(select.exists((room, agent))?)
}

/// Whether the agent may work on the jobs of the service whose room this is.
pub(super) fn serves(connection: &Connection, room: i64, agent: i64) -> Result<bool, Failure> {
    let mut select =
        connection.prepare_cached("SELECT 1 FROM members WHERE room = ?1 AND agent = ?2 AND serves = 1")?;
    Ok(select.exists((room, agent))?)
}

/// Lets a member work on the jobs of the service whose room this is.
pub(super) fn set_serving(connection: &Connection, room: i64, agent: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE members SET serves = 1 WHERE room = ?1 AND agent = ?2")?
        .execute((room, agent))?;
    Ok(())
}

/// Lets a known agent into a channel without an invite.
pub(super) fn join_channel(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    now: i64,
) -> Result<RoomAnswer, Failure> {
    let agent = agents::find(batch.connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let room = rooms::channel(batch.connection, room)?.ok_or(StoreError::NotFound)?;
    if !is_member(batch.connection, room.row, agent)? {
        if outsiders::find(batch.connection, room.row, agent)?.is_some() {
            return Err(StoreError::NotFound.into());
        }
        // One that its last member has left is whose comes first.
        let is_owner = !departures::has_owner(batch.connection, room.row)?;
        insert(batch.connection, room.row, agent, is_owner, now)?;
    }
    Ok(room.answer(batch.head(&room).head()))
}

/// Makes a key known and a member of these channels, as far as it is not.
pub(super) fn admit(
    connection: &Connection,
    hub: &HubId,
    agent: &AgentId,
    rooms: &[RoomName],
    now: i64,
) -> Result<Admission, Failure> {
    let mut admission = Admission::default();
    let row = match agents::find(connection, agent)? {
        Some(row) => row,
        None => {
            admission.is_new = true;
            agents::insert(connection, agent, now)?
        }
    };
    for room in rooms {
        match rooms::find(connection, room, Some(row))? {
            Some((found, _)) if found.kind != RoomKind::Channel => return Err(StoreError::NotFound.into()),
            Some((_, Some(_))) => {}
            Some((found, None)) => {
                names::check_in_room(connection, found.row, row)?;
                let is_owner = !departures::has_owner(connection, found.row)?;
                insert(connection, found.row, row, is_owner, now)?;
                outsiders::forget(connection, found.row, row)?;
                admission.joined.push(found.name);
            }
            None => {
                let made = rooms::insert(connection, hub, room, RoomKind::Channel, row, now)?;
                admission.made.push(made.name);
            }
        }
    }
    Ok(admission)
}

/// The room and its members, in the order they came.
pub(super) fn list(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
) -> Result<(RoomAnswer, Vec<Member>), Failure> {
    let (room, _) = rooms::of_member(connection, room, agent)?;
    let mut select = connection.prepare_cached(
        "SELECT a.id, a.name, a.role, m.is_owner, m.cursor, a.last_seen, a.status, m.serves
         FROM members m JOIN agents a ON a.agent = m.agent WHERE m.room = ?1 ORDER BY m.member",
    )?;
    let mut rows = select.query([room.row])?;
    let mut members = Vec::new();
    while let Some(row) = rows.next()? {
        members.push(Member {
            id: agent_id(row, 0)?,
            name: parsed(row, 1)?,
            role: optional(row, 2)?,
            owner: row.get(3)?,
            cursor: seq_of(row.get(4)?),
            last_seen: row.get(5)?,
            // Only the hub itself knows.
            wake: WakePath::None,
            status: optional(row, 6)?,
            serves: row.get(7)?,
        });
    }
    Ok((room.answer(room.end.head()), members))
}

/// The agent's cursor after a move to `seq`, and the head: forward only, and at most to the head.
pub(super) fn acknowledge(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    seq: Seq,
) -> Result<(Seq, Head), Failure> {
    let (room, membership) = rooms::of_member(batch.connection, room, agent)?;
    let head = batch.head(&room).head();
    let cursor = membership.cursor.max(seq.min(head.seq));
    if cursor > membership.cursor {
        batch
            .connection
            .prepare_cached("UPDATE members SET cursor = ?2 WHERE member = ?1")?
            .execute((membership.row, column(cursor)))?;
    }
    Ok((cursor, head))
}
