//! Writes a pack in memory, object after object, each whole or as a delta on one that the receiver has or that stands
//! before it. It takes what it is given: that objects are what their ids say is for the caller to know.

use std::collections::HashMap;

use flate2::{Compress, Compression, FlushCompress, Status};
use gix::ObjectId;
use gix::hash::Kind;
use gix::odb::pack::data::entry::Header;

use super::PACK_HEADER_BYTES;
use super::differences::delta_of;
use super::entries::{PackFlaw, checksum_of};
use super::resolve::Object;

/// The beginning of a pack, its number of objects still to be filled in.
const BEGINNING: &[u8; PACK_HEADER_BYTES] = b"PACK\0\0\0\x02\0\0\0\0";
/// Where the number of objects stands.
const COUNT: std::ops::Range<usize> = 8..12;
/// Longest chain of deltas: what git makes by default.
const MAX_DEPTH: u32 = 50;
/// An entry of so small a part of its object is taken without a look at how small the object gets by itself: hardly
/// anything is compressed so well.
const SURELY_SMALLER: usize = 32;

/// Where a base is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In this pack, if it has been written by now.
    Pack,
    /// With every receiver.
    Receiver,
}

/// A pack that grows.
pub(super) struct PackWriter {
    hash: Kind,
    bytes: Vec<u8>,
    objects: u32,
    placed: HashMap<ObjectId, Placed>,
    deflater: Compress,
}

/// An object in the pack.
#[derive(Clone, Copy)]
struct Placed {
    at: usize,
    /// How many deltas lie between it and an object that is whole, here or with the receiver.
    depth: u32,
}

/// An entry before it is written.
struct Entry {
    header: Header,
    inflated_bytes: usize,
    deflated: Vec<u8>,
    depth: u32,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.header.size(self.inflated_bytes as u64) + self.deflated.len()
    }
}

impl PackWriter {
    /// A pack without objects.
    pub(super) fn new(hash: Kind) -> Self {
        Self {
            hash,
            bytes: BEGINNING.to_vec(),
            objects: 0,
            placed: HashMap::new(),
            deflater: Compress::new(Compression::default(), true),
        }
    }

    /// How many objects it has so far.
    pub(super) fn objects(&self) -> u32 {
        self.objects
    }

    /// Writes an object, in the smallest form that is found. A base of another kind is none.
    pub(super) fn add<'o>(
        &mut self,
        object: &'o Object,
        bases: impl IntoIterator<Item = (&'o Object, Place)>,
    ) -> Result<(), PackFlaw> {
        let at = self.bytes.len();
        let mut smallest: Option<(Vec<u8>, Header, u32)> = None;
        for (base, place) in bases {
            let (header, depth) = match (self.placed.get(&base.id), place) {
                _ if base.kind != object.kind || base.id == object.id => continue,
                (Some(placed), _) if placed.depth < MAX_DEPTH => {
                    let base_distance = (at - placed.at) as u64;
                    (Header::OfsDelta { base_distance }, placed.depth + 1)
                }
                (None, Place::Receiver) => (Header::RefDelta { base_id: base.id }, 1),
                _ => continue,
            };
            let most = smallest
                .as_ref()
                .map_or(object.content.len(), |(delta, ..)| delta.len());
            if let Some(delta) = most
                .checked_sub(1)
                .and_then(|most| delta_of(&base.content, &object.content, most))
            {
                smallest = Some((delta, header, depth));
            }
        }
        let whole_bytes = object.content.len();
        let mut entry = None;
        if let Some((delta, header, depth)) = smallest {
            entry = Some(self.entry(header, &delta, depth)?);
        }
        let is_surely_smaller = |entry: &Entry| entry.bytes() * SURELY_SMALLER < whole_bytes;
        if !entry.as_ref().is_some_and(is_surely_smaller) {
            let whole = self.entry(header_of(object.kind), &object.content, 0)?;
            entry = entry.filter(|delta| delta.bytes() < whole.bytes()).or(Some(whole));
        }
        let Some(entry) = entry else { return Ok(()) };
        let depth = entry.depth;
        self.placed.insert(object.id, Placed { at, depth });
        let written = entry.header.write_to(entry.inflated_bytes as u64, &mut self.bytes);
        written.map_err(|_| PackFlaw::Entry)?;
        self.bytes.extend_from_slice(&entry.deflated);
        self.objects += 1;
        Ok(())
    }

