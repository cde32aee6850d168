//! What reaches a reader: what is for it first, nothing lost, nothing acknowledged that it was not given, and no nagging
//! about what it has read.

use std::io::Read;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use parler_harness::{Agent, Answer, LocalHub, RawClient, World, look_for};
use parler_protocol::{Draft, HandoffPart, Part, RoomName, Seq, TaskPart, TaskStatus, TextPart};
use rustix::io::ioctl_fionread;

use super::world;

fn room() -> RoomName {
    "talk".parse().unwrap()
}

fn text(text: &str) -> Part {
    TextPart { text: text.into() }.into()
}

fn handoff(next: &str, to: &str) -> Part {
    HandoffPart {
        next: next.into(),
        to: Some(to.into()),
        ..HandoffPart::default()
    }
    .into()
}

/// A room that bob has read to its end, and somebody who speaks in it quickly.
fn talk(world: &World) -> (Agent<'_>, RawClient) {
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    alice.parler("invite --group talk").success();
    bob.parler("recv --room talk").success();
    let ada = LocalHub::of(&alice).raw_client("ada");
    (bob, ada)
}

fn post(from: &RawClient, parts: Vec<Part>) -> Seq {
    from.post(&room(), parts).unwrap().seq
}

/// The numbers of the messages that are shown whole.
fn numbers(answer: &Answer) -> Vec<u64> {
    let number = |line: &str| {
        let rest = line.strip_prefix("message ").or_else(|| {
            line.split_once("HANDOFF TO YOU from ")?
                .1
                .split_once(" · message ")
                .map(|(_, rest)| rest)
        })?;
        rest.split(' ').next()?.parse().ok()
    };
    answer.out().lines().filter_map(number).collect()
}

#[test]
fn a_long_backlog_is_led_by_its_handoff_and_loses_nothing() {
    let world = world();
    let (bob, ada) = talk(&world);
    for number in 1..=400 {
        let parts = match number {
            200 => vec![handoff("look at this first", "bob"), text("and mind the step")],
            _ => vec![text(&format!("thing {number}."))],
        };
        post(&ada, parts);
    }
    let recv = bob.parler("recv --room talk").success();
    let lines: Vec<_> = recv.out().lines().collect();
    assert!(lines.len() < 200, "{} lines", lines.len());
    assert!(
        lines[0].starts_with("HANDOFF TO YOU from ada · message 200 "),
        "{recv:?}"
    );
    recv.says("  next:    look at this first")
        .says("│ and mind the step")
        .says("thing 400.");
    // What is left out is named, and the commands show exactly that.
    let shown = numbers(&recv);
    assert!(shown.len() > 20, "{shown:?}");
    recv.says(&format!("left out: {} messages, ", 400 - shown.len()));
    let mut all = shown;
    for command in lines.iter().filter_map(|line| line.strip_prefix("  git parler log ")) {
        let log = bob.parler(format!("log {command}")).success();
        all.extend(numbers(&log));
    }
    // A range ends where a shown message stands, so none is shown twice either.
    all.sort_unstable();
    assert_eq!(all, (1..=400).collect::<Vec<_>>());
    // It was accounted for, and is not told again.
    bob.parler("recv --room talk").success().warns("nothing new in 'talk'");
    let whole = bob.parler("recv --room talk --all").success();
    assert_eq!(numbers(&whole), (1..=400).collect::<Vec<_>>());
    let json = world.agent("carol").parler("recv --room talk --json").success().json();
    assert_eq!(
        json["messages"].as_array().unwrap().len(),
        400,
        "JSON is never a digest"
    );
}

/// A second is for a release build of the programs.
#[test]
#[ignore = "posts 10,000 messages: cargo test --release -p parler-git --test end_to_end ten_thousand -- --ignored --nocapture"]
fn ten_thousand_messages_are_read_in_well_under_a_second() {
    let world = world();
    let (bob, ada) = talk(&world);
    let head = ada.head(&room());
    for number in 1..=10_000 {
        let part = match number {
            5_000 => handoff("look at this first", "bob"),
            _ => text(&format!("thing {number}.")),
        };
        let signed = ada.sign(&room(), &head, vec![part]);
        ada.calls.post(&room(), &signed, None, None).unwrap();
    }
    let begun = Instant::now();
    let recv = bob.parler("recv --room talk").success();
    let took = begun.elapsed();
    println!(
        "recv of 10,000 messages: {took:?}, {} lines",
        recv.out().lines().count()
    );
    assert!(cfg!(debug_assertions) || took < Duration::from_secs(1), "{took:?}");
    assert!(recv.out().starts_with("HANDOFF TO YOU from ada · message 5000 "));
    assert!(recv.out().lines().count() < 200);
    let all = bob.parler("recv --room talk --all").success();
    assert_eq!(numbers(&all), (1..=10_000).collect::<Vec<_>>());
}

