//! Tokens for CI over HTTP: what each scope opens, call by call, whose word a job's message is, and how each refusal
//! is told.

use std::time::Duration;

use parler_hub::LocalPolicy;
use parler_protocol::api::{Posted, RoomAnswer, TokenList, TokenSummary};
use parler_protocol::{AgentKey, BundleId, ErrorCode, Message, TokenScope, Verdict, paths, paths::template, verify};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Agent, Answer, Push, TestHub, in_time, oid, openapi, text_message};

/// What each call asks of a token: any of these scopes. Every other call is closed to all of them.
const OPEN: &[(&str, &str, &[&str])] = &[
    ("GET", paths::TOKEN, &["post", "read", "claim"]),
    ("GET", template::ROOM, &["post", "read", "claim"]),
    ("GET", template::PUSHES, &["post", "read"]),
    ("GET", template::REFS, &["post", "read"]),
    ("GET", template::MESSAGES, &["read"]),
    ("GET", template::STREAM, &["read"]),
    ("GET", template::BLOB, &["read"]),
    ("GET", template::BUNDLES, &["read"]),
    ("POST", template::BUNDLES, &["read"]),
    ("POST", template::MESSAGES, &["post"]),
    ("POST", template::UPLOADS, &["post"]),
    ("GET", template::UPLOAD, &["post"]),
    ("PATCH", template::UPLOAD, &["post"]),
    ("DELETE", template::UPLOAD, &["post"]),
    ("GET", template::JOBS, &["read", "claim"]),
    ("POST", template::CLAIMS, &["claim"]),
    ("PUT", template::CLAIM, &["claim"]),
    ("DELETE", template::CLAIM, &["claim"]),
];
const BUNDLE: &[u8] = b"a bundle";

async fn hub_with_short_streams() -> TestHub {
    TestHub::with(|options| {
        options.open = true;
        options.limits.stream_ttl = Duration::from_millis(20);
    })
    .await
}

/// Makes a token.
async fn make(agent: &Agent, name: &str, room: &str, can: &[&str]) -> Answer {
    agent
        .post(
            paths::TOKENS,
            &json!({ "name": name, "rooms": [room], "can": can, "ttlSecs": 3600 }),
        )
        .await
}

/// A job that has a token and a key of its own.
pub(crate) fn job(hub: &TestHub, made: &Answer) -> Agent {
    let made: Value = made.json();
    let name = format!("ci/{}", made["name"].as_str().unwrap());
    let mut job = Agent::new(hub.address, hub.id, &name);
    job.token = made["token"].as_str().unwrap().to_owned();
    job
}

/// Posts as a job does: with its key named.
pub(crate) async fn post(job: &Agent, room: &RoomAnswer, body: impl Into<bytes::Bytes>, key: &str) -> Answer {
    job.send(
        "POST",
        &paths::messages(&room.room),
        |request| {
            request
                .header("content-type", "application/json")
                .header(paths::AGENT_HEADER, job.id().to_string())
                .header(paths::IDEMPOTENCY_KEY_HEADER, key)
        },
        body,
    )
    .await
}

pub(crate) fn signed(job: &Agent, room: &RoomAnswer, text: &str) -> Vec<u8> {
    let text = parler_protocol::TextPart { text: text.into() };
    Push::new().part(text).sign(job, room).body
}

