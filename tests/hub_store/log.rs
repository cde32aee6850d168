//! Order: numbers without gaps in the order of commits, bytes as they came, and a chain that readers compute alike.

use std::sync::Arc;

use parler_hub::store::{Store, StoreError};
use parler_protocol::{ChainHash, Message, Seq};
use tokio::task::JoinSet;

use crate::support::{Fixture, NOW, room, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixty_four_appenders_leave_no_gap_and_lose_nothing() {
    const WRITERS: usize = 64;
    const EACH: usize = 20;
    const ROOMS: [&str; 4] = ["a", "b", "c", "D"];
    let fixture = Fixture::new();
    for name in ROOMS {
        fixture.owner("owner", name).await;
    }
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let name = ROOMS[writer % ROOMS.len()];
        let agent = fixture.member(&format!("writer{writer}"), name).await;
        let store = Arc::clone(&fixture.store);
        writers.spawn(async move {
            let mut posted = Vec::new();
            for number in 0..EACH {
                posted.push(
                    store
                        .append(text(&agent, name, &format!("{writer}/{number}")))
                        .await
                        .unwrap(),
                );
            }
            posted
        });
    }
    let mut posted = writers.join_all().await.concat();
    assert_eq!(posted.len(), WRITERS * EACH);

    let owner = fixture.agent("owner").await;
    for name in ROOMS {
        let messages = fixture.messages(&owner, name).await;
        let mut here: Vec<_> = posted
            .extract_if(.., |appended| appended.posted.room.as_str() == name)
            .collect();
        here.sort_by_key(|appended| appended.posted.seq);
        let numbers: Vec<u64> = here.iter().map(|appended| appended.posted.seq.get()).collect();
        assert_eq!(numbers, (1..=here.len() as u64).collect::<Vec<_>>(), "in {name}");
        let answered: Vec<_> = here.iter().map(|appended| appended.stored.clone()).collect();
        assert_eq!(messages, answered, "in {name}");
        // Each author's own messages keep their order.
        let mut texts: Vec<(usize, usize)> = messages.iter().map(|message| written(message)).collect();
        texts.sort_by_key(|(writer, _)| *writer);
        assert!(texts.is_sorted(), "in {name}: {texts:?}");
    }
    assert!(posted.is_empty());
}

fn written(message: &[u8]) -> (usize, usize) {
    let message = Message::parse(message).unwrap();
    let text = message.raw_parts()[0]["text"].as_str().unwrap();
    let (writer, number) = text.split_once('/').unwrap();
    (writer.parse().unwrap(), number.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_refused_message_fails_nobody_else_in_its_batch() {
    let fixture = Fixture::new();
    let (owner, stranger) = (fixture.owner("owner", "a").await, fixture.agent("stranger").await);
    let first = fixture.append(text(&owner, "a", "first")).await.unwrap();
    // All at once, so that they share transactions.
    let mut appends = JoinSet::new();
    for number in 0..90 {
        let mut append = match number % 3 {
            0 => text(&owner, "a", "good"),
            1 => text(&stranger, "a", "not mine"),
            _ => text(&owner, "a", "same id as another message"),
        };
        if number % 3 == 2 {
            append.id = first.posted.id;
        }
        let store = Arc::clone(&fixture.store);
        appends.spawn(async move { (number % 3, store.append(append).await) });
    }
    for (kind, result) in appends.join_all().await {
        match kind {
            0 => assert!(result.unwrap().is_new),
            1 => assert!(matches!(result, Err(StoreError::NotFound)), "{result:?}"),
            _ => assert!(matches!(result, Err(StoreError::IdempotencyConflict)), "{result:?}"),
        }
    }
    let messages = fixture.messages(&owner, "a").await;
    let numbers: Vec<u64> = messages
        .iter()
        .map(|message| Message::parse(message).unwrap().seq.get())
        .collect();
    assert_eq!(numbers, (1..=31).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_restart_changes_no_byte_and_the_chain_is_made_of_them() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "Build").await;
    let mut append = text(&owner, "BUILD", "\u{e9} \"quoted\"");
    // White space and escapes that another writer would have chosen differently.
    append.parts = br#"[ {"kind":"text","text":"\u00e9 \/"} , {"n": 1.50e0} ]"#.as_slice().into();
    append.mentions = vec!["bob".to_owned()];
    let first = fixture.append(append).await.unwrap();
    for number in 0..10 {
        fixture
            .append(text(&owner, "build", &number.to_string()))
            .await
            .unwrap();
    }
    let before = fixture.messages(&owner, "build").await;
    let hub = fixture.store.hub();

    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.hub(), hub);
    let after = fixture.messages(&owner, "bUILD").await;
    assert_eq!(after, before);
    assert_eq!(after[0], first.stored);
    let parts: &[u8] = br#"[ {"kind":"text","text":"\u00e9 \/"} , {"n": 1.50e0} ]"#;
    assert!(after[0].windows(parts.len()).any(|window| window == parts));

    let start = ChainHash::start(&hub, &room("Build"));
    let h = after.iter().fold(start, |h, message| h.next(message));
    let page = fixture
        .store
        .read(owner.agent, &room("build"), None, 0, 0)
        .await
        .unwrap();
    assert_eq!((page.head.seq, page.head.h), (Seq::new(11), h));
    assert_eq!(page.room.as_str(), "Build", "as its maker spelled it");
    assert_eq!(first.posted.head.h, start.next(&first.stored));
    let next = fixture
        .append(text(&owner, "build", "after the restart"))
        .await
        .unwrap();
    assert_eq!(
        (next.posted.seq, next.posted.head.h),
        (Seq::new(12), h.next(&next.stored))
    );
}

#[tokio::test]
async fn time_in_a_room_never_goes_back() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    for now in [NOW, NOW - 5_000, NOW + 1] {
        fixture
            .append(parler_hub::store::Append {
                now,
                ..text(&owner, "a", "x")
            })
            .await
            .unwrap();
    }
    let times: Vec<i64> = fixture
        .messages(&owner, "a")
        .await
        .iter()
        .map(|message| Message::parse(message).unwrap().ts)
        .collect();
    assert_eq!(times, [NOW, NOW, NOW + 1]);
    let fixture = fixture.restart().await;
    fixture
        .append(parler_hub::store::Append {
            now: 1,
            ..text(&owner, "a", "x")
        })
        .await
        .unwrap();
    let messages = fixture.messages(&owner, "a").await;
    assert_eq!(Message::parse(&messages[3]).unwrap().ts, NOW + 1);
}

