//! A job as its row has it, found by its number or by the id of its message. Changes nothing.

use parler_protocol::api::JobState;
use parler_protocol::limits::{MAX_JOB_ATTEMPTS, MAX_LEASE, RESTART_LEASE};
use parler_protocol::{Fence, MessageId, Seq};
use rusqlite::{Connection, Row};

use super::failure::Failure;
use super::{column, message_id, parsed, seq_of};

/// A job as far as claims go by it, as it stands at the moment that it was asked for.
pub(super) struct JobRow {
    pub(super) message: i64,
    pub(super) seq: Seq,
    pub(super) id: MessageId,
    pub(super) requester: i64,
    pub(super) state: JobState,
    pub(super) owner: Option<i64>,
    pub(super) number: u64,
    /// Milliseconds since 1970; 0 where nobody's lease was the last word on it.
    pub(super) lease_until: i64,
}

impl JobRow {
    /// Whether the agent has it, by this claim.
    pub(super) fn is_held(&self, agent: i64, fence: Fence) -> bool {
        self.is_of(agent, fence) && self.state == JobState::Claimed
    }

    /// Whether it was the agent who claimed it last, with this number.
    pub(super) fn is_of(&self, agent: i64, fence: Fence) -> bool {
        self.owner == Some(agent) && self.number == fence.number
    }
}

/// The latest that a lease can end, milliseconds since 1970. One that seems to last longer is from before the clock went back:
/// it has ended, or nobody would be offered its job for as long as the clock was wrong.
pub(super) fn latest_end(now: i64) -> i64 {
    // Requests that come at once are not stored in the order of their times.
    let longest = MAX_LEASE + RESTART_LEASE;
    now.saturating_add(i64::try_from(longest.as_millis()).unwrap_or(i64::MAX))
}

/// How a job stands now, and its attempts: a lease may have ended since anybody wrote it down.
pub(super) fn state_at(state: JobState, attempts: u32, lease_until: Option<i64>, now: i64) -> (JobState, u32) {
    let has_ended = |until: i64| until <= now || until > latest_end(now);
    if state != JobState::Claimed || !lease_until.is_some_and(has_ended) {
        return (state, attempts);
    }
    match attempts + 1 >= MAX_JOB_ATTEMPTS {
        true => (JobState::Dead, attempts + 1),
        false => (JobState::Waiting, attempts + 1),
    }
}

const JOB: &str = "SELECT j.message, m.id, j.requester, j.state, j.owner, j.fence, j.lease_until, j.attempts,
         j.seq
     FROM jobs j JOIN messages m ON m.message = j.message";

fn job_row(row: &Row<'_>, now: i64) -> Result<JobRow, Failure> {
    let lease_until: Option<i64> = row.get(6)?;
    let (state, _) = state_at(parsed(row, 3)?, row.get(7)?, lease_until, now);
    Ok(JobRow {
        message: row.get(0)?,
        seq: seq_of(row.get(8)?),
        id: message_id(row.get(1)?)?,
        requester: row.get(2)?,
        state,
        owner: row.get(4)?,
        number: row.get::<_, i64>(5)?.unsigned_abs(),
        lease_until: lease_until.unwrap_or_default(),
    })
}

/// The job with this number.
pub(super) fn by_seq(connection: &Connection, room: i64, seq: Seq, now: i64) -> Result<Option<JobRow>, Failure> {
    let mut select = connection.prepare_cached(&format!("{JOB} WHERE j.room = ?1 AND j.seq = ?2"))?;
    let mut rows = select.query((room, column(seq)))?;
    rows.next()?.map(|row| job_row(row, now)).transpose()
}

/// The job whose message has this id.
pub(super) fn by_id(connection: &Connection, room: i64, id: &MessageId, now: i64) -> Result<Option<JobRow>, Failure> {
    let mut select = connection.prepare_cached(&format!("{JOB} WHERE m.room = ?1 AND m.id = ?2"))?;
    let mut rows = select.query((room, id.as_bytes()))?;
    rows.next()?.map(|row| job_row(row, now)).transpose()
}
