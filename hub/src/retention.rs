//! Content that a hub gives up when it is old enough: bodies of messages that nobody builds on, whose notes stay in the log,
//! and blobs that no live ref needs. Never a message with refs, a bundle, a handoff or word of a task; what cannot be
//! decided is kept. Works in small steps, so that messages that come meanwhile do not wait.

mod needed;
mod old_messages;

use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_protocol::{BundleId, Message, RoomName, Seq};
use serde::Serialize;

use self::needed::Scan;
pub(crate) use self::old_messages::{Age, age};
use crate::blob_store::{BlobError, BlobStore, FileBlobStore};
use crate::clock::Clock;
use crate::hub::BLOBS_DIRECTORY;
use crate::state::SharedState;
use crate::store::{BlobDrop, OpenError, SqliteOptions, SqliteStore, Store, StoreError};

/// Blobs that are given up in one transaction, at most.
const BLOBS_AT_ONCE: usize = 64;
/// Longest time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600); // 6 h
/// Shortest.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Looks in the time that content is kept.
const LOOKS: u32 = 4;

/// How long content is kept. None: for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionOptions {
    /// Bodies of messages.
    pub messages: Option<Duration>,
    /// Blobs.
    pub blobs: Option<Duration>,
}

/// What was given up, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetentionSummary {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub message_bytes: u64,
    /// Blobs, once for each room that held them.
    pub blobs: u64,
    /// Their bytes.
    pub blob_bytes: u64,
    /// Rooms whose blobs are all kept, because what is needed of them cannot be decided.
    pub undecided_rooms: u64,
}

