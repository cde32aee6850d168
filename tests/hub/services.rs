//! Services over HTTP: who serves and who asks, how a job goes to one worker and its end back, what wakes who waits, and how
//! deep jobs may lead to jobs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parler_hub::{Clock, LocalPolicy};
use parler_protocol::api::{
    ClaimRenewed, ClaimedJob, JobList, JobState, JobSummary, Posted, Receipts, RoomAnswer, WakePath,
};
use parler_protocol::{
    Cause, ChainHash, DispatchPart, ErrorCode, Fence, Head, Message, MessageId, Part, RoomKind, Seq, ServiceName,
    Signed, TaskPart, TaskStatus, limits, paths,
};
use serde_json::{Value, json};

use crate::client::{blocking, client};
use crate::fixtures::{assert_shape, fixture};
use crate::support::{Agent, Answer, Push, TestHub, text_message, until};

pub(crate) fn service() -> ServiceName {
    "review".parse().unwrap()
}

/// The service's room as who has not been there knows it.
pub(crate) fn unseen(agent: &Agent) -> RoomAnswer {
    let room = service().room();
    RoomAnswer {
        head: Head {
            seq: Seq::ZERO,
            h: ChainHash::start(&agent.hub, &room),
        },
        room,
        kind: RoomKind::Service,
    }
}

pub(crate) fn job_part() -> DispatchPart {
    DispatchPart {
        role: "review".into(),
        ..DispatchPart::default()
    }
}

pub(crate) fn signed(agent: &Agent, part: impl Into<Part>) -> Signed {
    Push::new().part(part).sign(agent, &unseen(agent))
}

pub(crate) async fn post(agent: &Agent, message: &Signed, fence: Option<Fence>) -> Answer {
    let fenced = |request: hyper::http::request::Builder| {
        let request = request.header("content-type", "application/json");
        match fence {
            Some(fence) => request.header(paths::FENCE_HEADER, fence.to_string()),
            None => request,
        }
    };
    let path = paths::messages(&service().room());
    agent.send("POST", &path, fenced, message.body.clone()).await
}

pub(crate) async fn dispatch(agent: &Agent) -> Posted {
    post(agent, &signed(agent, job_part()), None).await.expect(201).json()
}

