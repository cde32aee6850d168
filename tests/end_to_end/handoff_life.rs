//! The life of a handoff: two agents in two work trees hand a branch back and forth, and each step is told as it is taken.

use std::ffi::OsString;

use parler_harness::{Agent, Cut, CuttingProxy, Repository, World};
use serde_json::Value;

use super::{hub_server, world};

/// Two work trees of one repository, an agent in each.
pub(super) struct Desk<'w> {
    pub(super) alices: Repository<'w>,
    pub(super) bobs: Repository<'w>,
    pub(super) alice: Agent<'w>,
    pub(super) bob: Agent<'w>,
}

impl<'w> Desk<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let alices = world.clone_of(&world.origin(), "desk");
        alices.git("worktree add --quiet --detach ../bobs").success();
        let bobs = world.repository(world.path().join("bobs"));
        let (alice, bob) = (alices.user(), bobs.user());
        alice.parler("connect --as alice --role planner").success();
        bob.parler("connect --as bob --role reviewer").success();
        alices.git("config parler.room try").success();
        alices.git("remote add team parler::room/try").success();
        alices.git("switch --quiet -c feature").success();
        Self {
            alices,
            bobs,
            alice,
            bob,
        }
    }
}

fn arguments(words: &[&str]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

/// Posts a handoff without code, and gives its number.
fn hand_over(agent: &Agent<'_>, options: &str) -> String {
    let mut words = vec!["handoff", "--json", "--next", "look at it"];
    words.extend(options.split_whitespace());
    let posted = agent.parler(arguments(&words)).success().json();
    posted["seq"].to_string()
}

fn status(agent: &Agent<'_>, number: &str) -> Value {
    agent.parler(["status", number, "--json"]).success().json()
}

/// The one reader that the handoff is for.
fn addressed(ladder: &Value) -> Value {
    let readers = ladder["readers"].as_array().unwrap();
    let mut those = readers.iter().filter(|reader| reader["addressed"] == true);
    let one = those.next().unwrap_or_else(|| panic!("nobody: {ladder:#}")).clone();
    assert!(those.next().is_none(), "{ladder:#}");
    one
}

/// What was said of it, in order.
fn said(ladder: &Value) -> Vec<&str> {
    let receipts = ladder["receipts"].as_array().unwrap();
    receipts
        .iter()
        .map(|receipt| receipt["status"].as_str().unwrap())
        .collect()
}

/// The number of the one open handoff from this agent.
#[track_caller]
fn only_open(agent: &Agent<'_>) -> String {
    let open = agent.parler("status --json").success().json();
    let mine = open["fromMe"].as_array().unwrap();
    assert_eq!(mine.len(), 1, "{open:#}");
    mine[0]["seq"].to_string()
}

/// One turn: `from` pushes with a handoff, `to` takes it through every step, and `from` sees each as it is taken.
fn turn(from: (&Agent<'_>, &Repository<'_>), to: (&Agent<'_>, &Repository<'_>), name: &str, round: usize) -> String {
    let ((giver, tree), (taker, other)) = (from, to);
    let tip = tree.commit(&format!("for-{name}-{round}.txt"), &format!("round {round}\n"));
    let (next, whom) = (format!("next=look at round {round}"), format!("for={name}"));
    let push = [
        "push",
        "-o",
        &whom,
        "-o",
        &next,
        "-o",
        "summary=tests green",
        "team",
        "HEAD:refs/heads/feature",
    ];
    tree.git(push).success().warns("handed over to");
    let number = only_open(giver);

    let stored = status(giver, &number);
    assert_eq!((&stored["state"], &stored["by"]), (&"open".into(), &Value::Null));
    let reader = addressed(&stored);
    assert_eq!(reader["name"], name);
    assert_eq!(
        (&reader["acknowledged"], &reader["fetched"]),
        (&false.into(), &false.into())
    );
    assert_eq!(stored["work"]["commits"], 1, "{stored:#}");
    assert_eq!(
        (&stored["work"]["files"], &stored["work"]["insertions"]),
        (&1.into(), &1.into())
    );
    assert_eq!(stored["work"]["dirty"], false);

    let wait = |step: &str| giver.start_parler(["status", &number, "--wait", step, "--timeout", "1h", "--json"]);
    let [acknowledged, fetched, accepted, done] = ["acknowledged", "fetched", "accepted", "done"].map(wait);

    let recv = taker.parler("recv").success();
    assert!(recv.out().starts_with("HANDOFF TO YOU from "), "{recv:?}");
    recv.says(&format!("look at round {round}"))
        .says("work:    1 commit, 1 file, +1 -0");
    let told = acknowledged.wait().success().json();
    assert_eq!(addressed(&told)["acknowledged"], true, "{told:#}");
    assert_eq!((&told["state"], said(&told).len()), (&"open".into(), 0));

    let applied = taker.parler(["apply", &number, "--json"]).success().json();
    assert_eq!(applied["oid"], tip);
    let told = fetched.wait().success().json();
    assert_eq!(addressed(&told)["fetched"], true, "{told:#}");
    assert!(addressed(&told)["fetchedAt"].is_i64());

    taker
        .parler(["accept", &number])
        .success()
        .says(&format!("accepted message {number}"));
    let told = accepted.wait().success().json();
    assert_eq!(
        (&told["state"], &told["by"]["name"]),
        (&"accepted".into(), &name.into())
    );
    assert_eq!(said(&told), ["accepted"]);
    other
        .git(["merge", "--quiet", "--ff-only", applied["ref"].as_str().unwrap()])
        .success();
    assert_eq!(other.rev("HEAD"), tip);

    taker.parler(["done", &number, "--note", "merged"]).success();
    let told = done.wait().success().json();
    assert_eq!((&told["state"], &told["reached"]), (&"done".into(), &true.into()));
    assert_eq!(said(&told), ["accepted", "done"]);
    assert_eq!(told["receipts"][1]["note"], "merged");
    assert_eq!(
        giver.parler("status --json").success().json()["fromMe"],
        serde_json::json!([])
    );
    number
}

#[test]
fn a_branch_goes_back_and_forth_three_times_and_every_step_is_told() {
    let world = world();
    let desk = Desk::new(&world);
    // The taker has to be in the room before it can be a reader.
    desk.alice.parler("invite --group try").success();
    desk.bob.parler("recv").success();
    desk.bobs.git("switch --quiet --detach feature").success();
    let mut numbers = Vec::new();
    for round in 1..=3 {
        numbers.push(turn((&desk.alice, &desk.alices), (&desk.bob, &desk.bobs), "bob", round));
        numbers.push(turn(
            (&desk.bob, &desk.bobs),
            (&desk.alice, &desk.alices),
            "alice",
            round,
        ));
    }
    // The first is as it was told then: what came to its end is not revised by the next push of the branch.
    let first = status(&desk.alice, &numbers[0]);
    assert_eq!(
        (&first["state"], &first["supersededBy"]),
        (&"done".into(), &Value::Null)
    );
    let shown = desk.alice.parler(["status", &numbers[0]]).success();
    shown.says("handoff to bob from alice (planner) · done");
    shown
        .says("acknowledged: bob")
        .says("fetched:      bob ")
        .says("accepted:     bob (reviewer) ");
    shown
        .says(": merged")
        .says("wake:         bob (reviewer): none: has read it, and will see what comes next at its next recv");
    assert_eq!(desk.alices.rev("HEAD"), desk.bobs.rev("HEAD"));
    assert_eq!(
        desk.alices.git("log --format=%s").success().out().lines().count(),
        3 + 6
    );
}

/// The wait for another end goes on over the steps between, and what it tells is how things were when it ended.
#[test]
fn a_wait_ends_with_the_step_or_with_another_end() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let (alice, bob) = (world.stranger("alice").on(&hub), world.stranger("bob").on(&hub));
    let code = alice.parler("invite --group try").success().word().to_owned();
    bob.parler(["join", &code]).success();
    let (alice, bob) = (alice.with("PARLER_ROOM", "try"), bob.with("PARLER_ROOM", "try"));
    let number = hand_over(&alice, "--for bob");
    let done = alice.start_parler(["status", &number, "--wait", "done", "--json"]);
    let accepted = alice.start_parler(["status", &number, "--wait", "accepted", "--json"]);
    bob.parler(["accept", &number]).success();
    assert_eq!(said(&accepted.wait().success().json()), ["accepted"]);
    // The hub goes away and comes back: the wait goes on.
    hub.kill();
    hub.restart();
    bob.parler(["fail", &number, "--note", "no compiler here"]).success();
    let ended = done.wait().code(1);
    assert!(ended.one_error_line().contains("is failed, not done"), "{ended:?}");
    let told = ended.json();
    assert_eq!(
        (said(&told), &told["reached"]),
        (vec!["accepted", "failed"], &false.into())
    );

    // A later accept takes it up again.
    bob.parler(["accept", &number]).success();
    bob.parler(["done", &number]).success();
    alice
        .parler(["status", &number, "--wait", "accepted"])
        .success()
        .says("· done");
    assert_eq!(said(&status(&alice, &number)).len(), 4);

    let open = hand_over(&alice, "--for bob");
    alice
        .parler(["status", &open, "--wait", "done", "--timeout", "1s"])
        .code(3)
        .warns("is not done yet");
    bob.parler(["decline", &open, "--note", "no time"]).success();
    alice
        .parler(["status", &open, "--wait", "done"])
        .code(1)
        .says("declined:     bob ")
        .says(": no time");
    alice.parler(["status", &open, "--wait", "declined"]).success();
    let revised = hand_over(&alice, "--for bob");
    let waits = alice.start_parler(["status", &revised, "--wait", "done"]);
    let newer = hand_over(&alice, &format!("--for bob --revises {revised}"));
    let ended = waits.wait().code(1);
    assert!(
        ended.one_error_line().ends_with(&format!("git parler status {newer}")),
        "{ended:?}"
    );

    // Who watches is woken.
    let watch = bob.start_parler("recv --watch");
    watch.wait_for_output(|output| output.contains(&format!("message {newer}")));
    // What was there is printed before the stream is open.
    let is_watching = |_| {
        let ladder = alice.parler(["status", &newer]).success();
        ladder.out().contains("bob: watching now (recv --watch)")
    };
    assert!((0..500).any(is_watching));
    super::watching::interrupt(watch);
    for (words, code) in [
        (&["status", "99"] as &[&str], 3),
        (&["status", "abcd"], 3),
        (&["status", "x"], 2),
        (&["status", "0"], 2),
        (&["status", "--wait", "done"], 2),
        (&["status", "1", "--wait", "merged"], 2),
        (&["status", "1", "--timeout", "1s"], 2),
        (&["status", "1", "--wait", "done", "--timeout", "soon"], 2),
    ] {
        alice.parler(arguments(words)).code(code).one_error_line();
    }
}

