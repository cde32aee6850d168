//! Whom an agent can write to, what it tells them that it is at, and the direct rooms it does so in. An agent that is out of reach is answered like one
//! that is not there.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::api::{AgentList, OpenDm, SetStatus};

use crate::answer::{json, room_json};
use crate::auth::Authenticated;
use crate::body::Json;
use crate::problem::Refusal;
use crate::state::{HubState, SharedState};
use crate::store::Reach;

/// `GET /v1/agents`
pub(crate) async fn list(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
) -> Result<Response, Refusal> {
    // A hub that lets everybody in lists nobody to everybody.
    let reach = match state.options.local {
        Some(_) => Reach::Everybody,
        None => Reach::SharedRooms,
    };
    let mut agents = state.store.contacts(principal.agent, reach).await?;
    for agent in &mut agents {
        let heard = state.presence.last_heard(&agent.id).unwrap_or(0);
        agent.last_seen = agent.last_seen.max(heard);
    }
    json(StatusCode::OK, &AgentList { agents })
}

/// `POST /v1/dms`
pub(crate) async fn open(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    Json(request): Json<OpenDm>,
) -> Result<Response, Refusal> {
    let (agent, other) = (principal.agent, request.agent);
    let opened = state.store.open_dm(agent, other, reach(&state), state.now_ms()).await?;
    state.wake.notify_joined(agent);
    if !opened.is_met {
        return Err(Refusal::not_found());
    }
    if opened.is_new {
        state.wake.notify_joined(other);
    }
    let status = if opened.is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    room_json(status, &opened.room, &opened.room.head)
}

/// Where everybody can come in, everybody can be written to.
fn reach(state: &HubState) -> Reach {
    match state.options.open || state.options.local.is_some() {
        true => Reach::Everybody,
        false => Reach::SharedRooms,
    }
}

/// `PUT /v1/status`
pub(crate) async fn set_status(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    Json(request): Json<SetStatus>,
) -> Result<Response, Refusal> {
    state.store.set_status(principal.agent, request.status.clone()).await?;
    json(StatusCode::OK, &request)
}
