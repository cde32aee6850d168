//! A commit's parents.

use parler_protocol::Oid;

use super::{Repository, RepositoryError, from_gix, to_gix};
use crate::git::{GitError, Side};

impl Repository {
    /// The parents that a commit names, whether they are here or cut away in a shallow repository.
    pub fn parents(&self, commit: &Oid) -> Result<Vec<Oid>, RepositoryError> {
        if self.asks_git {
            return self.parents_by_git(commit);
        }
        let local = self.local();
        let found = local
            .find_commit(to_gix(commit))
            .map_err(RepositoryError::reading("a commit"))?;
        Ok(found.parent_ids().map(|id| from_gix(&id)).collect())
    }

    fn parents_by_git(&self, commit: &Oid) -> Result<Vec<Oid>, RepositoryError> {
        let object = self
            .command(Side::Push, "cat-file")
            .args(["commit", &commit.to_string()])
            .run()?;
        let mut parents = Vec::new();
        for line in object.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
            if let Some(oid) = line.strip_prefix(b"parent ") {
                let oid = str::from_utf8(oid).ok().and_then(|oid| oid.parse().ok());
                parents.push(oid.ok_or_else(|| GitError::answer("cat-file", line))?);
            }
        }
        Ok(parents)
    }
}
