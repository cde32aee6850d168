//! A room's log as readers see it. Hands out stored bytes and never looks into them.

use std::collections::HashSet;

use parler_protocol::{AgentId, RoomName, Seq};
use rusqlite::Connection;

use super::failure::Failure;
use super::rooms::RoomRow;
use super::{column, departures, retention, rooms, seq_of};
use crate::store::{LogPage, Need, PushLog, StoreError};

/// Messages after `after`, or after the agent's cursor. A page ends when it has `limit` messages or passes `max_bytes`.
pub(super) fn read(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    after: Option<Seq>,
    limit: u32,
    max_bytes: usize,
) -> Result<LogPage, Failure> {
    let (room, acknowledged) = rooms::for_caller(connection, room, agent, Need::Read)?;
    page(connection, room, after.unwrap_or(acknowledged), limit, max_bytes)
}

/// The page that each of these agents gets which may read the room, and which these are.
pub(super) fn read_for(
    connection: &Connection,
    room: &RoomName,
    agents: &[AgentId],
    after: Seq,
    limit: u32,
    max_bytes: usize,
) -> Result<(LogPage, HashSet<AgentId>), Failure> {
    let (room, _) = rooms::find(connection, room, None)?.ok_or(StoreError::NotFound)?;
    let readers = rooms::callers(connection, room.row, agents, Need::Read)?;
    Ok((page(connection, room, after, limit, max_bytes)?, readers))
}

fn page(
    connection: &Connection,
    room: RoomRow,
    mut cursor: Seq,
    limit: u32,
    max_bytes: usize,
) -> Result<LogPage, Failure> {
    let mut messages = Vec::new();
    let mut bytes = 0;
    let mut select = connection.prepare_cached(
        "SELECT seq, body, dropped_at FROM messages WHERE room = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let mut rows = select.query((room.row, column(cursor), limit))?;
    let mut last_note = None;
    while bytes < max_bytes
        && let Some(row) = rows.next()?
    {
        cursor = seq_of(row.get(0)?);
        if row.get::<_, Option<i64>>(2)?.is_some() {
            last_note = Some(cursor);
        }
        let body: Vec<u8> = row.get(1)?;
        bytes += body.len();
        messages.push(body.into());
    }
    Ok(LogPage {
        room: room.name,
        messages,
        cursor,
        head: room.end.head(),
        last_note,
    })
}

/// The messages after version `since` that carry refs or bundles. They end when they pass `max_bytes`.
pub(super) fn pushes(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    since: Seq,
    max_bytes: usize,
) -> Result<PushLog, Failure> {
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Refs)?;
    let (mut messages, mut bytes, mut last) = (Vec::new(), 0, since);
    if since < room.end.push_seq {
        let mut select = connection.prepare_cached(
            "SELECT seq, body FROM messages WHERE room = ?1 AND seq > ?2 AND is_push = 1 ORDER BY seq",
        )?;
        let mut rows = select.query((room.row, column(since)))?;
        while bytes < max_bytes
            && let Some(row) = rows.next()?
        {
            last = seq_of(row.get(0)?);
            let body: Vec<u8> = row.get(1)?;
            bytes += body.len();
            messages.push(body.into());
        }
    }
    let drops = retention::drops(connection, room.row)?.map(|(count, newest)| format!("{count}.{newest}"));
    Ok(PushLog {
        remade: departures::deleted_at(connection, &room.name)?,
        room: room.name,
        drops,
        version: room.end.push_seq,
        messages,
        next: (last < room.end.push_seq).then_some(last),
        head: room.end.head(),
    })
}
