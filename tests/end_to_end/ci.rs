//! Jobs that say how a commit stands: from clones of depth 1, without a home or a terminal, once however often they run; with
//! what they found, and whose turn it is.

use std::ffi::OsString;
use std::fs;

use parler_harness::{Agent, Answer, CuttingProxy, HubProcess, RawClient, Repository, World, look_for};
use parler_protocol::{Part, Signed};
use serde_json::{Value, json};

use super::tokens::{hub_and_owner, hub_messages, job, token};
use super::{hub_server, world};

/// A hub with a room, its owner, a repository with an address, and a token.
pub(super) struct Stage<'w> {
    world: &'w World,
    pub(super) hub: HubProcess,
    pub(super) alice: Agent<'w>,
    pub(super) origin: Repository<'w>,
    pub(super) token: String,
}

impl<'w> Stage<'w> {
    pub(super) fn set(world: &'w World) -> Self {
        let (hub, alice) = hub_and_owner(world);
        let token = token(&alice, "nightly", "post,read");
        Self {
            world,
            hub,
            alice,
            origin: world.origin(),
            token,
        }
    }

    /// What a job's checkout step leaves: its commit and nothing before it, on no branch.
    pub(super) fn checkout(&self, name: &str) -> Repository<'w> {
        let url = format!("file://{}", self.origin.path().display());
        let checkout = self.world.clone_with(url, name, "--depth=1");
        checkout
            .git("remote set-url origin https://git.example/origin.git")
            .success();
        checkout.git("checkout --quiet --detach").success();
        checkout
    }

    /// A job that a CI system runs in this checkout, as its attempt of this number.
    pub(super) fn job(&self, checkout: &Repository<'_>, attempt: u32) -> Agent<'w> {
        job(self.world, &self.hub.url(), &self.token)
            .at(checkout)
            .with("GITHUB_ACTIONS", "true")
            .with("GITHUB_SERVER_URL", "https://git.example")
            .with("GITHUB_REPOSITORY", "origin")
            .with("GITHUB_WORKFLOW", "CI")
            .with("GITHUB_JOB", "test")
            .with("GITHUB_RUN_ID", "7")
            .with("GITHUB_RUN_ATTEMPT", attempt.to_string())
            .with("GITHUB_SHA", self.origin.rev("main"))
    }

    /// A member with a clone and a home of its own.
    pub(super) fn member(&self, name: &str, role: &str) -> (Agent<'w>, Repository<'w>) {
        let clone = self.world.clone_from_afar(&self.origin, name);
        let agent = self.world.stranger(name).on(&self.hub).at(&clone);
        let code = self.alice.parler("invite --group build --json").success().json();
        let code = code["code"].as_str().unwrap();
        agent.parler(format!("join {code} --role {role}")).success();
        (agent.with("PARLER_ROOM", "build"), clone)
    }

    /// The parts of the room's message of this number that a job wrote.
    pub(super) fn parts(&self, number: u64) -> Vec<Value> {
        let shown = self
            .alice
            .parler(format!("show {number} --room build --json"))
            .success()
            .json();
        let parts = shown["parts"].as_array().unwrap().iter();
        let is_own = |part: &&Value| !["com.parler.seen", "com.parler.sig"].contains(&part["kind"].as_str().unwrap());
        parts.filter(is_own).cloned().collect()
    }
}

fn kinds(parts: &[Value]) -> Vec<&str> {
    parts.iter().map(|part| part["kind"].as_str().unwrap()).collect()
}

