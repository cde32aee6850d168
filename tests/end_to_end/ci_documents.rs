//! The jobs of docs/ci.md, its action and its template: step by step as they stand, and whole in runners that others wrote, where the
//! Python index has them.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use parler_harness::{Agent, Output, Repository, World, write_executable};
use serde_json::Value;

use super::ci::Stage;
use super::oidc;
use super::tokens::{hub_messages, job};
use super::world;

const ACTION: &str = include_str!("../../docs/ci/action.yml");
const TEMPLATE: &str = include_str!("../../docs/ci/gitlab-template.yml");
/// The hub of the documents.
const HUB: &str = "https://hub.example";

/// What the document shows of a job's file, in its order.
struct Shown {
    github_without_a_secret: String,
    gitlab_without_a_secret: String,
    github: String,
    github_without_the_action: String,
    gitlab: String,
}

impl Shown {
    /// All of it, with a hub that is there.
    fn at(hub: &str) -> Self {
        let document = include_str!("../../docs/ci.md");
        let blocks = document.split("```yaml\n").skip(1);
        let blocks = blocks.map(|rest| rest.split_once("```").unwrap().0.replace(HUB, hub));
        let blocks: Result<[String; 5], _> = blocks.collect::<Vec<_>>().try_into();
        let blocks = blocks.expect("another one needs a test");
        let [
            github_without_a_secret,
            gitlab_without_a_secret,
            github,
            github_without_the_action,
            gitlab,
        ] = blocks;
        Self {
            github_without_a_secret,
            gitlab_without_a_secret,
            github,
            github_without_the_action,
            gitlab,
        }
    }
}

/// The names and values below a line of YAML.
fn pairs<'y>(yaml: &'y str, above: &str) -> Vec<(&'y str, &'y str)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut lines = yaml.lines().skip_while(|line| line.trim() != above);
    let outer = indent(lines.next().unwrap());
    let inner = lines.take_while(|line| indent(line) > outer);
    let pairs = inner.map(|line| line.trim().split_once(": ").unwrap());
    pairs.map(|(name, value)| (name, value.trim_matches('"'))).collect()
}

/// The one command of a file, as a runner folds its lines.
fn folded(file: &str) -> String {
    let (_, command) = file.split_once(">-\n").unwrap();
    let lines: Vec<_> = command.lines().map(str::trim).collect();
    lines.join(" ")
}

/// The step of the action, for inputs of which no other is given than these; its command is [`folded`].
fn step<'w>(job: &Agent<'w>, given: &[(&str, &str)]) -> Agent<'w> {
    let mut step = job.clone();
    for (name, value) in pairs(ACTION, "env:") {
        let input = value
            .strip_prefix("${{ inputs.")
            .and_then(|rest| rest.strip_suffix(" }}"));
        let input = input.unwrap_or_else(|| panic!("{name}: {value}"));
        let of = |name: &str| {
            given
                .iter()
                .find(|(input, _)| *input == name)
                .map_or("", |(_, value)| *value)
        };
        let value = match input {
            "token == ''" => {
                if of("token").is_empty() {
                    "true"
                } else {
                    "false"
                }
            }
            input => of(input),
        };
        step = step.with(name, value);
    }
    step
}

/// A search path on which `cargo` is something that ends with this code, and the rest is as in the world.
fn with_cargo<'w>(world: &World, job: &Agent<'w>, code: i32) -> Agent<'w> {
    let tools = world.directory(&format!("tools-{code}"));
    write_executable(
        &tools.join("cargo"),
        &format!("#!/bin/sh\necho \"cargo $*\"\nexit {code}\n"),
    );
    let path = job.run("sh", ["-c", "printf %s \"$PATH\""]).success();
    job.with("PATH", format!("{}:{}", tools.display(), path.out()))
}

fn word(part: &Value, field: &str) -> String {
    part[field].as_str().unwrap_or_default().to_owned()
}

/// What a message says: a status, its context, and what is to be done next.
fn said(parts: &[Value]) -> (String, String, Option<String>) {
    let handoff = parts.iter().find(|part| part["kind"] == "com.parler.handoff");
    let next = handoff.map(|part| word(part, "next"));
    (word(&parts[0], "status"), word(&parts[0], "context"), next)
}

