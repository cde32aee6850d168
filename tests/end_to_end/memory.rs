//! A bundle much larger than the memory that anybody may have: the helper and the hub hold a piece of it at a time.

use std::fs::{self, File};
use std::io::Write;

use parler_harness::{World, peak_memory_kib, write_executable};

use super::{hub_server, noise, world};

/// What does not compress.
const SIZE: usize = 192 << 20; // 192 MiB
/// It is made in pieces: neither does the test hold all of it.
const PIECE: usize = 8 << 20; // 8 MiB
/// The most that a process of ours may have held, a third of that.
const MOST_KIB: usize = 64 << 10;

/// A git that notes first how much memory the process that calls it has held: the last git child of a push and of a
/// fetch is the one that names what has been moved.
fn noting_git(world: &World) -> std::path::PathBuf {
    let directory = world.directory("noting");
    let program = directory.join("git");
    let text = "#!/bin/sh\ngrep VmHWM \"/proc/$PPID/status\" | tr -d '\\n' >>\"$0.log\"\necho \" $*\" >>\"$0.log\"\nexec git \"$@\"\n";
    write_executable(&program, text);
    program
}

/// The most that a helper had held when it named what it had moved, in KiB; the log is empty afterwards.
#[track_caller]
fn noted(git: &std::path::Path) -> usize {
    let log = git.with_extension("log");
    let text = fs::read_to_string(&log).unwrap();
    fs::remove_file(log).unwrap();
    let last = text.lines().last().unwrap_or_default();
    assert!(last.contains(" update-ref "), "{text}");
    let kib = last.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    kib.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_bundle_larger_than_what_may_be_held_is_pushed_and_fetched() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let origin = world.origin();
    let (place, other) = (world.clone_of(&origin, "place"), world.clone_of(&origin, "other"));
    for repository in [&place, &other] {
        // Git's own time, which is not what is asked about.
        repository.git("config core.bigFileThreshold 1m").success();
        repository.has_git_pin();
        repository.git("config core.compression 0").success();
    }
    let mut file = File::create(place.path().join("noise")).unwrap();
    for number in 0..SIZE / PIECE {
        file.write_all(&noise(PIECE, number as u64)).unwrap();
    }
    drop(file);
    place.git("add noise").success();
    place.git("commit --quiet --message noise").success();
    fs::remove_file(place.path().join("noise")).unwrap();
    let git = noting_git(&world);
    let alice = world.stranger("alice").on(&hub).with("PARLER_GIT", &git).at(&place);
    let code = alice.parler("invite --group big").success().word().to_owned();
    let bob = world.stranger("bob").on(&hub).with("PARLER_GIT", &git).at(&other);
    bob.parler(["join", &code]).success();
    let _ = fs::remove_file(git.with_extension("log"));

    alice.git("push --quiet parler::room/big HEAD:refs/heads/big").success();
    let (pushing, taking) = (noted(&git), peak_memory_kib(hub.pid()));
    // A new process, whose peak is that of what it sends.
    hub.terminate();
    hub.restart();
    bob.git("fetch --quiet parler::room/big big").success();
    let (fetching, giving) = (noted(&git), peak_memory_kib(hub.pid()));
    assert_eq!(other.rev("FETCH_HEAD"), place.rev("HEAD"));

    let peaks = [pushing, taking, fetching, giving];
    println!("held: {peaks:?} KiB, of a bundle of {} KiB", SIZE >> 10);
    assert!(peaks.iter().all(|peak| *peak < MOST_KIB), "{peaks:?} KiB");
}

#[test]
fn several_that_come_side_by_side_are_not_held_either() {
    const SIZE: usize = 24 << 20; // 24 MiB
    let world = world();
    let hub = hub_server::start(&world);
    let (place, other) = (world.init("place", ""), world.init("other", ""));
    for repository in [&place, &other] {
        repository.git("config core.bigFileThreshold 1m").success();
        repository.has_git_pin();
        repository.git("config core.compression 0").success();
        repository.git("config pack.compression 0").success();
    }
    other.git("config parler.downloads 4").success();
    let git = noting_git(&world);
    let alice = world.stranger("alice").on(&hub).at(&place);
    let code = alice.parler("invite --group big").success().word().to_owned();
    let bob = world.stranger("bob").on(&hub).with("PARLER_GIT", &git).at(&other);
    bob.parler(["join", &code]).success();
    for number in 0..5 {
        place.write("noise", noise(SIZE, number));
        place.git("add noise").success();
        place.git("commit --quiet --message noise").success();
        alice.git("push --quiet parler::room/big HEAD:refs/heads/big").success();
    }
    let _ = fs::remove_file(git.with_extension("log"));
    let mark = hub.log().mark();
    bob.git("fetch --quiet parler::room/big big").success();
    assert_eq!(other.rev("FETCH_HEAD"), place.rev("HEAD"));
    let answers = hub.log().since(mark);
    let answers = answers.iter().filter(|answer| answer.contains("/bundles "));
    assert_eq!(answers.count(), 5);
    let peaks = [noted(&git), peak_memory_kib(hub.pid())];
    println!("held: {peaks:?} KiB, of 5 bundles of {} KiB each", SIZE >> 10);
    assert!(peaks.iter().all(|peak| *peak < MOST_KIB), "{peaks:?} KiB");
}
