//! The queue of a service: who claims which job, for how long, and what becomes of claims. A claim is no message; what ends a
//! job is one, or the third lease that nobody kept, or that its requester goes. Time is the hub's, as each call brings it, and a
//! lease that has ended is noticed when somebody looks. Each statement names its index: without statistics SQLite takes one that leads through all
//! jobs that a room ever had.

use parler_protocol::api::{JobState, JobSummary, RoomAnswer};
use parler_protocol::limits::MAX_JOB_ATTEMPTS;
use parler_protocol::{AgentId, Fence, RoomName, Seq};
use rusqlite::{Connection, OptionalExtension};

use super::batch::Batch;
use super::failure::Failure;
use super::job_list::summaries;
use super::job_row::{by_seq, latest_end};
use super::seq_of;
use super::services::for_server;
use crate::fail_point::{FailPoint, reached};
use crate::store::{Claim, ClaimOutcome, HeldJob, Renewal, StoreError};

/// Whether a claim would find something, without claiming. None: it may; ask the writer.
pub(super) fn nothing_to_claim(connection: &Connection, claim: &Claim) -> Result<Option<ClaimOutcome>, Failure> {
    let (room, agent) = for_server(connection, &claim.room, &claim.by)?;
    let mut select = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_waiting
                        WHERE room = ?1 AND state = 'waiting' AND requester < ?2)
             OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_waiting
                        WHERE room = ?1 AND state = 'waiting' AND requester > ?2)
             OR ?5 AND EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_waiting
                               WHERE room = ?1 AND state = 'waiting' AND requester = ?2)
             OR EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_claimed
                        WHERE room = ?1 AND state = 'claimed'
                            AND (lease_until <= ?3 OR lease_until > ?6 OR owner = ?2 AND claim = ?4))",
    )?;
    let (id, latest) = (claim.id.as_bytes(), latest_end(claim.now));
    let may_find: bool = select.query_row((room.row, agent, claim.now, id, claim.own, latest), |row| row.get(0))?;
    if may_find {
        return Ok(None);
    }
    Ok(Some(ClaimOutcome {
        job: None,
        next_expiry: next_expiry(connection, room.row)?,
        head: room.end.head(),
    }))
}

fn next_expiry(connection: &Connection, room: i64) -> Result<Option<i64>, Failure> {
    let mut select = connection.prepare_cached(
        "SELECT min(lease_until) FROM jobs INDEXED BY jobs_claimed WHERE room = ?1 AND state = 'claimed'",
    )?;
    Ok(select.query_row([room], |row| row.get(0))?)
}

/// Gives every lease at least until then, as a hub begins to serve again: while it was away nobody could keep one. What lies
/// too far ahead, because the clock went back meanwhile, is shortened to that. Counts as no attempt.
pub(super) fn extend_leases(connection: &Connection, now: i64, until: i64) -> Result<u64, Failure> {
    let extended = connection
        .prepare_cached(
            "UPDATE jobs INDEXED BY jobs_claimed SET lease_until = ?1
             WHERE state = 'claimed' AND (lease_until < ?1 OR lease_until > ?2)",
        )?
        .execute((until, latest_end(now)))?;
    Ok(extended as u64)
}

/// Takes back what nobody kept in time.
fn expire(connection: &Connection, room: i64, now: i64) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "UPDATE jobs INDEXED BY jobs_claimed SET attempts = attempts + 1,
                 state = iif(attempts + 1 >= ?3, 'dead', 'waiting')
             WHERE room = ?1 AND state = 'claimed' AND (lease_until <= ?2 OR lease_until > ?4)",
        )?
        .execute((room, now, MAX_JOB_ATTEMPTS, latest_end(now)))?;
    Ok(())
}