    /// The pack as far as it is written, for so many `more` objects to follow; and how many it has then.
    pub(super) fn beginning(mut self, more: u32) -> (Vec<u8>, u32) {
        let objects = self.objects + more;
        self.bytes[COUNT].copy_from_slice(&objects.to_be_bytes());
        (self.bytes, objects)
    }

    /// The pack with its number of objects and its checksum.
    pub(super) fn finish(self) -> Result<Vec<u8>, PackFlaw> {
        let hash = self.hash;
        let (mut bytes, _) = self.beginning(0);
        let checksum = checksum_of(&bytes, hash)?;
        bytes.extend_from_slice(checksum.as_slice());
        Ok(bytes)
    }

    fn entry(&mut self, header: Header, content: &[u8], depth: u32) -> Result<Entry, PackFlaw> {
        Ok(Entry {
            header,
            inflated_bytes: content.len(),
            deflated: self.deflated(content)?,
            depth,
        })
    }

    fn deflated(&mut self, content: &[u8]) -> Result<Vec<u8>, PackFlaw> {
        const PIECE_BYTES: usize = 4 << 10; // 4 KiB
        self.deflater.reset();
        let mut deflated = Vec::with_capacity(content.len() / 2 + PIECE_BYTES);
        loop {
            let used = usize::try_from(self.deflater.total_in()).map_err(|_| PackFlaw::TooLarge)?;
            let ended = self
                .deflater
                .compress_vec(&content[used..], &mut deflated, FlushCompress::Finish)
                .map_err(|_| PackFlaw::Entry)?;
            if ended == Status::StreamEnd {
                return Ok(deflated);
            }
            deflated.reserve(deflated.len() + PIECE_BYTES);
        }
    }
}

