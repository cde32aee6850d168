//! Blobs: only the bytes that were announced, and only for members of a room that holds them.

use parler_protocol::api::{Posted, RoomAnswer};
use parler_protocol::{BundleId, ErrorCode, Seq, limits, paths};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::support::{
    Agent, Answer, Push, RunningProgram, TestHub, ask_closing, bytes, cut_off, oid, raw, text_message, until,
};

/// A blob of this size is kept in a file.
pub(crate) const LARGE: usize = (1 << 20) + 7;

/// A room with one member.
pub(crate) struct Room {
    pub(crate) hub: TestHub,
    pub(crate) alice: Agent,
    pub(crate) room: RoomAnswer,
}

impl Room {
    pub(crate) async fn new() -> Self {
        let hub = TestHub::start().await;
        let alice = hub.agent("alice").await;
        let room = alice.create_room("r").await;
        Self { hub, alice, room }
    }

    /// A push to a new branch that brings this bundle.
    pub(crate) async fn push(&self, branch: &str, bundle: &[u8]) -> Answer {
        let push = Push::new().branch(branch, None, Some(oid('a'))).bundle(bundle);
        let signed = push.sign(&self.alice, &self.room);
        self.alice.post_with_blob(&self.room.room, &signed.body, bundle).await
    }

    async fn blob(&self, id: &BundleId) -> Answer {
        self.alice.get(&paths::blob(&self.room.room, id)).await
    }

    /// Files among the stored blobs, temporary ones included.
    fn files(&self) -> usize {
        fn count(directory: &std::path::Path) -> usize {
            std::fs::read_dir(directory)
                .unwrap()
                .map(|entry| entry.unwrap())
                .map(|entry| {
                    if entry.file_type().unwrap().is_dir() {
                        count(&entry.path())
                    } else {
                        1
                    }
                })
                .sum()
        }
        count(&self.hub.directory.path().join("hub/blobs"))
    }
}

#[tokio::test]
async fn bundles_of_all_sizes_come_back_as_they_were() {
    let room = Room::new().await;
    let inline = limits::INLINE_BLOB_BYTES as usize;
    for (index, size) in [1, 1000, inline - 1, inline, inline + 1, 256 << 10, LARGE]
        .into_iter()
        .enumerate()
    {
        let bundle = bytes(size, index as u32);
        let answer = room.push(&format!("b{index}"), &bundle).await;
        assert_eq!(answer.status, 201, "{size}: {answer:?}");
        let id = BundleId::of(&bundle);
        let answer = room.blob(&id).await.expect(200);
        assert!(answer.body == bundle, "{size}");
        assert_eq!(answer.header("content-length"), size.to_string());
        assert_eq!(answer.header("content-type"), "application/octet-stream");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("cache-control"), "private, no-store");
        assert_eq!(answer.header("etag"), format!("\"{id}\""));
        assert_eq!(answer.head().seq, Seq::new(index as u64 + 1));
    }
    assert_eq!(room.files(), 3, "the large ones, and nothing temporary");
}

#[tokio::test]
async fn bytes_that_are_not_the_announced_ones_leave_nothing() {
    let room = Room::new().await;
    for size in [1000, LARGE] {
        let (bundle, other) = (bytes(size, 1), bytes(size, 2));
        let push = || Push::new().branch("x", None, Some(oid('a')));
        let signed = push().bundle(&bundle).sign(&room.alice, &room.room);
        let post = async |blob: &[u8]| room.alice.post_with_blob(&room.room.room, &signed.body, blob).await;
        post(&other).await.problem(ErrorCode::BlobMismatch);
        post(&bundle[1..]).await.problem(ErrorCode::BlobMismatch);
        post(&[&bundle[..], b"x"].concat())
            .await
            .problem(ErrorCode::BlobMismatch);
        post(b"").await.problem(ErrorCode::BlobMismatch);
        // Nor without any bytes: the room does not hold it.
        let bare = room
            .alice
            .post_bytes(&paths::messages(&room.room.room), signed.body.clone())
            .await;
        bare.problem(ErrorCode::UnknownBlob);
        room.blob(&BundleId::of(&bundle)).await.problem(ErrorCode::NotFound);
        room.blob(&BundleId::of(&other)).await.problem(ErrorCode::NotFound);
    }
    assert_eq!(room.files(), 0);
    let head = room.alice.get(&paths::refs(&room.room.room)).await.expect(200).head();
    assert_eq!(head.seq, Seq::ZERO);
}

