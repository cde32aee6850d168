//! How soon a hub answers that was just started, and how still one is that nobody asks.

use std::thread::sleep;
use std::time::{Duration, Instant};

use parler_harness::World;

use crate::Extent;
use crate::report::{Report, Times};
use crate::seats::Seat;
use crate::server::Server;

const STARTS: usize = 20;
/// How long the idle hub is looked at.
const IDLE: Duration = Duration::from_secs(10);
/// Threads of a pool that have nothing to do end after 10 s.
const SETTLED: Duration = Duration::from_secs(12);

pub(crate) fn run(world: &World, extent: Extent, report: &mut Report) {
    let starts = extent.count(STARTS).max(2);
    let first: Vec<_> = (0..starts)
        .map(|number| first_answer(&mut Server::not_started(world, &format!("start-{number}"))))
        .collect();
    report.row(
        "first start ever, to its first answer",
        "<= 50 ms",
        Times(first).shown(),
    );
    let mut server = Server::not_started(world, "start-0");
    let again: Vec<_> = (0..starts)
        .map(|_| {
            let took = first_answer(&mut server);
            assert!(server.hub.terminate().success());
            took
        })
        .collect();
    report.row("start after a clean stop", "<= 15 ms", Times(again).shown());

    server.hub.restart();
    let seat = Seat::new(&server.hub, "idler");
    let _kept = seat.connect();
    sleep(SETTLED);
    let (before, spent) = (server.switches(), server.processor_us());
    sleep(IDLE);
    report.row(
        "idle for 10 s",
        "0 wakeups",
        format!(
            "{} switches, {:.0} us, {:.1} MiB held",
            server.switches() - before,
            server.processor_us() - spent,
            server.memory_mib()
        ),
    );
}

/// From the start of the process to an answer.
fn first_answer(server: &mut Server) -> Duration {
    let begun = Instant::now();
    server.hub.restart();
    server.hub.get("/healthz", "");
    begun.elapsed()
}
