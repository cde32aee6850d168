//! Blobs as files: `ab/<64 hex digits>` below one directory, `ab` being the first two of the digits. Written to `tmp/`
//! first, so that whatever has a blob's name is that blob; or to `uploads/`, where what comes in several requests waits
//! to be whole. Makes no path from text of others.

mod read;
mod staged;
mod upload;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use parler_protocol::{BundleId, UploadId};

use super::{BlobError, BlobStore, BlobStream, BlobUpload, KeptStaged, StagedBlob};
use crate::directory::sync_directory;
use crate::disk_space::{DiskSpace, FreeFloor};
use crate::fail_point::{FailPoint, reached};

/// Where uploads are written before they have a name.
const TEMPORARY_DIRECTORY: &str = "tmp";
/// Where blobs that come in several requests wait.
const STAGED_DIRECTORY: &str = "uploads";
/// Part of the disk that stays free unless told otherwise, in percent.
const FREE_FLOOR_PERCENT: u8 = 5;
/// After so long whatever was about to refer to a blob that was stored has done so.
const LATELY: Duration = Duration::from_secs(600); // 10 min
/// So many blobs that were stored are remembered before those of long ago are forgotten.
const MANY_STORED: usize = 1024;
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
    free_floor: FreeFloor,
    /// Bytes that running uploads may still write.
    reserved: AtomicU64,
    /// Taken while a first-level directory is synced. Inside: whether its own entry is known to be on disk.
    fan_out_entries: [Mutex<bool>; FAN_OUT],
    /// Taken while `directory` is synced.
    directory_turn: Mutex<()>,
    /// Taken while its parent is. Inside: whether the entry of `directory` is known to be on disk.
    entry: Mutex<bool>,
    /// Set when an fsync failed: nobody knows any more what the disk holds of it, and asking again would be answered
    /// wrongly with yes.
    stopped: AtomicBool,
    /// Blobs that were stored in this run, with when: something may be about to refer to them.
    stored_lately: Mutex<HashMap<BundleId, Instant>>,
}

impl FileBlobStore {
    /// Opens the store in `directory`, which is made if need be, and removes what uploads left there that a crash cut
    /// off. The caller sees to it that one process only has it open: `SqliteStore` holds the lock of the data
    /// directory.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        Self::open_with_floor(directory, FREE_FLOOR_PERCENT)
    }

    /// Like [`FileBlobStore::open`], keeping `free_floor` percent of the disk free.
    pub fn open_with_floor(directory: impl Into<PathBuf>, free_floor: u8) -> io::Result<Self> {
        let directory = directory.into();
        make_directory(&directory)?;
        let temporary = directory.join(TEMPORARY_DIRECTORY);
        make_directory(&temporary)?;
        make_directory(&directory.join(STAGED_DIRECTORY))?;
        for entry in std::fs::read_dir(&temporary)? {
            std::fs::remove_file(entry?.path())?;
        }
        reached(FailPoint::BlobsOpened);
        Ok(Self::of(directory, FreeFloor::percent(free_floor)))
    }

    /// The store in `directory`, to be looked at: nothing is made or removed, and there need be nothing. Another process may
    /// have it open.
    pub(crate) fn look(directory: impl Into<PathBuf>) -> Self {
        Self::of(directory.into(), FreeFloor::default())
    }

    fn of(directory: PathBuf, free_floor: FreeFloor) -> Self {
        Self {
            shared: Arc::new(Shared {
                directory,
                free_floor,
                reserved: AtomicU64::new(0),
                fan_out_entries: [const { Mutex::new(false) }; FAN_OUT],
                directory_turn: Mutex::new(()),
                entry: Mutex::new(false),
                stopped: AtomicBool::new(false),
                stored_lately: Mutex::default(),
            }),
        }
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

    async fn stage(&self, id: UploadId, note: &[u8]) -> Result<Box<dyn StagedBlob>, BlobError> {
        let (shared, note) = (Arc::clone(&self.shared), note.to_vec());
        let staged = blocking(move || staged::FileStaged::begin(shared, id, &note)).await?;
        Ok(Box::new(staged))
    }

    async fn staged(&self) -> Result<Vec<KeptStaged>, BlobError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || staged::kept(&shared)).await
    }

    async fn first_bytes(&self) -> Result<Vec<u8>, BlobError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let mut bytes: Vec<u8> = names(&shared.directory)?
                .iter()
                .filter_map(|name| HEXLOWER.decode(name.as_bytes()).ok()?.try_into().ok())
                .map(|[byte]: [u8; 1]| byte)
                .collect();
            bytes.sort_unstable();
            Ok(bytes)
        })
        .await
    }

    async fn list(&self, first_byte: u8) -> Result<Vec<BundleId>, BlobError> {
        let shared = Arc::clone(&self.shared);
        blocking(move || {
            let names = names(&shared.fan_out_of(first_byte))?;
            let ids = names.iter().filter_map(|name| name.parse().ok());
            Ok(ids.filter(|id: &BundleId| id.as_bytes()[0] == first_byte).collect())
        })
        .await
    }

    async fn remove(&self, id: &BundleId) -> Result<(), BlobError> {
        let path = self.shared.path(id);
        blocking(move || absent_or(std::fs::remove_file(path))).await
    }

    async fn retire(&self, id: &BundleId) -> Result<(), BlobError> {
        let (shared, id) = (Arc::clone(&self.shared), *id);
        blocking(move || {
            // Held over the removal: whoever stores the blob notes that before it looks whether there is a file.
            let stored = shared.stored_lately();
            match stored.get(&id).is_some_and(|when| when.elapsed() < LATELY) {
                true => Ok(()),
                false => absent_or(std::fs::remove_file(shared.path(&id))),
            }
        })
        .await
    }
}

