//! Large bundles that come at once: the hub holds a piece of each.

use std::thread;
use std::time::Instant;

use parler_harness::World;
use parler_protocol::{BundleId, paths};

use crate::Extent;
use crate::audit::audit;
use crate::pushes::{Push, bundle};
use crate::report::Report;
use crate::seats::seats;
use crate::server::Server;

const CLIENTS: usize = 64;
const BUNDLE_BYTES: usize = 16 << 20; // 16 MiB

pub(crate) fn run(world: &World, extent: Extent, report: &mut Report) {
    let server = Server::start(world, "uploads");
    let clients = extent.count(CLIENTS);
    let seats = seats(&server.hub, clients);
    let room = seats[0].make_rooms("uploaded", 1).remove(0);
    seats[0].let_in(&room, &seats[1..]);
    let first = &format!("POST {}", paths::messages(&room));
    let idle = server.memory_mib();
    let begun = Instant::now();
    let sent: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = seats
            .iter()
            .enumerate()
            .map(|(number, seat)| {
                let (signer, mut connection) = (seat.signer(&room), seat.connect());
                scope.spawn(move || {
                    let push = Push::new(&signer, number, 0, BUNDLE_BYTES);
                    push.send(&mut connection, first, &mut 0)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let took = begun.elapsed().as_secs_f64();
    report.row(
        format!("{clients} uploads of 16 MiB at once"),
        "<= 160 MiB held",
        format!(
            "{:.0} MiB held at most ({idle:.0} before), {:.0} MB/s",
            server.peak_mib(),
            (clients * BUNDLE_BYTES) as f64 / 1e6 / took
        ),
    );
    let mut reader = seats[0].connect();
    audit(&mut reader, &room, &sent);
    for number in 0..clients {
        let bundle = bundle(number, 0, BUNDLE_BYTES);
        let answer = reader.get(&paths::blob(&room, &BundleId::of(&bundle))).expect(200);
        assert!(answer == bundle, "the bundle of {number} has other bytes");
    }
}
