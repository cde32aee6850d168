//! What an import leaves alone: everything but new objects and refs below `refs/parler/`.

use parler_harness::{Repository, Snapshot, World};

use super::world;

/// What `apply` may add: objects, pins with their reflogs, and our caches.
const PINS: [&str; 6] = [
    "ref refs/parler/",
    ".git/refs/parler",
    ".git/logs/refs/parler",
    ".git/objects/",
    ".git/parler",
    ".git/packed-refs",
];

struct Prepared<'w> {
    id: String,
    tip: String,
    receivers: Vec<(&'static str, Repository<'w>)>,
}

/// A room with one bundle, and receivers in every kind of state.
fn prepared(world: &World) -> Prepared<'_> {
    let origin = world.origin();
    let url = format!("file://{}", origin.path().display());
    let sender = world.clone_of(&origin, "sender");
    sender.git("switch --quiet --create feature").success();
    let tip = sender.commit("src/lib.rs", "changed here\n");
    sender.git("push --quiet parler::room/try feature").success();
    let id = sender
        .pins()
        .into_keys()
        .find_map(|name| name.strip_prefix("refs/parler/").map(str::to_owned))
        .unwrap();

    let dirty = world.clone_of(&origin, "dirty");
    dirty.write("src/lib.rs", "changed and not committed\n");
    dirty.write("untracked.txt", "not git's\n");
    dirty.git("add src/lib.rs").success();
    dirty.write("src/lib.rs", "changed once more\n");
    dirty.git("fetch --quiet origin").success();
    let detached = world.clone_of(&origin, "detached");
    detached.git("checkout --quiet --detach HEAD~1").success();
    detached.git("worktree add --quiet ../linked -b linked").success();
    let packed = world.clone_of(&origin, "packed");
    packed.git("pack-refs --all").success();
    let receivers = vec![
        ("dirty", dirty),
        ("detached", detached),
        ("linked", world.repository(world.path().join("linked"))),
        ("packed", packed),
        ("bare", world.clone_with(origin.path(), "bare.git", "--bare")),
        (
            "reftable",
            world.clone_with(origin.path(), "reftable", "--ref-format=reftable"),
        ),
        ("shallow", world.clone_with(&url, "shallow", "--depth=1")),
    ];
    Prepared { id, tip, receivers }
}

#[test]
fn apply_adds_objects_and_pins_and_nothing_else() {
    let world = world();
    let Prepared { id, tip, receivers } = prepared(&world);
    for (kind, receiver) in &receivers {
        let before = Snapshot::of(receiver);
        receiver.user().parler(["apply", &id, "--room", "try"]).success();
        let after = Snapshot::of(receiver);
        let mut allowed = PINS.to_vec();
        if *kind == "reftable" {
            allowed.push(".git/reftable/"); // Every ref of such a repository; the refs themselves are compared.
        }
        println!("{kind}");
        after.assert_same_as(&before, &allowed);
        assert_eq!(receiver.rev(&format!("refs/parler/{id}")), tip, "{kind}");
        assert_tidy(kind, &after);
        // The second time there is nothing left to do.
        let before = Snapshot::of(receiver);
        receiver.user().parler(["apply", &id, "--room", "try"]).success();
        Snapshot::of(receiver).assert_same_as(&before, &[".git/parler"]);
    }
}

#[test]
fn apply_of_a_file_adds_the_same() {
    let world = world();
    let Prepared { id, tip, receivers } = prepared(&world);
    let file = world.path().join("received.bundle");
    receivers[0]
        .1
        .user()
        .parler(["fetch", &id, "--room", "try", "-o", file.to_str().unwrap()])
        .success();
    for (kind, receiver) in &receivers {
        let before = Snapshot::of(receiver);
        receiver.user().parler(["apply", file.to_str().unwrap()]).success();
        let after = Snapshot::of(receiver);
        let mut allowed = PINS.to_vec();
        if *kind == "reftable" {
            allowed.push(".git/reftable/");
        }
        println!("{kind}");
        after.assert_same_as(&before, &allowed);
        assert_eq!(receiver.rev(&format!("refs/parler/{id}")), tip, "{kind}");
    }
}

