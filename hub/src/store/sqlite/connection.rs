//! Connections to the database with every setting the hub relies on. Decides nothing about what is in it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

/// What the program prepares again and again; SQLite's own default of 16 would make it prepare each time.
const STATEMENTS_KEPT: usize = 128;
/// How long a checkpoint that wants the log for itself waits for readers.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);
/// Page cache of the writer, in KiB; readers keep SQLite's 2 MiB.
const WRITER_CACHE_KIB: i64 = 16 << 10; // 16 MiB

/// The one connection that writes.
pub(super) fn open_writer(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(database, flags)?;
    harden(&connection)?;
    Ok(connection)
}

/// The connection that fills a new database, which has no name yet: it waits for no disk.
pub(super) fn open_new(database: &Path) -> rusqlite::Result<Connection> {
    let connection = open_writer(database)?;
    connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    Ok(connection)
}

/// Closes it, all of it in its one file. Switched to the log last: before the first use afterwards there is none.
pub(super) fn finish_new(connection: Connection) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.close().map_err(|(_, error)| error)
}

/// Turns the write-ahead log on. Apart from opening, because it writes: a database of another program or a newer format
/// is found out before.
pub(super) fn prepare_writer(connection: &Connection, max_pages: Option<u32>) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // NORMAL would lose acknowledged messages when the power fails.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    if let Some(max_pages) = max_pages {
        connection.pragma_update_and_check(None, "max_page_count", max_pages, |_| Ok(()))?;
    }
    Ok(())
}

/// A connection that reads.
pub(super) fn open_reader(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(database, flags)?;
    harden(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A connection that reads a database that nobody writes to and whose log is empty. Makes no file beside it.
pub(super) fn open_unchanging(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_URI;
    let mut address = "file:".to_owned();
    for byte in database.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => address.push(char::from(*byte)),
            other => address.push_str(&format!("%{other:02X}")),
        }
    }
    address.push_str("?immutable=1");
    let connection = Connection::open_with_flags(address, flags)?;
    harden(&connection)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// A connection that reads one database and can write a copy of it to another: `query_only` would forbid that.
pub(super) fn open_source(database: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(database, flags)?;
    harden(&connection)?;
    Ok(connection)
}

fn harden(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // Without it SQLite prepares a statement anew whenever another value is bound that could change its plan: three
    // quarters of the writer's time.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    // The writer checkpoints when it closes in good order. After an I/O error nothing more may be written, not even by
    // closing.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_on_the_disk_when_it_returns() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hub.db");
        std::fs::File::create(&path).unwrap();
        let connection = open_writer(&path).unwrap();
        prepare_writer(&connection, None).unwrap();
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, String>(0));
        assert_eq!(pragma("journal_mode").unwrap(), "wal");
        // 2 is FULL: every commit syncs the log.
        let synchronous: i64 = connection
            .pragma_query_value(None, "synchronous", |row| row.get(0))
            .unwrap();
        assert_eq!(synchronous, 2);
    }
}
