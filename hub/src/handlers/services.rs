//! Services: who serves, and how their jobs are claimed, kept, given back and looked at. What becomes of a job is posted as
//! a message ([`super::messages`]).

use std::time::Duration;

use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use parler_protocol::api::{ClaimJob, ClaimRenewed, ClaimedJob, JobFilter, JobList, RenewClaim, Serve};
use parler_protocol::{Fence, Seq, ServiceName, limits};
use serde_json::value::RawValue;

use crate::answer::{json, room_json, tell_head};
use crate::auth::Authenticated;
use crate::body::Json;
use crate::fail_point::{FailPoint, reached};
use crate::metrics::Counted;
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_call::RoomCall;
use crate::state::SharedState;
use crate::store::{Claim, ClaimOutcome, MayServe, Renewal};

/// `POST /v1/services`
pub(crate) async fn serve(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    Json(request): Json<Serve>,
) -> Result<Response, Refusal> {
    let may = match (&state.options.local, state.options.open) {
        (Some(_), _) => MayServe::Everybody,
        (None, true) => MayServe::First,
        (None, false) => MayServe::Invited,
    };
    let (agent, room) = (principal.agent, request.service.room());
    let (room, is_new) = state.store.serve(agent, &room, may, state.now_ms()).await?;
    state.wake.notify_joined(agent);
    tracing::info!(%agent, name = %principal.name, service = %request.service, is_new, "serves");
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    room_json(status, &room, &room.head)
}

/// `POST /v1/services/{service}/claims`
pub(crate) async fn claim(
    call: RoomCall,
    params: RawPathParams,
    Json(request): Json<ClaimJob>,
) -> Result<Response, Refusal> {
    let service = service_of(&params)?;
    let lease_ms = lease_ms(request.lease_seconds)?;
    let wait = Duration::from_secs(request.wait_seconds.unwrap_or(0)).min(limits::MAX_WAIT);
    let ask = || Claim {
        by: call.principal.agent,
        room: call.room.clone(),
        id: request.id,
        lease_ms,
        own: request.own,
        now: call.state.now_ms(),
    };
    // First, so that nothing falls between looking and waiting.
    let mut work = call.state.wake.subscribe_jobs(&call.room.key());
    let mut outcome = call.run(|| call.store().claim(ask())).await?;
    if outcome.job.is_none() && !wait.is_zero() {
        let _counted = Counted::one_more(&call.state.metrics.long_polls);
        let mut waiting = call.state.presence.waiting(call.principal.agent);
        waiting.in_room(&call.room.key());
        let deadline = tokio::time::sleep(wait);
        let stopping = call.state.stopping();
        tokio::pin!(deadline, stopping);
        while outcome.job.is_none() {
            tokio::select! {
                () = work.changed() => {}
                () = lease_ends(outcome.next_expiry.map(|at| left_ms(&call, at))) => {}
                () = &mut deadline => break,
                () = &mut stopping => break,
            }
            outcome = again(&call, ask()).await?;
        }
    }
    if outcome.job.is_some() {
        reached(FailPoint::ClaimStored);
    }
    answer(&call, service, outcome)
}

/// Asks as the one that it was when it began to wait.
async fn again(call: &RoomCall, claim: Claim) -> Result<ClaimOutcome, Refusal> {
    call.check_not_ended().await?;
    Ok(call.store().claim(claim).await?)
}

/// Returns when so much of a lease is over, milliseconds; never where there is none.
async fn lease_ends(left_ms: Option<u64>) {
    match left_ms {
        Some(left) => tokio::time::sleep(Duration::from_millis(left)).await,
        None => std::future::pending().await,
    }
}

fn answer(call: &RoomCall, service: ServiceName, outcome: ClaimOutcome) -> Result<Response, Refusal> {
    let Some(job) = outcome.job else {
        let mut response = StatusCode::NO_CONTENT.into_response();
        tell_head(&mut response, &outcome.head);
        return Ok(response);
    };
    let stored = String::from_utf8(job.stored.to_vec()).map_err(Refusal::internal)?;
    let claimed = ClaimedJob {
        service,
        seq: job.fence.seq,
        fence: job.fence.number,
        lease_until: job.lease_until,
        lease_ms: left_ms(call, job.lease_until),
        attempt: job.attempt,
        job: RawValue::from_string(stored).map_err(Refusal::internal)?,
    };
    room_json(StatusCode::OK, &claimed, &outcome.head)
}

/// How much of a lease is left, milliseconds. Some went by while the store was busy.
fn left_ms(call: &RoomCall, lease_until: i64) -> u64 {
    lease_until.saturating_sub(call.state.now_ms()).max(0).unsigned_abs()
}

