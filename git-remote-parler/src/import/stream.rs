//! A bundle's bytes as they arrive: counted, hashed, and the last of them held back until the hash is right.

use std::io::{ErrorKind, Read};

use parler_protocol::{BundleId, ObjectFormat};
use sha2::{Digest, Sha256};

use super::ImportError;
use super::intake::Intake;
use crate::bundle::{BundleError, BundleHeader, HeaderEnd, find_header_end};
use crate::pack::entries::PackFlaw;
use crate::pack::scan::PackScan;
use crate::pack::{PACK_HEADER_BYTES, object_count};

/// One piece of the bundle.
const PIECE_BYTES: usize = 128 << 10; // 128 KiB

pub(super) struct BundleStream<'a> {
    reader: &'a mut dyn Read,
    size: u64,
    read: u64,
    hash: Sha256,
    /// Bytes read and not yet handed on.
    buffer: Vec<u8>,
    header_bytes: u64,
}

impl<'a> BundleStream<'a> {
    pub(super) fn new(reader: &'a mut dyn Read, size: u64) -> Self {
        Self {
            reader,
            size,
            read: 0,
            hash: Sha256::new(),
            buffer: Vec::new(),
            header_bytes: 0,
        }
    }

    /// Reads up to the end of the header. What is no bundle is refused after its first bytes.
    pub(super) fn read_header(&mut self) -> Result<BundleHeader, ImportError> {
        let mut searched = 0;
        loop {
            if let HeaderEnd::At(end) = find_header_end(&self.buffer, searched)? {
                let header = BundleHeader::parse(&self.buffer[..end])?;
                self.buffer.drain(..end);
                self.header_bytes = end as u64;
                return Ok(header);
            }
            if self.read == self.size {
                return Err(BundleError::NotABundle.into());
            }
            searched = self.buffer.len();
            self.read_piece()?;
        }
    }

    /// How many bytes of pack follow the header, by the announced size.
    pub(super) fn pack_bytes(&self) -> u64 {
        self.size - self.header_bytes
    }

    /// Reads the beginning of the pack: how many objects it announces.
    pub(super) fn peek_object_count(&mut self) -> Result<u32, ImportError> {
        let no_pack = || ImportError::pack(PackFlaw::NotAPack);
        while self.buffer.len() < PACK_HEADER_BYTES {
            if self.read == self.size {
                return Err(no_pack());
            }
            self.read_piece()?;
        }
        object_count(&self.buffer).ok_or_else(no_pack)
    }

    /// Reads the whole pack, and gives it once the bundle has the right hash.
    pub(super) fn read_pack(mut self, id: &BundleId) -> Result<Vec<u8>, ImportError> {
        while self.read < self.size {
            self.read_piece()?;
        }
        self.check(id)?;
        Ok(self.buffer)
    }

    /// Hands the pack to the child as it comes and has been looked through, except its checksum, without which the child
    /// cannot end well: that follows once the whole bundle has the right hash. Gives whether the pack is self-contained.
    pub(super) fn feed_pack(
        mut self,
        intake: Intake<'_>,
        mut scan: PackScan<'_>,
        id: &BundleId,
        format: ObjectFormat,
    ) -> Result<bool, ImportError> {
        let held_back = format.raw_len();
        // When the child fails the rest is still read: bytes that were damaged on the way are not the sender's fault.
        let mut intake = Ok(intake);
        loop {
            let ready = self.buffer.len().saturating_sub(held_back);
            if let Ok(child) = &mut intake
                && let Err(error) = scan
                    .feed(&self.buffer[..ready])
                    .map_err(ImportError::pack)
                    .and_then(|()| child.make_room_for(scan.largest_held_bytes()))
                    .and_then(|()| child.feed(&self.buffer[..ready]))
            {
                intake = Err(error);
            }
            self.buffer.drain(..ready);
            if self.read == self.size {
                break;
            }
            self.read_piece()?;
        }
        self.check(id)?;
        let mut child = intake?;
        let scanned = scan.feed(&self.buffer).and_then(|()| scan.finish());
        scanned.map_err(ImportError::pack)?;
        child.feed(&self.buffer)?;
        child.finish()
    }

    /// Compares the hash of everything that was read.
    fn check(&self, id: &BundleId) -> Result<(), ImportError> {
        let actual = BundleId::from_digest(self.hash.clone().finalize().into());
        if actual == *id {
            Ok(())
        } else {
            Err(ImportError::WrongId { expected: *id, actual })
        }
    }

    /// Reads some more. The end of the input is an error: it is asked for only while bytes are owed.
    fn read_piece(&mut self) -> Result<(), ImportError> {
        let owed = usize::try_from(self.size - self.read).unwrap_or(usize::MAX);
        let from = self.buffer.len();
        self.buffer.resize(from + owed.min(PIECE_BYTES), 0);
        let read = loop {
            match self.reader.read(&mut self.buffer[from..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => break result.map_err(ImportError::Read)?,
            }
        };
        self.buffer.truncate(from + read);
        if read == 0 {
            return Err(ImportError::Truncated {
                read: self.read,
                size: self.size,
            });
        }
        self.hash.update(&self.buffer[from..]);
        self.read += read as u64;
        Ok(())
    }
}
