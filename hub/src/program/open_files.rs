//! How many files, and so how many connections and uploads, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the database and blobs being read and written need besides the connections.
const FILES_OF_THE_HUB: usize = 256;
/// The part of the others that uploads may have.
const UPLOADS_PART: usize = 4;

/// What the files leave room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) connections: usize,
    pub(super) uploads: usize,
}

/// Raises the number of files this process may have open as far as it may, and returns what that leaves room for.
pub(super) fn raise_limit() -> Room {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() {
        limit.maximum
    } else {
        limit.current
    };
    // No limit at all is shown as none.
    let files = current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    let files = files.saturating_sub(FILES_OF_THE_HUB);
    let uploads = files / UPLOADS_PART;
    Room {
        connections: (files - uploads).max(1),
        uploads: uploads.max(1),
    }
}
