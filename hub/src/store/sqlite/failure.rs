//! Why work inside a transaction ended, and what that means for the transaction.

use rusqlite::{ErrorCode, ffi};

use crate::store::StoreError;

/// Why a piece of work did not get done.
#[derive(Debug)]
pub(super) enum Failure {
    /// It is not allowed: an answer for whoever asked, and nobody else's concern.
    Refused(StoreError),
    /// The database failed.
    Sqlite(rusqlite::Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Failure {
    /// A stored value that this program cannot have written.
    pub(super) fn damaged(what: &str) -> Self {
        Self::Refused(StoreError::Damaged(format!("{what} cannot be read")))
    }

    /// What a reader is told.
    pub(super) fn into_store_error(self) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(error.to_string()),
                _ => StoreError::Database(error.to_string()),
            },
        }
    }
}

/// What a failure of the database means for what is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// This piece of work failed; others are well.
    Operation,
    /// There is no space: nothing of the batch is stored, and later there may be space again.
    Full,
    /// Nobody knows what the disk holds. Nothing may be written any more.
    Fatal,
}

impl Severity {
    pub(super) fn of(error: &rusqlite::Error) -> Self {
        let Some(sqlite) = error.sqlite_error() else {
            return Self::Operation;
        };
        match sqlite.code {
            ErrorCode::DiskFull => Self::Full,
            // The shared-memory file could not grow. It is never synced, so nothing is in doubt.
            ErrorCode::SystemIoFailure if sqlite.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Self::Full,
            ErrorCode::SystemIoFailure
            | ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::FileLockingProtocolFailed => Self::Fatal,
            _ => Self::Operation,
        }
    }
}
