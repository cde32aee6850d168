//! CI jobs without a secret: a job shows the hub what its CI system signed for it, in every verb and in `git push`, and nothing
//! of that is left anywhere.

use std::fs;

use parler_harness::{Agent, HubProcess, Issuer, SigningKey, World, write_executable};
use serde_json::{Value, json};

use super::tokens::job;
use super::{hub_server, world};

/// A hub that trusts an issuer, whose runner runs a job on the main branch.
pub(super) struct Fixture<'w> {
    pub(super) hub: HubProcess,
    pub(super) alice: Agent<'w>,
    pub(super) issuer: Issuer,
    pub(super) runner: [(&'static str, String); 2],
}

fn claims(issuer: &Issuer) -> Value {
    json!({
        "iss": issuer.name(), "sub": "repo:acme/app:ref:refs/heads/main", "repository_id": "1234", "repository": "acme/app",
        "ref": "refs/heads/main", "ref_protected": "true", "event_name": "push",
    })
}

pub(super) fn fixture(world: &World) -> Fixture<'_> {
    let key = SigningKey::ed25519("one");
    let issuer = Issuer::start(&[&key]);
    let directory = world.directory("trust");
    let file = directory.join("oidc.json");
    fs::write(&file, r#"{ "issuers": [] }"#).unwrap();
    let mut hub = hub_server::start_trusting(world, &file);
    let alice = world.stranger("alice").on(&hub);
    alice.parler("invite --group build").success();
    let owner = alice.parler("whoami --json").success().json()["id"].clone();
    let rule = |name: &str, room: &str| {
        json!({
            "name": name, "owner": owner, "rooms": [room], "can": ["post", "read"],
            "claims": { "repository_id": "1234" },
        })
    };
    alice.parler("invite --group ops").success();
    let trusted = json!({
        "issuer": issuer.name(), "keys": issuer.keys_address(), "audience": hub.url(),
        // The first lets the job into another room.
        "rules": [rule("operations", "ops"), rule("main", "build")],
    });
    fs::write(&file, json!({ "issuers": [trusted] }).to_string()).unwrap();
    hub.terminate();
    hub.restart();
    let runner = issuer.run_job(key, claims(&issuer));
    Fixture {
        hub,
        alice,
        issuer,
        runner,
    }
}

impl Fixture<'_> {
    /// A job in a bare container, whose runner gives it identity tokens.
    pub(super) fn job<'w>(&self, world: &'w World) -> Agent<'w> {
        let job = job(world, &self.hub.url(), "").with("PARLER_OIDC", "1");
        self.runner.iter().fold(job, |job, (name, value)| job.with(name, value))
    }
}

