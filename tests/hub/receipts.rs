//! What the hub tells of a message and its readers: acknowledged, sent, who waits. Only to members, at the moment when it
//! changes, and the same after a restart.

use std::time::Duration;

use parler_protocol::api::{Posted, Receipts, RoomAnswer, WakePath};
use parler_protocol::{BundleId, ErrorCode, RoomName, Seq, paths};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::blobs::LARGE;
use crate::support::{Agent, Push, TestHub, ask_closing, bytes, in_time, oid, text_message, until};

/// A room of two, and a message of one of them with a bundle that is kept in a file.
struct Stage {
    hub: TestHub,
    alice: Agent,
    bob: Agent,
    room: RoomAnswer,
    bundle: Vec<u8>,
    seq: Seq,
}

impl Stage {
    async fn new(size: usize) -> Self {
        let hub = TestHub::start().await;
        let alice = hub.agent("alice").await;
        let bob = hub.agent("bob").await;
        let room = alice.create_room("r").await;
        alice.invite(&room.room, &bob).await;
        let bundle = bytes(size, 7);
        let seq = push(&alice, &room, "feature", &bundle).await;
        Self {
            hub,
            alice,
            bob,
            room,
            bundle,
            seq,
        }
    }

    fn id(&self) -> BundleId {
        BundleId::of(&self.bundle)
    }

    async fn receipts(&self) -> Receipts {
        receipts(&self.alice, &self.room.room, self.seq, "").await
    }

    /// Waits until something has changed since then, however long that takes.
    async fn after(&self, known: &Receipts) -> Receipts {
        let query = format!("?wait=55&since={}", known.version);
        let next = receipts(&self.alice, &self.room.room, self.seq, &query).await;
        assert_ne!(next.version, known.version, "nothing came");
        next
    }

    /// Waits until what the hub wrote down before is there to be told: one thread writes, in order.
    /// What is told from here on, once it is so.
    async fn once(&self, now: Receipts, what: &str, is_so: impl Fn(&Receipts) -> bool) -> Receipts {
        let told = async {
            let mut now = now;
            while !is_so(&now) {
                now = self.after(&now).await;
            }
            now
        };
        in_time(what, told).await
    }

    async fn settle(&self) {
        let text = text_message("a message behind it");
        let posted = self.alice.post(&paths::messages(&self.room.room), &text).await;
        posted.expect(201).head();
    }

    async fn fetch(&self, range: Option<&str>) {
        let path = paths::blob(&self.room.room, &self.id());
        let ranged = |request: hyper::http::request::Builder| match range {
            Some(range) => request.header("range", range),
            None => request,
        };
        let answer = self.bob.send("GET", &path, ranged, "").await;
        assert!(matches!(answer.status, 200 | 206), "{answer:?}");
    }
}

async fn push(by: &Agent, room: &RoomAnswer, branch: &str, bundle: &[u8]) -> Seq {
    let push = Push::new().branch(branch, None, Some(oid('a'))).bundle(bundle);
    let signed = push.sign(by, room);
    let posted = by.post_with_blob(&room.room, &signed.body, bundle).await.expect(201);
    posted.json::<Posted>().seq
}

async fn receipts(by: &Agent, room: &RoomName, seq: Seq, query: &str) -> Receipts {
    let answer = by.get(&(paths::receipts(room, seq) + query)).await.expect(200);
    answer.json()
}

fn reader(receipts: &Receipts) -> &parler_protocol::api::Reader {
    assert_eq!(receipts.readers.len(), 1, "all but its author: {receipts:?}");
    &receipts.readers[0]
}

