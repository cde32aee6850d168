//! What comes between a job and its end that is neither's fault: signals while the result is made, a hub without room or
//! whose answer is lost, another job's trouble. Nothing is told wrongly, and nothing is lost.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};

use parler_harness::{Gate, HubProcess, Lie, LyingProxy, Running, World, look_for};
use parler_protocol::paths::FENCE_HEADER;
use parler_protocol::{ErrorCode, Problem};
use rustix::process::Signal;

use super::serve::{Stage, part, script, stage};
use super::{hub_server, world};

/// A stage whose hub answers through a proxy.
fn stage_behind_proxy(world: &World) -> (HubProcess, LyingProxy, Stage<'_>) {
    let proxy = LyingProxy::listen();
    let hub = hub_server::start_known_as(world, proxy.authority());
    proxy.lead_to(hub.authority());
    let stage = stage(world);
    let stage = Stage {
        bob: stage.bob.with("PARLER_HUB", proxy.url()),
        alice: stage.alice.with("PARLER_HUB", proxy.url()),
        ..stage
    };
    (hub, proxy, stage)
}

/// A command that says in a directory how far it is, and waits in the middle. What it commits is so large that git packs it.
const SLOW: &str = "touch \"$MARKS/begun\"; until [ -e \"$MARKS/go\" ]; do sleep 0.01; done; \
    head -c 1500000 /dev/zero >large; git add large; echo x >>new.txt; git commit -qam x; echo said; touch \"$MARKS/over\"";

fn wait_for(marks: &Path, name: &str) {
    let there = || marks.join(name).exists().then_some(());
    look_for(there, || format!("{name} never came"));
}

/// A worker whose command is [`SLOW`], and where its marks are.
fn start_slow(stage: &Stage<'_>, options: &[&str]) -> (Running, PathBuf) {
    let marks = stage.world.directory("marks");
    let command = script(stage.world, "slow", SLOW);
    let bob = stage.bob.with("MARKS", &marks);
    let options = [&["--env", "MARKS"], options].concat();
    (stage.start(&bob, &options, &[&command]), marks)
}

/// Signals a worker at its first git child of this kind after the command, and lets all others go on.
fn signal_at(world: &World, command: &str) -> parler_harness::Answer {
    let mut gate = Gate::before_git(world);
    let stage = stage(world);
    stage.make_service();
    let held = Stage {
        bob: gate.holds_git_of(&stage.bob),
        ..stage
    };
    held.push();
    let (worker, marks) = start_slow(&held, &["--once"]);
    fs::write(marks.join("go"), "").unwrap();
    let mut is_signalled = false;
    while let Some(child) = gate.wait_for_arrival_or_end(&worker) {
        if !is_signalled && marks.join("over").exists() && child.contains(command) {
            is_signalled = true;
            worker.signal(Signal::TERM);
            // It is ended where it waits.
            continue;
        }
        gate.open();
    }
    assert!(is_signalled, "no git {command}");
    worker.wait().either()
}

#[test]
fn a_signal_while_the_result_is_packed_loses_no_commits() {
    let world = world();
    let ended = signal_at(&world, "pack-objects");
    assert_eq!(ended.signal(), Some(15));
    let stage = stage_again(&world);
    let done = stage.said("done");
    assert_eq!(done.len(), 1, "{}", ended.err());
    assert_eq!(
        part(&done[0], "com.parler.refs")["updates"][0]["name"],
        "refs/results/1"
    );
    assert_eq!(part(&done[0], "com.parler.task")["note"], "exit status 0");
}

#[test]
fn a_signal_while_the_result_is_read_gives_the_job_back() {
    let world = world();
    let ended = signal_at(&world, "rev-parse");
    assert_eq!(ended.signal(), Some(15));
    let stage = stage_again(&world);
    assert!(stage.said("done").is_empty() && stage.said("failed").is_empty());
    let command = ["sh", "-c", "echo attempt $PARLER_JOB_ATTEMPT"];
    let served = stage.start(&stage.bob, &["--once"], &command).wait().success();
    served.says("job 1 of 'test' from alice: done");
    assert_eq!(stage.output(&stage.said("done")[0]), "attempt 1\n");
}

