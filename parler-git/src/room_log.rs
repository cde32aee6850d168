//! Reading a room's log from its hub, page by page. A page of another room, or one that repeats or leaves out messages,
//! is refused.

use std::time::Duration;

use parler_client::{Client, ClientError, ReadFrom};
use parler_protocol::{ErrorCode, Head, HubId, RoomName, Seq};

use crate::error::{Error, ErrorKind, Result};
use crate::log_entry::LogEntry;

/// A piece of a room's log.
pub(crate) struct LogPage {
    /// The room, as its maker spelled it.
    pub(crate) room: RoomName,
    /// Consecutive messages.
    pub(crate) entries: Vec<LogEntry>,
    /// The message before the first of these.
    pub(crate) after: Seq,
    /// How far the log reaches.
    pub(crate) head: Head,
}

/// Waits until the log has grown behind this message, at most so long.
pub(crate) fn wait_for_more(client: &Client, room: &RoomName, after: Seq, wait: Duration) -> Result<()> {
    let from = ReadFrom {
        after: Some(after),
        limit: Some(1),
        wait: Some(wait),
    };
    let waited = client.messages(room, &from);
    waited.map(drop).map_err(|error| in_room(room, error))
}

/// Reads a page: at most `limit` messages after `after`, which is this agent's cursor where it is not said.
pub(crate) fn read_page(
    client: &Client,
    hub: &HubId,
    room: &RoomName,
    after: Option<Seq>,
    limit: u32,
) -> Result<LogPage> {
    let from = ReadFrom {
        after,
        limit: Some(limit),
        wait: None,
    };
    let page = client.messages(room, &from).map_err(|error| in_room(room, error))?;
    if page.room.key() != room.key() {
        let what = format!("the hub was asked for room '{room}' and answered with '{}'", page.room);
        return Err(Error::new(ErrorKind::Refused, what));
    }
    let mut entries = Vec::with_capacity(page.messages.len());
    let mut last = after;
    for raw in page.messages {
        let entry = LogEntry::read(raw, hub, &page.room, last.unwrap_or_default().next());
        if last.is_some_and(|last| entry.seq != last.next()) || entry.seq == Seq::ZERO {
            let what = format!(
                "the hub's log of room '{room}' is not in order: message {} follows {}",
                entry.seq,
                last.unwrap_or_default()
            );
            return Err(Error::new(ErrorKind::Refused, what));
        }
        last = Some(entry.seq);
        entries.push(entry);
    }
    let before_first = entries.first().map(|first| Seq::new(first.seq.get() - 1));
    let after = after.or(before_first).unwrap_or(page.cursor);
    Ok(LogPage {
        room: page.room,
        entries,
        after,
        head: page.head,
    })
}

/// The message of this number, if the log reaches so far.
pub(crate) fn read_message(client: &Client, hub: &HubId, room: &RoomName, seq: Seq) -> Result<Option<LogEntry>> {
    let before = Seq::new(seq.get().saturating_sub(1));
    Ok(read_page(client, hub, room, Some(before), 1)?
        .entries
        .into_iter()
        .next())
}

/// What a failed call on a room means: a room that is not there is named, and the next command says which it is about.
pub(crate) fn in_room(room: &RoomName, error: ClientError) -> Error {
    match error.code() {
        Some(ErrorCode::NotFound) => Error::no_room(room),
        Some(ErrorCode::ApprovalRefused) => Error::from(error).then(format!(
            "an owner may think again: git parler admit AGENT --room {room}"
        )),
        Some(ErrorCode::LastOwner) => Error::from(error).then(format!(
            "make another member an owner first: git parler owner AGENT --room {room}"
        )),
        Some(ErrorCode::NotOwner) => {
            Error::from(error).then(format!("git parler roster --room {room} shows the owners"))
        }
        _ => error.into(),
    }
}
