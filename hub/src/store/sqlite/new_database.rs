//! A database that is not there yet: made whole beside its place, on disk, and only then given its name. Step by step in
//! its place, each step would wait for the disk several times. Never touches a database that is there.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::data_directory::make_file;
use super::{OpenError, connection, schema};
use crate::directory::sync_directory;
use crate::fail_point::{FailPoint, reached};

/// What is added to the database's name until it is whole.
const UNFINISHED: &str = "-new";

/// Makes the database, with the hub's id in it, unless there is a file of its name, if only an empty one. The caller holds the
/// directory.
pub(super) fn make_if_missing(database: &Path, random: [u8; 16], now: i64) -> Result<(), OpenError> {
    let is_there = match database.symlink_metadata() {
        Ok(found) if found.is_symlink() => return Err(at(database)(rustix::io::Errno::LOOP.into())),
        Ok(_) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(at(database)(error)),
    };
    if is_there {
        return remove_unfinished(database).map(drop);
    }
    // SQLite would make it readable for everybody; the files it adds take over the mode of this one.
    let (unfinished, file) = make_unfinished(database)?;
    reached(FailPoint::NewDatabaseMade);
    connection::open_new(&unfinished)
        .and_then(|connection| {
            schema::migrate(&connection)?;
            schema::hub_id(&connection, random, now)?;
            connection::finish_new(connection)
        })
        .map_err(|source| OpenError::Database {
            path: unfinished.clone(),
            source,
        })?;
    reached(FailPoint::NewDatabaseFilled);
    sync_and_name(&file, &unfinished, database)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { path, source }
}

/// Removes what a process that was killed meanwhile has left of a new one. The path of such.
fn remove_unfinished(database: &Path) -> Result<PathBuf, OpenError> {
    let mut unfinished = database.as_os_str().to_owned();
    unfinished.push(UNFINISHED);
    let unfinished = PathBuf::from(unfinished);
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&unfinished)(error)),
        _ => Ok(unfinished),
    }
}

/// An empty file beside the database that only its owner can read.
pub(super) fn make_unfinished(database: &Path) -> Result<(PathBuf, File), OpenError> {
    let unfinished = remove_unfinished(database)?;
    let file = make_file(&unfinished).map_err(at(&unfinished))?;
    Ok((unfinished, file))
}

/// Makes what was filled the database.
pub(super) fn sync_and_name(file: &File, unfinished: &Path, database: &Path) -> Result<(), OpenError> {
    file.sync_all().map_err(at(unfinished))?;
    reached(FailPoint::NewDatabaseSynced);
    fs::rename(unfinished, database).map_err(at(database))?;
    reached(FailPoint::NewDatabaseNamed);
    // Whoever is killed before this has been answered nothing: the first sync of a log syncs the directory as well.
    let directory = database.parent().unwrap_or(Path::new("."));
    sync_directory(directory).map_err(at(directory))
}
