//! Takes bundles out of a room into a repository: finds those that bring what is wanted, and what they build on, imports
//! them in one quarantine and pins each. Merges nothing and writes no ref outside `refs/parler/`.

use std::collections::HashMap;
use std::num::NonZeroUsize;

use parler_client::{Client, ClientError};
use parler_protocol::{BundleId, ObjectFormat, Oid, RefName, RoomName};

pub use crate::base_fetch::MissingBase;
use crate::import::{ImportError, ImportLimits, Imported, PinTiming};
use crate::lock_claim;
use crate::packed_refs;
use crate::pins::{self, PIN_ROOT, Pin};
use crate::quarantine;
use crate::repository::{Repository, RepositoryError};
use crate::room_state::RoomState;

mod ahead;
mod downloads;
mod failure;
mod run;

use run::Run;

/// What the caller's configuration says about fetches.
#[derive(Debug, Clone, Copy)]
pub struct FetchPolicy {
    /// Whether a missing base is fetched from the configured remote it is from: `parler.fetchBase`.
    pub fetch_base: bool,
    /// How many answers with bundles are read side by side, at most: `parler.downloads`. Where nothing is said, one from
    /// a hub on this machine, whose line is as fast as the disk, and four from others.
    pub downloads: Option<NonZeroUsize>,
    /// What an import may cost.
    pub limits: ImportLimits,
}

impl Default for FetchPolicy {
    fn default() -> Self {
        Self {
            fetch_base: true,
            downloads: None,
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
        let mut written = 0;
        for imported in self.unpinned.drain(..) {
            written += pins::commit(repository, imported)?.len();
        }
        pins::pack_if_many(repository, written);
        Ok(())
    }

    /// Adds what another fetch did.
    pub fn append(&mut self, mut other: Self) {
        self.bundles.append(&mut other.bundles);
        self.unpinned.append(&mut other.unpinned);
    }

    fn add(&mut self, ids: &[BundleId], mut imported: Imported, timing: PinTiming) {
        let mut of_name: HashMap<&str, Vec<&Pin>> = HashMap::new();
        for pin in &imported.pins {
            let below = pin.name.strip_prefix(PIN_ROOT).unwrap_or(&pin.name);
            let name = below.split_once('/').map_or(below, |(name, _)| name);
            of_name.entry(name).or_default().push(pin);
        }
        for id in ids {
            let names = [id.short(), id.to_string()];
            let pins = names.iter().filter_map(|name| of_name.get(name.as_str())).flatten();
            let pins = pins.copied().cloned().collect();
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
    #[error("{what} of room '{room}' needs commit {oid}, which no bundle of it holds: {command}")]
    NotInRoom {
        /// What is there: a ref and who set it, as far as that is known.
        what: String,
        /// The room.
        room: RoomName,
        /// The commit.
        oid: Oid,
        /// The command that helps, and whose it is when that is somebody else's.
        command: String,
    },
    /// An object that was asked for by its id, and that no bundle holds.
    #[error("no bundle of room '{room}' holds object {oid}")]
    UnknownObject {
        /// The object.
        oid: Oid,
        /// The room.
        room: RoomName,
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
    #[error("bundle {} of room '{room}'{}: {source}", .id.short(), .named.as_ref().map(|named| format!(" ({named})")).unwrap_or_default())]
    Bundle {
        /// The bundle.
        id: BundleId,
        /// The room.
        room: RoomName,
        /// The ref that leads to it, and who set it, where there is one.
        named: Option<String>,
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

impl FetchError {
    /// What is wrong, without what helps. The text of the error is both.
    pub fn what(&self) -> String {
        match self {
            Self::BaseMissing { what, room, missing } => format!("{what} of room '{room}' needs {}", missing.what()),
            Self::NotInRoom { what, room, oid, .. } => {
                format!("{what} of room '{room}' needs commit {oid}, which no bundle of it holds")
            }
            other => other.to_string(),
        }
    }

    /// What helps against a missing base, or a ref that leads nowhere.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::BaseMissing { missing, .. } => Some(missing.help()),
            Self::NotInRoom { command, .. } => Some(command.clone()),
            _ => None,
        }
    }
}

/// Fetches from one room into one repository.
pub struct Fetcher<'a> {
    repository: &'a Repository,
    client: &'a Client,
    state: &'a RoomState,
    policy: &'a FetchPolicy,
    notice: Option<Notice<'a>>,
    follows_tags: bool,
}

/// Takes a line for people, said before something that may take long.
pub type Notice<'a> = &'a dyn Fn(&str);

impl<'a> Fetcher<'a> {
    /// A fetcher. Nothing happens yet.
    pub fn new(repository: &'a Repository, client: &'a Client, state: &'a RoomState, policy: &'a FetchPolicy) -> Self {
        Self {
            repository,
            client,
            state,
            policy,
            notice: None,
            follows_tags: false,
        }
    }

    /// Says what is fetched from another remote, and from which, before it is.
    pub fn telling(self, notice: Notice<'a>) -> Self {
        let notice = Some(notice);
        Self { notice, ..self }
    }

    /// Brings with what is asked for the annotated tags at commits that come, as git would want them next.
    pub fn following_tags(self, follows_tags: bool) -> Self {
        Self { follows_tags, ..self }
    }

    /// Brings these objects here, with everything they reach. Those that are here already are left alone. One request
    /// for up to 10,000 bundles.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn fetch(&self, wants: &[Want], timing: PinTiming) -> Result<Fetched, FetchError> {
        self.check_object_format()?;
        // What a killed fetch left is as large as what it had fetched, and must not wait until there is something new.
        quarantine::sweep(&self.repository.objects_dir());
        packed_refs::sweep(self.repository.common_dir());
        lock_claim::sweep(self.repository.common_dir());
        let mut run = Run::new(self, timing);
        run.bring_objects(wants)?;
        Ok(self.with_pins_packed(run.fetched, timing))
    }

    /// Imports and pins these bundles, whether their tips are here or not.
    ///
    /// # Errors
    /// [`FetchError`].
    pub fn apply(&self, ids: &[BundleId]) -> Result<Fetched, FetchError> {
        self.check_object_format()?;
        if let Some(id) = ids.iter().find(|id| self.state.bundle(id).is_none()) {
            let (id, room) = (*id, self.room());
            return Err(FetchError::UnknownBundle { id, room });
        }
        let mut run = Run::new(self, PinTiming::Now);
        run.bring_bundles(ids)?;
        Ok(self.with_pins_packed(run.fetched, PinTiming::Now))
    }

    fn with_pins_packed(&self, fetched: Fetched, timing: PinTiming) -> Fetched {
        if timing == PinTiming::Now {
            let written = fetched.bundles.iter().map(|bundle| bundle.pins.len()).sum();
            pins::pack_if_many(self.repository, written);
        }
        fetched
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
}
