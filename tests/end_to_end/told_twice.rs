//! A hub that gives what it had given before: a message under another number or in another room, a job again, one that has
//! ended. It is a real one, whose log went on behind everybody's back with every hash right. Nobody is led by it and no
//! command runs for it, and it is said.

use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Agent, LocalHub, Running, World, look_for};
use parler_protocol::ChainHash;
use rusqlite::{Connection, params};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::handoff_life::Desk;
use super::hooks::event;
use super::mcp::Host;
use super::serve::{Stage, script, stage};
use super::watching::{interrupt, lines};
use super::{hub_server, world};

/// What a hub stores, while it does not run.
struct Data(Connection);

/// The local hub of a world, between two of its lives.
struct Silent<'w> {
    world: &'w World,
    user: Agent<'w>,
    hub: LocalHub,
    data: Data,
}

impl Data {
    fn of(directory: &Path) -> Self {
        Self(Connection::open(directory.join("hub.db")).unwrap())
    }

    /// Puts a message of one room behind the log of another, or of the same, and gives its number there.
    fn tell(&self, (from, seq): (&str, u64), to: &str) -> u64 {
        let said =
            "SELECT body, agent, digest, is_push FROM messages JOIN rooms USING (room) WHERE key = ?1 AND seq = ?2";
        let (body, agent, digest, is_push): (Vec<u8>, i64, Vec<u8>, i64) = self
            .0
            .query_row(said, params![from, seq.cast_signed()], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .unwrap();
        let ends = "SELECT room, head_seq, head_h FROM rooms WHERE key = ?1";
        let (room, last, head): (i64, i64, [u8; 32]) = self
            .0
            .query_row(ends, [to], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap();
        let body = String::from_utf8(body).unwrap();
        let begin = |room: &str, seq: u64| format!("{{\"seq\":{seq},\"id\":ID,\"room\":\"{room}\",");
        let id = body.split("\"id\":").nth(1).unwrap().split(',').next().unwrap();
        let number = last.cast_unsigned() + 1;
        let rest = body.strip_prefix(&begin(from, seq).replace("ID", id));
        let rest = rest.unwrap_or_else(|| panic!("begins in another way: {body}"));
        let told = format!("{}{rest}", begin(to, number).replace("ID", id));
        let h = ChainHash::from_bytes(head).next(told.as_bytes());
        let insert = "INSERT INTO messages (room, seq, id, agent, digest, h, is_push, body)
            VALUES (?1, ?2, randomblob(16), ?3, ?4, ?5, ?6, ?7)";
        let row = params![
            room,
            number.cast_signed(),
            agent,
            digest,
            &h.as_bytes()[..],
            is_push,
            told.as_bytes()
        ];
        assert_eq!(self.0.execute(insert, row).unwrap(), 1);
        let update = "UPDATE rooms SET head_seq = ?2, head_h = ?3 WHERE room = ?1";
        assert_eq!(
            self.0
                .execute(update, params![room, number.cast_signed(), &h.as_bytes()[..]])
                .unwrap(),
            1
        );
        number
    }

    /// Puts another message in the place of this one, which the hashes behind it do not fit.
    fn hide(&self, room: &str, seq: u64) {
        let place = "room = (SELECT room FROM rooms WHERE key = ?1) AND seq = ?2";
        let said = format!("SELECT body FROM messages WHERE {place}");
        let row = params![room, seq.cast_signed()];
        let body: Vec<u8> = self.0.query_row(&said, row, |row| row.get(0)).unwrap();
        let body = String::from_utf8(body).unwrap();
        let id = body.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap();
        let last = if id.ends_with('0') { '1' } else { '0' };
        let hidden = body.replacen(id, &format!("{}{last}", &id[..id.len() - 1]), 1);
        let update = format!("UPDATE messages SET body = ?3 WHERE {place}");
        let row = params![room, seq.cast_signed(), hidden.as_bytes()];
        assert_eq!(self.0.execute(&update, row).unwrap(), 1);
    }

    /// Offers the message of this number as a job, to whoever asks next.
    fn offer(&self, room: &str, seq: u64) {
        self.0
            .execute(
                "INSERT INTO jobs (message, room, seq, requester, state)
                 SELECT message, room, seq, agent, 'waiting' FROM messages JOIN rooms USING (room) WHERE key = ?1 AND seq = ?2
                 ON CONFLICT DO UPDATE SET state = 'waiting', claim = NULL, lease_until = NULL",
                params![room, seq.cast_signed()],
            )
            .unwrap();
    }
}

impl<'w> Silent<'w> {
    /// Ends the hub.
    fn end(world: &'w World, user: &Agent<'w>) -> Self {
        let hub = LocalHub::of(user);
        hub.kill(world);
        Self {
            world,
            user: user.clone(),
            hub,
            data: Data::of(&user.parler_home().join("data/hub/rooms")),
        }
    }

    /// Starts the hub again.
    fn begin(self) {
        drop(self.data);
        self.user.parler("hub start").success();
        assert_ne!(LocalHub::of(&self.user).process, self.hub.process);
        assert!(LocalHub::of(&self.user).runs(self.world));
    }
}

/// Tells message `seq` of a room again, in `to`, and gives its number there.
fn tell_again(world: &World, user: &Agent<'_>, said: (&str, u64), to: &str) -> u64 {
    let silent = Silent::end(world, user);
    let number = silent.data.tell(said, to);
    silent.begin();
    number
}

/// A desk with a handoff from alice to bob as message 1, which he has read.
fn desk(world: &World) -> Desk<'_> {
    let desk = Desk::new(world);
    desk.alices.git("config parler.hook.wait 10000").success();
    desk.alice.parler("invite --group try").success();
    desk.bob.parler("recv").success();
    hand_over(&desk, "try", "release it");
    desk.bob.parler("recv").success().says("HANDOFF TO YOU from alice");
    desk
}

fn hand_over(desk: &Desk<'_>, room: &str, next: &str) -> u64 {
    let handoff = ["handoff", "--room", room, "--for", "bob", "--next", next, "--json"];
    desk.alice.parler(handoff).success().json()["seq"].as_u64().unwrap()
}

fn json_of(agent: &Agent<'_>, command: &str) -> Value {
    agent.parler(command).success().json()
}

#[test]
fn an_inbox_counts_what_is_told_again_and_is_not_led_by_it() {
    let world = world();
    let desk = desk(&world);
    assert_eq!(tell_again(&world, &desk.alice, ("try", 1), "try"), 2);
    let inbox = json_of(&desk.bob, "inbox --json");
    assert_eq!(
        (&inbox["handoffs"], &inbox["mentions"]),
        (&json!([]), &json!([])),
        "{inbox:#}"
    );
    let room = &inbox["rooms"][0];
    assert_eq!(
        (&room["unread"], &room["saidBefore"]),
        (&json!(1), &json!(1)),
        "{inbox:#}"
    );
    let inbox = desk.bob.parler("inbox").success();
    inbox.says("1 unread · 1 said again by the hub").says_no("HANDOFF");
    // Nor does it end a wait.
    desk.bob.parler("inbox --wait 1s").code(3);

    // The first of two that are unread leads, once.
    let second = hand_over(&desk, "try", "look at it");
    assert_eq!(tell_again(&world, &desk.alice, ("try", second), "try"), second + 1);
    let inbox = json_of(&desk.bob, "inbox --json");
    assert_eq!(inbox["handoffs"].as_array().unwrap().len(), 1, "{inbox:#}");
    assert_eq!(inbox["handoffs"][0]["seq"], second);
    assert_eq!(inbox["rooms"][0]["saidBefore"], 2);
}

/// Whoever answers it would answer the first once more, which may have ended.
#[test]
fn what_is_told_again_is_not_answered() {
    let world = world();
    let desk = desk(&world);
    desk.bob.parler("done 1 --room try").success();
    assert_eq!(tell_again(&world, &desk.alice, ("try", 1), "try"), 3);
    for receipt in ["accept 3", "done 3", "decline 3 --note no", "fail 3 --note no"] {
        let refused = desk.bob.parler(&*format!("{receipt} --room try")).code(3);
        assert!(refused.one_error_line().contains("message 3"), "{refused:?}");
    }
    desk.alice.parler("status 3 --room try").code(3);
    let stands = json_of(&desk.alice, "status 1 --room try --json");
    assert_eq!(stands["state"], "done", "{stands:#}");
    assert_eq!(stands["receipts"].as_array().unwrap().len(), 1, "{stands:#}");
}

#[test]
fn a_watcher_marks_what_is_told_again_and_is_not_led_by_it() {
    let world = world();
    let desk = desk(&world);
    let follow = |options: &str| -> Running { desk.bob.start_parler(&*format!("recv --room try --watch {options}")) };
    let watches = [follow(""), follow("--json")];
    for watch in &watches {
        watch.wait_for_errors(|said| said.contains("watching 'try'"));
    }
    // By the stream, to one that has read nothing of what lies before.
    assert_eq!(tell_again(&world, &desk.alice, ("try", 1), "try"), 2);
    hand_over(&desk, "try", "look at it");
    // By the stream, to one that has.
    assert_eq!(tell_again(&world, &desk.alice, ("try", 3), "try"), 4);
    desk.alice.parler(["send", "--room", "try", "the end"]).success();
    let said = watches[0].wait_for_output(|out| out.contains("the end"));
    assert_eq!(said.matches("HANDOFF TO YOU").count(), 1, "{said}");
    for first in [1, 3] {
        let marked = format!("said again by the hub: the same as message {first}");
        assert_eq!(said.matches(&marked).count(), 1, "{said}");
    }
    let said = lines(&watches[1].wait_for_output(|out| out.contains("the end")));
    let led: Vec<_> = said.iter().map(|message| message.get("handoff").is_some()).collect();
    assert_eq!(led, [false, true, false, false], "{said:#?}");
    let before: Vec<_> = said.iter().map(|message| &message["saidBefore"]["seq"]).collect();
    assert_eq!(before, [&json!(1), &Value::Null, &json!(3), &Value::Null]);
    watches.into_iter().for_each(interrupt);

    // What had come before it began.
    assert_eq!(tell_again(&world, &desk.alice, ("try", 3), "try"), 6);
    let watch = follow("--json");
    let said = lines(&watch.wait_for_output(|out| !lines(out).is_empty()));
    assert_eq!(said[0]["saidBefore"]["seq"], 3, "{said:#?}");
    assert!(said[0].get("handoff").is_none(), "{said:#?}");
    interrupt(watch);
}

#[test]
fn a_hook_says_nothing_of_what_is_told_again() {
    let world = world();
    let desk = desk(&world);
    let (start, prompt, stop) = (
        event("claude", "session-start"),
        event("claude", "prompt"),
        event("codex", "stop"),
    );
    assert_eq!(tell_again(&world, &desk.alice, ("try", 1), "try"), 2);
    prompt.is_silent(&desk.bob, "a");
    stop.is_silent(&desk.bob, "a");
    // Another handoff is told, and its repetition is not: neither by what the hub says nor by what is kept.
    hand_over(&desk, "try", "look at it");
    let text = prompt.says(&desk.bob, "a");
    assert!(
        text.contains("next: look at it") && !text.contains("release it"),
        "{text}"
    );
    desk.bob.parler("accept 3 --room try").success();
    assert_eq!(tell_again(&world, &desk.alice, ("try", 3), "try"), 5);
    for session in ["a", "b"] {
        start.is_silent(&desk.bob, session);
        prompt.is_silent(&desk.bob, session);
    }
    LocalHub::of(&desk.alice).kill(&world);
    prompt.is_silent(&desk.bob, "c");
}

#[test]
fn a_tool_marks_what_is_told_again_and_is_not_led_by_it() {
    let world = world();
    let desk = desk(&world);
    let mut host = Host::start(&desk.bob);
    assert_eq!(tell_again(&world, &desk.alice, ("try", 1), "try"), 2);
    let waited = host.done("wait", json!({ "seconds": 1 }));
    assert_eq!(
        (&waited["timedOut"], &waited["handoffs"]),
        (&json!(true), &json!([])),
        "{waited:#}"
    );
    let read = host.done("recv", json!({ "room": "try" }));
    assert_eq!(read["handoffs"], json!([]), "{read:#}");
    assert_eq!(read["messages"][0]["saidBefore"]["seq"], 1, "{read:#}");
    let shown = host.done("show", json!({ "room": "try", "message": "2" }));
    assert_eq!(shown["saidBefore"]["seq"], 1, "{shown:#}");
    host.end();
}

/// In a room that its author did not sign it for, each reader says so.
#[test]
fn what_is_told_in_another_room_leads_nobody() {
    let world = world();
    let desk = desk(&world);
    desk.alice.parler("invite --group other").success();
    desk.bob.parler("recv --room other").success();
    let watch = desk.bob.start_parler("recv --room other --watch --json");
    watch.wait_for_errors(|said| said.contains("watching 'other'"));
    assert_eq!(tell_again(&world, &desk.alice, ("try", 1), "other"), 1);
    let inbox = json_of(&desk.bob, "inbox --json");
    assert_eq!(
        (&inbox["handoffs"], &inbox["mentions"]),
        (&json!([]), &json!([])),
        "{inbox:#}"
    );
    event("claude", "prompt").is_silent(&desk.bob, "a");
    let said = lines(&watch.wait_for_output(|out| !lines(out).is_empty()));
    assert_eq!(said[0]["signature"], "invalid", "{said:#?}");
    assert!(said[0].get("handoff").is_none(), "{said:#?}");
    interrupt(watch);
    let mut host = Host::start(&desk.bob);
    let read = host.done("recv", json!({ "room": "other", "since": 0 }));
    assert_eq!(read["handoffs"], json!([]), "{read:#}");
    assert_eq!(read["messages"][0]["parts"], json!([]), "{read:#}");
    host.end();
}

/// A service whose command notes each run.
struct Service<'w> {
    stage: Stage<'w>,
    command: String,
    runs: PathBuf,
}