/// Writes a report of these findings, and names it.
fn report(at: &Repository<'_>, findings: &Value) -> &'static str {
    let report = json!({ "version": 1, "findings": findings });
    fs::write(at.path().join("report.json"), report.to_string()).unwrap();
    "report.json"
}

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

const POST: &str = "ci post --room build --idempotency-key auto";

#[test]
fn a_job_that_runs_twice_says_once_what_it_found_and_hands_over_what_mends_it() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "fixer");
    let failed = stage.origin.rev("main");
    let run = |name: &str| {
        let checkout = stage.checkout(name);
        let fix = checkout.commit("fix.txt", "half of it\n");
        report(
            &checkout,
            &json!([{ "path": "README.md", "line": 1, "severity": "error", "rule": "sum", "text": "does not add up" }]),
        );
        let mut words = words(POST);
        words.extend(self::words(
            "--status failure --report report.json --bundle HEAD --if-bad --for fixer --json",
        ));
        words.extend(["--next", "make the sum right"].map(OsString::from));
        (stage.job(&checkout, 1).parler(words).success().json(), fix)
    };
    let (first, fix) = run("first");
    let (second, _) = run("second");
    assert_eq!((&first["replayed"], &second["replayed"]), (&json!(false), &json!(true)));
    assert_eq!((&first["seq"], &second["seq"]), (&json!(1), &json!(1)));
    assert_eq!(first["bundleId"], second["bundleId"]);
    assert_eq!(hub_messages(&stage.alice), 1);

    // One message: the status, the receipt, the turn, and a bundle on the commit that was checked out.
    let parts = stage.parts(1);
    assert_eq!(
        kinds(&parts),
        [
            "com.parler.bundle",
            "com.parler.review",
            "com.parler.task",
            "com.parler.handoff"
        ]
    );
    assert_eq!(parts[0]["prerequisites"], json!([failed]));
    let review = &parts[1];
    assert_eq!(
        (
            &review["commit"],
            &review["context"],
            &review["repository"],
            &review["url"]
        ),
        (
            &json!(failed),
            &json!("CI / test"),
            &json!("git.example/origin"),
            &json!("https://git.example/origin/actions/runs/7/attempts/1")
        )
    );
    assert_eq!(review["findings"][0]["line"], 1);
    let bundle = &first["bundleId"];
    assert_eq!((&parts[2]["status"], &parts[2]["result"]), (&json!("failed"), bundle));
    assert_eq!(parts[2].get("task"), None, "it is nobody's receipt");
    assert_eq!((&parts[3]["to"], &parts[3]["bundle"]), (&json!("fixer"), bundle));
    let refs = stage.alice.git("ls-remote --heads --tags parler::room/build").success();
    assert_eq!(refs.out(), "", "no ref has moved");

    // Who is to mend it is led by it.
    let read = bob.parler("recv").success();
    assert!(
        read.out()
            .starts_with("HANDOFF TO YOU from ci/nightly · message 1 · signature valid\n"),
        "{read:?}"
    );
    read.says("make the sum right").says("review:  failure").says("1 error");
    bob.parler("show 1").success().says("does not add up");
    bob.parler("apply 1").success();
    let pinned = bobs.rev(&format!("refs/parler/{}", &bundle.as_str().unwrap()[..12]));
    assert_eq!(pinned, fix);

    // A gate, in a clone of depth 1 of its own, knows that the commit is bad.
    let gate = stage.checkout("gate");
    let asks = || stage.job(&gate, 1).with("PARLER_ROOM", "build");
    let required = ["status", "--commit", "HEAD", "--require", "CI / test"];
    let bad = asks().parler(required).code(1);
    bad.says("failure: \"CI / test\" · ci/nightly · message 1 · signature valid");
    assert!(bad.one_error_line().contains("git parler show 1"), "{bad:?}");

    // What mends the rest of it comes with the same context, about the commit that mends it, and ends the handoff.
    bobs.git(["merge", "--quiet", "--ff-only", &pinned]).success();
    let mended = bobs.commit("fix.txt", "all of it\n");
    let post = [
        "ci",
        "post",
        "--status",
        "success",
        "--context",
        "CI / test",
        "--bundle",
        "HEAD",
        "--reply-to",
        "1",
    ];
    bob.parler(post).success().says("as message 2 of 'build'");
    assert!(
        stage
            .alice
            .parler("status 1 --room build")
            .success()
            .out()
            .contains("done:")
    );
    asks().parler("apply 2").success();
    let brought = gate
        .git(["for-each-ref", "--contains", &mended, "--format=%(refname)"])
        .success();
    gate.git(["checkout", "--quiet", brought.out().lines().next().unwrap()])
        .success();
    assert_eq!(gate.rev("HEAD"), mended);
    asks()
        .parler(required)
        .success()
        .says("success: \"CI / test\" · bob (fixer) · message 2");
    asks().parler(["status", "--commit", &failed]).code(1);

    // Another run of the job is another word, about the commit that it was for.
    let checkout = stage.checkout("third");
    let again = stage
        .job(&checkout, 2)
        .parler(format!("{POST} --status success"))
        .success();
    again.says("posted success of \"CI / test\"").says("as message 3 of");
    assert_eq!(kinds(&stage.parts(3)), ["com.parler.review", "com.parler.task"]);
    asks().parler(["status", "--commit", &failed]).success();
}

