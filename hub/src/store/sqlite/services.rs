//! Who has to do with a service, and as what: those who serve it, and those who ask it for jobs. Knows nothing of jobs.

use parler_protocol::api::RoomAnswer;
use parler_protocol::{AgentId, HubId, RoomKind, RoomName};
use rusqlite::Connection;

use super::batch::Batch;
use super::failure::Failure;
use super::outsiders::Standing;
use super::rooms::{Membership, RoomRow};
use super::{agents, departures, members, names, outsiders, rooms, tokens};
use crate::store::{Append, MayServe, Need, StoreError};

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
        Some(membership) if membership.serves => {}
        Some(membership) if membership.is_owner || may == MayServe::Everybody => {
            members::set_serving(connection, found.row, agent)?;
        }
        Some(_) => return Err(StoreError::NotServing(found.name).into()),
        None => {
            // One that its last member has left is whose comes first.
            let is_first = !departures::has_owner(connection, found.row)?;
            let may_come = may == MayServe::Everybody || is_first && may == MayServe::First;
            if !may_come || outsiders::find(connection, found.row, agent)?.is_some() {
                return Err(outsiders::refusal(connection, &found, Some(agent))?.into());
            }
            members::insert(connection, found.row, agent, is_first, now)?;
            members::set_serving(connection, found.row, agent)?;
        }
    }
    Ok((found.answer(batch.head(&found).head()), false))
}

/// The room of a service for an agent that may ask it for jobs, its row, and whether it is one by now.
pub(super) fn to_enter(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    any_name: bool,
) -> Result<(RoomRow, i64, bool), Failure> {
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let (found, membership) = rooms::find(connection, room, Some(agent))?.ok_or(StoreError::NotFound)?;
    if membership.is_none() {
        // A token is no member, whoever made it; who was sent away does not come back by itself; and where the last one who
        // served has left there is nobody to ask.
        if found.kind != RoomKind::Service
            || tokens::is_token(connection, agent)?
            || !departures::has_owner(connection, found.row)?
        {
            return Err(StoreError::NotFound.into());
        }
        // Who waits to serve, or may not, asks like everybody.
        if matches!(
            outsiders::find(connection, found.row, agent)?,
            Some((Standing::Removed, _))
        ) {
            return Err(StoreError::NotFound.into());
        }
        if !any_name {
            names::check_in_room(connection, found.row, agent)?;
        }
    }
    Ok((found, agent, membership.is_some()))
}

/// Makes an agent that the hub knows one that may ask the service for jobs. Whether it was not one before.
pub(super) fn enter(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    any_name: bool,
    now: i64,
) -> Result<(RoomAnswer, bool), Failure> {
    let (found, agent, is_member) = to_enter(batch.connection, room, agent, any_name)?;
    if !is_member {
        members::insert(batch.connection, found.row, agent, false, now)?;
    }
    Ok((found.answer(batch.head(&found).head()), !is_member))
}

/// Refuses a message that moves refs of a service's room which are not its author's to move: who asks has a place of its own,
/// and nobody's job is taken from under whoever works on it. Those who serve bring results wherever they like.
pub(super) fn check_places(
    connection: &Connection,
    room: &RoomRow,
    append: &Append,
    (agent, membership): (i64, Option<&Membership>),
) -> Result<(), Failure> {
    let Some(refs) = append.refs.as_ref().filter(|_| room.kind == RoomKind::Service) else {
        return Ok(());
    };
    let moved = refs.updates.iter().map(|update| &update.name).chain(&refs.head);
    let mut others = moved.filter(|name| !name.is_place_of(&append.by.name));
    let Some(other) = others.next() else {
        return Ok(());
    };
    let serves = match membership {
        Some(membership) => membership.serves,
        None => {
            tokens::may(connection, room.row, agent, Need::Claim)? && tokens::maker_serves(connection, room.row, agent)?
        }
    };
    match serves {
        true => Ok(()),
        false => Err(StoreError::NotYourPlace(other.clone(), room.name.clone()).into()),
    }
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
        Some(membership) => membership.serves,
        None if tokens::may(connection, found.row, agent, Need::Claim)? => {
            // Never more than its maker.
            tokens::maker_serves(connection, found.row, agent)?
        }
        None => return Err(outsiders::refusal(connection, &found, Some(agent))?.into()),
    };
    match serves {
        true => Ok((found, agent)),
        false => Err(StoreError::NotServing(found.name).into()),
    }
}
