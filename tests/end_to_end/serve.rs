//! A service whose jobs a worker does with a command: what the command finds, what comes back, and what becomes of the job
//! when command or worker end otherwise.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use parler_harness::{Agent, Answer, HubProcess, LocalHub, Repository, Running, World, look_for};
use parler_protocol::{BundleId, BundlePart, BundleRef, ChainHash, DispatchPart, Head, ObjectFormat, Seq, ServiceName};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{hub_server, world};

/// A world in which bob serves and alice asks, with a branch `feature` of hers.
pub(crate) struct Stage<'w> {
    pub(crate) world: &'w World,
    pub(crate) bob: Agent<'w>,
    pub(crate) alice: Agent<'w>,
    pub(crate) place: Repository<'w>,
}

/// A script to be a command.
pub(crate) fn script(world: &World, name: &str, lines: &str) -> String {
    let path = world.directory("scripts").join(name);
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn stage(world: &World) -> Stage<'_> {
    let origin = world.origin();
    let place = world.clone_of(&origin, "place");
    place.git("checkout --quiet -b feature").success();
    place.commit("new.txt", "new\n");
    Stage {
        world,
        bob: world.agent("bob"),
        alice: world.agent("alice").at(&place),
        place,
    }
}

impl Stage<'_> {
    /// A worker that waits for jobs.
    pub(crate) fn serve(&self, options: &[&str], command: &[&str]) -> Running {
        let worker = self.start(&self.bob, options, command);
        worker.wait_for_errors(|said| said.contains("serving 'test'"));
        worker
    }

    pub(crate) fn start(&self, worker: &Agent<'_>, options: &[&str], command: &[&str]) -> Running {
        let workdir = self.world.directory("work");
        let mut arguments: Vec<OsString> = ["serve", "test", "--workdir"].map(OsString::from).to_vec();
        arguments.push(workdir.into());
        arguments.extend(options.iter().map(OsString::from));
        if !command.is_empty() {
            arguments.push("--".into());
            arguments.extend(command.iter().map(OsString::from));
        }
        worker.start_parler(arguments)
    }

    /// Makes the service, so that there can be jobs before there is a worker.
    pub(crate) fn make_service(&self) {
        self.bob.parler("invite --service test").success();
    }

    /// Asks for a job about the branch.
    #[track_caller]
    pub(crate) fn push(&self) -> Answer {
        self.alice.git("push parler::service/test feature").success()
    }

    /// Asks for a job that is a text.
    #[track_caller]
    pub(crate) fn ask(&self, text: &str) -> u64 {
        let sent = self
            .alice
            .parler(["send", "--json", "--service", "test", text])
            .success();
        sent.json()["seq"].as_u64().unwrap()
    }

    /// Everything that was said in the service's room.
    pub(crate) fn log(&self) -> Vec<Value> {
        let log = self.alice.parler("recv --all --json --service test").success();
        log.json()["messages"].as_array().unwrap().clone()
    }

    /// The messages that say this of a job.
    pub(crate) fn said(&self, status: &str) -> Vec<Value> {
        let is_it = |message: &Value| part(message, "com.parler.task")["status"] == status;
        self.log().into_iter().filter(is_it).collect()
    }

    /// What a command wrote, as the message that tells its end names it.
    pub(crate) fn output(&self, message: &Value) -> String {
        let file = part(message, "com.parler.file");
        assert_eq!(file["name"], "output.txt");
        let id = file["blob"].as_str().unwrap();
        let fetched = self
            .alice
            .parler(["fetch", id, "--service", "test", "-o", "-"])
            .success();
        fetched.out().to_owned()
    }

    /// Nothing of any job is left where they are worked on.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.world.path().join("work/parler-jobs")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

pub(crate) fn part(message: &Value, kind: &str) -> Value {
    let parts = message["parts"].as_array().unwrap();
    parts
        .iter()
        .find(|part| part["kind"] == kind)
        .cloned()
        .unwrap_or_default()
}