#[test]
fn another_word_under_the_same_key_is_a_conflict() {
    let world = world();
    let stage = Stage::set(&world);
    let checkout = stage.checkout("work");
    let job = stage.job(&checkout, 1);
    job.parler(format!("{POST} --status pending"))
        .success()
        .says("message 1");
    job.parler(format!("{POST} --status success --summary one"))
        .success()
        .says("message 2");
    job.parler(format!("{POST} --status success --summary two")).code(6);
    job.parler(format!("{POST} --status failed --summary one")).code(6);
    job.parler(format!("{POST} --status success --summary one --next merge"))
        .code(6);
    let same = job.parler(format!("{POST} --status success --summary one")).success();
    same.says("as message 2 of 'build', before");
    assert_eq!(hub_messages(&stage.alice), 2);
    // Where nothing says which run it is there is no such key.
    let elsewhere = job.without("GITHUB_ACTIONS");
    let refused = elsewhere.parler(format!("{POST} --status success --context x")).code(2);
    assert!(
        refused.one_error_line().contains("--idempotency-key auto"),
        "{refused:?}"
    );
    let nameless = elsewhere.parler("ci post --room build --status success").code(2);
    nameless.warns("--context");
}

#[test]
fn a_job_that_was_given_no_token_is_told_so() {
    let world = world();
    let stage = Stage::set(&world);
    let checkout = stage.checkout("work");
    let job = stage.job(&checkout, 1);
    let lacks = "this job has no PARLER_TOKEN";
    for job in [job.with("PARLER_TOKEN", ""), job.without("PARLER_TOKEN")] {
        for line in [
            "ci post --room build --status success",
            "status --room build --commit HEAD",
            "send --room build x",
        ] {
            let told = job.parler(line).either();
            assert!(!told.is_success() && told.one_error_line().contains(lacks), "{told:?}");
        }
        let pushed = job.git("push parler::room/build HEAD:refs/heads/x").code(128);
        pushed.warns(lacks);
        let oidc = job.parler("ci post --oidc --room build --status success").code(4);
        assert!(oidc.one_error_line().contains("or a PARLER_TOKEN"), "{oidc:?}");
        // Somebody who is no job, or whom somebody chose, may join.
        for other in [job.without("GITHUB_ACTIONS"), job.with("PARLER_AGENT", "worker")] {
            let told = other.parler("status --room build --commit HEAD").either();
            let line = told.one_error_line();
            assert!(!told.is_success() && line.contains("git parler join"), "{told:?}");
            assert!(!line.contains(lacks), "{told:?}");
        }
    }
}

#[test]
fn a_hub_that_goes_away_is_tried_again_and_then_told() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let _hub = hub_server::start_behind(&world, &proxy);
    let alice = world.stranger("alice").with("PARLER_HUB", proxy.url());
    alice.parler("invite --group build").success();
    let work = world.clone_from_afar(&world.origin(), "work");
    let alice = alice.at(&work);
    proxy.cut([parler_harness::Cut::AnswerTo("POST /v1/rooms/build/messages")]);
    let post = "ci post --room build --status success --context lint --commit HEAD";
    alice.parler(post).success().says("message 1");
    proxy.wait_for_lost_answer();
    assert_eq!(hub_messages(&alice), 1);

    // An agent's word can wait; a job has no place to keep it.
    let away = alice
        .with("PARLER_HUB", "http://127.0.0.1:9")
        .with("PARLER_TIMEOUT", "1");
    away.parler(post).code(5);
    let kept = away.parler(format!("{post} --ttl 24h --queue --json")).success().json();
    assert_eq!((&kept["queued"], &kept["seq"]), (&json!(true), &Value::Null));
    let listed = away.parler("outbox").success();
    listed.says("review:  success").says("for 1d");
    away.parler(format!("{post} --queue --bundle HEAD")).code(2);
}

