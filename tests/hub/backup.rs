//! `parler-hub backup` and `parler-hub restore`: what is brought back is the hub as it was at one moment, or nothing is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parler_protocol::api::RoomAnswer;
use parler_protocol::{AgentKey, BundleId, Message, paths};
use rustix::process::Signal;
use serde_json::Value;

use crate::check::{assert_clean, copy, sql, write_private};
use crate::support::{Agent, Push, RunningProgram, bytes, oid, program, text_message};

/// A blob of this size is kept in a file.
const LARGE: usize = 100_000;

fn backup(data: &Path, to: &Path) -> Output {
    let mut command = program();
    command.arg("backup").arg("--data").arg(data).arg("--to").arg(to);
    command.output().unwrap()
}

fn restore(from: &Path, data: &Path) -> Output {
    let mut command = program();
    command.arg("restore").arg("--from").arg(from).arg("--data").arg(data);
    command.output().unwrap()
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[track_caller]
fn refused(output: &Output, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains(words) && stderr.lines().count() == 1, "{stderr}");
}

/// The same agent, at another hub or in another task.
fn again(agent: &Agent) -> Agent {
    Agent {
        key: AgentKey::from_seed(&agent.key.to_seed()).unwrap(),
        name: agent.name.clone(),
        token: agent.token.clone(),
        role: None,
        secret: None,
        ..*agent
    }
}

/// A push that moves main on, with a large blob of its own.
async fn push(agent: &Agent, room: &RoomAnswer, number: u32) {
    let digit = |number: u32| char::from_digit(1 + number % 15, 16).map(oid);
    let old = (number > 0).then(|| digit(number - 1)).flatten();
    let blob = bytes(LARGE, number);
    let head = agent.get(&paths::messages(&room.room)).await.expect(200).head();
    let push = Push::new().branch("main", old, digit(number)).bundle(&blob);
    let signed = push.sign_at(agent, room, &head);
    agent
        .post_with_blob(&room.room, &signed.body, &blob)
        .await
        .expect(201)
        .head();
}

async fn say(agent: &Agent, room: &RoomAnswer, text: &str) {
    let path = paths::messages(&room.room);
    agent.post(&path, &text_message(text)).await.expect(201).head();
}

/// All messages of a room, as a member reads them.
async fn log(agent: &Agent, room: &RoomAnswer) -> Vec<String> {
    let (mut all, mut after) = (Vec::new(), 0);
    loop {
        let path = format!("{}?after={after}&limit=1000", paths::messages(&room.room));
        let page: parler_protocol::api::Page = agent.get(&path).await.expect(200).json();
        if page.messages.is_empty() {
            return all;
        }
        assert!(page.cursor.get() > after, "a page that leads nowhere");
        after = page.cursor.get();
        all.extend(page.messages.iter().map(|message| message.get().to_owned()));
    }
}

/// A hub with a room of some messages and pushes.
struct Filled {
    place: tempfile::TempDir,
    hub: RunningProgram,
    alice: Agent,
    room: RoomAnswer,
}

