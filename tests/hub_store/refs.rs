//! Refs: compare-and-swap against the room as it is, final states that git can hold, HEAD and the object format.

use std::sync::Arc;

use parler_hub::store::{Store, StoreError};
use parler_protocol::{ObjectFormat, Oid, RefConflict, RefUpdate, RefsPart, Seq};
use tokio::sync::Barrier;

use crate::support::{Fixture, oid, push, ref_name, room, text, with_refs};

/// The room's refs as (name, first digit), and HEAD.
async fn state(fixture: &Fixture, by: &parler_hub::store::Principal) -> (Vec<(String, char)>, Option<String>) {
    let (list, _) = fixture.store.refs(by.agent, &room("a")).await.unwrap();
    let refs = list
        .refs
        .iter()
        .map(|entry| (entry.name.to_string(), entry.oid.to_string().remove(0)))
        .collect();
    (refs, list.head_ref.map(|name| name.to_string()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_racing_pushes_exactly_one_wins_every_time() {
    let fixture = Fixture::new();
    let one = fixture.owner("one", "a").await;
    let two = fixture.member("two", "a").await;
    let mut old = None;
    for round in 0..100 {
        let start = Arc::new(Barrier::new(2));
        let racers = [(&one, '1'), (&two, '2')].map(|(by, digit)| {
            // Distinct from round to round, so that each push moves the ref.
            let new = if round % 2 == 0 {
                digit
            } else {
                char::from(digit as u8 + 2)
            };
            let append = push(by, "a", &[("refs/heads/main", old, Some(new))]);
            let (store, start) = (Arc::clone(&fixture.store), Arc::clone(&start));
            tokio::spawn(async move {
                start.wait().await;
                (new, store.append(append).await)
            })
        });
        let mut winners = Vec::new();
        let mut told = Vec::new();
        for racer in racers {
            match racer.await.unwrap() {
                (new, Ok(_)) => winners.push(new),
                (_, Err(StoreError::RefMoved(conflicts))) => told.extend(conflicts),
                (_, other) => panic!("round {round}: {other:?}"),
            }
        }
        assert_eq!((winners.len(), told.len()), (1, 1), "round {round}");
        let expected = RefConflict {
            name: ref_name("refs/heads/main"),
            expected: old.map(oid),
            actual: Some(oid(winners[0])),
        };
        assert_eq!(told[0], expected, "round {round}");
        old = Some(winners[0]);
    }
    assert_eq!(fixture.messages(&one, "a").await.len(), 100, "the log is linear");
}

#[tokio::test]
async fn every_ref_that_moved_is_told_and_none_is_changed() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let first = [
        ("refs/heads/a", None, Some('1')),
        ("refs/heads/b", None, Some('2')),
        ("refs/tags/c", None, Some('3')),
    ];
    fixture.append(push(&owner, "a", &first)).await.unwrap();
    let stale = [
        ("refs/heads/a", Some('1'), Some('4')),
        ("refs/heads/b", Some('9'), Some('4')),
        ("refs/tags/c", None, Some('4')),
        ("refs/heads/d", Some('5'), None),
    ];
    let append = push(&owner, "a", &stale);
    let checked = fixture.store.check_append(&append).await;
    for result in [checked.map(drop), fixture.append(append).await.map(drop)] {
        let Err(StoreError::RefMoved(conflicts)) = result else {
            panic!("{result:?}")
        };
        let told: Vec<_> = conflicts
            .iter()
            .map(|told| (told.name.as_str(), told.expected, told.actual))
            .collect();
        assert_eq!(
            told,
            [
                ("refs/heads/b", Some(oid('9')), Some(oid('2'))),
                ("refs/tags/c", None, Some(oid('3'))),
                ("refs/heads/d", Some(oid('5')), None),
            ]
        );
    }
    let (refs, _) = state(&fixture, &owner).await;
    assert_eq!(refs.iter().map(|(_, digit)| *digit).collect::<String>(), "123");
}

#[tokio::test]
async fn no_ref_becomes_a_directory_of_another() {
    type Update = (&'static str, Option<char>, Option<char>);
    /// What the room has, what the push does, and the pair that cannot be.
    type Case = (
        &'static [&'static str],
        &'static [Update],
        Option<(&'static str, &'static str)>,
    );
    let table: &[Case] = &[
        (
            &["heads/a"],
            &[("heads/a/b", None, Some('2'))],
            Some(("heads/a", "heads/a/b")),
        ),
        (
            &["heads/a/b"],
            &[("heads/a", None, Some('2'))],
            Some(("heads/a", "heads/a/b")),
        ),
        (
            &["heads/a/b/c/d"],
            &[("heads/a/b", None, Some('2'))],
            Some(("heads/a/b", "heads/a/b/c/d")),
        ),
        (
            &["heads/a"],
            &[("heads/a/b/c/d", None, Some('2'))],
            Some(("heads/a", "heads/a/b/c/d")),
        ),
        (
            &["heads/a"],
            &[("heads/b/c", None, Some('2')), ("heads/b", None, Some('2'))],
            Some(("heads/b", "heads/b/c")),
        ),
        (&["heads"], &[("heads/x", None, Some('2'))], Some(("heads", "heads/x"))),
        // Only the final state counts.
        (
            &["heads/a"],
            &[("heads/a/b", None, Some('2')), ("heads/a", Some('1'), None)],
            None,
        ),
        (
            &["heads/a/b", "heads/a/c"],
            &[
                ("heads/a", None, Some('2')),
                ("heads/a/b", Some('1'), None),
                ("heads/a/c", Some('1'), None),
            ],
            None,
        ),
        (
            &["heads/a/b", "heads/a/c"],
            &[("heads/a", None, Some('2')), ("heads/a/b", Some('1'), None)],
            Some(("heads/a", "heads/a/c")),
        ),
        // Neighbours that only look like directories.
        (
            &["heads/a"],
            &[
                ("heads/a-b", None, Some('2')),
                ("heads/a.b/c", None, Some('2')),
                ("heads/a0", None, Some('2')),
            ],
            None,
        ),
        (
            &["heads/ab/c", "heads/a-b/c", "heads/a0/c"],
            &[("heads/a", None, Some('2'))],
            None,
        ),
        (&["tags/a"], &[("heads/a/b", None, Some('2'))], None),
        // A move of what is there creates nothing.
        (&["heads/a"], &[("heads/a", Some('1'), Some('2'))], None),
    ];
    for (before, updates, refused) in table {
        let fixture = Fixture::new();
        let owner = fixture.owner("owner", "a").await;
        let full = |name: &str| format!("refs/{name}");
        let names: Vec<String> = before.iter().map(|name| full(name)).collect();
        let first: Vec<_> = names.iter().map(|name| (name.as_str(), None, Some('1'))).collect();
        fixture.append(push(&owner, "a", &first)).await.unwrap();
        let names: Vec<String> = updates.iter().map(|(name, ..)| full(name)).collect();
        let updates: Vec<_> = names
            .iter()
            .zip(*updates)
            .map(|(name, (_, old, new))| (name.as_str(), *old, *new))
            .collect();
        match (fixture.append(push(&owner, "a", &updates)).await, refused) {
            (Ok(_), None) => {}
            (Err(StoreError::RefDirectoryConflict(above, below)), Some((expected_above, expected_below))) => {
                assert_eq!(
                    (above.to_string(), below.to_string()),
                    (full(expected_above), full(expected_below))
                );
            }
            (result, _) => panic!("{before:?} {updates:?}: {result:?}"),
        }
    }
}

#[tokio::test]
async fn many_refs_move_at_once_without_looking_at_all_of_them_for_each() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let names: Vec<String> = (0..5_000)
        .map(|number| format!("refs/heads/team/{}/{number}", number % 50))
        .collect();
    let updates = |old, new| names.iter().map(|name| (name.as_str(), old, new)).collect::<Vec<_>>();
    fixture
        .append(push(&owner, "a", &updates(None, Some('1'))))
        .await
        .unwrap();
    let started = std::time::Instant::now();
    fixture
        .append(push(&owner, "a", &updates(Some('1'), None)))
        .await
        .unwrap();
    fixture
        .append(push(&owner, "a", &updates(None, Some('2'))))
        .await
        .unwrap();
    // A scan of 5,000 refs for each of 5,000 updates takes minutes; generous for a loaded machine.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
    let (refs, _) = state(&fixture, &owner).await;
    assert_eq!(refs.len(), 5_000);
}

#[tokio::test]
async fn head_is_set_by_the_first_push_and_moved_on_request() {
    let heads: &[(&[&str], Option<&str>, Option<&str>)] = &[
        (
            &["refs/heads/x", "refs/heads/master", "refs/heads/main"],
            None,
            Some("refs/heads/main"),
        ),
        (&["refs/heads/x", "refs/heads/master"], None, Some("refs/heads/master")),
        (
            &["refs/tags/t", "refs/heads/y", "refs/heads/x"],
            None,
            Some("refs/heads/y"),
        ),
        (
            &["refs/heads/main", "refs/heads/x"],
            Some("refs/heads/x"),
            Some("refs/heads/x"),
        ),
        (&["refs/tags/t"], None, None),
    ];
    for (names, head, expected) in heads {
        let fixture = Fixture::new();
        let owner = fixture.owner("owner", "a").await;
        let updates: Vec<_> = names.iter().map(|name| (*name, None, Some('1'))).collect();
        let mut append = push(&owner, "a", &updates);
        append.refs.as_mut().unwrap().head = head.map(ref_name);
        fixture.append(append).await.unwrap();
        assert_eq!(state(&fixture, &owner).await.1.as_deref(), *expected, "{names:?}");
    }
}

#[tokio::test]
async fn head_points_only_at_refs_and_outlives_its_branch() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let head = |name: &str, updates: &[(&str, Option<char>, Option<char>)]| {
        let mut append = push(&owner, "a", updates);
        append.refs.as_mut().unwrap().head = Some(ref_name(name));
        append
    };
    let refused = |result: Result<_, StoreError>, name: &str| {
        assert!(
            matches!(&result, Err(StoreError::NoSuchRef(told)) if told.as_str() == name),
            "{result:?}"
        );
    };
    refused(fixture.append(head("refs/heads/x", &[])).await, "refs/heads/x");
    refused(
        fixture
            .append(head("refs/heads/x", &[("refs/heads/y", None, Some('1'))]))
            .await,
        "refs/heads/x",
    );
    fixture
        .append(push(&owner, "a", &[("refs/heads/main", None, Some('1'))]))
        .await
        .unwrap();
    // A later push that does not say leaves HEAD alone.
    fixture
        .append(push(&owner, "a", &[("refs/heads/next", None, Some('1'))]))
        .await
        .unwrap();
    assert_eq!(state(&fixture, &owner).await.1.as_deref(), Some("refs/heads/main"));
    fixture.append(head("refs/heads/next", &[])).await.unwrap();
    assert_eq!(state(&fixture, &owner).await.1.as_deref(), Some("refs/heads/next"));
    fixture
        .append(head("refs/heads/new", &[("refs/heads/new", None, Some('2'))]))
        .await
        .unwrap();
    let gone = [("refs/heads/new", Some('2'), None)];
    refused(fixture.append(head("refs/heads/new", &gone)).await, "refs/heads/new");
    fixture.append(push(&owner, "a", &gone)).await.unwrap();
    assert_eq!(state(&fixture, &owner).await.1.as_deref(), Some("refs/heads/new"));
}

