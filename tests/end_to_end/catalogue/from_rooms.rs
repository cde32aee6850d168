//! Group I from a room: what a member posts is refused like a file, and what is right comes all the same.

use parler_harness::Snapshot;

use super::forge::{commit, commit_text, header, object, pack, tree_entry};
use super::stage::{Room, Stage, assert_visible};
use crate::world;

#[test]
fn i06_headers_that_are_not_what_was_signed() {
    let world = world();
    let stage = Stage::new(&world);
    let mut room = Room::new(&world);
    let (base, tip, pack) = (stage.base.as_str(), stage.tip.as_str(), stage.good_pack());
    let bundle = |prerequisites: &[&str], refs: &[(&str, &str)]| [header(prerequisites, refs), pack.clone()].concat();
    let signed = ("refs/heads/a", tip);
    let cases = [
        ("another name", bundle(&[base], &[("refs/heads/b", tip)]), "refs"),
        (
            "one name more",
            bundle(&[base], &[signed, ("refs/heads/b", tip)]),
            "refs",
        ),
        ("another tip", bundle(&[base], &[("refs/heads/a", base)]), "refs"),
        ("no prerequisite", bundle(&[], &[signed]), "prerequisites"),
        ("another prerequisite", bundle(&[tip], &[signed]), "prerequisites"),
    ];
    for (number, (what, bytes, words)) in cases.iter().enumerate() {
        let name = format!("refs/heads/case{number}");
        let refs = parler_protocol::BundleRef {
            name: "refs/heads/a".parse().unwrap(),
            oid: tip.parse().unwrap(),
        };
        room.push(&name, tip, &[base], bytes, |part| part.refs = vec![refs]);
        let before = Snapshot::of(&stage.receiver);
        let fetch = stage.receiver.git(["fetch", "parler::room/x", &name]).code(128);
        assert!(
            fetch.one_error_line().contains("are not what its sender signed"),
            "{what}: {fetch:?}"
        );
        fetch.warns(words);
        Snapshot::of(&stage.receiver).assert_same_as(&before, &[".git/FETCH_HEAD", ".git/parler"]);
    }
}

#[test]
fn i20_odd_commits_are_taken_and_shown_without_harm() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    let tree = sender.rev("HEAD^{tree}");
    let text = commit_text(
        &tree,
        Some(&stage.base),
        "subject \u{1b}[31m\u{202e}\u{7}\n\n\u{1b}]0;x\u{7}",
    );
    let escapes = object(sender, "commit", text.as_bytes());
    let mut bytes = commit_text(&tree, Some(&escapes), "zero").into_bytes();
    let at = bytes.windows(4).position(|four| four == b"zero").unwrap();
    bytes[at + 1] = 0;
    let zero = object(sender, "commit", &bytes);
    let who = b"author \xff\xfe\x1b[2J <\xff@example.com> 1700000000 +0000\n";
    let head = format!("tree {tree}\nparent {zero}\n");
    let rest = b"committer A <a@example.com> 1700000000 +0000\n\n\xff\xfe\n";
    let unreadable = object(sender, "commit", &[head.as_bytes(), who, rest].concat());
    let oids = [escapes.as_str(), &zero, &unreadable, &tree];
    let mut oids = oids.to_vec();
    let listed = sender.ask(["ls-tree", "-r", "-t", "--object-only", "HEAD"]);
    oids.extend(listed.lines());
    let odd = [
        header(&[&stage.base], &[("refs/heads/x", &unreadable)]),
        pack(sender, &oids),
    ]
    .concat();
    stage.takes(&odd, "odd commits");
    // The same from a room, and shown.
    let mut room = Room::new(&world);
    room.push("refs/heads/x", &unreadable, &[&stage.base], &odd, |part| {
        part.summary = Some("\u{1b}[2J\u{202e}summary".into());
    });
    for command in ["show 1 --room x", "recv --all --room x", "log --room x"] {
        let shown = stage.receiver.user().parler(command).success();
        assert_visible(&shown, command);
    }

    // A very long message. It is imported, and a line of it at most is shown.
    let message = "m".repeat(32 << 20);
    let long = object(
        sender,
        "commit",
        commit_text(&tree, Some(&stage.base), &message).as_bytes(),
    );
    oids.push(&long);
    let bytes = [header(&[&stage.base], &[("refs/heads/x", &long)]), pack(sender, &oids)].concat();
    let taken = stage.takes(&bytes, "a long message");
    assert!(taken.out().len() < 1024, "{} bytes", taken.out().len());
}