#[tokio::test]
async fn every_call_is_open_to_its_scopes_and_closed_to_all_others() {
    let hub = hub_with_short_streams().await;
    let alice = hub.agent("alice").await;
    let build = alice.create_room("build").await;
    alice.create_room("ops").await;
    let push = Push::new().branch("main", None, Some(oid('1'))).bundle(BUNDLE);
    let message = push.sign(&alice, &build).body;
    alice
        .post_with_blob(&build.room, &message, BUNDLE)
        .await
        .expect(201)
        .head();

    alice
        .post(paths::SERVICES, &json!({ "service": "build" }))
        .await
        .expect(201)
        .head();
    let calls = openapi::authenticated_calls(&alice).await;
    let rooms = ["build", "BUILD", "ops", "nowhere"];
    let mut seen = 0;
    for scope in TokenScope::ALL {
        let asked = json!({ "name": scope, "rooms": ["build", "svc.build"], "can": [scope] });
        let made = alice.post(paths::TOKENS, &asked).await.expect(201);
        let job = job(&hub, &made);
        for (path, method) in &calls {
            let is_post = (method.as_str(), path.as_str()) == ("POST", template::MESSAGES);
            // With the number of a claim it is another call where a message is posted, and nowhere else.
            let fenced = [(false, None), (true, is_post.then_some(["claim"].as_slice()))];
            let cases = rooms.into_iter().flat_map(|room| fenced.map(|fenced| (room, fenced)));
            for (room, (is_fenced, instead)) in cases {
                let scopes = OPEN
                    .iter()
                    .find(|(of_method, of_path, _)| of_method == method && of_path == path)
                    .map(|(.., scopes)| instead.unwrap_or(scopes));
                let open = scopes.is_some_and(|scopes| scopes.contains(&scope.as_str()));
                let id = BundleId::of(BUNDLE).to_string();
                let url = path
                    .replace("{room}", room)
                    .replace("{service}", room)
                    .replace("{id}", &id)
                    .replace("{seq}", "1")
                    .replace("{name}", "post")
                    .replace("{agent}", &job.id().to_string())
                    .replace("{invite}", "0123456789ab");
                let url = match (method.as_str(), path.as_str()) {
                    ("GET", template::BUNDLES) => format!("{url}?ids={id}"),
                    _ => url,
                };
                let headed = |request: hyper::http::request::Builder| {
                    let request = request
                        .header("content-type", "application/json")
                        .header(paths::AGENT_HEADER, job.id().to_string());
                    match is_fenced {
                        true => request.header(paths::FENCE_HEADER, "1 1"),
                        false => request,
                    }
                };
                let answer = job.send(method, &url, headed, "{}").await;
                let names_room = path.contains("{room}") || path.contains("{service}");
                let is_its_room = room.eq_ignore_ascii_case("build") || !names_room;
                if !(open && is_its_room) {
                    answer.problem(ErrorCode::TokenScope);
                } else if path == template::UPLOADS {
                    answer.expect(201).head();
                } else if path == template::UPLOAD {
                    // Let in as far as the upload, which is none.
                    let code = match method.as_str() {
                        "PATCH" => ErrorCode::UnsupportedMediaType,
                        _ => ErrorCode::NotFound,
                    };
                    answer.problem(code);
                } else if method.as_str() == "POST" || path == template::CLAIM {
                    // Let in as far as the body, which says nothing.
                    answer.problem(ErrorCode::BadRequest);
                } else {
                    assert_eq!(answer.status, 200, "{method} {url} with {scope}: {answer:?}");
                }
                seen += 1;
            }
        }
    }
    assert_eq!(seen, TokenScope::ALL.len() * 2 * rooms.len() * calls.len());
    // Unknown rooms and others' are refused in the same words.
    let made = make(&alice, "again", "build", &["read"]).await.expect(201);
    let job = job(&hub, &made);
    let [ops, nowhere] = ["ops", "opz"].map(|room| format!("/v1/rooms/{room}/refs"));
    let told = |answer: Answer| answer.problem(ErrorCode::TokenScope).detail;
    assert_eq!(
        told(job.get(&ops).await),
        told(job.get(&nowhere).await).replace("opz", "ops")
    );
}