#[tokio::test]
async fn the_first_push_fixes_the_object_format() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let sha256: Oid = "1".repeat(64).parse().unwrap();
    let refs = |format, name, new| RefsPart {
        updates: vec![RefUpdate {
            name: ref_name(name),
            old: None,
            new: Some(new),
            forced: false,
            peeled: None,
        }],
        atomic: false,
        object_format: format,
        head: None,
        base_hint: None,
    };
    let mixed = fixture
        .append(with_refs(
            &owner,
            "a",
            refs(ObjectFormat::Sha256, "refs/heads/x", oid('1')),
        ))
        .await;
    assert!(
        matches!(mixed, Err(StoreError::ObjectFormatMismatch(ObjectFormat::Sha256))),
        "{mixed:?}"
    );
    assert_eq!(
        fixture
            .store
            .refs(owner.agent, &room("a"))
            .await
            .unwrap()
            .0
            .object_format,
        None
    );
    fixture
        .append(with_refs(
            &owner,
            "a",
            refs(ObjectFormat::Sha256, "refs/heads/x", sha256),
        ))
        .await
        .unwrap();
    let (list, _) = fixture.store.refs(owner.agent, &room("a")).await.unwrap();
    assert_eq!(
        (list.object_format, list.refs[0].oid),
        (Some(ObjectFormat::Sha256), sha256)
    );
    for part in [
        refs(ObjectFormat::Sha1, "refs/heads/y", oid('1')),
        refs(ObjectFormat::Sha256, "refs/heads/y", oid('1')),
    ] {
        let result = fixture.append(with_refs(&owner, "a", part)).await;
        assert!(
            matches!(result, Err(StoreError::ObjectFormatMismatch(ObjectFormat::Sha256))),
            "{result:?}"
        );
    }
}