#[tokio::test]
async fn what_would_be_refused_is_refused_before_the_bytes_are_read() {
    let room = Room::new().await;
    room.push("main", &bytes(10, 1)).await.expect(201).head();
    let bundle = bytes(LARGE, 2);
    let stale = Push::new()
        .branch("main", Some(oid('9')), Some(oid('b')))
        .bundle(&bundle);
    let signed = stale.sign(&room.alice, &room.room);
    let head = |token: &str, message: usize, blob: usize| {
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: {}\r\n{}: {message}\r\n\
             Content-Length: {}\r\n\r\n",
            paths::messages(&room.room.room),
            room.alice.address,
            paths::MESSAGE_WITH_BLOB_TYPE,
            paths::MESSAGE_LENGTH_HEADER,
            message + blob,
        )
    };
    // Only the message is sent: the answer cannot wait for the blob.
    let sent = [
        head(&room.alice.token, signed.body.len(), bundle.len()).as_bytes(),
        &signed.body,
    ]
    .concat();
    let answer = raw(room.alice.address, &sent).await;
    assert!(
        answer.starts_with("HTTP/1.1 409 ") && answer.contains("ref_moved") && answer.contains("connection: close"),
        "{answer}"
    );

    // A repetition is answered without its bytes too.
    let push = Push::new().branch("other", None, Some(oid('c'))).bundle(&bundle);
    let signed = push.sign(&room.alice, &room.room);
    room.alice
        .post_with_blob(&room.room.room, &signed.body, &bundle)
        .await
        .expect(201)
        .head();
    let sent = [
        head(&room.alice.token, signed.body.len(), bundle.len()).as_bytes(),
        &signed.body,
    ]
    .concat();
    let answer = raw(room.alice.address, &sent).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    // Sent whole by a client that writes everything before it reads, the refusal still arrives.
    let bundle = bytes(8 << 20, 3);
    let stale = Push::new()
        .branch("main", Some(oid('9')), Some(oid('b')))
        .bundle(&bundle);
    let signed = stale.sign(&room.alice, &room.room);
    let head = head(&room.alice.token, signed.body.len(), bundle.len());
    let answer = raw(room.alice.address, &[head.as_bytes(), &signed.body, &bundle].concat()).await;
    assert!(
        answer.starts_with("HTTP/1.1 409 ") && answer.contains("ref_moved"),
        "{answer}"
    );
    assert_eq!(room.files(), 1);
}

#[tokio::test]
async fn lengths_are_announced_and_hold() {
    let room = Room::new().await;
    let bundle = bytes(LARGE, 1);
    let signed = Push::new()
        .branch("x", None, Some(oid('a')))
        .bundle(&bundle)
        .sign(&room.alice, &room.room);
    let path = paths::messages(&room.room.room);
    let body = [&signed.body[..], &bundle].concat();
    let typed = |length: Option<String>| {
        move |request: hyper::http::request::Builder| {
            let request = request.header("content-type", paths::MESSAGE_WITH_BLOB_TYPE);
            match length {
                Some(length) => request.header(paths::MESSAGE_LENGTH_HEADER, length),
                None => request,
            }
        }
    };
    for length in [None, Some("x".to_owned()), Some("-1".to_owned())] {
        room.alice
            .send("POST", &path, typed(length), body.clone())
            .await
            .problem(ErrorCode::BadRequest);
    }
    let longer = Some((signed.body.len() + 1).to_string());
    let alone = room.alice.send("POST", &path, typed(longer), signed.body.clone()).await;
    alone.problem(ErrorCode::BadRequest);
    let over = Some((limits::MAX_MESSAGE_BYTES + 1).to_string());
    room.alice
        .send("POST", &path, typed(over), body.clone())
        .await
        .problem(ErrorCode::TooLarge);
    // Cut inside the message: what is left is no JSON.
    let short = Some((signed.body.len() - 1).to_string());
    room.alice
        .send("POST", &path, typed(short), body.clone())
        .await
        .problem(ErrorCode::BadRequest);

    let head = |framing: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {}\r\n{}: {}\r\n{framing}\r\n\r\n",
            room.alice.address,
            room.alice.token,
            paths::MESSAGE_WITH_BLOB_TYPE,
            paths::MESSAGE_LENGTH_HEADER,
            signed.body.len(),
        )
    };
    let chunked = head("Transfer-Encoding: chunked\r\nConnection: close") + "0\r\n\r\n";
    assert!(
        raw(room.alice.address, chunked.as_bytes())
            .await
            .starts_with("HTTP/1.1 400 ")
    );
    let both = head(&format!(
        "Content-Length: {}\r\nTransfer-Encoding: chunked\r\nConnection: close",
        body.len()
    ));
    assert!(
        raw(room.alice.address, (both + "0\r\n\r\n").as_bytes())
            .await
            .starts_with("HTTP/1.1 400 ")
    );

    // Cut off in the middle of the blob: the connection ends, and nothing is kept.
    let mut stream = tokio::net::TcpStream::connect(room.alice.address).await.unwrap();
    let half = [
        head(&format!("Content-Length: {}", body.len())).as_bytes(),
        &body[..body.len() / 2],
    ]
    .concat();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &half).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut stream).await.unwrap();
    let mut rest = Vec::new();
    // Whether an answer comes is not the point.
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await;
    room.blob(&BundleId::of(&bundle)).await.problem(ErrorCode::NotFound);
    // A thread may still be writing the last piece; it removes the file when it is done.
    until("nothing is kept", async || room.files() == 0).await;
}

