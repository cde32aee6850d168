//! Who a request is from: the bearer of a session, or of a token for CI. Unknown, malformed and ended sessions get one
//! answer; what a token may call is decided in [`crate::token_access`].

use std::net::IpAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use parler_protocol::api::WakePath;
use parler_protocol::{AccessToken, paths};

use crate::access_log::Caller;
use crate::problem::Refusal;
use crate::sessions::{REMEMBERED_MS, token_hash};
use crate::state::{HubState, SharedState};
use crate::store::{Principal, TokenHash, TokenHolder};
use crate::token_access;

/// The address that the request comes from: the other end of the connection, or whom a trusted proxy there speaks for.
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
        authenticate(parts, state).await.map(|(principal, _)| Self(principal))
    }
}

/// The token that the request carries. A request with a session is answered as if there were nothing.
#[derive(Debug, Clone)]
pub(crate) struct Holder(pub(crate) TokenHolder);

impl FromRequestParts<SharedState> for Holder {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, Refusal> {
        let (_, holder) = authenticate(parts, state).await?;
        holder.map(Self).ok_or_else(Refusal::not_found)
    }
}

/// Finds out who asks. A token asks as the account that its messages belong to.
pub(crate) async fn authenticate(
    parts: &mut Parts,
    state: &SharedState,
) -> Result<(Principal, Option<TokenHolder>), Refusal> {
    let bearer = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(bearer)
        .map(str::to_owned);
    let caller = parts.extensions.get::<Caller>().cloned().unwrap_or_default();
    if let Some(token) = bearer.as_deref().filter(|bearer| AccessToken::is_form_of(bearer)) {
        let holder = token_access::let_in(state, parts, token).await?;
        caller.is_token(&holder.summary.name);
        let principal = Principal {
            agent: holder.account,
            name: holder.summary.name.sender(),
            role: None,
        };
        return Ok((principal, Some(holder)));
    }
    let principal = match bearer.as_deref().and_then(token_hash) {
        None => None,
        Some(token) => who(state, token).await?,
    };
    let principal = principal.ok_or_else(|| state.unauthenticated("no session, or one that ended"))?;
    caller.is(principal.agent);
    state.presence.heard(principal.agent, state.now_ms());
    if wake(&parts.headers) == WakePath::Turn {
        state.presence.looked_for_turn(principal.agent, state.now_ms());
    }
    Ok((principal, None))
}

/// What a request says of the hook that makes it, if it is one.
pub(crate) fn wake(headers: &HeaderMap) -> WakePath {
    let is = |wake: WakePath| {
        headers
            .get(paths::WAKE_HEADER)
            .is_some_and(|value| value == wake.as_str())
    };
    let mut known = [WakePath::Session, WakePath::Turn].into_iter();
    known.find(|wake| is(*wake)).unwrap_or_default()
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
