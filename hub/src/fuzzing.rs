//! What must hold of any bytes that a hub is sent. Called by the targets of `tests/fuzz` and, with their seeds, by ordinary
//! tests; in no other build. Nothing goes through a socket: what a connection would carry is handed over in memory. What a
//! hub makes up stands in a seed as a word, such as `{bob}`: see [`TriedHub::prepare`].

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use data_encoding::BASE64;
use http_body_util::BodyExt;
use parler_protocol::api::{OpenSession, SessionOpened};
use parler_protocol::{
    AgentKey, AgentName, BundleId, Challenge, Draft, Head, MessageId, Part, Problem, RoomName, SignContext, Target,
    paths, session_proof_bytes, sign,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::auth::Peer;
use crate::clock::Clock;
use crate::hub::Hub;
use crate::options::HubOptions;
use crate::router::Calls;
use crate::server::{Answers, Door, serve_http};
use crate::state::SharedState;

/// What the hub is called in `Host`.
const AUTHORITY: &str = "hub.example";
/// Some day in 2026. The clock stands still, so that sessions do not end.
const NOW_MS: i64 = 1_796_000_000_000;
/// After so many inputs a new hub is taken: rooms and messages pile up.
const INPUTS_EACH: u32 = 5_000;
/// Longest an answer may take. Long polls are left before.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

thread_local! {
    static HUB: RefCell<Option<TriedHub>> = const { RefCell::new(None) };
}

/// Stands among the parts of a message that is to be signed by the room's owner.
const SIGNATURE: &str = "{signature}";
/// What the room has as a bundle.
const BUNDLE: &[u8] = b"these bytes are in the room";
/// The commit that its branch `main` is at.
const COMMIT: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A hub with two members of a room, `build`, and a service, `review`.
struct TriedHub {
    runtime: Runtime,
    state: SharedState,
    /// The session of the room's owner.
    token: String,
    /// Words of seeds, and what each stands for.
    words: Vec<(&'static str, String)>,
    /// How long an answer may take that may wait for something. Then it is left.
    poll: Duration,
    inputs: u32,
    // Dropped last.
    _directory: TempDir,
}

/// One request of a member, as text: `METHOD PATH`, its headers, an empty line, the body. What every request has is added.
pub fn call(bytes: &[u8]) {
    if let Some((head, body)) = head_and_body(bytes) {
        with_hub(|hub| _ = hub.seed(head, body));
    }
}

fn head_and_body(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (head, body) = match bytes.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&bytes[..end], &bytes[end + 2..]),
        None => (bytes, &[][..]),
    };
    Some((str::from_utf8(head).ok()?, body))
}

/// All that comes on one connection, until its end.
pub fn connection(bytes: &[u8]) {
    with_hub(|hub| hub.connection(bytes));
}

fn key(number: u8) -> AgentKey {
    AgentKey::from_random([number; 32])
}

fn unproved(number: u8, name: &str) -> OpenSession {
    OpenSession {
        id: key(number).id(),
        name: name.parse().expect("a name"),
        role: None,
        challenge: None,
        sig: None,
        secret: None,
        invite: None,
    }
}

fn with_hub(tried: impl FnOnce(&TriedHub)) {
    HUB.with_borrow_mut(|kept| {
        if kept.as_ref().is_some_and(|hub| hub.inputs >= INPUTS_EACH)
            && let Some(old) = kept.take()
        {
            old.runtime.block_on(old.state.store.close()).expect("the store closes");
        }
        let hub = kept.get_or_insert_with(|| TriedHub {
            poll: POLL,
            ..TriedHub::new()
        });
        hub.inputs += 1;
        tried(hub);
    });
}

