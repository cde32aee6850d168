//! What tokens may call: the one place that decides it. A call that is not listed here is closed to every token, so a
//! new call is closed until somebody opens it. The store asks again, in the transaction, what a token may do in a room.

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use axum::http::request::Parts;
use parler_protocol::paths::{self, template};
use parler_protocol::{AccessToken, ErrorCode, RoomName, TokenScope};
use sha2::{Digest, Sha256};

use crate::problem::Refusal;
use crate::room_call::room_of;
use crate::state::{HubState, SharedState};
use crate::store::{Need, TokenHash, TokenHolder};

/// What a call asks of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Nothing: it is about the token itself.
    Nothing,
    /// This, in the room that the path names.
    InRoom(Need),
}

/// The calls that are open to tokens. Membership, cursors, hints and everything that makes or ends something else than a
/// message are for agents.
const OPEN: &[(&str, &str, Asks)] = &[
    ("GET", paths::TOKEN, Asks::Nothing),
    ("GET", template::ROOM, Asks::InRoom(Need::Head)),
    ("GET", template::PUSHES, Asks::InRoom(Need::Refs)),
    ("GET", template::REFS, Asks::InRoom(Need::Refs)),
    ("GET", template::MESSAGES, Asks::InRoom(Need::Read)),
    ("GET", template::STREAM, Asks::InRoom(Need::Read)),
    ("GET", template::BLOB, Asks::InRoom(Need::Read)),
    ("GET", template::BUNDLES, Asks::InRoom(Need::Read)),
    ("POST", template::BUNDLES, Asks::InRoom(Need::Read)),
    ("POST", template::MESSAGES, Asks::InRoom(Need::Post)),
    ("POST", template::UPLOADS, Asks::InRoom(Need::Post)),
    ("GET", template::UPLOAD, Asks::InRoom(Need::Post)),
    ("PATCH", template::UPLOAD, Asks::InRoom(Need::Post)),
    ("DELETE", template::UPLOAD, Asks::InRoom(Need::Post)),
    ("GET", template::JOBS, Asks::InRoom(Need::Jobs)),
    ("POST", template::CLAIMS, Asks::InRoom(Need::Claim)),
    ("PUT", template::CLAIM, Asks::InRoom(Need::Claim)),
    ("DELETE", template::CLAIM, Asks::InRoom(Need::Claim)),
];

/// Lets a request in that carries a token, or says why not. A room that the token is not for and one that does not exist
/// get the same words.
pub(crate) async fn let_in(state: &SharedState, parts: &mut Parts, token: &str) -> Result<TokenHolder, Refusal> {
    let token: AccessToken = token.parse().map_err(|_| unknown(state))?;
    if token.hub() != state.hub {
        return Err(state.unauthenticated("the token is another hub's"));
    }
    let hash = Sha256::digest(token.expose()).into();
    let holder = find(state, hash).await?;

    let path = parts.extensions.get::<MatchedPath>();
    let asks = path.and_then(|path| asks(parts.method.as_str(), path.as_str()));
    let is_message = path.is_some_and(|path| path.as_str() == template::MESSAGES);
    match asks {
        None => Err(refused(format!(
            "the token '{}' does not do this: it takes an agent with a key of its own",
            holder.summary.name
        ))),
        Some(Asks::Nothing) => Ok(holder),
        Some(Asks::InRoom(need)) => {
            let room = named_room(state, parts).await;
            // What becomes of a job is said by whoever works on it.
            let is_receipt = is_message && need == Need::Post && parts.headers.contains_key(paths::FENCE_HEADER);
            let need = if is_receipt { Need::Claim } else { need };
            check_grant(&holder, room.as_ref(), need)?;
            Ok(holder)
        }
    }
}

fn asks(method: &str, path: &str) -> Option<Asks> {
    // What may be read may be asked about.
    let method = if method == "HEAD" { "GET" } else { method };
    OPEN.iter()
        .find(|(of_method, of_path, _)| *of_method == method && *of_path == path)
        .map(|(_, _, asks)| *asks)
}

/// Refuses a token that has ended since its request was let in. It is looked for again by its hash: the store knows it by
/// its account otherwise, which a new token under its name has as well.
pub(crate) async fn check_again(state: &HubState, holder: &TokenHolder) -> Result<(), Refusal> {
    find(state, holder.hash).await.map(drop)
}

async fn find(state: &HubState, hash: TokenHash) -> Result<TokenHolder, Refusal> {
    let holder = state.store.token(hash).await?.ok_or_else(|| unknown(state))?;
    let summary = &holder.summary;
    let how = match summary.revoked_at {
        Some(_) => "was revoked",
        None if summary.expires_at <= state.now_ms() => "has expired",
        None => return Ok(holder),
    };
    Err(state.challenging(ErrorCode::TokenEnded, &format!("the token '{}' {how}", summary.name)))
}

fn unknown(state: &HubState) -> Refusal {
    state.unauthenticated("this hub does not know the token: it may have been replaced by a new one")
}

async fn named_room(state: &SharedState, parts: &mut Parts) -> Option<RoomName> {
    let params = RawPathParams::from_request_parts(parts, state).await.ok()?;
    params.iter().find_map(|(name, value)| room_of(name, value))
}

fn check_grant(holder: &TokenHolder, room: Option<&RoomName>, need: Need) -> Result<(), Refusal> {
    let name = &holder.summary.name;
    let grant = room.and_then(|room| {
        let mut grants = holder.summary.rooms.iter();
        grants.find(|grant| grant.room.key() == room.key())
    });
    match (grant, room) {
        (Some(grant), _) if need.is_met_by(&grant.can) => Ok(()),
        (Some(grant), _) => {
            let can: Vec<_> = grant.can.iter().map(|scope| scope.as_str()).collect();
            let lacks = match need {
                Need::Head | Need::Refs | Need::Read | Need::Jobs => TokenScope::Read,
                Need::Post => TokenScope::Post,
                Need::Claim => TokenScope::Claim,
            };
            Err(refused(format!(
                "the token '{name}' may {} in room '{}', and this needs {lacks}",
                can.join(" and "),
                grant.room
            )))
        }
        (None, Some(room)) => Err(refused(format!("the token '{name}' is not for a room '{room}'"))),
        (None, None) => Err(refused(format!("the token '{name}' is not for a room of that name"))),
    }
}

fn refused(detail: String) -> Refusal {
    Refusal::new(ErrorCode::TokenScope, detail)
}
