//! A hub that gives up old content: its rooms go on as git remotes, and who asks for what is gone is told.

use std::collections::BTreeSet;
use std::time::Duration;

use parler_harness::{Agent, HubProcess, World};
use parler_hub::RetentionOptions;

use super::{hub_server, no_doubts, room_refs, world};

/// Gives up, in the data of a hub that is stopped for it, all that may be.
fn give_up(world: &World, hub: &mut HubProcess) {
    hub.terminate();
    let all = Some(Duration::from_millis(1));
    let options = RetentionOptions {
        messages: all,
        blobs: all,
    };
    let given_up = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(parler_hub::prune(&world.path().join("hub/data"), &options, false))
        .unwrap();
    assert!(given_up.messages > 0 && given_up.blobs > 0, "{given_up:?}");
    hub.restart();
}

/// The bundles that a room shows, by the short names of their pins.
fn shown(agent: &Agent<'_>) -> BTreeSet<String> {
    let listed = agent.git("ls-remote parler::room/try").success().listed_refs();
    let short = |name: &String| Some(name.strip_prefix("refs/parler/")?.split('/').next()?.to_owned());
    listed.keys().filter_map(short).filter(|id| id.len() == 12).collect()
}

#[test]
fn a_room_goes_on_when_what_nobody_builds_on_is_given_up() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alices = world.init("alice", "");
    let alice = world.stranger("alice").on(&hub).at(&alices).with("PARLER_ROOM", "try");
    let push = |what: &str| alice.git(format!("push parler::room/try {what}")).success();
    alices.commit("one", "1");
    let code = alice.parler("invite --group try --json").success().json()["code"].clone();
    push("main");
    alice.parler("send hello").success();
    alices.git("checkout -q -b dead").success();
    alices.commit("dead", "end");
    let kept = shown(&alice);
    push("dead");
    let dead = shown(&alice).difference(&kept).next().unwrap().clone();
    push(":dead");
    alices.git("checkout -q main").success();
    alices.commit("two", "2");
    push("main");
    let kept: BTreeSet<_> = shown(&alice).into_iter().filter(|id| *id != dead).collect();
    assert_eq!(kept.len(), 2);
    let refs = room_refs(&alice, "try");
    alice.parler("recv --all").success().says("hello");

    give_up(&world, &mut hub);

    // Whoever knew the room, and whoever comes new to it.
    assert_eq!(shown(&alice), kept);
    assert_eq!(room_refs(&alice, "try"), refs);
    let bob = world
        .stranger("bob")
        .on(&hub)
        .within(world.directory("bobs"))
        .with("PARLER_ROOM", "try");
    bob.parler(format!("join {}", code.as_str().unwrap())).success();
    assert_eq!(shown(&bob), kept);
    bob.git("clone -q parler::room/try clone").success();
    let clone = world.repository(world.path().join("bobs/clone"));
    assert_eq!(clone.rev("origin/main"), alices.rev("main"));
    clone.fsck();
    for agent in [&alice, &bob] {
        let log = agent.parler("recv --all").success();
        log.says("message 2: no longer kept by the hub").says_no("hello");
        no_doubts(agent);
        let log = agent.parler("recv --all --json").success().json();
        let entries = log["messages"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["seq"] == 2).unwrap();
        assert_eq!(
            (&entry["signature"], entry["dropped"].is_string()),
            (&"dropped".into(), true)
        );
    }
    let asked = alice.parler(format!("apply {dead}")).code(3);
    assert!(
        asked.one_error_line().contains("is no longer kept by the hub"),
        "{asked:?}"
    );

    // It is built on as before.
    alices.commit("three", "3");
    push("main");
    bob.at(&clone).git("fetch -q").success();
    assert_eq!(clone.rev("origin/main"), alices.rev("main"));
}
