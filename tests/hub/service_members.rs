//! Who comes to a service and goes from it while something is under way: who waits for a job, what a job brings before it is
//! there, tokens that end, and what a hub keeps of jobs and backs up.

use parler_protocol::api::{ClaimRenewed, ClaimedJob, JobList, JobState, MemberList, Posted, UploadProgress};
use parler_protocol::{BundleId, ErrorCode, Seq, TaskStatus, paths};
use rustix::process::Signal;
use serde_json::json;

use crate::check::assert_clean;
use crate::services::{
    ask, claim, claim_for_long, dispatch, fence, id, job_part, jobs, post, receipt, serve, service, unseen,
    until_it_waits,
};
use crate::support::{Agent, Push, RunningProgram, TestHub, bytes, oid, program, text_message};

async fn leave(by: &Agent, agent: &Agent) {
    let path = paths::member(&service().room(), &agent.id());
    let ended = by.delete(&path).await;
    assert_eq!(ended.status, 204, "{ended:?}");
}

/// Another worker, by an invite.
pub(crate) async fn another_worker(hub: &TestHub, by: &Agent, name: &str) -> Agent {
    let other = hub.agent(name).await;
    let invited = by.post(paths::INVITES, &json!({ "room": "svc.review" })).await;
    let code = invited.expect(201).json::<serde_json::Value>()["code"].clone();
    other
        .post(paths::JOIN, &json!({ "code": code }))
        .await
        .expect(200)
        .head();
    other
}

#[tokio::test]
async fn who_waits_for_a_job_hears_of_those_who_go() {
    let hub = TestHub::start().await;
    let (alice, owner) = (hub.agent("alice").await, hub.agent("owner").await);
    serve(&owner).await.expect(201).head();
    let (worker, other) = (
        another_worker(&hub, &owner, "worker").await,
        another_worker(&hub, &owner, "other").await,
    );
    let first = dispatch(&alice).await;
    let held = claim_for_long(&worker).await;
    // What the one that goes had is for whoever waits.
    let (waits, ()) = tokio::join!(ask(&other, 55), async {
        until_it_waits(&alice, first.seq, &other).await;
        leave(&worker, &worker).await;
    });
    let given: ClaimedJob = waits.expect(200).json();
    assert_eq!((given.seq, given.attempt), (held.seq, 1));
    // Who is sent away while it waits is told so at once.
    let (waits, ()) = tokio::join!(ask(&other, 55), async {
        until_it_waits(&alice, first.seq, &other).await;
        leave(&owner, &other).await;
    });
    waits.problem(ErrorCode::NotFound);
    post(
        &other,
        &receipt(&other, first.id, TaskStatus::Done),
        Some(fence(&given)),
    )
    .await
    .problem(ErrorCode::NotFound);
    let again = claim(&owner).await;
    assert_eq!((again.seq, again.attempt), (held.seq, 1));

    let roster: MemberList = owner.get(&paths::members(&service().room())).await.expect(200).json();
    let serving = roster
        .members
        .iter()
        .map(|member| (member.name.as_str(), member.serves));
    assert_eq!(serving.collect::<Vec<_>>(), [("owner", true), ("alice", false)]);
    // Who asked leaves: there is nobody to bring the result to.
    leave(&alice, &alice).await;
    let renewed = owner
        .put(&paths::claim(&service(), again.seq), &json!({ "fence": again.fence }))
        .await;
    assert!(renewed.expect(200).json::<ClaimRenewed>().cancelled);
    assert_eq!(jobs(&owner).await[0].state, JobState::Dead);
}

