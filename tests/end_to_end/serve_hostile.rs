//! Jobs whose commands are out to get at what is the worker's: what they leave is read, and what they start is ended, as that
//! of others.

use std::fs;
use std::path::Path;

use parler_harness::look_for;
use rustix::process::Signal;

use super::serve::{part, script, stage};
use super::world;

#[test]
fn what_a_command_puts_in_the_place_of_its_work_is_not_sent() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    // A repository of the worker's user that has more than the job.
    let private = world.clone_of(&stage.place, "private");
    private.git("checkout --quiet feature").success();
    private.commit("secret.txt", "secret\n");
    let bob = stage.bob.with("PRIVATE", private.path());
    for (name, lines) in [
        ("moved", "mv ../work ../w; ln -s \"$PRIVATE\" ../work"),
        ("common", "echo \"$PRIVATE/.git\" >.git/commondir"),
    ] {
        let command = script(&world, name, lines);
        stage.push();
        let served = stage.start(&bob, &["--once", "--env", "PRIVATE"], &[&command]).wait();
        served.success().says("done").says("is not sent");
    }
    for done in stage.said("done") {
        assert!(part(&done, "com.parler.bundle").is_null(), "{done}");
    }
}

#[test]
fn what_a_command_prepares_for_the_reading_of_its_work_is_not_used() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let notes = world.path().join("notes.txt");
    fs::write(&notes, "mine\n").unwrap();
    let bob = stage.bob.with("NOTES", &notes);
    let lines = "git init --quiet --bare ../result.git; rm -rf ../result.git/objects/info; mkdir ../result.git/objects/info; \
        ln -s \"$NOTES\" ../result.git/objects/info/alternates; git commit --quiet --allow-empty --message more";
    let command = script(&world, "prepared", lines);
    stage.push();
    let served = stage.start(&bob, &["--once", "--env", "NOTES"], &[&command]).wait();
    served.success().says("done").says("bundle");
    assert_eq!(fs::read_to_string(&notes).unwrap(), "mine\n");
}

#[test]
fn what_would_fill_the_disk_is_not_checked_out() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let tree = |entries: String| {
        let list = stage.place.write(".git/list", entries);
        let made = stage
            .place
            .user()
            .run("sh", ["-c", &format!("git mktree <{}", list.display())]);
        made.success().word().to_owned()
    };
    let blob = stage.place.ask("rev-parse HEAD:new.txt");
    let mut inner = tree(format!("100644 blob {blob}\tx\n"));
    for _ in 0..10 {
        let entries = (0..10).map(|number| format!("040000 tree {inner}\t{number}\n"));
        inner = tree(entries.collect());
    }
    let bomb = stage.place.ask(["commit-tree", "-p", "HEAD", "-m", "bomb", &inner]);
    stage.place.git(["update-ref", "refs/heads/feature", &bomb]).success();
    stage.push();
    let served = stage.start(&stage.bob, &["--once"], &["git", "--version"]).wait();
    served.success().says("failed").says("too large to check out");
    assert_eq!(stage.left(), [""; 0]);
}

#[test]
fn files_that_are_named_as_a_workers_stay() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let work = world.directory("work");
    for name in ["worker-notes.txt", "worker-a1B2c3"] {
        fs::write(work.join(name), "").unwrap();
    }
    fs::create_dir(work.join("worker-notes.d")).unwrap();
    fs::create_dir(work.join("worker-a1B2c3.d")).unwrap();
    stage.ask("anything");
    stage
        .start(&stage.bob, &["--once"], &["git", "--version"])
        .wait()
        .success();
    assert_eq!(fs::read_dir(&work).unwrap().count(), 5);
}

#[test]
fn no_program_is_found_in_what_was_sent() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let real = script(&world, "checker", "echo the workers");
    let fake = stage.place.path().join("checker");
    fs::write(&fake, "#!/bin/sh\necho the senders\n").unwrap();
    fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    stage.place.git("add checker").success();
    stage.place.git("commit --quiet --message fake").success();
    let real = Path::new(&real).parent().unwrap().display();
    for (before, command) in [
        (".", "checker"),
        ("", "checker"),
        ("", "sh -c checker"),
        (".", "sh -c checker"),
    ] {
        stage.push();
        let line = format!("PATH={before}:{real}:$PATH exec git parler serve test --once -- {command}");
        stage.bob.run("sh", ["-c", &line]).success();
    }
    let done = stage.said("done");
    assert_eq!(done.len(), 4);
    for done in &done {
        assert_eq!(stage.output(done), "the workers\n");
    }
}

