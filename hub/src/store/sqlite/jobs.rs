//! The queue of a service: who claims which job, for how long, and how jobs end. A claim is no message; what ends a job is
//! one, or the third lease that nobody kept. Time is the hub's, as each call brings it, and a lease that has ended is
//! noticed when somebody looks.

use parler_protocol::api::{JobState, JobSummary, Party, RoomAnswer};
use parler_protocol::limits::MAX_JOB_ATTEMPTS;
use parler_protocol::{AgentId, Fence, HubId, MessageId, RoomKind, RoomName, Seq, TaskStatus};
use rusqlite::{Connection, OptionalExtension, Row};

use super::batch::Batch;
use super::failure::Failure;
use super::rooms::RoomRow;
use super::{agent_id, agents, column, departures, members, names, outsiders, parsed, rooms, seq_of, tokens};
use crate::fail_point::{FailPoint, reached};
use crate::store::{Append, Claim, ClaimOutcome, HeldJob, JobPage, MayServe, Need, Renewal, StoreError};

/// What an append does to the queue.
pub(super) enum Change {
    /// Its message is a job from now on.
    Dispatch,
    /// The job in this row ends so.
    End(i64, JobState),
}

/// A job's row, as far as claims go by it.
struct JobRow {
    message: i64,
    id: MessageId,
    requester: i64,
    state: JobState,
    owner: Option<i64>,
    number: u64,
    lease_until: i64,
}

impl JobRow {
    /// Whether the agent has it, by this claim and now.
    fn is_held(&self, agent: i64, fence: Fence, now: i64) -> bool {
        self.is_of(agent, fence) && self.state == JobState::Claimed && self.lease_until > now
    }

