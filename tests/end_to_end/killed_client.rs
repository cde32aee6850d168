//! A fetch, an apply or a push whose process is ended in the middle leaves the repository as it was, and the next one
//! completes.

use parler_harness::{Gate, Repository, Running, Snapshot, World, look_for};
use rustix::process::{Signal, kill_process};

use super::shallow::helper_of;
use super::untouched::assert_tidy;
use super::{room_refs, world};

/// More objects than are unpacked one by one: the import goes through a pack.
const FILES: usize = 150;

/// SIGTERM to the helper alone, before its child of this number starts: git and the child hear nothing of it.
#[track_caller]
fn end_helper_before_child(world: &World, gate: &mut Gate, command: Running, number: usize) -> Option<String> {
    for seen in 0.. {
        let child = gate.wait_for_arrival_or_end(&command)?;
        if seen == number {
            kill_process(helper_of(world), Signal::TERM).unwrap();
            command.wait().failure();
            return Some(child);
        }
        gate.open();
    }
    None
}

struct Prepared<'w> {
    work: Repository<'w>,
    bobs: Repository<'w>,
    tip: String,
}

fn prepared(world: &World) -> Prepared<'_> {
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let bobs = world.clone_of(&origin, "bobs");
    for file in 0..FILES {
        work.write(&format!("files/{file}"), format!("file {file}\n"));
    }
    work.git("add files").success();
    work.git("commit --quiet --message many").success();
    work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let tip = work.rev("HEAD");
    bobs.user().parler("recv --room try").success();
    Prepared { work, bobs, tip }
}

/// Ends a command before its n-th git child begins, and says which child that was. None: it has fewer children, and was
/// let run to its end.
#[track_caller]
fn end_before_child(gate: &mut Gate, command: Running, number: usize, signal: Signal) -> Option<String> {
    for seen in 0.. {
        // Either another child comes, or the command is over.
        let child = gate.wait_for_arrival_or_end(&command)?;
        if seen == number {
            command.signal_group(signal);
            let answer = command.wait().either();
            assert!(!answer.is_success(), "{answer:?}");
            if signal == Signal::KILL {
                assert_eq!(answer.signal(), Some(9), "{answer:?}");
            }
            return Some(child);
        }
        gate.open();
    }
    None
}

#[test]
fn an_import_that_is_ended_at_any_step_leaves_nothing_and_can_be_repeated() {
    let world = world();
    let Prepared { bobs, tip, .. } = prepared(&world);
    bobs.has_git_pin();
    let before = bobs.refs();
    let mut steps = Vec::new();
    for command in [
        "fetch parler::room/try feature:refs/remotes/team/feature",
        "parler apply 1 --room try",
    ] {
        for number in 0.. {
            // A gate for each: a child that was left waiting at the last one must not meet the next.
            let mut gate = Gate::before_git(&world);
            let running = gate.holds_git_of(&bobs.user()).start_git(command);
            let Some(child) = end_before_child(&mut gate, running, number, Signal::KILL) else {
                break;
            };
            steps.push(child);
            assert_eq!(bobs.refs(), before, "{steps:?}");
            assert!(!bobs.has(&tip), "{steps:?}");
            bobs.fsck();
        }
        // It was let run to its end the last time.
        assert!(bobs.has(&tip), "{command}: {steps:?}");
        bobs.fsck();
        for name in bobs.refs().into_keys().filter(|name| !before.contains_key(name)) {
            bobs.git(["update-ref", "-d", &name]).success();
        }
        bobs.git("repack -adq").success();
        bobs.git("prune --expire=now").success();
        assert!(!bobs.has(&tip));
    }
    println!("{steps:#?}");
    assert!(steps.len() >= 4, "only {steps:?}");
    // After all these ends, an undisturbed one completes, and nothing of the others is left.
    bobs.git("fetch --quiet parler::room/try").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tip);
    bobs.fsck();
    assert_tidy("after all", &Snapshot::of(&bobs));
}

/// Ctrl-C goes to git, the helper and its children; whoever is told to end politely leaves nothing behind.
#[test]
fn an_import_that_is_interrupted_at_any_step_leaves_no_quarantine() {
    let world = world();
    let Prepared { bobs, tip, .. } = prepared(&world);
    bobs.has_git_pin();
    let before = bobs.refs();
    let fetch = "fetch parler::room/try feature:refs/remotes/team/feature";
    for (command, signal, is_alone) in [
        (fetch, Signal::INT, false),
        (fetch, Signal::TERM, false),
        (fetch, Signal::TERM, true),
        ("parler apply 1 --room try", Signal::INT, false),
    ] {
        let mut steps = Vec::new();
        for number in 0.. {
            let mut gate = Gate::before_git(&world);
            let running = gate.holds_git_of(&bobs.user()).start_git(command);
            let ended = match is_alone {
                true => end_helper_before_child(&world, &mut gate, running, number),
                false => end_before_child(&mut gate, running, number, signal),
            };
            let Some(child) = ended else { break };
            steps.push(child);
            let objects = std::fs::read_dir(bobs.path().join(".git/objects")).unwrap();
            let names: Vec<_> = objects.map(|entry| entry.unwrap().file_name()).collect();
            let left = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("tmp_objdir");
            assert!(!names.iter().any(left), "{names:?} after {steps:?}");
        }
        assert!(!steps.is_empty());
        assert!(bobs.has(&tip), "{command}: {steps:?}");
        for name in bobs.refs().into_keys().filter(|name| !before.contains_key(name)) {
            bobs.git(["update-ref", "-d", &name]).success();
        }
        bobs.git("repack -adq").success();
        bobs.git("prune --expire=now").success();
    }
}

