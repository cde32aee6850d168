//! What goes wrong says so in one line that names the thing and what helps, ends with the documented code, and changes
//! nothing.

use std::fs;
use std::net::TcpListener;
use std::time::Instant;

use parler_harness::{Agent, Answer, Repository, Snapshot, World};

use super::{room_refs, world};

/// A repository whose agent has pushed to the room `try`.
fn pushed(world: &World) -> Repository<'_> {
    let work = world.clone_of(&world.origin(), "work");
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    work
}

/// Asserts that the command failed so, in one line that holds these words.
#[track_caller]
fn assert_refused(answer: &Answer, words: &[&str]) {
    let line = answer.one_error_line();
    assert!(line.starts_with("parler: "), "{answer:?}");
    for word in words {
        assert!(line.contains(word), "{word:?} is not said: {answer:?}");
    }
    assert!(answer.out().is_empty(), "{answer:?}");
}

/// The one line of the helper; git adds none when it fails.
#[track_caller]
fn assert_helper_refused(answer: &Answer, words: &[&str]) {
    let line = answer.one_error_line();
    assert!(line.starts_with("fatal: "), "{answer:?}");
    for word in words {
        assert!(line.contains(word), "{word:?} is not said: {answer:?}");
    }
}

#[test]
fn a_room_that_is_not_there_and_one_that_is_not_mine_get_the_same_words() {
    let world = world();
    let hub = super::hub_server::start(&world);
    let origin = world.origin();
    let alice = world.stranger("alice").on(&hub).at(&world.clone_of(&origin, "alices"));
    let bob = world.stranger("bob").on(&hub).at(&world.clone_of(&origin, "bobs"));
    alice.parler("invite --group secret").success();
    alice
        .git("push --quiet parler::room/secret HEAD:refs/heads/x")
        .success();
    for command in [
        "recv",
        "send hello",
        "roster",
        "show 1",
        "handoff --next x",
        "fetch abcd",
        "apply abcd",
        "push --base none HEAD:refs/heads/y",
    ] {
        let said: Vec<_> = ["secret", "nosuch"]
            .iter()
            .map(|room| {
                let refused = bob.parler(format!("{command} --room {room}")).code(3);
                assert_refused(
                    &refused,
                    &[&format!("no room '{room}' that you belong to"), "git parler join CODE"],
                );
                refused.err().replace(room, "ROOM")
            })
            .collect();
        assert_eq!(said[0], said[1], "{command}");
    }
    for command in ["ls-remote", "fetch", "push"] {
        for room in ["secret", "nosuch"] {
            let refspec = if command == "push" { "HEAD:refs/heads/y" } else { "" };
            let refused = bob.git(format!("{command} parler::room/{room} {refspec}")).code(128);
            assert_helper_refused(
                &refused,
                &[&format!("no room '{room}' that you belong to"), "git parler join CODE"],
            );
        }
    }
    // The push did not make the room either: that happens on the local hub only.
    assert_eq!(
        bob.parler("rooms --json").success().json()["rooms"],
        serde_json::json!([])
    );
}

#[test]
fn a_hub_that_is_down_is_named_and_may_be_tried_again() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    // A port that was just free: nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let user = work.user().with("PARLER_HUB", &url);
    let before = Snapshot::of(&work);
    for command in [
        "rooms",
        "recv --room x",
        "send --room x hello",
        "join ABCDEFGHJKMN",
        "apply abcd --room x",
        "push --room x main",
    ] {
        let began = Instant::now();
        let refused = user.parler(command).code(5);
        assert_refused(&refused, &[&format!("127.0.0.1:{port}")]);
        assert!(began.elapsed().as_secs() < 45, "{command} took {:?}", began.elapsed());
    }
    for command in [
        "ls-remote parler::room/x",
        "fetch parler::room/x",
        "push parler::room/x main",
    ] {
        let refused = user.git(command).code(128);
        assert_helper_refused(&refused, &[&format!("127.0.0.1:{port}")]);
    }
    // Git empties FETCH_HEAD before it asks anybody.
    Snapshot::of(&work).assert_same_as(&before, &[".git/parler", ".git/FETCH_HEAD"]);
}

