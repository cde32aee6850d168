//! CI jobs that show an identity token: who is let in, to do what, and each reason for which one is not. The issuer is a
//! real one on loopback, with keys of its own.

use std::time::Duration;

use parler_harness::{Issuer, KeysAnswer, SigningKey, base64url};
use parler_hub::OidcTrust;
use parler_protocol::api::{RoomAnswer, TokenList, TokenSummary};
use parler_protocol::{ErrorCode, limits, paths};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Agent, Answer, RunningProgram, TestHub, request};
use crate::tokens::{job, post, signed};

const AUDIENCE: &str = "https://hub.example";
/// A fork has another.
const REPOSITORY: &str = "1234";

/// A hub that trusts an issuer, with a room that has an owner.
struct Fixture {
    issuer: Issuer,
    key: SigningKey,
    hub: TestHub,
    alice: Agent,
    room: RoomAnswer,
    trust: OidcTrust,
    directory: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        Self::with(SigningKey::p256("one")).await
    }

    async fn with(key: SigningKey) -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("oidc.json");
        std::fs::write(&path, r#"{ "issuers": [] }"#).unwrap();
        let trust = OidcTrust::load(&path).unwrap();
        let of_hub = trust.clone();
        let hub = TestHub::with(move |options| {
            options.open = true;
            options.oidc = Some(of_hub);
        })
        .await;
        let alice = hub.agent("alice").await;
        let room = alice.create_room("build").await;
        let fixture = Self {
            issuer: Issuer::start(&[&key]),
            key,
            hub,
            alice,
            room,
            trust,
            directory,
        };
        fixture.trust(|_| {});
        fixture
    }

    /// What is written in the file, changed.
    fn file(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut issuer = json!({
            "issuer": self.issuer.name(),
            "keys": self.issuer.keys_address(),
            "audience": AUDIENCE,
            "rules": [{
                "name": "main",
                "owner": self.alice.id(),
                "rooms": ["build"],
                "can": ["post"],
                "claims": { "repository_id": REPOSITORY, "ref": ["refs/heads/main", "refs/heads/next"] },
            }],
        });
        change(&mut issuer);
        json!({ "issuers": [issuer] })
    }

    /// Has the hub read a changed file.
    fn trust(&self, change: impl FnOnce(&mut Value)) {
        let file = self.file(change).to_string();
        std::fs::write(self.directory.path().join("oidc.json"), file).unwrap();
        self.trust.reload().unwrap();
    }

    /// What a token of a job on the main branch says, the hub's clock being right.
    fn claims(&self, id: &str) -> Value {
        let now = self.hub.now_ms() / 1000;
        json!({
            "iss": self.issuer.name(), "aud": AUDIENCE, "sub": "repo:acme/app:ref:refs/heads/main", "jti": id,
            "iat": now, "nbf": now - 5, "exp": now + 300,
            "repository": "acme/app", "repository_id": REPOSITORY, "ref": "refs/heads/main", "ref_protected": "true",
            "event_name": "push", "run_id": "77", "sha": "1".repeat(40),
        })
    }

    /// A job's claims, changed.
    fn changed(&self, id: &str, changes: &[(&str, Value)]) -> Value {
        let mut claims = self.claims(id);
        for (name, value) in changes {
            claims[*name] = value.clone();
        }
        claims
    }

    async fn exchange(&self, token: &str) -> Answer {
        let mut nobody = Agent::new(self.hub.address, self.hub.id, "nobody");
        nobody.token = String::new();
        nobody
            .post(paths::OIDC, &json!({ "token": token, "room": "build" }))
            .await
    }

    #[track_caller]
    fn refused(answer: &Answer, why: &str) {
        let problem = answer.problem(ErrorCode::OidcRefused);
        assert!(problem.detail.contains(why), "{why}: {}", problem.detail);
    }

    /// Whether a job on the main branch is let in.
    async fn lets_in(&self, id: &str) -> Answer {
        self.exchange(&self.key.sign(&self.claims(id))).await
    }
}

