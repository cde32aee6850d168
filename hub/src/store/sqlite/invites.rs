//! Invites, by the hash of their code: who reads the database cannot join with what is there. Unknown, expired and used
//! up are one answer, and a use is counted in the transaction that lets the agent in.

use parler_protocol::api::{InviteCreated, JoinPending, Joined, OpenInvite, RoomAnswer};
use parler_protocol::{AgentId, HubId, InviteCode, InviteId, RoomKind, RoomName, ServiceName};
use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

use super::batch::Batch;
use super::failure::Failure;
use super::outsiders::{self, Standing};
use super::{agents, members, names, parsed, rooms};
use crate::store::{NewInvite, StoreError};

/// Expired invites removed when one is made: more than one, so that they do not pile up.
const PRUNED_AT_ONCE: i64 = 16;

fn hash(code: &InviteCode) -> [u8; 32] {
    Sha256::digest(code.as_str()).into()
}

/// Makes an invite, and the channel it leads into where there is no room of that name.
pub(super) fn create(batch: &mut Batch<'_>, hub: &HubId, invite: &NewInvite) -> Result<InviteCreated, Failure> {
    let connection = batch.connection;
    let agent = agents::find(connection, &invite.by)?.ok_or(StoreError::NotAdmitted)?;
    // Before it is looked for: whether two others speak to each other is not told.
    if invite.room.is_direct() {
        return Err(StoreError::RoomReserved(invite.room.clone()).into());
    }
    let room = match rooms::find(connection, &invite.room, Some(agent))? {
        // Whoever comes by it may work on its jobs; who only asks for jobs is in the room as well.
        Some((room, Some(membership)))
            if room.kind == RoomKind::Service && !membership.is_owner && !membership.serves =>
        {
            return Err(StoreError::NotServing(room.name).into());
        }
        Some((room, Some(_))) => room,
        Some((room, None)) => return Err(outsiders::refusal(connection, &room, Some(agent))?.into()),
        None => {
            let kind = match ServiceName::of_room(&invite.room) {
                // Spelled as everybody finds it who has not been there.
                Some(service) if service.room() == invite.room => RoomKind::Service,
                Some(service) => return Err(StoreError::ServiceReserved(service.room()).into()),
                None => RoomKind::Channel,
            };
            rooms::insert(connection, hub, &invite.room, kind, agent, invite.now)?
        }
    };
    connection
        .prepare_cached(
            "DELETE FROM invites WHERE code_hash IN (
                 SELECT code_hash FROM invites WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((invite.now, PRUNED_AT_ONCE))?;
    connection
        .prepare_cached(
            "INSERT INTO invites (code_hash, room, invited_by, created_at, expires_at, max_uses, uses, needs_approval)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)",
        )?
        .execute((
            hash(&invite.code),
            room.row,
            agent,
            invite.now,
            invite.expires_at,
            invite.max_uses,
            invite.needs_approval,
        ))?;
    Ok(InviteCreated {
        code: invite.code.clone(),
        room: room.name,
        kind: room.kind,
        expires_at: invite.expires_at,
        approve: invite.needs_approval,
    })
}

/// Lets a known agent in, or lets it ask an owner to.
pub(super) fn redeem(batch: &mut Batch<'_>, code: &InviteCode, agent: i64, now: i64) -> Result<Joined, Failure> {
    let connection = batch.connection;
    let found: Option<(i64, bool, i64, bool)> = connection
        .prepare_cached(
            "SELECT room, uses < max_uses, created_at, needs_approval FROM invites
             WHERE code_hash = ?1 AND expires_at > ?2",
        )?
        .query_row((hash(code), now), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?;
    let (row, is_left, created_at, needs_approval) = found.ok_or(StoreError::InvalidInvite)?;
    let room = rooms::by_row(connection, row)?;
    let head = batch.head(&room).head();
    let is_member = members::is_member(connection, row, agent)?;
    // Who only asks a service for jobs comes to work on them.
    let is_service = room.kind == RoomKind::Service;
    if is_member && (!is_service || members::serves(connection, row, agent)?) {
        return Ok(Joined::In(room.answer(head)));
    }
    let waiting = JoinPending {
        room: room.name.clone(),
        kind: room.kind,
    };
    match outsiders::find(connection, row, agent)? {
        // An invite that was there when it asked is not an owner's answer.
        Some((Standing::Waiting, since)) if needs_approval || since >= created_at => {
            return Ok(Joined::Waiting(waiting));
        }
        Some((Standing::Refused, since)) if since >= created_at => {
            return Err(StoreError::ApprovalRefused(room.name).into());
        }
        Some((Standing::Removed, since)) if since >= created_at => return Err(StoreError::InvalidInvite.into()),
        _ if !is_left => return Err(StoreError::InvalidInvite.into()),
        _ => {}
    }
    names::check_in_room(connection, row, agent)?;
    connection
        .prepare_cached("UPDATE invites SET uses = uses + 1 WHERE code_hash = ?1")?
        .execute([hash(code)])?;
    if needs_approval {
        outsiders::set(connection, row, agent, Standing::Waiting, now)?;
        return Ok(Joined::Waiting(waiting));
    }
    outsiders::forget(connection, row, agent)?;
    if !is_member {
        members::insert(connection, row, agent, false, now)?;
    }
    if is_service {
        members::set_serving(connection, row, agent)?;
    }
    Ok(Joined::In(room.answer(head)))
}

/// The invites of a room that are open, the oldest first: for an owner all of them, for others those they made.
pub(super) fn list(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    now: i64,
) -> Result<(RoomAnswer, Vec<OpenInvite>), Failure> {
    let (room, membership) = rooms::of_member(connection, room, agent)?;
    let mut select = connection.prepare_cached(
        "SELECT i.code_hash, a.name, i.created_at, i.expires_at, i.max_uses, i.uses, i.needs_approval
         FROM members m JOIN invites i ON i.room = m.room JOIN agents a ON a.agent = i.invited_by
         WHERE m.member = ?1 AND (m.is_owner = 1 OR i.invited_by = m.agent) AND i.expires_at > ?2 AND i.uses < i.max_uses
         ORDER BY i.created_at, i.code_hash",
    )?;
    let mut rows = select.query((membership.row, now))?;
    let mut invites = Vec::new();
    while let Some(row) = rows.next()? {
        invites.push(OpenInvite {
            id: InviteId::of_hash(&row.get(0)?),
            by: parsed(row, 1)?,
            created_at: row.get(2)?,
            expires_at: row.get(3)?,
            max_uses: row.get(4)?,
            uses: row.get(5)?,
            approve: row.get(6)?,
        });
    }
    Ok((room.answer(room.end.head()), invites))
}

/// Ends one invite, or all that the agent may end: an owner any, others those they made. Says how many were open.
pub(super) fn revoke(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    id: Option<&InviteId>,
    now: i64,
) -> Result<u64, Failure> {
    let connection = batch.connection;
    let (_, membership) = rooms::of_member(connection, room, agent)?;
    let revoked = connection
        .prepare_cached(
            "DELETE FROM invites WHERE expires_at > ?2 AND uses < max_uses AND code_hash IN (
                 SELECT i.code_hash FROM members m JOIN invites i ON i.room = m.room
                 WHERE m.member = ?1 AND (m.is_owner = 1 OR i.invited_by = m.agent)
                       AND (?3 IS NULL OR substr(i.code_hash, 1, 6) = ?3))",
        )?
        .execute((membership.row, now, id.map(|id| id.as_bytes().as_slice())))?;
    match (id, revoked) {
        (Some(_), 0) => Err(StoreError::InvalidInvite.into()),
        (_, revoked) => Ok(revoked as u64),
    }
}
