//! The program `parler-hub` itself.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use parler_protocol::{HubId, paths};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Agent, RunningProgram, program, text_message};

#[tokio::test]
async fn it_serves_logs_json_and_drains_on_either_signal() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let mut known: Option<(HubId, String)> = None;
    for signal in [Signal::TERM, Signal::INT] {
        let running = RunningProgram::start(&data);
        assert_eq!(running.said, [""; 0], "one line on stdout");
        let alice = running.agent("alice").await;
        let id = alice.hub;
        let room = match &known {
            None => alice.create_room("r").await.room,
            Some((known, _)) => {
                assert_eq!(*known, id, "the hub is the same after a restart");
                "r".parse().unwrap()
            }
        };
        if known.is_none() {
            alice
                .post(&paths::messages(&room), &text_message("x"))
                .await
                .expect(201)
                .head();
        }
        let (ended_well, log) = running.end(signal);
        assert!(ended_well, "{log}");
        for line in log.lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
            assert!(line["fields"]["message"].is_string());
        }
        assert!(log.contains("\"route\":\"/v1/session\""), "{log}");
        assert!(!log.contains(&alice.token));
        known = Some((id, log));
    }
}

#[tokio::test]
async fn it_serves_on_when_nobody_reads_its_log() {
    let directory = tempfile::TempDir::new().unwrap();
    let mut child = program()
        .args(["serve", "--listen", "127.0.0.1:0", "--open", "--data"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .strip_prefix("listening on http://")
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let anybody = Agent::new(address, HubId::from_bytes([0; 16]), "anybody");
    for _ in 0..3 {
        anybody.get(paths::HEALTH).await.expect(200).json::<Value>();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_open_hub_stays_on_this_machine() {
    let directory = tempfile::TempDir::new().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7777"] {
        let output = program()
            .args(["serve", "--open", "--listen", address, "--data"])
            .arg(directory.path().join("data"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{address}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            stderr.contains("--open") && stderr.contains("--owner") && stderr.lines().count() == 1,
            "{stderr}"
        );
        assert!(output.stdout.is_empty());
    }
    assert!(!directory.path().join("data").exists());
}

#[test]
fn mistakes_end_with_one_line_and_the_right_code() {
    let directory = tempfile::TempDir::new().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let serve = |arguments: &[&str], data: &std::path::Path| {
        let output = program()
            .arg("serve")
            .args(arguments)
            .arg("--data")
            .arg(data)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, stderr) = serve(&["--listen", "127.0.0.1:0"], &file);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("file"), "{stderr}");
    assert_eq!(serve(&["--listen", "nonsense"], &file).0, Some(2));
    assert_eq!(serve(&["--owner", "nobody"], &file).0, Some(2));

    for (arguments, said) in [
        ("serve", "--data <DIR> is missing; parler-hub serve --help"),
        (
            "serve --data x --tls-cert y",
            "--tls-key <FILE> is missing; parler-hub serve --help",
        ),
        (
            "serve --data x --listn y",
            "unexpected argument '--listn' found: did you mean --listen?; parler-hub serve --help",
        ),
        ("admit --data x", "<AGENT_ID> is missing; parler-hub admit --help"),
        ("frobnicate", "unrecognized subcommand 'frobnicate'; parler-hub --help"),
    ] {
        let output = program().args(arguments.split(' ')).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            format!("parler-hub: {said}\n")
        );
    }
    // A cause is told once.
    let missing = directory.path().join("missing");
    let missing = missing.to_str().unwrap();
    let (code, stderr) = serve(&["--tls-cert", missing, "--tls-key", missing], &file);
    assert_eq!(code, Some(1));
    assert_eq!(stderr.matches("os error").count(), 1, "{stderr}");

    let running = RunningProgram::start(&directory.path().join("data"));
    let taken = running.address.to_string();
    let (code, stderr) = serve(&["--listen", &taken], &directory.path().join("other"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains(&taken), "{stderr}");
    let (code, stderr) = serve(&["--listen", "127.0.0.1:0"], &directory.path().join("data"));
    assert_eq!(code, Some(1));
    assert!(stderr.contains("in use by another hub"), "{stderr}");
    assert!(running.end(Signal::TERM).0);
}
