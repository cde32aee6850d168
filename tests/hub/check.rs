//! `parler-hub check`: what was done to a hub's data by hand is named, and nothing else is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parler_protocol::api::RoomAnswer;
use parler_protocol::{BundleId, HandoffPart, paths};
use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Agent, Push, RunningProgram, bytes, oid, program, text_message};

/// A blob of this size is kept in a file.
const LARGE: usize = (1 << 20) + 7;

fn small() -> Vec<u8> {
    bytes(1000, 1)
}

fn large() -> Vec<u8> {
    bytes(LARGE, 2)
}

fn blob_file(data: &Path) -> PathBuf {
    let id = BundleId::of(&large()).to_string();
    data.join("blobs").join(&id[..2]).join(id)
}

fn check(data: &Path, further: &[&str]) -> Output {
    program()
        .arg("check")
        .arg("--data")
        .arg(data)
        .args(further)
        .output()
        .unwrap()
}

/// What was found, as `kind: line`, the exit code, and the summary.
pub(crate) fn found(data: &Path, further: &[&str]) -> (Vec<(String, Value)>, Option<i32>, Value) {
    let output = check(data, &[&["--json"], further].concat());
    let stdout = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap()["summary"].clone();
    let found = lines
        .into_iter()
        .map(|line| (line["finding"].as_str().unwrap().to_owned(), line))
        .collect();
    (found, output.status.code(), summary)
}

#[track_caller]
pub(crate) fn assert_clean(data: &Path) -> Value {
    let (found, code, summary) = found(data, &[]);
    assert_eq!((&found[..], code), (&[][..], Some(0)), "{summary}");
    summary
}

async fn post(agent: &Agent, room: &RoomAnswer, push: Push, blob: Option<&[u8]>) {
    let head = agent.get(&paths::messages(&room.room)).await.expect(200).head();
    let signed = push.sign_at(agent, room, &head);
    match blob {
        Some(blob) => agent.post_with_blob(&room.room, &signed.body, blob).await,
        None => agent.post_bytes(&paths::messages(&room.room), signed.body).await,
    }
    .expect(201)
    .head();
}

/// Room Build: three texts around pushes that bring a small and a large bundle, and one that moves and deletes; room ops.
async fn fill(hub: &RunningProgram) -> (Agent, RoomAnswer) {
    let alice = hub.agent("alice").await;
    let bob = hub.agent("bob").await;
    let room = alice.create_room("Build").await;
    let ops = bob.create_room("ops").await;
    alice.invite(&room.room, &bob).await;
    let text = async |agent: &Agent, room: &RoomAnswer, text: &str| {
        let path = paths::messages(&room.room);
        agent.post(&path, &text_message(text)).await.expect(201).head();
    };
    text(&alice, &room, "first").await;
    let (small, large) = (small(), large());
    let push = Push::new()
        .branch("main", None, Some(oid('a')))
        .branch("old", None, Some(oid('b')));
    // Two parts speak of the same blob.
    let handoff = HandoffPart {
        next: "look at it".to_owned(),
        summary: None,
        to: None,
        revises: None,
        work: None,
        ttl_secs: None,
        bundle: Some(BundleId::of(&small)),
    };
    post(&alice, &room, push.bundle(&small).part(handoff), Some(&small)).await;
    text(&bob, &room, "second").await;
    let push = Push::new()
        .branch("main", Some(oid('a')), Some(oid('c')))
        .bundle(&large);
    post(&bob, &room, push, Some(&large)).await;
    let push = Push::new()
        .branch("old", Some(oid('b')), None)
        .branch("new", None, Some(oid('a')));
    post(&alice, &room, push, None).await;
    text(&alice, &room, "third").await;
    text(&bob, &ops, "elsewhere").await;
    let cursor = paths::cursor(&room.room);
    bob.put(&cursor, &serde_json::json!({ "cursor": 4 }))
        .await
        .expect(200)
        .head();
    (alice, room)
}

