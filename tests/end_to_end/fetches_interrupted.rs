//! Fetches that are ended at any moment, by Ctrl-C or at once, as a whole or git or its helper alone: the next one
//! completes, and nothing of the others is left.

use std::fs;
use std::path::PathBuf;

use parler_harness::{
    Agent, Cut, CuttingProxy, Gate, HubProcess, Repository, Running, Snapshot, World, copy_directory, look_for,
};
use rustix::process::{Pid, Signal, kill_process};

use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// Bytes of a file that does not compress: more than any buffer on the way holds.
const SIZE: usize = 12 << 20; // 12 MiB
/// Where in the download a fetch is ended, in bytes that the hub has sent.
const MOMENTS: [u64; 4] = [1, 100 << 10, 5 << 20, 11 << 20];

/// A hub behind a proxy, and a large push to fetch from it.
struct Stage<'w> {
    proxy: CuttingProxy,
    _hub: HubProcess,
    reader: Repository<'w>,
    bob: Agent<'w>,
    tip: String,
}

fn stage(world: &World) -> Stage<'_> {
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(world, &proxy);
    let origin = world.origin();
    let author = world.clone_of(&origin, "author");
    // With it, the room would hold no complete history to clone.
    author.git("remote remove origin").success();
    let alice = world.stranger("alice").with("PARLER_HUB", proxy.url()).at(&author);
    let code = alice.parler("invite --group big").success().word().to_owned();
    alice.git("push --quiet parler::room/big main").success();
    let reader = world.clone_of(&origin, "reader");
    let bob = world.stranger("bob").with("PARLER_HUB", proxy.url()).at(&reader);
    bob.parler(["join", &code]).success();
    reader.git("remote add there parler::room/big").success();
    bob.git("fetch --quiet there").success();
    author.git("config pack.compression 0").success();
    author.write("noise", noise(SIZE, 1));
    author.git("add noise").success();
    author.git("commit --quiet --message noise").success();
    author.git("tag --annotate v1 --message first").success();
    alice.git("push --quiet parler::room/big main v1").success();
    Stage {
        proxy,
        _hub: hub,
        tip: author.rev("main"),
        reader,
        bob,
    }
}

/// The helpers that run in this world.
fn helpers(world: &World) -> Vec<Pid> {
    let is_helper = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default();
        program.ends_with(b"git-remote-parler")
    };
    let running = world.processes().into_iter().filter(is_helper);
    running
        .filter_map(|process| Pid::from_raw(i32::try_from(process).ok()?))
        .collect()
}

/// Whom a signal is sent to.
#[derive(Debug, Clone, Copy)]
enum Whom {
    Everybody,
    Git,
    Helper,
}

fn send(world: &World, fetch: &Running, whom: Whom, signal: Signal) {
    match whom {
        Whom::Everybody => fetch.signal_group(signal),
        Whom::Git => fetch.signal(signal),
        Whom::Helper => {
            for helper in helpers(world) {
                let _ = kill_process(helper, signal);
            }
        }
    }
}

/// A repository as it is now, so that it can be the same again.
struct Kept {
    place: PathBuf,
    copy: PathBuf,
}

impl Kept {
    fn of(reader: &Repository<'_>) -> Self {
        let (place, copy) = (reader.path().to_owned(), reader.path().with_extension("kept"));
        copy_directory(&place, &copy);
        Self { place, copy }
    }

    /// What was fetched since is gone again.
    fn restore(&self) {
        fs::remove_dir_all(&self.place).unwrap();
        copy_directory(&self.copy, &self.place);
    }
}

#[test]
fn a_fetch_that_is_ended_in_the_download_is_run_again_and_leaves_nothing() {
    let world = world();
    let Stage {
        proxy,
        reader,
        bob,
        tip,
        _hub,
    } = stage(&world);
    let (before, kept) = (reader.refs(), Kept::of(&reader));
    for (whom, signal) in [
        (Whom::Everybody, Signal::INT),
        (Whom::Everybody, Signal::KILL),
        (Whom::Git, Signal::INT),
        (Whom::Git, Signal::KILL),
        (Whom::Helper, Signal::TERM),
        (Whom::Helper, Signal::KILL),
    ] {
        let mut ended = 0;
        for moment in MOMENTS {
            proxy.cut([]);
            let fetch = bob.start_git("fetch there");
            proxy.wait_for_down(moment);
            send(&world, &fetch, whom, signal);
            let answer = fetch.wait().either();
            ended += usize::from(!answer.is_success());
            if !answer.is_success() && reader.refs() == before {
                assert!(!reader.has(&tip), "{whom:?} {signal:?} at {moment}: {answer:?}");
            }
            reader.fsck();
            // Again, whatever is left of the one before.
            let again = bob.git("fetch there").success();
            assert_eq!(reader.rev("there/main"), tip, "{again:?}");
            assert_eq!(reader.rev("v1^{}"), tip, "{again:?}");
            reader.fsck();
            assert_tidy(&format!("{whom:?} {signal:?} at {moment}"), &Snapshot::of(&reader));
            kept.restore();
            assert!(!reader.has(&tip));
        }
        assert!(ended > 0, "{whom:?} {signal:?}: each was over before");
    }
}

