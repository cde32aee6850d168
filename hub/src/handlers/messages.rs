//! The log: read in pages, waited for, and appended to.

use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use parler_protocol::{AgentId, BundleId, ErrorCode, Fence, Head, RoomName, Seq, ServiceName, UploadId, limits, paths};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::{room_json, tell_blob_limit, with_messages};
use crate::blob_store::BlobError;
use crate::body::{BodyReader, check_announced, content_length, media_type};
use crate::fail_point::{FailPoint, reached};
use crate::metrics::Counted;
use crate::posted_message::{PostHeaders, PostedMessage};
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_call::RoomCall;
use crate::store::{Append, Appended, LogPage, NewBlob, StoreError};
use crate::uploads::Place;
use crate::while_member::Reader;

#[derive(Serialize)]
struct Before<'a> {
    room: &'a RoomName,
}

#[derive(Serialize)]
struct After {
    cursor: Seq,
    head: Head,
}

/// `GET /v1/rooms/{room}/messages?after=&limit=&wait=`
pub(crate) async fn get(call: RoomCall, mut query: Parameters, headers: HeaderMap) -> Result<Response, Refusal> {
    let after: Option<Seq> = query.take("after")?;
    let limit = query
        .take::<u32>("limit")?
        .unwrap_or(limits::DEFAULT_PAGE_MESSAGES)
        .min(limits::MAX_PAGE_MESSAGES);
    let wait = Duration::from_secs(query.take("wait")?.unwrap_or(0)).min(limits::MAX_WAIT);
    query.finish()?;
    let page = if wait.is_zero() {
        read(&call, after, limit).await?
    } else {
        wait_for(&call, after, limit, wait).await?
    };
    if !knows_notes(&headers) {
        refuse_notes(&page)?;
    }
    let after = After {
        cursor: page.cursor,
        head: page.head,
    };
    let mut response = with_messages(&Before { room: &page.room }, page.messages, &after, &page.head)?;
    tell_blob_limit(&mut response, call.state.options.limits.max_blob_bytes);
    Ok(response)
}

/// Whether the reader says that it knows what stands in place of messages that are no longer kept.
pub(super) fn knows_notes(headers: &HeaderMap) -> bool {
    headers.contains_key(paths::NOTES_HEADER)
}

/// A reader that does not would take the log for another one.
pub(super) fn refuse_notes(page: &LogPage) -> Result<(), Refusal> {
    match page.last_note {
        None => Ok(()),
        Some(note) => {
            let detail = format!(
                "some messages up to {note} are no longer kept, and this client is too old to be told so: use a newer one, \
                 or read on after message {note}"
            );
            Err(Refusal::new(ErrorCode::NoLongerKept, detail).with_head(page.head))
        }
    }
}

async fn read(call: &RoomCall, after: Option<Seq>, limit: u32) -> Result<LogPage, Refusal> {
    let agent = call.principal.agent;
    call.run(|| {
        call.store()
            .read(agent, &call.room, after, limit, limits::MAX_PAGE_BYTES)
    })
    .await
}

/// Reads again as the member that the caller was when it began to wait: whoever has left meanwhile does not come back by it.
async fn read_on(call: &RoomCall, after: Seq, limit: u32) -> Result<LogPage, Refusal> {
    call.check_not_ended().await?;
    let agent = call.principal.agent;
    let read = call
        .store()
        .read(agent, &call.room, Some(after), limit, limits::MAX_PAGE_BYTES);
    Ok(read.await?)
}

/// Reads until there is something behind `after`, the time is over, or the hub stops.
async fn wait_for(call: &RoomCall, after: Option<Seq>, limit: u32, wait: Duration) -> Result<LogPage, Refusal> {
    let _counted = Counted::one_more(&call.state.metrics.long_polls);
    let mut news = call.state.wake.subscribe(&call.room.key());
    let mut page = read(call, after, limit).await?;
    // Once it is known to be a member.
    let mut waiting = call.state.presence.waiting(call.principal.agent);
    waiting.in_room(&call.room.key());
    let deadline = tokio::time::sleep(wait);
    let stopping = call.state.stopping();
    tokio::pin!(deadline, stopping);
    // A reader that is ahead of the log has something to find out, too.
    while page.messages.is_empty() && page.head.seq == page.cursor {
        tokio::select! {
            _ = news.changed() => page = read_on(call, page.cursor, limit).await?,
            () = &mut deadline => break,
            () = &mut stopping => break,
        }
    }
    Ok(page)
}

