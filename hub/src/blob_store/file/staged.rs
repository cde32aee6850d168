//! A blob that comes in several requests: `uploads/<upload id>` holds its bytes, `uploads/<upload id>.json` the note it
//! was begun with. Stored by a second link, so that it stays staged until somebody knows that it is not needed again; a
//! file with two links is never written to.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use parler_protocol::{BundleId, UploadId};
use rustix::fs::OFlags;
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use tokio::task::JoinHandle;

use super::{BlobError, Shared, absent_or, names, write_error};
use crate::blob_store::{KeptStaged, PIECE_BYTES, StagedBlob};
use crate::fail_point::{FailPoint, reached};

/// Longest note that is read back: they are ours, so a longer one is none.
const MAX_NOTE_BYTES: u64 = 64 << 10; // 64 KiB

/// A staged blob.
pub(super) struct FileStaged {
    /// Bytes that wait to make up a piece.
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    progress: Progress,
}

/// Where the file is.
enum Progress {
    /// Nobody works on it.
    Idle(Box<PartialFile>),
    /// A blocking thread does, and gives it back.
    Busy(JoinHandle<(Box<PartialFile>, Result<(), BlobError>)>),
    /// The thread did not give it back.
    Lost,
}

struct PartialFile {
    shared: Arc<Shared>,
    id: UploadId,
    file: File,
    length: u64,
    /// Of all bytes so far. None for a file of an earlier process: it is read again when it is whole.
    hash: Option<Sha256>,
    sealed: bool,
}

impl FileStaged {
    /// Makes the files.
    pub(super) fn begin(shared: Arc<Shared>, id: UploadId, note: &[u8]) -> Result<Self, BlobError> {
        shared.check_running()?;
        let options = |path: PathBuf| {
            let mut options = File::options();
            options.read(true).write(true).create_new(true).mode(0o600);
            options.open(path).map_err(write_error)
        };
        // The note first: bytes without one are nobody's.
        options(shared.note(&id))?.write_all(note).map_err(write_error)?;
        reached(FailPoint::UploadNoted);
        let file = options(shared.part(&id))?;
        reached(FailPoint::UploadMade);
        Ok(Self::of(PartialFile {
            shared,
            id,
            file,
            length: 0,
            hash: Some(Sha256::new()),
            sealed: false,
        }))
    }

    fn of(file: PartialFile) -> Self {
        Self {
            waiting: Vec::new(),
            waiting_bytes: 0,
            progress: Progress::Idle(Box::new(file)),
        }
    }

    /// Waits for whoever works on the file. Nothing is lost when this is given up halfway.
    async fn idle(&mut self) -> Result<&mut PartialFile, BlobError> {
        if let Progress::Busy(task) = &mut self.progress {
            let done = task.await;
            self.progress = Progress::Lost;
            let (file, result) = done.map_err(io::Error::other)?;
            self.progress = Progress::Idle(file);
            result?;
        }
        match &mut self.progress {
            Progress::Idle(file) => Ok(file),
            _ => Err(io::Error::other("the thread that had the upload is gone").into()),
        }
    }

    /// Waits until the file is idle; bytes that waited behind some that could not be written do not follow any more.
    async fn ready(&mut self) -> Result<(), BlobError> {
        if let Err(error) = self.idle().await {
            self.waiting = Vec::new();
            self.waiting_bytes = 0;
            return Err(error);
        }
        Ok(())
    }

    /// Hands the file, which is idle, to a blocking thread.
    fn start(&mut self, work: impl FnOnce(&mut PartialFile) -> Result<(), BlobError> + Send + 'static) {
        if let Progress::Idle(mut file) = std::mem::replace(&mut self.progress, Progress::Lost) {
            self.progress = Progress::Busy(tokio::task::spawn_blocking(move || {
                let result = work(&mut file);
                (file, result)
            }));
        }
    }

    /// Hands what waits to a blocking thread.
    async fn flush(&mut self) -> Result<(), BlobError> {
        self.ready().await?;
        let pieces = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        self.start(move |file| pieces.iter().try_for_each(|piece| file.append(piece)));
        Ok(())
    }
}

