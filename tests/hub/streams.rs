//! Streams: a room's log as it grows, and hints about all rooms.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use parler_client::Streamed;
use parler_harness::DEADLINE;
use parler_hub::LocalPolicy;
use parler_protocol::{ErrorCode, MessageId, RoomName, Seq, paths};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::{blocking, client};
use crate::fixtures::assert_shape;
use crate::support::{Agent, TestHub, in_time, text_message};

/// An event, as its lines say.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: String,
    retry: String,
    comments: usize,
}

impl Event {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap()
    }
}

/// An open stream. The connection ends with it.
pub(crate) struct Stream {
    status: u16,
    headers: hyper::HeaderMap,
    body: Incoming,
    text: String,
    _connection: tokio::task::JoinSet<()>,
}

impl Stream {
    async fn open(agent: &Agent, path: &str, last: Option<u64>) -> Self {
        let stream = TcpStream::connect(agent.address).await.unwrap();
        Self::over(stream, agent, path, last).await
    }

    /// One on this connection, let in or not.
    pub(crate) async fn over(stream: TcpStream, agent: &Agent, path: &str, last: Option<u64>) -> Self {
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        let mut task = tokio::task::JoinSet::new();
        task.spawn(async move {
            // Cut off by either side: what arrived is what counts.
            let _ = connection.await;
        });
        let mut request = Request::get(path)
            .header("host", agent.address.to_string())
            .header("authorization", format!("Bearer {}", agent.token));
        if let Some(last) = last {
            request = request.header(paths::LAST_EVENT_ID_HEADER, last.to_string());
        }
        let request = request.body(Full::new(Bytes::new())).unwrap();
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            text: String::new(),
            _connection: task,
        }
    }

    /// One that was let in, after its opening.
    pub(crate) async fn begin(agent: &Agent, path: &str, last: Option<u64>) -> Self {
        let mut stream = Self::open(agent, path, last).await;
        assert_eq!(stream.status, 200);
        assert_eq!(stream.headers["content-type"], paths::EVENT_STREAM_TYPE);
        assert_eq!(stream.next().await.expect("an opening").retry, "1000");
        stream
    }

    /// The next event or comment, or the end.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        in_time("an event", self.read()).await
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let mut read = Event::default();
                for line in event.lines() {
                    match line.split_once(": ").unwrap_or((line, "")) {
                        ("event", name) => read.name = name.to_owned(),
                        ("id", id) => read.id = id.to_owned(),
                        ("retry", time) => read.retry = time.to_owned(),
                        ("data", line) if read.data.is_empty() => read.data = line.to_owned(),
                        ("data", line) => read.data = format!("{}\n{line}", read.data),
                        _ if line.starts_with(':') => read.comments += 1,
                        _ => panic!("{line:?}"),
                    }
                }
                self.text = rest.to_owned();
                return Some(read);
            }
            let piece = self.body.frame().await?.unwrap().into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }

    /// The next event that says something.
    pub(crate) async fn event(&mut self) -> Event {
        let coming = async {
            loop {
                let event = self.read().await.expect("no end yet");
                if !event.name.is_empty() {
                    return event;
                }
            }
        };
        in_time("an event that says something", coming).await
    }

    /// Reads on to the end, and tells what came before.
    pub(crate) async fn end(mut self) -> Vec<Event> {
        let coming = async {
            let mut events = Vec::new();
            while let Some(event) = self.read().await {
                events.push(event);
            }
            events
        };
        in_time("the end of the stream", coming).await
    }
}

async fn say(agent: &Agent, room: &RoomName, text: &str) {
    agent
        .post(&paths::messages(room), &text_message(text))
        .await
        .expect(201)
        .head();
}

