//! Invites: made by a member, redeemed by whoever has the code.

use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::api::{CreateInvite, InviteList, InvitesRevoked, Join, Joined};
use parler_protocol::{InviteCode, InviteId, limits};

use crate::answer::{json, room_json};
use crate::auth::{Authenticated, Peer};
use crate::body::Json;
use crate::handlers::sessions::limit_proofs;
use crate::problem::Refusal;
use crate::room_call::RoomCall;
use crate::state::SharedState;
use crate::store::NewInvite;

/// `POST /v1/invites`
pub(crate) async fn create(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    Json(request): Json<CreateInvite>,
) -> Result<Response, Refusal> {
    let longest = limits::MAX_INVITE_TTL.as_secs();
    let ttl_secs = request.ttl_secs.unwrap_or(limits::DEFAULT_INVITE_TTL.as_secs());
    if !(1..=longest).contains(&ttl_secs) {
        return Err(Refusal::bad_request(format!("ttlSecs is 1 to {longest}")));
    }
    let max_uses = request.max_uses.unwrap_or(limits::DEFAULT_INVITE_USES);
    if max_uses == 0 {
        return Err(Refusal::bad_request("maxUses is at least 1"));
    }
    let mut random = [0; 12];
    getrandom::fill(&mut random).map_err(Refusal::internal)?;
    let now = state.now_ms();
    let invite = NewInvite {
        by: principal.agent,
        room: request.room.clone(),
        code: InviteCode::from_random(random),
        expires_at: now.saturating_add(i64::try_from(ttl_secs * 1000).unwrap_or(i64::MAX)),
        max_uses,
        needs_approval: request.approve,
        now,
    };
    let call = RoomCall {
        state,
        principal,
        token: None,
        room: request.room,
    };
    let created = call.run(|| call.store().create_invite(invite.clone())).await?;
    // The room may have been made for it.
    call.state.wake.notify_joined(call.principal.agent);
    json(StatusCode::CREATED, &created)
}

/// `POST /v1/join`
pub(crate) async fn join(
    State(state): State<SharedState>,
    Peer(peer): Peer,
    Authenticated(principal): Authenticated,
    Json(request): Json<Join>,
) -> Result<Response, Refusal> {
    limit_proofs(&state, peer)?;
    match state.store.join(principal.agent, &request.code, state.now_ms()).await? {
        Joined::In(room) => {
            state.wake.notify_joined(principal.agent);
            room_json(StatusCode::OK, &room, &room.head)
        }
        // How far the log reaches is not for it yet.
        Joined::Waiting(waiting) => json(StatusCode::ACCEPTED, &waiting),
    }
}

/// `GET /v1/rooms/{room}/invites`
pub(crate) async fn list(call: RoomCall) -> Result<Response, Refusal> {
    let (agent, now) = (call.principal.agent, call.state.now_ms());
    let (room, invites) = call.run(|| call.store().invites(agent, &call.room, now)).await?;
    room_json(
        StatusCode::OK,
        &InviteList {
            room: room.room,
            invites,
        },
        &room.head,
    )
}

/// `DELETE /v1/rooms/{room}/invites`
pub(crate) async fn revoke_all(call: RoomCall) -> Result<Response, Refusal> {
    revoke_some(call, None).await
}

/// `DELETE /v1/rooms/{room}/invites/{invite}`
pub(crate) async fn revoke(call: RoomCall, params: RawPathParams) -> Result<Response, Refusal> {
    let id = params
        .iter()
        .find(|(name, _)| *name == "invite")
        .and_then(|(_, id)| id.parse::<InviteId>().ok());
    let id = id.ok_or_else(Refusal::not_found)?;
    revoke_some(call, Some(id)).await
}

async fn revoke_some(call: RoomCall, id: Option<InviteId>) -> Result<Response, Refusal> {
    let (agent, now) = (call.principal.agent, call.state.now_ms());
    let revoked = call
        .run(|| call.store().revoke_invites(agent, &call.room, id, now))
        .await?;
    json(StatusCode::OK, &InvitesRevoked { revoked })
}
