//! The only way by which bytes from outside become objects of a repository: checked in a quarantine, all or nothing.
//! Writes objects and refs under `refs/parler/`; never the work tree, the index, `HEAD`, configuration, `FETCH_HEAD` or
//! any other ref, and merges nothing.

use std::collections::HashSet;
use std::io::Read;
use std::time::Duration;

use gix::hash::oid;
use parler_protocol::limits::MAX_BLOB_BYTES;
use parler_protocol::{BundleId, ObjectFormat, Oid};

use crate::bundle::{BundleHeader, HeaderRef};
use crate::git::{BULK_PATIENCE, ChildLimits, Side};
use crate::pack::entries::PackFlaw;
use crate::pack::object_count;
use crate::pack::scan::{PackScan, ScanLimits};
use crate::packed_refs;
use crate::pins::{PIN_ROOT, Pin, Transaction, pins_of, without_taken};
use crate::quarantine::{Quarantine, Released};
use crate::repository::{LocalRef, Repository, RepositoryError};

mod connectivity;
mod error;
mod group;
mod intake;
mod joined;
mod promised;
mod stores;
mod stream;

use connectivity::Proof;
pub use error::ImportError;
use group::Group;
use intake::Intake;
use stores::Stores;
use stream::BundleStream;

/// A pack of at most this many bytes is held whole and looked through before a child is started, which then has one
/// thread.
const FEW_BYTES: u64 = 4 << 20; // 4 MiB
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
            cpu: BULK_PATIENCE,
            patience: BULK_PATIENCE,
        }
    }
}

impl ImportLimits {
    /// The limits of a repository: `parler.maxObjectSize`, and what is the same everywhere.
    ///
    /// # Errors
    /// When the value is no size.
    pub fn of(repository: &Repository) -> Result<Self, RepositoryError> {
        let mut limits = Self::default();
        if let Some(bytes) = repository.config_bytes(OBJECT_KEY)? {
            limits.object_bytes = bytes;
        }
        Ok(limits)
    }

    fn of_scan(&self, pack_bytes: u64) -> ScanLimits {
        let of_pack = |times| pack_bytes.saturating_mul(times);
        ScanLimits {
            object_bytes: self.object_bytes.max(of_pack(OBJECT_PER_PACK)),
            held_bytes: self.object_bytes.max(pack_bytes),
            all_bytes: self
                .object_bytes
                .saturating_mul(ALL_PER_OBJECT)
                .max(of_pack(ALL_PER_PACK)),
        }
    }

    /// Of a pack whose largest object that git has to hold is so large, or as large as the configuration lets it be.
    fn of_child(&self, pack_bytes: u64, largest_held: u64) -> ChildLimits {
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
    fn threads(pack_bytes: u64) -> Option<usize> {
        if pack_bytes <= FEW_BYTES {
            Some(1)
        } else {
            (pack_bytes <= MANY_BYTES).then_some(2)
        }
    }
}

/// What the sender signed about a bundle. The header must say the same, in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedHeader {
    /// The refs it brings.
    pub refs: Vec<HeaderRef>,
    /// What it expects to be here.
    pub prerequisites: Vec<Oid>,
    /// The hash that names its objects, if the sender said so.
    pub object_format: Option<ObjectFormat>,
}

/// A bundle on its way in.
pub struct Incoming<'a> {
    /// What its bytes must hash to.
    pub id: BundleId,
    /// How many bytes there are.
    pub size: u64,
    /// What its sender signed; none for a file that nobody signed.
    pub expected: Option<ExpectedHeader>,
    /// Whether to pin it under the first 12 digits of its id too.
    pub short_pin: bool,
    /// Its bytes. No more than `size` are read.
    pub reader: &'a mut dyn Read,
}

/// When the pins are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinTiming {
    /// At once.
    Now,
    /// By [`crate::pins::commit`], after git has written refs of its own.
    Deferred,
}

/// One import of one or more bundles, which arrive together or not at all. Dropping it leaves nothing behind.
pub struct Import<'r> {
    repository: &'r Repository,
    limits: ImportLimits,
    quarantine: Quarantine,
    stores: Stores,
    bundles: Vec<Received>,
    /// The last bundles, whose objects are not in the quarantine yet.
    group: Option<Group>,
    failed: bool,
}