#[test]
fn a_job_runs_in_a_clean_place_and_its_result_comes_back() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    let lines = "cat >\"$PWD/../../../../../job.json\"; env | sort; git log --format=%s -1; git status --short --branch; \
        echo to stderr >&2; echo more >>new.txt; git commit --quiet --all --message checked";
    let command = script(&world, "check", lines);
    stage.push();
    let worker = stage.bob.with("SECRET", "hidden").with("WANTED", "shown");
    let served = stage
        .start(&worker, &["--once", "--env", "WANTED"], &[&command])
        .wait()
        .success();
    served.says("of 'test' from alice: done · exit status 0 after");

    assert_eq!(stage.said("accepted").len(), 1);
    let done = stage.said("done");
    assert_eq!(done.len(), 1);
    let done = &done[0];
    let output = stage.output(done);
    for line in [
        "WANTED=shown",
        "PARLER_JOB_SERVICE=test",
        "PARLER_JOB_ROOM=svc.test",
        "PARLER_JOB_SEQ=1",
        "PARLER_JOB_ATTEMPT=1",
        "PARLER_JOB_REQUESTER=alice",
        "PARLER_JOB_CHAIN=test",
        "PARLER_JOB_BRANCH=feature",
        &format!("PARLER_JOB_COMMIT={}", stage.place.rev("feature")),
        "TERM=dumb",
        "GIT_CONFIG_NOSYSTEM=1",
        "## feature",
        "to stderr",
    ] {
        assert!(output.lines().any(|found| found == line), "no {line} in {output}");
    }
    for hidden in [
        "SECRET",
        "PARLER_HOME",
        "PARLER_AGENT",
        "PARLER_HUB",
        "TOKEN",
        "XDG_",
        "GIT_CONFIG_GLOBAL",
    ] {
        assert!(!output.contains(hidden), "{hidden} in {output}");
    }
    let home = output.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    let jobs = world.directory("work").canonicalize().unwrap();
    assert!(
        !Path::new(home).exists() && Path::new(home).starts_with(jobs.join("parler-jobs")),
        "{home}"
    );
    let input: Value = serde_json::from_slice(&fs::read(world.path().join("job.json")).unwrap()).unwrap();
    assert_eq!(input["seq"], 1);
    assert_eq!(input["from"]["name"], "alice");
    assert_eq!(input["branch"], "feature");
    assert_eq!(input["signature"], "valid");

    // What it committed: a thin bundle, a ref and a handoff, in the same message.
    let bundle = part(done, "com.parler.bundle");
    assert_eq!(bundle["prerequisites"], json!([stage.place.rev("feature")]));
    assert_eq!(part(done, "com.parler.refs")["updates"][0]["name"], "refs/results/1");
    let handoff = part(done, "com.parler.handoff");
    assert_eq!(handoff["to"], "alice");
    assert_eq!(handoff["bundle"], bundle["blob"]);
    let next = handoff["next"].as_str().unwrap();
    let command = next.split_once("git parler ").unwrap().1;
    stage.alice.parler(command).success();
    let pin = format!("refs/parler/{}", &bundle["blob"].as_str().unwrap()[..12]);
    assert_eq!(
        stage.place.ask(["log", "--format=%s by %an", "-1", &pin]),
        "checked by bob"
    );
    assert_eq!(stage.left(), [""; 0]);
}

#[test]
fn an_agent_works_on_its_own_jobs_with_a_command_unless_they_are_left_to_others() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    stage.bob.parler("send --service test mine").success();
    let worker = stage.start(&stage.bob, &["--once"], &["git", "--version"]);
    worker.wait().success().says("job 1 of 'test' from bob: done");
    stage.bob.parler("send --service test mine-too").success();
    stage.alice.parler("send --service test hers").success();
    let worker = stage.start(&stage.bob, &["--once", "--others"], &["git", "--version"]);
    worker.wait().success().says("from alice: done");
}

