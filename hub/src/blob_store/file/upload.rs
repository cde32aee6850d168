//! A blob on its way into a file. Hashes while it writes, one piece behind the network, and gives the file its name
//! only when the bytes are on the disk.

use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parler_protocol::BundleId;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;
use tokio::task::JoinHandle;

use super::{BlobError, Reservation, Shared, blocking, write_error};
use crate::blob_store::{BlobUpload, PIECE_BYTES};
use crate::fail_point::{FailPoint, reached};

/// An upload.
pub(super) struct FileUpload {
    /// Bytes announced.
    size: u64,
    /// Bytes taken, written or not.
    taken: u64,
    /// Bytes that wait to make up a piece.
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    progress: Progress,
}

/// Where the file is.
enum Progress {
    /// Nobody writes to it.
    Idle(Box<PartialFile>),
    /// A blocking thread writes a piece.
    Writing(JoinHandle<Result<Box<PartialFile>, BlobError>>),
    /// An error ended it.
    Failed,
}

/// The file while it has no name.
struct PartialFile {
    shared: Arc<Shared>,
    /// Removed from the disk when dropped.
    file: NamedTempFile,
    hash: Sha256,
    reservation: Reservation,
}

impl FileUpload {
    /// Makes the file.
    pub(super) fn begin(shared: Arc<Shared>, size: u64) -> Result<Self, BlobError> {
        shared.check_running()?;
        let reservation = shared.reserve(size)?;
        // Made with O_EXCL, hence through no link, and readable by its owner only.
        let file = tempfile::Builder::new()
            .prefix("upload-")
            .tempfile_in(shared.temporary())
            .map_err(write_error)?;
        reached(FailPoint::BlobFileMade);
        let file = PartialFile {
            shared,
            file,
            hash: Sha256::new(),
            reservation,
        };
        let progress = Progress::Idle(Box::new(file));
        Ok(Self {
            size,
            taken: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            progress,
        })
    }

    /// Waits for the piece that is being written.
    async fn idle(&mut self) -> Result<Box<PartialFile>, BlobError> {
        match std::mem::replace(&mut self.progress, Progress::Failed) {
            Progress::Idle(file) => Ok(file),
            Progress::Writing(task) => task.await.unwrap_or_else(|error| Err(io::Error::other(error).into())),
            Progress::Failed => Err(io::Error::other("the upload has failed before").into()),
        }
    }

    /// Hands what waits to a blocking thread.
    async fn flush(&mut self) -> Result<(), BlobError> {
        let mut file = self.idle().await?;
        let pieces = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        self.progress = Progress::Writing(tokio::task::spawn_blocking(move || {
            for piece in pieces {
                file.write(&piece)?;
            }
            Ok(file)
        }));
        Ok(())
    }
}

#[async_trait]
impl BlobUpload for FileUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BlobError> {
        self.taken = self.taken.saturating_add(bytes.len() as u64);
        if self.taken > self.size {
            self.progress = Progress::Failed;
            return Err(BlobError::TooLong);
        }
        self.waiting_bytes += bytes.len();
        self.waiting.push(bytes);
        if self.waiting_bytes >= PIECE_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn commit(mut self: Box<Self>, id: BundleId) -> Result<(), BlobError> {
        if self.taken != self.size {
            return Err(BlobError::Mismatch(id));
        }
        self.flush().await?;
        let file = self.idle().await?;
        let size = self.size;
        blocking(move || file.publish(id, size)).await
    }
}

impl PartialFile {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        self.hash.update(bytes);
        self.file.as_file_mut().write_all(bytes).map_err(write_error)?;
        self.reservation.written(bytes.len() as u64);
        reached(FailPoint::BlobPieceWritten);
        Ok(())
    }

    fn publish(self, id: BundleId, size: u64) -> Result<(), BlobError> {
        let Self { shared, file, hash, .. } = self;
        if BundleId::from_digest(hash.finalize().into()) != id {
            return Err(BlobError::Mismatch(id));
        }
        reached(FailPoint::BlobHashed);
        let (file, path) = file.into_parts();
        shared.publish(&id, &file, size, |to| {
            std::fs::rename(&path, to).map_err(write_error)?;
            // It has another name now.
            path.keep().map(drop).map_err(|error| write_error(error.error))
        })
    }
}
