//! What is not built yet says so: no option of git is accepted and then ignored.

use super::{room_refs, world};

#[test]
fn a_certificate_is_refused_and_nothing_moves() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try main").success();
    let before = room_refs(&work.user(), "try");
    work.commit("b.txt", "two\n");
    let refused = work.git("push --signed parler::room/try main").failure();
    assert!(!refused.err().is_empty(), "{refused:?}");
    assert_eq!(room_refs(&work.user(), "try"), before);
}

#[test]
fn a_lease_never_lets_a_ref_move_that_it_should_hold() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let base = work.rev("main");
    let first = work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try main").success();

    // A lease on something else, although the push by itself would be a fast-forward.
    work.commit("b.txt", "two\n");
    for lease in [
        format!("main:{base}"),
        "main:".to_owned(),
        format!("main:{}", work.rev("HEAD")),
    ] {
        let refused = work
            .git(format!("push --force-with-lease={lease} parler::room/try main"))
            .failure();
        assert!(!refused.err().is_empty(), "{refused:?}");
        assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], first, "{lease}");
    }

    // A lease that does not hold, on a push that needs force.
    work.git(["reset", "--quiet", "--hard", &base]).success();
    work.commit("c.txt", "another way\n");
    work.git(format!("push --force-with-lease=main:{base} parler::room/try main"))
        .failure();
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], first);
}

#[test]
fn a_shallow_or_partial_clone_says_that_everything_comes() {
    let world = world();
    let whole = world.init("whole", "");
    whole.commit("a.txt", "one\n");
    whole.commit("b.txt", "two\n");
    whole.git("push --quiet parler::room/whole main").success();
    for (number, option) in ["--depth=1", "--filter=blob:none"].into_iter().enumerate() {
        let name = format!("copy{number}");
        let path = world.path().join(&name);
        let clone = world
            .user()
            .git(["clone", option, "parler::room/whole", path.to_str().unwrap()])
            .success();
        clone.warns("whole histories");
        let copy = world.repository(path);
        assert_eq!(copy.ask("rev-list --count HEAD"), "2");
        copy.fsck();
    }
}
