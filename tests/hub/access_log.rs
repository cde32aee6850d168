//! The access log: one line for each answer, and no secret in any.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use parler_protocol::{AgentId, Seq, paths};
use serde_json::Value;

use crate::support::{TestHub, text_message};

/// Everything this test program logs, at the finest level.
fn lines() -> &'static Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    LINES.get_or_init(|| {
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt().json().with_max_level(tracing::Level::TRACE);
        log.with_writer(move || writer.clone()).init();
        lines
    })
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// The requests of one agent: how often which method, route and status.
    fn requests_of(&self, agent: AgentId) -> BTreeMap<String, usize> {
        let mut requests = BTreeMap::new();
        for line in self.text().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            let fields = &line["fields"];
            if fields["message"] == "request" && fields["agent"] == agent.to_string() {
                assert_eq!(line["level"], "INFO");
                assert!(fields["elapsed_us"].is_u64());
                let route = fields["route"].as_str().unwrap();
                let key = format!("{} {route} {}", fields["method"].as_str().unwrap(), fields["status"]);
                *requests.entry(key).or_default() += 1;
            }
        }
        requests
    }
}

#[tokio::test]
async fn each_answer_is_one_line_without_secrets() {
    let lines = lines();
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.stream_ttl = std::time::Duration::ZERO;
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("logged").await.room;
    for path in [paths::stream(&room), paths::EVENTS.to_owned()] {
        assert!(!alice.get(&path).await.expect(200).body.is_empty());
    }
    for _ in 0..2 {
        alice
            .post(&paths::messages(&room), &text_message("a-secret-word-in-a-body"))
            .await
            .expect(201)
            .head();
    }
    assert_eq!(
        alice
            .get("/v1/rooms/elsewhere/pushes?x=a-secret-word-in-a-query")
            .await
            .status,
        400
    );
    let known = |request: hyper::http::request::Builder| request.header("if-none-match", "\"0\"");
    assert_eq!(
        alice
            .send("GET", &paths::pushes(&room, Seq::ZERO), known, "")
            .await
            .status,
        304
    );
    let invite = alice
        .post(paths::INVITES, &serde_json::json!({ "room": room }))
        .await
        .expect(201);
    let code = invite.json::<Value>()["code"].as_str().unwrap().to_owned();

    let expected = [
        ("GET /v1/events 200", 1),
        ("GET /v1/rooms/{room}/pushes 304", 1),
        ("GET /v1/rooms/{room}/pushes 400", 1),
        ("GET /v1/rooms/{room}/stream 200", 1),
        ("POST /v1/invites 201", 1),
        ("POST /v1/rooms 201", 1),
        ("POST /v1/rooms/{room}/messages 201", 2),
        ("POST /v1/session 200", 1),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(key, count)| (key.to_owned(), count)).into();
    assert_eq!(lines.requests_of(alice.id()), expected);
    let text = lines.text();
    for secret in [&alice.token[7..], &alice.key.to_seed(), &code, "a-secret-word"] {
        assert!(!text.contains(secret), "{secret} is in the log");
    }
}