/// What is said of a job.
pub(crate) fn receipt(agent: &Agent, job: MessageId, status: TaskStatus) -> Signed {
    let task = TaskPart {
        status,
        task: Some(job.to_string()),
        note: None,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    signed(agent, task)
}

pub(crate) async fn serve(agent: &Agent) -> Answer {
    agent.post(paths::SERVICES, &json!({ "service": "review" })).await
}

pub(crate) async fn ask(agent: &Agent, wait_seconds: u64) -> Answer {
    let asked = json!({ "id": MessageId::generate(), "leaseSeconds": 15, "waitSeconds": wait_seconds });
    agent.post(&paths::claims(&service()), &asked).await
}

pub(crate) async fn claim(agent: &Agent) -> ClaimedJob {
    ask(agent, 0).await.expect(200).json()
}

/// Takes a job for so long that nobody waits for its lease to end.
pub(crate) async fn claim_for_long(agent: &Agent) -> ClaimedJob {
    let job = claim(agent).await;
    keep(agent, &job).await;
    job
}

async fn keep(agent: &Agent, job: &ClaimedJob) {
    let renew = json!({ "fence": job.fence, "leaseSeconds": 3600 });
    let renewed = agent.put(&paths::claim(&service(), job.seq), &renew).await;
    assert_eq!(renewed.status, 200, "{renewed:?}");
}

pub(crate) fn fence(job: &ClaimedJob) -> Fence {
    Fence {
        seq: job.seq,
        number: job.fence,
    }
}

pub(crate) fn id(job: &ClaimedJob) -> MessageId {
    Message::parse(job.job.get().as_bytes()).unwrap().id
}

pub(crate) async fn jobs(agent: &Agent) -> Vec<JobSummary> {
    let list: JobList = agent
        .get(&paths::jobs(&service(), Seq::ZERO, 200))
        .await
        .expect(200)
        .json();
    list.jobs
}

/// Waits until this agent waits for a job.
pub(crate) async fn until_it_waits(member: &Agent, seq: Seq, waits: &Agent) {
    until("somebody waits for a job", async || {
        let path = paths::receipts(&service().room(), seq);
        let receipts: Receipts = member.get(&path).await.expect(200).json();
        let reader = receipts.readers.iter().find(|reader| reader.id == waits.id());
        reader.is_some_and(|reader| reader.wake == WakePath::Stream)
    })
    .await;
}

#[tokio::test]
async fn a_job_goes_to_one_worker_and_its_end_back() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    // What is no service is told like what is no room.
    let message = signed(&alice, job_part());
    let unknown = post(&alice, &message, None).await.problem(ErrorCode::NotFound);
    assert_eq!(
        unknown,
        alice.get("/v1/rooms/nowhere").await.problem(ErrorCode::NotFound)
    );
    let made: RoomAnswer = serve(&worker).await.expect(201).json();
    assert_eq!((made.room.as_str(), made.kind), ("svc.review", RoomKind::Service));
    serve(&worker).await.expect(200).head();
    assert_eq!(ask(&worker, 0).await.expect(204).head(), made.head);

    // A job is signed, and its author is a member by it.
    let unsigned =
        json!({ "id": MessageId::generate(), "parts": [{ "kind": "com.parler.dispatch", "role": "review" }] });
    let path = paths::messages(&made.room);
    alice.post(&path, &unsigned).await.problem(ErrorCode::BadSignature);
    let dispatched: Posted = post(&alice, &message, None).await.expect(201).json();
    let job = claim(&worker).await;
    assert_eq!((job.seq, job.attempt, id(&job)), (dispatched.seq, 1, dispatched.id));
    assert_eq!(job.lease_until, hub.now_ms() + 15_000);
    assert_eq!(job.lease_ms, 15_000);
    let page = alice.get(&path).await.expect(200);
    assert_eq!(page.messages(), [job.job.get().as_bytes()], "as every read returns it");

    let renew = json!({ "fence": job.fence, "leaseSeconds": 60 });
    let claimed = paths::claim(&service(), job.seq);
    let renewed: ClaimRenewed = worker.put(&claimed, &renew).await.expect(200).json();
    assert_eq!((renewed.lease_until, renewed.cancelled), (hub.now_ms() + 60_000, false));
    let accepted = receipt(&worker, dispatched.id, TaskStatus::Accepted);
    post(&worker, &accepted, Some(fence(&job))).await.expect(201).head();
    // Without the fence it is nobody's to say, with another it is stale, and neither leaves anything.
    let done = receipt(&worker, dispatched.id, TaskStatus::Done);
    post(&worker, &done, None).await.problem(ErrorCode::BadRequest);
    let wrong = Fence {
        number: job.fence + 1,
        ..fence(&job)
    };
    post(&worker, &done, Some(wrong)).await.problem(ErrorCode::StaleFence);
    post(
        &alice,
        &receipt(&alice, dispatched.id, TaskStatus::Done),
        Some(fence(&job)),
    )
    .await
    .problem(ErrorCode::StaleFence);
    let first: Posted = post(&worker, &done, Some(fence(&job))).await.expect(201).json();
    assert_eq!(first.seq, Seq::new(3));
    // Again, long after: the first answer.
    hub.pass(Duration::from_secs(3600));
    let again: Posted = post(&worker, &done, Some(fence(&job))).await.expect(200).json();
    assert_eq!(again, first);
    worker.put(&claimed, &renew).await.problem(ErrorCode::StaleFence);
    let listed = jobs(&alice).await;
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].state, listed[0].requester.id), (JobState::Done, alice.id()));
    assert_eq!(listed[0].claimed_by.as_ref().unwrap().name.as_str(), "worker");
}

