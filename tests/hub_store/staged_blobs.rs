//! Blobs that come in several requests: they outlive the process, and nothing is stored under an id that it does not
//! hash to.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::{FutureExt, TryStreamExt};
use parler_hub::blob_store::{BlobError, BlobStore, FileBlobStore, PIECE_BYTES, StagedBlob};
use parler_protocol::{BundleId, UploadId};
use tempfile::TempDir;

const UPLOAD: UploadId = UploadId::from_random([7; 16]);

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|n| ((n * n) >> 7) as u8 ^ n as u8).collect()
}

fn reopen(directory: &TempDir) -> FileBlobStore {
    FileBlobStore::open_with_floor(directory.path().join("blobs"), 0).unwrap()
}

fn open() -> (TempDir, FileBlobStore) {
    let directory = TempDir::new().unwrap();
    let store = reopen(&directory);
    (directory, store)
}

async fn write(staged: &mut Box<dyn StagedBlob>, bytes: &[u8]) {
    for chunk in bytes.chunks(30_011) {
        staged.write(Bytes::copy_from_slice(chunk)).await.unwrap();
    }
}

async fn read(store: &FileBlobStore, bytes: &[u8]) -> Result<Vec<u8>, BlobError> {
    let size = bytes.len() as u64;
    let pieces: Vec<Bytes> = store
        .read(&BundleId::of(bytes), size, 0..size)
        .await?
        .try_collect()
        .await?;
    Ok(pieces.concat())
}

fn stored_at(directory: &TempDir, bytes: &[u8]) -> PathBuf {
    let id = BundleId::of(bytes).to_string();
    directory.path().join("blobs").join(&id[..2]).join(id)
}

/// The names of what is staged.
fn staged_files(directory: &TempDir) -> Vec<String> {
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    let mut found = names(&directory.path().join("blobs/uploads"));
    found.extend(names(&directory.path().join("blobs/tmp")));
    found
}

#[tokio::test]
async fn what_is_staged_is_stored_when_it_is_whole_and_forgotten_when_removed() {
    let (directory, store) = open();
    let bytes = content(3 * PIECE_BYTES + 5);
    let mut staged = store.stage(UPLOAD, b"note").await.unwrap();
    write(&mut staged, &bytes[..PIECE_BYTES + 9]).await;
    assert_eq!(staged.settle().await.unwrap(), PIECE_BYTES as u64 + 9);
    let early = staged.publish(BundleId::of(&bytes)).await;
    assert!(matches!(early, Err(BlobError::Mismatch(_))), "{early:?}");
    assert!(!stored_at(&directory, &bytes).exists());
    write(&mut staged, &bytes[PIECE_BYTES + 9..]).await;
    // Twice, as for a message that is signed anew after a lost race.
    for _ in 0..2 {
        staged.publish(BundleId::of(&bytes)).await.unwrap();
        assert!(read(&store, &bytes).await.unwrap() == bytes);
    }
    staged.remove().await.unwrap();
    assert!(staged_files(&directory).is_empty());
    assert!(read(&store, &bytes).await.unwrap() == bytes, "removing leaves the blob");
}

#[tokio::test]
async fn what_is_staged_outlives_the_process_and_is_hashed_again() {
    let (directory, store) = open();
    let bytes = content(2 * PIECE_BYTES + 77);
    let (first, rest) = bytes.split_at(PIECE_BYTES + 1);
    let mut staged = store.stage(UPLOAD, b"whose it is").await.unwrap();
    write(&mut staged, first).await;
    staged.settle().await.unwrap();
    drop((staged, store));
    // Halves of others, and what cannot be one.
    let uploads = directory.path().join("blobs/uploads");
    std::fs::write(uploads.join(format!("{}.json", UploadId::from_random([8; 16]))), "x").unwrap();
    std::fs::write(uploads.join(UploadId::from_random([9; 16]).to_string()), "x").unwrap();

    let store = reopen(&directory);
    let mut kept = store.staged().await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(staged_files(&directory).len(), 2, "{:?}", staged_files(&directory));
    let kept = &mut kept[0];
    assert_eq!((kept.id, kept.note.as_slice()), (UPLOAD, &b"whose it is"[..]));
    assert_eq!(kept.blob.settle().await.unwrap(), first.len() as u64);
    write(&mut kept.blob, rest).await;
    kept.blob.publish(BundleId::of(&bytes)).await.unwrap();
    assert!(read(&store, &bytes).await.unwrap() == bytes);
}