/// Why content was not given up.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// No hub has its data there.
    #[error("{} is no hub's data directory: it has no hub.db", .0.display())]
    NoHub(PathBuf),
    /// A hub runs there, or the data cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The blobs cannot be opened.
    #[error("cannot open the blobs: {0}")]
    Blobs(std::io::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The blob store failed.
    #[error(transparent)]
    Blob(#[from] BlobError),
}

/// Gives up, in the data of a stopped hub, what is older than these times, or says what would be.
pub async fn prune(data_dir: &Path, options: &RetentionOptions, dry_run: bool) -> Result<RetentionSummary, PruneError> {
    if !data_dir.join("hub.db").is_file() {
        return Err(PruneError::NoHub(data_dir.to_owned()));
    }
    let store = SqliteStore::open(data_dir, SqliteOptions::default())?;
    let blobs = FileBlobStore::open(data_dir.join(BLOBS_DIRECTORY)).map_err(PruneError::Blobs)?;
    let summary = look(&store, &blobs, options, Clock::system().now_ms(), dry_run).await;
    store.close().await?;
    summary
}

/// Gives up what has become old enough, again and again until the hub stops.
pub(crate) async fn run(state: SharedState) {
    let options = state.options.retention;
    let Some(shortest) = options.messages.into_iter().chain(options.blobs).min() else {
        return;
    };
    let pause = (shortest / LOOKS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    loop {
        let looked = tokio::select! {
            looked = look(&*state.store, &*state.blobs, &options, state.now_ms(), false) => looked,
            () = state.stopping() => return,
        };
        match looked {
            Ok(summary) if summary.messages + summary.blobs > 0 => tracing::info!(
                messages = summary.messages,
                message_bytes = summary.message_bytes,
                blobs = summary.blobs,
                blob_bytes = summary.blob_bytes,
                "content that was old enough is no longer kept"
            ),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "content that is old enough cannot be given up"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = state.stopping() => return,
        }
    }
}

/// Looks through all rooms once.
async fn look(
    store: &dyn Store,
    blobs: &dyn BlobStore,
    options: &RetentionOptions,
    now: i64,
    dry_run: bool,
) -> Result<RetentionSummary, PruneError> {
    let before = |kept: Duration| now.saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
    let mut summary = RetentionSummary::default();
    // A room may be deleted meanwhile.
    let unless_deleted = |looked| match looked {
        Err(PruneError::Store(StoreError::NotFound)) => Ok(()),
        looked => looked,
    };
    for room in store.all_rooms().await? {
        if let Some(kept) = options.blobs {
            let looked = look_at_blobs(store, blobs, &room, before(kept), now, dry_run, &mut summary).await;
            unless_deleted(looked)?;
        }
        if let Some(kept) = options.messages {
            unless_deleted(look_at_messages(store, &room, before(kept), now, dry_run, &mut summary).await)?;
        }
    }
    Ok(summary)
}

async fn look_at_messages(
    store: &dyn Store,
    room: &RoomName,
    before: i64,
    now: i64,
    dry_run: bool,
    summary: &mut RetentionSummary,
) -> Result<(), PruneError> {
    let mut from = None;
    loop {
        let dropped = store
            .drop_messages(room, before, now, from.filter(|_| dry_run), dry_run)
            .await?;
        summary.messages += dropped.messages;
        summary.message_bytes += dropped.bytes;
        match dropped.next {
            Some(next) => from = Some(next),
            None => return Ok(()),
        }
    }
}

async fn look_at_blobs(
    store: &dyn Store,
    blobs: &dyn BlobStore,
    room: &RoomName,
    before: i64,
    now: i64,
    dry_run: bool,
    summary: &mut RetentionSummary,
) -> Result<(), PruneError> {
    if store
        .held_blobs(room, Seq::new(i64::MAX as u64), None)
        .await?
        .is_empty()
    {
        return Ok(());
    }
    let Some((needed, old_up_to, as_of)) = scan(store, room, before).await? else {
        summary.undecided_rooms += 1;
        return Ok(());
    };
    let mut after: Option<BundleId> = None;
    loop {
        let held = store.held_blobs(room, old_up_to, after).await?;
        let Some((last, _)) = held.last() else { return Ok(()) };
        after = Some(*last);
        let old: Vec<_> = held.into_iter().filter(|(id, _)| !needed.contains(id)).collect();
        for some in old.chunks(BLOBS_AT_ONCE) {
            if dry_run {
                summary.blobs += some.len() as u64;
                summary.blob_bytes += some.iter().map(|(_, size)| size).sum::<u64>();
                continue;
            }
            let drop = BlobDrop {
                room: room.clone(),
                ids: some.iter().map(|(id, _)| *id).collect(),
                up_to: old_up_to,
                as_of,
                now,
            };
            let Some(dropped) = store.drop_blobs(drop).await? else {
                // Somebody pushed meanwhile: what is needed is decided anew at the next look.
                return Ok(());
            };
            summary.blobs += dropped.blobs;
            summary.blob_bytes += dropped.bytes;
            // Their rows are gone. Whoever is killed here leaves files that the next start removes.
            for id in &dropped.files {
                blobs.retire(id).await?;
            }
        }
    }
}

/// Reads a room's log: which blobs are needed, the newest message that is old, and how far it was read. None: it cannot
/// be decided.
async fn scan(
    store: &dyn Store,
    room: &RoomName,
    before: i64,
) -> Result<Option<(std::collections::HashSet<BundleId>, Seq, Seq)>, PruneError> {
    let (mut scan, mut old_up_to, mut after) = (Scan::default(), Seq::ZERO, Seq::ZERO);
    loop {
        let slice = store.log_slice(room, after).await?;
        if slice.messages.is_empty() {
            return Ok(scan.needed().map(|needed| (needed, old_up_to, slice.head)));
        }
        for message in &slice.messages {
            after = after.next();
            let not_after = match (message.dropped_at, Message::parse(&message.stored)) {
                // Its own time is gone, and was before this one.
                (Some(dropped_at), _) => dropped_at,
                (None, Ok(message)) => {
                    scan.take(&message, message.ts < before);
                    message.ts
                }
                (None, Err(_)) => return Ok(None),
            };
            if not_after < before {
                // Times never go back along a log.
                old_up_to = after;
            }
        }
    }
}
