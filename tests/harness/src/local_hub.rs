//! The local hub that commands started by themselves, as its file describes it.

use std::fs;
use std::path::Path;

use parler_client::Deadlines;
use parler_protocol::HubId;
use rustix::process::{Pid, Signal, kill_process};

use crate::process::end_process;
use crate::{Agent, RawClient, RequestLog, World};

/// A local hub that runs, or ran.
#[derive(Debug, Clone)]
pub struct LocalHub {
    /// Its process.
    pub process: u32,
    /// `http://127.0.0.1:PORT`
    pub url: String,
    /// Its id.
    pub id: HubId,
    secret: String,
    log: RequestLog,
}

impl LocalHub {
    /// The hub of this agent's home. Fails where none was ever started.
    #[track_caller]
    pub fn of(agent: &Agent<'_>) -> Self {
        let found = Self::if_any(&agent.parler_home());
        found.unwrap_or_else(|| panic!("no local hub in {}", agent.parler_home().display()))
    }

    /// The hub of this directory, if one was started there.
    pub fn if_any(parler_home: &Path) -> Option<Self> {
        let directory = parler_home.join("data/hub");
        let record: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("hub.json")).ok()?).ok()?;
        Some(Self {
            process: u32::try_from(record["pid"].as_u64()?).ok()?,
            url: record["address"].as_str()?.to_owned(),
            id: record["hub"].as_str()?.parse().ok()?,
            secret: record["secret"].as_str()?.to_owned(),
            log: RequestLog::of_local_hub(parler_home),
        })
    }

    /// Whether it runs in this world. Another process may have been given its number since.
    pub fn runs(&self, world: &World) -> bool {
        world.processes().contains(&self.process)
    }

    /// Ends it as a power cut would.
    #[track_caller]
    pub fn kill(&self, world: &World) {
        assert!(self.runs(world), "the local hub does not run");
        end_process(self.process);
    }

    /// Sends it a signal.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.process).ok().and_then(Pid::from_raw);
        kill_process(process.expect("the id of a process"), signal).expect("a hub that runs");
    }

    /// The log of its answers.
    pub fn log(&self) -> &RequestLog {
        &self.log
    }

    /// A new agent of this user, steered by hand.
    pub fn raw_client(&self, name: &str) -> RawClient {
        RawClient::with(&self.url, name, Some(self.secret.clone()), Deadlines::default())
    }
}
