//! The golden files of `fixtures/wire` from both sides: the hub takes the requests and answers in that shape, and the
//! client sends the requests and takes the answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use parler_client::{Client, ClientOptions, Deadlines, Identity, NoSessionCache, PushesAnswer, ReadFrom};
use parler_protocol::api::{CreateInvite, CreateToken, ExchangeIdentity, OpenSession, RoomAnswer, SessionOpened};
use parler_protocol::{
    AccessToken, AgentKey, ErrorCode, Fence, HandoffPart, HubId, Message, RoomKind, RoomName, Seq, ServiceName, Signed,
    Verdict, paths, session_proof_bytes, verify,
};
use serde_json::{Value, json};

use crate::support::{Agent, Push, TestHub, oid};
use crate::tokens;

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fixtures/wire")
        .join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn fixture_json(name: &str) -> Value {
    serde_json::from_slice(&fixture(name)).unwrap()
}

/// The names and types of a value, without its values. Of a list the first element speaks for all.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), shape(value))).collect(),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(_) => json!("string"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("boolean"),
        Value::Null => Value::Null,
    }
}

/// The shape of an answer, the parts of its messages aside: those are whatever the sender posted.
fn answer_shape(mut value: Value) -> Value {
    for message in value["messages"].as_array_mut().into_iter().flatten() {
        message["parts"] = json!([]);
    }
    shape(&value)
}

#[track_caller]
pub(crate) fn assert_shape(name: &str, answer: &Value) {
    assert_eq!(answer_shape(answer.clone()), answer_shape(fixture_json(name)), "{name}");
}

