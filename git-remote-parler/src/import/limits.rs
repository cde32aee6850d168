//! What one import may cost: bytes, memory and time, in proportion to what its sender announced.

use std::time::Duration;

use parler_protocol::limits::MAX_BLOB_BYTES;

use crate::git::{BULK_PATIENCE, ChildLimits};
use crate::pack::scan::ScanLimits;
use crate::repository::{Repository, RepositoryError};

/// A pack of at most this many bytes is held whole and looked through before a child is started, which then has one
/// thread.
pub(super) const FEW_BYTES: u64 = 4 << 20; // 4 MiB
/// A pack of at most this many bytes is indexed by two threads at most.
const MANY_BYTES: u64 = 256 << 20; // 256 MiB
/// Memory that a checking child may take. Each thread holds an object and what it is made of; all of them together hold
/// some of what others are made of.
const CHILD_DATA_BYTES: u64 = 480 << 20; // 480 MiB
/// That is enough for a pack of so many bytes, however it is made. A larger one may have very many objects.
const PLAIN_PACK_BYTES: u64 = 64 << 20; // 64 MiB
/// Memory besides, for each byte of a pack beyond that.
const CHILD_DATA_PER_BYTE: u64 = 4;
/// It is enough for objects of so many bytes.
const PLAIN_OBJECT_BYTES: u64 = 128 << 20; // 128 MiB
/// Memory besides, for each byte of the largest object beyond that.
const CHILD_DATA_PER_OBJECT_BYTE: u64 = 4;
/// How much larger than its pack a file may be, when that is more than [`ImportLimits::object_bytes`]. What git has to hold
/// as a whole may be as large as the pack.
const OBJECT_PER_PACK: u64 = 64;
/// How much larger than [`ImportLimits::object_bytes`] all objects together may be: a few lines that change in a large
/// file are a few bytes each time.
const ALL_PER_OBJECT: u64 = 32;
/// How much larger than their pack they may be, when that is more. Of the histories of large programs it is 15 to 30.
const ALL_PER_PACK: u64 = 256;
/// Key of [`ImportLimits::object_bytes`].
const OBJECT_KEY: &str = "parler.maxObjectSize";
/// Objects that any pack may have. Git's tables take some 115 bytes for each, before it knows what any of them is.
const PLAIN_OBJECTS: u64 = 4_000_000;
/// How many bytes of a pack stand for another. Of the histories of large programs it is 130 and more.
const PACK_PER_OBJECT: u64 = 80;
/// Key of [`ImportLimits::objects`].
const OBJECTS_KEY: &str = "parler.maxObjects";

/// What one import may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImportLimits {
    /// Largest bundle, in bytes.
    pub bundle_bytes: u64,
    /// A bundle of at most this many objects and at most `small_bytes` is unpacked into loose objects: many tiny packs
    /// make git repack.
    pub small_objects: u32,
    /// See `small_objects`.
    pub small_bytes: u64,
    /// A bundle of at most this many bytes is taken in by one child with others that come before or after it. None is,
    /// when this is 0.
    pub joined_bytes: u64,
    /// Largest object, in bytes, however small the pack is that it comes of. Of a larger pack, one that git has to hold as
    /// a whole may be as large as the pack; a file that is no delta may be 64 times as large.
    pub object_bytes: u64,
    /// How many objects any pack may have. One of 80 bytes for each object may have more.
    pub objects: u64,
    /// Processor time of each checking child.
    pub cpu: Duration,
    /// How long each checking child is waited for; waiting for the bundle's bytes does not count.
    pub patience: Duration,
}

impl Default for ImportLimits {
    fn default() -> Self {
        Self {
            bundle_bytes: MAX_BLOB_BYTES,
            small_objects: 100,
            small_bytes: 1 << 20,    // 1 MiB
            joined_bytes: 256 << 10, // 256 KiB
            object_bytes: PLAIN_OBJECT_BYTES,
            objects: PLAIN_OBJECTS,
            cpu: BULK_PATIENCE,
            patience: BULK_PATIENCE,
        }
    }
}

impl ImportLimits {
    /// The limits of a repository: `parler.maxObjectSize`, `parler.maxObjects`, and what is the same everywhere.
    ///
    /// # Errors
    /// When a value is no size.
    pub fn of(repository: &Repository) -> Result<Self, RepositoryError> {
        let mut limits = Self::default();
        if let Some(bytes) = repository.config_bytes(OBJECT_KEY)? {
            limits.object_bytes = bytes;
        }
        if let Some(objects) = repository.config_bytes(OBJECTS_KEY)? {
            limits.objects = objects;
        }
        Ok(limits)
    }

    /// Whether these are unpacked into loose objects.
    pub(super) fn are_small(&self, objects: u64, pack_bytes: u64) -> bool {
        objects <= self.small_objects.into() && pack_bytes <= self.small_bytes
    }

    pub(super) fn of_scan(&self, pack_bytes: u64) -> ScanLimits {
        let of_pack = |times| pack_bytes.saturating_mul(times);
        ScanLimits {
            object_bytes: self.object_bytes.max(of_pack(OBJECT_PER_PACK)),
            held_bytes: self.object_bytes.max(pack_bytes),
            all_bytes: self
                .object_bytes
                .saturating_mul(ALL_PER_OBJECT)
                .max(of_pack(ALL_PER_PACK)),
            objects: self.objects.max(pack_bytes / PACK_PER_OBJECT),
        }
    }

    /// Of a pack whose largest object that git has to hold is so large, or as large as the configuration lets it be.
    pub(super) fn of_child(&self, pack_bytes: u64, largest_held: u64) -> ChildLimits {
        let of_pack = pack_bytes.saturating_sub(PLAIN_PACK_BYTES);
        let of_object = largest_held.max(self.object_bytes).saturating_sub(PLAIN_OBJECT_BYTES);
        let besides = of_pack
            .saturating_mul(CHILD_DATA_PER_BYTE)
            .max(of_object.saturating_mul(CHILD_DATA_PER_OBJECT_BYTE));
        ChildLimits {
            data_bytes: Some(CHILD_DATA_BYTES.saturating_add(besides)),
            cpu: Some(self.cpu),
        }
    }

    /// How many threads may index a pack. None: as many as git likes.
    pub(super) fn threads(pack_bytes: u64) -> Option<usize> {
        if pack_bytes <= FEW_BYTES {
            Some(1)
        } else {
            (pack_bytes <= MANY_BYTES).then_some(2)
        }
    }
}
