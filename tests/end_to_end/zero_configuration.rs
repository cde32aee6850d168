//! Nothing has to be set up: the first push makes a key, starts the local hub and makes the room.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use parler_harness::{Agent, LocalHub, World};
use serde_json::json;

use super::local_hub_life::claim;
use super::{room_refs, world};

#[test]
fn a_push_makes_key_hub_and_room_and_recv_lists_it() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let commit = work.commit("feature.txt", "something new\n");
    let config = fs::read(work.path().join(".git/config")).unwrap();

    let push = work.git("push parler::room/try HEAD:refs/heads/try").success();
    push.warns(" * [new branch]").warns("HEAD -> try");

    let keys: Vec<_> = fs::read_dir(world.parler_home().join("config/agents"))
        .unwrap()
        .collect();
    assert_eq!(keys.len(), 1, "{keys:?}");
    let key = keys[0].as_ref().unwrap().metadata().unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    assert!(LocalHub::of(&work.user()).runs(&world));

    let listed = work.user().parler("recv --room try --all").success();
    listed.says("refs/heads/try");
    let rooms = work.user().parler("rooms").success();
    rooms.says("try");

    assert_eq!(work.ask("status --porcelain"), "");
    assert_eq!(fs::read(work.path().join(".git/config")).unwrap(), config);
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/try"], commit);
    // The push says what it made, and pins it.
    let pins = work.pins();
    assert_eq!(pins.len(), 2, "{pins:?}");
    assert!(pins.values().all(|pinned| *pinned == commit), "{pins:?}");
    let short = pins
        .keys()
        .find_map(|name| name.strip_prefix("refs/parler/").filter(|id| id.len() == 12))
        .unwrap();
    push.warns(short);
    listed.says(short);
}

/// Literally, by a shell: the steps of README in a repository that has an origin.
#[test]
fn the_five_minutes_of_the_readme_work() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let tip = work.commit("a.txt", "one\n");
    let readme = include_str!("../../README.md");
    let section = readme.split_once("## Five minutes").unwrap().1;
    let section = section.split_once("###").unwrap().0;
    let blocks: Vec<_> = section
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    assert_eq!(blocks.len(), 2);
    let script = format!("set -e\n{}", blocks.concat());
    let said = work.user().run("sh", ["-c", &script]).success();
    said.says("HANDOFF TO YOU from").says("write the docs for the new flag");
    said.says(&format!("{} Write a.txt", &tip[..7]));
    let back = work.user().parler("recv --room try").success();
    back.says("/reviewer · message 4").says("merge it");
}

#[test]
fn the_hub_outlives_the_command_and_serves_the_next() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user();
    user.git("push parler::room/try HEAD:refs/heads/try").success();
    let first = LocalHub::of(&user);
    user.parler("recv --room try").success();
    assert_eq!(LocalHub::of(&user).process, first.process);
    assert_eq!(world.processes(), [first.process]);
}

/// A script's lock, or the pipe that a CI job waits on, is let go of when the command ends.
#[test]
fn the_hub_keeps_no_file_of_whoever_started_it() {
    let world = world();
    let held = world.path().join("held");
    let script = format!("exec 9>{0}; exec 3<{0}; exec git parler rooms", held.display());
    world.user().run("sh", ["-c", &script]).success();
    let hub = LocalHub::of(&world.user());
    assert!(hub.runs(&world));
    let files = fs::read_dir(format!("/proc/{}/fd", hub.process)).unwrap();
    let open: Vec<_> = files
        .map(|file| fs::read_link(file.unwrap().path()).unwrap_or_default())
        .collect();
    assert!(!open.is_empty());
    assert!(!open.contains(&held), "{open:?}");
    world.user().parler("rooms").success();
    assert_eq!(world.processes(), [hub.process]);
}

