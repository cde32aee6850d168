//! Blobs of a room: there with the message that brings them, and only in rooms that hold them.

use parler_hub::store::{Append, BlobLocation, BlobReference, NewBlob, Principal, Store, StoreError};
use parler_protocol::BundleId;

use crate::support::{Fixture, reference, room, text};

fn inline(by: &Principal, name: &str, bytes: &'static [u8]) -> Append {
    let id = BundleId::of(bytes);
    Append {
        blob: Some(NewBlob::Inline {
            id,
            bytes: bytes.into(),
        }),
        refers_to: vec![reference(id)],
        ..text(by, name, "blob")
    }
}

async fn bytes(fixture: &Fixture, by: &Principal, name: &str, id: &BundleId) -> Result<Vec<u8>, StoreError> {
    match fixture.store.blob(by.agent, &room(name), id).await? {
        BlobLocation::Inline(bytes) => Ok(bytes.to_vec()),
        BlobLocation::File(size) => panic!("a file of {size} bytes"),
    }
}

#[tokio::test]
async fn a_blob_comes_with_its_message_and_is_in_that_room_only() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.owner("owner", "b").await;
    let id = BundleId::of(b"bundle");
    let refer = |name| Append {
        refers_to: vec![reference(id)],
        ..text(&owner, name, "see the bundle")
    };
    assert!(matches!(fixture.append(refer("a")).await, Err(StoreError::UnknownBlob(told)) if told == id));
    fixture.append(inline(&owner, "a", b"bundle")).await.unwrap();
    fixture.append(refer("a")).await.unwrap();

    // Another room does not hold it, whoever asks.
    assert!(matches!(
        fixture.append(refer("b")).await,
        Err(StoreError::UnknownBlob(_))
    ));
    assert!(matches!(
        bytes(&fixture, &owner, "b", &id).await,
        Err(StoreError::NotFound)
    ));
    // Until somebody who has the bytes brings them there.
    fixture.append(inline(&owner, "b", b"bundle")).await.unwrap();
    fixture.append(inline(&owner, "b", b"bundle")).await.unwrap();
    let fixture = fixture.restart().await;
    for name in ["a", "b"] {
        assert_eq!(bytes(&fixture, &owner, name, &id).await.unwrap(), b"bundle");
    }
    let missing = BundleId::of(b"another");
    assert!(matches!(
        bytes(&fixture, &owner, "a", &missing).await,
        Err(StoreError::NotFound)
    ));
}

#[tokio::test]
async fn a_message_with_one_unknown_blob_brings_none() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let mut append = inline(&owner, "a", b"bundle");
    append.refers_to.push(reference(BundleId::of(b"unknown")));
    assert!(matches!(fixture.append(append).await, Err(StoreError::UnknownBlob(_))));
    assert!(matches!(
        bytes(&fixture, &owner, "a", &BundleId::of(b"bundle")).await,
        Err(StoreError::NotFound)
    ));
}

#[tokio::test]
async fn a_large_blob_is_known_by_its_size() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let id = BundleId::of(b"large");
    let append = Append {
        blob: Some(NewBlob::File { id, size: 1 << 40 }),
        ..text(&owner, "a", "large")
    };
    assert!(fixture.store.check_append(&append).await.unwrap().is_none());
    fixture.append(append).await.unwrap();
    let location = fixture.store.blob(owner.agent, &room("a"), &id).await.unwrap();
    assert!(
        matches!(location, BlobLocation::File(size) if size == 1 << 40),
        "{location:?}"
    );
}

#[tokio::test]
async fn an_empty_blob_is_a_blob() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.append(inline(&owner, "a", b"")).await.unwrap();
    assert_eq!(bytes(&fixture, &owner, "a", &BundleId::of(b"")).await.unwrap(), b"");
}

#[tokio::test]
async fn damaged_bytes_are_not_handed_out() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let id = BundleId::of(b"bundle");
    fixture.append(inline(&owner, "a", b"bundle")).await.unwrap();
    fixture.store.close().await.unwrap();
    let database = rusqlite::Connection::open(fixture.path().join("hub.db")).unwrap();
    database
        .execute("UPDATE blobs SET bytes = CAST('bungle' AS BLOB)", ())
        .unwrap();
    drop(database);
    let Fixture { store, directory } = fixture;
    drop(store);
    let store = parler_hub::store::SqliteStore::open(directory.path(), Default::default()).unwrap();
    let fixture = Fixture {
        store: store.into(),
        directory,
    };
    assert!(matches!(
        bytes(&fixture, &owner, "a", &id).await,
        Err(StoreError::Damaged(_))
    ));
}

#[tokio::test]
async fn a_length_that_the_blob_does_not_have_is_refused() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let id = BundleId::of(b"bundle");
    let said = |size| BlobReference { id, size: Some(size) };
    let mut brought = inline(&owner, "a", b"bundle");
    brought.refers_to = vec![said(6), said(7)];
    assert!(matches!(fixture.append(brought).await, Err(StoreError::BlobSize(told)) if told == id));
    fixture.append(inline(&owner, "a", b"bundle")).await.unwrap();
    for (size, fits) in [(5, false), (6, true), (7, false)] {
        let append = Append {
            refers_to: vec![said(size)],
            ..text(&owner, "a", "a bundle that is here already")
        };
        match fixture.append(append).await {
            Ok(_) => assert!(fits, "{size}"),
            Err(error) => assert!(!fits && matches!(error, StoreError::BlobSize(_)), "{size}: {error}"),
        }
    }
}
