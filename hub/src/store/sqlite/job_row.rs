//! A job as its row has it, found by its number or by the id of its message. Changes nothing.

use parler_protocol::api::JobState;
use parler_protocol::{Fence, MessageId, Seq};
use rusqlite::{Connection, Row};

use super::failure::Failure;
use super::{column, message_id, parsed};

/// A job's row, as far as claims go by it.
pub(super) struct JobRow {
    pub(super) message: i64,
    pub(super) id: MessageId,
    pub(super) requester: i64,
    pub(super) state: JobState,
    pub(super) owner: Option<i64>,
    pub(super) number: u64,
    pub(super) lease_until: i64,
}

impl JobRow {
    /// Whether the agent has it, by this claim and now.
    pub(super) fn is_held(&self, agent: i64, fence: Fence, now: i64) -> bool {
        self.is_of(agent, fence) && self.state == JobState::Claimed && self.lease_until > now
    }

    /// Whether it was the agent who claimed it last, with this number.
    pub(super) fn is_of(&self, agent: i64, fence: Fence) -> bool {
        self.owner == Some(agent) && self.number == fence.number
    }
}

const JOB: &str = "SELECT j.message, m.id, j.requester, j.state, j.owner, j.fence, coalesce(j.lease_until, 0)
     FROM jobs j JOIN messages m ON m.message = j.message";

fn job_row(row: &Row<'_>) -> Result<JobRow, Failure> {
    Ok(JobRow {
        message: row.get(0)?,
        id: message_id(row.get(1)?)?,
        requester: row.get(2)?,
        state: parsed(row, 3)?,
        owner: row.get(4)?,
        number: row.get::<_, i64>(5)?.unsigned_abs(),
        lease_until: row.get(6)?,
    })
}

/// The job with this number.
pub(super) fn by_seq(connection: &Connection, room: i64, seq: Seq) -> Result<Option<JobRow>, Failure> {
    let mut select = connection.prepare_cached(&format!("{JOB} WHERE j.room = ?1 AND j.seq = ?2"))?;
    let mut rows = select.query((room, column(seq)))?;
    rows.next()?.map(job_row).transpose()
}

/// The job whose message has this id.
pub(super) fn by_id(connection: &Connection, room: i64, id: &MessageId) -> Result<Option<JobRow>, Failure> {
    let mut select = connection.prepare_cached(&format!("{JOB} WHERE m.room = ?1 AND m.id = ?2"))?;
    let mut rows = select.query((room, id.as_bytes()))?;
    rows.next()?.map(job_row).transpose()
}
