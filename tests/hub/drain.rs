//! Stopping in order.

use std::time::Duration;

use parler_protocol::paths;

use crate::support::{TestHub, in_time, raw, text_message};

#[tokio::test]
async fn waiting_readers_are_sent_home_and_idle_connections_closed() {
    let hub = TestHub::with(|options| {
        options.open = true;
        // Idle connections are not to be closed by this.
        options.limits.header_timeout = Duration::from_secs(60);
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let address = hub.address;
    let idle = tokio::net::TcpStream::connect(address).await.unwrap();
    let path = format!("{}?wait=50", paths::messages(&room));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\r\n",
            alice.token
        );
        waiting.spawn(async move { raw(address, request.as_bytes()).await });
    }
    // A request after all of theirs was answered: the hub has begun with them, or refuses them as it stops.
    alice.get(paths::ROOMS).await.expect(200).json::<serde_json::Value>();
    let stopped = hub.stop();
    tokio::time::timeout(Duration::from_secs(20), stopped)
        .await
        .expect("no reader is waited for")
        .unwrap()
        .unwrap();
    for answer in in_time("an answer to each", waiting.join_all()).await {
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    drop(idle);
    assert!(
        tokio::net::TcpStream::connect(address).await.is_err(),
        "nothing listens any more"
    );
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_a_restart() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    for index in 0..10 {
        alice
            .post(&paths::messages(&room), &text_message(&index.to_string()))
            .await
            .expect(201)
            .head();
    }
    let path = format!("{}?after=0", paths::messages(&room));
    let before = alice.get(&path).await.expect(200);
    let directory = std::sync::Arc::clone(&hub.directory);
    hub.stop().await.unwrap().unwrap();
    let hub = TestHub::on(directory, |_| ()).await;
    let alice = crate::support::Agent {
        address: hub.address,
        ..alice
    };
    let after = alice.get(&path).await.expect(200);
    assert_eq!((after.body.clone(), after.head()), (before.body.clone(), before.head()));
}

#[tokio::test]
async fn requests_that_take_too_long_are_cut_off() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.drain_timeout = Duration::from_millis(50);
    })
    .await;
    let address = hub.address;
    let mut slow = tokio::net::TcpStream::connect(address).await.unwrap();
    let begun = format!(
        "POST /v1/session HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n\
         Content-Length: 100\r\n\r\n"
    );
    tokio::io::AsyncWriteExt::write_all(&mut slow, begun.as_bytes())
        .await
        .unwrap();
    // The hub asks for the body, so it is in the middle of the request.
    let mut interim = [0; 8];
    tokio::io::AsyncReadExt::read_exact(&mut slow, &mut interim)
        .await
        .unwrap();
    let stopped = hub.stop();
    tokio::time::timeout(Duration::from_secs(20), stopped)
        .await
        .expect("cut off")
        .unwrap()
        .unwrap();
}
