//! Blobs as they arrive. What is read here is not checked against its id: whoever stores or imports it does that.

use std::io::{self, Read};

use bytes::{Buf, Bytes};
use parler_protocol::BundleId;
use reqwest::Response;

use crate::{Client, ClientError};

/// Longest line before a bundle: an id, a blank, a length.
const MAX_FRAME_LINE_BYTES: usize = 96;

/// An answer's bytes.
struct Pieces<'a> {
    client: &'a Client,
    response: Response,
    piece: Bytes,
}

impl Pieces<'_> {
    /// Makes sure that there are bytes, unless the answer is over.
    fn fill(&mut self) -> Result<bool, ClientError> {
        while self.piece.is_empty() {
            match self.client.next_piece(&mut self.response)? {
                Some(piece) => self.piece = piece,
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ClientError> {
        if buffer.is_empty() || !self.fill()? {
            return Ok(0);
        }
        let count = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..count]);
        Ok(count)
    }
}

/// Several bundles in one answer. Ask for the next when the last has been read, or to skip the rest of it.
pub struct BundleStream<'a> {
    pieces: Pieces<'a>,
    /// Bytes of the present bundle that have not been read.
    left: u64,
}

impl<'a> BundleStream<'a> {
    pub(crate) fn new(client: &'a Client, response: Response) -> Self {
        Self {
            pieces: Pieces {
                client,
                response,
                piece: Bytes::new(),
            },
            left: 0,
        }
    }

    /// The next bundle, or `None` after the last.
    ///
    /// # Errors
    /// When the connection is lost, or the answer is not of the documented form.
    #[allow(
        clippy::should_implement_trait,
        reason = "each bundle borrows the stream it is read from"
    )]
    pub fn next(&mut self) -> Result<Option<BundleReader<'_, 'a>>, ClientError> {
        while self.left > 0 {
            self.read(&mut [0; 8192])?;
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        let frame = line
            .split_once(' ')
            .and_then(|(id, size)| Some((id.parse().ok()?, size.parse().ok()?)));
        let (id, size) = frame.ok_or_else(|| self.pieces.client.not_a_hub("a bundle without id and length"))?;
        self.left = size;
        Ok(Some(BundleReader { id, size, stream: self }))
    }

    fn line(&mut self) -> Result<Option<String>, ClientError> {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            match self.pieces.read(&mut byte)? {
                0 if line.is_empty() => return Ok(None),
                1 if byte == *b"\n" => break,
                1 if line.len() < MAX_FRAME_LINE_BYTES => line.push(byte[0]),
                _ => return Err(self.pieces.client.not_a_hub("a bundle without id and length")),
            }
        }
        String::from_utf8(line)
            .map(Some)
            .map_err(|_| self.pieces.client.not_a_hub("a bundle without id and length"))
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, ClientError> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.pieces.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(self.pieces.client.lost("it ended in the middle of a bundle"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// One bundle of a [`BundleStream`], read to its end and no further.
pub struct BundleReader<'s, 'a> {
    /// Which bundle the hub says it is.
    pub id: BundleId,
    /// Its length in bytes.
    pub size: u64,
    stream: &'s mut BundleStream<'a>,
}

impl Read for BundleReader<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer).map_err(io::Error::other)
    }
}

/// One blob, read to its end.
pub struct BlobReader<'a> {
    /// The blob asked for.
    pub id: BundleId,
    /// Its length in bytes.
    pub size: u64,
    pieces: Pieces<'a>,
    left: u64,
}

impl<'a> BlobReader<'a> {
    pub(crate) fn new(client: &'a Client, response: Response, id: BundleId) -> Result<Self, ClientError> {
        let size = response
            .content_length()
            .ok_or_else(|| client.not_a_hub("a blob of unknown length"))?;
        Ok(Self {
            id,
            size,
            pieces: Pieces {
                client,
                response,
                piece: Bytes::new(),
            },
            left: size,
        })
    }
}

impl Read for BlobReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.pieces.read(buffer).map_err(io::Error::other)?;
        if count == 0 && !buffer.is_empty() && self.left > 0 {
            return Err(io::Error::other(
                self.pieces.client.lost("it ended in the middle of a blob"),
            ));
        }
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}
