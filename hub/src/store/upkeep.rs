//! What the hub's upkeep asks of the store and gives up: as whole rooms, of nobody's membership.

use bytes::Bytes;
use parler_protocol::{BundleId, RoomName, Seq};

/// How far a room has come, for whoever looks again later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomMark {
    /// The room.
    pub room: RoomName,
    /// When it was made, milliseconds since 1970: another of the same name may follow it.
    pub made_at: i64,
    /// Its newest message.
    pub head: Seq,
    /// Its newest message with refs or a bundle.
    pub newest_push: Seq,
}

/// A message of a log, as upkeep sees it.
#[derive(Debug, Clone)]
pub struct SlicedMessage {
    /// As stored: the message, or what stands in its place.
    pub stored: Bytes,
    /// When its content was given up, milliseconds since 1970.
    pub dropped_at: Option<i64>,
}

/// Messages that were given up in one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedMessages {
    /// How many.
    pub messages: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Up to here was looked, where there may be more.
    pub next: Option<Seq>,
}

/// Blobs to be given up in one step.
#[derive(Debug, Clone)]
pub struct BlobDrop {
    /// The room.
    pub room: RoomName,
    /// When that was made, milliseconds since 1970: another of the same name is none of this one's business.
    pub made_at: i64,
    /// Which.
    pub ids: Vec<BundleId>,
    /// Only those that came with messages up to here.
    pub up_to: Seq,
    /// How far the log reached when it was decided that they are not needed.
    pub as_of: Seq,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// Blobs that were given up in one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DroppedBlobs {
    /// How many.
    pub blobs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those of them whose files no room needs any more.
    pub files: Vec<BundleId>,
}
