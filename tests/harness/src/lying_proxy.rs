//! An HTTP proxy before a hub that tells the truth until it is told to lie: it hands on each request, and a rule of the
//! test's decides what becomes of the answer. One request a connection; no streams.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::DEADLINE;

/// A request, as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Method and target, such as `GET /v1/rooms`.
    pub line: String,
    /// The header lines behind it.
    pub headers: Vec<String>,
    /// How many requests with the same line came before.
    pub before: usize,
}

impl Asked {
    /// The value of a header, whose name is given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.headers.iter().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim())
    }
}

/// What the client is answered.
#[derive(Debug, Clone)]
pub enum Lie {
    /// What the hub has said.
    Truth,
    /// Another answer, head and body.
    Instead(Vec<u8>),
    /// This first, and then its end again and again until the client has gone.
    Endless(Vec<u8>, Vec<u8>),
}

/// What the hub has answered.
#[derive(Debug, Clone)]
pub struct Told {
    /// Status line and headers, without the empty line.
    pub head: String,
    /// The body's bytes. A body in pieces stands here as it came.
    pub body: Vec<u8>,
}

impl Told {
    /// The same answer with another body, whose length is said right.
    pub fn with_body(&self, body: &[u8]) -> Lie {
        self.said_to_be(body.len(), body)
    }

    /// An answer of this body that says it has so many bytes.
    pub fn said_to_be(&self, length: usize, body: &[u8]) -> Lie {
        let is_kept = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            !["content-length", "transfer-encoding"].contains(&name.to_ascii_lowercase().as_str())
        };
        let kept: Vec<_> = self.head.lines().filter(is_kept).collect();
        let head = format!("{}\r\nContent-Length: {length}\r\n\r\n", kept.join("\r\n"));
        Lie::Instead([head.as_bytes(), body].concat())
    }
}

type Rule = dyn Fn(&Asked, &Told) -> Lie + Send + Sync;

struct Shared {
    hub: Mutex<String>,
    rule: Mutex<Arc<Rule>>,
    asked: Mutex<Vec<Asked>>,
}

/// The proxy.
pub struct LyingProxy {
    authority: String,
    shared: Arc<Shared>,
}

impl LyingProxy {
    /// Listens at a port that the kernel chooses. A hub has to be told of this authority before it serves behind it.
    #[track_caller]
    pub fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let authority = listener.local_addr().expect("just bound").to_string();
        let truth: Arc<Rule> = Arc::new(|_: &Asked, _: &Told| Lie::Truth);
        let shared = Arc::new(Shared {
            hub: Mutex::default(),
            rule: Mutex::new(truth),
            asked: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        // Gone with the test's process, as each connection is with its client.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let serving = Arc::clone(&serving);
                thread::spawn(move || serving.serve(stream));
            }
        });
        Self { authority, shared }
    }

    /// Whom to lead to, `127.0.0.1:PORT`.
    pub fn lead_to(&self, hub: &str) {
        hub.clone_into(&mut lock(&self.shared.hub));
    }

    /// `127.0.0.1:PORT`
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// Decides from now on what becomes of answers.
    pub fn tell(&self, rule: impl Fn(&Asked, &Told) -> Lie + Send + Sync + 'static) {
        *lock(&self.shared.rule) = Arc::new(rule);
        lock(&self.shared.asked).clear();
    }

    /// What was asked since the rule was made.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.shared.asked).clone()
    }
}

impl Shared {
    /// Whoever goes away in the middle is nobody to complain to.
    fn serve(&self, client: TcpStream) -> Option<()> {
        // Nobody is waited for longer than a test waits.
        client.set_read_timeout(Some(DEADLINE)).ok()?;
        let mut reader = BufReader::new(client.try_clone().ok()?);
        let (line, headers) = read_head(&mut reader)?;
        let mut asked = Asked {
            line: line.trim_end_matches(" HTTP/1.1").to_owned(),
            headers,
            before: 0,
        };
        let length = asked.header("content-length").and_then(|length| length.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        {
            let mut all = lock(&self.asked);
            asked.before = all.iter().filter(|other| other.line == asked.line).count();
            all.push(asked.clone());
        }

        let mut hub = TcpStream::connect(lock(&self.hub).as_str()).ok()?;
        hub.set_read_timeout(Some(DEADLINE)).ok()?;
        let kept: Vec<_> = asked
            .headers
            .iter()
            .filter(|line| !is_connection(line))
            .cloned()
            .collect();
        let head = format!("{line}\r\n{}\r\nConnection: close\r\n\r\n", kept.join("\r\n"));
        hub.write_all(&[head.as_bytes(), &body].concat()).ok()?;
        let mut answer = Vec::new();
        hub.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let told = Told {
            head: String::from_utf8_lossy(&answer[..end]).into_owned(),
            body: answer[end + 4..].to_vec(),
        };

        let rule = Arc::clone(&lock(&self.rule));
        let mut client = client;
        match rule(&asked, &told) {
            Lie::Truth => client.write_all(&answer).ok(),
            Lie::Instead(other) => client.write_all(&other).ok(),
            Lie::Endless(first, more) => {
                client.set_write_timeout(Some(DEADLINE)).ok()?;
                client.write_all(&first).ok()?;
                let begun = Instant::now();
                while begun.elapsed() < DEADLINE && client.write_all(&more).is_ok() {}
                None
            }
        }
    }
}

fn is_connection(line: &str) -> bool {
    line.to_ascii_lowercase().starts_with("connection:")
}

fn read_head(reader: &mut impl BufRead) -> Option<(String, Vec<String>)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers = lines.split_off(1.min(lines.len()));
    Some((lines.pop()?, headers))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