#[test]
fn only_those_it_is_for_answer_a_handoff() {
    let world = world();
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| world.agent(name).with("PARLER_ROOM", "try"));
    alice.parler("invite --group try").success();
    let say = |text: &str| alice.parler(["send", text]).success();
    say("no handoff");
    let number = hand_over(&alice, "--for bob");
    let refused = |agent: &Agent<'_>, command: &[&str], code: i32, words: &str| {
        let refused = agent.parler(arguments(command)).code(code);
        assert!(refused.one_error_line().contains(words), "{refused:?}");
    };
    refused(&alice, &["accept", &number], 7, "is your own handoff");
    refused(&carol, &["accept", &number], 7, "is for bob, and you are carol");
    let named = carol.without("PARLER_ROOM");
    for (command, next) in [
        (
            vec!["accept", &number, "--room", "try"],
            format!("git parler show {number} --room try"),
        ),
        (
            vec!["accept", "99", "--room", "try"],
            "git parler status --room try".to_owned(),
        ),
    ] {
        let refused = named.parler(arguments(&command)).either();
        assert!(refused.one_error_line().ends_with(&next), "{refused:?}");
    }
    refused(&carol, &["cancel", &number], 7, "is alice's to call off");
    refused(&bob, &["decline", &number], 2, "decline says why; add --note TEXT");
    refused(&bob, &["fail", &number], 2, "fail says why");
    refused(&bob, &["accept", "1"], 3, "is no handoff");
    refused(&bob, &["accept", "99"], 3, "no message 99");
    refused(
        &alice,
        &["handoff", "--next", "x", "--revises", "1"],
        3,
        "is no handoff",
    );
    refused(
        &alice,
        &["handoff", "--next", "x", "--revises", "me"],
        2,
        "--revises 'me'",
    );
    refused(
        &bob,
        &["handoff", "--next", "x", "--revises", &number],
        7,
        "is a handoff of alice, not yours",
    );
    let log = alice.parler("recv --all --json").success().json();
    assert_eq!(
        log["messages"].as_array().unwrap().len(),
        2,
        "nothing was posted: {log:#}"
    );

    // Said twice it is said once.
    let first = bob.parler(["accept", &number, "--json"]).success().json();
    let again = bob.parler(["accept", &number, "--json"]).success().json();
    assert_eq!((&again["seq"], &again["repeated"]), (&first["seq"], &true.into()));
    let message = &alice
        .parler(["show", &first["seq"].to_string(), "--json"])
        .success()
        .json();
    assert_eq!(
        (&message["replyTo"], &message["mentions"]),
        (&first["task"], &serde_json::json!(["alice"]))
    );

    let newer = hand_over(&alice, &format!("--for bob --revises {number}"));
    refused(&bob, &["done", &number], 6, "was revised by its author");
    let ladder = status(&alice, &newer);
    assert_eq!(ladder["supersedes"].to_string(), format!("[{number}]"));
    assert_eq!(status(&alice, &number)["newest"].to_string(), newer);
    let open = alice.parler("status").success();
    open.says(&format!("message {newer} from alice to bob"))
        .says_no(&format!("message {number} "));
    bob.parler("status").success().says("to you").says("look at it");
    carol.parler("status").success().says("1 open handoff between others");
    alice.parler(["cancel", &newer, "--note", "not needed"]).success();
    refused(&bob, &["accept", &newer], 6, "was called off by alice");
    bob.parler("status").success().warns("no handoff is open");

    // For anybody: some take it, others do not.
    let shared = hand_over(&alice, "");
    bob.parler(["accept", &shared]).success();
    carol
        .parler(["decline", &shared, "--note", "bob has it"])
        .success()
        .warns("bob has said accepted");
    let ladder = status(&alice, &shared);
    assert_eq!(
        (&ladder["state"], &ladder["contested"]),
        (&"accepted".into(), &true.into())
    );
    assert_eq!(ladder["by"]["name"], "bob");
    // What is too long for a ladder is named with the room.
    let long = vec!["line"; 50].join("\n");
    let long = alice
        .parler(["handoff", "--for", "bob", "--json", "--next", &long])
        .success();
    let long = long.json()["seq"].to_string();
    let ladder = named.parler(["status", &long, "--room", "try"]).success();
    ladder.says(&format!("git parler show {long} --room try\n"));
}

