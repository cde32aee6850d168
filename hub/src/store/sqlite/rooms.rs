//! Rooms and who is in them, as rows. Every way to a room leads through its membership.

use std::collections::HashSet;

use parler_protocol::api::{Peer, RoomAnswer, RoomSummary};
use parler_protocol::limits::MAX_PAGE_MESSAGES;
use parler_protocol::{AgentId, ChainHash, Head, HubId, ObjectFormat, RefName, RoomKind, RoomName, Seq, ServiceName};
use rusqlite::{Connection, OptionalExtension, Row};

use super::batch::{Batch, RoomHead};
use super::failure::Failure;
use super::{agent_id, agents, members, optional, outsiders, parsed, seq_of, tokens};
use crate::store::{Need, StoreError};

/// A room, as its row has it. Within a batch its end may be older than [`Batch::head`].
#[derive(Debug, Clone)]
pub(super) struct RoomRow {
    pub(super) row: i64,
    pub(super) name: RoomName,
    pub(super) kind: RoomKind,
    pub(super) end: RoomHead,
    pub(super) object_format: Option<ObjectFormat>,
    pub(super) head_ref: Option<RefName>,
}

/// That an agent is in a room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Membership {
    /// The row in `members`.
    pub(super) row: i64,
    pub(super) cursor: Seq,
    pub(super) is_owner: bool,
    /// Whether it may work on the jobs of the service whose room this is.
    pub(super) serves: bool,
}

impl RoomRow {
    /// What a member is told, for this end of the log.
    pub(super) fn answer(&self, head: Head) -> RoomAnswer {
        RoomAnswer {
            room: self.name.clone(),
            kind: self.kind,
            head,
        }
    }
}

/// The room of this name, and whether the agent whose row this is belongs to it.
pub(super) fn find(
    connection: &Connection,
    room: &RoomName,
    agent: Option<i64>,
) -> Result<Option<(RoomRow, Option<Membership>)>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT r.room, r.name, r.kind, r.head_seq, r.head_h, r.head_ts, r.push_seq, r.object_format, r.head_ref,
                m.member, m.cursor, m.is_owner, m.serves
         FROM rooms r LEFT JOIN members m ON m.room = r.room AND m.agent = ?2
         WHERE r.key = ?1",
    )?;
    let mut rows = select.query((room.key(), agent))?;
    rows.next()?
        .map(|row| Ok((room_row(row)?, membership(row)?)))
        .transpose()
}

/// The room with this row.
pub(super) fn by_row(connection: &Connection, row: i64) -> Result<RoomRow, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT room, name, kind, head_seq, head_h, head_ts, push_seq, object_format, head_ref
         FROM rooms WHERE room = ?1",
    )?;
    let mut rows = select.query([row])?;
    room_row(rows.next()?.ok_or_else(|| Failure::damaged("a reference to a room"))?)
}

/// The room of this name for one of its members; for anybody else it does not exist.
pub(super) fn of_member(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
) -> Result<(RoomRow, Membership), Failure> {
    let agent = agents::find(connection, agent)?;
    match find(connection, room, agent)? {
        Some((room, Some(membership))) => Ok((room, membership)),
        Some((room, None)) => Err(outsiders::refusal(connection, &room, agent)?.into()),
        None => Err(StoreError::NotFound.into()),
    }
}

/// The room of this name for one of its members, or for a token that may do this there; for anybody else it does not
/// exist. A token has acknowledged nothing.
pub(super) fn for_caller(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    need: Need,
) -> Result<(RoomRow, Seq), Failure> {
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotFound)?;
    match find(connection, room, Some(agent))? {
        Some((room, Some(membership))) => Ok((room, membership.cursor)),
        Some((room, None)) if tokens::may(connection, room.row, agent, need)? => Ok((room, Seq::ZERO)),
        Some((room, None)) => Err(outsiders::refusal(connection, &room, Some(agent))?.into()),
        None => Err(StoreError::NotFound.into()),
    }
}

/// Which of these agents [`for_caller`] lets in.
pub(super) fn callers(
    connection: &Connection,
    room: i64,
    agents: &[AgentId],
    need: Need,
) -> Result<HashSet<AgentId>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT a.agent, EXISTS (SELECT 1 FROM members m WHERE m.room = ?1 AND m.agent = a.agent)
         FROM agents a WHERE a.id = ?2",
    )?;
    let mut callers = HashSet::with_capacity(agents.len());
    for agent in agents {
        let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found: Option<(i64, bool)> = select.query_row((room, agent.as_bytes()), row).optional()?;
        if let Some((row, is_member)) = found
            && (is_member || tokens::may(connection, room, row, need)?)
        {
            callers.insert(*agent);
        }
    }
    Ok(callers)
}

fn room_row(row: &Row<'_>) -> Result<RoomRow, Failure> {
    let end = RoomHead {
        seq: seq_of(row.get(3)?),
        h: ChainHash::from_bytes(row.get(4)?),
        ts: row.get(5)?,
        push_seq: seq_of(row.get(6)?),
    };
    Ok(RoomRow {
        row: row.get(0)?,
        name: parsed(row, 1)?,
        kind: parsed(row, 2)?,
        end,
        object_format: optional(row, 7)?,
        head_ref: optional(row, 8)?,
    })
}

fn membership(row: &Row<'_>) -> Result<Option<Membership>, Failure> {
    let member: Option<i64> = row.get(9)?;
    member
        .map(|member| {
            Ok(Membership {
                row: member,
                cursor: seq_of(row.get(10)?),
                is_owner: row.get(11)?,
                serves: row.get(12)?,
            })
        })
        .transpose()
}

