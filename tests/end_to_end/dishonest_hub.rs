//! A hub that was set back, shows another history, or changed what it stored: noticed by whoever reads or looks, said
//! with what it means and what to do, and nothing is sent there until it is accepted. The hub is a real one, on a real
//! data directory that was exchanged behind the readers' backs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use parler_harness::{Agent, Answer, LocalHub, Repository, World};
use parler_protocol::{ChainHash, Head, HubId, Message, Part, RoomName, Seq, TextPart};
use rusqlite::Connection;
use serde_json::json;

use super::{hub_server, room_refs, world};

/// How every warning about a history begins.
const WARNING: &str = "warning: the history of room 'x' is not the one known since";

fn room() -> RoomName {
    "x".parse().unwrap()
}

fn text(text: &str) -> Vec<Part> {
    vec![TextPart { text: text.into() }.into()]
}

/// A room of this user's hub whose data can be exchanged.
struct Stage<'w> {
    world: &'w World,
    alice: Agent<'w>,
    bob: Agent<'w>,
    work: Repository<'w>,
}

impl<'w> Stage<'w> {
    /// Alice has pushed, as message 1; both have read it.
    fn new(world: &'w World) -> Self {
        let work = world.clone_of(&world.origin(), "work");
        let alice = world.agent("alice").at(&work);
        work.commit("a.txt", "one\n");
        alice.git("push --quiet parler::room/x HEAD:refs/heads/topic").success();
        let bob = world.agent("bob");
        let stage = Self {
            world,
            alice,
            bob,
            work,
        };
        for agent in [&stage.alice, &stage.bob] {
            agent.parler("recv --room x").success();
        }
        stage
    }

    fn say(&self, words: &str) {
        self.alice.parler(["send", "--room", "x", words]).success();
    }

    fn hub(&self) -> LocalHub {
        LocalHub::of(&self.alice)
    }

    fn data(&self) -> std::path::PathBuf {
        self.world.parler_home().join("data/hub/rooms")
    }

    /// Ends the hub, and copies what it stores.
    fn copy(&self, name: &str) {
        self.hub().kill(self.world);
        copy(&self.data(), &self.world.path().join(name));
    }

    /// Ends the hub, and puts what was copied in the place of what it stores.
    fn exchange(&self, name: &str) {
        self.alice.parler("hub start").success();
        self.hub().kill(self.world);
        fs::remove_dir_all(self.data()).unwrap();
        copy(&self.world.path().join(name), &self.data());
    }

    /// Others, whose programs remember nothing, go on where the hub is now.
    fn others_say(&self, words: &[&str]) {
        self.alice.parler("hub start").success();
        let mallory = self.hub().raw_client("mallory");
        for word in words {
            mallory.post(&room(), text(word)).unwrap();
        }
    }