impl Filled {
    async fn new(pushes: u32) -> Self {
        let place = tempfile::TempDir::new().unwrap();
        let hub = RunningProgram::start(&place.path().join("data"));
        let alice = hub.agent("alice").await;
        let room = alice.create_room("Build").await;
        for number in 0..pushes {
            push(&alice, &room, number).await;
            say(&alice, &room, "between").await;
        }
        Self {
            place,
            hub,
            alice,
            room,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

#[tokio::test]
async fn under_load_a_backup_is_the_hub_at_one_moment() {
    let filled = Filled::new(2).await;
    let (data, to) = (filled.path("data"), filled.path("backup"));
    let stop = Arc::new(AtomicBool::new(false));
    let writing = {
        let (stop, alice, room) = (Arc::clone(&stop), again(&filled.alice), filled.room.clone());
        tokio::spawn(async move {
            let mut number = 2;
            while !stop.load(Ordering::Relaxed) {
                push(&alice, &room, number).await;
                say(&alice, &room, "again").await;
                number += 1;
            }
            number
        })
    };
    let mut lengths = Vec::new();
    for round in 0..4 {
        let (data, to) = (data.clone(), to.clone());
        let said = tokio::task::spawn_blocking(move || done(&backup(&data, &to)))
            .await
            .unwrap();
        assert!(said.contains("1 rooms"), "{said}");
        let restored = filled.path(&format!("restored-{round}"));
        let from = filled.path("backup");
        let into = restored.clone();
        tokio::task::spawn_blocking(move || done(&restore(&from, &into)))
            .await
            .unwrap();
        let summary = assert_clean(&restored);
        lengths.push(summary["messages"].as_u64().unwrap());
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writing.await.unwrap() > 4, "it wrote meanwhile");
    assert!(
        lengths.is_sorted() && lengths[0] >= 4 && lengths[3] > lengths[0],
        "{lengths:?}"
    );

    // Each is a prefix of the log, with the refs that the prefix makes and every blob.
    let whole = log(&filled.alice, &filled.room).await;
    for (round, length) in lengths.iter().enumerate() {
        let hub = RunningProgram::start(&filled.path(&format!("restored-{round}")));
        let mut alice = Agent {
            address: hub.address,
            ..again(&filled.alice)
        };
        alice.open_session().await;
        let prefix = log(&alice, &filled.room).await;
        assert_eq!((prefix.len() as u64, &prefix[..]), (*length, &whole[..prefix.len()]));
        let mut main = Value::Null;
        for message in &prefix {
            let message = Message::parse(message.as_bytes()).unwrap();
            for part in message.raw_parts() {
                if part["kind"] == "com.parler.refs" {
                    main = part["updates"][0]["new"].clone();
                }
                if part["kind"] == "com.parler.bundle" {
                    let id: BundleId = part["blob"].as_str().unwrap().parse().unwrap();
                    let blob = alice.get(&paths::blob(&filled.room.room, &id)).await.expect(200);
                    assert_eq!(BundleId::of(&blob.body), id);
                }
            }
        }
        let refs: Value = alice.get(&paths::refs(&filled.room.room)).await.expect(200).json();
        assert_eq!(refs["refs"][0]["oid"], main);
        // It goes on where it was.
        say(&alice, &filled.room, "back").await;
    }
}

#[tokio::test]
async fn a_second_backup_copies_what_is_new_and_forgets_what_is_gone() {
    let filled = Filled::new(3).await;
    let (data, to) = (filled.path("data"), filled.path("backup"));
    assert!(done(&backup(&data, &to)).contains("3 blob files of 293.0 KiB (3 new)"));
    assert!(done(&backup(&data, &to)).contains("(0 new)"));
    push(&filled.alice, &filled.room, 3).await;
    assert!(done(&backup(&data, &to)).contains("4 blob files of 390.6 KiB (1 new)"));
    let databases = fs::read_dir(&to)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().ends_with(".db"))
        .count();
    assert_eq!(databases, 1);
    // What no message needs is not kept.
    let stranger = BundleId::of(b"stranger").to_string();
    let place = to.join("blobs").join(&stranger[..2]);
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join(&stranger), b"stranger").unwrap();
    done(&backup(&data, &to));
    assert!(!place.join(&stranger).exists());
    // A stopped hub, and one that was killed, are backed up as well.
    drop(filled.hub);
    done(&backup(&data, &to));
    let hub = RunningProgram::start(&data);
    assert!(hub.end(Signal::TERM).0);
    done(&backup(&data, &to));
    done(&restore(&to, &filled.place.path().join("restored")));
    assert_eq!(assert_clean(&filled.place.path().join("restored"))["messages"], 7);
}

#[tokio::test]
async fn whatever_a_backup_lacks_is_found_before_anything_is_brought_back() {
    let filled = Filled::new(1).await;
    let (data, whole) = (filled.path("data"), filled.path("backup"));
    done(&backup(&data, &whole));
    let id = BundleId::of(&bytes(LARGE, 0)).to_string();
    let blob = PathBuf::from("blobs").join(&id[..2]).join(&id);
    let flip = |path: &Path| {
        let mut content = fs::read(path).unwrap();
        let middle = content.len() / 2;
        content[middle] ^= 1;
        // The blob may be the hub's own by another name.
        fs::remove_file(path).unwrap();
        fs::write(path, content).unwrap();
    };
    type Damage<'a> = Box<dyn Fn(&Path) + 'a>;
    let damages: Vec<(Damage<'_>, &str)> = vec![
        (
            Box::new(|to| fs::remove_file(to.join("backup.json")).unwrap()),
            "no finished backup",
        ),
        (
            Box::new(|to| flip(&to.join("hub-1.db"))),
            "hub-1.db is not the database that was copied",
        ),
        (Box::new(|to| fs::remove_file(to.join("hub-1.db")).unwrap()), "hub-1.db"),
        (Box::new(|to| flip(&to.join(&blob))), &id),
        (Box::new(|to| fs::remove_file(to.join(&blob)).unwrap()), &id),
        (
            Box::new(|to| {
                let manifest = fs::read_to_string(to.join("backup.json")).unwrap();
                fs::write(to.join("backup.json"), manifest.replace("\"seq\": 2", "\"seq\": 3")).unwrap();
            }),
            "another database's",
        ),
        (
            Box::new(|to| edit(to, |note| note["rooms"] = Value::Array(Vec::new()))),
            "another database's",
        ),
        (
            Box::new(|to| edit(to, |note| note["hub"] = "01010101010101010101010101010101".into())),
            "another database's",
        ),
        (
            Box::new(|to| edit(to, |note| note["format"] = 2.into())),
            "it has form 2, and this program knows form 1",
        ),
        (
            Box::new(|to| fs::write(to.join("backup.json"), "{").unwrap()),
            "backup.json",
        ),
        (
            Box::new(|to| {
                let manifest = fs::read_to_string(to.join("backup.json")).unwrap();
                fs::write(to.join("backup.json"), manifest.replace("hub-1.db", "../data/hub.db")).unwrap();
            }),
            "names no database",
        ),
    ];
    for (index, (damage, words)) in damages.iter().enumerate() {
        let (place, restored) = (filled.path(&format!("damaged-{index}")), filled.path("restored"));
        copy(&whole, &place);
        damage(&place);
        let output = restore(&place, &restored);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.lines().last().unwrap().contains(words), "{words}: {stderr}");
        assert!(
            stderr.lines().last().unwrap().contains("damaged-"),
            "the backup is named: {stderr}"
        );
        assert!(!restored.exists(), "{words}");
        assert_eq!(unfinished(filled.place.path()), [""; 0], "{words}");
    }
    // More backups than can be counted, by a note that somebody wrote.
    let manifest = fs::read_to_string(whole.join("backup.json")).unwrap();
    let most = manifest.replace("\"number\": 1", &format!("\"number\": {}", u64::MAX));
    let place = filled.path("many");
    copy(&whole, &place);
    fs::write(place.join("backup.json"), most).unwrap();
    refused(&backup(&filled.path("data"), &place), "more backups than can be");
    // Nor is it waited for what is no file.
    fs::remove_file(place.join("backup.json")).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(place.join("backup.json"))
        .status();
    assert!(fifo.unwrap().success());
    refused(&restore(&place, &filled.path("restored")), "it is no file");
    done(&restore(&whole, &filled.path("restored")));
}

