//! Invites, by the hash of their code: who reads the database cannot join with what is there. Unknown, expired and used
//! up are one answer, and a use is counted in the transaction that lets the agent in.

use parler_protocol::api::{InviteCreated, RoomAnswer};
use parler_protocol::{HubId, InviteCode, RoomKind};
use rusqlite::OptionalExtension;
use sha2::{Digest, Sha256};

use super::batch::Batch;
use super::failure::Failure;
use super::{agents, members, rooms};
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
        Some((room, Some(_))) => room,
        Some((_, None)) => return Err(StoreError::NotFound.into()),
        None => rooms::insert(connection, hub, &invite.room, RoomKind::Channel, agent, invite.now)?,
    };
    connection
        .prepare_cached(
            "DELETE FROM invites WHERE code_hash IN (
                 SELECT code_hash FROM invites WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)",
        )?
        .execute((invite.now, PRUNED_AT_ONCE))?;
    connection
        .prepare_cached(
            "INSERT INTO invites (code_hash, room, invited_by, created_at, expires_at, max_uses, uses)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)",
        )?
        .execute((
            hash(&invite.code),
            room.row,
            agent,
            invite.now,
            invite.expires_at,
            invite.max_uses,
        ))?;
    Ok(InviteCreated {
        code: invite.code.clone(),
        room: room.name,
        kind: room.kind,
        expires_at: invite.expires_at,
    })
}

/// Lets a known agent in.
pub(super) fn redeem(batch: &mut Batch<'_>, code: &InviteCode, agent: i64, now: i64) -> Result<RoomAnswer, Failure> {
    let connection = batch.connection;
    let found: Option<(i64, bool)> = connection
        .prepare_cached("SELECT room, uses < max_uses FROM invites WHERE code_hash = ?1 AND expires_at > ?2")?
        .query_row((hash(code), now), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (room, is_left) = found.ok_or(StoreError::InvalidInvite)?;
    if !members::is_member(connection, room, agent)? {
        if !is_left {
            return Err(StoreError::InvalidInvite.into());
        }
        connection
            .prepare_cached("UPDATE invites SET uses = uses + 1 WHERE code_hash = ?1")?
            .execute([hash(code)])?;
        members::insert(connection, room, agent, false, now)?;
    }
    let room = rooms::by_row(connection, room)?;
    Ok(room.answer(batch.head(&room).head()))
}
