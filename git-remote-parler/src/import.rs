//! The only way by which bytes from outside become objects of a repository: checked in a quarantine, all or nothing.
//! Writes objects and refs under `refs/parler/`; never the work tree, the index, `HEAD`, configuration, `FETCH_HEAD` or
//! any other ref, and merges nothing.

use std::collections::HashSet;
use std::io::Read;

use gix::hash::oid;
use parler_protocol::{BundleId, ObjectFormat, Oid};

use crate::bundle::{BundleHeader, HeaderRef};
use crate::git::Side;
use crate::pack::entries::PackFlaw;
use crate::pack::object_count;
use crate::pack::scan::PackScan;
use crate::packed_refs;
use crate::pins::{PIN_ROOT, Pin, Transaction, pins_of, without_taken};
use crate::quarantine::{self, Quarantine, Released};
use crate::repository::{LocalRef, Repository};

mod connectivity;
mod error;
mod group;
mod intake;
mod joined;
mod limits;
mod loose;
mod plain;
mod promised;
mod stores;
mod stream;
mod vouching;

use connectivity::Proof;
pub use error::ImportError;
use group::Group;
use intake::{Intake, tell_unpacked};
use limits::FEW_BYTES;
pub use limits::ImportLimits;
use stores::Stores;
use stream::BundleStream;
use vouching::Vouched;

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
    /// The objects of groups that no walk will go through.
    vouched: Vec<gix::ObjectId>,
    failed: bool,
}

/// A bundle whose objects are in the quarantine, or in the group.
struct Received {
    id: BundleId,
    short_pin: bool,
    header: BundleHeader,
    /// Prerequisites that were here before this import.
    external: Vec<Oid>,
    /// What is known of its objects.
    standing: Standing,
}

impl Received {
    fn tips(&self) -> impl Iterator<Item = Oid> {
        self.header.refs.iter().map(|tip| tip.oid)
    }
}

