//! Every blob against its id and its length, in the database and as a file, and the files against the rows. Holds one blob
//! of the database, or one piece of a file, and the names of a 256th of all files.

use std::collections::HashSet;

use futures_util::TryStreamExt;
use parler_protocol::BundleId;

use super::{CheckOptions, FindingKind, Place, Report};
use crate::blob_store::{BlobError, BlobStore};
use crate::hub::BLOBS_DIRECTORY;
use crate::store::{Inspector, StoredBlob};

/// A blob's id, as a row has it.
pub(super) fn blob_id(bytes: &[u8]) -> Option<BundleId> {
    bytes.try_into().ok().map(BundleId::from_digest)
}

/// Checks all of them.
pub(super) async fn check(
    inspector: &Inspector,
    store: &dyn BlobStore,
    options: &CheckOptions,
    report: &mut Report<'_>,
) {
    let mut after = Vec::new();
    loop {
        let blobs = match inspector.blobs_after(&after) {
            Ok(blobs) => blobs,
            Err(error) => {
                let what = format!("the blobs cannot be read on: {error}");
                report.found(FindingKind::Database, Place::default(), what);
                break;
            }
        };
        let Some(last) = blobs.last() else { break };
        after.clone_from(&last.id);
        for blob in blobs {
            row(inspector, store, blob, report).await;
            report.went_on();
        }
    }
    if let Err(error) = orphans(inspector, store, options, report).await {
        let what = format!("the files cannot be looked through: {error}");
        report.found(FindingKind::BlobMissing, Place::file(BLOBS_DIRECTORY), what);
    }
}

async fn row(inspector: &Inspector, store: &dyn BlobStore, blob: StoredBlob, report: &mut Report<'_>) {
    let Some(id) = blob_id(&blob.id) else {
        return report.found(FindingKind::Database, Place::default(), "a blob has an id that is none");
    };
    let size = blob.size.unsigned_abs();
    report.summary.blobs += 1;
    report.summary.blob_bytes += size;
    report.progress.blobs += 1;
    report.progress.blob_bytes += size;
    if blob.rooms == 0 {
        report.found(FindingKind::BlobUnlinked, Place::blob(id), "no room holds it");
    }
    let found = match blob.bytes {
        Some(bytes) if bytes.len() as u64 != size => Some((
            FindingKind::BlobSize,
            format!("it has {} bytes in place of {size}", bytes.len()),
        )),
        Some(bytes) if BundleId::of(&bytes) != id => Some((FindingKind::BlobBytes, bytes_differ())),
        Some(_) => None,
        None => file(store, &id, size).await,
    };
    if let Some((kind, what)) = found {
        // While a hub runs it may have been given up meanwhile.
        if kind == FindingKind::BlobMissing && inspector.is_in_use() && !inspector.is_file(&blob.id).unwrap_or(true) {
            return;
        }
        report.found(kind, Place::blob(id), what);
    }
}

fn bytes_differ() -> String {
    "its bytes do not hash to its id".to_owned()
}

/// What is wrong with a blob's file.
async fn file(store: &dyn BlobStore, id: &BundleId, size: u64) -> Option<(FindingKind, String)> {
    match store.size(id).await {
        Ok(Some(found)) if found == size => {}
        Ok(Some(found)) => {
            return Some((
                FindingKind::BlobSize,
                format!("its file has {found} bytes in place of {size}"),
            ));
        }
        Ok(None) => return Some((FindingKind::BlobMissing, "its file is not there".to_owned())),
        Err(BlobError::Damaged(_)) => {
            return Some((FindingKind::BlobMissing, "what has its name is no file".to_owned()));
        }
        Err(error) => return Some((FindingKind::BlobMissing, format!("its file cannot be read: {error}"))),
    }
    let read = async {
        let mut pieces = store.read(id, size, 0..size).await?;
        while pieces.try_next().await?.is_some() {}
        Ok::<_, BlobError>(())
    };
    match read.await {
        Ok(()) => None,
        Err(BlobError::Damaged(_)) => Some((FindingKind::BlobBytes, bytes_differ())),
        Err(error) => Some((FindingKind::BlobMissing, format!("its file cannot be read: {error}"))),
    }
}

/// Files that are nobody's blob. While a hub runs one of them may be about to get its row, so they are not told.
async fn orphans(
    inspector: &Inspector,
    store: &dyn BlobStore,
    options: &CheckOptions,
    report: &mut Report<'_>,
) -> Result<(), BlobError> {
    if inspector.is_in_use() {
        return Ok(());
    }
    for first_byte in store.first_bytes().await? {
        let ids: HashSet<BundleId> = store.list(first_byte).await?.into_iter().collect();
        for id in ids {
            if inspector.is_file(id.as_bytes()).unwrap_or(true) {
                continue;
            }
            let size = store.size(&id).await?.unwrap_or(0);
            let removed = options.repair && store.remove(&id).await.is_ok();
            let outcome = if removed { "; removed" } else { "" };
            report.summary.leftover_bytes += size;
            report.summary.removed += u64::from(removed);
            let what = format!("a file of {size} bytes that is nobody's blob{outcome}");
            report.found(FindingKind::OrphanFile, Place::blob(id), what);
        }
    }
    Ok(())
}
