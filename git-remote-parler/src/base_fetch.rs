//! Commits that a bundle builds on and no bundle of the room brings: fetched from a configured remote that is the one
//! the bundle's author had them from. Never from an address that came over the wire; writes objects alone, no ref,
//! `FETCH_HEAD` or tag.

use std::collections::BTreeSet;

use gix::bstr::ByteSlice;
use parler_protocol::{BaseHint, Oid, RefName};

use crate::base::ordinary_remotes;
use crate::fetch_plan::External;
use crate::git::{BULK_PATIENCE, GitError, Side, one_line};
use crate::repository::{Repository, RepositoryError};

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

impl std::fmt::Display for MissingBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(first) = self.oids.first() else {
            return f.write_str("nothing");
        };
        write!(f, "commit {first}")?;
        if self.oids.len() > 1 {
            write!(f, " and {} more", self.oids.len() - 1)?;
        }
        if let Some(name) = &self.on {
            write!(f, " ({name} of its author's remote)")?;
        }
        if let Some(why) = &self.tried {
            write!(f, "; fetching it failed: {why}")?;
        }
        match &self.command {
            Some(command) => write!(f, ": {command}"),
            None => f.write_str(": ask its author for: git parler push --full"),
        }
    }
}

/// Fetches what is external to the room, as far as configured remotes have it. Gives what is missing still.
pub(crate) fn fetch_external(
    repository: &Repository,
    external: &[External],
    may_fetch: bool,
) -> Result<Option<MissingBase>, RepositoryError> {
    let mut hints: Vec<Option<&BaseHint>> = Vec::new();
    for hint in external.iter().map(|external| external.hint.as_ref()) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    for hint in hints {
        let oids: Vec<Oid> = external
            .iter()
            .filter(|external| external.hint.as_ref() == hint)
            .map(|external| external.oid)
            .collect();
        let missing = fetch_from_one(repository, oids, hint, may_fetch)?;
        if missing.is_some() {
            return Ok(missing);
        }
    }
    Ok(None)
}

fn fetch_from_one(
    repository: &Repository,
    oids: Vec<Oid>,
    hint: Option<&BaseHint>,
    may_fetch: bool,
) -> Result<Option<MissingBase>, RepositoryError> {
    let mut oids = still_missing(repository, oids)?;
    if oids.is_empty() {
        return Ok(None);
    }
    let remote = match hint.and_then(|hint| hint.url.as_deref()) {
        Some(url) => remote_at(repository, url)?,
        None => None,
    };
    let mut tried = None;
    if let (Some(remote), Some(hint), true) = (&remote, hint, may_fetch) {
        for attempt in attempts(repository, hint, &oids) {
            tried = fetch(repository, remote, &attempt).err().map(|error| error.to_string());
            oids = still_missing(repository, oids)?;
            if oids.is_empty() {
                return Ok(None);
            }
        }
    }
    let command = hint.and_then(|hint| command_for(remote.as_deref(), hint));
    Ok(Some(MissingBase {
        oids,
        on: hint.map(|hint| hint.name.clone()),
        command,
        tried,
    }))
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

fn fetch(repository: &Repository, remote: &str, refspecs: &[String]) -> Result<(), GitError> {
    let mut fetch = repository.command(Side::Push, "fetch").args([
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
        // Without it git would move the remote's tracking refs on the way.
        "--refmap=",
    ]);
    if repository.is_shallow() {
        fetch = fetch.arg("--depth=1");
    }
    fetch
        .args(["--end-of-options", remote])
        .args(refspecs)
        .patience(BULK_PATIENCE)
        .run()
        .map(|_| ())
}

/// The configured remote at this address, if there is one.
fn remote_at(repository: &Repository, url: &str) -> Result<Option<String>, RepositoryError> {
    let remotes = ordinary_remotes(repository)?;
    let found = remotes
        .into_iter()
        .find(|remote| remote.urls.iter().any(|own| is_same_place(own, url)));
    // A remote called like an option cannot be asked.
    Ok(found.map(|remote| remote.name).filter(|name| !name.starts_with('-')))
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
fn is_plain(text: &str) -> bool {
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