#[tokio::test]
async fn each_message_comes_once_in_order_however_often_a_stream_is_cut() {
    const EACH: u64 = 100;
    let hub = TestHub::start().await;
    let [alice, bob] = [hub.agent("alice").await, hub.agent("bob").await];
    let room = alice.create_room("r").await.room;
    alice.invite(&room, &bob).await;
    let (alice, bob) = (Arc::new(alice), Arc::new(bob));
    let mut senders = tokio::task::JoinSet::new();
    for sender in [&alice, &bob] {
        let (sender, room) = (Arc::clone(sender), room.clone());
        senders.spawn(async move {
            for number in 0..EACH {
                say(&sender, &room, &format!("{} {number}", sender.name)).await;
            }
        });
    }
    let mut got = Vec::new();
    let mut streams = 0;
    while got.len() < 2 * EACH as usize {
        // The first URL again, as a browser does it: the header counts.
        let last = (!got.is_empty()).then_some(got.len() as u64);
        let mut stream = Stream::begin(&bob, &format!("{}?after=0", paths::stream(&room)), last).await;
        streams += 1;
        for _ in 0..(7 * streams).min(2 * EACH as usize - got.len()) {
            let event = stream.event().await;
            assert_eq!(
                (event.name.as_str(), event.id),
                ("message", (got.len() + 1).to_string())
            );
            got.push(event.data.into_bytes());
        }
    }
    assert!(streams > 3);
    in_time("all is sent", senders.join_all()).await;
    let log = bob
        .get(&format!("{}?after=0&limit=1000", paths::messages(&room)))
        .await
        .expect(200);
    assert!(log.messages() == got);
}

#[tokio::test]
async fn a_stream_begins_at_my_cursor_and_tells_the_head() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("R").await.room;
    for text in ["one", "two", "three"] {
        say(&alice, &room, text).await;
    }
    alice
        .put(&paths::cursor(&room), &json!({ "cursor": 2 }))
        .await
        .expect(200)
        .head();
    let mut stream = Stream::begin(&alice, "/v1/rooms/r/stream", None).await;
    assert!(stream.headers[paths::HEAD_HEADER].to_str().unwrap().starts_with("3 "));
    assert_eq!(stream.event().await.json()["seq"], 3);
    say(&alice, &room, "four").await;
    assert_eq!(stream.event().await.json()["seq"], 4);
    let stranger = hub.agent("stranger").await;
    stranger.get(&paths::stream(&room)).await.problem(ErrorCode::NotFound);
    let wrong = |request: hyper::http::request::Builder| request.header(paths::LAST_EVENT_ID_HEADER, "x");
    alice
        .send("GET", &paths::stream(&room), wrong, "")
        .await
        .problem(ErrorCode::BadRequest);
}

#[tokio::test]
async fn bytes_arrive_as_they_were_stored() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let large = "x".repeat(300_000);
    let parts = [
        "[\n{\"kind\": \"text\",\n\n  \"text\": \"é\"}\n]",
        "[ {\"kind\":\r\n\"text\",\r\"text\": \"b\"}]",
        &format!("[{{\"kind\":\"text\",\"text\":\"{large}\"}}]"),
        "[{\"kind\":\"text\",\"text\":\"a\\nb\"}]",
    ];
    for parts in parts {
        let body = format!("{{\"id\":\"{}\",\"parts\":{parts}}}", MessageId::generate());
        alice.post_bytes(&paths::messages(&room), body).await.expect(201).head();
    }
    let stored = alice
        .get(&format!("{}?after=0", paths::messages(&room)))
        .await
        .expect(200)
        .messages();
    let mut stream = Stream::begin(&alice, &format!("{}?after=0", paths::stream(&room)), None).await;
    let mut names = Vec::new();
    for _ in parts {
        names.push(stream.event().await.name);
    }
    // A carriage return ends a line for every reader of events.
    assert_eq!(names, ["message", "reread", "message", "message"]);
    let streamed = blocking(move || {
        let client = client(&alice);
        let mut stream = client.stream(&room, Some(Seq::ZERO)).unwrap();
        assert_eq!(stream.head().seq, Seq::new(4));
        let mut streamed = Vec::new();
        let begun = Instant::now();
        while streamed.len() < 4 {
            assert!(begun.elapsed() < DEADLINE, "{} of them came", streamed.len());
            if let Streamed::Message { seq, raw } = stream.next().unwrap().expect("no end yet") {
                assert_eq!(seq, Seq::new(streamed.len() as u64 + 1));
                streamed.push(raw.get().as_bytes().to_vec());
            }
        }
        streamed
    })
    .await;
    assert!(streamed == stored);
}

