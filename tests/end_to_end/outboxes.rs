//! What is said while the hub cannot be reached: kept, told plainly, and sent once, in order, by the next command that
//! reaches it, whatever became of the processes in between.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use parler_harness::{Agent, Cut, CuttingProxy, HubProcess, World};
use rustix::process::Signal;
use serde_json::json;

use super::{hub_server, world};

/// Everything that was said in the room, in order.
#[track_caller]
fn said(agent: &Agent<'_>) -> Vec<String> {
    let log = agent.parler("log --reverse --room talk --json").success();
    let text = |message: &serde_json::Value| {
        let part = &message["parts"][0];
        let words = part["text"].as_str().or(part["next"].as_str());
        words.unwrap_or_default().to_owned()
    };
    log.json_lines().iter().map(text).collect()
}

/// A hub with a room of alice's, and alice.
fn room_of_alice<'w>(world: &'w World, hub: &HubProcess) -> Agent<'w> {
    let alice = world.agent("alice").on(hub);
    alice.parler("invite --group talk").success();
    alice
}

#[track_caller]
fn queue(agent: &Agent<'_>, words: &str) {
    let queued = agent.parler(["send", "--room", "talk", "--queue", words]).success();
    queued.says("the hub cannot be reached: kept for 'talk'");
}

#[test]
fn what_waits_is_sent_in_order_by_the_next_command() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = room_of_alice(&world, &hub);
    let work = world.clone_of(&world.origin(), "work");
    let pushed = alice
        .at(&work)
        .parler("push --room talk --full --json main")
        .success()
        .json();
    let id = pushed["bundleId"].as_str().unwrap().to_owned();
    let sent = alice.parler("send --room talk --queue one").success();
    sent.says("sent as message 2 of 'talk'");
    hub.kill();
    alice.parler("send --room talk lost").code(5).one_error_line();
    queue(&alice, "two");
    let queued = alice
        .parler([
            "handoff", "--room", "talk", "--queue", "--next", "three", "--bundle", &id, "--json",
        ])
        .success()
        .json();
    assert_eq!(
        (&queued["queued"], &queued["seq"], &queued["bundleId"]),
        (&json!(true), &json!(null), &json!(id))
    );
    queue(&alice, "four");
    // It can be seen that something waits, and what.
    alice
        .parler("whoami")
        .success()
        .says("waiting: 3 messages to be sent · git parler outbox");
    alice.parler("doctor").code(1).says("3 messages not sent yet");
    let list = alice.parler("outbox").success();
    list.says("1 for 'talk'")
        .says("│ two")
        .says("2 for 'talk'")
        .says("three")
        .says("3 for 'talk'");
    let list = alice.parler("outbox list --json").success().json();
    assert_eq!(list["waiting"][1]["parts"][0]["next"], "three");
    let directory = fs::read_dir(world.parler_home().join("state/outbox"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    for file in fs::read_dir(directory).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Others do not send it: it is alice's.
    hub.restart();
    let bob = world.agent("bob").on(&hub);
    bob.parler("rooms").success();
    // What only reads sends it first.
    let rooms = alice.parler("rooms").success();
    rooms.warns("sent what waited, as message 3 of 'talk'");
    alice.parler("send --room talk five").success();
    assert_eq!(said(&alice), ["", "one", "two", "three", "four", "five"]);
    alice.parler("whoami").success().says_no("waiting");
}

#[test]
fn a_post_comes_behind_what_waits() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = room_of_alice(&world, &hub);
    hub.kill();
    queue(&alice, "one");
    queue(&alice, "two");
    hub.restart();
    let sent = alice.parler("send --room talk three").success();
    sent.says("sent as message 3 of 'talk'")
        .warns("sent what waited, as message 1");
    hub.kill();
    queue(&alice, "four");
    hub.restart();
    alice
        .parler("send --room talk --queue five")
        .success()
        .says("sent as message 5 of 'talk'");
    assert_eq!(said(&alice), ["one", "two", "three", "four", "five"]);
}

