//! Faults: a full disk, a directory in use, files of other programs and of newer ones.

use bytes::Bytes;
use parler_hub::FreeFloor;
use parler_hub::store::{Append, NewBlob, OpenError, SqliteOptions, SqliteStore, Store, StoreError};
use parler_protocol::{BundleId, Seq};
use tempfile::TempDir;

use crate::support::{Fixture, NOW, room, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_full_disk_refuses_and_goes_on() {
    let fixture = Fixture::with(SqliteOptions {
        max_pages: Some(66),
        ..SqliteOptions::default()
    });
    let owner = fixture.owner("owner", "a").await;
    let mut stored = 0;
    let refused = loop {
        let append = text(&owner, "a", &"x".repeat(2_000));
        match fixture.append(append.clone()).await {
            Ok(_) => stored += 1,
            Err(StoreError::StorageFull) => break append,
            Err(other) => panic!("{other:?}"),
        }
        assert!(stored < 10_000);
    };
    assert!(stored > 10, "{stored}");
    let head = fixture
        .store
        .read(owner.agent, &room("a"), None, 0, 0)
        .await
        .unwrap()
        .head;
    assert_eq!(
        (head.seq.get(), fixture.messages(&owner, "a").await.len()),
        (stored, stored as usize)
    );
    // What needs no more pages still works, and so does reading.
    let (cursor, _) = fixture
        .store
        .acknowledge(owner.agent, &room("a"), head.seq)
        .await
        .unwrap();
    assert_eq!(cursor, head.seq);

    // With more room the same request is stored, right after the last.
    let bytes = Bytes::from(vec![7; 64 << 10]);
    let blob = Some(NewBlob::Inline {
        id: BundleId::of(&bytes),
        bytes,
    });
    let refused = Append { blob, ..refused };
    assert!(matches!(
        fixture.append(refused.clone()).await,
        Err(StoreError::StorageFull)
    ));
    let fixture = fixture.restart().await;
    let appended = fixture.append(refused).await.unwrap();
    assert_eq!((appended.is_new, appended.posted.seq), (true, head.seq.next()));
}

#[tokio::test]
async fn a_message_too_large_for_the_disk_does_not_keep_others_out() {
    let fixture = Fixture::with(SqliteOptions {
        max_pages: Some(50),
        ..SqliteOptions::default()
    });
    let owner = fixture.owner("owner", "a").await;
    let mut huge = text(&owner, "a", "huge");
    huge.parts = format!("[{{\"kind\":\"text\",\"text\":\"{}\"}}]", "x".repeat(1 << 20)).into();
    for expected in 1..4 {
        assert!(matches!(
            fixture.append(huge.clone()).await,
            Err(StoreError::StorageFull)
        ));
        let small = fixture.append(text(&owner, "a", "small")).await.unwrap();
        assert_eq!(small.posted.seq, Seq::new(expected));
    }
}

/// A disk that has less than it shall keep: nothing is stored, what was stored is answered for, and what needs next to
/// nothing goes on. With room again the refused message is the next.
#[tokio::test]
async fn messages_leave_the_free_floor_alone() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let stored = text(&owner, "a", "stored");
    let head = fixture.append(stored.clone()).await.unwrap().posted.head;
    let fixture = fixture
        .restart_with(SqliteOptions {
            free_floor: FreeFloor::percent(100),
            ..SqliteOptions::default()
        })
        .await;
    let refused = text(&owner, "a", "refused");
    for _ in 0..2 {
        assert!(matches!(
            fixture.append(refused.clone()).await,
            Err(StoreError::StorageFull)
        ));
    }
    let again = fixture.append(stored).await.unwrap();
    assert_eq!((again.is_new, again.posted.head), (false, head));
    let page = fixture
        .store
        .read(owner.agent, &room("a"), None, 9, 9_999)
        .await
        .unwrap();
    assert_eq!((page.head, page.messages.len()), (head, 1));
    let (cursor, _) = fixture
        .store
        .acknowledge(owner.agent, &room("a"), head.seq)
        .await
        .unwrap();
    assert_eq!(cursor, head.seq);

    let fixture = fixture.restart().await;
    let appended = fixture.append(refused).await.unwrap();
    assert_eq!((appended.is_new, appended.posted.seq), (true, head.seq.next()));
}

#[tokio::test]
async fn a_directory_has_one_hub() {
    let fixture = Fixture::new();
    let second = SqliteStore::open(fixture.path(), SqliteOptions::default());
    assert!(
        matches!(second, Err(OpenError::InUse(ref path)) if path == fixture.path()),
        "{second:?}"
    );
    let Fixture { store, directory } = fixture;
    drop(store);
    SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
}