#[tokio::test]
async fn a_lease_that_ends_is_another_workers_and_a_third_one_the_last() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let dispatched = dispatch(&alice).await;
    for attempt in 1..=limits::MAX_JOB_ATTEMPTS {
        let job = claim(&worker).await;
        assert_eq!(job.attempt, attempt);
        hub.pass(limits::MIN_LEASE);
        let late = receipt(&worker, dispatched.id, TaskStatus::Done);
        post(&worker, &late, Some(fence(&job)))
            .await
            .problem(ErrorCode::StaleFence);
    }
    ask(&worker, 0).await.expect(204).head();
    assert_eq!(jobs(&alice).await[0].state, JobState::Dead);
    let retry = paths::job_retry(&service(), dispatched.seq);
    alice.post(&retry, &json!({})).await.problem(ErrorCode::NotServing);
    let again: JobSummary = worker.post(&retry, &json!({})).await.expect(200).json();
    assert_eq!((again.state, again.attempts), (JobState::Waiting, 0));
    worker.post(&retry, &json!({})).await.problem(ErrorCode::JobState);
    let job = claim(&worker).await;
    // Called off: the worker is told, and what it found is not taken.
    let cancel = receipt(&alice, dispatched.id, TaskStatus::Cancelled);
    post(&alice, &cancel, None).await.expect(201).head();
    let renew = json!({ "fence": job.fence });
    let told: ClaimRenewed = worker
        .put(&paths::claim(&service(), job.seq), &renew)
        .await
        .expect(200)
        .json();
    assert!(told.cancelled);
    let done = receipt(&worker, dispatched.id, TaskStatus::Done);
    post(&worker, &done, Some(fence(&job)))
        .await
        .problem(ErrorCode::StaleFence);
    let twice = receipt(&alice, dispatched.id, TaskStatus::Cancelled);
    post(&alice, &twice, None).await.problem(ErrorCode::JobState);
}

#[tokio::test]
async fn who_waits_is_woken_by_a_job_and_by_one_that_is_given_back() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let worker = hub.agent("worker").await;
    serve(&worker).await.expect(201).head();
    let first = dispatch(&alice).await;
    let held = claim_for_long(&worker).await;
    let other = hub.agent("other").await;
    let invite: Value = worker
        .post(paths::INVITES, &json!({ "room": "svc.review" }))
        .await
        .expect(201)
        .json();
    assert_eq!(invite["kind"], "service");
    other
        .post(paths::JOIN, &json!({ "code": invite["code"] }))
        .await
        .expect(200)
        .head();

    let (waits, second) = tokio::join!(ask(&other, 55), async {
        until_it_waits(&alice, first.seq, &other).await;
        dispatch(&alice).await
    });
    let taken: ClaimedJob = waits.expect(200).json();
    assert_eq!(taken.seq, second.seq);
    keep(&other, &taken).await;
    let (waits, ()) = tokio::join!(ask(&other, 55), async {
        until_it_waits(&alice, first.seq, &other).await;
        let released = worker
            .send(
                "DELETE",
                &paths::release(&service(), fence(&held)),
                |request| request,
                "",
            )
            .await;
        released.expect(204).head();
    });
    let again: ClaimedJob = waits.expect(200).json();
    assert_eq!(
        (again.seq, again.attempt),
        (first.seq, 1),
        "giving it back counts for nothing"
    );
    assert!(again.fence > held.fence);
    let late = worker
        .send(
            "DELETE",
            &paths::release(&service(), fence(&held)),
            |request| request,
            "",
        )
        .await;
    late.problem(ErrorCode::StaleFence);
}

#[tokio::test]
async fn who_waits_is_woken_when_a_lease_ends() {
    let started = std::time::Instant::now();
    let ahead = Arc::new(AtomicI64::new(1_796_000_000_000));
    let shown = Arc::clone(&ahead);
    let hub = TestHub::with(|options| {
        options.open = true;
        options.clock = Clock::from_fn(move || {
            shown.load(Ordering::SeqCst) + i64::try_from(started.elapsed().as_millis()).unwrap()
        });
    })
    .await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    dispatch(&alice).await;
    let held = claim(&worker).await;
    // All but the last half second passes at once.
    ahead.fetch_add(14_500, Ordering::SeqCst);
    let again: ClaimedJob = ask(&worker, 55).await.expect(200).json();
    assert_eq!((again.seq, again.attempt), (held.seq, 2));
}

