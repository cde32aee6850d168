//! The log: numbered without gaps, the same for every reader, and repeatable.

use std::time::Duration;

use parler_protocol::api::{Page, Posted};
use parler_protocol::{ChainHash, ErrorCode, Message, MessageId, Seq, limits, paths};
use serde_json::{Value, json};

use crate::support::{TestHub, text_message};

#[tokio::test]
async fn concurrent_posts_are_numbered_without_gaps_and_every_reader_sees_the_same() {
    const POSTS: u64 = 200;
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    let room = alice.create_room("r").await.room;
    alice.invite(&room, &bob).await;
    let path = paths::messages(&room);
    let posts = (0..POSTS).map(|index| {
        let author = if index % 2 == 0 { &alice } else { &bob };
        let (body, path) = (text_message(&index.to_string()), &path);
        async move { author.post(path, &body).await.expect(201).json::<Posted>() }
    });
    let mut posted = futures_util::future::join_all(posts).await;
    posted.sort_by_key(|posted| posted.seq);
    assert_eq!(
        posted.iter().map(|posted| posted.seq.get()).collect::<Vec<_>>(),
        (1..=POSTS).collect::<Vec<_>>()
    );

    let page = format!("{path}?after=0&limit=1000");
    let (mine, theirs) = (alice.get(&page).await.expect(200), bob.get(&page).await.expect(200));
    assert_eq!(mine.body, theirs.body);
    assert_eq!(mine.seqs(), (1..=POSTS).collect::<Vec<_>>());
    for (posted, stored) in posted.iter().zip(mine.messages()) {
        let message = Message::parse(&stored).unwrap();
        assert_eq!((message.seq, message.id, &message.room), (posted.seq, posted.id, &room));
    }
}

#[tokio::test]
async fn a_reader_from_message_1_computes_the_head_that_everybody_is_told() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("Chain").await;
    let path = paths::messages(&room.room);
    let mut chain = ChainHash::start(&hub.id, &room.room);
    assert_eq!(room.head.h, chain);
    let mut heads = vec![];
    for index in 0..20 {
        let answer = alice
            .post(&path, &text_message(&format!("é {index}")))
            .await
            .expect(201);
        assert_eq!(answer.head(), answer.json::<Posted>().head);
        heads.push(answer.head());
    }
    let mut after = 0;
    while after < 20 {
        let answer = alice
            .get(&format!("/v1/rooms/chain/messages?after={after}&limit=7"))
            .await
            .expect(200);
        let page: Page = answer.json();
        assert!(!page.messages.is_empty(), "a page that leads nowhere");
        for stored in answer.messages() {
            chain = chain.next(&stored);
            assert_eq!(heads[after as usize].h, chain);
            after += 1;
        }
        assert_eq!((page.cursor.get(), page.head.seq.get()), (after, 20));
    }
    let answer = alice.get(&paths::pushes(&room.room, Seq::ZERO)).await.expect(200);
    assert_eq!(answer.head().h, chain);
}

#[tokio::test]
async fn a_repeated_request_gets_the_first_answer_and_stores_nothing() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    let room = alice.create_room("r").await.room;
    alice.invite(&room, &bob).await;
    let path = paths::messages(&room);
    let message = text_message("once");
    let first = alice.post(&path, &message).await.expect(201);
    alice.post(&path, &text_message("between")).await.expect(201).head();
    let again = alice.post(&path, &message).await.expect(200);
    assert_eq!(again.json::<Posted>(), first.json::<Posted>());
    assert_eq!(again.head().seq, Seq::new(2), "the header tells today's head");

    let mut changed = message.clone();
    changed["parts"][0]["text"] = json!("twice");
    alice
        .post(&path, &changed)
        .await
        .problem(ErrorCode::IdempotencyConflict);
    // Another author with the same message id is no repetition.
    bob.post(&path, &message).await.problem(ErrorCode::IdempotencyConflict);
    assert_eq!(alice.get(&format!("{path}?after=0")).await.expect(200).seqs(), [1, 2]);
}

#[tokio::test]
async fn an_idempotency_key_stands_for_one_content_of_one_author() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    let room = alice.create_room("r").await.room;
    alice.invite(&room, &bob).await;
    let path = paths::messages(&room);
    let keyed = |request: hyper::http::request::Builder| {
        request
            .header("content-type", "application/json")
            .header(paths::IDEMPOTENCY_KEY_HEADER, "deploy-42")
    };
    let body = |text: &str| text_message(text).to_string();
    let first = alice.send("POST", &path, keyed, body("same")).await.expect(201);
    // Under one key the message may even have a new id: the first answer names the stored one.
    let again = alice.send("POST", &path, keyed, body("same")).await.expect(200);
    assert_eq!(again.json::<Posted>(), first.json::<Posted>());
    alice
        .send("POST", &path, keyed, body("other"))
        .await
        .problem(ErrorCode::IdempotencyConflict);
    bob.send("POST", &path, keyed, body("other")).await.expect(201).head();
}