/// The data of a hub that was stopped in order.
async fn filled() -> tempfile::TempDir {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let hub = RunningProgram::start(&data);
    fill(&hub).await;
    assert!(hub.end(Signal::TERM).0);
    directory
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::metadata(from).unwrap().permissions()).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Changes the database behind the hub's back.
pub(crate) fn sql(data: &Path, statement: &str) {
    let connection = Connection::open(data.join("hub.db")).unwrap();
    connection.pragma_update(None, "foreign_keys", false).unwrap();
    connection
        .pragma_update(None, "ignore_check_constraints", true)
        .unwrap();
    assert!(connection.execute(statement, ()).unwrap() > 0, "{statement}");
}

fn flip(path: &Path) {
    let mut content = fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(path, content).unwrap();
}

type Damage = Box<dyn Fn(&Path)>;

/// What is done, what kind of finding it is, and words of the line.
fn damages() -> Vec<(&'static str, Damage, &'static str, &'static [&'static str])> {
    let run = |statement: &'static str| -> Damage { Box::new(move |data| sql(data, statement)) };
    let large_id = BundleId::of(&large()).to_string();
    let build = "room = (SELECT room FROM rooms WHERE key = 'build')";
    let of_build = |statement: &str| -> Damage {
        let statement = statement.replace("BUILD", build);
        Box::new(move |data| sql(data, &statement))
    };
    let body_of_build = |seq: u32, from: &str, to: &str| {
        of_build(&format!(
            "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), '{from}', '{to}') AS BLOB) WHERE BUILD AND seq = {seq}"
        ))
    };
    let id: &'static str = Box::leak(large_id.into_boxed_str());
    let file_id: &'static [&'static str] = Box::leak(vec![id].into_boxed_slice());
    vec![
        (
            "a byte of a blob's file",
            Box::new(|data| flip(&blob_file(data))),
            "blob-bytes",
            file_id,
        ),
        (
            "a blob's file is shorter",
            Box::new(|data| {
                let file = fs::File::options().write(true).open(blob_file(data)).unwrap();
                file.set_len(100).unwrap();
            }),
            "blob-size",
            &["100 bytes in place of 1048583"],
        ),
        (
            "a blob's file is gone",
            Box::new(|data| fs::remove_file(blob_file(data)).unwrap()),
            "blob-missing",
            file_id,
        ),
        (
            "another file in place of a blob's",
            Box::new(|data| {
                fs::remove_file(blob_file(data)).unwrap();
                fs::create_dir(blob_file(data)).unwrap();
            }),
            "blob-missing",
            &["is no file"],
        ),
        (
            "a byte of a blob in the database",
            run("UPDATE blobs SET bytes = zeroblob(size) WHERE bytes IS NOT NULL"),
            "blob-bytes",
            &["do not hash"],
        ),
        (
            "a blob in the database is shorter",
            run("UPDATE blobs SET bytes = substr(bytes, 2) WHERE bytes IS NOT NULL"),
            "blob-size",
            &["999 bytes in place of 1000"],
        ),
        (
            "another size of a blob",
            run("UPDATE blobs SET size = 7 WHERE bytes IS NULL"),
            "blob-size",
            file_id,
        ),
        (
            "a blob leaves a room",
            of_build("DELETE FROM room_blobs WHERE BUILD AND seq = 4"),
            "blob-reference",
            &["message 4", "does not hold"],
        ),
        (
            "a blob is in no room",
            of_build("DELETE FROM room_blobs WHERE BUILD AND seq = 4"),
            "blob-unlinked",
            file_id,
        ),
        (
            "a blob of another message",
            of_build("UPDATE room_blobs SET seq = 3 WHERE BUILD AND seq = 4"),
            "blob-unlinked",
            &["message 3"],
        ),
        (
            "a blob's row is gone",
            run("DELETE FROM blobs WHERE bytes IS NULL"),
            "database",
            &["room_blobs refers to a row of blobs"],
        ),
        (
            "a blob's row is gone, its file is not",
            run("DELETE FROM blobs WHERE bytes IS NULL"),
            "orphan-file",
            &["1048583 bytes"],
        ),
        (
            "a byte of a message",
            of_build(
                "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), 'second', 'secanD') AS BLOB) WHERE BUILD AND seq = 3",
            ),
            "chain",
            &["room Build, message 3"],
        ),
        (
            "a text of a push",
            of_build(
                "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), 'refs/heads/new', 'refs/heads/nev') AS BLOB) WHERE BUILD AND seq = 5",
            ),
            "signature",
            &["message 5", "does not match"],
        ),
        (
            "a message that is none",
            of_build("UPDATE messages SET body = CAST('{' AS BLOB) WHERE BUILD AND seq = 3"),
            "message",
            &["message 3", "cannot be read"],
        ),
        (
            "a message of another's",
            of_build(
                "UPDATE messages SET agent = (SELECT agent FROM agents WHERE name = 'alice') WHERE BUILD AND seq = 3",
            ),
            "message",
            &["another author"],
        ),
        (
            "another id",
            of_build("UPDATE messages SET id = zeroblob(16) WHERE BUILD AND seq = 3"),
            "message",
            &["message 3", "another id"],
        ),
        (
            "another number in a message",
            body_of_build(3, r#""seq":3,"#, r#""seq":8,"#),
            "message",
            &["message 3", "another number"],
        ),
        (
            "another room in a message",
            body_of_build(3, r#""room":"Build""#, r#""room":"Built""#),
            "message",
            &["message 3", "another room"],
        ),
        (
            "a message from before",
            body_of_build(6, r#""ts":1"#, r#""ts":"#),
            "message",
            &["message 6", "older than the one before"],
        ),
        (
            "another size in a message",
            body_of_build(4, "1048583", "1048584"),
            "blob-reference",
            &["message 4", "another number"],
        ),
        (
            "a push from elsewhere",
            body_of_build(4, &"a".repeat(40), &"d".repeat(40)),
            "refs",
            &["message 4", "refs/heads/main"],
        ),
        (
            "a ref below another",
            of_build(
                "UPDATE messages SET body = CAST(replace(CAST(body AS TEXT), 'heads/main', 'heads/new/er') AS BLOB) WHERE BUILD",
            ),
            "ref-conflict",
            &["refs/heads/new/er", "cannot both exist"],
        ),
        (
            "a message given up without a note",
            of_build("UPDATE messages SET dropped_at = 1 WHERE BUILD AND seq = 3"),
            "message",
            &["message 3", "not its note"],
        ),
        (
            "a push given up",
            of_build("UPDATE messages SET dropped_at = 1 WHERE BUILD AND seq = 4"),
            "push-index",
            &["message 4", "carried refs or a bundle"],
        ),
        (
            "a record of another's message",
            run("UPDATE idempotency SET agent = 3 - agent"),
            "idempotency",
            &["another agent's message"],
        ),
        (
            "another digest",
            of_build("UPDATE messages SET digest = zeroblob(32) WHERE BUILD AND seq = 3"),
            "message",
            &["another digest"],
        ),
        (
            "a link of the chain",
            of_build("UPDATE messages SET h = zeroblob(32) WHERE BUILD AND seq = 3"),
            "chain",
            &["message 3"],
        ),
        (
            "a message is gone",
            of_build("DELETE FROM messages WHERE BUILD AND seq = 3"),
            "gap",
            &["message 3 is not there"],
        ),
        (
            "a record of a message that is gone",
            of_build("DELETE FROM messages WHERE BUILD AND seq = 3"),
            "idempotency",
            &["no message"],
        ),
        (
            "the newest message is gone",
            of_build("DELETE FROM messages WHERE BUILD AND seq = 6"),
            "gap",
            &["message 6 is not there"],
        ),
        (
            "a message moves up",
            of_build("UPDATE messages SET seq = 9 WHERE BUILD AND seq = 6"),
            "gap",
            &["messages 6 to 8"],
        ),
        (
            "another head",
            of_build("UPDATE rooms SET head_h = zeroblob(32) WHERE BUILD"),
            "head",
            &["room Build"],
        ),
        (
            "a lower head",
            of_build("UPDATE rooms SET head_seq = 5 WHERE BUILD"),
            "head",
            &["room Build"],
        ),
        (
            "another key of a room",
            of_build("UPDATE rooms SET key = 'built' WHERE BUILD"),
            "head",
            &["built"],
        ),
        (
            "a push is no push",
            of_build("UPDATE messages SET is_push = 0 WHERE BUILD AND seq = 4"),
            "push-index",
            &["message 4"],
        ),
        (
            "a text is a push",
            of_build("UPDATE messages SET is_push = 1 WHERE BUILD AND seq = 3"),
            "push-index",
            &["message 3"],
        ),
        (
            "another newest push",
            of_build("UPDATE rooms SET push_seq = 4 WHERE BUILD"),
            "push-index",
            &["message 5", "says 4"],
        ),
        (
            "a ref elsewhere",
            run("UPDATE refs SET oid = zeroblob(20) WHERE name = 'refs/heads/main'"),
            "refs",
            &["refs/heads/main", "cccccccc"],
        ),
        (
            "a ref of another message",
            run("UPDATE refs SET seq = 5 WHERE name = 'refs/heads/main'"),
            "refs",
            &["by message 4"],
        ),
        (
            "a ref is gone",
            run("DELETE FROM refs WHERE name = 'refs/heads/main'"),
            "refs",
            &["refs/heads/main is not there"],
        ),
        (
            "a ref too many",
            of_build("INSERT INTO refs SELECT room, 'refs/heads/x', zeroblob(20), 1 FROM rooms WHERE BUILD"),
            "refs",
            &["refs/heads/x", "nowhere"],
        ),
        (
            "a ref that is none",
            run("UPDATE refs SET name = 'main' WHERE name = 'refs/heads/main'"),
            "refs",
            &["ref \"main\" cannot be read"],
        ),
        (
            "an older room",
            of_build("UPDATE rooms SET head_ts = 1 WHERE BUILD"),
            "head",
            &["room Build", "older time"],
        ),
        (
            "a hub that is nobody",
            run("DELETE FROM hub"),
            "database",
            &["the hub's id is not there"],
        ),
        (
            "a blob of no id",
            run("UPDATE blobs SET id = zeroblob(5) WHERE bytes IS NULL"),
            "database",
            &["an id that is none"],
        ),
        (
            "HEAD elsewhere",
            of_build("UPDATE rooms SET head_ref = 'refs/heads/new' WHERE BUILD"),
            "refs",
            &["HEAD points at refs/heads/new"],
        ),
        (
            "another object format",
            of_build("UPDATE rooms SET object_format = 'sha256' WHERE BUILD"),
            "refs",
            &["object format"],
        ),
        (
            "a cursor too far",
            of_build("UPDATE members SET cursor = 7 WHERE BUILD AND cursor = 4"),
            "cursor",
            &["up to 7"],
        ),
        (
            "a member that is nobody",
            of_build("UPDATE members SET agent = 99 WHERE BUILD AND cursor = 4"),
            "database",
            &["members refers to a row of agents"],
        ),
        (
            "an index that lacks an entry",
            Box::new(|data| {
                let connection = Connection::open(data.join("hub.db")).unwrap();
                connection.pragma_update(None, "writable_schema", true).unwrap();
                connection
                    .execute("UPDATE sqlite_schema SET sql = replace(sql, 'is_push = 1', 'is_push = 0') WHERE name = 'messages_pushes'", ())
                    .unwrap();
            }),
            "database",
            &["messages_pushes"],
        ),
        (
            "a file of nobody",
            Box::new(|data| {
                let id = BundleId::of(b"nobody's").to_string();
                let place = data.join("blobs").join(&id[..2]);
                fs::create_dir_all(&place).unwrap();
                fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
                write_private(&place.join(id), b"nobody's");
            }),
            "orphan-file",
            &["8 bytes"],
        ),
        (
            "an unfinished blob",
            Box::new(|data| write_private(&data.join("blobs/tmp/upload-x"), b"12")),
            "unfinished",
            &["blobs/tmp/upload-x", "2 bytes"],
        ),
        (
            "half of an upload",
            Box::new(|data| write_private(&data.join("blobs/uploads").join("a".repeat(32)), b"123")),
            "unfinished",
            &["half of an upload"],
        ),
        (
            "a stranger's file",
            Box::new(|data| write_private(&data.join("blobs/readme"), b"")),
            "unfinished",
            &["blobs/readme"],
        ),
        (
            "half of an upload, the other",
            Box::new(|data| {
                let name = format!("{}.json", "b".repeat(32));
                write_private(&data.join("blobs/uploads").join(name), b"{}");
            }),
            "unfinished",
            &["half of an upload", "bbbb.json"],
        ),
        (
            "an upload that was not removed",
            Box::new(|data| {
                let upload = data.join("blobs/uploads").join("c".repeat(32));
                fs::hard_link(blob_file(data), &upload).unwrap();
                write_private(&upload.with_extension("json"), b"{}");
            }),
            "unfinished",
            &["has become a blob, 0 bytes"],
        ),
        (
            "a stranger's file among the uploads",
            Box::new(|data| write_private(&data.join("blobs/uploads/readme"), b"")),
            "unfinished",
            &["blobs/uploads/readme", "nothing that a hub made"],
        ),
        (
            "a blob's file in another's directory",
            Box::new(|data| {
                let place = data.join("blobs/zz");
                fs::create_dir(&place).unwrap();
                fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).unwrap();
                write_private(&place.join(BundleId::of(b"nobody's").to_string()), b"nobody's");
            }),
            "unfinished",
            &["blobs/zz", "nothing that a hub made"],
        ),
        (
            "a database that was begun",
            Box::new(|data| write_private(&data.join("hub.db-new"), b"1234")),
            "unfinished",
            &["hub.db-new", "never finished, 4 bytes"],
        ),
        (
            "a file that others may read",
            Box::new(|data| fs::set_permissions(blob_file(data), fs::Permissions::from_mode(0o644)).unwrap()),
            "permissions",
            &["0644"],
        ),
        (
            "a database that others may read",
            Box::new(|data| fs::set_permissions(data.join("hub.db"), fs::Permissions::from_mode(0o640)).unwrap()),
            "permissions",
            &["hub.db", "0640"],
        ),
    ]
}

pub(crate) fn write_private(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn whatever_is_done_to_the_data_is_named() {
    let directory = filled().await;
    let whole = directory.path().join("data");
    let before = fs::read_dir(&whole).unwrap().count();
    let summary = assert_clean(&whole);
    assert_eq!(fs::read_dir(&whole).unwrap().count(), before, "it makes no file");
    for (what, count) in [
        ("rooms", 2),
        ("messages", 7),
        ("refs", 2),
        ("blobs", 2),
        ("unbelieved", 0),
    ] {
        assert_eq!(summary[what], count, "{what} in {summary}");
    }
    for (what, damage, kind, words) in damages() {
        let place = tempfile::TempDir::new().unwrap();
        let data = place.path().join("data");
        copy(&whole, &data);
        damage(&data);
        let (found, code, summary) = found(&data, &[]);
        let told = String::from_utf8(check(&data, &[]).stdout).unwrap();
        let is_named = found
            .iter()
            .zip(told.lines())
            .any(|((found, _), line)| found == kind && words.iter().all(|word| line.contains(word)));
        assert!(is_named, "{what}: {told}{found:#?}");
        let is_harmless = found.iter().all(|(_, line)| line["severity"] == "leftover");
        assert_eq!(code, Some(i32::from(!is_harmless)), "{what}: {summary}");
    }
}

#[tokio::test]
async fn after_a_fault_the_log_is_read_on() {
    let directory = filled().await;
    let data = directory.path().join("data");
    let build = "room = (SELECT room FROM rooms WHERE key = 'build')";
    sql(
        &data,
        &format!("UPDATE messages SET h = zeroblob(32) WHERE {build} AND seq = 3"),
    );
    let (found, code, _) = found(&data, &[]);
    // The link that is wrong, and the one that was made from the right one.
    let places: Vec<_> = found
        .iter()
        .map(|(kind, line)| (kind.as_str(), line["message"].as_u64()))
        .collect();
    assert_eq!((places, code), (vec![("chain", Some(3)), ("chain", Some(4))], Some(1)));
    let told = String::from_utf8(check(&data, &[]).stdout).unwrap();
    assert!(
        told.starts_with("room Build, message 3: ") && told.ends_with("2 findings\n"),
        "{told}"
    );
}

#[tokio::test]
async fn a_running_hub_and_one_that_was_killed_are_looked_at_as_they_are() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let hub = RunningProgram::start(&data);
    let (alice, room) = fill(&hub).await;
    // Somebody writes all the while.
    let stop = Arc::new(AtomicBool::new(false));
    let writing = {
        let stop = stop.clone();
        let path = paths::messages(&room.room);
        tokio::spawn(async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                alice.post(&path, &text_message("again")).await.expect(201).head();
                count += 1;
            }
            count
        })
    };
    for _ in 0..3 {
        let data = data.clone();
        let summary = tokio::task::spawn_blocking(move || assert_clean(&data)).await.unwrap();
        assert_eq!(summary["inUse"], true);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writing.await.unwrap() > 0);
    drop(hub);
    assert!(data.join("hub.db-wal").metadata().unwrap().len() > 0, "it was killed");
    let summary = assert_clean(&data);
    assert_eq!(summary["inUse"], false);
    let hub = RunningProgram::start(&data);
    assert!(hub.end(Signal::TERM).0);
    assert_eq!(assert_clean(&data)["messages"], summary["messages"]);
}

