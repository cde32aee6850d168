//! Hints about all of an agent's rooms: first how far each reaches, then which one has grown. Carries no message.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use parler_protocol::api::{RoomHint, RoomHints, RoomSummary, WakePath};
use parler_protocol::paths::event;
use parler_protocol::{Head, Message, Part, RoomName, limits};
use serde::Serialize;

use crate::auth::{Authenticated, wake};
use crate::presence::Waiting;
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::state::SharedState;
use crate::store::{Principal, StoreError};
use crate::streams::{self, Outbox, StreamEnd, StreamPermit, farewell};
use crate::wake::{JoinSubscription, Subscription};

/// How much of what is new is looked at for a word to the agent, bytes.
const LOOKED_AT_BYTES: usize = 64 << 10; // 64 KiB

/// `GET /v1/events`
pub(crate) async fn get(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    headers: HeaderMap,
    query: Parameters,
) -> Result<Response, Refusal> {
    query.finish()?;
    let permit = state.streams.open(principal.agent)?;
    let mut hints = HintStream {
        waiting: state
            .presence
            .waiting_for(principal.agent, wake(&headers) == WakePath::Session),
        end: StreamEnd::of(&state),
        // First, so that no room comes between reading and waiting.
        joined: state.wake.subscribe_joined(principal.agent),
        state: Arc::clone(&state),
        principal,
        known: HashMap::new(),
        news: FuturesUnordered::new(),
        outbox: Outbox::default(),
        _permit: permit,
    };
    hints.begin().await?;
    let events = futures_util::stream::unfold(Box::new(hints), async |mut hints| {
        hints.next().await.map(|event| (event, hints))
    });
    Ok(streams::answer(&state, events))
}

/// What one agent is told of its rooms.
struct HintStream {
    state: SharedState,
    principal: Principal,
    /// How far each room reached when it was last told, by [`RoomName::key`].
    known: HashMap<String, Head>,
    /// One for each of these rooms: ready when it has grown.
    news: FuturesUnordered<BoxFuture<'static, (RoomName, Subscription)>>,
    outbox: Outbox,
    /// Ready when there may be a room that is new to the agent.
    joined: JoinSubscription,
    end: StreamEnd,
    /// In all rooms that are followed.
    waiting: Waiting,
    _permit: StreamPermit,
}

impl HintStream {
    async fn begin(&mut self) -> Result<(), Refusal> {
        for room in self.rooms().await? {
            self.follow(&room);
        }
        // Once more, now that no growth goes unnoticed.
        let rooms = self.rooms().await?;
        for room in &rooms {
            self.known.insert(room.room.key(), room.head);
        }
        let rooms = rooms.into_iter().map(|room| hint(room, None)).collect();
        self.outbox.put(event(event::HEADS, &RoomHints { rooms }));
        Ok(())
    }

    async fn rooms(&mut self) -> Result<Vec<RoomSummary>, StoreError> {
        self.state.store.rooms(self.principal.agent).await
    }

    /// Listens for growth of a room that was not followed before.
    fn follow(&mut self, room: &RoomSummary) {
        let key = room.room.key();
        self.news
            .push(grown(room.room.clone(), self.state.wake.subscribe(&key)));
        self.waiting.in_room(&key);
        self.known.insert(key, room.head);
    }

    /// The next event, once there is one. None: the stream is over.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(next) = self.outbox.next() {
                return next;
            }
            let told = tokio::select! {
                Some((room, news)) = self.news.next() => self.tell(room, news).await,
                () = self.joined.changed() => self.look().await,
                last = self.end.come() => {
                    self.outbox.end(last);
                    Ok(())
                }
            };
            if let Err(error) = told {
                tracing::error!(%error, "a stream was cut off");
                self.outbox.end(farewell("the hub cannot read on"));
            }
        }
    }

    /// Tells of a room that has grown.
    async fn tell(&mut self, room: RoomName, news: Subscription) -> Result<(), StoreError> {
        let key = room.key();
        let now = match self.state.store.room_summary(self.principal.agent, &room).await {
            Ok(now) => now,
            Err(StoreError::NotFound) => {
                self.known.remove(&key);
                self.waiting.left(&key);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let told = self.known.insert(key, now.head);
        if told.is_none_or(|told| told.seq < now.head.seq) {
            let addressed = self.is_addressed(&room, told.unwrap_or(now.head)).await?;
            self.outbox.put(event(event::HINT, &hint(now, addressed)));
        }
        self.news.push(grown(room, news));
        Ok(())
    }

    /// Whether something after `told` is for this agent. None where there was more than was looked at.
    async fn is_addressed(&mut self, room: &RoomName, told: Head) -> Result<Option<bool>, StoreError> {
        let (agent, limit) = (self.principal.agent, limits::DEFAULT_PAGE_MESSAGES);
        let page = match self
            .state
            .store
            .read(agent, room, Some(told.seq), limit, LOOKED_AT_BYTES)
            .await
        {
            Err(StoreError::NotFound) => return Ok(None),
            page => page?,
        };
        if page.messages.iter().any(|stored| is_for(&self.principal, stored)) {
            return Ok(Some(true));
        }
        Ok((page.cursor >= page.head.seq).then_some(false))
    }

    /// Looks for rooms that the agent has come into, and forgets those it has left.
    async fn look(&mut self) -> Result<(), StoreError> {
        let rooms = self.rooms().await?;
        let waiting = &mut self.waiting;
        self.known.retain(|key, _| {
            let is_in = rooms.iter().any(|room| room.room.key() == *key);
            if !is_in {
                waiting.left(key);
            }
            is_in
        });
        for room in rooms {
            if !self.known.contains_key(&room.room.key()) {
                self.follow(&room);
                // As it is now that its growth is heard of.
                let asked = self.state.store.room_summary(self.principal.agent, &room.room);
                let now = match asked.await {
                    Err(StoreError::NotFound) => continue,
                    now => now?,
                };
                self.known.insert(now.room.key(), now.head);
                self.outbox.put(event(event::HINT, &hint(now, None)));
            }
        }
        Ok(())
    }
}

fn grown(room: RoomName, mut news: Subscription) -> BoxFuture<'static, (RoomName, Subscription)> {
    Box::pin(async move {
        news.changed().await;
        (room, news)
    })
}

fn hint(room: RoomSummary, addressed: Option<bool>) -> RoomHint {
    RoomHint {
        room: room.room,
        head: room.head,
        unread: room.unread,
        addressed,
    }
}

fn event(name: &str, data: &impl Serialize) -> Event {
    let data = serde_json::to_string(data).expect("hints are names and numbers");
    Event::default().event(name).data(data)
}

/// Whether a stored message speaks to this agent, as far as its author says so.
fn is_for(me: &Principal, stored: &[u8]) -> bool {
    let Ok(message) = Message::parse(stored) else {
        return false;
    };
    let called = |who: &str| me.name.is_called(who) || me.role.as_ref().is_some_and(|role| role.is_called(who));
    message.from.id != me.agent
        && (message.mentions.iter().any(|name| called(name))
            || message
                .parts
                .iter()
                .any(|part| matches!(part, Part::Handoff(handoff) if handoff.to.as_deref().is_none_or(called))))
}
