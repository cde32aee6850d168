//! A hub in a process of its own, which can be ended as a power cut would and started again on the same data and port;
//! and the log of its answers, which any hub writes.

use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::process::end_process;
use crate::{DEADLINE, World};

/// What a hub says before its address.
const LISTENING: &str = "listening on http://";

/// Makes the command that serves this data directory at this address.
type HubCommand = dyn Fn(&str, &Path) -> Command + Send + Sync;

/// A running hub. Ended when dropped.
pub struct HubProcess {
    command: Box<HubCommand>,
    data: PathBuf,
    child: Option<Child>,
    address: String,
    log: RequestLog,
}

impl HubProcess {
    /// Starts a hub at a port that the kernel chooses, on a data directory of this name in the world.
    #[track_caller]
    pub fn start(world: &World, name: &str, command: impl Fn(&str, &Path) -> Command + Send + Sync + 'static) -> Self {
        let directory = world.directory(name);
        let mut hub = Self {
            command: Box::new(command),
            data: directory.join("data"),
            child: None,
            address: "127.0.0.1:0".to_owned(),
            log: RequestLog {
                path: directory.join("log"),
            },
        };
        hub.restart();
        hub
    }

    /// `parler-hub serve`, open to every key.
    pub fn program(executable: impl Into<PathBuf>) -> impl Fn(&str, &Path) -> Command {
        let executable = executable.into();
        move |listen, data| {
            let mut command = Command::new(&executable);
            command
                .args(["serve", "--open", "--listen", listen, "--data"])
                .arg(data)
                .env_clear();
            command
        }
    }

    /// Starts the hub again where it was, and waits until it serves.
    #[track_caller]
    pub fn restart(&mut self) {
        assert!(self.child.is_none(), "the hub runs");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log.path)
            .expect("a log file");
        let mut command = (self.command)(&self.address, &self.data);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().expect("piped");
        self.child = Some(child);
        let (send, receive) = mpsc::channel();
        thread::spawn(move || {
            // Reads on after the address, so that the hub never writes into a pipe that nobody reads.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once(LISTENING) {
                    let _ = send.send(address.trim().to_owned());
                }
            }
        });
        match receive.recv_timeout(DEADLINE) {
            Ok(address) => self.address = address,
            Err(_) => panic!("the hub says no address: {command:?}\n{}", self.log.text()),
        }
    }

    /// Ends the hub as a power cut would.
    #[track_caller]
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            end_process(child.id());
            child.wait().expect("our own child");
        }
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `127.0.0.1:PORT`
    pub fn authority(&self) -> &str {
        &self.address
    }

    /// The body that a GET of this path answers 200 with, for the holder of this token.
    #[track_caller]
    pub fn get(&self, path: &str, token: &str) -> Vec<u8> {
        let mut connection = TcpStream::connect(&self.address).expect("a hub that listens");
        connection
            .set_read_timeout(Some(DEADLINE))
            .expect("a deadline that is not zero");
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n",
            self.address
        );
        connection.write_all(head.as_bytes()).expect("a hub that listens");
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).expect("an answer");
        let end = answer
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .expect("the end of the answer's head");
        let body = answer.split_off(end + 4);
        assert!(
            answer.starts_with(b"HTTP/1.1 200 "),
            "{}",
            String::from_utf8_lossy(&answer)
        );
        body
    }

    /// Where it keeps its data.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The log of its answers.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }
}

impl Drop for HubProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl fmt::Debug for HubProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HubProcess {{ {}, {} }}", self.address, self.data.display())
    }
}

/// The log of a hub's answers: one line each, written before the answer is sent.
#[derive(Debug, Clone)]
pub struct RequestLog {
    path: PathBuf,
}

/// How far a log had been written at some time.
#[derive(Debug, Clone, Copy)]
pub struct Mark(usize);

impl RequestLog {
    /// The log of the local hub of this home.
    pub(crate) fn of_local_hub(parler_home: &Path) -> Self {
        Self {
            path: parler_home.join("data/hub/hub.log"),
        }
    }

    /// Now.
    pub fn mark(&self) -> Mark {
        Mark(self.text().len())
    }

    /// The answers since then, as `METHOD ROUTE STATUS`.
    pub fn since(&self, mark: Mark) -> Vec<String> {
        self.text()[mark.0..].lines().filter_map(request_line).collect()
    }

    /// All of it.
    pub fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }
}

/// `GET /v1/rooms/{room}/pushes 200` of a log line about an answer, in the log's text or JSON form.
fn request_line(line: &str) -> Option<String> {
    if let Ok(line) = serde_json::from_str::<serde_json::Value>(line) {
        let fields = if line["fields"].is_object() {
            &line["fields"]
        } else {
            &line
        };
        let is_answer = fields["message"] == "request";
        return is_answer.then(|| {
            format!(
                "{} {} {}",
                text(&fields["method"]),
                text(&fields["route"]),
                fields["status"]
            )
        });
    }
    if !line.contains(" request ") {
        return None;
    }
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!(" {name}="))?;
        Some(rest.split(' ').next().unwrap_or(rest).trim_matches('"').to_owned())
    };
    Some(format!("{} {} {}", field("method")?, field("route")?, field("status")?))
}

fn text(value: &serde_json::Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::request_line;

    #[test]
    fn both_forms_of_the_log_are_read() {
        let text = r#"2026-11-29T19:00:00Z  INFO parler_hub::access_log: request method="GET" route="/v1/rooms/{room}/pushes" status=304 elapsed_us=12"#;
        let json = r#"{"timestamp":"x","level":"INFO","fields":{"message":"request","method":"GET","route":"/v1/rooms/{room}/pushes","status":304}}"#;
        for line in [text, json] {
            assert_eq!(
                request_line(line).as_deref(),
                Some("GET /v1/rooms/{room}/pushes 304"),
                "{line}"
            );
        }
        assert_eq!(request_line("INFO parler_hub: opened data format=1"), None);
    }
}