#[tokio::test]
async fn a_jobs_message_is_signed_by_its_key_and_from_its_token() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let build = alice.create_room("build").await;
    let made = make(&alice, "deploy", "build", &["post"]).await.expect(201);
    let job = job(&hub, &made);
    post(&job, &build, signed(&job, &build, "green"), "1")
        .await
        .expect(201)
        .head();

    let page = alice.get(&paths::messages(&build.room)).await.expect(200);
    let message = Message::parse(&page.messages()[0]).unwrap();
    assert_eq!((message.from.name.as_str(), message.from.id), ("ci/deploy", job.id()));
    assert_eq!(verify(&message, &hub.id), Verdict::Valid);

    // Unsigned; signed by another key than the one it names; in another name; without a key.
    let unsigned = serde_json::to_vec(&text_message("x")).unwrap();
    post(&job, &build, unsigned, "2").await.problem(ErrorCode::BadSignature);
    let other = Agent::new(hub.address, hub.id, "ci/deploy");
    let by_other = signed(&other, &build, "x");
    post(&job, &build, by_other, "3").await.problem(ErrorCode::BadSignature);
    let mallory = Agent {
        token: job.token.clone(),
        ..Agent::new(hub.address, hub.id, "ci/release")
    };
    let in_another_name = signed(&mallory, &build, "x");
    post(&mallory, &build, in_another_name, "4")
        .await
        .problem(ErrorCode::BadSignature);
    job.post_bytes(&paths::messages(&build.room), signed(&job, &build, "x"))
        .await
        .problem(ErrorCode::BadRequest);

    // A job's key is no agent's: it is in no list, and not let in.
    let members: Value = alice.get(&paths::members(&build.room)).await.expect(200).json();
    assert_eq!(members["members"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_keys_of_jobs_and_tokens_are_not_let_in() {
    let hub = TestHub::with(|options| options.owners = vec![owner().id()]).await;
    let mut alice = Agent::new(hub.address, hub.id, "alice");
    alice.key = owner();
    alice.open_session().await;
    let build = alice.create_room("build").await;
    let made = make(&alice, "deploy", "build", &["post"]).await.expect(201);
    let job = job(&hub, &made);
    post(&job, &build, signed(&job, &build, "x"), "1")
        .await
        .expect(201)
        .head();
    let stranger = Agent {
        name: "bob".parse().unwrap(),
        token: String::new(),
        ..job
    };
    stranger.prove().await.problem(ErrorCode::NotAdmitted);
}

fn owner() -> AgentKey {
    AgentKey::from_random([9; 32])
}

#[tokio::test]
async fn the_same_job_run_twice_with_two_keys_is_one_message() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let build = alice.create_room("build").await;
    let made = make(&alice, "deploy", "build", &["post"]).await.expect(201);
    let (first, second) = (job(&hub, &made), job(&hub, &made));
    assert_ne!(first.id(), second.id());
    let one: Posted = post(&first, &build, signed(&first, &build, "green"), "run-7")
        .await
        .expect(201)
        .json();
    let two: Posted = post(&second, &build, signed(&second, &build, "green"), "run-7")
        .await
        .expect(200)
        .json();
    assert_eq!(one, two);
    post(&second, &build, signed(&second, &build, "red"), "run-7")
        .await
        .problem(ErrorCode::IdempotencyConflict);
}

#[tokio::test]
async fn each_end_of_a_token_is_told() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let mut bob = hub.agent("bob").await;
    let build = alice.create_room("build").await;
    let made = make(&alice, "deploy", "build", &["read"]).await.expect(201);
    let deploy = job(&hub, &made);
    let whole: TokenSummary = deploy.get(paths::TOKEN).await.expect(200).json();
    assert_eq!((whole.name.as_str(), whole.by.as_str()), ("deploy", "alice"));
    assert_eq!(whole.expires_at, hub.now_ms() + 3_600_000);
    alice.get(paths::TOKEN).await.problem(ErrorCode::NotFound);

    let told = |answer: Answer, code| {
        let problem = answer.problem(code);
        assert!(problem.challenge.is_some() || problem.status != 401);
        assert!(!problem.detail.contains(&deploy.token), "{}", problem.detail);
        problem.detail
    };
    // Somebody who is no owner cannot revoke it, nor learn of it.
    bob.send("DELETE", "/v1/tokens/deploy", |request| request, "")
        .await
        .problem(ErrorCode::NotFound);
    let list: TokenList = bob.get(paths::TOKENS).await.expect(200).json();
    assert!(list.tokens.is_empty());

    hub.pass(Duration::from_secs(3601));
    let detail = told(deploy.get(paths::TOKEN).await, ErrorCode::TokenEnded);
    assert_eq!(detail, "the token 'deploy' has expired");
    alice
        .send("DELETE", "/v1/tokens/DEPLOY", |request| request, "")
        .await
        .expect(200)
        .json::<TokenSummary>();
    let detail = told(deploy.get(paths::TOKEN).await, ErrorCode::TokenEnded);
    assert_eq!(detail, "the token 'deploy' was revoked");
    // Its maker makes it anew: the old one is unknown, and the name nobody else's.
    let renewed = make(&alice, "deploy", "build", &["read"]).await.expect(201);
    told(deploy.get(paths::TOKEN).await, ErrorCode::Unauthenticated);
    let renewed = job(&hub, &renewed);
    renewed.get(&paths::refs(&build.room)).await.expect(200).head();
    make(&alice, "Deploy", "build", &["read"])
        .await
        .problem(ErrorCode::TokenExists);
    alice.invite(&build.room, &bob).await;
    make(&bob, "deploy", "build", &["read"])
        .await
        .problem(ErrorCode::TokenExists);
    make(&bob, "mine", "nowhere", &["read"])
        .await
        .problem(ErrorCode::NotFound);

    // Another hub's, and one of no form.
    let elsewhere = TestHub::start().await;
    let lost = Agent {
        address: elsewhere.address,
        token: renewed.token.clone(),
        ..Agent::new(hub.address, hub.id, "ci/deploy")
    };
    let problem = lost.get(paths::TOKEN).await.problem(ErrorCode::Unauthenticated);
    assert_eq!(problem.detail, "the token is another hub's");
    bob.token = "parler_ci_x".into();
    bob.get(paths::TOKEN).await.problem(ErrorCode::Unauthenticated);
}

