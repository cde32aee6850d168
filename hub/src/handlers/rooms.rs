//! Rooms: made, listed, and who is in them.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::RoomKind;
use parler_protocol::api::{CreateRoom, MemberList, RoomList};

use crate::answer::{json, room_json, tell_blob_limit};
use crate::auth::Authenticated;
use crate::body::Json;
use crate::problem::Refusal;
use crate::room_call::RoomCall;
use crate::state::SharedState;

/// `POST /v1/rooms`
pub(crate) async fn create(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    Json(request): Json<CreateRoom>,
) -> Result<Response, Refusal> {
    if request.kind != RoomKind::Channel {
        return Err(Refusal::bad_request("a room that is made so is a channel"));
    }
    let room = state
        .store
        .create_room(&request.room, request.kind, principal.agent, state.now_ms())
        .await?;
    state.wake.notify_joined(principal.agent);
    room_json(StatusCode::CREATED, &room, &room.head)
}

/// `GET /v1/rooms`
pub(crate) async fn list(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
) -> Result<Response, Refusal> {
    json(
        StatusCode::OK,
        &RoomList {
            rooms: state.store.rooms(principal.agent).await?,
        },
    )
}

/// `GET /v1/rooms/{room}`
pub(crate) async fn get(call: RoomCall) -> Result<Response, Refusal> {
    let room = call.run(|| call.store().room(call.principal.agent, &call.room)).await?;
    let mut response = room_json(StatusCode::OK, &room, &room.head)?;
    // Whoever is going to post a file asks here, or for a page.
    tell_blob_limit(&mut response, call.state.options.limits.max_blob_bytes);
    Ok(response)
}

/// `GET /v1/rooms/{room}/members`
pub(crate) async fn members(call: RoomCall) -> Result<Response, Refusal> {
    let agent = call.principal.agent;
    let (room, mut members) = call.run(|| call.store().members(agent, &call.room)).await?;
    let (presence, key) = (&call.state.presence, call.room.key());
    for member in &mut members {
        member.last_seen = member.last_seen.max(presence.last_heard(&member.id).unwrap_or(0));
        member.wake = presence.wake_path(&member.id, &key, call.state.now_ms());
    }
    // Whoever has left meanwhile does not come back by it.
    let requests = call.store().requests(agent, &call.room).await?;
    room_json(
        StatusCode::OK,
        &MemberList {
            room: room.room,
            members,
            requests,
        },
        &room.head,
    )
}
