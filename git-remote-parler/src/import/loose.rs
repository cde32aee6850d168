//! Objects that were judged in memory, written into a quarantine as `git unpack-objects` would write them: each a file of
//! its own, compressed as git does unless told otherwise, and not waited for on the disk, as git does not wait either.
//! Where this repository wants them written in another way, git has to do it. Other than git we write what is here already,
//! too: the copy here may be damaged, or too old for a `git prune` that goes on.

use std::io;
use std::path::Path;

use gix::hash::Kind;
use gix::objs::Write;
use gix::odb::loose::Store;

use super::vouching::Objects;
use crate::repository::{Repository, RepositoryError};

/// What tells git to write such a file otherwise.
const SETTINGS: [&str; 6] = [
    "core.compression",
    "core.fsync",
    "core.fsyncMethod",
    "core.fsyncObjectFiles",
    "core.looseCompression",
    "core.sharedRepository",
];

/// Whether the files of this repository are as git makes them when nothing is configured.
pub(super) fn are_usual(repository: &Repository) -> Result<bool, RepositoryError> {
    if !repository.has_known_format() {
        return Ok(false);
    }
    for key in SETTINGS {
        if repository.config_string(key)?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes the objects into an object directory that nobody else uses.
pub(super) fn write(objects: &Objects, hash: Kind, directory: &Path) -> io::Result<()> {
    let store = Store::at(directory, hash);
    for object in objects.values() {
        let written = store.write_buf_with_known_id(object.kind, &object.content, object.id);
        written.map_err(|error| match error.downcast_any_ref::<io::Error>() {
            // Its own words name the file of a moment ago.
            Some(cause) => io::Error::new(cause.kind(), cause.to_string()),
            None => io::Error::other(error.to_string()),
        })?;
    }
    Ok(())
}