    /// Everything is as it should be again, once the history was accepted.
    #[track_caller]
    fn accept(&self) {
        let accepted = self.bob.parler("trust --history --room x").success();
        accepted.says("the history of room 'x' is accepted").warns_no("warning");
        for agent in [&self.alice, &self.bob] {
            quiet(&agent.parler("recv --room x --all").success());
            quiet(&agent.parler(["send", "--room", "x", "again"]).success());
        }
        quiet(&self.alice.git("ls-remote parler::room/x").success());
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}

#[track_caller]
fn quiet(answer: &Answer) {
    answer.warns_no("warning");
}

/// Nothing leaves this agent for the room, and the next command is named.
#[track_caller]
fn sends_nothing(stage: &Stage<'_>, agent: &Agent<'_>) {
    let next = "git parler trust --history --room x";
    agent
        .parler(["send", "--room", "x", "hello"])
        .code(7)
        .warns("nothing is sent to room 'x'")
        .warns(next);
    agent
        .parler(["handoff", "--room", "x", "--next", "look"])
        .code(7)
        .warns(next);
    let before = room_refs(agent, "x");
    let last = stage.work.rev("HEAD");
    stage.work.commit("b.txt", &format!("after {last}\n"));
    let alice = &stage.alice;
    alice
        .git("push parler::room/x HEAD:refs/heads/topic")
        .code(1)
        .warns("nothing is sent to room 'x'")
        .warns(next);
    let push = alice.parler("push --room x --json HEAD:refs/heads/topic").code(7);
    push.warns(next);
    assert_eq!(room_refs(agent, "x"), before);
}

#[test]
fn a_hub_that_was_set_back_is_noticed_by_every_command() {
    let world = world();
    let stage = Stage::new(&world);
    stage.copy("before");
    stage.say("two");
    stage.say("three");
    quiet(&stage.bob.parler("recv --room x").success());
    stage.exchange("before");
    let says = "it ends at message 1, and message 3 was there";
    for command in [
        "recv --room x",
        "recv --room x --all",
        "show 1 --room x",
        "rooms",
        "trust --room x",
    ] {
        let read = stage.bob.parler(command).success();
        read.warns(WARNING).warns(says);
        assert_eq!(read.err().matches(WARNING).count(), 1, "{command}: {read:?}");
    }
    let fetch = stage.alice.git("fetch parler::room/x refs/heads/topic").success();
    fetch.warns(WARNING).warns(says);
    for command in ["recv --room x --all --json", "show 1 --room x --json"] {
        let doubt = &stage.bob.parler(command).success().json()["history"]["doubt"];
        assert_eq!(
            (&doubt["kind"], &doubt["found"], &doubt["known"]),
            (&json!("rolledBack"), &json!(1), &json!(3))
        );
        assert_eq!(doubt["message"], says);
    }
    let rooms = stage.bob.parler("rooms --json").success().json();
    assert_eq!(rooms["rooms"][0]["history"]["doubt"]["kind"], "rolledBack");
    sends_nothing(&stage, &stage.bob);
    stage.accept();
    assert_eq!(
        stage.bob.parler("rooms --json").success().json()["rooms"][0]["history"],
        json!(null)
    );
}

#[test]
fn a_shorter_history_is_noticed_by_whoever_only_pushes() {
    let world = world();
    let stage = Stage::new(&world);
    stage.copy("before");
    stage.say("two");
    stage.exchange("before");
    stage.work.commit("b.txt", "two\n");
    let push = stage.alice.git("push parler::room/x HEAD:refs/heads/topic").code(1);
    push.warns(WARNING).warns("nothing is sent to room 'x'");
    stage.accept();
    quiet(&stage.alice.git("push parler::room/x HEAD:refs/heads/topic").success());
}

#[test]
fn a_hub_with_two_histories_is_found_out_at_the_message_where_they_part() {
    let world = world();
    let stage = Stage::new(&world);
    stage.say("two");
    quiet(&stage.bob.parler("recv --room x").success());
    stage.copy("common");
    for words in ["three", "four"] {
        stage.say(words);
    }
    quiet(&stage.bob.parler("recv --room x").success());
    stage.exchange("common");
    stage.others_say(&["three, otherwise", "four", "five"]);
    let read = stage.bob.parler("recv --room x").success();
    read.warns(WARNING)
        .warns("message 3 is not the message 3 that was told of before")
        .says("three, otherwise");
    let doubt = &stage.bob.parler("recv --room x --json --all").success().json()["history"]["doubt"];
    assert_eq!(
        (&doubt["kind"], &doubt["after"], &doubt["at"]),
        (&json!("rewritten"), &json!(2), &json!(3))
    );
    sends_nothing(&stage, &stage.bob);
    // Where the histories are of one length, the head alone tells.
    stage.accept();
    stage.copy("even");
    stage.say("one way");
    stage.exchange("even");
    stage.others_say(&["the other way"]);
    stage.alice.git("ls-remote parler::room/x").success().warns(WARNING);
    sends_nothing(&stage, &stage.alice);
    stage.accept();
}

/// Changes the bodies of the room's messages while nobody serves them, and makes hashes and head anew: a perfect lie.
fn rewrite(stage: &Stage<'_>, change: impl FnOnce(&mut Vec<String>)) {
    let hub: HubId = stage.hub().id;
    stage.hub().kill(stage.world);
    let connection = Connection::open(stage.data().join("hub.db")).unwrap();
    let select = "SELECT message, body FROM messages JOIN rooms USING (room) WHERE key = 'x' ORDER BY seq";
    let stored: Vec<(i64, String)> = connection
        .prepare(select)
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, String::from_utf8(row.get(1)?).unwrap())))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut bodies: Vec<String> = stored.iter().map(|(_, body)| body.clone()).collect();
    change(&mut bodies);
    let mut h = ChainHash::start(&hub, &room());
    for ((row, _), body) in stored.iter().zip(&bodies) {
        h = h.next(body.as_bytes());
        let columns = (body.as_bytes(), &h.as_bytes()[..], row);
        let update = "UPDATE messages SET body = ?1, h = ?2 WHERE message = ?3";
        assert_eq!(connection.execute(update, columns).unwrap(), 1);
    }
    let update = "UPDATE rooms SET head_h = ?1 WHERE key = 'x'";
    connection.execute(update, [&h.as_bytes()[..]]).unwrap();
}