#[test]
fn a_job_that_takes_too_long_to_prepare_fails() {
    let world = world();
    let mut gate = Gate::before_git(&world);
    let stage = stage(&world);
    stage.make_service();
    // Of such a name git has to judge.
    stage.place.commit("odd~.txt", "odd\n");
    stage.push();
    let bob = gate.holds_git_of(&stage.bob);
    let worker = stage.start(&bob, &["--once", "--timeout", "1s"], &["touch", "/nowhere"]);
    let mut is_held = false;
    while let Some(child) = gate.wait_for_arrival_or_end(&worker) {
        assert!(!is_held, "{child} was started afterwards");
        is_held = child.contains("unpack-objects");
        if !is_held {
            gate.open();
        }
    }
    let served = worker.wait().success();
    served.says("job 1 of 'test' from alice: failed · ended, for preparing it took longer than 1 s");
    assert_eq!(stage.said("failed").len(), 1);
}

#[test]
fn a_hub_that_is_silent_while_a_job_is_prepared_holds_no_worker() {
    let world = world();
    let (_hub, proxy, stage) = stage_behind_proxy(&world);
    stage.make_service();
    stage.push();
    let (asked, is_asked) = mpsc::channel();
    let (silent, is_over) = mpsc::channel::<()>();
    let (asked, is_over) = (Mutex::new(asked), Mutex::new(is_over));
    proxy.tell(move |request, _| {
        if request.line.contains("/bundles") {
            asked.lock().unwrap().send(()).unwrap();
            let _ = is_over.lock().unwrap().recv();
        }
        Lie::Truth
    });
    let worker = stage.start(&stage.bob, &["--once"], &["true"]);
    is_asked.recv().unwrap();
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().either().signal(), Some(15));
    drop(silent);
    proxy.tell(|_, _| Lie::Truth);
    let command = ["sh", "-c", "echo attempt $PARLER_JOB_ATTEMPT"];
    stage.start(&stage.bob, &["--once"], &command).wait().success();
    assert_eq!(stage.output(&stage.said("done")[0]), "attempt 1\n");
}

/// The stage of a world that has one.
fn stage_again(world: &World) -> Stage<'_> {
    let place = world.repository(world.path().join("place"));
    Stage {
        world,
        bob: world.agent("bob"),
        alice: world.agent("alice").at(&place),
        place,
    }
}

#[test]
fn a_hub_without_room_is_told_of_and_a_worker_that_waits_for_it_can_be_ended() {
    let world = world();
    let (_hub, proxy, stage) = stage_behind_proxy(&world);
    stage.make_service();
    stage.push();
    let (worker, marks) = start_slow(&stage, &["--lease", "1h"]);
    wait_for(&marks, "begun");
    let problem = Problem::new(ErrorCode::StorageFull, "the disk is nearly full");
    let body = serde_json::to_vec(&problem).unwrap();
    let head = "HTTP/1.1 507 Insufficient Storage\r\ncontent-type: application/problem+json\r\n";
    let full = [head, &format!("content-length: {}\r\n\r\n", body.len())].concat();
    let full = [full.into_bytes(), body].concat();
    proxy.tell(move |asked, _| match asked.header(FENCE_HEADER) {
        Some(_) => Lie::Instead(full.clone()),
        None => Lie::Truth,
    });
    fs::write(marks.join("go"), "").unwrap();
    worker.wait_for_errors(|said| said.contains("job 1 of 'test' from alice: how it ended cannot be told yet: "));
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().either().signal(), Some(15));
}

#[test]
fn output_that_the_hub_does_not_take_is_left_out_and_the_worker_goes_on() {
    let world = world();
    let hub = hub_server::start_for_small_blobs(&world, 4 << 10);
    let stage = stage(&world);
    let stage = Stage {
        bob: stage.bob.on(&hub),
        alice: stage.alice.on(&hub),
        ..stage
    };
    stage.make_service();
    stage.ask("say much");
    let command = ["sh", "-c", "yes | head -c 9000"];
    let served = stage.start(&stage.bob, &["--once"], &command).wait().success();
    served.says("done · exit status 0; what it wrote is not sent: ");
    let done = &stage.said("done")[0];
    assert!(part(done, "com.parler.file").is_null());
}

