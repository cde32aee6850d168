//! Blobs that come in several requests: they go on where they stopped, are their owner's alone, and become a blob only
//! by the message whose id they hash to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parler_hub::HubOptions;
use parler_protocol::api::{Posted, RoomAnswer, UploadProgress};
use parler_protocol::{BundleId, ErrorCode, Seq, limits, paths};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Agent, Answer, Push, TestHub, bytes, oid, raw, until};

const SIZE: usize = (1 << 20) + 7;

struct Room {
    hub: TestHub,
    alice: Agent,
    room: RoomAnswer,
}

impl Room {
    async fn new() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut HubOptions)) -> Self {
        let hub = TestHub::with(|options| {
            options.open = true;
            change(options);
        })
        .await;
        let alice = hub.agent("alice").await;
        let room = alice.create_room("r").await;
        Self { hub, alice, room }
    }

    async fn begin(&self, body: &Value) -> Answer {
        self.alice.post(&paths::uploads(&self.room.room), body).await
    }

    async fn begin_sized(&self, size: usize) -> Answer {
        self.begin(&json!({ "size": size })).await
    }

    async fn begun(&self, size: Option<usize>) -> UploadProgress {
        let body = size.map_or(json!({}), |size| json!({ "size": size }));
        self.begin(&body).await.expect(201).json()
    }

    fn path(&self, upload: &UploadProgress) -> String {
        paths::upload(&self.room.room, &upload.upload)
    }

    async fn end(&self, upload: &UploadProgress) {
        let ended = self
            .alice
            .send("DELETE", &self.path(upload), |request| request, "")
            .await;
        assert_eq!(ended.status, 204);
    }

    async fn append(&self, upload: &UploadProgress, offset: usize, bytes: &[u8]) -> Answer {
        append(&self.alice, &self.path(upload), offset, bytes).await
    }

    /// Posts a push of this bundle, whose bytes are in the upload.
    async fn post(&self, upload: &UploadProgress, push: Push) -> Answer {
        post(&self.alice, &self.room, upload, push).await
    }

    async fn blob(&self, bundle: &[u8]) -> Answer {
        self.alice
            .get(&paths::blob(&self.room.room, &BundleId::of(bundle)))
            .await
    }

    /// Files of uploads, two for each.
    fn files(&self) -> usize {
        files(&self.hub.directory)
    }
}

fn files(directory: &TempDir) -> usize {
    std::fs::read_dir(directory.path().join("hub/blobs/uploads"))
        .unwrap()
        .count()
}

async fn append(agent: &Agent, path: &str, offset: usize, bytes: &[u8]) -> Answer {
    let fields = |request: hyper::http::request::Builder| {
        request
            .header("content-type", paths::PARTIAL_UPLOAD_TYPE)
            .header(paths::UPLOAD_OFFSET_HEADER, offset)
    };
    agent.send("PATCH", path, fields, Bytes::copy_from_slice(bytes)).await
}

async fn post(agent: &Agent, room: &RoomAnswer, upload: &UploadProgress, push: Push) -> Answer {
    let signed = push.sign(agent, room);
    let fields = |request: hyper::http::request::Builder| {
        request
            .header("content-type", "application/json")
            .header(paths::UPLOAD_HEADER, upload.upload.to_string())
    };
    agent
        .send("POST", &paths::messages(&room.room), fields, signed.body.clone())
        .await
}

fn push(branch: &str, bundle: &[u8]) -> Push {
    Push::new().branch(branch, None, Some(oid('a'))).bundle(bundle)
}

#[tokio::test]
async fn an_upload_goes_on_where_it_stopped_and_becomes_the_blob_of_its_message() {
    let room = Room::new().await;
    let bundle = bytes(SIZE, 1);
    for size in [Some(SIZE), None] {
        let branch = if size.is_some() { "a" } else { "b" };
        let bundle = if size.is_some() { bundle.clone() } else { bytes(SIZE, 2) };
        let answer = room
            .begin(&size.map_or(json!({}), |size| json!({ "size": size })))
            .await
            .expect(201);
        let upload: UploadProgress = answer.json();
        assert_eq!((upload.offset, upload.size), (0, size.map(|size| size as u64)));
        assert_eq!(upload.max_bytes, limits::MAX_BLOB_BYTES);
        assert_eq!(answer.header("location"), room.path(&upload));
        let mut offset = 0;
        for piece in bundle.chunks(300_000) {
            let answer = room.append(&upload, offset, piece).await.expect(200);
            offset += piece.len();
            assert_eq!(answer.json::<UploadProgress>().offset, offset as u64);
            let head = room
                .alice
                .send("HEAD", &room.path(&upload), |request| request, "")
                .await
                .expect(200);
            assert_eq!(head.header(paths::UPLOAD_OFFSET_HEADER), offset.to_string());
            assert!(head.body.is_empty());
        }
        room.blob(&bundle).await.problem(ErrorCode::NotFound);
        let posted: Posted = room.post(&upload, push(branch, &bundle)).await.expect(201).json();
        assert!(room.blob(&bundle).await.expect(200).body == bundle);
        assert_eq!(room.files(), 0);
        room.alice.get(&room.path(&upload)).await.problem(ErrorCode::NotFound);
        assert_eq!(posted.head.seq, posted.seq);
    }
}

