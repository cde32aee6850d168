//! A room's log as a stream: what there is after a message, then each message as it comes. Reads pages as a client that
//! asks again and again would, so a stream holds no more than a page, and no read transaction while it writes.

use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use parler_protocol::paths::{self, event};
use parler_protocol::{Seq, limits};
use serde_json::json;

use super::messages;
use crate::answer::tell_head;
use crate::presence::Waiting;
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_call::RoomCall;
use crate::store::{LogPage, StoreError};
use crate::streams::{self, Outbox, StreamEnd, StreamPermit, farewell};
use crate::wake::Subscription;

/// Messages that one stream holds, in bytes, save the last of them.
const PAGE_BYTES: usize = 64 << 10; // 64 KiB

/// `GET /v1/rooms/{room}/stream?after=`
pub(crate) async fn get(call: RoomCall, mut query: Parameters, headers: HeaderMap) -> Result<Response, Refusal> {
    let after: Option<Seq> = query.take("after")?;
    query.finish()?;
    // A client that comes back repeats its first URL: what it got since then is in the header.
    let after = last_event_id(&headers)?.or(after);
    let permit = call.state.streams.open(call.principal.agent)?;
    // First, so that nothing falls between reading and waiting.
    let news = call.state.wake.subscribe(&call.room.key());
    let agent = call.principal.agent;
    let read = || {
        call.store()
            .read(agent, &call.room, after, limits::MAX_PAGE_MESSAGES, PAGE_BYTES)
    };
    let page = match after {
        // A stream that goes on joins nothing: its agent may have left meanwhile.
        Some(_) => {
            call.check_not_ended().await?;
            match read().await {
                Ok(page) => page,
                Err(error) => return Err(call.refusal(error.into()).await),
            }
        }
        None => call.run(read).await?,
    };
    let knows_notes = messages::knows_notes(&headers);
    if !knows_notes {
        messages::refuse_notes(&page)?;
    }
    let head = page.head;
    let mut log = LogStream {
        at: after.unwrap_or_default(),
        end: StreamEnd::of(&call.state),
        outbox: Outbox::default(),
        is_behind: false,
        knows_notes,
        news,
        waiting: call.state.presence.waiting(agent),
        call,
        _permit: permit,
    };
    log.waiting.in_room(&log.call.room.key());
    log.take(page);
    let state = std::sync::Arc::clone(&log.call.state);
    let events = futures_util::stream::unfold(log, async |mut log| log.next().await.map(|event| (event, log)));
    let mut response = streams::answer(&state, events);
    tell_head(&mut response, &head);
    Ok(response)
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, Refusal> {
    let Some(id) = headers.get(paths::LAST_EVENT_ID_HEADER) else {
        return Ok(None);
    };
    let seq = id.to_str().ok().and_then(|id| id.parse().ok());
    seq.map(Some)
        .ok_or_else(|| Refusal::bad_request(format!("{} is a message number", paths::LAST_EVENT_ID_HEADER)))
}

/// A way along a log.
struct LogStream {
    call: RoomCall,
    news: Subscription,
    /// The last message that was read.
    at: Seq,
    outbox: Outbox,
    /// Whether the log goes on after `at`, as far as is known.
    is_behind: bool,
    knows_notes: bool,
    end: StreamEnd,
    waiting: Waiting,
    _permit: StreamPermit,
}

impl LogStream {
    /// The next event, once there is one. None: the stream is over.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(next) = self.outbox.next() {
                return next;
            }
            if let Some(last) = self.end.has_come(&self.call.state) {
                self.outbox.end(last);
                continue;
            }
            if !self.is_behind {
                tokio::select! {
                    _ = self.news.changed() => {}
                    last = self.end.come(&self.call.state) => {
                        self.outbox.end(last);
                        continue;
                    }
                }
            }
            self.read().await;
        }
    }

    /// Reads on. Each time anew it is asked whether the agent is a member.
    async fn read(&mut self) {
        if self.call.check_not_ended().await.is_err() {
            self.outbox.end(farewell("the token has ended"));
            return;
        }
        let agent = self.call.principal.agent;
        let (limit, room) = (limits::MAX_PAGE_MESSAGES, &self.call.room);
        match self
            .call
            .store()
            .read(agent, room, Some(self.at), limit, PAGE_BYTES)
            .await
        {
            // It is told why when it comes back.
            Ok(page) if !self.knows_notes && page.last_note.is_some() => {
                self.outbox.end(farewell("some messages are no longer kept"));
            }
            Ok(page) => self.take(page),
            Err(error) => {
                let why = match error {
                    StoreError::NotFound => "nothing here for you",
                    error => {
                        tracing::error!(%error, "a stream was cut off");
                        "the hub cannot read on"
                    }
                };
                self.outbox.end(farewell(why));
            }
        }
    }

    fn take(&mut self, page: LogPage) {
        // Numbers have no gaps, so the last tells them all, also of the page that began at the agent's cursor.
        let first = page.cursor.get() - page.messages.len() as u64 + 1;
        for (seq, message) in (first..).zip(&page.messages) {
            self.outbox.put(message_event(seq, message));
        }
        self.at = page.cursor;
        self.is_behind = !page.messages.is_empty() && self.at < page.head.seq;
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
