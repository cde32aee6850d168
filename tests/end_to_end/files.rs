//! Files that travel beside the code: the same blobs and the same checks as bundles, and a name that is shown and never
//! followed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use parler_harness::{Agent, Answer, Running, World, look_for};
use parler_protocol::{BundleId, FilePart};
use rustix::process::Signal;

use super::world;

/// A room of the local hub, and somebody in it who stands in a directory of their own.
fn room<'w>(world: &'w World, name: &str) -> Agent<'w> {
    let user = world.user().within(world.directory("place")).with("PARLER_ROOM", name);
    user.parler(format!("invite --group {name}")).success();
    user
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn refused(answer: Answer, words: &[&str]) {
    let line = answer.one_error_line();
    for word in words {
        assert!(line.contains(word), "{word:?} is not said: {answer:?}");
    }
}

#[test]
fn a_file_arrives_byte_for_byte_under_a_name_of_the_receiver() {
    let world = world();
    let alice = room(&world, "try");
    let mut contents: Vec<(&str, Vec<u8>)> = vec![("empty", Vec::new()), ("notes.txt", b"one\r\ntwo\0".to_vec())];
    // In the database, in a file, and larger than what is kept in memory.
    contents.push(("inline", (0..60_000_u32).map(|n| n as u8).collect()));
    contents.push(("large", (0..9_000_000_u32).map(|n| (n >> 3) as u8).collect()));
    for (name, bytes) in &contents {
        fs::write(alice.directory().join(name), bytes).unwrap();
        let sent = alice.parler(format!("send --file {name} --json")).success().json();
        let file = &sent["files"][0];
        assert_eq!(file["name"], *name);
        assert_eq!(file["size"], bytes.len());
        assert_eq!(file["blob"], BundleId::of(bytes).to_string());
        assert_eq!(file["seq"], sent["seq"]);
        let bob = alice.within(world.directory(&format!("bob-{name}")));
        let id = &file["blob"].as_str().unwrap()[..12];
        // By the message's number, and by the id.
        for named in [sent["seq"].to_string(), id.to_owned()] {
            let fetched = bob.parler(format!("fetch {named} --force --json")).success().json();
            assert_eq!(fetched["kind"], "file");
            assert_eq!(fetched["name"], *name);
            assert_eq!(fetched["file"], format!("{id}.file"));
        }
        assert_eq!(names(bob.directory()), [format!("{id}.file")]);
        assert!(fs::read(bob.directory().join(format!("{id}.file"))).unwrap() == *bytes);
        let printed = bob.parler(format!("fetch {id} -o -")).success();
        assert!(printed.out_bytes() == bytes);
    }
    let shown = alice.parler("recv --all").success();
    shown.says("notes.txt · 9 B · ").says("large · 8.6 MiB · ");
    let message = alice.parler("show 2").success();
    message.says("notes.txt").says("git parler fetch 2 --room try");
    assert!(names(&world.temporary()).is_empty());
}

#[test]
fn what_is_posted_to_one_room_cannot_be_read_in_another() {
    let world = world();
    let hub = super::hub_server::start(&world);
    let place = |name: &str| world.stranger(name).on(&hub).within(world.directory(name));
    let (alice, bob) = (place("alice"), place("bob"));
    alice.parler("invite --group secret").success();
    let code = alice.parler("invite --group other").success().word().to_owned();
    bob.parler(["join", &code]).success();
    fs::write(alice.directory().join("plan"), "the plan").unwrap();
    let sent = alice.parler("send --file plan --room secret --json").success().json();
    let id = sent["files"][0]["blob"].as_str().unwrap();
    refused(
        bob.parler(format!("fetch {id} --room other")).code(3),
        &["no bundle", "room 'other'"],
    );
    refused(
        bob.parler(format!("fetch {id} --room secret")).code(3),
        &["no room 'secret'"],
    );
    refused(bob.parler(format!("fetch {id}")).code(3), &["your rooms"]);
    // A message that claims the blob for the other room does not bring it there.
    let raw = parler_harness::RawClient::new(&hub.url(), "mallory");
    let other = raw.join(&code);
    let claim = FilePart {
        blob: id.parse().unwrap(),
        name: "plan".into(),
        size: 8,
        media_type: None,
        summary: None,
    };
    raw.post(&other, vec![claim.into()]).unwrap_err();
    refused(bob.parler(format!("fetch {id} --room other")).code(3), &["no bundle"]);
    assert!(names(bob.directory()).is_empty());
}

#[test]
fn the_senders_name_for_a_file_is_shown_and_nothing_else() {
    let world = world();
    let alice = room(&world, "try");
    fs::write(alice.directory().join("f"), "text").unwrap();
    let hostile = "../../\u{1b}[2J.bashrc";
    alice.parler(["send", "--file", "f", "--name", hostile]).success();
    let bob = alice.within(world.directory("deep/er/bob"));
    let fetched = bob.parler("fetch 1").success();
    fetched.says("\\u{1b}[2J.bashrc");
    assert_eq!(names(bob.directory()).len(), 1);
    assert!(!world.path().join("deep/.bashrc").exists());
    assert!(names(&world.path().join("deep")).len() == 1);
    assert!(!alice.parler("recv --all").success().out().contains('\u{1b}'));
}