#[tokio::test]
async fn a_repeated_message_gets_the_first_answer() {
    let room = Room::new().await;
    let bundle = bytes(SIZE, 1);
    let upload = room.begun(Some(SIZE)).await;
    room.append(&upload, 0, &bundle).await.expect(200).head();
    let signed = push("main", &bundle).sign(&room.alice, &room.room);
    let post = async || {
        let fields = |request: hyper::http::request::Builder| {
            request
                .header("content-type", "application/json")
                .header(paths::UPLOAD_HEADER, upload.upload.to_string())
        };
        room.alice
            .send("POST", &paths::messages(&room.room.room), fields, signed.body.clone())
            .await
    };
    let first: Posted = post().await.expect(201).json();
    let second: Posted = post().await.expect(200).json();
    assert_eq!(first, second);
    assert_eq!(second.seq, Seq::new(1));
}

#[tokio::test]
async fn a_lost_race_keeps_the_upload_for_the_next_message() {
    let room = Room::new().await;
    let (bundle, other) = (bytes(SIZE, 1), bytes(100, 2));
    let upload = room.begun(Some(SIZE)).await;
    room.append(&upload, 0, &bundle).await.expect(200).head();
    let won = push("main", &other).sign(&room.alice, &room.room);
    room.alice
        .post_with_blob(&room.room.room, &won.body, &other)
        .await
        .expect(201)
        .head();
    room.post(&upload, push("main", &bundle))
        .await
        .problem(ErrorCode::RefMoved);
    let progress: UploadProgress = room.alice.get(&room.path(&upload)).await.expect(200).json();
    assert_eq!(progress.offset, SIZE as u64);
    room.post(&upload, push("rest", &bundle)).await.expect(201).head();
    assert!(room.blob(&bundle).await.expect(200).body == bundle);
    assert_eq!(room.files(), 0);
}