#[tokio::test]
async fn each_step_of_a_reader_is_told_as_it_is_taken() {
    let stage = Stage::new(LARGE).await;
    let stored = stage.receipts().await;
    let bob = reader(&stored);
    assert_eq!((bob.id, bob.name.as_str()), (stage.bob.id(), "bob"));
    assert_eq!(
        (bob.acknowledged, bob.fetched, bob.wake),
        (false, Some(false), WakePath::None)
    );
    assert_eq!((stored.seq, stored.stored_at), (stage.seq, stage.hub.now_ms()));
    assert_eq!(bob.last_seen, stage.hub.now_ms());

    // He waits, reads, takes it, acknowledges: each time whoever asked before is told.
    let path = paths::messages(&stage.room.room) + &format!("?after={}&wait=55", stage.seq);
    let (waited, waits) = tokio::join!(stage.bob.get(&path), async {
        let waits = stage.after(&stored).await;
        assert_eq!(reader(&waits).wake, WakePath::Stream);
        let text = text_message("there is more");
        stage
            .alice
            .post(&paths::messages(&stage.room.room), &text)
            .await
            .expect(201)
            .head();
        waits
    });
    assert_eq!(waited.expect(200).seqs(), [stage.seq.get() + 1]);
    // The log has grown and the wait is over, in either order.
    let quiet = stage
        .once(waits, "the wait is over", |now| reader(now).wake != WakePath::Stream)
        .await;
    stage.hub.pass(Duration::from_secs(5));
    let (fetched, ()) = tokio::join!(stage.after(&quiet), stage.fetch(None));
    assert_eq!(reader(&fetched).fetched, Some(true));
    assert_eq!(reader(&fetched).fetched_at, Some(stage.hub.now_ms()));
    assert_eq!(reader(&fetched).last_seen, stage.hub.now_ms());
    let path = paths::cursor(&stage.room.room);
    let cursor = json!({ "cursor": stage.seq });
    let (acknowledged, moved) = tokio::join!(stage.after(&fetched), stage.bob.put(&path, &cursor));
    moved.expect(200).head();
    assert!(reader(&acknowledged).acknowledged);

    // Nothing more: the same version, at once where nobody waits.
    let again = receipts(
        &stage.alice,
        &stage.room.room,
        stage.seq,
        &format!("?since={}", acknowledged.version),
    )
    .await;
    assert_eq!(again.version, acknowledged.version);
}

#[tokio::test]
async fn half_of_a_blob_is_not_fetched_and_both_halves_are() {
    let stage = Stage::new(LARGE).await;
    let half = LARGE / 2;
    stage.fetch(Some(&format!("bytes=0-{}", half - 1))).await;
    stage.fetch(Some(&format!("bytes=0-{}", half - 1))).await;
    stage.fetch(Some(&format!("bytes={}-", half + 1))).await;
    stage.settle().await;
    let before = stage.receipts().await;
    assert_eq!(reader(&before).fetched, Some(false), "a byte is missing");
    let middle = format!("bytes={half}-{half}");
    let (after, ()) = tokio::join!(stage.after(&before), stage.fetch(Some(&middle)));
    assert_eq!(reader(&after).fetched, Some(true));
}

#[tokio::test]
async fn a_download_that_nobody_reads_is_not_fetched() {
    // More than all buffers on the way hold together.
    let stage = Stage::new(24 << 20).await;
    let path = paths::blob(&stage.room.room, &stage.id());
    let mut stalled = ask_closing(&stage.bob, "GET", &path, "").await;
    let mut first = [0; 1024];
    stalled.read_exact(&mut first).await.unwrap();
    stage.settle().await;
    let now = stage.receipts().await;
    assert_eq!(reader(&now).fetched, Some(false));
    drop(stalled);
    // Cut off is not to the end either, and what went out before is no part that is missing later.
    stage.fetch(Some("bytes=1024-")).await;
    let now = stage.receipts().await;
    stage
        .once(now, "it is fetched", |now| reader(now).fetched != Some(false))
        .await;
}