/// A bundle whose objects are in the quarantine, or in the group.
struct Received {
    id: BundleId,
    short_pin: bool,
    header: BundleHeader,
    /// Prerequisites that were here before this import.
    external: Vec<Oid>,
    /// Whether no object in it refers to one outside it.
    self_contained: bool,
}

impl<'r> Import<'r> {
    /// Makes the quarantine, and removes those of dead processes.
    pub fn begin(repository: &'r Repository, limits: ImportLimits) -> Result<Self, ImportError> {
        let environment = repository.git().environment();
        if environment.get("GIT_QUARANTINE_PATH").is_some() {
            // Git forbids ref updates there, because it may yet throw the objects away that they would name.
            return Err(ImportError::InsideQuarantine);
        }
        let quarantine = Quarantine::new(&repository.objects_dir(), environment).map_err(ImportError::storage)?;
        packed_refs::sweep(repository.common_dir());
        let stores = Stores::open(repository, &quarantine).map_err(ImportError::storage)?;
        Ok(Self {
            repository,
            limits,
            quarantine,
            stores,
            bundles: Vec::new(),
            group: None,
            failed: false,
        })
    }

    /// Takes in one bundle; those that bring its prerequisites come before it. Gives its header. After a failure the
    /// import as a whole has failed.
    ///
    /// Small bundles are read to their end, their bytes and header checked, and git sees them later, with others.
    ///
    /// # Errors
    /// [`ImportError::Among`] is about bundles that were added before, and perhaps this one; everything else is about
    /// this one.
    pub fn add(&mut self, incoming: Incoming<'_>) -> Result<&BundleHeader, ImportError> {
        if std::mem::replace(&mut self.failed, true) {
            return Err(ImportError::FailedBefore);
        }
        self.take_in(incoming)?;
        self.failed = false;
        Ok(&self.bundles[self.bundles.len() - 1].header)
    }

    /// Proves that every tip is there with everything it reaches, then moves the objects in and pins the tips.
    pub fn finish(mut self, timing: PinTiming) -> Result<Imported, ImportError> {
        if self.failed {
            return Err(ImportError::FailedBefore);
        }
        self.take_in_group().map_err(|error| match error {
            ImportError::Among { source, .. } if self.bundles.len() == 1 => *source,
            error => error,
        })?;
        let proven = self.quarantine.contents().map_err(ImportError::storage)?;
        let local = self.refs_that_matter()?;
        let pinned: Vec<_> = local.iter().filter(|local| local.name.starts_with(PIN_ROOT)).collect();
        let pins_of_one = |bundle: &Received| {
            let pins = pins_of(&bundle.id, &bundle.header.refs, bundle.short_pin);
            without_taken(pins, &bundle.id, &pinned)
        };
        let pins: Vec<_> = self.bundles.iter().flat_map(pins_of_one).collect();
        tracing::debug!(
            bundles = self.bundles.len(),
            pins = pins.len(),
            "import: all bundles are in the quarantine"
        );
        let mut proof = self.prove(&local)?;
        if timing == PinTiming::Deferred {
            let released = self.quarantine.release(&proven).map_err(ImportError::storage)?;
            return Ok(Imported { pins, proof, released });
        }
        // The refs are locked before the objects move: what can fail has failed then, with nothing changed.
        let update_ref = || {
            self.quarantine
                .around(self.repository.command(Side::Import, "update-ref"))
        };
        let prepare = |verify: &[LocalRef]| {
            let quarantine = Some(self.quarantine.path());
            Transaction::prepare(self.repository, update_ref(), &pins, verify, quarantine)
        };
        let prepared = match prepare(&proof.refs) {
            Err(_) if !proof.refs.is_empty() => {
                // A ref that vouched for a prerequisite has moved. It need not: all refs together may.
                let around = |command| self.quarantine.around(command);
                connectivity::check_against_all(self.repository, around, &pins, &self.limits)?;
                proof.refs.clear();
                prepare(&[])
            }
            prepared => prepared,
        }?;
        let mut released = self.quarantine.release(&proven).map_err(ImportError::storage)?;
        prepared.commit()?;
        released.settle().map_err(ImportError::storage)?;
        tracing::debug!(pins = pins.len(), "import: objects moved in, tips pinned");
        Ok(Imported {
            pins,
            proof,
            released: Released::default(),
        })
    }

