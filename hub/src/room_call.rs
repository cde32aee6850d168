//! A call on one room by one agent. Knows how the local hub lets an agent into a channel at first use, and tells a
//! member how far the log reaches even when it refuses.

use std::future::Future;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::response::Response;
use parler_protocol::api::RoomAnswer;
use parler_protocol::{ErrorCode, RoomName, ServiceName};

use crate::answer::tell_head;
use crate::auth::authenticate;
use crate::problem::Refusal;
use crate::state::SharedState;
use crate::store::{Principal, Store, StoreError, TokenHolder};
use crate::token_access::check_again;

pub(crate) struct RoomCall {
    pub(crate) state: SharedState,
    pub(crate) principal: Principal,
    /// The token by which the principal asks, where it is no agent.
    pub(crate) token: Option<Box<TokenHolder>>,
    /// As the request spells it: any case.
    pub(crate) room: RoomName,
}

impl FromRequestParts<SharedState> for RoomCall {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, Refusal> {
        let (principal, token) = authenticate(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|_| Refusal::not_found())?;
        let room = params.iter().find_map(|(name, value)| room_of(name, value));
        // A name that no room can have is answered like one that no room has.
        let room = room.ok_or_else(Refusal::not_found)?;
        Ok(Self {
            state: SharedState::clone(state),
            principal,
            token: token.map(Box::new),
            room,
        })
    }
}

/// The room that a parameter of a path names: itself, or as its service.
pub(crate) fn room_of(parameter: &str, value: &str) -> Option<RoomName> {
    match parameter {
        "room" => value.parse().ok(),
        "service" => value.parse().ok().map(|service: ServiceName| service.room()),
        _ => None,
    }
}

impl RoomCall {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.state.store
    }

    /// Runs a transaction on the room, on the local hub twice: before and after joining it.
    pub(crate) async fn run<T, F>(&self, transaction: impl Fn() -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.check_not_ended().await?;
        match transaction().await {
            Ok(done) => Ok(done),
            Err(StoreError::NotFound) if self.joins_at_first_use().await? => transaction().await.map_err(Refusal::from),
            Err(error) => Err(self.refusal(error.into()).await),
        }
    }

    /// A token may end while its call waits for something.
    pub(crate) async fn check_not_ended(&self) -> Result<(), Refusal> {
        match &self.token {
            Some(token) => check_again(&self.state, token).await,
            None => Ok(()),
        }
    }

    /// The room of this service where the caller may ask it for jobs, which every agent of the hub may, and is not in it.
    pub(crate) async fn service_to_enter(&self) -> Result<Option<RoomAnswer>, Refusal> {
        let (agent, room) = (self.principal.agent, &self.room);
        // A token is no member; its grant is looked at like everywhere.
        if self.token.is_some() || self.store().room(agent, room).await.is_ok() {
            return Ok(None);
        }
        let found = self.store().service_to_enter(agent, room, self.any_name()).await?;
        Ok(Some(found))
    }

    /// All agents of the local hub are one user's.
    fn any_name(&self) -> bool {
        self.state.options.local.is_some()
    }

    /// Makes the caller one that may ask this service for jobs, where it is not one.
    pub(crate) async fn enter_service(&self) -> Result<(), Refusal> {
        if self.service_to_enter().await?.is_none() {
            return Ok(());
        }
        let (agent, room) = (self.principal.agent, &self.room);
        let (any_name, now) = (self.any_name(), self.state.now_ms());
        let (entered, is_new) = self.store().enter_service(agent, room, any_name, now).await?;
        if is_new {
            self.state.wake.notify_joined(agent);
            tracing::info!(%agent, name = %self.principal.name, room = %entered.room, "asks a service for the first time");
        }
        Ok(())
    }

    /// Joins the room if this is the local hub, the room a channel, and the agent not in it yet. Whether it is in now.
    async fn joins_at_first_use(&self) -> Result<bool, Refusal> {
        let (agent, room) = (self.principal.agent, &self.room);
        if self.state.options.local.is_none() {
            return Ok(false);
        }
        // Where another request of this agent joined meanwhile, the transaction came too early.
        if self.store().room(agent, room).await.is_ok() {
            return Ok(true);
        }
        match self.store().join_channel(agent, room, self.state.now_ms()).await {
            Ok(joined) => {
                self.state.wake.notify_joined(agent);
                tracing::info!(%agent, name = %self.principal.name, room = %joined.room, "joined at first use");
                Ok(true)
            }
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the log's head to an answer that was made without reading the log.
    pub(crate) async fn tell_head(&self, response: &mut Response) {
        if let Ok(room) = self.store().room(self.principal.agent, &self.room).await {
            tell_head(response, &room.head);
        }
    }

    /// The refusal, with the log's head for a member. Says nothing more where nothing was found.
    pub(crate) async fn refusal(&self, refusal: Refusal) -> Refusal {
        if matches!(
            refusal.code(),
            ErrorCode::ApprovalPending
                | ErrorCode::ApprovalRefused
                | ErrorCode::NotFound
                | ErrorCode::Unavailable
                | ErrorCode::Internal
        ) {
            return refusal;
        }
        match self.store().room(self.principal.agent, &self.room).await {
            Ok(room) => refusal.with_head(room.head),
            Err(_) => refusal,
        }
    }
}
