//! What travels is what is new: a thin bundle, complete with what the receiver has, and refused in plain words without.

use std::fs;

use parler_harness::{Agent, Repository, World, large_history};
use parler_protocol::BundleId;

use super::{CACHE, noise, world};

const COMMITS: usize = 20_000;

/// A clone of the long history.
fn clone_of_long<'w>(world: &'w World, name: &str) -> Repository<'w> {
    let history = large_history(world, CACHE, COMMITS);
    world.clone_with(history, name, "")
}

/// The full ids of the bundles that a repository pinned.
fn bundle_ids(repository: &Repository<'_>) -> Vec<String> {
    let names = repository
        .pins()
        .into_keys()
        .map(|name| name["refs/parler/".len()..].to_owned());
    names.filter(|id| id.len() == 64).collect()
}

/// Takes a bundle's bytes out of a room.
#[track_caller]
fn download(agent: &Agent<'_>, id: &str, file: &str) -> Vec<u8> {
    let path = agent.directory().join(file);
    agent
        .parler(["fetch", id, "--room", "try", "-o", path.to_str().unwrap()])
        .success();
    fs::read(path).unwrap()
}

#[test]
fn one_commit_of_a_long_history_is_a_few_kilobytes() {
    let world = world();
    let work = clone_of_long(&world, "work");
    let bobs = clone_of_long(&world, "bobs");
    // One line of a file that has many: the change travels as a delta against what the receiver has.
    let file = fs::read_to_string(work.path().join("src/part0/file0.txt")).unwrap();
    let commit = work.commit("src/part0/file0.txt", &format!("{file}one more line\n"));
    work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();

    let [id] = &bundle_ids(&work)[..] else {
        panic!("{:?}", work.pins())
    };
    let bundle = download(&work.user(), id, "stored.bundle");
    assert!(bundle.len() < 4096, "{} bytes", bundle.len());
    // By itself its pack cannot be read: what it is a delta of is with the receiver.
    let pack = bundle.windows(4).position(|bytes| bytes == b"PACK").unwrap();
    let empty = world.init("empty", "");
    let by_itself = empty
        .user()
        .feed("git", "index-pack --stdin", &bundle[pack..])
        .failure();
    by_itself.warns("unresolved delta");
    assert_eq!(BundleId::of(&bundle).to_string(), *id);
    let sum = work.user().run("sha256sum", "stored.bundle").success();
    assert_eq!(sum.word().split(' ').next(), Some(id.as_str()));

    fs::copy(work.path().join("stored.bundle"), bobs.path().join("b.bundle")).unwrap();
    let verify = bobs.git("bundle verify b.bundle").success();
    verify
        .says("refs/heads/feature")
        .says(&commit)
        .says(&work.rev("HEAD~1"));
    assert_eq!(verify.out().matches("requires this ref").count(), 1, "{verify:?}");
    let heads = bobs.git("bundle list-heads b.bundle").success();
    assert_eq!(heads.word(), format!("{commit} HEAD\n{commit} refs/heads/feature"));
    // And git alone can use it.
    bobs.git("fetch --quiet b.bundle refs/heads/feature").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), commit);

    let carol = clone_of_long(&world, "carols");
    carol.git("fetch --quiet parler::room/try").success();
    assert_eq!(carol.rev("FETCH_HEAD"), commit);
    carol.fsck();
}

#[test]
fn pushes_build_on_each_other() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let mut tips = Vec::new();
    for number in 0..8 {
        tips.push(work.commit(&format!("file{number}"), &format!("{number}\n")));
        work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
            .success();
    }
    let ids = bundle_ids(&work);
    assert_eq!(ids.len(), tips.len());
    for id in &ids {
        let header = download(&work.user(), id, id);
        let header = String::from_utf8_lossy(&header[..header.windows(4).position(|bytes| bytes == b"PACK").unwrap()])
            .into_owned();
        assert_eq!(
            header.lines().filter(|line| line.starts_with('-')).count(),
            1,
            "{header}"
        );
    }
    let bobs = world.clone_of(&origin, "bobs");
    bobs.git("fetch --quiet parler::room/try").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), tips[7]);
    bobs.fsck();

    // Who has the first ones needs the last ones only; who wants one in the middle gets it with what is below.
    let carols = world.clone_of(&origin, "carols");
    let middle = ids
        .iter()
        .find(|id| work.rev(&format!("refs/parler/{id}")) == tips[3])
        .unwrap();
    carols.user().parler(["apply", middle, "--room", "try"]).success();
    assert_eq!(carols.rev(&format!("refs/parler/{middle}")), tips[3]);
    assert!(carols.has(&tips[0]) && !carols.has(&tips[4]));
    carols.git("fetch --quiet parler::room/try").success();
    assert_eq!(carols.rev("FETCH_HEAD"), tips[7]);
    carols.fsck();
}

