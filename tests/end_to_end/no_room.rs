//! Receivers that cannot take what comes: a disk that is full, an object directory that may not be written. The fetch
//! fails with one line, nothing of it stays, and once there is room it succeeds.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use parler_harness::{Repository, Snapshot, World};

use super::{hub_server, noise, world};

/// The account that owns nothing.
const NOBODY: u32 = 65534;

/// A room with one bundle that does not compress, and a clone of its origin.
fn large<'w>(world: &'w World, hub: &parler_harness::HubProcess) -> (Repository<'w>, Repository<'w>, String) {
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    work.write("large.bin", noise(3 << 20, 1));
    work.git("add large.bin").success();
    work.git("commit --quiet --message large").success();
    let alice = work.user().on(hub);
    let code = alice.parler("invite --group try").success().word().to_owned();
    alice
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    let there = world.clone_of(&origin, "there");
    (work, there, code)
}

#[test]
fn a_disk_that_is_full_costs_the_fetch_and_nothing_else() {
    let world = world();
    let hub = hub_server::start(&world);
    let (work, there, code) = large(&world, &hub);
    let bob = there.user().with("PARLER_AGENT", "bob").on(&hub);
    bob.parler(["join", &code]).success();
    let before = Snapshot::of(&there);
    // No file may become larger than this, as on a disk that has no more room.
    for most in [4 << 10, 1 << 20, 3 << 20] {
        let limit = format!("--fsize={most}");
        let refused = bob
            .run(
                "prlimit",
                [&limit, "git", "fetch", "--quiet", "parler::room/try", "topic"],
            )
            .failure();
        refused.one_error_line();
        Snapshot::of(&there).assert_same_as(&before, &[".git/FETCH_HEAD", ".git/parler"]);
    }
    bob.git("fetch --quiet parler::room/try topic").success();
    assert_eq!(there.rev("FETCH_HEAD"), work.rev("HEAD"));
    there.fsck();
}

#[test]
fn an_object_directory_that_may_not_be_written_is_left_as_it_is() {
    let world = world();
    let hub = hub_server::start(&world);
    let (work, there, code) = large(&world, &hub);
    let bob = there.user().with("PARLER_AGENT", "bob").on(&hub);
    bob.parler(["join", &code]).success();
    let objects = there.path().join(".git/objects");
    world
        .user()
        .git(["config", "--global", "safe.directory", "*"])
        .success();
    let before = Snapshot::of(&there);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        // Whoever may everything is not refused: somebody else has to try.
        fs::set_permissions(world.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["git-parler", "git-remote-parler"] {
            let link = world.path().join("bin").join(name);
            fs::remove_file(&link).unwrap();
            parler_harness::copy_executable(world.program(), &link);
        }
        for place in [there.path(), &world.parler_home(), &world.temporary()] {
            give_away(place);
        }
    }
    fs::set_permissions(&objects, fs::Permissions::from_mode(0o555)).unwrap();
    let fetch = || match is_root {
        true => bob.run(
            "setpriv",
            format!("--reuid={NOBODY} --clear-groups git fetch --quiet parler::room/try topic"),
        ),
        false => bob.git("fetch --quiet parler::room/try topic"),
    };
    let refused = fetch().failure();
    assert!(
        refused
            .one_error_line()
            .contains("cannot write the repository's objects"),
        "{refused:?}"
    );
    fs::set_permissions(&objects, fs::Permissions::from_mode(0o755)).unwrap();
    Snapshot::of(&there).assert_same_as(&before, &[".git/FETCH_HEAD", ".git/parler"]);
    fetch().success();
    assert_eq!(there.rev("FETCH_HEAD"), work.rev("HEAD"));
}

fn give_away(place: &Path) {
    chown(place, Some(NOBODY), Some(NOBODY)).unwrap();
    if place.is_dir() && !place.is_symlink() {
        for entry in fs::read_dir(place).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}
