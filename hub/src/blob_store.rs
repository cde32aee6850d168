//! Where blobs too large for the database are kept. A blob is named by the SHA-256 of its bytes, appears whole or not
//! at all, and never changes. Knows nothing of rooms: who may read a blob is the [`crate::store::Store`]'s to say.

mod file;

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use parler_protocol::{BundleId, UploadId};

pub use file::FileBlobStore;

/// Bytes of one piece of a blob that is being read, and of one write to it.
pub const PIECE_BYTES: usize = 256 << 10; // 256 KiB

/// A blob's bytes in order, in pieces of at most [`PIECE_BYTES`]. After an error nothing follows.
pub type BlobStream = Pin<Box<dyn Stream<Item = Result<Bytes, BlobError>> + Send>>;

/// Why a blob could not be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The bytes are not those of the id, or not as many as announced. Nothing was stored.
    #[error("the bytes are not those of blob {0}")]
    Mismatch(BundleId),
    /// More bytes came than were announced. Nothing was stored.
    #[error("more bytes than announced")]
    TooLong,
    /// What was staged has been stored, and takes no more bytes.
    #[error("its bytes belong to a stored blob")]
    Sealed,
    /// Too little space, or less than the store keeps free.
    #[error("no space left to store it")]
    StorageFull,
    /// A blob that was stored is gone, or is not what was stored.
    #[error("blob {0} is damaged")]
    Damaged(BundleId),
    /// The store takes no more blobs, because an earlier one may not have reached the disk.
    #[error("the blob store takes no more blobs until it is opened again")]
    Stopped,
    /// The file system failed in another way.
    #[error("the blob store failed: {0}")]
    Io(#[from] io::Error),
}

/// A keeper of large blobs.
#[async_trait]
pub trait BlobStore: Send + Sync + 'static {
    /// Begins to store a blob of `size` bytes. Refuses at once where they would not fit, or would leave less space than
    /// the store keeps free.
    async fn begin(&self, size: u64) -> Result<Box<dyn BlobUpload>, BlobError>;

    /// The length of a stored blob, or nothing where it has none of this id.
    async fn size(&self, id: &BundleId) -> Result<Option<u64>, BlobError>;

    /// Reads the bytes in `range` of a blob that is `size` bytes long. A blob that is missing or of another length is an
    /// error before the first byte; one whose end cannot be read, or that was asked for whole and does not hash to its
    /// id, is an error in place of its last piece: a reader that saw no error has every byte.
    async fn read(&self, id: &BundleId, size: u64, range: Range<u64>) -> Result<BlobStream, BlobError>;

    /// Makes an empty blob that comes in several requests, none of which need know its id or size. `note` is given back
    /// with it after a restart.
    async fn stage(&self, id: UploadId, note: &[u8]) -> Result<Box<dyn StagedBlob>, BlobError>;

    /// What was staged before the store was opened. Asked for once, when [`BlobStore::remove`] has removed what nobody
    /// knows: what is stored and known by then is staged no longer.
    async fn staged(&self) -> Result<Vec<KeptStaged>, BlobError>;

    /// First bytes that the id of a stored blob may have, ascending; for no other is there one.
    async fn first_bytes(&self) -> Result<Vec<u8>, BlobError>;

    /// The stored blobs whose ids begin with this byte.
    async fn list(&self, first_byte: u8) -> Result<Vec<BundleId>, BlobError>;

    /// Removes a stored blob. Nobody may be reading or storing it.
    async fn remove(&self, id: &BundleId) -> Result<(), BlobError>;

    /// Removes a stored blob that nothing refers to any more, while others may be reading or storing it: who reads it reads
    /// on, and one that was stored again lately stays, since something may be about to refer to it.
    async fn retire(&self, id: &BundleId) -> Result<(), BlobError>;
}

/// A staged blob that outlived the process it was begun in.
pub struct KeptStaged {
    /// Its name.
    pub id: UploadId,
    /// What it was begun with.
    pub note: Vec<u8>,
    /// How long ago it last grew.
    pub age: Duration,
    /// The blob.
    pub blob: Box<dyn StagedBlob>,
}

/// A blob that grows over several requests. It outlives the process; how much of it a power failure leaves nobody
/// promises, but nothing is ever stored under an id that it does not hash to. A future that is dropped before it was
/// ready loses nothing that was taken.
#[async_trait]
pub trait StagedBlob: Send {
    /// Takes the next bytes. Space is looked for as they come. After an error it holds what it held before some of the
    /// last bytes, and may be written to again.
    async fn write(&mut self, bytes: Bytes) -> Result<(), BlobError>;

    /// Waits until all that was taken is in its place, and says how many bytes there are.
    async fn settle(&mut self) -> Result<u64, BlobError>;

    /// Makes the bytes durable as the blob of this id, if they hash to it; from then on it takes no more of them. It
    /// stays staged until it is removed, and so can be published again.
    async fn publish(&mut self, id: BundleId) -> Result<(), BlobError>;

    /// Removes what is staged. What was published stays.
    async fn remove(self: Box<Self>) -> Result<(), BlobError>;
}

/// A blob that is being stored. Dropped before [`BlobUpload::commit`], it leaves nothing behind.
#[async_trait]
pub trait BlobUpload: Send {
    /// Takes the next bytes, any number of them. Fails as soon as they are more than announced. After an error, or when
    /// the future was dropped before it was ready, the upload is of no more use.
    async fn write(&mut self, bytes: Bytes) -> Result<(), BlobError>;

    /// Makes the blob durable under its id, if the bytes are its and as many as announced. A blob that is there already
    /// stays as it is.
    async fn commit(self: Box<Self>, id: BundleId) -> Result<(), BlobError>;
}
