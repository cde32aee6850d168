//! The steps between which a hub can die, each with a name, all of them in one list: a test ends the hub at every one of
//! them and looks at what it left. A release build has none: [`reached`] is empty there, and nothing can be armed.
//!
//! Points are built with `debug_assertions` and not with a feature of the crate: the suites would then have to build the
//! hub twice, once as it is shipped and once to be ended.

use std::fmt;
use std::str::FromStr;

macro_rules! fail_points {
    ($( $(#[doc = $doc:literal])+ $point:ident $name:literal ;)+) => {
        /// A step that the hub has just done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum FailPoint {
            $( $(#[doc = $doc])+ $point, )+
        }

        impl FailPoint {
            /// Every point there is.
            pub const ALL: &[Self] = &[$( Self::$point, )+];

            /// The point's name.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$point => $name, )+ }
            }
        }
    };
}

// In the order in which a life of a hub comes to them.
fail_points! {
    /// The data directory is locked; it may be empty.
    DirectoryLocked "directory-locked";
    /// The file of a new database is there, empty.
    NewDatabaseMade "new-database-made";
    /// One statement of a step of the format is done, in an open transaction.
    MigrationStatement "migration-statement";
    /// Tables are made or changed, in an open transaction.
    MigrationApplied "migration-applied";
    /// The same, with the number of the new format.
    MigrationStamped "migration-stamped";
    /// One step of the format is done.
    MigrationCommitted "migration-committed";
    /// A new database has its hub's id.
    HubIdMade "hub-id-made";
    /// A new database is whole, if not on disk.
    NewDatabaseFilled "new-database-filled";
    /// A new database is on disk, without its name.
    NewDatabaseSynced "new-database-synced";
    /// It has its name.
    NewDatabaseNamed "new-database-named";
    /// The store is open.
    StoreOpened "store-opened";
    /// The directories of the blobs are there.
    BlobsOpened "blobs-opened";
    /// A blob that no message brought is removed.
    OrphanRemoved "orphan-removed";

    /// The file of a blob that comes with its message is there, empty.
    BlobFileMade "blob-file-made";
    /// Some bytes of it are written.
    BlobPieceWritten "blob-piece-written";
    /// Its bytes are found to be the right ones.
    BlobHashed "blob-hashed";
    /// An upload has its note and no file.
    UploadNoted "upload-noted";
    /// An upload has both.
    UploadMade "upload-made";
    /// Some bytes of it are written.
    UploadPieceWritten "upload-piece-written";
    /// A request with bytes of it is done, and not answered.
    UploadPartTaken "upload-part-taken";
    /// Its bytes are found to be the right ones.
    UploadHashed "upload-hashed";
    /// A blob's bytes are on disk, without its name.
    BlobSynced "blob-synced";
    /// An upload has a second link, which is not in its place.
    UploadLinked "upload-linked";
    /// A blob has its name.
    BlobNamed "blob-named";
    /// The directory of its name is on disk.
    BlobDirectorySynced "blob-directory-synced";
    /// So is everything above it: a row may follow.
    BlobDurable "blob-durable";

    /// Operations are taken from the queue.
    BatchTaken "batch-taken";
    /// The transaction is open.
    BatchBegun "batch-begun";
    /// The row of a message is written.
    MessageInserted "message-inserted";
    /// That of its key is.
    KeyInserted "key-inserted";
    /// That of its blob is.
    BlobInserted "blob-inserted";
    /// The blob is the room's.
    BlobLinked "blob-linked";
    /// Its refs are moved.
    RefsMoved "refs-moved";
    /// The row of a job is, which the message dispatches.
    JobMade "job-made";
    /// The job that the message ends has ended.
    JobEnded "job-ended";
    /// A job is somebody's, in an open transaction.
    JobClaimed "job-claimed";
    /// So is more time for it.
    ClaimRenewed "claim-renewed";
    /// It is for others again, in an open transaction.
    ClaimReleased "claim-released";
    /// An operation in a savepoint is done.
    SavepointReleased "savepoint-released";
    /// Heads and what else comes once a batch are written: before the commit.
    BatchFinished "batch-finished";
    /// The commit has returned.
    BatchCommitted "batch-committed";
    /// One of those who wait for it has been told.
    OperationAnswered "operation-answered";
    /// A message is stored, and its client not answered.
    MessageStored "message-stored";
    /// A claim is stored, and its worker not answered.
    ClaimStored "claim-stored";
    /// More time for it is.
    RenewalStored "renewal-stored";
    /// That it is given back is.
    ReleaseStored "release-stored";
    /// The bytes of an upload that was stored are removed, its note is not.
    UploadBytesRemoved "upload-bytes-removed";
    /// Both are.
    UploadRemoved "upload-removed";
    /// The log is about to be copied into the database.
    CheckpointDue "checkpoint-due";
    /// It has been.
    CheckpointDone "checkpoint-done";

    /// The store is about to be closed.
    CloseBegun "close-begun";
    /// The log is empty, and still there.
    CloseCheckpointed "close-checkpointed";
    /// The database is closed.
    Closed "closed";
}

impl fmt::Display for FailPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// There is no point of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no such fail point")]
pub struct UnknownFailPoint;

impl FromStr for FailPoint {
    type Err = UnknownFailPoint;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let mut all = Self::ALL.iter();
        all.find(|point| point.as_str() == name)
            .copied()
            .ok_or(UnknownFailPoint)
    }
}

/// Says that this step is done. Does not return where it is the one that ends the process.
#[inline]
pub(crate) fn reached(point: FailPoint) {
    #[cfg(debug_assertions)]
    armed::reached(point);
    #[cfg(not(debug_assertions))]
    let _ = point;
}

#[cfg(debug_assertions)]
pub use armed::arm;

#[cfg(debug_assertions)]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::FailPoint;

    static ARMED: OnceLock<Armed> = OnceLock::new();

    struct Armed {
        point: FailPoint,
        /// How often it has still to be reached.
        left: AtomicU32,
        end: fn(),
    }

    /// Calls `end` when the point is reached for the `nth` time, counted from 1. Once a process: what is armed stays.
    pub fn arm(point: FailPoint, nth: u32, end: fn()) {
        let left = AtomicU32::new(nth);
        // A second one has nothing to arm.
        let _ = ARMED.set(Armed { point, left, end });
    }

    pub(super) fn reached(point: FailPoint) {
        let Some(armed) = ARMED.get().filter(|armed| armed.point == point) else {
            return;
        };
        if armed.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            (armed.end)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_point_and_no_two_have_one() {
        for point in FailPoint::ALL {
            assert_eq!(point.as_str().parse(), Ok(*point));
        }
        assert_eq!("no-such-point".parse::<FailPoint>(), Err(UnknownFailPoint));
    }
}
