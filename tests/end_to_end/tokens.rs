//! CI jobs: two variables are all they have. They push, read and hand over from bare containers, are one author however
//! often they run, and leave nothing behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use parler_harness::{Agent, Cut, CuttingProxy, HubProcess, Repository, World};

use super::{hub_server, world};

/// A hub, and alice who owns its room `build`.
pub(super) fn hub_and_owner(world: &World) -> (HubProcess, Agent<'_>) {
    let hub = hub_server::start(world);
    let alice = world.stranger("alice").on(&hub);
    alice.parler("invite --group build").success();
    (hub, alice)
}

/// Makes a token.
#[track_caller]
pub(super) fn token(alice: &Agent<'_>, name: &str, can: &str) -> String {
    let made = alice
        .parler(format!("token create {name} --room build --can {can} --ttl 1h"))
        .success();
    made.warns("PARLER_TOKEN");
    made.word().to_owned()
}

/// A job in a bare container: a search path, a home that does not exist, and the two variables.
pub(super) fn job<'w>(world: &'w World, hub: &str, token: &str) -> Agent<'w> {
    let mut job = world.user();
    for name in [
        "COLUMNS",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_TERMINAL_PROMPT",
        "LC_ALL",
        "PARLER_HOME",
        "TMPDIR",
        "TZ",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ] {
        job = job.without(name);
    }
    job.with("HOME", world.path().join("no-such-home"))
        .with("PARLER_HUB", hub)
        .with("PARLER_TOKEN", token)
}

/// What a job's checkout step leaves: a clone of its own.
fn checkout<'w>(world: &'w World, origin: &Repository<'w>, name: &str) -> Repository<'w> {
    world.clone_from_afar(origin, name)
}

/// Every file of the world, but those of the hub, of alice and of git.
fn files(world: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut directories = vec![world.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_others = path.ends_with(".git") || path.ends_with("hub") || path.ends_with("parler-of-alice");
            if path.is_dir() && !is_others {
                directories.push(path);
            } else if !is_others {
                found.insert(path);
            }
        }
    }
    found
}

