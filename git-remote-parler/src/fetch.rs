//! Takes bundles out of a room into a repository: finds those that bring what is wanted, and what they build on, imports
//! them in one quarantine and pins each. Merges nothing and writes no ref outside `refs/parler/`.

use parler_client::{Client, ClientError};
use parler_protocol::limits::MAX_BUNDLES_PER_REQUEST;
use parler_protocol::{BundleId, ObjectFormat, Oid, RefName, RoomName};

use crate::advertisement::header_refs;
use crate::base_fetch::{MissingBase, fetch_external};
use crate::fetch_plan::{External, FetchPlan, FetchPlanner};
use crate::import::{ExpectedHeader, Import, ImportError, ImportLimits, Imported, Incoming, PinTiming};
use crate::pins::{self, PIN_ROOT, Pin};
use crate::repository::{Repository, RepositoryError};
use crate::room_state::{RoomBundle, RoomState};

/// What the caller's configuration says about fetches.
#[derive(Debug, Clone, Copy)]
pub struct FetchPolicy {
    /// Whether a missing base is fetched from the configured remote it is from: `parler.fetchBase`.
    pub fetch_base: bool,
    /// What an import may cost.
    pub limits: ImportLimits,
}

impl Default for FetchPolicy {
    fn default() -> Self {
        Self {
            fetch_base: true,
            limits: ImportLimits::default(),
        }
    }
}

/// An object that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// The object.
    pub oid: Oid,
    /// The ref it was asked for by, when it is one of the room's.
    pub name: Option<RefName>,
}

/// A bundle that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedBundle {
    /// Its id.
    pub id: BundleId,
    /// The refs that name its tips, short ones first: written, or still to be written.
    pub pins: Vec<Pin>,
}

/// What a fetch did.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The bundles imported, in the order of the import.
    pub bundles: Vec<FetchedBundle>,
    unpinned: Vec<Imported>,
}

impl Fetched {
    /// Writes the pins that were deferred, and lets go of the packs' `.keep` files.
    ///
    /// # Errors
    /// [`FetchError::Import`]; pins of other bundles may have been written.
    pub fn pin(&mut self, repository: &Repository) -> Result<(), FetchError> {
        for imported in self.unpinned.drain(..) {
            pins::commit(repository, imported)?;
        }
        Ok(())
    }

    /// Adds what another fetch did.
    pub fn append(&mut self, mut other: Self) {
        self.bundles.append(&mut other.bundles);
        self.unpinned.append(&mut other.unpinned);
    }

    fn add(&mut self, ids: &[BundleId], mut imported: Imported, timing: PinTiming) {
        let names = |id: &BundleId| [id.short(), id.to_string()].map(|name| format!("{PIN_ROOT}{name}"));
        for id in ids {
            let bases = names(id);
            let is_of = |pin: &&Pin| {
                bases.iter().any(|base| {
                    pin.name
                        .strip_prefix(base.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                })
            };
            let pins = imported.pins.iter().filter(is_of).cloned().collect();
            self.bundles.push(FetchedBundle { id: *id, pins });
        }
        if timing == PinTiming::Deferred {
            self.unpinned.push(imported);
        } else {
            imported.pins.clear();
        }
    }
}

/// Why a fetch brought nothing. The repository is as it was, except that bundles may have been imported that turned out
/// not to hold the wanted commit.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A bundle builds on commits that no bundle of the room brings.
    #[error("{what} of room '{room}' needs {missing}")]
    BaseMissing {
        /// The bundle, or the ref.
        what: String,
        /// The room.
        room: RoomName,
        /// What is missing, and what would bring it.
        missing: Box<MissingBase>,
    },
    /// The room names a commit that none of its bundles holds.
    #[error("no bundle of room '{room}' holds commit {oid}: ask for git parler push --full")]
    NotInRoom {
        /// The room.
        room: RoomName,
        /// The commit.
        oid: Oid,
    },
    /// No such bundle.
    #[error("no bundle {id} in room '{room}'")]
    UnknownBundle {
        /// The bundle asked for.
        id: BundleId,
        /// The room.
        room: RoomName,
    },
    /// The two repositories name objects differently.
    #[error("room '{room}' holds {theirs} objects and this repository {ours} objects")]
    ObjectFormat {
        /// The room.
        room: RoomName,
        /// Its hash.
        theirs: ObjectFormat,
        /// The repository's.
        ours: ObjectFormat,
    },
    /// The hub sent another bundle than the one asked for, or none.
    #[error("the hub did not send bundle {id} of room '{room}' as its author signed it")]
    NotSent {
        /// The bundle asked for.
        id: BundleId,
        /// The room.
        room: RoomName,
    },
    /// A bundle was refused.
    #[error("bundle {id} of room '{room}': {source}")]
    Bundle {
        /// The bundle.
        id: String,
        /// The room.
        room: RoomName,
        /// Why.
        source: Box<ImportError>,
    },
    /// The import as a whole failed.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The hub did not answer, or said no.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Fetches from one room into one repository.
pub struct Fetcher<'a> {
    repository: &'a Repository,
    client: &'a Client,
    state: &'a RoomState,
    policy: &'a FetchPolicy,
}

