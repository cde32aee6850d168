//! Repetition: the same request gets the answer of the first time, another one under its key or id is refused, and a
//! refused one leaves nothing behind.

use std::sync::Arc;

use parler_hub::store::{Append, Appended, NewBlob, Store, StoreError};
use parler_protocol::{BundleId, MessageId, Seq};
use tokio::task::JoinSet;

use crate::support::{DAY_MS, Fixture, NOW, push, room, text};

fn assert_repeats(again: &Appended, first: &Appended) {
    assert!(!again.is_new);
    assert_eq!(again.posted, first.posted);
    assert_eq!(again.stored, first.stored);
}

#[tokio::test]
async fn the_same_request_gets_the_first_answer() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let append = push(&owner, "a", &[("refs/heads/main", None, Some('1'))]);
    let first = fixture.append(append.clone()).await.unwrap();
    assert!(first.is_new);
    // The room goes on; the ref is no longer where the message expects it.
    fixture
        .append(push(&owner, "a", &[("refs/heads/main", Some('1'), Some('2'))]))
        .await
        .unwrap();

    assert_repeats(&fixture.append(append.clone()).await.unwrap(), &first);
    let checked = fixture.store.check_append(&append).await.unwrap();
    assert_repeats(&checked.unwrap(), &first);
    // Signed again: another id and other bytes under the same key and digest.
    let signed_again = Append {
        id: MessageId::generate(),
        parts: b"[1]".as_slice().into(),
        ..append.clone()
    };
    assert_repeats(&fixture.append(signed_again).await.unwrap(), &first);
    // Under another key, but with the message's own id.
    let other_key = Append {
        key: "other".into(),
        ..append.clone()
    };
    assert_repeats(&fixture.append(other_key.clone()).await.unwrap(), &first);
    assert_repeats(&fixture.store.check_append(&other_key).await.unwrap().unwrap(), &first);

    let fixture = fixture.restart().await;
    assert_repeats(&fixture.append(append).await.unwrap(), &first);
    assert_eq!(fixture.messages(&owner, "a").await.len(), 2);
}

#[tokio::test]
async fn another_request_under_a_known_key_or_id_is_refused() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.owner("owner", "b").await;
    let other = fixture.member("other", "a").await;
    let stranger = fixture.agent("stranger").await;
    let first = text(&owner, "a", "first");
    fixture.append(first.clone()).await.unwrap();

    let conflicts = [
        (
            "the key, other content",
            Append {
                key: first.key.clone(),
                ..text(&owner, "a", "second")
            },
        ),
        (
            "the key, other room",
            Append {
                room: room("b"),
                ..first.clone()
            },
        ),
        (
            "the key, a room that does not exist",
            Append {
                room: room("c"),
                ..first.clone()
            },
        ),
        (
            "the id, other content",
            Append {
                id: first.id,
                ..text(&owner, "a", "second")
            },
        ),
        (
            "the id, another author",
            Append {
                by: other.clone(),
                key: "k".into(),
                ..first.clone()
            },
        ),
    ];
    for (what, append) in conflicts {
        let checked = fixture.store.check_append(&append).await;
        assert!(
            matches!(checked, Err(StoreError::IdempotencyConflict)),
            "{what}: {checked:?}"
        );
        let result = fixture.append(append).await;
        assert!(
            matches!(result, Err(StoreError::IdempotencyConflict)),
            "{what}: {result:?}"
        );
    }
    // Who is not in the room learns nothing about its ids.
    let guess = Append {
        by: stranger,
        key: "k".into(),
        ..first.clone()
    };
    assert!(matches!(fixture.append(guess).await, Err(StoreError::NotFound)));
    assert_eq!(fixture.messages(&owner, "a").await.len(), 1);

    // A key is its author's own, and an id its room's.
    let same_key = Append {
        key: first.key.clone(),
        ..text(&other, "a", "mine")
    };
    assert_eq!(fixture.append(same_key).await.unwrap().posted.seq, Seq::new(2));
    let same_id = Append {
        key: "fresh".into(),
        room: room("b"),
        ..first
    };
    assert!(fixture.append(same_id).await.unwrap().is_new);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn repetitions_in_flight_together_store_one_message() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let append = text(&owner, "a", "once");
    let mut appends = JoinSet::new();
    for _ in 0..50 {
        let (store, append) = (Arc::clone(&fixture.store), append.clone());
        appends.spawn(async move { store.append(append).await.unwrap() });
    }
    let answers = appends.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_new).count(), 1);
    assert!(
        answers
            .iter()
            .all(|answer| answer.posted == answers[0].posted && answer.stored == answers[0].stored)
    );
    assert_eq!(fixture.messages(&owner, "a").await.len(), 1);
}

