//! Many streams of one room: the log is read once for all of them, and each gets what it would get alone.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parler_protocol::{ErrorCode, Head, MessageId, RoomName, paths};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

use crate::membership::{end, room_of_three};
use crate::metrics::{measure, measured_hub};
use crate::streams::{Event, Stream};
use crate::support::{Agent, TestHub, text_message, until};

/// Streams that each agent has.
const STREAMS: usize = 8;

async fn say(agent: &Agent, room: &RoomName, text: &str) -> Head {
    let answer = agent.post(&paths::messages(room), &text_message(text)).await;
    answer.expect(201).head()
}

/// Streams of these agents that begin behind this message.
async fn watch(agents: &[&Agent], room: &RoomName, after: u64) -> Vec<Stream> {
    let path = format!("{}?after={after}", paths::stream(room));
    let path = &path;
    let streams = agents
        .iter()
        .flat_map(|agent| (0..STREAMS).map(move |_| Stream::begin(agent, path, None)));
    join_all(streams).await
}

/// Reads the next event of each: the message of this number.
async fn all_get(streams: &mut [Stream], seq: u64) {
    for event in join_all(streams.iter_mut().map(Stream::event)).await {
        assert_eq!((event.name.as_str(), event.id), ("message", seq.to_string()));
    }
}

#[tokio::test]
async fn a_message_is_read_once_for_all_who_watch_and_once_for_one() {
    let directory = tempfile::TempDir::new().unwrap();
    let (hub, metrics) = measured_hub(directory.path());
    let [alice, bob] = [hub.agent("alice").await, hub.agent("bob").await];
    let room = alice.create_room("r").await.room;
    alice.invite(&room, &bob).await;
    // One that is no member, and may read.
    let made = json!({ "name": "reader", "rooms": [room], "can": ["read"], "ttlSecs": 3600 });
    let made: Value = alice.post(paths::TOKENS, &made).await.expect(201).json();
    let mut reader = Agent::new(alice.address, alice.hub, "reader");
    reader.token = made["token"].as_str().unwrap().to_owned();

    let reads = async || measure(metrics).await["parler_hub_stream_reads_total"] as u64;
    let mut streams = watch(&[&alice, &bob, &reader], &room, 0).await;
    assert_eq!(reads().await, streams.len() as u64, "each when it began");
    for seq in 1..=20 {
        let before = reads().await;
        say(&alice, &room, "x").await;
        all_get(&mut streams, seq).await;
        assert_eq!(reads().await - before, 1, "message {seq}");
    }
    let mut one = streams.split_off(streams.len() - 1);
    drop(streams);
    // They end in the hub's own time.
    until("one is left", async || {
        measure(metrics).await["parler_hub_streams"] as u64 == 1
    })
    .await;
    for seq in 21..=25 {
        let before = reads().await;
        say(&alice, &room, "x").await;
        all_get(&mut one, seq).await;
        assert_eq!(reads().await - before, 1, "message {seq}");
    }
    drop(one);
    assert!(hub.end(Signal::TERM).0);
}

/// Messages that are stored together are read together, and not looked for again as each is told.
#[tokio::test]
async fn a_burst_is_read_no_more_often_than_it_has_messages() {
    const ROUNDS: u64 = 20;
    const BURST: u64 = 8;
    let directory = tempfile::TempDir::new().unwrap();
    let (hub, metrics) = measured_hub(directory.path());
    let [alice, bob, carol] = [
        hub.agent("alice").await,
        hub.agent("bob").await,
        hub.agent("carol").await,
    ];
    let room = alice.create_room("r").await.room;
    for other in [&bob, &carol] {
        alice.invite(&room, other).await;
    }
    let mut streams = watch(&[&alice, &bob, &carol], &room, 0).await;
    let reads = async || measure(metrics).await["parler_hub_stream_reads_total"] as u64;
    let before = reads().await;
    for round in 0..ROUNDS {
        let said = join_all((0..BURST).map(|_| say(&alice, &room, "x")));
        let got = async {
            for seq in 1..=BURST {
                all_get(&mut streams, round * BURST + seq).await;
            }
        };
        tokio::join!(said, got);
    }
    let reads = reads().await - before;
    assert!(reads <= ROUNDS * BURST, "{reads} reads");
}

