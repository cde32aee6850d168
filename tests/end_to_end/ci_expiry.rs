//! What jobs say for a time: it leads and counts until that is over, whichever clock is wrong, and stays in the log.

use std::time::Instant;

use parler_harness::{Agent, RawClient, look_for, now_ms};
use parler_protocol::limits::MAX_WAIT;
use parler_protocol::{Draft, Part, RoomName};
use serde_json::{Value, json};

use super::ci::Stage;
use super::tokens::hub_messages;
use super::world;

const DAY: i64 = 24 * 3600 * 1000; // milliseconds

/// Somebody whose clock shows this says for a day how a commit stands.
fn say_at(author: &RawClient, room: &RoomName, clock: i64, commit: &str, to: Option<&str>) {
    let review = json!({
        "kind": "com.parler.review", "commit": commit, "context": "lint", "status": "success", "ttlSecs": 24 * 3600,
    });
    let handoff = to.map(|to| json!({ "kind": "com.parler.handoff", "next": "look", "to": to, "ttlSecs": 24 * 3600 }));
    let parts = [review].into_iter().chain(handoff);
    let mut draft = Draft::new(parts.map(|part| Part::from_value(&part)).collect());
    draft.mentions = to.map(str::to_owned).into_iter().collect();
    let signed = author.sign_at(clock, room, &author.head(room), &draft);
    author.calls.post(room, &signed, None, None).unwrap();
}

/// Carol, a member who signs with any clock, and the room.
fn carol(stage: &Stage<'_>) -> (RawClient, RoomName) {
    let code = stage.alice.parler("invite --group build").success();
    let carol = RawClient::new(&stage.hub.url(), "carol");
    let room = carol.join(code.word());
    (carol, room)
}

fn wait_until_expired(agent: &Agent<'_>, commit: &str) {
    let has_expired = || {
        let gate = agent.parler(["status", "--commit", commit]).either();
        (!gate.is_success()).then_some(())
    };
    look_for(has_expired, || "it is still good".to_owned());
}

#[test]
fn what_is_said_for_a_time_says_so_and_is_said_once() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, _) = stage.member("bob", "fixer");
    let checkout = stage.checkout("work");
    let job = stage.job(&checkout, 1);
    let post = |ttl: &str| {
        let words =
            format!("ci post --room build --idempotency-key auto --status failure --for fixer --next mend{ttl}");
        job.parler(words)
    };
    for (ttl, says) in [
        ("5y", "--ttl '5y' is not a time such as"),
        ("0", "--ttl '0' is not a time such as"),
        ("-1h", "--ttl '-1h' is not a time such as"),
        ("366d", "--ttl '366d' is more than 365d"),
    ] {
        let refused = post(&format!(" --ttl={ttl}")).code(2);
        assert!(refused.one_error_line().contains(says), "{refused:?}");
    }
    assert_eq!(hub_messages(&stage.alice), 0);
    let before = now_ms();
    let posted = post(" --ttl 24h --json").success().json();
    assert_eq!((&posted["ttlSecs"], &posted["seq"]), (&json!(86_400), &json!(1)));
    // It is what was asked that is compared, and not when.
    post(" --ttl 1d")
        .success()
        .says("for 1d as message 1 of 'build', before");
    post(" --ttl 25h").code(6);
    post("").code(6);
    assert_eq!(hub_messages(&stage.alice), 1);
    let ttls: Vec<_> = stage.parts(1).iter().map(|part| part["ttlSecs"].clone()).collect();
    assert_eq!(
        ttls,
        [json!(86_400), Value::Null, json!(86_400)],
        "review, task, handoff"
    );

    let read = bob.parler("recv").success();
    assert!(read.out().starts_with("HANDOFF TO YOU from ci/nightly"), "{read:?}");
    read.says("  until:   2").says(" · until 2");
    let listed = bob.parler("recv --all --json").success().json();
    let told = bob.parler("status 1 --json").success().json();
    assert_eq!((&told["state"], &listed["handoffs"]), (&json!("open"), &json!([])));
    let gate = job
        .with("PARLER_ROOM", "build")
        .parler("status --commit HEAD --json")
        .code(1);
    let status = gate.json()["statuses"][0].clone();
    assert_eq!(
        (&status["expired"], &status["expiresAt"]),
        (&json!(false), &told["expiresAt"])
    );
    let until = status["expiresAt"].as_i64().unwrap();
    assert!((before + DAY..=now_ms() + DAY).contains(&until), "{until}");

    // An empty one is none, as for whoever passes variables on.
    let without = "ci post --room build --context other --status success --ttl= --json";
    assert_eq!(job.parler(without).success().json()["ttlSecs"], Value::Null);
}

