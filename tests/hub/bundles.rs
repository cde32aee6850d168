//! Several bundles in one answer: whole, in the order asked for, and never more of them in memory than a piece.

use parler_protocol::{BundleId, ErrorCode, Seq, limits, paths};
use serde_json::json;

use crate::blobs::{LARGE, Room};
use crate::support::{Agent, Push, RunningProgram, ask_closing, bytes, cut_off, oid};

/// What an answer with these of the bundles is.
fn frames(bundles: &[Vec<u8>], order: &[usize]) -> Vec<u8> {
    let frame = |index: &usize| {
        let bundle = &bundles[*index];
        let line = format!("{} {}\n", BundleId::of(bundle), bundle.len());
        [line.as_bytes(), bundle].concat()
    };
    order.iter().flat_map(frame).collect()
}

#[tokio::test]
async fn several_bundles_come_in_one_answer_in_order() {
    let room = Room::new().await;
    let bundles = [bytes(1000, 1), bytes(LARGE, 2), bytes(64 << 10, 3)];
    for (index, bundle) in bundles.iter().enumerate() {
        room.push(&format!("b{index}"), bundle).await.expect(201).head();
    }
    let ids: Vec<_> = bundles.iter().map(|bundle| BundleId::of(bundle)).collect();
    let order = [ids[2], ids[1], ids[0], ids[1]];
    let answer = room
        .alice
        .get(&paths::bundles(&room.room.room, &order))
        .await
        .expect(200);
    assert_eq!(answer.header("content-type"), paths::BUNDLES_TYPE);
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    assert!(answer.body == frames(&bundles, &[2, 1, 0, 1]));
    assert_eq!(answer.head().seq, Seq::new(3));

    let unknown = BundleId::of(b"unknown");
    room.alice
        .get(&paths::bundles(&room.room.room, &[ids[0], unknown]))
        .await
        .problem(ErrorCode::NotFound);
    room.alice
        .get(&paths::bundles(&room.room.room, &[]))
        .await
        .problem(ErrorCode::BadRequest);
    room.alice
        .get(&paths::bundles(&room.room.room, &[ids[0]; 65]))
        .await
        .problem(ErrorCode::TooLarge);
    room.alice
        .get(&paths::bundles(&room.room.room, &[ids[0]; 64]))
        .await
        .expect(200)
        .head();
}

#[tokio::test]
async fn thousands_of_bundles_come_in_one_answer_to_a_post() {
    let room = Room::new().await;
    let bundles = [bytes(1000, 1), bytes(LARGE, 2), bytes(10, 3), bytes(64 << 10, 4)];
    for (index, bundle) in bundles.iter().enumerate() {
        room.push(&format!("b{index}"), bundle).await.expect(201).head();
    }
    let ids: Vec<_> = bundles.iter().map(|bundle| BundleId::of(bundle)).collect();
    let path = paths::many_bundles(&room.room.room);
    let post = async |agent: &Agent, ids: &[BundleId]| agent.post(&path, &json!({ "ids": ids })).await;
    // What is wanted twice comes twice, small ones between large ones where they were asked for.
    let order: Vec<usize> = [3, 0, 1, 0, 2, 1, 3].into_iter().chain([2; 2000]).chain([0]).collect();
    let wanted: Vec<_> = order.iter().map(|index| ids[*index]).collect();
    let answer = post(&room.alice, &wanted).await.expect(200);
    assert_eq!(answer.header("content-type"), paths::BUNDLES_TYPE);
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    assert!(answer.body == frames(&bundles, &order));
    assert_eq!(answer.head().seq, Seq::new(4));
    let answer = post(&room.alice, &[ids[2]; limits::MAX_BUNDLES_PER_REQUEST]).await;
    assert!(answer.expect(200).body == frames(&bundles, &[2; limits::MAX_BUNDLES_PER_REQUEST]));

    let unknown = BundleId::of(b"unknown");
    let mut with_unknown = wanted.clone();
    with_unknown.push(unknown);
    post(&room.alice, &with_unknown).await.problem(ErrorCode::NotFound);
    post(&room.alice, &[]).await.problem(ErrorCode::BadRequest);
    post(&room.alice, &[ids[2]; limits::MAX_BUNDLES_PER_REQUEST + 1])
        .await
        .problem(ErrorCode::TooLarge);
    for body in [
        json!([ids[0]]),
        json!({}),
        json!({ "ids": "x" }),
        json!({ "ids": ["x"] }),
        json!({ "ids": [ids[0]], "more": 1 }),
    ] {
        room.alice.post(&path, &body).await.problem(ErrorCode::BadRequest);
    }
    let long = format!("{{\"ids\":[]{}}}", " ".repeat(limits::MAX_MESSAGE_BYTES));
    room.alice.post_bytes(&path, long).await.problem(ErrorCode::TooLarge);

    // Another room's bundles are nobody's here, and a member of another room is nobody there.
    let bob = room.hub.agent("bob").await;
    let other = bob.create_room("other").await;
    post(&bob, &[ids[0]]).await.problem(ErrorCode::NotFound);
    let elsewhere = bob
        .post(&paths::many_bundles(&other.room), &json!({ "ids": [ids[0]] }))
        .await;
    elsewhere.problem(ErrorCode::NotFound);
}

