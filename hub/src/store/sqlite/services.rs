//! Who has to do with a service, and as what: those who serve it, and those who ask it for jobs. Knows nothing of jobs.

use parler_protocol::api::RoomAnswer;
use parler_protocol::{AgentId, HubId, RoomKind, RoomName};
use rusqlite::Connection;

use super::batch::Batch;
use super::failure::Failure;
use super::rooms::RoomRow;
use super::{agents, departures, members, names, outsiders, rooms, tokens};
use crate::store::{MayServe, Need, StoreError};

/// Makes an agent one that serves, as far as it may be without an invite. Whether the service was made for it.
pub(super) fn serve(
    batch: &mut Batch<'_>,
    hub: &HubId,
    room: &RoomName,
    agent: &AgentId,
    may: MayServe,
    now: i64,
) -> Result<(RoomAnswer, bool), Failure> {
    let connection = batch.connection;
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let (found, membership) = match rooms::find(connection, room, Some(agent))? {
        Some(found) => found,
        None if may == MayServe::Invited => return Err(StoreError::NotFound.into()),
        None => {
            let made = rooms::insert(connection, hub, room, RoomKind::Service, agent, now)?;
            return Ok((made.answer(made.end.head()), true));
        }
    };
    if found.kind != RoomKind::Service {
        return Err(StoreError::NotFound.into());
    }
    match membership {
        Some(_) if members::serves(connection, found.row, agent)? => {}
        Some(membership) if membership.is_owner || may == MayServe::Everybody => {
            members::set_serving(connection, found.row, agent)?;
        }
        Some(_) => return Err(StoreError::NotServing(found.name).into()),
        None => {
            // One that its last member has left is whose comes first.
            let is_first = !departures::has_owner(connection, found.row)?;
            let may_come = may == MayServe::Everybody || is_first && may == MayServe::First;
            if !may_come || is_outside(connection, found.row, agent)? {
                return Err(outsiders::refusal(connection, &found, Some(agent))?.into());
            }
            members::insert(connection, found.row, agent, is_first, now)?;
            members::set_serving(connection, found.row, agent)?;
        }
    }
    Ok((found.answer(batch.head(&found).head()), false))
}

/// Makes an agent that the hub knows one that may ask the service for jobs. Whether it was not one before.
pub(super) fn enter(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    any_name: bool,
    now: i64,
) -> Result<(RoomAnswer, bool), Failure> {
    let connection = batch.connection;
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let (found, membership) = rooms::find(connection, room, Some(agent))?.ok_or(StoreError::NotFound)?;
    let is_new = membership.is_none();
    if is_new {
        // A token is no member, whoever made it; who was sent away does not come back by itself; and where the last one who
        // served has left there is nobody to ask.
        if found.kind != RoomKind::Service
            || tokens::is_token(connection, agent)?
            || !departures::has_owner(connection, found.row)?
        {
            return Err(StoreError::NotFound.into());
        }
        if is_outside(connection, found.row, agent)? {
            return Err(outsiders::refusal(connection, &found, Some(agent))?.into());
        }
        if !any_name {
            names::check_in_room(connection, found.row, agent)?;
        }
        members::insert(connection, found.row, agent, false, now)?;
    }
    Ok((found.answer(batch.head(&found).head()), is_new))
}

fn is_outside(connection: &Connection, room: i64, agent: i64) -> Result<bool, Failure> {
    Ok(outsiders::find(connection, room, agent)?.is_some())
}

/// The service's room for one that may work on its jobs: an agent that serves, or a token of one. For a member that does
/// not serve it is not open, for others it does not exist.
pub(super) fn for_server(connection: &Connection, room: &RoomName, agent: &AgentId) -> Result<(RoomRow, i64), Failure> {
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotFound)?;
    let (found, membership) = rooms::find(connection, room, Some(agent))?.ok_or(StoreError::NotFound)?;
    if found.kind != RoomKind::Service {
        return Err(StoreError::NotFound.into());
    }
    let serves = match membership {
        Some(_) => members::serves(connection, found.row, agent)?,
        None if tokens::may(connection, found.row, agent, Need::Claim)? => {
            // Never more than its maker.
            tokens::maker_serves(connection, found.row, agent)?
        }
        None => return Err(StoreError::NotFound.into()),
    };
    match serves {
        true => Ok((found, agent)),
        false => Err(StoreError::NotServing(found.name).into()),
    }
}