#[test]
fn a_job_without_code_that_fails_says_so() {
    let world = world();
    let stage = stage(&world);
    let worker = stage.serve(&["--json"], &["sh", "-c", "ls -a; exit 3"]);
    let seq = stage.ask("anything there?");
    let told = worker.wait_for_output(|said| said.contains('\n'));
    let told: Value = serde_json::from_str(told.trim()).unwrap();
    assert_eq!(
        (&told["job"], &told["status"], &told["note"]),
        (&json!(seq), &json!("failed"), &json!("exit status 3"))
    );
    let failed = stage.said("failed");
    assert_eq!(part(&failed[0], "com.parler.task")["note"], "exit status 3");
    assert_eq!(stage.output(&failed[0]), ".\n..\n");
    assert!(part(&failed[0], "com.parler.bundle").is_null());
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let world = world();
    let stage = stage(&world);
    // One child in its group, and one that left it; both write where they are, and go on for ever.
    let lines = "sleep 1000 & echo $! >\"$PIDS/own\"; setsid sh -c 'trap \"\" TERM; echo $$ >\"$PIDS/apart\"; \
        while :; do sleep 1; done' & trap '' TERM; echo begun; wait";
    let command = script(&world, "hang", lines);
    let pids = world.directory("pids");
    stage.make_service();
    stage.ask("hang");
    let bob = stage.bob.with("PIDS", &pids);
    let served = stage
        .start(&bob, &["--once", "--timeout", "4s", "--env", "PIDS"], &[&command])
        .wait();
    served.success().says("failed · ended, for it took longer than 4 s");
    assert_eq!(stage.output(&stage.said("failed")[0]), "begun\n");
    for name in ["own", "apart"] {
        let pid = fs::read_to_string(pids.join(name)).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "{name} goes on");
    }
}

#[test]
fn of_long_output_the_beginning_and_the_end_are_kept() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    stage.ask("say much");
    let lines = "echo first; yes 0123456789 | head -c 3000000; echo last";
    let command = script(&world, "much", lines);
    stage.start(&stage.bob, &["--once"], &[&command]).wait().success();
    let done = stage.said("done");
    let output = stage.output(&done[0]);
    assert!(output.starts_with("first\n0123456789\n") && output.ends_with("last\n"));
    let left_out = 3_000_000 + "first\nlast\n".len() - (1 << 20);
    assert!(output.contains(&format!("\n[{left_out} bytes are left out here]\n")));
}

#[test]
fn a_worker_that_is_told_to_end_gives_its_job_back() {
    let world = world();
    let stage = stage(&world);
    let command = script(
        &world,
        "wait",
        "echo $$ >\"$PIDS/$PARLER_JOB_ATTEMPT\"; exec sleep 1000",
    );
    let pids = world.directory("pids");
    let bob = stage.bob.with("PIDS", &pids);
    stage.make_service();
    stage.ask("wait");
    let first = stage.start(&bob, &["--env", "PIDS"], &[&command]);
    let begun = |name: &'static str| {
        let there = || {
            fs::read_to_string(pids.join(name))
                .ok()
                .filter(|pid| pid.ends_with('\n'))
        };
        look_for(there, || format!("no attempt {name}"))
    };
    let pid = begun("1");
    let carol = world.agent("carol");
    // Another waits meanwhile, and is given it at once.
    let second = stage.start(&carol, &["--once"], &["sh", "-c", "echo attempt $PARLER_JOB_ATTEMPT"]);
    second.wait_for_errors(|said| said.contains("serving"));
    first.signal_group(Signal::TERM);
    assert_eq!(first.wait().either().signal(), Some(15));
    second.wait().success().says("job 1 of 'test' from alice: done");
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    // It was no attempt: nothing went wrong with the job.
    assert_eq!(stage.output(&stage.said("done")[0]), "attempt 1\n");
    assert_eq!(stage.left(), [""; 0]);
}