#[tokio::test]
async fn who_serves_and_who_asks() {
    // Where everybody is let in, the first makes the service, and the others need an invite.
    let hub = TestHub::start().await;
    let (worker, other) = (hub.agent("worker").await, hub.agent("other").await);
    serve(&worker).await.expect(201).head();
    serve(&other).await.problem(ErrorCode::NotFound);
    ask(&other, 0).await.problem(ErrorCode::NotFound);
    let said = post(
        &other,
        &signed(&other, parler_protocol::TextPart { text: "hello".into() }),
        None,
    )
    .await;
    said.problem(ErrorCode::NotFound);
    dispatch(&other).await;
    serve(&other).await.problem(ErrorCode::NotServing);
    ask(&other, 0).await.problem(ErrorCode::NotServing);
    let invite = json!({ "room": "svc.review" });
    other.post(paths::INVITES, &invite).await.problem(ErrorCode::NotServing);
    let channel = json!({ "room": "svc.build", "kind": "channel" });
    other
        .post(paths::ROOMS, &channel)
        .await
        .problem(ErrorCode::NameReserved);

    // On a closed hub who was let in may ask, and who was invited serve; whoever invites makes the service.
    let mut owner = Agent::new(hub.address, hub.id, "owner");
    let owner_id = owner.id();
    let hub = TestHub::with(|options| options.owners = vec![owner_id]).await;
    (owner.address, owner.hub) = (hub.address, hub.id);
    owner.open_session().await;
    serve(&owner).await.problem(ErrorCode::NotFound);
    let made: Value = owner.post(paths::INVITES, &invite).await.expect(201).json();
    serve(&owner).await.expect(200).head();
    let mut invited = Agent::new(hub.address, hub.id, "invited");
    let challenge = invited.challenge().await;
    let mut proof = invited.proof(Some(challenge));
    proof.invite = Some(made["code"].as_str().unwrap().parse().unwrap());
    let opened: Value = invited.post(paths::SESSION, &proof).await.expect(200).json();
    assert_eq!(opened["joined"]["kind"], "service");
    invited.token = opened["token"].as_str().unwrap().to_owned();
    dispatch(&owner).await;
    assert_eq!(claim(&invited).await.attempt, 1);

    // On the local hub all agents are one user's.
    let local = TestHub::with(|options| {
        options.local = Some(LocalPolicy { secret: "s".to_owned() });
    })
    .await;
    let mut agents = Vec::new();
    for name in ["alice", "worker", "other"] {
        let mut agent = Agent::new(local.address, local.id, name);
        agent.secret = Some("s".to_owned());
        agent.open_session().await;
        agents.push(agent);
    }
    serve(&agents[1]).await.expect(201).head();
    serve(&agents[2]).await.expect(200).head();
    dispatch(&agents[0]).await;
    assert_eq!(claim(&agents[2]).await.attempt, 1);
    ask(&agents[1], 0).await.expect(204).head();
}

