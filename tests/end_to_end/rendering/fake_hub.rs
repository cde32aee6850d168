//! A hub that says whatever it is told to: each call gets the same answer, of the wire's form or of none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A hub that answers every call, once it has given a session, with the same thing.
pub(super) struct FakeHub {
    pub(super) url: String,
    answer: Arc<Mutex<(u16, String)>>,
}

impl FakeHub {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answer = Arc::new(Mutex::new((200, String::new())));
        let shared = Arc::clone(&answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { url, answer }
    }

    /// Answers with this from now on.
    pub(super) fn answer(&self, status: u16, body: String) {
        *self.answer.lock().unwrap() = (status, body);
    }
}

/// Answers one request.
fn serve(mut stream: TcpStream, answer: &Mutex<(u16, String)>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let is_proof = String::from_utf8_lossy(&body).contains("\"sig\"");
    let (status, body) = match first.contains("/v1/session") {
        true if is_proof => (200, fixture("session-answer.json")),
        true => (401, fixture("problem-unauthenticated.json")),
        false => answer.lock().unwrap().clone(),
    };
    let kind = if status >= 400 {
        "application/problem+json"
    } else {
        "application/json"
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body.as_bytes()));
}

/// Where the wire's fixtures are.
pub(super) fn wire() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/wire")
}

/// What one of them holds.
pub(super) fn fixture(name: &str) -> String {
    std::fs::read_to_string(wire().join(name)).unwrap()
}