#[test]
fn a_hub_that_never_answers_does_not_hold_anybody_for_ever() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    // Takes connections, says something that is no hub's answer, or closes.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for connection in listener.incoming().map_while(Result::ok) {
            let mut connection = connection;
            let _ = connection.read(&mut [0; 4096]);
            let _ = connection.write_all(b"SSH-2.0-OpenSSH\r\n");
        }
    });
    let user = work.user().with("PARLER_HUB", format!("http://{address}"));
    let refused = user.parler("rooms").code(5);
    assert_refused(&refused, &[&address.to_string()]);
}

#[test]
fn an_invite_that_is_unknown_expired_or_used_up_is_one_answer() {
    let world = world();
    let hub = super::hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    let bob = world.stranger("bob").on(&hub);
    let carol = world.stranger("carol").on(&hub);
    let code = |options: &str| {
        let invite = alice.parler(format!("invite --group build --json {options}")).success();
        invite.json()["code"].as_str().unwrap().to_owned()
    };
    let once = code("--max-uses 1");
    bob.parler(["join", &once]).success();
    let unknown: String = once.chars().rev().collect();
    let mut said = Vec::new();
    for code in [&once, &unknown] {
        let refused = carol.parler(["join", code]).code(3);
        assert_refused(&refused, &["invite", "git parler invite"]);
        said.push(refused.err().replace(code.as_str(), "CODE"));
    }
    assert_eq!(said[0], said[1]);
    let refused = carol.parler("join not-a-code!").code(2);
    assert_refused(&refused, &["invite code", "git parler join CODE"]);
    assert_eq!(
        carol.parler("rooms --json").success().json()["rooms"],
        serde_json::json!([])
    );
    // Who is in already needs no use.
    bob.parler(["join", &once]).success();
}

#[test]
fn an_invite_whose_time_is_over_lets_nobody_in() {
    let world = world();
    let mut hub = super::hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    let bob = world.stranger("bob").on(&hub);
    let code = alice
        .parler("invite --group build --ttl 1h")
        .success()
        .word()
        .to_owned();
    hub.kill();
    // An hour passes.
    let database = rusqlite::Connection::open(hub.data().join("hub.db")).unwrap();
    assert_eq!(
        database
            .execute("UPDATE invites SET expires_at = expires_at - 3600001", [])
            .unwrap(),
        1
    );
    drop(database);
    hub.restart();
    let refused = bob.parler(["join", &code]).code(3);
    assert_refused(&refused, &["invite", "git parler invite"]);
}

#[test]
fn a_local_hub_that_cannot_start_says_why() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    fs::create_dir_all(world.parler_home().join("data")).unwrap();
    fs::write(world.parler_home().join("data/hub"), "in the way").unwrap();
    let refused = work.user().parler("rooms").failure();
    assert_refused(&refused, &["data/hub"]);
    let refused = work.git("push parler::room/try HEAD:refs/heads/x").code(128);
    assert_helper_refused(&refused, &["data/hub"]);
    assert!(world.processes().is_empty());

    // A data directory that is not a hub's.
    fs::remove_file(world.parler_home().join("data/hub")).unwrap();
    fs::create_dir_all(world.parler_home().join("data/hub/rooms")).unwrap();
    fs::write(world.parler_home().join("data/hub/rooms/hub.db"), vec![b'x'; 8192]).unwrap();
    let refused = work.user().parler("rooms").code(5);
    assert_refused(&refused, &["the local hub did not start", "hub.log"]);
    assert!(world.processes().is_empty());
}

#[test]
fn a_key_file_that_was_tampered_with_is_named() {
    let world = world();
    let work = pushed(&world);
    let user = world.agent("alice").at(&work);
    user.parler("whoami").success();
    let agents = world.parler_home().join("config/agents");
    let path = fs::read_dir(&agents)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains("/alice"))
        .unwrap();
    let good = fs::read_to_string(&path).unwrap();
    let seed_at = good.find("SU").unwrap();
    let mut flipped = good.clone().into_bytes();
    flipped[seed_at + 20] = if flipped[seed_at + 20] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    for bad in [flipped.as_str(), "", "{}", "not json", &good[..good.len() / 2]] {
        fs::write(&path, bad).unwrap();
        let refused = user.parler("rooms").failure();
        assert_refused(&refused, &[path.to_str().unwrap()]);
        assert!(
            !refused.err().contains(&good[seed_at..seed_at + 58]),
            "a secret was shown: {refused:?}"
        );
        let refused = user.git("ls-remote parler::room/try").code(128);
        assert_helper_refused(&refused, &[path.to_str().unwrap()]);
        assert_eq!(fs::read_to_string(&path).unwrap(), bad, "nobody writes over a key");
    }
    fs::write(&path, &good).unwrap();
    user.parler("rooms").success();
}

