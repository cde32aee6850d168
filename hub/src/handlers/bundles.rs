//! Several bundles of a room in one answer, in the order asked for: for each a line `ID SIZE`, then its bytes. However
//! many are asked for, no more of them is held than one piece.

use std::collections::VecDeque;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use parler_protocol::api::WantedBundles;
use parler_protocol::{AgentId, BundleId, RoomName, limits, paths};
use schemars::JsonSchema;

use crate::blob_store::{BlobError, BlobStream, PIECE_BYTES};
use crate::body::Json;
use crate::fetches::Sending;
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_blob::RoomBlob;
use crate::room_call::RoomCall;
use crate::state::SharedState;
use crate::store::{BlobLocation, StoreError};
use crate::while_member::while_member;

/// How many blobs are looked for at once, at most.
const LOOKED_FOR: usize = 256;

/// What is asked for, as the query says it with commas.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Ids(#[schemars(length(min = 1, max = limits::MAX_BUNDLES_PER_QUERY))] Vec<BundleId>);

/// `GET /v1/rooms/{room}/bundles?ids=`
pub(crate) async fn get(call: RoomCall, mut query: Parameters) -> Result<Response, Refusal> {
    let ids: String = query.take("ids")?.unwrap_or_default();
    query.finish()?;
    let ids: Vec<&str> = ids.split(',').collect();
    if ids.len() > limits::MAX_BUNDLES_PER_QUERY {
        return Err(Refusal::too_large("ids are", limits::MAX_BUNDLES_PER_QUERY as u64));
    }
    let ids: Result<_, _> = ids.into_iter().map(str::parse).collect();
    let ids = ids.map_err(|_| {
        let most = limits::MAX_BUNDLES_PER_QUERY;
        Refusal::bad_request(format!("ids are 1 to {most} bundle ids with commas"))
    })?;
    answer(call, ids).await
}

/// `POST /v1/rooms/{room}/bundles`
pub(crate) async fn post(
    call: RoomCall,
    Json(wanted): Json<WantedBundles, { limits::MAX_MESSAGE_BYTES }>,
) -> Result<Response, Refusal> {
    let most = limits::MAX_BUNDLES_PER_REQUEST;
    match wanted.ids.len() {
        0 => Err(Refusal::bad_request(format!("ids are 1 to {most} bundle ids"))),
        count if count > most => Err(Refusal::too_large("ids are", most as u64)),
        _ => answer(call, wanted.ids).await,
    }
}

async fn answer(call: RoomCall, ids: Vec<BundleId>) -> Result<Response, Refusal> {
    // All are found before the first byte of any is sent.
    let sizes = call
        .run(|| call.store().blob_sizes(call.principal.agent, &call.room, &ids))
        .await?;
    // And what is wrong with the first is said in the answer's place.
    let first = &ids[..ids.len().min(LOOKED_FOR)];
    let found = call
        .store()
        .blobs(call.principal.agent, &call.room, first, PIECE_BYTES)
        .await?;
    let mut frames = VecDeque::with_capacity(ids.len());
    let mut length = 0;
    for (id, size) in ids.into_iter().zip(sizes) {
        length += line(&id, size).len() as u64 + size;
        frames.push_back((id, size));
    }
    let stream = Frames {
        state: SharedState::clone(&call.state),
        agent: call.principal.agent,
        room: call.room.clone(),
        frames,
        found: found.into(),
        open: None,
        ended: Vec::new(),
        sending: Sending::of(&call),
        failure: None,
    }
    .into_stream();
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(paths::BUNDLES_TYPE)),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let mut response = (StatusCode::OK, fields, Body::from_stream(while_member(&call, stream))).into_response();
    call.tell_head(&mut response).await;
    Ok(response)
}

fn line(id: &BundleId, size: u64) -> String {
    format!("{id} {size}\n")
}

