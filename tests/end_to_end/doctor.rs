//! `git parler doctor`: what is wrong is found and named with how to mend it, and looking changes nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use parler_harness::{Agent, Snapshot, World};
use serde_json::Value;

use super::world;

/// The check of this name.
#[track_caller]
fn check(told: &Value, name: &str) -> Value {
    let checks = told["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no check {name} in {told:#}")).clone()
}

/// What doctor says of one thing to somebody for whom something is a problem.
#[track_caller]
fn problem(user: &Agent<'_>, name: &str, words: &str) -> Value {
    let told = user.parler("doctor --json").code(1).json();
    assert_eq!(told["ok"], false);
    let found = check(&told, name);
    assert_eq!(found["status"], "problem", "{told:#}");
    assert!(found["message"].as_str().unwrap().contains(words), "{found:#}");
    assert!(found["mend"].is_string(), "{found:#}");
    found
}

fn user(world: &World) -> Agent<'_> {
    world.clone_of(&world.origin(), "work").user()
}

#[test]
fn where_all_is_well_it_says_so_and_makes_nothing() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user();
    let before = Snapshot::of(&work);
    let told = user.parler("doctor --json").success().json();
    assert_eq!(told["ok"], true);
    assert!(
        check(&told, "hub")["message"]
            .as_str()
            .unwrap()
            .contains("does not run")
    );
    assert!(
        check(&told, "agent")["message"]
            .as_str()
            .unwrap()
            .contains("when it is first used")
    );
    Snapshot::of(&work).assert_same_as(&before, &[]);
    assert!(fs::read_dir(world.parler_home()).unwrap().next().is_none());
    assert!(world.processes().is_empty(), "doctor starts no hub");

    // With a hub, a key and a room.
    user.parler("push --room try HEAD:refs/heads/x").success();
    work.git("config parler.room try").success();
    let told = user.parler("doctor --json").success().json();
    assert!(
        check(&told, "hub")["message"]
            .as_str()
            .unwrap()
            .contains("serves, version")
    );
    assert!(
        check(&told, "room")["message"]
            .as_str()
            .unwrap()
            .contains("'try', head 1")
    );
    assert_eq!(check(&told, "clock")["status"], "ok");
    let shown = user.parler("doctor").success();
    for line in shown.out().lines() {
        assert!(["ok ", "warning "].iter().any(|word| line.starts_with(word)), "{line}");
    }
}

#[test]
fn a_helper_that_is_missing_or_another_ones_is_a_problem() {
    let world = world();
    let user = user(&world);
    let helper = world.path().join("bin/git-remote-parler");
    fs::remove_file(&helper).unwrap();
    problem(&user, "helper", "there is no git-remote-parler on PATH");
    for (says, told) in [
        ("git-remote-parler 0.0.1", "git-remote-parler 0.0.1"),
        ("", "no version"),
    ] {
        parler_harness::write_executable(&helper, &format!("#!/bin/sh\necho {says}\n"));
        problem(&user, "helper", &format!("tells '{told}'"));
    }
}

#[test]
fn a_git_that_is_missing_or_too_old_is_a_problem() {
    let world = world();
    let user = user(&world);
    let old = world.path().join("old-git");
    parler_harness::write_executable(&old, "#!/bin/sh\necho git version 2.20.1\n");
    problem(&user.with("PARLER_GIT", &old), "git", "2.20.1");
    let none = user.with("PATH", world.path().join("bin"));
    let told = none.run(world.program(), ["doctor", "--json"]).code(1).json();
    assert_eq!(check(&told, "git")["status"], "problem");
}

#[test]
fn a_hub_that_does_not_answer_is_a_problem() {
    let world = world();
    let user = user(&world);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    problem(
        &user.with("PARLER_HUB", format!("http://127.0.0.1:{port}")),
        "hub",
        &port.to_string(),
    );
    problem(
        &user.with("PARLER_HUB", "http://hub.example"),
        "hub",
        "plain http is not allowed",
    );
    problem(&user.with("PARLER_HUB", "ftp://x"), "hub", "PARLER_HUB");
}

#[test]
fn a_key_that_others_can_read_is_a_problem_and_is_not_shown() {
    let world = world();
    let user = user(&world);
    user.parler("rooms").success();
    let keys = world.parler_home().join("config/agents");
    let key = fs::read_dir(keys).unwrap().next().unwrap().unwrap().path();
    let content = fs::read_to_string(&key).unwrap();
    let seed = &content[content.find("SU").unwrap()..][..58];
    assert!(!user.parler("doctor --json").success().out().contains(seed));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let found = problem(&user, "agent", "is open to other users");
    assert!(found["mend"].as_str().unwrap().starts_with("chmod 600"));
    assert!(!user.parler("doctor").code(1).out().contains(seed));
}

#[test]
fn a_room_that_is_not_there_is_a_problem_and_a_misspelt_key_a_warning() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user();
    user.parler("rooms").success();
    problem(&user.with("PARLER_ROOM", "nosuch"), "room", "no room 'nosuch'");
    problem(&user.with("PARLER_ROOM", "../x"), "room", "PARLER_ROOM");
    work.git("config parler.rooms try").success();
    let told = user.parler("doctor --json").success().json();
    let found = check(&told, "configuration");
    assert_eq!(found["status"], "warning");
    assert!(found["message"].as_str().unwrap().contains("parler.rooms"));
    assert!(found["mend"].as_str().unwrap().contains("parler.room "));
}

#[test]
fn a_place_that_cannot_be_written_is_a_problem() {
    let world = world();
    let user = user(&world);
    fs::write(world.path().join("file"), "").unwrap();
    let home = world.path().join("file/below");
    problem(&user.with("PARLER_HOME", home), "directories", "cannot be written");
}
