//! Members that leave, are removed or become owners, and rooms that are deleted. Whatever waits for the room, or is being
//! sent from it, is told to look again.

use axum::extract::RawPathParams;
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::AgentId;
use parler_protocol::api::ChangeMember;

use crate::answer::room_json;
use crate::body::Json;
use crate::problem::Refusal;
use crate::room_call::RoomCall;

fn agent_of(params: &RawPathParams) -> Result<AgentId, Refusal> {
    let agent = params.iter().find(|(name, _)| *name == "agent");
    agent
        .and_then(|(_, agent)| agent.parse().ok())
        .ok_or_else(Refusal::not_found)
}

/// `DELETE /v1/rooms/{room}/members/{agent}`
pub(crate) async fn delete(call: RoomCall, params: RawPathParams) -> Result<StatusCode, Refusal> {
    let agent = agent_of(&params)?;
    let (by, now) = (call.principal.agent, call.state.now_ms());
    let room = call
        .run(|| call.store().end_membership(&call.room, by, agent, now))
        .await?;
    if by != agent {
        tracing::info!(%by, %agent, %room, "removed a member");
    }
    call.state.wake.notify_left(&call.room.key());
    call.state.wake.notify_joined(agent);
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /v1/rooms/{room}/members/{agent}`
pub(crate) async fn put(
    call: RoomCall,
    params: RawPathParams,
    Json(change): Json<ChangeMember>,
) -> Result<Response, Refusal> {
    let agent = agent_of(&params)?;
    let by = call.principal.agent;
    let room = call
        .run(|| call.store().set_owner(&call.room, by, agent, change.owner))
        .await?;
    tracing::info!(%by, %agent, room = %room.room, owner = change.owner, "changed a member");
    room_json(StatusCode::OK, &change, &room.head)
}

/// `PUT /v1/rooms/{room}/requests/{agent}`
pub(crate) async fn admit(call: RoomCall, params: RawPathParams) -> Result<StatusCode, Refusal> {
    answer(call, &params, true).await
}

/// `DELETE /v1/rooms/{room}/requests/{agent}`
pub(crate) async fn refuse(call: RoomCall, params: RawPathParams) -> Result<StatusCode, Refusal> {
    answer(call, &params, false).await
}

async fn answer(call: RoomCall, params: &RawPathParams, admits: bool) -> Result<StatusCode, Refusal> {
    let agent = agent_of(params)?;
    let (by, now) = (call.principal.agent, call.state.now_ms());
    let room = call
        .run(|| call.store().answer_request(&call.room, by, agent, admits, now))
        .await?;
    tracing::info!(%by, %agent, %room, admits, "answered a request to come in");
    if admits {
        call.state.wake.notify_joined(agent);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /v1/rooms/{room}`
pub(crate) async fn delete_room(call: RoomCall) -> Result<StatusCode, Refusal> {
    let by = call.principal.agent;
    let now = call.state.now_ms();
    let deleted = call.run(|| call.store().delete_room(&call.room, by, now)).await?;
    tracing::info!(%by, room = %deleted.room, "deleted a room");
    call.state.wake.notify_left(&call.room.key());
    for member in &deleted.members {
        call.state.wake.notify_joined(*member);
    }
    // Their rows are gone. What cannot be removed now, the next start removes.
    for id in &deleted.files {
        if let Err(error) = call.state.blobs.retire(id).await {
            tracing::warn!(?error, "a blob of a deleted room cannot be removed");
        }
    }
    Ok(StatusCode::NO_CONTENT)
}
