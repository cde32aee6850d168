//! A blob of a room, found for a member and read in pieces. Never held whole unless it is small enough to live in the
//! database.

use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use parler_protocol::BundleId;
use prometheus_client::metrics::counter::Counter;

use crate::blob_store::{BlobError, BlobStore, BlobStream};
use crate::fetches::Sending;
use crate::problem::Refusal;
use crate::room_call::RoomCall;
use crate::state::HubState;
use crate::store::BlobLocation;

pub(crate) struct RoomBlob {
    id: BundleId,
    location: BlobLocation,
    /// Bytes handed out.
    sent: Counter,
}

impl RoomBlob {
    /// Finds the blob in the call's room.
    pub(crate) async fn locate(call: &RoomCall, id: BundleId) -> Result<Self, Refusal> {
        let location = call
            .run(|| call.store().blob(call.principal.agent, &call.room, &id))
            .await?;
        Ok(Self::found(&call.state, id, location))
    }

    /// A blob that was found there.
    pub(crate) fn found(state: &HubState, id: BundleId, location: BlobLocation) -> Self {
        Self {
            id,
            location,
            sent: state.metrics.blob_bytes_out.clone(),
        }
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        match &self.location {
            BlobLocation::Inline(bytes) => bytes.len() as u64,
            BlobLocation::File(size) => *size,
        }
    }

    /// The bytes in `range`, which is within the blob.
    pub(crate) async fn read(&self, blobs: &dyn BlobStore, range: Range<u64>) -> Result<BlobStream, BlobError> {
        let stream = match &self.location {
            BlobLocation::Inline(bytes) => one_piece(bytes.slice(range.start as usize..range.end as usize)),
            BlobLocation::File(size) => blobs.read(&self.id, *size, range).await?,
        };
        let sent = self.sent.clone();
        let count = move |piece: &Bytes| {
            sent.inc_by(piece.len() as u64);
        };
        Ok(stream.inspect_ok(count).boxed())
    }

    /// The same, as an answer to this call: notes how much of the blob goes out.
    pub(crate) async fn send(&self, call: &RoomCall, range: Range<u64>) -> Result<BlobStream, BlobError> {
        let stream = self.read(&*call.state.blobs, range.clone()).await?;
        let Some(sending) = Sending::of(call) else {
            return Ok(stream);
        };
        let sent = Sent {
            sending,
            id: self.id,
            size: self.size(),
            start: range.start,
            at: range.start,
            end: range.end,
            is_noted: false,
        };
        if range.is_empty() {
            // A body without bytes is read by nobody.
            drop(sent);
            return Ok(stream);
        }
        let sent = futures_util::stream::unfold((stream, sent), async |(mut stream, mut sent)| {
            let piece = stream.next().await?;
            if let Ok(piece) = &piece {
                sent.at += piece.len() as u64;
                if sent.at >= sent.end {
                    // Whoever takes it may not ask for what follows the last piece.
                    sent.note();
                }
            }
            Some((piece, (stream, sent)))
        });
        Ok(sent.boxed())
    }
}

/// How far one answer with bytes of a blob has come.
struct Sent {
    sending: Sending,
    id: BundleId,
    size: u64,
    start: u64,
    at: u64,
    end: u64,
    is_noted: bool,
}

impl Sent {
    fn note(&mut self) {
        if !std::mem::replace(&mut self.is_noted, true) {
            self.sending.sent(self.id, self.start..self.at, self.size);
        }
    }
}

impl Drop for Sent {
    /// Also of an answer that was cut off: the next one may go on from there.
    fn drop(&mut self) {
        self.note();
    }
}

fn one_piece(bytes: Bytes) -> BlobStream {
    futures_util::stream::once(std::future::ready(Ok(bytes))).boxed()
}
