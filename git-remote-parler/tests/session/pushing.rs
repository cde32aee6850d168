//! Pushes: what is decided, sent and told.

use std::sync::Barrier;

use crate::world::{World, is_complete, refs};

#[test]
fn a_push_makes_the_room_and_pins_its_own_bundle() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    let tip = repository.commit("a", "1\n");
    let said = agent.pushes(&repository, &["HEAD:refs/heads/topic"]);
    assert!(said.stderr.contains("made room x"), "{}", said.stderr);
    assert!(said.stderr.contains(", message 1 in room x"), "{}", said.stderr);
    let id = said.bundle();
    let pins = refs(&repository, "refs/parler/");
    assert_eq!(pins.len(), 2);
    assert_eq!(pins[0], format!("{tip} refs/parler/{id}"));
    let listed = agent.list(&repository);
    assert_eq!(
        listed[..2],
        ["@refs/heads/topic HEAD".to_owned(), format!("{tip} refs/heads/topic")]
    );
    assert_eq!(listed[2], format!("{tip} refs/parler/{id}"));
    assert_eq!(listed.len(), 4);
}

#[test]
fn only_what_is_new_travels_and_nothing_when_nothing_is() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    repository.commit("a", "2\n");
    let said = agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    assert!(said.stderr.contains("message 2"));
    // A branch at a commit that the room has: refs alone.
    let said = agent.pushes(&repository, &["HEAD:refs/heads/two", "HEAD~1:refs/heads/one"]);
    assert_eq!(said.stderr, "parler: message 3 in room x\n");
    let (statuses, said) = agent.push(&repository, &["HEAD:refs/heads/two"]);
    assert_eq!(statuses, ["error refs/heads/two up to date"]);
    assert_eq!(said.stderr, "");
}

#[test]
fn an_ordinary_push_needs_no_git_child() {
    let world = World::new();
    let mut agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    repository.commit("a", "2\n");
    agent.git = world.sandbox.counting_git("log");
    agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    assert_eq!(world.sandbox.lines("log"), [""; 0]);
    let (statuses, _) = agent.push(&repository, &["refs/heads/main:refs/heads/main"]);
    assert_eq!(statuses, ["error refs/heads/main up to date"]);
    assert_eq!(world.sandbox.lines("log"), [""; 0]);
    // One that is not small has one.
    for number in 0..300 {
        std::fs::write(
            repository.directory.join(format!("file{number}")),
            format!("{number}\n"),
        )
        .unwrap();
    }
    repository.commit("a", "3\n");
    agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    let children = world.sandbox.lines("log");
    assert_eq!(children.len(), 1, "{children:#?}");
}

#[test]
fn grafts_of_the_sender_are_not_sent() {
    let world = World::new();
    let (agent, bob) = (world.agent("alice"), world.agent("bob"));
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["HEAD:refs/heads/main"]);
    repository.commit("b", "2\n");
    let cut = repository.commit("c", "3\n");
    let tip = repository.commit("a", "4\n");
    // For git here history begins at the last commit but one.
    let info = repository.git_dir().join("info");
    std::fs::create_dir_all(&info).unwrap();
    std::fs::write(info.join("grafts"), format!("{cut}\n")).unwrap();
    agent.pushes(&repository, &["HEAD:refs/heads/main"]);
    let theirs = world.sandbox.init("theirs", &[]);
    std::fs::create_dir_all(theirs.git_dir().join("info")).unwrap();
    std::fs::write(theirs.git_dir().join("info/grafts"), format!("{cut}\n")).unwrap();
    bob.fetches(&theirs, &["refs/heads/main"]);
    std::fs::remove_file(theirs.git_dir().join("info/grafts")).unwrap();
    assert!(is_complete(&theirs, &[tip]));
}

