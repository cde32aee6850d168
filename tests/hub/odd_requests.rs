//! Requests that no client of ours sends, on every path of the document: each is answered, with a problem that has a
//! code, and never as a fault of the hub.

use parler_protocol::{ErrorCode, Problem, paths};

use crate::support::{Agent, TestHub, openapi, raw};

/// Sends a request as it stands and returns the status and, where there is a body, what it is.
async fn ask(agent: &Agent, line: &str, fields: &str, body: &str) -> (u16, Option<Problem>) {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{fields}\r\n",
        agent.address, agent.token
    );
    let answer = raw(agent.address, format!("{head}{body}").as_bytes()).await;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no answer to {line} {fields}: {answer}"));
    assert!(status < 500, "{line} {fields}: {answer}");
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{line}: {answer}"));
    let is_problem = head
        .to_ascii_lowercase()
        .contains("content-type: application/problem+json");
    if body.is_empty() || !is_problem {
        return (status, None);
    }
    let problem: Problem = serde_json::from_str(body).unwrap_or_else(|error| panic!("{line}: {error}: {answer}"));
    assert_eq!(problem.status, status, "{line}");
    assert_ne!(problem.code, ErrorCode::Unknown, "{line}: {answer}");
    (status, Some(problem))
}

/// As [`ask`], and expects a problem with this code.
async fn refused(agent: &Agent, line: &str, fields: &str, body: &str, code: ErrorCode) {
    let (_, problem) = ask(agent, line, fields, body).await;
    assert_eq!(problem.map(|problem| problem.code), Some(code), "{line} {fields}");
}

async fn hub_with_room() -> (TestHub, Agent, serde_json::Value) {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.stream_ttl = std::time::Duration::ZERO;
    })
    .await;
    let alice = hub.agent("alice").await;
    alice.create_room("r").await;
    let document = openapi::document(&alice).await;
    (hub, alice, document)
}

#[tokio::test]
async fn methods_that_a_path_does_not_take_are_refused() {
    let (_hub, alice, document) = hub_with_room().await;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let target = openapi::filled(path);
        for method in ["OPTIONS", "TRACE", "PROPFIND", "get", "CONNECT"] {
            refused(
                &alice,
                &format!("{method} {target}"),
                "",
                "",
                ErrorCode::MethodNotAllowed,
            )
            .await;
        }
        if operations.get("get").is_some() {
            let (of_get, _) = ask(&alice, &format!("GET {target}"), "", "").await;
            assert_eq!(
                ask(&alice, &format!("HEAD {target}"), "", "").await,
                (of_get, None),
                "{target}"
            );
        } else {
            let (status, _) = ask(&alice, &format!("HEAD {target}"), "", "").await;
            assert_eq!(status, 405, "{target}");
        }
    }
}

#[tokio::test]
async fn paths_that_cannot_be_read_are_not_found() {
    let (_hub, alice, _) = hub_with_room().await;
    let long = "r".repeat(70_000);
    for room in [
        "%ff",
        "%zz",
        "%",
        "%0",
        "%00",
        "%2e%2e",
        "..",
        "r%2fmessages",
        "%c3%28",
        "r%0d%0a",
        "~",
        long.as_str(),
    ] {
        for call in ["", "/messages", "/stream", "/blobs/%ff", "/uploads/%zz"] {
            let line = format!("GET /v1/rooms/{room}{call}");
            // What is longer than any path may be is refused below HTTP.
            match ask(&alice, &line, "", "").await {
                (414, None) => assert_eq!(room, long),
                (_, problem) => assert_eq!(problem.map(|problem| problem.code), Some(ErrorCode::NotFound), "{line}"),
            }
        }
    }
    for query in [
        "after=%ff",
        "after=%zz",
        "after=1&after=2",
        "after=+1",
        "limit=-1",
        "wait=1e3",
        "&&=&",
        "after",
        "%00=1",
    ] {
        let line = format!("GET {}?{query}", paths::messages(&"r".parse().unwrap()));
        refused(&alice, &line, "", "", ErrorCode::BadRequest).await;
    }
}