#[test]
fn several_jobs_are_worked_on_at_the_same_time_and_no_more() {
    let world = world();
    let stage = stage(&world);
    // The first wait until there are two; all look how many there are for a while.
    let lines = "trap 'rm \"$MEETING/at/$PARLER_JOB_SEQ\"' EXIT; echo >\"$MEETING/at/$PARLER_JOB_SEQ\"; most=0; \
        until [ -e \"$MEETING/met\" ]; do [ $(ls \"$MEETING/at\" | wc -l) -ge 2 ] && echo >\"$MEETING/met\"; sleep 0.01; done; \
        for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do \
        now=$(ls \"$MEETING/at\" | wc -l); [ $now -gt $most ] && most=$now; sleep 0.01; done; echo $most";
    let command = script(&world, "meet", lines);
    let meeting = world.directory("meeting");
    fs::create_dir(meeting.join("at")).unwrap();
    stage.make_service();
    for text in ["one", "two", "three"] {
        stage.ask(text);
    }
    let bob = stage.bob.with("MEETING", &meeting);
    let worker = stage.start(&bob, &["--max-parallel", "2", "--env", "MEETING"], &[&command]);
    worker.wait_for_output(|said| said.matches("done").count() == 3);
    worker.signal_group(Signal::INT);
    assert_eq!(worker.wait().either().signal(), Some(2));
    for done in stage.said("done") {
        assert_ne!(stage.output(&done), "3\n");
    }
}

/// A hub whose clock a test moves.
struct Clocked<'w> {
    hub: HubProcess,
    ahead: std::path::PathBuf,
    stage: Stage<'w>,
}

impl<'w> Clocked<'w> {
    fn new(world: &'w World) -> Self {
        let ahead = world.path().join("ahead");
        fs::write(&ahead, "0").unwrap();
        let hub = hub_server::start_with_clock(world, &ahead);
        let stage = stage(world);
        let stage = Stage {
            bob: stage.bob.on(&hub),
            alice: stage.alice.on(&hub),
            ..stage
        };
        Self { hub, ahead, stage }
    }

    /// By the hub's clock all leases are over.
    fn let_leases_end(&self) {
        let ahead: u64 = fs::read_to_string(&self.ahead).unwrap().parse().unwrap();
        let new = self.ahead.with_extension("new");
        fs::write(&new, (ahead + 61_000).to_string()).unwrap();
        fs::rename(new, &self.ahead).unwrap();
    }
}

#[test]
fn the_job_of_a_killed_worker_is_done_once_and_a_late_one_says_nothing() {
    let world = world();
    let clocked = Clocked::new(&world);
    let stage = &clocked.stage;
    let marks = world.directory("marks");
    let lines = "echo $$ >\"$MARKS/$PARLER_JOB_SEQ\"; until [ -e \"$MARKS/go\" ]; do sleep 0.01; done; \
        echo x >>new.txt; git commit -qam late; echo late";
    let command = script(&world, "slow", lines);
    let bob = stage.bob.with("MARKS", &marks);
    stage.make_service();
    stage.push();
    let begun = |seq: &'static str| {
        let there = || {
            fs::read_to_string(marks.join(seq))
                .ok()
                .filter(|pid| pid.ends_with('\n'))
        };
        look_for(there, || format!("job {seq} was not begun"))
    };
    let slow = stage.start(&bob, &["--env", "MARKS", "--lease", "60s"], &[&command]);
    begun("1");
    // Messages are numbered with what is said of the jobs.
    let second = stage.ask("two");
    let killed = stage.start(&bob, &["--env", "MARKS"], &[&command]);
    let mark = marks.join(second.to_string());
    let pid = look_for(
        || fs::read_to_string(&mark).ok().filter(|pid| pid.ends_with('\n')),
        || "the second was not begun".to_owned(),
    );
    killed.signal_group(Signal::KILL);
    drop(killed);
    // Its command does not go on without it.
    let gone = || (!Path::new("/proc").join(pid.trim()).exists()).then_some(());
    look_for(gone, || "the command of a killed worker goes on".to_owned());
    clocked.let_leases_end();
    let carol = world.agent("carol").on(&clocked.hub);
    let code = stage.bob.parler("invite --service test").success();
    carol.parler(["join", code.word()]).success();
    for _ in 0..2 {
        stage
            .start(&carol, &["--once"], &["true"])
            .wait()
            .success()
            .says("done");
    }
    let before = stage.log().len();
    fs::write(marks.join("go"), "").unwrap();
    let said = slow.wait_for_output(|said| said.contains('\n'));
    assert!(said.contains("job 1 of 'test' from alice: too late"), "{said}");
    assert_eq!(stage.log().len(), before, "a late worker said something");
    assert_eq!(stage.said("done").len(), 2);
    slow.signal_group(Signal::TERM);
    assert_eq!(slow.wait().either().signal(), Some(15));
    // What the killed one left is removed by whoever serves next.
    stage.ask("three");
    stage.start(&carol, &["--once"], &["true"]).wait().success();
    assert_eq!(stage.left(), [""; 0]);
}

