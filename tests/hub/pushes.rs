//! Pushes: signed ref changes that happen whole or not at all, and the messages that tell of them.

use parler_protocol::api::{Pushes, RefList, RoomAnswer};
use parler_protocol::{ErrorCode, HandoffPart, Head, ObjectFormat, Seq, Signed, TextPart, paths};
use serde_json::{Value, json};

use crate::support::{Agent, Answer, Push, TestHub, oid, text_message};

struct Room {
    hub: TestHub,
    alice: Agent,
    room: RoomAnswer,
}

impl Room {
    async fn new() -> Self {
        let hub = TestHub::start().await;
        let alice = hub.agent("alice").await;
        let room = alice.create_room("Pushed").await;
        Self { hub, alice, room }
    }

    async fn post(&self, signed: &Signed) -> Answer {
        self.alice
            .post_bytes(&paths::messages(&self.room.room), signed.body.clone())
            .await
    }

    async fn push(&self, push: Push) -> Answer {
        self.post(&push.sign(&self.alice, &self.room)).await
    }

    async fn refs(&self) -> Vec<(String, String)> {
        let refs: RefList = self.alice.get(&paths::refs(&self.room.room)).await.expect(200).json();
        refs.refs
            .into_iter()
            .map(|entry| (entry.name.to_string(), entry.oid.to_string()))
            .collect()
    }
}

#[tokio::test]
async fn a_push_moves_refs_and_shows_in_pushes() {
    let room = Room::new().await;
    let path = paths::pushes(&room.room.room, Seq::ZERO);
    let empty: Pushes = room.alice.get(&path).await.expect(200).json();
    assert_eq!(
        (empty.version, empty.messages.len(), empty.hub),
        (Seq::ZERO, 0, room.hub.id)
    );

    room.alice
        .post(&paths::messages(&room.room.room), &text_message("chat"))
        .await
        .expect(201)
        .head();
    let first = Push::new()
        .branch("topic", None, Some(oid('a')))
        .branch("main", None, Some(oid('b')))
        .head("topic");
    room.push(first).await.expect(201).head();
    room.push(Push::new().branch("topic", Some(oid('a')), None).head("main"))
        .await
        .expect(201)
        .head();

    let answer = room.alice.get(&path).await.expect(200);
    let pushes: Pushes = answer.json();
    assert_eq!((answer.seqs(), pushes.version), (vec![2, 3], Seq::new(3)));
    assert_eq!(answer.header("etag"), "\"3\"");
    let later = room
        .alice
        .get(&paths::pushes(&room.room.room, Seq::new(2)))
        .await
        .expect(200);
    assert_eq!(later.seqs(), [3]);

    let answer = room.alice.get(&paths::refs(&room.room.room)).await.expect(200);
    let refs: RefList = answer.json();
    assert_eq!(refs.head_ref.unwrap().as_str(), "refs/heads/main");
    assert_eq!(refs.object_format, Some(ObjectFormat::Sha1));
    assert_eq!(refs.refs.len(), 1);
    assert_eq!((refs.refs[0].oid, refs.refs[0].seq), (oid('b'), Seq::new(2)));
    assert_eq!(answer.head().seq, Seq::new(3));
}

#[tokio::test]
async fn nothing_new_is_304_and_chat_does_not_change_that() {
    let room = Room::new().await;
    room.push(Push::new().branch("main", None, Some(oid('a'))))
        .await
        .expect(201)
        .head();
    let path = paths::pushes(&room.room.room, Seq::new(1));
    let get = async |known: &str| {
        room.alice
            .send(
                "GET",
                &path,
                |request| request.header("if-none-match", known.to_owned()),
                "",
            )
            .await
    };
    for known in ["\"1\"", "W/\"1\"", "\"0\", \"1\""] {
        let answer = get(known).await.expect(304);
        assert_eq!(
            (answer.body.len(), answer.header("etag"), answer.head().seq),
            (0, "\"1\"", Seq::new(1))
        );
    }
    room.alice
        .post(&paths::messages(&room.room.room), &text_message("chat"))
        .await
        .expect(201)
        .head();
    assert_eq!(
        get("\"1\"").await.expect(304).head().seq,
        Seq::new(2),
        "the head is told with a 304 too"
    );
    room.push(Push::new().branch("main", Some(oid('a')), Some(oid('b'))))
        .await
        .expect(201)
        .head();
    assert_eq!(get("\"1\"").await.expect(200).seqs(), [3]);
    assert_eq!(get("\"11\"").await.status, 200);
}

