//! A blob file on its way out, piece by piece. Ends with an error rather than short or with wrong bytes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parler_protocol::BundleId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::{BlobError, Shared, blocking};
use crate::blob_store::{BlobStream, PIECE_BYTES};

/// A file being read.
struct Reading {
    file: File,
    id: BundleId,
    left: Range<u64>,
    /// Only where the whole blob was asked for: a part cannot be compared with the id.
    hash: Option<Sha256>,
}

/// Opens the blob and checks its length; the bytes are read as the stream is.
pub(super) async fn open(
    shared: Arc<Shared>,
    id: BundleId,
    size: u64,
    range: Range<u64>,
) -> Result<BlobStream, BlobError> {
    let reading = blocking(move || Reading::open(&shared, id, size, range)).await?;
    Ok(Box::pin(futures_util::stream::try_unfold(
        reading,
        |reading| async move {
            if reading.left.is_empty() {
                return Ok(None);
            }
            blocking(move || reading.piece().map(Some)).await
        },
    )))
}

impl Reading {
    fn open(shared: &Shared, id: BundleId, size: u64, range: Range<u64>) -> Result<Self, BlobError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::open(shared.path(&id), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::LOOP) => return Err(BlobError::Damaged(id)),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() != size || range.end > size {
            return Err(BlobError::Damaged(id));
        }
        let hash = (range == (0..size)).then(Sha256::new);
        Ok(Self {
            file,
            id,
            left: range,
            hash,
        })
    }

    fn piece(mut self) -> Result<(Bytes, Self), BlobError> {
        let left = self.left.end - self.left.start;
        let mut piece = vec![0; usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES))];
        self.file
            .read_exact_at(&mut piece, self.left.start)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => BlobError::Damaged(self.id),
                _ => BlobError::Io(error),
            })?;
        self.left.start += piece.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(&piece);
            if self.left.is_empty() && BundleId::from_digest(hash.finalize_reset().into()) != self.id {
                return Err(BlobError::Damaged(self.id));
            }
        }
        Ok((piece.into(), self))
    }
}
