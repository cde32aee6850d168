//! Coming into rooms and out of them, as people do it: removed, left, let in by an owner, deleted, and who is there.

use parler_harness::{Agent, Cut, CuttingProxy, World, look_for};
use serde_json::json;

use super::{hub_server, world};

/// An agent's line in a roster.
fn line_of(agent: &Agent<'_>, room: &str, name: &str) -> String {
    let roster = agent.parler(["roster", "--room", room]).success();
    let mut lines = roster.out().lines().skip_while(|line| !line.starts_with(name));
    let first = lines.next().unwrap_or_else(|| panic!("{roster:?}"));
    let more = lines.take_while(|line| line.starts_with(' '));
    std::iter::once(first).chain(more).collect()
}

/// Three agents of one machine in a room of the first.
fn three(world: &World) -> [Agent<'_>; 3] {
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| world.agent(name));
    alice.parler("invite --group build").success();
    for other in [&bob, &carol] {
        other.parler("recv --room build").success();
    }
    [alice, bob, carol]
}

#[test]
fn a_removed_agent_is_out_at_once_and_its_watcher_ends() {
    let world = world();
    let [alice, bob, carol] = three(&world);
    let watch = bob.start_parler("recv --room build --watch");
    look_for(
        || line_of(&alice, "build", "bob").contains("watching now").then_some(()),
        || "nobody sees that bob watches".to_owned(),
    );
    assert!(line_of(&alice, "build", "carol").contains("at its next recv"));

    // What comes next says the room, whoever said it to this command.
    let in_build = |agent: &Agent<'_>, command: &str, code: i32, next: &str| {
        for (agent, command) in [
            (agent.clone(), format!("{command} --room build")),
            (agent.clone().with("PARLER_ROOM", "build"), command.to_owned()),
        ] {
            let refused = agent.parler(&*command).code(code);
            let line = refused.one_error_line();
            assert!(line.ends_with(next), "{line}");
        }
    };
    for command in ["remove bob", "owner carol", "admit bob"] {
        in_build(&carol, command, 4, "; git parler roster --room build shows the owners");
    }
    in_build(&alice, "owner alice --drop", 6, "git parler owner AGENT --room build");
    in_build(&alice, "remove alice", 2, "; git parler leave --room build");
    for command in ["remove mallory", "owner mallory"] {
        in_build(
            &alice,
            command,
            3,
            "; git parler roster --room build lists who is there",
        );
    }
    for command in ["admit mallory", "refuse mallory"] {
        in_build(&alice, command, 3, "; git parler roster --room build");
    }
    let removed = alice.parler("remove BOB --room build --json").success().json();
    assert_eq!(removed["removed"]["name"], "bob");
    watch.wait().code(3);
    // The local hub lets nobody in again whom an owner has removed.
    for command in ["recv --room build", "send --room build hello", "roster --room build"] {
        bob.parler(command).code(3).warns("no room 'build'");
    }
    let code = carol.parler("invite --group build").success().word().to_owned();
    bob.parler(["join", &code]).success();
    bob.parler("send --room build back").success();
}

#[test]
fn invites_are_listed_and_revoked_without_their_codes() {
    let world = world();
    let hub = hub_server::start(&world);
    let (alice, bob) = (world.stranger("alice").on(&hub), world.stranger("bob").on(&hub));
    let [one, two, three] = [(); 3].map(|()| alice.parler("invite --group build").success().word().to_owned());
    let list = alice.parler("invite --list --room build").success();
    for code in [&one, &two, &three] {
        list.says_no(code);
    }
    assert_eq!(list.out().lines().count(), 3);
    alice.parler(["revoke", &one, "--room", "build"]).success();
    bob.parler(["join", &one]).code(3);
    let list = alice.parler("invite --list --room build --json").success().json();
    let id = list["invites"][0]["id"].as_str().unwrap().to_owned();
    alice.parler(["revoke", &id, "--room", "build"]).success();
    let gone = alice.parler(["revoke", &id, "--room", "build"]).code(3);
    assert!(
        gone.one_error_line()
            .ends_with("; git parler invite --list --room build"),
        "{gone:?}"
    );
    let bad = alice.parler(["revoke", &one[..5], "--room", "build"]).code(2);
    assert!(
        bad.one_error_line().ends_with("git parler revoke all --room build"),
        "{bad:?}"
    );
    assert!(!bad.err().contains(&one[..5]), "{bad:?}");
    let all = alice.parler("revoke all --room build --json").success().json();
    assert_eq!(all, json!({ "room": "build", "revoked": 1 }));
    for code in [&two, &three] {
        bob.parler(["join", code]).code(3);
    }
}