#[tokio::test]
async fn a_job_gets_a_token_that_does_what_its_rule_says_and_ends() {
    for key in [
        SigningKey::rsa("one"),
        SigningKey::p256("one"),
        SigningKey::ed25519("one"),
    ] {
        let fixture = Fixture::with(key).await;
        let made = fixture.lets_in("1").await.expect(201);
        let summary: TokenSummary = made.json();
        assert_eq!((summary.name.as_str(), summary.by.as_str()), ("main", "alice"));
        assert_eq!(summary.expires_at - fixture.hub.now_ms(), 15 * 60 * 1000);
        let claims = &summary.jobs[0].claims;
        assert_eq!(
            (&claims["run_id"][..], &claims["repository_id"][..]),
            ("77", REPOSITORY)
        );

        let job = job(&fixture.hub, &made);
        let message = signed(&job, &fixture.room, "built");
        post(&job, &fixture.room, message, "run").await.expect(201).head();
        // It may post there, and nothing else.
        job.get(&paths::messages(&fixture.room.room))
            .await
            .problem(ErrorCode::TokenScope);
        let other = fixture.alice.create_room("ops").await;
        let elsewhere = signed(&job, &other, "built");
        post(&job, &other, elsewhere, "ops")
            .await
            .problem(ErrorCode::TokenScope);
        job.get(paths::TOKENS).await.problem(ErrorCode::TokenScope);

        // Its owner sees which job has it, and it ends by itself.
        let list: TokenList = fixture.alice.get(paths::TOKENS).await.expect(200).json();
        assert_eq!(list.tokens[0].jobs, summary.jobs);
        fixture.hub.pass(Duration::from_secs(15 * 60));
        let ended = job.get(paths::TOKEN).await.problem(ErrorCode::TokenEnded);
        assert!(ended.detail.contains("has expired"), "{}", ended.detail);
    }
}

