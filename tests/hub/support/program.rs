//! The program `parler-hub` in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use parler_harness::DEADLINE;
use parler_protocol::{HubId, paths};
use rustix::process::{Pid, Signal, kill_process};

use super::Agent;

/// The program with nothing in its environment.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parler-hub"));
    command.env_clear();
    command
}

/// A running hub, killed when the test ends.
pub(crate) struct RunningProgram {
    child: Child,
    pub(crate) address: SocketAddr,
    /// What it said on stdout before it listened.
    pub(crate) said: Vec<String>,
    /// What it has logged so far, and when there is more.
    log: Arc<(Mutex<String>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

impl RunningProgram {
    /// An open hub on this directory that logs JSON.
    pub(crate) fn start(data: &Path) -> Self {
        Self::with(data, |command| {
            command.args(["--open", "--log", "json"]);
        })
    }

    /// A hub on this directory with further options.
    pub(crate) fn with(data: &Path, further: impl FnOnce(&mut Command)) -> Self {
        let mut command = program();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        further(&mut command);
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let log: Arc<(Mutex<String>, Condvar)> = Arc::default();
        let written = Arc::clone(&log);
        // Read all the time, so that the hub never waits for a reader.
        let reader = std::thread::spawn(move || {
            let mut line = Vec::new();
            while stderr.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                written.0.lock().unwrap().push_str(&String::from_utf8_lossy(&line));
                written.1.notify_all();
                line.clear();
            }
        });
        let (tell, lines) = mpsc::channel();
        // Whoever listened is gone once it serves.
        std::thread::spawn(move || {
            stdout
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        let mut said = Vec::new();
        let address = loop {
            let line = match lines.recv_timeout(DEADLINE) {
                Ok(line) => line,
                Err(why) => {
                    if why == RecvTimeoutError::Timeout {
                        child.kill().unwrap();
                    }
                    reader.join().unwrap();
                    panic!("it does not listen: {}", log.0.lock().unwrap());
                }
            };
            let address = line.strip_prefix("listening on ").and_then(|url| url.split_once("://"));
            match address {
                Some((_, address)) => break address.parse().unwrap(),
                None => said.push(line),
            }
        };
        Self {
            child,
            address,
            said,
            log,
            reader: Some(reader),
        }
    }

    /// An agent with a new key and no session.
    pub(crate) async fn stranger(&self, name: &str) -> Agent {
        let anybody = Agent::new(self.address, HubId::from_bytes([0; 16]), name);
        let health: serde_json::Value = anybody.get(paths::HEALTH).await.expect(200).json();
        Agent {
            hub: health["hub"].as_str().unwrap().parse().unwrap(),
            ..anybody
        }
    }

    /// An agent with a new key and an open session.
    pub(crate) async fn agent(&self, name: &str) -> Agent {
        let mut agent = self.stranger(name).await;
        agent.open_session().await;
        agent
    }

    /// The most memory it has held so far, in KiB.
    pub(crate) fn peak_kib(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until it has logged this.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, words: &str) {
        let log = self.log.0.lock().unwrap();
        let is_missing = |log: &mut String| !log.contains(words);
        let (log, waited) = self.log.1.wait_timeout_while(log, DEADLINE, is_missing).unwrap();
        assert!(!waited.timed_out(), "{words} is not in {log}");
    }

    /// Asks it to stop, and returns whether it ended well and what it logged.
    pub(crate) fn end(mut self, signal: Signal) -> (bool, String) {
        self.signal(signal);
        self.reader.take().unwrap().join().unwrap();
        let log = std::mem::take(&mut *self.log.0.lock().unwrap());
        (self.child.wait().unwrap().success(), log)
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
