//! Every cap of the wire, with its unit. A hub may be configured below these, never above.

use std::time::Duration;

/// Longest room name.
pub const MAX_ROOM_NAME_BYTES: usize = 64;
/// Longest agent name or role.
pub const MAX_AGENT_NAME_BYTES: usize = 128;
/// Longest status text of an agent.
pub const MAX_STATUS_BYTES: usize = 200;
/// Longest name of a token.
pub const MAX_TOKEN_NAME_BYTES: usize = 64;
/// Longest name of a service: its room's is `svc.` and that.
pub const MAX_SERVICE_NAME_BYTES: usize = MAX_ROOM_NAME_BYTES - 4;
/// Longest ref name: git can have none that is longer, because each may have to be a file.
pub const MAX_REF_NAME_BYTES: usize = 4096;

/// Largest message: the JSON that is posted, without bundle bytes.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20; // 1 MiB
/// Deepest nesting of arrays and objects in a message.
pub const MAX_JSON_DEPTH: usize = 16;
/// Most parts in one message.
pub const MAX_PARTS: usize = 256;
/// Most names a message may mention.
pub const MAX_MENTIONS: usize = 256;
/// Longest idempotency key.
pub const MAX_IDEMPOTENCY_KEY_BYTES: usize = 256;
/// How long a repeated key gives the first answer.
pub const IDEMPOTENCY_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Most findings of one review.
pub const MAX_FINDINGS: usize = 1000;
/// Longest text of a finding, and longest summary of a review.
pub const MAX_REVIEW_TEXT_BYTES: usize = 4096;
/// Longest context of a commit's status.
pub const MAX_CONTEXT_BYTES: usize = 128;
/// Longest name of a finding's rule.
pub const MAX_RULE_BYTES: usize = 256;
/// Longest fingerprint of a finding.
pub const MAX_FINGERPRINT_BYTES: usize = 128;
/// Longest path of a finding.
pub const MAX_TREE_PATH_BYTES: usize = 4096;
/// Longest id of a repository.
pub const MAX_REPOSITORY_ID_BYTES: usize = 512;
/// Longest address of a run.
pub const MAX_RUN_URL_BYTES: usize = 2048;

/// Most refs one message may move, and most refs of one bundle.
pub const MAX_REF_UPDATES: usize = 10_000;
/// Most prerequisites of one bundle.
pub const MAX_PREREQUISITES: usize = 10_000;
/// Most bundles that one bundle may name as holding its prerequisites.
pub const MAX_NEEDS: usize = 1024;
/// Largest bundle header: everything before the pack.
pub const MAX_BUNDLE_HEADER_BYTES: usize = 2 << 20; // 2 MiB

/// Largest blob unless the hub is configured otherwise.
pub const MAX_BLOB_BYTES: u64 = 8 << 30; // 8 GiB
/// Blobs up to this size are stored in the database, in the message's own transaction.
pub const INLINE_BLOB_BYTES: u64 = 64 << 10; // 64 KiB
/// Uploads that one agent may have under way at once.
pub const MAX_UPLOADS: usize = 16;
/// Bytes that the uploads of one agent may have together, those included that they have announced.
pub const MAX_UPLOAD_BYTES: u64 = 2 * MAX_BLOB_BYTES;
/// How long an upload is kept after its last byte.
pub const UPLOAD_TTL: Duration = Duration::from_secs(24 * 3600);
/// Most bundles asked for in one request.
pub const MAX_BUNDLES_PER_REQUEST: usize = 10_000;
/// Most bundles asked for in a query: with more of them proxies refuse the URL (64 ids are 4 KiB).
pub const MAX_BUNDLES_PER_QUERY: usize = 64;

/// Messages of one page when the reader names no limit.
pub const DEFAULT_PAGE_MESSAGES: u32 = 200;
/// Most messages of one page.
pub const MAX_PAGE_MESSAGES: u32 = 1000;
/// A page ends early when it passes this size.
pub const MAX_PAGE_BYTES: usize = 4 << 20; // 4 MiB
/// An answer with pushes ends when it passes this size, and says that more follow. A push takes about 2 KB, and 150 bytes
/// more for each further ref: a room of 2,000 pushes and 5,000 refs is one answer.
pub const MAX_PUSHES_BYTES: usize = 8 << 20; // 8 MiB
/// Longest a reader may ask a page to wait for a new message.
pub const MAX_WAIT: Duration = Duration::from_secs(55);
/// Longest silence of a stream: a comment breaks it.
pub const STREAM_HEARTBEAT: Duration = Duration::from_secs(15);
/// After so long without a byte a stream is lost.
pub const STREAM_LOST: Duration = Duration::from_secs(45);

/// How long a claimed job is its worker's when that names no time.
pub const DEFAULT_LEASE: Duration = Duration::from_secs(300);
/// Shortest time for which a job can be claimed.
pub const MIN_LEASE: Duration = Duration::from_secs(15);
/// How long a claimed job stays its worker's at least when a hub begins to serve: while it was away nobody could renew.
pub const RESTART_LEASE: Duration = Duration::from_secs(60);
/// Longest time for which a job can be claimed at once.
pub const MAX_LEASE: Duration = Duration::from_secs(3600);
/// How many may take a job and never be heard of again, before nobody else is offered it.
pub const MAX_JOB_ATTEMPTS: u32 = 3;
/// Most jobs that stand above a job: one that a service asked for while it worked on one, and so on.
pub const MAX_JOB_DEPTH: u32 = 3;

/// How long a session token lives.
pub const SESSION_TTL: Duration = Duration::from_secs(24 * 3600);
/// How long a challenge may be answered.
pub const CHALLENGE_TTL: Duration = Duration::from_secs(60);
/// How long an invite lives when its maker names no time.
pub const DEFAULT_INVITE_TTL: Duration = Duration::from_secs(24 * 3600);
/// Longest an invite may live.
pub const MAX_INVITE_TTL: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a token lives when its maker names no time.
pub const DEFAULT_TOKEN_TTL: Duration = Duration::from_secs(30 * 24 * 3600);
/// Longest a token may live.
pub const MAX_TOKEN_TTL: Duration = Duration::from_secs(365 * 24 * 3600);
/// Longest for which a status or a handoff may hold.
pub const MAX_WORD_TTL: Duration = Duration::from_secs(365 * 24 * 3600);
/// How far two clocks may be apart before what one says of a time is in doubt.
pub const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);
/// Largest identity token of a CI job.
pub const MAX_IDENTITY_TOKEN_BYTES: usize = 16 << 10; // 16 KiB
/// How long a token lives that a job gets for its identity token, where the rule names no time.
pub const DEFAULT_OIDC_TOKEN_TTL: Duration = Duration::from_secs(15 * 60);
/// Longest such a token may live.
pub const MAX_OIDC_TOKEN_TTL: Duration = Duration::from_secs(3600);
/// Most rooms one token is for.
pub const MAX_TOKEN_ROOMS: usize = 64;
/// How often an invite may be used when its maker names no number.
pub const DEFAULT_INVITE_USES: u32 = 50;
