//! Claims over HTTP where time, the disk and the network do as they like: what is said too late, and what wakes who waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parler_hub::Clock;
use parler_protocol::api::{ClaimRenewed, ClaimedJob, JobList, JobState, Posted};
use parler_protocol::{ErrorCode, MessageId, Seq, TaskStatus, limits, paths};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::service_members::another_worker;
use crate::services::{
    ask, claim, claim_for_long, dispatch, fence, id, job_part, jobs, post, receipt, serve, service, signed, unseen,
    until_it_waits,
};
use crate::support::{Agent, Push, TestHub, bytes, text_message, until};

/// The lease is judged when the message is stored, however long its bytes take to come.
#[tokio::test]
async fn a_word_whose_bytes_come_too_late_is_too_late() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let dispatched = dispatch(&alice).await;
    let job = claim(&worker).await;
    let blob = bytes(limits::INLINE_BLOB_BYTES as usize + 40_000, 1);
    let done = parler_protocol::TaskPart {
        status: TaskStatus::Done,
        task: Some(id(&job).to_string()),
        note: None,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    let message = Push::new()
        .bundle(&blob)
        .part(done)
        .sign(&worker, &unseen(&worker))
        .body;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\nContent-Type: {}\r\n\
         {}: {}\r\n{}: {}\r\nConnection: close\r\n\r\n",
        paths::messages(&service().room()),
        worker.address,
        worker.token,
        message.len() + blob.len(),
        paths::MESSAGE_WITH_BLOB_TYPE,
        paths::MESSAGE_LENGTH_HEADER,
        message.len(),
        paths::FENCE_HEADER,
        fence(&job),
    );
    let (first, last) = blob.split_at(blob.len() / 2);
    let mut stream = TcpStream::connect(worker.address).await.unwrap();
    stream
        .write_all(&[head.as_bytes(), &message, first].concat())
        .await
        .unwrap();
    // The message is read and judged once its blob has a file.
    let files = hub.directory.path().join("hub/blobs/tmp");
    until("the blob has a file", async || {
        std::fs::read_dir(&files).unwrap().next().is_some()
    })
    .await;
    hub.pass(limits::MIN_LEASE);
    stream.write_all(last).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 "), "{answer}");
    assert!(answer.contains(ErrorCode::StaleFence.as_str()), "{answer}");
    let page = alice.get(&paths::messages(&service().room())).await.expect(200);
    assert_eq!(page.seqs(), [dispatched.seq.get()], "nothing is left of it");
    assert_eq!(jobs(&alice).await[0].attempts, 1);
    let again = claim(&worker).await;
    let late = receipt(&worker, id(&job), TaskStatus::Done);
    let said = post(&worker, &late, Some(fence(&again))).await;
    said.expect(201).head();
}