/// Whoever pushes on top of a bundle sends what is new, whatever the dates of others say of when that was.
#[test]
fn a_clock_that_is_wrong_makes_no_bundle_larger() {
    let world = world();
    let (work, bobs) = (world.init("work", ""), world.init("bobs", ""));
    let past = work
        .user()
        .with("GIT_AUTHOR_DATE", "1970-01-02T00:00:00Z")
        .with("GIT_COMMITTER_DATE", "1970-01-02T00:00:00Z");
    for number in 0..12 {
        work.commit("a.txt", &format!("{number}\n"));
    }
    let base = work.rev("HEAD");
    work.git("push --quiet parler::room/try HEAD:refs/heads/main").success();
    for number in 0..20 {
        past.git(["commit", "--quiet", "--allow-empty", "-m", &number.to_string()])
            .success();
        work.git("push --quiet parler::room/try HEAD:refs/heads/main").success();
    }
    bobs.git("fetch --quiet parler::room/try main").success();
    bobs.git(["checkout", "--quiet", "-b", "side", &base]).success();
    bobs.commit("b.txt", "b\n");
    let pushed = bobs
        .user()
        .parler("push --json --room try HEAD:refs/heads/side")
        .success();
    assert_eq!(pushed.json()["bundle"]["commits"], 1, "{pushed:?}");
}

#[test]
fn two_agents_build_on_each_other() {
    let world = world();
    let origin = world.origin();
    let places = [world.clone_of(&origin, "one"), world.clone_of(&origin, "two")];
    for place in &places {
        place.git("remote add team parler::room/try").success();
    }
    for round in 0..6 {
        let place = &places[round % 2];
        if round > 0 {
            place.git("pull --quiet --ff-only team feature").success();
        }
        place.commit(&format!("file{round}"), "x\n");
        place.git("push --quiet team HEAD:refs/heads/feature").success();
    }
    let third = world.clone_of(&origin, "three");
    third.git("fetch --quiet parler::room/try").success();
    assert_eq!(third.rev("FETCH_HEAD"), places[1].rev("HEAD"));
    third.fsck();
}

#[test]
fn a_base_that_moved_on_is_still_a_base() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let commit = alice.commit("a.txt", "one\n");
    alice
        .git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let writer = world.clone_of(&origin, "writer");
    writer.commit("b.txt", "two\n");
    writer.git("push --quiet origin main").success();
    let bob = world.clone_of(&origin, "bob");
    assert_ne!(bob.rev("origin/main"), alice.rev("origin/main"));
    bob.git("fetch --quiet parler::room/try").success();
    assert_eq!(bob.rev("FETCH_HEAD"), commit);
}

#[test]
fn a_branch_that_is_on_origin_too_still_travels() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    alice.commit("a.txt", "one\n");
    alice.git("push --quiet origin main").success();
    let commit = alice.rev("HEAD");
    alice
        .git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    assert_eq!(bundle_ids(&alice).len(), 1);

    // A receiver who has not fetched origin since gets the commit from the room.
    let bob = world.init("bob", "");
    bob.git([
        "fetch",
        "--quiet",
        origin.path().to_str().unwrap(),
        &format!("{commit}~1:refs/remotes/origin/main"),
    ])
    .either();
    bob.git(["fetch", "--quiet", origin.path().to_str().unwrap(), "main"])
        .success();
    bob.git("update-ref refs/remotes/origin/main FETCH_HEAD~1").success();
    bob.git("fetch --quiet parler::room/try").success();
    assert_eq!(bob.rev("FETCH_HEAD"), commit);
}

