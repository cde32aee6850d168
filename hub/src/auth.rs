//! Who a request is from: the bearer of a session token. Unknown, malformed and ended tokens get one answer.

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::header;
use axum::http::request::Parts;

use crate::access_log::Caller;
use crate::problem::Refusal;
use crate::sessions::{REMEMBERED_MS, token_hash};
use crate::state::{HubState, SharedState};
use crate::store::{Principal, TokenHash};

/// The address at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl FromRequestParts<SharedState> for Peer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &SharedState) -> Result<Self, Refusal> {
        parts
            .extensions
            .get::<Self>()
            .copied()
            .ok_or_else(|| Refusal::internal("a connection without an address"))
    }
}

/// The agent whose token the request carries.
#[derive(Debug, Clone)]
pub(crate) struct Authenticated(pub(crate) Principal);

impl FromRequestParts<SharedState> for Authenticated {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, Refusal> {
        let token = parts
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(bearer);
        let principal = match token.and_then(token_hash) {
            None => None,
            Some(token) => who(state, token).await?,
        };
        let principal = principal.ok_or_else(|| state.unauthenticated("no session, or one that ended"))?;
        if let Some(caller) = parts.extensions.get::<Caller>() {
            caller.is(principal.agent);
        }
        Ok(Self(principal))
    }
}

/// Whose token this is. The store is asked about the end of the time for which its answer is remembered, so that no
/// token outlives its end in memory.
async fn who(state: &HubState, token: TokenHash) -> Result<Option<Principal>, Refusal> {
    let now_ms = state.now_ms();
    if let Some(principal) = state.sessions.get(&token, now_ms) {
        return Ok(Some(principal));
    }
    if let Some(principal) = state.store.session(token, now_ms.saturating_add(REMEMBERED_MS)).await? {
        state.sessions.put(token, principal.clone(), now_ms);
        return Ok(Some(principal));
    }
    Ok(state.store.session(token, now_ms).await?)
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
