//! The story that all of this is for: one agent pushes and hands over, another is led to it, takes exactly those commits
//! and reviews them with ordinary git.

use parler_harness::{Agent, Repository, World};
use serde_json::Value;

use super::world;

/// Two clones of one origin; alice, a planner, is a branch ahead.
struct Story<'w> {
    alice: Agent<'w>,
    bob: Agent<'w>,
    alices: Repository<'w>,
    bobs: Repository<'w>,
    tip: String,
}

fn story(world: &World) -> Story<'_> {
    let origin = world.origin();
    let alices = world.clone_from_afar(&origin, "alices");
    let bobs = world.clone_from_afar(&origin, "bobs");
    alices.git("switch --quiet --create feature").success();
    alices.commit("checkout.txt", "a new checkout\n");
    let tip = alices.commit("tests.txt", "tests for it\n");
    let alice = world.agent("alice").at(&alices);
    let bob = world.agent("bob").at(&bobs);
    alice.parler("connect --local --role planner").success();
    bob.parler("connect --local --role reviewer").success();
    Story {
        alice,
        bob,
        alices,
        bobs,
        tip,
    }
}

/// The one bundle that this repository pinned: its short and its full id.
#[track_caller]
fn pinned(repository: &Repository<'_>) -> (String, String) {
    let ids: Vec<_> = repository
        .pins()
        .into_keys()
        .map(|name| name["refs/parler/".len()..].to_owned())
        .collect();
    let full = ids
        .iter()
        .find(|id| id.len() == 64)
        .unwrap_or_else(|| panic!("no pin: {ids:?}"));
    let short = ids
        .iter()
        .find(|id| id.len() == 12)
        .unwrap_or_else(|| panic!("no pin: {ids:?}"));
    assert!(full.starts_with(short.as_str()) && ids.len() == 2, "{ids:?}");
    (short.clone(), full.clone())
}

#[test]
fn a_handoff_leads_its_reader_to_the_exact_commits() {
    let world = world();
    let Story {
        alice,
        bob,
        alices,
        bobs,
        tip,
    } = story(&world);
    alice.git("push --quiet parler::room/checkout feature").success();
    let (short, full) = pinned(&alices);
    alice
        .parler(["send", "--room", "checkout", "some talk that is in the way"])
        .success();
    alice
        .parler([
            "handoff",
            "--room",
            "checkout",
            "--for",
            "bob",
            "--summary",
            "feature branch pushed, tests green",
            "--next",
            "review the diff and flag blockers before merge",
            "--bundle",
            &short,
        ])
        .success();
    alice
        .parler(["send", "--room", "checkout", "more talk behind it"])
        .success();

    let recv = bob.parler("recv --room checkout").success();
    let lines: Vec<_> = recv.out().lines().collect();
    assert!(
        lines[0].starts_with("HANDOFF TO YOU from alice (planner) · message 3 · signature valid"),
        "{recv:?}"
    );
    assert_eq!(
        lines[1], "  next:    review the diff and flag blockers before merge",
        "{recv:?}"
    );
    assert_eq!(lines[2], "  summary: feature branch pushed, tests green", "{recv:?}");
    assert_eq!(
        lines[3], "  work:    2 commits, 2 files, +2 -0 on origin/main",
        "{recv:?}"
    );
    assert_eq!(
        lines[4],
        format!("  bundle:  {short} · 2 commits · refs/heads/feature · base origin/main present"),
        "{recv:?}"
    );
    assert_eq!(
        lines[5],
        format!("  apply:   git parler apply {short} --room checkout"),
        "{recv:?}"
    );
    // The backlog stands below it.
    let talk = recv.out().find("some talk that is in the way").unwrap();
    assert!(talk > recv.out().find("apply:").unwrap(), "{recv:?}");
    recv.says("more talk behind it");

    bob.git("fetch --quiet parler::room/checkout").success();
    assert_eq!(pinned(&bobs), (short.clone(), full.clone()));
    for name in [&short, &full] {
        assert_eq!(bobs.rev(&format!("refs/parler/{name}")), tip);
    }
    let diff = bob
        .git(["diff", "--stat", &format!("origin/main...refs/parler/{short}")])
        .success();
    diff.says("checkout.txt")
        .says("tests.txt")
        .says("2 files changed, 2 insertions(+)");
    bobs.fsck();
}

