//! Commands that are ended while they speak with their hub, by Ctrl-C, politely, or at once: whoever is asked leaves nothing,
//! whoever is not leaves nothing that is there after the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use parler_harness::{Agent, CuttingProxy, DEADLINE, HubProcess, Mishap, Point, Repository, Snapshot, World};
use rustix::process::Signal;

use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// A hub behind a proxy, somebody who writes and somebody who reads.
struct Stage<'w> {
    proxy: CuttingProxy,
    _hub: HubProcess,
    author: Repository<'w>,
    alice: Agent<'w>,
    place: Repository<'w>,
    bob: Agent<'w>,
}

fn stage(world: &World) -> Stage<'_> {
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(world, &proxy);
    let origin = world.origin();
    let (author, place) = (world.clone_of(&origin, "author"), world.clone_of(&origin, "place"));
    author.git("remote remove origin").success();
    let agent = |name: &str, at: &Repository<'_>| world.stranger(name).with("PARLER_HUB", proxy.url()).at(at);
    let (alice, bob) = (agent("alice", &author), agent("bob", &place));
    let code = alice.parler("invite --group ended").success().word().to_owned();
    bob.parler(["join", &code]).success();
    alice.git("push --quiet parler::room/ended main").success();
    // In the pack as it is, so that it is larger than what is unpacked one by one.
    author.git("config pack.compression 0").success();
    author.write("noise", noise(1 << 20, 9));
    author.git("add noise").success();
    author.git("commit --quiet --message noise").success();
    alice.git("push --quiet parler::room/ended main").success();
    alice.parler("send --room ended hello").success();
    Stage {
        author,
        alice,
        place,
        bob,
        proxy,
        _hub: hub,
    }
}

/// What is half written below a directory: our own files, and what git's are called meanwhile.
fn half_written(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_ours = [".new-", ".parler-", "tmp_", ".tmp"]
            .iter()
            .any(|begin| name.starts_with(begin));
        // What our own state is locked by stays, by design, and means nothing.
        let is_lock = name.ends_with(".lock") && path.components().any(|part| part.as_os_str() == ".git");
        if is_ours || is_lock {
            found.push(path);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(half_written(&path));
        }
    }
    found
}

/// Ends a command at places all over what it says and hears, with each signal, and runs it again after each. `before` is
/// done before each start, and `after` judges the run that was not disturbed.
fn end_everywhere(stage: &Stage<'_>, agent: &Agent<'_>, command: &str, before: impl Fn(), after: impl Fn()) {
    let Stage { proxy, .. } = stage;
    before();
    proxy.cut([]);
    agent.git(command).success();
    after();
    let carried = proxy.carried();
    let places = [
        Point::Up(carried.up / 3),
        Point::Up(carried.up - 1),
        Point::Down(carried.down / 3),
        Point::Down(carried.down - carried.down / 8 - 1),
    ];
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        for place in places {
            let what = format!("{command}: {signal:?} at {place:?}");
            before();
            proxy.break_at(place, Mishap::Stall);
            let running = agent.start_git(command);
            let begun = Instant::now();
            while !proxy.has_broken() {
                assert!(begun.elapsed() < DEADLINE, "{what}: it never says so much");
                std::thread::yield_now();
            }
            running.signal_group(signal);
            let ended = running.wait().either();
            let by_signal = ended.signal() == Some(signal.as_raw());
            assert!(
                by_signal || ended.exit_code() == Some(128 + signal.as_raw()),
                "{what}: {ended:?}"
            );
            let homes = [agent.parler_home(), agent.directory().to_owned()];
            if signal != Signal::KILL {
                for home in &homes {
                    assert_eq!(half_written(home), Vec::<PathBuf>::new(), "{what}: {ended:?}");
                }
            }
            proxy.cut([]);
            let again = agent.git(command).success();
            for home in &homes {
                assert_eq!(
                    half_written(home),
                    Vec::<PathBuf>::new(),
                    "{what}, and again: {again:?}"
                );
            }
            after();
        }
    }
}

#[test]
fn a_push_that_is_ended_anywhere_leaves_nothing() {
    let world = world();
    let stage = stage(&world);
    let tip = || stage.author.rev("HEAD");
    end_everywhere(
        &stage,
        &stage.alice,
        "push parler::room/ended HEAD:refs/heads/main",
        || _ = stage.author.commit("a.txt", &format!("on {}\n", tip())),
        || assert_eq!(super::room_refs(&stage.alice, "ended")["refs/heads/main"], tip()),
    );
    stage.author.fsck();
    assert_tidy("pushes", &Snapshot::of(&stage.author));
}

#[test]
fn a_fetch_and_a_clone_that_are_ended_anywhere_leave_nothing() {
    let world = world();
    let stage = stage(&world);
    let (place, tip) = (&stage.place, stage.author.rev("HEAD"));
    let known = place.refs();
    let forget = || {
        for name in place.refs().into_keys().filter(|name| !known.contains_key(name)) {
            place.git(["update-ref", "-d", &name]).success();
        }
        let _ = fs::remove_file(place.git_dir().join("FETCH_HEAD"));
        place.git("repack -adq").success();
        place.git("prune --expire=now").success();
    };
    end_everywhere(
        &stage,
        &stage.bob,
        "fetch parler::room/ended main:refs/remotes/there/main",
        forget,
        || {
            assert_eq!(place.rev("there/main"), tip);
            assert_tidy("fetches", &Snapshot::of(place));
        },
    );
    place.fsck();
    let copy = stage.bob.directory().join("copy");
    let gone = || {
        let _ = fs::remove_dir_all(&copy);
    };
    end_everywhere(
        &stage,
        &stage.bob,
        "clone --quiet parler::room/ended copy",
        gone,
        || {
            assert_eq!(world.repository(&copy).rev("HEAD"), tip);
            gone();
        },
    );
}

#[test]
fn what_the_command_line_does_leaves_nothing_when_it_is_ended_anywhere() {
    let world = world();
    let stage = stage(&world);
    let (place, bob) = (&stage.place, &stage.bob);
    fs::write(place.path().join("file.bin"), noise(300_000, 2)).unwrap();
    let nothing = || {};
    for command in [
        "parler send --room ended hello",
        "parler send --room ended --file file.bin",
        "parler handoff --room ended --next go",
        "parler recv --all --room ended",
        "parler rooms",
        "parler connect --as bob",
    ] {
        end_everywhere(&stage, bob, command, nothing, nothing);
    }
    let (id, _) = stage.author.pins().into_iter().next_back().unwrap();
    let id = id.trim_start_matches("refs/parler/").to_owned();
    let file = place.path().join("got.bundle");
    let gone = || {
        let _ = fs::remove_file(&file);
    };
    end_everywhere(
        &stage,
        bob,
        &format!("parler fetch {id} --room ended -o got.bundle"),
        gone,
        || {
            assert!(file.exists());
        },
    );
}

#[test]
fn a_watcher_ends_by_ctrl_c_and_by_the_end_of_its_reader() {
    let world = world();
    let Stage { bob, .. } = &stage(&world);
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let watch = bob.start_git("parler recv --all --watch --room ended");
        watch.wait_for_output(|said| said.contains("hello"));
        watch.signal_group(signal);
        let ended = watch.wait().either();
        let by_signal = ended.signal() == Some(signal.as_raw());
        assert!(
            by_signal || ended.exit_code() == Some(128 + signal.as_raw()),
            "{ended:?}"
        );
        assert_eq!(half_written(&bob.parler_home()), Vec::<PathBuf>::new(), "{signal:?}");
    }
    bob.parler("recv --all --room ended").success();
}
