//! Commands whose reader has gone before they say anything: no failure, no error, and nothing counts as read.

use std::process::Stdio;

use parler_harness::{Agent, Output, Running};

use super::world;

/// Runs a command with a pipe as its stdout that nobody will ever read.
#[track_caller]
fn without_reader(agent: &Agent<'_>, program: &str, arguments: &str) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = agent.command(program, arguments);
    Running::start_with(&mut command, Stdio::from(writer)).wait()
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_has_read_nothing() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let (alice, bob) = (world.agent("alice").at(&work), world.agent("bob").at(&work));
    alice
        .git("push --quiet parler::room/gone HEAD:refs/heads/main")
        .success();
    alice.parler("handoff --room gone --next look").success();
    bob.parler("recv --room gone --limit 1").success();
    let unread = || {
        let rooms = bob.parler("rooms --json").success().json();
        rooms["rooms"][0]["unread"].as_u64().unwrap()
    };
    assert_eq!(unread(), 1);
    for verb in [
        "recv --room gone",
        "recv --all --room gone",
        "recv --room gone --json",
        "recv --room gone --watch",
        "log --room gone",
        "log --room gone --json",
        "show 1 --room gone",
        "show 1 --room gone --json",
        "inbox",
        "inbox --json",
        "fetch 1 --room gone -o -",
        "rooms",
        "roster --room gone",
        "status 2 --room gone",
    ] {
        let by_git = format!("parler {verb}");
        for (program, arguments) in [("git-parler", verb), ("git", by_git.as_str())] {
            let gone = without_reader(&bob, program, arguments).either();
            // What may be said is that it was shown before.
            let said = gone.err();
            let is_quiet = !["panicked", "roken pipe", "went away", "parler:"]
                .iter()
                .any(|word| said.contains(word));
            assert!(gone.is_success() && is_quiet, "{program} {verb}: {gone:?}");
            assert_eq!(unread(), 1, "{program} {verb}");
        }
    }
    bob.parler("recv --room gone").success().says("HANDOFF TO YOU");
}