/// Reads on until this was heard.
async fn hear(stream: &mut tokio::net::TcpStream, heard: &mut String, words: &str) {
    let coming = async {
        while !heard.contains(words) {
            let mut piece = [0; 1024];
            let length = stream.read(&mut piece).await.unwrap();
            assert_ne!(length, 0, "{heard}");
            heard.push_str(std::str::from_utf8(&piece[..length]).unwrap());
        }
    };
    in_time(words, coming).await;
}

#[tokio::test]
async fn a_reader_whose_token_ends_hears_no_more() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let build = alice.create_room("build").await;
    let made = make(&alice, "mirror", "build", &["read"]).await.expect(201);
    let mirror = job(&hub, &made);
    let path = format!("{}?after=0&wait=30", paths::messages(&build.room));
    let waiting = tokio::spawn(async move { mirror.get(&path).await });
    // Whether it waits already or not: the token ends before the message comes.
    alice
        .send("DELETE", "/v1/tokens/mirror", |request| request, "")
        .await
        .expect(200)
        .json::<TokenSummary>();
    alice
        .post(&paths::messages(&build.room), &text_message("secret"))
        .await
        .expect(201)
        .head();
    let answer = waiting.await.unwrap();
    assert!(matches!(answer.status, 401 | 404), "{answer:?}");
}

/// A token that leaked is revoked, and made anew under its name: whoever still waits with the old one hears nothing, though
/// both have one account.
#[tokio::test]
async fn a_reader_whose_token_was_made_anew_hears_no_more() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let build = alice.create_room("build").await;
    let made = make(&alice, "mirror", "build", &["read"]).await.expect(201);
    let leaked = job(&hub, &made);
    let path = format!("{}?after=0", paths::stream(&build.room));
    // Open, and begun: the hub has let it in.
    let mut stream = tokio::net::TcpStream::connect(hub.address).await.unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        hub.address, leaked.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut heard = String::new();
    hear(&mut stream, &mut heard, "retry: ").await;
    let polled = format!("{}?after=0&wait=30", paths::messages(&build.room));
    let waiting = tokio::spawn(async move { leaked.get(&polled).await });
    alice
        .send("DELETE", "/v1/tokens/mirror", |request| request, "")
        .await
        .expect(200)
        .json::<TokenSummary>();
    let renewed = job(&hub, &make(&alice, "mirror", "build", &["read"]).await.expect(201));
    alice
        .post(&paths::messages(&build.room), &text_message("secret"))
        .await
        .expect(201)
        .head();
    // Which of the two depends on whether it waited already when the token ended.
    let answer = waiting.await.unwrap();
    assert!(matches!(answer.status, 401 | 404), "{answer:?}");
    hear(&mut stream, &mut heard, "the token has ended").await;
    assert!(!heard.contains("secret"), "{heard}");
    let page = renewed.get(&format!("{}?after=0", paths::messages(&build.room))).await;
    assert_eq!(page.expect(200).seqs(), [1]);
}

#[tokio::test]
async fn bad_wishes_and_the_local_hub_are_refused() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    alice.create_room("build").await;
    for wish in [
        json!({ "name": "x", "rooms": [], "can": ["read"] }),
        json!({ "name": "x", "rooms": ["build"], "can": [] }),
        json!({ "name": "x", "rooms": ["build"], "can": ["write"] }),
        json!({ "name": "ci/x", "rooms": ["build"], "can": ["read"] }),
        json!({ "name": "x", "rooms": ["build"], "can": ["read"], "ttlSecs": 0 }),
        json!({ "name": "x", "rooms": ["build"], "can": ["read"], "ttlSecs": 31_536_001 }),
        json!({ "name": "x", "rooms": vec!["build"; 65], "can": ["read"] }),
    ] {
        alice.post(paths::TOKENS, &wish).await.problem(ErrorCode::BadRequest);
    }
    let local = TestHub::with(|options| {
        options.local = Some(LocalPolicy { secret: "s".repeat(32) });
    })
    .await;
    let mut bob = Agent::new(local.address, local.id, "bob");
    bob.secret = Some("s".repeat(32));
    bob.open_session().await;
    bob.create_room("build").await;
    make(&bob, "x", "build", &["read"]).await.problem(ErrorCode::BadRequest);
}

#[tokio::test]
async fn no_agent_is_called_as_a_token_is() {
    let hub = TestHub::start().await;
    for name in ["ci/deploy", "CI/x", "сi/deploy", "cI/x"] {
        Agent::new(hub.address, hub.id, name)
            .prove()
            .await
            .problem(ErrorCode::NameReserved);
    }
    Agent::new(hub.address, hub.id, "ci")
        .prove()
        .await
        .expect(200)
        .json::<Value>();
}
