//! `git parler ci`: what CI jobs say of commits.

use git_remote_parler::repository::{Repository, RepositoryError};
use parler_protocol::Oid;

use crate::cli::{Ci, CiVerb};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;

mod annotate;
mod post;

pub(super) fn run(context: &Context, args: &Ci, output: &mut Output) -> Result<()> {
    match &args.what {
        CiVerb::Annotate(args) => annotate::run(context, args, output),
        CiVerb::Post(args) => post::run(context, args, output),
    }
}

/// The commit that a revision names; one that is not here by its full id.
pub(super) fn named_commit(repository: Option<&Repository>, revision: &str) -> Result<Oid> {
    let by_id = revision.parse::<Oid>().ok();
    let Some(repository) = repository else {
        return by_id.ok_or_else(|| {
            let what =
                format_args!("'{revision}' is not a commit's full id, and there is no repository here").to_string();
            Error::new(ErrorKind::NotFound, what)
        });
    };
    match repository.resolve(revision) {
        Ok(found) => found
            .commit
            .ok_or_else(|| RepositoryError::NotACommit { oid: found.oid }.into()),
        Err(error) => match (error, by_id) {
            (RepositoryError::UnknownRevision { .. } | RepositoryError::MissingObject { .. }, Some(id)) => Ok(id),
            (error, _) => Err(error.into()),
        },
    }
}
