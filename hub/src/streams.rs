//! Answers that go on: server-sent events. Counts how many of them each agent has open, and knows how they begin, stay
//! alive and end. What the events say is their calls' business.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use parler_protocol::{AgentId, ErrorCode};
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use crate::metrics::Counted;
use crate::problem::Refusal;
use crate::state::{HubState, Phase, SharedState};

/// How long a client rests before it opens a stream again that has ended.
const RECONNECT: Duration = Duration::from_secs(1);
/// How long a client rests that has as many as it may have.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Tells proxies to hand on each event as it comes.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The streams that are open.
#[derive(Debug)]
pub(crate) struct Streams {
    most: usize,
    open: Arc<Mutex<HashMap<AgentId, usize>>>,
    counted: Gauge,
}

/// One stream of an agent, until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    agent: AgentId,
    open: Arc<Mutex<HashMap<AgentId, usize>>>,
    _counted: Counted,
}

fn lock(open: &Mutex<HashMap<AgentId, usize>>) -> MutexGuard<'_, HashMap<AgentId, usize>> {
    // The map is whole between any two of its calls.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    /// None are open. An agent may have `most`; all that are open are counted.
    pub(crate) fn new(most: usize, counted: Gauge) -> Self {
        Self {
            most,
            open: Arc::default(),
            counted,
        }
    }

    /// One more for this agent.
    pub(crate) fn open(&self, agent: AgentId) -> Result<StreamPermit, Refusal> {
        let mut open = lock(&self.open);
        let count = open.entry(agent).or_default();
        if *count >= self.most {
            let detail = format!("this agent has {count} streams open, and may have no more");
            return Err(Refusal::new(ErrorCode::RateLimited, detail).retry_after(RETRY_AFTER));
        }
        *count += 1;
        Ok(StreamPermit {
            agent,
            open: Arc::clone(&self.open),
            _counted: Counted::one_more(&self.counted),
        })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        if let Some(count) = open.get_mut(&self.agent) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.agent);
            }
        }
    }
}

/// When a stream is over, whatever it has to tell.
pub(crate) struct StreamEnd {
    state: SharedState,
    at: Instant,
    /// Waits once for all events: a timer is not set anew for each.
    coming: Pin<Box<dyn Future<Output = Event> + Send + Sync>>,
}

impl StreamEnd {
    /// For a stream that begins now.
    pub(crate) fn of(state: &SharedState) -> Self {
        let at = Instant::now() + state.options.limits.stream_ttl;
        let watched = SharedState::clone(state);
        Self {
            state: SharedState::clone(state),
            at,
            coming: Box::pin(async move {
                tokio::select! {
                    () = watched.stopping() => farewell("the hub stops"),
                    () = tokio::time::sleep_until(at) => farewell("open it again"),
                }
            }),
        }
    }

    /// Waits until the stream's time is over, or the hub stops. Returns the last event; waits for nothing afterwards.
    pub(crate) async fn come(&mut self) -> Event {
        (&mut self.coming).await
    }

    /// The last event, if this is the time for it.
    pub(crate) fn has_come(&self) -> Option<Event> {
        if *self.state.phase.borrow() != Phase::Serving {
            Some(farewell("the hub stops"))
        } else if self.at <= Instant::now() {
            Some(farewell("open it again"))
        } else {
            None
        }
    }
}

/// What one stream has read and not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    ready: VecDeque<Event>,
    is_over: bool,
}

impl Outbox {
    /// To be sent after all that is here.
    pub(crate) fn put(&mut self, event: Event) {
        self.ready.push_back(event);
    }

    /// To be sent as the last.
    pub(crate) fn end(&mut self, last: Event) {
        self.put(last);
        self.is_over = true;
    }

    /// What is to be sent now: an event, or nothing ever again. None: what comes next has to be read first.
    pub(crate) fn next(&mut self) -> Option<Option<Event>> {
        let event = self.ready.pop_front();
        (event.is_some() || self.is_over).then_some(event)
    }
}

/// The last event of a stream: a word for people, and when to come back.
pub(crate) fn farewell(why: &str) -> Event {
    Event::default().comment(why).retry(RECONNECT)
}

/// The answer that carries these events.
pub(crate) fn answer(state: &HubState, events: impl Stream<Item = Event> + Send + 'static) -> Response {
    // Something to read at once, so that a client knows that the stream is there.
    let opening = futures_util::stream::iter([Event::default().retry(RECONNECT)]);
    let events = opening.chain(events).map(Ok::<_, Infallible>);
    let heartbeat = KeepAlive::new().interval(state.options.limits.heartbeat);
    let mut response = Sse::new(events).keep_alive(heartbeat).into_response();
    response.headers_mut().insert(BUFFERING, HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use parler_protocol::AgentKey;

    use super::*;

    #[test]
    fn an_agent_has_so_many_streams_and_gets_them_back() {
        let [alice, bob] = [1, 2].map(|seed| AgentKey::from_random([seed; 32]).id());
        let streams = Streams::new(2, Gauge::default());
        let (first, _second) = (streams.open(alice).unwrap(), streams.open(alice).unwrap());
        assert_eq!(streams.open(alice).unwrap_err().code(), ErrorCode::RateLimited);
        drop(streams.open(bob).unwrap());
        drop(first);
        drop(streams.open(alice).unwrap());
        assert_eq!(lock(&streams.open).len(), 1, "who has none is forgotten");
    }
}
