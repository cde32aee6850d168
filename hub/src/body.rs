//! Request bodies, read with patience that ends: a body that stalls or trickles is given up. Never holds more than
//! the limit its reader names.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use parler_protocol::{ErrorCode, parse_json};
use serde::de::DeserializeOwned;

use crate::hub_limits::HubLimits;
use crate::problem::Refusal;
use crate::state::SharedState;

/// Largest JSON body of the calls that name no other limit.
const MAX_JSON_BODY_BYTES: usize = 64 << 10; // 64 KiB

/// Reads one request's body.
pub(crate) struct BodyReader {
    body: Body,
    /// Read from the connection and not yet taken.
    held: Bytes,
    received: u64,
    /// Time spent waiting for the client, and not for the hub's own disk.
    waited: Duration,
    limits: HubLimits,
}

impl BodyReader {
    pub(crate) fn new(body: Body, limits: &HubLimits) -> Self {
        Self {
            body,
            held: Bytes::new(),
            received: 0,
            waited: Duration::ZERO,
            limits: limits.clone(),
        }
    }

    /// The next piece, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.held.has_remaining() {
            return Ok(Some(std::mem::take(&mut self.held)));
        }
        loop {
            let began = Instant::now();
            let frame = tokio::time::timeout(self.limits.stall_timeout, self.body.frame()).await;
            self.waited += began.elapsed();
            let Ok(frame) = frame else {
                return Err(Refusal::new(ErrorCode::RequestTimeout, "the body stopped coming"));
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| Refusal::bad_request("the body was cut off"))?;
            let Ok(data) = frame.into_data() else { continue };
            self.received += data.len() as u64;
            if self.is_trickle() {
                return Err(Refusal::new(ErrorCode::RequestTimeout, "the body came too slowly"));
            }
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }

    /// The answer to the request, as it is sent now: what is left of the body will not be read, so no further request can
    /// follow it on this connection.
    pub(crate) fn answered(&self, answer: impl IntoResponse) -> Response {
        let mut response = answer.into_response();
        if !self.held.is_empty() || !self.body.is_end_stream() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }

    fn is_trickle(&self) -> bool {
        let over = self.waited.saturating_sub(self.limits.body_grace).as_secs_f64();
        over > 0.0 && (self.received as f64) < over * self.limits.min_body_rate as f64
    }

    /// The next `length` bytes; what came behind them stays to be read.
    pub(crate) async fn exactly(&mut self, length: usize) -> Result<Bytes, Refusal> {
        let mut taken = BytesMut::new();
        while taken.len() < length {
            let Some(mut piece) = self.next().await? else {
                return Err(Refusal::bad_request("the body is shorter than it says"));
            };
            let part = piece.split_to(piece.len().min(length - taken.len()));
            self.held = piece;
            if part.len() == length {
                return Ok(part);
            }
            taken.extend_from_slice(&part);
        }
        Ok(taken.freeze())
    }

    /// The whole body, at most `limit` bytes.
    pub(crate) async fn all(&mut self, limit: usize) -> Result<Bytes, Refusal> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await? {
            if all.len() + piece.len() > limit {
                return Err(Refusal::too_large("the body is", limit as u64));
            }
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }
}

/// The `Content-Type` without parameters, lowercase.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The length that `Content-Length` announces.
pub(crate) fn content_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Refuses a body that is announced as larger than it may be, before any of it is read.
pub(crate) fn check_announced(headers: &HeaderMap, limit: u64) -> Result<(), Refusal> {
    match content_length(headers) {
        Some(length) if length > limit => Err(Refusal::too_large("the body is", limit)),
        _ => Ok(()),
    }
}

/// A JSON body of at most this many bytes, read strictly.
pub(crate) struct Json<T, const MOST: usize = MAX_JSON_BODY_BYTES>(pub(crate) T);

impl<T: DeserializeOwned, const MOST: usize> FromRequest<SharedState> for Json<T, MOST> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &SharedState) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        if media_type(&parts.headers) != "application/json" {
            return Err(Refusal::new(
                ErrorCode::UnsupportedMediaType,
                "this call takes application/json",
            ));
        }
        check_announced(&parts.headers, MOST as u64)?;
        let bytes = BodyReader::new(body, &state.options.limits).all(MOST).await?;
        let value = parse_json(&bytes).map_err(|error| Refusal::bad_request(error.to_string()))?;
        if !value.is_object() {
            // Fields by their position, which serde would take as well.
            return Err(Refusal::bad_request("the body is no JSON object"));
        }
        T::deserialize(value)
            .map(Self)
            .map_err(|error| Refusal::bad_request(error.to_string()))
    }
}
