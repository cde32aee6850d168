//! What the writer knows while it works through a batch: the heads of the rooms that grew and the agents that were
//! heard of. Both reach their tables once a batch however many messages there were.

use std::collections::HashMap;

use parler_protocol::{AgentId, ChainHash, Head, Seq};
use rusqlite::{Connection, OptionalExtension};

use super::failure::Failure;
use super::rooms::RoomRow;
use super::{agents, column};

/// Rooms and agents remembered between batches; more than that and all are forgotten.
const MAX_REMEMBERED: usize = 10_000;
/// An agent that is heard of again within this time is not noted again.
const LAST_SEEN_RESOLUTION_MS: i64 = 1_000;
/// Idempotency rows looked at when some have expired, besides two for each message of the batch.
const PRUNED_A_BATCH: usize = 16;

/// A transaction that several operations share.
pub(super) struct Batch<'writer> {
    pub(super) connection: &'writer Connection,
    memory: &'writer mut Memory,
    /// Whether the disk has as much left as new messages need.
    pub(super) has_room: bool,
}

/// What outlives a batch. All of it can be read from the database again.
#[derive(Debug, Default)]
pub(super) struct Memory {
    heads: HashMap<i64, RoomHead>,
    grown_rooms: Vec<i64>,
    agents: HashMap<AgentId, i64>,
    last_seen: HashMap<i64, i64>,
    seen_agents: Vec<i64>,
    /// Messages of this batch.
    appended: usize,
    /// The newest time an operation brought, milliseconds since 1970.
    now: i64,
    /// When the oldest idempotency row expires; nothing is known at first.
    oldest_expiry: Option<i64>,
}

/// Where a room's log ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoomHead {
    pub(super) seq: Seq,
    pub(super) h: ChainHash,
    /// Time of the newest message, milliseconds since 1970.
    pub(super) ts: i64,
    /// The newest message with refs or a bundle.
    pub(super) push_seq: Seq,
}

impl RoomHead {
    pub(super) fn head(&self) -> Head {
        Head {
            seq: self.seq,
            h: self.h,
        }
    }
}

impl<'writer> Batch<'writer> {
    pub(super) fn new(connection: &'writer Connection, memory: &'writer mut Memory, has_room: bool) -> Self {
        if memory.heads.len() > MAX_REMEMBERED || memory.agents.len() > MAX_REMEMBERED {
            memory.forget();
        }
        memory.appended = 0;
        Self {
            connection,
            memory,
            has_room,
        }
    }

    /// Where the room's log ends, this batch included.
    pub(super) fn head(&self, room: &RoomRow) -> RoomHead {
        self.memory.heads.get(&room.row).copied().unwrap_or(room.end)
    }

    /// Moves the end of the room's log. Last of what an append does: it is not undone when the append fails.
    pub(super) fn advance(&mut self, room: &RoomRow, end: RoomHead) {
        self.memory.heads.insert(room.row, end);
        self.memory.grown_rooms.push(room.row);
        self.memory.appended += 1;
    }

    /// The room is no more. Last of what deletes it, like [`Batch::advance`].
    pub(super) fn forget_room(&mut self, room: i64) {
        self.memory.heads.remove(&room);
        self.memory.grown_rooms.retain(|grown| *grown != room);
    }

    /// The row of a known agent.
    pub(super) fn agent(&mut self, agent: &AgentId) -> Result<Option<i64>, Failure> {
        if let Some(row) = self.memory.agents.get(agent) {
            return Ok(Some(*row));
        }
        let row = agents::find(self.connection, agent)?;
        if let Some(row) = row {
            self.memory.agents.insert(*agent, row);
        }
        Ok(row)
    }

    /// Notes that the agent was heard of.
    pub(super) fn seen(&mut self, agent: i64, now: i64) {
        self.memory.now = self.memory.now.max(now);
        let last_seen = self.memory.last_seen.entry(agent).or_insert(i64::MIN);
        if now.saturating_sub(LAST_SEEN_RESOLUTION_MS) >= *last_seen {
            *last_seen = now;
            self.memory.seen_agents.push(agent);
        }
    }

    /// Writes what was put off. The last thing before the commit.
    pub(super) fn finish(&mut self) -> rusqlite::Result<()> {
        let memory = &mut *self.memory;
        memory.grown_rooms.sort_unstable();
        memory.grown_rooms.dedup();
        let mut update = self.connection.prepare_cached(
            "UPDATE rooms SET head_seq = ?2, head_h = ?3, head_ts = ?4, push_seq = ?5 WHERE room = ?1",
        )?;
        for room in memory.grown_rooms.drain(..) {
            let end = &memory.heads[&room];
            update.execute((room, column(end.seq), end.h.as_bytes(), end.ts, column(end.push_seq)))?;
        }
        let mut update = self
            .connection
            .prepare_cached("UPDATE agents SET last_seen = max(last_seen, ?2) WHERE agent = ?1")?;
        for agent in memory.seen_agents.drain(..) {
            update.execute((agent, memory.last_seen[&agent]))?;
        }
        if memory.appended > 0 {
            self.prune()?;
        }
        Ok(())
    }

    /// Removes some of what has expired: more than came, so that it shrinks whatever the load.
    fn prune(&mut self) -> rusqlite::Result<()> {
        let (now, most) = (self.memory.now, 2 * self.memory.appended + PRUNED_A_BATCH);
        if self.memory.oldest_expiry.is_some_and(|oldest| oldest > now) {
            return Ok(());
        }
        let mut delete = self.connection.prepare_cached(
            "DELETE FROM idempotency WHERE entry IN (
                 SELECT entry FROM (SELECT entry, expires_at FROM idempotency ORDER BY entry LIMIT ?1)
                 WHERE expires_at <= ?2)",
        )?;
        delete.execute((most.cast_signed() as i64, now))?;
        let mut oldest = self
            .connection
            .prepare_cached("SELECT expires_at FROM idempotency ORDER BY entry LIMIT 1")?;
        self.memory.oldest_expiry = oldest.query_row((), |row| row.get(0)).optional()?;
        Ok(())
    }
}

impl Memory {
    /// What was not committed is not so.
    pub(super) fn forget(&mut self) {
        *self = Self {
            now: self.now,
            ..Self::default()
        };
    }
}