#[tokio::test]
async fn pages_begin_at_my_cursor_and_end_where_they_say() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let path = paths::messages(&room);
    for index in 0..5 {
        alice
            .post(&path, &text_message(&index.to_string()))
            .await
            .expect(201)
            .head();
    }
    alice
        .put(&paths::cursor(&room), &json!({ "cursor": 2 }))
        .await
        .expect(200)
        .head();
    let get = async |query: &str| alice.get(&format!("{path}{query}")).await.expect(200);
    assert_eq!(get("").await.seqs(), [3, 4, 5]);
    assert_eq!(get("?after=0&limit=2").await.seqs(), [1, 2]);
    let empty = get("?after=5").await;
    assert_eq!((empty.seqs(), empty.json::<Page>().cursor), (vec![], Seq::new(5)));
    let head_only = get("?after=1&limit=0").await;
    assert_eq!(
        (head_only.seqs(), head_only.json::<Page>().cursor),
        (vec![], Seq::new(1))
    );
    assert_eq!(head_only.head().seq, Seq::new(5));
    assert_eq!(get("?after=0&limit=4294967295").await.seqs().len(), 5);
    let ahead = get("?after=9&wait=50").await;
    assert_eq!(
        ahead.head().seq,
        Seq::new(5),
        "a reader ahead of the log is told at once"
    );
}

#[tokio::test]
async fn a_page_ends_early_when_it_is_large() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let path = paths::messages(&room);
    let large = "x".repeat(900 << 10);
    for _ in 0..6 {
        alice.post(&path, &text_message(&large)).await.expect(201).head();
    }
    let answer = alice.get(&format!("{path}?after=0")).await.expect(200);
    let page: Page = answer.json();
    assert!(answer.body.len() < limits::MAX_PAGE_BYTES + limits::MAX_MESSAGE_BYTES + 4096);
    assert!(page.cursor < Seq::new(6) && page.head.seq == Seq::new(6));
    let rest = alice.get(&format!("{path}?after={}", page.cursor)).await.expect(200);
    assert_eq!(rest.json::<Page>().cursor, Seq::new(6));
}

#[tokio::test]
async fn a_waiting_reader_is_woken_by_the_next_message() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    let room = alice.create_room("Waited").await.room;
    alice.invite(&room, &bob).await;
    // In another case: the room is the same.
    let wait = bob.get("/v1/rooms/waited/messages?wait=50");
    let post = async {
        // The reader may not be waiting yet, or may: it must see the message either way.
        alice
            .post(&paths::messages(&room), &text_message("wake up"))
            .await
            .expect(201)
            .json::<Posted>()
    };
    let both = async { tokio::join!(wait, post) };
    let (answer, posted) = tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("woken");
    assert_eq!(answer.expect(200).seqs(), [posted.seq.get()]);

    // And once more, surely waiting: message after message, each delivered by its own wake.
    let path = paths::messages(&room);
    for seq in 2..20_u64 {
        let waiting = format!("{path}?after={}&wait=50", seq - 1);
        let post = async {
            tokio::task::yield_now().await;
            alice.post(&path, &text_message("next")).await.expect(201).head();
        };
        let both = async { tokio::join!(bob.get(&waiting), post).0 };
        let answer = tokio::time::timeout(Duration::from_secs(20), both)
            .await
            .expect("woken");
        assert_eq!(answer.expect(200).seqs(), [seq]);
    }
}

#[tokio::test]
async fn waiting_ends_when_its_time_is_over() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let began = std::time::Instant::now();
    let answer = alice
        .get(&format!("{}?wait=1", paths::messages(&room)))
        .await
        .expect(200);
    assert!(answer.seqs().is_empty());
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_message_tells_its_author_and_what_it_answers() {
    let hub = TestHub::start().await;
    let mut alice = hub.agent("alice").await;
    alice.role = Some("planner".parse().unwrap());
    alice.open_session().await;
    let room = alice.create_room("r").await.room;
    let reply_to = MessageId::generate();
    let body = json!({
        "id": MessageId::generate(), "parts": [{ "kind": "text", "text": "x" }],
        "mentions": ["bob"], "replyTo": reply_to,
    });
    alice.post(&paths::messages(&room), &body).await.expect(201).head();
    let page = alice
        .get(&format!("{}?after=0", paths::messages(&room)))
        .await
        .expect(200);
    let stored: Value = serde_json::from_slice(&page.messages()[0]).unwrap();
    assert_eq!(
        stored,
        json!({
            "seq": 1, "id": body["id"], "room": "r",
            "from": { "id": alice.id(), "name": "alice", "role": "planner" },
            "parts": body["parts"], "mentions": ["bob"], "replyTo": reply_to, "ts": hub.now_ms(),
        })
    );
}
