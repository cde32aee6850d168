//! Identity tokens of CI jobs, exchanged for tokens of the hub.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::api::{ExchangeIdentity, TokenCreated};
use parler_protocol::{AccessToken, AgentKey, ErrorCode};
use sha2::{Digest, Sha256};

use super::sessions::limit_proofs;
use super::tokens::random;
use crate::access_log::Caller;
use crate::answer::json;
use crate::auth::Peer;
use crate::body::Json;
use crate::oidc::{self, IdentityToken, Refused};
use crate::problem::Refusal;
use crate::state::SharedState;
use crate::store::{JobToken, NewToken, StoreError};

/// Most identity tokens that are remembered at once, so that each is taken once.
const MOST_IDENTITIES: u32 = 100_000;

/// `POST /v1/oidc`
pub(crate) async fn exchange(
    State(state): State<SharedState>,
    Peer(peer): Peer,
    axum::Extension(caller): axum::Extension<Caller>,
    Json(request): Json<ExchangeIdentity>,
) -> Result<Response, Refusal> {
    limit_proofs(&state, peer)?;
    let Some(trust) = &state.options.oidc else {
        return Err(refused(&Refused::token("this hub trusts no issuer")));
    };
    let issuers = trust.issuers();
    let identity = IdentityToken::parse(&request.token).map_err(|what| refused(&Refused::token(what)))?;
    let issuer = oidc::key_of(&issuers, &identity, state.now_ms())
        .await
        .map_err(|why| refused(&why))?;
    // Keys may have been waited for.
    let now = state.now_ms();
    let admitted = oidc::judge(issuer, &identity, request.room.as_ref(), now).map_err(|why| refused(&why))?;

    let rule = admitted.rule;
    let token = AccessToken::from_random(rule.name.clone(), state.hub, random()?);
    let job = JobToken {
        token: NewToken {
            by: rule.owner,
            name: rule.name.clone(),
            // The other half of this key is forgotten here.
            account: AgentKey::from_random(random()?).id(),
            hash: Sha256::digest(token.expose()).into(),
            rooms: rule.rooms.clone(),
            can: rule.can.clone(),
            expires_at: now.saturating_add(oidc::millis(rule.ttl)),
            now,
        },
        room: request.room,
        issuer: issuer.name.clone(),
        claims: admitted.claims,
        identity: admitted.identity,
        identity_ends: admitted.ends,
        most_identities: MOST_IDENTITIES,
    };
    let summary = state.store.exchange_identity(job).await.map_err(|error| match error {
        StoreError::IdentityTaken => refused(&Refused::token("it was used before: each is taken once")),
        StoreError::NotAdmitted | StoreError::NotFound => {
            let why = format!("rule '{}': its owner is not in the room", rule.name);
            refused(&Refused::rule(&why))
        }
        StoreError::TokenExists(name) => {
            let why = format!("rule '{name}': the name is that of another token");
            refused(&Refused::rule(&why))
        }
        error => error.into(),
    })?;
    caller.is_token(&summary.name);
    tracing::info!(token = %summary.name, issuer = %issuer.name, "made a token for a job");
    let token = token.expose().to_owned();
    json(StatusCode::CREATED, &TokenCreated { token, summary })
}

/// The operator is told why, and never the token.
fn refused(why: &Refused) -> Refusal {
    tracing::warn!(refused = %why.told, reason = %why.reason, "refused an identity token");
    Refusal::new(ErrorCode::OidcRefused, why.told.clone())
}
