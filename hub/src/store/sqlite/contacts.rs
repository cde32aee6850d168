//! Whom an agent can write to, and the direct rooms of two. Both are in it and neither owns it; who has left one is not
//! brought back by the other.

use parler_protocol::api::{Contact, RoomAnswer};
use parler_protocol::{AgentId, HubId, RoomKind, RoomName};
use rusqlite::{Connection, Row};

use super::batch::Batch;
use super::failure::Failure;
use super::{agent_id, agents, members, optional, parsed, rooms};
use crate::store::{OpenedDm, Reach, StoreError};

/// The direct room of two agents, with `agent` in it. It is made where there is none.
pub(super) fn open_dm(
    batch: &mut Batch<'_>,
    hub: &HubId,
    agent: &AgentId,
    other: &AgentId,
    reach: Reach,
    now: i64,
) -> Result<OpenedDm, Failure> {
    let connection = batch.connection;
    let me = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let them = agents::find(connection, other)?.ok_or(StoreError::NotFound)?;
    let name = RoomName::direct(agent, other);
    let (room, is_in, is_met) = match rooms::find(connection, &name, Some(me))? {
        // Where both are in, nothing else counts.
        Some((room, membership)) => {
            let is_met = members::is_member(connection, room.row, them)?;
            if !is_met && membership.is_some() {
                return Err(StoreError::NotFound.into());
            }
            // Where both have left, each comes back by itself.
            (Some(room), membership.is_some(), is_met)
        }
        None => (None, false, true),
    };
    if !is_in && (me == them || !reaches(connection, me, them, reach)?) {
        return Err(StoreError::NotFound.into());
    }
    let is_new = room.is_none();
    let room = match room {
        Some(room) => room,
        None => {
            let room = rooms::insert_empty(connection, hub, &name, RoomKind::Dm, now)?;
            connection
                .prepare_cached("INSERT INTO dms (room, first, second) VALUES (?1, ?2, ?3)")?
                .execute((room.row, me, them))?;
            members::insert(connection, room.row, them, false, now)?;
            room
        }
    };
    if !is_in {
        members::insert(connection, room.row, me, false, now)?;
    }
    let answer: RoomAnswer = room.answer(batch.head(&room).head());
    Ok(OpenedDm {
        room: answer,
        is_new,
        is_met,
    })
}

/// Whether one agent can write to the other. Nobody writes to a token.
fn reaches(connection: &Connection, me: i64, them: i64, reach: Reach) -> Result<bool, Failure> {
    let exists = |query: &str, one, other| -> Result<bool, Failure> {
        Ok(connection.prepare_cached(query)?.exists((one, other))?)
    };
    if exists("SELECT 1 FROM tokens WHERE agent = ?1 AND ?1 <> ?2", them, me)? {
        return Ok(false);
    }
    Ok(reach == Reach::Everybody
        || exists(
            "SELECT 1 FROM members mine JOIN members theirs ON theirs.room = mine.room
             WHERE mine.agent = ?1 AND theirs.agent = ?2",
            me,
            them,
        )?)
}

/// The agents that this one can write to, each with the rooms that both are in.
pub(super) fn list(connection: &Connection, agent: &AgentId, reach: Reach) -> Result<Vec<Contact>, Failure> {
    let me = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let mut contacts: Vec<Contact> = Vec::new();
    if reach == Reach::Everybody {
        let mut select = connection.prepare_cached(
            "SELECT id, name, role, last_seen FROM agents
             WHERE agent <> ?1 AND agent NOT IN (SELECT agent FROM tokens) ORDER BY agent",
        )?;
        let mut rows = select.query([me])?;
        while let Some(row) = rows.next()? {
            contacts.push(contact(row)?);
        }
    }
    let mut select = connection.prepare_cached(
        "SELECT a.id, a.name, a.role, a.last_seen, r.name, r.kind
         FROM members mine JOIN members theirs ON theirs.room = mine.room AND theirs.agent <> mine.agent
              JOIN agents a ON a.agent = theirs.agent JOIN rooms r ON r.room = mine.room
         WHERE mine.agent = ?1 ORDER BY a.agent, r.key",
    )?;
    let mut rows = select.query([me])?;
    // Both lists are in the order of the same column.
    let mut at = 0;
    while let Some(row) = rows.next()? {
        let id = agent_id(row, 0)?;
        if reach == Reach::Everybody {
            while contacts.get(at).is_some_and(|known| known.id != id) {
                at += 1;
            }
        } else if contacts.last().is_none_or(|known| known.id != id) {
            at = contacts.len();
            contacts.push(contact(row)?);
        }
        let Some(known) = contacts.get_mut(at) else { break };
        match parsed(row, 5)? {
            RoomKind::Dm => known.dm = Some(parsed(row, 4)?),
            _ => known.rooms.push(parsed(row, 4)?),
        }
    }
    Ok(contacts)
}

fn contact(row: &Row<'_>) -> Result<Contact, Failure> {
    Ok(Contact {
        id: agent_id(row, 0)?,
        name: parsed(row, 1)?,
        role: optional(row, 2)?,
        last_seen: row.get(3)?,
        rooms: Vec::new(),
        dm: None,
    })
}
