//! A database written anew without its free pages: made whole beside its place, on disk, and only then given its name. Of a
//! stopped hub only; whoever is ended meanwhile leaves it as it was.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::Connection;

use super::data_directory::DataDirectory;
use super::new_database::{self, sync_and_name};
use super::{OpenError, connection, schema};

/// Where less than this is free in it, it stays as it is, bytes.
const WORTH_BYTES: u64 = 1 << 20; // 1 MiB
/// And where less than this part of it is.
const WORTH_PART: u64 = 4;

/// Gives the free pages of the database in this data directory back to the file system, where they are worth it. Needs as
/// much space as the database has without them. Bytes that it is smaller by. Blocks.
pub(crate) fn shrink(path: &Path) -> Result<u64, OpenError> {
    let directory = DataDirectory::open(path)?;
    let database = directory.database();
    let failed = |source| OpenError::Database {
        path: database.clone(),
        source,
    };
    let connection = connection::open_writer(&database).map_err(failed)?;
    schema::check(&connection, &database)?;
    let (free, whole) = sizes(&connection).map_err(failed)?;
    if free < WORTH_BYTES || free < whole / WORTH_PART {
        return Ok(0);
    }
    // What is in the log belongs to the old file, and would be taken for the new one's.
    let is_busy: bool = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))
        .map_err(failed)?;
    if is_busy {
        return Err(OpenError::InUse(path.to_owned()));
    }
    let (unfinished, file) = new_database::make_unfinished(&database)?;
    // A path is text to SQLite, so it has to be some.
    let name = unfinished.to_str().ok_or_else(|| OpenError::Io {
        path: unfinished.clone(),
        source: io::Error::other("the path is no UTF-8"),
    })?;
    let copied = connection
        .execute("VACUUM INTO ?1", [name])
        .and_then(|_| connection.close().map_err(|(_, error)| error));
    if let Err(source) = copied {
        // It may be the disk that is full. What cannot be removed now goes with the next start.
        let _ = fs::remove_file(&unfinished);
        return Err(OpenError::Database {
            path: unfinished,
            source,
        });
    }
    sync_and_name(&file, &unfinished, &database)?;
    let now = fs::metadata(&database).map_or(whole, |found| found.len());
    Ok(whole.saturating_sub(now))
}

/// Bytes that are free in the database, and all of it.
fn sizes(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let page = number("page_size")?.unsigned_abs();
    Ok((
        number("freelist_count")?.unsigned_abs() * page,
        number("page_count")?.unsigned_abs() * page,
    ))
}
