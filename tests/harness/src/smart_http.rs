//! A plain git server beside which rooms are judged: `git http-backend` as a CGI program behind a small HTTP server.
//! It serves what lies in a world, to everybody, with leave to push; what a repository allows is its own configuration.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header, request};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

use crate::{DEADLINE, World};

/// Bytes that are handed on at once.
const PIECE: usize = 64 << 10;

/// Pieces that may wait for their reader.
const PIECES: usize = 4;

/// The server. Gone when dropped, with every process it started.
#[derive(Debug)]
pub struct SmartHttp {
    address: SocketAddr,
    site: Arc<Site>,
    runtime: Option<Runtime>,
}

/// What the answers are made of.
#[derive(Debug)]
struct Site {
    root: PathBuf,
    environment: Vec<(OsString, OsString)>,
    log: PathBuf,
    running: Mutex<BTreeSet<u32>>,
}

/// The head of a CGI program's answer.
struct Head {
    status: StatusCode,
    headers: Vec<(String, String)>,
}

impl SmartHttp {
    /// Serves the repositories of a world at a port that the kernel chooses.
    ///
    /// # Panics
    /// When there is no port.
    #[track_caller]
    pub fn serve(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("just bound");
        let environment = world.environment();
        let site = Arc::new(Site {
            root: world.path(),
            environment: environment.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            log: world.path().join(format!("smart-http-{}.log", address.port())),
            running: Mutex::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a thread");
        let router = Router::new().fallback(answer).with_state(Arc::clone(&site));
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
            axum::serve(listener, router).await
        });
        Self {
            address,
            site,
            runtime: Some(runtime),
        }
    }

    /// The address of a repository of the world, given by its path there or a whole one.
    pub fn url(&self, repository: impl AsRef<Path>) -> String {
        let path = self.site.root.join(repository);
        let path = path.strip_prefix(&self.site.root).expect("a path of the world");
        let mut url = format!("http://{}", self.address);
        for part in path {
            url.push('/');
            for &byte in part.as_encoded_bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
                    _ => url.push_str(&format!("%{byte:02X}")),
                }
            }
        }
        url
    }

    /// What the programs behind it have complained of so far.
    pub fn complaints(&self) -> String {
        std::fs::read_to_string(&self.site.log).unwrap_or_default()
    }
}

impl Drop for SmartHttp {
    fn drop(&mut self) {
        for process in &*self.site.running() {
            end_group(*process);
        }
        if let Some(runtime) = self.runtime.take() {
            // The threads that wait for a program have seen it end.
            runtime.shutdown_timeout(DEADLINE);
        }
    }
}

/// Answers one request with what the CGI program says.
async fn answer(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let command = site.command(&parts);
    let (to_program, from_client) = mpsc::channel(PIECES);
    let (to_client, from_program) = mpsc::channel(PIECES);
    let (tell_head, head) = oneshot::channel();
    spawn_blocking(move || site.run(command, from_client, tell_head, &to_client));
    // On its own, because the program may begin to answer before it has read everything.
    tokio::spawn(async move {
        let mut body = body.into_data_stream();
        while let Some(Ok(piece)) = body.next().await {
            if to_program.send(piece).await.is_err() {
                return;
            }
        }
    });
    let Ok(head) = head.await else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the program said nothing\n").into_response();
    };
    let pieces = stream::unfold(from_program, |mut pieces| async {
        let piece: Bytes = pieces.recv().await?;
        Some((Ok::<_, Infallible>(piece), pieces))
    });
    let mut response = Response::builder().status(head.status);
    for (name, value) in head.headers {
        response = response.header(name, value);
    }
    response
        .body(Body::from_stream(pieces))
        .unwrap_or_else(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response())
}