#[test]
fn commands_that_send_at_once_send_once() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = room_of_alice(&world, &hub);
    hub.kill();
    let expected: Vec<_> = (1..=12).map(|number| format!("thing {number}")).collect();
    for words in &expected {
        queue(&alice, words);
    }
    hub.restart();
    let running: Vec<_> = (0..4).map(|_| alice.start_parler("rooms")).collect();
    for command in running {
        command.wait().success();
    }
    assert_eq!(said(&alice), expected);
    assert_eq!(alice.parler("outbox --json").success().json()["waiting"], json!([]));
}

/// The hub stored it and nobody was told, or the process died before it could forget the draft.
#[test]
fn a_draft_that_was_stored_before_is_not_stored_again() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let mut hub = hub_server::start_behind(&world, &proxy);
    let alice = world.agent("alice").with("PARLER_HUB", proxy.url());
    alice.parler("invite --group talk").success();
    // Every answer to a post is lost: what is queued is on the hub, and here.
    const LOST: Cut = Cut::AnswerTo("POST /v1/rooms/talk/messages");
    proxy.cut([LOST; 40]);
    queue(&alice, "one");
    proxy.cut([]);
    alice
        .parler("rooms")
        .success()
        .warns("sent what waited, as message 1 of 'talk'");
    assert_eq!(said(&alice), ["one"]);

    // A copy of a draft, as it is where a process died between the answer and forgetting it.
    hub.kill();
    queue(&alice, "two");
    let directory = fs::read_dir(world.parler_home().join("state/outbox"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let file = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "json"))
        .unwrap();
    let draft = fs::read(&file).unwrap();
    hub.restart();
    proxy.lead_to(hub.authority());
    alice.parler("rooms").success();
    assert!(!file.exists());
    fs::write(&file, draft).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    alice
        .parler("rooms")
        .success()
        .warns("sent what waited, as message 2 of 'talk'");
    assert_eq!(said(&alice), ["one", "two"]);
    assert!(!file.exists());
}

/// What was said to one hub is not told to another, whichever of them answers at an address.
#[test]
fn another_hub_at_the_address_is_told_nothing_of_what_waits() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let mut hub = hub_server::start_behind(&world, &proxy);
    let alice = world.agent("alice").with("PARLER_HUB", proxy.url());
    alice.parler("invite --group talk").success();
    hub.kill();
    queue(&alice, "one");
    queue(&alice, "two");
    // The second as an older program kept it, which did not say for which hub.
    let directory = world.parler_home().join("state/outbox");
    let directory = fs::read_dir(directory).unwrap().next().unwrap().unwrap().path();
    let file = directory.join("00000002.json");
    let mut draft: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(draft.as_object_mut().unwrap().remove("hub").unwrap().is_string());
    fs::write(&file, draft.to_string()).unwrap();

    let elsewhere = super::world();
    let other = hub_server::start_behind(&elsewhere, &proxy);
    alice
        .parler("rooms")
        .success()
        .warns("2 messages of yours wait for the hub that was here before: another one answers now; git parler outbox");
    // Also in a room of that name.
    alice.parler("invite --group talk").success();
    alice.parler("outbox send").code(1).warns("not all of it was sent");
    alice
        .parler("send --room talk --queue here")
        .success()
        .says("sent as message 1 of 'talk'");
    assert_eq!(said(&alice), ["here"]);
    let list = alice.parler("outbox").success();
    list.says("│ one").says("│ two").says("it is for hub ");
    alice
        .parler("doctor")
        .success()
        .says("2 messages not sent yet, 2 of them for the hub that was here before")
        .says_no("sends them");
    let waiting = alice.parler("outbox --json").success().json();
    assert_eq!(waiting["waiting"].as_array().unwrap().len(), 2);
    assert_eq!(waiting["waiting"][0]["hub"], waiting["waiting"][1]["hub"]);

    drop(other);
    hub.restart();
    proxy.lead_to(hub.authority());
    alice.parler("rooms").success().warns("sent what waited, as message 2");
    assert_eq!(said(&alice), ["one", "two"]);
    alice.parler("outbox").success().warns("nothing waits");
}

