//! Rooms that are deleted: what goes with one, what stays, and that one made anew under its name is another.

use futures_util::future::join_all;
use parler_protocol::api::{MemberList, Pushes, RoomAnswer, RoomList};
use parler_protocol::{BundleId, ErrorCode, Seq, limits, paths};
use serde_json::{Value, json};

use crate::membership::room_of_three;
use crate::streams::Stream;
use crate::support::{Agent, Answer, Push, TestHub, bytes, oid, text_message};

async fn push(agent: &Agent, room: &RoomAnswer, branch: &str, bundle: &[u8]) -> Answer {
    let now: RoomAnswer = agent.get(&paths::room(&room.room)).await.expect(200).json();
    let push = Push::new().branch(branch, None, Some(oid('a'))).bundle(bundle);
    let signed = push.sign(agent, &now);
    agent.post_with_blob(&room.room, &signed.body, bundle).await
}

#[tokio::test]
async fn a_deleted_room_takes_with_it_what_no_other_room_holds() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], _) = room_of_three(&hub).await;
    let (room, other) = (alice.create_room("Team").await, alice.create_room("other").await);
    alice.invite(&room.room, &bob).await;
    let (own, shared) = (
        bytes(limits::INLINE_BLOB_BYTES as usize + 1, 1),
        bytes(limits::INLINE_BLOB_BYTES as usize + 2, 2),
    );
    for (room, branch, bundle) in [(&room, "a", &own), (&room, "b", &shared), (&other, "b", &shared)] {
        push(&alice, room, branch, bundle).await.expect(201).head();
    }
    let text = text_message("again");
    alice.post(&paths::messages(&room.room), &text).await.expect(201).head();
    let file = |bundle: &[u8]| {
        let id = BundleId::of(bundle).to_string();
        hub.directory.path().join("hub/blobs").join(&id[..2]).join(id)
    };
    assert!(file(&own).exists() && file(&shared).exists());

    bob.delete(&paths::room(&room.room)).await.problem(ErrorCode::NotOwner);
    let stream = Stream::begin(&bob, &format!("{}?after=9", paths::stream(&room.room)), None).await;
    assert_eq!(alice.delete(&paths::room(&room.room)).await.status, 204);
    assert!(stream.end().await.iter().all(|event| event.name.is_empty()));
    alice
        .delete(&paths::room(&room.room))
        .await
        .problem(ErrorCode::NotFound);
    for agent in [&alice, &bob] {
        agent
            .get(&paths::messages(&room.room))
            .await
            .problem(ErrorCode::NotFound);
        let rooms: RoomList = agent.get(paths::ROOMS).await.expect(200).json();
        assert!(rooms.rooms.iter().all(|left| left.room != room.room));
    }
    alice
        .get(&paths::blob(&other.room, &BundleId::of(&shared)))
        .await
        .expect(200)
        .head();

    // Its name is free, and what is made under it begins anew. Of the old one nothing is left, not even what a repetition
    // was answered by.
    let anew = bob.create_room("team").await;
    assert_eq!((anew.room.as_str(), anew.head.seq), ("team", Seq::ZERO));
    alice
        .get(&paths::messages(&anew.room))
        .await
        .problem(ErrorCode::NotFound);
    let members: MemberList = bob.get(&paths::members(&anew.room)).await.expect(200).json();
    assert_eq!(members.members.len(), 1);
    bob.get(&paths::blob(&anew.room, &BundleId::of(&own)))
        .await
        .problem(ErrorCode::NotFound);
    hub.pass(std::time::Duration::from_millis(1));
    bob.invite(&anew.room, &alice).await;
    assert_eq!(alice.post(&paths::messages(&anew.room), &text).await.status, 201);

    // A file that was stored a moment ago stays until nobody can be about to refer to it: the next start at the latest.
    let (own, shared) = (file(&own), file(&shared));
    let directory = std::sync::Arc::clone(&hub.directory);
    hub.stop().await.unwrap().unwrap();
    let hub = TestHub::on(directory, |options| options.open = true).await;
    hub.agent("dave").await;
    assert!(!own.exists() && shared.exists());
}

