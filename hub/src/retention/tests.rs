//! Looks at a store of its own, one after the other, as a hub does that serves.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use parler_protocol::{AgentKey, FilePart, MessageId, Part, RefUpdate, RefsPart, RoomKind, retry_digest};

use super::*;
use crate::store::{Append, BlobReference, NewBlob, NewSession, Principal, QueueWord};

/// When the first message comes, milliseconds since 1970.
const START: i64 = 1_800_000_000_000;
/// How long blobs are kept.
const KEPT: i64 = 1_000;

struct Bench {
    place: tempfile::TempDir,
    store: SqliteStore,
    blobs: FileBlobStore,
    alice: Principal,
    memory: Memory,
}

impl Bench {
    async fn new() -> Self {
        let place = tempfile::TempDir::new().unwrap();
        let store = SqliteStore::open(place.path(), SqliteOptions::default()).unwrap();
        let blobs = FileBlobStore::open(place.path().join(BLOBS_DIRECTORY)).unwrap();
        let alice = Principal {
            agent: AgentKey::from_random([1; 32]).id(),
            name: "alice".parse().unwrap(),
            role: None,
        };
        let session = NewSession {
            principal: alice.clone(),
            token: [1; 32],
            expires_at: START + 1,
            admit: true,
            invite: None,
            now: START,
        };
        store.open_session(session).await.unwrap();
        let bench = Self {
            place,
            store,
            blobs,
            alice,
            memory: Memory::default(),
        };
        bench.make("a").await;
        bench
    }

    async fn make(&self, room: &str) {
        let made = self
            .store
            .create_room(&room.parse().unwrap(), RoomKind::Channel, self.alice.agent, START)
            .await;
        made.unwrap();
    }

    async fn post(&self, room: &str, parts: Vec<Part>, brings: Option<&'static str>, at: i64) {
        let id = MessageId::generate();
        let refs = parts.iter().find_map(|part| match part {
            Part::Refs(refs) => Some(refs.clone()),
            _ => None,
        });
        let values: Vec<_> = parts.iter().map(Part::to_value).collect();
        let blob = brings.map(|bytes| BundleId::of(bytes.as_bytes()));
        let append = Append {
            by: self.alice.clone(),
            signed_by: None,
            room: room.parse().unwrap(),
            id,
            key: id.to_string(),
            digest: retry_digest(&values, &[], None),
            parts: serde_json::to_string(&values).unwrap().into(),
            mentions: Vec::new(),
            reply_to: None,
            is_push: refs.is_some(),
            refs,
            refers_to: blob.map(|id| BlobReference { id, size: None }).into_iter().collect(),
            builds_on: Vec::new(),
            blob: blob.zip(brings).map(|(id, bytes)| NewBlob::Inline {
                id,
                bytes: Bytes::from_static(bytes.as_bytes()),
            }),
            queue: QueueWord::default(),
            now: at,
        };
        self.store.append(append).await.unwrap();
    }

    async fn file(&self, room: &str, bytes: &'static str, at: i64) {
        let file = FilePart {
            blob: BundleId::of(bytes.as_bytes()),
            name: "notes".to_owned(),
            size: bytes.len() as u64,
            media_type: None,
            summary: None,
        };
        self.post(room, vec![file.into()], Some(bytes), at).await;
    }

    /// How many blobs a look at this time gives up, and how many rooms it cannot decide about.
    async fn look(&mut self, now: i64) -> (u64, u64) {
        let options = RetentionOptions {
            messages: None,
            blobs: Some(Duration::from_millis(KEPT.unsigned_abs())),
        };
        let looked = look(&self.store, &self.blobs, &options, now, false, &mut self.memory).await;
        let looked = looked.unwrap();
        (looked.blobs, looked.undecided_rooms)
    }
}

fn sql(data: &Path, statement: &str) {
    let connection = rusqlite::Connection::open(data.join("hub.db")).unwrap();
    assert!(connection.execute(statement, ()).unwrap() > 0, "{statement}");
}

/// Whoever reads the room trips over its first message.
fn spoil(bench: &Bench) {
    sql(
        bench.place.path(),
        "UPDATE messages SET body = CAST('{' || CAST(body AS TEXT) AS BLOB) WHERE seq = 1",
    );
}

fn mend(bench: &Bench) {
    sql(
        bench.place.path(),
        "UPDATE messages SET body = CAST(substr(CAST(body AS TEXT), 2) AS BLOB) WHERE seq = 1",
    );
}

fn text() -> Vec<Part> {
    vec![parler_protocol::TextPart { text: "hello".into() }.into()]
}

