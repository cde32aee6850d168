//! Many agents push to one room at the same moment: of two pushes to one branch exactly one wins, every time, and pushes to
//! branches of their own never get in each other's way.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{Gate, LocalHub, ReadLog, Repository, World, read_log};
use parler_protocol::{Oid, Part, RefUpdate};

use super::{no_doubts, room_refs, world};

/// Pushes to one branch, two at a time.
const ROUNDS: usize = 200;
/// Agents with a branch each.
const PUSHERS: usize = 8;
/// Pushes of each of them, in the suite.
const PUSHES: usize = 12;
/// Agents that fetch meanwhile.
const READERS: usize = 2;

struct Racer<'w> {
    place: Repository<'w>,
    gate: Gate,
}

/// A commit on top of another, without a look at the work tree.
#[track_caller]
fn commit_on(place: &Repository<'_>, parent: &str, message: &str) -> String {
    place.ask([
        "commit-tree",
        "-p",
        parent,
        "-m",
        message,
        &format!("{parent}^{{tree}}"),
    ])
}

/// The room's log, read and checked from the beginning by somebody who knew nothing of it.
fn log_of(place: &Repository<'_>) -> ReadLog {
    let hub = LocalHub::of(&place.user());
    let reader = hub.raw_client("reader");
    read_log(&reader.calls, &hub.id, &"race".parse().unwrap())
}

/// The changes of all refs, in the log's order.
fn updates(log: &ReadLog) -> Vec<&RefUpdate> {
    let parts = log.messages.iter().flat_map(|message| &message.parts);
    let refs = parts.filter_map(|part| if let Part::Refs(refs) = part { Some(refs) } else { None });
    refs.flat_map(|refs| &refs.updates).collect()
}

#[test]
fn of_two_pushes_at_one_moment_one_wins_and_one_is_told_in_gits_words() {
    let world = world();
    let origin = world.origin();
    let mut racers = ["one", "two"].map(|name| {
        let place = world.clone_of(&origin, name);
        place.git("remote add team parler::room/race").success();
        let gate = Gate::before_pushes(&world, &place);
        Racer { place, gate }
    });
    racers[0].place.git("push --quiet team HEAD:refs/heads/main").success();
    let mut tip = racers[0].place.rev("HEAD");

    let mut winners = Vec::new();
    for round in 0..ROUNDS {
        let commits: Vec<_> = racers
            .iter()
            .enumerate()
            .map(|(number, racer)| commit_on(&racer.place, &tip, &format!("round {round} of {number}")))
            .collect();
        let running: Vec<_> = racers
            .iter_mut()
            .zip(&commits)
            .map(|(racer, commit)| {
                // In every other round both have seen the room before either goes on.
                let agent = match round % 2 {
                    0 => racer.gate.holds_pushes_of(&racer.place.user()),
                    _ => racer.place.user(),
                };
                agent.start_git(["push", "team", &format!("{commit}:refs/heads/main")])
            })
            .collect();
        if round % 2 == 0 {
            for racer in &mut racers {
                racer.gate.wait_for_arrival();
            }
            racers.iter_mut().for_each(|racer| racer.gate.open());
        }
        let answers: Vec<_> = running.into_iter().map(|push| push.wait().either()).collect();
        let won: Vec<_> = answers.iter().map(parler_harness::Answer::is_success).collect();
        assert_eq!(won.iter().filter(|won| **won).count(), 1, "round {round}: {answers:#?}");
        let winner = won.iter().position(|won| *won).unwrap();
        let loser = &answers[1 - winner];
        assert_eq!(loser.exit_code(), Some(1), "{loser:?}");
        let told = ["(fetch first)", "(non-fast-forward)", "(stale info)"];
        assert!(told.iter().any(|words| loser.err().contains(words)), "{loser:?}");
        loser.warns("rejected]").warns("error: failed to push some refs");
        answers.iter().for_each(|answer| {
            answer.warns_no("warning: the history");
        });
        tip = commits[winner].clone();
        // Whoever lost gets what won, and goes on from there.
        let loser = &racers[1 - winner].place;
        loser.git("fetch --quiet team").success();
        assert_eq!(loser.rev("team/main"), tip);
        winners.push(tip.clone());
    }

    racers.iter().for_each(|racer| no_doubts(&racer.place.user()));
    // Reading it checks that each change began where the one before it ended.
    let log = log_of(&racers[0].place);
    let moved = updates(&log).into_iter().map(|update| update.new);
    let moved: Vec<String> = moved.map(|oid: Option<Oid>| oid.unwrap().to_string()).collect();
    assert_eq!(moved[1..], winners[..], "the log is the winners in their order");
}