/// Killed while it waits for the hub: what was queued is on the disk before anything is asked.
#[test]
fn a_process_that_dies_on_the_way_loses_nothing() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(&world, &proxy);
    let alice = world.agent("alice").with("PARLER_HUB", proxy.url());
    alice.parler("invite --group talk").success();
    // Somebody who listens and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.lead_to(&silent.local_addr().unwrap().to_string());
    for words in ["one", "two"] {
        let sending = alice.start("git-parler", ["send", "--room", "talk", "--queue", words]);
        let _held = silent.accept().unwrap();
        sending.signal(Signal::KILL);
        assert_eq!(sending.wait().either().signal(), Some(9));
    }
    proxy.lead_to(hub.authority());
    alice
        .parler("rooms")
        .success()
        .warns("sent what waited, as message 2 of 'talk'");
    assert_eq!(said(&alice), ["one", "two"]);
}

#[test]
fn what_the_hub_refuses_stays_visible_and_holds_up_nobody() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = room_of_alice(&world, &hub);
    let bob = world.agent("bob").on(&hub);
    bob.parler("whoami").success();
    hub.kill();
    queue(&alice, "one");
    alice
        .parler("send --room elsewhere --queue nobody-hears-this")
        .success();
    queue(&alice, "two");
    hub.restart();
    let rooms = alice.parler("rooms").success();
    rooms.warns("the hub refused what waited as 2: no room 'elsewhere' that you belong to; git parler outbox");
    assert_eq!(said(&alice), ["one", "two"]);
    // It is not tried with every command, nor forgotten.
    alice.parler("rooms").success().warns_no("refused");
    alice
        .parler("outbox")
        .success()
        .says("nobody-hears-this")
        .says("refused:")
        .says("git parler outbox drop 2");
    alice.parler("doctor").code(1).says("1 of them refused");
    alice
        .parler("inbox")
        .success()
        .says("1 message of yours not sent yet: git parler outbox");
    alice.parler("outbox send").code(1).warns("refused what waited as 2");
    // Once there is such a room it is sent.
    alice.parler("invite --group elsewhere").success();
    alice.parler("outbox send").success().says("sent 1 message");
    hub.kill();
    queue(&alice, "three");
    alice
        .parler("outbox drop 1")
        .success()
        .says("dropped 1: it will not be sent");
    alice.parler("outbox drop 1").code(3).one_error_line();
    hub.restart();
    assert_eq!(said(&alice), ["one", "two"]);
    // A refusal that comes at once is told at once, and leaves nothing behind.
    alice.parler("send --room nowhere --queue x").code(3).one_error_line();
    assert_eq!(alice.parler("outbox --json").success().json()["waiting"], json!([]));
}

#[test]
fn what_cannot_wait_is_said_at_once() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = room_of_alice(&world, &hub);
    let work = world.clone_of(&world.origin(), "work");
    let alice = alice.at(&work);
    let branch = alice
        .parler("handoff --room talk --queue --next x --bundle main")
        .code(2);
    assert!(
        branch.one_error_line().contains("'main' would have to be pushed"),
        "{branch:?}"
    );
    alice
        .parler("send --room talk --queue x --file README")
        .code(2)
        .one_error_line();
    hub.kill();
    let short = alice
        .parler("handoff --room talk --queue --next x --bundle abcd1234")
        .code(2);
    assert!(short.one_error_line().contains("all 64 digits"), "{short:?}");
    let large = "x".repeat(1 << 20);
    alice
        .feed("git", "parler send --room talk --queue -", large.as_bytes())
        .code(7)
        .one_error_line();
    assert_eq!(alice.parler("outbox --json").success().json()["waiting"], json!([]));
}
