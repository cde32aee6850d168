//! Looks through a pack piece by piece before git sees the piece: that its entries are where and as large as they say,
//! that few bytes do not become very many, and that nothing follows. Holds no object and knows of none what it says;
//! that is for git to check, and so is the checksum.

use std::collections::HashMap;

use flate2::{Decompress, FlushDecompress, Status};
use gix::ObjectId;
use gix::hash::{Kind, oid};

use super::delta::read_size;
use super::entries::PackFlaw;
use super::{PACK_HEADER_BYTES, object_count};

/// Longest chain of deltas: git makes none that is longer, whatever it is told.
pub(crate) const MAX_DELTA_DEPTH: u64 = 4095;
/// How many of a place's bits say how deep it is.
const DEPTH_BITS: u32 = 12;
/// Shortest entry: its header and an empty compressed stream.
const SHORTEST_ENTRY_BYTES: u64 = 9;
/// What is inflated is thrown away in pieces of this size.
const PIECE_BYTES: usize = 64 << 10; // 64 KiB
/// The two sizes that a delta begins with take no more.
const DELTA_SIZES_BYTES: usize = 20;
/// How much larger than an object that is here a delta on it may make another, when that is more than the limit.
const GROWTH: u64 = 2;

/// How much may come of a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanLimits {
    /// Largest object, in bytes.
    pub(crate) object_bytes: u64,
    /// Largest of those that git has to hold as a whole: a delta, what it is made for and what it makes, and everything
    /// that is no file. A delta on a larger object that is here may make one of twice that object's size.
    pub(crate) held_bytes: u64,
    /// All objects together, in bytes.
    pub(crate) all_bytes: u64,
    /// How many there may be.
    pub(crate) objects: u64,
}

/// Tells how large an object is that is here.
pub(crate) type Sizes<'s> = &'s dyn Fn(&oid) -> Option<u64>;

/// A pack that is being looked through.
pub(crate) struct PackScan<'s> {
    hash: Kind,
    limits: ScanLimits,
    sizes: Sizes<'s>,
    state: State,
    /// The beginning of a header whose end has not come.
    beginning: Vec<u8>,
    /// How many bytes have been looked at.
    at: u64,
    bytes: u64,
    /// How many entries have not begun.
    left: u32,
    /// Where each entry begins and how deep it is.
    places: Vec<u64>,
    /// The entries that may be larger than others: what they build on is here, and is large.
    large: HashMap<u64, u64>,
    made_bytes: u64,
    largest_bytes: u64,
    largest_held_bytes: u64,
    inflater: Decompress,
    inflated: Box<[u8]>,
}

/// What comes next.
enum State {
    PackHeader,
    EntryHeader,
    Content(Content),
    /// So many bytes of it.
    Checksum(usize),
}

/// An entry whose content is being inflated.
struct Content {
    entry: EntryHeader,
    begins: u64,
    depth: u64,
    inflated_bytes: u64,
    /// What a delta begins with.
    sizes: Vec<u8>,
}

/// What an entry says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryHeader {
    base: Base,
    /// Whether it is a file as a whole, which git reads piece by piece.
    is_file: bool,
    inflated_bytes: u64,
}

/// What an entry builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Nothing,
    /// The entry that begins so many bytes before.
    Before(u64),
    Named(ObjectId),
}

impl<'s> PackScan<'s> {
    /// A pack of so many bytes, its checksum included.
    pub(crate) fn new(hash: Kind, bytes: u64, limits: ScanLimits, sizes: Sizes<'s>) -> Self {
        Self {
            hash,
            limits,
            sizes,
            state: State::PackHeader,
            beginning: Vec::new(),
            at: 0,
            bytes,
            left: 0,
            places: Vec::new(),
            large: HashMap::new(),
            made_bytes: 0,
            largest_bytes: 0,
            largest_held_bytes: 0,
            inflater: Decompress::new(true),
            inflated: vec![0; PIECE_BYTES].into_boxed_slice(),
        }
    }

    /// A pack that is there as a whole. Gives the size of the largest object that it makes.
    #[cfg(test)]
    pub(crate) fn whole(pack: &[u8], hash: Kind, limits: ScanLimits, sizes: Sizes<'s>) -> Result<u64, PackFlaw> {
        let mut scan = Self::new(hash, pack.len() as u64, limits, sizes);
        scan.feed(pack)?;
        scan.finish()
    }