#[tokio::test]
async fn a_blob_over_the_hubs_limit_is_refused_unread() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.max_blob_bytes = 1000;
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await;
    let push = |size: usize| Push::new().branch("x", None, Some(oid('a'))).bundle(&bytes(size, 1));
    let signed = push(1001).sign(&alice, &room);
    alice
        .post_with_blob(&room.room, &signed.body, &bytes(1001, 1))
        .await
        .problem(ErrorCode::TooLarge);
    let signed = push(1000).sign(&alice, &room);
    alice
        .post_with_blob(&room.room, &signed.body, &bytes(1000, 1))
        .await
        .expect(201)
        .head();
}

#[tokio::test]
async fn a_blob_is_readable_and_referable_only_where_it_is() {
    let room = Room::new().await;
    let bob = room.hub.agent("bob").await;
    let other = bob.create_room("other").await;
    for size in [1000, LARGE] {
        let bundle = bytes(size, 5);
        room.push(&format!("b{size}"), &bundle).await.expect(201).head();
        let id = BundleId::of(&bundle);
        let unknown = BundleId::of(b"unknown");
        // Bob is not in alice's room, and the blob is not in his.
        let mut bodies = Vec::new();
        for path in [
            paths::blob(&room.room.room, &id),
            paths::blob(&other.room, &id),
            paths::blob(&other.room, &unknown),
            paths::bundles(&other.room, &[id]),
            format!("{}/other/blobs/{}", paths::ROOMS, "A".repeat(64)),
            format!("{}/other/blobs/..%2f..%2fx", paths::ROOMS),
        ] {
            let answer = bob.get(&path).await;
            answer.problem(ErrorCode::NotFound);
            bodies.push(answer.body);
        }
        bodies.dedup();
        assert_eq!(bodies.len(), 1);
        for part in [
            json!({ "kind": "com.parler.file", "blob": id, "name": "x", "size": size }),
            json!({ "kind": "com.parler.handoff", "next": "x", "bundle": id }),
            json!({ "kind": "com.parler.task", "status": "done", "result": id }),
        ] {
            let mut message = text_message("x");
            message["parts"] = json!([part]);
            bob.post(&paths::messages(&other.room), &message)
                .await
                .problem(ErrorCode::UnknownBlob);
            room.alice
                .post(&paths::messages(&room.room.room), &message)
                .await
                .expect(201)
                .head();
        }
        // Whoever has the bytes may bring them to another room.
        let signed = Push::new()
            .branch(&format!("b{size}"), None, Some(oid('a')))
            .bundle(&bundle)
            .sign(&bob, &other);
        bob.post_with_blob(&other.room, &signed.body, &bundle)
            .await
            .expect(201)
            .head();
        assert!(bob.get(&paths::blob(&other.room, &id)).await.expect(200).body == bundle);
    }
}

#[tokio::test]
async fn a_file_travels_with_its_message_unsigned() {
    let room = Room::new().await;
    let file = bytes(5000, 9);
    let mut message = text_message("see attachment");
    let part = json!({ "kind": "com.parler.file", "blob": BundleId::of(&file), "name": "log.txt", "size": file.len() });
    message["parts"].as_array_mut().unwrap().push(part);
    let body = message.to_string();
    let answer = room
        .alice
        .post_with_blob(&room.room.room, body.as_bytes(), &file)
        .await
        .expect(201);
    assert_eq!(answer.json::<Posted>().seq, Seq::new(1));
    // Not a push: nothing moved.
    let pushes = room
        .alice
        .get(&paths::pushes(&room.room.room, Seq::ZERO))
        .await
        .expect(200);
    assert_eq!(pushes.seqs(), [0_u64; 0]);
}