/// A hub that was away longer than a lease: whoever worked on the job meanwhile goes on with it.
#[tokio::test]
async fn a_hub_that_comes_back_lets_workers_go_on() {
    let hub = TestHub::start().await;
    let (alice, mut worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    dispatch(&alice).await;
    let job = claim(&worker).await;
    let directory = Arc::clone(&hub.directory);
    let later = hub.now_ms() + 20 * 60 * 1000;
    hub.stop().await.unwrap().unwrap();
    let hub = TestHub::on(directory, |options| {
        options.open = true;
        options.clock = Clock::from_fn(move || later);
    })
    .await;
    worker.address = hub.address;
    worker.open_session().await;
    let claimed = paths::claim(&service(), job.seq);
    let renewed = worker
        .put(&claimed, &json!({ "fence": job.fence, "leaseSeconds": 60 }))
        .await;
    assert!(!renewed.expect(200).json::<ClaimRenewed>().cancelled);
    let done = receipt(&worker, id(&job), TaskStatus::Done);
    post(&worker, &done, Some(fence(&job))).await.expect(201).head();
    let listed = jobs(&worker).await;
    assert_eq!((listed[0].state, listed[0].attempts), (JobState::Done, 0));
}

/// A clock that shows a later time whenever somebody looks at it.
fn ticking() -> (Clock, Arc<AtomicI64>) {
    let shown = Arc::new(AtomicI64::new(1_796_000_000_000));
    let clock = Arc::clone(&shown);
    (Clock::from_fn(move || clock.fetch_add(1, Ordering::SeqCst)), shown)
}

#[tokio::test]
async fn what_is_left_of_a_lease_is_told_as_of_the_answer() {
    let (clock, _) = ticking();
    let hub = TestHub::with(|options| {
        options.open = true;
        options.clock = clock;
    })
    .await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    dispatch(&alice).await;
    let job = claim(&worker).await;
    assert!(job.lease_ms < 15_000, "{}", job.lease_ms);
    let renew = json!({ "fence": job.fence, "leaseSeconds": 60 });
    let renewed = worker.put(&paths::claim(&service(), job.seq), &renew).await;
    let renewed: ClaimRenewed = renewed.expect(200).json();
    assert!((59_000..60_000).contains(&renewed.lease_ms), "{}", renewed.lease_ms);
}

/// Each time that one who waits is woken it looks at the clock.
#[tokio::test]
async fn who_waits_for_a_job_is_woken_by_nothing_else() {
    let (clock, looks) = ticking();
    let hub = TestHub::with(|options| {
        options.open = true;
        options.clock = clock;
    })
    .await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let first = dispatch(&alice).await;
    claim_for_long(&worker).await;
    let other = another_worker(&hub, &worker, "other").await;
    let path = paths::messages(&service().room());
    // Messages, and reads that begin and end to wait.
    let noise = async || {
        let before = looks.load(Ordering::SeqCst);
        for _ in 0..10 {
            alice.post(&path, &text_message("x")).await.expect(201).head();
            let head = alice.get(&path).await.expect(200).head();
            let waits = format!("{path}?after={}&wait=1", head.seq);
            let (read, ()) = tokio::join!(alice.get(&waits), async {
                worker.post(&path, &text_message("y")).await.expect(201).head();
            });
            read.expect(200).head();
        }
        looks.load(Ordering::SeqCst) - before
    };
    let alone = noise().await;
    let (waits, beside) = tokio::join!(ask(&other, 55), async {
        until_it_waits(&alice, first.seq, &other).await;
        let beside = noise().await;
        dispatch(&alice).await;
        beside
    });
    waits.expect(200).head();
    assert!(
        beside < alone + 10,
        "{beside} looks at the clock, and {alone} where nobody waits"
    );
}

/// Whoever ends a token need not be in all of its rooms.
#[tokio::test]
async fn a_token_that_is_ended_by_another_wakes_those_who_wait() {
    let hub = TestHub::start().await;
    let (alice, worker, carol) = (
        hub.agent("alice").await,
        hub.agent("worker").await,
        hub.agent("carol").await,
    );
    serve(&worker).await.expect(201).head();
    let build = carol.create_room("build").await;
    carol.invite(&build.room, &worker).await;
    let first = dispatch(&alice).await;
    let asked = json!({ "name": "ci", "rooms": ["svc.review", "build"], "can": ["claim"] });
    let made = worker.post(paths::TOKENS, &asked).await.expect(201);
    let token = crate::tokens::job(&hub, &made);
    let held = claim_for_long(&token).await;
    let (waits, ()) = tokio::join!(ask(&worker, 55), async {
        until_it_waits(&alice, first.seq, &worker).await;
        let revoked = carol.delete("/v1/tokens/ci").await.expect(200);
        let told: serde_json::Value = revoked.json();
        assert_eq!(told["rooms"].as_array().unwrap().len(), 1, "{told}");
    });
    let given: ClaimedJob = waits.expect(200).json();
    assert_eq!((given.seq, given.attempt), (held.seq, 1));
}

#[tokio::test]
async fn a_word_about_a_job_that_the_hub_cannot_read_is_refused() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let posted = dispatch(&alice).await;
    let path = paths::messages(&service().room());
    let task = |fields: serde_json::Value| {
        let mut task = json!({ "kind": "com.parler.task", "status": "done" });
        task.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        task
    };
    for odd in [
        json!({}),
        json!({ "task": "x" }),
        json!({ "task": posted.id, "tokens": "many" }),
        json!({ "task": posted.id, "status": "perhaps" }),
    ] {
        let parts = [
            json!([task(odd.clone())]),
            json!([{ "kind": "com.parler.dispatch", "role": "review" }, task(odd.clone())]),
        ];
        for parts in parts {
            let message = json!({ "id": MessageId::generate(), "parts": parts });
            let told = alice.post(&path, &message).await.problem(ErrorCode::BadRequest);
            assert!(told.detail.contains("com.parler.task"), "{odd}: {}", told.detail);
        }
    }
    // Elsewhere it is stored as it came.
    let build = alice.create_room("build").await;
    let message = json!({ "id": MessageId::generate(), "parts": [task(json!({ "tokens": "many" }))] });
    alice
        .post(&paths::messages(&build.room), &message)
        .await
        .expect(201)
        .head();
}

#[tokio::test]
async fn a_job_that_is_refused_or_repeated_makes_nobody_a_member() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let room = paths::room(&service().room());
    let unsigned =
        json!({ "id": MessageId::generate(), "parts": [{ "kind": "com.parler.dispatch", "role": "review" }] });
    let refused = alice.post(&paths::messages(&service().room()), &unsigned).await;
    refused.problem(ErrorCode::BadSignature);
    alice.get(&room).await.problem(ErrorCode::NotFound);
    let job = signed(&alice, job_part());
    let first: Posted = post(&alice, &job, None).await.expect(201).json();
    worker
        .post(&paths::messages(&service().room()), &text_message("x"))
        .await
        .expect(201)
        .head();
    let left = alice.delete(&paths::member(&service().room(), &alice.id())).await;
    assert_eq!(left.status, 204);
    // The first answer, and nothing of what came since.
    let again = post(&alice, &job, None).await.expect(200);
    assert_eq!((again.json::<Posted>(), again.head()), (first, first_head(&again)));
    alice.get(&room).await.problem(ErrorCode::NotFound);
    // Another job brings it back.
    dispatch(&alice).await;
    alice.get(&room).await.expect(200).head();
}

fn first_head(answer: &crate::support::Answer) -> parler_protocol::Head {
    answer.json::<Posted>().head
}

#[tokio::test]
async fn open_and_dead_jobs_are_asked_for_by_themselves() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    for _ in 0..2 {
        dispatch(&alice).await;
    }
    let job = claim(&worker).await;
    let done = receipt(&worker, id(&job), TaskStatus::Done);
    post(&worker, &done, Some(fence(&job))).await.expect(201).head();
    let list = async |of: &Agent, state: &str| {
        let path = format!("{}&state={state}", paths::jobs(&service(), Seq::ZERO, 200));
        of.get(&path).await
    };
    let seqs = |answer: crate::support::Answer| -> Vec<u64> {
        let list: JobList = answer.expect(200).json();
        list.jobs.iter().map(|job| job.seq.get()).collect()
    };
    assert_eq!(seqs(list(&alice, "open").await), [2]);
    assert!(seqs(list(&alice, "dead").await).is_empty());
    list(&alice, "done").await.problem(ErrorCode::BadRequest);
}