#[tokio::test]
async fn many_pushes_come_in_several_answers() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.pushes_bytes = 3000;
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = Room {
        room: alice.create_room("Pushed").await,
        hub,
        alice,
    };
    for number in 0..20 {
        let push = Push::new().branch(&format!("b{number}"), None, Some(oid('a')));
        room.push(push).await.expect(201).head();
        let chat = text_message("chat");
        let messages = paths::messages(&room.room.room);
        room.alice.post(&messages, &chat).await.expect(201).head();
    }
    let ask = async |since: Seq, known: &str| {
        let path = paths::pushes(&room.room.room, since);
        let known = |request: hyper::http::request::Builder| request.header("if-none-match", known.to_owned());
        room.alice.send("GET", &path, known, "").await
    };
    let (mut since, mut seqs, mut answers) = (Seq::ZERO, Vec::new(), 0);
    loop {
        // The tag of what is had already is no reason to say that there is no more.
        let answer = ask(since, &format!("\"{since}\"")).await.expect(200);
        let pushes: Pushes = answer.json();
        assert_eq!((pushes.version, pushes.head.seq), (Seq::new(39), Seq::new(40)));
        let last = Seq::new(*answer.seqs().last().unwrap());
        assert_eq!(answer.header("etag"), format!("\"{last}\""));
        seqs.extend(answer.seqs());
        answers += 1;
        let Some(next) = pushes.next else {
            assert_eq!(last, pushes.version);
            break;
        };
        assert!(next == last && next > since, "{next} after {since}");
        assert!(
            answer.body.len() > 3000 && answer.body.len() < 6000,
            "{}",
            answer.body.len()
        );
        since = next;
    }
    assert!(answers > 4, "{answers}");
    assert_eq!(seqs, (0..20).map(|number| 2 * number + 1).collect::<Vec<u64>>());
    // A part is never what the whole is the tag of.
    assert_eq!(ask(Seq::ZERO, "\"39\"").await.status, 200);
    ask(Seq::new(39), "\"39\"").await.expect(304).head();
}

#[tokio::test]
async fn a_lost_race_names_every_ref_that_moved_and_moves_none() {
    let room = Room::new().await;
    let first = Push::new()
        .branch("a", None, Some(oid('1')))
        .branch("b", None, Some(oid('2')));
    room.push(first).await.expect(201).head();
    let before = room.refs().await;
    let late = Push::new()
        .branch("a", Some(oid('9')), Some(oid('3')))
        .branch("b", None, Some(oid('3')))
        .branch("c", Some(oid('7')), None)
        .branch("d", None, Some(oid('4')));
    let answer = room.push(late).await;
    let problem = answer.problem(ErrorCode::RefMoved);
    let mut conflicts: Vec<Value> = answer.json::<Value>()["conflicts"].as_array().unwrap().clone();
    conflicts.sort_by_key(|conflict| conflict["name"].to_string());
    assert_eq!(problem.conflicts.len(), 3);
    assert_eq!(
        conflicts,
        [
            json!({ "name": "refs/heads/a", "expected": oid('9'), "actual": oid('1') }),
            json!({ "name": "refs/heads/b", "expected": null, "actual": oid('2') }),
            json!({ "name": "refs/heads/c", "expected": oid('7'), "actual": null }),
        ]
    );
    assert_eq!(
        answer.head().seq,
        Seq::new(1),
        "a member is told the head with an error too"
    );
    assert_eq!(room.refs().await, before);
}

