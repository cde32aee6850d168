//! Brings the history that a shallow repository lacks, where a bundle cannot be made without and the configuration lets
//! us (`parler.deepen=auto`). Writes objects and git's own record of where history ends; no ref.

use std::convert::Infallible;
use std::str::FromStr;
use std::time::Duration;

use parler_protocol::Oid;

use crate::base::{names_at, ordinary_remotes};
use crate::fetch::Notice;
use crate::git::one_line;
use crate::object_fetch::{Depth, abandoned_lock, end_orphans, fetch_objects, is_locked};
use crate::repository::{Repository, RepositoryError};

/// How long a remote may take to send the rest of a history.
const DEEPEN_PATIENCE: Duration = Duration::from_secs(1800);

/// How long another command is waited for that deepens the same repository at the same time.
const OTHER_PATIENCE: Duration = Duration::from_secs(60);
/// And one that cannot be seen: there may be none.
const UNSEEN_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at its lock.
const PAUSE: Duration = Duration::from_millis(50);

/// What happens to a push whose history is cut off: `parler.deepen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeepenPolicy {
    /// It is refused, with the command that deepens. Everything but `auto`.
    #[default]
    Refuse,
    /// `auto`: the rest is fetched from the remotes that are no rooms.
    Auto,
}

impl FromStr for DeepenPolicy {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let is_auto = text.trim().eq_ignore_ascii_case("auto");
        Ok(if is_auto { Self::Auto } else { Self::Refuse })
    }
}

/// Fetches what lies behind the commits where history ends. Gives why it failed, as far as a remote said so; whether the
/// history is whole now is for the next plan to see.
pub(super) fn bring_history(
    repository: &Repository,
    cut: &[Oid],
    notice: Option<Notice<'_>>,
) -> Result<Option<String>, RepositoryError> {
    let mut failure = None;
    let mut patience = OTHER_PATIENCE;
    for remote in ordinary_remotes(repository)? {
        // A remote called like an option cannot be asked.
        if remote.name.starts_with('-') {
            continue;
        }
        let exact: Vec<String> = cut.iter().map(Oid::to_string).collect();
        // A server that gives nothing but what its refs name is asked for those.
        for refspecs in [exact, names_at(&remote, repository)?] {
            if refspecs.is_empty() {
                continue;
            }
            if let Some(notice) = notice {
                let line = format!("fetching the rest of the history from {} (parler.deepen)", remote.name);
                notice(&one_line(line.as_bytes()));
            }
            match fetch_objects(repository, &remote.name, &refspecs, Depth::Whole, DEEPEN_PATIENCE) {
                Ok(()) if !repository.is_cut(cut) => return Ok(None),
                Ok(()) => {}
                Err(error) => failure = Some(error.to_string()),
            }
            // What another command brings at this moment serves as well.
            let obstacle = wait_for_other(repository, &mut patience);
            if !repository.is_cut(cut) {
                return Ok(None);
            }
            if obstacle.is_some() {
                return Ok(obstacle);
            }
        }
    }
    Ok(failure)
}

/// Waits while git's lock of the record of where history ends is held. Gives what is wrong with a lock that nobody is seen
/// to hold.
fn wait_for_other(repository: &Repository, patience: &mut Duration) -> Option<String> {
    end_orphans(repository);
    let mut unseen = UNSEEN_PATIENCE;
    while is_locked(repository) && !patience.is_zero() {
        let abandoned = abandoned_lock(repository);
        if abandoned.is_some() {
            unseen = unseen.saturating_sub(PAUSE);
        }
        if unseen.is_zero() {
            return abandoned;
        }
        std::thread::sleep(PAUSE);
        *patience = patience.saturating_sub(PAUSE);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_auto_deepens() {
        for (text, policy) in [
            ("auto", DeepenPolicy::Auto),
            (" AUTO ", DeepenPolicy::Auto),
            ("", DeepenPolicy::Refuse),
            ("never", DeepenPolicy::Refuse),
            ("true", DeepenPolicy::Refuse),
        ] {
            assert_eq!(text.parse(), Ok(policy), "{text}");
        }
    }
}
