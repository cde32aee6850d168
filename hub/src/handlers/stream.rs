//! A room's log as a stream: what there is after a message, then each message as it comes. Reads pages as a client that
//! asks again and again would, together with the streams that want the same, so a stream holds no more than a page, and no
//! read transaction while it writes.

use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use parler_protocol::{Seq, limits, paths};

use super::messages;
use crate::answer::tell_head;
use crate::log_events::LogEvents;
use crate::presence::Waiting;
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_call::RoomCall;
use crate::shared_pages::Place;
use crate::state::SharedState;
use crate::store::StoreError;
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
    call.state.metrics.stream_reads.inc();
    let knows_notes = messages::knows_notes(&headers);
    if !knows_notes {
        messages::refuse_notes(&page)?;
    }
    let head = page.head;
    let room = call.room.key();
    let mut log = LogStream {
        place: call.state.shared_pages.stand(&room, agent, page.cursor),
        end: StreamEnd::of(&call.state),
        outbox: Outbox::default(),
        reaches: None,
        knows_notes,
        news,
        waiting: call.state.presence.waiting(agent),
        call,
        _permit: permit,
    };
    log.waiting.in_room(&room);
    log.take(page.into(), None);
    let state = SharedState::clone(&log.call.state);
    // Boxed: a future that is given it holds it twice.
    let events = futures_util::stream::unfold(Box::new(log), async |mut log| {
        log.next().await.map(|event| (event, log))
    });
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
    place: Place<LogEvents>,
    outbox: Outbox,
    /// How far the log reaches, where it is known to go on after the place.
    reaches: Option<Seq>,
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
            if let Some(last) = self.end.has_come() {
                self.outbox.end(last);
                continue;
            }
            let reaches = match self.reaches {
                Some(reaches) => Some(reaches),
                None => tokio::select! {
                    told = self.news.changed() => match told {
                        // It was read before it was told.
                        Some(head) if head.seq <= self.place.at() => continue,
                        told => told.map(|head| head.seq),
                    },
                    last = self.end.come() => {
                        self.outbox.end(last);
                        continue;
                    }
                },
            };
            // In a place of its own, which is there only meanwhile: a stream mostly waits.
            Box::pin(self.read(reaches)).await;
        }
    }

    /// Reads on. Each time anew it is asked whether the agent is a member.
    async fn read(&mut self, reaches: Option<Seq>) {
        if self.call.check_not_ended().await.is_err() {
            self.outbox.end(farewell("the token has ended"));
            return;
        }
        let page = match reaches {
            Some(_) => self.read_together().await,
            // Somebody has left, perhaps this agent.
            None => None,
        };
        let page = match page {
            Some(page) => Ok(page),
            None => self.read_alone().await,
        };
        match page {
            // It is told why when it comes back.
            Ok(page) if !self.knows_notes && page.last_note.is_some() => {
                self.outbox.end(farewell("some messages are no longer kept"));
            }
            Ok(page) => self.take(page, reaches),
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

    async fn read_alone(&self) -> Result<LogEvents, StoreError> {
        let (agent, room, after) = (self.call.principal.agent, &self.call.room, self.place.at());
        let page = self
            .call
            .store()
            .read(agent, room, Some(after), limits::MAX_PAGE_MESSAGES, PAGE_BYTES)
            .await?;
        self.call.state.metrics.stream_reads.inc();
        Ok(page.into())
    }

    /// What other streams of the room want as well. None where there is nothing of that for this agent: why not is found out
    /// alone.
    async fn read_together(&self) -> Option<LogEvents> {
        let (room, after) = (&self.call.room, self.place.at());
        let read = |agents| {
            let (state, room) = (SharedState::clone(&self.call.state), room.clone());
            async move {
                let read = state
                    .store
                    .read_for(agents, &room, after, limits::MAX_PAGE_MESSAGES, PAGE_BYTES);
                let (page, readers) = read.await.ok()?;
                state.metrics.stream_reads.inc();
                (!page.messages.is_empty()).then(|| (page.into(), readers))
            }
        };
        self.place.page(&*self.call.state.wake, read).await
    }

    /// Takes what was read once the log was said to reach this far. A page that was read for others may end before that.
    fn take(&mut self, page: LogEvents, reaches: Option<Seq>) {
        let is_news = !page.events.is_empty();
        self.place.move_to(page.cursor);
        let reaches = reaches.max(Some(page.head.seq));
        self.reaches = reaches.filter(|reaches| is_news && *reaches > page.cursor);
        page.events.into_iter().for_each(|event| self.outbox.put(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F: Future>(_: impl FnOnce(&'static mut LogStream) -> F) -> usize {
        size_of::<F>()
    }

    /// Ten thousand of them wait at once.
    #[test]
    fn a_stream_that_waits_holds_nothing_of_its_reading() {
        let bytes = size(LogStream::next);
        assert!(bytes < 300, "{bytes} bytes");
    }
}
