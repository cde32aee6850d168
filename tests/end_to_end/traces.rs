//! Tracing: `PARLER_TRACE` tells requests, git children and decisions, `GIT_TRACE` and its relatives show our children too,
//! results and errors stay what they were, and no secret is in any of it.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use parler_harness::{Answer, Repository, World, look_for};

use super::{hub_server, world};

/// Whether a line is of our trace: the time of day, then a crate of ours.
fn is_ours(line: &str) -> bool {
    is_timed(line)
        && ["parler_client ", "git_remote_parler ", "parler_git "]
            .iter()
            .any(|who| line[16..].starts_with(who))
}

fn is_timed(line: &str) -> bool {
    let form = "00:00:00.000000 ";
    line.len() > form.len()
        && line.bytes().zip(form.bytes()).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        })
}

fn is_trace(line: &str) -> bool {
    is_timed(line) || line.starts_with("{\"event\":")
}

/// Standard error without lines of a trace.
fn untraced(answer: &Answer) -> Vec<&str> {
    answer.err().lines().filter(|line| !is_trace(line)).collect()
}

#[track_caller]
fn holds(trace: &str, texts: &[&str]) {
    for text in texts {
        assert!(trace.contains(text), "not traced: {text:?}\n{trace}");
    }
}

/// A clone that has pushed `refs/heads/x`, and another.
fn two_clones(world: &World) -> (Repository<'_>, Repository<'_>) {
    let origin = world.origin();
    let (work, bobs) = (world.clone_of(&origin, "work"), world.clone_of(&origin, "bobs"));
    for place in [&work, &bobs] {
        place.git("remote add team parler::room/try").success();
    }
    work.commit("a.txt", "one\n");
    work.git("push --quiet team HEAD:refs/heads/x").success();
    (work, bobs)
}

#[test]
fn parler_trace_tells_requests_children_and_decisions() {
    let world = world();
    let (work, bobs) = two_clones(&world);
    let file = world.path().join("trace");
    // What was read is kept, what was pushed is read by the next push.
    work.git("fetch --quiet team").success();
    work.commit("b.txt", "two\n");
    let told = work
        .user()
        .with("PARLER_TRACE", "1")
        .git("push team HEAD:refs/heads/x")
        .success();
    let trace: Vec<&str> = told.err().lines().filter(|line| is_ours(line)).collect();
    holds(
        &trace.join("\n"),
        &[
            "GET /v1/rooms/try/pushes?since=",
            "POST /v1/rooms/try/messages ",
            "status=201 ",
            " ms=",
            " attempt=1",
            "the cached fold is continued",
            "push: a ref moves",
            "refs/heads/x",
            "push: a bundle is made",
            "push: a small pack is made in-process",
        ],
    );
    // A line each, and beside them what is told anyhow.
    assert_eq!(told.err().lines().filter(|line| is_timed(line)).count(), trace.len());
    let said = untraced(&told);
    assert!(
        said[0].starts_with("parler: bundle ") && said[0].contains(", message 2 in room try"),
        "{told:?}"
    );

    let fetched = bobs.user().with("PARLER_TRACE", &file).git("fetch team").success();
    fetched.warns_no("parler_client");
    let trace = fs::read_to_string(&file).unwrap();
    assert!(trace.lines().all(is_ours), "{trace}");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    holds(
        &trace,
        &[
            "no cached fold",
            "GET /v1/rooms/try/bundles",
            "fetch: planned",
            "import: a bundle",
            "pins: go into packed-refs at once",
            "import: objects moved in, tips pinned",
        ],
    );
    // Appended, by `git parler` too.
    bobs.user().with("PARLER_TRACE", &file).parler("rooms").success();
    let longer = fs::read_to_string(&file).unwrap();
    holds(longer.strip_prefix(&trace).unwrap(), &["GET /v1/rooms "]);

    // A child is told with its end.
    work.has_git_pack();
    work.commit("c.txt", "three\n");
    let told = work
        .user()
        .with("PARLER_TRACE", "1")
        .git("push team HEAD:refs/heads/x")
        .success();
    holds(told.err(), &["pack-objects --revs --stdout", ": exit status: 0"]);
}

#[test]
fn history_is_read_while_git_decides_what_to_push() {
    let world = world();
    let (work, _) = two_clones(&world);
    let trace = world.path().join("trace");
    let traced = || fs::read_to_string(&trace).unwrap_or_default();
    let helper = work.user().with("GIT_DIR", work.git_dir()).with("PARLER_TRACE", &trace);
    for content in ["two\n", "three\n"] {
        work.commit("b.txt", content);
    }
    // A git that takes its time.
    let mut started = helper
        .command("git-remote-parler", "team parler::room/try")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut git = started.stdin.take().unwrap();
    git.write_all(b"list for-push\n").unwrap();
    let is_read = || traced().contains("push: read ahead commits=Ok(2)").then_some(());
    look_for(is_read, || format!("nothing was read ahead: {}", traced()));
    git.write_all(b"push HEAD:refs/heads/x\n\n\n").unwrap();
    drop(git);
    assert!(started.wait().unwrap().success(), "{}", traced());
    holds(&traced(), &["push: a bundle is made tips=2 commits=2"]);

    // What the room has is not looked at.
    fs::remove_file(&trace).unwrap();
    helper
        .feed("git-remote-parler", "team parler::room/try", b"list for-push\n\n")
        .success();
    assert!(!traced().contains("read ahead"), "{}", traced());
}

