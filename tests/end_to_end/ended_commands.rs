//! Commands that are ended while they speak with their hub, by Ctrl-C, politely, or at once: whoever is asked leaves nothing,
//! whoever is not leaves nothing that is there after the next run.

use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Agent, CuttingProxy, HubProcess, Mishap, Point, Repository, Snapshot, World};
use rustix::process::{Signal, kill_process};

use super::shallow::helper_of;
use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// A hub behind a proxy, somebody who writes and somebody who reads.
struct Stage<'w> {
    world: &'w World,
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
        world,
        author,
        alice,
        place,
        bob,
        proxy,
        _hub: hub,
    }
}

/// What is half written below a directory: our own files, and what git's are called meanwhile.
pub(crate) fn half_written(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let is_ours = [
            ".new-",
            ".parler-",
            "locks.parler-",
            "packed-refs.parler-",
            "tmp_",
            ".tmp",
        ]
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

/// A command that is ended again and again.
struct Ended<'s, 'w> {
    stage: &'s Stage<'w>,
    agent: &'s Agent<'w>,
    command: &'s str,
    /// At how many places of what it says and hears, each with each signal.
    places: usize,
}

impl Ended<'_, '_> {
    /// Ends it everywhere, and runs it again after each end. `before` is done before each start, `again` before each start
    /// after a command that could tidy nothing up, and `after` judges the run that was not disturbed.
    fn everywhere(&self, before: impl Fn(), again: impl Fn(), after: impl Fn()) {
        let proxy = &self.stage.proxy;
        before();
        proxy.cut([]);
        self.agent.git(self.command).success();
        // What judges it speaks with the hub as well.
        let carried = proxy.carried();
        after();
        let places = [
            Point::Down(carried.down / 3),
            Point::Up(carried.up / 2),
            Point::Down(carried.down - carried.down / 8 - 1),
            Point::Up(carried.up / 5),
        ];
        let mut ended = 0;
        let by_git = [(Signal::TERM, true)].into_iter().filter(|_| self.has_helper());
        let all = [Signal::INT, Signal::TERM, Signal::KILL].map(|signal| (signal, false));
        for (signal, is_alone) in all.into_iter().chain(by_git) {
            for place in &places[..self.places] {
                before();
                ended += usize::from(self.ended_at(*place, signal, is_alone));
                if signal == Signal::KILL {
                    again();
                }
                proxy.cut([]);
                self.agent.git(self.command).success();
                self.assert_nothing_is_half_written(&format!("after {signal:?} at {place:?} and again"));
                after();
            }
        }
        assert!(ended > self.places, "{}: only {ended}", self.command);
    }

    /// Whether git runs it, and a helper for that.
    fn has_helper(&self) -> bool {
        !self.command.starts_with("parler ")
    }

    /// Ends it at a place, or its helper alone. False: it was over before, because the hub had less to say this time.
    fn ended_at(&self, place: Point, signal: Signal, is_alone: bool) -> bool {
        let what = format!("{}: {signal:?} at {place:?}, alone: {is_alone}", self.command);
        self.stage.proxy.break_at(place, Mishap::Stall);
        let running = self.agent.start_git(self.command);
        if !self.stage.proxy.breaks_before_end_of(&running) {
            running.wait().success();
            return false;
        }
        if is_alone {
            // Git says what it thinks of a helper that goes away.
            kill_process(helper_of(self.stage.world), signal).unwrap();
            let ended = running.wait().failure();
            assert!(!ended.err().contains("panicked"), "{what}: {ended:?}");
        } else {
            running.signal_group(signal);
            let ended = running.wait().either();
            let by_signal = ended.signal() == Some(signal.as_raw());
            assert!(
                by_signal || ended.exit_code() == Some(128 + signal.as_raw()),
                "{what}: {ended:?}"
            );
        }
        if signal != Signal::KILL {
            self.assert_nothing_is_half_written(&what);
        }
        true
    }

    #[track_caller]
    fn assert_nothing_is_half_written(&self, what: &str) {
        for place in [self.agent.parler_home(), self.agent.directory().to_owned()] {
            assert_eq!(half_written(&place), Vec::<PathBuf>::new(), "{}: {what}", self.command);
        }
    }
}

#[test]
fn a_push_that_is_ended_anywhere_leaves_nothing() {
    let world = world();
    let stage = stage(&world);
    let tip = || stage.author.rev("HEAD");
    let nothing = || {};
    let push = Ended {
        stage: &stage,
        agent: &stage.alice,
        command: "push parler::room/ended HEAD:refs/heads/main",
        places: 4,
    };
    let by_command_line = Ended {
        command: "parler push --room ended HEAD:refs/heads/main",
        places: 3,
        ..push
    };
    for push in [push, by_command_line] {
        push.everywhere(
            || _ = stage.author.commit("a.txt", &format!("on {}\n", tip())),
            nothing,
            || assert_eq!(super::room_refs(&stage.alice, "ended")["refs/heads/main"], tip()),
        );
    }
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
    let of_bob = |command: &'static str, places: usize| Ended {
        stage: &stage,
        agent: &stage.bob,
        command,
        places,
    };
    let nothing = || {};
    of_bob("fetch parler::room/ended main:refs/remotes/there/main", 4).everywhere(forget, nothing, || {
        assert_eq!(place.rev("there/main"), tip);
        assert_tidy("fetches", &Snapshot::of(place));
    });
    let (id, _) = stage.author.pins().into_iter().find(|(_, oid)| *oid == tip).unwrap();
    let apply = format!("parler apply {} --room ended", id.trim_start_matches("refs/parler/"));
    let apply = Ended {
        command: &apply,
        ..of_bob("", 3)
    };
    apply.everywhere(forget, nothing, || {
        assert!(place.has(&tip) && place.pins().values().any(|oid| *oid == tip));
        assert_tidy("applies", &Snapshot::of(place));
    });
    place.fsck();
    let copy = stage.bob.directory().join("copy");
    let gone = || {
        let _ = fs::remove_dir_all(&copy);
    };
    // What git leaves of a clone that is killed is for its user to remove.
    of_bob("clone --quiet parler::room/ended copy", 2).everywhere(gone, gone, || {
        assert_eq!(world.repository(&copy).rev("HEAD"), tip);
        gone();
    });
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
        let ended = Ended {
            stage: &stage,
            agent: bob,
            command,
            places: 2,
        };
        ended.everywhere(nothing, nothing, nothing);
    }
    let (id, _) = stage.author.pins().into_iter().next_back().unwrap();
    let id = id.trim_start_matches("refs/parler/").to_owned();
    let file = place.path().join("got.bundle");
    let gone = || {
        let _ = fs::remove_file(&file);
    };
    let ended = Ended {
        stage: &stage,
        agent: bob,
        command: &format!("parler fetch {id} --room ended -o got.bundle"),
        places: 2,
    };
    ended.everywhere(gone, nothing, || assert!(file.exists()));
}

#[test]
fn a_watcher_that_is_ended_leaves_nothing() {
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
