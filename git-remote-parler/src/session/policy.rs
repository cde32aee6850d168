//! What a repository's configuration says about pushes and fetches.

use crate::base::BasePolicy;
use crate::fetch::FetchPolicy;
use crate::import::ImportLimits;
use crate::push::{DeepenPolicy, PushPolicy};
use crate::repository::{Repository, RepositoryError};

/// The most answers that are read side by side: more of them burden the hub and gain nothing.
const MOST_DOWNLOADS: usize = 16;

/// How pushes and fetches are to be done.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Pushes.
    pub push: PushPolicy,
    /// Fetches.
    pub fetch: FetchPolicy,
}

impl Policy {
    /// Reads `parler.base`, `parler.createRoom`, `parler.deepen`, `parler.downloads`, `parler.fetchBase` and
    /// `parler.maxObjectSize`. `is_local`: the hub is this user's own, where rooms are made unless the configuration
    /// forbids it.
    ///
    /// # Errors
    /// When a value is not of its kind.
    pub fn of(repository: &Repository, is_local: bool) -> Result<Self, RepositoryError> {
        let base = repository.config_string("parler.base")?.unwrap_or_default();
        let base: BasePolicy = base.parse().unwrap_or_default();
        let create_room = repository.config_bool("parler.createRoom")?.unwrap_or(is_local);
        let deepen = repository.config_string("parler.deepen")?.unwrap_or_default();
        let deepen: DeepenPolicy = deepen.parse().unwrap_or_default();
        let fetch_base = repository.config_bool("parler.fetchBase")?.unwrap_or(true);
        let downloads = repository.config_count("parler.downloads", MOST_DOWNLOADS)?;
        Ok(Self {
            push: PushPolicy {
                create_room,
                base,
                deepen,
            },
            fetch: FetchPolicy {
                fetch_base,
                downloads,
                limits: ImportLimits::of(repository)?,
            },
        })
    }
}
