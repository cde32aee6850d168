//! Who a request is for and who sent it, judged before anything else.

use parler_protocol::{ErrorCode, paths};

use crate::support::{TestHub, in_time, raw, text_message};

async fn status(hub: &TestHub, head: &str) -> u16 {
    let answer = raw(hub.address, format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).await;
    answer
        .split(' ')
        .nth(1)
        .unwrap_or_else(|| panic!("no answer to {head}: {answer}"))
        .parse()
        .unwrap()
}

#[tokio::test]
async fn only_the_hubs_own_names_are_answered() {
    let hub = TestHub::with(|options| options.authorities = vec!["Hub.Example".to_owned()]).await;
    let port = hub.address.port();
    let get = "GET /healthz HTTP/1.1\r\nHost: ";
    for host in [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
        format!("[::1]:{port}"),
        "hub.example".to_owned(),
    ] {
        assert_eq!(status(&hub, &format!("{get}{host}")).await, 200, "{host}");
    }
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        format!("127.0.0.1:{}", port ^ 1),
        format!("127.0.0.1.evil.example:{port}"),
        format!("evil.example@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}, evil.example"),
        String::new(),
    ] {
        assert_eq!(status(&hub, &format!("{get}{host}")).await, 421, "{host}");
    }
    assert_eq!(status(&hub, "GET /healthz HTTP/1.1").await, 421, "no Host");
    let own = format!("127.0.0.1:{port}");
    assert_eq!(
        status(&hub, &format!("{get}{own}\r\nHost: evil.example")).await,
        421,
        "two Hosts"
    );
    let absolute = format!("GET http://evil.example/healthz HTTP/1.1\r\nHost: {own}");
    assert_eq!(status(&hub, &absolute).await, 421, "another authority in the target");
}

#[tokio::test]
async fn browser_pages_are_refused_and_change_nothing() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let path = paths::messages(&room);
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let from_page = |request: hyper::http::request::Builder| {
            request.header("content-type", "application/json").header(name, value)
        };
        let answer = alice
            .send("POST", &path, from_page, text_message("x").to_string())
            .await;
        answer.problem(ErrorCode::OriginRefused);
        let preflight = alice.send("OPTIONS", &path, from_page, "").await;
        preflight.problem(ErrorCode::OriginRefused);
        for answer in [answer, preflight] {
            assert!(
                answer
                    .headers
                    .keys()
                    .all(|name| !name.as_str().starts_with("access-control")),
                "{answer:?}"
            );
        }
    }
    for value in ["none", "same-origin"] {
        let direct = |request: hyper::http::request::Builder| request.header("sec-fetch-site", value);
        assert_eq!(
            alice
                .send("GET", &format!("{path}?after=0"), direct, "")
                .await
                .expect(200)
                .seqs(),
            [0_u64; 0]
        );
    }
}

#[tokio::test]
async fn compressed_bodies_wrong_methods_and_unknown_paths_are_refused() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let compressed = |request: hyper::http::request::Builder| {
        request
            .header("content-type", "application/json")
            .header("content-encoding", "gzip")
    };
    alice
        .send("POST", paths::ROOMS, compressed, "x")
        .await
        .problem(ErrorCode::UnsupportedMediaType);
    let answer = alice.send("DELETE", paths::ROOMS, |request| request, "").await;
    answer.problem(ErrorCode::MethodNotAllowed);
    assert!(answer.header("allow").contains("POST"));
    for path in [
        "/",
        "/v1",
        "/v1/rooms/",
        "/v1//rooms",
        "/v1/rooms/a/b/c",
        "/v2/rooms",
        "/v1/../healthz",
    ] {
        alice.get(path).await.problem(ErrorCode::NotFound);
    }
}

