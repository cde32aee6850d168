//! What a thin bundle may expect its receiver to have besides the room: commits of this repository's other remotes.

use std::collections::HashSet;
use std::convert::Infallible;
use std::str::FromStr;

use gix::bstr::ByteSlice;
use parler_protocol::{BaseHint, Oid, RepositoryId};

use crate::repository::{LocalRef, RemoteConfig, Repository, RepositoryError, mapped};

/// Which commits outside the room a bundle may be made against: `parler.base`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BasePolicy {
    /// `auto`: the default branch of each remote that is no room, and those of its tracking refs that do not contain
    /// what is pushed.
    #[default]
    Auto,
    /// `none`: the room alone.
    RoomOnly,
    /// These revisions, separated by blanks.
    Revisions(Vec<String>),
}

impl FromStr for BasePolicy {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.trim() {
            "" | "auto" => Self::Auto,
            "none" => Self::RoomOnly,
            revisions => Self::Revisions(revisions.split_whitespace().map(str::to_owned).collect()),
        })
    }
}

/// A commit that receivers may be expected to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseTip {
    pub(crate) oid: Oid,
    /// What this repository calls it, for people: `origin/main`, or the revision asked for.
    pub(crate) label: String,
    /// Where it can be had.
    pub(crate) hint: Option<BaseHint>,
}

/// The commits outside the room, from the most to the least expected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Bases {
    /// Taken whatever is pushed.
    pub(crate) certain: Vec<BaseTip>,
    /// Taken where they do not contain what is pushed: a branch that was pushed to origin, too, is no base of itself.
    pub(crate) unless_pushed: Vec<BaseTip>,
}

impl Bases {
    /// What a policy means in a repository.
    pub(crate) fn find(repository: &Repository, policy: &BasePolicy) -> Result<Self, RepositoryError> {
        match policy {
            BasePolicy::RoomOnly => Ok(Self::default()),
            BasePolicy::Auto => Ok(Self::of_tracking_refs(tracking_refs(repository)?)),
            BasePolicy::Revisions(revisions) => {
                let tracked = tracking_refs(repository)?;
                let mut certain = Vec::new();
                for revision in revisions {
                    let resolved = repository.resolve(revision)?;
                    let oid = resolved
                        .commit
                        .ok_or(RepositoryError::NotACommit { oid: resolved.oid })?;
                    let tracking = tracked.iter().find(|tracking| tracking.oid == oid);
                    certain.push(BaseTip {
                        oid,
                        label: revision.clone(),
                        hint: tracking.map(|tracking| tracking.hint.clone()),
                    });
                }
                Ok(Self {
                    certain,
                    unless_pushed: Vec::new(),
                })
            }
        }
    }

    fn of_tracking_refs(tracked: Vec<TrackingRef>) -> Self {
        let mut bases = Self::default();
        let mut seen = HashSet::new();
        for tracking in tracked.iter().filter(|tracking| tracking.is_default) {
            if seen.insert(tracking.oid) {
                bases.certain.push(tracking.base_tip());
            }
        }
        for tracking in &tracked {
            if seen.insert(tracking.oid) {
                bases.unless_pushed.push(tracking.base_tip());
            }
        }
        bases
    }
}

/// A branch of another remote as this repository last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TrackingRef {
    oid: Oid,
    remote: String,
    hint: BaseHint,
    is_default: bool,
}

impl TrackingRef {
    fn base_tip(&self) -> BaseTip {
        let branch = self.hint.name.branch().unwrap_or(self.hint.name.as_str());
        BaseTip {
            oid: self.oid,
            label: format!("{}/{branch}", self.remote),
            hint: Some(self.hint.clone()),
        }
    }
}

/// The remotes that are no rooms.
pub(crate) fn ordinary_remotes(repository: &Repository) -> Result<Vec<RemoteConfig>, RepositoryError> {
    let mut remotes = repository.remotes()?;
    let mut failed = None;
    remotes.retain(|remote| {
        let vcs = repository.config_string(&format!("remote.{}.vcs", remote.name));
        let room = |url: &String| url.starts_with("parler:");
        match vcs {
            Ok(vcs) => vcs.is_none() && !remote.urls.is_empty() && !remote.urls.iter().any(room),
            Err(error) => {
                failed = Some(error);
                false
            }
        }
    });
    failed.map_or(Ok(remotes), Err)
}

/// Which repository this is, by the address of one of its remotes that are no rooms: `upstream`, as clones of a fork call
/// what it was forked from, else `origin`, else the only one. None where others do not know that address.
pub fn repository_id(repository: &Repository) -> Result<Option<RepositoryId>, RepositoryError> {
    let remotes = ordinary_remotes(repository)?;
    let named = |name: &str| remotes.iter().find(|remote| remote.name == name);
    let only = || match remotes.as_slice() {
        [only] => Some(only),
        _ => None,
    };
    let remote = named("upstream").or_else(|| named("origin")).or_else(only);
    let address = remote.and_then(|remote| remote.urls.first());
    Ok(address.and_then(|address| RepositoryId::of_address(address)))
}

