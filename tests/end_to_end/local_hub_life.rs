//! The local hub through upgrades: the newest program's hub serves, older data is brought along, newer data left alone.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use parler_harness::{Agent, LocalHub, World, look_for};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::watching::{interrupt, lines, number_and_text};
use super::world;

/// How often the hub is replaced while it is used.
const UPGRADES: usize = 6;
const MESSAGES: usize = 30;

fn directory(world: &World) -> PathBuf {
    world.parler_home().join("data/hub")
}

/// Lets the hub that runs be one of another version, as its file has it: nobody asks the process.
pub(super) fn claim(world: &World, changes: Value) {
    let path = directory(world).join("hub.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for (name, value) in changes.as_object().unwrap() {
        record[name] = value.clone();
    }
    // Whole or not at all, as the hub does it.
    let new = path.with_extension("claimed");
    fs::write(&new, record.to_string()).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, path).unwrap();
}

fn version(user: &Agent<'_>) -> String {
    let status = user.parler("hub status --json").success().json();
    status["version"].as_str().unwrap().to_owned()
}

/// The data of the hub, which does not run.
fn database(world: &World) -> rusqlite::Connection {
    rusqlite::Connection::open(directory(world).join("rooms/hub.db")).unwrap()
}

fn format(world: &World) -> i64 {
    let read = database(world).pragma_query_value(None, "user_version", |row| row.get(0));
    read.unwrap()
}

fn set_format(world: &World, format: i64) {
    database(world).pragma_update(None, "user_version", format).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (
            entry.as_ref().unwrap().path(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.is_dir() {
            copy(&entry, &to);
        } else {
            fs::copy(entry, to).unwrap();
        }
    }
}

#[test]
fn an_older_hub_gives_way_and_a_newer_one_stays() {
    let world = world();
    let user = world.user();
    user.parler("invite --group kept").success();
    let ours = version(&user);
    let first = LocalHub::of(&user);
    claim(&world, json!({ "version": "0.0.9" }));
    // Looking does not end it.
    assert_eq!(version(&user), "0.0.9");
    user.parler("whoami").success();
    assert!(first.runs(&world));

    user.parler("rooms").success().says("kept");
    let second = LocalHub::of(&user);
    assert_ne!(second.process, first.process);
    assert_eq!((second.id, &second.url), (first.id, &first.url));
    assert_eq!(version(&user), ours);
    assert_eq!(world.processes(), [second.process]);

    for newer in ["999.0.0", "999.0.0-rc.1", "of a form to come"] {
        claim(&world, json!({ "version": newer, "protocols": [2, 1], "more": {} }));
        for command in ["rooms", "hub start", "send --room kept hello"] {
            user.parler(command).success();
        }
        assert_eq!(version(&user), newer);
        assert_eq!(world.processes(), [second.process]);
    }
    claim(&world, json!({ "version": "999.0.0", "protocols": [2] }));
    for command in ["rooms", "hub start"] {
        let refused = user.parler(command).code(7);
        refused.warns("version 999.0.0").warns("newer git-parler");
        refused.one_error_line();
    }
    assert_eq!(world.processes(), [second.process]);
    user.parler("hub stop").success();
}

/// Senders and a watcher of a program that stays, while the hub is replaced under them again and again, in order and by
/// crashes: every call succeeds at the first try.
#[test]
fn calls_and_watchers_go_on_while_the_hub_is_replaced() {
    let world = world();
    let user = world.agent("alice");
    user.parler("invite --group busy").success();
    let watch = world.agent("bob").start_parler("recv --room busy --watch --json");
    thread::scope(|scope| {
        let senders: Vec<_> = ["carol", "dave"]
            .map(|name| {
                let sender = world.agent(name);
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        let text = format!("{number} of {name}");
                        sender.parler(["send", "--room", "busy", &text]).success();
                    }
                })
            })
            .into_iter()
            .collect();
        for upgrade in 0..UPGRADES {
            user.parler("hub start").success();
            let before = LocalHub::of(&user);
            if upgrade % 3 == 2 {
                before.kill(&world);
            } else {
                claim(&world, json!({ "version": "0.0.9" }));
            }
            // Agents that the hub does not know yet prove their keys meanwhile, all at once.
            let starting: Vec<_> = (0..3)
                .map(|number| world.agent(&format!("{upgrade}-{number}")).start_parler("rooms"))
                .collect();
            for rooms in starting {
                rooms.wait().success();
            }
            assert_ne!(LocalHub::of(&user).process, before.process);
        }
        for sender in senders {
            sender.join().unwrap();
        }
    });
    assert_eq!(world.processes().len(), 3, "one hub, and the watcher below its git");
    let log = user.parler("recv --room busy --all --json").success().json();
    let log: Vec<_> = log["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(number_and_text)
        .collect();
    assert_eq!(log.len(), 2 * MESSAGES, "{log:?}");
    let seen = watch.wait_for_output(|output| lines(output).len() >= log.len());
    assert_eq!(lines(&seen).iter().map(number_and_text).collect::<Vec<_>>(), log);
    interrupt(watch);
}

