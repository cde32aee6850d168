//! The body of a request that carries a blob: read piece by piece as the connection takes it, and watched for stalling.

use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Body;

/// How a blob is read to be sent.
const UPLOAD_PIECE_BYTES: usize = 256 << 10; // 256 KiB

/// When a request's body last moved.
#[derive(Clone)]
pub(crate) struct Progress(Arc<Mutex<Instant>>);

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Progress {
    fn moved(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Resolves when nothing has moved for this long.
    pub(crate) async fn stalled(&self, patience: Duration) {
        loop {
            let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner) + patience;
            if until <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(until.into()).await;
        }
    }
}

/// A body that reads the blob as the connection takes it, behind the message that it travels with.
pub(crate) fn upload(message: Option<Bytes>, reader: Box<dyn Read + Send>, progress: Progress) -> Body {
    let pieces = futures_util::stream::try_unfold((message, reader), move |(message, mut reader)| {
        progress.moved();
        async move {
            if let Some(message) = message {
                return Ok::<_, std::io::Error>(Some((message, (None, reader))));
            }
            let mut piece = Vec::with_capacity(UPLOAD_PIECE_BYTES);
            // Blocks the only task there is, which has nothing to do until the bytes are there.
            reader
                .by_ref()
                .take(UPLOAD_PIECE_BYTES as u64)
                .read_to_end(&mut piece)?;
            Ok((!piece.is_empty()).then(|| (Bytes::from(piece), (None, reader))))
        }
    });
    Body::wrap_stream(pieces)
}
