//! Content that a hub gives up when it is old enough: bodies of messages that nobody builds on, whose notes stay in the log,
//! and blobs that no live ref needs. Never a message with refs, a bundle, a handoff or word of a task; what cannot be
//! decided is kept. Works in small steps, so that messages that come meanwhile do not wait.

mod needed;
mod old_messages;
mod reading;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parler_protocol::{BundleId, RoomName, Seq};
use serde::Serialize;

pub(crate) use self::old_messages::{Age, age};
use self::reading::{Memory, Reading, Seen};
use crate::blob_store::{BlobError, BlobStore, FileBlobStore};
use crate::clock::Clock;
use crate::hub::BLOBS_DIRECTORY;
use crate::state::SharedState;
use crate::store::{BlobDrop, OpenError, RoomMark, SqliteOptions, SqliteStore, Store, StoreError};

/// Blobs that are given up in one transaction, at most.
const BLOBS_AT_ONCE: usize = 64;
/// Longest time between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600); // 6 h
/// Shortest.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// Looks in the time that content is kept.
const LOOKS: u32 = 4;
/// How often a room is read on, at one look, because of what came while it was read.
const MOST_READINGS: usize = 16;

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
    let now = Clock::system().now_ms();
    let summary = look(&store, &blobs, options, now, dry_run, &mut Memory::default()).await;
    store.close().await?;
    summary
}

/// Gives the space that is free in the database of a stopped hub back to the file system, where that is worth it: a quarter of
/// it and a MiB. Needs as much space as the database has without. Bytes that it is smaller by. Blocks.
pub fn shrink(data_dir: &Path) -> Result<u64, PruneError> {
    Ok(crate::store::shrink(data_dir)?)
}

/// Gives up what has become old enough, again and again until the hub stops.
pub(crate) async fn run(state: SharedState) {
    let options = state.options.retention;
    let Some(shortest) = options.messages.into_iter().chain(options.blobs).min() else {
        return;
    };
    let pause = (shortest / LOOKS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
    let mut memory = Memory::default();
    loop {
        let looked = tokio::select! {
            looked = look(&*state.store, &*state.blobs, &options, state.now_ms(), false, &mut memory) => looked,
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
    memory: &mut Memory,
) -> Result<RetentionSummary, PruneError> {
    let before = |kept: Duration| now.saturating_sub(i64::try_from(kept.as_millis()).unwrap_or(i64::MAX));
    let mut summary = RetentionSummary::default();
    // Of rooms that are no more, nothing is remembered.
    let mut remembered = std::mem::take(memory);
    for mark in store.all_rooms().await? {
        if let Some(kept) = options.blobs {
            let seen = remembered.remove(&mark.room);
            let seen = match seen.filter(|seen| seen.is_all(&mark, before(kept))) {
                Some(seen) => Some(seen),
                None => {
                    let looked = look_at_blobs(store, blobs, &mark, before(kept), now, dry_run, &mut summary);
                    unless_deleted(looked.await)?
                }
            };
            memory.extend(seen.map(|seen| (mark.room.clone(), seen)));
        }
        if let Some(kept) = options.messages {
            let looked = look_at_messages(store, &mark.room, before(kept), now, dry_run, &mut summary);
            unless_deleted(looked.await)?;
        }
    }
    Ok(summary)
}

/// A room that was deleted meanwhile has nothing to give up, and is no reason to leave the others.
fn unless_deleted<T: Default>(looked: Result<T, PruneError>) -> Result<T, PruneError> {
    match looked {
        Err(PruneError::Store(StoreError::NotFound)) => Ok(T::default()),
        looked => looked,
    }
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

/// Looks at the blobs of a room. What the next look may trust; none: that one has to read the room in any case.
async fn look_at_blobs(
    store: &dyn Store,
    blobs: &dyn BlobStore,
    mark: &RoomMark,
    before: i64,
    now: i64,
    dry_run: bool,
    summary: &mut RetentionSummary,
) -> Result<Option<Seen>, PruneError> {
    let room = &mark.room;
    let mut reading = Reading::new(before);
    for _ in 0..MOST_READINGS {
        let any = store.held_blobs(room, Seq::new(i64::MAX as u64), None).await?;
        if any.is_empty() {
            return Ok(Some(Seen::nothing(mark)));
        }
        if !reading.read_on(store, room).await? {
            summary.undecided_rooms += 1;
            return Ok(None);
        }
        let Some(needed) = reading.needed() else {
            summary.undecided_rooms += 1;
            return Ok(Some(reading.seen(mark)));
        };
        let drop = BlobDrop {
            room: room.clone(),
            made_at: mark.made_at,
            ids: Vec::new(),
            up_to: reading.old_up_to,
            as_of: reading.up_to,
            now,
        };
        if give_up(store, blobs, &drop, &needed, dry_run, summary).await? {
            return Ok(Some(reading.seen(mark)));
        }
        // Somebody pushed meanwhile, or many spoke: what is needed is decided anew, with what came.
    }
    Ok(None)
}

/// Gives up what is old and not needed, as `plan` has it but for the blobs. False: that is no longer known.
async fn give_up(
    store: &dyn Store,
    blobs: &dyn BlobStore,
    plan: &BlobDrop,
    needed: &HashSet<BundleId>,
    dry_run: bool,
    summary: &mut RetentionSummary,
) -> Result<bool, PruneError> {
    let mut after: Option<BundleId> = None;
    loop {
        let held = store.held_blobs(&plan.room, plan.up_to, after).await?;
        let Some((last, _)) = held.last() else { return Ok(true) };
        after = Some(*last);
        let old: Vec<_> = held.into_iter().filter(|(id, _)| !needed.contains(id)).collect();
        for some in old.chunks(BLOBS_AT_ONCE) {
            if dry_run {
                summary.blobs += some.len() as u64;
                summary.blob_bytes += some.iter().map(|(_, size)| size).sum::<u64>();
                continue;
            }
            let drop = BlobDrop {
                ids: some.iter().map(|(id, _)| *id).collect(),
                ..plan.clone()
            };
            let Some(dropped) = store.drop_blobs(drop).await? else {
                return Ok(false);
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
