//! Bytes to send with a message.

use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// A blob that can be read from its beginning as often as it has to be sent.
pub trait BlobSource {
    /// How many bytes there are.
    fn size(&self) -> u64;
    /// The bytes from the beginning.
    fn open(&self) -> io::Result<Box<dyn Read + Send>>;
}

impl BlobSource for Arc<[u8]> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(Cursor::new(Self::clone(self))))
    }
}