impl Site {
    fn running(&self) -> std::sync::MutexGuard<'_, BTreeSet<u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program with the variables of RFC 3875 that it reads.
    fn command(&self, parts: &request::Parts) -> Command {
        let header = |name: HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let mut command = Command::new("git");
        command
            .arg("http-backend")
            .current_dir(&self.root)
            .env_clear()
            .envs(self.environment.iter().cloned())
            .env("GATEWAY_INTERFACE", "CGI/1.1")
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("PATH_INFO", decoded(parts.uri.path()))
            .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
            .env("REMOTE_ADDR", "127.0.0.1")
            .env("REMOTE_USER", "somebody")
            .env("REQUEST_METHOD", parts.method.as_str());
        for (variable, name) in [
            ("CONTENT_LENGTH", header::CONTENT_LENGTH),
            ("CONTENT_TYPE", header::CONTENT_TYPE),
            ("GIT_PROTOCOL", HeaderName::from_static("git-protocol")),
            ("HTTP_ACCEPT_ENCODING", header::ACCEPT_ENCODING),
            ("HTTP_CONTENT_ENCODING", header::CONTENT_ENCODING),
        ] {
            if let Some(value) = header(name) {
                command.env(variable, value);
            }
        }
        command
    }

    /// Runs the program to its end.
    fn run(
        &self,
        mut command: Command,
        input: mpsc::Receiver<Bytes>,
        tell_head: oneshot::Sender<Head>,
        output: &mpsc::Sender<Bytes>,
    ) {
        let log = File::options().create(true).append(true).open(&self.log);
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.map_or_else(|_| Stdio::null(), Stdio::from));
        let Ok(mut child) = command.spawn() else {
            return; // Whoever waits for the head answers 500.
        };
        self.running().insert(child.id());
        let carried = carry(&mut child, input, tell_head, output);
        if carried.is_err() {
            // Nobody listens any more.
            end_group(child.id());
        }
        // However it ended, its answer ends as any other does, which is how web servers take a CGI program's end: were
        // the connection cut, what it said last, often why it failed, could be lost. That much is missing, git sees itself.
        let _ = child.wait();
        self.running().remove(&child.id());
    }
}

/// Ends a program with all that it started, hooks among them.
fn end_group(leader: u32) {
    let pid = i32::try_from(leader).ok().and_then(Pid::from_raw);
    // Who is gone already needs no signal.
    let _ = kill_process_group(pid.expect("the id of a process"), Signal::KILL);
}

/// Hands the client's bytes to the program, and the program's to the client.
fn carry(
    child: &mut Child,
    mut input: mpsc::Receiver<Bytes>,
    tell_head: oneshot::Sender<Head>,
    output: &mpsc::Sender<Bytes>,
) -> io::Result<()> {
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = BufReader::with_capacity(PIECE, child.stdout.take().expect("piped"));
    std::thread::spawn(move || {
        while let Some(piece) = input.blocking_recv() {
            if stdin.write_all(&piece).is_err() {
                return; // It has heard enough.
            }
        }
    });
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    tell_head.send(read_head(&mut stdout)?).map_err(|_| gone())?;
    loop {
        let mut piece = vec![0; PIECE];
        let read = stdout.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        piece.truncate(read);
        output.blocking_send(piece.into()).map_err(|_| gone())?;
    }
}

fn read_head(from: &mut impl BufRead) -> io::Result<Head> {
    let mut head = Head {
        status: StatusCode::OK,
        headers: Vec::new(),
    };
    loop {
        let mut line = String::new();
        from.read_line(&mut line)?;
        let line = line.trim_end();
        let Some((name, value)) = line.split_once(": ") else {
            return match line.is_empty() && !head.headers.is_empty() {
                true => Ok(head),
                false => Err(io::ErrorKind::InvalidData.into()),
            };
        };
        if name.eq_ignore_ascii_case("status") {
            let code = value.split(' ').next().unwrap_or_default();
            head.status = code.parse().map_err(io::Error::other)?;
        } else {
            head.headers.push((name.to_owned(), value.to_owned()));
        }
    }
}

/// A path without its `%XX`.
fn decoded(path: &str) -> OsString {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            _ => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes)
}
