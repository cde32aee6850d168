//! Whether a name would be taken for another member's. Within one room no two agents come to have names that look the same;
//! those that came in without a code on the local hub are all of one user, and not asked.

use parler_protocol::{AgentName, RoomName};
use rusqlite::Connection;

use super::failure::Failure;
use super::parsed;
use crate::reserved_name::likeness;
use crate::store::StoreError;

/// What an agent is called.
pub(super) fn of(connection: &Connection, agent: i64) -> Result<AgentName, Failure> {
    let mut select = connection.prepare_cached("SELECT name FROM agents WHERE agent = ?1")?;
    let mut rows = select.query([agent])?;
    parsed(rows.next()?.ok_or_else(|| Failure::damaged("an agent"))?, 0)
}

/// Refuses an agent whose name looks like that of a member of a room it is about to come into.
pub(super) fn check_in_room(connection: &Connection, room: i64, agent: i64) -> Result<(), Failure> {
    let name = of(connection, agent)?;
    check(
        connection,
        "SELECT a.name, r.name FROM members m JOIN agents a ON a.agent = m.agent JOIN rooms r ON r.room = m.room
         WHERE m.agent <> ?1 AND m.room = ?2",
        (agent, room),
        &name,
    )
}

/// Refuses a new name that looks like that of another member of a room that the agent is in.
pub(super) fn check_in_rooms(connection: &Connection, agent: i64, name: &AgentName) -> Result<(), Failure> {
    check(
        connection,
        "SELECT a.name, r.name
         FROM members mine JOIN members m ON m.room = mine.room JOIN agents a ON a.agent = m.agent
              JOIN rooms r ON r.room = m.room
         WHERE m.agent <> ?1 AND mine.agent = ?1 AND r.kind <> 'dm'",
        [agent],
        name,
    )
}

fn check(
    connection: &Connection,
    others: &str,
    parameters: impl rusqlite::Params,
    name: &AgentName,
) -> Result<(), Failure> {
    let wanted = likeness(name.as_str());
    let mut select = connection.prepare_cached(others)?;
    let mut rows = select.query(parameters)?;
    while let Some(row) = rows.next()? {
        let other: AgentName = parsed(row, 0)?;
        if likeness(other.as_str()) == wanted {
            let room: RoomName = parsed(row, 1)?;
            return Err(StoreError::NameTaken(name.clone(), room).into());
        }
    }
    Ok(())
}
