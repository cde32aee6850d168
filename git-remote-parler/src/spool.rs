//! A bundle while it waits to be sent: written once, then read as often as a retry needs, hashed on the way. Small ones
//! stay in memory, larger ones go to one nameless temporary file that vanishes with the process.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use parler_protocol::BundleId;
use sha2::{Digest, Sha256};

/// Up to this size a bundle stays in memory: one that is sent in one request needs no file to go on from.
pub const SPOOL_MEMORY_BYTES: usize = 8 << 20; // 8 MiB

/// A spool that is being written.
#[derive(Debug)]
pub struct SpoolWriter {
    directory: PathBuf,
    memory: Vec<u8>,
    file: Option<File>,
    hash: Sha256,
    size: u64,
}

impl SpoolWriter {
    /// An empty spool. A temporary file, if one is needed, is made in `directory`, which is made too.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            memory: Vec::new(),
            file: None,
            hash: Sha256::new(),
            size: 0,
        }
    }

    /// Bytes written so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Ends the writing.
    pub fn finish(self) -> Spool {
        let id = BundleId::from_digest(self.hash.finalize().into());
        let content = match self.file {
            Some(file) => Content::File(file),
            None => Content::Memory(self.memory),
        };
        Spool {
            content: Arc::new(content),
            id,
            size: self.size,
        }
    }

    fn overflow(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            fs::create_dir_all(&self.directory)?;
            let mut file = tempfile::tempfile_in(&self.directory)?;
            file.write_all(&self.memory)?;
            self.memory = Vec::new();
            self.file = Some(file);
        }
        self.file
            .as_mut()
            .ok_or_else(|| io::Error::other("the spool has no file"))
    }
}

impl Write for SpoolWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() && self.memory.len() + bytes.len() <= SPOOL_MEMORY_BYTES {
            self.memory.extend_from_slice(bytes);
        } else {
            self.overflow()?.write_all(bytes)?;
        }
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
enum Content {
    Memory(Vec<u8>),
    File(File),
}

/// A written spool. Cheap to clone; all clones and readers share the bytes.
#[derive(Debug, Clone)]
pub struct Spool {
    content: Arc<Content>,
    id: BundleId,
    size: u64,
}

impl Spool {
    /// SHA-256 of the bytes.
    pub fn id(&self) -> BundleId {
        self.id
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A new reader, from the first byte.
    pub fn reader(&self) -> SpoolReader {
        self.reader_at(0)
    }

    /// A new reader, from the byte behind the first `position` ones.
    pub fn reader_at(&self, position: u64) -> SpoolReader {
        SpoolReader {
            content: Arc::clone(&self.content),
            position,
        }
    }
}

/// Reads a spool from its beginning, independently of other readers.
#[derive(Debug)]
pub struct SpoolReader {
    content: Arc<Content>,
    position: u64,
}

impl Read for SpoolReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match &*self.content {
            Content::Memory(bytes) => {
                let from = usize::try_from(self.position).map_err(io::Error::other)?;
                let rest = bytes.get(from..).unwrap_or_default();
                let read = rest.len().min(buffer.len());
                buffer[..read].copy_from_slice(&rest[..read]);
                read
            }
            Content::File(file) => file.read_at(buffer, self.position)?,
        };
        self.position += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_read_back_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let spools = directory.path().join("spools");
        for size in [
            0,
            1,
            SPOOL_MEMORY_BYTES,
            SPOOL_MEMORY_BYTES + 1,
            2 * SPOOL_MEMORY_BYTES + 77,
        ] {
            let bytes: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
            let mut writer = SpoolWriter::new(&spools);
            for piece in bytes.chunks(1_000_003) {
                writer.write_all(piece).unwrap();
            }
            let spool = writer.finish();
            assert_eq!(spools.exists(), size > SPOOL_MEMORY_BYTES);
            assert_eq!((spool.size(), spool.id()), (size as u64, BundleId::of(&bytes)));
            let (mut first, mut second) = (spool.reader(), spool.reader());
            drop(spool);
            let mut head = [0; 10];
            first.read_exact(&mut head[..size.min(10)]).unwrap();
            for reader in [&mut first, &mut second] {
                let mut read = Vec::new();
                reader.read_to_end(&mut read).unwrap();
                assert!(bytes.ends_with(&read));
            }
        }
        // The file has no name, so nothing is left whatever happens.
        assert_eq!(fs::read_dir(&spools).unwrap().count(), 0);
    }
}