/// Changes the note of a backup.
fn edit(backup: &Path, change: impl FnOnce(&mut Value)) {
    let path = backup.join("backup.json");
    let mut note = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut note);
    fs::write(path, note.to_string()).unwrap();
}

#[tokio::test]
async fn all_that_is_damaged_in_a_backup_is_told() {
    let filled = Filled::new(3).await;
    let (data, to, restored) = (filled.path("data"), filled.path("backup"), filled.path("restored"));
    done(&backup(&data, &to));
    for number in 0..2 {
        let id = BundleId::of(&bytes(LARGE, number)).to_string();
        let path = to.join("blobs").join(&id[..2]).join(&id);
        // The hub's own by another name.
        fs::remove_file(&path).unwrap();
        write_private(&path, &bytes(LARGE, 9));
    }
    let output = restore(&to, &restored);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = stderr.lines().collect();
    assert_eq!((output.status.code(), lines.len()), (Some(1), 3), "{stderr}");
    let told = |line: &str| line.contains("blob ") && line.contains("do not hash to its id");
    assert!(lines.iter().all(|line| told(line)), "{stderr}");
    assert!(lines[2].ends_with(", and 1 more"), "{stderr}");
    assert!(!restored.exists());
    // By copying each byte it is found at the first.
    let mut command = program();
    command
        .args(["restore", "--copy", "--from"])
        .arg(&to)
        .arg("--data")
        .arg(&restored);
    refused(&command.output().unwrap(), "are not its own");
    assert_eq!(unfinished(filled.place.path()), [""; 0]);
    // So it is by a backup that copies; the next one makes it whole.
    assert_clean(&data);
    let id = BundleId::of(&bytes(LARGE, 2)).to_string();
    let blob = data.join("blobs").join(&id[..2]).join(&id);
    let whole = fs::read(&blob).unwrap();
    fs::remove_file(&blob).unwrap();
    write_private(&blob, &bytes(LARGE, 9));
    let copying = |to: &Path| {
        let mut command = program();
        command
            .args(["backup", "--copy", "--data"])
            .arg(&data)
            .arg("--to")
            .arg(to);
        command.output().unwrap()
    };
    refused(&copying(&filled.path("copied")), "are not its own");
    refused(&restore(&filled.path("copied"), &restored), "no finished backup");
    fs::write(&blob, &whole[1..]).unwrap();
    refused(
        &backup(&data, &filled.path("shorter")),
        "has 99999 bytes in place of 100000",
    );
    fs::write(&blob, whole).unwrap();
    done(&copying(&filled.path("copied")));
    let copy = |to: &Path| to.join("blobs").join(&id[..2]).join(&id);
    assert_eq!(links(&copy(&filled.path("copied"))), 1);
    // A copy of another length never was a whole one.
    fs::write(copy(&filled.path("copied")), "short").unwrap();
    assert!(done(&copying(&filled.path("copied"))).contains("(1 new)"));
    done(&restore(&filled.path("copied"), &restored));
}