    /// The refs that name what the bundles build on, and those where their pins will be. Of a large room a repository
    /// has thousands of others.
    fn refs_that_matter(&self) -> Result<Vec<LocalRef>, ImportError> {
        let external: HashSet<&Oid> = self.bundles.iter().flat_map(|bundle| &bundle.external).collect();
        let ids = self.bundles.iter().map(|bundle| bundle.id);
        let bases: HashSet<String> = ids.flat_map(|id| [id.short(), id.to_string()]).collect();
        let is_place = |name: &str| {
            let below = name.strip_prefix(PIN_ROOT).unwrap_or_default();
            bases.contains(below.split_once('/').map_or(below, |(base, _)| base))
        };
        let matters = |name: &str, oid: &Oid| external.contains(oid) || is_place(name);
        Ok(self.repository.refs_where("refs/", matters)?)
    }

    fn take_in(&mut self, incoming: Incoming<'_>) -> Result<(), ImportError> {
        let Incoming {
            id,
            size,
            expected,
            short_pin,
            reader,
        } = incoming;
        if size > self.limits.bundle_bytes {
            return Err(ImportError::TooLarge {
                size,
                most: self.limits.bundle_bytes,
            });
        }
        let mut stream = BundleStream::new(reader, size);
        let header = stream.read_header()?;
        if header.object_format != self.repository.object_format() {
            let (bundle, repository) = (header.object_format, self.repository.object_format());
            return Err(ImportError::ObjectFormat { bundle, repository });
        }
        if let Some(expected) = expected {
            compare(&header, &expected)?;
        }
        let external = self.find_prerequisites(&header)?;
        tracing::debug!(%id, size, refs = header.refs.len(), prerequisites = header.prerequisites.len(), "import: a bundle");
        let objects = stream.peek_object_count()?;
        let received = Received {
            id,
            short_pin,
            header,
            external,
            self_contained: false,
        };
        let is_small = size <= self.limits.joined_bytes;
        // In a partial clone a delta may build on what is still at the remote.
        let is_thin = !received.header.prerequisites.is_empty();
        let promisor = if is_thin { self.repository.promisor()? } else { None };
        if is_small || (promisor.is_some() && size <= promised::MOST_BYTES) {
            let pack = stream.read_pack(&id)?;
            if let Some(promisor) = &promisor {
                self.bring_promised(promisor, &pack)?;
            }
            return self.join(received, objects, &pack);
        }
        self.take_in_group()?;
        let is_whole = received.header.prerequisites.is_empty();
        let pack_bytes = stream.pack_bytes();
        let self_contained = if pack_bytes <= FEW_BYTES {
            let pack = stream.read_pack(&id)?;
            self.feed_alone(objects, &pack, is_whole)?
        } else {
            let sizes = |id: &oid| self.stores.size_of(id);
            let scan = PackScan::new(self.stores.hash(), pack_bytes, self.limits.of_scan(pack_bytes), &sizes);
            let intake = self.start_intake(objects, pack_bytes, 0, is_whole)?;
            stream.feed_pack(intake, scan, &id, received.header.object_format)?
        };
        self.push_alone(received, self_contained)
    }

    /// Looks through a pack, and lets git take it in. Gives whether it is self-contained.
    fn feed_alone(&self, objects: u32, pack: &[u8], is_whole: bool) -> Result<bool, ImportError> {
        let bytes = pack.len() as u64;
        let sizes = |id: &oid| self.stores.size_of(id);
        let mut scan = PackScan::new(self.stores.hash(), bytes, self.limits.of_scan(bytes), &sizes);
        scan.feed(pack).map_err(ImportError::pack)?;
        let largest_held = scan.largest_held_bytes();
        scan.finish().map_err(ImportError::pack)?;
        let mut intake = self.start_intake(objects, bytes, largest_held, is_whole)?;
        intake.feed(pack)?;
        intake.finish()
    }

