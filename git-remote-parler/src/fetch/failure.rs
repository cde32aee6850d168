//! What a failed import says: of its bundle, or of this machine. Decides nothing about the next plan.

use super::FetchError;
use crate::git::GitError;
use crate::import::ImportError;

/// A failure, and whether another plan may do without what it was for.
pub(super) struct Failed {
    pub(super) error: FetchError,
    pub(super) can_do_without: bool,
}

impl<E: Into<FetchError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self {
            error: error.into(),
            can_do_without: false,
        }
    }
}

/// The error to end with: the first, unless it leaves open which bundle it is about and the later one does not.
pub(super) fn more_telling(first: Option<FetchError>, later: FetchError) -> FetchError {
    match first {
        Some(first) if !matches!(first, FetchError::Import(_)) || matches!(later, FetchError::Import(_)) => first,
        _ => later,
    }
}

/// Whether an import failed for what the bundle is, rather than for this machine or the connection.
pub(super) fn is_about_the_bundle(error: &ImportError) -> bool {
    match error {
        ImportError::Among { source, .. } => is_about_the_bundle(source),
        ImportError::Bundle(_)
        | ImportError::NotAsSigned { .. }
        | ImportError::ObjectFormat { .. }
        | ImportError::TooLarge { .. }
        | ImportError::WrongId { .. }
        | ImportError::Pack { .. }
        | ImportError::Refused { .. }
        | ImportError::Incomplete { .. } => true,
        // A child that passed a limit: a pack can be made to do that.
        ImportError::Git(error) => matches!(
            error,
            GitError::Failed { .. } | GitError::TooSlow { .. } | GitError::TooMuchOutput { .. }
        ),
        _ => false,
    }
}

/// Whether the remote of a partial clone did not send what a bundle builds on.
pub(super) fn is_about_promises(error: &FetchError) -> bool {
    matches!(error, FetchError::Bundle { source, .. } if matches!(**source, ImportError::Promised { .. }))
}

/// Whether it may be that something is missing which the bundle had reason to expect.
pub(super) fn lacks_objects(error: &ImportError) -> bool {
    match error {
        ImportError::Among { source, .. } => lacks_objects(source),
        ImportError::Refused { .. } | ImportError::Incomplete { .. } => true,
        _ => false,
    }
}