#[test]
fn a_job_speaks_by_what_its_ci_system_signed_and_leaves_nothing_of_it() {
    let world = world();
    let fixture = fixture(&world);
    let origin = world.origin();
    let work = world.clone_from_afar(&origin, "work");
    work.has_git_pack();
    work.commit("a.txt", "one\n");
    // What git and its children are given, and what commands say of themselves.
    let seen = world.path().join("seen");
    let spy = world.path().join("git");
    let script = format!(
        "#!/bin/sh\nenv >>'{0}'\necho \"$@\" >>'{0}'\nexec git \"$@\"\n",
        seen.display()
    );
    write_executable(&spy, &script);
    let trace = world.path().join("trace");
    let job = fixture
        .job(&world)
        .at(&work)
        .with("PARLER_GIT", &spy)
        .with("PARLER_TRACE", &trace);

    let sent = job.parler(["send", "--room", "build", "hello from a job"]).success();
    sent.says("message 1");
    job.git("push --quiet parler::room/build HEAD:refs/heads/ci").success();
    let listed = job.git("ls-remote parler::room/build refs/heads/ci").success();
    assert_eq!(listed.listed_refs()["refs/heads/ci"], work.rev("HEAD"));
    // A job may say it with the verb that speaks for it.
    let post = "ci post --oidc --room build --context lint --status success --commit";
    let (commit, silent) = ("a".repeat(40), job.without("PARLER_OIDC"));
    silent.parler(format!("{post} {commit}")).success();
    let without = silent
        .parler(format!("{} {commit}", post.replace("--oidc ", "")))
        .either();
    assert!(!without.is_success(), "{without:?}");
    let who = job.parler("whoami --room build --json").success().json();
    assert_eq!(
        (&who["name"], &who["source"]),
        (&json!("ci/main"), &json!("PARLER_OIDC"))
    );
    fixture
        .alice
        .parler("show 1 --room build")
        .success()
        .says("ci/main")
        .says("hello from a job");
    // What cannot be said is told before anybody is asked.
    let nameless = job.parler("ci post --room build --status success").code(2);
    assert!(nameless.one_error_line().contains("--context"), "{}", nameless.err());
    // One for each process, each for the hub.
    let asked = fixture.issuer.token_requests();
    assert_eq!(asked.len(), 5, "{asked:?}");
    let list = fixture.alice.parler("token list --json").success().json();
    let main = list["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .find(|token| token["name"] == "main")
        .unwrap();
    assert_eq!(main["jobs"].as_array().unwrap().len(), 5);
    assert_eq!(main["jobs"][0]["claims"]["repository"], "acme/app");

    let bearer = &fixture.runner[1].1;
    let told = [
        fs::read_to_string(&seen).unwrap(),
        fs::read_to_string(&trace).unwrap(),
        fixture.hub.log().text(),
        sent.err().to_owned(),
    ];
    for told in &told {
        for secret in [bearer.as_str(), "parler_ci_", "eyJ"] {
            assert!(!told.contains(secret), "{secret}: {told}");
        }
    }
    assert!(told[0].contains("PARLER_OIDC=1"), "{}", told[0]);
}

#[test]
fn a_token_that_was_given_is_taken_once_and_exchanged_for_one_that_serves_the_job() {
    let world = world();
    let fixture = fixture(&world);
    let given = fixture.issuer.job_token(&fixture.hub.url());
    let bare = job(&world, &fixture.hub.url(), "");
    let printed = bare
        .with("PARLER_ID_TOKEN", &given)
        .parler("token exchange --room build")
        .success();
    printed.warns("'main'").warns_no("parler_ci_");
    let token = printed.word().to_owned();
    assert!(token.starts_with("parler_ci_main_"), "{token}");
    for number in 1..=2 {
        // A token that is at hand is used.
        job(&world, &fixture.hub.url(), &token)
            .with("PARLER_OIDC", "1")
            .parler(["send", "--room", "build", "again"])
            .success()
            .says(&format!("message {number}"));
    }
    let shows = |name: &str, value: &str| bare.with("PARLER_OIDC", "true").with(name, value);
    let again = shows("PARLER_OIDC_TOKEN", &given)
        .parler(["send", "--room", "build", "x"])
        .code(4);
    assert!(again.one_error_line().contains("used before"), "{}", again.err());

    // In a file, for a room that no rule names, with nothing to show, and where nobody said so.
    let file = world.path().join("identity");
    fs::write(&file, format!("{}\n", fixture.issuer.job_token(&fixture.hub.url()))).unwrap();
    let file = file.to_str().unwrap();
    let refused = shows("PARLER_OIDC_TOKEN_FILE", file)
        .parler(["send", "--room", "secret", "x"])
        .code(4);
    assert!(
        refused.one_error_line().contains("no rule of this hub"),
        "{}",
        refused.err()
    );
    shows("PARLER_OIDC_TOKEN_FILE", file)
        .parler(["send", "--room", "build", "x"])
        .success()
        .says("message 3");
    let nothing = bare
        .with("PARLER_OIDC", "1")
        .parler(["send", "--room", "build", "x"])
        .code(4);
    assert!(
        nothing.one_error_line().contains("id-token: write"),
        "{}",
        nothing.err()
    );
    let fork = fixture.runner[1].1.replace("secret", "other");
    let refused = fixture
        .job(&world)
        .with(fixture.runner[1].0, fork)
        .parler(["send", "--room", "build", "x"])
        .code(5);
    assert!(refused.one_error_line().contains("it answers 403"), "{}", refused.err());
    assert!(!refused.err().contains("runner-"), "{}", refused.err());
    let local = job(&world, "local", "")
        .with("PARLER_OIDC", "1")
        .parler(["send", "--room", "build", "x"])
        .code(2);
    assert!(
        local
            .one_error_line()
            .contains("PARLER_OIDC is no token of the local hub"),
        "{}",
        local.err()
    );
}