/// A hub answers with more bytes than it ever holds.
#[tokio::test]
async fn an_answer_of_many_small_bundles_is_not_held_whole() {
    const COPIES: usize = 3000;
    const MOST_KIB: usize = 96 << 10; // half of what it sends
    let directory = tempfile::TempDir::new().unwrap();
    let hub = RunningProgram::start(&directory.path().join("hub"));
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await;
    let bundle = bytes(limits::INLINE_BLOB_BYTES as usize, 1);
    let push = Push::new().branch("x", None, Some(oid('a'))).bundle(&bundle);
    let message = push.sign(&alice, &room).body;
    alice
        .post_with_blob(&room.room, &message, &bundle)
        .await
        .expect(201)
        .head();
    let body = json!({ "ids": vec![BundleId::of(&bundle); COPIES] }).to_string();
    let mut stream = ask_closing(&alice, "POST", &paths::many_bundles(&room.room), &body).await;
    let sent = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.unwrap();
    assert!(sent > (COPIES * bundle.len()) as u64, "{sent}");
    let peak = hub.peak_kib();
    assert!(peak < MOST_KIB, "{peak} KiB for an answer of {} KiB", sent >> 10);
}

#[tokio::test]
async fn what_is_damaged_among_several_ends_the_answer_before_it() {
    let room = Room::new().await;
    let bundles = [bytes(1000, 1), bytes(LARGE, 2), bytes(10, 3)];
    for (index, bundle) in bundles.iter().enumerate() {
        room.push(&format!("b{index}"), bundle).await.expect(201).head();
    }
    let ids: Vec<_> = bundles.iter().map(|bundle| BundleId::of(bundle)).collect();
    let database = rusqlite::Connection::open(room.hub.directory.path().join("hub/hub.db")).unwrap();
    let changed = database
        .execute(
            "UPDATE blobs SET bytes = zeroblob(10) WHERE id = ?1",
            [ids[2].as_bytes()],
        )
        .unwrap();
    assert_eq!(changed, 1);
    let path = paths::many_bundles(&room.room.room);
    let body = json!({ "ids": [ids[0], ids[1], ids[0], ids[2], ids[0]] }).to_string();
    let (_, got) = cut_off(ask_closing(&room.alice, "POST", &path, &body).await).await;
    let expected = frames(&bundles, &[0, 1, 0]);
    assert!(
        expected.starts_with(&got),
        "what is before the damaged one, and nothing of it"
    );
    assert!(got.len() > bundles[0].len(), "{}", got.len());
    // Whoever goes on from there is told what it is.
    let rest = room.alice.post(&path, &json!({ "ids": [ids[2], ids[0]] })).await;
    rest.problem(ErrorCode::Internal);
}