/// A limit of the size of files is an error to tell, not the end of the process by a signal; and it is that of the
/// command, not of the hub that it starts.
#[test]
fn a_limit_of_file_size_is_told_and_not_handed_on() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let limited = |blocks: u32, command: &str| {
        let script = format!("ulimit -S -f {blocks}; exec {command}");
        work.user().run("sh", ["-c", &script])
    };
    // Some kilobytes are too few for the hub's database.
    limited(4, "git-parler invite --group try").success();
    work.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    let refused = limited(0, "git-parler fetch 1 --room try -o x.bundle").code(128);
    refused.warns("File too large");
    refused.one_error_line();
    assert!(!work.path().join("x.bundle").exists());
    let refused = limited(0, "git-parler whoami --as somebody-new").code(128);
    refused.warns("File too large");
}

#[test]
fn a_hub_whose_files_were_spoiled_is_found_or_named() {
    let world = world();
    let user = world.user();
    user.parler("rooms").success();
    let first = LocalHub::of(&user);
    let directory = world.parler_home().join("data/hub");
    // Its lock is gone: it still answers to its secret, and no second hub comes to the same data.
    fs::remove_file(directory.join("hub.lock")).unwrap();
    user.parler("rooms").success();
    let pid = format!("process {}", first.process);
    user.parler("hub status").success().says(&pid);
    assert_eq!(world.processes(), [first.process]);
    user.parler("hub stop").success().says("has ended");
    user.parler("hub status").code(1);
    // Its record says nothing any more.
    user.parler("rooms").success();
    let second = LocalHub::of(&user);
    assert_ne!(second.process, first.process);
    fs::write(directory.join("hub.json"), "{\"pid\":").unwrap();
    let pid = format!("process {}", second.process);
    for command in ["rooms", "hub status", "hub start"] {
        let refused = user.parler(command).code(5);
        refused.warns(&pid).warns("git parler hub stop");
        refused.one_error_line();
    }
    user.parler("hub stop").success().says("has ended");
    user.parler("rooms").success();
    assert_ne!(LocalHub::of(&user).process, second.process);
}

#[test]
fn a_hub_that_was_ended_is_started_again_with_everything_it_had() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user();
    user.git("push parler::room/try HEAD:refs/heads/try").success();
    let first = LocalHub::of(&user);
    first.kill(&world);
    user.parler("recv --room try --all").success().says("refs/heads/try");
    let second = LocalHub::of(&user);
    assert_ne!(first.process, second.process);
    assert_eq!(first.id, second.id);
}

#[test]
fn commands_that_start_at_once_share_one_hub() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let starting: Vec<_> = (0..6)
        .map(|number| {
            work.user()
                .start_git(format!("push parler::room/r{number} HEAD:refs/heads/try"))
        })
        .collect();
    for push in starting {
        push.wait().success();
    }
    assert_eq!(world.processes().len(), 1);
    let rooms = work.user().parler("rooms").success();
    for number in 0..6 {
        rooms.says(&format!("r{number}"));
    }
}

#[test]
fn ls_remote_shows_the_room_also_outside_of_a_repository() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let commit = work.commit("feature.txt", "something new\n");
    work.git("push parler::room/try HEAD:refs/heads/try").success();
    let outside = world.user().within(world.directory("elsewhere"));
    for agent in [work.user(), outside] {
        let listed = agent.git("ls-remote parler::room/try").success().listed_refs();
        assert_eq!(listed["refs/heads/try"], commit);
        assert_eq!(listed["HEAD"], commit);
        assert_eq!(
            listed.keys().filter(|name| name.starts_with("refs/parler/")).count(),
            2,
            "{listed:?}"
        );
    }
}

