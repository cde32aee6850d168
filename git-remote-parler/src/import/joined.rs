//! One pack made of the packs of several small bundles, so that one git child takes in what would cost one each.
//!
//! Bundles often hold the same object: one that takes a change back brings what was there before, as a delta on what
//! replaced it. A pack with an object twice can be one that git cannot read, when a delta's base is looked up by name and
//! the wrong one of the two is found. So each object goes in once, a delta names a base of the same pack by its place
//! only, which is always before it, and an object that deltas before it expect from outside goes in whole. Without
//! circles, and no chain of deltas is longer than git makes them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use gix::ObjectId;
use gix::hash::Kind;
use gix::odb::pack::data::entry::Header;

use super::stores::Stores;
use crate::pack::entries::{Budget, PackFlaw, checksum_of};
use crate::pack::resolve::{Object, ResolvedEntry, resolve};

/// The beginning of a pack, its number of objects still to be filled in.
const BEGINNING: &[u8; 12] = b"PACK\0\0\0\x02\0\0\0\0";
/// Where the number of objects stands.
const COUNT: std::ops::Range<usize> = 8..12;
/// Longest chain of deltas: what git makes by default.
const MAX_DEPTH: u32 = 50;
/// A pack of at least this many bytes takes no more.
const FULL_BYTES: usize = 8 << 20; // 8 MiB
/// A pack of at least this many objects takes no more.
const FULL_OBJECTS: usize = 50_000;
/// How much of the objects, inflated, is held in memory while their pack is made.
const MEMORY_BYTES: u64 = 64 << 20; // 64 MiB

/// A pack that grows.
pub(super) struct JoinedPack {
    hash: Kind,
    bytes: Vec<u8>,
    /// How many packs are in it.
    packs: usize,
    /// Every object in it.
    placed: HashMap<ObjectId, Placed>,
    /// Objects outside that deltas were found to build on.
    outside: HashMap<ObjectId, Arc<Object>>,
    /// Those of them that deltas in the pack name.
    expected: HashSet<ObjectId>,
    /// The objects in the pack that are held in memory, the oldest first.
    remembered: VecDeque<ObjectId>,
    budget: Budget,
}

/// An object in the pack.
struct Placed {
    at: u64,
    /// How many deltas lie between it and a whole object.
    depth: u32,
    /// The number of the first pack that had it.
    member: usize,
    /// None once it has been forgotten.
    object: Option<Arc<Object>>,
}

/// How an object is written.
enum Form {
    /// As its own pack had it, with another header.
    Copied(Header, u32),
    /// Compressed anew.
    Whole,
}

impl JoinedPack {
    pub(super) fn new(hash: Kind) -> Self {
        Self {
            hash,
            bytes: BEGINNING.to_vec(),
            packs: 0,
            placed: HashMap::new(),
            outside: HashMap::new(),
            expected: HashSet::new(),
            remembered: VecDeque::new(),
            budget: Budget::of(MEMORY_BYTES),
        }
    }

    /// Adds what a pack holds. After a failure it is as it was. Too large is also what builds on an object that had to be
    /// forgotten.
    pub(super) fn push(&mut self, pack: &[u8], stores: &Stores) -> Result<(), PackFlaw> {
        self.make_room();
        let member = self.packs;
        let mut budget = self.budget;
        let mut looked_up = HashMap::new();
        let mut bases = |id: &gix::hash::oid, budget: &mut Budget| {
            if let Some(placed) = self.placed.get(id) {
                return placed.object.clone().map(Some).ok_or(PackFlaw::TooLarge);
            }
            if let Some(object) = self.outside.get(id).or_else(|| looked_up.get(id)) {
                return Ok(Some(Arc::clone(object)));
            }
            let found = stores.find(id, budget)?;
            if let Some(object) = &found {
                looked_up.insert(object.id, Arc::clone(object));
            }
            Ok(found)
        };
        let entries = resolve(pack, self.hash, &mut bases, &mut budget)?;
        self.budget = budget;
        self.outside.extend(looked_up);
        self.packs += 1;
        for entry in entries {
            self.place(entry, member);
        }
        Ok(())
    }

    /// Whether the object is in it.
    pub(super) fn holds(&self, id: &[u8]) -> bool {
        ObjectId::try_from(id).is_ok_and(|id| self.placed.contains_key(&id))
    }

    /// The number of the pack that brought the object, from 0.
    pub(super) fn member_with(&self, id: &[u8]) -> Option<usize> {
        let id = ObjectId::try_from(id).ok()?;
        Some(self.placed.get(&id)?.member)
    }

