//! Blobs as they arrive. Where a connection is lost, the rest is asked for on another; readers do not notice. What is read
//! here is not checked against its id: whoever stores or imports it does that.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::time::Instant;

use bytes::{Buf, Bytes};
use http::StatusCode;
use http::header::{CONTENT_RANGE, IF_RANGE, RANGE};
use parler_protocol::{BundleId, RoomName, paths};
use reqwest::Response;

use crate::pace::Pace;
use crate::patience::Patience;
use crate::request::Request;
use crate::{Client, ClientError};

/// Longest line before a bundle: an id, a blank, a length.
const MAX_FRAME_LINE_BYTES: usize = 96;

/// An answer's bytes.
struct Pieces<'a> {
    client: &'a Client,
    response: Response,
    piece: Bytes,
    pace: Pace,
}

impl<'a> Pieces<'a> {
    const fn new(client: &'a Client, response: Response) -> Self {
        Self {
            client,
            response,
            piece: Bytes::new(),
            pace: Pace::new(),
        }
    }

    /// Makes sure that there are bytes, unless the answer is over.
    fn fill(&mut self) -> Result<bool, ClientError> {
        while self.piece.is_empty() {
            let began = Instant::now();
            match self.client.next_piece(&mut self.response)? {
                Some(piece) => self.piece = piece,
                None => return Ok(false),
            }
            self.pace.came(self.client, self.piece.len(), began.elapsed())?;
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

/// How far one blob has been read.
struct Position {
    room: RoomName,
    id: BundleId,
    size: u64,
    done: u64,
}

impl Position {
    /// The next bytes of this blob, from the answer at hand or, when that is lost, from the next one. Whether another
    /// answer had to be asked for, which then holds this blob's bytes and nothing behind them.
    fn read(
        &mut self,
        pieces: &mut Pieces<'_>,
        patience: &mut Patience,
        buffer: &mut [u8],
    ) -> Result<(usize, bool), ClientError> {
        let left = usize::try_from(self.size - self.done).unwrap_or(usize::MAX);
        let most = left.min(buffer.len());
        let mut is_another = false;
        let mut tried = pieces.read(&mut buffer[..most]);
        loop {
            let failure = match tried {
                Ok(0) if most > 0 => pieces.client.lost("it ended in the middle of a blob"),
                Ok(count) => {
                    patience.progressed();
                    self.done += count as u64;
                    return Ok((count, is_another));
                }
                Err(failure) => failure,
            };
            let client = pieces.client;
            patience
                .pause(client, failure)
                .map_err(|failure| client.stopped("download", self.done, self.size, failure))?;
            tried = match self.rest(client) {
                Ok(rest) => {
                    patience.answered();
                    *pieces = rest;
                    is_another = true;
                    pieces.read(&mut buffer[..most])
                }
                Err(failure) => Err(failure),
            };
        }
    }

    /// Asks for what is missing.
    fn rest<'a>(&self, client: &'a Client) -> Result<Pieces<'a>, ClientError> {
        let mut request = Request::get(paths::blob(&self.room, &self.id));
        request.headers.push((RANGE, format!("bytes={}-", self.done)));
        request.headers.push((IF_RANGE, format!("\"{}\"", self.id)));
        let response = client.attempt_once(&request)?;
        let is_rest = response.status() == StatusCode::PARTIAL_CONTENT;
        if is_rest {
            let place = response
                .headers()
                .get(CONTENT_RANGE)
                .and_then(|place| place.to_str().ok());
            let expected = format!("bytes {}-{}/{}", self.done, self.size.saturating_sub(1), self.size);
            if place != Some(expected.as_str()) {
                return Err(client.not_a_hub("another part of a blob than was asked for"));
            }
        } else if response.content_length() != Some(self.size) {
            return Err(client.not_a_hub("a blob of another length than before"));
        }
        let mut pieces = Pieces::new(client, response);
        if !is_rest {
            // A proxy between us may answer with all of it.
            let mut skipped = 0;
            while skipped < self.done {
                let most = usize::try_from(self.done - skipped).unwrap_or(usize::MAX).min(8192);
                match pieces.read(&mut [0; 8192][..most])? {
                    0 => return Err(client.lost("it ended in the middle of a blob")),
                    count => skipped += count as u64,
                }
            }
        }
        Ok(pieces)
    }
}

/// Several bundles, one after the other. Ask for the next when the last has been read, or to skip the rest of it.
pub struct BundleStream<'a> {
    room: RoomName,
    pieces: Pieces<'a>,
    /// Those that have not begun.
    ids: VecDeque<BundleId>,
    /// Whether behind the present bundle the answer goes on with the next.
    is_framed: bool,
    present: Option<Position>,
    patience: Patience,
}

