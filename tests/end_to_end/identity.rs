//! Which agent acts, where its key is, and who may be whom.

use std::fs;

use super::{room_refs, world};

#[test]
fn the_nearest_word_says_which_agent_acts() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user();
    let name = |agent: &parler_harness::Agent<'_>, options: &str| {
        let whoami = agent.parler(format!("whoami --json {options}")).success().json();
        (
            whoami["name"].as_str().unwrap().to_owned(),
            whoami["source"].as_str().unwrap().to_owned(),
        )
    };
    let default = name(&user, "");
    assert!(default.0.ends_with("/work"), "{default:?}");
    work.git("config parler.agent configured").success();
    assert_eq!(name(&user, "").0, "configured");
    user.parler("connect --local --as named").success();
    assert_eq!(name(&user, ""), ("named".into(), "git parler connect --as".into()));
    let by_variable = user.with("PARLER_AGENT", "variable");
    assert_eq!(name(&by_variable, "").0, "variable");
    assert_eq!(name(&by_variable, "--as flagged").0, "flagged");
    // The name is the work tree's, not the repository's.
    work.git("worktree add --quiet ../linked -b linked").success();
    let linked = world.repository(world.path().join("linked"));
    assert_eq!(name(&linked.user(), "").0, "configured");
    linked.user().parler("connect --local --as other").success();
    assert_eq!(name(&user, "").0, "named");
    assert_eq!(work.ask("status --porcelain"), "");
    // And the helper takes the same one.
    work.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    by_variable
        .git("push --quiet parler::room/try HEAD:refs/heads/y")
        .success();
    user.parler("recv --room try --all")
        .success()
        .says("from named")
        .says("from variable");
}

#[test]
fn a_role_is_told_to_the_room() {
    let world = world();
    let alice = world.agent("alice");
    alice.parler("connect --local --role planner").success();
    alice.parler("invite --group talk").success();
    alice.parler("send --room talk hello").success();
    let bob = world.agent("bob");
    bob.parler("recv --room talk").success().says("from alice (planner)");
    bob.parler("roster --room talk").success().says("planner");
    alice.parler(["connect", "--local", "--role", "reviewer"]).success();
    alice.parler("send --room talk again").success();
    bob.parler("recv --room talk").success().says("from alice (reviewer)");
}

#[test]
fn without_parler_home_everything_is_in_the_users_directories() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user().without("PARLER_HOME");
    user.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    let home = world.path().join("home");
    for directory in [".config/parler/agents", ".local/share/parler/hub"] {
        assert!(home.join(directory).is_dir(), "{directory}");
    }
    assert_eq!(fs::read_dir(world.parler_home()).unwrap().count(), 0);

    let nowhere = user
        .without("HOME")
        .without("XDG_CONFIG_HOME")
        .without("XDG_DATA_HOME")
        .without("XDG_STATE_HOME")
        .without("XDG_CACHE_HOME");
    // An account has a home even where no variable says so, and this one's is not the test's: only a verb that writes
    // nothing may look there.
    let looked = nowhere.parler("doctor").either();
    if looked.exit_code() == Some(128) {
        looked.warns("PARLER_HOME");
    }
}

#[test]
fn without_git_on_the_path_that_is_what_is_said() {
    let world = world();
    let empty = world.directory("empty");
    let refused = world
        .user()
        .with("PATH", &empty)
        .run(world.program(), "rooms")
        .code(128);
    assert!(refused.one_error_line().contains("git"), "{refused:?}");
}

#[test]
fn rooms_have_one_spelling_and_are_found_in_any() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.git("push --quiet parler::room/Feature-X HEAD:refs/heads/x")
        .success();
    let tip = work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/feature-x HEAD:refs/heads/x")
        .success();
    for room in ["Feature-X", "feature-x", "FEATURE-X"] {
        assert_eq!(room_refs(&work.user(), room)["refs/heads/x"], tip);
        work.user().parler(["send", "--room", room, "hello"]).success();
    }
    let rooms = work.user().parler("rooms --json").success().json();
    assert_eq!(rooms["rooms"].as_array().unwrap().len(), 1, "{rooms}");
    assert_eq!(rooms["rooms"][0]["room"], "Feature-X");
    let log = work.user().parler("recv --room feature-X --all").success();
    log.says_no("folded").says("signature valid");
}

#[test]
fn help_and_version_are_answers() {
    let world = world();
    let user = world.user();
    user.run("git-parler", "--version")
        .success()
        .says(env!("CARGO_PKG_VERSION"));
    user.parler("-h").success().says("recv").says("handoff");
    for verb in [
        "connect", "invite", "join", "send", "recv", "handoff", "push", "fetch", "apply", "show", "demo", "rooms",
        "roster", "whoami",
    ] {
        user.parler([verb, "-h"]).success().says("Usage:");
    }
    user.parler("").code(2);
    assert!(world.processes().is_empty(), "help starts nothing");
}