#[test]
fn many_handoffs_do_not_fill_the_screen() {
    let world = world();
    let (bob, ada) = talk(&world);
    for number in 1..=120 {
        post(&ada, vec![handoff(&format!("step {number}\nof many\nand more"), "BOB")]);
    }
    let recv = bob.parler("recv --room talk").success();
    assert!(recv.out().lines().count() < 200, "{recv:?}");
    assert!(
        recv.out().starts_with("HANDOFF TO YOU from ada · message 120 "),
        "the newest first: {recv:?}"
    );
    let whole = numbers(&recv);
    assert!(whole.len() > 5 && whole.is_sorted_by(|a, b| a > b), "{whole:?}");
    let next = whole.last().unwrap() - 1;
    recv.says(&format!(
        "handoff {next} from ada: step {next} .. · git parler show {next} --room talk"
    ));
    recv.says(" handoffs to you among what is left out")
        .says("left out: ")
        .says("git parler log --reverse --since 0 ");
    let one = bob.parler(format!("show {next} --room talk")).success();
    one.says("HANDOFF TO YOU").says("│ and more");
}

#[test]
fn own_messages_are_no_news_and_mentions_come_before_the_rest() {
    let world = world();
    let (bob, ada) = talk(&world);
    let carol = world.agent("carol");
    post(&ada, vec![text("first")]);
    bob.parler(["send", "--room", "talk", "of my own"]).success();
    carol
        .parler(["send", "--room", "talk", "--mention", "Bob", "what do you think?"])
        .success();
    post(&ada, vec![text("last")]);
    let recv = bob.parler("recv --room talk").success();
    assert_eq!(numbers(&recv), [3, 1, 4], "{recv:?}");
    recv.says_no("of my own");
    bob.parler(["send", "--room", "talk", "again"]).success();
    bob.parler("recv --room talk")
        .success()
        .warns("nothing new")
        .says_no("again");
    let json = bob.parler("recv --room talk --json").success().json();
    assert_eq!(json["messages"], serde_json::json!([]));
    for options in ["--all", "--since 0"] {
        let all = bob.parler(format!("recv --room talk {options}")).success();
        assert_eq!(numbers(&all), [1, 2, 3, 4, 5], "{options}");
    }
    // Somebody who writes in bob's name is not bob.
    let limited = carol.parler("recv --room talk --limit 2").success();
    assert_eq!(numbers(&limited), [1, 2]);
}