#[tokio::test]
async fn a_hub_that_stops_ends_its_streams() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    say(&alice, &room, "one").await;
    let mut log = Stream::begin(&alice, &format!("{}?after=0", paths::stream(&room)), None).await;
    let mut hints = Stream::begin(&alice, paths::EVENTS, None).await;
    assert_eq!(log.event().await.name, "message");
    assert_eq!(hints.event().await.name, "heads");
    let stopped = hub.stop();
    for stream in [log, hints] {
        let rest = stream.end().await;
        let last = rest.last().expect("a word");
        assert_eq!((last.retry.as_str(), last.comments), ("1000", 1), "{rest:?}");
    }
    tokio::time::timeout(DEADLINE, stopped)
        .await
        .expect("no stream is waited for")
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn who_is_put_out_of_a_room_hears_no_more_of_it() {
    let hub = TestHub::start().await;
    let [alice, bob] = [hub.agent("alice").await, hub.agent("bob").await];
    let room = alice.create_room("r").await.room;
    alice.invite(&room, &bob).await;
    let log = Stream::begin(&bob, &paths::stream(&room), None).await;
    let mut hints = Stream::begin(&bob, paths::EVENTS, None).await;
    assert_eq!(hints.event().await.json()["rooms"][0]["room"], "r");
    // There is no call for it yet.
    let database = rusqlite::Connection::open(hub.directory.path().join("hub").join("hub.db")).unwrap();
    let gone = "DELETE FROM members WHERE agent = (SELECT agent FROM agents WHERE id = ?1)";
    assert_eq!(database.execute(gone, [bob.id().as_bytes()]).unwrap(), 1);
    say(&alice, &room, "secret").await;
    let rest = log.end().await;
    assert!(rest.iter().all(|event| event.data.is_empty()), "{rest:?}");
    // The other stream goes on, with what else there is.
    let own = bob.create_room("own").await.room;
    drop(hints);
    let mut hints = Stream::begin(&bob, paths::EVENTS, None).await;
    assert_eq!(hints.event().await.json()["rooms"].as_array().unwrap().len(), 1);
    say(&alice, &room, "secret").await;
    say(&bob, &own, "mine").await;
    assert_eq!(hints.event().await.json()["room"], "own");
}

#[tokio::test]
async fn a_quiet_stream_is_kept_alive_and_ends_in_its_time() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.heartbeat = Duration::from_millis(20);
        options.limits.stream_ttl = Duration::from_secs(1);
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    for path in [paths::stream(&room), paths::EVENTS.to_owned()] {
        let events = Stream::begin(&alice, &path, None).await.end().await;
        assert!(
            events.iter().filter(|event| event.comments == 1).count() >= 2,
            "{events:?}"
        );
        assert_eq!(events.last().unwrap().retry, "1000");
    }
}

#[tokio::test]
async fn an_agent_has_so_many_streams() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.max_streams = 2;
    })
    .await;
    let [alice, bob] = [hub.agent("alice").await, hub.agent("bob").await];
    let room = alice.create_room("r").await.room;
    let first = Stream::begin(&alice, &paths::stream(&room), None).await;
    let _second = Stream::begin(&alice, paths::EVENTS, None).await;
    let refused = alice.get(paths::EVENTS).await;
    refused.problem(ErrorCode::RateLimited);
    assert_eq!(refused.header("retry-after"), "5");
    drop(Stream::begin(&bob, paths::EVENTS, None).await);
    drop(first);
    // The hub hears of the closed connection in its own time.
    let again = async { while Stream::open(&alice, paths::EVENTS, None).await.status != 200 {} };
    tokio::time::timeout(DEADLINE, again)
        .await
        .expect("a place is free again");
}

