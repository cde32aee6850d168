//! A disk that takes nothing at one place of those that a client writes: what is a cache costs time alone, everything else
//! ends with one line that names the place, changes nothing, and works when there is room again.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Agent, CallKind, Fault, HubProcess, Repository, SystemCalls, World};

use super::ended_commands::half_written;
use super::{hub_server, noise, world};

/// What is done where, and what fails there.
struct Case<'a> {
    command: &'a str,
    call: CallKind,
    /// Part of the path.
    path: &'a str,
    /// What the error line says; none: the command succeeds all the same.
    words: Option<&'a str>,
}

struct Stage<'w> {
    library: SystemCalls,
    trace: PathBuf,
    bob: Agent<'w>,
}

impl Stage<'_> {
    /// Runs a command while such calls fail, and tells whether one did.
    fn run(&self, command: &str, fault: &Fault) -> (parler_harness::Answer, bool) {
        let _ = fs::remove_file(&self.trace);
        let mut bob = self.bob.clone();
        for (name, value) in self.library.variables_with(&self.trace, fault) {
            bob = bob.with(name, value);
        }
        let answer = bob.git(command).either();
        let trace = fs::read_to_string(&self.trace).unwrap_or_default();
        (answer, trace.lines().any(|line| line.starts_with("fault ")))
    }

    fn check(&self, case: &Case<'_>, error: &'static str, before: impl Fn(), after: impl Fn(bool)) {
        let what = format!("{}: {:?} {} {error}", case.command, case.call, case.path);
        before();
        let fault = Fault {
            call: case.call,
            nth: 1,
            and_on: true,
            error,
            path: case.path.to_owned(),
        };
        let (answer, has_failed) = self.run(case.command, &fault);
        assert!(has_failed, "{what}: nothing failed: {answer:?}");
        match case.words {
            None => assert!(answer.is_success(), "{what}: {answer:?}"),
            Some(words) => {
                assert!(!answer.is_success(), "{what}: {answer:?}");
                let reason = match error {
                    "ENOSPC" => "No space left on device",
                    "EROFS" => "Read-only file system",
                    _ => "Input/output error",
                };
                let said = answer.err();
                assert!(said.contains(words) && said.contains(reason), "{what}: {answer:?}");
            }
        }
        after(answer.is_success());
        for place in [self.bob.parler_home(), self.bob.directory().to_owned()] {
            assert_eq!(half_written(&place), Vec::<PathBuf>::new(), "{what}: {answer:?}");
        }
        self.bob.git(case.command).success();
        after(true);
    }
}

/// Who pushes to a room, and who fetches from it, each with a repository.
fn two<'w>(world: &'w World, hub: &HubProcess, room: &str) -> [(Repository<'w>, Agent<'w>); 2] {
    let origin = world.origin();
    let [author, reader] = [("author", "alice"), ("place", "bob")].map(|(place, name)| {
        let place = world.clone_of(&origin, place);
        let agent = world.stranger(name).on(hub).at(&place);
        (place, agent)
    });
    let code = author.1.parler(["invite", "--group", room]).success().word().to_owned();
    reader.1.parler(["join", &code]).success();
    [author, reader]
}

