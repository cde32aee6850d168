//! Names of objects and what stands behind them: revisions, existence, a commit's subject.

use std::fmt;

use gix::bstr::ByteSlice;
use parler_protocol::Oid;

use super::{Repository, RepositoryError, from_gix, to_gix};
use crate::git::{GitError, Side};

/// What a git object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A commit.
    Commit,
    /// A directory.
    Tree,
    /// A file's content.
    Blob,
    /// An annotated tag.
    Tag,
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        })
    }
}

impl ObjectKind {
    fn of_word(word: &str) -> Option<Self> {
        match word {
            "commit" => Some(Self::Commit),
            "tree" => Some(Self::Tree),
            "blob" => Some(Self::Blob),
            "tag" => Some(Self::Tag),
            _ => None,
        }
    }
}

/// An object that a revision names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    /// The object itself.
    pub oid: Oid,
    /// What it is.
    pub kind: ObjectKind,
    /// The commit that it is or, through tags, leads to.
    pub commit: Option<Oid>,
}

impl Repository {
    /// What a revision as git writes them (`HEAD~2`, a ref, an id or the beginning of one) names. Never an option: what
    /// begins with `-` names nothing.
    pub fn resolve(&self, revision: &str) -> Result<Resolved, RepositoryError> {
        if revision.starts_with('-') || revision.is_empty() || revision.contains(['\0', '\n']) {
            let reason = "no revision is written so".to_owned();
            return Err(RepositoryError::UnknownRevision {
                revision: revision.to_owned(),
                reason,
            });
        }
        if !self.asks_git
            && let Some(resolved) = self.resolve_by_gix(revision)
        {
            return Ok(resolved);
        }
        // What the library cannot read git may, and when not, the words are git's.
        self.resolve_by_git(revision)
    }

    /// Which of these objects are here, in the same order.
    pub fn contains(&self, oids: &[Oid]) -> Result<Vec<bool>, RepositoryError> {
        // Anybody can name ids of the other hash; the library must not even be asked for them.
        let is_possible = |oid: &Oid| oid.format() == self.object_format();
        let possible: Vec<Oid> = oids.iter().copied().filter(is_possible).collect();
        let here = if possible.is_empty() {
            Vec::new()
        } else if self.asks_git {
            self.headers_by_git(&possible)?.iter().map(Option::is_some).collect()
        } else {
            self.contains_by_gix(&possible)
        };
        let mut here = here.into_iter();
        Ok(oids
            .iter()
            .map(|oid| is_possible(oid) && here.next().unwrap_or(false))
            .collect())
    }

    /// The first line of a commit's message, as far as it is text. Comes from outside: escape it before showing it.
    pub fn subject(&self, commit: &Oid) -> Result<String, RepositoryError> {
        let message = if self.asks_git {
            self.message_by_git(commit)?
        } else {
            self.message_by_gix(commit)?
        };
        let first = message.trim_ascii_start().lines().next().unwrap_or_default();
        Ok(String::from_utf8_lossy(first.trim_ascii_end()).into_owned())
    }

    fn resolve_by_gix(&self, revision: &str) -> Option<Resolved> {
        let local = self.local();
        let id = local.rev_parse_single(revision).ok()?.detach();
        let kind = match local.find_header(id).ok()?.kind() {
            gix::object::Kind::Commit => ObjectKind::Commit,
            gix::object::Kind::Tree => ObjectKind::Tree,
            gix::object::Kind::Blob => ObjectKind::Blob,
            gix::object::Kind::Tag => ObjectKind::Tag,
        };
        let commit = match kind {
            ObjectKind::Commit => Some(id),
            ObjectKind::Tag => local
                .find_object(id)
                .ok()?
                .peel_to_kind(gix::object::Kind::Commit)
                .ok()
                .map(|c| c.id),
            ObjectKind::Tree | ObjectKind::Blob => None,
        };
        Some(Resolved {
            oid: from_gix(&id),
            kind,
            commit: commit.map(|id| from_gix(&id)),
        })
    }

    fn resolve_by_git(&self, revision: &str) -> Result<Resolved, RepositoryError> {
        let rev_parse = self
            .command(Side::Push, "rev-parse")
            .args(["--verify", "--end-of-options", revision]);
        let answer = match rev_parse.run() {
            Err(GitError::Failed { message, .. }) => {
                return Err(RepositoryError::UnknownRevision {
                    revision: revision.to_owned(),
                    reason: message,
                });
            }
            answer => answer?,
        };
        let text = str::from_utf8(answer.trim_ascii()).unwrap_or_default();
        let oid: Oid = text.parse().map_err(|_| GitError::answer("rev-parse", &answer))?;
        // The id and what it peels to, by one child.
        let asked = format!("{oid}\n{oid}^{{commit}}\n");
        let headers = self
            .command(Side::Push, "cat-file")
            .arg("--batch-check")
            .run_with(asked.as_bytes())?;
        let mut lines = headers.split(|byte| *byte == b'\n').map(parse_header);
        let (_, kind) = lines.next().flatten().ok_or(RepositoryError::MissingObject { oid })?;
        let commit = lines
            .next()
            .flatten()
            .filter(|(_, kind)| *kind == ObjectKind::Commit)
            .map(|(oid, _)| oid);
        Ok(Resolved { oid, kind, commit })
    }

    fn contains_by_gix(&self, oids: &[Oid]) -> Vec<bool> {
        let mut local = self.local();
        let mut looked_again = false;
        let mut contains = |oid: &Oid| {
            let found = local.has_object(to_gix(oid));
            if !found && !looked_again {
                // The first miss made the library look for new packs; once is enough for one question.
                looked_again = true;
                local.objects.refresh_never();
            }
            found
        };
        oids.iter().map(&mut contains).collect()
    }

    pub(super) fn headers_by_git(&self, oids: &[Oid]) -> Result<Vec<Option<(Oid, ObjectKind)>>, RepositoryError> {
        let asked: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let answer = self
            .command(Side::Push, "cat-file")
            // Asking whether an object is here must not fetch it.
            .env("GIT_NO_LAZY_FETCH", "1")
            .arg("--batch-check")
            .run_with(asked.as_bytes())?;
        let lines: Vec<_> = answer
            .split(|byte| *byte == b'\n')
            .take(oids.len())
            .map(parse_header)
            .collect();
        if lines.len() < oids.len() {
            return Err(GitError::answer("cat-file", &answer).into());
        }
        Ok(lines)
    }

    fn message_by_gix(&self, commit: &Oid) -> Result<Vec<u8>, RepositoryError> {
        let local = self.local();
        let found = local
            .find_commit(to_gix(commit))
            .map_err(RepositoryError::reading("a commit"))?;
        let message = found
            .message_raw()
            .map_err(RepositoryError::reading("a commit's message"))?;
        Ok(message.to_vec())
    }

    fn message_by_git(&self, commit: &Oid) -> Result<Vec<u8>, RepositoryError> {
        let object = self
            .command(Side::Push, "cat-file")
            .args(["commit", &commit.to_string()])
            .run()?;
        Ok(object
            .split_once_str("\n\n")
            .map(|(_, message)| message.to_vec())
            .unwrap_or_default())
    }
}

/// A line of `cat-file --batch-check`: `<oid> <kind> <size>`, or `<what was asked> missing`.
fn parse_header(line: &[u8]) -> Option<(Oid, ObjectKind)> {
    let line = str::from_utf8(line).ok()?;
    let mut words = line.split(' ');
    let oid = words.next()?.parse().ok()?;
    Some((oid, ObjectKind::of_word(words.next()?)?))
}