#[tokio::test]
async fn a_room_made_anew_is_told_from_the_one_before_however_far_it_has_come() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let mut seen: Vec<(String, Option<i64>)> = Vec::new();
    for _ in 0..3 {
        let room = alice.create_room("team").await;
        push(&alice, &room, "a", b"# v2 git bundle\n").await.expect(201).head();
        let pushes = alice.get(&paths::pushes(&room.room, Seq::ZERO)).await.expect(200);
        let tag = pushes.header("etag").to_owned();
        // Who has it knows it, and nobody who has another one.
        let of_tag = async |tag: &str| {
            let known = |request: hyper::http::request::Builder| request.header("if-none-match", tag);
            let path = paths::pushes(&room.room, Seq::new(1));
            alice.send("GET", &path, known, "").await
        };
        assert_eq!(of_tag(&tag).await.status, 304);
        for (other, _) in &seen {
            let answer: Pushes = of_tag(other).await.expect(200).json();
            assert_eq!(answer.remade, pushes.json::<Pushes>().remade);
        }
        seen.push((tag, pushes.json::<Pushes>().remade));
        assert_eq!(alice.delete(&paths::room(&room.room)).await.status, 204);
    }
    let [(first, None), (_, Some(second)), (_, Some(third))] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(first, "\"1\"");
    assert!(second < third, "also where both were deleted at one time");
}

#[tokio::test]
async fn of_a_deletion_and_pushes_at_once_nothing_is_half_done() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], _) = room_of_three(&hub).await;
    for round in 0..8 {
        let room = alice.create_room("team").await;
        alice.invite(&room.room, &bob).await;
        let bundle = bytes(limits::INLINE_BLOB_BYTES as usize + 1 + round, 1);
        let now: RoomAnswer = bob.get(&paths::room(&room.room)).await.expect(200).json();
        let pushes = ["a", "b", "c"].map(|branch| {
            Push::new()
                .branch(branch, None, Some(oid('a')))
                .bundle(&bundle)
                .sign(&bob, &now)
        });
        let pushing = join_all(
            pushes
                .iter()
                .map(|signed| bob.post_with_blob(&room.room, &signed.body, &bundle)),
        );
        let path = paths::room(&room.room);
        let (pushed, deleted) = tokio::join!(pushing, alice.delete(&path));
        assert_eq!(deleted.status, 204);
        for answer in pushed {
            if answer.status != 201 {
                answer.problem(ErrorCode::NotFound);
            }
        }
        bob.get(&paths::room(&room.room)).await.problem(ErrorCode::NotFound);
        let anew = alice.create_room("team").await;
        let refs: Value = alice.get(&paths::refs(&anew.room)).await.expect(200).json();
        assert_eq!((anew.head.seq, &refs["refs"]), (Seq::ZERO, &json!([])));
        assert_eq!(alice.delete(&paths::room(&anew.room)).await.status, 204);
    }
    // In the tables nothing is left, and what is there fits.
    let directory = std::sync::Arc::clone(&hub.directory);
    hub.stop().await.unwrap().unwrap();
    let database = rusqlite_of(&directory);
    let count = |query: &str| -> i64 { database.query_row(query, (), |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT count(*) FROM messages"), 0);
    assert_eq!(count("SELECT count(*) FROM blobs"), 0);
    assert_eq!(count("SELECT count(*) FROM idempotency"), 0);
    assert_eq!(count("SELECT count(*) FROM pragma_foreign_key_check"), 0);
}

fn rusqlite_of(directory: &tempfile::TempDir) -> rusqlite::Connection {
    rusqlite::Connection::open(directory.path().join("hub/hub.db")).unwrap()
}