#[test]
fn apply_does_what_the_banner_says() {
    let world = world();
    let Story {
        alice,
        bob,
        alices,
        bobs,
        tip,
    } = story(&world);
    alice.git("push --quiet parler::room/checkout feature").success();
    let (short, _) = pinned(&alices);
    alice
        .parler(["handoff", "--room", "checkout", "--next", "review", "--bundle", &short])
        .success();
    let recv = bob.parler("recv --room checkout").success();
    let command = recv
        .out()
        .lines()
        .find_map(|line| line.trim().strip_prefix("apply:"))
        .unwrap()
        .trim()
        .to_owned();
    let apply = bob
        .with("PARLER_ROOM", "checkout")
        .git(command.strip_prefix("git ").unwrap())
        .success();
    apply.says(&format!("refs/parler/{short}"));
    assert_eq!(bobs.rev(&format!("refs/parler/{short}")), tip);
    // Again is no mistake.
    bob.parler(["apply", &short, "--room", "checkout"]).success();
}

#[test]
fn one_command_pushes_and_hands_over() {
    let world = world();
    let Story {
        alice, bob, bobs, tip, ..
    } = story(&world);
    alice
        .parler([
            "push",
            "--room",
            "checkout",
            "--next",
            "review it",
            "--for",
            "reviewer",
            "--note",
            "with a note",
        ])
        .success();
    let recv = bob.parler("recv --room checkout").success();
    assert!(
        recv.out()
            .starts_with("HANDOFF TO YOU from alice (planner) · message 1 "),
        "{recv:?}"
    );
    recv.says("next:    review it")
        .says("with a note")
        .says("refs/heads/feature");
    bob.git("fetch --quiet parler::room/checkout").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tip);
    // Everything of it was one message.
    assert_eq!(
        bob.parler("recv --room checkout --all --json")
            .success()
            .out()
            .matches("com.parler.refs")
            .count(),
        1
    );
}

#[test]
fn a_handoff_can_take_a_branch_along() {
    let world = world();
    let Story {
        alice, bob, bobs, tip, ..
    } = story(&world);
    alice
        .git("push --quiet parler::room/checkout origin/main:refs/heads/main")
        .success();
    alice
        .parler("handoff --room checkout --next review --bundle feature")
        .success();
    let recv = bob.parler("recv --room checkout").success();
    assert!(recv.out().starts_with("HANDOFF TO YOU from alice"), "{recv:?}");
    bob.git("fetch --quiet parler::room/checkout feature").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tip);
}

#[test]
fn a_banner_is_for_whom_it_is_meant_and_until_it_is_acknowledged() {
    let world = world();
    let Story { alice, bob, .. } = story(&world);
    alice.parler("connect --local --role planner").success();
    alice.git("push --quiet parler::room/checkout feature").success();
    let carol = world
        .agent("carol")
        .at(&world.clone_with(world.path().join("origin.git"), "carols", ""));
    carol.parler("recv --room checkout").success();

    let banner = |agent: &Agent<'_>| {
        agent
            .parler("recv --room checkout")
            .success()
            .out()
            .matches("HANDOFF TO YOU")
            .count()
    };
    alice.parler("handoff --room checkout --next one --for BOB").success();
    assert_eq!(banner(&alice), 0, "never to its own author");
    assert_eq!(banner(&carol), 0, "not for her");
    assert_eq!(banner(&bob), 1, "by name, in any case");
    assert_eq!(banner(&bob), 0, "acknowledged");

    alice
        .parler("handoff --room checkout --next two --for reviewer")
        .success();
    assert_eq!((banner(&carol), banner(&bob)), (0, 1), "by role");
    alice.parler("handoff --room checkout --next three").success();
    assert_eq!(
        (banner(&carol), banner(&bob), banner(&alice)),
        (1, 1, 0),
        "for anybody else"
    );

    // Reading again shows it again, among what is old.
    bob.parler("recv --room checkout --all")
        .success()
        .says("three")
        .says_no("HANDOFF TO YOU");
    bob.parler("recv --room checkout --since 1")
        .success()
        .says("three")
        .says_no("HANDOFF TO YOU");
}

