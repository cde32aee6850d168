//! Data directories of every format this program can open: `fixtures/data/N` was written by the program whose newest
//! format was N, and is read back whole. A new format is kept by running `this_programs_directory_reads_back` with
//! `PARLER_KEEP_DATA=fixtures/data/N`.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use futures_util::TryStreamExt;
use parler_hub::blob_store::{BlobStore, FileBlobStore};
use parler_hub::store::{
    Append, BlobLocation, Claim, JobToken, MayServe, NewBlob, NewInvite, NewSession, NewToken, Principal, Queue,
    QueueWord, SqliteOptions, SqliteStore, Store, StoreError,
};
use parler_protocol::api::JobState;
use parler_protocol::{
    BundleId, ChainHash, Fence, InviteCode, Message, MessageId, RoomKind, Seq, TaskStatus, TokenScope, Verdict, verify,
};
use tempfile::TempDir;

use crate::support::{DAY_MS, NOW, oid, principal, push, reference, room, session, text};

const SMALL: &[u8] = b"a small blob";
const LARGE: &[u8] = b"a blob that went into a file";
const TOKEN: [u8; 32] = [5; 32];
/// What this program writes.
const NEWEST: u32 = 6;
const CENTURY_MS: i64 = 100 * 365 * DAY_MS;
/// The longest that there is.
const LEASE_MS: i64 = 3600 * 1000;

fn alice() -> Principal {
    Principal {
        role: Some("planner".parse().unwrap()),
        ..principal("alice")
    }
}

fn bob() -> Principal {
    principal("bob")
}

fn id(number: u8) -> MessageId {
    format!("01890a5d-ac96-774b-bcce-b302099a80{number:02}")
        .parse()
        .unwrap()
}

fn invite() -> InviteCode {
    "FXTUREDATA22".parse().unwrap()
}

/// The messages of room Build, in order.
fn messages() -> Vec<Append> {
    let (small, large) = (BundleId::of(SMALL), BundleId::of(LARGE));
    let mut parts = text(&alice(), "Build", "");
    parts.parts = br#"[ {"kind":"text","text":"\u00e9 \/"} , {"n": 1.50e0} ]"#.as_slice().into();
    parts.mentions = vec!["bob".into()];
    let first = push(
        &alice(),
        "Build",
        &[
            ("refs/heads/main", None, Some('1')),
            ("refs/heads/old", None, Some('2')),
        ],
    );
    let second = push(
        &bob(),
        "Build",
        &[
            ("refs/heads/main", Some('1'), Some('3')),
            ("refs/heads/old", Some('2'), None),
        ],
    );
    let appends = [
        parts,
        Append {
            blob: Some(NewBlob::Inline {
                id: small,
                bytes: Bytes::from_static(SMALL),
            }),
            refers_to: vec![reference(small)],
            ..first
        },
        Append {
            blob: Some(NewBlob::File {
                id: large,
                size: LARGE.len() as u64,
            }),
            refers_to: vec![reference(large)],
            reply_to: Some(id(2)),
            ..second
        },
        text(&bob(), "build", "the last"),
    ];
    let numbered = appends.into_iter().zip(1..);
    numbered
        .map(|(append, number)| Append {
            id: id(number),
            key: format!("key {number}"),
            ..append
        })
        .collect()
}

fn deploy() -> NewToken {
    NewToken {
        by: alice().agent,
        name: "Deploy".parse().unwrap(),
        account: principal("deploy").agent,
        hash: TOKEN,
        rooms: vec![room("Build")],
        can: vec![TokenScope::Post],
        expires_at: NOW + CENTURY_MS,
        now: NOW,
    }
}

/// A CI job that showed an identity token, since format 6.
fn shown() -> JobToken {
    JobToken {
        token: NewToken {
            name: "shown".parse().unwrap(),
            account: principal("shown").agent,
            hash: [6; 32],
            expires_at: NOW + 60_000,
            ..deploy()
        },
        room: Some(room("build")),
        issuer: "https://ci.example".into(),
        claims: [("sub".to_owned(), "job 1".to_owned())].into(),
        identity: [9; 32],
        identity_ends: NOW + CENTURY_MS,
        most_identities: 10,
    }
}

/// A service with a job that is claimed, since format 5.
async fn write_job(store: &SqliteStore) {
    let (worker, requester, service) = (principal("worker"), principal("requester"), room("svc.review"));
    for who in [&worker, &requester] {
        store.open_session(session(who)).await.unwrap();
    }
    store.serve(worker.agent, &service, MayServe::First, NOW).await.unwrap();
    store
        .enter_service(requester.agent, &service, false, NOW)
        .await
        .unwrap();
    let job = Append {
        id: id(8),
        key: "job".into(),
        queue: QueueWord {
            is_job: true,
            ..QueueWord::default()
        },
        ..text(&requester, "svc.review", "a job")
    };
    store.append(job).await.unwrap();
    let claim = Claim {
        by: worker.agent,
        room: service,
        id: id(7),
        lease_ms: LEASE_MS,
        own: false,
        now: NOW,
    };
    assert_eq!(store.claim(claim).await.unwrap().job.unwrap().fence.number, 1);
}

