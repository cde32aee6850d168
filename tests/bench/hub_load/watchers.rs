//! Streams of a room that are held open, and how soon they tell of a message that was acknowledged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{World, look_for};
use parler_protocol::{MessageId, RoomName, paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Extent;
use crate::audit::{acknowledged, audit};
use crate::report::{Report, Times};
use crate::seats::{Seat, seats};
use crate::server::Server;

/// Streams that one agent may have.
const STREAMS: usize = 64;
/// Messages that are told.
const TOLD: usize = 100;
/// Between two of them.
const REST: Duration = Duration::from_millis(50);

/// What the watchers saw: how many streams are open, and when each message came where.
#[derive(Default)]
struct Seen {
    open: AtomicUsize,
    /// The message's number, and when.
    came: Mutex<Vec<(u64, Instant)>>,
}

pub(crate) fn run(world: &World, extent: Extent, report: &mut Report) {
    for (watchers, rooms, target) in [
        (1000, 1, "<= 12 us a delivery, sender's p99 < 10 ms"),
        (10_000, 10_000, "wake p99 <= 2 ms after the acknowledgement, <= 150 MiB"),
    ] {
        let watchers = extent.count(watchers);
        one(world, watchers, extent.count(rooms).clamp(1, rooms), target, report);
    }
}

fn one(world: &World, watchers: usize, rooms: usize, target: &str, report: &mut Report) {
    let server = Server::start(world, &format!("watchers-{rooms}"));
    let seats = seats(&server.hub, watchers.div_ceil(STREAMS));
    // A room each, or all of them one: whoever watches a room of its own makes it.
    let watched: Vec<(usize, RoomName)> = if rooms == 1 {
        let room = seats[0].make_rooms("watched", 1).remove(0);
        seats[0].let_in(&room, &seats[1..]);
        (0..watchers).map(|number| (number / STREAMS, room.clone())).collect()
    } else {
        let rooms = seats.iter().enumerate().flat_map(|(number, seat)| {
            let count = STREAMS.min(watchers - number * STREAMS);
            let rooms = seat.make_rooms(&format!("watched{number}-"), count);
            rooms.into_iter().map(move |room| (number, room))
        });
        rooms.collect()
    };
    let idle = server.memory_mib();
    let seen = Arc::new(Seen::default());
    let streams = watch(&server, &seats, &watched, &seen);
    look_for(
        || (seen.open.load(Ordering::SeqCst) == watchers).then_some(()),
        || format!("{} of {watchers} streams are open", seen.open.load(Ordering::SeqCst)),
    );
    let held = server.memory_mib();
    let before = server.processor_us();
    let answers = tell(&seats, &watched, rooms, &seen, if rooms == 1 { watchers } else { 1 });
    let deliveries = seen.came.lock().unwrap().len();
    let spent = server.processor_us() - before;
    let mut answered = Times(answers.iter().map(|answer| answer.took).collect());
    let came = seen.came.lock().unwrap();
    let after = came.iter().map(|(number, when)| {
        let answer = answers.iter().find(|answer| answer.number == *number).unwrap();
        when.saturating_duration_since(answer.at)
    });
    let mut after = Times(after.collect());
    report.row(
        format!("{watchers} watchers, {rooms} rooms"),
        target,
        format!(
            "wake after the acknowledgement {}; sender {}; {:.1} us a delivery; {held:.0} MiB held ({idle:.0} before them)",
            after.shown(),
            answered.shown(),
            spent / deliveries as f64
        ),
    );
    drop(streams);
}

/// The streams, as long as this is kept.
struct Streams(#[allow(dead_code, reason = "its tasks end when it is dropped")] tokio::runtime::Runtime);

fn watch(server: &Server, seats: &[Seat], watched: &[(usize, RoomName)], seen: &Arc<Seen>) -> Streams {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    for (seat, room) in watched {
        let head = format!(
            "GET {}?after=0 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
            paths::stream(room),
            server.hub.authority(),
            seats[*seat].token
        );
        let (address, seen) = (server.hub.authority().to_owned(), Arc::clone(seen));
        runtime.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut text = Vec::new();
            let mut piece = [0; 8192];
            let mut is_open = false;
            loop {
                let read = stream.read(&mut piece).await.unwrap();
                assert_ne!(read, 0, "a stream ends: {}", String::from_utf8_lossy(&text));
                text.extend_from_slice(&piece[..read]);
                if !is_open && text.windows(12).any(|window| window == b"retry: 1000\n") {
                    is_open = true;
                    seen.open.fetch_add(1, Ordering::SeqCst);
                }
                // Told apart by the number of the message that is its text.
                while let Some(number) = take_mark(&mut text) {
                    seen.came.lock().unwrap().push((number, Instant::now()));
                }
            }
        });
    }
    Streams(runtime)
}

/// The number between `told-` and `-`, and what came up to there forgotten.
fn take_mark(text: &mut Vec<u8>) -> Option<u64> {
    let begin = text.windows(5).position(|window| window == b"told-")? + 5;
    let length = text[begin..].iter().position(|byte| *byte == b'-')?;
    let number = std::str::from_utf8(&text[begin..begin + length])
        .unwrap()
        .parse()
        .unwrap();
    text.drain(..begin + length);
    Some(number)
}

struct Told {
    number: u64,
    took: Duration,
    at: Instant,
}

/// Appends one after the other, each when everybody has the one before it.
fn tell(seats: &[Seat], watched: &[(usize, RoomName)], rooms: usize, seen: &Seen, deliveries: usize) -> Vec<Told> {
    let mut answers = Vec::new();
    let mut sent: Vec<(usize, RoomName, Vec<_>)> = Vec::new();
    for number in 0..TOLD {
        let (seat, room) = &watched[number * 97 % watched.len()];
        let mut connection = seats[*seat].connect();
        let id = MessageId::generate();
        let parts = format!(r#"[{{"kind":"text","text":"told-{number}-"}}]"#);
        let (first, begun) = (format!("POST {}", paths::messages(room)), Instant::now());
        let answer = connection.post(&first, id, &parts);
        answers.push(Told {
            number: number as u64,
            took: begun.elapsed(),
            at: Instant::now(),
        });
        let message = acknowledged(&answer.expect(201), id, &mut 0, parts);
        match sent.iter_mut().find(|(_, known, _)| known == room) {
            Some((_, _, messages)) => messages.push(message),
            None => sent.push((*seat, room.clone(), vec![message])),
        }
        let expected = (number + 1) * deliveries;
        look_for(
            || (seen.came.lock().unwrap().len() >= expected).then_some(()),
            || {
                format!(
                    "message {number} came {} of {expected} times",
                    seen.came.lock().unwrap().len()
                )
            },
        );
        thread::sleep(REST);
    }
    let came = seen.came.lock().unwrap().len();
    assert_eq!(came, TOLD * deliveries, "{rooms} rooms: something came twice");
    for (seat, room, messages) in &sent {
        audit(&mut seats[*seat].connect(), room, messages);
    }
    answers
}
