//! What thin bundles are made against, and what happens where that is missing.

use std::io::{Read, Write};
use std::net::TcpListener;

use parler_client::ReadFrom;

use crate::world::{World, is_complete, refs};

#[test]
fn a_push_is_thin_against_origin() {
    let world = World::new();
    let agent = world.agent("alice");
    let (origin, ours) = world.origin_and_clone("ours");
    ours.commit("a", "2\n");
    let said = agent.pushes(&ours, &["HEAD:refs/heads/topic"]);
    let empty = world.sandbox.init("empty", &[]);
    let (_, result) = agent.fetch(&empty, &["refs/heads/topic"]);
    let error = result.unwrap_err().to_string();
    let base = origin.oid("main");
    for part in [
        said.bundle(),
        &base.to_string(),
        "refs/heads/main",
        // Where it is on its author's machine is nobody's business.
        "git parler push --full",
        "room 'x'",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(refs(&empty, "refs/"), Vec::<String>::new());
}

#[test]
fn a_missing_base_is_fetched_from_the_remote_it_is_from() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (origin, ours) = world.origin_and_clone("ours");
    let theirs = world.sandbox.clone(&origin, "theirs", &[]);
    origin.commit("a", "moved\n");
    ours.git(&["pull", "-q"]);
    let tip = ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/topic"]);
    let before = refs(&theirs, "refs/");
    theirs.git(&["config", "parler.fetchBase", "false"]);
    let error = bob.fetch(&theirs, &["refs/heads/topic"]).1.unwrap_err().to_string();
    assert!(error.contains("git fetch origin refs/heads/main"), "{error}");
    theirs.git(&["config", "parler.fetchBase", "true"]);
    let said = bob.fetches(&theirs, &["refs/heads/topic"]);
    let line = format!(
        "parler: fetching refs/heads/main from origin (file://{}), which bundle ",
        origin.directory.display()
    );
    assert!(said.stderr.starts_with(&line), "{}", said.stderr);
    assert!(is_complete(&theirs, &[tip]));
    let outside: Vec<String> = refs(&theirs, "refs/")
        .into_iter()
        .filter(|line| !line.contains("refs/parler/"))
        .collect();
    assert_eq!(outside, before);
    assert!(!theirs.git_dir().join("FETCH_HEAD").exists());
}

#[test]
fn the_address_of_a_base_is_told_where_others_can_reach_it() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (origin, ours) = world.origin_and_clone("ours");
    let posted = || {
        let client = alice.client();
        let room = "x".parse().unwrap();
        let page = client.messages(&room, &ReadFrom::default()).unwrap();
        page.messages
            .iter()
            .map(|message| message.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/topic"]);
    let messages = posted();
    assert!(
        messages.contains("\"baseHint\":{\"ref\":\"refs/heads/main\"}"),
        "{messages}"
    );
    let path = world.sandbox.path("").display().to_string();
    assert!(!messages.contains(path.trim_end_matches('/')), "{messages}");

    // A remote whose address works everywhere, which git is told to look for elsewhere.
    let address = "https://user:secret@host.invalid/p.git";
    let theirs = world.sandbox.init("theirs", &[]);
    theirs.git(&["remote", "add", "upstream", "https://host.invalid/p"]);
    let elsewhere = format!("url.{}.insteadOf", origin.directory.display());
    theirs.git(&["config", &elsewhere, "https://host.invalid/p"]);
    ours.git(&["remote", "set-url", "origin", address]);
    let tip = ours.commit("a", "3\n");
    alice.pushes(&ours, &["HEAD:refs/heads/other"]);
    assert!(!posted().contains("secret"));
    ours.git(&["checkout", "-q", "-b", "fresh", "origin/main"]);
    let fresh = ours.commit("c", "1\n");
    alice.pushes(&ours, &["HEAD:refs/heads/fresh"]);
    assert!(posted().contains("https://host.invalid/p.git"));
    let said = bob.fetches(&theirs, &["refs/heads/fresh"]);
    let line = "parler: fetching refs/heads/main from upstream (https://host.invalid/p), which bundle ";
    assert!(said.stderr.starts_with(line), "{}", said.stderr);
    assert!(is_complete(&theirs, &[fresh]) && !is_complete(&theirs, &[tip]));
}

#[test]
fn a_remote_that_asks_for_a_password_asks_nobody() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (_, ours) = world.origin_and_clone("ours");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/p.git", listener.local_addr().unwrap());
    // Ends with the test's process.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut asked = Vec::new();
            let mut byte = [0];
            while !asked.ends_with(b"\r\n\r\n") && matches!(client.read(&mut byte), Ok(1)) {
                asked.extend(byte);
            }
            let _ = client.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    ours.git(&["remote", "set-url", "origin", &address]);
    ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/topic"]);
    let theirs = world.sandbox.init("theirs", &[]);
    theirs.git(&["remote", "add", "origin", &address]);
    let (said, result) = bob.fetch(&theirs, &["refs/heads/topic"]);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("terminal prompts disabled"), "{error}");
    assert!(error.ends_with(": git fetch origin refs/heads/main"), "{error}");
    assert!(
        said.stderr.contains(&format!("from origin ({address})")),
        "{}",
        said.stderr
    );
}