#[test]
fn two_work_trees_are_two_agents() {
    let world = world();
    let origin = world.origin();
    let one = world.clone_of(&origin, "one");
    one.git("worktree add --quiet ../two -b two").success();
    let three = world.clone_of(&origin, "elsewhere/one");
    let places = [one, world.repository(world.path().join("two")), three];
    let known: Vec<_> = places
        .iter()
        .map(|place| place.user().parler("whoami --json").success().json())
        .collect();
    for (number, agent) in known.iter().enumerate() {
        for other in &known[number + 1..] {
            assert_ne!(agent["name"], other["name"]);
            assert_ne!(agent["id"], other["id"]);
        }
        // Asked again, it is the same agent.
        let again = places[number].user().parler("whoami --json").success().json();
        assert_eq!(again["id"], agent["id"]);
        assert_eq!(again["name"], agent["name"]);
    }
    // One name in two places: the second is numbered.
    let first = known[0]["name"].as_str().unwrap();
    assert!(first.ends_with("/one"), "{first}");
    assert_eq!(known[2]["name"], format!("{first}-2"));
}

#[test]
fn a_second_agent_fetches_what_the_first_pushed() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    let commit = alice.commit("feature.txt", "something new\n");
    alice.git("push parler::room/try HEAD:refs/heads/try").success();

    let fetch = bob.git("fetch parler::room/try").success();
    fetch.warns("FETCH_HEAD");
    assert_eq!(bob.rev("FETCH_HEAD"), commit);
    assert_eq!(bob.pins().len(), 2);
    assert_eq!(bob.pins(), alice.pins());
    bob.fsck();
    // The other agent reads the room with a cursor of its own.
    bob.user().parler("recv --room try").success().says("refs/heads/try");
    bob.user().parler("recv --room try").success().says_no("refs/heads/try");
    alice
        .user()
        .parler("recv --room try --all")
        .success()
        .says("refs/heads/try");
}

#[test]
fn a_room_with_a_whole_history_can_be_cloned() {
    let world = world();
    let whole = world.init("whole", "");
    whole.commit("a.txt", "one\n");
    let commit = whole.commit("b.txt", "two\n");
    whole.git("push parler::room/whole main").success();

    let copy = world.clone_with("parler::room/whole", "copy", "");
    assert_eq!(copy.rev("HEAD"), commit);
    assert_eq!(copy.ask("symbolic-ref HEAD"), "refs/heads/main");
    assert_eq!(copy.ask("config remote.origin.url"), "parler::room/whole");
    assert_eq!(copy.ask("status --porcelain --branch"), "## main...origin/main");
    copy.fsck();

    // And it goes on like any other remote.
    let third = whole.commit("c.txt", "three\n");
    whole.git("push parler::room/whole main").success();
    copy.git("pull --quiet --ff-only").success();
    assert_eq!(copy.rev("HEAD"), third);
    let fourth = copy.commit("d.txt", "four\n");
    copy.git("push").success();
    assert_eq!(room_refs(&whole.user(), "whole")["refs/heads/main"], fourth);
}

#[test]
fn clones_of_every_form_work() {
    let world = world();
    let whole = world.init("whole", "");
    whole.commit("a.txt", "one\n");
    whole
        .git("push --quiet parler::room/whole main HEAD:refs/heads/topic")
        .success();
    let tip = whole.rev("HEAD");
    for (name, options) in [
        ("bare", "--bare"),
        ("branch", "--branch topic"),
        ("single", "--single-branch --branch topic"),
        ("named", "--origin team"),
        ("empty-tree", "--no-checkout"),
        ("reftable", "--ref-format=reftable"),
    ] {
        let copy = world.clone_with("parler::room/whole", name, options);
        assert_eq!(copy.rev("HEAD"), tip, "{name}");
        copy.fsck();
    }
    let path = world.path().join("empty");
    whole.user().parler("invite --group empty").success();
    world
        .user()
        .git(["clone", "parler::room/empty", path.to_str().unwrap()])
        .success()
        .warns("empty repository");
}

#[test]
fn a_room_is_a_remote_like_any_other() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    for repository in [&alice, &bob] {
        repository.git("remote add team parler::room/team").success();
    }
    alice.git("switch --quiet --create topic").success();
    alice.commit("a.txt", "one\n");
    alice.git("push --quiet --set-upstream team topic").success();
    bob.git("fetch --quiet team").success();
    assert_eq!(bob.rev("team/topic"), alice.rev("topic"));
    bob.git("switch --quiet --track team/topic").success();
    let commit = bob.commit("b.txt", "two\n");
    bob.git("push --quiet team HEAD").success();
    alice.git("pull --quiet --ff-only").success();
    assert_eq!(alice.rev("topic"), commit);
    let shown = alice.git("remote show team").success();
    shown.says("topic");
}