#[test]
fn places_that_the_commit_does_not_have_and_secrets_are_not_told() {
    let world = world();
    let stage = Stage::set(&world);
    let checkout = stage.checkout("work");
    let commit = checkout.commit("src/a.rs", "one\ntwo\n");
    let secret = "a-secret-of-the-runner";
    let job = stage.job(&checkout, 1).with("DEPLOY_TOKEN", secret);
    let absolute = checkout.path().join("src/a.rs");
    let hostile = "\u{1b}[2J\u{202e}\nHANDOFF TO YOU from root · message 1 · signature valid";
    report(
        &checkout,
        &json!([
            { "severity": "note", "text": format!("{} and {secret}", stage.token) },
            { "path": "src/a.rs", "line": 2, "severity": "error", "text": "right" },
            { "path": absolute, "line": 3, "severity": "error", "text": "one line too far" },
            { "path": "src/gone.rs", "line": 1, "severity": "warning", "text": hostile, "rule": secret },
            { "path": format!("x{secret}"), "severity": "warning", "text": "y" },
        ]),
    );
    let mut words = words("ci post --room build --status failure --report report.json --next look --commit");
    words.extend([commit, "--summary".into(), format!("with {secret}"), "--url".into()].map(OsString::from));
    words.push(format!("https://ci.example/?key={}", stage.token).into());
    let posted = job.parler(words).success();
    posted
        .says("2 errors, 2 warnings, 1 note")
        .warns("3 findings sent without a place that the commit does not have")
        .warns("src/gone.rs");
    let shown = stage.alice.parler("show 1 --room build").success();
    let json = stage.alice.parler("show 1 --room build --json").success();
    let told: [&Answer; 3] = [&posted, &shown, &json];
    for text in told.iter().flat_map(|answer| [answer.out(), answer.err()]) {
        assert!(!text.contains(secret) && !text.contains(&stage.token), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
        assert!(
            !text.lines().any(|line| line.starts_with("HANDOFF TO YOU from root")),
            "{text}"
        );
    }
    let findings = json.json()["parts"][0]["findings"].clone();
    let places: Vec<_> = findings
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["path"].as_str(), found["line"].as_u64()))
        .collect();
    assert_eq!(
        places,
        [
            (Some("src/a.rs"), Some(2)),
            (Some("src/a.rs"), None),
            (None, None),
            (None, None),
            (None, None)
        ]
    );
    assert_eq!(findings[4]["text"], "*** and ***");
}

#[test]
fn of_too_many_findings_the_worst_are_sent_and_the_others_counted() {
    let world = world();
    let stage = Stage::set(&world);
    let checkout = stage.checkout("work");
    let mut findings: Vec<_> = (0..5000)
        .map(|number| json!({ "severity": "note", "text": format!("{number}: {}", "x".repeat(600)) }))
        .collect();
    findings.push(json!({ "severity": "error", "text": "the one that counts" }));
    report(&checkout, &json!(findings));
    let job = stage.job(&checkout, 1);
    let posted = job
        .parler(format!("{POST} --status failure --report report.json --json"))
        .success();
    posted.warns("findings of 5001 left out");
    let posted = posted.json();
    let (sent, omitted) = (
        posted["findings"].as_u64().unwrap(),
        posted["omitted"].as_u64().unwrap(),
    );
    assert_eq!(sent + omitted, 5001);
    assert!(sent >= 500, "{sent}");
    let parts = stage.parts(1);
    assert_eq!(parts[0]["findings"][0]["text"], "the one that counts");
    assert_eq!(parts[0]["omitted"], omitted);
    stage
        .alice
        .parler("log --room build")
        .success()
        .says("1 error")
        .says("more:    git parler show 1");
    // What is no report is told before anything is asked.
    fs::write(checkout.path().join("report.json"), "{\"version\": 1}").unwrap();
    let line = job
        .parler(format!("{POST} --status failure --report report.json"))
        .code(2);
    assert!(line.one_error_line().contains("findings"), "{line:?}");
    job.parler(format!("{POST} --status success --report gone.json"))
        .code(3);
    // A tool that had no time to write one does not take the word of a job that failed.
    let failed = "ci post --room build --status failure --context gone --report gone.json";
    job.parler(failed).success().warns("without findings");
}

#[test]
fn what_no_bundle_can_bring_is_refused_with_the_command() {
    let world = world();
    let stage = Stage::set(&world);
    let checkout = stage.checkout("work");
    let job = stage.job(&checkout, 1);
    // The commit that was checked out: its parents are not here.
    let refused = job.parler(format!("{POST} --status success --bundle HEAD")).code(8);
    assert!(
        refused.one_error_line().contains("git fetch --unshallow origin"),
        "{refused:?}"
    );
    assert_eq!(hub_messages(&stage.alice), 0);
    // A place in a commit that is not here cannot be looked at.
    report(&checkout, &json!([{ "path": "a", "severity": "note", "text": "x" }]));
    let absent = "f".repeat(40);
    let absent = format!("{POST} --status success --commit {absent}");
    let refused = job.parler(format!("{absent} --report report.json")).code(8);
    assert!(
        refused.one_error_line().contains("git fetch --depth 1 origin"),
        "{refused:?}"
    );
    job.parler(absent).success().says("at ffffffffff");
}