/// Why an answer is cut off.
#[derive(Debug, thiserror::Error)]
enum Cut {
    #[error(transparent)]
    Blob(#[from] BlobError),
    /// The room may have been left meanwhile.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The answer's bytes. One blob is open at a time.
struct Frames {
    state: SharedState,
    agent: AgentId,
    room: RoomName,
    /// What is still to be sent, with its length.
    frames: VecDeque<(BundleId, u64)>,
    /// Where the first of those are: as many as one piece holds.
    found: VecDeque<BlobLocation>,
    open: Option<Open>,
    /// Blobs whose last bytes are in the piece that comes next.
    ended: Vec<BundleId>,
    /// Who is told of those; nobody where a token asks.
    sending: Option<Sending>,
    /// What went wrong behind the bytes just sent.
    failure: Option<Cut>,
}

/// A blob on its way.
struct Open {
    id: BundleId,
    /// Bytes that are still to come.
    left: u64,
    stream: BlobStream,
}

impl Frames {
    /// The next bytes: several small blobs are one piece, and a large one is many. All that comes before a failure is sent.
    async fn next(&mut self) -> Result<Option<Bytes>, Cut> {
        if let Some(failure) = self.failure.take() {
            // So that what was handed over is on its way: the connection is closed with whatever is not.
            tokio::task::yield_now().await;
            return Err(failure);
        }
        let mut piece = BytesMut::new();
        while piece.len() < PIECE_BYTES {
            match self.more().await {
                Ok(Some(bytes)) if piece.is_empty() && bytes.len() >= PIECE_BYTES / 2 => return Ok(Some(bytes)),
                Ok(Some(bytes)) => piece.extend_from_slice(&bytes),
                Ok(None) => break,
                Err(failure) if piece.is_empty() => return Err(failure),
                Err(failure) => {
                    self.failure = Some(failure);
                    break;
                }
            }
        }
        Ok((!piece.is_empty()).then(|| piece.freeze()))
    }

    /// A line, or bytes of the open blob.
    async fn more(&mut self) -> Result<Option<Bytes>, Cut> {
        if let Some(open) = &mut self.open {
            if let Some(bytes) = open.stream.next().await {
                let bytes = bytes?;
                open.left = open.left.saturating_sub(bytes.len() as u64);
                if open.left == 0 {
                    self.ended.push(open.id);
                }
                return Ok(Some(bytes));
            }
            self.open = None;
        }
        let Some((id, size)) = self.frames.front().copied() else {
            return Ok(None);
        };
        let location = self.locate().await?;
        let blob = RoomBlob::found(&self.state, id, location);
        if blob.size() != size {
            return Err(BlobError::Damaged(id).into());
        }
        self.open = Some(Open {
            id,
            left: size,
            stream: blob.read(&*self.state.blobs, 0..size).await?,
        });
        self.frames.pop_front();
        Ok(Some(line(&id, size).into()))
    }

    /// Where the next blob is. Small blobs are read several at once: each look costs a thread's turn.
    async fn locate(&mut self) -> Result<BlobLocation, Cut> {
        if self.found.is_empty() {
            let next: Vec<BundleId> = self.frames.iter().take(LOOKED_FOR).map(|(id, _)| *id).collect();
            let store = &self.state.store;
            self.found = store.blobs(self.agent, &self.room, &next, PIECE_BYTES).await?.into();
        }
        self.found.pop_front().ok_or(Cut::Store(StoreError::NotFound))
    }

    /// What has its end in the piece that goes out now was sent whole.
    fn note(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        if let Some(sending) = self.sending.as_ref().filter(|_| !ended.is_empty()) {
            sending.keep(ended);
        }
    }

    fn into_stream(self) -> impl futures_util::Stream<Item = Result<Bytes, Cut>> {
        futures_util::stream::try_unfold(self, async |mut frames| {
            let piece = frames
                .next()
                .await
                .inspect_err(|error| tracing::error!(%error, "an answer was cut off"))?;
            frames.note();
            Ok(piece.map(|piece| (piece, frames)))
        })
    }
}
