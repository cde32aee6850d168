//! What must hold of any bytes that a hub is sent. Called by the targets of `tests/fuzz` and, with their seeds, by ordinary
//! tests; in no other build. Nothing goes through a socket: what a connection would carry is handed over in memory.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use data_encoding::BASE64;
use http_body_util::BodyExt;
use parler_protocol::api::{OpenSession, SessionOpened};
use parler_protocol::{AgentKey, Problem, paths, session_proof_bytes};
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

use crate::auth::Peer;
use crate::clock::Clock;
use crate::hub::Hub;
use crate::options::HubOptions;
use crate::router::router;
use crate::server::{Door, serve_http};
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

/// A hub with two members of a room, `build`.
struct TriedHub {
    runtime: Runtime,
    state: SharedState,
    /// The session of the room's owner.
    token: String,
    inputs: u32,
    // Dropped last.
    _directory: TempDir,
}

/// One request of a member, as text: `METHOD PATH`, its headers, an empty line, the body. What every request has is added.
pub fn call(bytes: &[u8]) {
    let (head, body) = match bytes.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&bytes[..end], &bytes[end + 2..]),
        None => (bytes, &[][..]),
    };
    if let Ok(head) = str::from_utf8(head) {
        with_hub(|hub| drop(hub.call(head, body)));
    }
}

/// All that comes on one connection, until its end.
pub fn connection(bytes: &[u8]) {
    with_hub(|hub| hub.connection(bytes));
}

fn with_hub(tried: impl FnOnce(&TriedHub)) {
    HUB.with_borrow_mut(|kept| {
        if kept.as_ref().is_some_and(|hub| hub.inputs >= INPUTS_EACH)
            && let Some(old) = kept.take()
        {
            old.runtime.block_on(old.state.store.close()).expect("the store closes");
        }
        let hub = kept.get_or_insert_with(TriedHub::new);
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
            inputs: 0,
            _directory: directory,
        };
        hub.token = hub.session(2, "bob");
        hub.token = hub.session(1, "alice");
        hub.prepare();
        hub
    }

    /// Proves the key of this number.
    fn session(&self, number: u8, name: &str) -> String {
        let key = AgentKey::from_random([number; 32]);
        let mut proof = OpenSession {
            id: key.id(),
            name: name.parse().expect("a name"),
            role: None,
            challenge: None,
            sig: None,
            secret: None,
            invite: None,
        };
        let refusal = self.json(paths::SESSION, &json!(proof));
        let problem: Problem = serde_json::from_slice(&refusal).expect("a problem");
        let challenge = problem.challenge.expect("a challenge");
        proof.sig = Some(BASE64.encode(&key.sign(&session_proof_bytes(&challenge, AUTHORITY))));
        proof.challenge = Some(challenge);
        let opened: SessionOpened =
            serde_json::from_slice(&self.json(paths::SESSION, &json!(proof))).expect("a session");
        opened.token
    }

    /// A room, and something in it.
    fn prepare(&self) {
        let made = self.json(paths::ROOMS, &json!({ "room": "build", "kind": "channel" }));
        let made = String::from_utf8_lossy(&made);
        assert!(made.contains("build"), "{made}");
    }

    fn json(&self, path: &str, body: &serde_json::Value) -> Bytes {
        let head = format!("POST {path}\ncontent-type: application/json");
        self.call(&head, body.to_string().as_bytes()).expect("an answer")
    }

    /// Gives the answer, if this is a request.
    fn call(&self, head: &str, body: &[u8]) -> Option<Bytes> {
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
        let patience = if may_wait { POLL } else { PATIENCE };
        let answered = self.runtime.block_on(async {
            tokio::time::timeout(patience, async {
                let answer = router(SharedState::clone(&self.state)).oneshot(request).await;
                let answer = answer.expect("a router never fails");
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
        Some(body)
    }

    fn connection(&self, bytes: &[u8]) {
        let door = Door {
            router: router(SharedState::clone(&self.state)),
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
    use parler_harness::each_seed;

    #[test]
    fn the_seeds_of_calls_hold() {
        each_seed("hub_calls", super::call);
    }

    #[test]
    fn the_seeds_of_connections_hold() {
        each_seed("hub_connection", super::connection);
    }
}
