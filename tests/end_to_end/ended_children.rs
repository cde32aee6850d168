//! Git children that are ended at once, as a machine without memory ends them, alone or with whoever started them: the
//! command says so or does without, nothing is half there, and the next run finishes and finds no lock in its way.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use parler_harness::{Gate, Repository, Snapshot, World, end_process, look_for};
use rustix::process::{Signal, kill_process};

use super::ended_commands::half_written;
use super::shallow::helper_of;
use super::untouched::assert_tidy;
use super::{noise, room_refs, world};

/// More objects than are unpacked one by one: the import goes through a pack.
const FILES: usize = 150;
const FETCH: &str = "fetch parler::room/try feature:refs/remotes/team/feature";

/// Somebody who has pushed, and somebody who has not seen it.
fn prepared(world: &World) -> [Repository<'_>; 2] {
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let bobs = world.clone_of(&origin, "bobs");
    for file in 0..FILES {
        work.write(&format!("files/{file}"), format!("file {file}\n"));
    }
    work.write("files/noise", noise(200 << 10, 4));
    work.git("add files").success();
    work.git("commit --quiet --message many").success();
    work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    bobs.user().parler("recv --room try").success();
    for place in [&work, &bobs] {
        place.has_git_pin();
    }
    [work, bobs]
}

/// What was fetched is gone again, and what kept it.
fn forget(place: &Repository<'_>, tip: &str) {
    let _ = fs::remove_file(place.git_dir().join("FETCH_HEAD"));
    let fetched = ["refs/remotes/team/feature".to_owned()];
    for name in place.pins().into_keys().chain(fetched) {
        place.git(["update-ref", "-d", &name]).success();
    }
    place.git("repack -adq").success();
    place.git("prune --expire=now").success();
    assert!(!place.has(tip));
}

/// What the processes of this world were started with.
fn command_lines(world: &World) -> impl Iterator<Item = (u32, String)> {
    world.processes().into_iter().map(|process| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        (process, String::from_utf8_lossy(&line).replace('\0', " "))
    })
}

/// Ends a command's n-th git child, which has just begun, and lets the others go on. None: it has fewer.
fn end_child(
    world: &World,
    place: &Repository<'_>,
    command: &str,
    number: usize,
) -> Option<(String, parler_harness::Answer)> {
    let mut gate = Gate::before_git(world);
    let running = gate.holds_git_of(&place.user()).start_git(command);
    let mut ended = None;
    for seen in 0.. {
        let Some(child) = gate.wait_for_arrival_or_end(&running) else {
            break;
        };
        if seen == number {
            let (process, _) = command_lines(world)
                .find(|(_, line)| line.contains("/gate-") && line.contains(&child))
                .expect("it waits");
            end_process(process);
            ended = Some(child);
        } else {
            gate.open();
        }
    }
    let answer = running.wait().either();
    ended.map(|child| (child, answer))
}

#[test]
fn an_import_whose_git_child_is_ended_says_so_and_changes_nothing_by_halves() {
    let world = world();
    let [work, bobs] = prepared(&world);
    let mut steps = BTreeSet::new();
    // Objects that go into a pack, more than a pipe holds; and few, which are unpacked.
    let large = work.rev("HEAD");
    work.git("push --quiet parler::room/few origin/main:refs/heads/main")
        .success();
    work.git("checkout --quiet --detach origin/main").success();
    // Of such a name git has to judge.
    let small = work.commit("few~.txt", "few\n");
    work.git("push --quiet parler::room/few HEAD:refs/heads/feature")
        .success();
    bobs.user().parler("recv --room few").success();
    let fetch = |room: &str| format!("fetch parler::room/{room} feature:refs/remotes/team/feature");
    for (command, tip) in [
        (fetch("try"), &large),
        ("parler apply 1 --room try".to_owned(), &large),
        (fetch("few"), &small),
        ("parler apply 2 --room few".to_owned(), &small),
    ] {
        for number in 0.. {
            let Some((child, answer)) = end_child(&world, &bobs, &command, number) else {
                // It was let run to its end.
                forget(&bobs, tip);
                break;
            };
            let what = format!("{command}: {child}: {answer:?}");
            if answer.is_success() {
                assert!(bobs.has(tip), "{what}");
            } else {
                assert!(bobs.pins().is_empty() && !bobs.has(tip), "{what}");
                says_that_it_was_ended(&answer);
                assert_eq!(answer.exit_code(), Some(128), "{what}");
            }
            assert_tidy(&what, &Snapshot::of(&bobs));
            assert_eq!(half_written(&bobs.git_dir()), Vec::<PathBuf>::new(), "{what}");
            steps.insert(name_of(&child));
            bobs.git(command.as_str()).success();
            bobs.fsck();
            assert!(bobs.has(tip), "{what}");
            forget(&bobs, tip);
        }
    }
    assert_eq!(
        steps,
        ["index-pack", "rev-list", "unpack-objects", "update-ref"]
            .map(str::to_owned)
            .into()
    );
}