#[test]
fn messages_that_changed_places_are_noticed_though_every_hash_is_right() {
    let world = world();
    let stage = Stage::new(&world);
    for words in ["two", "three", "four"] {
        stage.say(words);
    }
    quiet(&stage.bob.parler("recv --room x").success());
    rewrite(&stage, |bodies| {
        let (two, three) = (
            bodies[1].replace("\"seq\":2", "\"seq\":3"),
            bodies[2].replace("\"seq\":3", "\"seq\":2"),
        );
        (bodies[1], bodies[2]) = (three, two);
    });
    stage.bob.parler("recv --room x").success().warns(WARNING);
    let read = stage.bob.parler("recv --room x --all").success();
    read.warns("message 2 is not the message 2 that was told of before");
    sends_nothing(&stage, &stage.bob);

    // A newcomer has nothing to compare with but what the members signed.
    let carol = world.agent("carol").with("XDG_STATE_HOME", world.path().join("new"));
    let newcomer = carol.with("PARLER_HOME", world.parler_home());
    fs::remove_dir_all(world.parler_home().join("state/trust")).unwrap();
    let read = newcomer.parler("recv --room x --all").success();
    read.warns("was shown another message").warns_no(WARNING);
}

#[test]
fn a_message_that_was_changed_is_noticed_by_a_watcher_that_goes_on() {
    let world = world();
    let stage = Stage::new(&world);
    stage.say("two");
    quiet(&stage.bob.parler("recv --room x").success());
    stage.copy("common");
    stage.others_say(&["three, otherwise", "four"]);
    stage.copy("other");
    stage.exchange("common");
    stage.say("three");
    let watch = stage.bob.start_parler("recv --room x --watch --json");
    watch.wait_for_output(|out| out.contains("three"));
    stage.exchange("other");
    watch.wait_for_output(|out| out.contains("four"));
    let out = watch.wait_for_output(|out| out.contains("rewritten"));
    watch.wait_for_errors(|errors| errors.contains(WARNING));
    super::watching::interrupt(watch);
    assert!(out.contains("\"after\":"), "{out}");
}

#[test]
fn a_member_who_was_shown_something_else_is_named_and_stops_nobody() {
    let world = world();
    let stage = Stage::new(&world);
    stage.say("two");
    let mallory = stage.hub().raw_client("mallory");
    let head = Head {
        seq: Seq::new(2),
        h: ChainHash::start(&stage.hub().id, &"other".parse().unwrap()),
    };
    // Joins the room by looking.
    mallory.head(&room());
    let signed = mallory.sign(&room(), &head, text("what I saw"));
    mallory.calls.post(&room(), &signed, None, None).unwrap();
    let read = stage.bob.parler("recv --room x").success();
    read.warns("warning: mallory, in message 3 of room 'x', was shown another message 2 than you")
        .warns_no(WARNING)
        .says("what I saw");
    // It is said once, and remembered.
    quiet(&stage.bob.parler("recv --room x --all").success());
    stage
        .bob
        .parler("trust --room x")
        .success()
        .says("mallory, in message 3");
    let history = &stage.bob.parler("recv --room x --json").success().json()["history"];
    assert_eq!(
        (&history["doubt"], &history["strangers"][0]["name"]),
        (&json!(null), &json!("mallory"))
    );
    quiet(&stage.bob.parler(["send", "--room", "x", "go on"]).success());
}