#[tokio::test]
async fn a_newcomers_job_brings_its_bundle_in_either_way() {
    let hub = TestHub::start().await;
    let worker = hub.agent("worker").await;
    serve(&worker).await.expect(201).head();
    let push = |by: &str, bundle: &[u8], of: char| {
        Push::new()
            .moving(&format!("refs/requests/{by}/heads/main"), None, Some(oid(of)))
            .bundle(bundle)
            .part(job_part())
    };
    let room = service().room();

    let alice = hub.agent("alice").await;
    let small = bytes(1000, 1);
    let message = push("alice", &small, 'a').sign(&alice, &unseen(&alice));
    let posted = alice.post_with_blob(&room, &message.body, &small).await;
    posted.expect(201).head();

    let bob = hub.agent("bob").await;
    let begun = bob.post(&paths::uploads(&room), &json!({ "size": 100_000 })).await;
    let upload: UploadProgress = begun.expect(201).json();
    let large = bytes(100_000, 2);
    let fields = |request: hyper::http::request::Builder| {
        request
            .header("content-type", paths::PARTIAL_UPLOAD_TYPE)
            .header(paths::UPLOAD_OFFSET_HEADER, 0)
    };
    let path = paths::upload(&room, &upload.upload);
    bob.send("PATCH", &path, fields, large.clone()).await.expect(200).head();
    let message = push("bob", &large, 'b').sign(&bob, &unseen(&bob));
    let fields = |request: hyper::http::request::Builder| {
        request
            .header("content-type", "application/json")
            .header(paths::UPLOAD_HEADER, upload.upload.to_string())
    };
    bob.send("POST", &paths::messages(&room), fields, message.body.clone())
        .await
        .expect(201)
        .head();
    // Where another's is it moves nothing, and whoever tried is none the worse for it.
    let theirs = push("alice", &small, 'c').sign(&bob, &unseen(&bob));
    bob.post_with_blob(&room, &theirs.body, &small)
        .await
        .problem(ErrorCode::NotServing);
    for expected in [small, large] {
        let held = claim(&worker).await;
        let blob = paths::blob(&room, &BundleId::of(&expected));
        assert_eq!(worker.get(&blob).await.expect(200).body, expected, "{}", held.seq);
    }
    // Where there is no service there is nothing to bring it to.
    let nowhere = "svc.nowhere".parse().unwrap();
    bob.post(&paths::uploads(&nowhere), &json!({}))
        .await
        .problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn a_token_that_is_revoked_gives_back_what_it_works_on() {
    let hub = TestHub::start().await;
    let (alice, worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let first = dispatch(&alice).await;
    let asked = json!({ "name": "ci", "rooms": ["svc.review"], "can": ["claim"] });
    let made = worker.post(paths::TOKENS, &asked).await.expect(201);
    let token = crate::tokens::job(&hub, &made);
    let held = claim_for_long(&token).await;
    let (waits, ()) = tokio::join!(ask(&worker, 55), async {
        until_it_waits(&alice, first.seq, &worker).await;
        let revoked = worker.delete("/v1/tokens/ci").await;
        assert_eq!(revoked.status, 200, "{revoked:?}");
    });
    let given: ClaimedJob = waits.expect(200).json();
    assert_eq!((given.seq, given.attempt), (held.seq, 1));
    assert!(given.fence > held.fence);
    ask(&token, 0).await.problem(ErrorCode::TokenEnded);
}

/// A claim is the agent's, whatever it is called.
#[tokio::test]
async fn a_worker_under_another_name_still_has_its_job() {
    let hub = TestHub::start().await;
    let (alice, mut worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let first = dispatch(&alice).await;
    let held = claim(&worker).await;
    let before = worker.token.clone();
    worker.name = "renamed".parse().unwrap();
    worker.open_session().await;
    let after = std::mem::replace(&mut worker.token, before);
    ask(&worker, 0).await.problem(ErrorCode::Unauthenticated);
    worker.token = after;
    let done = receipt(&worker, first.id, TaskStatus::Done);
    post(&worker, &done, Some(fence(&held))).await.expect(201).head();
    let listed = jobs(&alice).await;
    assert_eq!(listed[0].claimed_by.as_ref().unwrap().name.as_str(), "renamed");
}

#[tokio::test]
async fn a_hub_keeps_jobs_whatever_their_age_and_a_backup_has_them() {
    let place = tempfile::TempDir::new().unwrap();
    let data = place.path().join("data");
    let hub = RunningProgram::start(&data);
    let (alice, mut worker) = (hub.agent("alice").await, hub.agent("worker").await);
    serve(&worker).await.expect(201).head();
    let path = paths::messages(&service().room());
    let bundle = bytes(1000, 1);
    let job = Push::new().bundle(&bundle).part(job_part());
    let posted = alice
        .post_with_blob(&service().room(), &job.sign(&alice, &unseen(&alice)).body, &bundle)
        .await;
    let posted: Posted = posted.expect(201).json();
    alice.post(&path, &text_message("beside it")).await.expect(201).head();
    let second = dispatch(&alice).await;
    let held = claim(&worker).await;
    assert_eq!(held.seq, posted.seq);
    assert!(hub.end(Signal::TERM).0);

    let run = |arguments: &[&str]| {
        let output = program().args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let [from, to, restored] = ["data", "backup", "restored"].map(|name| place.path().join(name));
    let [from, to, restored] = [&from, &to, &restored].map(|path| path.to_str().unwrap());
    let told = run(&["prune", "--data", from, "--messages", "1ms", "--blobs", "1ms"]);
    assert!(told.starts_with("gave up 1 messages of"), "{told}");
    assert!(told.contains("0 blobs"), "{told}");
    run(&["backup", "--data", from, "--to", to]);
    run(&["restore", "--from", to, "--data", restored]);
    assert_clean(restored.as_ref());

    let hub = RunningProgram::start(restored.as_ref());
    worker.address = hub.address;
    worker.open_session().await;
    let blob = paths::blob(&service().room(), &BundleId::of(&bundle));
    assert_eq!(worker.get(&blob).await.expect(200).body, bundle);
    // The claim holds, with its number, and the next one is higher.
    let done = receipt(&worker, id(&held), TaskStatus::Done);
    post(&worker, &done, Some(fence(&held))).await.expect(201).head();
    let next = claim(&worker).await;
    assert_eq!(next.seq, second.seq);
    assert!(next.fence > held.fence);
    let list: JobList = worker
        .get(&paths::jobs(&service(), Seq::ZERO, 200))
        .await
        .expect(200)
        .json();
    let states: Vec<_> = list.jobs.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Done, JobState::Claimed]);
}