#[test]
fn results_are_pushed_and_pushes_revise_what_is_open() {
    let world = world();
    let desk = Desk::new(&world);
    desk.alices.commit("a.txt", "one\n");
    desk.alices
        .git("push --quiet -o next=look -o for=bob team feature")
        .success();
    let first = only_open(&desk.alice);
    assert_eq!(status(&desk.alice, &first)["work"]["base"], "origin/main");
    desk.bob.parler("recv").success();
    // Again, with changes that are not committed: the newer takes the place of the one that is open.
    desk.alices.commit("b.txt", "two\n");
    desk.alices.write("b.txt", "three\n");
    desk.alices
        .git("push --quiet -o next=look-again -o for=bob team feature")
        .success();
    let second = only_open(&desk.alice);
    assert_ne!(first, second);
    let ladder = status(&desk.alice, &second);
    assert_eq!(ladder["supersedes"].to_string(), format!("[{first}]"));
    assert_eq!(
        (&ladder["work"]["dirty"], &ladder["work"]["base"]),
        (&true.into(), &"feature".into())
    );
    let recv = desk.bob.parler("recv").success();
    recv.says("work:    1 commit, 1 file, +1 -0 on feature; sender's tree had uncommitted changes");

    // By the bundle's id, with a commit of one's own as the result, in one message.
    let id = ladder["bundle"].as_str().unwrap()[..12].to_owned();
    let applied = desk.bob.parler(["apply", &id, "--json"]).success().json();
    desk.bobs
        .git(["switch", "--quiet", "-c", "fix", applied["oid"].as_str().unwrap()])
        .success();
    let fix = desk.bobs.commit("c.txt", "fixed\n");
    let done = desk
        .bob
        .parler(["done", &id, "--bundle", "fix", "--note", "with a fix", "--json"])
        .success()
        .json();
    let message = desk
        .alice
        .parler(["show", &done["seq"].to_string(), "--json"])
        .success()
        .json();
    let kinds: Vec<_> = message["parts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["kind"].clone())
        .collect();
    assert_eq!(kinds[..3], ["com.parler.bundle", "com.parler.refs", "com.parler.task"]);
    let ladder = status(&desk.alice, &second);
    assert_eq!(
        (&ladder["state"], &ladder["receipts"][0]["result"]),
        (&"done".into(), &done["bundleId"])
    );
    let result = ladder["receipts"][0]["result"].as_str().unwrap();
    let applied = desk.alice.parler(["apply", &result[..12], "--json"]).success().json();
    assert_eq!(applied["oid"], fix);

    // The whole history, and no work tree.
    let bare = world.clone_with(world.path().join("origin.git"), "bare.git", "--bare");
    bare.git("push --quiet -o next=look parler::room/whole main").success();
    let posted = bare.user().parler("status 1 --room whole --json").success().json();
    assert_eq!(posted["work"]["dirty"], Value::Null, "{posted:#}");
    assert!(posted["work"].get("base").is_none());
    assert_eq!(
        posted["work"]["commits"].as_u64(),
        Some(bare.git("log --format=%H").success().out().lines().count() as u64)
    );
}

#[test]
fn a_receipt_by_itself_names_the_handoff_and_whose_it_is() {
    let world = world();
    let [alice, bob] = ["alice", "bob"].map(|name| world.agent(name).with("PARLER_ROOM", "try"));
    alice.parler("connect --role planner").success();
    alice.parler("invite --group try").success();
    bob.parler("recv").success();
    let number = hand_over(&alice, "--for bob");
    alice.parler("recv").success();
    bob.parler(["accept", &number]).success();
    alice.parler("inbox").success().says("message 2 from bob: accepted\n");
    let watch = alice.start_parler("recv --watch --since 1");
    bob.parler(["done", &number, "--note", "merged"]).success();
    let accepted = format!("  task:    accepted · handoff {number} from alice (planner)\n");
    let done = format!("  task:    done · handoff {number} from alice (planner) · merged\n");
    watch.wait_for_output(|output| output.contains(&accepted) && output.contains(&done));
    super::watching::interrupt(watch);
    // The handoff has been read, and is not in what is shown.
    alice.parler("recv --since 1").success().says(&accepted).says(&done);
    alice.parler("log -n 1").success().says(&done).says_no("accepted");
    alice.parler("show 2").success().says(&accepted);
    let told = alice.parler("recv --all").success();
    told.says(&accepted).says(&done);
}

/// What nobody may say, what cannot be called off, and what there is none of.
#[test]
fn the_ladder_shows_no_step_that_was_not_taken() {
    let world = world();
    let [alice, bob, carol] = ["alice", "bob", "carol"].map(|name| world.agent(name).with("PARLER_ROOM", "try"));
    alice.parler("connect --role planner").success();
    carol.parler("connect --role BOB").success();
    alice.parler("invite --group try").success();
    // Bob has been seen by nobody yet: he is a member, and has said nothing.
    bob.parler("recv").success();
    let number = hand_over(&alice, "--for bob");
    carol.parler("recv").success();
    carol.parler(["done", &number]).success();
    let ladder = status(&alice, &number);
    assert_eq!(
        (&ladder["state"], &ladder["receipts"][0]["counts"]),
        (&"open".into(), &false.into()),
        "{ladder:#}"
    );
    alice
        .parler(["status", &number, "--wait", "done", "--timeout", "1s"])
        .code(3);
    alice
        .parler(["status", &number])
        .success()
        .says("does not count: not for them to say")
        .says_no("fetched:");
    let nothing = alice.parler(["status", &number, "--wait", "fetched"]).code(2);
    assert!(
        nothing.one_error_line().contains("brings nothing to fetch"),
        "{nothing:?}"
    );
    bob.parler(["done", &number]).success();
    // By now his name is known, also to who has no list of members.
    let next = hand_over(&alice, "--for bob");
    carol.parler("recv --all").success();
    let refused = carol.parler(["done", &next]).code(7);
    assert!(
        refused
            .one_error_line()
            .contains("your role BOB is another's name here"),
        "{refused:?}"
    );

    let refused = alice.parler(["cancel", &number]).code(6);
    assert!(
        refused.one_error_line().contains("is done, by bob in message"),
        "{refused:?}"
    );
    let done = status(&alice, &number);
    assert_eq!((&done["state"], &done["contested"]), (&"done".into(), &false.into()));
    let called_off = hand_over(&alice, "--for bob");
    bob.parler(["accept", &called_off]).success();
    alice.parler(["cancel", &called_off]).success();
    let ladder = status(&bob, &called_off);
    assert_eq!(
        (&ladder["state"], &ladder["contested"]),
        (&"cancelled".into(), &false.into())
    );
    let own = hand_over(&alice, "--for planner");
    alice
        .parler(["status", &own])
        .success()
        .says("nobody in 'try' but its author has the name or role planner");
    let zero = bob.parler("accept 0").code(2);
    assert!(
        zero.one_error_line()
            .ends_with("messages are numbered from 1; git parler status"),
        "{zero:?}"
    );
}

/// Whoever hands over what was posted before tells as much of it as whoever posted it.
#[test]
fn a_handoff_about_a_bundle_that_is_there_counts_what_it_brings() {
    let world = world();
    let desk = Desk::new(&world);
    desk.alices.commit("a.txt", "one\n");
    desk.alices.commit("b.txt", "two\n");
    let posted = desk
        .alice
        .parler("push --room try --json --next first --note x feature")
        .success()
        .json();
    let id = posted["bundleId"].as_str().unwrap();
    let hand_over = |agent: &Agent<'_>| {
        let posted = agent.parler(["handoff", "--next", "look", "--bundle", &id[..12], "--json"]);
        let number = posted.success().json()["seq"].to_string();
        status(agent, &number)["work"].clone()
    };
    let work = hand_over(&desk.alice);
    assert_eq!(
        (&work["commits"], &work["files"], &work["insertions"], &work["base"]),
        (&2.into(), &2.into(), &2.into(), &"origin/main".into()),
        "{work:#}"
    );
    assert_eq!(work["dirty"], false);
    // Bob has another commit checked out, and something that is not committed: that is no part of it.
    desk.bob.parler("recv").success();
    desk.bobs.write("c.txt", "three\n");
    let bobs = hand_over(&desk.bob);
    assert_eq!((&bobs["insertions"], bobs.get("dirty")), (&2.into(), None), "{bobs:#}");
    // Who has no repository repeats what its author's program counted.
    let carol = world.agent("carol").with("PARLER_ROOM", "try");
    let carols = hand_over(&carol);
    assert_eq!(
        (&carols["commits"], &carols["insertions"], carols.get("dirty")),
        (&2.into(), &2.into(), None),
        "{carols:#}"
    );
}