#[test]
fn what_was_revised_or_finished_is_a_line() {
    let world = world();
    let (bob, ada) = talk(&world);
    let first = post(&ada, vec![handoff("the old plan", "bob")]);
    let revised = HandoffPart {
        next: "the new plan".into(),
        to: Some("bob".into()),
        revises: Some(first),
        ..HandoffPart::default()
    };
    let second = post(&ada, vec![revised.into()]);
    let draft = Draft::new(vec![handoff("for anybody", "builder")]);
    let signed = ada.sign_draft(&room(), &ada.head(&room()), &draft);
    let third = ada.calls.post(&room(), &signed, None, None).unwrap().seq;
    let open = HandoffPart {
        next: "who has time?".into(),
        ..HandoffPart::default()
    };
    let draft = Draft::new(vec![open.into()]);
    let signed = ada.sign_draft(&room(), &ada.head(&room()), &draft);
    let open = ada.calls.post(&room(), &signed, None, None).unwrap().seq;
    let carol = LocalHub::of(&bob).raw_client("carol");
    let done = TaskPart {
        status: TaskStatus::Done,
        task: Some(draft.id.to_string()),
        note: None,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    let receipt = post(&carol, vec![done.into()]);
    let recv = bob.parler("recv --room talk").success();
    assert!(
        recv.out()
            .starts_with(&format!("HANDOFF TO YOU from ada · message {second} ")),
        "{recv:?}"
    );
    recv.says("the new plan")
        .says_no("the old plan")
        .says_no("who has time?");
    recv.says(&format!("handoff {first} from ada: superseded by message {second}\n"));
    recv.says(&format!(
        "handoff {open} from ada: done by carol in message {receipt}\n"
    ));
    assert!(
        numbers(&recv).contains(&third.get()),
        "another's handoff is a message: {recv:?}"
    );
    // Both are there for who asks.
    bob.parler(format!("show {first} --room talk"))
        .success()
        .says("the old plan");
}

/// A command of bob's whose output goes into a pipe that the test reads when it likes.
fn piped(bob: &Agent<'_>, arguments: &str) -> Command {
    let mut command = bob.command("git-parler", arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits until so many bytes are in a pipe, without reading them.
#[track_caller]
fn wait_for(pipe: &ChildStdout, bytes: u64) {
    look_for(
        || (ioctl_fionread(pipe).unwrap() >= bytes).then_some(()),
        || "it does not print".to_owned(),
    );
}

#[test]
fn a_reader_that_dies_after_printing_is_told_again() {
    let world = world();
    let (bob, ada) = talk(&world);
    let offered = world.parler_home().join("state/offered");
    assert!(!offered.exists(), "nothing new is nothing shown");
    post(&ada, vec![handoff("do not forget me", "bob")]);
    let mut recv = piped(&bob, "recv --room talk").spawn().unwrap();
    let mut stdout = recv.stdout.take().unwrap();
    let whole = "HANDOFF TO YOU from ada · message 1 · signature valid\n  next:    do not forget me\n\n";
    // It has printed, and waits for its reader before it acknowledges.
    wait_for(&stdout, whole.len() as u64);
    recv.kill().unwrap();
    recv.wait().unwrap();
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).unwrap();
    assert_eq!(printed, whole);

    let again = bob.parler("recv --room talk --json").success();
    assert_eq!(again.json()["offered"], 1);
    assert_eq!(again.json()["handoffs"][0]["seq"], 1);
    let quiet = bob.parler("recv --room talk").success();
    quiet.warns("nothing new").warns_no("shown before");

    post(&ada, vec![text("more")]);
    let mut recv = piped(&bob, "recv --room talk").spawn().unwrap();
    let mut stdout = recv.stdout.take().unwrap();
    wait_for(&stdout, 50);
    let mut byte = [0];
    stdout.read_exact(&mut byte).unwrap();
    drop(stdout);
    assert!(recv.wait().unwrap().success(), "a reader that goes away is no failure");
    let again = bob.parler("recv --room talk").success();
    again.says("more").warns("up to message 2 this was shown before");
    bob.parler("recv --room talk")
        .success()
        .warns("nothing new")
        .warns_no("shown before");
}

/// More than `head` reads at once, so that what it leaves in the pipe is left there for certain.
#[test]
fn a_closed_pipe_acknowledges_nothing() {
    let world = world();
    let (bob, ada) = talk(&world);
    for number in 1..=60 {
        post(&ada, vec![text(&format!("thing {number}. {}", "x".repeat(300)))]);
    }
    for command in [
        "git parler recv --room talk | head -1",
        "git-parler recv --room talk --limit 50 | head -1",
        "git-parler recv --room talk --json | head -c 100",
    ] {
        let first = bob.run("sh", ["-c", command]).success();
        assert!(!first.out().is_empty(), "{first:?}");
        first.warns_no("panicked");
    }
    assert_eq!(bob.parler("rooms --json").success().json()["rooms"][0]["unread"], 60);
    let all = bob.run("sh", ["-c", "git parler recv --room talk | cat"]).success();
    assert!(numbers(&all).contains(&60));
    bob.parler("recv --room talk").success().warns("nothing new");
}

/// A terminal of its own for a command.
fn on_a_terminal(agent: &Agent<'_>, command: &str) -> Answer {
    agent.run("script", ["-qec", command, "/dev/null"]).success()
}

#[test]
fn a_pager_shows_long_results_as_git_has_it() {
    let world = world();
    let (bob, ada) = talk(&world);
    for number in 1..=60 {
        post(&ada, vec![text(&format!("thing {number}. {}", "x".repeat(300)))]);
    }
    let bob = bob.with("TERM", "xterm").without("GIT_PAGER").without("PAGER");
    let pages = |agent: &Agent<'_>, command: &str| on_a_terminal(agent, command).out().contains("paged: ");
    let paged = r"sed -e 's/^/paged: /'";
    let log = "git parler log -n 2 --room talk";
    assert!(pages(&bob.with("GIT_PAGER", paged).with("PAGER", "false"), log));
    assert!(pages(&bob.with("PAGER", paged), log));
    assert!(!pages(&bob.with("GIT_PAGER", "cat").with("PAGER", paged), log));
    assert!(!pages(
        &bob.with("PAGER", paged),
        "git parler --no-pager log -n 2 --room talk"
    ));
    assert!(
        !pages(&bob.with("PAGER", paged), "git parler rooms"),
        "a short list needs none"
    );
    assert!(!pages(
        &bob.with("PAGER", paged),
        "git parler log -n 2 --json --room talk"
    ));
    assert!(
        !bob.with("PAGER", paged)
            .parler("log -n 2 --room talk")
            .success()
            .out()
            .contains("paged: ")
    );
    // A pager of one's own, and none.
    bob.git(["config", "--global", "core.pager", paged]).success();
    assert!(pages(&bob.with("PAGER", "false"), "git-parler log -n 2 --room talk"));
    bob.git("config --global pager.parler false").success();
    assert!(!pages(&bob, "git-parler log -n 2 --room talk"));
    bob.git("config --global --unset pager.parler").success();
    let refused = bob
        .with("GIT_PAGER", "less 'x")
        .run("script", ["-qec", log, "/dev/null"])
        .code(2);
    refused.says("a quotation mark is not closed");
    // A pager that cannot be started is no reason to show nothing.
    let shown = on_a_terminal(&bob.with("GIT_PAGER", "no-such-pager"), log);
    shown.says("thing 60.");

    // Whoever leaves a pager early has not been shown it all.
    on_a_terminal(&bob.with("GIT_PAGER", "head -c 100"), "git-parler recv --room talk").says("message ");
    assert_eq!(bob.parler("rooms --json").success().json()["rooms"][0]["unread"], 60);
    assert!(pages(&bob, "git-parler recv --room talk"));
    bob.parler("recv --room talk").success().warns("nothing new");
}

#[test]
fn the_log_is_read_from_either_end() {
    let world = world();
    let (bob, ada) = talk(&world);
    for number in 1..=250 {
        post(&ada, vec![text(&format!("thing {number}."))]);
    }
    let log = |options: &str| numbers(&bob.parler(format!("log --room talk {options}")).success());
    assert_eq!(log(""), (1..=250).rev().collect::<Vec<_>>());
    assert_eq!(log("--reverse"), (1..=250).collect::<Vec<_>>());
    assert_eq!(log("-n 3"), [250, 249, 248]);
    assert_eq!(log("--since 248"), [250, 249]);
    assert_eq!(log("--reverse --since 100 --limit 3"), [101, 102, 103]);
    let json = bob.parler("log --room talk -n 2 --json").success().json_lines();
    assert_eq!((&json[0]["seq"], &json[1]["seq"]), (&250.into(), &249.into()));
    assert_eq!(json[0]["signature"], "valid");
    bob.parler("log --room talk --since 250")
        .success()
        .warns("nothing in 'talk' after message 250");
    bob.parler("log --room nowhere").code(3).one_error_line();
    bob.parler("log --room talk --since x").code(2).one_error_line();
    assert_eq!(
        bob.parler("rooms --json").success().json()["rooms"][0]["unread"],
        250,
        "it acknowledges nothing"
    );
}

#[test]
fn the_inbox_gathers_what_waits_in_all_rooms() {
    let world = world();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    bob.parler("inbox").success().warns("nothing new in any room");
    for room in ["one", "two", "three"] {
        alice.parler(["invite", "--group", room]).success();
        bob.parler(["recv", "--room", room]).success();
    }
    alice
        .parler(["handoff", "--room", "two", "--for", "bob", "--next", "review\nit"])
        .success();
    alice
        .parler(["handoff", "--room", "two", "--for", "carol", "--next", "not for bob"])
        .success();
    alice
        .parler(["send", "--room", "one", "--mention", "bob", "seen this?"])
        .success();
    bob.parler(["send", "--room", "one", "of my own"]).success();
    bob.parler(["send", "--room", "three", "of my own"]).success();
    let hub = LocalHub::of(&bob);
    let mark = hub.log().mark();
    let inbox = bob.parler("inbox").success();
    let asked = hub.log().since(mark);
    assert!(asked.len() <= 2 + 3, "{asked:?}");
    assert!(
        asked.iter().all(|call| call.starts_with("GET ")),
        "it acknowledges nothing: {asked:?}"
    );
    let expected = "\
HANDOFFS TO YOU
  two · message 1 from alice: review ..
    git parler show 1 --room two
MENTIONS OF YOU
  one · message 1 from alice: seen this?
    git parler show 1 --room one
one  1 unread · 1 mention · git parler recv --room one
two  2 unread · 1 handoff · git parler recv --room two
";
    assert_eq!(inbox.out(), expected);
    let json = bob.parler("inbox --json").success().json();
    assert_eq!(json["handoffs"][0]["command"], "git parler show 1 --room two");
    assert_eq!(json["handoffs"][0]["next"], "review\nit");
    assert_eq!(json["mentions"][0]["room"], "one");
    assert_eq!(json["rooms"][1]["unread"], 2);
    assert_eq!(json["waiting"], 0);
    // The list of rooms counts as the inbox does.
    let rooms = bob.parler("rooms --json").success().json();
    let unread = rooms["rooms"].as_array().unwrap().iter().map(|room| &room["unread"]);
    assert_eq!(unread.collect::<Vec<_>>(), [1, 0, 2], "{rooms:#}");
    bob.parler("recv --room two").success();
    let inbox = bob.parler("inbox").success();
    inbox.says_no("HANDOFFS").says_no("two").says("one  1 unread");
}
