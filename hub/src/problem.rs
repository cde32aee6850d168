//! The one place where what went wrong inside becomes an answer. Never tells more than the code's documentation:
//! faults of the hub go to its log, not to the client.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parler_protocol::{ErrorCode, Head, Problem, paths};

use crate::blob_store::BlobError;
use crate::store::StoreError;

/// A request that is not done, and what its client is told.
#[derive(Debug)]
pub(crate) struct Refusal {
    problem: Box<Problem>,
    head: Option<Head>,
    retry_after: Option<Duration>,
    /// How long the blob is that the range asked for is not in, bytes.
    blob_size: Option<u64>,
    /// Why this hub must not go on.
    fatal: Option<String>,
}

/// On an answer after which the hub stops: it can no longer keep its promises.
#[derive(Debug, Clone)]
pub(crate) struct Fatal(pub(crate) String);

impl Refusal {
    pub(crate) fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadRequest, detail)
    }

    /// The same words whether there is nothing or nothing for this agent.
    pub(crate) fn not_found() -> Self {
        Self::new(ErrorCode::NotFound, "nothing here for you")
    }

    pub(crate) fn too_large(what: &str, limit: u64) -> Self {
        Self::new(ErrorCode::TooLarge, format!("{what} over {limit}"))
    }

    /// A fault of the hub: `cause` goes to the log only.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::new(ErrorCode::Internal, "the hub made a mistake; its log says more")
    }

    /// A range that begins behind the end of a blob of this size.
    pub(crate) fn range_not_satisfiable(size: u64) -> Self {
        let mut refusal = Self::new(ErrorCode::RangeNotSatisfiable, format!("the blob is {size} bytes long"));
        refusal.blob_size = Some(size);
        refusal
    }

    pub(crate) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Tells a member how far the log reaches.
    pub(crate) fn with_head(mut self, head: Head) -> Self {
        self.head = Some(head);
        self
    }

    pub(crate) fn code(&self) -> ErrorCode {
        self.problem.code
    }

    fn fatal(mut self, why: String) -> Self {
        self.fatal = Some(why);
        self
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self {
            problem: Box::new(problem),
            head: None,
            retry_after: None,
            blob_size: None,
            fatal: None,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let code = match error {
            StoreError::NotFound => return Self::not_found(),
            StoreError::RefMoved(ref conflicts) => {
                let mut problem = Problem::new(ErrorCode::RefMoved, error.to_string());
                problem.conflicts.clone_from(conflicts);
                return problem.into();
            }
            StoreError::Stopped(why) => {
                let problem = Problem::new(ErrorCode::Unavailable, "the hub is stopping");
                return Self::from(problem).fatal(why);
            }
            StoreError::Damaged(_) | StoreError::Database(_) => return Self::internal(error),
            StoreError::InvalidInvite => ErrorCode::InvalidInvite,
            StoreError::NotAdmitted => ErrorCode::NotAdmitted,
            StoreError::RoomExists(_) => ErrorCode::RoomExists,
            StoreError::ApprovalPending(_) => ErrorCode::ApprovalPending,
            StoreError::ApprovalRefused(_) => ErrorCode::ApprovalRefused,
            StoreError::NotOwner(_) => ErrorCode::NotOwner,
            StoreError::LastOwner(_) => ErrorCode::LastOwner,
            StoreError::RoomReserved(_) | StoreError::ServiceReserved(_) => ErrorCode::NameReserved,
            StoreError::NameTaken(..) => ErrorCode::NameTaken,
            StoreError::NotServing(_) | StoreError::NotYourPlace(..) => ErrorCode::NotServing,
            StoreError::StaleFence(_) => ErrorCode::StaleFence,
            StoreError::JobState(..) => ErrorCode::JobState,
            StoreError::BadReceipt(_) => ErrorCode::BadRequest,
            StoreError::TokenExists(_) => ErrorCode::TokenExists,
            StoreError::IdentityTaken => ErrorCode::OidcRefused,
            StoreError::TooManyIdentities => ErrorCode::RateLimited,
            StoreError::IdempotencyConflict => ErrorCode::IdempotencyConflict,
            StoreError::RefDirectoryConflict(..) => ErrorCode::RefDirectoryConflict,
            StoreError::ObjectFormatMismatch(_) => ErrorCode::ObjectFormatMismatch,
            StoreError::NoSuchRef(_) => ErrorCode::BadRequest,
            StoreError::NoLongerKept(_) | StoreError::BaseNoLongerKept(_) => ErrorCode::NoLongerKept,
            StoreError::UnknownBlob(_) => ErrorCode::UnknownBlob,
            StoreError::BlobSize(_) => ErrorCode::BlobMismatch,
            StoreError::StorageFull => ErrorCode::StorageFull,
        };
        Self::new(code, error.to_string())
    }
}

impl From<BlobError> for Refusal {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::Mismatch(_) | BlobError::TooLong => Self::new(ErrorCode::BlobMismatch, error.to_string()),
            BlobError::Sealed => Self::bad_request(error.to_string()),
            BlobError::StorageFull => Self::new(ErrorCode::StorageFull, error.to_string()),
            BlobError::Stopped => StoreError::Stopped(error.to_string()).into(),
            BlobError::Damaged(_) | BlobError::Io(_) => Self::internal(error),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = *self.problem;
        let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(paths::PROBLEM_TYPE));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
        }
        if let Some(size) = self.blob_size {
            let place = HeaderValue::try_from(format!("bytes */{size}")).expect("digits are visible ASCII");
            headers.insert(header::CONTENT_RANGE, place);
        }
        if let Some(head) = self.head {
            crate::answer::tell_head(&mut response, &head);
        }
        if let Some(why) = self.fatal {
            response.extensions_mut().insert(Fatal(why));
        }
        response
    }
}