#[test]
fn a_job_that_ends_every_worker_is_dead_until_somebody_offers_it_again() {
    let world = world();
    let clocked = Clocked::new(&world);
    let stage = &clocked.stage;
    // Its worker is gone with it.
    let command = script(
        &world,
        "poison",
        "read -r _ _ _ worker _ </proc/$PPID/stat; kill -9 $worker; sleep 1000",
    );
    stage.make_service();
    let seq = stage.ask("poison");
    for _ in 0..3 {
        // As git says it of what it started.
        stage.start(&stage.bob, &[], &[&command]).wait().code(128 + 9);
        clocked.let_leases_end();
    }
    // Nobody is offered it: the next one is.
    let next = stage.ask("good");
    let served = stage.start(&stage.bob, &["--once"], &["true"]).wait().success();
    served.says(&format!("job {next} of 'test' from alice: done"));
    // Whoever asked for it is told, and no longer waits.
    let asked = ["status", &seq.to_string(), "--service", "test", "--wait", "done"];
    let dead = stage.alice.parler(asked).code(1);
    dead.says(&format!("git parler serve test --retry {seq}"));
    assert!(dead.one_error_line().contains(&format!("job {seq} is dead, not done")));
    let retried = stage
        .bob
        .parler(["serve", "test", "--retry", &seq.to_string()])
        .success();
    retried.says(&format!("job {seq} of 'test' from alice is offered again"));
    let served = stage.start(&stage.bob, &["--once"], &["true"]).wait().success();
    served.says(&format!("job {seq} of 'test' from alice: done"));
    let again = stage.bob.parler(["serve", "test", "--retry", &seq.to_string()]);
    again.code(6).one_error_line();
}

#[test]
fn a_worker_with_a_token_works_and_its_commands_never_see_it() {
    let world = world();
    let hub = hub_server::start(&world);
    let stage = stage(&world);
    let stage = Stage {
        bob: stage.bob.on(&hub),
        alice: stage.alice.on(&hub),
        ..stage
    };
    stage.make_service();
    let made = stage
        .bob
        .parler("token create builds --room svc.test --can read,claim --ttl 1h")
        .success();
    let token = made.word();
    let job = world.user().on(&hub).without("PARLER_HOME").without("XDG_STATE_HOME");
    let job = job
        .with("HOME", world.path().join("no-such-home"))
        .with("PARLER_TOKEN", token);
    stage.push();
    // What it has itself, the process that guards it, and the worker. Root could read any, so here it is one who cannot.
    let lines = "worker=$(ps -o ppid= -p $PPID | tr -d ' '); for it in $PPID $worker; do echo \"of $it:\"; cat /proc/$it/environ | tr '\\0' '\\n'; done; \
        cat /proc/$worker/environ >/dev/null && echo it can be read; env; ls /proc/$worker/environ && echo it is there; \
        echo x >>new.txt; git commit --quiet --all --message x";
    let command = script(&world, "look", lines);
    job.parler("serve test --once").code(2).warns("--exec");
    let line = ["git", "parler", "serve", "test", "--once", "--", &command];
    let served = if rustix::process::geteuid().is_root() {
        let line: Vec<_> = ["--bounding-set=-all", "--inh-caps=-all"]
            .into_iter()
            .chain(line)
            .collect();
        job.run("setpriv", line.into_iter().map(OsString::from).collect::<Vec<_>>())
    } else {
        job.run("env", line)
    };
    let served = served.success();
    served.says("done · exit status 0").says("bundle");
    let done = &stage.said("done")[0];
    assert_eq!(done["from"]["name"], "ci/builds");
    let output = stage.output(done);
    // Of the guard, and its own.
    assert_eq!(output.matches("PARLER_JOB_REQUESTER=alice").count(), 2, "{output}");
    assert!(
        output.contains("it is there") && !output.contains("it can be read"),
        "{output}"
    );
    let secret = token.rsplit('_').next().unwrap();
    assert!(!output.contains(secret) && !output.contains("PARLER_TOKEN"), "{output}");
    assert!(!world.path().join("no-such-home").exists());
}