#[test]
fn i_all_kinds_are_refused_from_a_room_as_well() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    let mut room = Room::new(&world);
    let (base, tip) = (stage.base.as_str(), stage.tip.as_str());
    let good_pack = stage.good_pack();
    let name = "refs/heads/x";
    let whole = |pack: &[u8]| [header(&[base], &[(name, tip)]), pack.to_vec()].concat();
    let tree = object(
        sender,
        "tree",
        &tree_entry("100644", "..", &sender.rev("HEAD:src/lib.rs")),
    );
    let dangerous = commit(sender, &tree, Some(base));
    let hollow = pack(sender, &[tip]);
    let mut damaged = good_pack.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let cases: Vec<(&str, String, Vec<u8>)> = vec![
        ("no bundle", tip.into(), b"<!DOCTYPE html>\n\n".to_vec()),
        (
            "a filter",
            tip.into(),
            [
                format!("# v3 git bundle\n@filter=blob:none\n-{base} \n{tip} {name}\n\n").into_bytes(),
                good_pack.clone(),
            ]
            .concat(),
        ),
        (
            "a bad name besides",
            tip.into(),
            [
                header(&[base], &[(name, tip), ("refs/heads/\u{1b}[2J", tip)]),
                good_pack.clone(),
            ]
            .concat(),
        ),
        ("a header alone", tip.into(), whole(b"")),
        ("half a pack", tip.into(), whole(&good_pack[..good_pack.len() / 2])),
        (
            "more behind it",
            tip.into(),
            whole(&[&good_pack[..], b"\nok refs/heads/x\n"].concat()),
        ),
        ("a wrong checksum", tip.into(), whole(&damaged)),
        ("a hollow commit", tip.into(), whole(&hollow)),
        (
            "a dangerous tree",
            dangerous.clone(),
            [
                header(&[base], &[(name, &dangerous)]),
                pack(sender, &[&dangerous, &tree]),
            ]
            .concat(),
        ),
        (
            "a tip that is a tree",
            tree.clone(),
            [header(&[base], &[(name, &tree)]), pack(sender, &[&tree])].concat(),
        ),
    ];
    for (number, (what, oid, bytes)) in cases.iter().enumerate() {
        let named = format!("refs/heads/case{number}");
        let refs = parler_protocol::BundleRef {
            name: name.parse().unwrap(),
            oid: oid.parse().unwrap(),
        };
        room.push(&named, oid, &[base], bytes, |part| part.refs = vec![refs]);
        let before = Snapshot::of(&stage.receiver);
        let fetch = stage.receiver.git(["fetch", "parler::room/x", &named]).code(128);
        // All claim the same, so that any of those that did may be the one that is named.
        assert!(fetch.one_error_line().contains("refs/heads/case"), "{what}: {fetch:?}");
        assert_visible(&fetch, what);
        fetch.warns("mallory");
        Snapshot::of(&stage.receiver).assert_same_as(&before, &[".git/FETCH_HEAD", ".git/parler"]);
    }
    // What is right comes all the same.
    room.push("refs/heads/good", tip, &[base], &stage.good(), |part| {
        part.refs[0].name = "refs/heads/main".parse().unwrap();
    });
    stage.receiver.git("fetch --quiet parler::room/x good").success();
    assert!(stage.receiver.has(tip));
    stage.receiver.fsck();
}

/// What the newest bundle is said to build on counts as reached from it, and is one of the room's tips all the same.
#[test]
fn a_bundle_that_is_said_to_build_on_what_it_does_not_makes_no_other_larger() {
    let world = world();
    let stage = Stage::new(&world);
    let mut room = Room::new(&world);
    let push = |refspec: &str| {
        stage
            .sender
            .git(["push", "--quiet", "parler::room/x", refspec])
            .success()
    };
    let commits = || {
        let log = stage.sender.user().parler("log --room x --json").success();
        let newest: serde_json::Value = serde_json::from_str(log.out().lines().next().unwrap()).unwrap();
        let mut parts = newest["parts"].as_array().unwrap().iter();
        parts.find_map(|part| part["commits"].as_u64()).unwrap()
    };
    // The room's first branch cannot be taken away.
    push("HEAD~1:refs/heads/main");
    push("HEAD:refs/heads/work");
    push(":refs/heads/work");
    stage.sender.commit("more.txt", "more\n");
    push("HEAD:refs/heads/next");
    assert_eq!(commits(), 1, "on top of what the room has as a bundle alone");
    push(":refs/heads/next");
    let tip = stage.sender.rev("HEAD");
    room.push("refs/heads/lie", &stage.base, &[&tip], &stage.good(), |_| ());
    stage.sender.commit("more.txt", "and more\n");
    push("HEAD:refs/heads/next");
    assert_eq!(commits(), 1);
    stage.receiver.git("fetch --quiet parler::room/x next").success();
    assert_eq!(stage.receiver.rev("FETCH_HEAD"), stage.sender.rev("HEAD"));
    stage.receiver.fsck();
}
