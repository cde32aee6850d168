//! One blob, to the members of a room that holds it. A blob that is unknown, elsewhere, or not for this agent gets one
//! answer.

use axum::body::Body;
use axum::extract::RawPathParams;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parler_protocol::BundleId;

use crate::byte_range::{Requested, requested};
use crate::problem::Refusal;
use crate::room_blob::RoomBlob;
use crate::room_call::RoomCall;
use crate::while_member::while_member;

/// A blob may be anything.
pub(crate) const MEDIA_TYPE: &str = "application/octet-stream";

/// `GET /v1/rooms/{room}/blobs/{id}`
pub(crate) async fn get(call: RoomCall, params: RawPathParams, headers: HeaderMap) -> Result<Response, Refusal> {
    let id = params
        .iter()
        .find(|(name, _)| *name == "id")
        .and_then(|(_, id)| id.parse::<BundleId>().ok());
    let id = id.ok_or_else(Refusal::not_found)?;
    let blob = RoomBlob::locate(&call, id).await?;
    let etag = HeaderValue::try_from(format!("\"{id}\"")).map_err(Refusal::internal)?;

    let requested = match headers.get(header::IF_RANGE) {
        Some(known) if *known != etag => Requested::Whole,
        _ => requested(&headers, blob.size()),
    };
    let mut response = match requested {
        Requested::Whole => {
            let stream = blob.send(&call, 0..blob.size()).await?;
            let length = [(header::CONTENT_LENGTH, blob.size())].map(|(name, value)| (name, HeaderValue::from(value)));
            (StatusCode::OK, length, Body::from_stream(while_member(&call, stream))).into_response()
        }
        Requested::Part(range) => {
            let length = HeaderValue::from(range.end - range.start);
            let place = format!("bytes {}-{}/{}", range.start, range.end - 1, blob.size());
            let place = HeaderValue::try_from(place).map_err(Refusal::internal)?;
            let stream = blob.send(&call, range).await?;
            let fields = [(header::CONTENT_LENGTH, length), (header::CONTENT_RANGE, place)];
            (
                StatusCode::PARTIAL_CONTENT,
                fields,
                Body::from_stream(while_member(&call, stream)),
            )
                .into_response()
        }
        Requested::Unsatisfiable => {
            return Err(call.refusal(Refusal::range_not_satisfiable(blob.size())).await);
        }
    };
    let fields = response.headers_mut();
    fields.insert(header::ETAG, etag);
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    fields.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    fields.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; sandbox"),
    );
    call.tell_head(&mut response).await;
    Ok(response)
}
