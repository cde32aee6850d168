//! How a hub is to run. Nothing here is read from the environment: the program that embeds a hub decides.

use std::fmt;
use std::path::PathBuf;

use parler_protocol::AgentId;

use crate::clock::Clock;
use crate::forwarded::TrustedProxies;
use crate::hub_limits::HubLimits;
use crate::oidc::OidcTrust;
use crate::retention::RetentionOptions;
use crate::tls::TlsIdentity;

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
    /// The certificate to show; without one the hub speaks plain HTTP.
    pub tls: Option<TlsIdentity>,
    /// Whose word on CI jobs counts, and what that lets them do; without it no job comes in by its identity token.
    pub oidc: Option<OidcTrust>,
    /// The peers whose word on whom they speak for counts.
    pub proxies: TrustedProxies,
    /// Whether [`crate::admit`] is answered while the hub serves, on a socket in the data directory.
    pub admin_socket: bool,
    /// How long content is kept: for ever unless told otherwise.
    pub retention: RetentionOptions,
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
            tls: None,
            oidc: None,
            proxies: TrustedProxies::default(),
            admin_socket: false,
            retention: RetentionOptions::default(),
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