impl<'w> Service<'w> {
    fn new(world: &'w World) -> Self {
        let stage = stage(world);
        stage.make_service();
        let runs = world.path().join("runs");
        let command = script(world, "note", &format!("echo run >>'{}'", runs.display()));
        Self { stage, command, runs }
    }

    fn runs(&self) -> usize {
        fs::read_to_string(&self.runs).unwrap_or_default().lines().count()
    }

    fn worker(&self, agent: &Agent<'_>) -> Running {
        self.stage.start(agent, &["--once"], &[&self.command])
    }

    /// A job is done, and the worker is gone.
    fn one_done(&self) -> u64 {
        let job = self.stage.ask("test it");
        self.worker(&self.stage.bob).wait().success().says("done");
        assert_eq!(self.runs(), 1);
        job
    }
}

#[test]
fn a_job_under_another_number_is_not_run_again() {
    let world = world();
    let service = Service::new(&world);
    let first = service.one_done();
    let silent = Silent::end(&world, &service.stage.alice);
    let second = silent.data.tell(("svc.test", first), "svc.test");
    silent.data.offer("svc.test", second);
    silent.begin();
    let before = service.stage.log().len();
    // Not by who has run it, and not by who has not.
    for worker in [&service.stage.bob, &world.agent("carol")] {
        let refused = service.worker(worker).wait().code(7);
        refused.says(&format!("the hub gives it again, it is the same as message {first}"));
        assert_eq!(service.runs(), 1);
        let silent = Silent::end(&world, &service.stage.alice);
        silent.data.offer("svc.test", second);
        silent.begin();
    }
    // What was said of the first stands, and nothing is said of it again.
    assert_eq!(service.stage.log().len(), before);
    let desk = service.stage.start(&service.stage.bob, &["--once"], &[]).wait();
    desk.success()
        .warns("not worked on: the hub gives it again")
        .says_no("JOB FOR YOU");
    let inbox = json_of(&service.stage.bob, "inbox --json");
    let room = inbox["rooms"]
        .as_array()
        .unwrap()
        .iter()
        .find(|room| room["room"] == "svc.test");
    assert_eq!(room.map(|room| &room["jobs"]), Some(&json!(1)), "{inbox:#}");
}

