//! The wire of Parler: what a hub and its clients say to each other, as types.
//!
//! Every value that comes from outside becomes one of these types at the edge, once, and is trusted afterwards.
//! Nothing here does I/O: ids, message parts, canonical JSON, signatures, the log's hash chain, error codes, limits
//! and URL paths.

pub mod api;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod limits;
pub mod paths;

mod agent_id;
mod agent_name;
mod bundle_id;
mod chain;
mod digest;
mod dropped;
mod error;
mod fence;
mod hidden;
mod history;
mod hub_id;
mod invite_code;
mod json;
mod message;
mod message_id;
mod oid;
mod part;
mod ref_name;
mod request_ref;
mod review;
mod room_name;
mod schema;
mod seq;
mod service_name;
mod session_proof;
mod signature;
mod status_text;
mod token;
mod upload_id;

pub use agent_id::{AgentId, AgentKey, AgentKeyError};
pub use agent_name::AgentName;
pub use bundle_id::{BundleId, BundleIdPrefix};
pub use chain::{ChainHash, Head};
pub use dropped::{DroppedMessage, MessageHash};
pub use error::{ErrorCode, Problem, RefConflict};
pub use fence::Fence;
pub use hidden::is_hidden;
pub use history::{Claim, Claimant, Doubt, History, KnownHead, ReadMessage, Source, Stranger};
pub use hub_id::HubId;
pub use invite_code::{InviteCode, InviteId};
pub use json::{JsonError, canonical_json, parse_json};
pub use message::{Message, MessageError, Sender};
pub use message_id::MessageId;
pub use oid::{ObjectFormat, Oid};
pub use part::{
    BUNDLE_MEDIA_TYPE, BaseHint, BundlePart, BundleRef, BundleRefName, Cause, DispatchPart, FilePart, HandoffPart,
    Part, RefUpdate, RefsPart, SeenPart, SigPart, TaskPart, TaskStatus, TextPart, Work, part_kind,
};
pub use ref_name::RefName;
pub use review::{
    CommitStatus, Finding, Fingerprint, RepositoryId, ReviewPart, ReviewText, RuleName, RunUrl, Severity,
    StatusContext, TreePath,
};
pub use room_name::{RoomKind, RoomName};
pub use seq::Seq;
pub use service_name::ServiceName;
pub use session_proof::{Challenge, session_proof_bytes};
pub use signature::{Draft, SignContext, Signed, Target, Verdict, VerifyError, retry_digest, sign, verify};
pub use status_text::StatusText;
pub use token::{AccessToken, AccessTokenError, TOKEN_SENDER_PREFIX, TokenName, TokenScope};
pub use upload_id::UploadId;

/// Why a string is not one of the ids of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} {why}")]
pub struct ParseError {
    what: &'static str,
    value: String,
    why: &'static str,
}

impl ParseError {
    pub(crate) fn new(what: &'static str, value: &str, why: &'static str) -> Self {
        // Shown to people: long garbage is cut so that one bad value cannot fill a terminal.
        let value = value.chars().take(80).collect();
        Self { what, value, why }
    }
}

/// Gives an id type that has `Display` and `FromStr` its serde form: the same string.
macro_rules! serde_as_string {
    ($type:ty) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                // Read where it stands: a room's cached state is thousands of these.
                struct OfText;
                impl serde::de::Visitor<'_> for OfText {
                    type Value = $type;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("a string")
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(OfText)
            }
        }
    };
}
pub(crate) use serde_as_string;
