//! The jobs of a service as members see them. A lease that has ended counts as ended, whether anybody noticed or not.

use parler_protocol::api::{JobFilter, JobState, JobSummary, Party};
use parler_protocol::{AgentId, RoomKind, RoomName, Seq};
use rusqlite::{Connection, Row};

use super::failure::Failure;
use super::job_row::state_at;
use super::{agent_id, column, message_id, parsed, rooms, seq_of};
use crate::store::{JobPage, Need, StoreError};

/// Jobs of a service after `after`, at most `limit` of them, for a member.
pub(super) fn list(
    connection: &Connection,
    room: &RoomName,
    agent: &AgentId,
    after: Seq,
    limit: u32,
    only: Option<JobFilter>,
    now: i64,
) -> Result<JobPage, Failure> {
    // A token that works on jobs may know of them as well.
    let (room, _) = rooms::for_caller(connection, room, agent, Need::Jobs)?;
    if room.kind != RoomKind::Service {
        return Err(StoreError::NotFound.into());
    }
    let (jobs, next) = summaries(connection, room.row, after, limit, only, now)?;
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
    only: Option<JobFilter>,
    now: i64,
) -> Result<(Vec<JobSummary>, Option<Seq>), Failure> {
    // By the rows, which know of no lease that nobody has looked at since it ended: what is claimed may be dead.
    let (index, rows) = match only {
        None => ("", ""),
        Some(JobFilter::Open) => ("INDEXED BY jobs_open", "AND j.state IN ('waiting', 'claimed')"),
        Some(JobFilter::Dead) => ("INDEXED BY jobs_dead", "AND j.state IN ('claimed', 'dead')"),
    };
    let mut select = connection.prepare_cached(&format!(
        "SELECT j.seq, m.id, j.state, j.attempts, j.lease_until, r.id, r.name, o.id, o.name,
             j.claim IS NOT NULL
         FROM jobs j {index} JOIN messages m ON m.message = j.message JOIN agents r ON r.agent = j.requester
             LEFT JOIN agents o ON o.agent = j.owner
         WHERE j.room = ?1 AND j.seq > ?2 {rows} ORDER BY j.seq"
    ))?;
    let mut rows = select.query((room, column(after)))?;
    let mut jobs: Vec<JobSummary> = Vec::new();
    while let Some(row) = rows.next()? {
        let summary = summary(row, now)?;
        if only.is_some_and(|only| !only.takes(summary.state)) {
            continue;
        }
        if jobs.len() as u64 == u64::from(limit) {
            let next = jobs.last().map_or(after, |job| job.seq);
            return Ok((jobs, Some(next)));
        }
        jobs.push(summary);
    }
    Ok((jobs, None))
}

/// A job as it stands now: a lease may have ended since anybody wrote it down.
fn summary(row: &Row<'_>, now: i64) -> Result<JobSummary, Failure> {
    let lease_until: Option<i64> = row.get(4)?;
    let (state, attempts) = state_at(parsed(row, 2)?, row.get(3)?, lease_until, now);
    let lease_until = lease_until.filter(|_| state == JobState::Claimed);
    let has_owner = state != JobState::Waiting && row.get(9)?;
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
