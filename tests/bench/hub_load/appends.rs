//! Durable appends of small messages, and the catch-up of a reader who has none of them.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{CallKind, SystemCalls, World, read_trace};
use parler_protocol::{MessageId, RoomName, paths};

use crate::Extent;
use crate::audit::{Acknowledged, acknowledged, audit};
use crate::connection::Connection;
use crate::report::{Report, Times};
use crate::seats::{Seat, seats};
use crate::server::Server;

const ROUND: Duration = Duration::from_secs(10);
/// Of each message's text.
const TEXT_BYTES: usize = 300;
const CLIENTS: usize = 64;
const ROOMS: usize = 1000;

/// Messages by the number of their room.
type Sent = BTreeMap<usize, Vec<Acknowledged>>;

/// What a load was answered.
struct Load {
    sent: Sent,
    times: Times,
    took: Duration,
}

impl Load {
    fn count(&self) -> usize {
        self.sent.values().map(Vec::len).sum()
    }

    fn rate(&self) -> f64 {
        self.count() as f64 / self.took.as_secs_f64()
    }
}

pub(crate) fn run(world: &World, extent: Extent, report: &mut Report) {
    let server = Server::start(world, "appends");
    let seats = seats(&server.hub, CLIENTS);
    for (prefix, clients, rooms, target) in [
        ("alone", 1, 1, ">= 2,500/s, p99 <= 1 ms"),
        ("crowd", CLIENTS, 1, ">= 30,000/s, p99 <= 10 ms, <= 35 us"),
        ("spread", CLIENTS, ROOMS, ">= 20,000/s, p99 <= 10 ms, <= 35 us"),
    ] {
        let names = seats[0].make_rooms(prefix, rooms);
        // A room each is as good for who is alone.
        let members = if rooms == 1 { &seats[1..clients] } else { &[] };
        names.iter().for_each(|room| seats[0].let_in(room, members));
        let authors: Vec<&Seat> = match rooms {
            1 => seats[..clients].iter().collect(),
            _ => vec![&seats[0]; clients],
        };
        let (before, commits) = (server.processor_us(), server.commits());
        let mut load = load(&authors, &names, extent.time(ROUND));
        let (spent, commits) = (server.processor_us() - before, server.commits() - commits);
        let messages = load.count();
        report.row(
            format!("append, {clients} clients, {rooms} rooms"),
            target,
            format!(
                "{:.0}/s, {}, {:.0} us a message, {:.1} messages a commit",
                load.rate(),
                load.times.shown(),
                spent / messages as f64,
                messages as f64 / commits.max(1) as f64
            ),
        );
        let mut reader = seats[0].connect();
        for (room, sent) in &load.sent {
            audit(&mut reader, &names[*room], sent);
        }
        if prefix == "crowd" {
            catch_up(&server, &seats[0], &names[0], report);
        }
    }
    drop(server);
    syncs(world, extent, report);
}

/// Every client appends to one room after the other, and waits for each answer.
fn load(authors: &[&Seat], rooms: &[RoomName], time: Duration) -> Load {
    let begun = Instant::now();
    let loads: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> = authors
            .iter()
            .enumerate()
            .map(|(number, author)| {
                let connection = author.connect();
                scope.spawn(move || client(connection, rooms, number, begun + time))
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let took = begun.elapsed();
    let mut whole = Load {
        sent: Sent::new(),
        times: Times::default(),
        took,
    };
    for (sent, times) in loads {
        whole.times.0.extend(times);
        for (room, sent) in sent {
            whole.sent.entry(room).or_default().extend(sent);
        }
    }
    whole
}

fn client(mut connection: Connection, rooms: &[RoomName], number: usize, until: Instant) -> (Sent, Vec<Duration>) {
    let firsts: Vec<String> = rooms
        .iter()
        .map(|room| format!("POST {}", paths::messages(room)))
        .collect();
    let mut last = vec![0; rooms.len()];
    let (mut sent, mut times) = (Sent::new(), Vec::new());
    // A large step that shares no factor with the number of rooms: clients meet everywhere.
    let mut room = number * 7919 % rooms.len();
    while Instant::now() < until {
        room = (room + 31) % rooms.len();
        let id = MessageId::generate();
        let text = format!("{number} {} {}", times.len(), "x".repeat(TEXT_BYTES));
        let parts = format!(r#"[{{"kind":"text","text":"{text}"}}]"#);
        let asked = Instant::now();
        let answer = connection.post(&firsts[room], id, &parts);
        times.push(asked.elapsed());
        let message = acknowledged(&answer.expect(201), id, &mut last[room], parts);
        sent.entry(room).or_default().push(message);
    }
    (sent, times)
}

/// How fast a reader has it all.
fn catch_up(server: &Server, reader: &Seat, room: &RoomName, report: &mut Report) {
    let mut connection = reader.connect();
    let (mut after, mut bytes) = (0, 0);
    let (begun, spent) = (Instant::now(), server.processor_us());
    loop {
        let path = format!("{}?after={after}&limit=1000", paths::messages(room));
        let body = connection.get(&path).expect(200);
        bytes += body.len();
        let next = cursor(&body);
        if next == after {
            break;
        }
        after = next;
    }
    let took = begun.elapsed().as_secs_f64();
    report.row(
        "catch-up in pages of 1,000",
        ">= 200 MB/s",
        format!(
            "{:.0} MB/s, {:.1} us of the hub's a KB",
            bytes as f64 / 1e6 / took,
            (server.processor_us() - spent) / (bytes as f64 / 1e3)
        ),
    );
}

/// Where a page ends, without a look at its messages: they are checked elsewhere.
fn cursor(page: &[u8]) -> u64 {
    let tail = String::from_utf8_lossy(&page[page.len().saturating_sub(200)..]).into_owned();
    let number = tail.rsplit_once(r#""cursor":"#).unwrap().1;
    number.split(',').next().unwrap().parse().unwrap()
}

/// Counted by a library before the C library, which makes the hub slow: no rates here.
fn syncs(world: &World, extent: Extent, report: &mut Report) {
    let mut server = Server::not_started(world, "syncs");
    let trace = world.path().join("calls");
    for (name, value) in SystemCalls::watched_in(world).variables(&trace) {
        server.hub.add_variable(name, value);
    }
    server.hub.restart();
    let seats = seats(&server.hub, CLIENTS);
    let names = seats[0].make_rooms("counted", 1);
    seats[0].let_in(&names[0], &seats[1..]);
    let syncs = || {
        let calls = read_trace(&trace);
        calls.iter().filter(|call| call.kind == CallKind::Sync).count()
    };
    let (before, commits) = (syncs(), server.commits());
    let authors: Vec<&Seat> = seats.iter().collect();
    let load = load(&authors, &names, extent.time(ROUND));
    let (syncs, commits) = (syncs() - before, server.commits() - commits);
    report.row(
        "syncs a commit, 64 clients",
        "<= 1.1",
        format!(
            "{:.2} ({syncs} in {commits} commits of {} messages)",
            syncs as f64 / commits as f64,
            load.count()
        ),
    );
    audit(&mut seats[0].connect(), &names[0], &load.sent[&0]);
}
