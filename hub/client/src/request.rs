//! A request as it is written down before it is sent, once or again. Holds no session.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Method};

use crate::BlobSource;

/// What a request carries.
pub(crate) enum RequestBody<'a> {
    Empty,
    Json(Bytes),
    /// A message's JSON with a blob behind it.
    WithBlob(Bytes, &'a dyn BlobSource),
    /// The next bytes of an upload.
    Part {
        source: &'a dyn BlobSource,
        offset: u64,
        length: u64,
    },
}

impl RequestBody<'_> {
    /// How many bytes it has.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Json(json) => json.len() as u64,
            Self::WithBlob(message, blob) => message.len() as u64 + blob.size(),
            Self::Part { length, .. } => *length,
        }
    }
}

/// A request that can be made again.
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: RequestBody<'a>,
    /// How much longer than usual the hub may take: a long poll.
    pub(crate) patience: Duration,
    /// Whether the hub may have acted on it when no answer came.
    pub(crate) stores: bool,
}

impl<'a> Request<'a> {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            headers: Vec::new(),
            body: RequestBody::Empty,
            patience: Duration::ZERO,
            stores: false,
        }
    }

    pub(crate) fn json(method: Method, path: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Self {
            method,
            body: RequestBody::Json(body.into()),
            ..Self::get(path.into())
        }
    }
}
