//! The keys a hub knows, with their newest names. An agent becomes known when it is admitted and stays so.

use parler_protocol::{AgentId, StatusText};
use rusqlite::{Connection, OptionalExtension};

use super::failure::Failure;
use crate::store::Principal;

/// The row of a known agent.
pub(super) fn find(connection: &Connection, agent: &AgentId) -> Result<Option<i64>, Failure> {
    let mut select = connection.prepare_cached("SELECT agent FROM agents WHERE id = ?1")?;
    Ok(select.query_row([agent.as_bytes()], |row| row.get(0)).optional()?)
}

/// Whether any agent is known.
pub(super) fn is_any_known(connection: &Connection) -> Result<bool, Failure> {
    Ok(connection.prepare_cached("SELECT 1 FROM agents")?.exists(())?)
}

/// Makes an agent known that has not said its name yet: until it does it goes by its key.
pub(super) fn insert(connection: &Connection, agent: &AgentId, now: i64) -> Result<i64, Failure> {
    let mut insert = connection.prepare_cached(
        "INSERT INTO agents (id, name, role, admitted_at, last_seen) VALUES (?1, ?2, NULL, ?3, ?3) RETURNING agent",
    )?;
    Ok(insert.query_row((agent.as_bytes(), agent.to_string(), now), |row| row.get(0))?)
}

/// Makes the agent known, or notes its newest name and role. Returns its row.
pub(super) fn note(connection: &Connection, principal: &Principal, now: i64) -> Result<i64, Failure> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO agents (id, name, role, admitted_at, last_seen) VALUES (?1, ?2, ?3, ?4, ?4)
         ON CONFLICT (id) DO UPDATE SET name = excluded.name, role = excluded.role,
             last_seen = max(last_seen, excluded.last_seen)
         RETURNING agent",
    )?;
    let role = principal.role.as_ref().map(|role| role.as_str());
    let parameters = (principal.agent.as_bytes(), principal.name.as_str(), role, now);
    Ok(upsert.query_row(parameters, |row| row.get(0))?)
}

/// Notes what a known agent says that it is at.
pub(super) fn set_status(connection: &Connection, agent: &AgentId, status: Option<&StatusText>) -> Result<(), Failure> {
    connection
        .prepare_cached("UPDATE agents SET status = ?2 WHERE id = ?1")?
        .execute((agent.as_bytes(), status.map(StatusText::as_str)))?;
    Ok(())
}
