//! What may be posted, and what is refused before anything is stored.

use parler_protocol::{BundleId, ErrorCode, Message, MessageId, RoomName, Seq, limits, parse_json, paths};
use serde_json::{Value, json};

use crate::support::{Agent, TestHub, text_message};

struct Room {
    _hub: TestHub,
    alice: Agent,
    room: RoomName,
}

impl Room {
    async fn new() -> Self {
        let hub = TestHub::start().await;
        let alice = hub.agent("alice").await;
        let room = alice.create_room("r").await.room;
        Self { _hub: hub, alice, room }
    }

    async fn post(&self, body: impl Into<bytes::Bytes>) -> crate::support::Answer {
        self.alice.post_bytes(&paths::messages(&self.room), body).await
    }

    async fn assert_empty(&self) {
        let page = self
            .alice
            .get(&format!("{}?after=0", paths::messages(&self.room)))
            .await
            .expect(200);
        assert_eq!(page.head().seq, Seq::ZERO, "something was stored");
    }
}

/// An object with this key is another value to serde_json, where it reads a value from a value.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

#[tokio::test]
async fn a_message_is_to_its_readers_what_it_was_to_the_hub() {
    let room = Room::new().await;
    let blob = BundleId::of(b"a file");
    let parts = [
        json!({ "kind": "data", "data": { RAW_VALUE: 1 } }),
        json!({ "kind": "data", "data": { RAW_VALUE: "no JSON" } }),
        json!({ "kind": "data", "data": { RAW_VALUE: "{\"b\":2}" } }),
        json!({ "kind": "data", "data": [{ RAW_VALUE: "1", "a": 1 }] }),
        json!({ "kind": "com.parler.file", "blob": { RAW_VALUE: format!("\"{blob}\"") }, "name": "x", "size": 5 }),
    ];
    for part in &parts {
        let body = json!({ "id": MessageId::generate(), "parts": [part] }).to_string();
        let _ = room.post(body.clone()).await.expect(201);
        // Sent again it is the same.
        let _ = room.post(body).await.expect(200);
    }
    let page = room
        .alice
        .get(&format!("{}?after=0", paths::messages(&room.room)))
        .await;
    let page = parse_json(&page.expect(200).body).unwrap();
    let messages = page["messages"].as_array().unwrap();
    assert_eq!(messages.len(), parts.len());
    for (message, part) in messages.iter().zip(&parts) {
        let message = Message::parse(message.to_string().as_bytes()).unwrap();
        assert_eq!(message.raw_parts(), std::slice::from_ref(part));
    }
}

