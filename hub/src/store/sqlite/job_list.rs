//! The jobs of a service as members see them. A lease that has ended counts as ended, whether anybody noticed or not.

use parler_protocol::api::{JobState, JobSummary, Party};
use parler_protocol::limits::MAX_JOB_ATTEMPTS;
use parler_protocol::{AgentId, RoomKind, RoomName, Seq};
use rusqlite::{Connection, Row};

use super::failure::Failure;
use super::{agent_id, column, message_id, parsed, rooms, seq_of};
use crate::store::{JobPage, Need, StoreError};

/// Jobs of a service after `after`, at most `limit` of them, for a member.
pub(super) fn list(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    after: Seq,
    limit: u32,
    now: i64,
) -> Result<JobPage, Failure> {
    // A token that works on jobs may know of them as well.
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Jobs)?;
    if room.kind != RoomKind::Service {
        return Err(StoreError::NotFound.into());
    }
    let (jobs, next) = summaries(connection, room.row, after, limit, now)?;
    Ok(JobPage {
        room: room.answer(room.end.head()),
        jobs,
        next,
    })
}

/// The jobs of a room after `after`, at most `limit` of them, and where to go on.
pub(super) fn summaries(
    connection: &Connection,
    room: i64,
    after: Seq,
    limit: u32,
    now: i64,
) -> Result<(Vec<JobSummary>, Option<Seq>), Failure> {
    let mut select = connection.prepare_cached(
        "SELECT j.seq, m.id, j.state, j.attempts, j.lease_until, r.id, r.name, o.id, o.name
         FROM jobs j JOIN messages m ON m.message = j.message JOIN agents r ON r.agent = j.requester
             LEFT JOIN agents o ON o.agent = j.owner
         WHERE j.room = ?1 AND j.seq > ?2 ORDER BY j.seq LIMIT ?3",
    )?;
    let mut rows = select.query((room, column(after), i64::from(limit) + 1))?;
    let mut jobs: Vec<JobSummary> = Vec::new();
    while let Some(row) = rows.next()? {
        if jobs.len() as u64 == u64::from(limit) {
            return Ok((jobs.clone(), jobs.last().map_or(Some(after), |job| Some(job.seq))));
        }
        jobs.push(summary(row, now)?);
    }
    Ok((jobs, None))
}

/// A job as it stands now: a lease may have ended since anybody wrote it down.
fn summary(row: &Row<'_>, now: i64) -> Result<JobSummary, Failure> {
    let (mut state, mut attempts): (JobState, u32) = (parsed(row, 2)?, row.get(3)?);
    let mut lease_until: Option<i64> = row.get(4)?;
    if state == JobState::Claimed && lease_until.is_some_and(|until| until <= now) {
        attempts += 1;
        state = match attempts >= MAX_JOB_ATTEMPTS {
            true => JobState::Dead,
            false => JobState::Waiting,
        };
    }
    lease_until = lease_until.filter(|_| state == JobState::Claimed);
    let has_owner = state != JobState::Waiting && !matches!(row.get_ref(7)?, rusqlite::types::ValueRef::Null);
    let claimed_by = match has_owner {
        true => Some(Party {
            id: agent_id(row, 7)?,
            name: parsed(row, 8)?,
        }),
        false => None,
    };
    Ok(JobSummary {
        seq: seq_of(row.get(0)?),
        id: message_id(row.get(1)?)?,
        requester: Party {
            id: agent_id(row, 5)?,
            name: parsed(row, 6)?,
        },
        state,
        attempts,
        claimed_by,
        lease_until,
    })
}
