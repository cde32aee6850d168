//! What a client is made from. It reads no settings by itself.

use std::time::Duration;

use parler_protocol::AccessToken;
use parler_protocol::limits::STREAM_LOST;

use crate::{HubAddress, Identity, SessionCache};

/// How long a client waits.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For a connection.
    pub connect: Duration,
    /// For an answer to begin, after the last byte of the request was taken; and for each next piece of it.
    pub stall: Duration,
    /// For the whole of an answer that is held in memory: a hub that sends a byte now and then ends no sooner otherwise.
    pub answer: Duration,
    /// For the next sign of life of a stream: a hub gives one each 15 s.
    pub silence: Duration,
    /// Between a failure and sending again, the first time. Each rest is longer than the one before.
    pub rest: Duration,
    /// How long sending again goes on after the first failure.
    pub retry: Duration,
    /// How long a large transfer goes on trying without a byte of progress.
    pub transfer: Duration,
}

/// How long a hub that says nothing is waited for, where nobody said otherwise.
const STALL: Duration = Duration::from_secs(60);

impl Deadlines {
    /// Those of somebody who waits so long for a hub that says nothing; the others in proportion. A connection is not
    /// waited for longer than 10 s, and a call not sent again for longer than 20 s.
    pub fn of_stall(stall: Duration) -> Self {
        Self {
            connect: stall.min(Duration::from_secs(10)),
            stall,
            answer: stall * 10,
            silence: STREAM_LOST,
            rest: Duration::from_millis(50),
            retry: stall.min(Duration::from_secs(20)),
            transfer: stall * 2,
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::of_stall(STALL)
    }
}

/// What a client is made from.
pub struct ClientOptions {
    /// The hub.
    pub address: HubAddress,
    /// Who speaks.
    pub identity: Identity,
    /// What the local hub asks of its own user's agents.
    pub secret: Option<String>,
    /// The token by which the client speaks, in place of sessions: the identity's key is a throw-away then.
    pub token: Option<AccessToken>,
    /// Where the session is kept.
    pub sessions: Box<dyn SessionCache>,
    /// How long to wait.
    pub deadlines: Deadlines,
}