#[test]
fn two_variables_are_all_a_job_needs() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post,read");
    let origin = world.origin();
    let work = checkout(&world, &origin, "work");
    work.commit("a.txt", "one\n");
    let job = job(&world, &hub.url(), &token).at(&work);
    let before = files(&world.path());

    job.git("push --quiet parler::room/build HEAD:refs/heads/ci").success();
    let refs = job.git("ls-remote parler::room/build refs/heads/ci").success();
    assert_eq!(refs.listed_refs()["refs/heads/ci"], work.rev("HEAD"));
    job.git("fetch --quiet parler::room/build ci").success();
    job.parler(["send", "--room", "build", "hello"])
        .success()
        .says("message 2");
    job.parler("handoff --room build --for reviewer --next look").success();
    work.commit("b.txt", "two\n");
    let pushed = job
        .parler("push --room build --next review HEAD:refs/heads/more --json")
        .success()
        .json();
    let id = pushed["bundleId"].as_str().unwrap().to_owned();
    job.parler("recv --room build --json").success();
    // It has acknowledged nothing.
    let again = job.parler("recv --room build --json").success().json();
    assert_eq!(again["messages"].as_array().unwrap().len(), 4);
    job.parler("show 2 --room build").success().says("ci/nightly");
    job.parler(format!("apply {id} --room build")).success();
    job.parler(format!(
        "fetch {id} --room build -o {}",
        world.path().join("x.bundle").display()
    ))
    .success();
    let me = job.parler("whoami").success();
    me.says("ci/nightly").says("post and read in 'build'").says("until");
    assert!(!me.out().contains(&token));

    let left: Vec<_> = files(&world.path()).difference(&before).cloned().collect();
    assert_eq!(left, [work.path().join("b.txt"), world.path().join("x.bundle")]);

    // Every message is the token's, and each process had a key of its own.
    let log = alice.parler("recv --room build --all --json").success().json();
    let messages = log["messages"].as_array().unwrap();
    let mut keys = BTreeSet::new();
    for message in messages {
        assert_eq!(message["from"]["name"], "ci/nightly", "{message}");
        assert_eq!(message["signature"], "valid", "{message}");
        keys.insert(message["from"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(keys.len(), messages.len());
}

#[test]
fn a_home_that_is_empty_or_cannot_be_written_is_no_matter() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post");
    let work = checkout(&world, &world.origin(), "work");
    let file = world.path().join("token");
    fs::write(&file, format!("{token}\n")).unwrap();
    let sealed = world.directory("sealed");
    fs::set_permissions(&sealed, fs::Permissions::from_mode(0o555)).unwrap();
    for (number, home) in [Some(sealed.as_path()), Some(Path::new("")), None]
        .into_iter()
        .enumerate()
    {
        let job = job(&world, &hub.url(), "").at(&work).with("PARLER_TOKEN_FILE", &file);
        let job = match home {
            Some(home) => job.with("HOME", home),
            None => job.without("HOME"),
        };
        job.git(format!("push --quiet parler::room/build HEAD:refs/heads/ci-{number}"))
            .success();
        job.parler(["send", "--room", "build", "hello"]).success();
        // Outside of any repository as well.
        job.within(world.directory("empty"))
            .parler(["send", "--room", "build", "hello"])
            .success();
    }
    assert_eq!(fs::read_dir(&sealed).unwrap().count(), 0);
}

#[test]
fn a_jobs_push_is_two_requests() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post");
    let work = checkout(&world, &world.origin(), "work");
    work.commit("a.txt", "one\n");
    let job = job(&world, &hub.url(), &token).at(&work);
    let mark = hub.log().mark();
    job.git("push --quiet parler::room/build HEAD:refs/heads/ci").success();
    let requests = hub.log().since(mark);
    assert_eq!(
        requests,
        ["GET /v1/rooms/{room}/pushes 200", "POST /v1/rooms/{room}/messages 201"]
    );
}

#[test]
fn a_job_whose_answer_was_cut_off_runs_again_and_there_is_one_message() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let _hub = hub_server::start_behind(&world, &proxy);
    let alice = world.stranger("alice").with("PARLER_HUB", proxy.url());
    alice.parler("invite --group build").success();
    let token = token(&alice, "nightly", "post");
    let lost = Cut::AnswerTo("POST /v1/rooms/build/messages");
    let origin = world.origin();
    let clone = |name: &str| {
        let clone = checkout(&world, &origin, name);
        // What both runs build from the same source, byte for byte.
        clone.git("checkout --quiet -b ci").success();
        clone.git("commit --quiet --allow-empty -m built").success();
        clone
    };
    let run = |clone: &Repository<'_>| job(&world, &proxy.url(), &token).at(clone);

    let first = clone("first");
    proxy.cut([lost; 64]);
    let pushing = run(&first).start_git("push parler::room/build ci");
    assert!(proxy.wait_for_lost_answer().starts_with("HTTP/1.1 201"));
    // The runner gives up on the job.
    drop(pushing);
    proxy.cut([]);
    let second = clone("second");
    assert_eq!(first.rev("ci"), second.rev("ci"));
    run(&second)
        .git("push parler::room/build ci")
        .success()
        .warns("Everything up-to-date");
    assert_eq!(hub_messages(&alice), 1);

    // The instruction, with a key that is the same in both runs.
    let hand_over = [
        "handoff",
        "--room",
        "build",
        "--bundle",
        "ci",
        "--next",
        "review",
        "--idempotency-key",
        "run-7",
    ];
    proxy.cut([lost; 64]);
    let handing = run(&first).start_parler(hand_over);
    assert!(proxy.wait_for_lost_answer().starts_with("HTTP/1.1 201"));
    drop(handing);
    proxy.cut([]);
    let third = clone("third");
    run(&third).parler(hand_over).success().says("message 2");
    assert_eq!(hub_messages(&alice), 2);
    let mut other = hand_over;
    other[6] = "merge";
    run(&third).parler(other).code(6);

    // A push with an instruction, which moves nothing when it runs again.
    let push = "push --room build ci:refs/heads/keyed --next review --idempotency-key run-8";
    run(&third).parler(push).success().says("message 3");
    run(&third).parler(push).success().says("message 3");
    run(&third).parler(push.replace("review", "merge")).code(6);
    assert_eq!(hub_messages(&alice), 3);

    // Without a key one process asks again for what it lost.
    proxy.cut([lost]);
    run(&third)
        .parler(["send", "--room", "build", "hello"])
        .success()
        .says("message 4");
    proxy.wait_for_lost_answer();
    proxy.cut([lost]);
    run(&third)
        .git("push --quiet parler::room/build ci:refs/heads/again")
        .success();
    proxy.wait_for_lost_answer();
    assert_eq!(hub_messages(&alice), 5);
}