#[test]
fn another_key_under_the_same_name_is_no_member() {
    let world = world();
    let hub = super::hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    alice.parler("invite --group build").success();
    alice.parler(["send", "--room", "build", "a secret plan"]).success();
    let impostor = alice.with("PARLER_HOME", world.path().join("another-home"));
    let refused = impostor.parler("recv --room build").code(3);
    assert_refused(&refused, &["no room 'build' that you belong to"]);
}

#[test]
fn commands_that_need_a_repository_say_so() {
    let world = world();
    let work = pushed(&world);
    let outside = work.user().within(world.directory("outside"));
    for command in ["push --room try", "apply abcd --room try"] {
        let refused = outside.parler(command).code(128);
        assert_refused(&refused, &["not a git repository", "git init"]);
    }
    // Others do not need one.
    outside.parler("recv --room try").success();
    outside.parler(["send", "--room", "try", "hello"]).success();
}

#[test]
fn what_is_no_bundle_is_refused() {
    let world = world();
    let work = pushed(&world);
    let before = Snapshot::of(&work);
    work.git(["bundle", "create", "../v3.bundle", "main"]).success();
    let good = fs::read(world.path().join("v3.bundle")).unwrap();
    let with = |from: &str, to: &str| String::from_utf8_lossy(&good).replacen(from, to, 1).into_bytes();
    let contents: [(&str, Vec<u8>); 7] = [
        ("empty", Vec::new()),
        ("text", b"hello\n".to_vec()),
        ("header only", b"# v2 git bundle\n".to_vec()),
        ("unknown version", with("# v2 git", "# v9 git")),
        (
            "unknown capability",
            with("# v2 git bundle\n", "# v3 git bundle\n@from-the-future\n"),
        ),
        ("a ref that is none", with("refs/heads/main", "refs/heads/../x")),
        ("zeros", vec![0; 100_000]),
    ];
    for (what, content) in contents {
        let file = world.path().join(format!("{what}.bundle"));
        fs::write(&file, content).unwrap();
        let refused = work.user().parler(["apply", file.to_str().unwrap()]).code(7);
        assert_refused(&refused, &["bundle"]);
    }
    let refused = work.user().parler("apply ../nosuch.bundle").failure();
    assert_refused(&refused, &["nosuch.bundle"]);
    let refused = work.user().parler(["apply", world.path().to_str().unwrap()]).failure();
    refused.one_error_line();
    Snapshot::of(&work).assert_same_as(&before, &[]);
}

#[test]
fn ids_that_are_unknown_ambiguous_or_none() {
    let world = world();
    let work = pushed(&world);
    let user = work.user().with("PARLER_ROOM", "try");
    let before = Snapshot::of(&work);
    let ids: Vec<String> = work
        .pins()
        .into_keys()
        .map(|name| name["refs/parler/".len()..].to_owned())
        .collect();
    let free = (0..)
        .map(|number| format!("{number:04x}"))
        .find(|id| !ids.iter().any(|other| other.starts_with(id.as_str())))
        .unwrap();
    for command in ["apply", "show", "fetch"] {
        let refused = user.parler(format!("{command} {free}abc")).code(3);
        assert_refused(&refused, &[&format!("{free}abc"), "git parler recv --all"]);
        let refused = user.parler(format!("{command} 99")).code(3);
        assert_refused(&refused, &["99"]);
        // Too short, too long, not hexadecimal.
        for bad in ["abc", &"a".repeat(65), "xyzxyz", "../../etc/passwd"] {
            let refused = user.parler(format!("{command} {bad}")).either();
            assert!(matches!(refused.exit_code(), Some(2 | 3)), "{refused:?}");
            refused.one_error_line();
        }
    }
    Snapshot::of(&work).assert_same_as(&before, &[".git/parler"]);
    assert_eq!(
        fs::read_dir(work.path()).unwrap().count(),
        before
            .names()
            .filter(|name| !name.contains('/') && !name.starts_with("ref "))
            .count()
            + 1
    );
}

