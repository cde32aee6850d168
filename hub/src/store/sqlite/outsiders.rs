//! Agents that are not in a room and do not simply come in: they wait for an owner's word, were refused, or were removed.
//! Says how each stands; who lets them in or not is the business of others.

use parler_protocol::api::JoinRequest;
use parler_protocol::{AgentId, RoomKind, RoomName};
use rusqlite::{Connection, OptionalExtension};

use super::batch::Batch;
use super::failure::Failure;
use super::rooms::RoomRow;
use super::{agent_id, agents, departures, members, names, optional, parsed, rooms};
use crate::store::StoreError;

/// How one stands to a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It asked to be let in.
    Waiting,
    /// An owner said no.
    Refused,
    /// An owner has removed it.
    Removed,
}

impl Standing {
    const ALL: [Self; 3] = [Self::Waiting, Self::Refused, Self::Removed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Refused => "refused",
            Self::Removed => "removed",
        }
    }
}

/// How the agent stands to the room, and since when, milliseconds since 1970.
pub(super) fn find(connection: &Connection, room: i64, agent: i64) -> Result<Option<(Standing, i64)>, Failure> {
    let mut select = connection.prepare_cached("SELECT state, since FROM outsiders WHERE room = ?1 AND agent = ?2")?;
    let found: Option<(String, i64)> = select
        .query_row((room, agent), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let standing = |(state, since): (String, i64)| {
        let known = Standing::ALL.into_iter().find(|standing| standing.as_str() == state);
        Ok((known.ok_or_else(|| Failure::damaged("how an agent stands"))?, since))
    };
    found.map(standing).transpose()
}

/// From now on the agent stands so.
pub(super) fn set(connection: &Connection, room: i64, agent: i64, standing: Standing, now: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO outsiders (room, agent, state, since) VALUES (?1, ?2, ?3, ?4)")?
        .execute((room, agent, standing.as_str(), now))?;
    Ok(())
}

/// The agent is in, or nothing stands between it and the room any more.
pub(super) fn forget(connection: &Connection, room: i64, agent: i64) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM outsiders WHERE room = ?1 AND agent = ?2")?
        .execute((room, agent))?;
    Ok(())
}

/// Why an agent that is not in the room may do nothing there. Whoever asked to come in knows that there is one.
pub(super) fn refusal(connection: &Connection, room: &RoomRow, agent: Option<i64>) -> Result<StoreError, Failure> {
    let standing = match agent {
        Some(agent) => find(connection, room.row, agent)?,
        None => None,
    };
    Ok(match standing {
        Some((Standing::Waiting, _)) => StoreError::ApprovalPending(room.name.clone()),
        Some((Standing::Refused, _)) => StoreError::ApprovalRefused(room.name.clone()),
        Some((Standing::Removed, _)) | None => StoreError::NotFound,
    })
}

/// Who waits for an owner's word, for an owner; for others nobody. The first that asked comes first.
pub(super) fn waiting(connection: &Connection, room: &RoomName, agent: &AgentId) -> Result<Vec<JoinRequest>, Failure> {
    let (_, membership) = rooms::of_member(connection, room, agent)?;
    let mut select = connection.prepare_cached(
        "SELECT a.id, a.name, a.role, o.since
         FROM members m JOIN outsiders o ON o.room = m.room JOIN agents a ON a.agent = o.agent
         WHERE m.member = ?1 AND m.is_owner = 1 AND o.state = 'waiting' ORDER BY o.since, o.agent",
    )?;
    let mut rows = select.query([membership.row])?;
    let mut requests = Vec::new();
    while let Some(row) = rows.next()? {
        requests.push(JoinRequest {
            id: agent_id(row, 0)?,
            name: parsed(row, 1)?,
            role: optional(row, 2)?,
            since: row.get(3)?,
        });
    }
    Ok(requests)
}

/// Lets an agent in that asked, or refuses it. An owner who refused may let in after all; who is in already stays so.
pub(super) fn answer(
    batch: &mut Batch<'_>,
    room: &RoomName,
    by: &AgentId,
    agent: &AgentId,
    admits: bool,
    now: i64,
) -> Result<RoomName, Failure> {
    let connection = batch.connection;
    let room = departures::of_owner(connection, room, by)?;
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotFound)?;
    match (find(connection, room.row, agent)?, admits) {
        (Some((Standing::Waiting | Standing::Refused, _)), true) => {
            // Somebody of that name may have come in since it asked.
            names::check_in_room(connection, room.row, agent)?;
            forget(connection, room.row, agent)?;
            if !members::is_member(connection, room.row, agent)? {
                members::insert(connection, room.row, agent, false, now)?;
            }
            if room.kind == RoomKind::Service {
                members::set_serving(connection, room.row, agent)?;
            }
        }
        (Some((Standing::Waiting, _)), false) => set(connection, room.row, agent, Standing::Refused, now)?,
        (Some((Standing::Refused, _)), false) => {}
        (None, true) if members::is_member(connection, room.row, agent)? => {}
        _ => return Err(StoreError::NotFound.into()),
    }
    Ok(room.name)
}
