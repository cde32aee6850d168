//! One commit, and nothing: what a handoff between agents is nearly always.

use std::fmt::Write;
use std::path::Path;

use parler_harness::Repository;

use crate::Stage;
use crate::report::{Report, Row};
use crate::round::Seat;
use crate::transport::BRANCH;

/// Cycles before another transport has its turn.
const BLOCK: usize = 10;

/// How the clients are, and what is measured then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    name: &'static str,
    /// Branches of each client, besides its own.
    refs: usize,
    rows: [Row; 4],
}

/// A repository as it is cloned.
pub(crate) const ONE_REF: Kind = Kind {
    name: "small",
    refs: 0,
    rows: [Row::PushOne, Row::PushNothing, Row::FetchOne, Row::FetchNothing],
};
/// A repository of many branches.
pub(crate) const MANY_REFS: Kind = Kind {
    name: "refs",
    refs: 4000,
    rows: [
        Row::PushOneOfManyRefs,
        Row::PushNothingOfManyRefs,
        Row::FetchOneOfManyRefs,
        Row::FetchNothingOfManyRefs,
    ],
};

/// Pushes and fetches, in rounds.
pub(crate) fn run(stage: &Stage<'_>, report: &mut Report, kind: Kind) {
    let commits = &stage.prepared.commits;
    let seats = seats(stage, kind.name, kind.refs);
    for round in 1..=stage.arguments.rounds() + 1 {
        for seat in &seats {
            seat.author.git(["update-ref", BRANCH, &commits[round]]).success();
            let taken = [
                seat.push(stage, Some(&commits[round - 1])),
                seat.push(stage, Some(&commits[round])),
                seat.fetch(stage, &commits[round]),
                seat.fetch(stage, &commits[round]),
            ];
            // The first round opens sessions and fills caches.
            if round > 1 {
                for (row, taken) in kind.rows.into_iter().zip(taken) {
                    seat.add(report, row, taken);
                }
            }
        }
    }
}

/// Pushes and fetches of a commit in a row, in blocks.
pub(crate) fn cycles(stage: &Stage<'_>, report: &mut Report) {
    let commits = &stage.prepared.commits;
    let seats = seats(stage, "cycles", 0);
    let cycles = stage.arguments.cycles();
    let mut sums = vec![None; seats.len()];
    for block in 0..cycles / BLOCK {
        for (seat, sum) in seats.iter().zip(&mut sums) {
            for number in block * BLOCK + 1..=(block + 1) * BLOCK {
                seat.author.git(["update-ref", BRANCH, &commits[number]]).success();
                let push = seat.push(stage, Some(&commits[number - 1]));
                let cycle = push.and(seat.fetch(stage, &commits[number]));
                *sum = Some(sum.map_or(cycle, |sum: crate::meter::Taken| sum.and(cycle)));
            }
        }
    }
    for (seat, sum) in seats.iter().zip(sums) {
        seat.add(report, Row::Cycles, sum.unwrap_or_default());
    }
    report.note(format!("{cycles} push+fetch cycles are one sum, not a median."));
}

fn seats<'s, 'w>(stage: &'s Stage<'w>, remote: &str, refs: usize) -> Vec<Seat<'s, 'w>> {
    let (prepared, known) = (&stage.prepared, Some(stage.prepared.commits[0].as_str()));
    let seat = |transport: &'s (dyn crate::Transport<'w> + 'w)| {
        transport.make(remote, Some(&prepared.long));
        let client = |who: &str, from: &Path| {
            let name = format!("{remote}-{:?}-{who}.git", transport.name());
            let client = prepared.client(&name, Some(from), &transport.url(remote), known);
            add_refs(&client, refs);
            client
        };
        Seat {
            transport,
            remote: remote.to_owned(),
            author: client("author", &prepared.ahead),
            reader: client("reader", &prepared.long),
        }
    };
    stage.transports.iter().map(|transport| seat(&**transport)).collect()
}

/// Branches all over the history, in `packed-refs`.
fn add_refs(client: &Repository<'_>, count: usize) {
    if count == 0 {
        return;
    }
    let commits = client.ask(["rev-list", "--first-parent", BRANCH]);
    let commits: Vec<&str> = commits.lines().collect();
    let mut updates = String::new();
    for number in 0..count {
        let commit = commits[number * commits.len() / count];
        let _ = writeln!(updates, "create refs/heads/many/{number:04} {commit}");
    }
    let feed = client.user().feed("git", "update-ref --stdin", updates.as_bytes());
    feed.success();
    client.git("pack-refs --all").success();
}
