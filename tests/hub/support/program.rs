//! The program `parler-hub` in a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

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
    log: Option<JoinHandle<String>>,
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
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut stderr = child.stderr.take().unwrap();
        // Read all the time, so that the hub never waits for a reader.
        let log = std::thread::spawn(move || {
            let mut log = Vec::new();
            let _ = stderr.read_to_end(&mut log);
            String::from_utf8_lossy(&log).into_owned()
        });
        let mut said = Vec::new();
        let address = loop {
            let Some(Ok(line)) = stdout.next() else {
                panic!("it does not listen: {}", log.join().unwrap());
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
            log: Some(log),
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

    /// Asks it to stop, and returns whether it ended well and what it logged.
    pub(crate) fn end(mut self, signal: Signal) -> (bool, String) {
        self.signal(signal);
        let log = self.log.take().unwrap().join().unwrap();
        (self.child.wait().unwrap().success(), log)
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
