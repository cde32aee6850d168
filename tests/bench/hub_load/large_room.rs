//! A room that has grown for years: what is asked of it costs what it costs in a room of a day.

use std::thread;
use std::time::{Duration, Instant};

use parler_harness::World;
use parler_protocol::{MessageId, RoomName, Seq, paths};

use crate::Extent;
use crate::connection::Connection;
use crate::pushes::Push;
use crate::report::{Report, Times};
use crate::seats::{Seat, seats};
use crate::server::Server;

const MESSAGES: usize = 1_000_000;
const BUNDLES: usize = 10_000;
/// Of each bundle.
const BUNDLE_BYTES: usize = 1 << 10; // 1 KiB
const CLIENTS: usize = 256;
/// Messages of a room of a day.
const FEW: usize = 1000;
/// Answers of each kind.
const ASKED: usize = 500;

pub(crate) fn run(world: &World, extent: Extent, report: &mut Report) {
    let server = Server::start(world, "large-room");
    let seats = seats(&server.hub, CLIENTS);
    let rooms = seats[0].make_rooms("of-some-age-", 2);
    rooms.iter().for_each(|room| seats[0].let_in(room, &seats[1..]));
    let begun = Instant::now();
    // As many branches as the other has.
    fill(&seats, &rooms[0], FEW, CLIENTS);
    fill(&seats, &rooms[1], extent.count(MESSAGES), extent.count(BUNDLES));
    report.row(
        format!("{} messages, {} bundles", extent.count(MESSAGES), extent.count(BUNDLES)),
        "",
        format!("written in {:.0} s", begun.elapsed().as_secs_f64()),
    );
    // Who reads has acknowledged nothing: what is unread is all of it.
    let small = ask(&seats[0], &rooms[0], FEW);
    let large = ask(&seats[0], &rooms[1], extent.count(MESSAGES));
    for ((what, mut small), (_, mut large)) in small.into_iter().zip(large) {
        report.row(
            format!("{what}: small room / large room"),
            "flat",
            format!("{} / {}", small.shown(), large.shown()),
        );
    }
}

/// Texts by everybody, and a bundle of each client now and then.
fn fill(seats: &[Seat], room: &RoomName, messages: usize, bundles: usize) {
    let path = format!("POST {}", paths::messages(room));
    let path = path.as_str();
    let clients = seats.len();
    let share = |all: usize, number: usize| all / clients + usize::from(number < all % clients);
    thread::scope(|scope| {
        for (number, seat) in seats.iter().enumerate() {
            let (signer, mut connection) = (seat.signer(room), seat.connect());
            scope.spawn(move || {
                let mut last = 0;
                for bundle in 0..share(bundles, number) {
                    Push::new(&signer, number, bundle, BUNDLE_BYTES).send(&mut connection, path, &mut last);
                }
                for _ in share(bundles, number)..share(messages, number) {
                    append(&mut connection, path);
                }
            });
        }
    });
}

fn append(connection: &mut Connection, path: &str) {
    let parts = format!(r#"[{{"kind":"text","text":"{}"}}]"#, "x".repeat(200));
    connection.post(path, MessageId::generate(), &parts).expect(201);
}

/// The times of each kind of question.
fn ask(seat: &Seat, room: &RoomName, head: usize) -> Vec<(&'static str, Times)> {
    let mut connection = seat.connect();
    let post = format!("POST {}", paths::messages(room));
    let tail = format!("{}?after={}&limit=100", paths::messages(room), head - 100);
    let refs = paths::refs(room);
    let pushes = paths::pushes(room, Seq::default());
    vec![
        ("append", times(ASKED, || append(&mut connection, &post))),
        (
            "the last 100 messages",
            times(ASKED, || drop(connection.get(&tail).expect(200))),
        ),
        ("refs", times(ASKED, || drop(connection.get(&refs).expect(200)))),
        (
            "rooms with what is unread",
            times(ASKED, || drop(connection.get(paths::ROOMS).expect(200))),
        ),
        (
            "pushes, the first part",
            times(ASKED / 25, || drop(connection.get(&pushes).expect(200))),
        ),
    ]
}

fn times(count: usize, mut ask: impl FnMut()) -> Times {
    let one = |_| -> Duration {
        let begun = Instant::now();
        ask();
        begun.elapsed()
    };
    Times((0..count).map(one).collect())
}