#[test]
fn what_is_remembered_is_private_bounded_and_never_in_the_way() {
    let world = world();
    let stage = Stage::new(&world);
    stage.say("two");
    quiet(&stage.bob.parler("recv --room x").success());
    let directory = world.parler_home().join("state/trust").join(stage.hub().id.to_string());
    for name in ["x.history", "x.names"] {
        let mode = directory.join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // A damaged file is put aside, and what the hub says is believed as at first.
    let file = directory.join("x.history");
    let good = fs::read_to_string(&file).unwrap();
    fs::write(&file, good.replace('3', "4")).unwrap();
    let read = stage.bob.parler("recv --room x").success();
    read.warns("what was known of room 'x' is damaged and not used")
        .warns("x.history.damaged");
    assert!(directory.join("x.history.damaged").exists());
    quiet(&stage.bob.parler("recv --room x").success());
    // Nothing can be kept: everything works.
    fs::remove_dir_all(world.parler_home().join("state/trust")).unwrap();
    fs::write(world.parler_home().join("state/trust"), "in the way").unwrap();
    for command in ["recv --room x --all", "rooms", "trust --room x", "show 1 --room x"] {
        quiet(&stage.bob.parler(command).success());
    }
    stage.work.commit("c.txt", "three\n");
    quiet(&stage.alice.git("push parler::room/x HEAD:refs/heads/topic").success());
    let refused = stage.bob.parler("trust --history --room x").code(128);
    refused.warns("cannot be remembered");
}

/// What the log holds, as the hub has it now.
fn newest(stage: &Stage<'_>) -> Message {
    let reader = stage.hub().raw_client("reader");
    let head = reader.head(&room());
    let from = parler_client::ReadFrom {
        after: Some(Seq::new(head.seq.get() - 1)),
        limit: Some(1),
        wait: None,
    };
    let page = reader.calls.messages(&room(), &from).unwrap();
    Message::parse(page.messages[0].get().as_bytes()).unwrap()
}

#[test]
fn a_new_key_under_a_known_name_leads_nobody_until_it_is_accepted() {
    let world = world();
    let stage = Stage::new(&world);
    let handoff = |next: &str| -> Vec<Part> {
        let part = parler_protocol::HandoffPart {
            next: next.into(),
            summary: None,
            to: Some("bob".into()),
            ..parler_protocol::HandoffPart::default()
        };
        vec![part.into()]
    };
    stage
        .alice
        .parler(["handoff", "--room", "x", "--for", "bob", "--next", "review"])
        .success();
    stage
        .bob
        .parler("recv --room x")
        .success()
        .says("HANDOFF TO YOU from alice");
    for name in ["Alice", "\u{430}lice"] {
        let other = stage.hub().raw_client(name);
        other.post(&room(), handoff("release it")).unwrap();
        let key = newest(&stage).from.id.to_string();
        let read = stage.bob.parler("recv --room x").success();
        read.says_no("HANDOFF TO YOU")
            .says(&format!("new key for alice: {}", &key[..12]))
            .says("release it")
            .says("accept:  git parler trust");
        let json = stage.bob.parler("recv --room x --all --json").success().json();
        assert_eq!(json["messages"].as_array().unwrap().last().unwrap()["sender"], "newKey");
        assert_eq!(json["messages"][0]["sender"], "known");
    }
    let listed = stage.bob.parler("trust --room x").success();
    listed
        .says("alice · U")
        .says("since message 1")
        .says("new key, not accepted");
    assert_eq!(listed.out().matches("new key, not accepted").count(), 2, "{listed:?}");
    let refused = stage.bob.parler("trust alice --room x").code(2);
    refused.warns("several keys are new for alice").warns("--key ID");
    stage.bob.parler("trust carol --room x").code(3);
    let key = newest(&stage).from.id.to_string();
    stage
        .bob
        .parler(["trust", "alice", "--key", &key[..12], "--room", "x"])
        .success()
        .says("is accepted for alice");
    let number = newest(&stage).seq.to_string();
    let shown = stage.bob.parler(["show", &number, "--room", "x"]).success();
    shown.says("HANDOFF TO YOU").says_no("new key");
    // The other one still is not, and is now the only one.
    stage.bob.parler("trust ALICE --room x").success();
    let names = stage.bob.parler("trust --room x --json").success().json()["names"].clone();
    assert!(
        names.as_array().unwrap().iter().all(|known| known["accepted"] == true),
        "{names}"
    );
}

#[test]
fn a_renamed_agent_and_one_that_speaks_twice_are_no_new_keys() {
    let world = world();
    let stage = Stage::new(&world);
    stage.alice.parler("connect --as alicia").success();
    let alicia = stage.alice.without("PARLER_AGENT");
    alicia
        .parler(["send", "--room", "x", "other tree, other key"])
        .success();
    let read = stage.bob.parler("recv --room x --json").success().json();
    assert_eq!(read["messages"][0]["sender"], "first");
    let raw = stage.hub().raw_client("nightly");
    raw.post(&room(), text("one")).unwrap();
    raw.post(&room(), text("two")).unwrap();
    let read = stage.bob.parler("recv --room x --json").success().json();
    assert_eq!(
        (&read["messages"][0]["sender"], &read["messages"][1]["sender"]),
        (&json!("first"), &json!("known"))
    );
}

#[test]
fn the_command_that_accepts_names_the_hub_that_only_an_address_or_an_option_named() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let work = world.clone_of(&world.origin(), "work");
    let alice = world.stranger("alice").at(&work);
    let url = hub.url();
    alice.parler(["invite", "--group", "x", "--hub", &url]).success();
    let remote = format!("parler::{url}/room/x");
    work.commit("a.txt", "one\n");
    let push = ["push", "--quiet", &remote, "HEAD:refs/heads/topic"];
    alice.git(push).success();
    hub.kill();
    let before = world.path().join("before");
    copy(hub.data(), &before);
    hub.restart();
    work.commit("b.txt", "two\n");
    quiet(&alice.git(push).success());
    hub.kill();
    fs::remove_dir_all(hub.data()).unwrap();
    copy(&before, hub.data());
    hub.restart();

    let accept = format!("git parler trust --history --room x --hub {url}");
    work.commit("c.txt", "three\n");
    for refused in [alice.git(push).failure(), alice.git(["ls-remote", &remote]).either()] {
        refused.warns(&accept);
    }
    let sent = alice.parler(["send", "--room", "x", "--hub", &url, "hello"]).code(7);
    sent.warns(&accept);
    let json = alice
        .parler(["show", "1", "--room", "x", "--json", "--hub", &url])
        .success();
    assert_eq!(json.json()["history"]["doubt"]["accept"], accept.as_str());
    // Where every command means this hub, none has to say so.
    let sent = alice.on(&hub).parler(["send", "--room", "x", "hello"]).code(7);
    sent.warns("git parler trust --history --room x").warns_no("--hub");
    alice.parler(accept.strip_prefix("git parler ").unwrap()).success();
    quiet(&alice.git(push).success());

    // No two of a name are in a room at once, and one after the other they may be.
    for _ in 0..2 {
        let other = parler_harness::RawClient::new(&url, "Carol");
        let code = alice.parler(["invite", "--group", "x", "--hub", &url]).success();
        other.join(code.word());
        other.post(&room(), text("it is me")).unwrap();
        alice.parler(["recv", "--room", "x", "--hub", &url, "--all"]).success();
        other
            .calls
            .end_membership(&room(), &other.calls.identity().key.id())
            .unwrap();
    }
    let read = alice.parler(["recv", "--room", "x", "--hub", &url, "--all"]).success();
    read.says("new key for Carol").says(&format!("--room x --hub {url}"));
}