#[tokio::test]
async fn bytes_that_do_not_follow_are_refused_with_the_right_offset() {
    let room = Room::new().await;
    let upload = room.begun(Some(1000)).await;
    room.append(&upload, 0, &[1; 600]).await.expect(200).head();
    for wrong in [0, 599, 601, 5000] {
        let problem = room
            .append(&upload, wrong, &[2; 10])
            .await
            .problem(ErrorCode::UploadOffset);
        assert_eq!(problem.offset, Some(600), "{wrong}");
    }
    // More than announced: refused before it is read, and nothing of it is kept.
    room.append(&upload, 600, &[3; 401]).await.problem(ErrorCode::TooLarge);
    // Without a length it is cut off where it becomes too long.
    let chunked = format!(
        "PATCH {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\nUpload-Offset: 600\r\n\
         Transfer-Encoding: chunked\r\n\r\n1f4\r\n{}\r\n0\r\n\r\n",
        room.path(&upload),
        room.alice.address,
        room.alice.token,
        paths::PARTIAL_UPLOAD_TYPE,
        "x".repeat(500),
    );
    let answer = raw(room.alice.address, chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let progress: UploadProgress = room.alice.get(&room.path(&upload)).await.expect(200).json();
    assert_eq!(progress.offset, 600);
    for (offset, kind) in [
        ("-1", paths::PARTIAL_UPLOAD_TYPE),
        ("+1", paths::PARTIAL_UPLOAD_TYPE),
        ("", paths::PARTIAL_UPLOAD_TYPE),
    ] {
        let fields = |request: hyper::http::request::Builder| {
            request
                .header("content-type", kind)
                .header(paths::UPLOAD_OFFSET_HEADER, offset)
        };
        let answer = room.alice.send("PATCH", &room.path(&upload), fields, "x").await;
        answer.problem(ErrorCode::BadRequest);
    }
    let bare = |request: hyper::http::request::Builder| request.header("content-type", "text/plain");
    let answer = room.alice.send("PATCH", &room.path(&upload), bare, "x").await;
    answer.problem(ErrorCode::UnsupportedMediaType);
    let too_large = json!({ "size": limits::MAX_BLOB_BYTES + 1 });
    room.begin(&too_large).await.problem(ErrorCode::TooLarge);
    room.begin(&json!({ "size": -1 })).await.problem(ErrorCode::BadRequest);
    room.begin(&json!({ "sise": 1 })).await.problem(ErrorCode::BadRequest);
}

#[tokio::test]
async fn an_upload_that_is_not_the_blob_is_never_served_and_goes() {
    let room = Room::new().await;
    let (bundle, other) = (bytes(SIZE, 1), bytes(SIZE, 2));
    let upload = room.begun(Some(SIZE)).await;
    room.append(&upload, 0, &other[..SIZE - 1]).await.expect(200).head();
    // Not whole yet: the message is early, and the upload stays.
    room.post(&upload, push("main", &bundle))
        .await
        .problem(ErrorCode::BlobMismatch);
    room.append(&upload, SIZE - 1, &other[SIZE - 1..])
        .await
        .expect(200)
        .head();
    room.post(&upload, push("main", &bundle))
        .await
        .problem(ErrorCode::BlobMismatch);
    room.blob(&bundle).await.problem(ErrorCode::NotFound);
    room.blob(&other).await.problem(ErrorCode::NotFound);
    room.post(&upload, push("main", &other))
        .await
        .problem(ErrorCode::UnknownUpload);
    assert_eq!(room.files(), 0);
}

#[tokio::test]
async fn an_upload_is_its_owners_alone_and_of_one_room() {
    let room = Room::new().await;
    let bob = room.hub.agent("bob").await;
    room.alice.invite(&room.room.room, &bob).await;
    let mallory = room.hub.agent("mallory").await;
    let bundle = bytes(SIZE, 1);
    let upload = room.begun(Some(SIZE)).await;
    room.append(&upload, 0, &bundle).await.expect(200).head();
    let path = room.path(&upload);
    for other in [&bob, &mallory] {
        other.get(&path).await.problem(ErrorCode::NotFound);
        append(other, &path, SIZE, b"").await.problem(ErrorCode::NotFound);
        let answer = other.send("DELETE", &path, |request| request, "").await;
        answer.problem(ErrorCode::NotFound);
    }
    let answer = mallory.post(&paths::uploads(&room.room.room), &json!({})).await;
    answer.problem(ErrorCode::NotFound);
    let stolen = post(&bob, &room.room, &upload, push("bobs", &bundle)).await;
    stolen.problem(ErrorCode::UnknownUpload);
    // Nor in another room of the owner's.
    let elsewhere = room.alice.create_room("elsewhere").await;
    let moved = post(&room.alice, &elsewhere, &upload, push("main", &bundle)).await;
    moved.problem(ErrorCode::UnknownUpload);
    room.alice
        .get(&paths::upload(&elsewhere.room, &upload.upload))
        .await
        .problem(ErrorCode::NotFound);
    room.post(&upload, push("main", &bundle)).await.expect(201).head();
    let removed = room.begun(None).await;
    let path = room.path(&removed);
    let delete = async || room.alice.send("DELETE", &path, |request| request, "").await;
    assert_eq!(delete().await.status, 204);
    delete().await.problem(ErrorCode::NotFound);
    assert_eq!(room.files(), 0);
}

#[tokio::test]
async fn a_newer_request_takes_an_upload_over_and_no_bytes_mix() {
    let room = Room::new().await;
    let upload = room.begun(Some(2000)).await;
    // A request that sends 500 bytes of 1,000 and then nothing, as over a connection that died unseen.
    let stalled = format!(
        "PATCH {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\nUpload-Offset: 0\r\n\
         Content-Length: 1000\r\n\r\n{}",
        room.path(&upload),
        room.alice.address,
        room.alice.token,
        paths::PARTIAL_UPLOAD_TYPE,
        "a".repeat(500),
    );
    let address = room.alice.address;
    let stalled = tokio::spawn(async move { raw(address, stalled.as_bytes()).await });
    // Until the hub has it in its hands: the file grows only when somebody else asks.
    let asked = async || -> UploadProgress { room.alice.get(&room.path(&upload)).await.expect(200).json() };
    until("the hub has half of it", async || asked().await.offset >= 500).await;
    let answer = stalled.await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 409 ") && answer.contains("upload_offset") && answer.contains("connection: close"),
        "{answer}"
    );
    room.append(&upload, 500, &[b'b'; 1500]).await.expect(200).head();
    let bundle = ["a".repeat(500), "b".repeat(1500)].concat().into_bytes();
    room.post(&upload, push("main", &bundle)).await.expect(201).head();

    // Two at once with the same offset: one of them has its bytes, the other is told so.
    let upload = room.begun(Some(SIZE)).await;
    let (one, other) = (vec![b'1'; SIZE], vec![b'2'; SIZE]);
    let (first, second) = tokio::join!(room.append(&upload, 0, &one), room.append(&upload, 0, &other));
    assert!(
        first.status == 409 || second.status == 409,
        "{} {}",
        first.status,
        second.status
    );
    let progress: UploadProgress = room.alice.get(&room.path(&upload)).await.expect(200).json();
    let file = room.hub.directory.path().join("hub/blobs/uploads");
    let held = std::fs::read(file.join(upload.upload.to_string())).unwrap();
    assert_eq!(held.len() as u64, progress.offset);
    assert!(held == one[..held.len()] || held == other[..held.len()]);
}