#[test]
fn without_its_base_a_bundle_is_refused_with_the_command_that_helps() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_from_afar(&origin, "alice");
    let base = alice.rev("origin/main");
    let commit = alice.commit("a.txt", "one\n");
    alice
        .git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let [id] = &bundle_ids(&alice)[..] else {
        panic!("{:?}", alice.pins())
    };

    // Nothing is fetched from an address that is not one of the receiver's own remotes.
    let empty = world.init("empty", "");
    let refused = empty.git("fetch parler::room/try").code(128);
    refused.warns(&base[..7]).warns("git fetch").warns("refs/heads/main");
    assert!(!empty.has(&commit));
    assert!(empty.refs().is_empty());

    let apply = empty.user().parler(["apply", id, "--room", "try"]).code(8);
    let line = apply.one_error_line();
    assert!(line.contains(&base[..7]) && line.contains("git fetch"), "{line}");
    assert!(empty.refs().is_empty());
    let clone = world.user().git("clone --quiet parler::room/try copy").code(128);
    clone.warns("git fetch");

    // The command does help.
    let command = line.split("git fetch").nth(1).unwrap();
    empty
        .git(format!("fetch --quiet{}", command.trim_end_matches(['\'', '`'])))
        .success();
    empty.user().parler(["apply", id, "--room", "try"]).success();
    assert_eq!(empty.rev(&format!("refs/parler/{id}")), commit);
}

#[test]
fn a_base_on_its_authors_machine_is_not_told_to_anybody() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let base = alice.rev("origin/main");
    alice.commit("a.txt", "one\n");
    alice
        .git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let log = alice.user().parler("recv --room try --all --json").success();
    log.says(&base).says_no(world.path().to_str().unwrap());

    let empty = world.init("empty", "");
    let refused = empty.git("fetch parler::room/try").code(128);
    refused.warns(&base[..7]).warns("git parler push --full");
    assert!(empty.refs().is_empty());
    // Which is what helps.
    alice
        .user()
        .parler("push --room try --full HEAD:refs/heads/feature")
        .success();
    empty.git("fetch --quiet parler::room/try").success();
    assert_eq!(empty.rev("FETCH_HEAD"), alice.rev("HEAD"));
}

#[test]
fn a_missing_base_comes_from_the_receivers_own_origin() {
    let world = world();
    let origin = world.origin();
    let bob = world.clone_of(&origin, "bob");
    let writer = world.clone_of(&origin, "alice");
    writer.commit("a.txt", "one\n");
    writer.git("push --quiet origin main").success();
    let commit = writer.commit("b.txt", "two\n");
    writer
        .git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    // bob has not fetched since; his origin has what the bundle builds on.
    bob.git("fetch --quiet parler::room/try").success();
    assert_eq!(bob.rev("FETCH_HEAD"), commit);
    bob.fsck();
}

#[test]
fn with_base_none_the_whole_history_travels() {
    let world = world();
    let alice = world.clone_of(&world.origin(), "alice");
    let commit = alice.commit("a.txt", "one\n");
    alice
        .git("-c parler.base=none push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let copy = world.clone_with("parler::room/try", "copy", "");
    assert_eq!(copy.rev("HEAD"), commit);
    assert_eq!(copy.ask("rev-list --count HEAD"), "4");
}

#[test]
fn content_that_does_not_compress_travels_too() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let bobs = world.clone_of(&origin, "bobs");
    // More than is held in memory on the way, of bytes that no pack makes smaller.
    let content = noise(12 << 20, 1);
    work.write("noise.bin", &content);
    work.git("add noise.bin").success();
    work.git("commit --quiet --message noise").success();
    work.git("push --quiet parler::room/try HEAD:refs/heads/noise")
        .success();
    bobs.git("fetch --quiet parler::room/try noise").success();
    let shown = bobs.git("cat-file blob FETCH_HEAD:noise.bin").success();
    assert!(shown.out_bytes() == content, "other bytes arrived");
    assert_eq!(
        fs::read_dir(world.temporary()).unwrap().count(),
        0,
        "a temporary file was left"
    );

    // The stored file, on standard output.
    let [id] = &bundle_ids(&work)[..] else {
        panic!("{:?}", work.pins())
    };
    let bundle = bobs.user().parler(["fetch", id, "--room", "try", "-o", "-"]).success();
    assert_eq!(BundleId::of(bundle.out_bytes()).to_string(), *id);
}