#[tokio::test]
async fn the_hub_takes_the_requests_and_answers_in_the_shape_that_is_written_down() {
    let hub = TestHub::start().await;
    let mut alice = Agent::new(hub.address, hub.id, "alice");
    alice.role = Some("planner".parse().unwrap());
    let unauthenticated = alice.get(paths::ROOMS).await.expect(401).json();
    assert_shape("problem-unauthenticated.json", &unauthenticated);
    alice.open_session().await;

    let made = alice
        .post_bytes(paths::ROOMS, fixture("room-request.json"))
        .await
        .expect(201);
    assert_shape("room-answer.json", &made.json());
    let room: RoomAnswer = made.json();
    let invite = alice
        .post_bytes(paths::INVITES, fixture("invite-request.json"))
        .await
        .expect(201);
    assert_shape("invite-answer.json", &invite.json());

    // A session with every field of the request: another key, a role, the invite.
    let mut bob = Agent::new(hub.address, hub.id, "bob");
    bob.role = Some("reviewer".parse().unwrap());
    let mut proof = serde_json::to_value(bob.proof(Some(bob.challenge().await))).unwrap();
    proof["invite"] = invite.json::<Value>()["code"].clone();
    assert_eq!(shape(&proof), shape(&fixture_json("session-request.json")));
    let opened = bob.post(paths::SESSION, &proof).await.expect(200);
    assert_shape("session-answer.json", &opened.json());
    bob.token = opened.json::<SessionOpened>().token;

    let bundle = b"# v2 git bundle\n";
    let push = Push::new()
        .branch("feature", None, Some(oid('a')))
        .bundle(bundle)
        .part(HandoffPart {
            next: "review".into(),
            ..HandoffPart::default()
        });
    let mut draft: Value = serde_json::from_slice(&push.sign(&alice, &room).body).unwrap();
    draft["parts"].as_array_mut().unwrap().truncate(1);
    draft["mentions"] = fixture_json("post-message.json")["mentions"].clone();
    let unsigned = draft.to_string();
    let posted = alice
        .post_bytes(&paths::messages(&room.room), unsigned)
        .await
        .expect(201);
    assert_shape("posted-answer.json", &posted.json());
    let page = bob
        .get(&format!("{}?after=0", paths::messages(&room.room)))
        .await
        .expect(200);
    assert_shape("page-answer.json", &page.json());

    let room = RoomAnswer {
        head: page.head(),
        ..room
    };
    let push = Push::new()
        .branch("feature", None, Some(oid('a')))
        .bundle(bundle)
        .sign(&alice, &room);
    alice
        .post_with_blob(&room.room, &push.body, bundle)
        .await
        .expect(201)
        .head();
    let bundles = bob
        .post_bytes(&paths::many_bundles(&room.room), fixture("bundles-request.json"))
        .await
        .expect(200);
    assert!(bundles.body.ends_with(bundle));
    let mut pushes: Value = bob.get(&paths::pushes(&room.room, Seq::ZERO)).await.expect(200).json();
    pushes["messages"][0]["mentions"] = json!(["reviewer"]);
    assert_shape("pushes-answer.json", &pushes);
    assert_shape(
        "refs-answer.json",
        &bob.get(&paths::refs(&room.room)).await.expect(200).json(),
    );
    let mut carol = Agent::new(hub.address, hub.id, "carol");
    carol.role = Some("reviewer".parse().unwrap());
    carol.open_session().await;
    let gated = json!({ "room": room.room, "approve": true });
    let gated: Value = alice.post(paths::INVITES, &gated).await.expect(201).json();
    let asked = carol.post(paths::JOIN, &json!({ "code": gated["code"] })).await;
    assert_shape("join-pending-answer.json", &asked.expect(202).json());
    let invites = alice.get(&paths::room_invites(&room.room)).await.expect(200);
    assert_shape(
        "invites-answer.json",
        &json!({
            "room": invites.json::<Value>()["room"],
            "invites": [invites.json::<Value>()["invites"][0]],
        }),
    );
    let status = alice.put(paths::STATUS, &fixture_json("status-request.json")).await;
    assert_shape("status-request.json", &status.expect(200).json());
    assert_shape(
        "members-answer.json",
        &alice.get(&paths::members(&room.room)).await.expect(200).json(),
    );
    let owner = alice
        .put(
            &paths::member(&room.room, &alice.id()),
            &fixture_json("member-request.json"),
        )
        .await;
    assert_shape("member-request.json", &owner.expect(200).json());
    let revoked = alice.delete(&paths::room_invites(&room.room)).await;
    assert_shape("invites-revoked-answer.json", &revoked.expect(200).json());
    assert_shape("rooms-answer.json", &bob.get(paths::ROOMS).await.expect(200).json());
    let cursor = bob
        .put(&paths::cursor(&room.room), &fixture_json("cursor.json"))
        .await
        .expect(200);
    assert_shape("cursor.json", &cursor.json());
    let late = Push::new().branch("feature", None, Some(oid('b'))).sign(&alice, &room);
    let moved = alice
        .post_bytes(&paths::messages(&room.room), late.body)
        .await
        .expect(409);
    assert_shape("problem-ref-moved.json", &moved.json());
}

#[tokio::test]
async fn the_hub_tells_of_tokens_in_the_shape_that_is_written_down() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("feature-checkout").await;
    let made = alice
        .post_bytes(paths::TOKENS, fixture("token-request.json"))
        .await
        .expect(201);
    assert_shape("token-created-answer.json", &made.json());
    let job = tokens::job(&hub, &made);
    assert_shape("token-answer.json", &job.get(paths::TOKEN).await.expect(200).json());
    assert_shape("tokens-answer.json", &alice.get(paths::TOKENS).await.expect(200).json());
    let message = tokens::signed(&job, &room, "built");
    tokens::post(&job, &room, message, "run-1").await.expect(201).head();
    let asked: CreateToken = serde_json::from_slice(&fixture("token-request.json")).unwrap();
    let revoked = alice
        .send("DELETE", &paths::token(&asked.name), |request| request, "")
        .await;
    assert_shape("token-revoked-answer.json", &revoked.expect(200).json());
}