#[tokio::test]
async fn bodies_of_other_kinds_are_refused_by_every_call_that_takes_one() {
    let (_hub, alice, document) = hub_with_room().await;
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation.get("requestBody").is_none() {
                continue;
            }
            seen += 1;
            let line = format!("{} {}", method.to_uppercase(), openapi::filled(path));
            for fields in [
                "Content-Length: 2\r\n",
                "Content-Length: 2\r\nContent-Type: text/plain\r\n",
                "Content-Length: 2\r\nContent-Type: application/jsonx\r\n",
                "Content-Length: 2\r\nContent-Type: \u{e9}\r\n",
                "Content-Length: 2\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n",
            ] {
                refused(&alice, &line, fields, "{}", ErrorCode::UnsupportedMediaType).await;
            }
            for body in [
                "",
                "{",
                "[]",
                "null",
                "\u{feff}{}",
                "{}{}",
                "{\"a\":1,\"a\":2}",
                &"[".repeat(100_000),
            ] {
                let fields = format!(
                    "Content-Type: application/json; charset=utf-8\r\nExpect: 100-continue\r\nContent-Length: {}\r\n",
                    body.len()
                );
                let (status, problem) = ask_expecting(&alice, &line, &fields, body).await;
                assert!(problem.is_some() && (400..500).contains(&status), "{line}: {status}");
            }
        }
    }
    assert!(seen > 5, "{seen}");
}

/// As [`ask`], past a `100 Continue`.
async fn ask_expecting(agent: &Agent, line: &str, fields: &str, body: &str) -> (u16, Option<Problem>) {
    let head = format!(
        "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{fields}\r\n{body}",
        agent.address, agent.token
    );
    let answer = raw(agent.address, head.as_bytes()).await;
    let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).ok())
}

#[tokio::test]
async fn headers_that_say_nothing_are_refused() {
    let (_hub, alice, _) = hub_with_room().await;
    let room = "r".parse().unwrap();
    let messages = format!("POST {}", paths::messages(&room));
    let message = crate::support::text_message("x").to_string();
    for field in [
        "Parler-Message-Length: {}",
        "Parler-Agent: me",
        "Parler-Upload: none",
        "Idempotency-Key: a b",
    ] {
        let fields = format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n{field}\r\n",
            message.len()
        );
        refused(&alice, &messages, &fields, &message, ErrorCode::BadRequest).await;
    }
    // Where a length is needed, chunks do not do.
    let chunked = format!(
        "Content-Type: {}\r\nParler-Message-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        paths::MESSAGE_WITH_BLOB_TYPE
    );
    refused(
        &alice,
        &messages,
        &chunked,
        "3\r\n{}x\r\n0\r\n\r\n",
        ErrorCode::BadRequest,
    )
    .await;
    // What is too much for a head is refused below HTTP, without a problem.
    for fields in [
        format!("X-Long: {}\r\n", "x".repeat(1 << 20)),
        (0..100).map(|index| format!("X-{index}: x\r\n")).collect(),
    ] {
        assert_eq!(ask(&alice, "GET /v1/rooms", &fields, "").await, (431, None));
    }
}

/// A list of an object's values is not that object.
#[tokio::test]
async fn fields_have_names() {
    let (_hub, alice, _) = hub_with_room().await;
    let room = "r".parse().unwrap();
    let id = parler_protocol::MessageId::generate();
    let oid = "a".repeat(40);
    let put = |path: &str, body: String| (format!("PUT {path}"), body);
    let post = |path: &str, body: String| (format!("POST {path}"), body);
    for (line, body) in [
        put(&paths::cursor(&room), "[0]".to_owned()),
        post(paths::ROOMS, r#"["s","channel"]"#.to_owned()),
        post(&paths::uploads(&room), "[5]".to_owned()),
        post(
            &paths::messages(&room),
            format!(r#"["{id}",[{{"kind":"text","text":"x"}}],[],null]"#),
        ),
        post(
            &paths::messages(&room),
            format!(
                r#"{{"id":"{id}","parts":[{{"kind":"com.parler.refs","objectFormat":"sha1",
                    "updates":[["refs/heads/x",null,"{oid}",false,null]]}}]}}"#
            ),
        ),
        post(
            &paths::messages(&room),
            format!(
                r#"{{"id":"{id}","parts":[{{"kind":"com.parler.bundle","vcs":"git","size":1,
                    "blob":"{0}","refs":[["refs/heads/x","{oid}"]]}}]}}"#,
                "b".repeat(64)
            ),
        ),
    ] {
        let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        refused(&alice, &line, &fields, &body, ErrorCode::BadRequest).await;
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (_hub, alice, _) = hub_with_room().await;
    let request = |target: &str, last: &str| {
        format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{last}\r\n",
            alice.address, alice.token
        )
    };
    let all = [
        request("/healthz", ""),
        request("/nowhere", ""),
        request("/v1/rooms", "Connection: close\r\n"),
    ];
    let answers = raw(alice.address, all.concat().as_bytes()).await;
    let statuses: Vec<_> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["200", "404", "200"], "{answers}");
}