#[test]
fn each_place_that_takes_nothing_is_named_or_done_without() {
    let world = world();
    let hub = hub_server::start(&world);
    let [(author, alice), (place, bob)] = two(&world, &hub, "full");
    let tip = author.commit("a.txt", "small\n");
    alice
        .git("push --quiet parler::room/full HEAD:refs/heads/small")
        .success();
    author.write("noise", noise(2 << 20, 3));
    author.git("add noise").success();
    author.git("commit --quiet --message noise").success();
    let large = author.rev("HEAD");
    alice
        .git("push --quiet parler::room/full HEAD:refs/heads/large")
        .success();
    let (id, _) = author.pins().into_iter().find(|(_, oid)| *oid == large).unwrap();
    let id = id.trim_start_matches("refs/parler/").to_owned();

    let directory = world.directory("calls");
    let stage = Stage {
        library: SystemCalls::watched_in(&world),
        trace: directory.join("trace"),
        bob: bob.clone(),
    };
    let known = place.refs();
    let forget = || {
        for name in place.refs().into_keys().filter(|name| !known.contains_key(name)) {
            place.git(["update-ref", "-d", &name]).success();
        }
        let _ = fs::remove_file(place.git_dir().join("FETCH_HEAD"));
        place.git("repack -adq").success();
        place.git("prune --expire=now").success();
        let _ = fs::remove_dir_all(place.git_dir().join("parler"));
        let _ = fs::remove_file(place.path().join("got.bundle"));
        let _ = fs::remove_dir_all(bob.parler_home().join("state"));
    };
    let small = "fetch parler::room/full small:refs/remotes/there/small";
    let big = "fetch parler::room/full large:refs/remotes/there/large";
    let to_file = format!("parler fetch {id} --room full -o got.bundle");
    let case = |command, call, path, words| Case {
        command,
        call,
        path,
        words,
    };
    let cases = [
        // Caches, and what is only remembered.
        case(small, CallKind::Make, "/parler/rooms/", None),
        case(small, CallKind::Write, "/parler/rooms/", None),
        case(small, CallKind::Make, "/state/", None),
        case(small, CallKind::Write, "/state/", None),
        // The objects, small and large, and what names them.
        case(small, CallKind::Write, "/tmp_objdir-parler-", Some("")),
        case(big, CallKind::Write, "/tmp_objdir-parler-", Some("")),
        case(
            big,
            CallKind::Make,
            "/tmp_keep-parler-",
            Some("cannot write the repository's objects"),
        ),
        case(
            big,
            CallKind::Write,
            "/tmp_keep-parler-",
            Some("cannot write the repository's objects"),
        ),
        case(
            big,
            CallKind::Rename,
            "/objects/pack/",
            Some("/.git/objects/pack/pack-"),
        ),
        // A file of somebody's own.
        case(&to_file, CallKind::Make, "/.parler-", Some("got.bundle")),
        case(&to_file, CallKind::Write, "/.parler-", Some("got.bundle")),
        case(&to_file, CallKind::Sync, "/.parler-", Some("got.bundle")),
    ];
    for case in &cases {
        let errors: &[&str] = match case.call {
            CallKind::Write => &["ENOSPC", "EIO"],
            _ => &["ENOSPC"],
        };
        for error in errors.iter().copied() {
            let after = |has_succeeded: bool| {
                let (refs, file) = (place.refs(), place.path().join("got.bundle"));
                let what = format!("{} {}", case.command, case.path);
                let fetched = |name: &str, oid: &String| refs.get(&format!("refs/remotes/there/{name}")) == Some(oid);
                if has_succeeded {
                    let is_there = fetched("small", &tip) || fetched("large", &large) || file.exists();
                    assert!(is_there, "{what}");
                } else {
                    assert_eq!(refs, known, "{what}");
                    assert!(!file.exists(), "{what}");
                }
            };
            stage.check(case, error, forget, after);
            place.fsck();
        }
    }
}

/// As where a container has the repository, or a home, without the right to write.
#[test]
fn each_directory_that_is_read_only_is_named_or_done_without() {
    const BRANCHES: usize = 60;
    let world = world();
    let hub = hub_server::start(&world);
    let [(author, alice), (place, bob)] = two(&world, &hub, "sealed");
    let push = |subject: &str, branches: usize| {
        let tip = author.commit("a.txt", &format!("{subject}\n"));
        let names: Vec<_> = (0..branches)
            .map(|number| format!("HEAD:refs/heads/{subject}/{number}"))
            .collect();
        alice
            .git(format!("push --quiet parler::room/sealed {}", names.join(" ")))
            .success();
        tip
    };
    // The pins of the second go into one file.
    let (few, many) = (push("few", 1), push("many", BRANCHES));
    let directory = world.directory("calls");
    let stage = Stage {
        library: SystemCalls::watched_in(&world),
        trace: directory.join("trace"),
        bob: bob.clone(),
    };
    let known = place.refs();
    let forget = || {
        let _ = fs::remove_file(place.git_dir().join("FETCH_HEAD"));
        let gone: String = place
            .refs()
            .into_keys()
            .filter(|name| !known.contains_key(name))
            .map(|name| format!("delete {name}\n"))
            .collect();
        bob.feed("git", "update-ref --stdin", gone.as_bytes()).success();
        let _ = fs::remove_dir(place.git_dir().join("refs/parler"));
        let _ = fs::remove_dir_all(bob.parler_home().join("state"));
        let _ = fs::remove_dir_all(place.git_dir().join("parler"));
        place.git("repack -adq").success();
        place.git("prune --expire=now").success();
    };
    let (one, all) = ("fetch parler::room/sealed few/0", "fetch parler::room/sealed many/0");
    // By git, which makes files.
    let logged = "-c core.logAllRefUpdates=always fetch parler::room/sealed few/0";
    let objects = Some("/.git/objects/tmp_objdir-parler-");
    for (command, call, path, words) in [
        // What tells whose locks they are, and what is kept for the next time.
        (one, CallKind::Make, "/.git/locks.parler-", None),
        (one, CallKind::MakeDirectory, "/.git/parler", None),
        ("parler recv --all --room sealed", CallKind::Make, "/state/", None),
        // Many pins that cannot go into one file go into many.
        (all, CallKind::Make, "/.git/packed-refs.parler-", None),
        (all, CallKind::Write, "/.git/packed-refs.parler-", None),
        (all, CallKind::Link, "/.git/packed-refs.lock", None),
        (
            one,
            CallKind::MakeDirectory,
            "/.git/objects/tmp_objdir-parler-",
            objects,
        ),
        (one, CallKind::Make, "/.git/packed-refs.parler-", None),
        (logged, CallKind::Make, "/.git/refs/parler/", Some("/.git/refs/parler/")),
    ] {
        let case = Case {
            command,
            call,
            path,
            words,
        };
        let is_fetch = command.contains("fetch ");
        stage.check(&case, "EROFS", forget, |has_succeeded| {
            let what = format!("{command} {call:?} {path}");
            let tip = if command == all { &many } else { &few };
            let is_pinned = place.pins().values().any(|oid| oid == tip);
            assert_eq!(is_pinned, has_succeeded && is_fetch, "{what}");
            assert_eq!(place.has(tip), has_succeeded && is_fetch, "{what}");
        });
        place.fsck();
    }
    // The objects are there by then, and git does not ask for what it has.
    forget();
    let fault = Fault {
        call: CallKind::Rename,
        nth: 1,
        and_on: true,
        error: "EROFS",
        path: "/.git/packed-refs$".to_owned(),
    };
    let (answer, has_failed) = stage.run(all, &fault);
    assert!(has_failed && !answer.is_success(), "{answer:?}");
    assert!(
        answer
            .err()
            .contains("cannot record the bundles in packed-refs: Read-only"),
        "{answer:?}"
    );
    assert!(place.pins().is_empty());
    assert_eq!(half_written(&place.git_dir()), Vec::<PathBuf>::new());
    bob.parler("apply 2 --room sealed").success();
    assert_eq!(place.pins().len(), 2 * BRANCHES);
}