/// Makes a room with its owner in it. The name must be free, and not that of two agents.
pub(super) fn insert(
    connection: &Connection,
    hub: &HubId,
    room: &RoomName,
    kind: RoomKind,
    owner: i64,
    now: i64,
) -> Result<RoomRow, Failure> {
    if room.is_direct() {
        return Err(StoreError::RoomReserved(room.clone()).into());
    }
    check_kind(room, kind)?;
    let made = insert_empty(connection, hub, room, kind, now)?;
    members::insert(connection, made.row, owner, true, now)?;
    if kind == RoomKind::Service {
        members::set_serving(connection, made.row, owner)?;
    }
    Ok(made)
}

/// A service's room is told by its name, so no other has one like it.
fn check_kind(room: &RoomName, kind: RoomKind) -> Result<(), Failure> {
    match kind != RoomKind::Service && ServiceName::of_room(room).is_some() {
        true => Err(StoreError::ServiceReserved(room.clone()).into()),
        false => Ok(()),
    }
}

/// Makes a room that nobody is in. The name must be free.
pub(super) fn insert_empty(
    connection: &Connection,
    hub: &HubId,
    room: &RoomName,
    kind: RoomKind,
    now: i64,
) -> Result<RoomRow, Failure> {
    let h = ChainHash::start(hub, room);
    connection
        .prepare_cached(
            "INSERT INTO rooms (key, name, kind, created_at, head_seq, head_h, head_ts, push_seq)
             VALUES (?1, ?2, ?3, ?4, 0, ?5, 0, 0)",
        )?
        .execute((room.key(), room.as_str(), kind.to_string(), now, h.as_bytes()))?;
    by_row(connection, connection.last_insert_rowid())
}

/// Makes a room for an agent that the hub knows.
pub(super) fn create(
    batch: &mut Batch<'_>,
    hub: &HubId,
    room: &RoomName,
    kind: RoomKind,
    owner: &AgentId,
    now: i64,
) -> Result<RoomAnswer, Failure> {
    let owner = agents::find(batch.connection, owner)?.ok_or(StoreError::NotAdmitted)?;
    if room.is_direct() {
        return Err(StoreError::RoomReserved(room.clone()).into());
    }
    check_kind(room, kind)?;
    if let Some((existing, _)) = find(batch.connection, room, None)? {
        return Err(StoreError::RoomExists(existing.name).into());
    }
    let room = insert(batch.connection, hub, room, kind, owner, now)?;
    Ok(room.answer(room.end.head()))
}

/// The rooms of an agent, by name. What it wrote itself is no news to it.
/// `only`: the one room that is asked for.
pub(super) fn list(
    connection: &Connection,
    agent: &AgentId,
    only: Option<&RoomName>,
) -> Result<Vec<RoomSummary>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT r.name, r.kind, r.head_seq, r.head_h, m.cursor,
                (SELECT count(*) FROM members others WHERE others.room = r.room), p.id, p.name, p.role,
                (SELECT count(*) FROM outsiders o WHERE o.room = r.room AND o.state = 'waiting' AND m.is_owner = 1),
                (SELECT count(*) FROM messages own
                 WHERE own.room = r.room AND own.seq > max(m.cursor, r.head_seq - ?2) AND own.seq <= r.head_seq
                       AND own.agent = a.agent)
         FROM agents a JOIN members m ON m.agent = a.agent JOIN rooms r ON r.room = m.room
              LEFT JOIN dms d ON d.room = r.room
              LEFT JOIN agents p ON p.agent = iif(d.first = a.agent, d.second, d.first)
         WHERE a.id = ?1 AND r.key = coalesce(?3, r.key) ORDER BY r.key",
    )?;
    let mut rows = select.query((agent.as_bytes(), MAX_PAGE_MESSAGES, only.map(RoomName::key)))?;
    let mut rooms = Vec::new();
    while let Some(row) = rows.next()? {
        let (seq, cursor): (i64, i64) = (row.get(2)?, row.get(4)?);
        let (members, own): (i64, i64) = (row.get(5)?, row.get(10)?);
        rooms.push(RoomSummary {
            room: parsed(row, 0)?,
            kind: parsed(row, 1)?,
            members: members.unsigned_abs(),
            unread: seq.saturating_sub(cursor).saturating_sub(own).unsigned_abs(),
            cursor: Some(seq_of(cursor)),
            head: Head {
                seq: seq_of(seq),
                h: ChainHash::from_bytes(row.get(3)?),
            },
            with: peer(row)?,
            requests: row.get::<_, i64>(9)?.unsigned_abs(),
        });
    }
    Ok(rooms)
}

/// The other one of a direct room, as [`list`] selects it.
fn peer(row: &Row<'_>) -> Result<Option<Peer>, Failure> {
    if matches!(row.get_ref(6)?, rusqlite::types::ValueRef::Null) {
        return Ok(None);
    }
    Ok(Some(Peer {
        id: agent_id(row, 6)?,
        name: parsed(row, 7)?,
        role: optional(row, 8)?,
    }))
}

/// Fixes the object format of a room's refs.
pub(super) fn set_object_format(connection: &Connection, room: i64, format: ObjectFormat) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE rooms SET object_format = ?2 WHERE room = ?1")?
        .execute((room, format.to_string()))?;
    Ok(())
}

/// Points the room's HEAD at a ref.
pub(super) fn set_head_ref(connection: &Connection, room: i64, name: &RefName) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE rooms SET head_ref = ?2 WHERE room = ?1")?
        .execute((room, name.as_str()))?;
    Ok(())
}

/// The channel of this name, for ways in that need no membership.
pub(super) fn channel(connection: &Connection, room: &RoomName) -> Result<Option<RoomRow>, Failure> {
    Ok(find(connection, room, None)?
        .map(|(room, _)| room)
        .filter(|room| room.kind == RoomKind::Channel))
}
