//! A hub in a process of its own, which can be ended as a power cut would and started again on the same data and port.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpSocket;

use crate::process::{end_process, ends_by};
use crate::{DEADLINE, RequestLog, World};

/// What a hub says before its address.
const LISTENING: &str = "listening on ";

/// Makes the command that serves this data directory at this address.
type HubCommand = dyn Fn(&str, &Path) -> Command + Send + Sync;

/// A running hub. Ended when dropped.
pub struct HubProcess {
    command: Box<HubCommand>,
    data: PathBuf,
    child: Option<Child>,
    variables: Vec<(&'static str, OsString)>,
    said: Arc<Mutex<Vec<String>>>,
    scheme: String,
    address: String,
    /// Bound to the address while the hub does not run, and listening to nobody: no other hub is given its port then.
    held: Option<TcpSocket>,
    log: RequestLog,
}

impl HubProcess {
    /// Starts a hub at a port that the kernel chooses, on a data directory of this name in the world.
    #[track_caller]
    pub fn start(world: &World, name: &str, command: impl Fn(&str, &Path) -> Command + Send + Sync + 'static) -> Self {
        let mut hub = Self::not_started(world, name, command);
        hub.restart();
        hub
    }

    /// A hub that [`HubProcess::restart`] starts for the first time.
    pub fn not_started(
        world: &World,
        name: &str,
        command: impl Fn(&str, &Path) -> Command + Send + Sync + 'static,
    ) -> Self {
        let directory = world.directory(name);
        Self {
            command: Box::new(command),
            data: directory.join("data"),
            child: None,
            variables: Vec::new(),
            said: Arc::default(),
            scheme: "http".to_owned(),
            address: "127.0.0.1:0".to_owned(),
            held: None,
            log: RequestLog::at(directory.join("log")),
        }
    }

    /// The variables that it is started with from now on, besides those of its command.
    pub fn set_variables(&mut self, variables: Vec<(&'static str, OsString)>) {
        self.variables = variables;
    }

    /// One more of them.
    pub fn add_variable(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
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
        if let Err(status) = self.try_restart() {
            panic!("the hub says no address and ends: {status}\n{}", self.log.text());
        }
    }

    /// The same for a hub that may end before it serves.
    ///
    /// # Errors
    /// How it ended.
    #[track_caller]
    pub fn try_restart(&mut self) -> Result<(), ExitStatus> {
        assert!(self.child.is_none(), "the hub runs");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log.path())
            .expect("a log file");
        let mut command = (self.command)(&self.address, &self.data);
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
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
        let said = Arc::clone(&self.said);
        thread::spawn(move || {
            // Reads on after the address, so that the hub never writes into a pipe that nobody reads.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once(LISTENING) {
                    let _ = send.send(address.trim().to_owned());
                }
                said.lock().expect("no reader panics").push(line);
            }
        });
        match receive.recv_timeout(DEADLINE) {
            Ok(url) => {
                let (scheme, address) = url.split_once("://").expect("a URL");
                self.scheme = scheme.to_owned();
                self.address = address.to_owned();
                self.held = None;
                Ok(())
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.wait_for_end()),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("the hub says no address: {command:?}\n{}", self.log.text())
            }
        }
    }

    /// Its process, while it runs or was not waited for.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("a hub that was started").id()
    }

    /// Waits until it has ended by itself.
    #[track_caller]
    pub fn wait_for_end(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("a hub that was started");
        if !ends_by(Pid::from_child(&child), Instant::now() + DEADLINE) {
            self.child = Some(child);
            panic!("the hub does not end\n{}", self.log.text());
        }
        let status = child.wait().expect("our own child");
        self.hold_port();
        status
    }

    /// Asks it to end in good order, and waits until it has.
    #[track_caller]
    pub fn terminate(&mut self) -> ExitStatus {
        let child = self.child.as_ref().expect("a hub that was started");
        // One that has ended meanwhile needs no signal.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        self.wait_for_end()
    }

    /// Ends the hub as a power cut would.
    #[track_caller]
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            end_process(child.id());
            child.wait().expect("our own child");
            self.hold_port();
        }
    }

    /// Keeps the port from everybody who takes any, until the hub serves there again.
    fn hold_port(&mut self) {
        let hold = || -> io::Result<TcpSocket> {
            let socket = TcpSocket::new_v4()?;
            // Whoever asks for this very port gets it all the same.
            socket.set_reuseaddr(true)?;
            socket.bind(self.address.parse().map_err(io::Error::other)?)?;
            Ok(socket)
        };
        // Where somebody was faster a test has lost before it could know.
        self.held = hold().ok().or(self.held.take());
    }

    /// What it has said on standard output, in all its lives.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().expect("no reader panics").clone()
    }

    /// `http://127.0.0.1:PORT`, or https where it has a certificate.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
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