#[test]
fn a_sandbox_is_told_where_the_job_is_and_others_are_not() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    stage.push();
    let lines = "echo \"$1 in $2\"; shift 2; echo x >../out; ln -s /nowhere .git/objects/x; git commit --quiet --allow-empty -m x; exec \"$@\"";
    let sandbox = script(&world, "box", lines);
    let sandbox = format!("{sandbox} at {{}}");
    let options = ["--once", "--sandbox", &sandbox];
    let served = stage
        .start(&stage.bob, &options, &["sh", "-c", "cd ..; pwd"])
        .wait()
        .success();
    // All of it the worker is told, and whoever asked what counts for them.
    served
        .says("work/.git/objects/x leads out")
        .warns("/parler-jobs/worker-");
    let done = &stage.said("done")[0];
    let output = stage.output(done);
    let (said, stood) = output.trim().split_once('\n').unwrap();
    assert_eq!(said, format!("at in {stood}"));
    assert!(
        !part(done, "com.parler.task")["note"]
            .as_str()
            .unwrap()
            .contains(&*world.path().to_string_lossy())
    );
}

/// One child in its group, one that left it, and one whose parent is gone: all would go on for ever. Then what it does to its
/// guard.
fn tree(signal: &str) -> String {
    format!(
        "sleep 10000 & echo $! >\"$PIDS/own\"; setsid sleep 10000 & echo $! >\"$PIDS/apart\"; \
        (setsid sh -c 'echo $$ >\"$PIDS/alone\"; exec sleep 10000' &); echo $$ >\"$PIDS/it\"; \
        until [ -s \"$PIDS/alone\" ]; do sleep 0.01; done; kill -{signal} $PPID; echo >\"$PIDS/sent\"; sleep 10000"
    )
}

#[track_caller]
fn all_ended(pids: &Path) {
    for name in ["own", "apart", "alone", "it"] {
        let pid = fs::read_to_string(pids.join(name)).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{name} goes on");
    }
}

#[test]
fn a_command_that_ends_its_guard_ends_itself() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let pids = world.directory("pids");
    let bob = stage.bob.with("PIDS", &pids);
    let command = script(&world, "kill", &tree("KILL"));
    stage.ask("kill it");
    let served = stage.start(&bob, &["--once", "--env", "PIDS"], &[&command]).wait();
    served.success().says("failed \u{b7} ended, for it had ended its guard");
    all_ended(&pids);
}

#[test]
fn a_command_that_stops_its_guard_ends_when_it_is_told_to() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let pids = world.directory("pids");
    let bob = stage.bob.with("PIDS", &pids);
    let command = script(&world, "stop", &tree("STOP"));
    stage.ask("stop it");
    let worker = stage.start(&bob, &["--env", "PIDS"], &[&command]);
    let sent = || pids.join("sent").exists().then_some(());
    look_for(sent, || "it was not stopped".to_owned());
    worker.signal_group(Signal::TERM);
    assert_eq!(worker.wait().either().signal(), Some(15));
    all_ended(&pids);
}

#[test]
fn a_job_has_no_terminal() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let lines = "(: >/dev/tty) 2>/dev/null && echo a terminal || echo none";
    let command = script(&world, "tty", lines);
    // What starts it has one.
    let worker = format!("{command}; exec git parler serve test --once -- {command}");
    stage.ask("write to it");
    let served = stage
        .bob
        .run("script", ["--quiet", "--return", "--command", &worker, "/dev/null"])
        .success();
    assert!(served.out().starts_with("a terminal"), "{}", served.out());
    assert_eq!(stage.output(&stage.said("done")[0]), "none\n");
}

#[test]
fn the_documented_sandbox_keeps_a_command_to_its_job() {
    let world = world();
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/queues.md")).unwrap();
    let sandbox = page.split_once("--sandbox '").unwrap().1.split_once('\'').unwrap().0;
    let tried = "--ro-bind / / --unshare-all -- true".split_whitespace();
    if !std::process::Command::new("bwrap")
        .args(tried)
        .status()
        .is_ok_and(|status| status.success())
    {
        eprintln!("not tested: there is no bwrap, or it may make no namespaces here");
        return;
    }
    let stage = stage(&world);
    stage.make_service();
    stage.push();
    let private = world.path().join("private.txt");
    fs::write(&private, "private\n").unwrap();
    let lines = format!(
        "ls \"$HOME/../..\" | wc -l; cat {} 2>&1 && echo it is seen; ls -A \"$HOME/..\" | tr '\\n' ' '; \
        git commit --quiet --allow-empty --message boxed && git log -1 --format=%s",
        private.display()
    );
    let options = ["--once", "--sandbox", sandbox];
    let served = stage.start(&stage.bob, &options, &["sh", "-c", &lines]).wait();
    served.success().says("done").says("bundle");
    let output = stage.output(&stage.said("done")[0]);
    assert!(
        output.starts_with("1\n") && output.ends_with("home job.json tmp work boxed\n"),
        "{output}"
    );
    assert!(!output.contains("it is seen"), "{output}");
}