#[tokio::test]
async fn json_that_has_two_meanings_is_refused() {
    let room = Room::new().await;
    let id = MessageId::generate();
    let with_part = |part: &str| format!(r#"{{"id":"{id}","parts":[{part}]}}"#);
    let deep = |levels: usize| {
        with_part(&format!(
            r#"{{"kind":"data","data":{}{}}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        ))
    };
    let bodies = [
        ("nothing", String::new()),
        ("not JSON", "hello".to_owned()),
        ("two values", format!("{}{}", text_message("x"), text_message("y"))),
        (
            "a key twice",
            format!(r#"{{"id":"{id}","id":"{id}","parts":[{{"kind":"text","text":"x"}}]}}"#),
        ),
        (
            "a key twice inside a part",
            with_part(r#"{"kind":"text","text":"x","text":"y"}"#),
        ),
        (
            "a key twice, once escaped",
            with_part(r#"{"kind":"text","text":"x","\u0074ext":"y"}"#),
        ),
        ("NaN", with_part(r#"{"kind":"data","data":NaN}"#)),
        ("a number beyond a double", with_part(r#"{"kind":"data","data":1e400}"#)),
        ("too deep", deep(limits::MAX_JSON_DEPTH)),
        ("very deep", deep(100_000)),
        ("half a surrogate pair", with_part(r#"{"kind":"text","text":"\ud800"}"#)),
        (
            "an unknown field",
            json!({ "id": id, "parts": [{ "kind": "text", "text": "x" }], "seq": 1 }).to_string(),
        ),
        (
            "no id",
            json!({ "parts": [{ "kind": "text", "text": "x" }] }).to_string(),
        ),
        (
            "an id in upper case",
            json!({ "id": id.to_string().to_uppercase(), "parts": [] }).to_string(),
        ),
        ("no parts", json!({ "id": id }).to_string()),
        ("an empty list of parts", json!({ "id": id, "parts": [] }).to_string()),
        ("a part that is no object", with_part("1")),
        ("a part without kind", with_part(r#"{"text":"x"}"#)),
        ("a kind without a dot", with_part(r#"{"kind":"image"}"#)),
        ("a kind with an empty label", with_part(r#"{"kind":"com..x"}"#)),
        ("a kind with other characters", with_part(r#"{"kind":"com.exämple"}"#)),
        ("a kind that is no string", with_part(r#"{"kind":1}"#)),
        ("malformed refs", with_part(r#"{"kind":"com.parler.refs","updates":7}"#)),
        (
            "a malformed bundle",
            with_part(r#"{"kind":"com.parler.bundle","blob":"../../x","vcs":"git","size":1}"#),
        ),
        (
            "a bundle of another kind",
            with_part(&format!(
                r#"{{"kind":"com.parler.bundle","blob":"{}","vcs":"hg","size":1}}"#,
                "a".repeat(64)
            )),
        ),
    ];
    for (what, body) in bodies {
        let answer = room.post(body).await;
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        answer.problem(ErrorCode::BadRequest);
    }
    room.post(&b"\"\xff\""[..]).await.problem(ErrorCode::BadRequest);
    room.assert_empty().await;
    // Just deep enough: message, parts, part, data.
    room.post(deep(limits::MAX_JSON_DEPTH - 3)).await.expect(201).head();
}

#[tokio::test]
async fn mentions_are_normal_or_refused() {
    let room = Room::new().await;
    let with = |mentions: Value| {
        json!({ "id": MessageId::generate(), "parts": [{ "kind": "text", "text": "x" }], "mentions": mentions })
            .to_string()
    };
    let many: Vec<String> = (0..=limits::MAX_MENTIONS).map(|index| format!("m{index}")).collect();
    for bad in [
        json!(["Bob"]),
        json!([" bob"]),
        json!(["bob", "bob"]),
        json!([""]),
        json!([1]),
        json!("bob"),
        json!(["x".repeat(129)]),
    ] {
        room.post(with(bad.clone())).await.problem(ErrorCode::BadRequest);
    }
    room.post(with(json!(many))).await.problem(ErrorCode::TooLarge);
    room.assert_empty().await;
    room.post(with(json!(many[1..]))).await.expect(201).head();
    room.post(with(json!(["ada lovelace", "é"]))).await.expect(201).head();
}

#[tokio::test]
async fn sizes_have_limits_and_reach_them() {
    let room = Room::new().await;
    let of_size = |size: usize| {
        let empty = text_message("").to_string();
        let text = "x".repeat(size - empty.len());
        empty.replace(r#""text":"""#, &format!(r#""text":"{text}""#))
    };
    room.post(of_size(limits::MAX_MESSAGE_BYTES + 1))
        .await
        .problem(ErrorCode::TooLarge);
    let parts = |count: usize| {
        json!({ "id": MessageId::generate(), "parts": vec![json!({ "kind": "com.example.x" }); count] }).to_string()
    };
    room.post(parts(limits::MAX_PARTS + 1))
        .await
        .problem(ErrorCode::TooLarge);
    room.assert_empty().await;
    room.post(of_size(limits::MAX_MESSAGE_BYTES)).await.expect(201).head();
    room.post(parts(limits::MAX_PARTS)).await.expect(201).head();

    // Other calls take less.
    let large = json!({ "room": "x", "kind": "channel", "more": "x".repeat(64 << 10) });
    room.alice.post(paths::ROOMS, &large).await.problem(ErrorCode::TooLarge);
}

#[tokio::test]
async fn only_documented_content_types_are_taken() {
    let room = Room::new().await;
    let body = text_message("x").to_string();
    for content_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
    ] {
        let typed = |request: hyper::http::request::Builder| request.header("content-type", content_type);
        let path = paths::messages(&room.room);
        room.alice
            .send("POST", &path, typed, body.clone())
            .await
            .problem(ErrorCode::UnsupportedMediaType);
        room.alice
            .send("POST", paths::ROOMS, typed, "{}")
            .await
            .problem(ErrorCode::UnsupportedMediaType);
    }
    room.assert_empty().await;
    let typed =
        |request: hyper::http::request::Builder| request.header("content-type", "Application/JSON; charset=utf-8");
    room.alice
        .send("POST", &paths::messages(&room.room), typed, body)
        .await
        .expect(201)
        .head();
}

#[tokio::test]
async fn an_unknown_part_is_stored_byte_for_byte() {
    let room = Room::new().await;
    let part = r#"{ "kind" : "com.example.thing",  "z": 1.50, "a": 1e2, "text": "\u00e9\/" }"#;
    let id = MessageId::generate();
    room.post(format!(r#"{{"parts":[{part}],"id":"{id}"}}"#))
        .await
        .expect(201)
        .head();
    let page = room
        .alice
        .get(&format!("{}?after=0", paths::messages(&room.room)))
        .await
        .expect(200);
    let stored = String::from_utf8(page.messages().remove(0)).unwrap();
    assert!(stored.contains(part), "{stored}");
    assert!(
        page.body
            .windows(stored.len())
            .any(|window| window == stored.as_bytes())
    );
}

#[tokio::test]
async fn s14_words_that_a_database_knows_are_words() {
    let room = Room::new().await;
    let words = [
        "'; DROP TABLE messages; --",
        "\" OR \"\"=\"",
        "%_\\%",
        "x' UNION SELECT body FROM messages --",
        "\0",
        "?1 :a @b $c",
        "'||(SELECT hex(randomblob(9)))||'",
    ];
    for word in words {
        room.alice
            .post(&paths::messages(&room.room), &text_message(word))
            .await
            .expect(201)
            .head();
        let path = format!(
            "{}?after={}",
            paths::messages(&room.room),
            word.replace(' ', "%20").replace('\0', "%00")
        );
        // Where a number is wanted, they are none.
        let answer = room.alice.get(&path.replace(['"', '\\', '<', '>', '|'], "%22")).await;
        assert_eq!(answer.status, 400, "{word:?}");
    }
    let page = room
        .alice
        .get(&format!("{}?after=0", paths::messages(&room.room)))
        .await
        .expect(200);
    let stored = page.messages();
    assert_eq!(stored.len(), words.len());
    for (message, word) in stored.iter().zip(words) {
        let message: serde_json::Value = serde_json::from_slice(message).unwrap();
        assert_eq!(message["parts"][0]["text"], word);
    }
}

#[tokio::test]
async fn keys_and_query_parameters_are_checked() {
    let room = Room::new().await;
    let path = paths::messages(&room.room);
    for key in ["", "a b", "é", &"k".repeat(257)] {
        let keyed = |request: hyper::http::request::Builder| {
            request
                .header("content-type", "application/json")
                .header(paths::IDEMPOTENCY_KEY_HEADER, key)
        };
        room.alice
            .send("POST", &path, keyed, text_message("x").to_string())
            .await
            .problem(ErrorCode::BadRequest);
    }
    room.assert_empty().await;
    for query in [
        "after=-1",
        "after=x",
        "after=",
        "after=9223372036854775808",
        "limit=-1",
        "limit=x",
        "wait=1.5",
        "Limit=1",
        "after=1&after=2",
    ] {
        room.alice
            .get(&format!("{path}?{query}"))
            .await
            .problem(ErrorCode::BadRequest);
    }
}