#[test]
fn on_another_hub_a_push_makes_a_room_only_when_told() {
    let world = world();
    let hub = super::hub_server::start(&world);
    let work = world.clone_of(&world.origin(), "work");
    let agent = world.stranger("alice").on(&hub).at(&work);
    agent
        .git("push parler::room/new HEAD:refs/heads/x")
        .code(128)
        .warns("no room 'new' that you belong to");
    agent
        .git("-c parler.createRoom=true push parler::room/new HEAD:refs/heads/x")
        .success();
    assert_eq!(room_refs(&agent, "new")["refs/heads/x"], work.rev("HEAD"));
}

#[test]
fn two_processes_of_one_agent_may_speak_at_once() {
    let world = world();
    let alice = world.agent("alice");
    alice.parler("invite --group talk").success();
    let speaking: Vec<_> = (0..8)
        .map(|number| alice.start_parler(["send", "--room", "talk", &format!("thing {number}.")]))
        .collect();
    for send in speaking {
        send.wait().success();
    }
    let hub = LocalHub::of(&alice);
    let reader = hub.raw_client("reader");
    // Checks numbers, chain and signatures.
    let log = parler_harness::read_log(&reader.calls, &hub.id, &"talk".parse().unwrap());
    assert_eq!(log.messages.len(), 8);
}

#[test]
fn several_fetches_of_one_repository_at_once_all_succeed() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let bobs = world.clone_of(&origin, "bobs");
    for number in 0..4 {
        work.commit("a.txt", &format!("{number}\n"));
        work.git(format!("push --quiet parler::room/try HEAD:refs/heads/b{number}"))
            .success();
    }
    let fetching: Vec<_> = (0..4)
        .map(|number| {
            bobs.user().start_git(format!(
                "fetch --quiet parler::room/try b{number}:refs/remotes/team/b{number}"
            ))
        })
        .collect();
    for fetch in fetching {
        fetch.wait().success();
    }
    assert_eq!(bobs.rev("team/b3"), work.rev("HEAD"));
    assert_eq!(bobs.pins(), work.pins());
    bobs.fsck();
}

/// The same agent, for whom git finds a helper without the program that should be beside it.
fn with_the_helper_alone<'w>(world: &World, agent: &Agent<'w>) -> Agent<'w> {
    let alone = world.path().join("alone");
    fs::create_dir(&alone).unwrap();
    let helper = env!("CARGO_BIN_EXE_git-remote-parler");
    let place = alone.join("git-remote-parler");
    // A link of the other kind would lead back to where it was built.
    fs::hard_link(helper, &place)
        .or_else(|_| fs::copy(helper, &place).map(|_| ()))
        .unwrap();
    let path = agent.run("sh", ["-c", "printf %s \"$PATH\""]).success();
    agent.with("PATH", format!("{}:{}", alone.display(), path.out()))
}

/// The helper holds no hub. What it says then goes for whoever installed one program of the two.
#[test]
fn the_helper_starts_the_hub_with_the_program_beside_it() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = with_the_helper_alone(&world, &work.user());
    let push = user.git("push parler::room/try HEAD:refs/heads/try").code(128);
    push.warns("there is no")
        .warns("install both programs in one directory");
}

#[test]
fn the_helper_ends_no_hub_that_it_cannot_replace() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.user().parler("invite --group kept").success();
    let hub = LocalHub::of(&work.user());
    claim(&world, json!({ "version": "0.0.9" }));
    let user = with_the_helper_alone(&world, &work.user());
    user.git("push parler::room/kept HEAD:refs/heads/main").success();
    assert!(hub.runs(&world));
    // The other one does.
    work.user().parler("rooms").success();
    assert!(!hub.runs(&world));
}