pub(super) fn hub_messages(alice: &Agent<'_>) -> usize {
    let log = alice.parler("recv --room build --all --json").success().json();
    log["messages"].as_array().unwrap().len()
}

#[test]
fn what_a_token_may_not_is_one_clear_line() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    alice.parler("invite --group ops").success();
    let poster = token(&alice, "poster", "post");
    let reader = token(&alice, "reader", "read");
    let work = checkout(&world, &world.origin(), "work");
    work.commit("a.txt", "one\n");
    let post = job(&world, &hub.url(), &poster).at(&work);
    let read = job(&world, &hub.url(), &reader).at(&work);
    let push = "push --quiet parler::room/build HEAD:refs/heads/x";

    let refused = |output: parler_harness::Output, words: &str| {
        let answer = output.code(4);
        let line = answer.one_error_line();
        assert!(line.contains(words), "{line}");
        assert!(!line.contains(&poster) && !line.contains(&reader), "{line}");
    };
    refused(
        post.parler("recv --room build"),
        "may post in room 'build', and this needs read",
    );
    refused(read.parler(["send", "--room", "build", "x"]), "this needs post");
    for room in ["ops", "nowhere"] {
        refused(
            read.parler(format!("recv --room {room}")),
            &format!("is not for a room '{room}'"),
        );
        refused(
            post.parler(format!("send --room {room} x")),
            &format!("is not for a room '{room}'"),
        );
    }
    for verb in [
        "rooms",
        "roster --room build",
        "invite --group build",
        "token create x --room build",
        "token list",
    ] {
        refused(read.parler(verb), "the token 'reader' does not do this");
    }
    for verb in ["connect", "join ABCDEFGH"] {
        let line = read.parler(verb).code(2);
        assert!(line.one_error_line().contains("ci/reader"), "{line:?}");
    }
    assert!(read.git(push).failure().err().contains("this needs post"));
    let elsewhere = read.git("ls-remote parler::room/nowhere").code(128);
    elsewhere.warns("is not for a room 'nowhere'");

    // Expired, revoked, unknown.
    let database = rusqlite::Connection::open(world.path().join("hub/data/hub.db")).unwrap();
    let expired = database
        .execute("UPDATE tokens SET expires_at = 1 WHERE key = 'reader'", ())
        .unwrap();
    assert_eq!(expired, 1);
    refused(read.parler("recv --room build"), "the token 'reader' has expired");
    read.git("ls-remote parler::room/build").code(128).warns("has expired");
    alice.parler("token revoke poster").success().says("poster");
    refused(
        post.parler(["send", "--room", "build", "x"]),
        "the token 'poster' was revoked",
    );
    post.git("ls-remote parler::room/build").code(128).warns("was revoked");
    alice.parler("token create poster --room build").success();
    refused(post.parler(["send", "--room", "build", "x"]), "does not know the token");
    alice
        .parler("token create Poster --room build")
        .code(6)
        .one_error_line();
    let listed = alice.parler("token list").success();
    listed.says("poster · post in 'build' · by alice").says("reader");
    assert!(!listed.out().contains("parler_ci_"));
}

