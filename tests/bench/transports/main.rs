//! Git transports side by side, each as its user would run it: the room of a hub of this machine, git over HTTP, files,
//! ssh, and a bundle that is made and carried by hand. `cargo bench -p parler-git --bench transports -- --help`.
//!
//! A figure is one whole command, from fork to exit; transports take turns in every round, so that what else the machine
//! does falls on all of them; a cell is a median; what was fetched is checked each time. Gates nothing: the times are the
//! machine's as much as the programs'. The method is in `docs/performance.md`.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that prints what it measured"
)]

mod arguments;
mod big;
mod many;
mod meter;
mod packages;
mod port;
mod prepared;
mod report;
mod round;
mod small;
mod transport;
mod whole;

use clap::Parser;
use parler_harness::World;

use arguments::{Arguments, Scenario};
use meter::Meter;
use prepared::Prepared;
use report::Report;
use transport::Transport;

/// What every scenario works with.
struct Stage<'w> {
    world: &'w World,
    arguments: Arguments,
    meter: Meter,
    prepared: Prepared<'w>,
    transports: Vec<Box<dyn Transport<'w> + 'w>>,
}

fn main() {
    let arguments = Arguments::parse();
    let world = World::new(env!("CARGO_BIN_EXE_git-parler"));
    let begun = report::load();
    let prepared = Prepared::new(&world, &arguments);
    let mut transports = Vec::new();
    let mut left_out = Vec::new();
    for name in arguments.transports() {
        match transport::start(name, &world) {
            Ok(transport) => transports.push(transport),
            Err(reason) => left_out.push(format!("{}: {reason}", name.label())),
        }
    }
    let stage = Stage {
        world: &world,
        meter: Meter::new(&world),
        prepared,
        transports,
        arguments,
    };
    let mut report = Report::new(&stage, begun, left_out);
    for scenario in stage.arguments.scenarios() {
        eprintln!("{scenario:?}");
        match scenario {
            Scenario::Small => small::run(&stage, &mut report, small::ONE_REF),
            Scenario::Refs => small::run(&stage, &mut report, small::MANY_REFS),
            Scenario::Cycles => small::cycles(&stage, &mut report),
            Scenario::Many => many::run(&stage, &mut report),
            Scenario::Whole => whole::run(&stage, &mut report),
            Scenario::Big => big::run(&stage, &mut report),
        }
    }
    report.print();
}