    fn bring_promised(&mut self, promisor: &str, pack: &[u8]) -> Result<(), ImportError> {
        if promised::bring(self.repository, promisor, pack, &self.stores)? {
            self.stores = Stores::open(self.repository, &self.quarantine).map_err(ImportError::storage)?;
        }
        Ok(())
    }

    /// Puts a bundle into the group. One whose objects cannot be told is for git alone, which will say what it thinks.
    fn join(&mut self, received: Received, objects: u32, pack: &[u8]) -> Result<(), ImportError> {
        let is_in_group = |group: &Group, oid: &Oid| group.holds(oid.as_bytes());
        let flaw = loop {
            let group = self.group.get_or_insert_with(|| Group::new(&self.stores));
            let prerequisites = &received.header.prerequisites;
            let builds_on_others = !prerequisites.iter().all(|oid| is_in_group(group, oid));
            match group.push(pack, builds_on_others, &self.stores) {
                Ok(()) => {
                    let is_full = group.is_full();
                    self.bundles.push(received);
                    return if is_full { self.take_in_group() } else { Ok(()) };
                }
                // There is more room in a new group.
                Err(PackFlaw::TooLarge) if group.members() > 0 => self.take_in_group()?,
                Err(flaw) => break flaw,
            }
        };
        self.take_in_group()?;
        let fed = self.feed_alone(objects, pack, received.header.prerequisites.is_empty());
        let self_contained = fed.map_err(|error| match flaw {
            // Another was to bring what it lacks.
            PackFlaw::UnknownBase if !self.bundles.is_empty() => {
                let before = self.bundles.iter().map(|bundle| bundle.id);
                ImportError::Among {
                    ids: before.chain([received.id]).collect(),
                    source: Box::new(error),
                }
            }
            _ => error,
        })?;
        self.push_alone(received, self_contained)
    }

    fn push_alone(&mut self, mut received: Received, self_contained: bool) -> Result<(), ImportError> {
        received.self_contained = self_contained;
        self.bundles.push(received);
        self.stores
            .quarantine_has_changed(&self.quarantine)
            .map_err(ImportError::storage)
    }

    /// Lets git take in the bundles of the group. An error is about all of them, unless git named an object that one of
    /// them brought.
    fn take_in_group(&mut self) -> Result<(), ImportError> {
        let Some(mut group) = self.group.take().filter(|group| group.members() > 0) else {
            return Ok(());
        };
        let members = self.bundles.len() - group.members()..;
        let self_contained = self.feed_group(&mut group).map_err(|source| {
            let mut ids: Vec<BundleId> = self.bundles[members.clone()].iter().map(|bundle| bundle.id).collect();
            let guilty = match &source {
                ImportError::Refused { message } => group.to_blame(message),
                _ => None,
            };
            if let Some(alone) = guilty.and_then(|number| ids.get(number).copied()) {
                ids = vec![alone];
            }
            let source = Box::new(source);
            ImportError::Among { ids, source }
        })?;
        for bundle in &mut self.bundles[members] {
            bundle.self_contained = self_contained;
        }
        self.stores
            .quarantine_has_changed(&self.quarantine)
            .map_err(ImportError::storage)
    }

    fn feed_group(&self, group: &mut Group) -> Result<bool, ImportError> {
        let pack = group.finish().map_err(not_joined)?;
        let objects = object_count(&pack.bytes).ok_or_else(|| not_joined(PackFlaw::NotAPack))?;
        // All of it has been held in memory, within bounds.
        let mut intake = self.start_intake(objects, pack.bytes.len() as u64, 0, pack.is_whole)?;
        intake.feed(&pack.bytes)?;
        intake.finish()
    }

