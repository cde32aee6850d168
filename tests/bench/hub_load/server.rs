//! The hub that is measured, and what the kernel and the hub itself tell of it.

use std::fs;

use parler_harness::{HubProcess, PlainHttp, World, context_switches, peak_memory_kib};

/// What the kernel counts processor time in.
const TICK_MICROSECONDS: f64 = 10_000.0;
/// Enough for every watcher.
const CONNECTIONS: &str = "14000";

/// A hub of its own.
pub(crate) struct Server {
    pub(crate) hub: HubProcess,
}

impl Server {
    /// A hub that does not run yet, quiet, with measurements.
    pub(crate) fn not_started(world: &World, name: &str) -> Self {
        let mut hub = HubProcess::not_started(world, name, HubProcess::program(env!("CARGO_BIN_EXE_parler-hub")));
        hub.add_variable("PARLER_HUB_MAX_CONNECTIONS", CONNECTIONS);
        hub.add_variable("PARLER_HUB_METRICS_LISTEN", "127.0.0.1:0");
        hub.add_variable("PARLER_HUB_LOG", "warn");
        Self { hub }
    }

    /// A hub that runs.
    pub(crate) fn start(world: &World, name: &str) -> Self {
        let mut server = Self::not_started(world, name);
        server.hub.restart();
        server
    }

    /// Processor time so far, user and system, in microseconds.
    pub(crate) fn processor_us(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.hub.pid())).unwrap();
        // The second field is a name in parentheses that may hold blanks; 14 and 15 are the times.
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split_whitespace().collect();
        (fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap()) * TICK_MICROSECONDS
    }

    /// What it holds now, in MiB.
    pub(crate) fn memory_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.hub.pid())).unwrap();
        let now = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        now.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    }

    /// What it has held at most, in MiB.
    pub(crate) fn peak_mib(&self) -> f64 {
        peak_memory_kib(self.hub.pid()) as f64 / 1024.0
    }

    /// How often its threads were put to work or aside.
    pub(crate) fn switches(&self) -> u64 {
        context_switches(self.hub.pid())
    }

    /// Commits to its database so far.
    pub(crate) fn commits(&self) -> u64 {
        let said = self.hub.said();
        let address = said
            .iter()
            .rev()
            .find_map(|line| line.strip_prefix("metrics on http://"));
        let http = PlainHttp {
            authority: address.unwrap().trim_end_matches("/metrics").to_owned(),
            token: String::new(),
        };
        let page = String::from_utf8(http.get("/metrics").body).unwrap();
        let count = page
            .lines()
            .find_map(|line| line.strip_prefix("parler_hub_commit_seconds_count "));
        count.unwrap().parse().unwrap()
    }
}
