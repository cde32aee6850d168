//! Several bundles of a room in one answer, in the order asked for: for each a line `ID SIZE`, then its bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::StreamExt;
use parler_protocol::{BundleId, limits, paths};
use schemars::JsonSchema;

use crate::blob_store::{BlobError, BlobStore, BlobStream};
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_blob::RoomBlob;
use crate::room_call::RoomCall;

/// What is asked for, as the query says it with commas.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Ids(#[schemars(length(min = 1, max = limits::MAX_BUNDLES_PER_REQUEST))] Vec<BundleId>);

/// `GET /v1/rooms/{room}/bundles?ids=`
pub(crate) async fn get(call: RoomCall, mut query: Parameters) -> Result<Response, Refusal> {
    let ids: String = query.take("ids")?.unwrap_or_default();
    query.finish()?;
    let ids: Vec<&str> = ids.split(',').collect();
    if ids.len() > limits::MAX_BUNDLES_PER_REQUEST {
        return Err(Refusal::too_large("ids are", limits::MAX_BUNDLES_PER_REQUEST as u64));
    }
    let mut frames = VecDeque::with_capacity(ids.len());
    let mut length = 0;
    for id in ids {
        let id: BundleId = id
            .parse()
            .map_err(|_| Refusal::bad_request("ids are 1 to 64 bundle ids with commas"))?;
        // All are found before the first byte of any is sent.
        let frame = Frame::new(RoomBlob::locate(&call, id).await?);
        length += frame.line.len() as u64 + frame.blob.size();
        frames.push_back(frame);
    }
    let stream = Frames {
        frames,
        blobs: Arc::clone(&call.state.blobs),
        open: None,
    }
    .into_stream();
    let fields = [
        (header::CONTENT_TYPE, HeaderValue::from_static(paths::BUNDLES_TYPE)),
        (header::CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    let mut response = (StatusCode::OK, fields, Body::from_stream(stream)).into_response();
    call.tell_head(&mut response).await;
    Ok(response)
}

struct Frame {
    line: String,
    blob: RoomBlob,
}

impl Frame {
    fn new(blob: RoomBlob) -> Self {
        Self {
            line: format!("{} {}\n", blob.id(), blob.size()),
            blob,
        }
    }
}

/// The answer's bytes. One blob is open at a time.
struct Frames {
    frames: VecDeque<Frame>,
    blobs: Arc<dyn BlobStore>,
    open: Option<BlobStream>,
}

impl Frames {
    async fn next(&mut self) -> Result<Option<Bytes>, BlobError> {
        if let Some(stream) = &mut self.open {
            if let Some(piece) = stream.next().await {
                return piece.map(Some);
            }
            self.open = None;
        }
        let Some(Frame { line, blob }) = self.frames.pop_front() else {
            return Ok(None);
        };
        self.open = Some(blob.read(&*self.blobs, 0..blob.size()).await?);
        Ok(Some(line.into()))
    }

    fn into_stream(self) -> impl futures_util::Stream<Item = Result<Bytes, BlobError>> {
        futures_util::stream::try_unfold(self, async |mut frames| {
            let piece = frames
                .next()
                .await
                .inspect_err(|error| tracing::error!(%error, "an answer was cut off"))?;
            Ok(piece.map(|piece| (piece, frames)))
        })
    }
}
