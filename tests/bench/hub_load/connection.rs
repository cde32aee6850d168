//! One connection that is kept, and HTTP on it by hand: no pool and no retry stand between a figure and the hub.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use parler_harness::DEADLINE;
use parler_protocol::MessageId;

/// A connection of the holder of a token.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    fields: String,
    request: Vec<u8>,
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The body, where the status is this one.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Vec<u8> {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.body
    }
}

impl Connection {
    #[track_caller]
    pub(crate) fn open(authority: &str, token: &str) -> Self {
        let stream = TcpStream::connect(authority).expect("a hub that listens");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self {
            stream: BufReader::with_capacity(64 << 10, stream),
            fields: format!("Host: {authority}\r\nAuthorization: Bearer {token}\r\n"),
            request: Vec::new(),
        }
    }

    /// Asks, and reads the whole answer. `fields` are lines of the head, each with its end.
    #[track_caller]
    pub(crate) fn ask(&mut self, first: &str, fields: &str, body: &[&[u8]]) -> Answer {
        let length: usize = body.iter().map(|piece| piece.len()).sum();
        self.request.clear();
        write!(
            self.request,
            "{first} HTTP/1.1\r\n{}{fields}Content-Length: {length}\r\n\r\n",
            self.fields
        )
        .unwrap();
        for piece in body {
            self.request.extend_from_slice(piece);
        }
        self.stream.get_mut().write_all(&self.request).unwrap();
        self.answer()
    }

    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.ask(&format!("GET {path}"), "", &[])
    }

    /// Posts a message of these parts.
    #[track_caller]
    pub(crate) fn post(&mut self, first: &str, id: MessageId, parts: &str) -> Answer {
        let body = format!(r#"{{"id":"{id}","parts":{parts}}}"#);
        self.ask(first, "Content-Type: application/json\r\n", &[body.as_bytes()])
    }

    #[track_caller]
    fn answer(&mut self) -> Answer {
        let mut status = 0;
        let (mut length, mut is_chunked) = (0, false);
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(
                self.stream.read_line(&mut line).unwrap(),
                0,
                "the hub closes the connection"
            );
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            match line.split_once(": ") {
                None => status = line.split(' ').nth(1).unwrap().parse().unwrap(),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
                Some((name, _)) if name.eq_ignore_ascii_case("transfer-encoding") => is_chunked = true,
                Some(_) => {}
            }
        }
        let mut body = Vec::new();
        if !is_chunked {
            body.resize(length, 0);
            self.stream.read_exact(&mut body).unwrap();
            return Answer { status, body };
        }
        loop {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            let begin = body.len();
            // With the line end behind it.
            body.resize(begin + size + 2, 0);
            self.stream.read_exact(&mut body[begin..]).unwrap();
            body.truncate(begin + size);
            if size == 0 {
                return Answer { status, body };
            }
        }
    }
}