#[test]
fn a_push_whose_git_child_is_ended_says_so_and_happens_once() {
    let world = world();
    let [work, _] = prepared(&world);
    work.has_git_pack();
    let mut steps = BTreeSet::new();
    for push in [
        "push parler::room/try HEAD:refs/heads/feature",
        "parler push --room try HEAD:refs/heads/feature",
    ] {
        for number in 0.. {
            let tip = work.commit("more.txt", &format!("{push} {number}\n"));
            let before = messages(&work);
            let Some((child, answer)) = end_child(&world, &work, push, number) else {
                break;
            };
            let what = format!("{push}: {child}: {answer:?}");
            says_that_it_was_ended(&answer);
            let is_there = room_refs(&work.user(), "try")["refs/heads/feature"] == tip;
            // What is pinned is in the room already.
            assert_eq!(is_there, name_of(&child) == "update-ref", "{what}");
            assert_eq!(answer.is_success(), is_there, "{what}");
            assert!(
                is_there || answer.exit_code() == Some(128) || answer.exit_code() == Some(1),
                "{what}"
            );
            assert_eq!(half_written(&work.git_dir()), Vec::<PathBuf>::new(), "{what}");
            steps.insert(name_of(&child));
            work.git(push).success();
            assert_eq!(room_refs(&work.user(), "try")["refs/heads/feature"], tip);
            assert_eq!(messages(&work), before + 1, "{what}");
        }
    }
    assert_eq!(steps, ["pack-objects", "update-ref"].map(str::to_owned).into());
    work.fsck();
}

/// How many the room has.
fn messages(place: &Repository<'_>) -> usize {
    place
        .user()
        .parler("log --room try --json")
        .success()
        .out()
        .lines()
        .count()
}

#[track_caller]
fn says_that_it_was_ended(answer: &parler_harness::Answer) {
    let said = answer.err();
    assert!(said.contains(" was ended by signal 9 (SIGKILL)"), "{answer:?}");
    assert!(!said.contains("refused"), "{answer:?}");
    assert!(answer.is_success() || said.contains("command again"), "{answer:?}");
}

/// The git command of a command line.
fn name_of(child: &str) -> String {
    let mut words = child.split(' ');
    while let Some(word) = words.next() {
        match word {
            "-c" => _ = words.next(),
            word if word.starts_with('-') => {}
            word => return word.to_owned(),
        }
    }
    panic!("{child}");
}

#[test]
fn locks_that_a_killed_transaction_leaves_are_in_nobodys_way() {
    let world = world();
    let [work, bobs] = prepared(&world);
    let tip = work.rev("HEAD");
    // What vouches for what the bundle builds on is then the branch that is checked out, and HEAD is locked beside it.
    for name in bobs.refs().into_keys().filter(|name| name.starts_with("refs/remotes/")) {
        bobs.git(["update-ref", "--no-deref", "-d", &name]).success();
    }
    // All at once, when everything is locked.
    let mut gate = Gate::before_commits_of_refs(&world);
    let running = gate.holds_git_of(&bobs.user()).start_git(FETCH);
    gate.wait_for_arrival();
    running.signal_group(Signal::KILL);
    running.wait().either();
    wait_for_end_of_git(&world);
    let left = half_written(&bobs.git_dir());
    for place in ["HEAD.lock", "refs/heads/main.lock"] {
        assert!(left.contains(&bobs.git_dir().join(place)), "{left:?}");
    }
    assert_eq!(left.len(), 5, "those, two pins, and what says whose they are: {left:?}");
    // The objects were let in before, so that nothing is pinned now.
    bobs.git(FETCH).success();
    assert_eq!(half_written(&bobs.git_dir()), Vec::<PathBuf>::new());
    // It would wait ten seconds for a lock, and fail.
    bobs.git("parler apply 1 --room try").success();
    assert_eq!(bobs.rev("team/feature"), tip);
    assert_eq!(bobs.pins().len(), 2);
    assert_eq!(half_written(&bobs.git_dir()), Vec::<PathBuf>::new());
    bobs.fsck();
    forget(&bobs, &tip);
}