    /// Looks at the next bytes.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), PackFlaw> {
        while !bytes.is_empty() {
            let used = match &mut self.state {
                State::PackHeader => self.pack_header(bytes)?,
                State::EntryHeader => self.entry_header(bytes)?,
                State::Content(_) => self.content(bytes)?,
                State::Checksum(0) => return Err(PackFlaw::Trailing),
                State::Checksum(left) => {
                    let used = bytes.len().min(*left);
                    *left -= used;
                    used
                }
            };
            self.at += used as u64;
            bytes = &bytes[used..];
        }
        Ok(())
    }

    /// To be called after the last byte. Gives the size of the largest object that the pack makes.
    pub(crate) fn finish(self) -> Result<u64, PackFlaw> {
        match self.state {
            State::Checksum(0) => Ok(self.largest_bytes),
            _ => Err(PackFlaw::Cut),
        }
    }

    /// The size of the largest object so far that git has to hold as a whole.
    pub(crate) fn largest_held_bytes(&self) -> u64 {
        self.largest_held_bytes
    }

    fn pack_header(&mut self, bytes: &[u8]) -> Result<usize, PackFlaw> {
        let used = bytes.len().min(PACK_HEADER_BYTES - self.beginning.len());
        self.beginning.extend_from_slice(&bytes[..used]);
        if self.beginning.len() == PACK_HEADER_BYTES {
            let objects = object_count(&self.beginning).ok_or(PackFlaw::NotAPack)?;
            if u64::from(objects) > self.bytes / SHORTEST_ENTRY_BYTES {
                let bytes = self.bytes;
                return Err(PackFlaw::Count { objects, bytes });
            }
            if u64::from(objects) > self.limits.objects {
                let most = self.limits.objects;
                return Err(PackFlaw::Many { objects, most });
            }
            self.left = objects;
            self.beginning.clear();
            self.begin_next();
        }
        Ok(used)
    }

    fn begin_next(&mut self) {
        self.state = if self.left == 0 {
            State::Checksum(self.hash.len_in_bytes())
        } else {
            State::EntryHeader
        };
    }

    fn entry_header(&mut self, bytes: &[u8]) -> Result<usize, PackFlaw> {
        let before = self.beginning.len();
        if before == 0
            && let Some((entry, used)) = EntryHeader::parse(bytes, self.hash)?
        {
            self.begin_content(entry, self.at)?;
            return Ok(used);
        }
        // Rarely, a piece ends within a header. It is short, so what comes next is added byte by byte.
        for (index, byte) in bytes.iter().enumerate() {
            self.beginning.push(*byte);
            if let Some((entry, _)) = EntryHeader::parse(&self.beginning, self.hash)? {
                let begins = self.at - before as u64;
                self.beginning.clear();
                self.begin_content(entry, begins)?;
                return Ok(index + 1);
            }
        }
        Ok(bytes.len())
    }

    fn begin_content(&mut self, entry: EntryHeader, begins: u64) -> Result<(), PackFlaw> {
        self.left -= 1;
        // Of a delta, this is the size of the delta.
        if entry.is_file {
            self.check_object(entry.inflated_bytes, self.limits.object_bytes)?;
        } else {
            self.check_held(entry.inflated_bytes, self.limits.held_bytes)?;
        }
        let depth = match entry.base {
            Base::Nothing => 0,
            Base::Named(_) => 1,
            Base::Before(distance) => {
                let at = begins.checked_sub(distance).ok_or(PackFlaw::UnknownBase)?;
                let found = self.places.binary_search_by_key(&at, |place| place >> DEPTH_BITS);
                let base = self.places[found.map_err(|_| PackFlaw::UnknownBase)?];
                (base & MAX_DELTA_DEPTH) + 1
            }
        };
        if depth > MAX_DELTA_DEPTH {
            return Err(PackFlaw::TooDeep);
        }
        self.inflater.reset(true);
        self.state = State::Content(Content {
            entry,
            begins,
            depth,
            inflated_bytes: 0,
            sizes: Vec::new(),
        });
        Ok(())
    }

    fn content(&mut self, bytes: &[u8]) -> Result<usize, PackFlaw> {
        let State::Content(content) = &mut self.state else {
            return Ok(0);
        };
        let mut used = 0;
        loop {
            let (read, wrote) = (self.inflater.total_in(), self.inflater.total_out());
            let status = self
                .inflater
                .decompress(&bytes[used..], &mut self.inflated, FlushDecompress::None)
                .map_err(|_| PackFlaw::Inflate)?;
            // Both fit: they are no larger than the pieces.
            used += (self.inflater.total_in() - read) as usize;
            let wrote = (self.inflater.total_out() - wrote) as usize;
            content.inflated_bytes += wrote as u64;
            if content.inflated_bytes > content.entry.inflated_bytes {
                return Err(PackFlaw::Inflate);
            }
            if content.entry.base != Base::Nothing {
                let wanted = DELTA_SIZES_BYTES - content.sizes.len();
                content.sizes.extend_from_slice(&self.inflated[..wrote.min(wanted)]);
            }
            match status {
                Status::StreamEnd => break,
                // More output may wait where the piece was filled.
                Status::Ok if used < bytes.len() || wrote == self.inflated.len() => {}
                Status::BufError if used < bytes.len() => return Err(PackFlaw::Inflate),
                _ => return Ok(used),
            }
        }
        if content.inflated_bytes != content.entry.inflated_bytes {
            return Err(PackFlaw::Inflate);
        }
        self.end_content()?;
        Ok(used)
    }

    fn end_content(&mut self) -> Result<(), PackFlaw> {
        let State::Content(content) = std::mem::replace(&mut self.state, State::EntryHeader) else {
            return Ok(());
        };
        let (begins, base) = (content.begins, content.entry.base);
        let object_bytes = if base == Base::Nothing {
            content.entry.inflated_bytes
        } else {
            let (of, rest) = read_size(&content.sizes)?;
            let (made, _) = read_size(rest)?;
            let most = self.most_for(begins, base, of.max(made));
            self.check_held(of.max(made), most)?;
            if most > self.limits.held_bytes {
                self.large.insert(begins, most);
            }
            made
        };
        self.made_bytes = self.made_bytes.saturating_add(object_bytes);
        if self.made_bytes > self.limits.all_bytes {
            return Err(PackFlaw::Expands {
                what: "objects",
                bytes: self.made_bytes,
                most: self.limits.all_bytes,
            });
        }
        self.largest_bytes = self.largest_bytes.max(object_bytes);
        self.places.push(begins << DEPTH_BITS | content.depth);
        self.begin_next();
        Ok(())
    }

    /// How large the object of a delta may be, and what it is made of. The larger of them is `largest`.
    fn most_for(&self, begins: u64, base: Base, largest: u64) -> u64 {
        let limit = self.limits.held_bytes;
        let of_base = match base {
            // Asked only where it matters: a look for what is not here is slow.
            Base::Named(id) if largest > limit => (self.sizes)(&id).map(|bytes| bytes.saturating_mul(GROWTH)),
            Base::Before(distance) => self.large.get(&(begins - distance)).copied(),
            _ => None,
        };
        of_base.unwrap_or_default().max(limit)
    }

    fn check_held(&mut self, bytes: u64, most: u64) -> Result<(), PackFlaw> {
        self.largest_held_bytes = self.largest_held_bytes.max(bytes);
        self.check_object(bytes, most)
    }

    fn check_object(&self, bytes: u64, most: u64) -> Result<(), PackFlaw> {
        if bytes <= most {
            return Ok(());
        }
        let what = "an object";
        Err(PackFlaw::Expands { what, bytes, most })
    }
}