#[tokio::test]
async fn each_agent_has_so_many_uploads_and_bytes_and_no_more() {
    let room = Room::with(|options| {
        options.limits.max_uploads = 2;
        options.limits.max_upload_bytes = 2000;
    })
    .await;
    let first = room.begun(Some(1500)).await;
    // Announced bytes count.
    let full = room.begin(&json!({ "size": 501 })).await;
    full.problem(ErrorCode::RateLimited);
    assert_eq!(full.header("retry-after"), "60");
    let second = room.begun(None).await;
    room.append(&second, 0, &[1; 500]).await.expect(200).head();
    room.append(&second, 500, &[1; 1]).await.problem(ErrorCode::RateLimited);
    room.begin(&json!({})).await.problem(ErrorCode::RateLimited);
    // Another agent has its own.
    let bob = room.hub.agent("bob").await;
    room.alice.invite(&room.room.room, &bob).await;
    let theirs = bob
        .post(&paths::uploads(&room.room.room), &json!({ "size": 2000 }))
        .await;
    theirs.expect(201).head();
    // One that stood still gives way.
    room.hub.pass(Duration::from_secs(901));
    room.append(&second, 500, b"").await.expect(200).head();
    room.begun(None).await;
    room.alice.get(&room.path(&first)).await.problem(ErrorCode::NotFound);
    room.alice.get(&room.path(&second)).await.expect(200).head();
}

/// Uploads that begin together are counted like those that begin one after the other.
#[tokio::test]
async fn uploads_that_begin_at_once_are_as_many_as_an_agent_may_have() {
    let room = Room::with(|options| {
        options.limits.max_uploads = 2;
        options.limits.max_upload_bytes = 2000;
    })
    .await;
    // One key is one upload.
    let path = paths::uploads(&room.room.room);
    let begin = |_| {
        let fields = |request: hyper::http::request::Builder| {
            request
                .header("content-type", "application/json")
                .header(paths::IDEMPOTENCY_KEY_HEADER, "k")
        };
        room.alice
            .send("POST", &path, fields, json!({ "size": 1500 }).to_string())
    };
    let answers = futures_util::future::join_all((0..16).map(begin)).await;
    let first: UploadProgress = answers[0].json();
    for answer in &answers {
        assert_eq!(answer.json::<UploadProgress>().upload, first.upload);
    }
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
    assert_eq!(room.files(), 2);
    room.end(&first).await;
    // Of too many bytes together, and of no bytes at all.
    for (size, admitted) in [(1500, 1), (0, 2)] {
        let begin = |_| room.begin_sized(size);
        let mut answers = futures_util::future::join_all((0..16).map(begin)).await;
        answers.retain(|answer| answer.status != 429);
        assert_eq!(answers.len(), admitted);
        assert_eq!(room.files(), 2 * admitted);
        for answer in answers {
            let upload: UploadProgress = answer.expect(201).json();
            room.end(&upload).await;
        }
    }
}

/// Each is an open file, and a member may have many tokens: all together leave files for the connections.
#[tokio::test]
async fn all_agents_together_have_so_many_uploads_and_no_more() {
    let room = Room::with(|options| options.limits.max_uploads_of_all = 2).await;
    let bob = room.hub.agent("bob").await;
    room.alice.invite(&room.room.room, &bob).await;
    let begin = async || bob.post(&paths::uploads(&room.room.room), &json!({})).await;
    let first = room.begun(None).await;
    room.hub.pass(Duration::from_secs(1));
    let second = room.begun(None).await;
    begin().await.problem(ErrorCode::RateLimited);
    // One that stood still gives way, whoever has it.
    room.hub.pass(Duration::from_secs(901));
    begin().await.expect(201).head();
    room.alice.get(&room.path(&first)).await.problem(ErrorCode::NotFound);
    room.alice.get(&room.path(&second)).await.expect(200).head();
}