fn links(path: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(&fs::metadata(path).unwrap())
}

#[tokio::test]
async fn two_do_not_work_at_one_place_and_what_one_left_is_in_nobodys_way() {
    let filled = Filled::new(1).await;
    let (data, to, restored) = (filled.path("data"), filled.path("backup"), filled.path("restored"));
    done(&backup(&data, &to));
    let held = |path: &Path| {
        let file = fs::File::open(path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    };
    let working = held(&to.join("backup.lock"));
    refused(&backup(&data, &to), "is in use by another backup or restore");
    drop(working);
    let working = held(filled.place.path());
    refused(&restore(&to, &restored), "is in use by another backup or restore");
    drop(working);
    // Of such as were killed.
    fs::write(to.join("hub-7.db"), "a copy of the database").unwrap();
    fs::write(to.join("blobs/copying"), "a copy of a blob").unwrap();
    let left = filled.path(".restored.parler-restoring");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("hub.db"), "a database").unwrap();
    done(&backup(&data, &to));
    assert!(!to.join("hub-7.db").exists() && !to.join("blobs/copying").exists());
    done(&restore(&to, &restored));
    assert!(!left.exists());
    assert_clean(&restored);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&restored).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

/// As a hub does that starts on older data.
#[test]
fn a_backup_of_an_older_format_is_brought_up_to_date() {
    let place = tempfile::TempDir::new().unwrap();
    let (data, to, restored) = (
        place.path().join("data"),
        place.path().join("backup"),
        place.path().join("restored"),
    );
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data/2"), &data);
    // Its pushes have no signature, which nobody may have found fault with then.
    for table in [
        "idempotency",
        "room_blobs",
        "blobs",
        "refs",
        "messages",
        "token_rooms",
        "members",
        "invites",
        "rooms",
    ] {
        sql(&data, &format!("DELETE FROM {table}"));
    }
    fs::remove_dir_all(data.join("blobs")).unwrap();
    fs::create_dir(data.join("blobs")).unwrap();
    assert!(done(&backup(&data, &to)).contains("0 rooms, 0 messages"));
    done(&restore(&to, &restored));
    assert_eq!(assert_clean(&restored)["rooms"], 0);
}

