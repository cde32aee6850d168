//! One message added to a log, with the refs it moves and the blob it brings. Everything that could forbid it is looked
//! at before anything is written.

use bytes::Bytes;
use parler_protocol::Head;
use parler_protocol::api::Posted;
use parler_protocol::limits::IDEMPOTENCY_KEPT;
use rusqlite::Connection;

use super::batch::{Batch, RoomHead};
use super::envelope::Envelope;
use super::failure::Failure;
use super::refs::RefChanges;
use super::repetition;
use super::rooms::{self, RoomRow};
use super::{agents, blobs, column, job_words, outsiders, refs, retention, services, tokens};
use crate::fail_point::{FailPoint, reached};
use crate::store::{Append, Appended, Need, NewBlob, StoreError};

/// Bytes a message takes besides its parts and blob, about: envelope, hashes and index entries.
const OVERHEAD_BYTES: usize = 1 << 10; // 1 KiB

/// What an append would do.
enum Plan {
    /// It was done before.
    Repetition(Appended),
    /// Nothing forbids it.
    New {
        room: Box<RoomRow>,
        refs: Option<RefChanges>,
        job: Option<job_words::Change>,
    },
}

/// About how many bytes the append stores.
pub(super) fn bytes(append: &Append) -> usize {
    let blob = match &append.blob {
        Some(NewBlob::Inline { bytes, .. }) => bytes.len(),
        _ => 0,
    };
    OVERHEAD_BYTES + append.parts.len() + blob
}

/// The answer of the first time if this is a repetition, or why it would be refused.
pub(super) fn check(connection: &Connection, append: &Append) -> Result<Option<Appended>, Failure> {
    // An agent that is not known is in no room.
    let agent = agents::find(connection, &append.by.agent)?.ok_or(StoreError::NotFound)?;
    match plan(connection, append, agent)? {
        Plan::Repetition(appended) => Ok(Some(appended)),
        Plan::New { .. } => Ok(None),
    }
}

fn plan(connection: &Connection, append: &Append, agent: i64) -> Result<Plan, Failure> {
    if let Some(earlier) = repetition::by_key(connection, append, agent)? {
        return Ok(Plan::Repetition(earlier.answer(append, agent)?));
    }
    let (room, membership) = rooms::find(connection, &append.room, Some(agent))?.ok_or(StoreError::NotFound)?;
    // Who works on jobs says what became of them.
    let may_post = membership.is_some()
        || tokens::may(connection, room.row, agent, Need::Post)?
        || append.queue.fence.is_some() && tokens::may(connection, room.row, agent, Need::Claim)?;
    if let Some(earlier) = repetition::by_id(connection, append, room.row)? {
        // Who is not in the room does not learn from a conflict that others are.
        if earlier.agent != agent && !may_post {
            return Err(StoreError::NotFound.into());
        }
        return Ok(Plan::Repetition(earlier.answer(append, agent)?));
    }
    if !may_post {
        return Err(outsiders::refusal(connection, &room, Some(agent))?.into());
    }
    let brought = append.blob.as_ref().map(|blob| (blob.id(), blob.size()));
    for reference in &append.refers_to {
        let size = match brought {
            Some((id, size)) if id == reference.id => size,
            _ => blobs::size_in_room(connection, room.row, &reference.id)?
                .ok_or(StoreError::UnknownBlob(reference.id))?,
        };
        if reference.size.is_some_and(|said| said != size) {
            return Err(StoreError::BlobSize(reference.id).into());
        }
    }
    // Its author read the room before retention did: what it leaves out would be nowhere.
    for base in &append.builds_on {
        if retention::was_dropped(connection, room.row, base)? {
            return Err(StoreError::BaseNoLongerKept(*base).into());
        }
    }
    services::check_places(connection, &room, append, (agent, membership.as_ref()))?;
    let refs = append
        .refs
        .as_ref()
        .map(|part| refs::plan(connection, &room, part))
        .transpose()?;
    let job = job_words::plan(connection, &room, append, agent)?;
    Ok(Plan::New {
        room: Box::new(room),
        refs,
        job,
    })
}

/// Appends the message, or gives the first answer again.
pub(super) fn run(batch: &mut Batch<'_>, append: &Append) -> Result<Appended, Failure> {
    let connection = batch.connection;
    let agent = batch.agent(&append.by.agent)?.ok_or(StoreError::NotFound)?;
    let (room, refs, job) = match plan(connection, append, agent)? {
        Plan::Repetition(appended) => return Ok(appended),
        Plan::New { .. } if !batch.has_room => return Err(StoreError::StorageFull.into()),
        Plan::New { room, refs, job } => (room, refs, job),
    };
    let end = batch.head(&room);
    let seq = end.seq.next();
    // A clock that was set back must not make the log go back.
    let ts = append.now.max(end.ts);
    let envelope = Envelope {
        seq,
        id: append.id,
        room: &room.name,
        agent: append.signed_by.unwrap_or(append.by.agent),
        name: &append.by.name,
        role: append.by.role.as_ref(),
        mentions: &append.mentions,
        reply_to: append.reply_to,
        ts,
    };
    let stored = Bytes::from(envelope.around(&append.parts));
    let h = end.h.next(&stored);

    connection
        .prepare_cached(
            "INSERT INTO messages (room, seq, id, agent, digest, h, is_push, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((
            room.row,
            column(seq),
            append.id.as_bytes(),
            agent,
            append.digest,
            h.as_bytes(),
            append.is_push,
            stored.as_ref(),
        ))?;
    let message = connection.last_insert_rowid();
    reached(FailPoint::MessageInserted);
    let kept = i64::try_from(IDEMPOTENCY_KEPT.as_millis()).unwrap_or(i64::MAX);
    repetition::remember(connection, append, agent, message, append.now.saturating_add(kept))?;
    reached(FailPoint::KeyInserted);
    if let Some(blob) = &append.blob {
        blobs::bring(connection, room.row, seq, blob)?;
    }
    if let Some(refs) = refs {
        refs.apply(connection, room.row, seq)?;
    }
    if let Some(job) = job {
        job.apply(connection, room.row, message, seq, agent)?;
    }
    batch.seen(agent, append.now);
    let push_seq = if append.is_push { seq } else { end.push_seq };
    batch.advance(&room, RoomHead { seq, h, ts, push_seq });
    let posted = Posted {
        id: append.id,
        seq,
        room: room.name,
        head: Head { seq, h },
    };
    Ok(Appended {
        posted,
        stored,
        is_new: true,
    })
}
