//! `git push -o`: the instruction, the note and the base that ride with a push, and the options that do not.

use parler_harness::{Agent, LocalHub, Repository, World};
use serde_json::Value;

use super::{room_refs, world};

/// A clone whose `main` is in the room `try` and, since then, a commit ahead of it.
fn pushed(world: &World) -> Repository<'_> {
    let work = world.clone_of(&world.origin(), "work");
    work.git("remote add team parler::room/try").success();
    work.commit("a.txt", "one\n");
    work.git("push --quiet team main").success();
    work.commit("b.txt", "two\n");
    work
}

/// Every message of the room.
fn messages(agent: &Agent<'_>) -> Vec<Value> {
    let read = agent.parler("recv --room try --all --json").success().json();
    let mut messages = read["messages"].as_array().unwrap().clone();
    for message in &mut messages {
        // What the reader knew of the sender before: more at the second reading.
        message.as_object_mut().unwrap().remove("sender");
    }
    messages
}

/// The newest message's parts of this kind.
fn newest(agent: &Agent<'_>, kind: &str) -> Vec<Value> {
    let messages = messages(agent);
    let parts = messages.last().unwrap()["parts"].as_array().unwrap();
    let of_kind = |part: &&Value| part["kind"] == kind;
    parts.iter().filter(of_kind).cloned().collect()
}

fn blob(agent: &Agent<'_>) -> Value {
    newest(agent, "com.parler.bundle")[0]["blob"].clone()
}