#[test]
fn a_commit_with_a_nul_in_its_message_arrives() {
    let world = World::new();
    let (agent, bob) = (world.agent("alice"), world.agent("bob"));
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    let (tree, who) = (
        repository.git(&["rev-parse", "HEAD^{tree}"]),
        "A <a@example.invalid> 1700000000 +0000",
    );
    let args = ["hash-object", "-t", "commit", "-w", "--stdin", "--literally"];
    let text = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nz\0ro\n");
    let tip = repository.feed(&args, text.as_bytes());
    agent.pushes(&repository, &[&format!("{tip}:refs/heads/main")]);
    let theirs = world.sandbox.init("theirs", &[]);
    bob.fetches(&theirs, &["refs/heads/main"]);
    assert!(is_complete(&theirs, &[tip.parse().unwrap()]));
}

#[test]
fn refs_are_refused_in_gits_words() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (_, ours) = world.origin_and_clone("ours");
    let base = ours.oid("HEAD");
    ours.commit("a", "ours\n");
    ours.git(&["tag", "v1"]);
    ours.git(&["tag", "-a", "-m", "v2", "v2"]);
    alice.pushes(
        &ours,
        &[
            "HEAD:refs/heads/main",
            "refs/tags/v1:refs/tags/v1",
            "refs/tags/v2:refs/tags/v2",
        ],
    );

    let theirs = world.sandbox.init("theirs", &[]);
    theirs.git(&[
        "fetch",
        "-q",
        ours.directory.to_str().unwrap(),
        &format!("{base}:refs/heads/base"),
    ]);
    theirs.git(&["checkout", "-q", "base"]);
    theirs.commit("b", "theirs\n");
    let (statuses, said) = bob.push(
        &theirs,
        &[
            "HEAD:refs/heads/main",
            "HEAD:refs/tags/v1",
            "HEAD:refs/heads/main/deeper",
            "HEAD:refs/heads/free",
            "HEAD^{tree}:refs/heads/tree",
            "gone:refs/heads/gone",
            ":refs/heads/nothing",
            ":refs/heads/main",
            "HEAD:refs/parler/abc",
            "HEAD:refs/heads/a..b",
            "HEAD:HEAD",
        ],
    );
    let expected = [
        "error refs/heads/main it is pushed to twice",
        "error refs/tags/v1 already exists",
        "error refs/heads/main/deeper 'refs/heads/main' exists; cannot create 'refs/heads/main/deeper'",
        "ok refs/heads/free",
        "error refs/heads/tree a room holds commits and tags of commits, and this is a tree",
        "error refs/heads/gone src refspec gone does not match any",
        "ok refs/heads/nothing",
        "error refs/heads/main it is pushed to twice",
        "error refs/parler/abc up to date",
    ];
    assert_eq!(statuses[..expected.len()], expected);
    assert!(
        statuses[9].starts_with("error refs/heads/a..b ref name"),
        "{}",
        statuses[9]
    );
    assert!(statuses[10].starts_with("error HEAD ref name"), "{}", statuses[10]);
    assert!(said.stderr.contains("deleting a non-existent ref: refs/heads/nothing"));

    let (statuses, _) = bob.push(&theirs, &["HEAD:refs/heads/main", ":refs/heads/free"]);
    assert_eq!(statuses, ["error refs/heads/main fetch first", "ok refs/heads/free"]);
    let (statuses, _) = bob.push(&theirs, &[":refs/heads/main"]);
    assert_eq!(
        statuses,
        ["error refs/heads/main deletion of the current branch prohibited"]
    );
    let (statuses, _) = alice.push(&ours, &["HEAD~1:refs/heads/main"]);
    assert_eq!(statuses, ["error refs/heads/main non-fast forward"]);
    let (statuses, _) = alice.push(&ours, &["HEAD~1:refs/tags/v2"]);
    assert_eq!(statuses, ["error refs/tags/v2 already exists"]);

    alice.pushes(&ours, &["+HEAD~1:refs/heads/main", ":refs/tags/v1"]);
    bob.pushes(&theirs, &["+HEAD:refs/heads/main"]);
    let tip = theirs.oid("HEAD");
    assert_eq!(bob.list(&theirs)[1], format!("{tip} refs/heads/main"));
}

