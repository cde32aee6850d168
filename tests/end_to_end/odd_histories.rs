//! Histories that say one thing and hold another: replaced and grafted commits, objects with holes, names and messages
//! that are not UTF-8. What travels is what the objects say.

use std::fs;

use parler_harness::{LocalHub, Repository, World};

use super::world;

/// A clone with two commits of its own on `topic`.
fn topic<'w>(world: &'w World, origin: &Repository<'w>) -> Repository<'w> {
    let work = world.clone_of(origin, "work");
    work.git("switch --quiet --create topic").success();
    work.commit("a.txt", "one\n");
    work.commit("a.txt", "two\n");
    work
}

fn objects(repository: &Repository<'_>, tip: &str) -> Vec<String> {
    let listed = repository.ask([
        "--no-replace-objects",
        "rev-list",
        "--objects",
        "--no-object-names",
        tip,
    ]);
    let mut objects: Vec<String> = listed.lines().map(str::to_owned).collect();
    objects.sort_unstable();
    objects
}

#[test]
fn replaced_commits_of_the_sender_are_not_sent_and_hide_nothing() {
    let world = world();
    let origin = world.origin();
    let work = topic(&world, &origin);
    // To its owner the topic has no history, and its tip's parent is another.
    work.git("replace --graft HEAD~1").success();
    work.git("replace --graft HEAD origin/main~1").success();
    for (room, base) in [("thin", "auto"), ("whole", "none")] {
        let setting = format!("parler.base={base}");
        work.git([
            "-c",
            &setting,
            "push",
            "--quiet",
            &format!("parler::room/{room}"),
            "topic",
        ])
        .success();
    }
    let there = world.clone_of(&origin, "there");
    there.git("fetch --quiet parler::room/thin topic").success();
    assert_eq!(objects(&there, "FETCH_HEAD"), objects(&work, "topic"));
    there.fsck();
    let whole = world.clone_with("parler::room/whole", "whole", "--branch=topic");
    assert_eq!(objects(&whole, "HEAD"), objects(&work, "topic"));
    whole.fsck();
    // What follows is decided by the objects, too: this is no fast-forward to its owner alone.
    work.commit("b.txt", "three\n");
    work.git("push --quiet parler::room/thin topic").success();
}

#[test]
fn what_the_receiver_has_replaced_is_there_all_the_same() {
    let world = world();
    let origin = world.origin();
    let work = topic(&world, &origin);
    work.git("push --quiet parler::room/try topic").success();
    for kind in ["replaced", "grafted"] {
        let there = world.clone_of(&origin, kind);
        if kind == "replaced" {
            there.git("replace --graft HEAD").success();
        } else {
            fs::create_dir_all(there.path().join(".git/info")).unwrap();
            fs::write(
                there.path().join(".git/info/grafts"),
                format!("{}\n", there.rev("HEAD")),
            )
            .unwrap();
        }
        there.git("fetch --quiet parler::room/try topic").success();
        assert_eq!(there.rev("FETCH_HEAD"), work.rev("topic"), "{kind}");
        let _ = fs::remove_file(there.path().join(".git/info/grafts"));
        assert_eq!(objects(&there, "FETCH_HEAD"), objects(&work, "topic"), "{kind}");
    }
}

#[test]
fn a_base_with_holes_is_brought_whole() {
    let world = world();
    let origin = world.origin();
    let work = topic(&world, &origin);
    work.git("push --quiet parler::room/try topic").success();
    for what in ["HEAD^{tree}", "HEAD:src/main.rs"] {
        let there = world.clone_of(&origin, &format!("without {}", what.replace([':', '^', '{', '}'], " ")));
        // The commits are there, nothing leads to them, and one of their objects is gone.
        there.git("reflog expire --expire=now --all").success();
        let packs = there.path().join(".git/objects/pack");
        let packed: Vec<_> = fs::read_dir(&packs)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        for pack in packed
            .iter()
            .filter(|path| path.extension().is_some_and(|end| end == "pack"))
        {
            let bytes = fs::read(pack).unwrap();
            fs::remove_file(pack).unwrap();
            there.user().feed("git", "unpack-objects -q", &bytes).success();
        }
        let lost = there.rev(what);
        let old = there.rev("HEAD~2");
        there.git(["update-ref", "refs/heads/main", &old]).success();
        there.git("remote set-head --delete origin").success();
        there.git(["update-ref", "refs/remotes/origin/main", &old]).success();
        there.git("reflog expire --expire=now --all").success();
        fs::remove_file(there.path().join(".git/objects").join(&lost[..2]).join(&lost[2..])).unwrap();
        there.git("fetch --quiet parler::room/try topic").success();
        assert_eq!(objects(&there, "FETCH_HEAD"), objects(&work, "topic"), "{what}");
        there.git("fsck --connectivity-only").success();
    }
}