fn handoff(agent: &Agent<'_>) -> Value {
    let found = newest(agent, "com.parler.handoff");
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn a_push_hands_over_in_the_message_of_its_refs() {
    let world = world();
    let work = pushed(&world);
    let next = r#"review the "parser" \now; é, 'quoted'	and  wide  "#;
    let (option, note) = (format!("next={next}"), "note=see = the sea".to_owned());
    let summary = "summary=tests green, 100 %";
    let push = work
        .git([
            "push", "-o", "for=Bob", "-o", &option, "-o", summary, "-o", &note, "team", "main",
        ])
        .success();
    push.warns("parler: bundle ").warns("in room try, handed over to Bob");
    // Bob may come later, or be misspelt.
    push.warns("parler: nobody in room try has the name or role Bob by now: git parler roster --room try");

    let before = messages(&work.user()).len();
    assert_eq!(before, 2, "one message a push");
    let user = work.user();
    for kind in ["text", "com.parler.refs", "com.parler.bundle"] {
        assert_eq!(newest(&user, kind).len(), 1, "{kind}");
    }
    assert_eq!(newest(&user, "text")[0]["text"], "see = the sea");
    let handed = handoff(&user);
    assert_eq!(handed["next"], next);
    assert_eq!(handed["summary"], "tests green, 100 %");
    assert_eq!(handed["to"], "Bob");
    assert_eq!(handed["bundle"], blob(&user));

    // Its receiver is led to the bundle of that very push.
    let bob = world
        .agent("bob")
        .at(&world.clone_with(world.path().join("origin.git"), "bob", ""));
    let recv = bob.parler("recv --room try").success();
    assert!(recv.out().starts_with("HANDOFF TO YOU from "), "{recv:?}");
    let id = blob(&user);
    recv.says(&format!("git parler apply {}", &id.as_str().unwrap()[..12]));
}

#[test]
fn a_handoff_is_for_anybody_unless_it_says_for_whom() {
    let world = world();
    let work = pushed(&world);
    let push = work.git("push -o next=look team main").success();
    push.warns("handed over to anybody").warns_no("nobody");
    let handed = handoff(&work.user());
    assert!(handed.get("to").is_none_or(Value::is_null), "{handed}");
    let quiet = work.commit("c.txt", "three\n");
    let push = work.git("push --quiet -o next=look team main").success();
    assert_eq!(push.err(), "");
    assert_eq!(room_refs(&work.user(), "try")["refs/heads/main"], quiet);
}

#[test]
fn the_configuration_may_hold_push_options() {
    let world = world();
    let work = pushed(&world);
    for option in ["next=from the configuration", "for=carol"] {
        work.git(["config", "--add", "push.pushOption", option]).success();
    }
    work.git("push --quiet team main").success();
    let handed = handoff(&work.user());
    assert_eq!(
        (&handed["next"], &handed["to"]),
        (&"from the configuration".into(), &"carol".into())
    );
    // What the command line says is said instead, not besides.
    work.commit("c.txt", "three\n");
    work.git("push --quiet -o note=only team main").success();
    assert_eq!(newest(&work.user(), "com.parler.handoff"), [] as [Value; 0]);
    assert_eq!(newest(&work.user(), "text")[0]["text"], "only");
}

#[test]
fn options_that_break_a_rule_are_told_one_by_one_and_nothing_is_sent() {
    let world = world();
    let work = pushed(&world);
    let before = (messages(&work.user()), room_refs(&work.user(), "try"));
    for (options, lines) in [
        (&["x=1"] as &[&str], &["push option 'x' is not known"] as &[&str]),
        (&["next=a", "next=b"], &["push option 'next' is there more than once"]),
        (
            &["for=bob", "summary=s"],
            &["push option 'for' says more", "push option 'summary' says more"],
        ),
        (&["next="], &["push option 'next' is empty"]),
        (
            &["CI", "note=a", "note=a", "for=b"],
            &["'CI' is not known", "'note' is there more", "'for' says more"],
        ),
    ] {
        let mut arguments = vec!["push", "--porcelain"];
        arguments.extend(options.iter().flat_map(|option| ["-o", option]));
        arguments.extend(["team", "main", "main:refs/heads/new"]);
        let arguments: Vec<_> = arguments.into_iter().map(Into::into).collect();
        let refused = work.git(arguments).code(1);
        let told: Vec<_> = refused
            .err()
            .lines()
            .filter(|line| line.starts_with("parler: "))
            .collect();
        assert_eq!(told.len(), lines.len(), "{refused:?}");
        for (told, line) in told.iter().zip(lines) {
            assert!(told.contains(line), "{refused:?}");
        }
        refused.says("!\trefs/heads/main:refs/heads/main\t[remote rejected] (push options refused)");
        refused.says("!\trefs/heads/main:refs/heads/new\t[remote rejected] (push options refused)");
    }
    // Git itself: its protocol has lines.
    work.git(["push", "-o", "next=a\nb", "team", "main"]).code(128);
    work.git("push -o base=nowhere team main").failure();
    assert_eq!((messages(&work.user()), room_refs(&work.user(), "try")), before);
}

#[test]
fn a_push_of_no_commits_hands_over_too() {
    let world = world();
    let work = pushed(&world);
    let user = work.user();
    work.git("push --quiet team main main:refs/heads/old").success();
    let of_main = blob(&user);

    work.git("push --quiet -o next=merged,-go-on team :refs/heads/old")
        .success();
    let handed = handoff(&user);
    assert!(handed.get("bundle").is_none_or(Value::is_null), "{handed}");
    assert!(!room_refs(&user, "try").contains_key("refs/heads/old"));

    // A light tag is no object: the room has a bundle with its commit.
    work.git("tag light").success();
    work.git("push --quiet -o next=build team light").success();
    assert_eq!(handoff(&user)["bundle"], of_main);
    assert_eq!(newest(&user, "com.parler.bundle"), [] as [Value; 0]);

    work.git("tag -a v1 -m one").success();
    work.git("push --quiet -o next=release --tags team").success();
    let of_tag = blob(&user);
    assert!(of_tag != of_main);
    assert_eq!(handoff(&user)["bundle"], of_tag);
}

#[test]
fn where_one_ref_is_refused_nothing_is_handed_over() {
    let world = world();
    let work = pushed(&world);
    let other = world.clone_with(world.path().join("origin.git"), "other", "");
    other.commit("c.txt", "other\n");
    other.git("push --quiet --force parler::room/try main").success();
    let before = (messages(&work.user()), room_refs(&work.user(), "try"));
    let refused = work.git("push -o next=look team main main:refs/heads/new").code(1);
    refused
        .warns("main -> main (fetch first)")
        .warns("main -> new (atomic push failed)");
    assert_eq!((messages(&work.user()), room_refs(&work.user(), "try")), before);
}

#[test]
fn a_dry_run_reads_options_and_hands_nothing_over() {
    let world = world();
    let work = pushed(&world);
    let before = messages(&work.user());
    work.git("push --dry-run -o next=look team main")
        .success()
        .warns("main -> main");
    work.git("push --dry-run -o x=look team main")
        .code(1)
        .warns("push option 'x'");
    assert_eq!(messages(&work.user()), before);
    work.git("push --dry-run parler::room/unmade main").success();
    work.git("ls-remote parler::room/unmade").failure();
}

#[test]
fn an_option_may_choose_the_base() {
    let world = world();
    let work = pushed(&world);
    work.git("push --quiet -o base=none parler::room/try main:refs/heads/x")
        .success();
    let user = work.user();
    assert_eq!(
        newest(&user, "com.parler.bundle")[0]["prerequisites"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    work.git("push --quiet -o base=none parler::room/alone main").success();
    let alone = user.parler("recv --room alone --all --json").success();
    let parts = alone.json()["messages"][0]["parts"].clone();
    assert_eq!(
        (&parts[0]["commits"], &parts[0]["prerequisites"]),
        (&5.into(), &Value::Null),
        "{parts}"
    );
    assert!(newest(&user, "com.parler.handoff").is_empty());
}

#[test]
fn on_a_branch_that_is_up_to_date_git_asks_nobody_and_git_parler_posts() {
    let world = world();
    let work = pushed(&world);
    work.git("push --quiet team main").success();
    let before = messages(&work.user());
    work.git("push -o next=look team main")
        .success()
        .warns("Everything up-to-date");
    assert_eq!(messages(&work.user()), before);
    work.user().parler("push --room try --next look main").success();
    assert_eq!(handoff(&work.user())["next"], "look");
}

#[test]
fn a_push_with_options_costs_what_a_push_costs() {
    let world = world();
    let work = pushed(&world);
    let hub = LocalHub::of(&work.user());
    let mark = hub.log().mark();
    work.git("push --quiet --atomic --force-with-lease=main:team/main -o next=look team main")
        .success();
    let requests = hub.log().since(mark);
    assert_eq!(requests.len(), 2, "{requests:#?}");
    assert_eq!(requests[1], "POST /v1/rooms/{room}/messages 201");
}