/// What is known of a bundle's objects once they are in the quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// They may refer to anything.
    Open,
    /// None refers to one outside the bundle.
    SelfContained,
    /// Everything that its tips reach is there, if all is that its prerequisites reach.
    Connected,
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
        let stores = Stores::of(repository);
        Ok(Self {
            repository,
            limits,
            quarantine,
            stores,
            bundles: Vec::new(),
            group: None,
            vouched: Vec::new(),
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
        // Read once, and before anything rests on them: what has moved since is noticed when the pins are written.
        let local = self.refs_that_matter()?;
        self.take_in_group(Some(&local)).map_err(|error| match error {
            ImportError::Among { source, .. } if self.bundles.len() == 1 => *source,
            error => error,
        })?;
        let proven = self.quarantine.contents().map_err(ImportError::storage)?;
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
            standing: Standing::Open,
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
        self.take_in_group(None)?;
        let is_whole = received.header.prerequisites.is_empty();
        let pack_bytes = stream.pack_bytes();
        let is_self_contained = if pack_bytes <= FEW_BYTES {
            let pack = stream.read_pack(&id)?;
            self.feed_alone(objects, &pack, is_whole)?
        } else {
            let sizes = |id: &oid| self.stores.size_of(id);
            let scan = PackScan::new(self.stores.hash(), pack_bytes, self.limits.of_scan(pack_bytes), &sizes);
            let intake = self.start_intake(intake::Pack {
                objects,
                bytes: pack_bytes,
                largest_held: 0,
                is_whole,
                is_vouched: false,
            })?;
            stream.feed_pack(intake, scan, &id, received.header.object_format)?
        };
        self.push_alone(received, is_self_contained)
    }

    /// Looks through a pack, and lets git take it in. Gives whether it is self-contained.
    fn feed_alone(&self, objects: u32, pack: &[u8], is_whole: bool) -> Result<bool, ImportError> {
        let bytes = pack.len() as u64;
        let sizes = |id: &oid| self.stores.size_of(id);
        let mut scan = PackScan::new(self.stores.hash(), bytes, self.limits.of_scan(bytes), &sizes);
        scan.feed(pack).map_err(ImportError::pack)?;
        let largest_held = scan.largest_held_bytes();
        scan.finish().map_err(ImportError::pack)?;
        let mut intake = self.start_intake(intake::Pack {
            objects,
            bytes,
            largest_held,
            is_whole,
            is_vouched: false,
        })?;
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
                    return if is_full { self.take_in_group(None) } else { Ok(()) };
                }
                // There is more room in a new group.
                Err(PackFlaw::TooLarge) if group.members() > 0 => self.take_in_group(None)?,
                Err(flaw) => break flaw,
            }
        };
        self.take_in_group(None)?;
        let fed = self.feed_alone(objects, pack, received.header.prerequisites.is_empty());
        let is_self_contained = fed.map_err(|error| match flaw {
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
        self.push_alone(received, is_self_contained)
    }

    fn push_alone(&mut self, mut received: Received, is_self_contained: bool) -> Result<(), ImportError> {
        if is_self_contained {
            received.standing = Standing::SelfContained;
        }
        self.bundles.push(received);
        self.stores
            .quarantine_has_changed(&self.quarantine)
            .map_err(ImportError::storage)
    }

    /// Lets git take in the bundles of the group. An error is about all of them, unless git named an object that one of
    /// them brought. `local` has the refs that name what they build on, where they are known.
    fn take_in_group(&mut self, local: Option<&[LocalRef]>) -> Result<(), ImportError> {
        let Some(mut group) = self.group.take().filter(|group| group.members() > 0) else {
            return Ok(());
        };
        let members = self.bundles.len() - group.members()..;
        let (standing, vouched) = self
            .feed_group(&mut group, &self.bundles[members.clone()], local)
            .map_err(|source| {
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
            bundle.standing = standing;
        }
        self.vouched.extend(vouched);
        self.stores
            .quarantine_has_changed(&self.quarantine)
            .map_err(ImportError::storage)
    }

    fn feed_group(
        &self,
        group: &mut Group,
        members: &[Received],
        local: Option<&[LocalRef]>,
    ) -> Result<(Standing, Vec<gix::ObjectId>), ImportError> {
        let tips: Vec<Oid> = members.iter().flat_map(Received::tips).collect();
        let prerequisites: Vec<Oid> = members.iter().flat_map(|bundle| &bundle.external).copied().collect();
        let vouched = if self.may_vouch(&prerequisites, local)? {
            group.vouched(&tips, &prerequisites, &self.stores)
        } else {
            None
        };
        if let Some(vouched) = &vouched
            && self.writes(vouched, group.bytes())?
        {
            loose::write(&vouched.objects, self.stores.hash(), self.quarantine.path()).map_err(ImportError::storage)?;
            let count = vouched.objects.len();
            tell_unpacked(self.repository, count as u64, group.bytes());
            tracing::debug!(
                members = members.len(),
                count,
                "import: a group was written into the quarantine"
            );
            return Ok((Standing::Connected, vouched.ids()));
        }
        let pack = group.finish().map_err(not_joined)?;
        let objects = object_count(&pack.bytes).ok_or_else(|| not_joined(PackFlaw::NotAPack))?;
        let mut intake = self.start_intake(intake::Pack {
            objects,
            bytes: pack.bytes.len() as u64,
            // All of it has been held in memory, within bounds.
            largest_held: 0,
            is_whole: pack.is_whole,
            is_vouched: vouched.is_some(),
        })?;
        intake.feed(&pack.bytes)?;
        let is_self_contained = intake.finish()?;
        tracing::debug!(
            members = members.len(),
            is_vouched = vouched.is_some(),
            is_self_contained,
            "import: a group is in the quarantine"
        );
        let standing = match (is_self_contained, vouched.is_some()) {
            (_, true) => Standing::Connected,
            (true, false) => Standing::SelfContained,
            (false, false) => Standing::Open,
        };
        Ok((standing, vouched.map(|vouched| vouched.ids()).unwrap_or_default()))
    }

    /// Whether we write the objects of a group ourselves: few, and of so many bytes as a pack.
    fn writes(&self, vouched: &Vouched, pack_bytes: u64) -> Result<bool, ImportError> {
        let are_small = self.limits.are_small(vouched.objects.len() as u64, pack_bytes);
        Ok(are_small && loose::are_usual(self.repository)?)
    }

    /// Whether what we see of the repository is what git would judge by. Nobody may have judged a prerequisite that no
    /// ref names, and where objects may be missing on purpose it counts what git makes of that.
    fn may_vouch(&self, prerequisites: &[Oid], local: Option<&[LocalRef]>) -> Result<bool, ImportError> {
        if self.repository.promisor()?.is_some() || !self.stores.see_what_git_sees() {
            return Ok(false);
        }
        let asked: HashSet<&Oid> = prerequisites.iter().collect();
        let read;
        let local = match local {
            Some(local) => local,
            None => {
                read = self.repository.refs_where("refs/", |_, oid| asked.contains(oid))?;
                &read
            }
        };
        let named: HashSet<&Oid> = local.iter().map(|local| &local.oid).collect();
        Ok(asked.is_subset(&named))
    }

    fn start_intake(&self, pack: intake::Pack) -> Result<Intake<'_>, ImportError> {
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
        let is_contained = |bundle: &&Received| bundle.standing == Standing::SelfContained;
        let (contained, others): (Vec<_>, Vec<_>) = self.bundles.iter().partition(is_contained);
        let tips = |bundles: &[&Received]| -> Vec<Oid> { bundles.iter().flat_map(|bundle| bundle.tips()).collect() };
        let claim = connectivity::Claim {
            contained: tips(&contained),
            open: tips(&others),
            is_connected: others.iter().all(|bundle| bundle.standing == Standing::Connected),
            external: others
                .iter()
                .flat_map(|bundle| bundle.external.iter().copied())
                .collect(),
        };
        let context = connectivity::Context {
            repository: self.repository,
            quarantine: &self.quarantine,
            limits: &self.limits,
        };
        let proof = context.prove(&claim, local)?;
        if self.vouched.is_empty() {
            return Ok(proof);
        }
        // Where git did not look through them somebody may have removed them meanwhile. What was opened before knows them
        // from the index of a pack that may be gone.
        let stores = Stores::open(self.repository, &self.quarantine).map_err(ImportError::storage)?;
        if self.vouched.iter().all(|id| stores.holds(id)) {
            Ok(proof)
        } else {
            Err(ImportError::storage(quarantine::removed_meanwhile()))
        }
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
