//! Ref changes as git users know them: new, moved, refused, forced, deleted; several at once; names that collide.

use std::collections::BTreeMap;

use parler_harness::{Repository, World};

use super::{room_refs, world};

/// A clone whose `main` is a commit ahead of its origin and pushed to the room `try`.
fn pushed(world: &World) -> Repository<'_> {
    let work = world.clone_of(&world.origin(), "work");
    work.git("remote add team parler::room/try").success();
    work.commit("a.txt", "one\n");
    work.git("push --quiet team main").success();
    work
}

#[test]
fn a_branch_is_made_moved_and_deleted() {
    let world = world();
    let work = pushed(&world);
    let second = work.commit("b.txt", "two\n");
    let moved = work.git("push team main").success();
    moved.warns("main -> main").warns_no("forced");
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], second);

    work.git("push --quiet team main:refs/heads/topic").success();
    work.git("push team :refs/heads/topic").success().warns(" - [deleted]");
    let left: Vec<_> = room_refs(&work.user(), "try").into_keys().collect();
    assert_eq!(left, ["HEAD", "refs/heads/main"]);
    work.git("push team main").success().warns("Everything up-to-date");
}

#[test]
fn a_branch_that_went_another_way_is_refused_in_gits_words_and_forced_on_demand() {
    let world = world();
    let work = pushed(&world);
    let first = work.rev("main");
    work.git("reset --quiet --hard HEAD~1").success();
    let other = work.commit("c.txt", "another way\n");

    let refused = work.git("push team main").code(1);
    refused.warns(" ! [rejected]").warns("main -> main (non-fast-forward)");
    refused.warns("error: failed to push some refs to 'parler::room/try'");
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], first);

    work.git("push --force team main").success().warns("(forced update)");
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], other);
    work.git("reset --quiet --hard HEAD~1").success();
    let third = work.commit("d.txt", "a third way\n");
    work.git("push team +main").success().warns("(forced update)");
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], third);
}

#[test]
fn git_parler_push_refuses_what_git_push_refuses() {
    let world = world();
    let work = pushed(&world);
    let first = work.rev("main");
    work.git("tag v1").success();
    work.user().parler("push --room try main v1").success();
    work.git("reset --quiet --hard HEAD~1").success();
    let other = work.commit("c.txt", "another way\n");
    work.git("tag --force v1").success();
    let refused = work.user().parler("push --room try main").code(6);
    assert!(refused.one_error_line().contains("main"), "{refused:?}");
    let refused = work.user().parler("push --room try v1").code(6);
    assert!(refused.one_error_line().contains("v1"), "{refused:?}");
    let stranger = world.clone_with(world.path().join("origin.git"), "stranger", "");
    stranger.commit("d.txt", "a third way\n");
    let refused = stranger.user().parler("push --room try main").code(6);
    assert!(refused.one_error_line().contains("main"), "{refused:?}");
    let shown = room_refs(&work.user(), "try");
    assert_eq!((&shown["refs/heads/main"], &shown["refs/tags/v1"]), (&first, &first));

    work.user().parler("push --room try +main +v1").success();
    let shown = room_refs(&work.user(), "try");
    assert_eq!((&shown["refs/heads/main"], &shown["refs/tags/v1"]), (&other, &other));
}

#[test]
fn what_the_room_has_and_i_do_not_is_to_be_fetched_first() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    alice.commit("a.txt", "one\n");
    alice.git("push --quiet parler::room/try main").success();
    bob.commit("b.txt", "two\n");
    let refused = bob.git("push parler::room/try main").code(1);
    refused.warns(" ! [rejected]").warns("main -> main (fetch first)");
    assert_eq!(room_refs(&bob.user(), "try")["refs/heads/main"], alice.rev("main"));
}

#[test]
fn of_several_refs_each_is_reported_and_the_good_ones_land() {
    let world = world();
    let work = pushed(&world);
    let first = work.rev("main");
    work.git("reset --quiet --hard HEAD~1").success();
    let other = work.commit("c.txt", "another way\n");
    work.git("branch good").success();
    work.git("branch better").success();
    let push = work.git("push team main good better:refs/heads/best").code(1);
    push.warns("main -> main (non-fast-forward)")
        .warns("good -> good")
        .warns("better -> best");
    let expected = BTreeMap::from(
        [
            ("HEAD", &first),
            ("refs/heads/best", &other),
            ("refs/heads/good", &other),
            ("refs/heads/main", &first),
        ]
        .map(|(name, oid)| (name.to_owned(), oid.clone())),
    );
    assert_eq!(room_refs(&work.user(), "try"), expected);
}

#[test]
fn several_refs_of_one_push_are_one_message() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    work.git("branch other HEAD~1").success();
    work.git("tag v1").success();
    work.git("push --quiet parler::room/try main other v1").success();
    let messages = work.user().parler("recv --room try --all --json").success();
    assert_eq!(messages.out().matches("com.parler.refs").count(), 1, "{messages:?}");
    assert_eq!(room_refs(&work.user(), "try").len(), 4);
}

