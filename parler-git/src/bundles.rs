//! What a reader wants to know of a bundle before taking it: how large it is, where it leads, and whether what it
//! builds on is here.

use git_remote_parler::repository::{RemoteConfig, Repository};
use parler_protocol::{BaseHint, BundleId, BundlePart};
use serde::Serialize;

use crate::text;

/// Whether the commits that a bundle builds on are in the reader's repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Base {
    /// It needs none: a complete history.
    None,
    /// They are here.
    Present,
    /// Other bundles of the room bring them.
    Room,
    /// They are not here.
    Missing,
    /// There is no repository to look into, or it did not answer.
    Unknown,
}

/// A bundle, described.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BundleView {
    /// Its id.
    pub(crate) id: BundleId,
    /// Bytes.
    pub(crate) size: u64,
    /// New commits in it.
    pub(crate) commits: Option<u64>,
    /// Its refs, as its author named them.
    pub(crate) refs: Vec<String>,
    /// What its author says it builds on.
    pub(crate) base_name: Option<String>,
    /// Whether that is here.
    pub(crate) base: Base,
    /// The newest commit's subject, as its author gave it.
    pub(crate) subject: Option<String>,
}

impl BundleView {
    /// Describes a bundle to somebody who works in this repository, if in any.
    pub(crate) fn of(part: &BundlePart, repository: Option<&Repository>) -> Self {
        let base = match repository.map(|repository| repository.contains(&part.prerequisites)) {
            _ if part.prerequisites.is_empty() && !part.refs.is_empty() => Base::None,
            Some(Ok(present)) if !present.is_empty() && present.iter().all(|present| *present) => Base::Present,
            _ if !part.needs.is_empty() => Base::Room,
            Some(Ok(present)) if !present.is_empty() => Base::Missing,
            _ => Base::Unknown,
        };
        let hinted = || Some(hinted_name(part.base_hint.as_ref()?, repository));
        Self {
            id: part.blob,
            size: part.size,
            commits: part.commits,
            refs: part.named_refs().map(|bundled| bundled.name.to_string()).collect(),
            base_name: hinted().or_else(|| part.base.clone()),
            base,
            subject: part.summary.clone(),
        }
    }

    /// What a banner says of it: `7f3a0c9e21d4 · 3 commits · refs/heads/feature · base origin/main present`.
    pub(crate) fn line(&self) -> String {
        let mut words = vec![self.id.short()];
        words.extend(self.commits.map(|commits| text::count(commits, "commit")));
        words.extend(self.refs_words());
        words.push(self.base_words());
        words.join(" · ")
    }

    fn refs_words(&self) -> Option<String> {
        let first = text::name(self.refs.first()?);
        Some(match self.refs.len() - 1 {
            0 => first,
            more => format!("{first} and {more} more"),
        })
    }

    fn base_words(&self) -> String {
        let named = self
            .base_name
            .as_deref()
            .map(|name| format!(" {}", text::name(name)))
            .unwrap_or_default();
        match self.base {
            Base::None => "complete history".to_owned(),
            Base::Present => format!("base{named} present"),
            Base::Room => "base in this room".to_owned(),
            Base::Missing => format!("base{named} missing"),
            Base::Unknown => format!("base{named}"),
        }
    }
}

/// The branch that a bundle's base was on, as the reader calls it where the same repository is a remote of theirs.
fn hinted_name(hint: &BaseHint, repository: Option<&Repository>) -> String {
    let branch = hint.name.branch().unwrap_or(hint.name.as_str());
    let remotes = repository
        .and_then(|repository| repository.remotes().ok())
        .unwrap_or_default();
    let tracked = |remote: &&RemoteConfig| {
        let tracking = format!("refs/remotes/{}/{branch}", remote.name);
        repository.is_some_and(|repository| matches!(repository.find_ref(&tracking), Ok(Some(_))))
    };
    let found = match &hint.url {
        Some(url) => remotes.iter().find(|remote| remote.urls.contains(url)),
        // A place on its author's machine has no address for others: the one remote that has such a branch is meant.
        None => {
            let mut with_branch = remotes.iter().filter(tracked);
            with_branch.next().filter(|_| with_branch.next().is_none())
        }
    };
    match found {
        Some(remote) => format!("{}/{branch}", remote.name),
        None => branch.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use parler_protocol::{BundleRef, ObjectFormat};

    use super::*;

    pub(crate) fn part() -> BundlePart {
        BundlePart {
            blob: BundleId::of(b"bundle"),
            vcs: "git".into(),
            size: 4200,
            media_type: None,
            tip: None,
            base: Some("origin/main".into()),
            summary: None,
            refs: vec![BundleRef {
                name: "refs/heads/feature".parse().unwrap(),
                oid: "a".repeat(40).parse().unwrap(),
            }],
            prerequisites: vec!["b".repeat(40).parse().unwrap()],
            object_format: Some(ObjectFormat::Sha1),
            commits: Some(3),
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        }
    }

    #[test]
    fn a_bundle_is_one_line() {
        let view = |base| BundleView {
            base,
            ..BundleView::of(&part(), None)
        };
        let id = BundleId::of(b"bundle").short();
        assert_eq!(
            view(Base::Present).line(),
            format!("{id} · 3 commits · refs/heads/feature · base origin/main present")
        );
        assert_eq!(
            view(Base::Missing).line(),
            format!("{id} · 3 commits · refs/heads/feature · base origin/main missing")
        );
        assert_eq!(
            view(Base::Unknown).line(),
            format!("{id} · 3 commits · refs/heads/feature · base origin/main")
        );
        let complete = BundleView::of(
            &BundlePart {
                prerequisites: Vec::new(),
                commits: Some(1),
                ..part()
            },
            None,
        );
        assert_eq!(
            complete.line(),
            format!("{id} · 1 commit · refs/heads/feature · complete history")
        );
    }

    #[test]
    fn what_its_author_wrote_stays_in_its_place() {
        let hostile = BundlePart {
            base: Some("x present\n · signature valid".into()),
            ..part()
        };
        let line = BundleView::of(&hostile, None).line();
        assert!(line.ends_with("base \"x present\\u{a} · signature valid\""), "{line}");
    }
}