#[tokio::test]
async fn chat_moves_the_head_and_pushes_move_the_version() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let read = async |since, max_bytes| {
        fixture
            .store
            .pushes(owner.agent, &room("a"), Seq::new(since), max_bytes)
            .await
            .unwrap()
    };
    let pushes = async |since| {
        let log = read(since, usize::MAX).await;
        assert_eq!(log.next, None);
        let numbers: Vec<u64> = log
            .messages
            .iter()
            .map(|message| parler_protocol::Message::parse(message).unwrap().seq.get())
            .collect();
        (log.version.get(), log.head.seq.get(), numbers)
    };
    assert_eq!(pushes(0).await, (0, 0, vec![]));
    fixture.append(text(&owner, "a", "chat")).await.unwrap();
    fixture
        .append(push(&owner, "a", &[("refs/heads/x", None, Some('1'))]))
        .await
        .unwrap();
    fixture.append(text(&owner, "a", "chat")).await.unwrap();
    assert_eq!(pushes(0).await, (2, 3, vec![2]));
    assert_eq!(pushes(2).await, (2, 3, vec![]));
    fixture
        .append(push(&owner, "a", &[("refs/heads/x", Some('1'), Some('2'))]))
        .await
        .unwrap();
    assert_eq!(pushes(0).await, (4, 4, vec![2, 4]));
    assert_eq!(pushes(2).await, (4, 4, vec![4]));
    assert_eq!(pushes(9).await, (4, 4, vec![]));
    let all = read(0, usize::MAX).await.messages;
    let (first, both) = (all[0].len(), all[0].len() + all[1].len());
    for (since, max_bytes, count, next) in [
        (0, 1, 1, Some(2)),
        (0, first, 1, Some(2)),
        (0, first + 1, 2, None),
        (0, both, 2, None),
        (2, 1, 1, None),
        (4, 1, 0, None),
    ] {
        let log = read(since, max_bytes).await;
        let found = (log.messages.len(), log.next.map(Seq::get), log.version.get());
        assert_eq!(found, (count, next, 4), "{since} {max_bytes}");
    }
    let (list, head) = fixture.store.refs(owner.agent, &room("a")).await.unwrap();
    assert_eq!((list.refs[0].seq, head.seq), (Seq::new(4), Seq::new(4)));
}