/// `POST /v1/rooms/{room}/messages`
pub(crate) async fn post(call: RoomCall, request: Request) -> Result<Response, Refusal> {
    let (parts, body) = request.into_parts();
    let headers = PostHeaders {
        key: idempotency_key(&parts.headers)?,
        signed_by: signed_by(&call, &parts.headers)?,
        fence: fence(&parts.headers)?,
    };
    match media_type(&parts.headers).as_str() {
        "application/json" => {
            let max_bytes = limits::MAX_MESSAGE_BYTES;
            check_announced(&parts.headers, max_bytes as u64)?;
            let upload = upload_of(&parts.headers)?;
            // Says nothing where no blob follows, but has to be one.
            message_length(&parts.headers)?;
            let body = BodyReader::new(body, &call.state.options.limits).all(max_bytes).await?;
            let message = checked(&call, &headers, &body).await?;
            match upload {
                // In places of their own: a message that is alone is the usual one, and its future no larger for them.
                Some(upload) => Box::pin(post_uploaded(&call, message, headers, &upload)).await,
                None => store(&call, append_of(&call, message, headers, None)).await,
            }
        }
        paths::MESSAGE_WITH_BLOB_TYPE => {
            let mut reader = BodyReader::new(body, &call.state.options.limits);
            let posted = Box::pin(post_with_blob(call, &parts.headers, &mut reader, headers)).await;
            Ok(reader.answered(posted))
        }
        _ => Err(Refusal::new(
            ErrorCode::UnsupportedMediaType,
            format!("this call takes application/json or {}", paths::MESSAGE_WITH_BLOB_TYPE),
        )),
    }
}

/// The body is the message, then the bytes of the blob it brings.
async fn post_with_blob(
    call: RoomCall,
    headers: &HeaderMap,
    reader: &mut BodyReader,
    of_message: PostHeaders,
) -> Result<Response, Refusal> {
    let hub_limits = &call.state.options.limits;
    let length = content_length(headers).ok_or_else(|| Refusal::bad_request("a blob is sent with Content-Length"))?;
    let message_length = message_length(headers)?
        .ok_or_else(|| Refusal::bad_request(format!("{} is missing", paths::MESSAGE_LENGTH_HEADER)))?;
    if message_length > limits::MAX_MESSAGE_BYTES as u64 {
        return Err(Refusal::too_large("the message is", limits::MAX_MESSAGE_BYTES as u64));
    }
    let size = length
        .checked_sub(message_length)
        .ok_or_else(|| Refusal::bad_request("the message is longer than the body"))?;
    if size > hub_limits.max_blob_bytes {
        return Err(Refusal::too_large("the blob is", hub_limits.max_blob_bytes));
    }

    let message = reader.exactly(message_length as usize).await?;
    let message = checked(&call, &of_message, &message).await?;
    let id = message.blob_of_size(size)?;
    if size <= limits::INLINE_BLOB_BYTES {
        let bytes = reader.all(size as usize).await?;
        if bytes.len() as u64 != size || BundleId::of(&bytes) != id {
            return Err(call.refusal(BlobError::Mismatch(id).into()).await);
        }
        call.state.metrics.blob_bytes_in.inc_by(size);
        let blob = NewBlob::Inline { id, bytes };
        return store(&call, append_of(&call, message, of_message, Some(blob))).await;
    }

    let append = append_of(&call, message, of_message, Some(NewBlob::File { id, size }));
    // All that can be refused is refused before the bytes are read, and a repetition answered.
    if let Some(repeated) = call.run(|| call.store().check_append(&append)).await? {
        return answer(&call, &repeated).await;
    }
    let mut upload = call.state.blobs.begin(size).await?;
    let mut sender = Reader::of(&call);
    loop {
        tokio::select! {
            piece = reader.next() => {
                let Some(piece) = piece? else { break };
                call.state.metrics.blob_bytes_in.inc_by(piece.len() as u64);
                upload.write(piece).await?;
            }
            () = sender.somebody_left() => sender.check().await?,
        }
    }
    upload.commit(id).await?;
    store(&call, append).await
}

