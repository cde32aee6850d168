//! Which members were sent which blobs to the end. Said once and never taken back; nobody waits for it to be on the disk.

use parler_protocol::{AgentId, BundleId, RoomName};
use rusqlite::Connection;

use super::failure::Failure;
use super::{agent_id, optional, parsed, rooms, seq_of};
use crate::store::{RoomReaders, StoredReader};

/// Notes that the member was sent these blobs of the room. Whether that is news.
pub(super) fn record(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    ids: &[BundleId],
    now: i64,
) -> Result<bool, Failure> {
    let (room, _) = rooms::of_member(connection, room, agent)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO fetches (room, blob, agent, at)
         SELECT l.room, l.blob, a.agent, ?4
         FROM room_blobs l JOIN blobs b ON b.blob = l.blob JOIN agents a ON a.id = ?3
         WHERE l.room = ?1 AND b.id = ?2
         ON CONFLICT DO NOTHING",
    )?;
    let mut is_news = false;
    for id in ids {
        is_news |= insert.execute((room.row, id.as_bytes(), agent.as_bytes(), now))? > 0;
    }
    Ok(is_news)
}

/// The members of a room, each with when it had been sent all of these blobs.
pub(super) fn readers(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    blobs: &[BundleId],
) -> Result<RoomReaders, Failure> {
    let (room, _) = rooms::of_member(connection, room, agent)?;
    let mut select = connection.prepare_cached(
        "SELECT a.id, a.name, a.role, m.cursor, a.last_seen, a.agent
         FROM members m JOIN agents a ON a.agent = m.agent WHERE m.room = ?1 ORDER BY m.member",
    )?;
    let mut fetched = connection.prepare_cached(
        "SELECT f.at FROM fetches f JOIN blobs b ON b.blob = f.blob WHERE f.room = ?1 AND b.id = ?2 AND f.agent = ?3",
    )?;
    let mut rows = select.query([room.row])?;
    let mut readers = Vec::new();
    while let Some(row) = rows.next()? {
        let agent: i64 = row.get(5)?;
        let mut all = (!blobs.is_empty()).then_some(i64::MIN);
        for id in blobs {
            let mut at = fetched.query((room.row, id.as_bytes(), agent))?;
            let at: Option<i64> = at.next()?.map(|row| row.get(0)).transpose()?;
            all = all.zip(at).map(|(latest, at)| latest.max(at));
        }
        readers.push(StoredReader {
            id: agent_id(row, 0)?,
            name: parsed(row, 1)?,
            role: optional(row, 2)?,
            cursor: seq_of(row.get(3)?),
            last_seen: row.get(4)?,
            fetched_at: all,
        });
    }
    Ok(RoomReaders {
        head: room.end.head(),
        readers,
    })
}
