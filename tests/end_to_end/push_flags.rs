//! The flags of `git parler push`, and what forced, leased and atomic pushes of both programs do when they lose a race.

use std::collections::BTreeMap;

use parler_harness::{Gate, Repository, World};

use super::{room_refs, world};

/// A clone whose `main` is a commit ahead of its origin and pushed to the room `try`, as its remote `team`.
fn pushed(world: &World) -> Repository<'_> {
    let work = world.clone_of(&world.origin(), "work");
    work.git("remote add team parler::room/try").success();
    work.git("config parler.room try").success();
    work.commit("a.txt", "one\n");
    work.git("push --quiet team main main:refs/heads/topic").success();
    work
}

fn refs(work: &Repository<'_>) -> BTreeMap<String, String> {
    room_refs(&work.user(), "try")
}

#[test]
fn git_parler_push_forces_and_tries() {
    let world = world();
    let work = pushed(&world);
    let before = refs(&work);
    work.git("reset --quiet --hard HEAD~1").success();
    let other = work.commit("c.txt", "another way\n");
    work.user().parler("push main").code(6).one_error_line();
    let tried = work.user().parler("push --dry-run --force main").success();
    tried.says("nothing was sent").says("refs/heads/main");
    let tried = work.user().parler("push -n -f main --json").success().json();
    assert_eq!(
        (&tried["dryRun"], &tried["seq"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert_eq!(tried["refs"][0]["forced"], true);
    assert_eq!(refs(&work), before);
    let forced = work.user().parler("push --force main --json").success().json();
    assert_eq!(
        (&forced["dryRun"], &forced["refs"][0]["forced"]),
        (&false.into(), &true.into())
    );
    assert_eq!(refs(&work)["refs/heads/main"], other);
}

#[test]
fn git_parler_push_takes_leases_as_git_does() {
    let world = world();
    let work = pushed(&world);
    let first = work.rev("main");
    work.git("reset --quiet --hard HEAD~1").success();
    let other = work.commit("c.txt", "another way\n");
    for stale in ["main:HEAD", "main:", "refs/heads/main:HEAD~1", "topic"] {
        let refused = work
            .user()
            .parler(["push", &format!("--force-with-lease={stale}"), "main"])
            .code(6);
        refused.one_error_line();
        assert_eq!(refs(&work)["refs/heads/main"], first, "{stale}");
    }
    work.user().parler("push --force-with-lease=main:nowhere main").code(3);
    work.user().parler("push --force-with-lease main").success();
    assert_eq!(refs(&work)["refs/heads/main"], other);
    // What this repository saw last is not where the room has it: `git parler push` keeps no tracking refs.
    work.git("reset --quiet --hard HEAD~1").success();
    work.commit("d.txt", "a third way\n");
    let refused = work.user().parler("push --force-with-lease main").code(6);
    assert!(refused.one_error_line().contains("stale info"), "{refused:?}");
    work.git("fetch --quiet team").success();
    work.user().parler("push --force-with-lease=main main").success();

    // Without a remote nobody knows what to expect.
    work.git("remote remove team").success();
    let refused = work.user().parler("push --force-with-lease main").code(2);
    assert!(
        refused
            .one_error_line()
            .contains("--force-with-lease=refs/heads/main:EXPECT"),
        "{refused:?}"
    );
    work.user()
        .parler("push --force-with-lease=new: main:refs/heads/new")
        .success();
}

#[test]
fn git_parler_push_moves_all_refs_or_none() {
    let world = world();
    let work = pushed(&world);
    let before = refs(&work);
    work.git("reset --quiet --hard HEAD~1").success();
    work.commit("c.txt", "another way\n");
    let refused = work.user().parler("push --atomic main:new main").code(6);
    assert!(
        refused.one_error_line().contains("refs/heads/main was not sent"),
        "{refused:?}"
    );
    assert_eq!(refs(&work), before);
    work.user().parler("push main:new main").code(6);
    assert!(refs(&work).contains_key("refs/heads/new"));
}

#[test]
fn git_parler_push_deletes_what_the_room_has() {
    let world = world();
    let work = pushed(&world);
    work.git("push --quiet team main:refs/tags/topic main:refs/tags/v1 main:refs/changes/1")
        .success();
    let refused = work.user().parler("push --delete topic").code(2);
    refused.one_error_line();
    work.user().parler("push --delete nowhere").code(3).one_error_line();
    work.user().parler("push --delete main").code(7).one_error_line();
    work.user().parler("push --delete").code(2);
    work.user().parler("push -d v1 heads/topic refs/changes/1").success();
    let left: Vec<_> = refs(&work).into_keys().collect();
    assert_eq!(left, ["HEAD", "refs/heads/main", "refs/tags/topic"]);
    work.user().parler("push -d topic").success();
}

#[test]
fn a_full_push_that_is_up_to_date_names_the_full_bundle() {
    let world = world();
    let work = pushed(&world);
    let push = |arguments: &str| work.user().parler(format!("push --json {arguments}")).success().json();
    let thin = push("main")["bundleId"].clone();
    let full = push("--full main");
    assert!(
        full["bundleId"] != thin && full["bundleId"] == full["bundle"]["id"],
        "{full}"
    );
    let again = push("--full main");
    assert_eq!(
        (&again["bundle"], &again["bundleId"]),
        (&serde_json::Value::Null, &full["bundleId"])
    );
    assert_eq!(push("main")["bundleId"], thin);
}

/// Runs a push of `work` that has seen the room before another agent moved `main` there.
#[track_caller]
fn overtaken<'w>(world: &'w World, work: &Repository<'w>, push: &str) -> parler_harness::Answer {
    let rival = world.clone_with(world.path().join("origin.git"), "rival", "");
    rival.commit("r.txt", "rival\n");
    let mut gate = Gate::before_pushes(world, work);
    let running = gate.holds_pushes_of(&work.user()).start_git(push);
    gate.wait_for_arrival();
    rival.git("push --quiet --force parler::room/try main").success();
    gate.open();
    let answer = running.wait().code(1);
    assert_eq!(refs(work)["refs/heads/main"], rival.rev("main"));
    answer
}

#[test]
fn an_atomic_push_that_loses_a_race_moves_nothing() {
    let world = world();
    let work = pushed(&world);
    work.commit("b.txt", "two\n");
    let lost = overtaken(&world, &work, "push --atomic team main main:refs/heads/new :topic");
    lost.warns("main -> main (fetch first)")
        .warns("main -> new (atomic push failed)");
    lost.warns("topic (atomic push failed)");
    let left: Vec<_> = refs(&work).into_keys().collect();
    assert_eq!(left, ["HEAD", "refs/heads/main", "refs/heads/topic"]);
}

#[test]
fn without_atomic_the_others_move_when_one_loses_a_race() {
    let world = world();
    let work = pushed(&world);
    work.commit("b.txt", "two\n");
    let lost = overtaken(&world, &work, "push team main main:refs/heads/new :topic");
    lost.warns("main -> main (fetch first)")
        .warns("main -> new")
        .warns("[deleted]");
    let left: Vec<_> = refs(&work).into_keys().collect();
    assert_eq!(left, ["HEAD", "refs/heads/main", "refs/heads/new"]);
}

#[test]
fn a_lease_that_held_at_the_look_does_not_overwrite_what_came_after() {
    let world = world();
    let work = pushed(&world);
    work.git("reset --quiet --hard HEAD~1").success();
    work.commit("b.txt", "two\n");
    overtaken(&world, &work, "push --force-with-lease=main:team/main team main").warns("main -> main (stale info)");
}

#[test]
fn a_forced_push_overwrites_what_it_saw_and_nothing_else() {
    let world = world();
    let work = pushed(&world);
    work.git("reset --quiet --hard HEAD~1").success();
    work.commit("b.txt", "two\n");
    overtaken(&world, &work, "push --force team main").warns("main -> main (stale info)");
}