impl Shared {
    fn fan_out(&self, id: &BundleId) -> PathBuf {
        self.fan_out_of(id.as_bytes()[0])
    }

    fn fan_out_of(&self, first_byte: u8) -> PathBuf {
        self.directory.join(format!("{first_byte:02x}"))
    }

    fn path(&self, id: &BundleId) -> PathBuf {
        self.fan_out(id).join(id.to_string())
    }

    fn temporary(&self) -> PathBuf {
        self.directory.join(TEMPORARY_DIRECTORY)
    }

    fn staged(&self) -> PathBuf {
        self.directory.join(STAGED_DIRECTORY)
    }

    /// File to disk, name to file, directory to disk: in this order a crash leaves no name without its bytes, and the
    /// answer promises both. `place` gives the file its name, over whatever has it: a shorter file, or an equal one that
    /// another upload of the same bytes put there meanwhile.
    fn publish(
        &self,
        id: &BundleId,
        file: &File,
        size: u64,
        place: impl FnOnce(&Path) -> Result<(), BlobError>,
    ) -> Result<(), BlobError> {
        self.check_running()?;
        self.note_stored(*id);
        let fan_out = self.fan_out(id);
        make_directory(&fan_out).map_err(write_error)?;
        if self.size(id)? != Some(size) {
            self.synced(file.sync_all())?;
            reached(FailPoint::BlobSynced);
            place(&self.path(id))?;
            reached(FailPoint::BlobNamed);
        }
        let entry = &self.fan_out_entries[usize::from(id.as_bytes()[0])];
        let mut has_entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        self.sync_in_turn(&fan_out)?;
        reached(FailPoint::BlobDirectorySynced);
        if !*has_entry {
            let _turn = self.directory_turn.lock().unwrap_or_else(PoisonError::into_inner);
            self.sync_in_turn(&self.directory)?;
            *has_entry = true;
        }
        drop(has_entry);
        // With the first blob, not when the store is opened: most starts bring none, and each sync waits for the disk.
        let mut has_entry = self.entry.lock().unwrap_or_else(PoisonError::into_inner);
        if !*has_entry {
            if let Some(parent) = self.directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                self.sync_in_turn(parent)?;
            }
            *has_entry = true;
        }
        drop(has_entry);
        reached(FailPoint::BlobDurable);
        Ok(())
    }

    fn stored_lately(&self) -> MutexGuard<'_, HashMap<BundleId, Instant>> {
        self.stored_lately.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the blob is not removed behind the back of whoever stores it.
    fn note_stored(&self, id: BundleId) {
        let mut stored = self.stored_lately();
        if stored.len() >= MANY_STORED {
            stored.retain(|_, when| when.elapsed() < LATELY);
        }
        stored.insert(id, Instant::now());
    }

    fn check_running(&self) -> Result<(), BlobError> {
        if self.stopped.load(Ordering::Acquire) {
            Err(BlobError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Syncs a directory whose lock is held: of two at one time the second could be told that all is well after the first
    /// was told otherwise, and before anybody knew.
    fn sync_in_turn(&self, directory: &Path) -> Result<(), BlobError> {
        self.check_running()?;
        self.synced(sync_directory(directory))
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
        let disk = DiskSpace::at(&self.directory)?;
        let reservation = Reservation {
            shared: Arc::clone(self),
            left: size,
        };
        let reserved = self.reserved.fetch_add(size, Ordering::AcqRel).saturating_add(size);
        if disk.has_room(reserved, self.free_floor) {
            Ok(reservation)
        } else {
            Err(BlobError::StorageFull)
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

/// The names in a directory, those left out that are no text; none where there is no directory.
fn names(directory: &Path) -> Result<Vec<String>, BlobError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

/// What came of removing something that may be gone already.
fn absent_or(removed: io::Result<()>) -> Result<(), BlobError> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => Ok(removed?),
    }
}

/// A write that failed for want of space is told apart, because it may succeed later.
fn write_error(error: io::Error) -> BlobError {
    // By its kind: what makes a temporary file tells no number of the system.
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            BlobError::StorageFull
        }
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
