//! Requests that came before. The same request gets the answer of the first time; another one under the same key or
//! message id is refused.

use parler_protocol::api::Posted;
use parler_protocol::{AgentId, ChainHash, Head, MessageId, RoomName};
use rusqlite::{Connection, ErrorCode, Row};

use super::failure::Failure;
use super::{agents, message_id, parsed, seq_of};
use crate::store::{Append, Appended, StoreError};

/// A message that is stored.
pub(super) struct Earlier {
    /// The row of its author.
    pub(super) agent: i64,
    digest: [u8; 32],
    room_key: String,
    appended: Appended,
}

impl Earlier {
    /// The first answer, if the request is the one that got it.
    pub(super) fn answer(self, append: &Append, agent: i64) -> Result<Appended, Failure> {
        if self.agent == agent && self.digest == append.digest && self.room_key == append.room.key() {
            Ok(self.appended)
        } else {
            Err(StoreError::IdempotencyConflict.into())
        }
    }
}

/// What the agent posted under this key, unless that is too long ago.
pub(super) fn by_key(connection: &Connection, append: &Append, agent: i64) -> Result<Option<Earlier>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT m.agent, m.digest, r.key, r.name, m.id, m.seq, m.h, m.body
         FROM idempotency i JOIN messages m ON m.message = i.message JOIN rooms r ON r.room = m.room
         WHERE i.key = ?1 AND i.agent = ?2 AND i.expires_at > ?3",
    )?;
    let mut rows = select.query((&append.key, agent, append.now))?;
    rows.next()?.map(earlier).transpose()
}

/// The room's message with this id.
pub(super) fn by_id(connection: &Connection, append: &Append, room: i64) -> Result<Option<Earlier>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT m.agent, m.digest, r.key, r.name, m.id, m.seq, m.h, m.body
         FROM messages m JOIN rooms r ON r.room = m.room
         WHERE m.id = ?1 AND m.room = ?2",
    )?;
    let mut rows = select.query((append.id.as_bytes(), room))?;
    rows.next()?.map(earlier).transpose()
}

/// Whether the agent posted a message with this id in the room, or, not too long ago, one under this key.
pub(super) fn is_known(
    connection: &Connection,
    agent: &AgentId,
    room: &RoomName,
    id: &MessageId,
    key: &str,
    now: i64,
) -> Result<bool, Failure> {
    let Some(agent) = agents::find(connection, agent)? else {
        return Ok(false);
    };
    let mut select = connection.prepare_cached(
        "SELECT 1 FROM idempotency WHERE key = ?1 AND agent = ?2 AND expires_at > ?3
         UNION ALL
         SELECT 1 FROM messages m JOIN rooms r ON r.room = m.room WHERE m.id = ?4 AND m.agent = ?2 AND r.key = ?5",
    )?;
    Ok(select.exists((key, agent, now, id.as_bytes(), room.key()))?)
}

/// Remembers what was posted under this key.
pub(super) fn remember(
    connection: &Connection,
    append: &Append,
    agent: i64,
    message: i64,
    expires_at: i64,
) -> Result<(), Failure> {
    let row = (&append.key, agent, message, expires_at);
    let inserted = connection
        .prepare_cached("INSERT INTO idempotency (key, agent, message, expires_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(row);
    match inserted {
        // In place of one under the same key that has expired. Not at once: a statement that may replace a row keeps what it
        // needs to be undone, a copy of each page that it writes.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            connection
                .prepare_cached(
                    "INSERT OR REPLACE INTO idempotency (key, agent, message, expires_at) VALUES (?1, ?2, ?3, ?4)",
                )?
                .execute(row)?;
        }
        inserted => drop(inserted?),
    }
    Ok(())
}

fn earlier(row: &Row<'_>) -> Result<Earlier, Failure> {
    let body: Vec<u8> = row.get(7)?;
    let seq = seq_of(row.get(5)?);
    let posted = Posted {
        id: message_id(row.get(4)?)?,
        seq,
        room: parsed(row, 3)?,
        head: Head {
            seq,
            h: ChainHash::from_bytes(row.get(6)?),
        },
    };
    Ok(Earlier {
        agent: row.get(0)?,
        digest: row.get(1)?,
        room_key: row.get(2)?,
        appended: Appended {
            posted,
            stored: body.into(),
            is_new: false,
        },
    })
}