/// What a remote calls the refs that this repository has of it.
pub(crate) fn names_at(remote: &RemoteConfig, repository: &Repository) -> Result<Vec<String>, RepositoryError> {
    let tracked = tracking_refs(repository)?;
    let of_remote = tracked.iter().filter(|tracking| tracking.remote == remote.name);
    Ok(of_remote.map(|tracking| tracking.hint.name.to_string()).collect())
}

fn tracking_refs(repository: &Repository) -> Result<Vec<TrackingRef>, RepositoryError> {
    let remotes = ordinary_remotes(repository)?;
    if remotes.is_empty() {
        return Ok(Vec::new());
    }
    let refs = repository.refs("refs/")?;
    let mut tracked = Vec::new();
    for remote in &remotes {
        let url = remote.urls.first().and_then(|url| address_for_others(url));
        let head = format!("refs/remotes/{}/HEAD", remote.name);
        let head = refs.iter().find(|local| local.name == head).map(|local| local.oid);
        let mut of_remote = Vec::new();
        for local in &refs {
            let Some(branch) = remote
                .fetch
                .iter()
                .find_map(|refspec| remote_name(refspec, &local.name))
            else {
                continue;
            };
            // The symbolic `refs/remotes/origin/HEAD` fits the refspec and is no branch there.
            if branch == "refs/heads/HEAD" {
                continue;
            }
            if let Ok(name) = branch.parse() {
                let hint = BaseHint { name, url: url.clone() };
                of_remote.push(TrackingRef {
                    oid: local.oid,
                    remote: remote.name.clone(),
                    hint,
                    is_default: false,
                });
            }
        }
        mark_default(&mut of_remote, head);
        tracked.extend(of_remote);
    }
    if let [only] = remotes.as_slice() {
        let known: HashSet<Oid> = tracked.iter().map(|tracking| tracking.oid).collect();
        let cut: HashSet<Oid> = repository.shallow_oids().into_iter().collect();
        let is_of_remote = |local: &&LocalRef| cut.contains(&local.oid) && !known.contains(&local.oid);
        tracked.extend(
            refs.iter()
                .filter(is_of_remote)
                .filter_map(|local| fetched_by_name(only, local)),
        );
    }
    Ok(tracked)
}

/// A ref at a commit where a shallow history ends, so that it was fetched, outside of the remote's refspecs: CI jobs
/// check out what they fetch by name, as `refs/remotes/pull/7/merge` or `refs/pipelines/7`.
fn fetched_by_name(remote: &RemoteConfig, local: &LocalRef) -> Option<TrackingRef> {
    const OWN: [&str; 3] = ["refs/heads/", "refs/tags/", "refs/parler/"];
    if OWN.iter().any(|root| local.name.starts_with(root)) {
        return None;
    }
    let there = match local.name.strip_prefix("refs/remotes/") {
        Some(rest) => format!("refs/{rest}"),
        None => local.name.clone(),
    };
    let url = remote.urls.first().and_then(|url| address_for_others(url));
    Some(TrackingRef {
        oid: local.oid,
        remote: remote.name.clone(),
        hint: BaseHint {
            name: there.parse().ok()?,
            url,
        },
        is_default: true,
    })
}

/// Marks the branch that the remote's HEAD pointed at when it was cloned; else main, master, or the only one.
fn mark_default(tracked: &mut [TrackingRef], head: Option<Oid>) {
    let at_head = |tracking: &TrackingRef| head.is_none_or(|head| tracking.oid == head);
    let named = |branch: &str| {
        tracked
            .iter()
            .position(|tracking| at_head(tracking) && tracking.hint.name.branch() == Some(branch))
    };
    let only = || {
        (head.is_some() || tracked.len() == 1)
            .then(|| tracked.iter().position(at_head))
            .flatten()
    };
    if let Some(position) = named("main").or_else(|| named("master")).or_else(only) {
        tracked[position].is_default = true;
    }
}

/// What a local ref is called on the remote, by one `fetch` refspec.
fn remote_name(refspec: &str, local: &str) -> Option<String> {
    let (source, destination) = refspec.trim_start_matches('+').split_once(':')?;
    mapped(local, destination, source)
}

/// A remote's URL as receivers in a room may know it: none for a place on this machine, whose path is nobody's business,
/// and none for what only a helper program understands.
fn address_for_others(url: &str) -> Option<String> {
    let scheme = gix::url::parse(url.as_bytes().as_bstr()).ok()?.scheme;
    let is_understood = matches!(scheme.as_str(), "ssh" | "git" | "http" | "https");
    let is_helper = url.split_once("::").is_some_and(|(helper, _)| {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
        helper.bytes().all(of_name)
    });
    (is_understood && !is_helper).then(|| without_credentials(url))
}