impl EntryHeader {
    /// The header that these bytes begin with, and its length. None where more bytes must come.
    fn parse(bytes: &[u8], hash: Kind) -> Result<Option<(Self, usize)>, PackFlaw> {
        let Some(first) = bytes.first() else { return Ok(None) };
        let mut inflated_bytes = u64::from(first & 15);
        let mut used = 1;
        let mut last = *first;
        let mut shift = 4;
        while last & 0x80 != 0 {
            let Some(byte) = bytes.get(used) else { return Ok(None) };
            let bits = u64::from(byte & 0x7f);
            if shift >= u64::BITS || bits << shift >> shift != bits {
                return Err(PackFlaw::Entry);
            }
            inflated_bytes |= bits << shift;
            shift += 7;
            last = *byte;
            used += 1;
        }
        let kind = first >> 4 & 7;
        let is_file = kind == 3;
        let base = match kind {
            1..=4 => Base::Nothing,
            6 => match read_distance(&bytes[used..])? {
                Some((distance, length)) => {
                    used += length;
                    Base::Before(distance)
                }
                None => return Ok(None),
            },
            7 => match bytes.get(used..used + hash.len_in_bytes()) {
                Some(id) => {
                    used += id.len();
                    Base::Named(ObjectId::from_bytes_or_panic(id))
                }
                None => return Ok(None),
            },
            _ => return Err(PackFlaw::Entry),
        };
        let entry = Self {
            base,
            is_file,
            inflated_bytes,
        };
        Ok(Some((entry, used)))
    }
}

/// The distance to a base: seven bits a byte, the highest first, and each byte that goes on stands for one more.
fn read_distance(bytes: &[u8]) -> Result<Option<(u64, usize)>, PackFlaw> {
    let mut distance = 0_u64;
    for (index, byte) in bytes.iter().enumerate() {
        if distance > u64::MAX >> 8 {
            return Err(PackFlaw::Entry);
        }
        distance = distance << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return if distance == 0 {
                Err(PackFlaw::Entry)
            } else {
                Ok(Some((distance, index + 1)))
            };
        }
        distance += 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
