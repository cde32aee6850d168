//! Why a call to a hub did not give its answer.

use std::io;

use parler_protocol::{ErrorCode, Problem, RoomName};

/// Why a call failed. Texts name the hub, never a token, key or invite.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The hub said no.
    #[error("{}", .0.detail)]
    Problem(Problem),
    /// No connection: nothing was sent.
    #[error("cannot connect to the hub at {address}: {reason}")]
    Unreachable {
        /// The hub.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The hub's certificate is not to be trusted: nothing was sent.
    #[error("the certificate of the hub at {address} is not to be trusted: {reason}")]
    Untrusted {
        /// The hub.
        address: String,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// The connection ended before an answer was complete.
    #[error("the connection to the hub at {address} was lost: {reason}")]
    Lost {
        /// The hub.
        address: String,
        /// What happened.
        reason: String,
    },
    /// The hub took too long.
    #[error("the hub at {address} gave no answer within {seconds} s")]
    Deadline {
        /// The hub.
        address: String,
        /// How long the call waited.
        seconds: u64,
    },
    /// The hub sends its answer a few bytes at a time, and has no end of it.
    #[error("the hub at {address} sent {bytes} bytes in {seconds} s, which is given up as too slow")]
    TooSlow {
        /// The hub.
        address: String,
        /// How much came.
        bytes: u64,
        /// In how much time.
        seconds: u64,
    },
    /// A message was sent and no answer came, whatever was tried: it may be stored or not. Sending the same message
    /// again is safe.
    #[error("the hub at {address} may or may not have stored the message: {reason}")]
    OutcomeUnknown {
        /// The hub.
        address: String,
        /// What happened last.
        reason: String,
    },
    /// A large transfer was taken up again and again, and no byte of it moved any more.
    #[error("the {what} came to a stop, with {done} of {size} bytes known to have arrived: {reason}")]
    Stopped {
        /// The hub.
        address: String,
        /// `upload` or `download`.
        what: &'static str,
        /// Bytes that are known to have arrived; the last ones may have, too.
        done: u64,
        /// Bytes in all.
        size: u64,
        /// What happened last. Names the hub.
        reason: String,
    },
    /// What answered is no hub, or a broken one.
    #[error("the answer of {address} is not one of a Parler hub: {reason}")]
    NotAHub {
        /// The hub.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The room's log is not the one that was known, so nothing was signed for it and nothing sent.
    #[error("nothing is sent to room '{room}': {why}")]
    InDoubt {
        /// The room.
        room: RoomName,
        /// What the witness says.
        why: String,
    },
    /// The blob to send could not be read.
    #[error("cannot read what was to be sent: {0}")]
    Source(io::Error),
    /// The client could not be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// Whoever works beside others was told to stop, because the work is over or has failed elsewhere.
    #[error("stopped, because nobody waits for it any more")]
    ToldToStop,
}

impl ClientError {
    /// The hub's error code, when the hub answered.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            _ => None,
        }
    }

    /// Whether nothing was sent because nobody listens.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

impl From<Problem> for ClientError {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}