#[test]
fn the_documents_jobs_run_as_they_stand() {
    let world = world();
    let stage = Stage::set(&world);
    let shown = Shown::at(&stage.hub.url());
    let line = shown
        .github_without_the_action
        .lines()
        .find_map(|line| line.trim().strip_prefix("run: "));
    let checkout = stage.checkout("work");
    let github = stage.job(&checkout, 1).with("PARLER_ROOM", "build");
    // What GitHub fills in before a shell sees it.
    let line = line.unwrap().replace("${{ job.status }}", "failure");
    let url = stage.hub.url();
    let given = [
        ("hub", url.as_str()),
        ("token", &stage.token),
        ("room", "build"),
        ("status", "cancelled"),
        ("commit", "HEAD"),
        ("next", "try $(again)"),
    ];
    let step = step(&github.with("GITHUB_JOB", "action"), &given);
    let mut gitlab = job(&world, &stage.hub.url(), &stage.token)
        .at(&checkout)
        .with("GITLAB_CI", "true")
        .with("CI_JOB_STATUS", "success")
        .with("CI_JOB_NAME", "test")
        .with("CI_JOB_ID", "8");
    for (name, value) in pairs(&shown.gitlab, "variables:") {
        gitlab = gitlab.with(name, value);
    }
    for _ in 0..2 {
        github.run("sh", ["-e", "-c", &line]).success();
        step.run("sh", ["-e", "-c", &folded(ACTION)]).success();
        gitlab.run("sh", ["-e", "-c", &folded(TEMPLATE)]).success();
        gitlab
            .with("CI_JOB_STATUS", "failed")
            .with("CI_JOB_ID", "9")
            .run("sh", ["-e", "-c", &folded(TEMPLATE)])
            .success();
    }
    assert_eq!(hub_messages(&stage.alice), 4);
    let expected = [
        ("failure", "CI / test", Some("make the tests pass")),
        ("error", "CI / action", Some("try $(again)")),
        ("success", "test", None),
        ("failure", "test", Some("make the tests pass")),
    ];
    for (number, (status, context, next)) in (1..).zip(expected) {
        let expected = (status.to_owned(), context.to_owned(), next.map(str::to_owned));
        assert_eq!(said(&stage.parts(number)), expected);
    }
}

#[test]
fn the_documents_jobs_without_a_secret_run_as_they_stand() {
    let world = world();
    let fixture = oidc::fixture(&world);
    let shown = Shown::at(&fixture.hub.url());
    let checkout = world.clone_from_afar(&world.origin(), "work");
    let commit = checkout.rev("HEAD");

    // The runner gives each command a token of its own.
    let mut github = fixture
        .job(&world)
        .at(&checkout)
        .with("GITHUB_ACTIONS", "true")
        .with("GITHUB_SHA", &commit);
    github = ["PARLER_HUB", "PARLER_OIDC"]
        .iter()
        .fold(github, |github, name| github.without(name));
    let granted = pairs(&shown.github_without_a_secret, "permissions:");
    assert_eq!(granted, [("contents", "read"), ("id-token", "write")]);
    let mut in_job = github.clone();
    for (name, value) in pairs(&shown.github_without_a_secret, "env:") {
        in_job = in_job.with(name, value);
    }
    let steps = shown
        .github_without_a_secret
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- run: "));
    for step in steps {
        in_job.run("bash", ["-e", "-c", step]).success();
    }
    let hub = fixture.hub.url();
    let inputs = [
        ("hub", hub.as_str()),
        ("room", "build"),
        ("status", "success"),
        ("context", "action"),
        ("commit", &commit),
    ];
    let run = [
        ("SERVER_URL", "https://git.example"),
        ("REPOSITORY", "origin"),
        ("RUN_ID", "7"),
        ("RUN_ATTEMPT", "1"),
        ("JOB", "test"),
    ];
    let run = run
        .iter()
        .fold(github, |run, (name, value)| run.with(&format!("GITHUB_{name}"), value));
    let action = step(&run, &inputs);
    action.run("bash", ["-e", "-c", &folded(ACTION)]).success();

    // GitLab gives a job one, for the hub.
    assert_eq!(
        pairs(&shown.gitlab_without_a_secret, "PARLER_ID_TOKEN:"),
        [("aud", hub.as_str())]
    );
    let mut gitlab = with_cargo(&world, &job(&world, "", ""), 0)
        .at(&checkout)
        .without("PARLER_TOKEN");
    for (name, value) in pairs(&shown.gitlab_without_a_secret, "variables:") {
        gitlab = gitlab.with(name, value);
    }
    let gitlab = gitlab
        .with("PARLER_ID_TOKEN", fixture.issuer.job_token(&hub))
        .with("GITLAB_CI", "true")
        .with("CI_JOB_ID", "8");
    let script = shown.gitlab_without_a_secret.split_once("script:\n").unwrap().1;
    let script: Vec<_> = script
        .lines()
        .map(|line| line.trim().strip_prefix("- ").unwrap())
        .collect();
    assert_eq!(script.len(), 4);
    gitlab
        .run("sh", ["-e", "-c", &script.join("\n")])
        .success()
        .says("cargo test");

    let log = fixture.alice.parler("recv --room build --all --json").success().json();
    let messages = log["messages"].as_array().unwrap();
    let from: Vec<_> = messages
        .iter()
        .map(|message| message["from"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(from, ["ci/main"; 3]);
    assert_eq!(messages[0]["parts"][0]["text"], format!("tests of {commit} begin"));
    let contexts: Vec<_> = messages[1..]
        .iter()
        .map(|message| word(&message["parts"][0], "context"))
        .collect();
    assert_eq!(contexts, ["action", "test"]);
}

/// What the runner of others is, by the variable that says so.
fn runner(name: &str) -> OsString {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} names the runner"))
}

/// A clone of the origin, in which the documents' files are where they say.
fn project<'w>(world: &'w World, origin: &Repository<'w>) -> Repository<'w> {
    let project = world.clone_from_afar(origin, "project");
    for (name, content) in [("action.yml", ACTION), ("gitlab-template.yml", TEMPLATE)] {
        project.commit(&format!("parler/docs/ci/{name}"), content);
    }
    let origin = origin.path().to_str().unwrap();
    project
        .git(["push", "--quiet", origin, "HEAD:refs/heads/main"])
        .success();
    project
}

/// What stands for `actions/checkout`, which is not to be had here: the commit alone, from the origin, as that does.
const CHECKOUT: &str = r#"
name: checkout
description: the commit and nothing before it
inputs:
  ref: { description: the commit, default: "${{ github.sha }}" }
runs:
  using: composite
  steps:
    - shell: bash
      env: { REF: "${{ inputs.ref }}" }
      run: |
        git init --quiet .
        git fetch --quiet --depth 1 "$ORIGIN" "$REF"
        git checkout --quiet --detach FETCH_HEAD
        git remote add origin https://git.example/origin.git
"#;

/// GitHub's side of workflows: a runner of others, which needs no container and asks nobody.
struct Act<'w> {
    world: &'w World,
    user: Agent<'w>,
    /// What runners get as `actions/checkout`.
    checkout: PathBuf,
}