/// Requests that two readers could take apart differently: nothing behind them is served. (hyper sees to it. Of a
/// length and chunks it believes the chunks, which are empty here, and closes.)
#[tokio::test]
async fn ambiguous_framing_ends_the_connection() {
    let hub = TestHub::start().await;
    let host = format!("Host: {}", hub.address);
    let json = "Content-Type: application/json";
    let behind = format!("GET /healthz HTTP/1.1\r\n{host}\r\nConnection: close\r\n\r\n");
    for (what, head, body) in [
        (
            "length and chunks",
            "Content-Length: 4\r\nTransfer-Encoding: chunked",
            "0\r\n\r\n",
        ),
        ("two lengths", "Content-Length: 4\r\nContent-Length: 5", "{}  "),
        ("a length that is none", "Content-Length: +4", "{}  "),
        ("an unknown encoding", "Transfer-Encoding: xchunked", "0\r\n\r\n"),
        ("a folded header", "X-Folded: a\r\n b", ""),
        ("a NUL in a header", "X-Nul: a\0b", ""),
        ("a carriage return in a header", "X-Cr: a\rb", ""),
        ("a blank before the colon", "Content-Length : 4", "{}  "),
    ] {
        let request = format!("POST /v1/session HTTP/1.1\r\n{host}\r\n{json}\r\n{head}\r\n\r\n{body}{behind}");
        let answer = raw(hub.address, request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{what}: {answer}");
        assert!(!answer.contains("\"ok\""), "{what}: the request behind it was served");
    }
}

#[tokio::test]
async fn health_tells_that_the_hub_serves() {
    let hub = TestHub::start().await;
    let anybody = crate::support::Agent::new(hub.address, hub.id, "x");
    let health: serde_json::Value = anybody.get(paths::HEALTH).await.expect(200).json();
    assert_eq!(health["status"], "ok");
    assert_eq!(health["hub"], hub.id.to_string());
    assert!(health["version"].is_string());
}

#[tokio::test]
async fn a_client_that_trickles_is_given_up() {
    use std::time::Duration;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.header_timeout = Duration::from_millis(50);
        options.limits.stall_timeout = Duration::from_millis(50);
    })
    .await;
    // A head that never ends, and a connection that says nothing.
    for begin in [&b"GET /healthz HTTP/1.1\r\nHost: "[..], b""] {
        let mut stream = tokio::net::TcpStream::connect(hub.address).await.unwrap();
        stream.write_all(begin).await.unwrap();
        let mut got = Vec::new();
        let ended = in_time("its end", stream.read_to_end(&mut got)).await;
        // Without a word: nobody has asked anything yet.
        assert_eq!((ended.unwrap(), got.as_slice()), (0, &b""[..]));
    }
    // It was not the hub that ended.
    assert_eq!(
        status(&hub, &format!("GET /healthz HTTP/1.1\r\nHost: {}", hub.address)).await,
        200
    );
    // A body that stops coming.
    let request = format!(
        "POST /v1/session HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
        hub.address
    );
    let answer = raw(hub.address, request.as_bytes()).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_given_up() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.body_grace = std::time::Duration::ZERO;
        options.limits.min_body_rate = u64::MAX;
    })
    .await;
    let agent = crate::support::Agent::new(hub.address, hub.id, "slow");
    agent
        .post(paths::SESSION, &agent.proof(None))
        .await
        .problem(ErrorCode::RequestTimeout);
}

#[tokio::test]
async fn a_reader_that_takes_no_bytes_is_given_up() {
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.stall_timeout = Duration::from_millis(100);
        options.limits.max_connections = 1;
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await;
    // More than the kernel's buffers between the two hold.
    let bundle = vec![7; 32 << 20];
    let signed = crate::support::Push::new()
        .branch("x", None, Some(crate::support::oid('a')))
        .bundle(&bundle)
        .sign(&alice, &room);
    alice
        .post_with_blob(&room.room, &signed.body, &bundle)
        .await
        .expect(201)
        .head();
    let mut stream = tokio::net::TcpStream::connect(hub.address).await.unwrap();
    let path = paths::blob(&room.room, &parler_protocol::BundleId::of(&bundle));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        hub.address, alice.token
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // It holds the only place; the next client is served once it was given up.
    let next = tokio::time::timeout(Duration::from_secs(30), alice.get(paths::ROOMS)).await;
    assert_eq!(next.expect("the stalled reader was given up").status, 200);
}

/// Proofs are limited for each address. Whoever comes from this machine has a thousand times as many, so a header that
/// is believed shows at once.
#[tokio::test]
async fn only_a_trusted_proxy_says_whom_it_speaks_for() {
    use parler_hub::{ForwardedHeader, TrustedProxies};
    for (trusted, header, is_believed) in [
        ("", "x-forwarded-for", false),
        ("192.0.2.0/24", "x-forwarded-for", false),
        ("127.0.0.1", "x-forwarded-for", true),
        ("127.0.0.1", "forwarded", false),
    ] {
        let hub = TestHub::with(|options| {
            options.open = true;
            options.limits.proof_burst = 1;
            options.limits.proofs_per_minute = 1;
            options.proxies = TrustedProxies {
                networks: trusted.parse().into_iter().collect(),
                header: ForwardedHeader::XForwardedFor,
            };
        })
        .await;
        let agent = crate::support::Agent::new(hub.address, hub.id, "behind");
        let prove_as = async |client: &str| {
            // What a client says of itself stands before what the proxy adds.
            let said = match header {
                "forwarded" => format!("for=203.0.113.1, for={client}"),
                _ => format!("203.0.113.1, {client}"),
            };
            let proof = serde_json::to_vec(&agent.proof(Some(agent.challenge().await))).unwrap();
            let from = |request: hyper::http::request::Builder| {
                request.header("content-type", "application/json").header(header, said)
            };
            agent.send("POST", paths::SESSION, from, proof).await.status
        };
        assert_eq!(prove_as("198.51.100.1").await, 200, "{trusted} {header}");
        let second = if is_believed { 429 } else { 200 };
        assert_eq!(prove_as("198.51.100.1").await, second, "{trusted} {header}");
        assert_eq!(prove_as("198.51.100.2").await, 200, "{trusted} {header}");
    }
}