#[test]
fn a_push_that_is_ended_at_any_step_moves_nothing_and_can_be_repeated() {
    let world = world();
    let Prepared { work, .. } = prepared(&world);
    work.has_git_pack();
    work.has_git_pin();
    let refs = room_refs(&work.user(), "try");
    let before = work.refs();
    let tip = work.commit("more.txt", "more\n");
    let mut steps = Vec::new();
    for number in 0.. {
        let mut gate = Gate::before_git(&world);
        let running = gate
            .holds_git_of(&work.user())
            .start_git("push parler::room/try HEAD:refs/heads/feature");
        let Some(child) = end_before_child(&mut gate, running, number, Signal::KILL) else {
            break;
        };
        let now = room_refs(&work.user(), "try");
        // The pins are written when the hub has the push already.
        if child.contains("update-ref") {
            assert_eq!(now["refs/heads/feature"], tip);
        } else {
            assert_eq!(now, refs, "{child}");
            assert_eq!(work.refs().len(), before.len(), "{child}");
        }
        steps.push(child);
    }
    println!("{steps:#?}");
    assert!(!steps.is_empty());
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/feature"], tip);
    work.fsck();
}

/// What it is fed ends with its helper, but not what it has to do with that.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_outlives_its_killed_helper_is_ended_by_the_next_fetch() {
    let world = world();
    let Prepared { bobs, tip, .. } = prepared(&world);
    let fetch = "fetch parler::room/try feature:refs/remotes/team/feature";
    let mut gate = Gate::before_git(&world);
    let running = gate.holds_git_of(&bobs.user()).start_git(fetch);
    while let child = gate.wait_for_arrival_or_end(&running).expect("objects are taken in")
        && !child.contains("index-pack")
    {
        gate.open();
    }
    kill_process(helper_of(&world), Signal::KILL).unwrap();
    running.wait().failure();
    let writers = || {
        let environments = world.processes().into_iter();
        let environments = environments.filter_map(|process| std::fs::read(format!("/proc/{process}/environ")).ok());
        let is_writer = |environment: &Vec<u8>| {
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|variable| variable.starts_with(b"GIT_OBJECT_DIRECTORY="))
        };
        environments.filter(is_writer).count()
    };
    assert_eq!(writers(), 1);
    bobs.git(fetch).success();
    assert_eq!(writers(), 0);
    assert_eq!(bobs.rev("team/feature"), tip);
    bobs.fsck();
    assert_tidy("after all", &Snapshot::of(&bobs));
}

/// Many pins go into `packed-refs`, under git's lock on that file.
#[test]
fn a_lock_that_a_killed_fetch_leaves_is_known_and_goes() {
    const BRANCHES: usize = 60;
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let bobs = world.clone_of(&origin, "bobs");
    let tip = work.commit("a.txt", "more\n");
    for number in 0..BRANCHES {
        work.git(["branch", &format!("topic/{number}")]).success();
    }
    work.git("push --quiet parler::room/try refs/heads/topic/*:refs/heads/topic/*")
        .success();
    bobs.user().parler("recv --room try").success();
    let fetch = "fetch --quiet parler::room/try topic/1";
    let locks = || -> Vec<String> {
        let names = std::fs::read_dir(bobs.path().join(".git")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut locks: Vec<_> = names.filter(|name| name.starts_with("packed-refs.")).collect();
        locks.sort_unstable();
        locks
    };
    let lock = bobs.path().join(".git/packed-refs.lock");
    for (signal, is_alone) in [(Signal::TERM, true), (Signal::INT, false), (Signal::KILL, false)] {
        std::fs::write(&lock, "").unwrap();
        bobs.git("config core.packedRefsTimeout -1").success();
        let running = bobs.user().start_git(fetch);
        look_for(
            || (locks().len() >= 2).then_some(()),
            || format!("it does not wait for the lock: {:?}", locks()),
        );
        match is_alone {
            true => kill_process(helper_of(&world), signal).unwrap(),
            false => running.signal_group(signal),
        }
        assert!(!running.wait().either().is_success());
        assert!(bobs.pins().is_empty());
        std::fs::remove_file(&lock).unwrap();
        bobs.git("config --unset core.packedRefsTimeout").success();
        assert_eq!(locks().len(), usize::from(signal == Signal::KILL));
    }
    // As a process that was killed with the lock leaves it.
    let left = bobs.path().join(".git").join(&locks()[0]);
    std::fs::hard_link(left, &lock).unwrap();
    assert_eq!(locks()[0], "packed-refs.lock");
    let packing = bobs.git("-c core.packedRefsTimeout=0 pack-refs --all").either();
    assert!(packing.err().contains("packed-refs.lock"), "{packing:?}");
    bobs.git(fetch).success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tip);
    assert_eq!(bobs.pins().len(), 2 * BRANCHES);
    assert_eq!(locks(), [""; 0]);
    bobs.fsck();
    bobs.git("pack-refs --all").success();
    assert_tidy("after all", &Snapshot::of(&bobs));
}