#[test]
fn a_work_tree_that_is_not_there_is_named() {
    let world = world();
    let work = pushed(&world);
    let agent = work.user().with("GIT_WORK_TREE", "gone");
    let refused = agent.parler("apply 1 --room try").code(128);
    let line = refused.one_error_line();
    assert!(line.contains("GIT_WORK_TREE") && line.contains("gone"), "{line}");
}

#[test]
fn two_bundles_whose_ids_begin_alike_are_told_apart() {
    let world = world();
    let work = pushed(&world);
    let agent = work.user();
    // Four digits are few: among some hundred bundles two begin alike. A handful of commits, pushed in one go each,
    // would take long; small blobs posted by hand do not.
    let hub = parler_harness::LocalHub::of(&agent);
    let raw = hub.raw_client("raw");
    let room = "try".parse().unwrap();
    let mut seen = std::collections::BTreeMap::new();
    let mut number = 0;
    let (prefix, one, other) = loop {
        number += 1;
        let id = parler_protocol::BundleId::of(&bundle_bytes(number)).to_string();
        if let Some(before) = seen.insert(id[..4].to_owned(), (number, id.clone())) {
            break (id[..4].to_owned(), before, (number, id));
        }
    };
    for (number, _) in [&one, &other] {
        let bytes: std::sync::Arc<[u8]> = bundle_bytes(*number).into();
        let head = raw.head(&room);
        let signed = raw.sign(&room, &head, vec![bundle_part(&bytes).into()]);
        raw.calls.post(&room, &signed, None, Some(&bytes)).unwrap();
    }
    let before = Snapshot::of(&work);
    for command in ["apply", "show", "fetch"] {
        let refused = agent.parler(format!("{command} {prefix} --room try")).code(2);
        assert_refused(&refused, &[&prefix, "ambiguous", &one.1[..12], &other.1[..12]]);
    }
    Snapshot::of(&work).assert_same_as(&before, &[".git/parler"]);
    agent.parler(format!("show {} --room try", &one.1[..12])).success();
}

fn bundle_bytes(number: u32) -> Vec<u8> {
    format!("# v2 git bundle\n{:040x} refs/heads/x\n\nPACK{number}", 1).into_bytes()
}

fn bundle_part(bytes: &[u8]) -> parler_protocol::BundlePart {
    parler_protocol::BundlePart {
        blob: parler_protocol::BundleId::of(bytes),
        vcs: "git".into(),
        size: bytes.len() as u64,
        media_type: None,
        tip: None,
        base: None,
        summary: None,
        refs: vec![parler_protocol::BundleRef {
            name: "refs/heads/x".parse().unwrap(),
            oid: format!("{:040x}", 1).parse().unwrap(),
        }],
        prerequisites: Vec::new(),
        object_format: Some(parler_protocol::ObjectFormat::Sha1),
        commits: Some(1),
        objects: None,
        needs: Vec::new(),
        base_hint: None,
    }
}