#[test]
fn names_and_messages_need_not_be_utf8() {
    let world = world();
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let parent = work.rev("HEAD");
    let stream = [
        b"commit refs/heads/topic\ncommitter Andr".as_slice(),
        b"\xe9 <andre@example.com> 1700000000 +0000\nencoding ISO-8859-1\ndata 11\nunder \xfcb\xe4r\n",
        format!("from {parent}\n").as_bytes(),
        b"M 644 inline \"dir with blank/n\\303\\244me\\377.txt\"\ndata 3\n\xff\xfe\n\n".as_slice(),
        b"M 644 inline \"line\\nfeed\"\ndata 1\nx\n\n".as_slice(),
    ]
    .concat();
    work.import(&stream);
    let pushed = work.git("push parler::room/try topic").success();
    pushed.warns("bundle ");
    let there = world.clone_of(&origin, "there with blank and \u{fc}");
    there.git("fetch --quiet parler::room/try topic").success();
    assert_eq!(objects(&there, "FETCH_HEAD"), objects(&work, "topic"));
    let names = |repository: &Repository<'_>, tip: &str| {
        repository
            .git(["ls-tree", "-r", "-z", tip])
            .success()
            .out_bytes()
            .to_vec()
    };
    assert_eq!(names(&there, "FETCH_HEAD"), names(&work, "topic"));
    let shown = there.user().parler("recv --room try --all").success();
    assert!(shown.out_bytes().is_ascii() || str::from_utf8(shown.out_bytes()).is_ok());
    there.fsck();
}

#[test]
fn a_partial_clone_of_a_room_holds_everything_and_asks_once_for_what_is_nowhere() {
    let world = world();
    let origin = world.origin();
    let work = topic(&world, &origin);
    work.git("-c parler.base=none push --quiet parler::room/whole topic")
        .success();
    // The room is what git takes for the promisor of what is missing; nothing is.
    let partial = world.clone_with("parler::room/whole", "partial", "--filter=blob:none");
    assert_eq!(objects(&partial, "HEAD"), objects(&work, "topic"));
    partial.fsck();
    let hub = LocalHub::of(&partial.user());
    let mark = hub.log().mark();
    partial.git(format!("cat-file -e {:040x}", 1)).failure();
    // One fetch of git's own, whose helper asks nobody in turn.
    assert_eq!(hub.log().since(mark).len(), 1, "{:#?}", hub.log().since(mark));
    let mark = hub.log().mark();
    let tip = partial.commit("c.txt", "three\n");
    partial.git("push --quiet origin HEAD:refs/heads/topic").success();
    assert_eq!(hub.log().since(mark).len(), 2, "{:#?}", hub.log().since(mark));
    work.git("pull --quiet parler::room/whole topic").success();
    assert_eq!(work.rev("HEAD"), tip);
    partial.git("gc --quiet --prune=now").success();
    partial.fsck();
}

#[test]
fn a_partial_clone_takes_what_it_lacks_from_its_own_remote() {
    let world = world();
    let origin = world.origin();
    origin.git("config uploadpack.allowFilter true").success();
    let url = format!("file://{}", origin.path().display());
    let work = topic(&world, &origin);
    work.git("push --quiet parler::room/try topic").success();
    let partial = world.clone_with(&url, "partial", "--filter=blob:none --no-checkout");
    let hub = LocalHub::of(&partial.user());
    partial.git("fetch --quiet parler::room/try topic").success();
    let mark = hub.log().mark();
    partial.git("checkout --quiet FETCH_HEAD").success();
    assert_eq!(partial.ask("status --porcelain"), "");
    // A whole history of it is pushed with blobs that come from origin.
    partial
        .git("-c parler.base=none push --quiet parler::room/whole FETCH_HEAD:refs/heads/topic")
        .success();
    let asked = hub.log().since(mark);
    assert!(asked.iter().all(|line| !line.contains("bundles")), "{asked:#?}");
    let clone = world.clone_with("parler::room/whole", "clone", "");
    assert_eq!(objects(&clone, "HEAD"), objects(&work, "topic"));
    clone.fsck();
}

/// A bundle's deltas build on a version that the partial clone has never seen.
#[test]
fn what_deltas_are_made_of_comes_from_the_remote_of_a_partial_clone() {
    let world = world();
    let origin = world.origin();
    origin.git("config uploadpack.allowFilter true").success();
    let url = format!("file://{}", origin.path().display());
    let text = |version: u32| -> String {
        let line = |number: u32| format!("line {number} of version {}\n", if number == 100 { version } else { 0 });
        (0..200).map(line).collect()
    };
    let work = world.clone_of(&origin, "work");
    work.commit("long.txt", &text(0));
    work.git("push --quiet origin HEAD:main").success();
    let old = work.rev("HEAD:long.txt");
    let tip = work.commit("long.txt", &text(1));
    work.git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();

    let partial = world.clone_with(&url, "partial", "--filter=blob:none --no-checkout");
    let missing = |place: &Repository<'_>| place.ask("rev-list --objects --missing=print origin/main");
    assert!(missing(&partial).contains(&format!("?{old}")));
    partial.git("config remote.origin.url file:///nowhere/at/all").success();
    let refused = partial.git("fetch parler::room/try topic").code(128);
    let line = refused.one_error_line();
    assert!(line.contains("partial clone") && line.contains("origin"), "{refused:?}");
    assert!(partial.pins().is_empty());
    partial.git(["config", "remote.origin.url", &url]).success();
    partial.git("fetch --quiet parler::room/try topic").success();
    assert_eq!(partial.rev("FETCH_HEAD"), tip);
    assert!(!missing(&partial).contains(&format!("?{old}")), "it was fetched");
    partial.fsck();
}