#[tokio::test]
async fn repair_removes_what_is_nobodys_and_nothing_else() {
    let directory = filled().await;
    let data = directory.path().join("data");
    let id = BundleId::of(b"nobody's").to_string();
    fs::create_dir_all(data.join("blobs").join(&id[..2])).unwrap();
    fs::set_permissions(data.join("blobs").join(&id[..2]), fs::Permissions::from_mode(0o700)).unwrap();
    write_private(&data.join("blobs").join(&id[..2]).join(&id), b"nobody's");
    write_private(&data.join("blobs/tmp/upload-x"), b"12");
    let (first, code, summary) = found(&data, &["--repair"]);
    assert_eq!((first.len(), code), (2, Some(0)));
    assert_eq!(
        (&summary["removed"], &summary["leftoverBytes"]),
        (&2.into(), &10.into())
    );
    assert_clean(&data);
    // Damage stays as it is.
    flip(&blob_file(&data));
    let before = fs::read(blob_file(&data)).unwrap();
    assert_eq!(found(&data, &["--repair"]).1, Some(1));
    assert_eq!(fs::read(blob_file(&data)).unwrap(), before);
}

#[tokio::test]
async fn what_a_running_hub_has_open_is_not_repaired() {
    let directory = tempfile::TempDir::new().unwrap();
    let data = directory.path().join("data");
    let hub = RunningProgram::start(&data);
    fill(&hub).await;
    // As a hub that runs has such for a moment.
    write_private(&data.join("blobs/tmp/upload-x"), b"12");
    write_private(&data.join("blobs/uploads").join("a".repeat(32)), b"123");
    let orphan = data.join("blobs/ab").join(format!("ab{}", "0".repeat(62)));
    let _ = fs::create_dir(data.join("blobs/ab"));
    fs::set_permissions(data.join("blobs/ab"), fs::Permissions::from_mode(0o700)).unwrap();
    write_private(&orphan, b"1234");
    let output = check(&data, &["--repair"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), &output.stdout[..]),
        (Some(3), &b""[..]),
        "{stderr}"
    );
    assert!(
        stderr.contains("stop it first, or check without --repair") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(data.join("blobs/tmp/upload-x").exists() && orphan.exists());
    assert_clean(&data);
    drop(hub);
    let (found, code, _) = found(&data, &["--repair"]);
    assert_eq!((found.len(), code), (3, Some(0)), "{found:?}");
    assert!(!data.join("blobs/tmp/upload-x").exists() && !orphan.exists());
}

#[test]
fn what_cannot_be_looked_at_has_a_code_of_its_own() {
    let directory = tempfile::TempDir::new().unwrap();
    let nowhere = directory.path().join("nowhere");
    let output = check(&nowhere, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("nowhere is no hub's data directory") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert!(!nowhere.exists());
    // An older format is not changed by looking.
    let older = directory.path().join("older");
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data/2"),
        &older,
    );
    let before = fs::read(older.join("hub.db")).unwrap();
    let output = check(&older, &[]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(
        stderr.contains("has format 2") && stderr.lines().count() == 1,
        "{stderr}"
    );
    assert_eq!(fs::read(older.join("hub.db")).unwrap(), before);
    let output = program().args(["check", "--what"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