#[test]
fn the_newest_handoff_stands_first() {
    let world = world();
    let Story { alice, bob, .. } = story(&world);
    alice.git("push --quiet parler::room/checkout feature").success();
    for next in ["older", "newer"] {
        alice
            .parler(["handoff", "--room", "checkout", "--next", next, "--for", "bob"])
            .success();
    }
    let recv = bob.parler("recv --room checkout").success();
    assert!(recv.out().starts_with("HANDOFF TO YOU"), "{recv:?}");
    assert!(
        recv.out().find("next:    newer").unwrap() < recv.out().find("next:    older").unwrap(),
        "{recv:?}"
    );
}

#[test]
fn every_command_speaks_json() {
    let world = world();
    let Story {
        alice,
        bob,
        alices,
        bobs,
        tip,
    } = story(&world);
    let push = alice.parler("push --room checkout --json").success();
    let posted = push.json_lines().remove(0);
    assert_eq!(posted["seq"], 1, "{push:?}");
    let (short, full) = pinned(&alices);
    assert!(push.out().contains(&full), "{push:?}");

    let handoff = alice
        .parler([
            "handoff", "--room", "checkout", "--next", "review", "--bundle", &short, "--json",
        ])
        .success();
    assert_eq!(handoff.json()["seq"], 2);
    let sent = alice.parler(["send", "--room", "checkout", "text", "--json"]).success();
    assert_eq!(sent.json()["seq"], 3);

    let recv = bob.parler("recv --room checkout --json").success();
    let all: Vec<Value> = recv.json_lines();
    let text = recv.out();
    assert!(
        text.contains("\"review\"") && text.contains(&full) && text.contains("\"valid\""),
        "{recv:?}"
    );
    assert!(!all.is_empty());

    let apply = bob.parler(["apply", &short, "--room", "checkout", "--json"]).success();
    assert!(apply.out().contains(&format!("\"refs/parler/{short}\"")), "{apply:?}");
    apply.json();
    assert_eq!(bobs.rev(&format!("refs/parler/{short}")), tip);

    for command in [
        "whoami --json",
        "rooms --json",
        "roster --room checkout --json",
        "show 1 --room checkout --json",
    ] {
        let answer = bob.parler(command).success();
        assert!(!answer.json_lines().is_empty(), "{answer:?}");
    }
    bob.parler("roster --room checkout --json")
        .success()
        .says("alice")
        .says("planner");
    let invite = alice.parler("invite --group checkout --json").success();
    assert!(invite.json()["code"].is_string(), "{invite:?}");
    let failed = bob.parler("recv --room nosuch --json").code(3);
    assert!(
        failed.out().is_empty() || serde_json::from_str::<Value>(failed.out()).is_ok(),
        "{failed:?}"
    );
}

#[test]
fn the_story_on_a_hub_of_its_own_with_an_invite() {
    let world = world();
    let hub = super::hub_server::start(&world);
    let origin = world.origin();
    let alices = world.clone_of(&origin, "alices");
    let bobs = world.clone_of(&origin, "bobs");
    // Two machines: nothing is shared but the hub.
    let alice = world.stranger("alice").on(&hub).at(&alices);
    let bob = world.stranger("bob").on(&hub).at(&bobs);
    let tip = alices.commit("a.txt", "one\n");

    let invite = alice.parler("invite --group checkout").success();
    let code = alice.parler("invite --group checkout --json").success().json()["code"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!invite.out().is_empty());
    bob.parler("recv --room checkout").code(3);
    bob.parler(["join", &code]).success().says("checkout");
    alice
        .git("push --quiet parler::room/checkout HEAD:refs/heads/feature")
        .success();
    alice
        .parler("handoff --room checkout --next review --for bob --bundle HEAD")
        .success();
    assert!(
        bob.parler("recv --room checkout")
            .success()
            .out()
            .starts_with("HANDOFF TO YOU from alice")
    );
    bob.git("fetch --quiet parler::room/checkout").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tip);
    // The address can be written out as well.
    let other = world.clone_of(&origin, "others");
    let bob = world.stranger("bob").at(&other);
    for url in [
        format!("parler://{}/room/checkout", hub.authority()),
        format!("parler::{}/room/checkout", hub.url()),
    ] {
        let refs = bob.git(["ls-remote", &url]).success().listed_refs();
        assert_eq!(refs["refs/heads/feature"], tip, "{url}");
    }
    assert!(
        !world.path().join("parler/data").exists(),
        "nobody needed the local hub"
    );
}
