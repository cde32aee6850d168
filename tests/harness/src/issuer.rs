//! A CI system's side of identity tokens: an issuer with keys of its own on loopback, which serves its public keys and, as
//! GitHub's runners do, tokens to whoever has the job's bearer. Signs whatever a test says; knows nothing of hubs.

mod signing_key;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};

pub use self::signing_key::{SigningKey, base64url};
use crate::DEADLINE;

/// What the issuer's runners ask for a token with.
const BEARER: &str = "runner-secret-5e1f";

/// What is answered where the keys are.
#[derive(Debug, Clone)]
pub enum KeysAnswer {
    /// The public keys.
    Keys,
    /// This, head and body.
    Raw(Vec<u8>),
    /// Nothing, on an open connection.
    Silence,
}

/// An issuer that runs until it is dropped.
pub struct Issuer {
    address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    serving: Option<JoinHandle<()>>,
}

struct Shared {
    public: Vec<Value>,
    keys_answer: KeysAnswer,
    /// How often the keys were asked for.
    asked: usize,
    /// The claims of the tokens that runners get, and what signs them.
    job: Option<(SigningKey, Value)>,
    /// The query of each request for a token.
    requests: Vec<String>,
    /// How many tokens of the job there were.
    signed: usize,
    /// Open connections that get nothing.
    silent: Vec<TcpStream>,
    is_over: bool,
}

impl Issuer {
    /// An issuer with these keys.
    pub fn start(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Mutex::new(Shared {
            public: keys.iter().map(|key| key.public()).collect(),
            keys_answer: KeysAnswer::Keys,
            asked: 0,
            job: None,
            requests: Vec::new(),
            signed: 0,
            silent: Vec::new(),
            is_over: false,
        }));
        let of_thread = Arc::clone(&shared);
        let serving = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if lock(&of_thread).is_over {
                    return;
                }
                // One after the other: nobody asks twice at once.
                if let Ok(stream) = stream {
                    let _ = answer(stream, &of_thread);
                }
            }
        });
        Self {
            address,
            shared,
            serving: Some(serving),
        }
    }

    /// What its tokens have as `iss`.
    pub fn name(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where its keys are.
    pub fn keys_address(&self) -> String {
        format!("http://{}/keys", self.address)
    }

    /// Other keys from now on.
    pub fn rotate(&self, keys: &[&SigningKey]) {
        lock(&self.shared).public = keys.iter().map(|key| key.public()).collect();
    }

    /// Answers so, where the keys are, from now on.
    pub fn answer_keys(&self, answer: KeysAnswer) {
        lock(&self.shared).keys_answer = answer;
    }

    /// How often its keys were asked for.
    pub fn asked(&self) -> usize {
        lock(&self.shared).asked
    }

    /// Runs a job: its runner gets tokens with these claims, `jti` and times of the request and the audience it names
    /// besides. Returns the variables of GitHub's runners.
    pub fn run_job(&self, key: SigningKey, claims: Value) -> [(&'static str, String); 2] {
        lock(&self.shared).job = Some((key, claims));
        let url = format!("http://{}/token?api-version=2", self.address);
        [
            ("ACTIONS_ID_TOKEN_REQUEST_URL", url),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", BEARER.to_owned()),
        ]
    }

    /// A token of that job, as its CI system gives it without being asked.
    pub fn job_token(&self, audience: &str) -> String {
        lock(&self.shared).job_token(audience)
    }

    /// What runners asked for, each as the path with its query.
    pub fn token_requests(&self) -> Vec<String> {
        lock(&self.shared).requests.clone()
    }
}

impl Shared {
    fn job_token(&mut self, audience: &str) -> String {
        self.signed += 1;
        let (key, claims) = self.job.as_ref().expect("a job runs");
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let mut claims = claims.clone();
        claims["aud"] = audience.into();
        claims["jti"] = format!("token {}", self.signed).into();
        (claims["iat"], claims["nbf"], claims["exp"]) = (now.into(), now.into(), (now + 300).into());
        key.sign(&claims)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        {
            let mut shared = lock(&self.shared);
            shared.is_over = true;
            shared.silent.clear();
        }
        // Wakes the thread, which ends.
        let _ = TcpStream::connect(self.address);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answer(mut stream: TcpStream, shared: &Mutex<Shared>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(DEADLINE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut first, mut has_bearer) = (String::new(), false);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        has_bearer |= name.eq_ignore_ascii_case("authorization") && value.trim() == format!("Bearer {BEARER}");
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let mut shared = lock(shared);
    let (status, body) = if path == "/keys" {
        shared.asked += 1;
        match shared.keys_answer.clone() {
            KeysAnswer::Keys => ("200 OK", json!({ "keys": shared.public })),
            KeysAnswer::Raw(bytes) => {
                drop(shared);
                return stream.write_all(&bytes);
            }
            KeysAnswer::Silence => {
                shared.silent.push(stream);
                return Ok(());
            }
        }
    } else if let (Some(audience), true) = (path.split_once("&audience="), has_bearer) {
        shared.requests.push(path.to_owned());
        ("200 OK", json!({ "value": shared.job_token(&decoded(audience.1)) }))
    } else {
        ("403 Forbidden", json!({}))
    };
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// A value of a query.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = |rest: &mut std::str::Bytes<'_>| {
            let digits = [rest.next()?, rest.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()
        };
        bytes.push(if byte == b'%' {
            digits(&mut rest).unwrap_or(b'?')
        } else {
            byte
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
