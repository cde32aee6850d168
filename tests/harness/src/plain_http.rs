//! HTTP by hand, a connection for each request: nothing is sent twice, nothing is waited for behind a test's back, and
//! what became of a request that got no answer is left open.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::DEADLINE;

/// The holder of a token at a hub.
#[derive(Debug, Clone)]
pub struct PlainHttp {
    /// `127.0.0.1:PORT`
    pub authority: String,
    /// A session's token.
    pub token: String,
}

/// An answer, whole.
#[derive(Debug, Clone)]
pub struct PlainAnswer {
    /// The status.
    pub status: u16,
    /// The head, fields in lower case.
    pub head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl PlainAnswer {
    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The code of a problem; empty where it is none.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// A field of the head.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl PlainHttp {
    /// Asks once.
    ///
    /// # Errors
    /// Where no whole answer came: what was asked for may have been done or not.
    pub fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> io::Result<PlainAnswer> {
        let mut connection = TcpStream::connect(&self.authority)?;
        connection.set_read_timeout(Some(DEADLINE))?;
        connection.set_nodelay(true)?;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\nconnection: close\r\n",
            self.authority,
            self.token,
            body.len()
        );
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        let mut whole = request.into_bytes();
        whole.extend_from_slice(body);
        // A hub that has answered already need not take the rest.
        let sent = connection.write_all(&whole);
        let mut answer = Vec::new();
        let read = connection.read_to_end(&mut answer);
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let Some(end) = end else {
            sent?;
            read?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let body = answer.split_off(end + 4);
        let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let answer = PlainAnswer {
            status: status.ok_or(io::ErrorKind::InvalidData)?,
            head,
            body,
        };
        let announced = answer.field("content-length").and_then(|length| length.parse().ok());
        if announced.is_some_and(|length: usize| length != answer.body.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }

    /// Gets what must be there.
    #[track_caller]
    pub fn get(&self, path: &str) -> PlainAnswer {
        let answer = self.ask("GET", path, &[], b"").expect("a hub that answers");
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer
    }
}
