//! What becomes of jobs, as their requesters follow it: step by step, waited for, called off, and read in the room.

use std::time::Duration;

use parler_protocol::{Fence, Seq, TaskStatus};
use serde_json::{Value, json};

use super::{Desk, arguments, part};
use crate::{no_doubts, world};

#[test]
fn its_requester_sees_every_step_of_a_job_as_it_is_taken() {
    let world = world();
    let desk = Desk::new(&world);
    desk.work.commit("a.txt", "one\n");
    desk.work
        .git(arguments(&["push", "--quiet", "-o", "next=look", "review", "feature"]))
        .success();
    let stored = desk.status("1");
    assert_eq!(
        (&stored["state"], &stored["claimedBy"]),
        (&json!("waiting"), &Value::Null),
        "{stored:#}"
    );
    assert_eq!(stored["requester"]["name"], "alice");
    assert_eq!(
        (&stored["ref"], &stored["texts"]),
        (&json!("refs/heads/feature"), &json!(["look"]))
    );
    let wait = |step: &str| {
        let words = [
            "status",
            "1",
            "--service",
            "review",
            "--wait",
            step,
            "--timeout",
            "1h",
            "--json",
        ];
        desk.alice.start_parler(words)
    };
    let waits = ["claimed", "accepted", "working", "done"].map(|step| (step, wait(step)));
    let failed = wait("failed");

    let job = desk.claim();
    assert_eq!(desk.status("1")["state"], "claimed");
    desk.say(&job, TaskStatus::Accepted, "");
    assert_eq!(desk.status("1")["state"], "accepted");
    desk.say(&job, TaskStatus::Working, "");
    let working = desk.status("1");
    assert_eq!(
        (&working["state"], &working["claimedBy"]["name"]),
        (&json!("working"), &json!("worker"))
    );
    assert!(working["leaseUntil"].is_i64(), "{working:#}");
    let told = desk.alice.parler("status 1 --service review").success();
    told.says("job 1 for service review from alice · working")
        .says("refs/heads/feature")
        .says("by worker, until");
    desk.say(&job, TaskStatus::Done, "all is well");

    for (step, waiting) in waits {
        let reached = waiting.wait().success().json();
        assert_eq!(
            (&reached["reached"], &reached["wait"]),
            (&json!(true), &json!(step)),
            "{reached:#}"
        );
    }
    let other = failed.wait().code(1).json();
    assert_eq!(
        (&other["reached"], &other["state"]),
        (&json!(false), &json!("done")),
        "{other:#}"
    );
    let done = desk.status("1");
    let said: Vec<_> = done["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| &said["status"])
        .collect();
    assert_eq!(said, ["accepted", "working", "done"]);
    assert_eq!(
        (&done["receipts"][2]["note"], &done["result"]),
        (&json!("all is well"), &json!(4))
    );
    desk.alice
        .parler("status 1 --service review")
        .success()
        .says("worker")
        .says("all is well");
    // By the bundle that it brought as well, and where it was read before as without a wait.
    let bundle = &part(&desk.log()[0], "com.parler.bundle")["blob"].as_str().unwrap()[..12].to_owned();
    assert_eq!(desk.status(bundle)["seq"], 1);

    let refused = desk.alice.parler("status 1 --service review --wait declined").code(2);
    assert!(refused.one_error_line().contains("is no state of a job"), "{refused:?}");
    let none = desk.alice.parler("status 2 --service review").code(3);
    assert!(none.one_error_line().contains("message 2"), "{none:?}");
}

#[test]
fn a_wait_ends_where_a_job_does_otherwise() {
    let world = world();
    let desk = Desk::new(&world);
    for _ in 0..3 {
        desk.alice.parler("send --service review look").success();
    }
    let wait = |number: &str| {
        desk.alice
            .start_parler(["status", number, "--service", "review", "--wait", "done"])
    };
    let (first, second) = (wait("1"), wait("2"));
    let job = desk.claim();
    desk.say(&job, TaskStatus::Failed, "exit status 1");
    first.wait().code(1).warns("job 1 is failed, not done");
    desk.alice.parler("cancel 2 --service review").success();
    second.wait().code(1).warns("job 2 is cancelled, not done");
    let words = [
        "status",
        "3",
        "--service",
        "review",
        "--wait",
        "done",
        "--timeout",
        "1s",
    ];
    desk.alice.parler(words).code(3).warns("job 3 is not done yet");

    let listed = desk.alice.parler("status --service review --json").success().json();
    let states: Vec<_> = listed["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| (&job["seq"], &job["state"]))
        .collect();
    let expected = [(3, "waiting"), (2, "cancelled"), (1, "failed")].map(|(seq, state)| (json!(seq), json!(state)));
    let expected: Vec<_> = expected.iter().map(|(seq, state)| (seq, state)).collect();
    assert_eq!(states, expected, "{listed:#}");
    assert_eq!(listed["more"], 0);
    let shown = desk.alice.parler("status --room svc.review").success();
    shown
        .says("to do")
        .says("job 3 from alice · waiting")
        .says("job 1 from alice · failed by worker");
}

#[test]
fn a_job_is_its_requesters_to_call_off() {
    let world = world();
    let desk = Desk::new(&world);
    desk.alice.parler("send --service review look").success();
    let bobs = world.clone_of(&world.origin(), "bobs");
    let bob = bobs.user();
    bob.parler("connect --as bob").success();
    let stranger = bob.parler("cancel 1 --service review").code(3);
    assert!(
        stranger.one_error_line().contains("no service 'review'"),
        "{stranger:?}"
    );
    bob.parler("send --service review and this").failure();
    bob.parler(["send", "--service", "review", "and this"]).success();
    let refused = bob.parler("cancel 1 --service review").code(7);
    assert!(
        refused.one_error_line().contains("job 1 is alice's to call off"),
        "{refused:?}"
    );

    let job = desk.claim();
    assert_eq!(job.seq, Seq::new(1));
    let words = ["cancel", "1", "--service", "review", "--note", "no need", "--json"];
    let called_off = desk.alice.parler(words).success().json();
    assert_eq!(
        (&called_off["handoff"], &called_off["status"]),
        (&json!(1), &json!("cancelled"))
    );
    let fence = Fence {
        seq: job.seq,
        number: job.fence,
    };
    let renewed = desk
        .worker
        .calls
        .renew_claim(&desk.service, fence, Duration::from_secs(60));
    assert!(renewed.unwrap().cancelled);
    let again = desk.alice.parler("cancel 1 --service review").code(6);
    assert!(
        again.one_error_line().contains("job 1 is cancelled already"),
        "{again:?}"
    );
    let status = desk.status("1");
    assert_eq!(
        (&status["state"], &status["receipts"][0]["note"]),
        (&json!("cancelled"), &json!("no need"))
    );
    // What is no job is not called off as one.
    let none = desk.alice.parler("cancel 3 --service review").code(3);
    assert!(none.one_error_line().contains("message 3"), "{none:?}");
}

#[test]
fn who_reads_the_room_sees_jobs_and_what_became_of_them() {
    let world = world();
    let desk = Desk::new(&world);
    let bobs = world.clone_of(&world.origin(), "bobs");
    let bob = bobs.user();
    bob.parler("connect --as bob").success();
    bob.parler("send --service review mine").success();
    bob.parler("recv --service review").success();
    desk.work.commit("a.txt", "one\n");
    let within = desk
        .alice
        .with("PARLER_JOB_ROOM", "svc.build")
        .with("PARLER_JOB_SEQ", "9");
    let within = within.with("PARLER_JOB_CHAIN", "test,build");
    within.git("push --quiet -o next=look review feature").success();
    let inbox = bob.parler("inbox").success();
    inbox.says("1 job · git parler recv --room svc.review");
    assert_eq!(bob.parler("inbox --json").success().json()["rooms"][0]["jobs"], 1);
    desk.claim();
    let job = desk.claim();
    desk.say(&job, TaskStatus::Done, "fine");
    for reader in ["recv", "log"] {
        let shown = bob.parler([reader, "--service", "review"]).success();
        shown
            .says("job:     for service review")
            .says("cause:   job 9 in svc.build · test > build");
        shown
            .says("task:    done · job 2 from alice · fine")
            .says("refs/requests/alice/heads/feature new");
    }
    let shown = desk.alice.parler("show 2 --service review").success();
    shown.says("job:     for service review").says("│ look").says("apply:");
}

/// A command that is run again, as by a CI system, asks for one job.
#[test]
fn under_one_key_a_job_is_asked_for_once() {
    let world = world();
    let desk = Desk::new(&world);
    desk.work.commit("a.txt", "one\n");
    let push = [
        "push",
        "--service",
        "review",
        "--next",
        "look",
        "--idempotency-key",
        "run-1",
        "--json",
    ];
    let send = [
        "send",
        "--service",
        "review",
        "--idempotency-key",
        "run-2",
        "--json",
        "look",
    ];
    for (number, command) in [(1, &push[..]), (2, &send[..])] {
        for _ in 0..2 {
            let told = desk.alice.parler(arguments(command)).success().json();
            assert_eq!(told["seq"], number, "{told:#}");
        }
    }
    assert_eq!(desk.log().len(), 2);
    // Another commit under the same key is another job.
    desk.work.commit("b.txt", "two\n");
    let refused = desk.alice.parler(arguments(&push)).code(6);
    assert!(!refused.err().is_empty(), "{refused:?}");
    assert_eq!(desk.log().len(), 2);
    no_doubts(&desk.alice);
}

/// All jobs of a service are of the hash that the first has.
#[test]
fn a_repository_of_another_hash_is_told() {
    let world = world();
    let desk = Desk::new(&world);
    let other = world.init("other", "--object-format=sha256");
    other.commit("a.txt", "one\n");
    other.git("push --quiet parler::service/second main").failure();
    desk.worker.calls.serve(&"second".parse().unwrap()).unwrap();
    other.git("push --quiet parler::service/second main").success();
    desk.work.commit("a.txt", "one\n");
    let refused = desk.work.git("push parler::service/second feature").failure();
    refused.warns("sha256");
    desk.alice.parler("push --service second").code(6).warns("sha256");
}
