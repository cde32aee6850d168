//! Every way in which `git push`, `fetch`, `clone` or `ls-remote` with a room can fail as a whole, side by side: one line in
//! git's form that names what it is about and what helps, exit code 128, and nothing on stdout.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

use parler_harness::{Agent, Answer, HubProcess, Repository, World};

use super::{hub_server, noise, world};

/// Asserts the form of a failure of the helper, and that these words are in it.
#[track_caller]
fn is_fatal(what: &str, answer: &Answer, words: &[&str]) {
    // Git's own last line about a push that had begun.
    let told = answer.err().trim_end();
    let mut lines: Vec<_> = told.lines().collect();
    if answer.exit_code() == Some(1) {
        assert!(
            lines
                .pop()
                .is_some_and(|line| line.starts_with("error: failed to push some refs to ")),
            "{what}: {answer:?}"
        );
    } else {
        assert_eq!(answer.exit_code(), Some(128), "{what}: {answer:?}");
    }
    let [line] = lines[..] else {
        panic!("{what}: not one line: {answer:?}")
    };
    let said = line
        .strip_prefix("fatal: ")
        .unwrap_or_else(|| panic!("{what}: {answer:?}"));
    // Lower case, as git writes; a name may stand first.
    let first = said.split(' ').next().unwrap();
    let is_name = first.contains(['/', '.', '_', '-', '\'']);
    assert!(
        is_name || first.chars().all(|letter| !letter.is_uppercase()),
        "{what}: {answer:?}"
    );
    for nested in ["fatal: ", "error: ", "Some(", "Err(", " { "] {
        assert!(!said.contains(nested), "{what}: {nested:?} is in it: {answer:?}");
    }
    for word in words {
        assert!(said.contains(word), "{what}: {word:?} is not said: {answer:?}");
    }
    assert!(answer.out().is_empty(), "{what}: {answer:?}");
}

/// Asserts that a push was refused by the room, ref by ref, as by a server: with these words.
#[track_caller]
fn is_rejected(what: &str, answer: &Answer, words: &[&str]) {
    let rejected: Vec<_> = answer.err().lines().filter(|line| line.starts_with(" ! ")).collect();
    assert_eq!(rejected.len(), 1, "{what}: {answer:?}");
    assert!(rejected[0].contains("[remote rejected]"), "{what}: {answer:?}");
    for word in words {
        assert!(rejected[0].contains(word), "{what}: {word:?} is not said: {answer:?}");
    }
    answer.warns("error: failed to push some refs to 'parler");
    assert!(answer.out().is_empty(), "{what}: {answer:?}");
}

/// A server that answers every connection with these bytes.
fn saying(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(bytes);
        }
    });
    address
}

/// A clone with a commit of its own, whose agent has a room `try` with `refs/heads/x`.
fn pushed<'w>(world: &'w World, name: &str) -> Repository<'w> {
    let work = world.clone_of(&world.origin(), name);
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    work
}

#[test]
fn a_hub_that_is_none_is_told_by_its_address() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let html = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>");
    let other = saying(b"SSH-2.0-OpenSSH\r\n");
    let failing = saying(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let plain = hub_server::start(&world);
    let rows: [(&str, String, &[&str]); 5] = [
        (
            "nobody listens",
            format!("http://{closed}"),
            &["cannot connect to the hub at", "run the same git command again"],
        ),
        ("a web page", format!("http://{html}"), &["is not one of a Parler hub"]),
        (
            "another protocol",
            format!("http://{other}"),
            &["is not one of a Parler hub"],
        ),
        (
            "a broken server",
            format!("http://{failing}"),
            &["is not one of a Parler hub", "500"],
        ),
        (
            "no TLS there",
            plain.url().replace("http:", "https:"),
            &["it speaks no TLS", "http://"],
        ),
    ];
    for (what, url, words) in rows {
        let agent = work.user().with("PARLER_HUB", &url);
        let authority = url.split("//").nth(1).unwrap();
        for command in [
            "ls-remote parler::room/x",
            "fetch parler::room/x",
            "push parler::room/x HEAD:refs/heads/x",
        ] {
            let answer = agent.git(command).code(128);
            is_fatal(what, &answer, &[&[authority], words].concat());
        }
        let cloned = agent.git("clone --quiet parler::room/x copy").code(128);
        is_fatal(what, &cloned, &[&[authority], words].concat());
        assert!(
            !work.path().join("copy").exists(),
            "{what}: git takes away what it began"
        );
    }
}

