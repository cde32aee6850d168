//! How ids, names and numbers stand in columns. What a column cannot hold is damage.

use std::str::FromStr;

use parler_protocol::{AgentId, MessageId, Seq};
use rusqlite::Row;

use super::failure::Failure;

/// A message number as a column holds it. What does not fit is after every message there can be.
pub(super) fn column(seq: Seq) -> i64 {
    i64::try_from(seq.get()).unwrap_or(i64::MAX)
}

pub(super) fn seq_of(column: i64) -> Seq {
    Seq::new(column.unsigned_abs())
}

/// A column that holds the spelling of an id.
pub(super) fn parsed<T: FromStr>(row: &Row<'_>, index: usize) -> Result<T, Failure> {
    let text = row.get_ref(index)?.as_str().map_err(|_| Failure::damaged("a name"))?;
    text.parse().map_err(|_| Failure::damaged("a name"))
}

/// Like [`parsed`], where the column may be null.
pub(super) fn optional<T: FromStr>(row: &Row<'_>, index: usize) -> Result<Option<T>, Failure> {
    match row.get_ref(index)? {
        rusqlite::types::ValueRef::Null => Ok(None),
        _ => parsed(row, index).map(Some),
    }
}

pub(super) fn agent_id(row: &Row<'_>, index: usize) -> Result<AgentId, Failure> {
    let bytes: [u8; 32] = row.get(index)?;
    AgentId::from_bytes(&bytes).ok_or_else(|| Failure::damaged("an agent id"))
}

pub(super) fn message_id(bytes: [u8; 16]) -> Result<MessageId, Failure> {
    let spelled = uuid::Uuid::from_bytes(bytes).to_string();
    spelled.parse().map_err(|_| Failure::damaged("a message id"))
}
