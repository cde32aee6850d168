//! The running hub, asked by schemathesis what its own OpenAPI document says it may be asked: nothing ends at 5xx, with a
//! status, media type, body or header that is not documented, and nothing is taken that the document forbids.
//!
//! `.ci/run` installs the tool and runs this; `cargo test` does not.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use parler_protocol::api::ClaimedJob;
use parler_protocol::{BundleId, MessageId, paths};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::services::{self, dispatch};
use crate::support::{Agent, Push, RunningProgram, oid, openapi};

/// Where the program `schemathesis` is.
const TOOL: &str = "PARLER_SCHEMATHESIS";
/// Longest it may take. Far above what it needs.
const LONGEST: Duration = Duration::from_secs(600);
const SETTINGS: &str = include_str!("schema_fuzz.toml");
/// What is not reached by guessing: a proof, a token of another kind, an identity, a list of ids, an upload's exact offset.
const NOT_GUESSED: &[&str] = &[
    "openSession",
    "showToken",
    "exchangeIdentity",
    "readBundles",
    "readManyBundles",
    "appendToUpload",
];
/// Longer than all of it takes, seconds.
const LEASE_SECONDS: u64 = 3600;

#[tokio::test]
#[ignore = "needs schemathesis: see .ci/run"]
async fn the_hub_does_what_its_document_says() {
    let tool = std::env::var_os(TOOL).unwrap_or_else(|| panic!("{TOOL} names the program schemathesis"));
    let directory = TempDir::new().unwrap();
    let hub = RunningProgram::with(&directory.path().join("hub"), |command| {
        // So that limits answer where they are asked for, and not everything after the first minute.
        command.args(["--open", "--log", "json", "--stream-ttl", "1s"]);
        command.args(["--max-uploads", "100000", "--max-upload-bytes", "100000GiB"]);
    });
    let alice = hub.agent("alice").await;
    let settings = furnish(&hub, &alice).await;
    let document = openapi::document(&alice).await;

    let settings_file = directory.path().join("schemathesis.toml");
    std::fs::write(&settings_file, settings).unwrap();
    let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/hub");
    let mut command = Command::new(tool);
    command
        .current_dir(directory.path())
        .arg("--config-file")
        .arg(&settings_file)
        .args(["--no-color", "run"])
        .arg(format!("http://{}{}", hub.address, paths::OPENAPI))
        .env("PARLER_FUZZ_TOKEN", &alice.token)
        .env("PYTHONPATH", hooks)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let is_content = tokio::task::spawn_blocking(move || run(command)).await.unwrap();
    let (ended_well, log) = hub.end(Signal::TERM);
    assert!(is_content, "schemathesis found something: see above");
    assert!(ended_well, "{log}");
    assert_eq!(unreached(&document, &log), BTreeSet::new());
}

/// A service of alice, with jobs for whoever asks and, by their numbers: 1 and 2 by which she has claims 1 and 2, and 3, which
/// is dead, because who asked for it has left.
async fn fill_queue(hub: &RunningProgram, alice: &Agent) {
    let service = json!({ "service": "review" });
    alice.post(paths::SERVICES, &service).await.expect(201).head();
    let [requester, leaver] = [hub.agent("requester").await, hub.agent("leaves").await];
    for number in 1..=2 {
        dispatch(&requester).await;
        let claim = json!({ "id": MessageId::generate(), "leaseSeconds": LEASE_SECONDS });
        let claimed = alice.post(&paths::claims(&services::service()), &claim).await;
        let claimed: ClaimedJob = claimed.expect(200).json();
        assert_eq!((claimed.seq.get(), claimed.fence), (number, number));
    }
    assert_eq!(dispatch(&leaver).await.seq.get(), 3);
    let left = paths::member(&services::service().room(), &leaver.id());
    assert_eq!(leaver.delete(&left).await.status, 204);
    for _ in 0..10 {
        dispatch(&requester).await;
    }
}

/// A room with members, some who ask to be, an invite, a push, a blob, an upload and a token, so that not every guess ends at
/// 404, and rooms that may go. Returns the settings that name them.
async fn furnish(hub: &RunningProgram, alice: &Agent) -> String {
    let room = alice.create_room("build").await;
    for room in ["spare", "other"] {
        alice.create_room(room).await;
    }
    let [owner, leaver, first, second] = [
        hub.agent("owner").await,
        hub.agent("leaver").await,
        hub.agent("first").await,
        hub.agent("second").await,
    ];
    for member in [&owner, &leaver] {
        alice.invite(&room.room, member).await;
    }
    let gated = json!({ "room": room.room, "approve": true });
    let gated: Value = alice.post(paths::INVITES, &gated).await.expect(201).json();
    for asking in [&first, &second] {
        let asked = asking.post(paths::JOIN, &json!({ "code": gated["code"] })).await;
        assert_eq!(asked.status, 202);
    }
    let invites: Value = alice.get(&paths::room_invites(&room.room)).await.expect(200).json();
    let invite = invites["invites"][0]["id"].as_str().unwrap();
    let bundle = b"# v2 git bundle\n";
    let push = Push::new().branch("feature", None, Some(oid('a'))).bundle(bundle);
    let push = push.sign(alice, &room);
    alice
        .post_with_blob(&room.room, &push.body, bundle)
        .await
        .expect(201)
        .head();
    fill_queue(hub, alice).await;
    let token = json!({ "name": "deploy", "rooms": ["build"], "can": ["post"] });
    alice.post(paths::TOKENS, &token).await.expect(201).json::<Value>();
    let upload = alice.post(&paths::uploads(&room.room), &json!({})).await.expect(201);
    let upload: Value = upload.json();
    SETTINGS
        .replace("OWNER", &owner.id().to_string())
        .replace("LEAVER", &leaver.id().to_string())
        .replace("ASKS_FIRST", &first.id().to_string())
        .replace("ASKS_SECOND", &second.id().to_string())
        .replace("INVITE_ID", invite)
        .replace("BLOB_ID", &BundleId::of(bundle).to_string())
        .replace("UPLOAD_ID", upload["upload"].as_str().unwrap())
}

/// Runs the tool with its output on ours, and ends it with everything it started if it takes too long. Whether it found
/// nothing.
fn run(mut command: Command) -> bool {
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let end = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    let longest = Timespec {
        tv_sec: LONGEST.as_secs() as i64,
        tv_nsec: 0,
    };
    if poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&longest)) != Ok(1) {
        let _ = kill_process_group(pid, Signal::KILL);
        child.wait().unwrap();
        panic!("schemathesis takes longer than {LONGEST:?}");
    }
    child.wait().unwrap().success()
}

/// The calls that never succeeded, of those that can be guessed.
fn unreached(document: &Value, log: &str) -> BTreeSet<String> {
    let mut unreached = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            let is_success = |line: &str| {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                let fields = &line["fields"];
                fields["method"] == method.to_uppercase()
                    && fields["route"] == *path
                    && fields["status"].as_u64().is_some_and(|status| status < 300)
            };
            if !NOT_GUESSED.contains(&name) && !log.lines().any(is_success) {
                unreached.insert(name.to_owned());
            }
        }
    }
    unreached
}