#[test]
fn a_claim_whose_answer_is_lost_is_the_same_claim_when_it_is_asked_for_again() {
    let world = world();
    let (_hub, proxy, stage) = stage_behind_proxy(&world);
    stage.make_service();
    stage.ask("once");
    proxy.tell(|asked, told| {
        let is_claim = asked.line.starts_with("POST ") && asked.line.ends_with("/claims");
        match is_claim && asked.before == 0 && told.head.contains(" 200 ") {
            true => told.with_body(b"nothing that can be read"),
            false => Lie::Truth,
        }
    });
    // By its lease it would be free in an hour.
    let options = ["--once", "--lease", "1h"];
    let command = ["sh", "-c", "echo attempt $PARLER_JOB_ATTEMPT"];
    let served = stage.start(&stage.bob, &options, &command).wait().success();
    served.warns("waiting for it");
    assert_eq!(stage.output(&stage.said("done")[0]), "attempt 1\n");
}

#[test]
fn the_trouble_of_one_job_is_not_anothers() {
    let world = world();
    let stage = stage(&world);
    // What is in the way of the next job's directory.
    let lines = format!("mkdir \"$PARLER_JOB_DIRECTORY/../../test-4-2\"; {SLOW}");
    let command = script(&world, "in-the-way", &lines);
    let marks = world.directory("marks");
    let bob = stage.bob.with("MARKS", &marks);
    let worker = stage.start(&bob, &["--max-parallel", "2", "--env", "MARKS"], &[&command]);
    worker.wait_for_errors(|said| said.contains("serving"));
    stage.push();
    wait_for(&marks, "begun");
    assert_eq!(stage.ask("two"), 4);
    worker.wait_for_errors(|said| said.contains("no more jobs are asked for: job 4 of 'test': "));
    fs::write(marks.join("go"), "").unwrap();
    let ended = worker.wait().code(128);
    ended.says("job 1 of 'test' from alice: done · exit status 0");
    assert_eq!(part(&stage.said("done")[0], "com.parler.task")["note"], "exit status 0");
}

#[test]
fn a_workdir_that_is_no_utf_8_is_refused_before_any_job() {
    let world = world();
    let bob = world.agent("bob");
    let workdir = world.path().join(OsStr::from_bytes(b"odd\xff")).into_os_string();
    let arguments = ["serve", "test", "--exec", "true", "--workdir"].map(OsString::from);
    let refused = bob.parler([&arguments[..], &[workdir]].concat()).code(2);
    assert!(refused.one_error_line().contains("is not UTF-8"), "{}", refused.err());
}

#[test]
fn a_job_done_by_hand_outlives_a_hub_that_is_away() {
    let world = world();
    let (_hub, proxy, stage) = stage_behind_proxy(&world);
    stage.make_service();
    let seq = stage.ask("by hand");
    proxy.tell(|asked, told| {
        let is_watch = asked.line.contains("/svc.test/messages?") && asked.line.contains("wait=");
        match is_watch && asked.before < 2 {
            true => told.with_body(b"nothing that can be read"),
            false => Lie::Truth,
        }
    });
    let worker = stage.start(&stage.bob, &["--once", "--lease", "1h"], &[]);
    worker.wait_for_output(|said| said.contains("back:"));
    // What is awaited is one more message.
    stage
        .alice
        .parler(["send", "--room", "svc.test", "are you at it?"])
        .success();
    worker.wait_for_errors(|said| said.contains("waiting for it"));
    let done = ["done", &seq.to_string(), "--service", "test", "--note", "yes"];
    stage.bob.parler(done).success();
    worker.wait().success().warns(&format!("job {seq} of 'test': done"));
}

#[test]
fn nobody_else_brings_or_blocks_the_result_of_a_job() {
    let world = world();
    let stage = stage(&world);
    stage.make_service();
    stage.push();
    for name in ["refs/results/1", "refs/results/1/x", "refs/results"] {
        let pushed = stage
            .alice
            .git(["push", "parler::room/svc.test", &format!("feature:{name}")]);
        pushed.code(1);
    }
    let command = script(&world, "commit", "echo x >>new.txt; git commit -qam x");
    let served = stage.start(&stage.bob, &["--once"], &[&command]).wait().success();
    served.says("done · exit status 0").says("bundle");
}
