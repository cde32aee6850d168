//! The repository's refs and where `HEAD` is. Never changed here.

use parler_protocol::Oid;

use super::{Repository, RepositoryError, from_gix};
use crate::git::{GitError, Side};

/// A ref of this repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalRef {
    /// The full name, such as `refs/heads/main`.
    pub name: String,
    /// What it names (a symbolic ref: what its target names). An annotated tag is the tag object.
    pub oid: Oid,
}

/// Where `HEAD` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalHead {
    /// On a branch, given by its full name, that has a commit.
    Branch {
        /// `refs/heads/..`.
        name: String,
        /// The branch's commit.
        oid: Oid,
    },
    /// At a commit, on no branch.
    Detached {
        /// The commit.
        oid: Oid,
    },
    /// On a branch without a commit yet.
    Unborn {
        /// `refs/heads/..`.
        name: String,
    },
}

impl Repository {
    /// All refs in the directory `prefix`, such as `refs/` or `refs/tags/`, sorted by name. Broken ones, and names
    /// that are not UTF-8, are left out: neither can go to a room.
    pub fn refs(&self, prefix: &str) -> Result<Vec<LocalRef>, RepositoryError> {
        self.refs_where(prefix, |_, _| true)
    }

    /// As [`Repository::refs`], those of which this holds.
    pub(crate) fn refs_where(
        &self,
        prefix: &str,
        holds: impl Fn(&str, &Oid) -> bool,
    ) -> Result<Vec<LocalRef>, RepositoryError> {
        let mut refs = if self.asks_git {
            self.refs_by_git(prefix, holds)?
        } else {
            self.refs_by_gix(prefix, holds)?
        };
        refs.sort_unstable();
        Ok(refs)
    }

    /// The value of one ref, given by its full name.
    pub fn find_ref(&self, name: &str) -> Result<Option<Oid>, RepositoryError> {
        if self.asks_git {
            return Ok(self
                .refs(name)?
                .into_iter()
                .find(|local| local.name == name)
                .map(|local| local.oid));
        }
        let local = self.local();
        let found = local
            .try_find_reference(name)
            .map_err(RepositoryError::reading("a ref"))?;
        match found {
            Some(mut found) if found.name().as_bstr() == name => {
                Ok(found.follow_to_object().ok().map(|id| from_gix(&id)))
            }
            _ => Ok(None),
        }
    }

    /// Where `HEAD` is. An error while `git clone` has not set it.
    pub fn head(&self) -> Result<LocalHead, RepositoryError> {
        if self.asks_git {
            self.head_by_git()
        } else {
            self.head_by_gix()
        }
    }

    fn refs_by_gix(&self, prefix: &str, holds: impl Fn(&str, &Oid) -> bool) -> Result<Vec<LocalRef>, RepositoryError> {
        let reading = RepositoryError::reading;
        let local = self.local();
        let platform = local.references().map_err(reading("the refs"))?;
        let mut refs = Vec::new();
        let mut symbolic = Vec::new();
        for found in platform.prefixed(prefix).map_err(reading("the refs"))?.flatten() {
            let Ok(name) = str::from_utf8(found.name().as_bstr()) else {
                continue;
            };
            match found.try_id().map(|id| from_gix(&id)) {
                Some(oid) if holds(name, &oid) => refs.push(LocalRef {
                    name: name.to_owned(),
                    oid,
                }),
                Some(_) => {}
                None => symbolic.push(name.to_owned()),
            }
        }
        for name in symbolic {
            let target = local.try_find_reference(&name).ok().flatten();
            let oid = target.and_then(|mut found| found.follow_to_object().ok().map(|id| from_gix(&id)));
            if let Some(oid) = oid.filter(|oid| holds(&name, oid)) {
                refs.push(LocalRef { name, oid });
            }
        }
        Ok(refs)
    }

    fn refs_by_git(&self, prefix: &str, holds: impl Fn(&str, &Oid) -> bool) -> Result<Vec<LocalRef>, RepositoryError> {
        const FORMAT: &str = "--format=%(objectname) %(refname)";
        let listed = self.command(Side::Push, "for-each-ref").args([FORMAT, prefix]).run()?;
        let mut refs = Vec::new();
        for line in listed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(line) = str::from_utf8(line) else { continue };
            let answer = || GitError::answer("for-each-ref", line.as_bytes());
            let (oid, name) = line.split_once(' ').ok_or_else(answer)?;
            let oid: Oid = oid.parse().map_err(|_| answer())?;
            if !oid.is_null() && holds(name, &oid) {
                refs.push(LocalRef {
                    name: name.to_owned(),
                    oid,
                });
            }
        }
        Ok(refs)
    }

    fn head_by_gix(&self) -> Result<LocalHead, RepositoryError> {
        let local = self.local();
        let head = local.head().map_err(RepositoryError::reading("HEAD"))?;
        Ok(match &head.kind {
            gix::head::Kind::Symbolic(branch) => {
                let name = branch.name.as_bstr().to_string();
                match head.id() {
                    Some(id) => LocalHead::Branch {
                        name,
                        oid: from_gix(&id),
                    },
                    None => LocalHead::Unborn { name },
                }
            }
            gix::head::Kind::Unborn(name) => LocalHead::Unborn {
                name: name.as_bstr().to_string(),
            },
            gix::head::Kind::Detached { target, .. } => LocalHead::Detached { oid: from_gix(target) },
        })
    }

    fn head_by_git(&self) -> Result<LocalHead, RepositoryError> {
        // Exit 1 without a word is a detached HEAD.
        let (status, symbolic) = self
            .command(Side::Push, "symbolic-ref")
            .args(["-q", "HEAD"])
            .run_for_status(&[])?;
        let rev_parse = self.command(Side::Push, "rev-parse").args(["-q", "--verify", "HEAD"]);
        let (_, oid) = rev_parse.run_for_status(&[])?;
        let oid = str::from_utf8(oid.trim_ascii_end())
            .ok()
            .and_then(|text| text.parse::<Oid>().ok());
        let name = String::from_utf8_lossy(symbolic.trim_ascii_end()).into_owned();
        match (status.code(), oid) {
            (Some(0), Some(oid)) => Ok(LocalHead::Branch { name, oid }),
            (Some(0), None) => Ok(LocalHead::Unborn { name }),
            (Some(1), Some(oid)) => Ok(LocalHead::Detached { oid }),
            _ => Err(GitError::answer("symbolic-ref", &symbolic).into()),
        }
    }
}