impl<'a> BundleStream<'a> {
    pub(crate) fn new(client: &'a Client, room: &RoomName, ids: &[BundleId], response: Response) -> Self {
        Self {
            room: room.clone(),
            pieces: Pieces::new(client, response),
            ids: ids.iter().copied().collect(),
            is_framed: true,
            present: None,
            patience: Patience::new(client.deadlines()),
        }
    }

    /// The next bundle, or `None` after the last.
    ///
    /// # Errors
    /// When the connection is lost for good, or the answer is not of the documented form.
    #[allow(
        clippy::should_implement_trait,
        reason = "each bundle borrows the stream it is read from"
    )]
    pub fn next(&mut self) -> Result<Option<BundleReader<'_, 'a>>, ClientError> {
        while self.read_present(&mut [0; 8192])? > 0 {}
        let Some(line) = self.frame()? else {
            return Ok(None);
        };
        let frame = line
            .split_once(' ')
            .and_then(|(id, size)| Some((id.parse().ok()?, size.parse().ok()?)));
        let (id, size) = frame.ok_or_else(|| self.pieces.client.not_a_hub("a bundle without id and length"))?;
        self.ids.pop_front();
        self.present = Some(Position {
            room: self.room.clone(),
            id,
            size,
            done: 0,
        });
        Ok(Some(BundleReader { id, size, stream: self }))
    }

    /// The line before the next bundle.
    fn frame(&mut self) -> Result<Option<String>, ClientError> {
        let client = self.pieces.client;
        let mut tried = if self.is_framed {
            self.line().map(Some)
        } else {
            Ok(None)
        };
        loop {
            let failure = match tried {
                Ok(Some(line)) => return Ok(line),
                // The answer at hand was the rest of the last bundle.
                Ok(None) if self.ids.is_empty() => return Ok(None),
                Ok(None) => {
                    tried = self.ask_for_rest();
                    continue;
                }
                Err(failure) => failure,
            };
            self.patience.pause(client, failure)?;
            tried = self.ask_for_rest();
        }
    }

    /// Asks for the bundles that have not begun, and reads the first line.
    fn ask_for_rest(&mut self) -> Result<Option<Option<String>>, ClientError> {
        let ids: Vec<_> = self.ids.iter().copied().collect();
        let client = self.pieces.client;
        let response = client.attempt_once(&client.bundles_request(&self.room, &ids)?)?;
        self.patience.answered();
        self.pieces = Pieces::new(client, response);
        self.is_framed = true;
        self.line().map(Some)
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

    fn read_present(&mut self, buffer: &mut [u8]) -> Result<usize, ClientError> {
        let Some(present) = &mut self.present else {
            return Ok(0);
        };
        let (count, is_another) = present.read(&mut self.pieces, &mut self.patience, buffer)?;
        self.is_framed &= !is_another;
        Ok(count)
    }
}

/// What is left of the bundle that [`BundleStream::next`] gave last.
impl Read for BundleStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_present(buffer).map_err(io::Error::other)
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
        self.stream.read(buffer)
    }
}

/// One blob, read to its end.
pub struct BlobReader<'a> {
    /// The blob asked for.
    pub id: BundleId,
    /// Its length in bytes.
    pub size: u64,
    pieces: Pieces<'a>,
    position: Position,
    patience: Patience,
}

impl<'a> BlobReader<'a> {
    pub(crate) fn new(
        client: &'a Client,
        room: &RoomName,
        response: Response,
        id: BundleId,
    ) -> Result<Self, ClientError> {
        let size = response
            .content_length()
            .ok_or_else(|| client.not_a_hub("a blob of unknown length"))?;
        Ok(Self {
            id,
            size,
            pieces: Pieces::new(client, response),
            position: Position {
                room: room.clone(),
                id,
                size,
                done: 0,
            },
            patience: Patience::new(client.deadlines()),
        })
    }
}

impl Read for BlobReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.position
            .read(&mut self.pieces, &mut self.patience, buffer)
            .map(|(count, _)| count)
            .map_err(io::Error::other)
    }
}
