//! Caps and patience of a hub. The defaults are right for a small machine; `docs/operating.md` tells when to change one.

use std::time::Duration;

use parler_protocol::limits;

/// Caps and patience of one hub.
#[derive(Debug, Clone)]
pub struct HubLimits {
    /// Connections open at once; further ones wait to be accepted.
    pub max_connections: usize,
    /// Largest blob, bytes.
    pub max_blob_bytes: u64,
    /// Part of the disk that stays free, in percent: blobs in files stop there, messages and small blobs there or at
    /// 1 GiB, whichever is less.
    pub free_floor_percent: u8,
    /// How long a session lives.
    pub session_ttl: Duration,
    /// How long a client may take over a request's head. Also ends a connection that idles between requests.
    pub header_timeout: Duration,
    /// Longest silence inside a request's body, and longest an answer may wait for its reader.
    pub stall_timeout: Duration,
    /// Slowest a body may come once [`HubLimits::body_grace`] is over, bytes a second.
    pub min_body_rate: u64,
    /// How long a body may come slower than [`HubLimits::min_body_rate`].
    pub body_grace: Duration,
    /// Uploads that one agent may have under way at once.
    pub max_uploads: usize,
    /// Uploads that all agents together may have under way: each is an open file.
    pub max_uploads_of_all: usize,
    /// Bytes that the uploads of one agent may have together, those included that they have announced.
    pub max_upload_bytes: u64,
    /// How long an upload is kept after its last byte.
    pub upload_ttl: Duration,
    /// An answer with pushes ends when it passes this many bytes.
    pub pushes_bytes: usize,
    /// Streams that one agent may have open at once.
    pub max_streams: usize,
    /// Longest silence of a stream.
    pub heartbeat: Duration,
    /// How long a stream lives: then it has to be opened again, with a session that still counts.
    pub stream_ttl: Duration,
    /// How long requests in flight get to finish when the hub stops.
    pub drain_timeout: Duration,
    /// Session proofs and invite codes accepted at once from one address that is not of this machine.
    pub proof_burst: u32,
    /// How many more of them a minute.
    pub proofs_per_minute: u32,
}

impl Default for HubLimits {
    fn default() -> Self {
        Self {
            max_connections: 10_000,
            max_blob_bytes: limits::MAX_BLOB_BYTES,
            free_floor_percent: 5,
            session_ttl: limits::SESSION_TTL,
            header_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
            min_body_rate: 16 << 10, // 16 KiB/s
            body_grace: Duration::from_secs(10),
            max_uploads: limits::MAX_UPLOADS,
            max_uploads_of_all: 10_000,
            max_upload_bytes: limits::MAX_UPLOAD_BYTES,
            upload_ttl: limits::UPLOAD_TTL,
            pushes_bytes: limits::MAX_PUSHES_BYTES,
            max_streams: 64,
            heartbeat: limits::STREAM_HEARTBEAT,
            stream_ttl: Duration::from_secs(3600), // 1 h
            drain_timeout: Duration::from_secs(10),
            proof_burst: 30,
            proofs_per_minute: 30,
        }
    }
}
