//! A pack of few objects with large files among them that do not get smaller, written without git: each file goes from
//! its place in the repository into the spool, piece by piece. git would take the pack's checksum with the care that the
//! names of objects need, which takes half of its time here.
//!
//! Says what `small.rs` says, yes or nothing, but for a file that is shorter or longer than it says: git would not notice
//! that. As git does here, it trusts the checksum with which a file was written, and hashes nothing.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use gix::ObjectId;
use gix::objs::Kind;
use gix::odb::pack::data::entry::Header;
use parler_protocol::ObjectFormat;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::effort::loose_file;
use super::{BuiltBundle, PIECE_BYTES, PackError, small};
use crate::bundle::BundleHeader;
use crate::repository::{Repository, from_gix};
use crate::spool::SpoolWriter;

/// A file of at least this size is not read as a whole: of a smaller one git would look for a delta (`effort.rs`).
const LARGE_BYTES: u64 = (8 << 20) + 1; // more than 8 MiB

/// How it is told that a file is shorter or longer than it says.
const NOT_AS_LONG: io::ErrorKind = io::ErrorKind::InvalidData;

/// A file that goes through in pieces.
pub(super) struct LargeFile {
    pub(super) id: ObjectId,
    pub(super) size: u64,
}

/// The bundle with this header, where what is new is little beside files that are known to stay as large as they are.
pub(super) fn build(
    repository: &Repository,
    header: &BundleHeader,
    commits: u64,
    spool_dir: &Path,
    most: Option<u64>,
) -> Result<Option<BuiltBundle>, PackError> {
    let Some(news) = small::news(repository, header, commits, Some(LARGE_BYTES)) else {
        return Ok(None);
    };
    let Ok((beginning, objects, files)) = news.beginning() else {
        return Ok(None);
    };
    let objects_dir = repository.objects_dir();
    let opened = files.into_iter().map(|file| {
        let content = loose_file(&objects_dir, &from_gix(&file.id))?;
        Ok((file, content))
    });
    // One in a pack git takes from there as it is.
    let Ok(opened) = opened.collect::<io::Result<Vec<_>>>() else {
        return Ok(None);
    };
    let mut meter = repository.meter("Writing objects", objects.into());
    let mut pack = Written::new(spool_dir, header, most)?;
    pack.write(&beginning)?;
    let small = u64::from(objects) - opened.len() as u64;
    for (done, (file, content)) in (small..).zip(opened) {
        match pack.file(&file, content, |bytes| meter.moved(done, bytes)) {
            // git may have it elsewhere, too, or says so itself.
            Err(PackError::Damaged { source, .. }) if source.kind() != NOT_AS_LONG => return Ok(None),
            written => written?,
        }
    }
    let (spool, bytes) = pack.finish()?;
    meter.done(bytes);
    tracing::debug!(objects, bytes, "push: a pack with large files is made in-process");
    Ok(Some(BuiltBundle {
        spool: spool.finish(),
        objects,
    }))
}

/// What a pack ends with. It tells whether the bytes are whole, and names nothing.
enum Checksum {
    Sha1(Sha1),
    Sha256(Sha256),
}

impl Checksum {
    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha1(hash) => hash.update(bytes),
            Self::Sha256(hash) => hash.update(bytes),
        }
    }

    fn end(self) -> Vec<u8> {
        match self {
            Self::Sha1(hash) => hash.finalize().to_vec(),
            Self::Sha256(hash) => hash.finalize().to_vec(),
        }
    }
}

/// A bundle while its pack is written.
struct Written {
    spool: SpoolWriter,
    checksum: Checksum,
    before: u64,
    most: Option<u64>,
}

impl Written {
    fn new(spool_dir: &Path, header: &BundleHeader, most: Option<u64>) -> Result<Self, PackError> {
        let mut spool = SpoolWriter::new(spool_dir);
        spool.write_all(&header.to_bytes()).map_err(PackError::spool)?;
        let checksum = match header.object_format {
            ObjectFormat::Sha1 => Checksum::Sha1(Sha1::new()),
            ObjectFormat::Sha256 => Checksum::Sha256(Sha256::new()),
        };
        Ok(Self {
            before: spool.size(),
            spool,
            checksum,
            most,
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), PackError> {
        self.spool.write_all(bytes).map_err(PackError::spool)?;
        self.checksum.update(bytes);
        super::check_size(&self.spool, self.most)
    }

    fn pack_bytes(&self) -> u64 {
        self.spool.size() - self.before
    }

    /// Writes an entry with the content of this file of the repository.
    fn file(&mut self, file: &LargeFile, content: File, mut passed: impl FnMut(u64)) -> Result<(), PackError> {
        let damaged = |source| PackError::Damaged {
            oid: from_gix(&file.id),
            source,
        };
        let not_as_told = || damaged(io::Error::new(NOT_AS_LONG, "it is not as long as it says"));
        let mut content = ZlibDecoder::new_with_buf(content, vec![0; PIECE_BYTES]);
        let expected = gix::objs::encode::loose_header(Kind::Blob, file.size);
        let mut found = vec![0; expected.len()];
        content.read_exact(&mut found).map_err(damaged)?;
        if *found != *expected {
            return Err(not_as_told());
        }
        let mut entry = Vec::with_capacity(2 * PIECE_BYTES);
        Header::Blob.write_to(file.size, &mut entry).map_err(PackError::spool)?;
        let mut deflated = ZlibEncoder::new(entry, Compression::none());
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = file.size;
        loop {
            // At the end its checksum is compared.
            let read = content.read(&mut piece).map_err(damaged)?;
            left = left.checked_sub(read as u64).ok_or_else(not_as_told)?;
            if read == 0 {
                break;
            }
            deflated.write_all(&piece[..read]).map_err(PackError::spool)?;
            self.write(deflated.get_ref())?;
            deflated.get_mut().clear();
            passed(self.pack_bytes());
        }
        if left > 0 {
            return Err(not_as_told());
        }
        let rest = deflated.finish().map_err(PackError::spool)?;
        self.write(&rest)
    }

    /// The spool, and how many bytes the pack has.
    fn finish(mut self) -> Result<(SpoolWriter, u64), PackError> {
        let checksum = self.checksum.end();
        self.spool.write_all(&checksum).map_err(PackError::spool)?;
        super::check_size(&self.spool, self.most)?;
        let bytes = self.spool.size() - self.before;
        Ok((self.spool, bytes))
    }
}