#[tokio::test]
async fn a_member_that_was_removed_gets_nothing_that_came_later() {
    const ROUNDS: u64 = 25;
    const NOISE: u64 = 6;
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let mut streams = watch(&[&alice, &carol], &room, 0).await;
    let mut seq = 0;
    for round in 0..ROUNDS {
        let mut removed = watch(&[&bob], &room, seq).await;
        seq += 1;
        assert_eq!(say(&bob, &room, "before").await.seq.get(), seq);
        all_get(&mut streams, seq).await;
        all_get(&mut removed, seq).await;

        let noise = join_all((0..NOISE).map(|_| say(&alice, &room, "meanwhile")));
        let removal = async {
            let answer = end(&alice, &room, bob.id()).await;
            assert_eq!(answer.status, 204);
            say(&carol, &room, "secret").await
        };
        let (_, secret) = tokio::join!(noise, removal);
        for stream in &mut removed {
            while let Some(event) = stream.next().await {
                let is_later = event.id.parse().is_ok_and(|seq: u64| seq >= secret.seq.get());
                assert!(!is_later && !event.data.contains("secret"), "round {round}: {event:?}");
            }
        }
        for _ in 0..=NOISE {
            seq += 1;
            all_get(&mut streams, seq).await;
        }
        bob.get(&paths::stream(&room)).await.problem(ErrorCode::NotFound);
        hub.pass(Duration::from_millis(1));
        alice.invite(&room, &bob).await;
    }
}

/// Whoever is no member any more is found out by the read itself, also where nobody said so.
#[tokio::test]
async fn what_is_read_for_all_is_for_members_alone() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let mut streams = watch(&[&alice, &carol], &room, 0).await;
    let mut gone = watch(&[&bob], &room, 0).await;
    say(&alice, &room, "before").await;
    all_get(&mut streams, 1).await;
    all_get(&mut gone, 1).await;
    let database = rusqlite::Connection::open(hub.directory.path().join("hub").join("hub.db")).unwrap();
    let delete = "DELETE FROM members WHERE agent = (SELECT agent FROM agents WHERE id = ?1)";
    assert_eq!(database.execute(delete, [bob.id().as_bytes()]).unwrap(), 1);
    say(&alice, &room, "secret").await;
    for stream in &mut gone {
        while let Some(event) = stream.next().await {
            assert!(event.data.is_empty(), "{event:?}");
        }
    }
    all_get(&mut streams, 2).await;
}

/// A message that a stream says nothing of but its number has a carriage return.
fn assert_same(event: &Event, seq: u64, stored: &[u8]) {
    assert_eq!(event.id, seq.to_string());
    match event.name.as_str() {
        "message" => assert!(event.data.as_bytes() == stored, "message {seq} has other bytes"),
        "reread" => {
            assert!(stored.contains(&b'\r'), "message {seq}");
            assert_eq!(event.json(), json!({ "seq": seq }));
        }
        other => panic!("message {seq}: {other}"),
    }
}

#[tokio::test]
async fn wherever_a_watcher_stands_it_gets_every_message_once_in_order() {
    const ALL: u64 = 120;
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let agents = [alice, bob, carol].map(Arc::new);
    // These read nothing until all is said, which is more than what is on the way can hold.
    let mut slow = Vec::new();
    for agent in &agents {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(agent.address).await.unwrap();
        slow.push((
            0,
            Stream::over(stream, agent, &format!("{}?after=0", paths::stream(&room)), None).await,
        ));
    }
    let large = "x".repeat(200_000);
    let mut said = 0;
    let mut watching = tokio::task::JoinSet::new();
    let read = |after: u64, mut stream: Stream| async move {
        let mut events = Vec::new();
        while (events.len() as u64) < ALL - after {
            events.push(stream.event().await);
        }
        (after, events)
    };
    while said < ALL {
        if said % 10 == 0 {
            for (agent, after) in agents.iter().zip([0, said / 2, said]) {
                let path = format!("{}?after={after}", paths::stream(&room));
                watching.spawn(read(after, Stream::begin(agent, &path, None).await));
            }
        }
        // Two at once.
        let two = agents[..2].iter().enumerate().map(|(sender, agent)| {
            let text = match (said + sender as u64) % 7 {
                0 => "{\"kind\":\"text\",\r\"text\":\"a\"}".to_owned(),
                1 => "{\"kind\": \"text\",\n\n\"text\": \"é\"}".to_owned(),
                2 | 3 => format!("{{\"kind\":\"text\",\"text\":\"{large}\"}}"),
                _ => "{\"kind\":\"text\",\"text\":\"b\"}".to_owned(),
            };
            let body = format!("{{\"id\":\"{}\",\"parts\":[{text}]}}", MessageId::generate());
            async { agent.post_bytes(&paths::messages(&room), body).await.expect(201).head() }
        });
        said += join_all(two).await.len() as u64;
    }
    for (after, stream) in slow {
        watching.spawn(read(after, stream));
    }
    let mut stored = Vec::new();
    while (stored.len() as u64) < ALL {
        let page = format!("{}?after={}", paths::messages(&room), stored.len());
        stored.extend(agents[0].get(&page).await.expect(200).messages());
    }
    while let Some(watched) = watching.join_next().await {
        let (after, events) = watched.unwrap();
        for (seq, event) in (after + 1..).zip(&events) {
            assert_same(event, seq, &stored[seq as usize - 1]);
        }
    }
}