#[tokio::test]
async fn bundles_in_one_answer_are_each_fetched() {
    let stage = Stage::new(100).await;
    let other = bytes(LARGE, 9);
    let second = push(&stage.alice, &stage.room, "other", &other).await;
    let before = stage.receipts().await;
    let path = paths::bundles(&stage.room.room, &[stage.id(), BundleId::of(&other)]);
    let (after, answer) = tokio::join!(stage.after(&before), stage.bob.get(&path));
    answer.expect(200).head();
    assert_eq!(reader(&after).fetched, Some(true));
    let mut now = receipts(&stage.alice, &stage.room.room, second, "").await;
    until("the second is fetched", async || {
        if reader(&now).fetched == Some(false) {
            let query = format!("?wait=55&since={}", now.version);
            now = receipts(&stage.alice, &stage.room.room, second, &query).await;
        }
        reader(&now).fetched != Some(false)
    })
    .await;
    // A text has nothing to fetch.
    let text = stage
        .alice
        .post(&paths::messages(&stage.room.room), &text_message("x"))
        .await;
    let text: Posted = text.expect(201).json();
    let of_text = receipts(&stage.alice, &stage.room.room, text.seq, "").await;
    assert_eq!((reader(&of_text).fetched, reader(&of_text).fetched_at), (None, None));
}

#[tokio::test]
async fn streams_are_a_way_to_be_woken_while_they_are_open() {
    let stage = Stage::new(100).await;
    let mut known = stage.receipts().await;
    for path in [paths::stream(&stage.room.room), paths::EVENTS.to_owned()] {
        let mut stream = ask_closing(&stage.bob, "GET", &path, "").await;
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        known = stage.after(&known).await;
        assert_eq!(reader(&known).wake, WakePath::Stream, "{path}");
        drop(stream);
        // Noticed with the next word to a stream that nobody reads.
        let text = text_message("is anybody there");
        stage
            .alice
            .post(&paths::messages(&stage.room.room), &text)
            .await
            .expect(201)
            .head();
        known = stage
            .once(known, "the stream is over", |now| reader(now).wake != WakePath::Stream)
            .await;
    }
}

#[tokio::test]
async fn only_members_are_told_and_of_members_alone() {
    let stage = Stage::new(100).await;
    let path = |seq: &str| format!("/v1/rooms/r/messages/{seq}/receipts");
    for seq in ["0", "99", "x", "-1", "9223372036854775808"] {
        stage.alice.get(&path(seq)).await.problem(ErrorCode::NotFound);
    }
    let carol = stage.hub.agent("carol").await;
    carol.get(&path("1")).await.problem(ErrorCode::NotFound);
    stage
        .alice
        .get("/v1/rooms/nowhere/messages/1/receipts")
        .await
        .problem(ErrorCode::NotFound);
    stage
        .alice
        .get(&(path("1") + "?wait=x"))
        .await
        .problem(ErrorCode::BadRequest);
    stage
        .alice
        .get(&(path("1") + "?sinse=x"))
        .await
        .problem(ErrorCode::BadRequest);
    // Somebody new is a reader from now on.
    let before = stage.receipts().await;
    stage.alice.invite(&stage.room.room, &carol).await;
    let after = stage.receipts().await;
    assert_eq!(after.readers.len(), before.readers.len() + 1);
    assert_ne!(after.version, before.version);
    let own = receipts(&carol, &stage.room.room, stage.seq, "").await;
    assert_eq!(own.version, after.version, "whoever asks");
}

#[tokio::test]
async fn what_was_fetched_and_acknowledged_is_known_after_a_restart() {
    let stage = Stage::new(100).await;
    let before = stage.receipts().await;
    let (_, ()) = tokio::join!(stage.after(&before), stage.fetch(None));
    let cursor = json!({ "cursor": stage.seq });
    stage
        .bob
        .put(&paths::cursor(&stage.room.room), &cursor)
        .await
        .expect(200)
        .head();
    let before = stage.receipts().await;
    let directory = std::sync::Arc::clone(&stage.hub.directory);
    stage.hub.stop().await.unwrap().unwrap();
    let hub = TestHub::on(directory, |options| options.open = true).await;
    let mut alice = stage.alice;
    alice.address = hub.address;
    let after = receipts(&alice, &stage.room.room, stage.seq, "").await;
    assert_eq!(after.version, before.version);
    let bob = reader(&after);
    assert_eq!((bob.acknowledged, bob.fetched), (true, Some(true)));
    hub.stop().await.unwrap().unwrap();
}