#[test]
fn a_token_without_its_hub_or_form_is_a_usage_error() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post");
    let job = job(&world, &hub.url(), &token);
    let usage = |agent: &Agent<'_>, words: &str| {
        let answer = agent.parler(["send", "--room", "build", "x"]).code(2);
        let line = answer.one_error_line();
        assert!(line.contains(words) && !line.contains(&token), "{line}");
    };
    usage(&job.without("PARLER_HUB"), "PARLER_HUB");
    usage(&job.with("PARLER_HUB", "local"), "PARLER_HUB");
    usage(&job.with("PARLER_TOKEN", &token[1..]), "PARLER_TOKEN: not a token");
    usage(&job.with("PARLER_TOKEN_FILE", "x"), "both set");
    usage(
        &job.without("PARLER_TOKEN").with("PARLER_TOKEN_FILE", "/no/such/file"),
        "/no/such/file",
    );
    let answer = job.parler("whoami --as bob").code(2);
    assert!(answer.one_error_line().contains("--as"), "{answer:?}");
    // The local hub of somebody who is at home makes none.
    let user = world.agent("carol");
    user.parler("invite --group build").success();
    let answer = user.parler("token create --room build").code(7);
    assert!(answer.one_error_line().contains("local hub"), "{answer:?}");
}

/// The token is handed to nobody: not to git's children, on either side, nor said.
#[test]
fn the_token_stays_with_the_process_that_was_given_it() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post,read");
    let work = checkout(&world, &world.origin(), "work");
    let bobs = checkout(&world, &world.origin(), "bobs");
    work.has_git_pack();
    work.commit("a.txt", "one\n");
    let seen = world.path().join("seen");
    let wrapper = world.path().join("git-that-tells");
    let script = format!(
        "#!/bin/sh\n{{ env; echo \"$@\"; }} >> '{}'\nexec git \"$@\"\n",
        seen.display()
    );
    parler_harness::write_executable(&wrapper, &script);
    let job = job(&world, &hub.url(), &token)
        .with("PARLER_GIT", &wrapper)
        .with("GIT_TRACE", "1")
        .with("GIT_TRACE_PACKET", "1");
    let answers = [
        job.at(&work)
            .git("push parler::room/build HEAD:refs/heads/ci")
            .success(),
        job.at(&bobs).git("fetch parler::room/build ci").success(),
        job.at(&bobs).parler("whoami --json").success(),
        job.at(&bobs).parler("recv --room nowhere").code(4),
    ];
    let mut said = vec![
        hub.log().text(),
        fs::read_to_string(bobs.path().join(".git/config")).unwrap(),
    ];
    said.extend(answers.iter().map(|answer| format!("{}{}", answer.out(), answer.err())));
    let children = fs::read_to_string(&seen).unwrap();
    assert!(
        children.contains("pack-objects") && children.contains("PARLER_HUB="),
        "{children}"
    );
    assert!(!children.contains("PARLER_TOKEN"), "{children}");
    for text in said.iter().chain([&children]) {
        assert!(!text.contains(&token), "{}", text.replace(&token, "<TOKEN>"));
    }
}

#[test]
fn doctor_says_what_the_token_may_and_when_it_is_over() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post");
    let job = job(&world, &hub.url(), &token).within(world.directory("place"));
    let token_check = |code: i32| {
        let told = job.parler("doctor --json").code(code).json();
        let checks = told["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == "token").unwrap()
    };
    let fine = token_check(0);
    assert_eq!(fine["status"], "ok", "{fine}");
    assert!(
        fine["message"]
            .as_str()
            .unwrap()
            .starts_with("may post in 'build', until "),
        "{fine}"
    );
    alice.parler("token revoke nightly").success();
    let over = token_check(1);
    assert_eq!(over["status"], "problem", "{over}");
    assert!(over["message"].as_str().unwrap().contains("was revoked"), "{over}");
}

