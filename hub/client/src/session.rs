//! Who a client is to a hub, and the proof of it that is kept for a day.

use std::fmt;
use std::sync::Arc;

use parler_protocol::{AgentKey, AgentName, HubId};
use serde::{Deserialize, Serialize};

/// Who a client speaks as.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The key.
    pub key: Arc<AgentKey>,
    /// The name.
    pub name: AgentName,
    /// The role.
    pub role: Option<AgentName>,
}

/// An open session. The token is a secret: shown by no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedSession {
    /// What to send as `Authorization: Bearer`.
    pub token: String,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// The hub it is for.
    pub hub: HubId,
}

impl fmt::Debug for CachedSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CachedSession {{ hub: {}, expires_at: {}, .. }}",
            self.hub, self.expires_at
        )
    }
}

/// Where an agent's session with one hub is kept between programs. A cache: what fails to load is opened anew, and a
/// failure to store costs the next program two requests.
pub trait SessionCache: Send {
    /// The session kept, if any.
    fn load(&self) -> Option<CachedSession>;
    /// Keeps a session instead of the last one.
    fn store(&self, session: &CachedSession);
}

/// Keeps nothing: every program opens its own session.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSessionCache;

impl SessionCache for NoSessionCache {
    fn load(&self) -> Option<CachedSession> {
        None
    }

    fn store(&self, _session: &CachedSession) {}
}