#[test]
fn a_branch_that_would_be_a_directory_of_another_is_refused() {
    let world = world();
    let work = pushed(&world);
    work.git("push --quiet team main:refs/heads/a").success();
    let before = room_refs(&work.user(), "try");
    for name in ["a/b", "main/x/y"] {
        let refused = work.git(["push", "team", &format!("HEAD:refs/heads/{name}")]).code(1);
        refused.warns("rejected]").warns(&format!("-> {name} ("));
        assert_eq!(room_refs(&work.user(), "try"), before);
    }
    work.git("push --quiet team HEAD:refs/heads/deep/er").success();
    work.git("push team HEAD:refs/heads/deep").code(1).warns("-> deep (");
    // Where the old name goes in the same push, the new one fits.
    work.git("push team :refs/heads/a HEAD:refs/heads/a/b").success();
    assert!(room_refs(&work.user(), "try").contains_key("refs/heads/a/b"));
}

#[test]
fn sources_are_any_revision() {
    let world = world();
    let work = pushed(&world);
    work.commit("b.txt", "two\n");
    work.git([
        "push",
        "--quiet",
        "team",
        "HEAD~1:refs/heads/before",
        "main^{commit}:refs/heads/now",
        "@~2:refs/heads/base",
    ])
    .success();
    let oid = work.rev("HEAD");
    work.git(["push", "--quiet", "team", &format!("{oid}:refs/heads/by-oid")])
        .success();
    let shown = room_refs(&work.user(), "try");
    assert_eq!(shown["refs/heads/before"], work.rev("HEAD~1"));
    assert_eq!(shown["refs/heads/now"], oid);
    assert_eq!(shown["refs/heads/by-oid"], oid);
    assert_eq!(shown["refs/heads/base"], work.rev("origin/main"));
}

#[test]
fn names_of_every_namespace_travel() {
    let world = world();
    let work = pushed(&world);
    work.git(["notes", "add", "--message", "well done"]).success();
    work.git([
        "push",
        "--quiet",
        "team",
        "refs/notes/*:refs/notes/*",
        "HEAD:refs/changes/7/1",
        "HEAD:refs/heads/é/ü",
    ])
    .success();
    let shown = room_refs(&work.user(), "try");
    assert_eq!(shown["refs/notes/commits"], work.rev("refs/notes/commits"));
    assert_eq!(shown["refs/changes/7/1"], work.rev("HEAD"));
    assert_eq!(shown["refs/heads/é/ü"], work.rev("HEAD"));
    let bob = world.clone_with(world.path().join("origin.git"), "bob", "");
    bob.git("fetch --quiet parler::room/try refs/notes/*:refs/notes/*")
        .success();
    assert_eq!(bob.ask(["notes", "show", &work.rev("HEAD")]), "well done");
}

#[test]
fn refs_of_bundles_can_be_read_and_not_written() {
    let world = world();
    let work = pushed(&world);
    let before = work.git("ls-remote parler::room/try").success().listed_refs();
    let pin = before
        .keys()
        .find(|name| name.starts_with("refs/parler/"))
        .unwrap()
        .clone();
    for refspec in [
        "HEAD:refs/parler/mine".to_owned(),
        format!("+HEAD~1:{pin}"),
        format!(":{pin}"),
    ] {
        let push = work.git(["push", "team", &refspec]).either();
        push.warns("refs/parler/");
        assert_eq!(
            work.git("ls-remote parler::room/try").success().listed_refs(),
            before,
            "{refspec}"
        );
    }

    let nothing_to_keep = "refs/parler/none/*:refs/parler/*";
    work.git(["push", "--prune", "team", nothing_to_keep]).either();
    work.git("push --prune team refs/parler/*:refs/parler/*").success();
    assert_eq!(work.git("ls-remote parler::room/try").success().listed_refs(), before);

    let bob = world.clone_with(world.path().join("origin.git"), "bob", "");
    bob.git(["fetch", "--quiet", "parler::room/try", &pin]).success();
    assert_eq!(bob.rev("FETCH_HEAD"), work.rev("main"));
    assert_eq!(bob.rev(&pin), work.rev("main"));
}

#[test]
fn head_is_the_first_branch_and_stays() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.git("switch --quiet --create topic").success();
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try main topic").success();
    let head = work.git("ls-remote --symref parler::room/try HEAD").success();
    head.says("ref: refs/heads/topic\tHEAD");
    let refused = work.git("push parler::room/try :refs/heads/topic").code(1);
    refused.warns("rejected]").warns("topic");
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/topic"], work.rev("topic"));
    work.git("push parler::room/try :refs/heads/main").success();
}

