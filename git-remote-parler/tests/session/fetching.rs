//! Fetches: what is brought, pinned and told.

use std::fs;

use crate::world::{World, is_complete, refs};

#[test]
fn a_fetch_brings_the_commits_and_pins_the_bundle() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (origin, ours) = world.origin_and_clone("ours");
    let theirs = world.sandbox.clone(&origin, "theirs", &[]);
    let tip = ours.commit("a", "2\n");
    let id = alice.pushes(&ours, &["HEAD:refs/heads/topic"]).bundle().to_owned();
    let before = refs(&theirs, "refs/heads").join("\n") + &refs(&theirs, "refs/remotes").join("\n");
    let said = bob.fetches(&theirs, &["refs/heads/topic"]);
    assert_eq!(said.stderr, format!("parler: bundle {id} pinned as refs/parler/{id}\n"));
    assert!(said.stdout.ends_with("\n\n\n"), "{:?}", said.stdout);
    assert!(is_complete(&theirs, &[tip]));
    assert_eq!(refs(&theirs, "refs/parler/")[0], format!("{tip} refs/parler/{id}"));
    assert_eq!(refs(&theirs, "refs/parler/").len(), 2);
    assert_eq!(
        refs(&theirs, "refs/heads").join("\n") + &refs(&theirs, "refs/remotes").join("\n"),
        before
    );
    assert!(!theirs.git_dir().join("FETCH_HEAD").exists());
    // Again: nothing to do, nothing said.
    assert_eq!(bob.fetches(&theirs, &["refs/heads/topic"]).stderr, "");
}

#[test]
fn an_ordinary_fetch_needs_three_git_children() {
    let world = World::new();
    let (alice, mut bob) = (world.agent("alice"), world.agent("bob"));
    let (origin, ours) = world.origin_and_clone("ours");
    let theirs = world.sandbox.clone(&origin, "theirs", &[]);
    ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/topic"]);
    bob.git = world.sandbox.counting_git("log");
    bob.fetches(&theirs, &["refs/heads/topic"]);
    let children = world.sandbox.lines("log");
    assert!(children.len() <= 3, "{children:#?}");
}

#[test]
fn an_empty_repository_gets_a_whole_history_in_order() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let ours = world.sandbox.init("ours", &[]);
    let mut ids = Vec::new();
    for number in 0..7 {
        ours.commit("a", &format!("{number}\n"));
        ids.push(
            alice
                .pushes(&ours, &["refs/heads/main:refs/heads/main"])
                .bundle()
                .to_owned(),
        );
    }
    let theirs = world.sandbox.init("theirs", &[]);
    let tip = ours.oid("HEAD");
    let (said, result) = bob.talk(
        Some(&theirs.git_dir()),
        &format!("option cloning true\nlist\nfetch {tip} HEAD\nfetch {tip} refs/heads/main\n\n\n"),
    );
    result.unwrap();
    assert_eq!(said.stderr, "parler: 7 bundles pinned under refs/parler/\n");
    assert!(is_complete(&theirs, &[tip]));
    assert_eq!(refs(&theirs, "refs/parler/").len(), 14);
}

#[test]
fn pins_wait_for_git_when_it_asks_for_them() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let ours = world.sandbox.init("ours", &[]);
    for number in 0..200 {
        fs::write(ours.directory.join(number.to_string()), number.to_string()).unwrap();
    }
    let tip = ours.commit("a", "1\n");
    let id = alice
        .pushes(&ours, &["refs/heads/main:refs/heads/main"])
        .bundle()
        .to_owned();
    let theirs = world.sandbox.init("theirs", &[]);
    let name = format!("refs/parler/{id}");
    // The session breaks off before git says that it is done: the objects are there, no pin is.
    let lines = format!("list\nfetch {tip} {name}\n\nnonsense\n");
    bob.talk(Some(&theirs.git_dir()), &lines).1.unwrap_err();
    assert_eq!(refs(&theirs, "refs/parler/"), Vec::<String>::new());
    assert!(is_complete(&theirs, &[tip]));
    let keeps = || {
        let packs = fs::read_dir(theirs.git_dir().join("objects/pack")).unwrap();
        packs
            .flatten()
            .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "keep"))
            .count()
    };
    assert_eq!(keeps(), 0);

    let fresh = world.sandbox.init("fresh", &[]);
    bob.fetches(&fresh, &[&name]);
    assert_eq!(refs(&fresh, "refs/parler/").len(), 2);
}

#[test]
fn a_branch_in_the_middle_of_a_bundle_is_found() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let ours = world.sandbox.init("ours", &[]);
    ours.commit("a", "1\n");
    let middle = ours.commit("a", "2\n");
    ours.commit("a", "3\n");
    alice.pushes(&ours, &["refs/heads/main:refs/heads/main"]);
    let said = alice.pushes(&ours, &["HEAD~1:refs/heads/middle"]);
    assert_eq!(said.stderr, "parler: message 2 in room x\n");
    let theirs = world.sandbox.init("theirs", &[]);
    bob.fetches(&theirs, &["refs/heads/middle"]);
    assert!(is_complete(&theirs, &[middle]));
}

#[test]
fn an_object_that_the_room_does_not_have_is_named() {
    let world = World::new();
    let agent = world.agent("alice");
    let ours = world.sandbox.init("ours", &[]);
    ours.commit("a", "1\n");
    agent.pushes(&ours, &["refs/heads/main:refs/heads/main"]);
    let theirs = world.sandbox.init("theirs", &[]);
    let oid = "1".repeat(40);
    let (said, result) = agent.talk(Some(&theirs.git_dir()), &format!("list\nfetch {oid} {oid}\n\n\n"));
    let error = result.unwrap_err().to_string();
    assert!(error.contains(&oid) && error.contains("room 'x'"), "{error}");
    // Failure is never an empty line: git would look for itself and say something else.
    assert_eq!(said.blocks().len(), 1);
}

#[test]
fn the_cache_is_of_no_consequence() {
    let world = World::new();
    let agent = world.agent("alice");
    let ours = world.sandbox.init("ours", &[]);
    ours.commit("a", "1\n");
    agent.pushes(&ours, &["refs/heads/main:refs/heads/main"]);
    let listed = agent.list(&ours);
    let rooms = ours.git_dir().join("parler/rooms");
    let cached: Vec<_> = fs::read_dir(&rooms)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(cached.len(), 1);
    assert_eq!(agent.list(&ours), listed);
    fs::write(&cached[0], "{").unwrap();
    assert_eq!(agent.list(&ours), listed);
    fs::remove_dir_all(&rooms).unwrap();
    assert_eq!(agent.list(&ours), listed);
}

#[test]
fn what_a_killed_fetch_left_goes_also_when_nothing_is_new() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["HEAD:refs/heads/main"]);
    let left = repository.git_dir().join("objects/tmp_objdir-parler-1-abc");
    std::fs::create_dir_all(left.join("pack")).unwrap();
    std::fs::write(left.join("pack/tmp_pack_x"), "x").unwrap();
    agent.fetches(&repository, &["refs/heads/main"]);
    assert!(!left.exists());
}