#[test]
fn values_of_the_wrong_form_are_usage_errors() {
    let world = world();
    let work = pushed(&world);
    let user = work.user();
    let refused = |agent: &Agent<'_>, arguments: &[&str], words: &[&str]| {
        let answer = agent
            .parler(arguments.iter().map(Into::into).collect::<Vec<_>>())
            .code(2);
        assert_refused(&answer, words);
    };
    refused(&user, &["recv", "--room", "no such room"], &["no such room"]);
    refused(&user, &["recv", "--room", "../x"], &["../x"]);
    refused(&user, &["recv", "--room", ""], &["--room"]);
    refused(&user, &["recv"], &["--room ROOM"]);
    refused(&user.with("PARLER_ROOM", "-x"), &["recv"], &["PARLER_ROOM", "-x"]);
    refused(&user.with("PARLER_AGENT", "a\nb"), &["rooms"], &["PARLER_AGENT"]);
    refused(&user, &["rooms", "--hub", "ftp://x"], &["--hub", "http://"]);
    refused(&user, &["send", "--room", "try", ""], &["text"]);
    refused(&user, &["recv", "--room", "try", "--since", "x"], &["--since"]);
    refused(
        &user,
        &["invite", "--group", "try", "--ttl", "soon"],
        &["--ttl", "soon"],
    );
    refused(&user, &["frobnicate"], &["'frobnicate'", "git parler -h"]);
    refused(
        &user,
        &["handoff", "--room", "try"],
        &["--next", "git parler handoff -h"],
    );
    refused(&user, &["send", "--room", "try"], &["TEXT", "git parler send -h"]);
    let told = user.parler("recv --colour --json").code(2);
    told.one_error_line();
    assert_eq!(told.json()["error"]["kind"], "usage");
    assert_eq!(told.json()["error"]["next"], "git parler recv -h");
    // Without a verb the help is what was missing.
    user.parler("").code(2).warns("Usage: git parler");
    assert_eq!(room_refs(&user, "try").len(), 2);
}

#[test]
fn a_push_without_a_branch_says_what_to_write() {
    let world = world();
    let work = pushed(&world);
    work.git("checkout --quiet --detach").success();
    let refused = work.user().parler("push --room try").failure();
    assert_refused(&refused, &["HEAD:refs/heads/NAME"]);
    let refused = work.user().parler("push --room try nosuch").failure();
    assert_refused(&refused, &["nosuch"]);
    let unborn = world.init("unborn", "");
    let refused = unborn.user().parler("push --room try").failure();
    refused.one_error_line();
}

#[test]
fn a_handoff_for_nobody_in_the_room_is_posted_and_said() {
    let world = world();
    let work = pushed(&world);
    let user = work.user().with("PARLER_ROOM", "try");
    user.parler("connect --role planner").success();
    let stranger = user.parler("handoff --next x --for bpb --json").success();
    stranger.warns("nobody in 'try' has the name or role bpb");
    assert!(stranger.json()["seq"].is_number());
    // It is never for its own author, whatever that is called.
    user.parler("handoff --next x --for Planner")
        .success()
        .warns("nobody but you in 'try' has the name or role Planner");
    user.with("PARLER_AGENT", "bob").parler("recv").success();
    user.parler("handoff --next x --for BOB").success().warns_no("nobody");
    work.commit("b.txt", "two\n");
    user.parler("push HEAD:refs/heads/y --next x --for bpb")
        .success()
        .warns("nobody in 'try'");
    // A room that is not there can be made.
    let refused = user.parler("recv --room nosuch").code(3);
    assert_refused(&refused, &["git parler invite --group nosuch"]);
}

#[test]
fn what_comes_next_is_a_command_that_can_be_typed() {
    let world = world();
    let work = pushed(&world);
    let user = work.user().with("PARLER_ROOM", "try");
    // A verb that has no + of its own names one that forces.
    work.git("reset --quiet --hard HEAD~1").success();
    work.git("push --quiet --force parler::room/try HEAD:refs/heads/main")
        .success();
    work.commit("c.txt", "three\n");
    work.git("push --quiet parler::room/try HEAD:refs/heads/main").success();
    work.git("reset --quiet --hard HEAD~1").success();
    work.commit("d.txt", "four\n");
    for verb in ["handoff --next y --bundle main", "push --next y main"] {
        let refused = user.parler(verb).code(6);
        let line = refused.one_error_line();
        assert_eq!(line.contains("+ before the ref"), verb.starts_with("push"), "{line}");
        assert!(
            line.contains("--force REF --room try") != verb.starts_with("push"),
            "{line}"
        );
    }
    user.parler("push --force main --room try").success();
    user.parler("handoff --next y --bundle main").success();
    // The next command says the room where this one did.
    let outside = work.user();
    for verb in ["status 99", "accept 99", "done 1", "handoff --next x --revises 1"] {
        let refused = outside.parler(format!("{verb} --room try")).failure();
        let line = refused.one_error_line();
        assert!(line.ends_with("; git parler status --room try"), "{line}");
    }
}