#[test]
fn a_gate_answers_with_its_code_and_wakes_when_it_is_said() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "reviewer");
    let commit = bobs.rev("HEAD");
    let empty = bob.parler("status --commit HEAD").code(3);
    assert!(empty.one_error_line().contains("nobody has said"), "{empty:?}");
    let post = |context: &str, status: &str| {
        bob.parler(format!("ci post --context {context} --status {status} --commit HEAD"))
            .success();
    };
    post("lint", "success");
    bob.parler("status --commit HEAD").success();
    let missing = bob
        .parler("status --commit HEAD --require lint,test --json")
        .code(3)
        .json();
    assert_eq!(
        (&missing["state"], &missing["missing"]),
        (&json!("missing"), &json!(["test"]))
    );
    post("test", "pending");
    bob.parler("status --commit HEAD").code(3).says("pending: test");
    bob.parler("status --commit HEAD --require lint").success();
    let late = bob.parler("status --commit HEAD --require test --wait 1s").code(3);
    assert!(late.one_error_line().contains("still pending"), "{late:?}");

    // Outside of any repository as well, by the full id.
    let mark = stage.hub.log().mark();
    let elsewhere = bob
        .within(world.directory("empty"))
        .without("PARLER_AGENT")
        .with("PARLER_AGENT", "bob");
    let gate = elsewhere.start_parler(["status", "--commit", &commit, "--wait", "10m", "--json"]);
    let read = "GET /v1/rooms/{room}/messages 200";
    let has_read = || {
        stage
            .hub
            .log()
            .since(mark)
            .iter()
            .any(|line| line == read)
            .then_some(())
    };
    look_for(has_read, || "the gate has read nothing".to_owned());
    post("docs", "pending");
    post("docs", "neutral");
    post("test", "success");
    let known = gate.wait().success().json();
    assert_eq!(known["state"], "success");
    let statuses = known["statuses"].as_array().unwrap();
    let words: Vec<_> = statuses
        .iter()
        .map(|status| (&status["context"], &status["status"]))
        .collect();
    let expected = [("docs", "neutral"), ("lint", "success"), ("test", "success")].map(|(a, b)| (json!(a), json!(b)));
    assert_eq!(words, expected.iter().map(|(a, b)| (a, b)).collect::<Vec<_>>());
    assert_eq!(statuses[2]["from"]["name"], "bob");
    // It asked when something had come, not now and then.
    let reads = stage.hub.log().since(mark).iter().filter(|line| *line == read).count();
    assert!(reads <= 12, "{reads}");

    // One that is bad ends the wait.
    post("test", "failure");
    let bad = bob.parler("status --commit HEAD --wait 10m").code(1);
    assert!(bad.one_error_line().contains("test: failure in message"), "{bad:?}");
    for usage in [
        "status --require x",
        "status 1 --commit HEAD",
        "status --commit HEAD --wait done",
        "status --commit HEAD --require a,,b",
    ] {
        bob.parler(usage).code(2);
    }
    bob.parler("status --commit nosuch").code(3);
}

#[test]
fn a_status_that_nobody_signed_does_not_count() {
    let world = world();
    let stage = Stage::set(&world);
    let (bob, bobs) = stage.member("bob", "reviewer");
    bob.parler("ci post --context test --status failure --commit HEAD")
        .success();
    let code = stage.alice.parler("invite --group build").success();
    let mallory = RawClient::new(&stage.hub.url(), "mallory");
    let room = mallory.join(code.word());
    let good =
        json!({ "kind": "com.parler.review", "commit": bobs.rev("HEAD"), "context": "test", "status": "success" });
    let part = Part::from_value(&good);
    let signed = mallory.sign(&room, &mallory.head(&room), vec![part.clone()]);
    let mut body: Value = serde_json::from_slice(&signed.body).unwrap();
    body["parts"].as_array_mut().unwrap().truncate(1);
    let unsigned = Signed {
        id: signed.id,
        body: body.to_string().into_bytes(),
    };
    mallory.calls.post(&room, &unsigned, None, None).unwrap();
    // Signed by its author, who then says that it said something else.
    let mut body: Value =
        serde_json::from_slice(&mallory.sign(&room, &mallory.head(&room), vec![part.clone()]).body).unwrap();
    body["parts"][0]["context"] = json!("other");
    let forged = Signed {
        id: body["id"].as_str().unwrap().parse().unwrap(),
        body: body.to_string().into_bytes(),
    };
    mallory.calls.post(&room, &forged, None, None).unwrap();
    let told = bob.parler("status --commit HEAD").code(1);
    told.says("message 2 from mallory does not count: not signed")
        .says("message 3 from mallory does not count: signature does not match")
        .says_no("success")
        .says_no("other");
    // Whoever is in the room may say how a commit stands.
    mallory.post(&room, vec![part]).unwrap();
    bob.parler("status --commit HEAD")
        .success()
        .says("success: test · mallory · message 4");
}