/// Gives the next job to who asks: one of the requester with the fewest jobs in work, of those whose turn is longest ago,
/// and of this one's the oldest. Nobody is given a job of its own that has not asked for such.
pub(super) fn claim(batch: &mut Batch<'_>, claim: &Claim) -> Result<ClaimOutcome, Failure> {
    let connection = batch.connection;
    let (room, agent) = for_server(connection, &claim.room, &claim.by)?;
    let head = batch.head(&room).head();
    expire(connection, room.row, claim.now)?;
    let repeated: Option<i64> = connection
        .prepare_cached(
            "SELECT seq FROM jobs INDEXED BY jobs_claimed
             WHERE room = ?1 AND state = 'claimed' AND owner = ?2 AND claim = ?3",
        )?
        .query_row((room.row, agent, claim.id.as_bytes()), |row| row.get(0))
        .optional()?;
    let seq = match repeated {
        Some(seq) => Some(seq),
        None => next(connection, room.row, agent, claim.own)?,
    };
    if repeated.is_none() && seq.is_some() && !batch.has_room {
        // Nobody could say how it ended.
        return Err(StoreError::StorageFull.into());
    }
    let Some(seq) = seq else {
        return Ok(ClaimOutcome {
            job: None,
            next_expiry: next_expiry(connection, room.row)?,
            head,
        });
    };
    if repeated.is_none() {
        connection
            .prepare_cached(
                "UPDATE jobs SET state = 'claimed', owner = ?3, claim = ?4, lease_until = ?5,
                     fence = 1 + (SELECT max(fence) FROM jobs INDEXED BY jobs_by_fence WHERE room = ?1)
                 WHERE room = ?1 AND seq = ?2",
            )?
            .execute((
                room.row,
                seq,
                agent,
                claim.id.as_bytes(),
                claim.now.saturating_add(claim.lease_ms),
            ))?;
        batch.seen(agent, claim.now);
        reached(FailPoint::JobClaimed);
    }
    let mut select = connection.prepare_cached(
        "SELECT j.fence, j.lease_until, j.attempts, m.body
         FROM jobs j JOIN messages m ON m.message = j.message WHERE j.room = ?1 AND j.seq = ?2",
    )?;
    let job = select.query_row((room.row, seq), |row| {
        Ok(HeldJob {
            fence: Fence {
                seq: seq_of(seq),
                number: row.get::<_, i64>(0)?.unsigned_abs(),
            },
            lease_until: row.get(1)?,
            attempt: row.get::<_, u32>(2)? + 1,
            stored: row.get::<_, Vec<u8>>(3)?.into(),
        })
    })?;
    Ok(ClaimOutcome {
        job: Some(job),
        next_expiry: None,
        head,
    })
}

/// The number of the job that is next for this agent. The requesters are found by hopping from one to the next in the
/// index, so that a long queue costs no more than a short one.
fn next(connection: &Connection, room: i64, agent: i64, own: bool) -> Result<Option<i64>, Failure> {
    let mut select = connection.prepare_cached(
        "WITH RECURSIVE requesters (requester) AS (
             SELECT min(requester) FROM jobs INDEXED BY jobs_waiting WHERE room = ?1 AND state = 'waiting'
             UNION ALL
             SELECT (SELECT min(j.requester) FROM jobs j INDEXED BY jobs_waiting
                     WHERE j.room = ?1 AND j.state = 'waiting' AND j.requester > r.requester)
             FROM requesters r WHERE r.requester IS NOT NULL)
         SELECT (SELECT min(j.seq) FROM jobs j INDEXED BY jobs_waiting
                 WHERE j.room = ?1 AND j.state = 'waiting' AND j.requester = r.requester) AS oldest
         FROM requesters r WHERE r.requester IS NOT NULL AND (?3 OR r.requester <> ?2)
         ORDER BY (SELECT count(*) FROM jobs c INDEXED BY jobs_claimed
                   WHERE c.room = ?1 AND c.state = 'claimed' AND c.requester = r.requester),
             (SELECT max(l.fence) FROM jobs l INDEXED BY jobs_by_requester
              WHERE l.room = ?1 AND l.requester = r.requester),
             oldest
         LIMIT 1",
    )?;
    Ok(select.query_row((room, agent, own), |row| row.get(0)).optional()?)
}

/// Gives a worker more time for a job that it has.
pub(super) fn renew(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    fence: Fence,
    lease_ms: i64,
    now: i64,
) -> Result<Renewal, Failure> {
    let connection = batch.connection;
    let (room, agent) = for_server(connection, room, agent)?;
    let job = by_seq(connection, room.row, fence.seq, now)?.ok_or(StoreError::StaleFence(fence.seq))?;
    // Who asked for it has called it off, or has left: then it was given up before its lease ended.
    let is_off = job.state == JobState::Cancelled || job.state == JobState::Dead && job.lease_until == 0;
    if job.is_of(agent, fence) && is_off {
        return Ok(Renewal::Cancelled);
    }
    if !job.is_held(agent, fence) {
        return Err(StoreError::StaleFence(fence.seq).into());
    }
    let until = now.saturating_add(lease_ms);
    connection
        .prepare_cached("UPDATE jobs SET lease_until = ?2 WHERE message = ?1")?
        .execute((job.message, until))?;
    batch.seen(agent, now);
    reached(FailPoint::ClaimRenewed);
    Ok(Renewal::Until {
        lease_until: until,
        is_sooner: until < job.lease_until,
    })
}