/// What the scripted hub was sent: path, body.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A hub that knows nothing but the files: each path has its answer.
async fn scripted_hub() -> (std::net::SocketAddr, Requests) {
    let answers: BTreeMap<&str, (u16, &str)> = BTreeMap::from([
        ("GET /v1/rooms", (200, "rooms-answer.json")),
        ("POST /v1/rooms", (201, "room-answer.json")),
        ("POST /v1/invites", (201, "invite-answer.json")),
        ("POST /v1/tokens", (201, "token-created-answer.json")),
        ("POST /v1/oidc", (201, "oidc-answer.json")),
        ("GET /v1/tokens", (200, "tokens-answer.json")),
        ("GET /v1/token", (200, "token-answer.json")),
        ("DELETE /v1/tokens/deploy", (200, "token-revoked-answer.json")),
        ("POST /v1/join", (200, "room-answer.json")),
        ("GET /v1/rooms/feature-checkout/members", (200, "members-answer.json")),
        ("GET /v1/rooms/feature-checkout/messages", (200, "page-answer.json")),
        ("POST /v1/rooms/feature-checkout/messages", (201, "posted-answer.json")),
        ("PUT /v1/rooms/feature-checkout/cursor", (200, "cursor.json")),
        ("GET /v1/rooms/feature-checkout/pushes", (200, "pushes-answer.json")),
        ("POST /v1/services/review/claims", (200, "claim-answer.json")),
        ("PUT /v1/services/review/claims/7", (200, "renew-answer.json")),
        ("GET /v1/services/review/jobs", (200, "jobs-answer.json")),
        ("POST /v1/rooms/moved/messages", (409, "problem-ref-moved.json")),
    ]);
    let requests = Requests::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Arc::clone(&requests);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (answers, log) = (answers.clone(), Arc::clone(&log));
            let answer = service_fn(move |request: Request<Incoming>| {
                let (answers, log) = (answers.clone(), Arc::clone(&log));
                async move {
                    let call = format!("{} {}", request.method(), request.uri().path());
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let (status, file) = match call.as_str() {
                        "POST /v1/session" if body["challenge"].is_null() => (401, "problem-unauthenticated.json"),
                        "POST /v1/session" => (200, "session-answer.json"),
                        call => answers[call],
                    };
                    log.lock().unwrap().push((call, body));
                    let answer = Response::builder()
                        .status(status)
                        .body(Full::new(Bytes::from(fixture(file))));
                    Ok::<_, std::convert::Infallible>(answer.unwrap())
                }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
        }
    });
    (address, requests)
}

