//! One large file that does not compress: what costs memory and deflate where nobody thought of it.

use std::fs::{self, File};
use std::io::{Read, copy};
use std::path::Path;

use parler_harness::{Repository, World, peak_memory_kib};

use crate::Stage;
use crate::report::{Report, Row};
use crate::round::Seat;
use crate::transport::BRANCH;

/// Pushes and fetches it, to a new remote each round.
pub(crate) fn run(stage: &Stage<'_>, report: &mut Report) {
    let template = stage.world.init("big.git", "--bare");
    let first = commit(&template, stage.world, "README", &mut b"hello\n".as_slice(), None);
    let size = (stage.arguments.big as u64) << 20;
    let mut random = File::open("/dev/urandom").unwrap().take(size);
    let second = commit(&template, stage.world, "big.bin", &mut random, Some(&first));
    for round in 0..stage.arguments.long_rounds() {
        for transport in &stage.transports {
            one(stage, report, &**transport, &template, round, [&first, &second]);
        }
    }
    report.note(format!("The file has {} MiB.", stage.arguments.big));
}

fn one<'w>(
    stage: &Stage<'w>,
    report: &mut Report,
    transport: &(dyn crate::Transport<'w> + 'w),
    template: &Repository<'_>,
    round: usize,
    [first, second]: [&str; 2],
) {
    let remote = format!("big-{round}");
    transport.make(&remote, None);
    let client = |who: &str, from: Option<&Path>| {
        let name = format!("big-{:?}-{who}.git", transport.name());
        stage.prepared.client(&name, from, &transport.url(&remote), None)
    };
    let seat = Seat {
        transport,
        remote: remote.clone(),
        author: client("author", Some(template.path())),
        reader: client("reader", None),
    };
    // Both have what is under it.
    seat.author.git(["update-ref", BRANCH, first]).success();
    seat.push(stage, None);
    seat.fetch(stage, first);
    seat.author.git(["update-ref", BRANCH, second]).success();
    let idle = transport.server().map(reset_peak);
    seat.add(report, Row::PushBig, seat.push(stage, Some(first)));
    let after_push = transport.server().map(reset_peak);
    seat.add(report, Row::FetchBig, seat.fetch(stage, second));
    let after_fetch = transport.server().map(reset_peak);
    if let (Some(idle), Some(push), Some(fetch)) = (idle, after_push, after_fetch) {
        let above = |peak: usize| peak.saturating_sub(idle) as f64 / 1024.0;
        report.note(format!(
            "The hub held {:.1} MiB more than before at most while it took the large file, {:.1} MiB while it sent it.",
            above(push),
            above(fetch)
        ));
    }
    // Some gigabytes in all.
    for repository in [seat.author, seat.reader] {
        fs::remove_dir_all(repository.path()).unwrap();
    }
}

/// What a process has held at most since this was last called, in KiB; counted anew from now on.
fn reset_peak(process: u32) -> usize {
    let peak = peak_memory_kib(process);
    fs::write(format!("/proc/{process}/clear_refs"), "5").unwrap();
    peak
}

/// Commits a file as `git add` would have stored it.
fn commit(
    repository: &Repository<'_>,
    world: &World,
    name: &str,
    content: &mut dyn Read,
    parent: Option<&str>,
) -> String {
    let path = world.temporary().join(name);
    copy(content, &mut File::create(&path).unwrap()).unwrap();
    let blob = repository.ask(["hash-object", "-w", path.to_str().unwrap()]);
    fs::remove_file(path).unwrap();
    let mut entries = format!("100644 blob {blob}\t{name}\n");
    if let Some(parent) = parent {
        let listed = repository.ask(["ls-tree", parent]);
        entries.push_str(&format!("{listed}\n"));
    }
    let tree = repository
        .user()
        .feed("git", "mktree", entries.as_bytes())
        .success()
        .word()
        .to_owned();
    let mut words = vec!["commit-tree".into(), "-m".into(), name.into(), tree.into()];
    if let Some(parent) = parent {
        words.extend(["-p".into(), parent.into()]);
    }
    let commit = repository.git(words).success().word().to_owned();
    repository.git(["update-ref", BRANCH, &commit]).success();
    commit
}
