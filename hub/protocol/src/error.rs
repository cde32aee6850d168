//! What can go wrong between a client and a hub, as codes that programs can rely on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Challenge, Oid, RefName};

macro_rules! error_codes {
    ($( $(#[doc = $doc:literal])+ $variant:ident $text:literal $status:literal $retry:literal ;)+) => {
        /// The `code` of a problem answer. Stable: a code keeps its meaning, new ones may come. Alphabetical.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $( $(#[doc = $doc])+ #[serde(rename = $text)] $variant, )+
            /// A code this program does not know: judge by the HTTP status.
            #[serde(other, rename = "unknown")]
            Unknown,
        }

        impl ErrorCode {
            /// Every code a hub of this version answers with.
            pub const ALL: &[Self] = &[$( Self::$variant, )+];

            /// The code as written on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $text, )+ Self::Unknown => "unknown" }
            }

            /// The HTTP status it travels with.
            pub const fn status(self) -> u16 {
                match self { $( Self::$variant => $status, )+ Self::Unknown => 500 }
            }

            /// Whether the same request can succeed later without being changed.
            pub const fn is_retryable(self) -> bool {
                match self { $( Self::$variant => $retry, )+ Self::Unknown => false }
            }
        }
    };
}

error_codes! {
    /// The agent asked to be let into the room, and waits for an owner's word.
    ApprovalPending "approval_pending" 403 false;
    /// An owner of the room did not let the agent in.
    ApprovalRefused "approval_refused" 403 false;
    /// The request is not of the documented form.
    BadRequest "bad_request" 400 false;
    /// A message with refs or a bundle is not signed by its author for this hub and room.
    BadSignature "bad_signature" 400 false;
    /// The bytes sent do not hash to the id that the message says, or a blob is not as long as it says.
    BlobMismatch "blob_mismatch" 400 false;
    /// The same idempotency key, or message id, came with other content.
    IdempotencyConflict "idempotency_conflict" 409 false;
    /// A fault of the hub itself.
    Internal "internal" 500 true;
    /// No such invite, or it is expired or used up: one answer for all three.
    InvalidInvite "invalid_invite" 404 false;
    /// The job has ended, or has not: what was asked does not go with how it stands.
    JobState "job_state" 409 false;
    /// The last owner of a room would no longer be one.
    LastOwner "last_owner" 409 false;
    /// The path is right and the method is not one it takes.
    MethodNotAllowed "method_not_allowed" 405 false;
    /// The `Host` of the request is not one this hub answers to.
    MisdirectedRequest "misdirected_request" 421 false;
    /// Names of agents that begin with `ci/`, or look as if they did, are those of tokens; names of rooms may be those of
    /// direct rooms or of services; a word of letters from several scripts could be taken for another.
    NameReserved "name_reserved" 400 false;
    /// Another member of the room has a name that looks the same.
    NameTaken "name_taken" 409 false;
    /// The hub gave up this content because of its age. It can come back only from somebody who has it.
    NoLongerKept "no_longer_kept" 410 false;
    /// This key has not been let in: it needs an invite.
    NotAdmitted "not_admitted" 403 false;
    /// Nothing there, or nothing for this agent: one answer for both.
    NotFound "not_found" 404 false;
    /// Only an owner of the room does this.
    NotOwner "not_owner" 403 false;
    /// This agent does not serve the service: that takes an invite. Or it moves refs of its room that are not its own.
    NotServing "not_serving" 403 false;
    /// The room's first push used the other object format.
    ObjectFormatMismatch "object_format_mismatch" 409 false;
    /// The identity token of a CI job is not accepted, or no rule of the hub lets that job in.
    OidcRefused "oidc_refused" 403 false;
    /// A browser page sent the request.
    OriginRefused "origin_refused" 403 false;
    /// The blob ends before the range asked for. `Content-Range` says how long it is.
    RangeNotSatisfiable "range_not_satisfiable" 416 false;
    /// Too many proofs or invite codes from one address, or streams or uploads of one agent. `Retry-After` says how many seconds to wait.
    RateLimited "rate_limited" 429 true;
    /// A ref would be a directory of another (`a` and `a/b`).
    RefDirectoryConflict "ref_directory_conflict" 409 false;
    /// A ref is not where the push expected it. The answer lists every such ref.
    RefMoved "ref_moved" 409 false;
    /// The request's body came too slowly, or stopped coming.
    RequestTimeout "request_timeout" 408 true;
    /// A room of that name exists.
    RoomExists "room_exists" 409 false;
    /// The job is no longer this worker's: its lease ended, it went to another, or it is over.
    StaleFence "stale_fence" 409 false;
    /// The disk is full, or below the free space the hub keeps.
    StorageFull "storage_full" 507 true;
    /// The token expired or was revoked.
    TokenEnded "token_ended" 401 false;
    /// A token of that name is in use, or is somebody else's.
    TokenExists "token_exists" 409 false;
    /// The token is not for this room, or not for this call.
    TokenScope "token_scope" 403 false;
    /// Over a limit of the hub.
    TooLarge "too_large" 413 false;
    /// No session, or one that ended. The answer carries a fresh challenge.
    Unauthenticated "unauthenticated" 401 false;
    /// The hub cannot write at the moment.
    Unavailable "unavailable" 503 true;
    /// The message refers to a blob that is not in this room.
    UnknownBlob "unknown_blob" 409 false;
    /// The message refers to an upload that its author does not have in this room, or no longer.
    UnknownUpload "unknown_upload" 409 false;
    /// The request's `Content-Type` is not one this call takes.
    UnsupportedMediaType "unsupported_media_type" 415 false;
    /// The bytes do not follow those that the hub has of this upload. `offset` says how many it has.
    UploadOffset "upload_offset" 409 false;
}

/// A problem answer, RFC 9457, `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// The stable code; also the last part of what RFC 9457 calls `type`.
    pub code: ErrorCode,
    /// The HTTP status, repeated.
    pub status: u16,
    /// What happened, for people: one line.
    pub detail: String,
    /// A challenge to answer, with every 401.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Challenge>,
    /// Every ref that was not where the push expected it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<RefConflict>,
    /// How many bytes of an upload the hub has, where that is not what the request began at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

impl Problem {
    /// The problem with this code, without extras.
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            code,
            status: code.status(),
            detail: detail.into(),
            challenge: None,
            conflicts: Vec::new(),
            offset: None,
        }
    }
}

/// A ref that was not where a push expected it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("required" = ["name", "expected", "actual"]))]
pub struct RefConflict {
    /// The ref.
    pub name: RefName,
    /// Where the push expected it; `null`: not to exist.
    pub expected: Option<Oid>,
    /// Where it is; `null`: it does not exist.
    pub actual: Option<Oid>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_alphabetical_and_read_back() {
        let names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(names, sorted);
        for code in ErrorCode::ALL {
            let text = serde_json::to_string(code).unwrap();
            assert_eq!(text, format!("\"{}\"", code.as_str()));
            assert_eq!(serde_json::from_str::<ErrorCode>(&text).unwrap(), *code);
        }
        assert_eq!(
            serde_json::from_str::<ErrorCode>("\"from_the_future\"").unwrap(),
            ErrorCode::Unknown
        );
    }
}