#[tokio::test]
async fn pages_begin_at_the_cursor_and_end_at_their_limits() {
    let fixture = Fixture::new();
    let (owner, name) = (fixture.owner("owner", "a").await, room("a"));
    for number in 0..10 {
        fixture.append(text(&owner, "a", &number.to_string())).await.unwrap();
    }
    let read = |after: Option<u64>, limit, max_bytes| {
        let store = Arc::clone(&fixture.store);
        let (agent, name) = (owner.agent, name.clone());
        async move {
            let page = store
                .read(agent, &name, after.map(Seq::new), limit, max_bytes)
                .await
                .unwrap();
            assert_eq!(page.head.seq.get(), 10);
            let numbers: Vec<u64> = page
                .messages
                .iter()
                .map(|message| Message::parse(message).unwrap().seq.get())
                .collect();
            (numbers, page.cursor.get())
        }
    };
    assert_eq!(read(None, 3, usize::MAX).await, (vec![1, 2, 3], 3));
    assert_eq!(read(Some(8), 3, usize::MAX).await, (vec![9, 10], 10));
    assert_eq!(read(Some(4), 0, usize::MAX).await, (vec![], 4));
    assert_eq!(read(Some(10), 5, usize::MAX).await, (vec![], 10));
    assert_eq!(read(Some(99), 5, usize::MAX).await, (vec![], 99));
    assert_eq!(read(Some(u64::MAX), 5, usize::MAX).await, (vec![], u64::MAX));
    assert_eq!(read(Some(2), 5, 1).await, (vec![3], 3), "one message however large");
    fixture
        .store
        .acknowledge(owner.agent, &name, Seq::new(7))
        .await
        .unwrap();
    assert_eq!(read(None, 2, usize::MAX).await, (vec![8, 9], 9));
}

#[tokio::test]
async fn what_was_acknowledged_is_in_the_files_before_anything_is_closed() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let mut acknowledged = Vec::new();
    for number in 0..20 {
        acknowledged.push(
            fixture
                .append(text(&owner, "a", &number.to_string()))
                .await
                .unwrap()
                .stored,
        );
    }
    // The files as a killed hub would leave them.
    let directory = tempfile::TempDir::new().unwrap();
    for file in ["hub.db", "hub.db-wal"] {
        std::fs::copy(fixture.path().join(file), directory.path().join(file)).unwrap();
    }
    let store = parler_hub::store::SqliteStore::open(directory.path(), Default::default()).unwrap();
    let page = store
        .read(owner.agent, &room("a"), None, 100, usize::MAX)
        .await
        .unwrap();
    assert_eq!(page.messages, acknowledged);
}
