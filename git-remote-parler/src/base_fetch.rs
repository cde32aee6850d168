//! Commits that a bundle builds on and no bundle of the room brings: fetched from a configured remote that is the one
//! the bundle's author had them from. Never from an address that came over the wire; writes objects alone, no ref,
//! `FETCH_HEAD` or tag.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use gix::bstr::ByteSlice;
use parler_protocol::{BaseHint, Oid, RefName};

use crate::base::{is_local, ordinary_remotes, without_credentials};
use crate::fetch::Notice;
use crate::fetch_plan::External;
use crate::git::one_line;
use crate::object_fetch::{Depth, abandoned_lock, fetch_objects};
use crate::repository::{RemoteConfig, Repository, RepositoryError};

/// How long the other remotes may take, all together, for what one fetch from a room misses.
const BASE_FETCH_PATIENCE: Duration = Duration::from_secs(600);

/// Commits that are not here, and what would bring them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingBase {
    /// The commits.
    pub oids: Vec<Oid>,
    /// The branch they are on elsewhere, as their author said.
    pub on: Option<RefName>,
    /// The command that brings them, when there is one.
    pub command: Option<String>,
    /// Why the configured remote did not bring them, when it was asked.
    pub tried: Option<String>,
}

impl MissingBase {
    /// What is missing, and why it could not be had.
    pub fn what(&self) -> String {
        let Some(first) = self.oids.first() else {
            return "nothing".to_owned();
        };
        let mut text = format!("commit {first}");
        if self.oids.len() > 1 {
            text.push_str(&format!(" and {} more", self.oids.len() - 1));
        }
        if let Some(name) = &self.on {
            text.push_str(&format!(" ({name} of its author's remote)"));
        }
        if let Some(why) = &self.tried {
            text.push_str(&format!("; fetching it failed: {why}"));
        }
        text
    }

    /// The command that helps, and whose it is when that is somebody else's.
    pub fn help(&self) -> String {
        let by_author = || "git parler push --full, by its author".to_owned();
        self.command.clone().unwrap_or_else(by_author)
    }
}

impl std::fmt::Display for MissingBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what(), self.help())
    }
}

/// What one fetch from a room asks of other remotes. No remote is asked twice for the same.
pub(crate) struct BaseFetch<'a> {
    repository: &'a Repository,
    may_fetch: bool,
    notice: Option<Notice<'a>>,
    patience: Duration,
    /// By remote, what was asked for, and why it failed.
    asked: HashSet<(String, Vec<String>)>,
    failure: Option<String>,
}

impl<'a> BaseFetch<'a> {
    /// Nothing is asked yet.
    pub(crate) fn new(repository: &'a Repository, may_fetch: bool, notice: Option<Notice<'a>>) -> Self {
        Self {
            repository,
            may_fetch,
            notice,
            patience: BASE_FETCH_PATIENCE,
            asked: HashSet::new(),
            failure: None,
        }
    }

    /// Fetches what is external to the room, as far as configured remotes have it. Gives what is missing still.
    pub(crate) fn bring(&mut self, external: &[External]) -> Result<Option<MissingBase>, RepositoryError> {
        for (hint, of_hint) in by_hint(external) {
            let missing = self.bring_by_hint(&of_hint, hint)?;
            if missing.is_some() {
                return Ok(missing);
            }
        }
        Ok(None)
    }

    /// Asks again for commits that are here and may lack what belongs to them: git, which looks, takes what is missing.
    /// Gives whether a remote sent something or had nothing to send.
    pub(crate) fn bring_whole(&mut self, here: &[External]) -> Result<bool, RepositoryError> {
        let mut has_answered = false;
        for (hint, of_hint) in by_hint(here) {
            let (Some(hint), Some(first), true) = (hint, of_hint.first(), self.may_fetch) else {
                continue;
            };
            let oids: Vec<Oid> = of_hint.iter().map(|external| external.oid).collect();
            for remote in remotes_for(self.repository, hint)? {
                for refspecs in attempts(self.repository, hint, &oids) {
                    has_answered |= self.ask(&remote, refspecs, first);
                }
            }
        }
        Ok(has_answered)
    }