/// The same, read back and brought to its end.
async fn read_job(store: &SqliteStore) {
    let (worker, service) = (principal("worker"), room("svc.review"));
    let fence = Fence {
        seq: Seq::new(1),
        number: 1,
    };
    let page = store
        .jobs(worker.agent, &service, Seq::ZERO, 10, None, NOW)
        .await
        .unwrap();
    let jobs: Vec<_> = page
        .jobs
        .iter()
        .map(|job| (job.id, job.state, job.lease_until))
        .collect();
    assert_eq!(jobs, [(id(8), JobState::Claimed, Some(NOW + LEASE_MS))]);
    let done = Append {
        queue: QueueWord {
            receipts: vec![(id(8), TaskStatus::Done)],
            fence: Some(fence),
            ..QueueWord::default()
        },
        ..text(&worker, "svc.review", "done")
    };
    store.append(done).await.unwrap();
}

async fn write(directory: &Path) {
    let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
    let blobs = FileBlobStore::open_with_floor(directory.join("blobs"), 0).unwrap();
    for who in [alice(), bob()] {
        store.open_session(session(&who)).await.unwrap();
    }
    let kept = NewSession {
        token: TOKEN,
        expires_at: NOW + CENTURY_MS,
        ..session(&alice())
    };
    store.open_session(kept).await.unwrap();
    store
        .create_room(&room("Build"), RoomKind::Channel, alice().agent, NOW)
        .await
        .unwrap();
    store
        .create_room(&room("ops"), RoomKind::Channel, bob().agent, NOW)
        .await
        .unwrap();
    store.join_channel(bob().agent, &room("Build"), NOW).await.unwrap();
    let mut upload = blobs.begin(LARGE.len() as u64).await.unwrap();
    upload.write(Bytes::from_static(LARGE)).await.unwrap();
    upload.commit(BundleId::of(LARGE)).await.unwrap();
    for append in messages() {
        store.append(append).await.unwrap();
    }
    store
        .append(Append {
            id: id(9),
            key: "ops".into(),
            ..text(&bob(), "ops", "elsewhere")
        })
        .await
        .unwrap();
    store
        .acknowledge(bob().agent, &room("build"), Seq::new(2))
        .await
        .unwrap();
    store
        .record_fetches(bob().agent, &room("build"), &[BundleId::of(SMALL)], NOW)
        .await
        .unwrap();
    let invite = NewInvite {
        by: bob().agent,
        room: room("ops"),
        code: invite(),
        expires_at: NOW + CENTURY_MS,
        max_uses: 1,
        needs_approval: false,
        now: NOW,
    };
    store.create_invite(invite).await.unwrap();
    store.create_token(deploy()).await.unwrap();
    store.exchange_identity(shown()).await.unwrap();
    write_job(&store).await;
    store.close().await.unwrap();
}