#[test]
fn pushes_to_branches_of_their_own_all_arrive_while_others_fetch() {
    crowd(&world(), |pushed, _| pushed < PUSHES);
}

#[test]
#[ignore = "the same for a whole minute: cargo test -p parler-git --test end_to_end for_a_minute -- --ignored --nocapture"]
fn pushes_to_branches_of_their_own_for_a_minute() {
    crowd(&world(), |_, began| began.elapsed() < Duration::from_secs(60));
}

/// Pushers push, each to its branch and as long as it `goes_on`, and readers fetch until the last pusher is done. Every
/// push arrives at the first try, every fetch ends well, and the log is all of it.
fn crowd(world: &World, goes_on: impl Fn(usize, Instant) -> bool + Sync) {
    let origin = world.origin();
    let clone = |name: String| {
        let place = world.clone_of(&origin, &name);
        place.git("remote add team parler::room/race").success();
        place
    };
    let pushers: Vec<_> = (0..PUSHERS).map(|number| clone(format!("pusher{number}"))).collect();
    let readers: Vec<_> = (0..READERS).map(|number| clone(format!("reader{number}"))).collect();
    pushers[0].git("push --quiet team HEAD:refs/heads/main").success();

    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    let (commits, fetches) = thread::scope(|scope| {
        let goes_on = &goes_on;
        let pushing: Vec<_> = pushers
            .iter()
            .enumerate()
            .map(|(number, place)| {
                scope.spawn(move || {
                    let mut commits = vec![place.rev("HEAD")];
                    while goes_on(commits.len() - 1, began) {
                        let tip = &commits[commits.len() - 1];
                        let next = commit_on(place, tip, &format!("{} of {number}", commits.len()));
                        let pushed = place
                            .git(["push", "team", &format!("{next}:refs/heads/branch{number}")])
                            .success();
                        pushed.warns_no("error").warns_no("warning");
                        commits.push(next);
                    }
                    commits
                })
            })
            .collect();
        let reading: Vec<_> = readers
            .iter()
            .map(|place| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut fetches = 0;
                    while !is_over.load(Ordering::Acquire) {
                        let fetched = place.git("fetch team").success();
                        fetched.warns_no("error").warns_no("warning");
                        fetches += 1;
                    }
                    fetches
                })
            })
            .collect();
        let pushed: Vec<_> = pushing.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // Before anybody's failure is told: the readers would go on for ever.
        is_over.store(true, Ordering::Release);
        let fetched: usize = reading.into_iter().map(|reader| reader.join().unwrap()).sum();
        let commits: Vec<Vec<String>> = pushed.into_iter().map(Result::unwrap).collect();
        (commits, fetched)
    });
    let elapsed = began.elapsed();

    let log = log_of(&pushers[0]);
    let all = updates(&log);
    for (number, commits) in commits.iter().enumerate() {
        let name = format!("refs/heads/branch{number}");
        let moved = all.iter().filter(|update| update.name.as_str() == name);
        let moved: Vec<String> = moved.map(|update| update.new.unwrap().to_string()).collect();
        assert_eq!(moved, commits[1..], "{name}: each push once, in its order");
    }
    let pushes: usize = commits.iter().map(|commits| commits.len() - 1).sum();
    // Messages are numbered without a gap, and there is none but the pushes.
    assert_eq!(log.messages.len(), pushes + 1);
    assert_eq!(all.len(), pushes + 1);
    for reader in &readers {
        reader.git("fetch --quiet team").success();
        for (number, commits) in commits.iter().enumerate() {
            assert_eq!(Some(&reader.rev(&format!("team/branch{number}"))), commits.last());
        }
        reader.git("fsck --connectivity-only").success();
    }
    assert_eq!(
        room_refs(&pushers[0].user(), "race").len(),
        PUSHERS + 2,
        "HEAD, main, and the branches"
    );
    pushers
        .iter()
        .chain(&readers)
        .for_each(|place| no_doubts(&place.user()));
    println!("{pushes} pushes and {fetches} fetches in {elapsed:?}");
}
