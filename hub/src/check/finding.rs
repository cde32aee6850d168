//! What a check finds: of what kind it is, where, and in words. Says nothing of how to mend it.

use std::fmt;
use std::path::PathBuf;

use parler_protocol::BundleId;
use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is lost or wrong.
    Damage,
    /// Something takes space for nothing: a hub that starts removes it.
    Leftover,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// The database itself: SQLite finds fault with it, or a row refers to nothing.
    Database,
    /// A room's row does not fit its log.
    Head,
    /// A message is not there.
    Gap,
    /// A message's bytes, or the chain's, are not those that were stored.
    Chain,
    /// A message cannot be read, or its row says something else.
    Message,
    /// A message that the hub took for its signature has none that holds.
    Signature,
    /// A message refers to a blob that its room does not hold, or that is of another length.
    BlobReference,
    /// A message stands, or does not stand, among the room's pushes as its parts say.
    PushIndex,
    /// The refs are not what the log makes of them.
    Refs,
    /// Two refs cannot both exist.
    RefConflict,
    /// A service's job does not stand as the log says.
    Job,
    /// Somebody has acknowledged what is not there.
    Cursor,
    /// What makes a repetition known leads to no message.
    Idempotency,
    /// A blob's bytes are not its id's.
    BlobBytes,
    /// A blob is of another length.
    BlobSize,
    /// A blob's file is not there, or cannot be read.
    BlobMissing,
    /// A blob that no room holds, or a room's that no message brought.
    BlobUnlinked,
    /// Others may read or write what is the hub's alone.
    Permissions,
    /// A file that is nobody's blob.
    OrphanFile,
    /// What is left of something that was under way.
    Unfinished,
}

impl FindingKind {
    /// How bad it is.
    pub const fn severity(self) -> Severity {
        match self {
            Self::OrphanFile | Self::Unfinished => Severity::Leftover,
            _ => Severity::Damage,
        }
    }
}

/// What a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// The number of a message in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// The blob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<BundleId>,
    /// The file, below the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
}

impl Place {
    /// A blob.
    pub(super) fn blob(id: BundleId) -> Self {
        Self {
            blob: Some(id),
            ..Self::default()
        }
    }

    /// A file.
    pub(super) fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            file: Some(path.into()),
            ..Self::default()
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut named = Vec::new();
        named.extend(self.room.as_ref().map(|room| format!("room {}", room.escape_debug())));
        named.extend(self.message.map(|number| format!("message {number}")));
        named.extend(self.blob.map(|id| format!("blob {id}")));
        named.extend(
            self.file
                .as_ref()
                .map(|file| format!("file {}", file.display().to_string().escape_debug())),
        );
        match named.is_empty() {
            true => f.write_str("database"),
            false => f.write_str(&named.join(", ")),
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    #[serde(rename = "finding")]
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// In words.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}