impl<'a> Fetcher<'a> {
    /// A fetcher. Nothing happens yet.
    pub fn new(repository: &'a Repository, client: &'a Client, state: &'a RoomState, policy: &'a FetchPolicy) -> Self {
        Self {
            repository,
            client,
            state,
            policy,
        }
    }

    /// Brings these objects here, with everything they reach. Those that are here already are left alone. One request
    /// for up to 64 bundles.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn fetch(&self, wants: &[Want], timing: PinTiming) -> Result<Fetched, FetchError> {
        self.check_object_format()?;
        let mut fetched = Fetched::default();
        let missing = self.missing(wants)?;
        let (mut bundles, mut bare, mut scattered) = (Vec::new(), Vec::new(), Vec::new());
        for want in missing {
            let hint = || {
                self.state
                    .refs()
                    .get(want.name.as_ref()?)
                    .filter(|found| found.oid == want.oid)?
                    .base_hint
                    .clone()
            };
            match self.bundle_for(&want.oid)? {
                Some(id) => bundles.push(id),
                None => match self.state.bundles_at(&want.oid).next_back() {
                    Some(named) => bundles.push(*named.id()),
                    None => match hint() {
                        Some(hint) => bare.push(External {
                            oid: want.oid,
                            bundle: None,
                            hint: Some(hint),
                        }),
                        None => scattered.push(want),
                    },
                },
            }
        }
        self.bring_external(&bare)?;
        self.bring(&bundles, timing, &mut fetched)?;
        for want in scattered {
            self.search(want, timing, &mut fetched)?;
        }
        Ok(fetched)
    }

    /// Imports and pins these bundles, whether their tips are here or not.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn apply(&self, ids: &[BundleId]) -> Result<Fetched, FetchError> {
        self.check_object_format()?;
        if let Some(id) = ids.iter().find(|id| self.state.bundle(id).is_none()) {
            return Err(FetchError::UnknownBundle {
                id: *id,
                room: self.room(),
            });
        }
        let mut fetched = Fetched::default();
        self.bring(ids, PinTiming::Now, &mut fetched)?;
        Ok(fetched)
    }

    fn room(&self) -> RoomName {
        self.state.room().clone()
    }

    fn check_object_format(&self) -> Result<(), FetchError> {
        let ours = self.repository.object_format();
        match self.state.object_format() {
            Some(theirs) if theirs != ours => Err(FetchError::ObjectFormat {
                room: self.room(),
                theirs,
                ours,
            }),
            _ => Ok(()),
        }
    }

    fn missing<'w>(&self, wants: &'w [Want]) -> Result<Vec<&'w Want>, FetchError> {
        let mut distinct: Vec<&Want> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        distinct.extend(wants.iter().filter(|want| seen.insert(want.oid)));
        let oids: Vec<Oid> = distinct.iter().map(|want| want.oid).collect();
        let here = self.repository.contains(&oids)?;
        Ok(distinct
            .into_iter()
            .zip(here)
            .filter(|(_, here)| !*here)
            .map(|(want, _)| want)
            .collect())
    }

    fn plan(&self, ids: &[BundleId], trusts_needs: bool) -> Result<FetchPlan, FetchError> {
        let present = |oids: &[Oid]| self.repository.contains(oids);
        Ok(FetchPlanner {
            state: self.state,
            present: &present,
            trusts_needs,
        }
        .plan(ids)?)
    }

    fn bundle_for(&self, tip: &Oid) -> Result<Option<BundleId>, FetchError> {
        let present = |oids: &[Oid]| self.repository.contains(oids);
        Ok(FetchPlanner {
            state: self.state,
            present: &present,
            trusts_needs: true,
        }
        .bundle_for(tip)?)
    }

    /// Imports bundles with all they build on.
    fn bring(&self, ids: &[BundleId], timing: PinTiming, fetched: &mut Fetched) -> Result<(), FetchError> {
        if ids.is_empty() {
            return Ok(());
        }
        let plan = self.plan(ids, true)?;
        match self.carry_out(&plan, timing, fetched) {
            // The room named bundles that do not hold what others expect. Without its word the base is external.
            Err(FetchError::Bundle { source, .. })
                if !plan.hoped_for.is_empty() && matches!(*source, ImportError::MissingPrerequisites { .. }) =>
            {
                let plan = self.plan(ids, false)?;
                self.carry_out(&plan, timing, fetched)
            }
            result => result,
        }
    }

    fn carry_out(&self, plan: &FetchPlan, timing: PinTiming, fetched: &mut Fetched) -> Result<(), FetchError> {
        self.bring_external(&plan.external)?;
        let imported = self.import(&plan.bundles, timing)?;
        fetched.add(&plan.bundles, imported, timing);
        Ok(())
    }

    fn bring_external(&self, external: &[External]) -> Result<(), FetchError> {
        let Some(missing) = fetch_external(self.repository, external, self.policy.fetch_base)? else {
            return Ok(());
        };
        let of_missing = external.iter().find(|external| missing.oids.contains(&external.oid));
        let bundle = of_missing.and_then(|external| external.bundle);
        let what = bundle.map_or_else(|| "a ref".to_owned(), |id| format!("bundle {}", id.short()));
        Err(FetchError::BaseMissing {
            what,
            room: self.room(),
            missing: Box::new(missing),
        })
    }

    fn import(&self, ids: &[BundleId], timing: PinTiming) -> Result<Imported, FetchError> {
        let mut import = Import::begin(self.repository, self.policy.limits)?;
        for chunk in ids.chunks(MAX_BUNDLES_PER_REQUEST) {
            let mut stream = self.client.bundles(self.state.room(), chunk)?;
            for id in chunk {
                let not_sent = || FetchError::NotSent {
                    id: *id,
                    room: self.room(),
                };
                let bundle = self.state.bundle(id).ok_or_else(not_sent)?;
                let mut reader = stream
                    .next()?
                    .filter(|reader| reader.id == *id && reader.size == bundle.part.size)
                    .ok_or_else(not_sent)?;
                let incoming = Incoming {
                    id: *id,
                    size: bundle.part.size,
                    expected: expected(bundle),
                    short_pin: self.state.short(id).is_some(),
                    reader: &mut reader,
                };
                import.add(incoming).map_err(|source| self.refused(id, source))?;
            }
        }
        Ok(import.finish(timing)?)
    }

    fn refused(&self, id: &BundleId, source: ImportError) -> FetchError {
        FetchError::Bundle {
            id: id.short(),
            room: self.room(),
            source: Box::new(source),
        }
    }

    /// Looks for an object that is no bundle's tip: a branch made in the middle of a bundle. Whoever made it had it from
    /// a bundle older than the message, so the nearest older one is the likeliest.
    fn search(&self, want: &Want, timing: PinTiming, fetched: &mut Fetched) -> Result<(), FetchError> {
        let is_here = || Ok::<bool, FetchError>(self.repository.contains(&[want.oid])?[0]);
        if is_here()? {
            return Ok(());
        }
        let moved_at = want
            .name
            .as_ref()
            .and_then(|name| self.state.refs().get(name))
            .map(|found| found.seq);
        let is_older = |bundle: &&RoomBundle| moved_at.is_none_or(|seq| bundle.seq <= seq);
        let mut last_error = None;
        for bundle in self.state.bundles().iter().rev().filter(is_older) {
            let tips: Vec<Oid> = bundle.tips().collect();
            if !tips.is_empty() && self.repository.contains(&tips)?.iter().all(|here| *here) {
                continue;
            }
            match self.bring(&[*bundle.id()], timing, fetched) {
                Ok(()) if is_here()? => return Ok(()),
                Ok(()) => {}
                // Another bundle may do without the base that this one misses.
                Err(error @ (FetchError::BaseMissing { .. } | FetchError::Bundle { .. })) => last_error = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last_error.unwrap_or(FetchError::NotInRoom {
            room: self.room(),
            oid: want.oid,
        }))
    }
}

fn expected(bundle: &RoomBundle) -> Option<ExpectedHeader> {
    // Other clients sign the id alone.
    (!bundle.refs().is_empty()).then(|| ExpectedHeader {
        refs: header_refs(bundle.refs()),
        prerequisites: bundle.part.prerequisites.clone(),
        object_format: bundle.part.object_format,
    })
}