/// What is left in a directory of restores that were not finished.
fn unfinished(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[tokio::test]
async fn places_that_are_somebodys_are_left_alone() {
    let filled = Filled::new(1).await;
    let data = filled.path("data");
    refused(
        &backup(&filled.path("nowhere"), &filled.path("b")),
        "is no hub's data directory",
    );
    assert!(!filled.path("nowhere").exists() && !filled.path("b").exists());
    refused(&backup(&data, &data.join("backup")), "would be lost with it");
    assert!(!data.join("backup").exists());
    fs::create_dir(filled.path("full")).unwrap();
    fs::write(filled.path("full").join("file"), "mine").unwrap();
    refused(&backup(&data, &filled.path("full")), "is no backup and not empty");
    let to = filled.path("backup");
    done(&backup(&data, &to));
    // A link that leads back to the hub's own blobs.
    copy(&to, &filled.path("linked"));
    fs::remove_dir_all(filled.path("linked/blobs")).unwrap();
    std::os::unix::fs::symlink(data.join("blobs"), filled.path("linked/blobs")).unwrap();
    refused(&backup(&data, &filled.path("linked")), "would be lost with it");
    assert_clean(&data);
    refused(&restore(&to, &data), "is not empty");
    refused(&restore(&to, &filled.path("full")), "is not empty");
    refused(&restore(&to, &filled.path("full").join("file")), "is not empty");
    fs::create_dir(filled.path("empty")).unwrap();
    done(&restore(&to, &filled.path("empty")));
    // Another hub's.
    let other = Filled::new(1).await;
    refused(&backup(&other.path("data"), &to), "has the backup of hub");
    done(&restore(&to, &filled.path("again/and/again")));
}

/// Kills a program after each of many pauses, from none to longer than it takes.
fn kill_at_many_points(mut start: impl FnMut() -> std::process::Child, mut look: impl FnMut(bool)) {
    let began = Instant::now();
    assert!(start().wait().unwrap().success());
    let whole = began.elapsed();
    const POINTS: u32 = 12;
    for point in 0..=POINTS {
        let mut child = start();
        let kill_at = Instant::now() + whole * point / POINTS;
        let mut finished = None;
        while Instant::now() < kill_at && finished.is_none() {
            finished = child.try_wait().unwrap();
            std::thread::yield_now();
        }
        let _ = child.kill();
        let status = finished.unwrap_or_else(|| child.wait().unwrap());
        look(status.success());
    }
}

#[tokio::test]
async fn a_backup_that_is_killed_leaves_the_one_before_whole() {
    let filled = Filled::new(8).await;
    let (data, to) = (filled.path("data"), filled.path("backup"));
    // One that never finished is none.
    kill_at_many_points(
        || {
            let _ = fs::remove_dir_all(&to);
            let mut command = program();
            command
                .args(["backup", "--copy", "--data"])
                .arg(&data)
                .arg("--to")
                .arg(&to);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        },
        |finished| {
            let restored = filled.path("restored");
            let output = restore(&to, &restored);
            if finished {
                done(&output);
            }
            if output.status.success() {
                assert_eq!(assert_clean(&restored)["messages"], 16);
                fs::remove_dir_all(&restored).unwrap();
            } else {
                refused(&output, "no finished backup");
                assert!(!restored.exists());
            }
        },
    );
    done(&backup(&data, &to));
    for number in 8..10 {
        push(&filled.alice, &filled.room, number).await;
        kill_at_many_points(
            || {
                let mut command = program();
                command.args(["backup", "--data"]).arg(&data).arg("--to").arg(&to);
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
            },
            |_| {
                let restored = filled.path("restored");
                done(&restore(&to, &restored));
                assert_clean(&restored);
                fs::remove_dir_all(&restored).unwrap();
            },
        );
    }
}

#[tokio::test]
async fn a_restore_that_is_killed_leaves_nothing_that_a_hub_would_take() {
    let filled = Filled::new(8).await;
    let (data, to, restored) = (filled.path("data"), filled.path("backup"), filled.path("restored"));
    done(&backup(&data, &to));
    kill_at_many_points(
        || {
            let _ = fs::remove_dir_all(&restored);
            let mut command = program();
            command
                .args(["restore", "--copy", "--from"])
                .arg(&to)
                .arg("--data")
                .arg(&restored);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        },
        |finished| {
            if finished || restored.exists() {
                assert_eq!(assert_clean(&restored)["messages"], 16);
                fs::remove_dir_all(&restored).unwrap();
            }
        },
    );
    done(&restore(&to, &restored));
    assert_eq!(unfinished(filled.place.path()), [""; 0]);
}