#[test]
fn a_fetch_whose_connections_break_at_every_moment_says_so_or_goes_on() {
    let world = world();
    let Stage {
        proxy,
        reader,
        bob,
        tip,
        _hub,
    } = stage(&world);
    let kept = Kept::of(&reader);
    for moment in MOMENTS {
        proxy.cut([Cut::Down(moment)]);
        bob.git("fetch there").success();
        assert_eq!(reader.rev("there/main"), tip, "{moment}");
        reader.fsck();
        assert_tidy(&format!("cut at {moment}"), &Snapshot::of(&reader));
        kept.restore();
    }
}

/// A repository, and a room with a push that it has not seen.
fn small(world: &World) -> (Repository<'_>, String) {
    let origin = world.origin();
    let author = world.clone_of(&origin, "author");
    author.git("push --quiet parler::room/try main").success();
    let reader = world.clone_of(&origin, "reader");
    reader.git("remote add there parler::room/try").success();
    reader.git("fetch --quiet there").success();
    for file in 0..150 {
        author.write(&format!("files/{file}"), format!("file {file}\n"));
    }
    author.git("add files").success();
    author.git("commit --quiet --message many").success();
    author.git("tag --annotate v1 --message first").success();
    author.git("push --quiet parler::room/try main v1").success();
    let tip = author.rev("main");
    (reader, tip)
}

/// Ends the helper of a fetch before its n-th git child begins. None: it has fewer children.
fn end_helper_before_child(world: &World, reader: &Repository<'_>, command: &str, number: usize) -> Option<String> {
    // A gate for each: a child that was left waiting at the last one must not meet the next.
    let mut gate = Gate::before_git(world);
    let running = gate.holds_git_of(&reader.user()).start_git(command);
    for seen in 0.. {
        let child = gate.wait_for_arrival_or_end(&running)?;
        if seen == number {
            send(world, &running, Whom::Helper, Signal::KILL);
            gate.open();
            let answer = running.wait().either();
            wait_for_children(world, reader);
            // Git has all it asked for when the last pins are written, and does not fail for their sake.
            assert!(
                !answer.is_success() || answer.err().contains("died of signal 9"),
                "{answer:?}"
            );
            return Some(child);
        }
        gate.open();
    }
    None
}

/// Waits for the git child of a helper that was killed: it sees the end of its input, and may write until then.
fn wait_for_children(world: &World, reader: &Repository<'_>) {
    let git_dir = reader.path().join(".git");
    let works_there = |process: &u32| {
        let line = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&*git_dir.to_string_lossy())
    };
    look_for(
        || (!world.processes().iter().any(works_there)).then_some(()),
        || "a git child does not end".to_owned(),
    );
}

#[test]
fn a_fetch_whose_helper_is_killed_at_any_step_leaves_nothing_once_it_is_run_again() {
    let world = world();
    let (reader, tip) = small(&world);
    let kept = Kept::of(&reader);
    for command in [
        "fetch there",
        // Pinned at the end, after git wrote its refs.
        "fetch there +refs/*:refs/there/*",
    ] {
        let mut steps = Vec::new();
        for number in 0.. {
            let Some(child) = end_helper_before_child(&world, &reader, command, number) else {
                break;
            };
            steps.push(child);
            reader.fsck();
            reader.git(command).success();
            let refs = reader.refs();
            assert!(refs.values().any(|oid| *oid == tip), "{command}: {steps:?}");
            assert_eq!(reader.rev("v1^{}"), tip, "{command}: {steps:?}");
            reader.fsck();
            assert_tidy(&format!("{command}: {steps:?}"), &Snapshot::of(&reader));
            kept.restore();
            assert!(!reader.has(&tip), "{command}: {steps:?}");
        }
        println!("{command}: {steps:#?}");
        assert!(steps.len() >= 2, "{command}: {steps:?}");
        kept.restore();
    }
}

#[test]
fn a_clone_that_is_interrupted_leaves_no_directory() {
    let world = world();
    let Stage {
        proxy, bob, tip, _hub, ..
    } = stage(&world);
    for moment in MOMENTS {
        proxy.cut([]);
        let clone = bob.start_git("clone parler::room/big copy");
        proxy.wait_for_down(moment);
        clone.signal_group(Signal::INT);
        let answer = clone.wait().either();
        let copy = bob.directory().join("copy");
        if answer.is_success() {
            fs::remove_dir_all(copy).unwrap();
        } else {
            let left = bob.run("find", "copy").either();
            assert!(!copy.exists(), "{moment}: {answer:?} {}", left.out());
        }
    }
    proxy.cut([]);
    bob.git("clone --quiet parler::room/big copy").success();
    let copy = world.repository(bob.directory().join("copy"));
    assert_eq!(copy.rev("HEAD"), tip);
    copy.fsck();
}