#[test]
fn a_sandbox_stands_before_the_command_and_what_failed_may_be_kept() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    stage.push();
    let lines = "echo \"$IN\" left >left; git commit --quiet --allow-empty --message half; exit 1";
    let command = script(&world, "leave", lines);
    let exec = format!("'{command}' \"an argument\"");
    let options = ["--once", "--keep", "--sandbox", "env 'IN=the box'", "--exec", &exec];
    let served = stage.start(&stage.bob, &options, &[]).wait().success();
    served
        .says("failed · exit status 1")
        .says("bundle")
        .warns("job 1 is kept in");
    assert_eq!(stage.left(), ["test-1-1"]);
    let kept = world.path().join("work/parler-jobs/test-1-1");
    assert_eq!(fs::read_to_string(kept.join("work/left")).unwrap(), "the box left\n");
    assert!(kept.join("work/new.txt").exists());
}

#[test]
fn what_cannot_be_served_is_said_in_one_line() {
    let world = world();
    let bob = world.agent("bob");
    for (arguments, code, says) in [
        (&["a/b"][..], 2, "service name"),
        (&["test", "--lease", "14s", "--exec", "true"], 2, "15s"),
        (&["test", "--lease", "2h", "--exec", "true"], 2, "--lease"),
        (&["test", "--timeout", "x", "--exec", "true"], 2, "--timeout"),
        (&["test", "--exec", "a 'b"], 2, "--exec"),
        (&["test", "--exec", ""], 2, "--exec"),
        (&["test", "--exec", "true", "--", "true"], 2, "--exec"),
        (&["test", "--sandbox", "env"], 2, "--exec"),
        (&["test", "--exec", "no-such-program x"], 3, "no-such-program"),
        (&["test", "--env", "A=b", "--exec", "true"], 2, "--env"),
        (&["test", "--env", "PARLER_HOME", "--exec", "true"], 7, "PARLER_HOME"),
        (&["test", "--retry", "x"], 2, "--retry"),
        (&["test", "--max-parallel", "0", "--exec", "true"], 2, "--max-parallel"),
    ] {
        let all = ["serve"]
            .iter()
            .chain(arguments)
            .map(OsString::from)
            .collect::<Vec<_>>();
        let refused = bob.parler(all).code(code);
        assert!(refused.one_error_line().contains(says), "{says}: {}", refused.err());
    }
    // Where nobody was invited there is nothing to serve.
    let hub = hub_server::start(&world);
    let alice = world.stranger("alice").on(&hub);
    alice.parler("invite --service test").success();
    let stranger = world.stranger("dave").on(&hub).parler("serve test --exec true").code(3);
    assert!(stranger.one_error_line().contains("git parler invite --service test"));
}