#[test]
fn data_of_every_older_format_is_served() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data");
    for kept in fs::read_dir(kept).unwrap() {
        let world = world();
        copy(&kept.unwrap().path(), &directory(&world).join("rooms"));
        let user = world.user();
        let log = user.parler("recv --room build --all --json").success().json();
        assert_eq!(log["room"], "Build");
        let last = log["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(number_and_text(last), (4, "the last".to_owned()));
        user.parler("send --room build more").success();
        user.parler("hub stop").success();
        user.parler("recv --room build --all").success().says("more");
    }
}

#[test]
fn data_of_a_newer_program_is_named_and_left_alone() {
    let world = world();
    let user = world.user();
    user.parler("invite --group kept").success();
    user.parler("hub stop").success();
    let rooms = directory(&world).join("rooms");
    let ours = format(&world);
    set_format(&world, ours + 1);
    let before = fs::read(rooms.join("hub.db")).unwrap();
    for command in ["rooms", "hub start", "recv --room kept --watch"] {
        let refused = user.parler(command).code(7);
        refused.warns(&directory(&world).display().to_string());
        refused.warns(&format!("format {}", ours + 1)).warns("newer git-parler");
        refused.one_error_line();
        assert!(world.processes().is_empty());
    }
    let told = user.parler("rooms --json").code(7).json();
    assert_eq!(told["error"]["kind"], "refused");
    user.parler("hub status").code(1);
    let work = world.clone_of(&world.origin(), "work");
    let pushed = work.git("push parler::room/kept HEAD:refs/heads/x").code(128);
    pushed.warns("newer git-parler");
    assert!(fs::read(rooms.join("hub.db")).unwrap() == before);

    // As when the program that wrote it was taken back, or another one started the hub.
    set_format(&world, ours);
    user.parler("rooms").success().says("kept");
}

/// A watcher of an older program waits for the newer program to start its hub again.
#[test]
fn a_watcher_waits_for_the_hub_that_only_a_newer_program_can_start() {
    let world = world();
    let user = world.user();
    user.parler("invite --group kept").success();
    let watch = world.agent("bob").start_parler("recv --room kept --watch");
    user.parler("send --room kept one").success();
    watch.wait_for_output(|output| output.contains("one"));
    watch.signal_group(Signal::STOP);
    user.parler("hub stop").success();
    let ours = format(&world);
    set_format(&world, ours + 1);
    watch.signal_group(Signal::CONT);
    watch.wait_for_errors(|said| said.contains(&format!("format {}", ours + 1)));
    set_format(&world, ours);
    user.parler("send --room kept two").success();
    watch.wait_for_output(|output| output.contains("two"));
    interrupt(watch);
}

/// A hub that hangs is ended all the same: what it has acknowledged is safe.
#[test]
fn a_hub_that_does_not_end_is_ended() {
    let world = world();
    let user = world.user();
    user.parler("invite --group kept").success();
    let hub = LocalHub::of(&user);
    hub.signal(Signal::STOP);
    user.parler("hub stop").success().says("has ended");
    assert!(!hub.runs(&world));
    user.parler("rooms").success().says("kept");
}

/// Whether the thread waits for somebody, without a timer: in the call that `/proc` names, by number and arguments.
fn waits_untimed(call: &str) -> bool {
    let mut words = call.split_whitespace();
    let number: Option<i64> = words.next().and_then(|number| number.parse().ok());
    let timeout = words
        .nth(3)
        .and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    match (number, timeout) {
        // futex: no time to wait until.
        (Some(202 | 98), Some(0)) => true,
        // epoll_wait, epoll_pwait: -1.
        (Some(232 | 281 | 22), Some(timeout)) => timeout as u32 == u32::MAX,
        _ => false,
    }
}

/// A hub that nobody speaks to is woken by nothing: each of its threads waits, and none of them until some time.
#[test]
fn an_idle_hub_has_no_timer() {
    let world = world();
    let hub = world.user().start("git-parler", "hub run --announce --alone");
    hub.wait_for_output(|output| output == "ready\n");
    let record = LocalHub::of(&world.user());
    let mut connection = TcpStream::connect(record.url.strip_prefix("http://").unwrap()).unwrap();
    let request = format!(
        "GET /healthz HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        connection.peer_addr().unwrap()
    );
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(connection);

    let calls = || -> Vec<_> {
        let tasks = fs::read_dir(format!("/proc/{}/task", hub.pid())).unwrap();
        tasks
            .map(|task| fs::read_to_string(task.unwrap().path().join("syscall")).unwrap_or_default())
            .collect()
    };
    // Threads that helped with the start end after 10 s without work, which nothing tells us of.
    look_for(
        || calls().iter().all(|call| waits_untimed(call)).then_some(()),
        || format!("{:#?}", calls()),
    );
    hub.signal(Signal::TERM);
    hub.wait().success();
}
