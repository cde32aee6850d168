//! A service whose jobs a worker does with a command: what the command finds, what comes back, and what becomes of the job
//! when command or worker end otherwise.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use parler_harness::{Agent, Answer, Repository, Running, World};
use serde_json::{Value, json};

use super::world;

/// A world in which bob serves and alice asks, with a branch `feature` of hers.
struct Stage<'w> {
    world: &'w World,
    bob: Agent<'w>,
    alice: Agent<'w>,
    place: Repository<'w>,
}

/// Scripts that commands are, and whatever they write beside them.
fn script(world: &World, name: &str, lines: &str) -> String {
    let path = world.directory("scripts").join(name);
    fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn stage(world: &World) -> Stage<'_> {
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
    fn serve(&self, options: &[&str], command: &[&str]) -> Running {
        let worker = self.start(&self.bob, options, command);
        worker.wait_for_errors(|said| said.contains("serving 'test'"));
        worker
    }

    fn start(&self, worker: &Agent<'_>, options: &[&str], command: &[&str]) -> Running {
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
    fn make_service(&self) {
        self.bob.parler("serve test --retry 1").either();
    }

    /// Asks for a job about the branch.
    #[track_caller]
    fn push(&self) -> Answer {
        self.alice.git("push parler::service/test feature").success()
    }

    /// Asks for a job that is a text.
    #[track_caller]
    fn ask(&self, text: &str) -> u64 {
        let sent = self
            .alice
            .parler(["send", "--json", "--service", "test", text])
            .success();
        sent.json()["seq"].as_u64().unwrap()
    }

    /// Everything that was said in the service's room.
    fn log(&self) -> Vec<Value> {
        let log = self.alice.parler("recv --all --json --service test").success();
        log.json()["messages"].as_array().unwrap().clone()
    }

    /// The messages that say this of a job.
    fn said(&self, status: &str) -> Vec<Value> {
        let is_it = |message: &Value| part(message, "com.parler.task")["status"] == status;
        self.log().into_iter().filter(is_it).collect()
    }

    /// What a command wrote, as the message that tells its end names it.
    fn output(&self, message: &Value) -> String {
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
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.world.path().join("work")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

fn part(message: &Value, kind: &str) -> Value {
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
    let lines = "cat >\"$PWD/../../../../job.json\"; env | sort; git log --format=%s -1; git status --short --branch; \
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
    assert!(!Path::new(home).exists() && home.contains("/work/worker-"), "{home}");
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