#[tokio::test]
async fn a_directory_is_reached_through_links() {
    let place = tempfile::TempDir::new().unwrap();
    let (real, link) = (place.path().join("real"), place.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let store = SqliteStore::open(link.join("data"), SqliteOptions::default()).unwrap();
    let again = SqliteStore::open(real.join("data"), SqliteOptions::default());
    assert!(
        matches!(again, Err(OpenError::InUse(_))),
        "one directory under two names"
    );
    store.close().await.unwrap();
    assert!(real.join("data/hub.db").is_file());
}

#[tokio::test]
async fn a_newer_format_and_another_programs_database_are_left_alone() {
    let fixture = Fixture::new();
    fixture.owner("owner", "a").await;
    fixture.store.close().await.unwrap();
    let path = fixture.path().join("hub.db");
    let set = |pragma: &str| {
        let database = rusqlite::Connection::open(&path).unwrap();
        database.execute_batch(pragma).unwrap();
        drop(database);
        std::fs::read(&path).unwrap()
    };
    let open = || SqliteStore::open(fixture.path(), SqliteOptions::default());

    let newest: i64 = rusqlite::Connection::open(&path)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    let before = set(&format!("PRAGMA user_version = {}", newest + 1));
    let newer = open();
    assert!(
        matches!(newer, Err(OpenError::NewerFormat { found, known, .. }) if (found, known) == (newest + 1, newest)),
        "{newer:?}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let before = set("PRAGMA user_version = 1; PRAGMA application_id = 7");
    assert!(matches!(open(), Err(OpenError::NotAHub(_))));
    assert_eq!(std::fs::read(&path).unwrap(), before);

    let directory = TempDir::new().unwrap();
    let path = directory.path().join("hub.db");
    std::fs::write(
        &path,
        "a text file that is long enough to be looked at as a database. ".repeat(20),
    )
    .unwrap();
    let other = SqliteStore::open(directory.path(), SqliteOptions::default());
    assert!(matches!(other, Err(OpenError::NotAHub(_))), "{other:?}");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.append(text(&owner, "a", "x")).await.unwrap();
    fixture.store.close().await.unwrap();
    let results = [
        fixture.append(text(&owner, "a", "x")).await.map(drop),
        fixture.store.join_channel(owner.agent, &room("a"), NOW).await.map(drop),
        fixture.store.read(owner.agent, &room("a"), None, 1, 1).await.map(drop),
        fixture.store.close().await,
    ];
    assert!(
        results
            .iter()
            .all(|result| matches!(result, Err(StoreError::Stopped(_)))),
        "{results:?}"
    );
    let log = fixture.path().join("hub.db-wal");
    assert!(
        log.metadata().map_or(0, |log| log.len()) == 0,
        "closing emptied the log"
    );
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("new/data");
    let store = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let files: Vec<_> = std::fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(files.len() >= 3);
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    drop(store);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_operation_that_fails_halfway_is_undone_and_takes_no_other_along() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.store.close().await.unwrap();
    // Fails after the message itself has been written.
    rusqlite::Connection::open(fixture.path().join("hub.db"))
        .unwrap()
        .execute_batch(
            "CREATE TRIGGER poison BEFORE INSERT ON idempotency WHEN new.key LIKE 'poison%'
             BEGIN SELECT RAISE(ABORT, 'poisoned'); END",
        )
        .unwrap();
    let Fixture { store, directory } = fixture;
    drop(store);
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let fixture = Fixture {
        store: store.into(),
        directory,
    };

    let mut appends = tokio::task::JoinSet::new();
    for number in 0..60 {
        let mut append = text(&owner, "a", &number.to_string());
        if number % 3 == 0 {
            append.key = format!("poison{number}");
        }
        let store = std::sync::Arc::clone(&fixture.store);
        appends.spawn(async move { (number, store.append(append).await) });
    }
    for (number, result) in appends.join_all().await {
        match result {
            Ok(_) => assert_ne!(number % 3, 0),
            Err(StoreError::Database(reason)) => assert!(number % 3 == 0 && reason.contains("poisoned"), "{reason}"),
            Err(other) => panic!("{number}: {other:?}"),
        }
    }
    let messages = fixture.messages(&owner, "a").await;
    let numbers: Vec<u64> = messages
        .iter()
        .map(|message| parler_protocol::Message::parse(message).unwrap().seq.get())
        .collect();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

/// What a process that was killed while it made the database left is no reason not to make it.
#[tokio::test]
async fn a_database_half_made_is_made_anew() {
    let directory = TempDir::new().unwrap();
    let unfinished = directory.path().join("hub.db-new");
    std::fs::write(&unfinished, "half a database").unwrap();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let hub = store.hub();
    assert!(!unfinished.exists());
    store.close().await.unwrap();
    // It is in its place, whole, before the store has been used.
    let mode: String = rusqlite::Connection::open(directory.path().join("hub.db"))
        .unwrap()
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "wal");
    let again = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    assert_eq!(again.hub(), hub);
}

/// As a process of an earlier version that was killed in time left it.
#[tokio::test]
async fn an_empty_file_is_made_a_database() {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("hub.db"), "").unwrap();
    let store = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    let hub = store.hub();
    store.close().await.unwrap();
    let again = SqliteStore::open(directory.path(), SqliteOptions::default()).unwrap();
    assert_eq!(again.hub(), hub);
}

/// Whatever a link leads to is not this directory's.
#[tokio::test]
async fn a_link_is_no_database() {
    let (directory, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = elsewhere.path().join("target.db");
    std::os::unix::fs::symlink(&target, directory.path().join("hub.db")).unwrap();
    let opened = SqliteStore::open(directory.path(), SqliteOptions::default());
    assert!(matches!(opened, Err(OpenError::Io { .. })), "{opened:?}");
    assert!(!target.exists());
}