#[test]
fn the_last_owner_hands_over_before_it_leaves() {
    let world = world();
    let [alice, bob, carol] = three(&world);
    let stays = alice.parler("leave --room build").code(6);
    for part in ["last owner", "git parler owner AGENT --room build", "delete-room build"] {
        assert!(stays.one_error_line().contains(part), "{stays:?}");
    }
    bob.parler("owner bob --room build").code(4);
    alice.parler("owner bob --room build").success().says("bob is an owner");
    alice.parler("owner alice --drop --room build").success();
    alice.parler("owner bob --room build").code(4);
    bob.parler("owner bob --drop --room build").code(6);
    alice.parler("leave --room build").success().says("left room 'build'");
    assert!(line_of(&bob, "build", "bob").contains("owner"));
    let roster = carol.parler("roster --room build --json").success().json();
    assert_eq!(roster["members"].as_array().unwrap().len(), 2);
    // A direct room that is not there is not made by leaving it.
    carol.parler("leave --room dm/bob").code(3);
    carol.clone().with("PARLER_ROOM", "dm/bob").parler("leave").code(3);
    let rooms = carol.parler("rooms --json").success().json();
    assert_eq!(rooms["rooms"].as_array().unwrap().len(), 1, "{rooms}");
    carol.parler("send --to bob hello").success();
    carol.parler("leave --room dm/bob").success().says("dm/bob");
    bob.parler("send --to carol hello").code(3);
    carol.parler("send --to bob again").success();
    bob.parler("send --to carol hello").success();
}

#[test]
fn who_came_by_a_gated_invite_waits_and_finds_out() {
    let world = world();
    let hub = hub_server::start(&world);
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| world.stranger(name).on(&hub));
    let code = alice
        .parler("invite --group build --approve --max-uses 5")
        .success()
        .word()
        .to_owned();
    let waits = bob.parler(["join", &code]).code(3);
    for part in ["waits for an owner", "git parler admit bob --room build"] {
        assert!(waits.one_error_line().contains(part), "{waits:?}");
    }
    let waits = carol.parler(["join", &code, "--json"]).code(3);
    assert_eq!(
        (&waits.json()["waiting"], &waits.json()["room"]),
        (&json!(true), &json!("build"))
    );
    for command in ["recv --room build", "roster --room build", "send --room build hello"] {
        bob.parler(command).code(3).warns("waits for an owner to let you in");
    }
    alice
        .parler("rooms")
        .success()
        .says("2 to come in · git parler roster --room build");
    alice
        .parler("roster --room build")
        .success()
        .says("asks to come in")
        .says("bob")
        .says(" --room build, or refuse");
    bob.git("ls-remote parler::room/build")
        .failure()
        .warns("; run the same command again when an owner has let you in");
    alice.parler("admit dave --room build").code(3);
    alice.parler("admit bob --room build").success().says("bob is in");
    alice.parler("admit bob --room build").success();
    alice.parler("refuse carol --room build").success();
    bob.parler("send --room build hello").success();
    bob.parler("admit carol --room build").code(3);
    let refused = carol.parler("recv --room build").code(4);
    for part in ["did not let you in", "git parler admit AGENT --room build"] {
        assert!(refused.one_error_line().contains(part), "{refused:?}");
    }
    carol
        .git("ls-remote parler::room/build")
        .failure()
        .warns("; an owner may think again: git parler admit");
    alice.parler("recv --room build").success().says("hello");
}

#[test]
fn a_status_is_told_and_is_in_no_log() {
    let world = world();
    let [alice, bob, _] = three(&world);
    bob.parler(["connect", "--local", "--status", "reviewing the checkout"])
        .success();
    alice
        .parler("roster --room build")
        .success()
        .says("reviewing the checkout");
    alice
        .parler("recv --room build --all")
        .success()
        .says_no("reviewing the checkout");
    let roster = alice.parler("roster --room build --json").success().json();
    assert_eq!(roster["members"][1]["status"], "reviewing the checkout");
    assert_eq!(roster["members"][1]["wake"], "none");
    bob.parler(["connect", "--local", "--status", ""]).success();
    alice.parler("roster --room build").success().says_no("reviewing");
    for bad in ["a\u{202e}b", "a\nb", &"x".repeat(201)] {
        let chosen = ["connect", "--local", "--role", "reviewer", "--status", bad];
        bob.parler(chosen).code(2);
    }
    // Nothing is kept of what is refused.
    let whoami = bob.parler("whoami --json").success().json();
    assert_eq!(whoami["role"], serde_json::Value::Null);
}

#[test]
fn a_room_that_was_deleted_and_made_anew_is_not_taken_for_the_old_one() {
    let world = world();
    let hub = hub_server::start(&world);
    let origin = world.origin();
    let (ours, theirs) = (world.clone_of(&origin, "ours"), world.clone_of(&origin, "theirs"));
    let alice = world.stranger("alice").on(&hub).at(&ours);
    let bob = world.stranger("bob").on(&hub).at(&theirs);
    let join = || {
        let code = alice.parler("invite --group team").success().word().to_owned();
        bob.parler(["join", &code]).success();
    };
    join();
    alice.git("push parler::room/team main").success();
    bob.git("fetch parler::room/team").success();

    let asked = alice.parler("delete-room team").code(2);
    assert!(
        asked.one_error_line().contains("git parler delete-room team team"),
        "{asked:?}"
    );
    alice.parler("delete-room team tem").code(2);
    bob.parler("delete-room team --yes").code(4);
    alice
        .parler("delete-room team team")
        .success()
        .says("deleted room 'team'");
    bob.git("fetch parler::room/team").code(128).warns("no room 'team'");
    alice.parler("recv --room team").code(3);

    // As far as the old one, with the same number of messages and another branch.
    join();
    ours.git("switch --quiet --create other").success();
    ours.commit("x.txt", "x\n");
    alice.git("push parler::room/team other").success();
    let told = bob.git("fetch parler::room/team").code(128);
    told.warns("not the one seen before")
        .warns("git parler trust --history --room team");
    bob.parler("trust --history --room team").success();
    let refs = bob.git("ls-remote parler::room/team refs/heads/*").success();
    refs.says("refs/heads/other").says_no("refs/heads/main");
}

