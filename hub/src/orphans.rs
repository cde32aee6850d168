//! Blobs that the store has no row of: of a message that lost its race, or that was cut off before it was stored. They
//! are removed when a hub starts, before it answers anybody; while it runs, one of them may be about to get its row.

use crate::blob_store::{BlobError, BlobStore};
use crate::fail_point::{FailPoint, reached};
use crate::store::{Store, StoreError};

/// Why orphans could not be looked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OrphanError {
    #[error(transparent)]
    Blobs(#[from] BlobError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Removes them, and says how many there were. Holds the ids of a 256th of all blobs.
pub(crate) async fn collect(store: &dyn Store, blobs: &dyn BlobStore) -> Result<u64, OrphanError> {
    let mut removed = 0;
    for first_byte in blobs.first_bytes().await? {
        let stored = blobs.list(first_byte).await?;
        if stored.is_empty() {
            continue;
        }
        let known = store.file_blobs(first_byte).await?;
        for id in stored.iter().filter(|id| !known.contains(*id)) {
            blobs.remove(id).await?;
            reached(FailPoint::OrphanRemoved);
            removed += 1;
        }
    }
    Ok(removed)
}
