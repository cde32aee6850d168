//! Every kind of repository that git makes can push to a room and fetch from one.

use parler_harness::{Repository, World};

use super::{room_refs, world};

/// Repositories with the history of one origin, each made in another way.
fn kinds(world: &World) -> Vec<(&'static str, Repository<'_>)> {
    let origin = world.origin();
    let plain = world.clone_of(&origin, "plain");
    plain.git("worktree add --quiet ../linked -b linked").success();
    let url = format!("file://{}", origin.path().display());
    vec![
        ("linked", world.repository(world.path().join("linked"))),
        ("plain", plain),
        ("bare", world.clone_with(origin.path(), "bare.git", "--bare")),
        (
            "reftable",
            world.clone_with(origin.path(), "reftable", "--ref-format=reftable"),
        ),
        ("shared objects", world.clone_with(origin.path(), "shared", "--shared")),
        ("partial", world.clone_with(&url, "partial", "--filter=blob:none")),
        ("shallow", world.clone_with(&url, "shallow", "--depth=1")),
        (
            "separate",
            world.clone_with(
                origin.path(),
                "separate",
                format!("--separate-git-dir={}", world.path().join("elsewhere.git").display()),
            ),
        ),
        (
            "submodule-like name",
            world.clone_with(origin.path(), "with blank and ü", ""),
        ),
    ]
}

/// A commit on top of `main`, made without a work tree.
fn commit(repository: &Repository<'_>, message: &str) -> String {
    let parent = repository.rev("HEAD");
    let commit = repository.ask(["commit-tree", "HEAD^{tree}", "-p", &parent, "-m", message]);
    repository.git(["update-ref", "refs/heads/topic", &commit]).success();
    commit
}

#[test]
fn each_kind_pushes_and_each_kind_fetches() {
    let world = world();
    let kinds = kinds(&world);
    let mut pushed = Vec::new();
    for (number, (kind, repository)) in kinds.iter().enumerate() {
        let tip = commit(repository, kind);
        let branch = format!("refs/heads/from{number}");
        let push = repository
            .git(["push", "parler::room/try", &format!("topic:{branch}")])
            .either();
        assert!(push.is_success(), "{kind}: {push:?}");
        pushed.push((branch, tip));
    }
    for (kind, repository) in &kinds {
        let fetch = repository
            .git(["fetch", "parler::room/try", "+refs/heads/*:refs/room/*"])
            .either();
        assert!(fetch.is_success(), "{kind}: {fetch:?}");
        let refs = repository.refs();
        for (branch, tip) in &pushed {
            let here = branch.replace("refs/heads/", "refs/room/");
            assert_eq!(refs.get(&here), Some(tip), "{kind}");
        }
        assert_eq!(repository.pins().len(), 2 * pushed.len(), "{kind}");
        repository.fsck();
    }
}

#[test]
fn sha256_repositories_have_rooms_of_their_own() {
    let world = world();
    let work = world.init("work", "--object-format=sha256");
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try main").success();
    let tip = work.commit("b.txt", "two\n");
    work.git("push --quiet parler::room/try main").success();
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], tip);

    let copy = world.clone_with("parler::room/try", "copy", "");
    assert_eq!(copy.rev("HEAD"), tip);
    assert_eq!(copy.ask("rev-parse --show-object-format"), "sha256");
    copy.fsck();

    // The other hash is refused on both sides, and nothing changes.
    let other = world.init("other", "");
    other.commit("a.txt", "one\n");
    let refused = other.git("push parler::room/try HEAD:refs/heads/other").failure();
    refused.warns("sha256");
    let before = other.refs();
    let refused = other.git("fetch parler::room/try").failure();
    assert!(
        refused.err().contains("sha256") || refused.err().contains("mismatched algorithms"),
        "{refused:?}"
    );
    assert_eq!(other.refs(), before);
    assert_eq!(room_refs(&work.user(), "try").len(), 2);
}