    /// Every object in it; none where some had to be forgotten.
    pub(super) fn objects(&self) -> Option<HashMap<ObjectId, Arc<Object>>> {
        let held = |(id, placed): (&ObjectId, &Placed)| Some((*id, Arc::clone(placed.object.as_ref()?)));
        self.placed.iter().map(held).collect()
    }

    /// Whether a delta in it builds on an object that is not in it.
    pub(super) fn is_thin(&self) -> bool {
        self.expected.iter().any(|id| !self.placed.contains_key(id))
    }

    /// How many bytes it has so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether it is large enough to be taken in.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= FULL_BYTES || self.placed.len() >= FULL_OBJECTS
    }

    /// The whole pack. Nothing can be added to it any more.
    pub(super) fn finish(&mut self) -> Result<Vec<u8>, PackFlaw> {
        let count = u32::try_from(self.placed.len()).map_err(|_| PackFlaw::TooLarge)?;
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes[COUNT].copy_from_slice(&count.to_be_bytes());
        let checksum = checksum_of(&bytes, self.hash)?;
        bytes.extend_from_slice(checksum.as_slice());
        Ok(bytes)
    }

    /// Forgets objects until half of the memory is free. Deltas mostly build on what came last.
    fn make_room(&mut self) {
        const WANTED: u64 = MEMORY_BYTES / 2;
        if !self.budget.has(WANTED) {
            let outside = self.outside.drain().map(|(_, object)| object.content.len() as u64);
            self.budget.give_back(outside.sum());
        }
        while !self.budget.has(WANTED) {
            let Some(oldest) = self.remembered.pop_front() else {
                return;
            };
            let placed = self.placed.get_mut(&oldest);
            if let Some(object) = placed.and_then(|placed| placed.object.take()) {
                self.budget.give_back(object.content.len() as u64);
            }
        }
    }

    fn place(&mut self, entry: ResolvedEntry<'_>, member: usize) {
        let id = entry.object.id;
        if entry.base.is_some() {
            self.budget.give_back(entry.inflated_bytes);
        }
        if self.placed.contains_key(&id) {
            self.budget.give_back(entry.object.content.len() as u64);
            return;
        }
        let at = self.bytes.len() as u64;
        let depth = match self.form(&entry, at) {
            Form::Copied(header, depth) => {
                self.write_header(header, entry.inflated_bytes);
                self.bytes.extend_from_slice(entry.compressed);
                depth
            }
            Form::Whole => {
                let content = &entry.object.content;
                self.write_header(whole(entry.object.kind), content.len() as u64);
                let mut encoder = ZlibEncoder::new(&mut self.bytes, Compression::default());
                encoder
                    .write_all(content)
                    .and_then(|()| encoder.try_finish())
                    .expect("memory takes what is written");
                0
            }
        };
        if depth > 0
            && let Some(base) = entry.base.filter(|base| !self.placed.contains_key(base))
        {
            self.expected.insert(base);
        }
        let object = Some(entry.object);
        self.remembered.push_back(id);
        let placed = Placed {
            at,
            depth,
            member,
            object,
        };
        self.placed.insert(id, placed);
    }

    fn form(&self, entry: &ResolvedEntry<'_>, at: u64) -> Form {
        let Some(base) = entry.base else {
            return Form::Copied(whole(entry.object.kind), 0);
        };
        let is_awaited = self.expected.contains(&entry.object.id) || base == entry.object.id;
        match self.placed.get(&base) {
            _ if is_awaited => Form::Whole,
            Some(placed) if placed.depth >= MAX_DEPTH => Form::Whole,
            Some(placed) => {
                let base_distance = at - placed.at;
                Form::Copied(Header::OfsDelta { base_distance }, placed.depth + 1)
            }
            None => Form::Copied(Header::RefDelta { base_id: base }, 1),
        }
    }

    fn write_header(&mut self, header: Header, inflated_bytes: u64) {
        header
            .write_to(inflated_bytes, &mut self.bytes)
            .expect("memory takes what is written");
    }
}

fn whole(kind: gix::objs::Kind) -> Header {
    match kind {
        gix::objs::Kind::Commit => Header::Commit,
        gix::objs::Kind::Tree => Header::Tree,
        gix::objs::Kind::Blob => Header::Blob,
        gix::objs::Kind::Tag => Header::Tag,
    }
}
