//! Blobs that come in several requests, before the message that they belong to. An upload of somebody else, or of
//! another room, is answered like one that is not there.

use std::sync::Arc;

use axum::extract::{RawPathParams, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use parler_protocol::api::{BeginUpload, UploadProgress};
use parler_protocol::{ErrorCode, ServiceName, UploadId, paths};

use crate::answer::json;
use crate::body::{BodyReader, Json, content_length, media_type};
use crate::fail_point::{FailPoint, reached};
use crate::handlers::messages::idempotency_key;
use crate::problem::Refusal;
use crate::room_call::RoomCall;
use crate::store::Need;
use crate::uploads::{Held, Place, Upload, wrong_offset};
use crate::while_member::Reader;

/// `POST /v1/rooms/{room}/uploads`
pub(crate) async fn begin(
    call: RoomCall,
    headers: HeaderMap,
    Json(request): Json<BeginUpload>,
) -> Result<Response, Refusal> {
    let key = idempotency_key(&headers)?;
    let most = call.state.options.limits.max_blob_bytes;
    if request.size.is_some_and(|size| size > most) {
        return Err(Refusal::too_large("the blob is", most));
    }
    if ServiceName::of_room(&call.room).is_some() {
        // What a job brings may come before it, also of who has not been there.
        call.enter_service().await?;
    }
    let place = checked_place(&call).await?;
    let uploads = &call.state.uploads;
    let (upload, is_new) = uploads.begin(place, key, request.size, call.state.now_ms()).await?;
    let offset = hold(&upload).await?.settle().await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = answer(&call, status, &uploads.progress(&upload, offset)).await?;
    let location = HeaderValue::try_from(paths::upload(&call.room, &upload.id())).map_err(Refusal::internal)?;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// `GET /v1/rooms/{room}/uploads/{id}`, and `HEAD`
pub(crate) async fn get(call: RoomCall, params: RawPathParams) -> Result<Response, Refusal> {
    let upload = find(&call, &params).await?;
    let offset = hold(&upload).await?.settle().await?;
    answer(&call, StatusCode::OK, &call.state.uploads.progress(&upload, offset)).await
}

/// `PATCH /v1/rooms/{room}/uploads/{id}`
pub(crate) async fn append(call: RoomCall, params: RawPathParams, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    if media_type(&parts.headers) != paths::PARTIAL_UPLOAD_TYPE {
        return Err(Refusal::new(
            ErrorCode::UnsupportedMediaType,
            format!("this call takes {}", paths::PARTIAL_UPLOAD_TYPE),
        ));
    }
    let from = offset_of(&parts.headers)?;
    let upload = find(&call, &params).await?;
    let mut reader = BodyReader::new(body, &call.state.options.limits);
    let taken = take(&call, &upload, &parts.headers, from, &mut reader).await;
    Ok(reader.answered(taken))
}

/// `DELETE /v1/rooms/{room}/uploads/{id}`
pub(crate) async fn delete(call: RoomCall, params: RawPathParams) -> Result<StatusCode, Refusal> {
    let upload = find(&call, &params).await?;
    call.state.uploads.remove(&upload).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Adds what comes to the upload. Whatever ends it, what came before that is kept.
async fn take(
    call: &RoomCall,
    upload: &Arc<Upload>,
    headers: &HeaderMap,
    from: u64,
    reader: &mut BodyReader,
) -> Result<Response, Refusal> {
    let uploads = &call.state.uploads;
    let mut held = hold(upload).await?;
    let offset = held.settle().await?;
    if from != offset {
        return Err(wrong_offset(offset));
    }
    upload.touch(call.state.now_ms());
    if let Some(length) = content_length(headers) {
        uploads.check_length(upload, offset.saturating_add(length))?;
    }
    let mut sender = Reader::of(call);
    loop {
        let piece = tokio::select! {
            piece = reader.next() => piece,
            () = sender.somebody_left() => match sender.check().await {
                Ok(()) => continue,
                Err(error) => Err(error.into()),
            },
            () = held.wanted() => return Err(wrong_offset(held.settle().await?)),
        };
        let result = match piece {
            Ok(Some(piece)) => {
                call.state.metrics.blob_bytes_in.inc_by(piece.len() as u64);
                uploads.write(&mut held, piece, call.state.now_ms()).await
            }
            Ok(None) => break,
            Err(refusal) => Err(refusal),
        };
        if let Err(refusal) = result {
            // Bytes that came are kept, whatever came after them.
            held.settle().await?;
            return Err(refusal);
        }
    }
    let offset = held.settle().await?;
    reached(FailPoint::UploadPartTaken);
    answer(call, StatusCode::OK, &uploads.progress(upload, offset)).await
}

async fn hold(upload: &Arc<Upload>) -> Result<Held, Refusal> {
    upload.hold().await.ok_or_else(Refusal::not_found)
}

/// The caller's place in the room, if it may post there.
async fn checked_place(call: &RoomCall) -> Result<Place, Refusal> {
    call.run(|| call.store().room_for(call.principal.agent, &call.room, Need::Post))
        .await?;
    Ok(Place::new(&call.principal, &call.room))
}

async fn find(call: &RoomCall, params: &RawPathParams) -> Result<Arc<Upload>, Refusal> {
    let place = checked_place(call).await?;
    let id = params
        .iter()
        .find(|(name, _)| *name == "id")
        .and_then(|(_, id)| id.parse::<UploadId>().ok());
    id.and_then(|id| call.state.uploads.find(&place, &id, call.state.now_ms()))
        .ok_or_else(Refusal::not_found)
}

fn offset_of(headers: &HeaderMap) -> Result<u64, Refusal> {
    let offset = headers
        .get(paths::UPLOAD_OFFSET_HEADER)
        .and_then(|value| value.to_str().ok())
        .filter(|value| value.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|value| value.parse().ok());
    offset.ok_or_else(|| Refusal::bad_request(format!("{} is missing", paths::UPLOAD_OFFSET_HEADER)))
}

async fn answer(call: &RoomCall, status: StatusCode, progress: &UploadProgress) -> Result<Response, Refusal> {
    let mut response = json(status, progress)?;
    let headers = response.headers_mut();
    headers.insert(paths::UPLOAD_OFFSET_HEADER, HeaderValue::from(progress.offset));
    if let Some(size) = progress.size {
        headers.insert(paths::UPLOAD_LENGTH_HEADER, HeaderValue::from(size));
    }
    call.tell_head(&mut response).await;
    Ok(response)
}
