//! Why a data directory cannot be opened.

use std::io;
use std::path::PathBuf;

/// Why a data directory cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it open.
    #[error("{} is in use by another hub", .0.display())]
    InUse(PathBuf),
    /// A newer program wrote it.
    #[error("{} has format {found}, this program knows formats up to {known}: use the newer program", path.display())]
    NewerFormat {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format this program knows.
        known: i64,
    },
    /// An older program wrote it, and it is not to be changed.
    #[error("{} has format {found}, and can be looked at in format {newest}: start the hub with this program once", path.display())]
    OlderFormat {
        /// The database.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The one this program looks at.
        newest: i64,
    },
    /// The database is another program's.
    #[error("{} is not a hub's database", .0.display())]
    NotAHub(PathBuf),
    /// A file cannot be made or opened.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The database cannot be read or written.
    #[error("cannot open {}: {source}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}
