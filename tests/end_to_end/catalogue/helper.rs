//! Group H: what git, or whoever plays git, may hand to the helper.

use std::fs;

use parler_harness::{Snapshot, write_executable};

use super::stage::{Room, Stage, assert_visible};
use crate::world;

#[test]
fn h02_addresses_that_hold_what_moves_a_terminal() {
    let world = world();
    let stage = Stage::new(&world);
    let user = stage.receiver.user();
    let before = Snapshot::of(&stage.receiver);
    for address in [
        "room/x\ny",
        "room/x\ry",
        "room/x\u{1b}[2Jy",
        "room/x%0ay",
        "room/x%0dy",
        "room/x%00",
        "room/x\u{202e}y",
        "room/x\u{7f}",
        "room/x\u{9b}2J",
        "//127.0.0.1:1%0a/room/x",
        "http://127.0.0.1:1\u{1b}/room/x",
        "https://hub.example\n/room/x",
        "--help",
        "-u/x",
        "room/-x",
        "service/\u{1b}",
        "dm/\n",
    ] {
        for arguments in [vec!["origin", address], vec![address]] {
            let arguments: Vec<std::ffi::OsString> = arguments.into_iter().map(Into::into).collect();
            let answer = user.run("git-remote-parler", arguments).failure();
            assert_eq!(answer.exit_code(), Some(128), "{address:?}: {answer:?}");
            answer.one_error_line();
            assert_visible(&answer, address);
            assert!(answer.out().is_empty(), "{address:?}: {answer:?}");
        }
    }
    Snapshot::of(&stage.receiver).assert_same_as(&before, &[]);
    assert_eq!(
        fs::read_dir(world.parler_home()).unwrap().count(),
        0,
        "something was made"
    );
}

#[test]
fn h06_an_address_that_nobody_typed_is_not_followed() {
    let world = world();
    let stage = Stage::new(&world);
    let user = stage.receiver.user().with("GIT_PROTOCOL_FROM_USER", "0");
    for command in ["ls-remote parler::room/x", "fetch parler::room/x"] {
        let answer = user.git(command).code(128);
        assert!(!answer.err().is_empty(), "{answer:?}");
    }
    let answer = user.feed("git-remote-parler", "origin parler::room/x", b"capabilities\nlist\n\n");
    answer.code(128).warns("nobody typed").says_no("refs/");
    assert_eq!(
        fs::read_dir(world.parler_home()).unwrap().count(),
        0,
        "something was made"
    );
}

#[test]
fn h08_what_no_git_would_say_ends_the_session() {
    let world = world();
    let stage = Stage::new(&world);
    let room = Room::new(&world);
    let before = Snapshot::of(&stage.receiver);
    let long = [b"option x ".to_vec(), vec![b'x'; 4 << 20], b"\n".to_vec()].concat();
    let many = b"fetch ".repeat(1 << 20);
    for (what, input) in [
        ("an unknown command", b"destroy everything\n\n".to_vec()),
        ("an escape", b"\x1b[2J\n\n".to_vec()),
        ("bytes that are no text", b"\xff\xfe\x00\x01\n\n".to_vec()),
        ("a zero", b"list\0\n\n".to_vec()),
        ("a line of 4 MiB", long),
        ("a line that does not end", many),
        ("the end in the middle of a batch", b"push HEAD:refs/heads/x\n".to_vec()),
        ("the end in the middle of a line", b"list\nfetch 1234".to_vec()),
        ("a connection", b"connect git-upload-pack\n".to_vec()),
        ("a program", b"stateless-connect git-upload-pack\n".to_vec()),
        ("an import", b"import refs/heads/x\n\n".to_vec()),
        ("a fetch of nothing", b"list\nfetch\n\n".to_vec()),
        ("a push of nothing", b"list for-push\npush\n\n".to_vec()),
    ] {
        let answer = stage
            .receiver
            .user()
            .with("GIT_DIR", stage.receiver.git_dir())
            .feed("git-remote-parler", "origin parler::room/x", &input)
            .either();
        assert_eq!(answer.exit_code(), Some(128), "{what}: {answer:?}");
        answer.one_error_line();
        assert_visible(&answer, what);
        assert!(answer.err().len() < 1024, "{what}: {} bytes", answer.err().len());
        Snapshot::of(&stage.receiver).assert_same_as(&before, &[".git/parler"]);
    }
    // With lines of another system, as far as anybody can be understood.
    let answer = stage
        .receiver
        .user()
        .feed("git-remote-parler", "origin parler::room/x", b"capabilities\r\n\r\n")
        .success();
    answer.says("fetch\npush\n");
    assert!(crate::room_refs(&world.user(), room.name.as_str()).is_empty());
}

