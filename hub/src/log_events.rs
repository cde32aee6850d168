//! A page of a log as the events of a stream, made once for all streams that send it.

use axum::response::sse::Event;
use parler_protocol::paths::event;
use parler_protocol::{Head, Seq};
use serde_json::json;

use crate::store::LogPage;

/// What a page has for a stream.
#[derive(Debug, Clone)]
pub(crate) struct LogEvents {
    /// One for each message.
    pub(crate) events: Vec<Event>,
    /// The last message of the page, or where the reading began when it is empty.
    pub(crate) cursor: Seq,
    /// The log's head in the same snapshot.
    pub(crate) head: Head,
    /// The last of the messages that is only a note of one that is no longer kept.
    pub(crate) last_note: Option<Seq>,
}

impl From<LogPage> for LogEvents {
    fn from(page: LogPage) -> Self {
        // Numbers have no gaps, so the last tells them all, also of the page that began at the agent's cursor.
        let first = page.cursor.get() - page.messages.len() as u64 + 1;
        let events = (first..).zip(&page.messages);
        Self {
            events: events.map(|(seq, message)| message_event(seq, message)).collect(),
            cursor: page.cursor,
            head: page.head,
            last_note: page.last_note,
        }
    }
}

/// A message as an event. Its lines are joined by the reader with a line feed, so a message with a carriage return (blank
/// space between two tokens) would arrive changed, and its hash with it: the reader is told to read that one as a page.
fn message_event(seq: u64, stored: &[u8]) -> Event {
    let event = Event::default().id(seq.to_string());
    match std::str::from_utf8(stored) {
        Ok(text) if !text.contains('\r') => event.event(event::MESSAGE).data(text),
        _ => event.event(event::REREAD).data(json!({ "seq": seq }).to_string()),
    }
}