    /// What is to be said of a commit that no remote is asked for.
    pub(crate) fn without_asking(&self, external: &External) -> Result<MissingBase, RepositoryError> {
        let hint = external.hint.as_ref();
        let remotes = hint.map_or(Ok(Vec::new()), |hint| remotes_for(self.repository, hint))?;
        Ok(MissingBase {
            oids: vec![external.oid],
            on: hint.map(|hint| hint.name.clone()),
            command: hint.and_then(|hint| command_for(remotes.first().map(|remote| remote.name.as_str()), hint)),
            tried: self.failure.clone(),
        })
    }

    fn bring_by_hint(
        &mut self,
        external: &[&External],
        hint: Option<&BaseHint>,
    ) -> Result<Option<MissingBase>, RepositoryError> {
        let Some(first) = external.first() else { return Ok(None) };
        let mut oids = still_missing(self.repository, external.iter().map(|external| external.oid).collect())?;
        if oids.is_empty() {
            return Ok(None);
        }
        if let (Some(hint), true) = (hint, self.may_fetch) {
            for remote in remotes_for(self.repository, hint)? {
                for refspecs in attempts(self.repository, hint, &oids) {
                    self.ask(&remote, refspecs, first);
                    oids = still_missing(self.repository, oids)?;
                    if oids.is_empty() {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(MissingBase {
            oids,
            ..self.without_asking(first)?
        }))
    }

    /// Gives whether the remote answered as asked. Nothing is asked twice.
    fn ask(&mut self, remote: &RemoteConfig, refspecs: Vec<String>, first: &External) -> bool {
        if self.patience.is_zero() || !self.asked.insert((remote.name.clone(), refspecs.clone())) {
            return false;
        }
        if let Some(notice) = self.notice {
            let place = remote
                .urls
                .first()
                .map(|url| without_credentials(url))
                .unwrap_or_default();
            let what = match refspecs.as_slice() {
                [only] => only.clone(),
                many => format!("{} commits", many.len()),
            };
            let why = first
                .bundle
                .map(|id| format!(", which bundle {} builds on", id.short()));
            let line = format!(
                "fetching {what} from {} ({place}){}",
                remote.name,
                why.unwrap_or_default()
            );
            notice(&one_line(line.as_bytes()));
        }
        let began = Instant::now();
        let result = fetch_objects(self.repository, &remote.name, &refspecs, Depth::AsHere, self.patience);
        self.patience = self.patience.saturating_sub(began.elapsed());
        match result {
            Ok(()) => true,
            Err(error) => {
                self.failure = abandoned_lock(self.repository).or_else(|| Some(error.to_string()));
                false
            }
        }
    }
}

/// What is asked for in one go: commits that are said to be in the same place.
fn by_hint(external: &[External]) -> Vec<(Option<&BaseHint>, Vec<&External>)> {
    let mut groups: Vec<(Option<&BaseHint>, Vec<&External>)> = Vec::new();
    for external in external {
        let hint = external.hint.as_ref();
        match groups.iter_mut().find(|(known, _)| *known == hint) {
            Some((_, group)) => group.push(external),
            None => groups.push((hint, vec![external])),
        }
    }
    groups
}

fn still_missing(repository: &Repository, oids: Vec<Oid>) -> Result<Vec<Oid>, RepositoryError> {
    let here = repository.contains(&oids)?;
    Ok(oids
        .into_iter()
        .zip(here)
        .filter(|(_, here)| !*here)
        .map(|(oid, _)| oid)
        .collect())
}

/// What to ask a remote for, one after the other until the commits are here. A shallow repository asks for exactly these
/// commits, so that it does not grow; any other first for the branch, then, where that has moved on without them, for
/// the commits.
fn attempts(repository: &Repository, hint: &BaseHint, oids: &[Oid]) -> Vec<Vec<String>> {
    let exact: BTreeSet<String> = oids.iter().map(Oid::to_string).collect();
    let exact: Vec<String> = exact.into_iter().collect();
    if repository.is_shallow() {
        vec![exact]
    } else {
        vec![vec![hint.name.to_string()], exact]
    }
}

/// The configured remotes that a hint means: the one at its address. A hint without one is of a place on its author's
/// machine, and means those of this repository's remotes that are on this one.
fn remotes_for(repository: &Repository, hint: &BaseHint) -> Result<Vec<RemoteConfig>, RepositoryError> {
    let mut remotes = ordinary_remotes(repository)?;
    // A remote called like an option cannot be asked.
    remotes.retain(|remote| !remote.name.starts_with('-'));
    match hint.url.as_deref() {
        Some(url) => {
            remotes.retain(|remote| remote.urls.iter().any(|own| is_same_place(own, url)));
            remotes.truncate(1);
        }
        None => remotes.retain(|remote| remote.urls.first().is_some_and(|url| is_local(url))),
    }
    Ok(remotes)
}

/// Whether two URLs are of one repository, however they spell it: `git@host:a/b.git` and `https://host/a/b` are.
fn is_same_place(left: &str, right: &str) -> bool {
    let place = |url: &str| {
        let parsed = gix::url::parse(url.as_bytes().as_bstr()).ok()?;
        let path = parsed.path.to_string();
        let path = path
            .trim_end_matches('/')
            .trim_end_matches(".git")
            .trim_end_matches('/');
        Some(match parsed.host() {
            Some(host) => (host.to_ascii_lowercase(), path.trim_start_matches('/').to_owned()),
            None => (String::new(), path.to_owned()),
        })
    };
    place(left).is_some() && place(left) == place(right)
}

/// A command that a person can run. Made of a configured remote, or of an address that could do nothing but be fetched
/// from.
fn command_for(remote: Option<&str>, hint: &BaseHint) -> Option<String> {
    let from = match remote {
        Some(remote) => one_line(remote.as_bytes()),
        None => hint.url.clone().filter(|url| is_plain(url))?,
    };
    is_plain(hint.name.as_str()).then(|| format!("git fetch {from} {}", hint.name))
}

/// Without anything that a shell or git would take for more than a place: no blank, quote, `$`, or `helper::`.
pub(crate) fn is_plain(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~:/@+-".contains(&byte);
    !text.is_empty() && text.bytes().all(plain) && !text.starts_with('-') && !text.contains("::")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_has_many_spellings() {
        for (left, right) in [
            ("https://host/a/b.git", "https://HOST/a/b/"),
            ("git@host:a/b.git", "https://host/a/b"),
            ("ssh://git@host:22/a/b", "git@host:a/b"),
            ("/srv/x.git", "/srv/x"),
            ("file:///srv/x", "/srv/x"),
        ] {
            assert!(is_same_place(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("https://host/a", "https://other/a"),
            ("/srv/x", "https://srv/x"),
            ("", ""),
        ] {
            assert!(!is_same_place(left, right), "{left} {right}");
        }
    }

    #[test]
    fn no_command_does_more_than_fetch() {
        let hint = |url: &str| BaseHint {
            name: "refs/heads/main".parse().unwrap(),
            url: Some(url.to_owned()),
        };
        let command = |remote, url| command_for(remote, &hint(url));
        assert_eq!(
            command(Some("origin"), "x").as_deref(),
            Some("git fetch origin refs/heads/main")
        );
        assert_eq!(
            command(None, "https://host/a.git").as_deref(),
            Some("git fetch https://host/a.git refs/heads/main")
        );
        for hostile in ["ext::sh", "$(x)", "a b", "-x", "https://h/`x`", "https://h/;x", ""] {
            assert_eq!(command(None, hostile), None, "{hostile}");
        }
        let odd = BaseHint {
            name: "refs/heads/$x".parse().unwrap(),
            url: None,
        };
        assert_eq!(command_for(Some("origin"), &odd), None);
    }
}