#[test]
fn h10_an_object_that_was_not_shown_is_not_fetched() {
    let world = world();
    let stage = Stage::new(&world);
    let mut room = Room::new(&world);
    room.push("refs/heads/main", &stage.tip, &[&stage.base], &stage.good(), |_| ());
    for oid in [
        "1".repeat(40),
        "0".repeat(40),
        "f".repeat(64),
        "HEAD".into(),
        "--all".into(),
        stage.tip[..20].into(),
    ] {
        let before = Snapshot::of(&stage.receiver);
        let input = format!("list\nfetch {oid} refs/heads/main\n\n\n");
        let answer = stage
            .receiver
            .user()
            .with("GIT_DIR", stage.receiver.git_dir())
            .feed("git-remote-parler", "origin parler::room/x", input.as_bytes())
            .either();
        assert_eq!(answer.exit_code(), Some(128), "{oid}: {answer:?}");
        answer.one_error_line();
        assert_visible(&answer, &oid);
        // It may be in the middle of a bundle, so those that are in the room have been looked through; no ref of git's moves.
        let looked_through = [
            "ref refs/parler/",
            ".git/refs/parler",
            ".git/packed-refs",
            ".git/objects/",
            ".git/parler",
        ];
        Snapshot::of(&stage.receiver).assert_same_as(&before, &looked_through);
    }
}

#[test]
fn h15_an_environment_that_points_elsewhere_reaches_no_child() {
    let world = world();
    let stage = Stage::new(&world);
    let elsewhere = world.directory("elsewhere");
    let canary = elsewhere.join("canary");
    write_executable(&canary, &format!("#!/bin/sh\ntouch '{}/ran'\n", elsewhere.display()));
    let program = canary.to_str().unwrap();
    let config = elsewhere.join("config");
    fs::write(
        &config,
        format!(
            "[core]\n\tfsmonitor = {program}\n\thooksPath = {}\n",
            elsewhere.display()
        ),
    )
    .unwrap();
    std::os::unix::fs::symlink(&canary, elsewhere.join("reference-transaction")).unwrap();
    let file = world.path().join("good.bundle");
    let good = stage.good();
    fs::create_dir(elsewhere.join("tree")).unwrap();
    let place = |name: &str| elsewhere.join(name).to_str().unwrap().to_owned();
    let parameters = format!("'core.fsmonitor={program}' 'core.hookspath={}'", elsewhere.display());
    for (name, value) in [
        ("GIT_WORK_TREE", place("tree")),
        ("GIT_INDEX_FILE", place("index")),
        ("GIT_CONFIG_GLOBAL", config.to_str().unwrap().to_owned()),
        ("GIT_CONFIG_PARAMETERS", parameters),
        ("GIT_CONFIG_COUNT", "0".into()),
        ("GIT_EXTERNAL_DIFF", program.into()),
        ("GIT_PAGER", program.into()),
        ("GIT_EDITOR", program.into()),
        ("GIT_ASKPASS", program.into()),
        ("GIT_SSH_COMMAND", program.into()),
        ("GIT_PROXY_COMMAND", program.into()),
        ("GIT_GRAFT_FILE", place("grafts")),
        ("GIT_SHALLOW_FILE", place("shallow")),
        ("GIT_REPLACE_REF_BASE", "refs/heads/".into()),
        ("GIT_ALLOW_PROTOCOL", "ext:file:https".into()),
        ("GIT_TEMPLATE_DIR", elsewhere.to_str().unwrap().to_owned()),
        ("GIT_TRACE2_EVENT", "relative".into()),
        ("GIT_LITERAL_PATHSPECS", "1".into()),
        ("GIT_DEFAULT_HASH", "sha256".into()),
        ("LD_DEBUG_OUTPUT", place("ld")),
    ] {
        fs::write(&file, &good).unwrap();
        let before = Snapshot::of(&stage.receiver);
        let user = stage.receiver.user().with(name, &value);
        // Not by way of git, which does as the variable says.
        let program = world.path().join("bin/git-parler");
        let answer = user.run(program, ["apply", file.to_str().unwrap()]).either();
        assert!(answer.is_success(), "{name}: {answer:?}");
        let added = [
            "ref refs/parler/",
            ".git/refs/parler",
            ".git/packed-refs",
            ".git/logs/refs/parler",
            ".git/objects/",
            ".git/parler",
        ];
        Snapshot::of(&stage.receiver).assert_same_as(&before, &added);
        let made: Vec<_> = fs::read_dir(&elsewhere)
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        assert_eq!(made.len(), 4, "{name}: {made:?}");
        for pin in stage.receiver.pins().into_keys() {
            stage.receiver.git(["update-ref", "-d", &pin]).success();
        }
    }
}

#[test]
fn h16_a_git_in_the_directory_is_not_the_git_that_is_run() {
    let world = world();
    let stage = Stage::new(&world);
    let canary = world.path().join("ran");
    for name in ["git", "git-upload-pack", "ssh", "less", "sh"] {
        let program = stage.receiver.path().join(name);
        write_executable(&program, &format!("#!/bin/sh\ntouch '{}'\nexit 1\n", canary.display()));
    }
    let file = world.path().join("good.bundle");
    fs::write(&file, stage.good()).unwrap();
    let path = std::env::var("PATH").unwrap();
    let program = world.path().join("bin/git-parler");
    for prefix in [".:", ":", "./:", "..:.:", "receiver:"] {
        let user = stage.receiver.user().with("PATH", format!("{prefix}{path}"));
        user.run(&program, ["apply", file.to_str().unwrap()]).success();
        user.run(&program, "whoami").success();
        assert!(!canary.exists(), "with {prefix:?}");
    }
    let nothing_else = stage.receiver.user().with("PATH", ".");
    let answer = nothing_else.run(&program, ["apply", file.to_str().unwrap()]).failure();
    answer.one_error_line();
    assert!(!canary.exists());
}
