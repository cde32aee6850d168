//! A file whose lock one process holds at a time, waited for as long as its caller has patience. The lock goes with the
//! process, however that ends; the file stays.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between two looks whether another process is done.
const PAUSE: Duration = Duration::from_millis(2);

/// Locks the file at `path`, which is made where there is none, until what is returned is dropped. Fails with
/// [`io::ErrorKind::WouldBlock`] where another process holds the lock for longer than `patience`.
pub(crate) fn take(path: &Path, patience: Duration) -> io::Result<File> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}
