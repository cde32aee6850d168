//! What a message says to the queue of a service: that it is a job, or what became of one. Judged and done in the transaction
//! that stores it.

use parler_protocol::api::JobState;
use parler_protocol::{RoomKind, Seq, TaskStatus};
use rusqlite::Connection;

use super::failure::Failure;
use super::job_row::{by_id, by_seq};
use super::rooms::RoomRow;
use super::{column, tokens};
use crate::fail_point::{FailPoint, reached};
use crate::store::{Append, StoreError};

/// What an append does to the queue.
pub(super) enum Change {
    /// Its message is a job from now on.
    Dispatch,
    /// The job in this row ends so.
    End(i64, JobState),
}

/// What the message would do to the room's queue, or why it may not.
pub(super) fn plan(
    connection: &Connection,
    room: &RoomRow,
    append: &Append,
    agent: i64,
) -> Result<Option<Change>, Failure> {
    let word = &append.queue;
    if room.kind != RoomKind::Service {
        return match word.fence {
            Some(_) => Err(StoreError::BadReceipt("the room is no service's, so it has no claims").into()),
            None => Ok(None),
        };
    }
    if let Some(fence) = word.fence {
        let job = by_seq(connection, room.row, fence.seq, append.now)?;
        let job = job.filter(|job| job.is_held(agent, fence));
        let job = job.ok_or(StoreError::StaleFence(fence.seq))?;
        return match word.receipts[..] {
            _ if word.is_job => Err(StoreError::BadReceipt("a receipt is not a job as well").into()),
            [(id, status)] if id == job.id => match status {
                TaskStatus::Done => Ok(Some(Change::End(job.message, JobState::Done))),
                TaskStatus::Failed => Ok(Some(Change::End(job.message, JobState::Failed))),
                TaskStatus::Accepted | TaskStatus::Working | TaskStatus::Awaiting => Ok(None),
                TaskStatus::Cancelled | TaskStatus::Declined => {
                    Err(StoreError::BadReceipt("who has a job says accepted, working, awaiting, done or failed").into())
                }
            },
            _ => Err(StoreError::BadReceipt("with a fence a message has one com.parler.task part, of that job").into()),
        };
    }
    let mut ended = None;
    for (id, status) in &word.receipts {
        // What is said of other messages is like everywhere.
        let Some(job) = by_id(connection, room.row, id, append.now)? else {
            continue;
        };
        // A token's maker speaks for it, also when it has ended.
        let is_requesters = job.requester == agent || tokens::is_made_by(connection, job.requester, agent)?;
        if *status != TaskStatus::Cancelled || !is_requesters {
            return Err(
                StoreError::BadReceipt("what becomes of a job is said by whoever claimed it, with its fence").into(),
            );
        }
        if !job.state.is_open() {
            return Err(StoreError::JobState(job.seq, job.state).into());
        }
        if ended.replace(job.message).is_some() || word.is_job {
            return Err(StoreError::BadReceipt("a message calls one job off, and nothing else").into());
        }
    }
    Ok(match ended {
        Some(message) => Some(Change::End(message, JobState::Cancelled)),
        None => word.is_job.then_some(Change::Dispatch),
    })
}

impl Change {
    /// Does it; `message` is the row of the message that was appended.
    pub(super) fn apply(
        &self,
        connection: &Connection,
        room: i64,
        message: i64,
        seq: Seq,
        agent: i64,
    ) -> Result<(), Failure> {
        match self {
            Self::Dispatch => {
                connection
                    .prepare_cached(
                        "INSERT INTO jobs (message, room, seq, requester, state) VALUES (?1, ?2, ?3, ?4, 'waiting')",
                    )?
                    .execute((message, room, column(seq), agent))?;
                reached(FailPoint::JobMade);
            }
            Self::End(job, state) => {
                connection
                    .prepare_cached("UPDATE jobs SET state = ?2, lease_until = NULL WHERE message = ?1")?
                    .execute((job, state.as_str()))?;
                reached(FailPoint::JobEnded);
            }
        }
        Ok(())
    }
}
