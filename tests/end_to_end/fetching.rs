//! What a fetch from a room brings besides what a plain repository has: pins, bundles by their ids, tags in one go.

use std::collections::BTreeMap;

use parler_harness::{LocalHub, Repository, World};

use super::world;

/// An author, and a reader who has fetched what there was.
fn pair(world: &World) -> (Repository<'_>, Repository<'_>) {
    let origin = world.origin();
    let author = world.clone_of(&origin, "author");
    let reader = world.clone_of(&origin, "reader");
    for repository in [&author, &reader] {
        repository.git("remote add team parler::room/try").success();
    }
    author.git("push --quiet team main").success();
    reader.git("fetch --quiet team").success();
    (author, reader)
}

/// The short names of pins that are new since.
fn new_pins(repository: &Repository<'_>, before: &BTreeMap<String, String>) -> Vec<String> {
    let is_short = |name: &String| name.split('/').nth(2).is_some_and(|id| id.len() == 12);
    let pins = repository.pins().into_keys();
    pins.filter(|name| is_short(name) && !before.contains_key(name))
        .collect()
}

/// What the hub answered while a fetch brought this.
#[track_caller]
fn requests_of(reader: &Repository<'_>, command: &str) -> Vec<String> {
    let hub = LocalHub::of(&reader.user());
    let mark = hub.log().mark();
    reader.git(command).success();
    hub.log().since(mark)
}

#[test]
fn a_bundle_is_fetched_by_its_id_in_every_spelling() {
    let world = world();
    let (author, reader) = pair(&world);
    let before = author.pins();
    let tip = author.commit("a.txt", "one\n");
    author.git("push --quiet team HEAD:refs/heads/topic").success();
    let short = new_pins(&author, &before).remove(0);
    let long = author
        .pins()
        .into_keys()
        .find(|name| name.starts_with(&short) && *name != short)
        .unwrap();
    for (number, refspec) in [
        short.clone(),
        long.clone(),
        format!("{short}:refs/heads/review0"),
        format!("+{long}:refs/heads/review1"),
        format!("{short}:{short}"),
        format!("{long}:{long}"),
    ]
    .iter()
    .enumerate()
    {
        let reader = world.clone_with(world.path().join("origin.git"), &format!("reader{number}"), "");
        reader.git(["fetch", "parler::room/try", refspec]).success();
        assert_eq!(reader.rev("FETCH_HEAD"), tip, "{refspec}");
        assert_eq!(reader.rev(&short), tip, "{refspec}");
        assert_eq!(reader.rev(&long), tip, "{refspec}");
        let here = refspec.rsplit_once(':').map(|(_, here)| here);
        assert_eq!(reader.rev(here.unwrap_or("FETCH_HEAD")), tip, "{refspec}");
        reader.fsck();
    }
    let unknown = format!("refs/parler/{}", "f".repeat(12));
    let refused = reader.git(["fetch", "team", &unknown]).code(128);
    refused.warns(&format!("fatal: couldn't find remote ref {unknown}"));
}

#[test]
fn all_bundles_are_fetched_by_a_pattern_and_named_alike() {
    let world = world();
    let (author, reader) = pair(&world);
    for name in ["a", "b"] {
        author
            .git(["switch", "--quiet", "--create", name, "origin/main"])
            .success();
        author.commit(name, "x\n");
        author
            .git(["tag", "--annotate", &format!("v{name}"), "--message", "x"])
            .success();
        author
            .git(["push", "--quiet", "team", name, &format!("v{name}")])
            .success();
    }
    reader.git("fetch --quiet team refs/parler/*:refs/parler/*").success();
    assert_eq!(reader.pins(), author.pins());
    reader
        .git("fetch --quiet team +refs/parler/*:refs/of-the-room/*")
        .success();
    for (name, oid) in author.pins() {
        assert_eq!(
            reader.rev(&name.replace("refs/parler/", "refs/of-the-room/")),
            oid,
            "{name}"
        );
    }
    reader.fsck();
}

#[test]
fn pruning_one_room_keeps_what_the_other_brought() {
    let world = world();
    let origin = world.origin();
    let reader = world.clone_of(&origin, "reader");
    let mut tips = Vec::new();
    let authors = ["one", "two"].map(|room| {
        let author = world.clone_of(&origin, &format!("author-of-{room}"));
        let url = format!("parler::room/{room}");
        author.git(["remote", "add", "team", &url]).success();
        reader.git(["remote", "add", room, &url]).success();
        author.git("push --quiet team main").success();
        author.git("switch --quiet --create topic").success();
        tips.push(author.commit(room, "x\n"));
        author.git("push --quiet team topic").success();
        author
    });
    reader.git("remote update").success();
    let pins = reader.pins();
    assert!(tips.iter().all(|tip| pins.values().any(|oid| oid == tip)), "{pins:#?}");
    for author in &authors {
        author.git("push --quiet team :topic").success();
    }
    for (command, gone) in [
        ("fetch --prune one", "refs/remotes/one/topic"),
        ("remote prune two", "refs/remotes/two/topic"),
    ] {
        assert!(reader.refs().contains_key(gone));
        reader.git(command).success();
        assert!(!reader.refs().contains_key(gone), "{command}");
        assert_eq!(reader.pins(), pins, "{command}");
    }
    for command in [
        "remote update --prune",
        "fetch --all --prune --prune-tags",
        "-c fetch.prune=true fetch --all -j2",
    ] {
        reader.git(command).success();
        assert_eq!(reader.pins(), pins, "{command}");
    }
    // Nothing else names these commits any more.
    reader.git("reflog expire --expire=now --all").success();
    reader.git("gc --quiet --prune=now").success();
    assert!(tips.iter().all(|tip| reader.has(tip)));
    reader.fsck();
}