#[test]
fn a_job_that_has_ended_is_not_run_again() {
    let world = world();
    let service = Service::new(&world);
    let job = service.one_done();
    let done = service.stage.said("done")[0]["seq"].as_u64().unwrap();
    for worker in [&service.stage.bob, &world.agent("carol")] {
        let silent = Silent::end(&world, &service.stage.alice);
        silent.data.offer("svc.test", job);
        silent.begin();
        let refused = service.worker(worker).wait().code(7);
        refused.says(&format!("the hub gives it again, and message {done} says how it ended"));
        assert_eq!(service.runs(), 1);
    }
    assert_eq!(service.stage.said("done").len(), 1);
}

/// The log does not say any more what the job was and how it ended; whoever knows a head behind that notices.
#[test]
fn a_job_whose_first_telling_is_hidden_is_not_run_again() {
    let world = world();
    let service = Service::new(&world);
    let first = service.one_done();
    let done = service.stage.said("done")[0]["seq"].as_u64().unwrap();
    let silent = Silent::end(&world, &service.stage.alice);
    let second = silent.data.tell(("svc.test", first), "svc.test");
    silent.data.offer("svc.test", second);
    for seq in [first, done] {
        silent.data.hide("svc.test", seq);
    }
    silent.begin();
    let refused = service.worker(&service.stage.bob).wait().either();
    assert!(!refused.is_success(), "{refused:?}");
    refused.warns("the history of room 'svc.test' is not the one known since");
    assert_eq!(service.runs(), 1, "{refused:?}");
}