#[async_trait]
impl StagedBlob for FileStaged {
    async fn write(&mut self, bytes: Bytes) -> Result<(), BlobError> {
        self.waiting_bytes += bytes.len();
        self.waiting.push(bytes);
        if self.waiting_bytes >= PIECE_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    async fn settle(&mut self) -> Result<u64, BlobError> {
        if !self.waiting.is_empty() {
            self.flush().await?;
        }
        self.ready().await?;
        Ok(self.idle().await?.length)
    }

    async fn publish(&mut self, id: BundleId) -> Result<(), BlobError> {
        self.settle().await?;
        self.start(move |file| file.publish(&id));
        self.ready().await
    }

    async fn remove(mut self: Box<Self>) -> Result<(), BlobError> {
        // What became of the last bytes does not matter any more.
        let _ = self.ready().await;
        self.start(|file| file.shared.remove_staged(&file.id));
        self.ready().await
    }
}

impl PartialFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        if self.sealed {
            return Err(BlobError::Sealed);
        }
        self.shared.check_running()?;
        // Set aside for the moment of writing only: an upload that stands still must not keep space from others.
        let _space = self.shared.reserve(bytes.len() as u64)?;
        if let Err(error) = self.file.write_all_at(bytes, self.length) {
            self.file.set_len(self.length)?;
            return Err(write_error(error));
        }
        self.length += bytes.len() as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(bytes);
        }
        reached(FailPoint::UploadPieceWritten);
        Ok(())
    }

    fn publish(&mut self, id: &BundleId) -> Result<(), BlobError> {
        if self.digest()? != *id {
            return Err(BlobError::Mismatch(*id));
        }
        reached(FailPoint::UploadHashed);
        self.sealed = true;
        let (shared, upload) = (&self.shared, &self.id);
        shared.publish(id, &self.file, self.length, |to| {
            // A link does not replace what is there, a rename does.
            let link = shared.temporary().join(upload.to_string());
            absent_or(std::fs::remove_file(&link))?;
            std::fs::hard_link(shared.part(upload), &link).map_err(write_error)?;
            reached(FailPoint::UploadLinked);
            std::fs::rename(&link, to).map_err(write_error)
        })
    }

    fn digest(&self) -> Result<BundleId, BlobError> {
        let hash = match &self.hash {
            Some(hash) => hash.clone(),
            None => self.hash_again()?,
        };
        Ok(BundleId::from_digest(hash.finalize().into()))
    }

    fn hash_again(&self) -> Result<Sha256, BlobError> {
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut position = 0;
        while position < self.length {
            let most = usize::try_from(self.length - position).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            self.file.read_exact_at(&mut piece[..most], position)?;
            hash.update(&piece[..most]);
            position += most as u64;
        }
        Ok(hash)
    }
}

impl Shared {
    fn part(&self, id: &UploadId) -> PathBuf {
        self.staged().join(id.to_string())
    }

    fn note(&self, id: &UploadId) -> PathBuf {
        self.staged().join(format!("{id}.json"))
    }

    fn remove_staged(&self, id: &UploadId) -> Result<(), BlobError> {
        absent_or(std::fs::remove_file(self.part(id)))?;
        reached(FailPoint::UploadBytesRemoved);
        absent_or(std::fs::remove_file(self.note(id)))?;
        reached(FailPoint::UploadRemoved);
        Ok(())
    }
}

/// What earlier processes left. A blob that was stored, and bytes or a note without the other, are removed.
pub(super) fn kept(shared: &Arc<Shared>) -> Result<Vec<KeptStaged>, BlobError> {
    let mut kept = Vec::new();
    for name in names(&shared.staged())? {
        let Ok(id) = name.strip_suffix(".json").unwrap_or(&name).parse::<UploadId>() else {
            continue;
        };
        match open(shared, id) {
            // Each has two names; the one of its bytes counts.
            Ok(Some(found)) if name == id.to_string() => kept.push(found),
            Ok(Some(_)) => {}
            Ok(None) => shared.remove_staged(&id)?,
            // Too many open files, for instance. It stays for the next process.
            Err(error) => tracing::warn!(%error, upload = %id, "an upload of before cannot be opened"),
        }
    }
    Ok(kept)
}

/// None: it is no upload that can go on.
fn open(shared: &Arc<Shared>, id: UploadId) -> io::Result<Option<KeptStaged>> {
    let open = |path: PathBuf| {
        let mut options = File::options();
        options.read(true).write(true);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        match options.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Ok(None),
            Err(error) => Err(error),
        }
    };
    let (Some(of_note), Some(file)) = (open(shared.note(&id))?, open(shared.part(&id))?) else {
        return Ok(None);
    };
    let mut note = Vec::new();
    of_note.take(MAX_NOTE_BYTES).read_to_end(&mut note)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Ok(None);
    }
    let age = metadata.modified()?.elapsed().unwrap_or_default();
    let blob = FileStaged::of(PartialFile {
        shared: Arc::clone(shared),
        id,
        file,
        length: metadata.len(),
        hash: None,
        sealed: false,
    });
    Ok(Some(KeptStaged {
        id,
        note,
        age,
        blob: Box::new(blob),
    }))
}
