//! Bytes to send with a message.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

use parler_protocol::BundleId;

/// A blob that can be read from its beginning as often as it has to be sent.
pub trait BlobSource {
    /// How many bytes there are.
    fn size(&self) -> u64;
    /// The bytes from the beginning.
    fn open(&self) -> io::Result<Box<dyn Read + Send>>;
    /// The bytes behind the first `offset` ones. Reads those too where the source knows no better.
    fn open_at(&self, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut reader = self.open()?;
        io::copy(&mut reader.by_ref().take(offset), &mut io::sink())?;
        Ok(reader)
    }
    /// The SHA-256 of the bytes, where it is known. By it an upload is found again.
    fn id(&self) -> Option<BundleId> {
        None
    }
}

impl BlobSource for Arc<[u8]> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(Self::clone(self))))
    }
}