#[test]
fn a_text_and_several_files_are_told_one_by_one() {
    let world = world();
    let alice = room(&world, "try");
    for name in ["a", "b"] {
        fs::write(alice.directory().join(name), name).unwrap();
    }
    let sent = alice
        .parler(["send", "two results", "--file", "a", "--file", "b", "--json"])
        .success()
        .json();
    assert_eq!(sent["seq"], 1);
    assert_eq!(
        (&sent["files"][0]["seq"], &sent["files"][1]["seq"]),
        (&1.into(), &2.into())
    );
    let first = alice.parler("show 1 --json").success().json();
    assert_eq!(first["parts"][0]["text"], "two results");
    assert_eq!(first["parts"][1]["kind"], "com.parler.file");
    // One that is not there keeps all of them here.
    refused(alice.parler("send --file a --file nosuch").code(3), &["nosuch"]);
    assert_eq!(
        alice.parler("rooms --json").success().json()["rooms"][0]["head"]["seq"],
        2
    );
}

#[test]
fn standard_input_is_sent_under_a_name_that_was_said() {
    let world = world();
    let alice = room(&world, "try");
    let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n * 7) as u8).collect();
    let send = ["parler", "send", "--file", "-", "--name", "build.log", "--json"];
    let sent = alice.feed("git", send, &bytes).success().json();
    assert_eq!(sent["files"][0]["blob"], BundleId::of(&bytes).to_string());
    assert_eq!(sent["files"][0]["name"], "build.log");
    refused(
        alice.feed("git", ["parler", "send", "--file", "-"], b"x").code(2),
        &["--name"],
    );
    let twice = ["parler", "send", "-", "--file", "-", "--name", "x"];
    refused(alice.feed("git", twice, b"x").code(2), &["standard input"]);
}

#[test]
fn what_is_no_file_is_refused_and_named() {
    let world = world();
    let alice = room(&world, "try");
    let place = alice.directory();
    fs::create_dir(place.join("directory")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.join("pipe"), 0o600.into()).unwrap();
    fs::write(place.join("locked"), "x").unwrap();
    symlink("nowhere", place.join("dangling")).unwrap();
    for (name, code) in [
        ("directory", 7),
        ("pipe", 7),
        ("/dev/null", 7),
        ("dangling", 3),
        ("nosuch", 3),
    ] {
        refused(alice.parler(["send", "--file", name]).code(code), &[name]);
    }
    // A text that is no file name is no usage either.
    refused(alice.parler("send --name x").code(2), &["git parler send -h"]);
    assert_eq!(
        alice.parler("rooms --json").success().json()["rooms"][0]["head"]["seq"],
        0
    );
}

#[test]
fn a_bundle_is_not_imported_from_a_file_and_the_command_is_named() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let user = work.user().with("PARLER_ROOM", "try");
    user.parler("invite --group try").success();
    fs::write(work.path().join("f"), "text").unwrap();
    user.parler("send --file f").success();
    let answer = user.parler("apply 1 --room try").code(3);
    refused(answer, &["brought a file", "git parler fetch 1 --room try"]);
}

#[test]
fn nothing_is_left_when_a_fetch_is_interrupted() {
    let world = world();
    let alice = room(&world, "try");
    let bytes: Vec<u8> = (0..24_000_000_u32).map(|n| (n >> 5) as u8).collect();
    fs::write(alice.directory().join("large"), &bytes).unwrap();
    alice.parler("send --file large").success();
    let bob = alice.within(world.directory("bobs"));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let fetching = bob.start_parler("fetch 1");
        // As soon as anything of it is there.
        let is_begun = || !names(bob.directory()).is_empty() || !running(&fetching);
        look_for(|| is_begun().then_some(()), || "it neither begins nor ends".to_owned());
        fetching.signal_group(signal);
        let _ = fetching.wait().either();
        let left = names(bob.directory());
        assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
        for name in left {
            // It was faster than the signal.
            assert!(fs::read(bob.directory().join(&name)).unwrap() == bytes);
            fs::remove_file(bob.directory().join(name)).unwrap();
        }
    }
}

/// Whether a process has not ended yet.
fn running(process: &Running) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", process.pid())).unwrap_or_default();
    !status
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .trim_start()
        .starts_with('Z')
}

#[test]
fn a_closed_output_is_no_success() {
    let world = world();
    let alice = room(&world, "try");
    fs::write(alice.directory().join("f"), "text").unwrap();
    alice.parler("send --file f").success();
    let sh = |command: &str| alice.run("sh", ["-c", &format!("exec git parler {command} >&-")]);
    for command in ["fetch 1 -o -", "invite", "show 1", "rooms", "roster", "whoami"] {
        refused(sh(command).code(128), &["standard output is closed"]);
    }
    // What is done is done, whoever listens.
    sh("send done").success();
}