#[tokio::test]
async fn of_two_who_push_at_once_one_wins() {
    let room = Room::new().await;
    let bob = room.hub.agent("bob").await;
    room.alice.invite(&room.room.room, &bob).await;
    let mut old = None;
    for round in 0..50_u32 {
        let news = [
            char::from_digit(round % 9 + 1, 16).unwrap(),
            char::from_digit(round % 5 + 10, 16).unwrap(),
        ];
        let [one, two] = news.map(oid);
        let mine = Push::new().branch("main", old, Some(one)).sign(&room.alice, &room.room);
        let theirs = Push::new().branch("main", old, Some(two)).sign(&bob, &room.room);
        let path = paths::messages(&room.room.room);
        let (mine, theirs) = tokio::join!(
            room.alice.post_bytes(&path, mine.body),
            bob.post_bytes(&path, theirs.body)
        );
        let mut statuses = [mine.status, theirs.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409], "round {round}");
        old = Some(if mine.status == 201 { one } else { two });
        assert_eq!(room.refs().await[0].1, old.unwrap().to_string());
    }
}

#[tokio::test]
async fn refs_that_no_clone_could_hold_are_refused() {
    let room = Room::new().await;
    room.push(Push::new().branch("a", None, Some(oid('1'))))
        .await
        .expect(201)
        .head();
    for (what, push) in [
        ("below a ref", Push::new().branch("a/b", None, Some(oid('2')))),
        (
            "both at once",
            Push::new()
                .branch("x", None, Some(oid('2')))
                .branch("x/y", None, Some(oid('2'))),
        ),
    ] {
        let answer = room.push(push).await;
        assert_eq!(answer.status, 409, "{what}");
        answer.problem(ErrorCode::RefDirectoryConflict);
    }
    // The final state counts.
    let moved = Push::new()
        .branch("a", Some(oid('1')), None)
        .branch("a/b", None, Some(oid('2')));
    room.push(moved).await.expect(201).head();
    let other = Push::new()
        .format(ObjectFormat::Sha256)
        .branch("z", None, Some("c".repeat(64).parse().unwrap()));
    room.push(other).await.problem(ErrorCode::ObjectFormatMismatch);
    room.push(Push::new().head("nowhere"))
        .await
        .problem(ErrorCode::BadRequest);
    assert_eq!(room.refs().await.len(), 1);
}

#[tokio::test]
async fn updates_that_mean_nothing_are_refused() {
    let room = Room::new().await;
    let null: parler_protocol::Oid = "0".repeat(40).parse().unwrap();
    let sha256: parler_protocol::Oid = "c".repeat(64).parse().unwrap();
    for (what, push) in [
        (
            "twice the same ref",
            Push::new()
                .branch("a", None, Some(oid('1')))
                .branch("a", None, Some(oid('2'))),
        ),
        ("neither old nor new", Push::new().branch("a", None, None)),
        ("a null new", Push::new().branch("a", None, Some(null))),
        ("a null old", Push::new().branch("a", Some(null), Some(oid('1')))),
        ("an oid of the other hash", Push::new().branch("a", None, Some(sha256))),
    ] {
        let answer = room.push(push).await;
        assert_eq!(answer.status, 400, "{what}");
        answer.problem(ErrorCode::BadRequest);
    }
    let signed = Push::new()
        .branch("a", None, Some(oid('1')))
        .sign(&room.alice, &room.room);
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut body: Value = serde_json::from_slice(&signed.body).unwrap();
        edit(&mut body);
        body
    };
    for (what, body) in [
        ("no updates", change(&|body| body["parts"][0]["updates"] = json!([]))),
        (
            "a pin",
            change(&|body| body["parts"][0]["updates"][0]["name"] = json!("refs/parler/aaaaaaaaaaaa")),
        ),
        (
            "HEAD",
            change(&|body| body["parts"][0]["updates"][0]["name"] = json!("HEAD")),
        ),
        (
            "an oid in upper case",
            change(&|body| body["parts"][0]["updates"][0]["new"] = json!("A".repeat(40))),
        ),
        (
            "two refs parts",
            change(&|body| {
                let part = body["parts"][0].clone();
                body["parts"].as_array_mut().unwrap().push(part);
            }),
        ),
    ] {
        let answer = room.alice.post(&paths::messages(&room.room.room), &body).await;
        assert_eq!(answer.status, 400, "{what}");
        answer.problem(ErrorCode::BadRequest);
    }
    assert!(room.refs().await.is_empty());
}