#[tokio::test]
async fn a_refused_request_leaves_no_record() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture
        .append(push(&owner, "a", &[("refs/heads/main", None, Some('1'))]))
        .await
        .unwrap();
    let late = fixture.agent("late").await;
    let blob = BundleId::of(b"bundle");

    let mut refused = push(
        &owner,
        "a",
        &[("refs/heads/main", None, Some('2')), ("refs/heads/x", None, Some('3'))],
    );
    refused.blob = Some(NewBlob::Inline {
        id: blob,
        bytes: b"bundle".as_slice().into(),
    });
    assert!(matches!(
        fixture.append(refused.clone()).await,
        Err(StoreError::RefMoved(_))
    ));
    let not_member = text(&late, "a", "too early");
    assert!(matches!(
        fixture.append(not_member.clone()).await,
        Err(StoreError::NotFound)
    ));

    let (refs, head) = fixture.store.refs(owner.agent, &room("a")).await.unwrap();
    assert_eq!((refs.refs.len(), head.seq), (1, Seq::new(1)));
    assert!(matches!(
        fixture.store.blob(owner.agent, &room("a"), &blob).await,
        Err(StoreError::NotFound)
    ));
    // The key and the id are free still, for the same and for other content.
    let mut corrected = push(&owner, "a", &[("refs/heads/main", Some('1'), Some('2'))]);
    (corrected.key, corrected.id) = (refused.key, refused.id);
    assert!(fixture.append(corrected).await.unwrap().is_new);
    fixture.store.join_channel(late.agent, &room("a"), NOW).await.unwrap();
    assert!(fixture.append(not_member).await.unwrap().is_new);
}

#[tokio::test]
async fn records_expire_after_seven_days_and_are_removed() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let week = 7 * DAY_MS;
    let first = Append {
        key: "k".into(),
        ..text(&owner, "a", "first")
    };
    fixture.append(first.clone()).await.unwrap();
    for number in 0..20 {
        fixture.append(text(&owner, "a", &number.to_string())).await.unwrap();
    }
    let second = |now| Append {
        key: "k".into(),
        now,
        ..text(&owner, "a", "second")
    };
    let early = fixture.append(second(NOW + week - 1)).await;
    assert!(matches!(early, Err(StoreError::IdempotencyConflict)), "{early:?}");
    assert!(fixture.append(second(NOW + week)).await.unwrap().is_new);
    // The message's id is known for ever.
    let again = Append {
        key: "other".into(),
        now: NOW + 2 * week,
        ..first.clone()
    };
    assert!(!fixture.append(again).await.unwrap().is_new);
    let other = Append {
        id: first.id,
        now: NOW + 2 * week,
        ..text(&owner, "a", "other")
    };
    assert!(matches!(
        fixture.append(other).await,
        Err(StoreError::IdempotencyConflict)
    ));

    for number in 0..3 {
        let now = NOW + week + number;
        fixture
            .append(Append {
                now,
                ..text(&owner, "a", "later")
            })
            .await
            .unwrap();
    }
    fixture.store.close().await.unwrap();
    let database = rusqlite::Connection::open(fixture.path().join("hub.db")).unwrap();
    let left: i64 = database
        .query_row("SELECT count(*) FROM idempotency", (), |row| row.get(0))
        .unwrap();
    assert_eq!(left, 4, "of 25 records 21 have expired");
}