#[tokio::test]
async fn jobs_of_one_rule_have_tokens_of_their_own_and_one_account() {
    let fixture = Fixture::new().await;
    let (first, second) = (
        fixture.lets_in("1").await.expect(201),
        fixture.lets_in("2").await.expect(201),
    );
    let (first, second) = (job(&fixture.hub, &first), job(&fixture.hub, &second));
    // As when a job is run again, with a new key and a new token.
    let message = |job: &Agent| signed(job, &fixture.room, "built");
    post(&first, &fixture.room, message(&first), "run")
        .await
        .expect(201)
        .head();
    post(&second, &fixture.room, message(&second), "run")
        .await
        .expect(200)
        .head();
    let shown: TokenSummary = second.get(paths::TOKEN).await.expect(200).json();
    assert_eq!(shown.jobs.len(), 1);

    // One word of the owner ends all that are out; the operator's rule goes on.
    fixture
        .alice
        .delete(&paths::token(&"main".parse().unwrap()))
        .await
        .expect(200)
        .json::<TokenSummary>();
    for job in [&first, &second] {
        job.get(paths::TOKEN).await.problem(ErrorCode::TokenEnded);
    }
    let third = job(&fixture.hub, &fixture.lets_in("3").await.expect(201));
    third.get(paths::TOKEN).await.expect(200).json::<TokenSummary>();
    first.get(paths::TOKEN).await.problem(ErrorCode::Unauthenticated);

    // What a rule comes to allow is for those who come by it then.
    fixture.trust(|issuer| issuer["rules"][0]["can"] = json!(["post", "read"]));
    let fourth = job(&fixture.hub, &fixture.lets_in("4").await.expect(201));
    fourth
        .get(&paths::messages(&fixture.room.room))
        .await
        .expect(200)
        .head();
    third.get(paths::TOKEN).await.problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn what_a_token_says_of_itself_is_judged() {
    let fixture = Fixture::new().await;
    let now = fixture.hub.now_ms() / 1000;
    for (changes, why) in [
        (vec![("aud", json!("https://other.example"))], "another audience"),
        (vec![("aud", json!(["x", "y"]))], "another audience"),
        (vec![("aud", Value::Null)], "another audience"),
        (vec![("exp", json!(now))], "has expired"),
        (vec![("exp", json!(now - 3600))], "has expired"),
        (vec![("exp", Value::Null)], "does not say when"),
        (vec![("exp", json!("tomorrow"))], "does not say when"),
        (vec![("nbf", json!(now + 61))], "not valid yet"),
        (vec![("nbf", json!("x"))], "nbf is no time"),
        (vec![("iat", json!(now + 61))], "not valid yet"),
        (vec![("iat", json!(now - 600))], "more than 10m ago"),
        (vec![("iat", Value::Null)], "does not say when"),
        (vec![("iss", json!("https://other.example"))], "no such issuer"),
        (vec![("iss", json!([fixture.issuer.name()]))], "no such issuer"),
        (vec![("jti", Value::Null)], "no jti"),
        (vec![("jti", json!(""))], "no jti"),
    ] {
        let token = fixture.key.sign(&fixture.changed("1", &changes));
        Fixture::refused(&fixture.exchange(&token).await, why);
    }
    // Several audiences, one of which is the hub's, and clocks that are a little apart.
    let token = fixture
        .key
        .sign(&fixture.changed("1", &[("aud", json!(["x", AUDIENCE])), ("iat", json!(now + 59))]));
    fixture.exchange(&token).await.expect(201).json::<Value>();
    let token = fixture
        .key
        .sign(&fixture.changed("2", &[("iat", json!(now - 599)), ("nbf", json!(now - 599))]));
    fixture.exchange(&token).await.expect(201).json::<Value>();
}

#[tokio::test]
async fn a_token_is_taken_once() {
    let fixture = Fixture::new().await;
    let claims = fixture.claims("1");
    let token = fixture.key.sign(&claims);
    fixture.exchange(&token).await.expect(201).json::<Value>();
    Fixture::refused(&fixture.exchange(&token).await, "used before");
    // Signed again it is the same.
    Fixture::refused(&fixture.exchange(&fixture.key.sign(&claims)).await, "used before");
    // As long as it would be taken, and after that it is too old.
    fixture.hub.pass(Duration::from_secs(299));
    Fixture::refused(&fixture.exchange(&token).await, "used before");
    fixture.hub.pass(Duration::from_secs(1));
    Fixture::refused(&fixture.exchange(&token).await, "has expired");
    // At once, too.
    let token = fixture.key.sign(&fixture.claims("2"));
    let answers = futures_util::future::join_all((0..8).map(|_| fixture.exchange(&token))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
}

#[tokio::test]
async fn only_the_issuers_key_signs_and_only_by_its_own_algorithm() {
    let fixture = Fixture::new().await;
    let claims = fixture.claims("1");
    let public = fixture.key.public();
    let header = |algorithm: &str| json!({ "alg": algorithm, "kid": "one" });
    let unsigned = |algorithm: &str| {
        let header = header(algorithm).to_string();
        format!("{}.{}.", base64url(header), base64url(claims.to_string()))
    };
    // The public key as the secret of a MAC, as its bytes are written down.
    let signed = unsigned("HS256").trim_end_matches('.').to_owned();
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public.to_string().as_bytes());
    let mac = format!("{signed}.{}", base64url(ring::hmac::sign(&secret, signed.as_bytes())));

    let other = SigningKey::p256("one");
    let of_rsa = SigningKey::rsa("one");
    let foreign_key = json!({ "alg": "ES256", "kid": "one", "jwk": other.public(), "jku": "http://127.0.0.1:1/keys" });
    for (token, why) in [
        (unsigned("none"), "algorithm"),
        (unsigned("ES256"), "signature"),
        (mac, "algorithm"),
        (fixture.key.sign_as(&header("RS256"), &claims), "algorithm"),
        (fixture.key.sign_as(&header("ES384"), &claims), "algorithm"),
        (fixture.key.sign_as(&header("es256"), &claims), "algorithm"),
        (of_rsa.sign(&claims), "algorithm"),
        (of_rsa.sign_as(&header("ES256"), &claims), "signature"),
        (other.sign(&claims), "signature"),
        (other.sign_as(&foreign_key, &claims), "signature"),
        (SigningKey::p256("two").sign(&claims), "no key of that id"),
        (fixture.key.sign_as(&json!({ "alg": "ES256" }), &claims), "names no key"),
        (
            fixture.key.sign_as(&json!({ "alg": "ES256", "kid": ["one"] }), &claims),
            "names no key",
        ),
        (
            fixture.key.sign_as(
                &json!({ "alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false }),
                &claims,
            ),
            "critical",
        ),
    ] {
        Fixture::refused(&fixture.exchange(&token).await, why);
    }
    // What was signed and then changed.
    let token = fixture
        .key
        .sign(&fixture.changed("1", &[("ref", json!("refs/heads/other"))]));
    let parts: Vec<_> = token.split('.').collect();
    let swapped = format!("{}.{}.{}", parts[0], base64url(claims.to_string()), parts[2]);
    Fixture::refused(&fixture.exchange(&swapped).await, "signature");
    fixture.lets_in("1").await.expect(201).json::<Value>();
}

#[tokio::test]
async fn what_is_no_token_is_refused() {
    let fixture = Fixture::new().await;
    let good = fixture.key.sign(&fixture.claims("1"));
    let long = fixture
        .key
        .sign(&fixture.changed("1", &[("x", json!("y".repeat(limits::MAX_IDENTITY_TOKEN_BYTES)))]));
    let mut garbage = vec![
        String::new(),
        ".".into(),
        "..".into(),
        "a.b.c".into(),
        format!("{good}."),
        format!(".{good}"),
        format!("{good}="),
        format!(" {good}"),
        good.replace('.', "·"),
        format!("{}.{}.AAAA", base64url("[]"), base64url("{}")),
        format!("{}.{}.AAAA", base64url("{}"), base64url("{\"iss\":1,\"iss\":2}")),
        format!("{}.{}.AAAA", base64url("{}"), base64url("[".repeat(5000))),
    ];
    garbage.extend((1..good.len()).step_by(37).map(|end| good[..end].to_owned()));
    for token in garbage {
        Fixture::refused(&fixture.exchange(&token).await, "");
    }
    Fixture::refused(&fixture.exchange(&long).await, "over 16384 bytes");
    // Nothing of what came is said again.
    let told = fixture
        .exchange(&good[..good.len() - 4])
        .await
        .problem(ErrorCode::OidcRefused);
    assert!(!told.detail.contains(&good[..20]), "{}", told.detail);
    fixture.exchange(&good).await.expect(201).json::<Value>();
}

#[tokio::test]
async fn a_job_is_let_in_by_its_claims_alone() {
    let fixture = Fixture::new().await;
    let no_rule = "no rule of this hub";
    let mut told = Vec::new();
    for changes in [
        // A fork's own run, which has the same name of the branch.
        vec![("repository_id", json!("9999"))],
        vec![("repository_id", json!(1234))],
        vec![("repository_id", Value::Null)],
        vec![("repository_id", json!([REPOSITORY]))],
        vec![("ref", json!("refs/heads/mainly"))],
        vec![("ref", json!("refs/heads/"))],
        // What a fork sends in runs in the repository that it was forked from.
        vec![("event_name", json!("pull_request"))],
        vec![("event_name", json!("pull_request_target"))],
        vec![("event_name", json!("pull_request_review_comment"))],
        vec![("event_name", json!("workflow_run"))],
        vec![("event_name", json!("issue_comment"))],
        vec![("pipeline_source", json!("merge_request_event"))],
        vec![("ref_protected", json!("false"))],
        vec![("ref_protected", json!(true))],
        vec![("ref_protected", Value::Null)],
    ] {
        let answer = fixture
            .exchange(&fixture.key.sign(&fixture.changed("1", &changes)))
            .await;
        Fixture::refused(&answer, no_rule);
        told.push(answer.problem(ErrorCode::OidcRefused).detail);
    }
    // One answer for all of them, and for a room that no rule names.
    let mut nobody = Agent::new(fixture.hub.address, fixture.hub.id, "nobody");
    nobody.token = String::new();
    for room in ["ops", "nowhere"] {
        let asked = json!({ "token": fixture.key.sign(&fixture.claims("1")), "room": room });
        told.push(
            nobody
                .post(paths::OIDC, &asked)
                .await
                .problem(ErrorCode::OidcRefused)
                .detail,
        );
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");

    // Unless a rule says so.
    fixture.trust(|issuer| {
        issuer["rules"][0]["allow_pull_requests"] = json!(true);
        issuer["rules"][0]["allow_unprotected_refs"] = json!(true);
    });
    let changes = [("event_name", json!("pull_request")), ("ref_protected", json!("false"))];
    let token = fixture.key.sign(&fixture.changed("2", &changes));
    fixture.exchange(&token).await.expect(201).json::<Value>();
    let token = fixture
        .key
        .sign(&fixture.changed("3", &[("ref", json!("refs/heads/next"))]));
    // A room need not be named where one rule is enough.
    let without = nobody.post(paths::OIDC, &json!({ "token": token })).await;
    without.expect(201).json::<Value>();
}

#[tokio::test]
async fn gitlabs_unprotected_refs_and_forks_stay_out() {
    let fixture = Fixture::new().await;
    fixture.trust(|issuer| issuer["rules"][0]["claims"] = json!({ "project_id": "42" }));
    let of = |id: &str, project: &str, protected: &str| {
        let mut claims = fixture.changed(
            id,
            &[("project_id", json!(project)), ("ref_protected", json!(protected))],
        );
        for name in ["repository_id", "repository", "event_name"] {
            claims.as_object_mut().unwrap().remove(name);
        }
        fixture.key.sign(&claims)
    };
    Fixture::refused(&fixture.exchange(&of("1", "42", "false")).await, "no rule");
    Fixture::refused(&fixture.exchange(&of("1", "43", "true")).await, "no rule");
    fixture
        .exchange(&of("1", "42", "true"))
        .await
        .expect(201)
        .json::<Value>();
    // Of which refs is the rule's to say.
    fixture.trust(|issuer| issuer["rules"][0]["claims"] = json!({ "project_id": "42", "ref_protected": "false" }));
    Fixture::refused(&fixture.exchange(&of("2", "42", "true")).await, "no rule");
    fixture
        .exchange(&of("2", "42", "false"))
        .await
        .expect(201)
        .json::<Value>();
}

#[tokio::test]
async fn a_rule_that_is_tightened_goes_on_letting_its_jobs_in() {
    let fixture = Fixture::new().await;
    fixture.trust(|issuer| {
        issuer["rules"][0]["can"] = json!(["post", "read"]);
        issuer["rules"][0]["ttl"] = json!("1h");
    });
    fixture.lets_in("1").await.expect(201).json::<Value>();
    fixture.trust(|issuer| {
        issuer["rules"][0]["can"] = json!(["post"]);
        issuer["rules"][0]["ttl"] = json!("1m");
    });
    fixture.lets_in("2").await.expect(201).json::<Value>();
    // The shorter token has ended, and the name is the rule's still.
    fixture.hub.pass(Duration::from_secs(120));
    fixture.lets_in("3").await.expect(201).json::<Value>();
}

#[tokio::test]
async fn what_the_owner_may_no_longer_do_no_job_does() {
    let fixture = Fixture::new().await;
    let bob = fixture.hub.agent("bob").await;
    fixture.alice.invite(&fixture.room.room, &bob).await;
    fixture.trust(|issuer| issuer["rules"][0]["owner"] = json!(bob.id()));
    let job = job(&fixture.hub, &fixture.lets_in("1").await.expect(201));
    assert_eq!(
        bob.delete(&paths::member(&fixture.room.room, &bob.id())).await.status,
        204
    );
    let message = signed(&job, &fixture.room, "built");
    post(&job, &fixture.room, message, "run")
        .await
        .problem(ErrorCode::TokenScope);
    Fixture::refused(&fixture.lets_in("2").await, "no rule");

    // A key that the hub does not know, and a name that is somebody else's.
    let stranger = Agent::new(fixture.hub.address, fixture.hub.id, "stranger");
    fixture.trust(|issuer| issuer["rules"][0]["owner"] = json!(stranger.id()));
    Fixture::refused(&fixture.lets_in("2").await, "no rule");
    fixture.trust(|_| {});
    // Bob had that name first, so it stays his.
    Fixture::refused(&fixture.lets_in("2").await, "no rule");
    fixture.trust(|issuer| issuer["rules"][0]["name"] = json!("mine"));
    let named = json!({ "name": "mine", "rooms": ["build"], "can": ["read"] });
    fixture
        .alice
        .post(paths::TOKENS, &named)
        .await
        .expect(201)
        .json::<Value>();
    Fixture::refused(&fixture.lets_in("2").await, "no rule");
    fixture
        .alice
        .delete(&paths::token(&"mine".parse().unwrap()))
        .await
        .expect(200)
        .json::<Value>();
    fixture.lets_in("2").await.expect(201).json::<Value>();
}

#[tokio::test]
async fn keys_that_change_are_fetched_again_and_no_more_often_than_a_minute() {
    let fixture = Fixture::new().await;
    fixture.lets_in("1").await.expect(201).json::<Value>();
    fixture.lets_in("2").await.expect(201).json::<Value>();
    assert_eq!(fixture.issuer.asked(), 1);
    let second = SigningKey::ed25519("two");
    fixture.issuer.rotate(&[&fixture.key, &second]);
    fixture
        .exchange(&second.sign(&fixture.claims("3")))
        .await
        .expect(201)
        .json::<Value>();
    assert_eq!(fixture.issuer.asked(), 2);
    // Strangers cannot make it ask more often.
    for number in 0..5 {
        let unknown = SigningKey::ed25519(&format!("unknown {number}"));
        Fixture::refused(&fixture.exchange(&unknown.sign(&fixture.claims("4"))).await, "no key");
    }
    assert_eq!(fixture.issuer.asked(), 2);
    fixture.hub.pass(Duration::from_secs(60));
    let unknown = SigningKey::ed25519("unknown");
    Fixture::refused(&fixture.exchange(&unknown.sign(&fixture.claims("4"))).await, "no key");
    assert_eq!(fixture.issuer.asked(), 3);
    // A key that its issuer took back is none, an hour later at the latest; one that cannot be asked for keeps for a day.
    fixture.issuer.rotate(&[&second]);
    fixture.hub.pass(Duration::from_secs(3600));
    Fixture::refused(&fixture.lets_in("5").await, "no key");
    fixture.issuer.answer_keys(KeysAnswer::Raw(Vec::new()));
    fixture.hub.pass(Duration::from_secs(23 * 3600));
    fixture
        .exchange(&second.sign(&fixture.claims("6")))
        .await
        .expect(201)
        .json::<Value>();
    fixture.hub.pass(Duration::from_secs(3600));
    Fixture::refused(
        &fixture.exchange(&second.sign(&fixture.claims("7"))).await,
        "cannot have the issuer's keys",
    );
}

/// An answer with this status line, field and body.
fn raw(status: &str, field: &str, body: &str) -> KeysAnswer {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{field}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    KeysAnswer::Raw([head.as_bytes(), body.as_bytes()].concat())
}

#[tokio::test]
async fn keys_come_from_the_operators_address_alone() {
    let fixture = Fixture::new().await;
    let elsewhere = Issuer::start(&[&fixture.key]);
    let public = json!({ "keys": [fixture.key.public()] }).to_string();
    let redirect = format!("location: {}", elsewhere.keys_address());
    let huge = format!("{public}{}", " ".repeat(256 << 10));
    for answer in [
        raw("302 Found", &redirect, &public),
        raw("404 Not Found", "x: y", &public),
        raw("200 OK", "x: y", &huge),
        raw("200 OK", "x: y", "{}"),
        raw("200 OK", "x: y", "{\"keys\": []}"),
        raw("200 OK", "x: y", &public[1..]),
        KeysAnswer::Raw(Vec::new()),
        KeysAnswer::Silence,
    ] {
        fixture.issuer.answer_keys(answer);
        // With the file its keys are forgotten.
        fixture.trust(|_| {});
        let asked = fixture.issuer.asked();
        Fixture::refused(&fixture.lets_in("1").await, "cannot have the issuer's keys");
        Fixture::refused(&fixture.lets_in("1").await, "cannot have the issuer's keys");
        assert_eq!((fixture.issuer.asked(), elsewhere.asked()), (asked + 1, 0));
    }
    fixture.issuer.answer_keys(KeysAnswer::Keys);
    fixture.hub.pass(Duration::from_secs(60));
    fixture.lets_in("1").await.expect(201).json::<Value>();

    // A file instead.
    std::fs::write(fixture.directory.path().join("keys.json"), &public).unwrap();
    fixture.trust(|issuer| issuer["keys"] = json!("keys.json"));
    let asked = fixture.issuer.asked();
    fixture.lets_in("2").await.expect(201).json::<Value>();
    assert_eq!(fixture.issuer.asked(), asked);
    for keys in [
        "http://ci.example/keys",
        "http://192.0.2.1/keys",
        "ftp://127.0.0.1/keys",
        "https://u:p@ci.example/keys",
    ] {
        let file = fixture.file(|issuer| issuer["keys"] = json!(keys)).to_string();
        std::fs::write(fixture.directory.path().join("oidc.json"), file).unwrap();
        let refused = fixture.trust.reload().unwrap_err().to_string();
        assert!(refused.contains("keys: "), "{refused}");
    }
    // What could not be read changed nothing.
    fixture.lets_in("3").await.expect(201).json::<Value>();
}

#[tokio::test]
async fn a_hub_without_trusted_issuers_takes_no_identity_tokens() {
    let hub = TestHub::start().await;
    let nobody = Agent::new(hub.address, hub.id, "nobody");
    let answer = nobody.post(paths::OIDC, &json!({ "token": "a.b.c" })).await;
    Fixture::refused(&answer, "this hub trusts no issuer");
}

#[tokio::test]
async fn identity_tokens_are_slowed_as_proofs_are() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.proxies.networks = vec!["127.0.0.1".parse().unwrap()];
        options.limits.proof_burst = 2;
        options.limits.proofs_per_minute = 1;
    })
    .await;
    let ask = async || {
        let asked = hyper::Request::builder()
            .method("POST")
            .uri(paths::OIDC)
            .header("host", hub.address.to_string())
            .header("x-forwarded-for", "192.0.2.7")
            .header("content-type", "application/json")
            .body(bytes::Bytes::from_static(b"{\"token\":\"a.b.c\"}"))
            .unwrap();
        request(hub.address, asked).await
    };
    for _ in 0..2 {
        ask().await.problem(ErrorCode::OidcRefused);
    }
    ask().await.problem(ErrorCode::RateLimited);
}

#[tokio::test]
async fn the_program_reads_the_file_names_what_is_wrong_and_reads_it_again_on_a_hang_up() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("oidc.json");
    std::fs::write(&path, "{\n  \"issuers\": [],\n  \"isuers\": []\n}").unwrap();
    let data = directory.path().join("hub");
    let refused = crate::support::program()
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .arg("--oidc")
        .arg(&path)
        .output()
        .unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        said.contains("unknown field `isuers`") && said.contains("line 3"),
        "{said}"
    );
    assert!(!refused.status.success());

    std::fs::write(&path, "{ \"issuers\": [] }").unwrap();
    let hub = RunningProgram::with(&data, |command| {
        command.args(["--open", "--log", "json", "--oidc"]).arg(&path);
    });
    let key = SigningKey::p256("one");
    let issuer = Issuer::start(&[&key]);
    let alice = hub.agent("alice").await;
    alice.create_room("build").await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let claims = json!({
        "iss": issuer.name(), "aud": AUDIENCE, "sub": "acme", "jti": "1", "iat": now, "exp": now + 300, "project_id": "7",
    });
    let token = key.sign(&claims);
    let ask = async || {
        let nobody = Agent::new(hub.address, alice.hub, "nobody");
        nobody
            .post(paths::OIDC, &json!({ "token": token, "room": "build" }))
            .await
    };
    Fixture::refused(&ask().await, "no such issuer");
    let rule = json!({
        "name": "main", "owner": alice.id(), "rooms": ["build"], "can": ["post"], "claims": { "project_id": "7" },
    });
    let trusted = json!({
        "issuer": issuer.name(), "keys": issuer.keys_address(), "audience": AUDIENCE, "rules": [rule],
    });
    std::fs::write(&path, json!({ "issuers": [trusted] }).to_string()).unwrap();
    hub.signal(rustix::process::Signal::HUP);
    hub.wait_for_log("the trusted issuers were read again");
    let made: Value = ask().await.expect(201).json();
    Fixture::refused(&ask().await, "used before");
    // The operator is told why, and neither token.
    let (ended_well, log) = hub.end(rustix::process::Signal::TERM);
    assert!(ended_well && log.contains("used before"), "{log}");
    for secret in [&token, made["token"].as_str().unwrap()] {
        assert!(
            !log.contains(secret) && !log.contains(&secret[secret.len() - 40..]),
            "{log}"
        );
    }
}
