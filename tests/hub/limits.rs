//! Limits as options and variables of `parler-hub`.

use parler_protocol::ErrorCode;
use rustix::process::Signal;

use crate::support::{Push, RunningProgram, oid, program};

#[test]
fn a_value_that_is_no_good_is_named_with_its_option_or_variable() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    for (option, variable, value) in [
        ("--max-connections", "PARLER_HUB_MAX_CONNECTIONS", "0"),
        ("--max-blob", "PARLER_HUB_MAX_BLOB", "8 elephants"),
        ("--max-blob", "PARLER_HUB_MAX_BLOB", "0GiB"),
        ("--free-floor", "PARLER_HUB_FREE_FLOOR", "91"),
        ("--session-ttl", "PARLER_HUB_SESSION_TTL", "24"),
        ("--drain-timeout", "PARLER_HUB_DRAIN_TIMEOUT", "0s"),
        ("--stream-ttl", "PARLER_HUB_STREAM_TTL", "90000000days"),
        ("--heartbeat", "PARLER_HUB_HEARTBEAT", "45s"),
        ("--proof-burst", "PARLER_HUB_PROOF_BURST", "-1"),
        ("--listen", "PARLER_HUB_LISTEN", "nowhere"),
        ("--owner", "PARLER_HUB_OWNER", "nobody"),
        ("--log", "PARLER_HUB_LOG_FORM", "xml"),
    ] {
        let mut with_option = program();
        with_option.arg("serve").arg(format!("{option}={value}"));
        let mut with_variable = program();
        with_variable.arg("serve").env(variable, value);
        for (mut command, name) in [(with_option, option), (with_variable, variable)] {
            let output = command.arg("--data").arg(&data).output().unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{name}: {stderr}");
            assert!(
                stderr.starts_with(&format!("parler-hub: {name}: '{value}'")),
                "{stderr}"
            );
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
    let filter = program()
        .args(["serve", "--data"])
        .arg(&data)
        .env("PARLER_HUB_LOG", "parler_hub=loud")
        .output()
        .unwrap();
    assert_eq!(filter.status.code(), Some(2));
    assert!(
        String::from_utf8(filter.stderr)
            .unwrap()
            .contains("PARLER_HUB_LOG: 'parler_hub=loud'")
    );
    assert!(!data.exists());
}

#[tokio::test]
async fn an_option_wins_over_its_variable() {
    let directory = tempfile::TempDir::new().unwrap();
    let bundle = vec![7; 2 << 10];
    for (option, status) in [(None, 413), (Some("--max-blob=2KiB"), 201)] {
        let hub = RunningProgram::with(&directory.path().join(format!("{status}")), |command| {
            command
                .env("PARLER_HUB_MAX_BLOB", "1KiB")
                .env("PARLER_HUB_OPEN", "yes")
                .args(option);
        });
        let alice = hub.agent("alice").await;
        let room = alice.create_room("r").await;
        let push = Push::new()
            .branch("x", None, Some(oid('a')))
            .bundle(&bundle)
            .sign(&alice, &room);
        let answer = alice.post_with_blob(&room.room, &push.body, &bundle).await;
        assert_eq!(answer.status, status);
        if status == 413 {
            answer.problem(ErrorCode::TooLarge);
        }
        assert!(hub.end(Signal::TERM).0);
    }
}
