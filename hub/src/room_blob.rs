//! A blob of a room, found for a member and read in pieces. Never held whole unless it is small enough to live in the
//! database.

use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use parler_protocol::BundleId;
use prometheus_client::metrics::counter::Counter;

use crate::blob_store::{BlobError, BlobStore, BlobStream};
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
}

fn one_piece(bytes: Bytes) -> BlobStream {
    futures_util::stream::once(std::future::ready(Ok(bytes))).boxed()
}