#[test]
fn what_was_said_too_long_ago_leads_nobody_and_opens_no_gate() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "fixer");
    let (carol, room) = carol(&stage);
    let commit = bobs.rev("HEAD");
    say_at(&carol, &room, now_ms() - 2 * DAY, &commit, Some("fixer"));

    bob.parler("inbox")
        .success()
        .says_no("HANDOFF")
        .says_no("MENTION")
        .says("1 unread");
    bob.parler("inbox --wait 1s").code(3);
    let told = bob.parler("show 1 --json").success().json();
    assert_eq!((&told["signature"], &told["handoff"]), (&json!("valid"), &Value::Null));
    let told = bob.parler("recv").success();
    told.says_no("HANDOFF TO YOU")
        .says("handoff: to fixer · expired 2")
        .says("review:  success · lint · ")
        .says(" · expired 2");
    bob.parler("show 1")
        .success()
        .says_no("HANDOFF TO YOU")
        .says("expired 2");
    bob.parler("status").success().warns("no handoff is open");
    let ended = bob.parler("status 1 --wait done --timeout 10m").code(1);
    assert!(
        ended.one_error_line().contains("message 1 is expired, not done"),
        "{ended:?}"
    );

    let gate = bob.parler("status --commit HEAD").code(3);
    gate.says("· expired\n")
        .says("  expired: lint · carol · message 1 · ")
        .says("success until 2");
    let line = gate.one_error_line();
    assert!(line.contains("has expired: lint: success in message 1"), "{gate:?}");
    let gate = bob.parler("status --commit HEAD --require lint --json").code(3).json();
    assert_eq!(
        (&gate["state"], &gate["statuses"][0]["expired"]),
        (&json!("expired"), &json!(true))
    );
    let annotated = bob.parler("ci annotate --format github").code(3);
    assert!(annotated.one_error_line().contains("has expired"), "{annotated:?}");
    bob.parler("ci annotate 1 --format junit").success();
    bob.parler("ci post --context test --status success --commit HEAD")
        .success();
    let annotated = bob.parler("ci annotate --format junit").success();
    annotated
        .says("name=\"test\"")
        .says_no("name=\"lint\"")
        .warns("left out, because it has expired: lint");

    // Whoever comes too late may still say what became of it.
    bob.parler("done 1 --note late").success();
    bob.parler("status 1").success().says("done");
}

/// Neither an author's clock that is ahead nor one that is behind makes it hold longer.
#[test]
fn a_clock_that_is_wrong_makes_nothing_hold_longer() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "fixer");
    let (carol, room) = carol(&stage);
    let commit = bobs.rev("HEAD");
    let before = now_ms();
    say_at(&carol, &room, before + 300 * DAY, &commit, None);
    let gate = bob.parler("status --commit HEAD --json").success().json();
    let until = gate["statuses"][0]["expiresAt"].as_i64().unwrap();
    assert!((before + DAY..=now_ms() + DAY).contains(&until), "{until}");
    // An hour of the day is left to one who signed it 23 hours ago.
    say_at(&carol, &room, before - 23 * DAY / 24, &commit, None);
    let gate = bob.parler("status --commit HEAD --json").success().json();
    assert_eq!(gate["statuses"][0]["expiresAt"], before + DAY / 24);
}

#[test]
fn a_time_that_ends_is_noticed_by_those_who_wait() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "fixer");
    let checkout = stage.checkout("work");
    let job = stage.job(&checkout, 1);
    job.parler("ci post --room build --status success --ttl 3s --for fixer --next look")
        .success();
    // Nothing comes that could wake it before the hub answers in any case.
    let began = Instant::now();
    let ended = bob.parler("status 1 --wait done --timeout 10m").code(1);
    assert!(ended.one_error_line().contains("expired"), "{ended:?}");
    assert!(began.elapsed() < MAX_WAIT, "{:?}", began.elapsed());
    let commit = bobs.rev("HEAD");
    wait_until_expired(&bob, &commit);
    bob.parler(["status", "--commit", &commit]).code(3);
}

#[test]
fn whoever_took_it_in_time_is_led_on() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "fixer");
    let checkout = stage.checkout("work");
    let job = stage.job(&checkout, 1);
    job.parler("ci post --room build --status success --ttl 10s --for fixer --next take-it")
        .success();
    bob.parler("accept 1").success();
    let commit = bobs.rev("HEAD");
    wait_until_expired(&bob, &commit);
    bob.parler("inbox").success().says("HANDOFF").says("take-it");
    let read = bob.parler("recv").success();
    assert!(read.out().starts_with("HANDOFF TO YOU"), "{read:?}");
    bob.parler("status 1").success().says("accepted");
}