#[test]
fn a_fetch_adds_what_git_writes_besides() {
    let world = world();
    let Prepared { id, tip, receivers } = prepared(&world);
    for (kind, receiver) in &receivers {
        let before = Snapshot::of(receiver);
        receiver
            .git("fetch --quiet parler::room/try feature:refs/remotes/team/feature")
            .success();
        let after = Snapshot::of(receiver);
        let mut allowed = PINS.to_vec();
        allowed.extend([
            ".git/FETCH_HEAD",
            ".git/worktrees/linked/FETCH_HEAD",
            "ref refs/remotes/team/feature",
            ".git/refs/remotes",
            ".git/logs/refs/remotes/team",
        ]);
        // Git's own way of keeping several processes from writing these at once.
        if *kind == "reftable" {
            allowed.push(".git/reftable/");
        }
        println!("{kind}");
        after.assert_same_as(&before, &allowed);
        assert_eq!(receiver.rev("refs/remotes/team/feature"), tip, "{kind}");
        assert_eq!(receiver.rev(&format!("refs/parler/{id}")), tip, "{kind}");
        assert_tidy(kind, &after);
    }
}

#[test]
fn a_lost_pin_comes_back_with_apply() {
    let world = world();
    let Prepared { id, tip, receivers } = prepared(&world);
    let (_, receiver) = &receivers[0];
    receiver.git("fetch --quiet parler::room/try").success();
    let pins = receiver.pins();
    for name in pins.keys() {
        receiver.git(["update-ref", "-d", name]).success();
    }
    // Git asks for nothing that it has, so a fetch brings no pin.
    receiver.git("fetch --quiet parler::room/try").success();
    receiver.user().parler(["apply", &id, "--room", "try"]).success();
    assert_eq!(receiver.pins(), pins);
    // A pin keeps its commit where nothing else does.
    receiver.git("reflog expire --expire=now --all").success();
    receiver.git("gc --quiet --prune=now").success();
    assert!(receiver.has(&tip));
}

#[test]
fn a_push_changes_nothing_of_its_own_repository_but_pins() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    work.write("a.txt", "not committed\n");
    let before = Snapshot::of(&work);
    work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let after = Snapshot::of(&work);
    after.assert_same_as(
        &before,
        &[
            "ref refs/parler/",
            ".git/refs/parler",
            ".git/packed-refs",
            ".git/logs/refs/parler",
            ".git/parler",
        ],
    );
}

#[test]
fn a_refused_import_leaves_nothing_at_all() {
    let world = world();
    let Prepared { id, receivers, .. } = prepared(&world);
    let file = world.path().join("b.bundle");
    receivers[0]
        .1
        .user()
        .parler(["fetch", &id, "--room", "try", "-o", file.to_str().unwrap()])
        .success();
    let good = std::fs::read(&file).unwrap();
    let pack = good.windows(4).position(|bytes| bytes == b"PACK").unwrap();
    let flip = |at: usize| {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        bad
    };
    let hostile = [
        ("cut in the pack", good[..good.len() - 30].to_vec()),
        ("cut before the trailer", good[..good.len() - 20].to_vec()),
        ("cut in the header", good[..pack - 10].to_vec()),
        ("a flipped bit in the pack", flip(pack + 40)),
        ("a flipped bit in the trailer", flip(good.len() - 5)),
        ("a flipped bit in a tip", flip(pack - 40)),
        ("more behind it", [&good[..], b"more"].concat()),
        ("nothing", Vec::new()),
    ];
    for (kind, receiver) in &receivers[..2] {
        for (what, bytes) in &hostile {
            std::fs::write(&file, bytes).unwrap();
            let before = Snapshot::of(receiver);
            let refused = receiver.user().parler(["apply", file.to_str().unwrap()]).failure();
            refused.one_error_line();
            println!("{kind}: {what}");
            Snapshot::of(receiver).assert_same_as(&before, &[]);
        }
    }
}

/// Asserts that no file is left which was only to be there for a while.
#[track_caller]
pub(crate) fn assert_tidy(kind: &str, after: &Snapshot) {
    let stray: Vec<_> = after
        .names()
        .filter(|name| {
            name.starts_with(".git/")
                && (name.contains("tmp_")
                    || name.contains("quarantine")
                    || name.ends_with(".lock")
                    || name.ends_with(".keep"))
        })
        .collect();
    assert!(stray.is_empty(), "{kind}: {stray:?}");
}
