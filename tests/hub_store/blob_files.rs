//! Blobs as files: whole or not there, readable by their owner only, and never short.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::TryStreamExt;
use parler_hub::blob_store::{BlobError, BlobStore, FileBlobStore, PIECE_BYTES};
use parler_protocol::BundleId;
use tempfile::TempDir;

/// Bytes without a pattern that a wrong offset could hide in.
fn content(len: usize) -> Vec<u8> {
    let mut state = len as u64 + 1;
    (0..len)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

async fn put(store: &FileBlobStore, bytes: &[u8]) -> Result<BundleId, BlobError> {
    let id = BundleId::of(bytes);
    let mut upload = store.begin(bytes.len() as u64).await?;
    for chunk in bytes.chunks(10_007) {
        upload.write(Bytes::copy_from_slice(chunk)).await?;
    }
    upload.commit(id).await?;
    Ok(id)
}

async fn get(
    store: &FileBlobStore,
    id: &BundleId,
    size: u64,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, BlobError> {
    let pieces: Vec<Bytes> = store.read(id, size, range).await?.try_collect().await?;
    assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
    Ok(pieces.concat())
}

/// Every file below the directory, by its path there.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}

fn path_of(directory: &TempDir, id: &BundleId) -> PathBuf {
    let name = id.to_string();
    directory.path().join("blobs").join(&name[..2]).join(name)
}

fn open() -> (TempDir, FileBlobStore) {
    let directory = TempDir::new().unwrap();
    let store = FileBlobStore::open_with_floor(directory.path().join("blobs"), 0).unwrap();
    (directory, store)
}

#[tokio::test]
async fn what_is_stored_is_read_back_whole_and_in_part() {
    let (directory, store) = open();
    for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 5] {
        let bytes = content(len);
        let (id, size) = (put(&store, &bytes).await.unwrap(), len as u64);
        assert_eq!(store.size(&id).await.unwrap(), Some(size));
        assert_eq!(get(&store, &id, size, 0..size).await.unwrap(), bytes);
        for range in [0..size / 2, size / 2..size, size..size, size / 3..size / 3 + size / 4] {
            let part = &bytes[range.start as usize..range.end as usize];
            assert_eq!(
                get(&store, &id, size, range.clone()).await.unwrap(),
                part,
                "{range:?} of {len}"
            );
        }
        let path = path_of(&directory, &id);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
    }
    let reopened = FileBlobStore::open_with_floor(directory.path().join("blobs"), 0).unwrap();
    let bytes = content(PIECE_BYTES);
    assert_eq!(
        reopened.size(&BundleId::of(&bytes)).await.unwrap(),
        Some(PIECE_BYTES as u64)
    );
    assert_eq!(reopened.size(&BundleId::of(b"never stored")).await.unwrap(), None);
}

#[tokio::test]
async fn an_upload_that_does_not_end_well_leaves_nothing() {
    let (directory, store) = open();
    let bytes = content(2 * PIECE_BYTES + 9);
    let (id, size) = (BundleId::of(&bytes), bytes.len() as u64);

    let mut dropped = store.begin(size).await.unwrap();
    dropped
        .write(Bytes::copy_from_slice(&bytes[..PIECE_BYTES + 1]))
        .await
        .unwrap();
    // A write that is under way on another thread goes to its end; after this one there is none.
    dropped
        .write(Bytes::copy_from_slice(&bytes[PIECE_BYTES + 1..]))
        .await
        .unwrap();
    let wrong = dropped.commit(BundleId::of(b"other bytes")).await;
    assert!(matches!(wrong, Err(BlobError::Mismatch(_))), "{wrong:?}");
    assert!(files(directory.path()).is_empty());

    let idle = store.begin(size).await.unwrap();
    assert_eq!(files(directory.path()).len(), 1);
    drop(idle);
    assert!(files(directory.path()).is_empty());

    let mut short = store.begin(size + 1).await.unwrap();
    short.write(bytes.clone().into()).await.unwrap();
    let result = short.commit(id).await;
    assert!(
        matches!(result, Err(BlobError::Mismatch(told)) if told == id),
        "{result:?}"
    );
    let mut long = store.begin(size - 1).await.unwrap();
    let result = long.write(bytes.clone().into()).await;
    assert!(matches!(result, Err(BlobError::TooLong)), "{result:?}");
    assert!(long.commit(id).await.is_err());
    assert_eq!(store.size(&id).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_crash_left_is_swept_and_blobs_are_kept() {
    let (directory, store) = open();
    let id = put(&store, b"kept").await.unwrap();
    let leftover = directory.path().join("blobs/tmp/upload-abc");
    std::fs::write(&leftover, b"half").unwrap();
    drop(store);
    let store = FileBlobStore::open_with_floor(directory.path().join("blobs"), 0).unwrap();
    assert_eq!(files(directory.path()), [path_of(&directory, &id)]);
    assert_eq!(get(&store, &id, 4, 0..4).await.unwrap(), b"kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_blob_uploaded_many_times_at_once_is_one_file() {
    let (directory, store) = open();
    let bytes = Arc::new(content(PIECE_BYTES + 77));
    let uploads: Vec<_> = (0..8)
        .map(|_| {
            let (store, bytes) = (store.clone(), Arc::clone(&bytes));
            tokio::spawn(async move { put(&store, &bytes).await.unwrap() })
        })
        .collect();
    let mut id = None;
    for upload in uploads {
        id = Some(upload.await.unwrap());
    }
    let (id, size) = (id.unwrap(), bytes.len() as u64);
    assert_eq!(files(directory.path()), [path_of(&directory, &id)]);
    let inode = path_of(&directory, &id).metadata().unwrap().ino();
    put(&store, &bytes).await.unwrap();
    assert_eq!(
        path_of(&directory, &id).metadata().unwrap().ino(),
        inode,
        "not written again"
    );
    assert_eq!(get(&store, &id, size, 0..size).await.unwrap(), *bytes);
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_never_short_bytes() {
    let (directory, store) = open();
    let bytes = content(2 * PIECE_BYTES);
    let size = bytes.len() as u64;
    let id = put(&store, &bytes).await.unwrap();
    let path = path_of(&directory, &id);
    let damaged = |result: Result<Vec<u8>, BlobError>| {
        assert!(
            matches!(result, Err(BlobError::Damaged(told)) if told == id),
            "{:?}",
            result.map(|bytes| bytes.len())
        );
    };

    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    // Cut while somebody reads it.
    let mut reading = store.read(&id, size, 0..size).await.unwrap();
    reading.try_next().await.unwrap().unwrap();
    file.set_len(size - 1).unwrap();
    assert!(matches!(reading.try_next().await, Err(BlobError::Damaged(_))));
    damaged(get(&store, &id, size, 0..size).await);
    damaged(get(&store, &id, size, 0..1).await);
    // As long as before, with another last byte.
    file.set_len(size).unwrap();
    damaged(get(&store, &id, size, 0..size).await);
    std::fs::remove_file(&path).unwrap();
    damaged(get(&store, &id, size, 0..size).await);
    // A link is no blob, whatever is behind it.
    let elsewhere = directory.path().join("elsewhere");
    std::fs::write(&elsewhere, &bytes).unwrap();
    symlink(&elsewhere, &path).unwrap();
    damaged(get(&store, &id, size, 0..size).await);
    std::fs::remove_file(&path).unwrap();
    // A second upload mends a file that is cut.
    std::fs::write(&path, b"short").unwrap();
    put(&store, &bytes).await.unwrap();
    assert_eq!(get(&store, &id, size, 0..size).await.unwrap(), bytes);
}

#[tokio::test]
async fn some_of_the_disk_stays_free() {
    let directory = TempDir::new().unwrap();
    let store = FileBlobStore::open_with_floor(directory.path().join("blobs"), 100).unwrap();
    assert!(matches!(store.begin(1).await.err(), Some(BlobError::StorageFull)));
    let store = FileBlobStore::open_with_floor(directory.path().join("blobs"), 0).unwrap();
    assert!(matches!(
        store.begin(u64::MAX).await.err(),
        Some(BlobError::StorageFull)
    ));
    // What running uploads may still write counts; what an ended one set aside does not.
    let disk = rustix::fs::statvfs(directory.path()).unwrap();
    let most = disk.f_bavail * disk.f_frsize / 4 * 3;
    let first = store.begin(most).await.unwrap();
    assert!(matches!(store.begin(most).await.err(), Some(BlobError::StorageFull)));
    drop(first);
    store.begin(most).await.unwrap();
}
