//! Content that a hub no longer keeps: what was built on stays, the log stays a chain, and who asks is told.

use std::path::{Path, PathBuf};
use std::process::Output;

use parler_protocol::api::{Posted, Pushes, RoomAnswer};
use parler_protocol::{
    BundleId, ChainHash, DroppedMessage, ErrorCode, FilePart, HandoffPart, Head, Oid, Seq, Signed, paths,
};
use rustix::process::Signal;
use serde_json::Value;

use crate::check::{assert_clean, sql};
use crate::support::{Agent, Answer, Push, RunningProgram, bytes, oid, program, text_message, until};

/// A blob of this size is kept in a file.
const LARGE: usize = 100_000;

fn prune(data: &Path, arguments: &[&str]) -> Output {
    let mut command = program();
    command.arg("prune").arg("--data").arg(data).args(arguments);
    command.output().unwrap()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The bytes of a blob called so: small where its name is in capitals.
fn blob(name: &str) -> Vec<u8> {
    let seed = name.bytes().map(u32::from).sum();
    bytes(
        if name.starts_with(char::is_uppercase) {
            1000
        } else {
            LARGE
        },
        seed,
    )
}

fn id(name: &str) -> BundleId {
    BundleId::of(&blob(name))
}

fn file(data: &Path, name: &str) -> PathBuf {
    let id = id(name).to_string();
    data.join("blobs").join(&id[..2]).join(id)
}

async fn head(agent: &Agent, room: &RoomAnswer) -> Head {
    agent
        .get(&format!("{}?limit=0", paths::messages(&room.room)))
        .await
        .expect(200)
        .head()
}

async fn post(agent: &Agent, room: &RoomAnswer, push: Push, brings: Option<&str>) -> Signed {
    let signed = push.sign_at(agent, room, &head(agent, room).await);
    match brings {
        Some(name) => agent.post_with_blob(&room.room, &signed.body, &blob(name)).await,
        None => {
            agent
                .post_bytes(&paths::messages(&room.room), signed.body.clone())
                .await
        }
    }
    .expect(201)
    .head();
    signed
}

/// A push that moves a branch with a bundle of this name.
fn push(branch: &str, old: Option<Oid>, new: Oid, name: &str) -> Push {
    Push::new().branch(branch, old, Some(new)).bundle(&blob(name))
}

/// Reads as one who knows notes.
async fn read(agent: &Agent, room: &RoomAnswer, query: &str) -> Answer {
    let path = format!("{}?{query}", paths::messages(&room.room));
    agent
        .send("GET", &path, |request| request.header(paths::NOTES_HEADER, "1"), "")
        .await
}

/// The log as stored, and the chain's end as a reader computes it.
async fn log(agent: &Agent, room: &RoomAnswer) -> Vec<String> {
    let page: parler_protocol::api::Page = read(agent, room, "after=0&limit=1000").await.expect(200).json();
    let messages: Vec<_> = page.messages.iter().map(|message| message.get().to_owned()).collect();
    let start = ChainHash::start(&agent.hub, &room.room);
    let end = messages.iter().fold(start, |h, message| h.next(message.as_bytes()));
    let reached = Head {
        seq: Seq::new(messages.len() as u64),
        h: end,
    };
    assert_eq!(reached, page.head, "the chain holds");
    messages
}

async fn pushes(agent: &Agent, room: &RoomAnswer, tag: &str) -> Answer {
    let path = paths::pushes(&room.room, Seq::ZERO);
    let tag = tag.to_owned();
    agent
        .send("GET", &path, |request| request.header("if-none-match", tag), "")
        .await
}

/// What is in the room: 1 a text; 2 main; 3 main upon it; 4, 5 a branch that goes again; 6 a file; 7, 8 a branch that goes
/// again, whose bundle a handoff names; 9 a text with a handoff; 10 a text.
struct Filled {
    _place: tempfile::TempDir,
    data: PathBuf,
    hub: RunningProgram,
    alice: Agent,
    room: RoomAnswer,
    first: Value,
}

impl Filled {
    async fn new() -> Self {
        let place = tempfile::TempDir::new().unwrap();
        let data = place.path().join("data");
        let hub = RunningProgram::start(&data);
        let alice = hub.agent("alice").await;
        let room = alice.create_room("Build").await;
        let path = paths::messages(&room.room);
        let first = text_message("the first word");
        alice.post(&path, &first).await.expect(201).head();
        post(
            &alice,
            &room,
            push("main", None, oid('1'), "main one"),
            Some("main one"),
        )
        .await;
        let upon = push("main", Some(oid('1')), oid('2'), "Main two").upon(&[oid('1')], &[id("main one")]);
        post(&alice, &room, upon, Some("Main two")).await;
        post(&alice, &room, push("dead", None, oid('3'), "dead"), Some("dead")).await;
        post(&alice, &room, Push::new().branch("dead", Some(oid('3')), None), None).await;
        let notes = FilePart {
            blob: id("Notes"),
            name: "notes".to_owned(),
            size: 1000,
            media_type: None,
            summary: None,
        };
        post(&alice, &room, Push::new().part(notes), Some("Notes")).await;
        post(&alice, &room, push("review", None, oid('4'), "handed"), Some("handed")).await;
        post(&alice, &room, Push::new().branch("review", Some(oid('4')), None), None).await;
        let handoff = |bundle| HandoffPart {
            next: "look at it".to_owned(),
            summary: None,
            to: None,
            revises: None,
            work: None,
            ttl_secs: None,
            bundle,
        };
        post(&alice, &room, Push::new().part(handoff(Some(id("handed")))), None).await;
        alice
            .post(&path, &text_message("the last word"))
            .await
            .expect(201)
            .head();
        Self {
            _place: place,
            data,
            hub,
            alice,
            room,
            first,
        }
    }

    /// Starts it again, with further options.
    async fn restart(&mut self, options: &[&str]) {
        let old = std::mem::replace(
            &mut self.hub,
            RunningProgram::start(&self._place.path().join("another")),
        );
        assert!(old.end(Signal::TERM).0);
        self.hub = RunningProgram::with(&self.data, |command| {
            command.args(["--open", "--log", "json"]).args(options);
        });
        self.alice.address = self.hub.address;
        self.alice.open_session().await;
    }

    /// Stops it, runs something on its data, and starts it again.
    async fn stopped<T>(&mut self, work: impl FnOnce(&Path) -> T) -> T {
        let old = std::mem::replace(
            &mut self.hub,
            RunningProgram::start(&self._place.path().join("another")),
        );
        assert!(old.end(Signal::TERM).0);
        let done = work(&self.data);
        self.hub = RunningProgram::start(&self.data);
        self.alice.address = self.hub.address;
        self.alice.open_session().await;
        done
    }
}

#[tokio::test]
async fn what_nobody_builds_on_is_given_up_and_the_rest_holds() {
    let mut filled = Filled::new().await;
    let whole = log(&filled.alice, &filled.room).await;
    let refs = async |filled: &Filled| -> Value {
        filled
            .alice
            .get(&paths::refs(&filled.room.room))
            .await
            .expect(200)
            .json()
    };
    let refs_before = refs(&filled).await;
    let told = filled
        .stopped(|data| {
            let long_ago = said(&prune(data, &["--messages", "1h", "--blobs", "1h"]));
            assert!(long_ago.starts_with("gave up 0 messages of 0 B, 0 blobs"), "{long_ago}");
            let before = std::fs::read(data.join("hub.db")).unwrap();
            let dry = said(&prune(data, &["--messages", "1ms", "--blobs", "1ms", "--dry-run"]));
            assert_eq!(std::fs::read(data.join("hub.db")).unwrap(), before);
            let done = said(&prune(data, &["--messages", "1ms", "--blobs", "1ms"]));
            assert_eq!(dry.replace("would give up", "gave up"), done);
            let again = said(&prune(data, &["--messages", "1ms", "--blobs", "1ms"]));
            assert_eq!(again, "gave up 0 messages of 0 B, 0 blobs of 0 B\n");
            let summary = assert_clean(data);
            assert_eq!(
                (&summary["droppedMessages"], &summary["messages"]),
                (&3.into(), &10.into())
            );
            done
        })
        .await;
    assert!(
        told.starts_with("gave up 3 messages of") && told.contains(", 2 blobs of 98.6 KiB"),
        "{told}"
    );
    assert!(!file(&filled.data, "dead").exists() && file(&filled.data, "main one").exists());

    // The log: notes in place of 1, 6 and 10, and every other message as it was.
    let Filled { alice, room, first, .. } = &filled;
    let now = log(alice, room).await;
    for (number, (before, now)) in (1..).zip(whole.iter().zip(&now)) {
        if [1, 6, 10].contains(&number) {
            let note = DroppedMessage::in_place_of(Seq::new(number), &room.room, before.as_bytes());
            assert_eq!(now.as_bytes(), note.to_bytes());
        } else {
            assert_eq!(now, before);
        }
    }
    assert_eq!(refs(&filled).await, refs_before);

    // The blobs: those of live refs and of handoffs.
    for (name, is_kept) in [
        ("main one", true),
        ("Main two", true),
        ("handed", true),
        ("dead", false),
        ("Notes", false),
    ] {
        let one = alice.get(&paths::blob(&room.room, &id(name))).await;
        let several = alice
            .get(&paths::bundles(&room.room, &[id("main one"), id(name)]))
            .await;
        if is_kept {
            assert_eq!(BundleId::of(&one.expect(200).body), id(name));
            several.expect(200).head();
        } else {
            for answer in [one, several] {
                let problem = answer.problem(ErrorCode::NoLongerKept);
                assert_eq!(problem.detail, format!("blob {} is no longer kept", id(name)));
            }
        }
    }
    // Nobody else learns of it.
    let bob = filled.hub.agent("bob").await;
    bob.get(&paths::blob(&room.room, &id("dead")))
        .await
        .problem(ErrorCode::NotFound);

    // A repetition of what is no longer kept gets its first answer.
    let again = alice.post(&paths::messages(&room.room), first).await.expect(200);
    assert_eq!(again.json::<Posted>().seq, Seq::new(1));
    let mut other = first.clone();
    other["parts"][0]["text"] = "another".into();
    alice
        .post(&paths::messages(&room.room), &other)
        .await
        .problem(ErrorCode::IdempotencyConflict);

    // A reader that does not know notes is told so, and reads what it can.
    let old = alice.get(&format!("{}?after=0", paths::messages(&room.room))).await;
    assert!(
        old.problem(ErrorCode::NoLongerKept).detail.contains("message 10"),
        "{old:?}"
    );
    alice
        .get(&format!("{}?after=1&limit=4", paths::messages(&room.room)))
        .await
        .expect(200)
        .head();
    alice
        .get(&format!("{}?after=0", paths::stream(&room.room)))
        .await
        .problem(ErrorCode::NoLongerKept);
}

#[tokio::test]
async fn a_push_that_builds_on_what_was_given_up_meanwhile_is_refused_and_leaves_nothing() {
    let mut filled = Filled::new().await;
    filled.stopped(|data| said(&prune(data, &["--blobs", "1ms"]))).await;
    let Filled { alice, room, data, .. } = &filled;
    let upon = |base: &str| push("later", None, oid('5'), "later").upon(&[oid('3')], &[id("main one"), id(base)]);
    let signed = upon("dead").sign_at(alice, room, &head(alice, room).await);
    let refused = alice.post_with_blob(&room.room, &signed.body, &blob("later")).await;
    let problem = refused.problem(ErrorCode::NoLongerKept);
    assert!(problem.detail.contains(&id("dead").to_string()), "{problem:?}");
    assert!(!file(data, "later").exists());
    // As it is for whoever reads the room again: with what it builds on, or upon something else.
    post(alice, room, push("dead", None, oid('3'), "dead"), Some("dead")).await;
    post(alice, room, upon("dead"), Some("later")).await;
    assert!(file(data, "later").exists());
}

#[tokio::test]
async fn whoever_folds_the_room_is_told_which_bundles_are_gone() {
    let mut filled = Filled::new().await;
    let before = pushes(&filled.alice, &filled.room, "").await.expect(200);
    let plain = before.header("etag");
    assert_eq!((plain, before.json::<Pushes>().dropped), ("\"8\"", None));
    filled.stopped(|data| said(&prune(data, &["--blobs", "1ms"]))).await;
    let Filled { alice, room, .. } = &filled;
    // Also whoever has all of them already.
    let after = pushes(alice, room, plain).await.expect(200);
    let tag = after.header("etag");
    let told: Pushes = after.json();
    let mut gone = vec![id("dead"), id("Notes")];
    gone.sort_unstable();
    assert_eq!((told.dropped.as_ref(), told.version), (Some(&gone), Seq::new(8)));
    assert_eq!(tag, format!("\"8-{}\"", told.drops.unwrap()));
    assert_eq!(pushes(alice, room, tag).await.status, 304);
    // Told once.
    post(alice, room, Push::new().branch("new", None, Some(oid('2'))), None).await;
    let next: Pushes = pushes(alice, room, tag).await.expect(200).json();
    assert_eq!((next.dropped, next.version), (None, Seq::new(11)));
    // Whoever has it can bring it back.
    post(alice, room, push("dead", None, oid('3'), "dead"), Some("dead")).await;
    let next: Pushes = pushes(alice, room, tag).await.expect(200).json();
    assert_eq!(next.dropped, Some(vec![id("Notes")]));
    alice
        .get(&paths::blob(&room.room, &id("dead")))
        .await
        .expect(200)
        .head();
    assert_eq!(assert_clean(&filled.data)["droppedMessages"], 0);
}

#[tokio::test]
async fn a_hub_gives_up_what_is_old_while_it_serves() {
    let mut filled = Filled::new().await;
    filled
        .restart(&["--retain-messages", "1s", "--retain-blobs", "1s"])
        .await;
    let path = paths::messages(&filled.room.room);
    // Somebody writes all the while; what is written gets old as well.
    let mut written = 0;
    let mut gone = Vec::new();
    until("two bundles are gone", async || {
        filled
            .alice
            .post(&path, &text_message("on and on"))
            .await
            .expect(201)
            .head();
        written += 1;
        let now: Pushes = pushes(&filled.alice, &filled.room, "").await.expect(200).json();
        gone = now.dropped.unwrap_or_default();
        gone.len() == 2
    })
    .await;
    assert!(gone.contains(&id("dead")));
    let dropped = async |filled: &Filled| {
        let log = log(&filled.alice, &filled.room).await;
        log.iter()
            .filter(|message| DroppedMessage::parse(message.as_bytes()).is_some())
            .count()
    };
    // Besides the texts and the file that were there.
    until("all of it is dropped", async || dropped(&filled).await >= 3 + written).await;
    // The file was stored by an earlier run, so nobody is about to refer to it.
    until("the file is gone", async || !file(&filled.data, "dead").exists()).await;
    assert_clean(&filled.data);
    filled
        .alice
        .get(&paths::blob(&filled.room.room, &id("Main two")))
        .await
        .expect(200)
        .head();
    assert!(filled.hub.end(Signal::TERM).0);
    assert_clean(&filled.data);
}

/// Nothing else in the room tells how old the blob is.
#[tokio::test]
async fn a_file_goes_by_its_age_also_when_its_message_went_before() {
    let mut filled = Filled::new().await;
    let talk = filled.alice.create_room("talk").await;
    let file = FilePart {
        blob: id("Talk"),
        name: "notes".to_owned(),
        size: 1000,
        media_type: None,
        summary: None,
    };
    post(&filled.alice, &talk, Push::new().part(file), Some("Talk")).await;
    let (messages, blobs) = filled
        .stopped(|data| {
            let messages = said(&prune(data, &["--messages", "1ms"]));
            let young = said(&prune(data, &["--blobs", "1h"]));
            assert!(young.starts_with("gave up 0 messages of 0 B, 0 blobs"), "{young}");
            let blobs = said(&prune(data, &["--blobs", "1ms"]));
            assert_clean(data);
            (messages, blobs)
        })
        .await;
    assert!(messages.starts_with("gave up 4 messages of"), "{messages}");
    assert!(blobs.starts_with("gave up 0 messages of 0 B, 3 blobs"), "{blobs}");
    let gone = filled.alice.get(&paths::blob(&talk.room, &id("Talk"))).await;
    gone.problem(ErrorCode::NoLongerKept);
}

#[tokio::test]
async fn a_room_with_a_message_that_cannot_be_read_keeps_its_blobs() {
    let mut filled = Filled::new().await;
    let said = filled
        .stopped(|data| {
            sql(data, "UPDATE messages SET body = CAST('{' AS BLOB) WHERE seq = 1");
            said(&prune(data, &["--blobs", "1ms"]))
        })
        .await;
    assert!(
        said.starts_with("gave up 0 messages of 0 B, 0 blobs") && said.contains("1 rooms keep all their blobs"),
        "{said}"
    );
    assert!(file(&filled.data, "dead").exists());
}

/// A room of very many bundles that nobody needs, given up while a backup is made.
#[tokio::test]
async fn a_backup_does_not_miss_what_is_given_up_meanwhile() {
    let mut filled = Filled::new().await;
    for number in 0..60 {
        let name = format!("dead {number}");
        post(
            &filled.alice,
            &filled.room,
            push(&format!("d{number}"), None, oid('5'), &name),
            Some(&name),
        )
        .await;
        post(
            &filled.alice,
            &filled.room,
            Push::new().branch(&format!("d{number}"), Some(oid('5')), None),
            None,
        )
        .await;
    }
    filled
        .restart(&["--retain-messages", "1s", "--retain-blobs", "1s"])
        .await;
    for round in 0..6 {
        let (data, to) = (
            filled.data.clone(),
            filled._place.path().join(format!("backup-{round}")),
        );
        let restored = filled._place.path().join(format!("restored-{round}"));
        tokio::task::spawn_blocking(move || {
            let run = |arguments: [&std::ffi::OsStr; 5]| {
                let output = program().args(arguments).output().unwrap();
                assert!(output.status.success(), "{output:?}");
            };
            run([
                "backup".as_ref(),
                "--data".as_ref(),
                data.as_ref(),
                "--to".as_ref(),
                to.as_ref(),
            ]);
            run([
                "restore".as_ref(),
                "--from".as_ref(),
                to.as_ref(),
                "--data".as_ref(),
                restored.as_ref(),
            ]);
            assert_clean(&restored);
        })
        .await
        .unwrap();
    }
}

#[tokio::test]
async fn a_running_hub_is_not_pruned_and_it_is_told_what_to_do() {
    let filled = Filled::new().await;
    for further in [&[][..], &["--dry-run"]] {
        let output = prune(
            &filled.data,
            &[&["--messages", "1ms", "--blobs", "1ms"], further].concat(),
        );
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let is_told = stderr.contains("stop it first") && stderr.contains("--retain-messages");
        assert!(is_told && stderr.lines().count() == 1, "{stderr}");
    }
    assert_eq!(assert_clean(&filled.data)["droppedMessages"], 0);
}

#[tokio::test]
async fn a_database_that_is_mostly_free_is_made_smaller_and_is_the_same() {
    let mut filled = Filled::new().await;
    let path = paths::messages(&filled.room.room);
    let long = "x".repeat(50_000);
    for _ in 0..40 {
        filled.alice.post(&path, &text_message(&long)).await.expect(201).head();
    }
    let refs = async |filled: &Filled| -> Value {
        let answer = filled.alice.get(&paths::refs(&filled.room.room)).await;
        answer.expect(200).json()
    };
    let refs_before = refs(&filled).await;
    let length = |data: &Path| data.join("hub.db").metadata().unwrap().len();
    filled
        .stopped(|data| {
            let before = length(data);
            assert!(before > 2 << 20, "{before}");
            let all = ["--messages", "1ms"];
            said(&prune(data, &[&all[..], &["--dry-run"]].concat()));
            assert_eq!(length(data), before);
            // Of one that was killed meanwhile.
            std::fs::write(data.join("hub.db-new"), "unfinished").unwrap();
            let told = said(&prune(data, &all));
            assert!(
                told.starts_with("gave up 43 messages") && told.ends_with(" MiB smaller\n"),
                "{told}"
            );
            assert!(length(data) < before / 4, "{}", length(data));
            let mode = std::os::unix::fs::PermissionsExt::mode(&data.join("hub.db").metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
            assert!(!data.join("hub.db-new").exists());
            assert_eq!(assert_clean(data)["droppedMessages"], 43);
            // Once is enough.
            let told = said(&prune(data, &all));
            assert!(!told.contains("smaller"), "{told}");
        })
        .await;
    assert_eq!(refs(&filled).await, refs_before);
    assert_eq!(log(&filled.alice, &filled.room).await.len(), 50);
    filled.alice.post(&path, &text_message("on")).await.expect(201).head();
}

/// Whatever became of the refs since.
#[tokio::test]
async fn what_a_handoff_is_about_stays() {
    let mut filled = Filled::new().await;
    let Filled { alice, room, .. } = &filled;
    let handoff = |revises: Option<u64>| HandoffPart {
        next: "look at it".to_owned(),
        summary: None,
        to: None,
        revises: revises.map(Seq::new),
        work: None,
        ttl_secs: None,
        bundle: None,
    };
    let file = |name: &str| FilePart {
        blob: id(name),
        name: "notes".to_owned(),
        size: blob(name).len() as u64,
        media_type: None,
        summary: None,
    };
    // 11: a branch at what the room has already, without a bundle of its own.
    let topic = push("topic", None, oid('6'), "topic").upon(&[oid('2')], &[id("Main two")]);
    post(alice, room, topic, Some("topic")).await;
    let review = Push::new().branch("asked", None, Some(oid('6'))).part(handoff(None));
    post(alice, room, review, None).await;
    // 13: its revision, with a file and a bundle upon the first.
    let revised = push("asked", Some(oid('6')), oid('7'), "revised")
        .upon(&[oid('6')], &[id("topic")])
        .part(handoff(Some(12)));
    post(alice, room, revised, Some("revised")).await;
    post(
        alice,
        room,
        Push::new().part(handoff(None)).part(file("Report")),
        Some("Report"),
    )
    .await;
    post(alice, room, Push::new().branch("asked", Some(oid('7')), None), None).await;
    post(alice, room, Push::new().branch("topic", Some(oid('6')), None), None).await;
    let told = filled
        .stopped(|data| {
            let told = said(&prune(data, &["--messages", "1ms", "--blobs", "1ms"]));
            assert_clean(data);
            told
        })
        .await;
    assert!(
        told.starts_with("gave up 3 messages of") && told.contains(", 2 blobs of 98.6 KiB"),
        "{told}"
    );
    for name in ["topic", "revised", "Report", "handed"] {
        let kept = filled.alice.get(&paths::blob(&filled.room.room, &id(name))).await;
        assert_eq!(BundleId::of(&kept.expect(200).body), id(name));
    }
    let log = log(&filled.alice, &filled.room).await;
    for number in [9, 12, 13, 14] {
        assert!(log[number - 1].contains("com.parler.handoff"), "{number}");
    }
}

#[test]
fn mistakes_are_named() {
    let directory = tempfile::TempDir::new().unwrap();
    let output = prune(&directory.path().join("nowhere"), &["--messages", "1h"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("is no hub's data directory") && stderr.lines().count() == 1,
        "{stderr}"
    );
    for (arguments, named) in [(&["--messages", "old"][..], "--messages"), (&[], "--messages")] {
        let output = prune(directory.path(), arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(named) && stderr.lines().count() == 1, "{stderr}");
    }
}