    /// Whether it was the agent who claimed it last, with this number.
    fn is_of(&self, agent: i64, fence: Fence) -> bool {
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

fn message_id(bytes: [u8; 16]) -> Result<MessageId, Failure> {
    let spelled = uuid::Uuid::from_bytes(bytes).to_string();
    spelled.parse().map_err(|_| Failure::damaged("a message id"))
}

fn by_seq(connection: &Connection, room: i64, seq: Seq) -> Result<Option<JobRow>, Failure> {
    let mut select = connection.prepare_cached(&format!("{JOB} WHERE j.room = ?1 AND j.seq = ?2"))?;
    let mut rows = select.query((room, column(seq)))?;
    rows.next()?.map(job_row).transpose()
}

fn by_id(connection: &Connection, room: i64, id: &MessageId) -> Result<Option<JobRow>, Failure> {
    let mut select = connection.prepare_cached(&format!("{JOB} WHERE m.room = ?1 AND m.id = ?2"))?;
    let mut rows = select.query((room, id.as_bytes()))?;
    rows.next()?.map(job_row).transpose()
}

/// Makes an agent one that serves, as far as it may be without an invite. Whether the service was made for it.
pub(super) fn serve(
    batch: &mut Batch<'_>,
    hub: &HubId,
    room: &RoomName,
    agent: &AgentId,
    may: MayServe,
    now: i64,
) -> Result<(RoomAnswer, bool), Failure> {
    let connection = batch.connection;
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let (found, membership) = match rooms::find(connection, room, Some(agent))? {
        Some(found) => found,
        None if may == MayServe::Invited => return Err(StoreError::NotFound.into()),
        None => {
            let made = rooms::insert(connection, hub, room, RoomKind::Service, agent, now)?;
            return Ok((made.answer(made.end.head()), true));
        }
    };
    if found.kind != RoomKind::Service {
        return Err(StoreError::NotFound.into());
    }
    match membership {
        Some(_) if members::serves(connection, found.row, agent)? => {}
        Some(membership) if membership.is_owner || may == MayServe::Everybody => {
            members::set_serving(connection, found.row, agent)?;
        }
        Some(_) => return Err(StoreError::NotServing(found.name).into()),
        None => {
            // One that its last member has left is whose comes first.
            let is_first = !departures::has_owner(connection, found.row)?;
            let may_come = may == MayServe::Everybody || is_first && may == MayServe::First;
            if !may_come || is_outside(connection, found.row, agent)? {
                return Err(outsiders::refusal(connection, &found, Some(agent))?.into());
            }
            members::insert(connection, found.row, agent, is_first, now)?;
            members::set_serving(connection, found.row, agent)?;
        }
    }
    Ok((found.answer(batch.head(&found).head()), false))
}

/// Makes an agent that the hub knows one that may ask the service for jobs. Whether it was not one before.
pub(super) fn enter(
    batch: &mut Batch<'_>,
    room: &RoomName,
    agent: &AgentId,
    any_name: bool,
    now: i64,
) -> Result<(RoomAnswer, bool), Failure> {
    let connection = batch.connection;
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotAdmitted)?;
    let (found, membership) = rooms::find(connection, room, Some(agent))?.ok_or(StoreError::NotFound)?;
    let is_new = membership.is_none();
    if is_new {
        // A token is no member, whoever made it; who was sent away does not come back by itself; and where the last one who
        // served has left there is nobody to ask.
        if found.kind != RoomKind::Service
            || tokens::is_token(connection, agent)?
            || !departures::has_owner(connection, found.row)?
        {
            return Err(StoreError::NotFound.into());
        }
        if is_outside(connection, found.row, agent)? {
            return Err(outsiders::refusal(connection, &found, Some(agent))?.into());
        }
        if !any_name {
            names::check_in_room(connection, found.row, agent)?;
        }
        members::insert(connection, found.row, agent, false, now)?;
    }
    Ok((found.answer(batch.head(&found).head()), is_new))
}

fn is_outside(connection: &Connection, room: i64, agent: i64) -> Result<bool, Failure> {
    Ok(outsiders::find(connection, room, agent)?.is_some())
}

/// The service's room for one that may work on its jobs: an agent that serves, or a token of one. For a member that does
/// not serve it is not open, for others it does not exist.
fn for_server(connection: &Connection, room: &RoomName, agent: &AgentId) -> Result<(RoomRow, i64), Failure> {
    let agent = agents::find(connection, agent)?.ok_or(StoreError::NotFound)?;
    let (found, membership) = rooms::find(connection, room, Some(agent))?.ok_or(StoreError::NotFound)?;
    if found.kind != RoomKind::Service {
        return Err(StoreError::NotFound.into());
    }
    let serves = match membership {
        Some(_) => members::serves(connection, found.row, agent)?,
        None if tokens::may(connection, found.row, agent, Need::Claim)? => {
            // Never more than its maker.
            tokens::maker_serves(connection, found.row, agent)?
        }
        None => return Err(StoreError::NotFound.into()),
    };
    match serves {
        true => Ok((found, agent)),
        false => Err(StoreError::NotServing(found.name).into()),
    }
}

/// Whether a claim would find something, without claiming. None: it may; ask the writer.
pub(super) fn nothing_to_claim(connection: &Connection, claim: &Claim) -> Result<Option<ClaimOutcome>, Failure> {
    let (room, agent) = for_server(connection, &claim.room, &claim.by)?;
    let mut select = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM jobs WHERE room = ?1 AND state = 'waiting' AND (?5 OR requester <> ?2))
             OR EXISTS (SELECT 1 FROM jobs WHERE room = ?1 AND state = 'claimed'
                        AND (lease_until <= ?3 OR owner = ?2 AND claim = ?4))",
    )?;
    let may_find: bool = select.query_row((room.row, agent, claim.now, claim.id.as_bytes(), claim.own), |row| {
        row.get(0)
    })?;
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
    let mut select =
        connection.prepare_cached("SELECT min(lease_until) FROM jobs WHERE room = ?1 AND state = 'claimed'")?;
    Ok(select.query_row([room], |row| row.get(0))?)
}