/// The message brings a blob whose bytes were uploaded before. While the message is not stored, the upload stays.
async fn post_uploaded(
    call: &RoomCall,
    message: PostedMessage,
    headers: PostHeaders,
    id: &UploadId,
) -> Result<Response, Refusal> {
    let uploads = &call.state.uploads;
    let place = Place::new(&call.principal, &call.room);
    let held = match uploads.find(&place, id, call.state.now_ms()) {
        Some(upload) => upload.hold().await,
        None => None,
    };
    let Some(mut held) = held else {
        // A repetition needs no upload, nor does a message whose blob the room has by now.
        return store(call, append_of(call, message, headers, None))
            .await
            .map_err(|refusal| match refusal.code() {
                ErrorCode::UnknownBlob => {
                    Refusal::new(ErrorCode::UnknownUpload, "this room has no such upload of yours")
                }
                _ => refusal,
            });
    };
    let size = held.settle().await?;
    let id = message.blob_of_size(size)?;
    let append = append_of(call, message, headers, Some(NewBlob::File { id, size }));
    if let Some(repeated) = call.run(|| call.store().check_append(&append)).await? {
        uploads.end(held).await?;
        return answer(call, &repeated).await;
    }
    match held.publish(id).await {
        Ok(()) => {}
        Err(error @ BlobError::Mismatch(_)) => {
            // Its bytes will never be those of the blob.
            uploads.end(held).await?;
            return Err(call.refusal(error.into()).await);
        }
        Err(error) => return Err(error.into()),
    }
    let stored = store(call, append).await?;
    // What is left of the upload takes no space of its own, and is removed with the next one or at the next start.
    if let Err(error) = uploads.end(held).await {
        tracing::warn!(?error, "an upload that was stored cannot be removed");
    }
    Ok(stored)
}

fn message_length(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(paths::MESSAGE_LENGTH_HEADER) else {
        return Ok(None);
    };
    match value.to_str().ok().and_then(|value| value.parse().ok()) {
        Some(length) => Ok(Some(length)),
        None => Err(Refusal::bad_request(format!(
            "{} is a number of bytes",
            paths::MESSAGE_LENGTH_HEADER
        ))),
    }
}

fn upload_of(headers: &HeaderMap) -> Result<Option<UploadId>, Refusal> {
    let Some(value) = headers.get(paths::UPLOAD_HEADER) else {
        return Ok(None);
    };
    match value.to_str().ok().and_then(|value| value.parse().ok()) {
        Some(upload) => Ok(Some(upload)),
        None => Err(Refusal::bad_request("an upload id is 32 lowercase hexadecimal digits")),
    }
}

/// Reads a message and checks all that can be checked without the store's writer.
async fn checked(call: &RoomCall, headers: &PostHeaders, message: &[u8]) -> Result<PostedMessage, Refusal> {
    let message = PostedMessage::parse(message)?;
    let (mut is_of_job, mut to_enter) = (false, None);
    if let Some(service) = ServiceName::of_room(&call.room) {
        is_of_job = message.check_for(&service)?;
        if message.is_dispatch() {
            to_enter = call.service_to_enter().await?;
        }
    }
    // Whoever has the token could say any key is a job's: the signature shows that the job has it. A job carries its
    // requester's identity to whoever works on it, and its end that one's.
    if message.is_push() || is_of_job || headers.signed_by.is_some() {
        let room = match &to_enter {
            Some(room) => room.clone(),
            None => call.run(|| call.store().room(call.principal.agent, &call.room)).await?,
        };
        let head = room.head;
        message
            .check_signature(
                &call.state.hub,
                &room,
                &call.principal,
                headers.signed_by,
                call.state.now_ms(),
            )
            .map_err(|refusal| match to_enter {
                Some(_) => refusal,
                None => refusal.with_head(head),
            })?;
    }
    // Who has left does not come back by asking what became of what it posted.
    if to_enter.is_some() && !has_posted(call, headers, &message).await? {
        call.enter_service().await?;
    }
    Ok(message)
}

