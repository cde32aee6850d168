//! The database's format: how a new one is made and an older one brought up to date. A newer one is left alone.

use std::path::Path;

use parler_protocol::HubId;
use rusqlite::fallible_iterator::FallibleIterator;
use rusqlite::{Batch, Connection, OptionalExtension};

use super::OpenError;
use crate::fail_point::{FailPoint, reached};

/// `Prlr`, in the header of the file: tells `file` and us whose database it is.
const APPLICATION_ID: i64 = 0x5072_6c72;
/// What leads from each format to the next. Format N is what the first N of them make of an empty database: an entry
/// is never changed once it has been released, only followed by another.
const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
];

/// The newest format this program knows.
pub(super) const NEWEST: i64 = MIGRATIONS.len() as i64;

/// Refuses what is not ours or newer than us, without writing.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::Database {
        path: path.to_owned(),
        source,
    };
    let application: i64 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => OpenError::NotAHub(path.to_owned()),
            _ => failed(error),
        })?;
    let found = format(connection).map_err(failed)?;
    let is_empty: bool = connection
        .query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", (), |row| row.get(0))
        .map_err(failed)?;
    let is_new = application == 0 && found == 0 && is_empty;
    if !is_new && application != APPLICATION_ID {
        return Err(OpenError::NotAHub(path.to_owned()));
    }
    if found > NEWEST {
        return Err(OpenError::NewerFormat {
            path: path.to_owned(),
            found,
            known: NEWEST,
        });
    }
    Ok(())
}

pub(super) fn format(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the database to the newest format, each step whole or not at all.
pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    let found = usize::try_from(format(connection)?).unwrap_or_default();
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(found) {
        let format = index + 1;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        let mut statements = Batch::new(connection, migration);
        while let Some(mut statement) = statements.next()? {
            statement.execute(())?;
            reached(FailPoint::MigrationStatement);
        }
        reached(FailPoint::MigrationApplied);
        connection.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {format};"
        ))?;
        reached(FailPoint::MigrationStamped);
        connection.execute_batch("COMMIT")?;
        reached(FailPoint::MigrationCommitted);
    }
    Ok(())
}

/// The hub's id, made on first use.
pub(super) fn hub_id(connection: &Connection, random: [u8; 16], now: i64) -> rusqlite::Result<HubId> {
    let stored: Option<[u8; 16]> = connection
        .query_row("SELECT id FROM hub", (), |row| row.get(0))
        .optional()?;
    if let Some(id) = stored {
        return Ok(HubId::from_bytes(id));
    }
    connection.execute(
        "INSERT INTO hub (only_row, id, created_at) VALUES (1, ?1, ?2)",
        (random, now),
    )?;
    reached(FailPoint::HubIdMade);
    Ok(HubId::from_bytes(random))
}