#[tokio::test]
async fn parts_of_a_blob_can_be_asked_for() {
    let room = Room::new().await;
    for size in [1000, LARGE] {
        let bundle = bytes(size, 3);
        room.push(&format!("b{size}"), &bundle).await.expect(201).head();
        let path = paths::blob(&room.room.room, &BundleId::of(&bundle));
        let get = async |range: String| {
            room.alice
                .send("GET", &path, |request| request.header("range", range), "")
                .await
        };
        let middle = get("bytes=10-99".to_owned()).await.expect(206);
        assert!(middle.body == bundle[10..100]);
        assert_eq!(middle.header("content-range"), format!("bytes 10-99/{size}"));
        let rest = get(format!("bytes={}-", size - 5)).await.expect(206);
        assert!(rest.body == bundle[size - 5..]);
        let beyond = get(format!("bytes={size}-")).await;
        beyond.problem(ErrorCode::RangeNotSatisfiable);
        assert_eq!(beyond.header("content-range"), format!("bytes */{size}"));
        let changed = |request: hyper::http::request::Builder| {
            request.header("range", "bytes=0-1").header("if-range", "\"other\"")
        };
        assert_eq!(room.alice.send("GET", &path, changed, "").await.status, 200);
    }
}

#[tokio::test]
async fn a_blob_whose_file_was_damaged_is_never_served_whole() {
    let room = Room::new().await;
    let bundle = bytes(LARGE, 4);
    room.push("x", &bundle).await.expect(201).head();
    let id = BundleId::of(&bundle);
    let file = room
        .hub
        .directory
        .path()
        .join("hub/blobs")
        .join(&id.to_string()[..2])
        .join(id.to_string());
    let mut damaged = bundle.clone();
    damaged[LARGE / 2] ^= 1;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &damaged).unwrap();
    for path in [
        paths::blob(&room.room.room, &id),
        paths::bundles(&room.room.room, &[id]),
    ] {
        let (announced, got) = cut_off(ask_closing(&room.alice, "GET", &path, "").await).await;
        assert!(got.len() < announced, "{path}: the whole damaged blob was served");
    }
    std::fs::write(&file, b"short").unwrap();
    room.blob(&id).await.problem(ErrorCode::Internal);
    // Gone, a directory, and a way to a file of others, however right that is.
    std::fs::remove_file(&file).unwrap();
    room.blob(&id).await.problem(ErrorCode::Internal);
    std::fs::create_dir(&file).unwrap();
    room.blob(&id).await.problem(ErrorCode::Internal);
    std::fs::remove_dir(&file).unwrap();
    let elsewhere = room.hub.directory.path().join("elsewhere");
    std::fs::write(&elsewhere, &bundle).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    room.blob(&id).await.problem(ErrorCode::Internal);
}

/// Readers that stand still hold a few pieces each, however long the blob is.
#[tokio::test]
async fn downloads_that_stand_still_hold_little() {
    const READERS: usize = 20;
    const BYTES: usize = 20 << 20;
    const MOST_KIB: usize = 16 << 10;
    /// So many answers of the hub without another page: nobody is served any more.
    const QUIET: usize = 40;
    let directory = tempfile::TempDir::new().unwrap();
    let hub = RunningProgram::start(&directory.path().join("hub"));
    let mut alice = hub.agent("alice").await;
    let room = alice.create_room("r").await;
    let bundle = bytes(BYTES, 1);
    let push = Push::new().branch("x", None, Some(oid('a'))).bundle(&bundle);
    let message = push.sign(&alice, &room).body;
    let posted = alice.post_with_blob(&room.room, &message, &bundle).await;
    posted.expect(201).head();
    let path = paths::blob(&room.room, &BundleId::of(&bundle));
    // A new process, whose peak is that of one download and not of the upload.
    assert!(hub.end(Signal::TERM).0);
    let hub = RunningProgram::start(&directory.path().join("hub"));
    alice.address = hub.address;
    let whole = alice.get(&path).await.expect(200);
    assert!(whole.body == bundle);

    let before = hub.peak_kib();
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let mut reader = ask_closing(&alice, "GET", &path, "").await;
        reader.read_u8().await.unwrap();
        readers.push(reader);
    }
    let (mut peak, mut quiet) = (hub.peak_kib(), 0);
    until("it holds no more than before", async || {
        alice.get(paths::HEALTH).await.expect(200).json::<serde_json::Value>();
        let now = hub.peak_kib();
        quiet = if now == peak { quiet + 1 } else { 0 };
        peak = now;
        quiet == QUIET
    })
    .await;
    let grown = peak.saturating_sub(before);
    assert!(grown < MOST_KIB, "{grown} KiB for {READERS} readers");
    // They were at it all the time.
    for reader in readers {
        let (announced, body) = cut_off(reader).await;
        assert!(announced == BYTES && body == bundle);
    }
    println!("{grown} KiB for {READERS} readers that stand still");
}
