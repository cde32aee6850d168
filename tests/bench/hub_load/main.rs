//! What a hub bears: the real program in a process of its own, real HTTP, clients with a connection each, and every answer
//! checked. `cargo bench -p parler-hub --bench hub_load -- --help`.
//!
//! The load comes from the same machine, so that rates are those of hub and load together; processor time a message, syncs a
//! commit and memory are the hub's own. Gates nothing. The method is in `docs/performance.md`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that prints what it measured"
)]

mod appends;
mod audit;
mod connection;
mod large_room;
mod pushes;
mod report;
mod seats;
mod server;
mod starts;
mod uploads;
mod watchers;

use std::time::Duration;

use clap::{Parser, ValueEnum};
use parler_harness::World;

use report::Report;

/// What a hub bears.
#[derive(Debug, Parser)]
struct Arguments {
    /// Parts, with commas; all by default.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// A first look: a tenth of everything.
    #[arg(long)]
    quick: bool,
    /// As cargo calls every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Appends by 1 and 64 clients, to one room and a thousand; syncs a commit; a catch-up of what was written.
    Appends,
    /// Messages that bring a bundle of 1 KiB.
    Pushes,
    /// 64 uploads of 16 MiB at once.
    Uploads,
    /// Watchers of one room, and of many.
    Watchers,
    /// First start, start after a clean stop, and how still an idle hub is.
    Starts,
    /// A room of a million messages and ten thousand bundles.
    LargeRoom,
}

/// How much of everything.
#[derive(Debug, Clone, Copy)]
struct Extent {
    quick: bool,
}

impl Extent {
    /// As long as this, or a tenth of it.
    fn time(self, whole: Duration) -> Duration {
        if self.quick { whole / 10 } else { whole }
    }

    /// As many as this, or a tenth of it.
    fn count(self, whole: usize) -> usize {
        if self.quick { whole / 10 } else { whole }
    }
}

fn main() {
    let arguments = Arguments::parse();
    let world = World::new("/no/program/is/needed");
    let extent = Extent { quick: arguments.quick };
    let mut report = Report::begin();
    let parts = match arguments.only.as_slice() {
        [] => Part::value_variants().to_vec(),
        chosen => chosen.to_vec(),
    };
    for part in parts {
        eprintln!("{part:?}");
        match part {
            Part::Appends => appends::run(&world, extent, &mut report),
            Part::Pushes => pushes::run(&world, extent, &mut report),
            Part::Uploads => uploads::run(&world, extent, &mut report),
            Part::Watchers => watchers::run(&world, extent, &mut report),
            Part::Starts => starts::run(&world, extent, &mut report),
            Part::LargeRoom => large_room::run(&world, extent, &mut report),
        }
    }
    report.print();
}
