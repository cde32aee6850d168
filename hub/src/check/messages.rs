//! Stored messages, each judged by itself: does it read, does its row say the same, does its signature hold. On all
//! processors: the signatures are most of what a check of a large hub costs.

use std::thread;

use parler_protocol::{DroppedMessage, HubId, Message, Seq, Verdict, retry_digest, verify};

use super::FindingKind;
use crate::message_parts::carries_git;
use crate::store::StoredMessage;

/// For fewer than this a thread does not pay.
const WORTH_A_THREAD: usize = 32;

/// What a message turned out to be.
pub(super) enum Content {
    /// A message.
    Message(Box<Message>),
    /// What stands in place of one that is no longer kept.
    Dropped,
    /// Nothing that can be read.
    Unreadable,
}

/// A message with what is wrong with it.
pub(super) struct Judged {
    pub(super) content: Content,
    pub(super) faults: Vec<(FindingKind, String)>,
    /// Whether only its readers judge the signature, and it does not hold.
    pub(super) is_unbelieved: bool,
}

/// Judges messages, in their order.
pub(super) fn judge(messages: &[StoredMessage], hub: &HubId, room: &str) -> Vec<Judged> {
    let judge_all =
        |some: &[StoredMessage]| -> Vec<Judged> { some.iter().map(|message| one(message, hub, room)).collect() };
    let threads = thread::available_parallelism()
        .map_or(1, usize::from)
        .min(messages.len() / WORTH_A_THREAD);
    if threads < 2 {
        return judge_all(messages);
    }
    thread::scope(|scope| {
        let judge_all = &judge_all;
        let shares: Vec<_> = messages
            .chunks(messages.len().div_ceil(threads))
            .map(|some| {
                (
                    some,
                    thread::Builder::new().spawn_scoped(scope, move || judge_all(some)),
                )
            })
            .collect();
        let mut judged = Vec::with_capacity(messages.len());
        for (some, thread) in shares {
            // Where the system gives no thread, this one does the work.
            match thread.ok().and_then(|thread| thread.join().ok()) {
                Some(done) => judged.extend(done),
                None => judged.extend(judge_all(some)),
            }
        }
        judged
    })
}

fn one(stored: &StoredMessage, hub: &HubId, room: &str) -> Judged {
    let mut faults = Vec::new();
    let mut is_unbelieved = false;
    let content = if stored.dropped_at.is_some() {
        dropped(stored, room, &mut faults)
    } else {
        match Message::parse(&stored.body) {
            Ok(message) => {
                is_unbelieved = message_faults(stored, &message, hub, room, &mut faults);
                Content::Message(Box::new(message))
            }
            Err(error) => {
                faults.push((FindingKind::Message, format!("cannot be read: {error}")));
                Content::Unreadable
            }
        }
    };
    Judged {
        content,
        faults,
        is_unbelieved,
    }
}

fn dropped(stored: &StoredMessage, room: &str, faults: &mut Vec<(FindingKind, String)>) -> Content {
    match DroppedMessage::parse(&stored.body) {
        Some(note) if note.seq.get() == stored.seq.unsigned_abs() && note.room.as_str() == room => {}
        _ => faults.push((
            FindingKind::Message,
            "is no longer kept, and what stands in its place is not its note".to_owned(),
        )),
    }
    if stored.is_push {
        faults.push((
            FindingKind::PushIndex,
            "is no longer kept, and carried refs or a bundle".to_owned(),
        ));
    }
    Content::Dropped
}

/// Whether a signature that only readers judge does not hold.
fn message_faults(
    stored: &StoredMessage,
    message: &Message,
    hub: &HubId,
    room: &str,
    faults: &mut Vec<(FindingKind, String)>,
) -> bool {
    let is_authors = stored.is_by_token || stored.agent.as_deref() == Some(&message.from.id.as_bytes()[..]);
    let told = [
        ("number", message.seq == Seq::new(stored.seq.unsigned_abs())),
        ("room", message.room.as_str() == room),
        ("id", message.id.as_bytes()[..] == stored.id[..]),
        ("author", is_authors),
        (
            "digest",
            retry_digest(message.raw_parts(), &message.mentions, message.reply_to)[..] == stored.digest[..],
        ),
    ];
    let other = told.iter().filter(|(_, is_same)| !is_same).map(|(what, _)| *what);
    faults.extend(other.map(|what| (FindingKind::Message, format!("has another {what} than its row"))));
    let is_push = carries_git(&message.parts);
    if is_push != stored.is_push {
        let what = match is_push {
            true => "carries refs or a bundle, and is not among the pushes",
            false => "is among the pushes, and carries neither refs nor a bundle",
        };
        faults.push((FindingKind::PushIndex, what.to_owned()));
    }
    let verdict = verify(message, hub);
    if verdict.is_valid() {
        return false;
    }
    if is_push || stored.is_by_token {
        let why = match &verdict {
            Verdict::Invalid(error) => error.to_string(),
            Verdict::ValidUnbound => "it has no com.parler.seen part".to_owned(),
            _ => "it is not signed".to_owned(),
        };
        faults.push((FindingKind::Signature, format!("its signature does not hold: {why}")));
        return false;
    }
    matches!(verdict, Verdict::Invalid(_))
}