impl<'w> Act<'w> {
    fn new(world: &'w World, project: &Repository<'w>, code_of_cargo: i32) -> Self {
        let checkout = world.init("checkout-action", "--initial-branch=main");
        checkout.commit("action.yml", CHECKOUT);
        Self {
            world,
            user: with_cargo(world, &world.user(), code_of_cargo).at(project),
            checkout: checkout.path().to_owned(),
        }
    }

    fn file(&self, name: &str, content: &str) -> String {
        let file = self.world.path().join(name);
        fs::write(&file, content).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// Runs what is shown of a workflow for a push, with these secrets and these variables of the runner.
    fn run(&self, shown: &str, origin: &Repository<'_>, secrets: &str, variables: &str) -> Output {
        let workflow = self.file("workflow.yml", &format!("on: push\n{shown}"));
        let variables = format!("ORIGIN=file://{}\n{variables}", origin.path().display());
        let (secrets, variables) = (self.file("secrets", secrets), self.file("variables", &variables));
        let cache = self.world.directory("act");
        let checkout = format!("actions/checkout@v4={}", self.checkout.display());
        let options = [
            ("--workflows", workflow.as_str()),
            ("--platform", "ubuntu-latest=-self-hosted"),
            ("--local-repository", &checkout),
            ("--action-cache-path", cache.to_str().unwrap()),
            ("--secret-file", &secrets),
            ("--env-file", &variables),
        ];
        let mut words: Vec<OsString> = vec!["push".into(), "--no-cache-server".into(), "--pull=false".into()];
        words.extend(
            options
                .into_iter()
                .flat_map(|(option, value)| [option.into(), value.into()]),
        );
        self.user.run(runner("PARLER_ACT"), words)
    }
}

#[test]
#[ignore = "needs a runner from the Python index: PARLER_ACT is the program act"]
fn githubs_jobs_are_run_by_others() {
    let world = world();
    let stage = Stage::set(&world);
    let shown = Shown::at(&stage.hub.url());
    let project = project(&world, &stage.origin);
    let commit = project.rev("HEAD");
    let act = Act::new(&world, &project, 1);
    let secrets = format!("PARLER_TOKEN={}\n", stage.token);
    for _ in 0..2 {
        let failed = act.run(&shown.github, &stage.origin, &secrets, "").code(1);
        failed.says("posted failure of ");
        assert!(!failed.out().contains(&stage.token), "{failed:?}");
    }
    assert_eq!(hub_messages(&stage.alice), 1, "once, as one attempt at the job");
    let parts = stage.parts(1);
    assert_eq!(said(&parts).0, "failure");
    assert_eq!(said(&parts).2.as_deref(), Some("make the tests pass"));
    assert_eq!(
        (word(&parts[0], "commit"), word(&parts[2], "to")),
        (commit.clone(), "fixer".to_owned())
    );
    assert!(said(&parts).1.ends_with(" / test"), "{parts:?}");

    // The line alone, in a job that is good.
    let job = format!(
        "jobs:\n  line:\n    runs-on: ubuntu-latest\n    env:\n      PARLER_HUB: {}\n      PARLER_TOKEN: ${{{{ secrets.PARLER_TOKEN }}}}\n    \
         steps:\n      - uses: actions/checkout@v4\n{}",
        stage.hub.url(),
        shown.github_without_the_action
    );
    act.run(&job, &stage.origin, &secrets, "")
        .success()
        .says("posted success of ");
    assert_eq!(
        (said(&stage.parts(2)).0.as_str(), said(&stage.parts(2)).2),
        ("success", None)
    );

    // Without a secret: the runner signs for each step.
    let world = super::world();
    let fixture = oidc::fixture(&world);
    let origin = world.origin();
    let project = self::project(&world, &origin);
    let act = Act::new(&world, &project, 0);
    let runner: String = fixture
        .runner
        .iter()
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    let shown = Shown::at(&fixture.hub.url());
    act.run(&shown.github_without_a_secret, &origin, "", &runner).success();
    let action = shown
        .github
        .replace("          token: ${{ secrets.PARLER_TOKEN }}\n", "");
    assert_ne!(action, shown.github);
    act.run(&action, &origin, "", &runner)
        .success()
        .says("posted success of ");
    let log = fixture.alice.parler("recv --room build --all --json").success().json();
    let messages = log["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 2);
    assert_eq!(
        messages[0]["parts"][0]["text"],
        format!("tests of {} begin", project.rev("HEAD"))
    );
    assert_eq!(messages[1]["from"]["name"], "ci/main");
}

#[test]
#[ignore = "needs a runner from the Python index: PARLER_GLE is the program gle of gitlab-emulator"]
fn gitlabs_jobs_are_run_by_others() {
    let world = world();
    let stage = Stage::set(&world);
    let project = project(&world, &stage.origin);
    // What it does not say of a job as GitLab does.
    let run = |shown: &str, code_of_cargo: i32, variables: &[&str]| {
        fs::write(project.path().join(".gitlab-ci.yml"), shown).unwrap();
        let user = with_cargo(&world, &world.user(), code_of_cargo).at(&project);
        let sha = format!("CI_COMMIT_SHA={}", project.rev("HEAD"));
        let mut words: Vec<OsString> = ["--timeout", "0", "--var", "GITLAB_CI=true", "--var", &sha]
            .map(OsString::from)
            .to_vec();
        words.extend(
            variables
                .iter()
                .flat_map(|variable| ["--var".into(), OsString::from(variable)]),
        );
        words.push("test".into());
        user.run(runner("PARLER_GLE"), words)
    };
    let token = format!("PARLER_TOKEN={}", stage.token);
    let shown = Shown::at(&stage.hub.url());
    let failed = run(&shown.gitlab, 1, &[&token, "CI_JOB_STATUS=failed"]).either();
    assert!(!failed.is_success(), "{failed:?}");
    // It calls jobs of one second the same: the next one is for another commit.
    project.commit("mended.txt", "1\n");
    run(&shown.gitlab, 0, &[&token, "CI_JOB_STATUS=success"]).success();
    let words = [said(&stage.parts(1)), said(&stage.parts(2))];
    let expected = [
        ("failure", "test", Some("make the tests pass")),
        ("success", "test", None),
    ];
    let expected =
        expected.map(|(status, context, next)| (status.to_owned(), context.to_owned(), next.map(str::to_owned)));
    assert_eq!(words, expected);

    let trusting = super::world();
    let fixture = oidc::fixture(&trusting);
    let shown = Shown::at(&fixture.hub.url());
    let token = format!("PARLER_ID_TOKEN={}", fixture.issuer.job_token(&fixture.hub.url()));
    run(&shown.gitlab_without_a_secret, 0, &[&token]).success();
    let told = fixture.alice.parler("show 1 --room build").success();
    told.says("ci/main").says("review:  success · test");
}