#[tokio::test]
async fn an_upload_that_stood_still_is_forgotten() {
    const TTL: Duration = Duration::from_secs(3600);
    let room = Room::with(|options| options.limits.upload_ttl = TTL).await;
    let upload = room.begun(None).await;
    room.hub.pass(TTL - Duration::from_secs(1));
    let progress: UploadProgress = room.append(&upload, 0, b"x").await.expect(200).json();
    let ttl = i64::try_from(TTL.as_millis()).unwrap();
    assert_eq!(progress.expires_at, room.hub.now_ms() + ttl);
    room.hub.pass(TTL - Duration::from_secs(1));
    room.alice.get(&room.path(&upload)).await.expect(200).head();
    room.hub.pass(Duration::from_secs(1));
    room.alice.get(&room.path(&upload)).await.problem(ErrorCode::NotFound);
    room.append(&upload, 1, b"x").await.problem(ErrorCode::NotFound);
    assert_eq!(room.files(), 2);
    // Removed when something new comes.
    room.begun(None).await;
    assert_eq!(room.files(), 2);
}

#[tokio::test]
async fn a_key_finds_the_upload_that_was_begun_with_it() {
    let room = Room::new().await;
    let begin = async |key: &'static str, size: usize| {
        let fields = |request: hyper::http::request::Builder| {
            request
                .header("content-type", "application/json")
                .header(paths::IDEMPOTENCY_KEY_HEADER, key)
        };
        let body = json!({ "size": size }).to_string();
        room.alice
            .send("POST", &paths::uploads(&room.room.room), fields, body)
            .await
    };
    let first: UploadProgress = begin("k", 1000).await.expect(201).json();
    room.append(&first, 0, &[1; 300]).await.expect(200).head();
    let again: UploadProgress = begin("k", 1000).await.expect(200).json();
    assert_eq!((again.upload, again.offset), (first.upload, 300));
    begin("k", 999).await.problem(ErrorCode::IdempotencyConflict);
    let other: UploadProgress = begin("l", 1000).await.expect(201).json();
    assert_ne!(other.upload, first.upload);
}

#[tokio::test]
async fn uploads_and_what_was_stored_of_them_outlive_a_restart() {
    let directory = Arc::new(TempDir::new().unwrap());
    let hub = TestHub::on(Arc::clone(&directory), |options| options.open = true).await;
    let mut alice = hub.agent("alice").await;
    let room = alice.create_room("r").await;
    let (bundle, orphan) = (bytes(SIZE, 1), bytes(SIZE, 2));
    let path = paths::uploads(&room.room);
    let upload: UploadProgress = alice.post(&path, &json!({ "size": SIZE })).await.expect(201).json();
    let place = paths::upload(&room.room, &upload.upload);
    append(&alice, &place, 0, &bundle[..SIZE / 3]).await.expect(200).head();
    // A blob without a row, as a lost race leaves it, beside one that has its row.
    let stored = bytes(SIZE, 3);
    let signed = push("main", &stored).sign(&alice, &room);
    alice
        .post_with_blob(&room.room, &signed.body, &stored)
        .await
        .expect(201)
        .head();
    let id = BundleId::of(&orphan).to_string();
    let orphan_path = directory.path().join("hub/blobs").join(&id[..2]).join(&id);
    std::fs::create_dir_all(orphan_path.parent().unwrap()).unwrap();
    std::fs::write(&orphan_path, &orphan).unwrap();
    hub.stop().await.unwrap().unwrap();

    let hub = TestHub::on(Arc::clone(&directory), |options| options.open = true).await;
    alice.address = hub.address;
    let progress: UploadProgress = alice.get(&place).await.expect(200).json();
    assert_eq!(progress.offset, (SIZE / 3) as u64);
    assert!(!orphan_path.exists(), "a blob without a row");
    let kept = alice.get(&paths::blob(&room.room, &BundleId::of(&stored))).await;
    assert!(kept.expect(200).body == stored, "a blob with a row");
    append(&alice, &place, SIZE / 3, &bundle[SIZE / 3..])
        .await
        .expect(200)
        .head();
    post(&alice, &room, &upload, push("more", &bundle))
        .await
        .expect(201)
        .head();
    let answer = alice.get(&paths::blob(&room.room, &BundleId::of(&bundle))).await;
    assert!(answer.expect(200).body == bundle);
    assert_eq!(files(&directory), 0);
}