#[test]
fn a_pruning_fetch_drops_what_is_gone_and_keeps_pins() {
    let world = world();
    let origin = world.origin();
    let alice = world.clone_of(&origin, "alice");
    let bob = world.clone_of(&origin, "bob");
    bob.git("remote add team parler::room/try").success();
    let main = alice.commit("a.txt", "one\n");
    alice.git("push --quiet parler::room/try main").success();
    alice.git("switch --quiet --create topic").success();
    let topic = alice.commit("b.txt", "two\n");
    alice.git("push --quiet parler::room/try topic").success();
    bob.git("fetch --quiet team").success();
    assert_eq!(bob.rev("team/topic"), topic);

    alice.git("push --quiet parler::room/try :refs/heads/topic").success();
    let pins = bob.pins();
    bob.git("fetch --prune team").success().warns("[deleted]");
    let refs = bob.refs();
    assert!(!refs.contains_key("refs/remotes/team/topic"));
    assert_eq!(refs["refs/remotes/team/main"], main);
    assert_eq!(bob.pins(), pins);
    assert!(bob.has(&topic), "a pin keeps the commit");
}

#[test]
fn a_mirror_holds_every_ref_and_can_be_fetched_again() {
    let world = world();
    let whole = world.init("whole", "");
    whole.commit("a.txt", "one\n");
    whole.git(["tag", "--annotate", "v1", "--message", "first"]).success();
    whole
        .git("push --quiet parler::room/whole main v1 HEAD:refs/heads/topic HEAD:refs/changes/1")
        .success();

    let mirror = world.clone_with("parler::room/whole", "mirror.git", "--mirror");
    let shown = whole.git("ls-remote parler::room/whole").success().listed_refs();
    let expected: BTreeMap<_, _> = shown
        .into_iter()
        .filter(|(name, _)| name.starts_with("refs/") && !name.ends_with("^{}"))
        .collect();
    assert_eq!(mirror.refs(), expected);
    mirror.fsck();

    whole.commit("b.txt", "two\n");
    whole.git("push --quiet parler::room/whole main").success();
    mirror.git("fetch --quiet --prune").success();
    assert_eq!(mirror.rev("refs/heads/main"), whole.rev("main"));
    mirror.fsck();
}

#[test]
fn push_mirror_makes_the_room_equal_twice() {
    let world = world();
    let work = world.init("work", "");
    work.commit("a.txt", "one\n");
    work.git("branch topic").success();
    work.git("push --quiet --mirror parler::room/try").success();
    work.commit("b.txt", "two\n");
    work.git("branch --quiet --delete topic").success();
    // Now there are pins of the first push, here and in the room.
    work.git("push --quiet --mirror parler::room/try").success();
    // And nothing is left to do, though git asks for the pins again.
    let again = work.git("push --mirror parler::room/try").success();
    again.warns("Everything up-to-date").warns_no("rejected");
    let shown = room_refs(&work.user(), "try");
    let expected = BTreeMap::from([
        ("HEAD".to_owned(), work.rev("main")),
        ("refs/heads/main".to_owned(), work.rev("main")),
    ]);
    assert_eq!(shown, expected);
}

#[test]
fn a_branch_at_known_commits_needs_no_bundle() {
    let world = world();
    let work = pushed(&world);
    work.git("push --quiet team main:refs/heads/again main:refs/tags/light")
        .success();
    let messages = work.user().parler("recv --room try --all --json").success();
    assert_eq!(
        messages.out().matches("\"com.parler.bundle\"").count(),
        1,
        "{messages:?}"
    );
    let bob = world.clone_with(world.path().join("origin.git"), "bob", "");
    bob.git("fetch --quiet parler::room/try refs/heads/*:refs/remotes/team/*")
        .success();
    assert_eq!(bob.rev("team/again"), work.rev("main"));
}

#[test]
fn hundreds_of_branches_travel_in_one_message() {
    let world = world();
    let work = pushed(&world);
    let tip = work.rev("HEAD");
    let mut commands = String::new();
    for number in 0..400 {
        commands.push_str(&format!("create refs/heads/many/{number} {tip}\n"));
    }
    work.user()
        .feed("git", "update-ref --stdin", commands.as_bytes())
        .success();
    work.git(["push", "--quiet", "team", "refs/heads/many/*:refs/heads/many/*"])
        .success();
    let bob = world.clone_with(world.path().join("origin.git"), "bob", "");
    bob.git("fetch --quiet parler::room/try refs/heads/*:refs/remotes/team/*")
        .success();
    let here = bob
        .refs()
        .into_keys()
        .filter(|name| name.starts_with("refs/remotes/team/many/"))
        .count();
    assert_eq!(here, 400);
    work.git([
        "push",
        "--quiet",
        "--prune",
        "team",
        "refs/heads/other/*:refs/heads/many/*",
    ])
    .success();
    assert_eq!(room_refs(&work.user(), "try").len(), 2);
}