async fn has_posted(call: &RoomCall, headers: &PostHeaders, message: &PostedMessage) -> Result<bool, Refusal> {
    let (agent, id) = (call.principal.agent, message.id());
    let key = headers.key.clone().unwrap_or_else(|| id.to_string());
    let known = call
        .store()
        .has_posted(agent, &call.room, id, &key, call.state.now_ms());
    Ok(known.await?)
}

fn append_of(call: &RoomCall, message: PostedMessage, headers: PostHeaders, blob: Option<NewBlob>) -> Append {
    let (by, room) = (call.principal.clone(), call.room.clone());
    message.into_append(by, room, headers, blob, call.state.now_ms())
}

async fn store(call: &RoomCall, append: Append) -> Result<Response, Refusal> {
    // Its bytes may have taken a while to come: a lease is judged by the time at which the message is stored.
    let is_job = append.queue.is_job;
    let append = || Append {
        now: call.state.now_ms(),
        ..append.clone()
    };
    let appended = call.run(|| call.store().append(append())).await?;
    reached(FailPoint::MessageStored);
    if appended.is_new {
        call.state.metrics.messages.inc();
        call.state.wake.notify(&call.room.key(), appended.posted.head);
        if is_job {
            call.state.wake.notify_jobs(&call.room.key());
        }
    }
    answer(call, &appended).await
}

async fn answer(call: &RoomCall, appended: &Appended) -> Result<Response, Refusal> {
    if appended.is_new {
        return room_json(StatusCode::CREATED, &appended.posted, &appended.posted.head);
    }
    // The first answer again, in which the head is that of then; the header tells today's.
    let head = match call.store().room(call.principal.agent, &call.room).await {
        Ok(room) => room.head,
        // Who has left the room is told of its own message, and of nothing since.
        Err(StoreError::NotFound) => appended.posted.head,
        Err(error) => return Err(error.into()),
    };
    room_json(StatusCode::OK, &appended.posted, &head)
}

/// The claim that what is posted speaks of.
fn fence(headers: &HeaderMap) -> Result<Option<Fence>, Refusal> {
    let Some(value) = headers.get(paths::FENCE_HEADER) else {
        return Ok(None);
    };
    match value.to_str().ok().and_then(|value| value.parse().ok()) {
        Some(fence) => Ok(Some(fence)),
        None => Err(Refusal::bad_request(
            "Parler-Fence is the numbers of a job and of its claim",
        )),
    }
}

/// The key that signed what a token posts: each of its jobs has one of its own.
fn signed_by(call: &RoomCall, headers: &HeaderMap) -> Result<Option<AgentId>, Refusal> {
    let key = headers
        .get(paths::AGENT_HEADER)
        .map(|key| key.to_str().ok()?.parse().ok());
    match (&call.token, key) {
        (_, Some(None)) => Err(Refusal::bad_request("Parler-Agent is an agent's id")),
        (None, _) => Ok(None),
        (Some(_), Some(key)) => Ok(key),
        (Some(_), None) => Err(Refusal::bad_request(
            "what a token posts names the key that signed it: Parler-Agent",
        )),
    }
}

/// How a key is written.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct IdempotencyKey(
    #[schemars(regex(pattern = "^[!-~]+$"), length(min = 1, max = limits::MAX_IDEMPOTENCY_KEY_BYTES))] String,
);

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(paths::IDEMPOTENCY_KEY_HEADER) else {
        return Ok(None);
    };
    let is_good = |key: &&str| {
        (1..=limits::MAX_IDEMPOTENCY_KEY_BYTES).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match value.to_str().ok().filter(is_good) {
        Some(key) => Ok(Some(key.to_owned())),
        None => Err(Refusal::bad_request(
            "an idempotency key is 1 to 256 visible ASCII characters",
        )),
    }
}