#[test]
fn locks_of_a_child_that_outlives_its_helper_are_left() {
    let world = world();
    let [work, bobs] = prepared(&world);
    let mut gate = Gate::before_commits_of_refs(&world);
    let running = gate.holds_git_of(&bobs.user()).start_git(FETCH);
    gate.wait_for_arrival();
    kill_process(helper_of(&world), Signal::KILL).unwrap();
    running.wait().failure();
    let held = half_written(&bobs.git_dir());
    assert!(held.len() >= 4, "{held:?}");
    // It looks for what dead ones left.
    bobs.git("ls-remote parler::room/try").success();
    let locks = |found: Vec<PathBuf>| -> Vec<PathBuf> {
        let is_on_a_ref = |path: &PathBuf| path.extension().is_some_and(|end| end == "lock");
        found.into_iter().filter(is_on_a_ref).collect()
    };
    assert_eq!(locks(half_written(&bobs.git_dir())), locks(held));
    gate.open();
    wait_for_end_of_git(&world);
    bobs.git(FETCH).success();
    assert_eq!(half_written(&bobs.git_dir()), Vec::<PathBuf>::new());
    assert_eq!(bobs.rev("team/feature"), work.rev("HEAD"));
    bobs.fsck();
}

#[test]
fn locks_of_a_child_that_is_killed_among_them_are_known_and_those_of_others_are_left() {
    let world = world();
    let [work, bobs] = prepared(&world);
    let tip = work.rev("HEAD");
    let pins = work.pins();
    let [short, full] = ["short", "full"].map(|which| {
        let is_it = |name: &&String| (name.len() == "refs/parler/".len() + 64) == (which == "full");
        let name = pins
            .iter()
            .filter(|(_, oid)| **oid == tip)
            .map(|(name, _)| name)
            .find(is_it);
        bobs.git_dir().join(format!("{}.lock", name.unwrap()))
    });
    fs::create_dir_all(full.parent().unwrap()).unwrap();
    for whole in [false, true] {
        // Somebody else's. git waits for it with the first pin locked.
        fs::write(&full, "").unwrap();
        let running = bobs.user().start_git("parler apply 1 --room try");
        look_for(
            || short.exists().then_some(()),
            || "the first pin is not locked".to_owned(),
        );
        if whole {
            running.signal_group(Signal::KILL);
            running.wait().either();
            wait_for_end_of_git(&world);
            assert!(short.exists());
            fs::remove_file(&full).unwrap();
        } else {
            // The first, and then the one that is asked without what vouched for the base.
            let end_it = || {
                let is_it = |(_, line): &(u32, String)| line.contains(" update-ref ");
                if let Some((process, _)) = command_lines(&world).find(is_it) {
                    end_process(process);
                }
                running.has_ended().then_some(())
            };
            look_for(end_it, || "it does not end with its children".to_owned());
            let said = running.wait().either();
            assert!(!said.is_success(), "{said:?}");
            says_that_it_was_ended(&said);
            assert!(!short.exists() && full.exists(), "{said:?}");
            assert!(bobs.pins().is_empty() && !bobs.has(&tip));
            fs::remove_file(&full).unwrap();
        }
        bobs.git("parler apply 1 --room try").success();
        assert!(bobs.has(&tip));
        assert_eq!(half_written(&bobs.git_dir()), Vec::<PathBuf>::new());
        bobs.fsck();
        forget(&bobs, &tip);
    }
}

/// Waits until no git child of this world runs, whoever its parent was.
fn wait_for_end_of_git(world: &World) {
    let none_runs = || !command_lines(world).any(|(_, line)| line.contains(" update-ref "));
    look_for(|| none_runs().then_some(()), || "a git child does not end".to_owned());
}
