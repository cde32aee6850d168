//! `parler-hub admit`: the keeper of a hub lets a key in.

use std::path::Path;
use std::process::Output;

use parler_protocol::{AgentId, ErrorCode, RoomName, paths};
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Agent, RunningProgram, program, text_message};

fn admit(data: &Path, agent: AgentId, further: &[&str]) -> Output {
    program()
        .arg("admit")
        .arg("--data")
        .arg(data)
        .arg(agent.to_string())
        .args(further)
        .output()
        .unwrap()
}

#[track_caller]
fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout)
        .unwrap()
        .trim()
        .split_once(": ")
        .unwrap()
        .1
}

fn closed(data: &Path) -> RunningProgram {
    RunningProgram::with(data, |command| {
        command.args(["--log", "json"]);
    })
}

/// What `log` warns of.
fn warnings(log: &str) -> Vec<String> {
    log.lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["level"] == "WARN")
        .map(|line| line["fields"]["message"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn a_running_hub_lets_a_key_in_between_its_writes() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let hub = closed(&data);
    let mut alice = hub.stranger("alice").await;
    alice.prove().await.problem(ErrorCode::NotAdmitted);
    assert_eq!(
        said(&admit(&data, alice.id(), &["--room", "Build"])),
        "let in, made room 'Build' for it"
    );
    alice.open_session().await;
    let room: RoomName = "build".parse().unwrap();
    alice.get(&paths::messages(&room)).await.expect(200).head();

    // Somebody writes all the while.
    let writing = {
        let alice = Agent {
            key: parler_protocol::AgentKey::from_seed(&alice.key.to_seed()).unwrap(),
            name: alice.name.clone(),
            token: alice.token.clone(),
            role: None,
            secret: None,
            ..hub.stranger("alice").await
        };
        let room = room.clone();
        tokio::spawn(async move {
            for index in 0..50 {
                alice
                    .post(&paths::messages(&room), &text_message(&index.to_string()))
                    .await
                    .expect(201)
                    .head();
            }
        })
    };
    let mut bob = hub.stranger("bob").await;
    for (rooms, expected) in [
        (&["--room", "build"][..], "let in, now in room 'Build'"),
        (&["--room", "build"], "known already"),
        (&[], "known already"),
    ] {
        let (data, id) = (data.clone(), bob.id());
        let output = tokio::task::spawn_blocking(move || admit(&data, id, rooms))
            .await
            .unwrap();
        assert_eq!(said(&output), expected);
    }
    bob.open_session().await;
    writing.await.unwrap();
    let all = format!("{}?after=0", paths::messages(&room));
    assert_eq!(bob.get(&all).await.expect(200).seqs(), (1..=50).collect::<Vec<_>>());
    let members: parler_protocol::api::MemberList = bob.get(&paths::members(&room)).await.expect(200).json();
    let names: Vec<_> = members
        .members
        .iter()
        .map(|member| (member.name.as_str(), member.owner))
        .collect();
    assert_eq!(names, [("alice", true), ("bob", false)]);
    // Others stay out.
    hub.stranger("carol")
        .await
        .prove()
        .await
        .problem(ErrorCode::NotAdmitted);
    assert!(hub.end(Signal::TERM).0);
    assert!(!data.join("admin.sock").exists());
}

#[tokio::test]
async fn a_stopped_hub_knows_the_key_when_it_starts() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let alice = closed(&data).stranger("alice").await;
    // That one was killed, and its socket stayed.
    assert!(data.join("admin.sock").exists());
    assert_eq!(
        said(&admit(&data, alice.id(), &["--room", "a", "--room", "b"])),
        "let in, made room 'a' for it, made room 'b' for it"
    );
    assert_eq!(said(&admit(&data, alice.id(), &["--room", "b"])), "known already");

    let hub = closed(&data);
    let mut alice = Agent {
        address: hub.address,
        ..alice
    };
    alice.open_session().await;
    let rooms: Value = alice.get(paths::ROOMS).await.expect(200).json();
    assert_eq!(rooms["rooms"].as_array().unwrap().len(), 2);
    assert_eq!(said(&admit(&data, alice.id(), &[])), "known already");
    let (_, log) = hub.end(Signal::TERM);
    assert_eq!(warnings(&log), [""; 0], "it knows somebody");
}

#[tokio::test]
async fn a_hub_that_knows_nobody_says_how_the_first_comes_in() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let hub = closed(&data);
    let (_, log) = hub.end(Signal::TERM);
    let [warning] = &warnings(&log)[..] else {
        panic!("{log}");
    };
    for word in ["parler-hub admit", data.to_str().unwrap(), "git parler whoami"] {
        assert!(warning.contains(word), "{warning}");
    }
    let (_, log) = RunningProgram::start(&data).end(Signal::TERM);
    assert_eq!(warnings(&log), [""; 0], "an open hub needs nobody");
}

#[test]
fn mistakes_are_named_and_make_nothing() {
    let directory = tempfile::TempDir::new().unwrap();
    let nowhere = directory.path().join("nowhere");
    let agent = parler_protocol::AgentKey::from_random([1; 32]).id();
    let output = admit(&nowhere, agent, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("nowhere is no hub's data directory") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(!nowhere.exists());
    for (arguments, named) in [
        (["admit", "--data", "x", "nobody"], "'nobody'"),
        (["admit", "--data=x", "--room=..", &agent.to_string()], "--room"),
    ] {
        let output = program().args(arguments).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(named) && stderr.lines().count() == 1, "{stderr}");
    }
}