    fn start_intake(
        &self,
        objects: u32,
        pack_bytes: u64,
        largest_held: u64,
        is_whole: bool,
    ) -> Result<Intake<'_>, ImportError> {
        let pack = intake::Pack {
            objects,
            bytes: pack_bytes,
            largest_held,
            is_whole,
        };
        let is_partial = self.repository.promisor()?.is_some();
        Intake::start(self.repository, &self.quarantine, &self.limits, pack, is_partial)
    }

    /// The prerequisites that were here before this import. The others must have come with it.
    fn find_prerequisites(&self, header: &BundleHeader) -> Result<Vec<Oid>, ImportError> {
        // Those that came with it first: a look for what is not there is slow.
        let is_in_group = |oid: &Oid| self.group.as_ref().is_some_and(|group| group.holds(oid.as_bytes()));
        let has_come = |oid: &&Oid| is_in_group(oid) || self.stores.has_come(oid);
        let others: Vec<Oid> = header
            .prerequisites
            .iter()
            .filter(|oid| !has_come(oid))
            .copied()
            .collect();
        let (mut here, unknown): (Vec<_>, Vec<_>) = others.into_iter().partition(|oid| self.stores.is_here(oid));
        // Git may see more than we do.
        let answers = self.repository.contains(&unknown)?;
        let (found, missing): (Vec<_>, Vec<_>) = unknown.into_iter().zip(answers).partition(|(_, here)| *here);
        if missing.is_empty() {
            here.extend(found.into_iter().map(|(oid, _)| oid));
            Ok(here)
        } else {
            let oids = missing.into_iter().map(|(oid, _)| oid).collect();
            Err(ImportError::MissingPrerequisites { oids })
        }
    }

    fn prove(&self, local: &[LocalRef]) -> Result<Proof, ImportError> {
        let (contained, open): (Vec<_>, Vec<_>) = self.bundles.iter().partition(|bundle| bundle.self_contained);
        let tips = |bundles: &[&Received]| -> Vec<Oid> {
            bundles
                .iter()
                .flat_map(|bundle| bundle.header.refs.iter().map(|tip| tip.oid))
                .collect()
        };
        let external: HashSet<_> = open.iter().flat_map(|bundle| bundle.external.iter().copied()).collect();
        let context = connectivity::Context {
            repository: self.repository,
            quarantine: &self.quarantine,
            limits: &self.limits,
        };
        context.prove(&tips(&contained), &tips(&open), &external, local)
    }
}

/// A pack of packs that were good one by one.
fn not_joined(flaw: PackFlaw) -> ImportError {
    ImportError::Refused {
        message: flaw.to_string(),
    }
}

fn compare(header: &BundleHeader, expected: &ExpectedHeader) -> Result<(), ImportError> {
    let sorted = |refs: &[HeaderRef]| {
        let mut refs = refs.to_vec();
        refs.sort_unstable();
        refs
    };
    let set = |oids: &[Oid]| oids.iter().copied().collect::<HashSet<_>>();
    let what = if sorted(&header.refs) != sorted(&expected.refs) {
        "refs"
    } else if set(&header.prerequisites) != set(&expected.prerequisites) {
        "prerequisites"
    } else if expected
        .object_format
        .is_some_and(|format| format != header.object_format)
    {
        "object format"
    } else {
        return Ok(());
    };
    Err(ImportError::NotAsSigned { what })
}

/// A finished import: the objects are in the repository, and as long as this lives no repack takes them away.
#[derive(Debug)]
pub struct Imported {
    /// The refs that name the bundles' tips: written already, or to be written by [`crate::pins::commit`].
    pub pins: Vec<Pin>,
    proof: Proof,
    released: Released,
}

impl Imported {
    pub(crate) fn write_pins(&mut self, repository: &Repository) -> Result<(), ImportError> {
        let prepare = |verify: &[LocalRef]| {
            let update_ref = repository.command(Side::Import, "update-ref");
            Transaction::prepare(repository, update_ref, &self.pins, verify, None)
        };
        let prepared = match prepare(&self.proof.refs) {
            Err(_) if !self.proof.refs.is_empty() => {
                connectivity::check_against_all(repository, |command| command, &self.pins, &ImportLimits::default())?;
                prepare(&[])
            }
            prepared => prepared,
        }?;
        prepared.commit()?;
        self.released.settle().map_err(ImportError::storage)
    }
}