/// Gives a job back, as if it had not been claimed. Giving it back twice is giving it back once.
pub(super) fn release(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    fence: Fence,
    now: i64,
) -> Result<(), Failure> {
    let connection = batch.connection;
    let (room, agent) = for_server(connection, room, agent)?;
    let job = by_seq(connection, room.row, fence.seq, now)?.ok_or(StoreError::StaleFence(fence.seq))?;
    if job.is_of(agent, fence) && job.state == JobState::Waiting && job.lease_until == 0 {
        return Ok(());
    }
    if !job.is_held(agent, fence) {
        return Err(StoreError::StaleFence(fence.seq).into());
    }
    connection
        .prepare_cached("UPDATE jobs SET state = 'waiting', claim = NULL, lease_until = NULL WHERE message = ?1")?
        .execute([job.message])?;
    reached(FailPoint::ClaimReleased);
    Ok(())
}

/// Ends what an agent and its tokens have to do with a service's jobs, as its membership ends: what they work on is
/// offered to others, as if they had not claimed it, and what they asked for is given up.
pub(super) fn forget_member(connection: &Connection, room: i64, agent: i64, now: i64) -> Result<(), Failure> {
    // Not given back in time is still an attempt.
    expire(connection, room, now)?;
    for statement in [
        "UPDATE jobs INDEXED BY jobs_waiting SET state = 'dead', lease_until = NULL
         WHERE room = ?1 AND state = 'waiting'
             AND requester IN (SELECT ?2 UNION ALL SELECT agent FROM tokens WHERE created_by = ?2)",
        "UPDATE jobs INDEXED BY jobs_claimed SET state = 'dead', lease_until = NULL
         WHERE room = ?1 AND state = 'claimed'
             AND requester IN (SELECT ?2 UNION ALL SELECT agent FROM tokens WHERE created_by = ?2)",
        "UPDATE jobs INDEXED BY jobs_claimed SET state = 'waiting', claim = NULL, lease_until = NULL
         WHERE room = ?1 AND state = 'claimed'
             AND owner IN (SELECT ?2 UNION ALL SELECT agent FROM tokens WHERE created_by = ?2)",
    ] {
        connection.prepare_cached(statement)?.execute((room, agent))?;
    }
    Ok(())
}

/// Ends what a token has to do with jobs, as it is revoked, like [`forget_member`].
pub(super) fn forget_token(connection: &Connection, agent: i64, now: i64) -> Result<(), Failure> {
    let mut select = connection.prepare_cached("SELECT room FROM token_rooms WHERE agent = ?1")?;
    let rooms = select.query_map([agent], |row| row.get(0))?;
    for room in rooms.collect::<Result<Vec<i64>, _>>()? {
        forget_member(connection, room, agent, now)?;
    }
    Ok(())
}

/// Offers a job again that the hub has given up, for one that serves.
pub(super) fn retry(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    seq: Seq,
    now: i64,
) -> Result<(JobSummary, RoomAnswer), Failure> {
    let connection = batch.connection;
    let (room, _) = for_server(connection, room, agent)?;
    expire(connection, room.row, now)?;
    let job = by_seq(connection, room.row, seq, now)?.ok_or(StoreError::NotFound)?;
    if job.state != JobState::Dead {
        return Err(StoreError::JobState(seq, job.state).into());
    }
    connection
        .prepare_cached("UPDATE jobs SET state = 'waiting', attempts = 0 WHERE message = ?1")?
        .execute([job.message])?;
    let before = Seq::new(seq.get() - 1);
    let (mut jobs, _) = summaries(connection, room.row, before, 1, None, now)?;
    let summary = jobs.pop().ok_or_else(|| Failure::damaged("a job"))?;
    Ok((summary, room.answer(batch.head(&room).head())))
}