#[tokio::test]
async fn jobs_lead_to_jobs_so_far_and_never_back() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let of = |chain: &[&str]| DispatchPart {
        caused_by: chain.last().map(|last| Cause {
            room: format!("svc.{last}").parse().unwrap(),
            seq: Seq::new(7),
        }),
        chain: chain.iter().map(|name| name.parse().unwrap()).collect(),
        ..job_part()
    };
    let uncaused = DispatchPart {
        caused_by: None,
        ..of(&["build"])
    };
    let elsewhere = DispatchPart {
        caused_by: of(&["test"]).caused_by,
        ..of(&["build"])
    };
    let other = DispatchPart {
        role: "build".into(),
        ..job_part()
    };
    for refused in [
        of(&["a", "b", "c", "d"]),
        of(&["review"]),
        of(&["a", "Review", "b"]),
        of(&["a", "b", "A"]),
        uncaused,
        elsewhere,
        other,
    ] {
        let answer = post(&alice, &signed(&alice, refused.clone()), None).await;
        let problem = answer.problem(ErrorCode::BadRequest);
        assert!(!problem.detail.is_empty(), "{refused:?}");
    }
    let twice = Push::new()
        .part(job_part())
        .part(job_part())
        .sign(&alice, &unseen(&alice));
    post(&alice, &twice, None).await.problem(ErrorCode::BadRequest);
    let malformed =
        json!({ "id": MessageId::generate(), "parts": [{ "kind": "com.parler.dispatch", "to": "review" }] });
    let path = paths::messages(&service().room());
    alice.post(&path, &malformed).await.problem(ErrorCode::BadRequest);
    let listed = json!({ "kind": "com.parler.dispatch", "role": "review", "chain": ["a"], "causedBy": ["svc.a", 7] });
    let listed = json!({ "id": MessageId::generate(), "parts": [listed] });
    let told = alice.post(&path, &listed).await.problem(ErrorCode::BadRequest);
    assert!(told.detail.contains("documented form"), "{}", told.detail);
    let unnamed = json!({ "kind": "com.parler.dispatch", "role": "review", "chain": ["not a name"] });
    let unnamed = json!({ "id": MessageId::generate(), "parts": [unnamed] });
    alice.post(&path, &unnamed).await.problem(ErrorCode::BadRequest);
    for fine in [of(&[]), of(&["a"]), of(&["a", "b", "c"])] {
        post(&alice, &signed(&alice, fine), None).await.expect(201).head();
    }
    assert_eq!(jobs(&alice).await.len(), 3);
}

#[tokio::test]
async fn tokens_work_on_jobs_and_do_nothing_else() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let dispatched = dispatch(&alice).await;
    let room = service().room();
    let mut by_scope = Vec::new();
    for scope in ["claim", "read", "post"] {
        let asked = json!({ "name": scope, "rooms": ["svc.review"], "can": [scope] });
        let made = worker.post(paths::TOKENS, &asked).await.expect(201);
        by_scope.push(crate::tokens::job(&hub, &made));
    }
    let [claims, reads, posts] = &by_scope[..] else {
        unreachable!()
    };
    for closed in [reads, posts] {
        ask(closed, 0).await.problem(ErrorCode::TokenScope);
        closed
            .put(&paths::claim(&service(), dispatched.seq), &json!({ "fence": 1 }))
            .await
            .problem(ErrorCode::TokenScope);
    }
    posts
        .get(&paths::jobs(&service(), Seq::ZERO, 200))
        .await
        .problem(ErrorCode::TokenScope);
    assert_eq!(jobs(reads).await.len(), 1);
    assert_eq!(jobs(claims).await.len(), 1);
    let job = claim(claims).await;
    let as_job = |message: &Signed, by: &Agent, fence: Option<Fence>| {
        let (body, id) = (message.body.clone(), by.id().to_string());
        let path = paths::messages(&room);
        let headed = move |request: hyper::http::request::Builder| {
            let request = request
                .header("content-type", "application/json")
                .header(paths::AGENT_HEADER, id);
            match fence {
                Some(fence) => request.header(paths::FENCE_HEADER, fence.to_string()),
                None => request,
            }
        };
        (path, headed, body)
    };
    let done = receipt(claims, dispatched.id, TaskStatus::Done);
    let (path, headed, body) = as_job(&done, claims, None);
    claims
        .send("POST", &path, headed, body)
        .await
        .problem(ErrorCode::TokenScope);
    let (path, headed, body) = as_job(&done, claims, Some(fence(&job)));
    claims.send("POST", &path, headed, body).await.expect(201).head();
    // One that may post asks for a job.
    let (path, headed, body) = as_job(&signed(posts, job_part()), posts, None);
    posts.send("POST", &path, headed, body).await.expect(201).head();
    let retry = paths::job_retry(&service(), dispatched.seq);
    claims.post(&retry, &json!({})).await.problem(ErrorCode::TokenScope);
    serve(claims).await.problem(ErrorCode::TokenScope);
    let states: Vec<_> = jobs(&alice).await.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Done, JobState::Waiting]);
}

