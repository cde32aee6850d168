//! Jobs that a token asks for: each run has a key of its own, and is the same sender all the same.

use std::time::Duration;

use parler_harness::RawClient;
use parler_protocol::{Fence, ServiceName, TaskPart, TaskStatus};
use serde_json::{Value, json};

use super::{log_of, part, place};
use crate::{hub_server, world};

#[test]
fn a_ci_job_asks_waits_and_builds_on_what_its_token_brought() {
    let world = world();
    let hub = hub_server::start(&world);
    let worker = RawClient::new(&hub.url(), "worker");
    let service: ServiceName = "build".parse().unwrap();
    worker.calls.serve(&service).unwrap();
    let origin = world.origin();
    let alice = world.stranger("alice").on(&hub).at(&world.clone_of(&origin, "alices"));
    alice.parler("send --service build first").success();
    let made = alice
        .parler("token create nightly --service build --can post,read --ttl 1h")
        .success();
    let work = world.clone_of(&origin, "work");
    let job = world
        .user()
        .at(&work)
        .on(&hub)
        .without("PARLER_HOME")
        .with("PARLER_TOKEN", made.word());

    let first = work.commit("a.txt", "one\n");
    job.git("push --quiet parler::service/build main").success();
    work.commit("b.txt", "two\n");
    job.parler("push --service build").success();
    let log = log_of(&worker, &service);
    for message in &log[1..] {
        assert_eq!(message["from"]["name"], "ci/nightly");
        assert_eq!(place(message).0, "refs/requests/ci%2fnightly/heads/main");
    }
    assert_ne!(log[1]["from"]["id"], log[2]["from"]["id"]);
    assert_eq!(part(&log[1], "com.parler.bundle")["prerequisites"], Value::Null);
    assert_eq!(part(&log[2], "com.parler.bundle")["prerequisites"], json!([first]));

    let waiting = job.start_parler("status 2 --service build --wait done --timeout 1h");
    for _ in 0..3 {
        let claimed = worker
            .calls
            .claim_job(&service, Duration::from_secs(60), Duration::ZERO);
        let claimed = claimed.unwrap().unwrap();
        let message: Value = serde_json::from_str(claimed.job.get()).unwrap();
        let part = TaskPart {
            status: TaskStatus::Done,
            task: Some(message["id"].as_str().unwrap().to_owned()),
            note: None,
            result: None,
            tokens: None,
            elapsed_ms: None,
        };
        let room = service.room();
        let signed = worker.sign(&room, &worker.head(&room), vec![part.into()]);
        let fence = Fence {
            seq: claimed.seq,
            number: claimed.fence,
        };
        worker
            .calls
            .post_with_fence(&service.room(), fence, &signed, None, None)
            .unwrap();
    }
    waiting
        .wait()
        .success()
        .says("job 2 for service build from ci/nightly · done");
    // What another asked for is not the token's to call off.
    job.parler("cancel 1 --service build")
        .code(7)
        .warns("job 1 is alice's to call off");
}