#[tokio::test]
async fn hints_tell_of_every_room() {
    let hub = TestHub::with(|options| {
        options.open = true;
        // Nothing is found out by looking now and then.
        options.limits.heartbeat = Duration::from_secs(3600);
    })
    .await;
    let [alice, bob] = [hub.agent("alice").await, hub.agent("bob").await];
    let [one, two] = [alice.create_room("one").await.room, alice.create_room("Two").await.room];
    alice.invite(&one, &bob).await;
    say(&alice, &one, "before").await;
    let mut hints = Stream::begin(&bob, paths::EVENTS, None).await;
    let heads = hints.event().await;
    assert_eq!(heads.name, "heads");
    assert_shape("heads-event.json", &heads.json());
    let rooms = heads.json()["rooms"].as_array().unwrap().clone();
    assert_eq!(rooms.len(), 1);
    assert_eq!(
        (&rooms[0]["room"], &rooms[0]["unread"], &rooms[0]["head"]["seq"]),
        (&json!("one"), &json!(1), &json!(1))
    );
    assert_eq!(rooms[0].get("addressed"), None);

    say(&alice, &one, "to nobody").await;
    let hint = hints.event().await;
    assert_eq!(hint.name, "hint");
    let hint = hint.json();
    assert_shape("hint-event.json", &hint);
    assert_eq!(
        (&hint["unread"], &hint["head"]["seq"], &hint["addressed"]),
        (&json!(2), &json!(2), &json!(false))
    );

    let handoff = |to: &str| {
        let part = json!({ "kind": "com.parler.handoff", "next": "review", "to": to });
        json!({ "id": MessageId::generate(), "parts": [part] })
    };
    let mention =
        json!({ "id": MessageId::generate(), "parts": [{ "kind": "text", "text": "you" }], "mentions": ["bob"] });
    for (message, addressed) in [(handoff("Bob"), true), (handoff("carol"), false), (mention, true)] {
        alice.post(&paths::messages(&one), &message).await.expect(201).head();
        assert_eq!(hints.event().await.json()["addressed"], addressed, "{message}");
    }
    // What I say is not for me.
    bob.post(&paths::messages(&one), &handoff("bob"))
        .await
        .expect(201)
        .head();
    let own = hints.event().await.json();
    assert_eq!((&own["addressed"], &own["unread"]), (&json!(false), &json!(5)));

    say(&alice, &two, "elsewhere").await;
    alice.invite(&two, &bob).await;
    let hint = hints.event().await.json();
    assert_eq!((&hint["room"], &hint["unread"]), (&json!("Two"), &json!(1)));
    say(&alice, &two, "and there").await;
    let hint = hints.event().await.json();
    assert_eq!((&hint["room"], &hint["unread"]), (&json!("Two"), &json!(2)));
}

/// Whichever way an agent comes into a room, its open stream hears of it at once.
#[tokio::test]
async fn hints_tell_of_every_way_into_a_room() {
    const SECRET: &str = "the local hub's";
    let hub = TestHub::with(|options| {
        options.local = Some(LocalPolicy {
            secret: SECRET.to_owned(),
        });
        // Nothing is found out by looking now and then.
        options.limits.heartbeat = Duration::from_secs(3600);
    })
    .await;
    let local_agent = async |name: &str| {
        let mut agent = Agent::new(hub.address, hub.id, name);
        agent.secret = Some(SECRET.to_owned());
        agent.open_session().await;
        agent
    };
    let [alice, bob] = [local_agent("alice").await, local_agent("bob").await];
    let mut hints = Stream::begin(&bob, paths::EVENTS, None).await;
    assert_eq!(hints.event().await.json(), json!({ "rooms": [] }));

    bob.create_room("made").await;
    assert_eq!(hints.event().await.json()["room"], "made");
    bob.post(paths::INVITES, &json!({ "room": "for-others" }))
        .await
        .expect(201)
        .json::<Value>();
    assert_eq!(hints.event().await.json()["room"], "for-others");
    let room = alice.create_room("Used").await.room;
    say(&alice, &room, "before").await;
    bob.get("/v1/rooms/used/messages").await.expect(200).messages();
    let hint = hints.event().await.json();
    assert_eq!((&hint["room"], &hint["head"]["seq"]), (&json!("Used"), &json!(1)));
    let made = alice.post(paths::INVITES, &json!({ "room": "redeemed" })).await;
    let mut proof = bob.proof(Some(bob.challenge().await));
    proof.invite = Some(
        made.expect(201).json::<Value>()["code"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap(),
    );
    bob.post(paths::SESSION, &proof).await.expect(200).json::<Value>();
    assert_eq!(hints.event().await.json()["room"], "redeemed");
}
