//! Jobs that somebody does by hand: shown with the commands that go on, kept meanwhile, and ended from another terminal.

use parler_harness::Running;
use rustix::process::Signal;
use serde_json::json;

use super::serve::{Stage, part, stage};
use super::world;

/// Somebody who waits for a job to do by hand.
fn sit(stage: &Stage<'_>, options: &[&str]) -> Running {
    let worker = stage.start(&stage.bob, options, &[]);
    worker.wait_for_errors(|said| said.contains("serving 'test' by hand"));
    worker
}

#[test]
fn a_job_is_done_by_hand_with_the_commands_that_are_shown() {
    let world = world();
    let stage = stage(&world);
    let worker = sit(&stage, &["--once"]);
    stage.push();
    let shown = worker.wait_for_output(|said| said.contains("back:"));
    for line in [
        "JOB FOR YOU from alice · message 1 · signature valid",
        "apply: git parler apply 1 --service test",
        "done:  git parler done 1 --service test",
        "fail:  git parler fail 1 --service test --note TEXT",
        "back:  git parler decline 1 --service test",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&shown).contains(&squeezed(line)), "no {line} in {shown}");
    }
    assert_eq!(stage.said("accepted").len(), 1);
    let desk = world.init("desk", "");
    let bob = stage.bob.at(&desk);
    bob.parler("apply 1 --service test").success();
    let pin = desk.pins().into_keys().next().unwrap();
    desk.git(["checkout", "--quiet", "-b", "answer", &pin]).success();
    desk.commit("answer.txt", "42\n");
    let done = bob
        .parler("done 1 --service test --bundle answer --note answered")
        .success();
    done.says("finished job 1 of 'test', as message 3");
    worker.wait().success().warns("job 1 of 'test': done");
    let done = stage.said("done").pop().unwrap();
    assert_eq!(part(&done, "com.parler.task")["note"], "answered");
    let bundle = part(&done, "com.parler.bundle");
    assert_eq!(bundle["prerequisites"], json!([stage.place.rev("feature")]));
    assert_eq!(part(&done, "com.parler.refs")["updates"][0]["name"], "refs/results/1");
    assert_eq!(part(&done, "com.parler.handoff")["to"], "alice");
    // It is over: nothing more is said of it.
    bob.parler("fail 1 --service test --note no").code(7).one_error_line();
}

#[test]
fn a_job_that_is_given_back_is_somebody_elses_at_once() {
    let world = world();
    let stage = stage(&world);
    let worker = sit(&stage, &["--once", "--lease", "15s"]);
    stage.ask("who?");
    worker.wait_for_output(|said| said.contains("back:"));
    stage.bob.parler("fail 1 --service test").code(2).one_error_line();
    stage
        .bob
        .parler("decline 1 --service test")
        .success()
        .says("gave job 1 of 'test' back");
    let carol = world.agent("carol");
    stage
        .start(&carol, &["--once"], &["true"])
        .wait()
        .success()
        .says("done");
    stage.bob.parler("done 1 --service test").code(7).one_error_line();
    worker.wait().success().warns("no longer yours");
    assert_eq!(stage.said("done").len(), 1);
}

#[test]
fn whoever_leaves_gives_the_job_back() {
    let world = world();
    let stage = stage(&world);
    // So long that nobody would be offered it otherwise.
    let worker = sit(&stage, &["--lease", "1h"]);
    let first = stage.ask("one");
    worker.wait_for_output(|said| said.contains("back:"));
    worker.signal_group(Signal::INT);
    assert_eq!(worker.wait().either().signal(), Some(2));
    let late = stage.bob.parler(["done", &first.to_string(), "--service", "test"]);
    late.code(7).warns("git parler serve test");
    stage
        .start(&stage.bob, &["--once"], &["true"])
        .wait()
        .success()
        .says("done");
    // The terminal that waits hears what was said in another.
    let worker = sit(&stage, &["--once"]);
    let second = stage.ask("two");
    worker.wait_for_output(|said| said.contains("back:"));
    stage
        .bob
        .parler(["fail", &second.to_string(), "--service", "test", "--note", "cannot"])
        .success();
    worker.wait().success().warns("failed");
    // Also by whoever asked for it.
    let worker = sit(&stage, &["--once"]);
    let third = stage.ask("three");
    worker.wait_for_output(|said| said.contains("back:"));
    let cancel = ["cancel", &third.to_string(), "--service", "test"];
    stage.alice.parler(cancel).success();
    worker.wait().success().warns("cancelled");
    assert_eq!(part(&stage.said("failed")[0], "com.parler.task")["note"], "cannot");
}
