//! How many files, and so how many connections, this process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the database and blobs being read and written need besides the connections.
const FILES_OF_THE_HUB: usize = 256;

/// Raises the number of files this process may have open as far as it may, and returns how many connections that leaves
/// room for.
pub(super) fn raise_limit() -> usize {
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
    files.saturating_sub(FILES_OF_THE_HUB).max(1)
}