#[tokio::test]
async fn bytes_that_a_power_failure_spoiled_are_never_stored() {
    let (directory, store) = open();
    let bytes = content(PIECE_BYTES);
    let mut staged = store.stage(UPLOAD, b"").await.unwrap();
    write(&mut staged, &bytes).await;
    staged.settle().await.unwrap();
    drop((staged, store));
    let mut spoiled = bytes.clone();
    spoiled[1000] ^= 1;
    std::fs::write(
        directory.path().join("blobs/uploads").join(UPLOAD.to_string()),
        &spoiled,
    )
    .unwrap();
    let store = reopen(&directory);
    let mut kept = store.staged().await.unwrap();
    let result = kept[0].blob.publish(BundleId::of(&bytes)).await;
    assert!(matches!(result, Err(BlobError::Mismatch(_))), "{result:?}");
    assert!(!stored_at(&directory, &bytes).exists());
}

/// As when too many files are open: nothing is removed because it cannot be looked at now.
#[tokio::test]
async fn one_that_cannot_be_opened_stays_and_hides_no_other() {
    let (directory, store) = open();
    let other = UploadId::from_random([8; 16]);
    for id in [UPLOAD, other] {
        write(&mut store.stage(id, b"note").await.unwrap(), b"").await;
    }
    drop(store);
    let uploads = directory.path().join("blobs/uploads");
    std::fs::remove_file(uploads.join(UPLOAD.to_string())).unwrap();
    std::fs::create_dir(uploads.join(UPLOAD.to_string())).unwrap();
    let kept = reopen(&directory).staged().await.unwrap();
    assert_eq!(kept.iter().map(|kept| kept.id).collect::<Vec<_>>(), [other]);
    assert_eq!(staged_files(&directory).len(), 4);
}

#[tokio::test]
async fn a_stored_file_is_never_written_to() {
    let (directory, store) = open();
    let bytes = content(1000);
    let mut staged = store.stage(UPLOAD, b"").await.unwrap();
    write(&mut staged, &bytes).await;
    staged.publish(BundleId::of(&bytes)).await.unwrap();
    write(&mut staged, b"more").await;
    let result = staged.settle().await;
    assert!(matches!(result, Err(BlobError::Sealed)), "{result:?}");
    assert_eq!(staged.settle().await.unwrap(), 1000);
    drop((staged, store));
    // Killed before it was removed: the next process knows by the second name.
    let store = reopen(&directory);
    assert!(store.staged().await.unwrap().is_empty());
    assert!(staged_files(&directory).is_empty());
    assert_eq!(read(&store, &bytes).await.unwrap(), bytes);
}

#[tokio::test]
async fn a_blob_that_nobody_knows_goes_and_what_was_staged_for_it_stays() {
    let (directory, store) = open();
    let bytes = content(1000);
    let mut staged = store.stage(UPLOAD, b"").await.unwrap();
    write(&mut staged, &bytes).await;
    let id = BundleId::of(&bytes);
    staged.publish(id).await.unwrap();
    drop((staged, store));
    let store = reopen(&directory);
    assert_eq!(store.first_bytes().await.unwrap(), [id.as_bytes()[0]]);
    assert_eq!(store.list(id.as_bytes()[0]).await.unwrap(), [id]);
    assert!(store.list(id.as_bytes()[0] ^ 1).await.unwrap().is_empty());
    store.remove(&id).await.unwrap();
    store.remove(&id).await.unwrap();
    assert!(store.list(id.as_bytes()[0]).await.unwrap().is_empty());
    let mut kept = store.staged().await.unwrap();
    assert_eq!(kept[0].blob.settle().await.unwrap(), 1000);
    kept[0].blob.publish(id).await.unwrap();
    assert_eq!(read(&store, &bytes).await.unwrap(), bytes);
}

#[tokio::test]
async fn a_write_that_is_given_up_loses_nothing() {
    let (_directory, store) = open();
    let bytes = content(8 * PIECE_BYTES);
    let mut staged = store.stage(UPLOAD, b"").await.unwrap();
    for chunk in bytes.chunks(PIECE_BYTES / 2) {
        // As when the client goes away: the request's future is dropped wherever it is.
        let mut writing = staged.write(Bytes::copy_from_slice(chunk));
        let _ = (&mut writing).now_or_never();
    }
    assert_eq!(staged.settle().await.unwrap(), bytes.len() as u64);
    staged.publish(BundleId::of(&bytes)).await.unwrap();
    assert!(read(&store, &bytes).await.unwrap() == bytes);
}

#[tokio::test]
async fn without_space_it_keeps_what_it_has() {
    let directory = TempDir::new().unwrap();
    let store = FileBlobStore::open_with_floor(directory.path().join("blobs"), 100).unwrap();
    let mut staged = store.stage(UPLOAD, b"").await.unwrap();
    staged.write(Bytes::from_static(b"x")).await.unwrap();
    let result = staged.settle().await;
    assert!(matches!(result, Err(BlobError::StorageFull)), "{result:?}");
    assert_eq!(staged.settle().await.unwrap(), 0);
}