/// Takes back what nobody kept in time.
fn expire(connection: &Connection, room: i64, now: i64) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "UPDATE jobs SET attempts = attempts + 1, state = iif(attempts + 1 >= ?3, 'dead', 'waiting')
             WHERE room = ?1 AND state = 'claimed' AND lease_until <= ?2",
        )?
        .execute((room, now, MAX_JOB_ATTEMPTS))?;
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
        .prepare_cached("SELECT seq FROM jobs WHERE room = ?1 AND state = 'claimed' AND owner = ?2 AND claim = ?3")?
        .query_row((room.row, agent, claim.id.as_bytes()), |row| row.get(0))
        .optional()?;
    let seq = match repeated {
        Some(seq) => Some(seq),
        None => next(connection, room.row, agent, claim.own)?,
    };
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
                     fence = 1 + (SELECT max(fence) FROM jobs WHERE room = ?1)
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
             SELECT min(requester) FROM jobs WHERE room = ?1 AND state = 'waiting'
             UNION ALL
             SELECT (SELECT min(j.requester) FROM jobs j
                     WHERE j.room = ?1 AND j.state = 'waiting' AND j.requester > r.requester)
             FROM requesters r WHERE r.requester IS NOT NULL)
         SELECT (SELECT min(j.seq) FROM jobs j
                 WHERE j.room = ?1 AND j.state = 'waiting' AND j.requester = r.requester) AS oldest
         FROM requesters r WHERE r.requester IS NOT NULL AND (?3 OR r.requester <> ?2)
         ORDER BY (SELECT count(*) FROM jobs c
                   WHERE c.room = ?1 AND c.state = 'claimed' AND c.requester = r.requester),
             (SELECT max(l.fence) FROM jobs l WHERE l.room = ?1 AND l.requester = r.requester),
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
    let job = by_seq(connection, room.row, fence.seq)?.ok_or(StoreError::StaleFence(fence.seq))?;
    // Who asked for it has called it off, or has left: then it was given up before its lease ended.
    let is_off = job.state == JobState::Cancelled || job.state == JobState::Dead && job.lease_until == 0;
    if job.is_of(agent, fence) && is_off {
        return Ok(Renewal::Cancelled);
    }
    if !job.is_held(agent, fence, now) {
        return Err(StoreError::StaleFence(fence.seq).into());
    }
    let until = now.saturating_add(lease_ms);
    connection
        .prepare_cached("UPDATE jobs SET lease_until = ?2 WHERE message = ?1")?
        .execute((job.message, until))?;
    batch.seen(agent, now);
    reached(FailPoint::ClaimRenewed);
    Ok(Renewal::Until(until))
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
    let job = by_seq(connection, room.row, fence.seq)?.ok_or(StoreError::StaleFence(fence.seq))?;
    if job.is_of(agent, fence) && job.lease_until == 0 && !matches!(job.state, JobState::Claimed) {
        return Ok(());
    }
    if !job.is_held(agent, fence, now) {
        return Err(StoreError::StaleFence(fence.seq).into());
    }
    connection
        .prepare_cached("UPDATE jobs SET state = 'waiting', lease_until = NULL WHERE message = ?1")?
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
        "UPDATE jobs SET state = 'dead', lease_until = NULL WHERE room = ?1 AND state IN ('waiting', 'claimed')
             AND requester IN (SELECT ?2 UNION ALL SELECT agent FROM tokens WHERE created_by = ?2)",
        "UPDATE jobs SET state = 'waiting', lease_until = NULL WHERE room = ?1 AND state = 'claimed'
             AND owner IN (SELECT ?2 UNION ALL SELECT agent FROM tokens WHERE created_by = ?2)",
    ] {
        connection.prepare_cached(statement)?.execute((room, agent))?;
    }
    Ok(())
}

/// Gives back what a token works on, as it is revoked.
pub(super) fn forget_token(connection: &Connection, agent: i64, now: i64) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "UPDATE jobs SET state = 'waiting', lease_until = NULL
             WHERE room IN (SELECT room FROM token_rooms WHERE agent = ?1)
                 AND state = 'claimed' AND owner = ?1 AND lease_until > ?2",
        )?
        .execute((agent, now))?;
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
    let job = by_seq(connection, room.row, seq)?.ok_or(StoreError::NotFound)?;
    if job.state != JobState::Dead {
        return Err(StoreError::JobState(seq, job.state).into());
    }
    connection
        .prepare_cached("UPDATE jobs SET state = 'waiting', attempts = 0 WHERE message = ?1")?
        .execute([job.message])?;
    let before = Seq::new(seq.get() - 1);
    let (mut jobs, _) = summaries(connection, room.row, before, 1, now)?;
    let summary = jobs.pop().ok_or_else(|| Failure::damaged("a job"))?;
    Ok((summary, room.answer(batch.head(&room).head())))
}

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

fn summaries(
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
        let job = by_seq(connection, room.row, fence.seq)?;
        let job = job.filter(|job| job.is_held(agent, fence, append.now));
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
        let Some(job) = by_id(connection, room.row, id)? else {
            continue;
        };
        if *status != TaskStatus::Cancelled || job.requester != agent {
            return Err(
                StoreError::BadReceipt("what becomes of a job is said by whoever claimed it, with its fence").into(),
            );
        }
        if !job.state.is_open() {
            return Err(StoreError::JobState(seq_by_id(connection, room.row, id)?, job.state).into());
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

fn seq_by_id(connection: &Connection, room: i64, id: &MessageId) -> Result<Seq, Failure> {
    let mut select = connection.prepare_cached("SELECT seq FROM messages WHERE room = ?1 AND id = ?2")?;
    Ok(select.query_row((room, id.as_bytes()), |row| row.get(0).map(seq_of))?)
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