async fn read_back(directory: &Path, format: u32) {
    let store = SqliteStore::open(directory, SqliteOptions::default()).unwrap();
    let blobs = FileBlobStore::open_with_floor(directory.join("blobs"), 0).unwrap();
    let (alice, bob, build) = (alice(), bob(), room("build"));

    // The log, byte for byte as the messages were made, and its chain.
    let page = store.read(alice.agent, &build, None, 100, usize::MAX).await.unwrap();
    assert_eq!((page.room.as_str(), page.messages.len()), ("Build", 4));
    let mut h = ChainHash::start(&store.hub(), &page.room);
    for (stored, append) in page.messages.iter().zip(messages()) {
        h = h.next(stored);
        assert!(stored.windows(append.parts.len()).any(|window| window == append.parts));
        let message = Message::parse(stored).unwrap();
        assert_eq!(
            (message.id, message.from.id, message.ts),
            (append.id, append.by.agent, NOW)
        );
        assert_eq!((message.mentions, message.reply_to), (append.mentions, append.reply_to));
        assert_eq!(message.from.role, append.by.role.map(|role| role.to_string()));
        assert_eq!(
            verify(&Message::parse(stored).unwrap(), &store.hub()),
            Verdict::Unsigned
        );
    }
    assert_eq!((page.head.seq.get(), page.head.h), (4, h));

    // Refs, pushes, members, cursors.
    let (list, _) = store.refs(bob.agent, &build).await.unwrap();
    let refs: Vec<_> = list
        .refs
        .iter()
        .map(|entry| (entry.name.as_str(), entry.oid, entry.seq.get()))
        .collect();
    assert_eq!(refs, [("refs/heads/main", oid('3'), 3)]);
    assert_eq!(list.head_ref.unwrap().as_str(), "refs/heads/main");
    assert_eq!(list.object_format.unwrap().to_string(), "sha1");
    let pushes = store.pushes(bob.agent, &build, Seq::ZERO, usize::MAX).await.unwrap();
    assert_eq!((pushes.version.get(), &pushes.messages[..]), (3, &page.messages[1..3]));
    let (_, members) = store.members(bob.agent, &build).await.unwrap();
    let members: Vec<_> = members
        .iter()
        .map(|member| (member.id, member.owner, member.cursor.get()))
        .collect();
    assert_eq!(members, [(alice.agent, true, 0), (bob.agent, false, 2)]);
    let rooms = store.rooms(bob.agent).await.unwrap();
    let rooms: Vec<_> = rooms.iter().map(|room| (room.room.as_str(), room.unread)).collect();
    // What is behind his cursor he wrote himself.
    assert_eq!(rooms, [("Build", 0), ("ops", 0)]);

    // Blobs.
    let (small, large) = (BundleId::of(SMALL), BundleId::of(LARGE));
    assert!(
        matches!(store.blob(bob.agent, &build, &small).await.unwrap(), BlobLocation::Inline(bytes) if bytes == SMALL)
    );
    let BlobLocation::File(size) = store.blob(bob.agent, &build, &large).await.unwrap() else {
        panic!("inline")
    };
    let pieces: Vec<Bytes> = blobs
        .read(&large, size, 0..size)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(pieces.concat(), LARGE);
    assert!(matches!(
        store.blob(bob.agent, &room("ops"), &small).await,
        Err(StoreError::NotFound)
    ));

    // Who has fetched what: known since format 3.
    if format < 3 {
        store.record_fetches(bob.agent, &build, &[small], NOW).await.unwrap();
    }
    let of = async |blobs: &[BundleId]| {
        let found = store.readers(alice.agent, &build, blobs).await.unwrap();
        found.readers.iter().map(|reader| reader.fetched_at).collect::<Vec<_>>()
    };
    assert_eq!(of(&[small]).await, [None, Some(NOW)]);
    assert_eq!(of(&[small, large]).await, [None, None]);
    assert_eq!(of(&[]).await, [None, None]);
    assert!(
        !store
            .record_fetches(bob.agent, &build, &[small], NOW + 1)
            .await
            .unwrap()
    );
    assert!(
        store
            .record_fetches(bob.agent, &build, &[small, large], NOW + 2)
            .await
            .unwrap()
    );
    assert_eq!(of(&[small, large]).await, [None, Some(NOW + 2)]);
    // What is not there is passed over, and a room that one is not in is none.
    let elsewhere = BundleId::of(b"elsewhere");
    assert!(
        !store
            .record_fetches(bob.agent, &build, &[elsewhere], NOW)
            .await
            .unwrap()
    );
    let refused = store.record_fetches(alice.agent, &room("ops"), &[small], NOW).await;
    assert!(matches!(refused, Err(StoreError::NotFound)));
    let refused = store.readers(alice.agent, &room("ops"), &[]).await;
    assert!(matches!(refused, Err(StoreError::NotFound)));

    // What makes repetition safe, and the secrets.
    for (append, stored) in messages().into_iter().zip(&page.messages) {
        let again = store.append(append).await.unwrap();
        assert_eq!((again.is_new, &again.stored), (false, stored));
    }
    assert_eq!(store.session(TOKEN, NOW).await.unwrap(), Some(alice.clone()));
    let joined = store.join(alice.agent, &invite(), NOW).await.unwrap();
    assert_eq!(joined.room().unwrap().room, room("ops"));
    if format < 2 {
        store.create_token(deploy()).await.unwrap();
    }
    let token = store.token(TOKEN).await.unwrap().unwrap();
    assert_eq!((token.account, token.summary.rooms.len()), (deploy().account, 1));
    assert_eq!(token.summary.rooms[0].can, deploy().can);
    if format < 6 {
        store.exchange_identity(shown()).await.unwrap();
    }
    let job = store.token([6; 32]).await.unwrap().unwrap();
    let expected = (shown().token.account, NOW + 60_000, shown().claims);
    assert_eq!(
        (job.account, job.summary.expires_at, job.summary.jobs[0].claims.clone()),
        expected
    );
    let again = store.exchange_identity(shown()).await;
    assert!(matches!(again, Err(StoreError::IdentityTaken)));
    if format < 5 {
        write_job(&store).await;
    }
    read_job(&store).await;
    let next = store.append(text(&bob, "build", "goes on")).await.unwrap();
    assert_eq!((next.posted.seq.get(), next.posted.head.h), (5, h.next(&next.stored)));
    store.close().await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
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

#[tokio::test]
async fn directories_of_every_format_read_back() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data");
    let mut formats = 0;
    for entry in fs::read_dir(&kept).unwrap() {
        let directory = TempDir::new().unwrap();
        let kept = entry.unwrap();
        copy(&kept.path(), directory.path());
        let format = kept.file_name().to_str().unwrap().parse().unwrap();
        read_back(directory.path(), format).await;
        formats += 1;
    }
    assert!(formats > 0, "nothing in {}", kept.display());
}

#[tokio::test]
async fn this_programs_directory_reads_back() {
    let directory = TempDir::new().unwrap();
    write(directory.path()).await;
    if let Some(keep) = std::env::var_os("PARLER_KEEP_DATA") {
        copy(
            directory.path(),
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(keep),
        );
    }
    read_back(directory.path(), NEWEST).await;
}