impl TriedHub {
    fn new() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let mut options = HubOptions::new(directory.path().join("hub"));
        options.open = true;
        options.authorities = vec![AUTHORITY.to_owned()];
        options.clock = Clock::from_fn(|| NOW_MS);
        options.limits.free_floor_percent = 0;
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let hub = Hub::open(options).expect("a hub");
        let state = runtime
            .block_on(hub.into_state(SocketAddr::new(CLIENT, 7777)))
            .expect("its state");
        let mut hub = Self {
            runtime,
            state,
            token: String::new(),
            words: Vec::new(),
            poll: PATIENCE,
            inputs: 0,
            _directory: directory,
        };
        hub.prepare();
        hub
    }

    /// Proves the key of this number.
    fn session(&self, number: u8, name: &str) -> String {
        let challenge = self.challenge(number);
        let proof = OpenSession {
            sig: Some(BASE64.encode(&key(number).sign(&session_proof_bytes(&challenge, AUTHORITY)))),
            challenge: Some(challenge),
            ..unproved(number, name)
        };
        let (_, opened) = self.post(paths::SESSION, &json!(proof));
        let opened: SessionOpened = serde_json::from_slice(&opened).expect("a session");
        opened.token
    }

    fn challenge(&self, number: u8) -> Challenge {
        let (_, refusal) = self.post(paths::SESSION, &json!(unproved(number, "alice")));
        let problem: Problem = serde_json::from_slice(&refusal).expect("a problem");
        problem.challenge.expect("a challenge")
    }

    /// Rooms, what is in them, and the words for what nobody knows beforehand.
    fn prepare(&mut self) {
        let bob = self.session(2, "bob");
        let carol = self.session(3, "carol");
        let alice = self.session(1, "alice");
        for (number, word) in [(1, "{alice}"), (2, "{bob}"), (3, "{carol}")] {
            self.words.push((word, key(number).id().to_string()));
        }
        self.token.clone_from(&alice);
        self.json(paths::ROOMS, &json!({ "room": "build", "kind": "channel" }));
        let invite = self.json(paths::INVITES, &json!({ "room": "build", "maxUses": 5 }));
        self.word("{code}", &invite["code"]);
        self.json(paths::SERVICES, &json!({ "service": "review" }));
        self.push();
        let upload = self.json("/v1/rooms/build/uploads", &json!({ "size": 20_000_000 }));
        self.word("{upload}", &upload["upload"]);
        let can = json!({ "name": "nightly", "rooms": ["build"], "can": ["post"] });
        let token = self.json(paths::TOKENS, &can);
        self.word("{token}", &token["token"]);
        // Who asks to be let in.
        let gate = self.json(
            paths::INVITES,
            &json!({ "room": "build", "maxUses": 5, "approve": true }),
        );
        self.token = carol;
        self.json(paths::JOIN, &json!({ "code": gate["code"] }));
        self.token.clone_from(&alice);
        let (_, invites) = self.call("GET /v1/rooms/build/invites", b"").expect("an answer");
        let invites: Value = serde_json::from_slice(&invites).expect("JSON");
        self.word("{invite}", &invites["invites"][0]["id"]);

        // Who asks for two jobs; one of them is taken.
        self.token.clone_from(&bob);
        self.json(paths::JOIN, &json!({ "code": invite["code"] }));
        for text in ["one", "two"] {
            let dispatch = json!({ "kind": "com.parler.dispatch", "role": "review" });
            let parts = json!([dispatch, { "kind": "text", "text": text }, SIGNATURE]);
            let message = json!({ "id": MessageId::generate(), "parts": parts });
            let path = "/v1/rooms/svc.review/messages";
            self.token.clone_from(&alice);
            let signed = self.signed((2, "bob"), path, message.to_string().as_bytes());
            self.token.clone_from(&bob);
            self.json(
                path,
                &serde_json::from_slice(&signed.expect("a message")).expect("JSON"),
            );
        }
        self.token = alice;
        let claim = json!({ "id": MessageId::generate(), "leaseSeconds": 3600 });
        let claimed = self.json("/v1/services/review/claims", &claim);
        self.word("{seq}", &claimed["seq"]);
        self.word("{fence}", &claimed["fence"]);
        self.word("{job}", &claimed["job"]["id"]);
        let challenge = self.challenge(1);
        let signed = BASE64.encode(&key(1).sign(&session_proof_bytes(&challenge, AUTHORITY)));
        self.words.push(("{challenge}", challenge.to_string()));
        self.words.push(("{proof}", signed));
    }

    fn word(&mut self, word: &'static str, value: &Value) {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.words.push((word, text));
    }

    /// Message 1 of the room: a branch, and a bundle that brings it.
    fn push(&mut self) {
        let blob = BundleId::of(BUNDLE).to_string();
        let message = json!({ "id": MessageId::generate(), "parts": [
            {
                "kind": "com.parler.bundle", "blob": blob, "vcs": "git", "tip": COMMIT, "size": BUNDLE.len(),
                "mediaType": "application/x-git-bundle", "objectFormat": "sha1", "prerequisites": [],
                "refs": [{ "name": "refs/heads/main", "oid": COMMIT }],
            },
            {
                "kind": "com.parler.refs", "atomic": false, "objectFormat": "sha1", "head": "refs/heads/main",
                "updates": [{ "name": "refs/heads/main", "old": null, "new": COMMIT, "forced": false }],
            },
            SIGNATURE,
        ]});
        let path = "/v1/rooms/build/messages";
        let message = self.signed((1, "alice"), path, message.to_string().as_bytes());
        let message = message.expect("a message");
        let head = format!(
            "POST {path}\ncontent-type: {}\n{}: {}",
            paths::MESSAGE_WITH_BLOB_TYPE,
            paths::MESSAGE_LENGTH_HEADER,
            message.len()
        );
        let (status, answer) = self.call(&head, &[&message, BUNDLE].concat()).expect("an answer");
        assert_eq!(status, StatusCode::CREATED, "{}", String::from_utf8_lossy(&answer));
        let posted: Value = serde_json::from_slice(&answer).expect("JSON");
        self.word("{message}", &posted["id"]);
        self.words.push(("{blob}", blob));
    }

    /// What succeeds answers.
    fn json(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.post(path, body);
        assert!(status.is_success(), "{path}: {}", String::from_utf8_lossy(&answer));
        serde_json::from_slice(&answer).expect("JSON")
    }

    fn post(&self, path: &str, body: &Value) -> (StatusCode, Bytes) {
        let head = format!("POST {path}\ncontent-type: application/json");
        self.call(&head, body.to_string().as_bytes()).expect("an answer")
    }

    /// Words replaced by what they stand for.
    fn filled(&self, text: &str) -> String {
        let words = self.words.iter();
        words.fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
    }

    /// The message in a body that has [`SIGNATURE`] as its last part, signed by an agent for the room in the path.
    fn signed(&self, (number, name): (u8, &str), path: &str, body: &[u8]) -> Option<Vec<u8>> {
        let mut message: Value = serde_json::from_slice(body).ok()?;
        let parts = message.get_mut("parts")?.as_array_mut()?;
        parts.pop().filter(|last| last == SIGNATURE)?;
        let draft = Draft {
            parts: parts.iter().map(Part::from_value).collect(),
            id: serde_json::from_value(message["id"].clone()).ok()?,
            mentions: serde_json::from_value(message["mentions"].clone()).unwrap_or_default(),
            reply_to: serde_json::from_value(message["replyTo"].clone()).ok(),
        };
        let room: RoomName = path.split('/').nth(3)?.parse().ok()?;
        let (_, page) = self.call(&format!("GET /v1/rooms/{room}/messages?after=0&limit=0"), b"")?;
        let page: Value = serde_json::from_slice(&page).ok()?;
        let head: Head = serde_json::from_value(page["head"].clone()).ok()?;
        let name: AgentName = name.parse().ok()?;
        let context = SignContext {
            key: &key(number),
            name: &name,
            role: None,
            hub: &self.state.hub,
            room: &room,
            target: &Target::Room { room: room.clone() },
            head: &head,
            now_ms: NOW_MS,
        };
        Some(sign(&draft, &context).body)
    }

    /// One request of the room's owner, its words filled in and its message signed where that is asked for.
    fn seed(&self, head: &str, body: &[u8]) -> Option<StatusCode> {
        let head = self.filled(head);
        let body = match str::from_utf8(body) {
            Ok(text) => self.filled(text).into_bytes(),
            Err(_) => body.to_vec(),
        };
        let path = head.split(['\n', ' ']).nth(1).unwrap_or_default();
        let signed = match body.windows(SIGNATURE.len()).any(|bytes| bytes == SIGNATURE.as_bytes()) {
            true => self.signed((1, "alice"), path, &body),
            false => None,
        };
        let (status, _) = self.call(&head, signed.as_deref().unwrap_or(&body))?;
        Some(status)
    }

    /// Gives the answer, if this is a request.
    fn call(&self, head: &str, body: &[u8]) -> Option<(StatusCode, Bytes)> {
        let mut lines = head.split('\n');
        let (method, path) = lines.next()?.split_once(' ')?;
        let mut request = Request::new(Body::from(body.to_vec()));
        *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
        *request.uri_mut() = path.parse::<Uri>().ok()?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static(AUTHORITY));
        headers.insert(header::CONTENT_LENGTH, body.len().into());
        if !self.token.is_empty() {
            let bearer = format!("Bearer {}", self.token);
            headers.insert(header::AUTHORIZATION, bearer.parse().ok()?);
        }
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let name: HeaderName = name.parse().ok()?;
            headers.insert(name, value.trim().parse().ok()?);
        }
        request.extensions_mut().insert(Peer(CLIENT));
        let may_wait = path.contains("wait") || path.contains("claims");
        let patience = if may_wait { self.poll } else { PATIENCE };
        let answered = self.runtime.block_on(async {
            tokio::time::timeout(patience, async {
                let answer = Calls::new(SharedState::clone(&self.state)).answer(request).await;
                let is_stream = answer
                    .headers()
                    .get(header::CONTENT_TYPE)
                    .is_some_and(|kind| kind == paths::EVENT_STREAM_TYPE);
                let status = answer.status();
                let body = if is_stream {
                    Bytes::new()
                } else {
                    // What is cut off says so by its end.
                    answer
                        .into_body()
                        .collect()
                        .await
                        .map_or_else(|_| Bytes::new(), |body| body.to_bytes())
                };
                (status, body)
            })
            .await
        });
        let Ok((status, body)) = answered else {
            assert!(may_wait, "no answer to {method} {path}");
            return None;
        };
        assert!(
            !status.is_server_error(),
            "{status} to {method} {path}: {}",
            String::from_utf8_lossy(&body)
        );
        if status.is_client_error() && method != "HEAD" {
            serde_json::from_slice::<Problem>(&body).expect("a refusal says why");
        }
        Some((status, body))
    }

    fn connection(&self, bytes: &[u8]) {
        let door = Door {
            answers: Box::new(Calls::new(SharedState::clone(&self.state))),
            tls: None,
            proxies: self.state.options.proxies.clone(),
            connections: self.state.metrics.connections.clone(),
        };
        let answer = self.runtime.block_on(async {
            let (mut ours, theirs) = tokio::io::duplex(64 << 10); // 64 KiB
            let served = serve_http(&self.state, &door, CLIENT, theirs);
            let asked = async {
                let mut answer = Vec::new();
                let (mut from, mut to) = tokio::io::split(&mut ours);
                let sent = async {
                    // The hub may have heard enough.
                    let _ = to.write_all(bytes).await;
                    let _ = to.shutdown().await;
                };
                let (_, read) = tokio::join!(sent, from.read_to_end(&mut answer));
                read.expect("memory is read");
                answer
            };
            let ended = tokio::time::timeout(PATIENCE, async { tokio::join!(served, asked).1 }).await;
            ended.expect("a connection whose client has nothing more to say ends")
        });
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1."), "{answer:?}");
        assert!(!answer.contains("HTTP/1.1 5"), "{answer:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use parler_harness::each_seed;

    use super::*;
    use crate::calls::calls;

    #[test]
    fn the_seeds_of_calls_hold() {
        each_seed("hub_calls", call);
    }

    #[test]
    fn the_seeds_of_connections_hold() {
        each_seed("hub_connection", connection);
    }

    /// Calls that no seed succeeds with: nothing is configured for the first, and no time passes in which a job could die.
    const BEYOND_REACH: [(&str, u16); 2] = [
        ("POST /v1/oidc", 403),
        ("POST /v1/services/{service}/jobs/{seq}/retry", 409),
    ];

    /// The seeds are asked each on a hub of its own, so that none is in the way of another. Of what one of them names all is there.
    #[test]
    fn every_call_has_a_seed_that_gets_an_answer_of_its_own() {
        let mut reached: BTreeMap<String, Vec<u16>> = BTreeMap::new();
        let seen = RefCell::new(&mut reached);
        each_seed("hub_calls", |bytes| {
            let (head, body) = head_and_body(bytes).unwrap();
            let hub = TriedHub::new();
            let target = hub.filled(head.lines().next().unwrap());
            let status = hub.seed(head, body).map_or(0, |status| status.as_u16());
            println!("{status} {target}");
            if let Some(call) = call_of(&target) {
                seen.borrow_mut().entry(call).or_default().push(status);
            }
        });
        for call in calls() {
            let call = format!("{} {}", call.method, call.path);
            let got = reached.remove(&call).unwrap_or_default();
            match BEYOND_REACH.iter().find(|(beyond, _)| *beyond == call) {
                Some((_, status)) => assert!(got.contains(status), "{call}: {got:?}"),
                None => assert!(got.iter().any(|status| status / 100 == 2), "{call}: {got:?}"),
            }
        }
    }

    /// What the table of calls calls this one.
    fn call_of(target: &str) -> Option<String> {
        let (method, path) = target.split_once(' ')?;
        let method = if method == "HEAD" { "GET" } else { method };
        let path: Vec<&str> = path.split('?').next()?.split('/').collect();
        let matches = |of: &str| {
            let of: Vec<&str> = of.split('/').collect();
            of.len() == path.len() && of.iter().zip(&path).all(|(of, part)| of.starts_with('{') || of == part)
        };
        let calls = calls();
        let call = calls.iter().find(|call| call.method == method && matches(call.path))?;
        Some(format!("{method} {}", call.path))
    }
}