/// To a worker that goes on meanwhile, and works on what is new.
#[test]
fn a_worker_goes_on_behind_what_is_given_again() {
    let world = world();
    let service = Service::new(&world);
    let worker = service.stage.serve(&["--json"], &[&service.command]);
    let first = service.stage.ask("test it");
    worker.wait_for_output(|out| lines(out).len() == 1);
    let silent = Silent::end(&world, &service.stage.alice);
    let second = silent.data.tell(("svc.test", first), "svc.test");
    silent.data.offer("svc.test", first);
    silent.data.offer("svc.test", second);
    silent.begin();
    let third = service.stage.ask("test another");
    let said = lines(&worker.wait_for_output(|out| lines(out).len() == 4));
    let of: Vec<_> = said
        .iter()
        .map(|ended| (ended["job"].as_u64().unwrap(), ended["status"].as_str()))
        .collect();
    assert_eq!(
        of,
        [
            (first, Some("done")),
            (first, None),
            (second, None),
            (third, Some("done"))
        ],
        "{said:#?}"
    );
    assert_eq!(service.runs(), 2);
    interrupt(worker);
}

/// With a token that may not read the log it knows what it was given itself.
#[test]
fn a_worker_that_may_not_read_the_log_runs_nothing_again() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let stage = stage(&world);
    let stage = Stage {
        bob: stage.bob.on(&hub),
        alice: stage.alice.on(&hub),
        ..stage
    };
    stage.make_service();
    let create = "token create builds --room svc.test --can claim --ttl 1h";
    let made = stage.bob.parler(create).success();
    let job = world.user().on(&hub).with("PARLER_TOKEN", made.word());
    let runs = world.path().join("runs");
    let command = script(&world, "note", &format!("echo run >>'{}'", runs.display()));
    let worker = stage.start(&job, &["--json"], &[&command]);
    worker.wait_for_errors(|said| said.contains("serving 'test'"));
    let first = stage.ask("test it");
    worker.wait_for_output(|out| lines(out).len() == 1);
    hub.kill();
    let data = Data::of(hub.data());
    let second = data.tell(("svc.test", first), "svc.test");
    data.offer("svc.test", first);
    data.offer("svc.test", second);
    drop(data);
    hub.restart();
    stage.ask("test another");
    let said = lines(&worker.wait_for_output(|out| lines(out).len() == 4));
    let of: Vec<_> = said.iter().map(|ended| ended["status"].as_str()).collect();
    assert_eq!(of, [Some("done"), None, None, Some("done")], "{said:#?}");
    assert_eq!(fs::read_to_string(runs).unwrap().lines().count(), 2);
    interrupt(worker);
}

/// A job whose worker has died has not ended, and stands where it stood.
#[test]
fn a_job_whose_worker_was_lost_is_run_again() {
    let world = world();
    let service = Service::new(&world);
    let job = service.stage.ask("test it");
    let lines = format!("echo run >>'{}'; sleep 1000", service.runs.display());
    let worker = service
        .stage
        .start(&service.stage.bob, &["--once"], &[&script(&world, "wait", &lines)]);
    look_for(|| (service.runs() == 1).then_some(()), || "it was not run".to_owned());
    worker.signal_group(Signal::KILL);
    drop(worker);
    let silent = Silent::end(&world, &service.stage.alice);
    silent.data.offer("svc.test", job);
    silent.begin();
    service
        .worker(&service.stage.bob)
        .wait()
        .success()
        .says(&format!("job {job} of 'test' from alice: done"));
    assert_eq!(service.runs(), 2);
}
