//! Rooms, their members, and who may see what.

use parler_protocol::api::{Cursor, MemberList, RoomList};
use parler_protocol::{BundleId, ErrorCode, RoomName, Seq, paths};
use serde_json::json;

use crate::support::{TestHub, text_message};

#[tokio::test]
async fn a_name_is_taken_in_any_case_and_found_in_any_case() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("Build").await;
    assert_eq!((room.room.as_str(), room.head.seq), ("Build", Seq::ZERO));
    for name in ["Build", "build", "BUILD"] {
        let body = json!({ "room": name, "kind": "channel" });
        alice.post(paths::ROOMS, &body).await.problem(ErrorCode::RoomExists);
    }
    let members: MemberList = alice.get("/v1/rooms/bUILD/members").await.expect(200).json();
    assert_eq!(members.room.as_str(), "Build");
    for body in [
        json!({ "room": "x", "kind": "dm" }),
        json!({ "room": "x", "kind": "service" }),
        json!({ "room": "-x", "kind": "channel" }),
        json!({ "room": "x" }),
    ] {
        alice.post(paths::ROOMS, &body).await.problem(ErrorCode::BadRequest);
    }
}

#[tokio::test]
async fn the_list_shows_my_rooms_and_what_is_unread() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    let (one, two) = (alice.create_room("one").await, alice.create_room("two").await);
    bob.create_room("bobs").await;
    alice.invite(&two.room, &bob).await;
    for _ in 0..3 {
        alice
            .post(&paths::messages(&two.room), &text_message("hello"))
            .await
            .expect(201)
            .head();
    }
    let answer = bob
        .put(&paths::cursor(&two.room), &Cursor { cursor: Seq::new(1) })
        .await
        .expect(200);
    assert_eq!(answer.json::<Cursor>().cursor, Seq::new(1));
    let list: RoomList = bob.get(paths::ROOMS).await.expect(200).json();
    let shown: Vec<_> = list
        .rooms
        .iter()
        .map(|room| (room.room.as_str(), room.members, room.unread, room.head.seq.get()))
        .collect();
    assert_eq!(shown, [("bobs", 1, 0, 0), ("two", 2, 2, 3)]);
    assert_eq!(one.head.seq, Seq::ZERO);
}

#[tokio::test]
async fn a_cursor_moves_forward_to_the_head_at_most() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    for _ in 0..3 {
        alice
            .post(&paths::messages(&room), &text_message("x"))
            .await
            .expect(201)
            .head();
    }
    for (asked, got) in [(2, 2), (1, 2), (99, 3), (i64::MAX as u64, 3), (0, 3)] {
        let answer = alice
            .put(&paths::cursor(&room), &json!({ "cursor": asked }))
            .await
            .expect(200);
        assert_eq!(answer.json::<Cursor>().cursor, Seq::new(got), "asked for {asked}");
        assert_eq!(answer.head().seq, Seq::new(3));
    }
    for bad in [
        json!({ "cursor": u64::MAX }),
        json!({ "cursor": -1 }),
        json!({ "cursor": "1" }),
        json!({}),
    ] {
        alice
            .put(&paths::cursor(&room), &bad)
            .await
            .problem(ErrorCode::BadRequest);
    }
}

/// Every call on a room: the same answer, to the byte, for a room of others and for no room at all.
#[tokio::test]
async fn what_is_not_mine_looks_like_what_is_not() {
    let hub = TestHub::start().await;
    let (alice, mallory) = (hub.agent("alice").await, hub.agent("mallory").await);
    let theirs = alice.create_room("theirs").await.room;
    let none: RoomName = "nowhere".parse().unwrap();
    let blob = BundleId::of(b"x");
    let calls = |room: &RoomName| {
        [
            ("GET", paths::members(room), String::new()),
            ("GET", paths::messages(room), String::new()),
            ("POST", paths::messages(room), text_message("hello").to_string()),
            ("PUT", paths::cursor(room), json!({ "cursor": 1 }).to_string()),
            ("GET", paths::pushes(room, Seq::ZERO), String::new()),
            ("GET", paths::refs(room), String::new()),
            ("GET", paths::blob(room, &blob), String::new()),
            ("GET", paths::bundles(room, &[blob]), String::new()),
            (
                "POST",
                paths::many_bundles(room),
                json!({ "ids": [blob, blob] }).to_string(),
            ),
            ("POST", paths::INVITES.to_owned(), json!({ "room": room }).to_string()),
        ]
    };
    for ((method, path, body), (_, path_of_none, body_of_none)) in calls(&theirs).into_iter().zip(calls(&none)) {
        if path == paths::INVITES {
            // There an unknown room is made.
            mallory.post_bytes(&path, body).await.problem(ErrorCode::NotFound);
            continue;
        }
        let json = |request: hyper::http::request::Builder| request.header("content-type", "application/json");
        let forbidden = mallory.send(method, &path, json, body).await;
        let unknown = mallory.send(method, &path_of_none, json, body_of_none).await;
        forbidden.problem(ErrorCode::NotFound);
        let without_date = |mut answer: crate::support::Answer| {
            answer.headers.remove("date");
            (answer.status, answer.headers, answer.body)
        };
        assert_eq!(without_date(forbidden), without_date(unknown), "{method} {path}");
    }
    // A name that no room can have is no special case either.
    for path in [
        "/v1/rooms/-x/refs",
        "/v1/rooms/..%2fx/refs",
        "/v1/rooms/%00/refs",
        "/v1/rooms/a%20b/refs",
    ] {
        mallory.get(path).await.problem(ErrorCode::NotFound);
    }
}