#[test]
fn tags_come_with_their_commits_in_one_go() {
    let world = world();
    let (author, reader) = pair(&world);
    let expected = ["GET /v1/rooms/{room}/pushes 200", "GET /v1/rooms/{room}/bundles 200"];
    let tag = |name: &str, what: &str| {
        author
            .git(["tag", "--annotate", name, "--message", name, what])
            .success();
    };
    // On the branch's tip, below it, and on a tag; pushed with the branch.
    author.commit("a.txt", "one\n");
    tag("below", "HEAD");
    author.commit("b.txt", "two\n");
    tag("tip", "HEAD");
    tag("nested", "tip");
    author.git("tag light HEAD~1").success();
    author.git("push --quiet team main below tip nested light").success();
    assert_eq!(requests_of(&reader, "fetch --quiet team"), expected);
    for tag in ["below", "tip", "nested", "light"] {
        assert_eq!(reader.rev(tag), author.rev(tag), "{tag}");
    }

    // In pushes of their own: after the branch's, each on a commit that came with it.
    author.commit("c.txt", "three\n");
    author.commit("d.txt", "four\n");
    author.git("push --quiet team main").success();
    for (name, what) in [
        ("later-tip", "HEAD"),
        ("later-below", "HEAD~1"),
        ("later-nested", "later-below"),
    ] {
        tag(name, what);
        author.git(["push", "--quiet", "team", name]).success();
    }
    assert_eq!(requests_of(&reader, "fetch --quiet team"), expected);
    for tag in ["later-tip", "later-below", "later-nested"] {
        assert_eq!(reader.rev(tag), author.rev(tag), "{tag}");
    }
    reader.fsck();

    // New tags on what was here, and nothing else that is new.
    tag("past", "HEAD~3");
    author.git("push --quiet team past").success();
    assert_eq!(requests_of(&reader, "fetch --quiet team"), expected);
    assert_eq!(reader.rev("past"), author.rev("past"));
    assert_eq!(
        requests_of(&reader, "fetch --quiet team"),
        ["GET /v1/rooms/{room}/pushes 304"]
    );

    // Where nobody asked for tags their bundles are not downloaded.
    let pins = reader.pins();
    author.commit("e.txt", "five\n");
    author.git("push --quiet team main").success();
    tag("unwanted", "HEAD~1");
    author.git("push --quiet team unwanted").success();
    assert_eq!(requests_of(&reader, "fetch --quiet --no-tags team"), expected);
    assert_eq!(new_pins(&reader, &pins).len(), 1);
    assert!(!reader.refs().contains_key("refs/tags/unwanted"));
}

#[test]
fn a_room_as_a_submodule_is_followed_where_the_user_said_so_twice() {
    let world = world();
    let part = world.init("part", "");
    let tip = part.commit("a.txt", "one\n");
    part.git("push --quiet parler::room/part main").success();
    let whole = world.init("whole", "");
    whole
        .git("-c protocol.parler.allow=always -c parler.allowSubmodules=true submodule --quiet add parler::room/part part")
        .success();
    whole.git("commit --quiet --message part").success();
    whole.git("push --quiet parler::room/whole main").success();
    let clone = |name: &str, settings: &str| {
        let command = format!("{settings} clone --recurse-submodules parler::room/whole {name}");
        world.user().git(command).either()
    };
    let refused = clone("none", "");
    assert_eq!(refused.exit_code(), Some(1), "{refused:?}");
    refused.warns("fatal: transport 'parler' not allowed");
    let refused = clone("half", "-c protocol.parler.allow=always");
    assert_eq!(refused.exit_code(), Some(1), "{refused:?}");
    refused
        .warns("a room's URL that nobody typed")
        .warns("parler.allowSubmodules");
    let cloned = clone("both", "-c protocol.parler.allow=always -c parler.allowSubmodules=true");
    assert!(cloned.is_success(), "{cloned:?}");
    assert_eq!(world.repository(world.path().join("both/part")).rev("HEAD"), tip);
}

#[test]
fn an_object_that_is_nowhere_is_looked_for_in_few_requests() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    for number in 0..16 {
        work.git("checkout --quiet --detach origin/main").success();
        work.commit("a.txt", &format!("{number}\n"));
        work.git(format!("push --quiet parler::room/try HEAD:refs/heads/b{number}"))
            .success();
    }
    let there = world.clone_of(&origin, "there");
    let hub = LocalHub::of(&there.user());
    let mark = hub.log().mark();
    there
        .git(format!("fetch --quiet parler::room/try {:040x}", 1))
        .code(128)
        .warns("no bundle of room 'try' holds object");
    let asked = hub.log().since(mark);
    let of_bundles = asked.iter().filter(|line| line.contains("/bundles")).count();
    // 1, 2, 4, 8 and the last.
    assert_eq!(of_bundles, 5, "{asked:#?}");
}