/// On the local hub, where a push makes the room.
#[test]
fn a_room_that_was_known_and_is_gone_is_not_made_anew_by_a_push() {
    let world = world();
    let origin = world.origin();
    let (ours, theirs) = (world.clone_of(&origin, "ours"), world.clone_of(&origin, "theirs"));
    let (alice, bob) = (world.agent("alice").at(&ours), world.agent("bob").at(&theirs));
    alice.git("push parler::room/team main").success();
    bob.git("fetch parler::room/team").success();
    alice.parler("delete-room team --yes").success();
    theirs.commit("b.txt", "b\n");
    for push in ["push parler::room/team main", "parler push --room team main"] {
        let refused = bob.git(push).failure();
        assert!(refused.err().contains("no room 'team'"), "{refused:?}");
    }
    alice.parler("recv --room team").code(3);
    // Whoever has deleted it knows that.
    alice.git("push parler::room/team main").success();
}

#[test]
fn what_ended_has_ended_where_the_answer_was_lost() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let _hub = hub_server::start_behind(&world, &proxy);
    let [alice, bob] = ["alice", "bob"].map(|name| world.stranger(name).with("PARLER_HUB", proxy.url()));
    let code = alice.parler("invite --group team").success().word().to_owned();
    bob.parler(["join", &code]).success();
    for (agent, command, call) in [
        (&bob, "leave --room team", "DELETE /v1/rooms/team/members/"),
        (&alice, "delete-room team --yes", "DELETE /v1/rooms/team"),
    ] {
        proxy.cut([Cut::AnswerTo(call)]);
        agent.parler(command).success();
        proxy.wait_for_lost_answer();
        proxy.cut([]);
        agent.parler(command).code(3);
    }
}

/// Where a lease's remote is a direct room, where that has a ref was last is known, too.
#[test]
fn a_lease_of_a_direct_room_finds_its_remote() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let alice = world.agent("alice").at(&work);
    alice.parler("connect --local").success();
    world.agent("bob").parler("connect --local").success();
    alice.git("remote add bob parler::dm/bob").success();
    alice.git("push bob main").success();
    alice.git("fetch bob").success();
    work.git("commit --quiet --amend --allow-empty -m other").success();
    alice.parler("push --room dm/bob main").code(6);
    alice.parler("push --room dm/bob --force-with-lease main").success();
}

#[test]
fn a_name_that_could_be_anothers_is_refused_at_connect_and_at_join() {
    let world = world();
    let hub = hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    let code = alice.parler("invite --group build").success().word().to_owned();
    let url = hub.url();
    let connect = |name: &str| {
        world
            .stranger("x")
            .without("PARLER_AGENT")
            .parler(["connect", "--hub", &url, "--as", name])
    };
    for (name, exit) in [
        ("", 2),
        ("a\u{202e}b", 2),
        ("a\u{1b}[2J", 2),
        (&*"x".repeat(129), 2),
        ("\u{430}lice", 7),
        ("ci/deploy", 7),
    ] {
        let refused = connect(name).code(exit);
        assert!(refused.one_error_line().contains("name"), "{refused:?}");
    }
    let taken = world.stranger("ALICE").on(&hub).parler(["join", &code]).code(6);
    for part in ["another member of room 'build'", "git parler connect --as NAME"] {
        assert!(taken.one_error_line().contains(part), "{taken:?}");
    }
    let cyrillic = world.stranger("\u{430}lice").on(&hub);
    cyrillic
        .git("ls-remote parler::room/build")
        .failure()
        .warns("; choose another name; of an agent: git parler connect --as NAME");
}

#[test]
fn a_roster_tells_who_serves() {
    let world = world();
    let hub = hub_server::start(&world);
    let (alice, bob) = (world.stranger("alice").on(&hub), world.stranger("bob").on(&hub));
    // Whoever invites into a service makes it.
    let code = alice.parler("invite --group svc.review").success().word().to_owned();
    bob.parler(["join", &code]).success();
    alice.parler("invite --group build").success();
    assert!(line_of(&alice, "svc.review", "alice").contains("owner · serves · read to"));
    assert!(line_of(&alice, "svc.review", "bob").contains("· serves · read to"));
    assert!(!line_of(&alice, "build", "alice").contains("serves"));
    let roster = bob.parler("roster --room svc.review --json").success().json();
    assert_eq!(roster["members"][1]["serves"], true);
}