#[test]
fn what_a_token_cannot_be_made_for_is_named() {
    let world = world();
    let (_hub, alice) = hub_and_owner(&world);
    for (arguments, code, said) in [
        (
            "token create --room build --ttl 366d",
            2,
            "--ttl '366d' is more than 365d, the longest",
        ),
        ("invite --group build --ttl 366d", 2, "--ttl '366d' is more than 365d"),
        ("invite --group build --max-uses 0", 2, "--max-uses <N>"),
        ("token create --room nosuch", 3, "no room 'nosuch' that you belong to"),
        (
            "token create --room build,nosuch",
            3,
            "not every one of 'build', 'nosuch' is a room that you belong to",
        ),
    ] {
        let refused = alice.parler(arguments).code(code);
        assert!(refused.one_error_line().contains(said), "{refused:?}");
    }
}

/// The steps of `docs/ci.md` as they stand there.
#[test]
fn the_documents_steps_run_as_they_stand() {
    let document = include_str!("../../docs/ci.md");
    let steps: Vec<&str> = document
        .lines()
        .map(|line| line.trim_start_matches("    ").trim().trim_start_matches("- "))
        .filter(|line| {
            line.starts_with("git push parler::")
                || line.starts_with("git parler handoff ")
                || line.starts_with("git parler send ")
        })
        .collect();
    assert_eq!(steps.len(), 3, "{steps:#?}");
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let token = token(&alice, "nightly", "post");
    let work = checkout(&world, &world.origin(), "work");
    work.git("checkout --quiet --detach").success();
    work.commit("a.txt", "one\n");
    let job = job(&world, &hub.url(), &token)
        .at(&work)
        .with("CI", "true")
        .with("BRANCH", "main")
        .with("RUN", "7")
        .with("COMMIT", work.rev("HEAD"));
    for _ in 0..2 {
        for step in &steps {
            job.run("sh", ["-e", "-c", step]).success();
        }
    }
    assert_eq!(hub_messages(&alice), 3);
}

#[test]
fn a_job_has_a_new_key_each_time_and_is_never_a_stranger() {
    let world = world();
    let (hub, alice) = hub_and_owner(&world);
    let bob = world.stranger("bob").on(&hub);
    let code = alice.parler("invite --group build").success();
    bob.parler(["join", code.word()]).success();
    let token = token(&alice, "nightly", "post,read");
    let watch = alice.start_parler("recv --room build --watch --json");
    let mut keys = BTreeSet::new();
    for run in ["first", "second", "third"] {
        let job = job(&world, &hub.url(), &token);
        job.parler(["handoff", "--room", "build", "--for", "bob", "--next", run])
            .success();
        let read = bob.parler("recv --room build --all").success();
        read.says("HANDOFF TO YOU from ci/nightly")
            .says(run)
            .says_no("new key")
            .warns_no("warning");
        let json = bob.parler("recv --room build --all --json").success().json();
        let newest = json["messages"].as_array().unwrap().last().unwrap().clone();
        assert_eq!(newest["sender"], "ci", "{newest}");
        keys.insert(newest["from"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(keys.len(), 3);
    let watched = watch.wait_for_output(|out| out.contains("third"));
    assert_eq!(watched.matches(r#""sender":"ci""#).count(), 3, "{watched}");
    super::watching::interrupt(watch);
    bob.parler("trust --room build").success().says_no("ci/nightly");
    // Only the hub gives such names.
    for name in ["ci/nightly", "CI/nightly", "\u{441}i/nightly"] {
        let code = alice.parler("invite --group build").success();
        let other = parler_harness::RawClient::new(&hub.url(), name);
        let refused = other.calls.join(&code.word().parse().unwrap()).unwrap_err();
        assert!(refused.to_string().contains("is a token's"), "{name}: {refused}");
    }
}