#[test]
fn a_name_that_a_shell_would_run_is_in_no_command() {
    let world = world();
    let stage = Stage::new(&world);
    for name in ["$(touch pwned)", "--history", "#alice", "it's `id`"] {
        for words in ["one", "two"] {
            stage.hub().raw_client(name).post(&room(), text(words)).unwrap();
        }
        let key = newest(&stage).from.id.to_string();
        let key = &key[..12];
        let read = stage.bob.parler("recv --room x").success();
        let command = format!("git parler trust --key {key} --room x");
        assert!(
            read.says(&command)
                .out()
                .lines()
                .any(|line| line.ends_with(&format!("accept:  {command}")))
        );
        let accepted = stage.bob.parler(["trust", "--key", key, "--room", "x"]).success();
        accepted.says(&format!("key {key} is accepted for"));
        let listed = stage.bob.parler("trust --room x").success();
        listed.says(key).says_no("not accepted");
    }
    stage.bob.parler("trust --key U --room x").code(3);
    stage.bob.parler("trust --history --key U --room x").code(2);
    for _ in 0..2 {
        for name in ["dora", "emil"] {
            stage.hub().raw_client(name).post(&room(), text("hello")).unwrap();
        }
    }
    stage.bob.parler("recv --room x").success();
    let refused = stage.bob.parler("trust --key U --room x").code(2);
    refused.warns("several new keys begin so, of dora, emil");
}
