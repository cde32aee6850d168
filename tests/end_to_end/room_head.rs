//! `git parler room head`: the branch that a clone checks out.

use super::{room_refs, world};

#[test]
fn head_moves_clones_follow_and_the_old_branch_can_go() {
    let world = world();
    let work = world.init("work", "");
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try main").success();
    work.commit("b.txt", "two\n");
    work.git("push --quiet parler::room/try main:refs/heads/trunk")
        .success();
    let user = work.user();
    user.parler("room head --room try")
        .success()
        .says("HEAD of 'try' is refs/heads/main");
    work.git("push parler::room/try :main")
        .code(1)
        .warns("deletion of the current branch prohibited");

    let moved = user.parler("room head trunk --room try --json").success().json();
    assert_eq!(moved["head"], "refs/heads/trunk");
    assert_eq!(moved["oid"].as_str(), Some(work.rev("main").as_str()));
    assert_eq!(moved["seq"], 3);
    let shown = user.parler("show 3 --room try").success();
    shown.says("head:").says("refs/heads/trunk");
    let again = user
        .parler("room head refs/heads/trunk --room try --json")
        .success()
        .json();
    assert_eq!(again["seq"], serde_json::Value::Null, "{again}");

    work.git("ls-remote --symref parler::room/try HEAD")
        .success()
        .says("ref: refs/heads/trunk\tHEAD");
    let copy = world.clone_with("parler::room/try", "copy", "");
    assert_eq!(copy.ask("symbolic-ref HEAD"), "refs/heads/trunk");
    assert_eq!(copy.rev("HEAD"), work.rev("main"));
    work.git("push --quiet parler::room/try :main").success();
    assert!(!room_refs(&user, "try").contains_key("refs/heads/main"));
    work.git("push parler::room/try :trunk").code(1);
    // Nobody needs a copy of the room's past to see it.
    let late = world.clone_with("parler::room/try", "late", "");
    assert_eq!(late.ask("symbolic-ref HEAD"), "refs/heads/trunk");
}

#[test]
fn head_is_a_branch_of_the_room() {
    let world = world();
    let work = world.init("work", "");
    work.commit("a.txt", "one\n");
    work.git("tag v1").success();
    work.git("push --quiet parler::room/try main v1").success();
    let user = work.user();
    for (name, code) in [("nowhere", 3), ("v1", 3), ("refs/tags/v1", 2), ("a..b", 2)] {
        let refused = user.parler(["room", "head", name, "--room", "try"]).code(code);
        refused.one_error_line();
    }
    user.parler("room head main --room nowhere").code(3);
    user.parler("room head --room try").success().says("refs/heads/main");
}

#[test]
fn an_empty_room_has_no_head_until_somebody_pushes() {
    let world = world();
    let work = world.init("work", "--initial-branch=trunk");
    let user = work.user();
    user.parler("invite --group try").success();
    let none = user.parler("room head --room try --json").success().json();
    assert_eq!(
        (&none["head"], &none["oid"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    user.parler("room head --room try").success().says("no branch yet");
    user.parler("room head trunk --room try").code(3).one_error_line();
    let copy = world.clone_with("parler::room/try", "copy", "");
    assert_eq!(copy.ask("symbolic-ref HEAD"), "refs/heads/main");

    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try trunk").success();
    user.parler("room head --room try").success().says("refs/heads/trunk");
    let copy = world.clone_with("parler::room/try", "full", "");
    assert_eq!(copy.ask("symbolic-ref HEAD"), "refs/heads/trunk");
}