fn header_of(kind: gix::objs::Kind) -> Header {
    match kind {
        gix::objs::Kind::Commit => Header::Commit,
        gix::objs::Kind::Tree => Header::Tree,
        gix::objs::Kind::Blob => Header::Blob,
        gix::objs::Kind::Tag => Header::Tag,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gix::hash::oid;

    use super::super::entries::Budget;
    use super::super::resolve::{ResolvedEntry, resolve};
    use super::*;

    fn object(kind: gix::objs::Kind, content: &str, hash: Kind) -> Arc<Object> {
        let content = content.as_bytes().to_vec();
        let id = gix::objs::compute_hash(hash, kind, &content).unwrap();
        Arc::new(Object { id, kind, content })
    }

    fn blob(content: &str, hash: Kind) -> Arc<Object> {
        object(gix::objs::Kind::Blob, content, hash)
    }

    /// A text that does not become small by itself.
    fn text(version: usize) -> String {
        let lines = (0..200_u64).map(|line| format!("{} {version}\n", (line * 7_919 + 13) * 104_729));
        let same = (0..200_u64).map(|line| format!("{}\n", (line * 6_841 + 17) * 1_299_709));
        lines.take(2).chain(same).collect()
    }

    fn resolved<'p>(pack: &'p [u8], hash: Kind, receivers: &[Arc<Object>]) -> Vec<ResolvedEntry<'p>> {
        let mut outside = |id: &oid, _: &mut Budget| Ok(receivers.iter().find(|object| object.id == id).cloned());
        resolve(pack, hash, &mut outside, &mut Budget::of(16 << 20)).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        for hash in [Kind::Sha1, Kind::Sha256] {
            let [old, new, newer] = [0, 1, 2].map(|version| blob(&text(version), hash));
            let commit = object(gix::objs::Kind::Commit, "tree of a commit\n", hash);
            let empty = object(gix::objs::Kind::Tree, "", hash);
            let tag = object(gix::objs::Kind::Tag, "object of a tag\n", hash);
            let mut pack = PackWriter::new(hash);
            for whole in [&commit, &empty, &tag] {
                pack.add(whole, []).unwrap();
            }
            pack.add(&new, [(&*old, Place::Receiver)]).unwrap();
            pack.add(&newer, [(&*new, Place::Pack)]).unwrap();
            assert_eq!(pack.objects(), 5);
            let bytes = pack.finish().unwrap();
            let entries = resolved(&bytes, hash, std::slice::from_ref(&old));
            let found: Vec<_> = entries.iter().map(|entry| (entry.object.id, entry.base)).collect();
            let expected = [
                (commit.id, None),
                (empty.id, None),
                (tag.id, None),
                (new.id, Some(old.id)),
                (newer.id, Some(new.id)),
            ];
            assert_eq!(found, expected);
            for (entry, object) in entries.iter().zip([commit, empty, tag, new, newer]) {
                assert_eq!(
                    (entry.object.kind, &entry.object.content),
                    (object.kind, &object.content)
                );
            }
        }
    }

    #[test]
    fn a_delta_has_a_base_that_is_there_and_of_its_kind_and_makes_it_smaller() {
        let hash = Kind::Sha1;
        let (old, new) = (blob(&text(0), hash), blob(&text(1), hash));
        let commit = object(gix::objs::Kind::Commit, &text(0), hash);
        let other = blob("nothing alike\n", hash);
        let alike = |bases: &[(&Object, Place)]| -> Option<ObjectId> {
            let mut pack = PackWriter::new(hash);
            pack.add(&other, []).unwrap();
            pack.add(&new, bases.iter().copied()).unwrap();
            let bytes = pack.finish().unwrap();
            resolved(&bytes, hash, std::slice::from_ref(&old))[1].base
        };
        assert_eq!(alike(&[(&old, Place::Receiver)]), Some(old.id));
        assert_eq!(alike(&[(&other, Place::Pack), (&old, Place::Receiver)]), Some(old.id));
        // Not yet in the pack, of another kind, itself, and of no use.
        assert_eq!(alike(&[(&old, Place::Pack)]), None);
        assert_eq!(alike(&[(&commit, Place::Receiver)]), None);
        assert_eq!(alike(&[(&new, Place::Receiver)]), None);
        assert_eq!(alike(&[(&other, Place::Pack)]), None);
        // By itself it is smaller than with the name of a base.
        let pairs = [
            ("few\n".to_owned(), "few, and more\n".to_owned()),
            ("same ".repeat(200), "same ".repeat(100)),
        ];
        for (old, new) in pairs {
            let (old, new) = (blob(&old, hash), blob(&new, hash));
            let mut pack = PackWriter::new(hash);
            pack.add(&new, [(&*old, Place::Receiver)]).unwrap();
            assert_eq!(resolved(&pack.finish().unwrap(), hash, &[old])[0].base, None);
        }
    }

    #[test]
    fn no_chain_is_longer_than_gits() {
        let hash = Kind::Sha1;
        let versions: Vec<_> = (0..120).map(|version| blob(&text(version), hash)).collect();
        let mut pack = PackWriter::new(hash);
        for pair in versions.windows(2) {
            let place = if pair[0].id == versions[0].id {
                Place::Receiver
            } else {
                Place::Pack
            };
            pack.add(&pair[1], [(&*pair[0], place)]).unwrap();
        }
        let bytes = pack.finish().unwrap();
        let mut depths: HashMap<ObjectId, u32> = HashMap::from([(versions[0].id, 0)]);
        for entry in resolved(&bytes, hash, &versions[..1]) {
            let depth = entry.base.map_or(0, |base| depths[&base] + 1);
            depths.insert(entry.object.id, depth);
        }
        assert_eq!(depths.values().max(), Some(&MAX_DEPTH));
        assert_eq!(depths.values().filter(|depth| **depth == 0).count(), 3);
    }
}
