//! Why a bundle is not imported, in words for whoever asked for it. Knows no remedy: those who ask name the next command.

use std::fmt::Display;
use std::io;

use parler_protocol::{BundleId, ObjectFormat, Oid};

use crate::bundle::BundleError;
use crate::git::GitError;
use crate::pack::entries::PackFlaw;
use crate::pins::PinError;
use crate::repository::RepositoryError;

/// Why a bundle was not imported. Nothing in the repository has changed then.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The bytes are not a bundle that we take.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The header says something else than the sender signed.
    #[error("the bundle's {what} are not what its sender signed")]
    NotAsSigned {
        /// Which part.
        what: &'static str,
    },
    /// Its objects are named by another hash than the repository's.
    #[error("the bundle is for {bundle} repositories, this one uses {repository}")]
    ObjectFormat {
        /// The bundle's.
        bundle: ObjectFormat,
        /// The repository's.
        repository: ObjectFormat,
    },
    /// It is larger than we take.
    #[error("the bundle has {size} bytes, more than the {most} allowed")]
    TooLarge {
        /// Its size, in bytes.
        size: u64,
        /// The cap.
        most: u64,
    },
    /// Fewer bytes came than were announced.
    #[error("the bundle ends after {read} of {size} bytes")]
    Truncated {
        /// Bytes that came.
        read: u64,
        /// Bytes that were announced.
        size: u64,
    },
    /// The bytes are not the bundle that was asked for.
    #[error("the bundle's bytes hash to {actual}, not to {expected}")]
    WrongId {
        /// Asked for.
        expected: BundleId,
        /// Received.
        actual: BundleId,
    },
    /// The bundle builds on commits that are neither here nor in the bundles before it.
    #[error("the bundle builds on commits that are not here: {}", list(oids))]
    MissingPrerequisites {
        /// Which, in the order of its header.
        oids: Vec<Oid>,
    },
    /// The pack is not what it says, or far more would come of it than its size lets expect. git has not seen it.
    #[error("the bundle's pack is not taken: {flaw}")]
    Pack {
        /// What is wrong.
        flaw: String,
    },
    /// git found the pack broken or dangerous.
    #[error("git refused the bundle's objects: {message}")]
    Refused {
        /// Git's words, one escaped line.
        message: String,
    },
    /// A tip is not a commit, or something that it reaches is not there.
    #[error("the bundle does not hold what it announces: {message}")]
    Incomplete {
        /// Git's words, one escaped line.
        message: String,
    },
    /// It builds on objects that this partial clone has left at its remote, and the remote did not send them.
    #[error(
        "the bundle builds on objects that this partial clone has left at {remote}, and they cannot be fetched: {source}"
    )]
    Promised {
        /// The remote.
        remote: String,
        /// What went wrong.
        source: GitError,
    },
    /// Bundles that were taken in together failed, and it is not known which of them is to blame: not necessarily the one
    /// whose arrival made git look at them.
    #[error("one of {} bundles ({}): {source}", ids.len(), list(&ids.iter().map(BundleId::short).collect::<Vec<_>>()))]
    Among {
        /// Which bundles.
        ids: Vec<BundleId>,
        /// What is wrong.
        source: Box<ImportError>,
    },
    /// An earlier bundle of the same import failed.
    #[error("an earlier bundle of this import failed")]
    FailedBefore,
    /// Called from a hook that runs before git has accepted what it received.
    #[error("nothing can be imported from within a hook that runs before git has accepted a push")]
    InsideQuarantine,
    /// The bundle's bytes could not be read.
    #[error("cannot read the bundle: {0}")]
    Read(#[source] io::Error),
    /// The object directory could not be written.
    #[error("cannot write the repository's objects: {0}")]
    Storage(#[source] io::Error),
    /// The pins were not written.
    #[error(transparent)]
    Pins(#[from] PinError),
    /// The repository could not be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A child could not be run, or passed a limit.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl ImportError {
    pub(super) fn storage(source: io::Error) -> Self {
        Self::Storage(source)
    }

    pub(super) fn pack(flaw: PackFlaw) -> Self {
        Self::Pack { flaw: flaw.to_string() }
    }
}

fn list(names: &[impl Display]) -> String {
    const SHOWN: usize = 3;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}