#[test]
fn an_annotated_tag_on_a_known_commit_arrives() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    let commit = repository.commit("a", "1\n");
    agent.pushes(&repository, &["refs/heads/main:refs/heads/main"]);
    repository.git(&["tag", "-a", "-m", "one", "v1"]);
    let tag = repository.oid("v1");
    let said = agent.pushes(&repository, &["refs/tags/v1:refs/tags/v1"]);
    let id = said.bundle().to_owned();
    let listed = agent.list(&repository);
    assert!(listed.contains(&format!("{tag} refs/tags/v1")));
    assert!(listed.contains(&format!("{commit} refs/tags/v1^{{}}")));
    assert!(listed.contains(&format!("{tag} refs/parler/{id}")));
    let (said, _) = agent.talk(Some(&repository.git_dir()), "list for-push\n\n");
    assert_eq!(
        said.blocks()[0],
        [format!("{commit} refs/heads/main"), format!("{tag} refs/tags/v1")]
    );
    let other = world.sandbox.init("other", &[]);
    agent.fetches(&other, &["refs/heads/main", "refs/tags/v1"]);
    other.git(&["cat-file", "tag", &tag.to_string()]);
}

#[test]
fn several_refs_make_one_bundle_and_names_below_it() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    let first = repository.commit("a", "1\n");
    repository.git(&["branch", "other"]);
    let second = repository.commit("a", "2\n");
    let said = agent.pushes(
        &repository,
        &["refs/heads/main:refs/heads/main", "refs/heads/other:refs/heads/other"],
    );
    let id = said.bundle().to_owned();
    let pins = refs(&repository, &format!("refs/parler/{id}"));
    let expected = [
        format!("{second} refs/parler/{id}/heads/main"),
        format!("{first} refs/parler/{id}/heads/other"),
    ];
    assert_eq!(pins, expected);
    assert!(expected.iter().all(|line| agent.list(&repository).contains(line)));
}

#[test]
fn one_of_two_pushes_at_once_wins_and_other_refs_get_through() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let (_, left) = world.origin_and_clone("left");
    alice.pushes(&left, &["HEAD:refs/heads/main"]);
    let right = world.sandbox.clone(&left, "right", &[]);
    for round in 0..10 {
        left.commit("left", &format!("{round}\n"));
        right.commit("right", &format!("{round}\n"));
        let start = Barrier::new(2);
        let (ours, theirs) = std::thread::scope(|scope| {
            let run = |agent, repository, own: &'static str| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    crate::world::Agent::push(agent, repository, &["HEAD:refs/heads/main", own]).0
                })
            };
            let ours = run(&alice, &left, "+HEAD:refs/heads/left");
            let theirs = run(&bob, &right, "+HEAD:refs/heads/right");
            (ours.join().unwrap(), theirs.join().unwrap())
        });
        let won = |statuses: &[String]| statuses[0] == "ok refs/heads/main";
        assert!(won(&ours) != won(&theirs), "{ours:?} {theirs:?}");
        let lost = if won(&ours) { &theirs } else { &ours };
        assert_eq!(lost[0], "error refs/heads/main fetch first");
        assert!(
            ours[1].starts_with("ok ") && theirs[1].starts_with("ok "),
            "{ours:?} {theirs:?}"
        );
        // Both go on from the winner.
        alice.fetches(&left, &["refs/heads/main"]);
        bob.fetches(&right, &["refs/heads/main"]);
        let main = alice
            .list(&left)
            .iter()
            .find(|line| line.ends_with(" refs/heads/main"))
            .unwrap()[..40]
            .to_owned();
        left.git(&["reset", "-q", "--hard", &main]);
        right.git(&["reset", "-q", "--hard", &main]);
    }
}
