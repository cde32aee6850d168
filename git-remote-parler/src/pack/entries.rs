//! The entries of a pack that is held in memory, one after the other, each inflated within bounds. What comes from
//! outside is only looked at here: a pack with a flaw is not repaired, and whether it is taken is for git to say.

use flate2::{Decompress, FlushDecompress, Status};
use gix::hash::Kind;
use gix::odb::pack::data::Entry;
use gix::odb::pack::data::entry::Header;

use super::scan::MAX_DELTA_DEPTH;
use super::{PACK_HEADER_BYTES, object_count};

/// How many bytes of inflated data may still be held in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget(u64);

impl Budget {
    /// So many bytes.
    pub(crate) const fn of(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Takes room for so many bytes before they are there.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<usize, PackFlaw> {
        self.0 = self.0.checked_sub(bytes).ok_or(PackFlaw::TooLarge)?;
        usize::try_from(bytes).map_err(|_| PackFlaw::TooLarge)
    }

    /// Gives back room that was taken.
    pub(crate) const fn give_back(&mut self, bytes: u64) {
        self.0 += bytes;
    }

    /// Whether there is room for so many bytes.
    pub(crate) const fn has(&self, bytes: u64) -> bool {
        self.0 >= bytes
    }
}

/// An entry as it stands in its pack.
#[derive(Debug)]
pub(crate) struct PackEntry<'p> {
    /// Where it begins, from the beginning of the pack.
    pub(crate) at: u64,
    /// An object of some kind, or a delta and where its base is.
    pub(crate) header: Header,
    /// What follows the header, as it was compressed.
    pub(crate) compressed: &'p [u8],
    /// The same, inflated: the object, or the delta.
    pub(crate) inflated: Vec<u8>,
}

/// Goes through a pack from its first entry to its last.
pub(crate) struct PackEntries<'p> {
    /// The pack without its checksum.
    body: &'p [u8],
    hash: Kind,
    left: u32,
    at: usize,
    inflater: Decompress,
}

impl<'p> PackEntries<'p> {
    /// A whole pack of version 2. Its checksum is compared at once.
    pub(crate) fn of(pack: &'p [u8], hash: Kind) -> Result<Self, PackFlaw> {
        let left = object_count(pack).ok_or(PackFlaw::NotAPack)?;
        let end = pack.len().checked_sub(hash.len_in_bytes());
        let end = end.filter(|end| *end >= PACK_HEADER_BYTES).ok_or(PackFlaw::NotAPack)?;
        let (body, checksum) = pack.split_at(end);
        if checksum_of(body, hash)?.as_slice() != checksum {
            return Err(PackFlaw::Checksum);
        }
        Ok(Self {
            body,
            hash,
            left,
            at: PACK_HEADER_BYTES,
            inflater: Decompress::new(true),
        })
    }

    /// The next entry; none behind the last, where the pack must end.
    pub(crate) fn next(&mut self, budget: &mut Budget) -> Result<Option<PackEntry<'p>>, PackFlaw> {
        let rest = &self.body[self.at..];
        if self.left == 0 {
            return if rest.is_empty() {
                Ok(None)
            } else {
                Err(PackFlaw::Trailing)
            };
        }
        let at = self.at as u64;
        let entry = Entry::from_bytes(rest, at, self.hash).map_err(|_| PackFlaw::Entry)?;
        let rest = rest.get(entry.header_size()..).ok_or(PackFlaw::Entry)?;
        let size = budget.take(entry.decompressed_size)?;
        let (inflated, consumed) = self.inflate(rest, size)?;
        self.left -= 1;
        self.at += entry.header_size() + consumed;
        Ok(Some(PackEntry {
            at,
            header: entry.header,
            compressed: &rest[..consumed],
            inflated,
        }))
    }

    fn inflate(&mut self, compressed: &[u8], size: usize) -> Result<(Vec<u8>, usize), PackFlaw> {
        self.inflater.reset(true);
        // One byte more than announced, which must stay free: a stream that goes on is seen at once.
        let mut inflated = Vec::with_capacity(size + 1);
        let status = self
            .inflater
            .decompress_vec(compressed, &mut inflated, FlushDecompress::Finish);
        let consumed = usize::try_from(self.inflater.total_in()).unwrap_or(usize::MAX);
        match status {
            Ok(Status::StreamEnd) if inflated.len() == size && consumed <= compressed.len() => Ok((inflated, consumed)),
            _ => Err(PackFlaw::Inflate),
        }
    }
}

/// What stands at the end of a pack with this beginning.
pub(crate) fn checksum_of(body: &[u8], hash: Kind) -> Result<gix::ObjectId, PackFlaw> {
    let mut hasher = gix::hash::hasher(hash);
    hasher.update(body);
    hasher.try_finalize().map_err(|_| PackFlaw::Collision)
}