#[test]
fn a_push_whose_spool_is_full_says_so_and_a_key_that_cannot_be_kept_is_not_used() {
    let world = world();
    let hub = hub_server::start(&world);
    let place = world.clone_of(&world.origin(), "place");
    let bob = world.stranger("bob").on(&hub).at(&place);
    bob.parler("invite --group full").success();
    place.git("config pack.compression 0").success();
    place.write("noise", noise(9 << 20, 3));
    place.git("add noise").success();
    place.git("commit --quiet --message noise").success();
    let directory = world.directory("calls");
    let stage = Stage {
        library: SystemCalls::watched_in(&world),
        trace: directory.join("trace"),
        bob: bob.clone(),
    };
    let nothing_pushed = |has_succeeded: bool| {
        let refs = super::room_refs(&bob, "full");
        assert_eq!(refs.contains_key("refs/heads/main"), has_succeeded, "{refs:?}");
    };
    // Nameless files show the directory that they are in.
    let push = Case {
        command: "push parler::room/full main",
        call: CallKind::Write,
        path: "/.git/parler/#",
        words: Some(""),
    };
    stage.check(&push, "ENOSPC", || {}, nothing_pushed);
    let keys = bob.parler_home().join("config/agents");
    let kept = |directory: &Path| fs::read_dir(directory).map_or(0, Iterator::count);
    let before = Cell::new(0);
    let connect = Case {
        command: "parler connect --as carol",
        call: CallKind::Write,
        path: "/config/agents/",
        words: Some("config/agents"),
    };
    for (command, call) in [
        ("parler connect --as carol", CallKind::Write),
        ("parler connect --as dave", CallKind::Make),
    ] {
        let connect = Case {
            command,
            call,
            ..connect
        };
        stage.check(
            &connect,
            "ENOSPC",
            || before.set(kept(&keys)),
            |has_succeeded| {
                let made = kept(&keys) - before.get();
                assert_eq!(made, usize::from(has_succeeded), "no key that was not kept whole");
            },
        );
    }
}

/// What the local hub writes besides its data: its lock, and where it is found.
#[test]
fn a_local_hub_that_cannot_be_found_says_so_and_starts_when_it_can() {
    let world = world();
    let bob = world.agent("bob");
    bob.parler("invite --group kept").success();
    let directory = world.directory("calls");
    let stage = Stage {
        library: SystemCalls::watched_in(&world),
        trace: directory.join("trace"),
        bob: bob.clone(),
    };
    let hub = bob.parler_home().join("data/hub");
    for (call, path, file) in [
        (CallKind::Make, "/hub/hub.lock", "hub.lock"),
        (CallKind::Make, "/hub/.new-", "hub.json"),
        (CallKind::Write, "/hub/.new-", "hub.json"),
    ] {
        for (error, reason) in [
            ("ENOSPC", "No space left on device"),
            ("EROFS", "Read-only file system"),
        ] {
            bob.parler("hub stop").success();
            fs::remove_file(hub.join("hub.lock")).unwrap();
            let fault = Fault {
                call,
                nth: 1,
                and_on: true,
                error,
                path: path.to_owned(),
            };
            let (answer, has_failed) = stage.run("parler hub run", &fault);
            assert!(has_failed && answer.exit_code() == Some(128), "{answer:?}");
            let line = answer.one_error_line();
            assert!(line.contains(file) && line.contains(reason), "{answer:?}");
            assert_eq!(half_written(&bob.parler_home()), Vec::<PathBuf>::new(), "{answer:?}");
            bob.parler("send --room kept hello").success();
        }
    }
    let log = bob.parler("recv --room kept --all --json").success().json();
    assert_eq!(log["messages"].as_array().unwrap().len(), 6);
}