#[test]
fn another_value_is_refused_in_one_line() {
    let world = world();
    let (work, _) = two_clones(&world);
    for value in ["yes", "trace.log", "3"] {
        let agent = work.user().with("PARLER_TRACE", value);
        for (answer, start) in [
            (agent.git("fetch team").code(128), "fatal: "),
            (agent.parler("rooms").code(2), "parler: "),
        ] {
            let line = answer.one_error_line();
            assert!(line.starts_with(start), "{answer:?}");
            assert!(line.contains(&format!("PARLER_TRACE is '{value}'")), "{answer:?}");
            assert!(line.contains("PARLER_TRACE=1"), "{answer:?}");
        }
    }
    let agent = work.user().with("PARLER_TRACE", world.path().join("no/such/file"));
    let refused = agent.git("fetch team").code(128);
    assert!(refused.one_error_line().contains("no/such/file"), "{refused:?}");
    for nothing in ["", "0", "false"] {
        work.user()
            .with("PARLER_TRACE", nothing)
            .git("fetch team")
            .success()
            .warns_no("parler_client");
    }
}

/// The strings of JSON files below a directory that are secret by their names.
fn secrets_in(directory: &Path, found: &mut Vec<String>) {
    fn of(value: &serde_json::Value, found: &mut Vec<String>) {
        for (name, value) in value.as_object().into_iter().flatten() {
            match value.as_str() {
                Some(text) if ["seed", "token", "secret"].contains(&name.as_str()) => found.push(text.to_owned()),
                _ => of(value, found),
            }
        }
    }
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            secrets_in(&path, found);
        } else if let Ok(value) = serde_json::from_slice(&fs::read(&path).unwrap_or_default()) {
            of(&value, found);
        }
    }
}

#[test]
fn no_trace_holds_a_secret() {
    let world = world();
    let hub = hub_server::start(&world);
    let origin = world.origin();
    let file = world.path().join("trace");
    let place = world.clone_of(&origin, "work");
    let tracing = |name: &str| {
        world
            .stranger(name)
            .on(&hub)
            .at(&place)
            .with("PARLER_TRACE", &file)
            .with("GIT_TRACE", &file)
            .with("GIT_TRACE2_EVENT", &file)
    };
    let (alice, bob) = (tracing("alice"), tracing("bob"));
    let code = alice.parler("invite --group build").success().word().to_owned();
    bob.parler(["join", &code]).success();
    bob.parler("join ABCDEFGHJKMN").failure();
    let token = alice
        .parler("token create nightly --room build --can post,read --ttl 1h")
        .success()
        .word()
        .to_owned();
    let option = "kept-between-us";
    place.has_git_pack();
    place.commit("a.txt", "one\n");
    alice
        .git([
            "push",
            "-o",
            &format!("next={option}"),
            "parler::room/build",
            "HEAD:refs/heads/x",
        ])
        .success();
    let credentials = "hunter2";
    place
        .git([
            "remote",
            "add",
            "secretive",
            &format!("https://me:{credentials}@git.example/x"),
        ])
        .success();
    for command in [
        "fetch parler::room/build",
        "ls-remote parler::room/build",
        "push parler::room/build :refs/heads/nosuch",
        "push parler::room/nosuch HEAD:refs/heads/x",
    ] {
        let _ = bob.git(command).either();
    }
    for command in [
        "whoami",
        "rooms",
        "roster --room build",
        "room head --room build",
        "recv --room build --all",
        "recv --room build --limit 1",
        "send --room build hello",
        "handoff --room build --next work",
        "push --room build --note hello HEAD:refs/heads/y",
        "show 1 --room build",
        "fetch 1 --room build -o bundle",
        "apply 1 --room build",
        "token list",
        "token revoke nightly",
        "trust --room build",
        "connect --role tester",
        "doctor",
        "hub status",
        "man git-parler",
        "completion bash",
    ] {
        let _ = alice.parler(command).either();
    }
    // On the local hub, whose programs know one more secret.
    let local = world.agent("carol").at(&place).with("PARLER_TRACE", &file);
    local.parler("send --room own hello").failure();
    local.parler("invite --group own").success();
    local.git("push parler::room/own HEAD:refs/heads/x").success();
    let token = [
        token,
        alice
            .parler("token create other --room build --can post,read --ttl 1h")
            .success()
            .word()
            .to_owned(),
    ];
    let job = world
        .user()
        .at(&place)
        .with("PARLER_HUB", hub.url())
        .with("PARLER_TOKEN", &token[1])
        .with("PARLER_TRACE", &file)
        .with("GIT_TRACE", &file);
    job.git("push parler::room/build HEAD:refs/heads/of-a-job").success();
    job.parler("whoami").success();

    let trace = fs::read_to_string(&file).unwrap();
    holds(
        &trace,
        &[
            "POST /v1/session ",
            "POST /v1/tokens ",
            "POST /v1/invites ",
            "pack-objects",
        ],
    );
    let mut secrets = vec![code, option.to_owned(), credentials.to_owned(), "Bearer".to_owned()];
    secrets.extend(token);
    secrets_in(&world.path(), &mut secrets);
    assert!(secrets.len() >= 10, "{}", secrets.len());
    let ours: String = trace
        .lines()
        .filter(|line| is_ours(line))
        .map(|line| format!("{line}\n"))
        .collect();
    for (number, secret) in secrets.iter().enumerate() {
        // Git itself traces what it was called with: the option, and codes in the arguments of `git parler`.
        let text = if number < 2 { &ours } else { &trace };
        let line = text.lines().find(|line| line.contains(secret.as_str()));
        assert_eq!(
            line.map(|line| line.replace(secret.as_str(), "<SECRET>")),
            None,
            "secret {number}"
        );
    }
}