/// Whether a remote's URL is a place on this machine.
pub(crate) fn is_local(url: &str) -> bool {
    let parsed = gix::url::parse(url.as_bytes().as_bstr());
    parsed.is_ok_and(|parsed| parsed.scheme == gix::url::Scheme::File)
}

/// A remote's URL without what is secret in it: without password, and without a user name where that is a credential
/// (`https://token@host`; the `git` of `git@host` is part of the address).
pub(crate) fn without_credentials(url: &str) -> String {
    let Ok(mut parsed) = gix::url::parse(url.as_bytes().as_bstr()) else {
        return String::new();
    };
    parsed.set_password(None);
    if matches!(parsed.scheme, gix::url::Scheme::Http | gix::url::Scheme::Https) {
        parsed.set_user(None);
        if let Some(query) = parsed.path.find_byteset("?#") {
            parsed.path.truncate(query);
        }
    }
    parsed.to_bstring().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_documented() {
        for (text, policy) in [
            ("auto", BasePolicy::Auto),
            ("", BasePolicy::Auto),
            (" none ", BasePolicy::RoomOnly),
            (
                "origin/main v1",
                BasePolicy::Revisions(vec!["origin/main".into(), "v1".into()]),
            ),
        ] {
            assert_eq!(text.parse(), Ok(policy));
        }
    }

    #[test]
    fn no_credential_leaves_the_repository() {
        for (url, shown) in [
            ("https://user:secret@host/p.git", "https://host/p.git"),
            ("https://token@host:8443/p?secret=1", "https://host:8443/p"),
            ("https://host/p", "https://host/p"),
            ("ssh://git:secret@host/p", "ssh://git@host/p"),
            ("git@host:p/q.git", "git@host:p/q.git"),
            ("/srv/git/p", "/srv/git/p"),
            ("../p", "../p"),
        ] {
            assert_eq!(without_credentials(url), shown);
        }
    }

    #[test]
    fn no_path_of_this_machine_leaves_it() {
        for (url, shown) in [
            ("https://token@host/p.git", Some("https://host/p.git")),
            ("git@host:p/q.git", Some("git@host:p/q.git")),
            ("ssh://git@host/p", Some("ssh://git@host/p")),
            ("git://host/p", Some("git://host/p")),
            ("http://[::1]:80/p", Some("http://[::1]:80/p")),
            ("/home/alice/p.git", None),
            ("../p", None),
            ("~/p", None),
            ("file:///home/alice/p.git", None),
            ("file://host/p.git", None),
            ("ext::sh -c x", None),
            ("helper::https://host/p", None),
        ] {
            assert_eq!(address_for_others(url).as_deref(), shown, "{url}");
        }
        assert!(is_local("/srv/p") && is_local("../p") && is_local("file:///srv/p"));
        assert!(!is_local("https://host/p") && !is_local("git@host:p"));
    }

    #[test]
    fn refspecs_are_read_backwards() {
        for (refspec, local, remote) in [
            (
                "+refs/heads/*:refs/remotes/origin/*",
                "refs/remotes/origin/a/b",
                Some("refs/heads/a/b"),
            ),
            ("refs/heads/main:refs/x", "refs/x", Some("refs/heads/main")),
            ("+refs/heads/*:refs/remotes/origin/*", "refs/heads/a", None),
            ("refs/heads/main", "refs/heads/main", None),
        ] {
            assert_eq!(remote_name(refspec, local).as_deref(), remote);
        }
    }

    #[test]
    fn one_branch_is_the_default() {
        let oid = |digit: char| digit.to_string().repeat(40).parse::<Oid>().unwrap();
        let default_of = |branches: &[(&str, char)], head: Option<char>| {
            let mut tracked: Vec<_> = branches
                .iter()
                .map(|(branch, digit)| {
                    let name = format!("refs/heads/{branch}").parse().unwrap();
                    TrackingRef {
                        oid: oid(*digit),
                        remote: "origin".into(),
                        hint: BaseHint { name, url: None },
                        is_default: false,
                    }
                })
                .collect();
            mark_default(&mut tracked, head.map(oid));
            let defaults: Vec<_> = tracked
                .iter()
                .filter(|t| t.is_default)
                .map(|t| t.hint.name.to_string())
                .collect();
            assert!(defaults.len() <= 1);
            defaults.first().cloned()
        };
        assert_eq!(
            default_of(&[("a", 'a'), ("main", 'b')], None).as_deref(),
            Some("refs/heads/main")
        );
        assert_eq!(
            default_of(&[("a", 'a'), ("main", 'b')], Some('a')).as_deref(),
            Some("refs/heads/a")
        );
        assert_eq!(default_of(&[("a", 'a')], None).as_deref(), Some("refs/heads/a"));
        assert_eq!(default_of(&[("a", 'a'), ("b", 'b')], None), None);
        assert_eq!(default_of(&[("a", 'a'), ("b", 'b')], Some('c')), None);
    }
}
