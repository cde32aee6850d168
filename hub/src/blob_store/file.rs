//! Blobs as files: `ab/<64 hex digits>` below one directory, `ab` being the first two of the digits. Written to `tmp/`
//! first, so that whatever has a blob's name is that blob. Makes no path from text of others.

mod read;
mod upload;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use parler_protocol::BundleId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{BlobError, BlobStore, BlobStream, BlobUpload};

/// Where uploads are written before they have a name.
const TEMPORARY_DIRECTORY: &str = "tmp";
/// Part of the disk that stays free, in percent.
const FREE_FLOOR_PERCENT: u64 = 5;
/// First-level directories there can be: one for each first byte of an id.
const FAN_OUT: usize = 256;

/// A [`BlobStore`] in a directory of its own.
#[derive(Debug, Clone)]
pub struct FileBlobStore {
    shared: Arc<Shared>,
}

/// What uploads and readers share with the store.
#[derive(Debug)]
struct Shared {
    directory: PathBuf,
    /// In percent of the disk.
    free_floor: u64,
    /// Bytes that running uploads may still write.
    reserved: AtomicU64,
    /// Whether the entry of a first-level directory is known to be on disk.
    fan_out_synced: [AtomicBool; FAN_OUT],
    /// Set when an fsync failed: nobody knows any more what the disk holds of it, and asking again would be answered
    /// wrongly with yes.
    stopped: AtomicBool,
}

impl FileBlobStore {
    /// Opens the store in `directory`, which is made if need be, and removes what uploads left there that a crash cut
    /// off. The caller sees to it that one process only has it open: `SqliteStore` holds the lock of the data
    /// directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        Self::open_with_floor(directory, FREE_FLOOR_PERCENT)
    }

    /// Like [`FileBlobStore::open`], keeping `free_floor` percent of the disk free.
    pub fn open_with_floor(directory: impl Into<PathBuf>, free_floor: u64) -> io::Result<Self> {
        let directory = directory.into();
        make_directory(&directory)?;
        let temporary = directory.join(TEMPORARY_DIRECTORY);
        make_directory(&temporary)?;
        for entry in std::fs::read_dir(&temporary)? {
            std::fs::remove_file(entry?.path())?;
        }
        sync_directory(&directory)?;
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
        Ok(Self {
            shared: Arc::new(Shared {
                directory,
                free_floor,
                reserved: AtomicU64::new(0),
                fan_out_synced: [const { AtomicBool::new(false) }; FAN_OUT],
                stopped: AtomicBool::new(false),
            }),
        })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }
}

#[async_trait]
impl BlobStore for FileBlobStore {
    async fn begin(&self, size: u64) -> Result<Box<dyn BlobUpload>, BlobError> {
        let shared = Arc::clone(&self.shared);
        let upload = blocking(move || upload::FileUpload::begin(shared, size)).await?;
        Ok(Box::new(upload))
    }

    async fn size(&self, id: &BundleId) -> Result<Option<u64>, BlobError> {
        let (shared, id) = (Arc::clone(&self.shared), *id);
        blocking(move || shared.size(&id)).await
    }

    async fn read(&self, id: &BundleId, size: u64, range: std::ops::Range<u64>) -> Result<BlobStream, BlobError> {
        read::open(Arc::clone(&self.shared), *id, size, range).await
    }
}

impl Shared {
    fn fan_out(&self, id: &BundleId) -> PathBuf {
        self.directory.join(format!("{:02x}", id.as_bytes()[0]))
    }

    fn path(&self, id: &BundleId) -> PathBuf {
        self.fan_out(id).join(id.to_string())
    }

    fn temporary(&self) -> PathBuf {
        self.directory.join(TEMPORARY_DIRECTORY)
    }

    fn check_running(&self) -> Result<(), BlobError> {
        if self.stopped.load(Ordering::Acquire) {
            Err(BlobError::Stopped)
        } else {
            Ok(())
        }
    }

    /// What became of an fsync; after one that failed the store takes nothing more, and says so at once.
    fn synced(&self, result: io::Result<()>) -> Result<(), BlobError> {
        result.map_err(|_| {
            self.stopped.store(true, Ordering::Release);
            BlobError::Stopped
        })
    }

    fn size(&self, id: &BundleId) -> Result<Option<u64>, BlobError> {
        match std::fs::symlink_metadata(self.path(id)) {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata.len())),
            Ok(_) => Err(BlobError::Damaged(*id)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sets `size` bytes aside, unless they would cut into the space that stays free.
    fn reserve(self: &Arc<Self>, size: u64) -> Result<Reservation, BlobError> {
        let disk = rustix::fs::statvfs(&self.directory).map_err(io::Error::from)?;
        let floor = u128::from(disk.f_blocks) * u128::from(disk.f_frsize) * u128::from(self.free_floor) / 100;
        let available = u128::from(disk.f_bavail) * u128::from(disk.f_frsize);
        let reservation = Reservation {
            shared: Arc::clone(self),
            left: size,
        };
        let reserved = self.reserved.fetch_add(size, Ordering::AcqRel).saturating_add(size);
        if available < floor + u128::from(reserved) {
            Err(BlobError::StorageFull)
        } else {
            Ok(reservation)
        }
    }
}

/// Space set aside for an upload, given back when dropped.
#[derive(Debug)]
struct Reservation {
    shared: Arc<Shared>,
    /// Bytes not written yet.
    left: u64,
}

impl Reservation {
    /// Bytes that are on the disk count as used space from now on.
    fn written(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.shared.reserved.fetch_sub(bytes, Ordering::AcqRel);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.written(self.left);
    }
}

/// Makes a directory that only its owner can enter, unless it is there.
fn make_directory(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::fsync(directory)?;
    Ok(())
}

/// A write that failed for want of space is told apart, because it may succeed later.
fn write_error(error: io::Error) -> BlobError {
    match Errno::from_io_error(&error) {
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => BlobError::StorageFull,
        _ => BlobError::Io(error),
    }
}

/// Runs work on the disk where it may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|error| Err(BlobError::Io(io::Error::other(error))))
}