#[test]
fn what_origin_has_gets_a_bundle_all_the_same() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (origin, ours) = world.origin_and_clone("ours");
    let tip = origin.commit("a", "2\n");
    origin.git(&["tag", "-a", "-m", "one", "v1"]);
    ours.git(&["pull", "-q", "--tags", "origin", "main"]);
    let said = alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    assert_eq!(refs(&ours, &format!("refs/parler/{}", said.bundle())).len(), 1);
    let said = alice.pushes(&ours, &["refs/tags/v1:refs/tags/v1"]);
    let pinned = refs(&ours, &format!("refs/parler/{}", said.bundle()));
    assert_eq!(pinned, [format!("{} refs/parler/{}", ours.oid("v1"), said.bundle())]);
    // Together with something on top of it, and into a clone that has neither.
    ours.git(&["checkout", "-q", "-b", "topic"]);
    let top = ours.commit("b", "1\n");
    alice.pushes(
        &ours,
        &[
            "HEAD:refs/heads/topic",
            "HEAD~1:refs/heads/base",
            "HEAD~2:refs/heads/older",
        ],
    );
    let theirs = world.sandbox.clone(&origin, "theirs", &["--depth=1"]);
    bob.fetches(&theirs, &["refs/heads/topic", "refs/tags/v1"]);
    assert!(is_complete(&theirs, &[tip, top]));
}

#[test]
fn without_a_base_a_room_holds_everything() {
    let world = World::new();
    let agent = world.agent("alice");
    let (_, ours) = world.origin_and_clone("ours");
    ours.git(&["config", "parler.base", "none"]);
    let tip = ours.commit("a", "2\n");
    agent.pushes(&ours, &["HEAD:refs/heads/topic"]);
    let empty = world.sandbox.init("empty", &[]);
    agent.fetches(&empty, &["refs/heads/topic"]);
    assert!(is_complete(&empty, &[tip]));
}

#[test]
fn a_branch_that_is_on_origin_too_is_made_against_the_default_branch() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (origin, ours) = world.origin_and_clone("ours");
    let theirs = world.sandbox.clone(&origin, "theirs", &[]);
    ours.git(&["checkout", "-q", "-b", "topic"]);
    let tip = ours.commit("a", "2\n");
    ours.git(&["push", "-q", "origin", "topic"]);
    alice.pushes(&ours, &["HEAD:refs/heads/topic"]);
    theirs.git(&["config", "parler.fetchBase", "false"]);
    bob.fetches(&theirs, &["refs/heads/topic"]);
    assert!(is_complete(&theirs, &[tip]));
}

#[test]
fn commits_on_a_shallow_clone_travel_and_the_cut_itself_does_not() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let origin = world.sandbox.init("origin", &[]);
    origin.commit("a", "1\n");
    origin.commit("a", "2\n");
    let shallow = world.sandbox.clone(&origin, "shallow", &["--depth=1"]);
    // The tip of origin, of which no bundle can be made: refs alone.
    let said = alice.pushes(&shallow, &["HEAD:refs/heads/main"]);
    assert!(
        said.stderr.ends_with("parler: message 1 in room x\n"),
        "{}",
        said.stderr
    );
    let full = world.sandbox.clone(&origin, "full", &[]);
    bob.fetches(&full, &["refs/heads/main"]);
    let behind = world.sandbox.init("behind", &[]);
    let error = bob.fetch(&behind, &["refs/heads/main"]).1.unwrap_err().to_string();
    assert!(
        error.contains("refs/heads/main") && error.contains("git parler push --full"),
        "{error}"
    );
    behind.git(&[
        "remote",
        "add",
        "origin",
        &format!("file://{}", origin.directory.display()),
    ]);
    bob.fetches(&behind, &["refs/heads/main"]);
    assert!(is_complete(&behind, &[origin.oid("main")]));

    let tip = shallow.commit("b", "1\n");
    alice.pushes(&shallow, &["HEAD:refs/heads/topic"]);
    bob.fetches(&full, &["refs/heads/topic"]);
    assert!(is_complete(&full, &[tip]));

    shallow.git(&["config", "parler.base", "none"]);
    shallow.git(&["checkout", "-q", "-b", "other", "HEAD~1"]);
    shallow.commit("c", "1\n");
    let empty = world.sandbox.init("elsewhere", &[]);
    empty.commit("z", "1\n");
    let (statuses, said) = alice.push(&shallow, &["HEAD:refs/heads/other"]);
    // The room has the commit it is on top of as a ref, so it may be expected.
    assert_eq!(statuses, ["ok refs/heads/other"], "{}", said.stderr);
}

#[test]
fn a_cut_that_nobody_holds_is_refused_with_the_command_that_helps() {
    let world = World::new();
    let agent = world.agent("alice");
    let origin = world.sandbox.init("origin", &[]);
    origin.commit("a", "1\n");
    origin.commit("a", "2\n");
    let shallow = world.sandbox.clone(&origin, "shallow", &["--depth=1"]);
    shallow.git(&["config", "parler.base", "none"]);
    shallow.commit("b", "1\n");
    let (statuses, said) = agent.push(&shallow, &["HEAD:refs/heads/topic"]);
    assert_eq!(statuses, ["error refs/heads/topic shallow update not allowed"]);
    assert!(said.stderr.contains("git fetch --unshallow origin"), "{}", said.stderr);
    assert!(!said.stderr.contains("message"), "{}", said.stderr);
}