/// Why the objects of a pack cannot be told. Some of these packs are none, some git would take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PackFlaw {
    /// Its beginning or its end is missing, or it is of another version.
    #[error("it is no pack of version 2")]
    NotAPack,
    /// Its last bytes are not the hash of the others.
    #[error("its checksum is wrong")]
    Checksum,
    /// An entry's header is cut off or makes no sense.
    #[error("an entry has no proper header")]
    Entry,
    /// An entry does not inflate to as many bytes as its header says.
    #[error("an entry does not inflate to the size it announces")]
    Inflate,
    /// There are fewer entries than bytes for them.
    #[error("more follows its last entry")]
    Trailing,
    /// Its objects take more memory than they may.
    #[error("its objects are too large to be looked at in memory")]
    TooLarge,
    /// A delta's base is neither before it nor here.
    #[error("a delta builds on an object that is not known")]
    UnknownBase,
    /// A delta is not one, or is for another base.
    #[error("a delta does not apply to its base")]
    Delta,
    /// The hash shows the marks of an attack.
    #[error("its bytes are made to hash like others")]
    Collision,
    /// It ends before its last entry does.
    #[error("it ends in the middle of an entry")]
    Cut,
    /// It announces more objects than fit into its bytes.
    #[error("it announces {objects} objects in {bytes} bytes")]
    Count {
        /// How many objects.
        objects: u32,
        /// How long it is.
        bytes: u64,
    },
    /// It has very many objects, which are very small.
    #[error("it has {objects} objects, {most} are taken from a pack of its size (parler.maxObjects)")]
    Many {
        /// How many objects.
        objects: u32,
        /// How many there may be.
        most: u64,
    },
    /// Deltas build on deltas on deltas.
    #[error("its deltas build on each other more than {MAX_DELTA_DEPTH} deep")]
    TooDeep,
    /// So few bytes become so many: a bomb, or something very repetitive.
    #[error(
        "{what} of {bytes} bytes would come of it, {most} are taken from a pack of its size (parler.maxObjectSize)"
    )]
    Expands {
        /// What would come.
        what: &'static str,
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        most: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    const LARGE: Budget = Budget::of(1 << 20);

    fn deflated(content: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// A pack that says it has `count` objects, with these entries: the size they announce and what they inflate to.
    fn pack(count: u32, entries: &[(u64, &[u8])], hash: Kind) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend(count.to_be_bytes());
        for (size, content) in entries {
            Header::Blob.write_to(*size, &mut pack).unwrap();
            pack.extend(deflated(content));
        }
        let checksum = checksum_of(&pack, hash).unwrap();
        pack.extend(checksum.as_slice());
        pack
    }

    fn contents(pack: &[u8], hash: Kind, mut budget: Budget) -> Result<Vec<Vec<u8>>, PackFlaw> {
        let mut entries = PackEntries::of(pack, hash)?;
        let mut contents = Vec::new();
        while let Some(entry) = entries.next(&mut budget)? {
            assert_eq!(entry.header, Header::Blob);
            contents.push(entry.inflated);
        }
        Ok(contents)
    }

    #[test]
    fn whole_packs_are_read_to_their_end() {
        for hash in [Kind::Sha1, Kind::Sha256] {
            let two = pack(2, &[(0, b""), (5, b"hello")], hash);
            assert_eq!(contents(&two, hash, LARGE), Ok(vec![b"".to_vec(), b"hello".to_vec()]));
            assert_eq!(contents(&pack(0, &[], hash), hash, LARGE), Ok(vec![]));
            let mut damaged = two.clone();
            *damaged.last_mut().unwrap() ^= 1;
            assert_eq!(contents(&damaged, hash, LARGE), Err(PackFlaw::Checksum));
            for length in 0..two.len() {
                assert!(contents(&two[..length], hash, LARGE).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn sizes_and_counts_must_be_as_announced() {
        let hash = Kind::Sha1;
        for wrong in [4, 6, 0] {
            assert_eq!(
                contents(&pack(1, &[(wrong, b"hello")], hash), hash, LARGE),
                Err(PackFlaw::Inflate)
            );
        }
        let few = pack(1, &[(1, b"a"), (1, b"b")], hash);
        assert_eq!(contents(&few, hash, LARGE), Err(PackFlaw::Trailing));
        let many = pack(2, &[(1, b"a")], hash);
        assert_eq!(contents(&many, hash, LARGE), Err(PackFlaw::Entry));
    }

    #[test]
    fn no_more_is_inflated_than_there_is_room_for() {
        let hash = Kind::Sha1;
        let zeros = vec![0; 600];
        let two = pack(2, &[(600, &zeros), (600, &zeros)], hash);
        assert!(contents(&two, hash, Budget::of(1200)).is_ok());
        assert_eq!(contents(&two, hash, Budget::of(1199)), Err(PackFlaw::TooLarge));
        // What is announced is not believed: memory is taken for it only where there is room.
        let bomb = pack(1, &[(u64::MAX, b"x")], hash);
        assert_eq!(contents(&bomb, hash, LARGE), Err(PackFlaw::TooLarge));
        let more = vec![0; 10 << 20];
        assert_eq!(
            contents(&pack(1, &[(600, &more)], hash), hash, LARGE),
            Err(PackFlaw::Inflate)
        );
    }
}