/// The answer is lost, and the command is run again.
#[test]
fn a_push_with_a_handoff_under_a_key_is_posted_once() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let _hub = hub_server::start_behind(&world, &proxy);
    let work = world.clone_of(&world.origin(), "work");
    let alice = world
        .agent("alice")
        .with("PARLER_HUB", proxy.url())
        .with("PARLER_ROOM", "try")
        .at(&work);
    alice.parler("invite --group try").success();
    work.commit("a.txt", "one\n");
    let push = |next: &str, key: &str| {
        alice.parler([
            "push",
            "--json",
            "--next",
            next,
            "--for",
            "bob",
            "--idempotency-key",
            key,
        ])
    };
    const LOST: Cut = Cut::AnswerTo("POST /v1/rooms/try/messages");
    proxy.cut([LOST; 40]);
    push("look", "first").code(5);
    proxy.cut([]);
    let again = push("look", "first").success().json();
    assert_eq!(
        (&again["seq"], &again["refs"][0]["status"]),
        (&1.into(), &"up_to_date".into())
    );
    assert_eq!(push("look", "first").success().json()["id"], again["id"]);
    // Something else under that key is something else, and the same under another is said again.
    push("look again", "first").code(6);
    assert_eq!(push("look", "second").success().json()["seq"], 2);
    assert_eq!(push("look", "second").success().json()["seq"], 2);
    let log = alice.parler("log --json").success().json_lines();
    assert_eq!(log.len(), 2, "{log:#?}");
}

/// The page's commands, as a reader would type them. Only the id that the reader would copy is found by a program.
#[test]
fn the_page_works_as_it_is_written() {
    const SHOWN_ID: &str = "5f0c4a8d21be";
    let page = include_str!("../../docs/handoffs.md");
    let blocks = page
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let id = "$(git for-each-ref --format='%(refname:lstrip=2)' refs/parler/ | grep -xE '[0-9a-f]{12}' | head -n 1)";
    let script = blocks.collect::<String>().replace(SHOWN_ID, id);
    assert!(script.lines().count() > 20 && !script.contains(SHOWN_ID), "{script}");
    let world = world();
    let user = world.user().within(world.directory("place"));
    let ran = user.run("sh", ["-e", "-c", &script]).success();
    ran.warns("message 1 in room checkout, handed over to bob");
    for line in [
        "message 1 · handoff to bob from alice (planner) · open",
        "HANDOFF TO YOU from alice (planner) · message 1",
        "accepted message 1 of 'checkout', as message 2",
        "finished message 1 of 'checkout', as message 4",
        "message 1 · handoff to bob from alice (planner) · done",
        "HANDOFF TO YOU from bob (reviewer) · message 3",
    ] {
        ran.says(line);
    }
}