#[test]
fn gits_own_traces_show_our_children_and_change_nothing_else() {
    let world = world();
    let (work, bobs) = two_clones(&world);
    work.has_git_pack();
    bobs.has_git_pin();
    let broken = world.path().join("broken.bundle");
    // What git's own checks refuse, and ours let pass: a commit that nobody made.
    let (tree, parent) = (work.ask("rev-parse main^{tree}"), work.rev("main"));
    let bytes = format!("tree {tree}\nparent {parent}\nauthor x <x@x> 1 +0000\n\nx\n");
    let file = work.write(".git/commit", bytes);
    let made = [
        "hash-object",
        "-t",
        "commit",
        "-w",
        "--literally",
        file.to_str().unwrap(),
    ];
    let bad = work.ask(made);
    work.git(["update-ref", "refs/heads/bad", &bad]).success();
    work.git(["bundle", "create", broken.to_str().unwrap(), "bad"])
        .success();
    work.git("update-ref -d refs/heads/bad").success();
    let plain = bobs.user().parler(["apply", broken.to_str().unwrap()]).code(7);
    let reason = plain.one_error_line().to_owned();

    let files = ["trace", "events"].map(|name| world.path().join(name));
    let to_files = [
        ("GIT_TRACE", files[0].as_path()),
        ("GIT_TRACE2_EVENT", files[1].as_path()),
    ];
    let to_stderr = |name| vec![(name, Path::new("1"))];
    let cases = [
        to_stderr("GIT_TRACE"),
        to_stderr("GIT_TRACE2"),
        to_stderr("GIT_TRACE2_EVENT"),
        vec![
            ("GIT_TRACE2_PERF", Path::new("true")),
            ("GIT_TRACE2_PERF_BRIEF", Path::new("1")),
        ],
        to_files.to_vec(),
        // What git does not take it warns of, and goes on.
        vec![("GIT_TRACE", Path::new("trace.log"))],
        vec![("GIT_TRACE_SETUP", Path::new("9"))],
    ];
    for (number, variables) in cases.iter().enumerate() {
        let mut agent = world.user();
        for (name, value) in variables {
            agent = agent.with(name, value);
        }
        work.commit(&format!("{number}.txt"), "more\n");
        let pushed = agent.at(&work).git("push team HEAD:refs/heads/x").success();
        let fetched = agent.at(&bobs).git("fetch team").success();
        assert_eq!(bobs.rev("team/x"), work.rev("HEAD"));
        let refused = agent.at(&bobs).parler(["apply", broken.to_str().unwrap()]).code(7);
        let is_to_stderr = variables[0].1 == Path::new("1") || variables[0].1 == Path::new("true");
        let said: Vec<_> = untraced(&refused);
        if is_to_stderr {
            for (answer, child) in [
                (&pushed, "pack-objects"),
                (&fetched, "update-ref"),
                (&refused, "unpack-objects"),
            ] {
                let of_children = answer
                    .err()
                    .lines()
                    .filter(|line| is_trace(line) && line.contains(child));
                assert!(of_children.count() > 0, "{variables:?}: no {child}\n{answer:?}");
            }
        }
        if number < 5 {
            // `git parler` is started by git, which says nothing of its own.
            let own: Vec<_> = said.iter().filter(|line| line.starts_with("parler: ")).collect();
            assert_eq!(own, [&reason.as_str()], "{variables:?}: {refused:?}");
        }
    }
    for (file, child) in [
        (&files[0], "pack-objects"),
        (&files[0], "unpack-objects"),
        (&files[1], "update-ref"),
    ] {
        holds(&fs::read_to_string(file).unwrap(), &[child]);
    }
    assert!(!work.path().join("trace.log").exists() && !bobs.path().join("trace.log").exists());
}
