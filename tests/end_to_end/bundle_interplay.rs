//! Bundles are files of git's own: what a push makes is read by plain git, and what plain git makes is applied.

use std::ffi::OsString;
use std::path::PathBuf;

use parler_harness::{Repository, World};

use super::world;

/// A clone with a branch of its own, checked out and pushed whole.
fn pushed_whole<'w>(world: &'w World, origin: &Repository<'w>, refspec: &str) -> (Repository<'w>, PathBuf) {
    let work = world.clone_of(origin, "work");
    work.git("switch --quiet --create topic").success();
    work.commit("a.txt", "one\n");
    work.git("branch other HEAD~1").success();
    let push = work
        .user()
        .parler(["push", "--room", "try", "--full", "--json", refspec])
        .success()
        .json();
    let file = world.path().join("made.bundle");
    let id = push["bundleId"].as_str().unwrap();
    work.user()
        .parler(["fetch", id, "--room", "try", "--output", file.to_str().unwrap()])
        .success();
    (work, file)
}

fn heads(world: &World, file: &std::path::Path) -> Vec<String> {
    let listed = world
        .user()
        .git(["bundle", "list-heads", file.to_str().unwrap()])
        .success();
    let name = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    listed.out().lines().map(name).collect()
}

#[test]
fn git_clones_and_fetches_the_file_of_a_push() {
    let world = world();
    let (work, file) = pushed_whole(&world, &world.origin(), "topic");
    let path = file.to_str().unwrap();
    // What is checked out comes first: whoever asks for nothing by name gets it.
    assert_eq!(heads(&world, &file), ["HEAD", "refs/heads/topic"]);
    work.git(["bundle", "verify", path]).success().warns("is okay");
    let clone = world.clone_with(path, "clone", "");
    assert_eq!(clone.ask("symbolic-ref HEAD"), "refs/heads/topic");
    assert_eq!(clone.rev("HEAD"), work.rev("topic"));
    clone.fsck();
    let empty = world.init("empty", "");
    empty.git(["fetch", "--quiet", path]).success();
    assert_eq!(empty.rev("FETCH_HEAD"), work.rev("topic"));
    // It is one bundle of one ref, and named so.
    assert_eq!(work.pins().len(), 2);
    assert!(
        work.pins().keys().all(|name| !name.contains("HEAD")),
        "{:?}",
        work.pins()
    );
}

#[test]
fn what_is_not_checked_out_is_not_called_head() {
    let world = world();
    let origin = world.origin();
    let (work, file) = pushed_whole(&world, &origin, "other");
    assert_eq!(heads(&world, &file), ["refs/heads/other"]);
    // Without a branch, too, it is what is checked out.
    work.git("checkout --quiet --detach other").success();
    let again = work
        .user()
        .parler("push --room again --full --json HEAD:refs/heads/other")
        .success()
        .json();
    let file = world.path().join("again.bundle");
    work.user()
        .parler([
            "fetch",
            again["bundleId"].as_str().unwrap(),
            "--room=again",
            "-o",
            file.to_str().unwrap(),
        ])
        .success();
    assert_eq!(heads(&world, &file), ["HEAD", "refs/heads/other"]);
}

#[test]
fn a_bundle_of_several_refs_is_named_by_them() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.git("switch --quiet --create topic").success();
    work.commit("a.txt", "one\n");
    work.git("branch more").success();
    work.git("tag -a -m v1 v1").success();
    work.git("push --quiet parler::room/try topic more v1").success();
    let names: Vec<String> = work.pins().into_keys().collect();
    let below = |name: &str| names.iter().filter(|pin| pin.ends_with(name)).count();
    assert_eq!(names.len(), 6, "{names:?}");
    for name in ["/heads/topic", "/heads/more", "/tags/v1"] {
        assert_eq!(below(name), 2, "{names:?}");
    }
}

#[test]
fn whatever_git_puts_into_a_bundle_is_applied() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    work.git("switch --quiet --create topic").success();
    let tip = work.commit("a.txt", "one\n");
    work.git("tag -a -m v1 v1").success();
    work.git("branch more HEAD~2").success();
    // How it is made, and how many names it gets under its full id.
    for (number, (arguments, pins)) in [
        ("HEAD", 1),
        ("topic", 1),
        ("HEAD topic", 1),
        ("topic more", 2),
        ("--all", 6),
        ("topic ^origin/main", 1),
        ("v1", 1),
        ("refs/remotes/origin/main", 1),
    ]
    .into_iter()
    .enumerate()
    {
        for version in [2, 3] {
            let file = world.path().join(format!("v{version}-{number}.bundle"));
            let (path, option) = (file.to_str().unwrap(), format!("--version={version}"));
            let create = ["bundle", "create", "--quiet", &option, path];
            let all = create.into_iter().chain(arguments.split(' ')).map(OsString::from);
            work.git(all.collect::<Vec<_>>()).success();
            let receiver = world.clone_of(&origin, &format!("receiver{version}-{number}"));
            let applied = receiver.user().parler(["apply", "--json", path]).success().json();
            assert_eq!(
                applied["pins"].as_array().unwrap().len(),
                2 * pins,
                "{arguments}: {applied}"
            );
            assert_eq!(receiver.pins().len(), 2 * pins, "{arguments}");
            receiver.fsck();
            if arguments.contains("topic") || arguments == "HEAD" {
                assert!(receiver.has(&tip), "{arguments}");
            }
        }
    }
}

#[test]
fn pins_of_applied_files_do_not_pile_up_as_files() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let there = world.clone_of(&origin, "there");
    if !work.git("pack-refs -h").either().out().contains("--include") {
        return; // This git packs all refs or none.
    }
    there.has_git_pin();
    // Most of them are there already: a pin is a file like any other.
    let tip = there.rev("HEAD");
    let directory = there.common_dir().join("refs/parler");
    std::fs::create_dir_all(&directory).unwrap();
    for number in 0..90 {
        std::fs::write(directory.join(format!("{number:012x}")), format!("{tip}\n")).unwrap();
    }
    for number in 0..6 {
        work.commit("a.txt", &format!("{number}\n"));
        let file = world.path().join("next.bundle");
        let path = file.to_str().unwrap();
        work.git(["bundle", "create", "--quiet", path, "main", "^main~1"])
            .success();
        there.user().parler(["apply", path]).success();
    }
    assert_eq!(there.pins().len(), 102);
    let files = std::fs::read_dir(there.common_dir().join("refs/parler")).map_or(0, Iterator::count);
    assert!(files < 10, "{files}");
}
