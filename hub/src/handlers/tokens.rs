//! Tokens for CI: made by members, listed and revoked by their makers and the owners of their rooms.

use axum::extract::{RawPathParams, State};
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::api::{CreateToken, TokenCreated, TokenList};
use parler_protocol::{AccessToken, AgentKey, TokenName, limits};
use sha2::{Digest, Sha256};

use crate::answer::json;
use crate::auth::{Authenticated, Holder};
use crate::body::Json;
use crate::problem::Refusal;
use crate::state::SharedState;
use crate::store::NewToken;

/// `POST /v1/tokens`
pub(crate) async fn create(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    Json(request): Json<CreateToken>,
) -> Result<Response, Refusal> {
    if state.options.local.is_some() {
        // It would open to whoever reads it what is for one user of one machine.
        return Err(Refusal::bad_request("the local hub makes no tokens"));
    }
    let longest = limits::MAX_TOKEN_TTL.as_secs();
    let ttl_secs = request.ttl_secs.unwrap_or(limits::DEFAULT_TOKEN_TTL.as_secs());
    if !(1..=longest).contains(&ttl_secs) {
        return Err(Refusal::bad_request(format!("ttlSecs is 1 to {longest}")));
    }
    if !(1..=limits::MAX_TOKEN_ROOMS).contains(&request.rooms.len()) {
        return Err(Refusal::bad_request(format!(
            "a token is for 1 to {} rooms",
            limits::MAX_TOKEN_ROOMS
        )));
    }
    if request.can.is_empty() {
        return Err(Refusal::bad_request("a token may do something: post, read or claim"));
    }
    let token = AccessToken::from_random(request.name.clone(), state.hub, random()?);
    let now = state.now_ms();
    let new = NewToken {
        by: principal.agent,
        name: request.name,
        // The other half of this key is forgotten here.
        account: AgentKey::from_random(random()?).id(),
        hash: Sha256::digest(token.expose()).into(),
        rooms: request.rooms,
        can: request.can,
        expires_at: now.saturating_add(i64::try_from(ttl_secs * 1000).unwrap_or(i64::MAX)),
        now,
    };
    let summary = state.store.create_token(new).await?;
    tracing::info!(agent = %principal.agent, token = %summary.name, "made a token");
    let token = token.expose().to_owned();
    json(StatusCode::CREATED, &TokenCreated { token, summary })
}

/// `GET /v1/tokens`
pub(crate) async fn list(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
) -> Result<Response, Refusal> {
    let tokens = state.store.tokens(principal.agent).await?;
    json(StatusCode::OK, &TokenList { tokens })
}

/// `DELETE /v1/tokens/{name}`
pub(crate) async fn revoke(
    State(state): State<SharedState>,
    Authenticated(principal): Authenticated,
    params: RawPathParams,
) -> Result<Response, Refusal> {
    let name: Option<TokenName> = params
        .iter()
        .find(|(param, _)| *param == "name")
        .and_then(|(_, name)| name.parse().ok());
    let name = name.ok_or_else(Refusal::not_found)?;
    let (summary, rooms) = state.store.revoke_token(principal.agent, &name, state.now_ms()).await?;
    for room in rooms {
        // A job that it worked on is for others now.
        state.wake.notify_jobs(&room.key());
    }
    tracing::info!(agent = %principal.agent, token = %summary.name, "revoked a token");
    json(StatusCode::OK, &summary)
}

/// `GET /v1/token`
pub(crate) async fn show(Holder(holder): Holder) -> Result<Response, Refusal> {
    json(StatusCode::OK, &holder.summary)
}

pub(super) fn random() -> Result<[u8; 32], Refusal> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Refusal::internal)?;
    Ok(random)
}