/// `PUT /v1/services/{service}/claims/{seq}`
pub(crate) async fn renew(
    call: RoomCall,
    params: RawPathParams,
    Json(request): Json<RenewClaim>,
) -> Result<Response, Refusal> {
    let (seq, lease_ms) = (seq_of(&params)?, lease_ms(request.lease_seconds)?);
    let fence = Fence {
        seq,
        number: request.fence,
    };
    let (agent, now) = (call.principal.agent, call.state.now_ms());
    let renewal = call
        .run(|| call.store().renew(agent, &call.room, fence, lease_ms, now))
        .await?;
    reached(FailPoint::RenewalStored);
    let renewed = match renewal {
        Renewal::Until { lease_until, is_sooner } => {
            if is_sooner {
                call.state.wake.notify_jobs(&call.room.key());
            }
            ClaimRenewed {
                lease_until,
                lease_ms: left_ms(&call, lease_until),
                cancelled: false,
            }
        }
        Renewal::Cancelled => ClaimRenewed {
            lease_until: now,
            lease_ms: 0,
            cancelled: true,
        },
    };
    let mut response = json(StatusCode::OK, &renewed)?;
    call.tell_head(&mut response).await;
    Ok(response)
}

/// `DELETE /v1/services/{service}/claims/{seq}?fence=`
pub(crate) async fn release(call: RoomCall, params: RawPathParams, mut query: Parameters) -> Result<Response, Refusal> {
    let seq = seq_of(&params)?;
    let number: Option<u64> = query.take("fence")?;
    query.finish()?;
    let number = number.ok_or_else(|| Refusal::bad_request("fence, the claim's number, is missing"))?;
    let (agent, now) = (call.principal.agent, call.state.now_ms());
    let fence = Fence { seq, number };
    call.run(|| call.store().release(agent, &call.room, fence, now)).await?;
    reached(FailPoint::ReleaseStored);
    call.state.wake.notify_jobs(&call.room.key());
    let mut response = StatusCode::NO_CONTENT.into_response();
    call.tell_head(&mut response).await;
    Ok(response)
}

/// `GET /v1/services/{service}/jobs?after=&limit=&state=`
pub(crate) async fn jobs(call: RoomCall, params: RawPathParams, mut query: Parameters) -> Result<Response, Refusal> {
    let after: Seq = query.take("after")?.unwrap_or_default();
    let limit = query.take::<u32>("limit")?.unwrap_or(limits::DEFAULT_PAGE_MESSAGES);
    let only: Option<JobFilter> = query.take("state")?;
    query.finish()?;
    let limit = limit.clamp(1, limits::MAX_PAGE_MESSAGES);
    let (agent, now) = (call.principal.agent, call.state.now_ms());
    let page = call
        .run(|| call.store().jobs(agent, &call.room, after, limit, only, now))
        .await?;
    let list = JobList {
        service: service_of(&params)?,
        jobs: page.jobs,
        next: page.next,
    };
    room_json(StatusCode::OK, &list, &page.room.head)
}

/// `POST /v1/services/{service}/jobs/{seq}/retry`
pub(crate) async fn retry(call: RoomCall, params: RawPathParams) -> Result<Response, Refusal> {
    let seq = seq_of(&params)?;
    let (agent, now) = (call.principal.agent, call.state.now_ms());
    let (job, room) = call.run(|| call.store().retry_job(agent, &call.room, seq, now)).await?;
    call.state.wake.notify_jobs(&call.room.key());
    tracing::info!(%agent, name = %call.principal.name, room = %room.room, %seq, "offers a job again");
    room_json(StatusCode::OK, &job, &room.head)
}

fn service_of(params: &RawPathParams) -> Result<ServiceName, Refusal> {
    let named = params.iter().find(|(name, _)| *name == "service");
    named
        .and_then(|(_, service)| service.parse().ok())
        .ok_or_else(Refusal::not_found)
}

fn seq_of(params: &RawPathParams) -> Result<Seq, Refusal> {
    let named = params.iter().find(|(name, _)| *name == "seq");
    named
        .and_then(|(_, seq)| seq.parse().ok())
        .filter(|seq| *seq != Seq::ZERO)
        .ok_or_else(Refusal::not_found)
}

/// How long a job is to be the worker's, milliseconds.
fn lease_ms(seconds: Option<u64>) -> Result<i64, Refusal> {
    let (shortest, longest) = (limits::MIN_LEASE.as_secs(), limits::MAX_LEASE.as_secs());
    let seconds = seconds.unwrap_or(limits::DEFAULT_LEASE.as_secs());
    if !(shortest..=longest).contains(&seconds) {
        return Err(Refusal::bad_request(format!("leaseSeconds is {shortest} to {longest}")));
    }
    Ok(i64::try_from(seconds * 1000).unwrap_or(i64::MAX))
}
