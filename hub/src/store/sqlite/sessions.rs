//! Sessions, by the hash of their token. One that has ended is as one that never was.

use parler_protocol::api::Joined;
use rusqlite::Connection;

use super::batch::Batch;
use super::failure::Failure;
use super::{agent_id, agents, invites, names, optional, parsed};
use crate::store::{NewSession, Principal, StoreError, TokenHash};

/// Ended sessions removed when one is opened: more than one, so that they do not pile up.
const PRUNED_AT_ONCE: i64 = 16;

/// Opens a session and redeems the invite, or does neither.
pub(super) fn open(batch: &mut Batch<'_>, session: &NewSession) -> Result<Option<Joined>, Failure> {
    let NewSession {
        principal,
        token,
        expires_at,
        admit,
        invite,
        now,
    } = session;
    let known = agents::find(batch.connection, &principal.agent)?;
    if let Some(agent) = known
        && names::of(batch.connection, agent)? != principal.name
    {
        names::check_in_rooms(batch.connection, agent, &principal.name)?;
        // No session goes on under a name that is not asked about when the agent comes into a room.
        batch
            .connection
            .prepare_cached("DELETE FROM sessions WHERE agent = ?1 AND name <> ?2")?
            .execute((agent, principal.name.as_str()))?;
    }
    if known.is_none() && !admit && invite.is_none() {
        return Err(StoreError::NotAdmitted.into());
    }
    let agent = agents::note(batch.connection, principal, *now)?;
    let joined = match invite {
        Some(code) => Some(invites::redeem(batch, code, agent, *now)?),
        None => None,
    };
    batch
        .connection
        .prepare_cached(
            "DELETE FROM sessions WHERE token IN (
                 SELECT token FROM sessions WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((now, PRUNED_AT_ONCE))?;
    let role = principal.role.as_ref().map(|role| role.as_str());
    batch
        .connection
        .prepare_cached("INSERT INTO sessions (token, agent, name, role, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)")?
        .execute((token, agent, principal.name.as_str(), role, expires_at))?;
    Ok(joined)
}

/// Whose session this is.
pub(super) fn find(connection: &Connection, token: &TokenHash, now: i64) -> Result<Option<Principal>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT a.id, s.name, s.role FROM sessions s JOIN agents a ON a.agent = s.agent
         WHERE s.token = ?1 AND s.expires_at > ?2",
    )?;
    let mut rows = select.query((token, now))?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(Principal {
        agent: agent_id(row, 0)?,
        name: parsed(row, 1)?,
        role: optional(row, 2)?,
    }))
}
