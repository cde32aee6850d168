//! Opening a session: a key is proved, and let in.

use std::time::Instant;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use data_encoding::BASE64;
use parler_protocol::api::{Joined, OpenSession, SessionOpened};
use parler_protocol::{Challenge, ErrorCode, session_proof_bytes};
use subtle::ConstantTimeEq;

use crate::access_log::Caller;
use crate::answer::json;
use crate::auth::Peer;
use crate::body::Json;
use crate::guard::Authority;
use crate::problem::Refusal;
use crate::reserved_name::{is_mixed, is_reserved};
use crate::sessions::new_token;
use crate::state::{HubState, SharedState};
use crate::store::{NewSession, Principal};

/// `POST /v1/session`
pub(crate) async fn open(
    State(state): State<SharedState>,
    Peer(peer): Peer,
    Authority(authority): Authority,
    axum::Extension(caller): axum::Extension<Caller>,
    Json(request): Json<OpenSession>,
) -> Result<Response, Refusal> {
    let (Some(challenge), Some(sig)) = (&request.challenge, &request.sig) else {
        return Err(state.unauthenticated("answer the challenge"));
    };
    limit_proofs(&state, peer)?;
    let now = state.now_ms();
    if !is_proved(&state, &request, challenge, sig, &authority, now) {
        return Err(state.unauthenticated("the proof is not accepted; answer the new challenge"));
    }
    caller.is(request.id);
    if is_reserved(&request.name) {
        return Err(Refusal::new(
            ErrorCode::NameReserved,
            "a name that begins with ci/, or looks so, is a token's",
        ));
    }

    // The agents of the local hub are one user's, whose directories may be called anything.
    if state.options.local.is_none() && std::iter::once(&request.name).chain(&request.role).any(is_mixed) {
        return Err(Refusal::new(
            ErrorCode::NameReserved,
            "a name or role with letters of several scripts in one word could be taken for another's",
        ));
    }

    let (token, hash) = new_token().map_err(Refusal::internal)?;
    let ttl_ms = i64::try_from(state.options.limits.session_ttl.as_millis()).unwrap_or(i64::MAX);
    let expires_at = now.saturating_add(ttl_ms);
    let (agent, name) = (request.id, request.name.clone());
    let session = NewSession {
        admit: admits(&state, &request)?,
        principal: Principal {
            agent: request.id,
            name: request.name,
            role: request.role,
        },
        token: hash,
        expires_at,
        invite: request.invite,
        now,
    };
    let opened = state.store.open_session(session).await?;
    state.sessions.forget_other_names(&agent, &name);
    let (joined, waiting) = match opened {
        Some(Joined::In(room)) => {
            state.wake.notify_joined(agent);
            (Some(room), None)
        }
        Some(Joined::Waiting(waiting)) => (None, Some(waiting)),
        None => (None, None),
    };
    json(
        StatusCode::OK,
        &SessionOpened {
            token,
            expires_at,
            hub: state.hub,
            joined,
            waiting,
        },
    )
}

/// Spends one of the tries that an address has, for proofs and invite codes.
pub(crate) fn limit_proofs(state: &HubState, peer: std::net::IpAddr) -> Result<(), Refusal> {
    state.proofs.take(peer, Instant::now()).map_err(|wait| {
        Refusal::new(
            ErrorCode::RateLimited,
            "too many proofs or invite codes from this address",
        )
        .retry_after(wait)
    })
}

fn is_proved(
    state: &HubState,
    request: &OpenSession,
    challenge: &Challenge,
    sig: &str,
    authority: &str,
    now: i64,
) -> bool {
    let signature: Option<[u8; 64]> = BASE64.decode(sig.as_bytes()).ok().and_then(|sig| sig.try_into().ok());
    signature.is_some_and(|signature| {
        state.challenges.is_open(challenge, now)
            && request
                .id
                .verifies(&session_proof_bytes(challenge, authority), &signature)
            && state.challenges.take(challenge, now)
    })
}

/// Whether a key that the hub does not know is let in without an invite. The local hub lets nobody in, known or not,
/// who does not show its secret: who is in may join any channel there.
fn admits(state: &HubState, request: &OpenSession) -> Result<bool, Refusal> {
    if let Some(local) = &state.options.local {
        let shown = request.secret.as_deref().unwrap_or_default();
        if !bool::from(shown.as_bytes().ct_eq(local.secret.as_bytes())) {
            return Err(Refusal::new(
                ErrorCode::NotAdmitted,
                "this local hub serves its own user only",
            ));
        }
        return Ok(true);
    }
    Ok(state.options.open || state.options.owners.contains(&request.id))
}