#[test]
fn a_push_from_below_a_shallow_boundary_says_how_to_deepen() {
    let world = world();
    let origin = world.origin();
    let url = format!("file://{}", origin.path().display());
    let shallow = world.clone_with(&url, "shallow", "--depth=1");
    shallow.commit("a.txt", "one\n");
    // Nobody is said to have the base: the bundle would not be complete.
    let refused = shallow
        .git("-c parler.base=none push parler::room/try HEAD:refs/heads/topic")
        .failure();
    refused.warns("shallow").warns("git fetch --unshallow");
    shallow
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    let full = world.clone_of(&origin, "full");
    full.git("fetch --quiet parler::room/try").success();
    full.fsck();
}

#[test]
fn settings_on_the_command_line_are_honoured() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let tip = work.commit("a.txt", "one\n");
    work.git("-c parler.agent=someone push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    let listed = work.user().parler("recv --room try --all").success();
    listed.says("from someone");
    let reftable = world.clone_with(world.path().join("origin.git"), "reftable", "--ref-format=reftable");
    reftable
        .git("-c parler.agent=another fetch --quiet parler::room/try")
        .success();
    assert_eq!(reftable.rev("FETCH_HEAD"), tip);
    work.user()
        .parler("roster --room try")
        .success()
        .says("someone")
        .says("another");
}

#[test]
fn commands_work_from_below_and_from_elsewhere() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let tip = work.commit("deep/down/a.txt", "one\n");
    let below = work.user().within("deep/down");
    below.git("push --quiet parler::room/try HEAD:refs/heads/one").success();
    below.parler("push --room try HEAD:refs/heads/two").success();
    let elsewhere = work.user().within(world.directory("elsewhere"));
    let git_dir = work.path().join(".git");
    elsewhere
        .git([
            "--git-dir",
            git_dir.to_str().unwrap(),
            "push",
            "--quiet",
            "parler::room/try",
            "main:refs/heads/three",
        ])
        .success();
    elsewhere
        .with("GIT_DIR", &git_dir)
        .git("push --quiet parler::room/try main:refs/heads/four")
        .success();
    elsewhere
        .with("GIT_DIR", &git_dir)
        .parler("push --room try main:refs/heads/five")
        .success();
    elsewhere
        .git([
            "-C",
            work.path().to_str().unwrap(),
            "parler",
            "push",
            "--room",
            "try",
            "main:refs/heads/six",
        ])
        .success();
    let shown = room_refs(&work.user(), "try");
    for branch in ["one", "two", "three", "four", "five", "six"] {
        assert_eq!(shown.get(&format!("refs/heads/{branch}")), Some(&tip), "{branch}");
    }

    // Paths are those of the place where the command was given.
    let bobs = world.clone_of(&origin, "bobs");
    let below = bobs.user().within("src");
    let id = work
        .pins()
        .into_keys()
        .find_map(|name| name.strip_prefix("refs/parler/").map(str::to_owned))
        .unwrap();
    below
        .parler(["fetch", &id, "--room", "try", "-o", "here.bundle"])
        .success();
    assert!(bobs.path().join("src/here.bundle").is_file());
    below.parler("apply here.bundle").success();
    below.parler("apply ./here.bundle").success();
    bobs.user().parler("apply src/here.bundle").success();
    assert_eq!(bobs.rev(&format!("refs/parler/{id}")), tip);
}

#[test]
fn a_hook_that_passes_on_what_it_then_declines_leaves_no_ref_at_what_is_thrown_away() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let middle = world.clone_with(work.path(), "middle", "--bare");
    let hook = middle.git_dir().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script =
        "#!/bin/sh\nread old new name\ngit push --quiet parler::room/x \"$new:$name\" || echo failed\nexit 1\n";
    parler_harness::write_executable(&hook, script);
    let tip = work.commit("a.txt", "one\n");
    let alice = world.agent("alice").at(&work);
    let declined = alice
        .git(["push", middle.path().to_str().unwrap(), "HEAD:refs/heads/topic"])
        .code(1);
    declined.warns("pre-receive hook declined").warns_no("remote: failed");
    let listed = alice.git("ls-remote parler::room/x refs/heads/topic").success();
    assert_eq!(listed.listed_refs()["refs/heads/topic"], tip);
    assert!(!middle.has(&tip));
    assert_eq!(middle.pins(), std::collections::BTreeMap::new());
    middle.fsck();
}
