//! Callers that hang up before they are answered: what is stored by then is told like everything else.

use parler_protocol::{RoomName, paths};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::membership::room_of_three;
use crate::streams::Stream;
use crate::support::{Agent, TestHub, text_message, until};

/// Sends a request, and hangs up.
async fn hang_up_after(agent: &Agent, method: &str, path: &str, body: &[u8]) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        agent.address,
        agent.token,
        body.len(),
    );
    let mut stream = TcpStream::connect(agent.address).await.unwrap();
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
    stream.shutdown().await.unwrap();
}

async fn watch(agent: &Agent, room: &RoomName) -> Stream {
    Stream::begin(agent, &format!("{}?after=0", paths::stream(room)), None).await
}

#[tokio::test]
async fn a_message_whose_author_has_hung_up_is_told() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let mut stream = watch(&bob, &room).await;
    for seq in 1..=20 {
        let body = serde_json::to_vec(&text_message("x")).unwrap();
        hang_up_after(&alice, "POST", &paths::messages(&room), &body).await;
        let event = stream.event().await;
        assert_eq!((event.name.as_str(), event.id), ("message", seq.to_string()));
    }
}

#[tokio::test]
async fn who_is_removed_by_somebody_who_has_hung_up_is_out_at_once() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let (of_bob, of_carol) = (watch(&bob, &room).await, watch(&carol, &room).await);
    hang_up_after(&alice, "DELETE", &paths::member(&room, &bob.id()), b"").await;
    of_bob.end().await;
    hang_up_after(&alice, "DELETE", &paths::room(&room), b"").await;
    of_carol.end().await;
    until("the room is gone", async || {
        alice.get(&paths::messages(&room)).await.status == 404
    })
    .await;
}
