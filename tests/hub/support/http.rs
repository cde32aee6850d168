//! Plain HTTP: one connection for each request.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Agent, Answer, in_time};

/// Sends a request as it is and reads the whole answer.
pub(crate) async fn request(address: SocketAddr, request: Request<Bytes>) -> Answer {
    let asked = format!("{} {}", request.method(), request.uri());
    in_time(&asked, answered(address, request)).await
}

async fn answered(address: SocketAddr, request: Request<Bytes>) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request.map(Full::new)).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    drop(sender);
    // The hub may close first, which is no error of the answer's.
    let _ = connection.await.unwrap();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body,
    }
}

/// Sends bytes that may be no HTTP at all, says nothing more, and reads what comes until the hub closes.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let read = in_time("the end of the connection", stream.read_to_end(&mut answer)).await;
    read.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a request with this body, JSON or none, whose connection is over with its answer: one that may be long, or cut off.
pub(crate) async fn ask_closing(agent: &Agent, method: &str, path: &str, body: &str) -> TcpStream {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        agent.address,
        agent.token,
        body.len()
    );
    let mut stream = TcpStream::connect(agent.address).await.unwrap();
    stream.write_all((head + body).as_bytes()).await.unwrap();
    stream
}

/// What comes until the connection ends, however it does: the length that the answer announces, and its body.
pub(crate) async fn cut_off(mut stream: TcpStream) -> (usize, Vec<u8>) {
    let mut got = Vec::new();
    let _ = in_time("the end of the connection", stream.read_to_end(&mut got)).await;
    let end = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    let body = got.split_off(end);
    let head = String::from_utf8(got).unwrap().to_ascii_lowercase();
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    (announced.unwrap().parse().unwrap(), body)
}
