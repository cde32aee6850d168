//! A room's log as it grows. Says what arrives and when nothing does; opening it again is the caller's business.

use http::HeaderName;
use http::header::ACCEPT;
use parler_protocol::limits::MAX_MESSAGE_BYTES;
use parler_protocol::paths::{self, event};
use parler_protocol::{Head, RoomName, Seq};
use serde_json::value::RawValue;

use crate::request::Request;
use crate::sse::SseEvent;
use crate::sse_response::{Arrived, SseResponse};
use crate::witness::head_of;
use crate::{Client, ClientError, ReadFrom};

/// Largest event: a message with all that the hub adds to it, escaped names among it.
const MAX_EVENT_BYTES: usize = 2 * MAX_MESSAGE_BYTES; // 2 MiB

/// What a stream brings.
#[derive(Debug)]
pub enum Streamed {
    /// A message.
    Message {
        /// The number that the hub gives it.
        seq: Seq,
        /// Exactly as stored.
        raw: Box<RawValue>,
    },
    /// No message, but the hub is there.
    Heartbeat,
}

/// The messages of a room after one of them, as they come.
pub struct EventStream<'a> {
    client: &'a Client,
    room: RoomName,
    events: SseResponse,
    head: Head,
}

impl Client {
    /// The log after this message (my cursor where it is not said), and then each message as it comes.
    ///
    /// # Errors
    /// `not_found`, `rate_limited` when this agent has too many of them, and as every call.
    pub fn stream(&self, room: &RoomName, after: Option<Seq>) -> Result<EventStream<'_>, ClientError> {
        let mut path = paths::stream(room);
        if let Some(after) = after {
            path = format!("{path}?after={after}");
        }
        let mut request = Request::get(path);
        request.headers.push((ACCEPT, paths::EVENT_STREAM_TYPE.to_owned()));
        request
            .headers
            .push((HeaderName::from_static(paths::NOTES_HEADER), "1".to_owned()));
        let response = self.open(&request)?;
        let head = head_of(response.headers()).ok_or_else(|| self.not_a_hub("a stream without a head"))?;
        Ok(EventStream {
            client: self,
            room: room.clone(),
            events: SseResponse::new(response, MAX_EVENT_BYTES),
            head,
        })
    }
}

impl EventStream<'_> {
    /// How far the log reached when the stream began.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Whether more has arrived already: [`EventStream::next`] gives it without waiting for the hub.
    pub fn has_more(&self) -> bool {
        self.events.has_more()
    }

    /// The next message, or a sign of life. None: the hub has ended the stream in order, and may be asked for another.
    ///
    /// # Errors
    /// [`ClientError::Deadline`] when nothing has come for 45 s, where the hub promises something each 15 s: the
    /// connection, or this machine, was asleep. [`ClientError::Lost`] when the connection ended.
    #[allow(clippy::should_implement_trait, reason = "it has an end, and errors before that")]
    pub fn next(&mut self) -> Result<Option<Streamed>, ClientError> {
        match self.events.next(self.client)? {
            Arrived::Event(event) => self.read(event).map(Some),
            Arrived::Heartbeat => Ok(Some(Streamed::Heartbeat)),
            Arrived::End => Ok(None),
        }
    }

    fn read(&self, event: SseEvent) -> Result<Streamed, ClientError> {
        let name = std::str::from_utf8(&event.name).unwrap_or_default();
        if name != event::MESSAGE && name != event::REREAD {
            return Ok(Streamed::Heartbeat);
        }
        let seq = std::str::from_utf8(&event.id).ok().and_then(|id| id.parse().ok());
        let seq: Seq = seq.ok_or_else(|| self.client.not_a_hub("an event without a message number"))?;
        if name == event::REREAD {
            return self.reread(seq);
        }
        let text = String::from_utf8(event.data).map_err(|_| self.client.not_a_hub("a message that is not text"))?;
        let raw = RawValue::from_string(text).map_err(|error| self.client.not_a_hub(error.to_string()))?;
        Ok(Streamed::Message { seq, raw })
    }

    /// Gets the message that no event can hold byte for byte.
    fn reread(&self, seq: Seq) -> Result<Streamed, ClientError> {
        let from = ReadFrom {
            after: Some(Seq::new(seq.get().saturating_sub(1))),
            limit: Some(1),
            wait: None,
        };
        let page = self.client.messages(&self.room, &from)?;
        let raw = page.messages.into_iter().next();
        let raw = raw.ok_or_else(|| self.client.not_a_hub("a message that is told of and not there"))?;
        Ok(Streamed::Message { seq, raw })
    }
}