#[tokio::test]
async fn a_push_is_signed_by_its_author_for_this_place() {
    let room = Room::new().await;
    let mallory = room.hub.agent("mallory").await;
    room.alice.invite(&room.room.room, &mallory).await;
    let push = || Push::new().branch("main", None, Some(oid('a')));
    let good = push().sign(&room.alice, &room.room);
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut body: Value = serde_json::from_slice(&good.body).unwrap();
        edit(&mut body);
        body.to_string()
    };
    let other_room = RoomAnswer {
        room: "pushed".parse().unwrap(),
        ..room.room.clone()
    };
    let future = Head {
        seq: Seq::new(1),
        ..room.room.head
    };
    let path = paths::messages(&room.room.room);
    for (what, body) in [
        (
            "no signature",
            change(&|body| drop(body["parts"].as_array_mut().unwrap().pop())),
        ),
        (
            "no seen part",
            change(&|body| drop(body["parts"].as_array_mut().unwrap().remove(1))),
        ),
        (
            "another oid",
            change(&|body| body["parts"][0]["updates"][0]["new"] = json!(oid('b'))),
        ),
        (
            "another message id",
            change(&|body| body["id"] = json!(parler_protocol::MessageId::generate())),
        ),
        ("mentions added", change(&|body| body["mentions"] = json!(["bob"]))),
        (
            "the room spelled otherwise",
            String::from_utf8(push().sign(&room.alice, &other_room).body).unwrap(),
        ),
        (
            "a head of the future",
            String::from_utf8(push().sign_at(&room.alice, &room.room, &future).body).unwrap(),
        ),
        (
            "another author's key",
            String::from_utf8(push().sign(&mallory, &room.room).body).unwrap(),
        ),
    ] {
        let answer = room.alice.post_bytes(&path, body).await;
        assert_eq!(answer.status, 400, "{what}");
        answer.problem(ErrorCode::BadSignature);
    }
    mallory
        .post_bytes(&path, good.body.clone())
        .await
        .problem(ErrorCode::BadSignature);
    assert!(room.refs().await.is_empty());
    room.post(&good).await.expect(201).head();
}

#[tokio::test]
async fn code_refs_and_instruction_travel_in_one_message() {
    let room = Room::new().await;
    let bundle = b"# v2 git bundle\n(a small one)";
    let push = Push::new()
        .branch("feature", None, Some(oid('f')))
        .bundle(bundle)
        .part(HandoffPart {
            next: "review".into(),
            summary: None,
            to: Some("bob".into()),
            bundle: Some(parler_protocol::BundleId::of(bundle)),
            ..HandoffPart::default()
        })
        .part(TextPart {
            text: "here it is".into(),
        });
    let signed = push.sign(&room.alice, &room.room);
    let answer = room
        .alice
        .post_with_blob(&room.room.room, &signed.body, bundle)
        .await
        .expect(201);
    assert_eq!(answer.head().seq, Seq::new(1));
    // A lost answer: the same again, and again with the bundle packed otherwise.
    room.alice
        .post_with_blob(&room.room.room, &signed.body, bundle)
        .await
        .expect(200)
        .head();
    let page = room
        .alice
        .get(&paths::pushes(&room.room.room, Seq::ZERO))
        .await
        .expect(200);
    let message = parler_protocol::Message::parse(&page.messages()[0]).unwrap();
    assert!(parler_protocol::verify(&message, &room.hub.id).is_valid());
    assert_eq!(message.parts.len(), 6);
}
