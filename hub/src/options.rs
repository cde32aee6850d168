//! How a hub is to run. Nothing here is read from the environment: the program that embeds a hub decides.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use parler_protocol::{AgentId, limits};

use crate::clock::Clock;

/// What a hub is opened with.
#[derive(Debug, Clone)]
pub struct HubOptions {
    /// Where the hub keeps everything. Made when it does not exist.
    pub data_dir: PathBuf,
    /// Whether any key is let in. Otherwise a key needs an invite, or to be an owner.
    pub open: bool,
    /// The rules of a hub that serves one user of one machine.
    pub local: Option<LocalPolicy>,
    /// Keys that are let in without an invite.
    pub owners: Vec<AgentId>,
    /// `host[:port]` that clients may name in `Host`, besides the bound address and the loopback names.
    pub authorities: Vec<String>,
    /// The version that `/healthz` tells.
    pub version: String,
    /// What time it is.
    pub clock: Clock,
    /// Caps and patience.
    pub limits: HubLimits,
}

impl HubOptions {
    /// A closed hub with its data in this directory, and default limits.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            open: false,
            local: None,
            owners: Vec::new(),
            authorities: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            clock: Clock::system(),
            limits: HubLimits::default(),
        }
    }
}

/// The rules of the local hub: every session shows a secret that only this user can read, and whoever has shown it may
/// join any channel by using it.
#[derive(Clone)]
pub struct LocalPolicy {
    /// What a client reads from the hub's 0600 file and sends with its proof.
    pub secret: String,
}

impl fmt::Debug for LocalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalPolicy { secret: .. }")
    }
}

/// Caps and patience of one hub.
#[derive(Debug, Clone)]
pub struct HubLimits {
    /// Connections open at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// Largest blob, bytes.
    pub max_blob_bytes: u64,
    /// How long a session lives.
    pub session_ttl: Duration,
    /// How long a client may take over a request's head. Also ends a connection that idles between requests.
    pub header_timeout: Duration,
    /// Longest silence inside a request's body, and longest an answer may wait for its reader.
    pub stall_timeout: Duration,
    /// Slowest a body may come once [`HubLimits::body_grace`] is over, bytes a second.
    pub min_body_rate: u64,
    /// How long a body may come slower than [`HubLimits::min_body_rate`].
    pub body_grace: Duration,
    /// Streams that one agent may have open at once.
    pub max_streams: usize,
    /// Longest silence of a stream.
    pub heartbeat: Duration,
    /// How long a stream lives: then it has to be opened again, with a session that still counts.
    pub stream_ttl: Duration,
    /// How long requests in flight get to finish when the hub stops.
    pub drain_timeout: Duration,
    /// Session proofs and invite codes accepted at once from one address that is not of this machine.
    pub proof_burst: u32,
    /// How many more of them a minute.
    pub proofs_per_minute: u32,
}

impl Default for HubLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_blob_bytes: limits::MAX_BLOB_BYTES,
            session_ttl: limits::SESSION_TTL,
            header_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
            min_body_rate: 16 << 10, // 16 KiB/s
            body_grace: Duration::from_secs(10),
            max_streams: 64,
            heartbeat: limits::STREAM_HEARTBEAT,
            stream_ttl: Duration::from_secs(3600), // 1 h
            drain_timeout: Duration::from_secs(10),
            proof_burst: 30,
            proofs_per_minute: 30,
        }
    }
}