#[tokio::test]
async fn a_room_in_which_nothing_became_old_is_not_read_again() {
    let mut bench = Bench::new().await;
    bench.post("a", text(), None, START).await;
    bench.file("a", "old", START).await;
    bench.file("a", "young", START + 500).await;
    assert_eq!(bench.look(START + KEPT + 1).await, (1, 0));
    spoil(&bench);
    // What is young was then, and is still.
    assert_eq!(bench.look(START + KEPT + 500).await, (0, 0));
    // What came since is younger.
    bench.post("a", text(), None, START + 600).await;
    assert_eq!(bench.look(START + KEPT + 500).await, (0, 0));
    // The next one is old now.
    assert_eq!(bench.look(START + KEPT + 501).await, (0, 1));
    mend(&bench);
    assert_eq!(bench.look(START + KEPT + 501).await, (1, 0));
    // No blob is left.
    spoil(&bench);
    assert_eq!(bench.look(START + 9 * KEPT).await, (0, 0));
    mend(&bench);
    bench.file("a", "late", START + 9 * KEPT).await;
    assert_eq!(bench.look(START + 9 * KEPT).await, (0, 0));
    assert_eq!(bench.look(START + 11 * KEPT).await, (1, 0));
}

#[tokio::test]
async fn what_comes_after_a_look_gets_old_too() {
    let mut bench = Bench::new().await;
    bench.post("a", text(), None, START).await;
    // There is nothing to give up in it yet.
    assert_eq!(bench.look(START + KEPT).await, (0, 0));
    bench.file("a", "young", START + 2 * KEPT).await;
    assert_eq!(bench.look(START + 2 * KEPT).await, (0, 0));
    bench.file("a", "later", START + 2 * KEPT + 10).await;
    assert_eq!(bench.look(START + 3 * KEPT + 5).await, (1, 0));
    assert_eq!(bench.look(START + 3 * KEPT + 11).await, (1, 0));
}

#[tokio::test]
async fn a_ref_that_moves_is_reason_to_look_again() {
    let mut bench = Bench::new().await;
    let moves = |old: Option<char>, new: Option<char>| {
        let oid = |digit: char| digit.to_string().repeat(40).parse().unwrap();
        let update = RefUpdate {
            name: "refs/heads/main".parse().unwrap(),
            old: old.map(oid),
            new: new.map(oid),
            forced: false,
            peeled: None,
        };
        Part::from(RefsPart {
            updates: vec![update],
            atomic: false,
            object_format: parler_protocol::ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        })
    };
    let file = FilePart {
        blob: BundleId::of(b"one"),
        name: "notes".to_owned(),
        size: 3,
        media_type: None,
        summary: None,
    };
    let parts = vec![file.into(), moves(None, Some('1'))];
    bench.post("a", parts, Some("one"), START).await;
    // It hides from the clock that something came since.
    bench.post("a", text(), None, START + 2 * KEPT).await;
    // A ref at a commit that no bundle brings: not decided, and not asked again.
    assert_eq!(bench.look(START + 2 * KEPT).await, (0, 1));
    assert_eq!(bench.look(START + 2 * KEPT).await, (0, 0));
    bench
        .post("a", vec![moves(Some('1'), None)], None, START + 2 * KEPT)
        .await;
    assert_eq!(bench.look(START + 2 * KEPT).await, (1, 0));
}

/// The second is another, though as much has happened in it.
#[tokio::test]
async fn a_room_that_was_made_anew_is_read() {
    let mut bench = Bench::new().await;
    bench.file("a", "one", START).await;
    assert_eq!(bench.look(START + 1).await, (0, 0));
    // As long as it is the same room nothing is read.
    spoil(&bench);
    assert_eq!(bench.look(START + 1).await, (0, 0));
    sql(bench.place.path(), "UPDATE rooms SET created_at = created_at + 1");
    assert_eq!(bench.look(START + 1).await, (0, 1));
}

#[tokio::test]
async fn what_is_said_while_a_room_is_read_holds_nothing_up() {
    let mut bench = Bench::new().await;
    bench.file("a", "old", START).await;
    let room: RoomName = "a".parse().unwrap();
    let mut reading = Reading::new(START + 1);
    assert!(reading.read_on(&bench.store, &room).await.unwrap());
    // More than a drop looks through.
    futures_util::future::join_all((0..600).map(|_| bench.post("a", text(), None, START + 2))).await;
    let nothing = HashSet::new();
    let mut summary = RetentionSummary::default();
    let made_at = bench.store.all_rooms().await.unwrap()[0].made_at;
    let mut give_up = async |reading: &Reading| {
        let plan = BlobDrop {
            room: room.clone(),
            made_at,
            ids: Vec::new(),
            up_to: reading.old_up_to,
            as_of: reading.up_to,
            now: START + 2,
        };
        let is_done = give_up(&bench.store, &bench.blobs, &plan, &nothing, false, &mut summary).await;
        (is_done.unwrap(), summary.blobs)
    };
    assert_eq!(give_up(&reading).await, (false, 0));
    // It is read on from there.
    spoil(&bench);
    assert!(reading.read_on(&bench.store, &room).await.unwrap());
    assert_eq!((reading.old_up_to, reading.up_to), (Seq::new(1), Seq::new(601)));
    assert_eq!(give_up(&reading).await, (true, 1));
    mend(&bench);
    assert_eq!(bench.look(START + 2 * KEPT).await, (0, 0));
}

#[test]
fn a_room_that_is_no_more_is_no_reason_to_leave_the_others() {
    assert!(unless_deleted::<()>(Err(StoreError::NotFound.into())).is_ok());
    assert!(unless_deleted::<()>(Err(StoreError::NotAdmitted.into())).is_err());
}