#[test]
fn an_address_that_means_nothing_is_told_before_anybody_is_asked() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    for (address, words) in [
        ("parler::", ["it names no room", "parler::room/ROOM"]),
        ("parler::room/", ["room name", "parler::room/ROOM"]),
        ("parler::room/a..b/c", ["a..b/c", "parler::room/ROOM"]),
        ("parler::rooms/try", ["it names no room", "parler::room/ROOM"]),
        ("parler::room/try?x", ["it holds '?'", "parler::room/ROOM"]),
        (
            "parler://user:secret@hub.example/room/try",
            ["user names and passwords", "parler://HOST/room/ROOM"],
        ),
        (
            "parler://hub.example/room/try/more",
            ["it names no room", "parler://HOST/room/ROOM"],
        ),
        (
            "parler::http://hub.example/room/try",
            [
                "plain http is not allowed",
                "git config parler.hub.example.insecure true",
            ],
        ),
        ("parler::service/a/b", ["service name", "parler::room/ROOM"]),
    ] {
        for command in ["ls-remote", "fetch"] {
            let answer = work.git([command, address]).code(128);
            is_fatal(address, &answer, &words);
            answer.warns_no("secret");
        }
    }
    assert!(world.processes().is_empty(), "no hub was started");
}

#[test]
fn who_may_not_is_told_what_would_let_him() {
    let world = world();
    let hub = hub_server::start(&world);
    let origin = world.origin();
    let place = world.clone_of(&origin, "work");
    let alice = world.stranger("alice").on(&hub).at(&place);
    let bob = world.stranger("bob").on(&hub).at(&place);
    alice.parler("invite --group build").success();
    let token = |can: &str| {
        let made = alice
            .parler(format!("token create t-{can} --room build --can {can} --ttl 1h"))
            .success();
        made.word().to_owned()
    };
    let (reading, revoked) = (token("read"), token("post"));
    alice.parler("token revoke t-post").success();
    let job = |token: &str| {
        world
            .user()
            .at(&place)
            .with("PARLER_HUB", hub.url())
            .with("PARLER_TOKEN", token)
    };
    let rows: [(&str, Agent<'_>, &[&str]); 4] = [
        (
            "not a member",
            bob,
            &["no room 'build' that you belong to", "git parler join CODE"],
        ),
        ("no token", job("rubbish"), &["PARLER_TOKEN"]),
        ("a revoked token", job(&revoked), &["token"]),
        ("a token that may not", job(&reading), &["token"]),
    ];
    for (what, agent, words) in rows {
        let answer = agent.git("push parler::room/build HEAD:refs/heads/x").either();
        assert!(!answer.is_success(), "{what}: {answer:?}");
        if answer.err().contains(" ! ") {
            is_rejected(what, &answer, words);
        } else {
            assert_eq!(answer.exit_code(), Some(128), "{what}: {answer:?}");
            is_fatal(what, &answer, words);
        }
        for secret in [&reading, &revoked] {
            answer.warns_no(secret);
        }
    }
}

#[test]
fn what_a_hub_has_no_room_for_is_rejected_as_by_a_server() {
    type Start = fn(&World) -> HubProcess;
    let rows: [(&str, Start, &[&str]); 3] = [
        (
            "too large",
            |world| hub_server::start_for_small_blobs(world, 4096),
            &["over 4096"],
        ),
        (
            "no space",
            |world| hub_server::start_with_free_floor(world, 100),
            &["space"],
        ),
        (
            "too many uploads",
            |world| hub_server::start_with_uploads(world, 0),
            &["upload"],
        ),
    ];
    for (what, start, words) in rows {
        let world = world();
        let hub = start(&world);
        let place = world.clone_of(&world.origin(), "work");
        place.write("large.bin", noise(9 << 20, 1));
        place.git("add large.bin").success();
        place.git("commit --quiet --message large").success();
        let agent = world.stranger("alice").on(&hub).at(&place);
        let made = agent.parler("invite --group build").either();
        if !made.is_success() {
            // A hub without space makes no room either.
            let line = made.one_error_line();
            assert!(line.contains(words[0]), "{what}: {made:?}");
            continue;
        }
        let answer = agent.git("push parler::room/build HEAD:refs/heads/x").code(1);
        is_rejected(what, &answer, words);
        assert!(super::room_refs(&agent, "build").is_empty(), "{what}");
    }
}

#[test]
fn a_repository_that_is_not_as_it_should_be_is_told_by_what_is_wrong() {
    let world = world();
    let work = pushed(&world, "work");
    let push = |place: &Repository<'_>| place.git("push parler::room/try HEAD:refs/heads/x").failure();

    let other = world.init("other", "--object-format=sha256");
    other.commit("a.txt", "one\n");
    let words = ["room 'try'", "sha1", "sha256"];
    is_fatal("another hash, push", &push(&other), &words);
    let fetched = other.git("fetch parler::room/try").code(128);
    fetched.warns("fatal: ");

    let outside = work.user().within(world.directory("outside"));
    let answer = outside.git("push parler::room/try HEAD").code(128);
    answer.warns("fatal: ");

    // The room has what `work` began with; a clone misses it.
    let cloned = world.user().git("clone --quiet parler::room/try nothing").code(128);
    is_fatal("base missing", &cloned, &["room 'try'", "git parler push --full"]);

    let reader = world.clone_of(&world.repository(world.path().join("origin.git")), "reader");
    let pin = work.pins().into_keys().next().unwrap();
    let lock = reader.git_dir().join(format!("{pin}.lock"));
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    fs::write(&lock, "").unwrap();
    let answer = reader.git("fetch parler::room/try refs/heads/x").code(128);
    is_fatal("a locked ref", &answer, &[&pin, ".lock"]);
    fs::remove_file(&lock).unwrap();
    reader.git("fetch --quiet parler::room/try refs/heads/x").success();

    // What cannot be written is a file in the way here: permissions do not stop a test that runs as root.
    let in_the_way = reader.git_dir().join("refs/parler");
    fs::remove_dir_all(&in_the_way).unwrap();
    fs::write(&in_the_way, "in the way").unwrap();
    work.commit("b.txt", "two\n");
    work.git("push --quiet parler::room/try HEAD:refs/heads/x").success();
    let answer = reader.git("fetch parler::room/try refs/heads/x").code(128);
    is_fatal("a directory that cannot be made", &answer, &["refs/parler"]);

    work.commit("c.txt", "three\n");
    let object = work.ask("rev-parse HEAD:c.txt");
    spoil(&work.git_dir().join("objects").join(&object[..2]).join(&object[2..]));
    is_fatal("a damaged blob", &push(&work), &["pack-objects", &object]);
    fs::write(work.git_dir().join("config"), "[broken").unwrap();
    push(&work).warns("fatal: ").warns("config");
}

#[test]
fn git_parler_push_from_no_branch_says_what_to_write() {
    let world = world();
    let work = pushed(&world, "work");
    work.git("checkout --quiet --detach").success();
    let refused = work.user().parler("push --room try").code(2);
    let line = refused.one_error_line();
    assert!(line.starts_with("parler: HEAD is on no branch"), "{refused:?}");
    assert!(line.contains("git parler push HEAD:refs/heads/NAME"), "{refused:?}");
}

/// Overwrites a loose object.
fn spoil(object: &Path) {
    fs::remove_file(object).unwrap();
    fs::write(object, "not an object").unwrap();
}
