//! Blobs given up: what may be needed by what came meanwhile stays, and what another room holds.

use parler_hub::store::{Append, BlobDrop, BlobLocation, DroppedBlobs, NewBlob, Principal, Store, StoreError};
use parler_protocol::{BundleId, FilePart, Part, Seq, retry_digest};

use crate::support::{Fixture, NOW, push, reference, room, text};

/// A message that speaks of this file.
fn mention(by: &Principal, name: &str, bytes: &[u8]) -> Append {
    let blob = BundleId::of(bytes);
    let file = FilePart {
        blob,
        name: "notes".to_owned(),
        size: bytes.len() as u64,
        media_type: None,
        summary: None,
    };
    let parts = serde_json::json!([Part::from(file).to_value()]);
    Append {
        digest: retry_digest(parts.as_array().unwrap(), &[], None),
        parts: parts.to_string().into(),
        refers_to: vec![reference(blob)],
        ..text(by, name, "")
    }
}

/// The same, with the file. Its bytes are said to be in the blob store.
fn bring(by: &Principal, name: &str, bytes: &[u8]) -> Append {
    Append {
        blob: Some(NewBlob::File {
            id: BundleId::of(bytes),
            size: bytes.len() as u64,
        }),
        ..mention(by, name, bytes)
    }
}

async fn drop_blobs(fixture: &Fixture, name: &str, blobs: &[&[u8]], up_to: u64, as_of: u64) -> Option<DroppedBlobs> {
    let mut rooms = fixture.store.all_rooms().await.unwrap().into_iter();
    let drop = BlobDrop {
        made_at: rooms.find(|mark| mark.room == room(name)).unwrap().made_at,
        room: room(name),
        ids: blobs.iter().map(|bytes| BundleId::of(bytes)).collect(),
        up_to: Seq::new(up_to),
        as_of: Seq::new(as_of),
        now: NOW,
    };
    fixture.store.drop_blobs(drop).await.unwrap()
}

async fn is_kept(fixture: &Fixture, by: &Principal, name: &str, bytes: &[u8]) -> bool {
    match fixture.store.blob(by.agent, &room(name), &BundleId::of(bytes)).await {
        Ok(BlobLocation::File(_)) => true,
        Err(StoreError::NoLongerKept(_)) => false,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_came_since_it_was_decided_is_looked_at() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    for bytes in [b"one", b"two"] {
        fixture.append(bring(&owner, "a", bytes)).await.unwrap();
    }
    fixture.append(text(&owner, "a", "talk")).await.unwrap();
    fixture.append(mention(&owner, "a", b"one")).await.unwrap();
    let dropped = drop_blobs(&fixture, "a", &[b"one", b"two"], 2, 2).await.unwrap();
    assert_eq!((dropped.blobs, dropped.bytes), (1, 3));
    assert_eq!(dropped.files, [BundleId::of(b"two")]);
    assert!(is_kept(&fixture, &owner, "a", b"one").await);
    assert!(!is_kept(&fixture, &owner, "a", b"two").await);

    // A push may build on anything.
    let pushed = push(&owner, "a", &[("refs/heads/main", None, Some('1'))]);
    fixture.append(pushed).await.unwrap();
    assert_eq!(drop_blobs(&fixture, "a", &[b"one"], 4, 4).await, None);
    assert!(is_kept(&fixture, &owner, "a", b"one").await);

    // A room of this name that was made at another time is another one.
    let drop = BlobDrop {
        made_at: NOW - 1_000_000,
        room: room("a"),
        ids: vec![BundleId::of(b"one")],
        up_to: Seq::new(5),
        as_of: Seq::new(5),
        now: NOW,
    };
    assert_eq!(fixture.store.drop_blobs(drop).await.unwrap(), None);
    assert!(is_kept(&fixture, &owner, "a", b"one").await);

    // What was brought later than is old.
    fixture.append(bring(&owner, "a", b"new")).await.unwrap();
    let dropped = drop_blobs(&fixture, "a", &[b"one", b"new"], 5, 6).await.unwrap();
    assert_eq!(dropped.files, [BundleId::of(b"one")]);
    assert!(is_kept(&fixture, &owner, "a", b"new").await);
}

#[tokio::test]
async fn a_blob_of_two_rooms_has_its_file_until_both_give_it_up() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.owner("owner", "b").await;
    for name in ["a", "b"] {
        fixture.append(bring(&owner, name, b"both")).await.unwrap();
    }
    let id = BundleId::of(b"both");
    for name in ["a", "b"] {
        assert!(
            fixture
                .store
                .record_fetches(owner.agent, &room(name), &[id], NOW)
                .await
                .unwrap()
        );
    }
    let first = drop_blobs(&fixture, "a", &[b"both"], 1, 1).await.unwrap();
    assert_eq!((first.blobs, first.files), (1, Vec::new()));
    assert!(!is_kept(&fixture, &owner, "a", b"both").await);
    assert!(is_kept(&fixture, &owner, "b", b"both").await);
    let fetched_at = async |name| {
        let readers = fixture.store.readers(owner.agent, &room(name), &[id]).await.unwrap();
        readers.readers[0].fetched_at
    };
    assert_eq!((fetched_at("a").await, fetched_at("b").await), (None, Some(NOW)));
    let last = drop_blobs(&fixture, "b", &[b"both"], 1, 1).await.unwrap();
    assert_eq!((last.blobs, last.files), (1, vec![id]));
}