#[tokio::test]
async fn the_client_sends_the_requests_and_takes_the_answers_that_are_written_down() {
    let (address, requests) = scripted_hub().await;
    tokio::task::spawn_blocking(move || {
        let asked: OpenSession = serde_json::from_slice(&fixture("session-request.json")).unwrap();
        let client_by = |token| {
            Client::new(ClientOptions {
                address: format!("http://{address}").parse().unwrap(),
                identity: Identity {
                    key: Arc::new(AgentKey::from_random([7; 32])),
                    name: asked.name.clone(),
                    role: asked.role.clone(),
                },
                secret: None,
                token,
                sessions: Box::new(NoSessionCache),
                deadlines: Deadlines::default(),
            })
            .unwrap()
        };
        let client = client_by(None);
        let sent = |call: &str| {
            let requests = requests.lock().unwrap();
            let (_, body) = requests.iter().rfind(|(sent, _)| sent == call).expect(call);
            body.clone()
        };
        let room: RoomName = "feature-checkout".parse().unwrap();
        let hub = HubId::from_bytes([0x42; 16]);

        // Joining without a session proves the key and redeems the code in one request.
        let code = asked.invite.clone().unwrap();
        assert_eq!(client.join(&code).unwrap().room().unwrap().room, room);
        let proof: OpenSession = serde_json::from_value(sent("POST /v1/session")).unwrap();
        assert_eq!(
            (proof.id, &proof.name, &proof.role),
            (asked.id, &asked.name, &asked.role)
        );
        assert_eq!((&proof.challenge, &proof.invite), (&asked.challenge, &asked.invite));
        let bytes = session_proof_bytes(&proof.challenge.unwrap(), &address.to_string());
        let sig = data_encoding::BASE64.decode(proof.sig.unwrap().as_bytes()).unwrap();
        assert!(proof.id.verifies(&bytes, &sig.try_into().unwrap()));
        assert_eq!(client.hub_id().unwrap(), hub);

        assert_eq!(client.create_room(&room, RoomKind::Channel).unwrap().room, room);
        assert_eq!(sent("POST /v1/rooms"), fixture_json("room-request.json"));
        let invite: CreateInvite = serde_json::from_slice(&fixture("invite-request.json")).unwrap();
        assert_eq!(client.create_invite(&invite).unwrap().code, code);
        assert_eq!(sent("POST /v1/invites"), fixture_json("invite-request.json"));
        let wanted: CreateToken = serde_json::from_slice(&fixture("token-request.json")).unwrap();
        let made = client.create_token(&wanted).unwrap();
        assert_eq!(sent("POST /v1/tokens"), fixture_json("token-request.json"));
        let shown: ExchangeIdentity = serde_json::from_slice(&fixture("oidc-request.json")).unwrap();
        assert_eq!(client.exchange_identity(&shown).unwrap().token, made.token);
        assert_eq!(sent("POST /v1/oidc"), fixture_json("oidc-request.json"));
        let token: AccessToken = made.token.parse().unwrap();
        assert_eq!((token.name(), token.hub()), (&wanted.name, hub));
        assert_eq!(client.tokens().unwrap().tokens, std::slice::from_ref(&made.summary));
        let job = client_by(Some(token));
        assert_eq!(job.describe_token().unwrap(), made.summary);
        assert_eq!(job.hub_id().unwrap(), hub);
        let revoked = client.revoke_token(&wanted.name).unwrap();
        let known = made.summary;
        assert!(known.created_at < revoked.last_used.unwrap() && revoked.last_used < revoked.revoked_at);
        assert_eq!(client.acknowledge(&room, Seq::new(42)).unwrap().cursor, Seq::new(42));
        assert_eq!(
            sent("PUT /v1/rooms/feature-checkout/cursor"),
            fixture_json("cursor.json")
        );

        let message = Signed {
            id: "01a22848-7edc-7640-a607-d7a11145b430".parse().unwrap(),
            body: fixture("post-message.json"),
        };
        assert_eq!(client.post(&room, &message, None, None).unwrap().seq, Seq::new(42));
        let body = fixture_json("post-message.json");
        assert_eq!(sent("POST /v1/rooms/feature-checkout/messages"), body);
        let moved = client
            .post(&"moved".parse().unwrap(), &message, None, None)
            .unwrap_err();
        assert_eq!(moved.code(), Some(ErrorCode::RefMoved));

        let service: ServiceName = "review".parse().unwrap();
        let seconds = std::time::Duration::from_secs;
        let job = client.claim_job(&service, seconds(60), seconds(20)).unwrap().unwrap();
        let mut claim = sent("POST /v1/services/review/claims");
        let wanted = fixture_json("claim-request.json");
        claim["id"] = wanted["id"].clone();
        assert_eq!(claim, wanted);
        let fence = Fence {
            seq: job.seq,
            number: job.fence,
        };
        assert!(!client.renew_claim(&service, fence, seconds(120)).unwrap().cancelled);
        assert_eq!(
            sent("PUT /v1/services/review/claims/7"),
            fixture_json("renew-request.json")
        );
        assert_eq!(client.jobs(&service, Seq::ZERO).unwrap().jobs[0].seq, job.seq);

        assert_eq!(client.rooms().unwrap().rooms[0].room, room);
        assert_eq!(client.members(&room).unwrap().members[0].id, asked.id);
        let stored = fixture("message.json");
        let page = client.messages(&room, &ReadFrom::default()).unwrap();
        let read = page.messages[0].get();
        assert_eq!(
            serde_json::from_str::<Value>(read).unwrap(),
            fixture_json("message.json")
        );
        let PushesAnswer::Changed(pushes) = client.pushes(&room, None, None, None).unwrap() else {
            panic!("no pushes")
        };
        assert_eq!(
            (pushes.hub, pushes.version, pushes.messages.len()),
            (hub, Seq::new(42), 1)
        );
        let message = Message::parse(stored.trim_ascii_end()).unwrap();
        assert_eq!(verify(&message, &pushes.hub), Verdict::Valid);
    })
    .await
    .unwrap();
}
