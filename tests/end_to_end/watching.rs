//! Watching a room: every message once and in order, whatever becomes of the hub, of the way to it, or of the machine.

use std::sync::mpsc;
use std::thread;

use parler_harness::{Agent, DEADLINE, LocalHub, Running};
use rustix::process::Signal;
use serde_json::Value;

use super::{hub_server, no_doubts, world};

const RESTARTS: usize = 20;
const SENDERS: usize = 2;
const MESSAGES: usize = 100;

/// The lines of a watcher so far, each a message.
pub(super) fn lines(output: &str) -> Vec<Value> {
    let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(super) fn number_and_text(message: &Value) -> (u64, String) {
    let text = message["parts"][0]["text"].as_str().unwrap_or_default();
    (message["seq"].as_u64().unwrap(), text.to_owned())
}

/// Presses Ctrl-C, and sees that the watcher ends by that alone.
#[track_caller]
pub(super) fn interrupt(watch: Running) {
    watch.signal_group(Signal::INT);
    let ended = watch.wait().either();
    // Git ends by the signal too, which a shell tells as 130.
    assert!(matches!(ended.exit_code(), None | Some(130)), "{ended:?}");
    assert!(!format!("{ended:?}").contains("panicked"), "{ended:?}");
}

#[track_caller]
fn say(agent: &Agent<'_>, text: &str) {
    agent.parler(["send", "--room", "watched", text]).success();
}

#[test]
fn a_watcher_sees_each_message_once_and_in_order_through_every_end_of_the_hub() {
    let world = world();
    let alice = world.agent("alice");
    alice.parler("invite --group watched").success();
    let watch = world.agent("bob").start_parler("recv --room watched --watch --json");
    let (progress, sent) = mpsc::channel();
    thread::scope(|scope| {
        for number in 0..SENDERS {
            let (sender, progress) = (world.agent(&format!("sender{number}")), progress.clone());
            scope.spawn(move || {
                for message in 0..MESSAGES {
                    let text = format!("{message} of {number}");
                    loop {
                        let send = sender.parler(["send", "--room", "watched", &text]).either();
                        if send.is_success() {
                            break;
                        }
                        // Stored or not: said again.
                        assert_eq!(send.exit_code(), Some(5), "{send:?}");
                    }
                    // The test that listens may be at its end already.
                    let _ = progress.send(());
                }
            });
        }
        for restart in 0..RESTARTS {
            for _ in 0..SENDERS * MESSAGES / (RESTARTS + 1) {
                sent.recv_timeout(DEADLINE).expect("the senders make progress");
            }
            alice.parler("hub start").success();
            if restart % 2 == 0 {
                LocalHub::of(&alice).kill(&world);
            } else {
                alice.parler("hub stop").success();
            }
        }
    });
    let log = alice.parler("recv --room watched --all --json").success().json();
    let log: Vec<_> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(number_and_text)
        .collect();
    assert!(log.len() >= SENDERS * MESSAGES);
    let seen = watch.wait_for_output(|output| lines(output).len() >= log.len());
    let seen: Vec<_> = lines(&seen).iter().map(number_and_text).collect();
    assert_eq!(seen, log);
    interrupt(watch);
    no_doubts(&alice);
    no_doubts(&world.agent("bob"));
}

#[test]
fn a_watcher_outlives_hub_and_sleep_and_acknowledges_what_it_printed() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    let bob = world.stranger("bob").on(&hub);
    let code = alice.parler("invite --group watched").success().word().to_owned();
    bob.parler(["join", &code]).success();
    say(&alice, "thing 1.");
    let hand_over = |next: &str| {
        let handoff = ["handoff", "--room", "watched", "--for", "bob", "--next", next];
        alice.parler(handoff).success();
    };
    hand_over("do the first");
    let watch = bob.start_parler("recv --room watched --watch");
    let said = watch.wait_for_output(|output| output.contains("thing 1."));
    assert!(said.starts_with("HANDOFF TO YOU from alice"), "as recv: {said}");

    hub.kill();
    hub.restart();
    say(&alice, "thing 2.");
    watch.wait_for_output(|output| output.contains("thing 2."));
    // As when a machine is suspended, and much happens meanwhile.
    watch.signal_group(Signal::STOP);
    hub.kill();
    hub.restart();
    hand_over("do the second");
    watch.signal_group(Signal::CONT);
    watch.wait_for_output(|output| output.contains("next:    do the second"));
    say(&alice, "thing 3.");
    let said = watch.wait_for_output(|output| output.contains("thing 3."));
    assert_eq!(said.matches("HANDOFF TO YOU").count(), 2, "{said}");
    for once in ["thing 1.", "thing 2.", "thing 3."] {
        assert_eq!(said.matches(once).count(), 1, "{said}");
    }
    interrupt(watch);

    // What came before the last was acknowledged before that was printed.
    let unread = bob.parler("recv --room watched --json").success().json();
    let unread = unread["messages"].as_array().unwrap();
    assert!(unread.iter().all(|message| message["seq"] == 5), "{unread:?}");
    let watch = bob.start_parler("recv --room watched --watch --since 1 --json");
    watch.wait_for_output(|output| lines(output).len() == 4);
    hand_over("do the third");
    let said = watch.wait_for_output(|output| lines(output).len() == 5);
    let said = lines(&said);
    let numbers: Vec<_> = said.iter().map(|message| message["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [2, 3, 4, 5, 6]);
    assert_eq!(said[4]["handoff"]["next"], "do the third");
    assert_eq!(
        (&said[4]["signature"], said[3].get("handoff")),
        (&Value::from("valid"), None)
    );
    interrupt(watch);
}

#[test]
fn a_watcher_ends_when_nobody_reads_or_the_room_is_not_its_own() {
    let world = world();
    let hub = hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    alice.parler("invite --group watched").success();
    say(&alice, "thing 1.");
    let piped = "git parler recv --room watched --watch --since 0 --json | head -n 1; echo done";
    let pipe = alice.start("sh", ["-c", piped]);
    pipe.wait_for_output(|output| output.contains("thing 1."));
    say(&alice, "thing 2.");
    let ended = pipe.wait().success();
    ended.says("done").warns_no("panicked").warns_no("parler:");

    let stranger = world.stranger("stranger").on(&hub);
    stranger.parler("recv --room watched --watch").code(3).one_error_line();
    alice.parler("recv --room watched --watch --limit 1").code(2);
}

#[test]
fn an_inbox_that_waits_outlives_its_hub_and_says_when_nothing_came() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let (alice, bob) = (world.stranger("alice").on(&hub), world.stranger("bob").on(&hub));
    let code = alice.parler("invite --group watched").success().word().to_owned();
    bob.parler(["join", &code]).success();
    let nothing = bob.parler("inbox --wait 1s --json").code(3);
    assert_eq!(nothing.json()["handoffs"], serde_json::json!([]));
    bob.parler("inbox --wait soon").code(2);
    let waiting = bob.start_parler("inbox --wait 1h");
    hub.kill();
    waiting.wait_for_errors(|said| said.contains("waiting for it"));
    hub.restart();
    // What is for nobody in particular wakes nobody.
    say(&alice, "hello all");
    let handoff = ["handoff", "--room", "watched", "--for", "bob", "--next", "look"];
    alice.parler(handoff).success();
    let told = waiting.wait().success();
    told.says("HANDOFFS TO YOU").says("look");
    // It acknowledged nothing.
    bob.parler("recv --room watched").success().says("hello all");
}