#[test]
fn a_job_that_is_called_off_is_ended() {
    let world = world();
    let stage = stage(&world);
    let command = script(&world, "wait", "echo $$ >\"$PIDS/it\"; exec sleep 1000");
    let pids = world.directory("pids");
    let bob = stage.bob.with("PIDS", &pids);
    stage.make_service();
    let seq = stage.ask("wait");
    // It hears of it when it renews its claim, at a third of this.
    let worker = stage.start(&bob, &["--once", "--lease", "15s", "--env", "PIDS"], &[&command]);
    let there = || {
        fs::read_to_string(pids.join("it"))
            .ok()
            .filter(|pid| pid.ends_with('\n'))
    };
    let pid = look_for(there, || "it was not begun".to_owned());
    stage
        .alice
        .parler(["cancel", &seq.to_string(), "--service", "test"])
        .success();
    let ended = worker.wait().code(1);
    ended.says(&format!("job {seq} of 'test' from alice: called off"));
    ended.warns("not brought to its end: job 1 of 'test' from alice: called off");
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    assert!(stage.said("failed").is_empty() && stage.said("done").is_empty());
}

#[test]
fn a_result_outlives_a_hub_that_is_away() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let stage = stage(&world);
    let stage = Stage {
        bob: stage.bob.on(&hub),
        alice: stage.alice.on(&hub),
        ..stage
    };
    let marks = world.directory("marks");
    let lines = "touch \"$MARKS/begun\"; until [ -e \"$MARKS/go\" ]; do sleep 0.01; done; echo x >>new.txt; git commit -qam x; \
        touch \"$MARKS/over\"";
    let command = script(&world, "slow", lines);
    let bob = stage.bob.with("MARKS", &marks);
    stage.make_service();
    stage.push();
    let worker = stage.start(&bob, &["--once", "--env", "MARKS"], &[&command]);
    let made = |name: &'static str| {
        let there = || marks.join(name).exists().then_some(());
        look_for(there, || format!("{name} never came"))
    };
    made("begun");
    hub.kill();
    fs::write(marks.join("go"), "").unwrap();
    made("over");
    hub.restart();
    worker.wait().success().says("done · exit status 0").says("bundle");
    assert_eq!(stage.said("done").len(), 1);
    assert_eq!(part(&stage.said("done")[0], "com.parler.handoff")["to"], "alice");
}

#[test]
fn a_job_that_nobody_could_work_on_fails_and_the_worker_goes_on() {
    let world = world();
    let stage = stage(&world);
    let worker = stage.serve(&[], &["true"]);
    // A name that no file can have.
    let place = &stage.place;
    let file = place.rev("HEAD:new.txt");
    let entry = format!("100644,{file},{}", "a".repeat(300));
    place.git(["update-index", "--add", "--cacheinfo", &entry]).success();
    place.git("commit --quiet --message long").success();
    stage.push();
    worker.wait_for_output(|said| said.contains("failed · cannot be worked on: git reset:"));

    // A bundle that is none, from somebody whose program does not look.
    let carol = LocalHub::of(&stage.alice).raw_client("carol");
    let service: ServiceName = "test".parse().unwrap();
    let unseen = Head {
        seq: Seq::ZERO,
        h: ChainHash::start(&carol.calls.hub_id().unwrap(), &service.room()),
    };
    let bytes: Arc<[u8]> = Arc::from(b"# v2 git bundle\nnothing".as_slice());
    let dispatch = DispatchPart {
        role: "test".into(),
        ..DispatchPart::default()
    };
    let bundle = BundlePart {
        blob: BundleId::of(&bytes),
        vcs: "git".into(),
        size: bytes.len() as u64,
        media_type: None,
        tip: None,
        base: None,
        summary: None,
        refs: vec![BundleRef {
            name: "refs/heads/feature".parse().unwrap(),
            oid: place.rev("HEAD").parse().unwrap(),
        }],
        prerequisites: Vec::new(),
        object_format: Some(ObjectFormat::Sha1),
        commits: None,
        objects: None,
        needs: Vec::new(),
        base_hint: None,
    };
    let signed = carol.sign(&service.room(), &unseen, vec![dispatch.into(), bundle.into()]);
    carol.calls.post(&service.room(), &signed, None, Some(&bytes)).unwrap();
    worker.wait_for_output(|said| said.contains("from carol: failed · cannot be worked on:"));

    let seq = stage.ask("and now?");
    worker.wait_for_output(|said| said.contains(&format!("job {seq} of 'test' from alice: done")));
    assert_eq!(stage.said("failed").len(), 2);
}