#[tokio::test]
async fn odd_claims_are_refused() {
    let hub = TestHub::start().await;
    let worker = hub.agent("worker").await;
    serve(&worker).await.expect(201).head();
    let path = paths::claims(&service());
    for odd in [
        json!({}),
        json!({ "id": "x" }),
        json!({ "id": MessageId::generate(), "leaseSeconds": 14 }),
        json!({ "id": MessageId::generate(), "leaseSeconds": 3601 }),
        json!({ "id": MessageId::generate(), "wait": 1 }),
    ] {
        worker.post(&path, &odd).await.problem(ErrorCode::BadRequest);
    }
    let claim = paths::claim(&service(), Seq::new(1));
    worker
        .send("DELETE", &claim, |request| request, "")
        .await
        .problem(ErrorCode::BadRequest);
    worker
        .put(&claim, &json!({ "fence": 1 }))
        .await
        .problem(ErrorCode::StaleFence);
    worker
        .put("/v1/services/review/claims/x", &json!({ "fence": 1 }))
        .await
        .problem(ErrorCode::NotFound);
    worker
        .post("/v1/services/-/claims", &json!({ "id": MessageId::generate() }))
        .await
        .problem(ErrorCode::NotFound);
    let fenced = |request: hyper::http::request::Builder| {
        request
            .header("content-type", "application/json")
            .header(paths::FENCE_HEADER, "1")
    };
    let body = text_message("x").to_string();
    let answer = worker
        .send("POST", &paths::messages(&service().room()), fenced, body)
        .await;
    answer.problem(ErrorCode::BadRequest);
}

#[tokio::test]
async fn the_client_has_a_call_for_each() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let first = dispatch(&alice).await;
    let second = dispatch(&alice).await;
    blocking(move || {
        let by = client(&worker);
        let (lease, service) = (Duration::from_secs(30), service());
        assert_eq!(by.serve(&service).unwrap().kind, RoomKind::Service);
        let job = by.claim_job(&service, lease, Duration::ZERO).unwrap().unwrap();
        assert_eq!(job.seq, first.seq);
        let renewed = by.renew_claim(&service, fence(&job), lease).unwrap();
        assert!(!renewed.cancelled && renewed.lease_until >= job.lease_until);
        let done = receipt(&worker, first.id, TaskStatus::Done);
        by.post_with_fence(&service.room(), fence(&job), &done, None, None)
            .unwrap();
        let stale = by.renew_claim(&service, fence(&job), lease).unwrap_err();
        assert_eq!(stale.code(), Some(ErrorCode::StaleFence));
        let job = by.claim_job(&service, lease, Duration::from_secs(55)).unwrap().unwrap();
        assert_eq!(job.seq, second.seq);
        by.release_claim(&service, fence(&job)).unwrap();
        let job = by.claim_job(&service, lease, Duration::ZERO).unwrap().unwrap();
        assert!(by.claim_job(&service, lease, Duration::ZERO).unwrap().is_none());
        let listed = by.jobs(&service, Seq::ZERO).unwrap().jobs;
        let states: Vec<_> = listed.iter().map(|job| job.state).collect();
        assert_eq!(states, [JobState::Done, JobState::Claimed]);
        let alive = by.retry_job(&service, job.seq).unwrap_err();
        assert_eq!(alive.code(), Some(ErrorCode::JobState));
    })
    .await;
}

#[tokio::test]
async fn the_hub_tells_of_jobs_in_the_shape_that_is_written_down() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    let serves = worker.post_bytes(paths::SERVICES, fixture("serve-request.json")).await;
    assert_shape("room-answer.json", &serves.expect(201).json());
    dispatch(&alice).await;
    let claimed = worker
        .post_bytes(&paths::claims(&service()), fixture("claim-request.json"))
        .await
        .expect(200);
    assert_shape("claim-answer.json", &claimed.json());
    let job: ClaimedJob = claimed.json();
    let mut renew: Value = serde_json::from_slice(&fixture("renew-request.json")).unwrap();
    renew["fence"] = job.fence.into();
    let renewed = worker.put(&paths::claim(&service(), job.seq), &renew).await.expect(200);
    assert_shape("renew-answer.json", &renewed.json());
    let listed = alice.get(&paths::jobs(&service(), Seq::ZERO, 200)).await.expect(200);
    assert_shape("jobs-answer.json", &listed.json());
}
