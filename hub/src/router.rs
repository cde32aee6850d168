//! Which call is at which path. The paths are those of `parler_protocol::paths`, which clients and documentation share.

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};
use parler_protocol::ErrorCode;
use parler_protocol::paths::{self, template};

use crate::access_log::access_log;
use crate::guard::guard;
use crate::handlers::{
    blobs, bundles, cursor, events, health, invites, messages, pushes, refs, rooms, sessions, stream, tokens, uploads,
};
use crate::problem::Refusal;
use crate::state::SharedState;

/// The hub's calls, guarded and logged.
pub(crate) fn router(state: SharedState) -> Router {
    Router::new()
        .route(paths::HEALTH, get(health::get))
        .route(paths::SESSION, post(sessions::open))
        .route(paths::INVITES, post(invites::create))
        .route(paths::JOIN, post(invites::join))
        .route(paths::ROOMS, post(rooms::create).get(rooms::list))
        .route(paths::EVENTS, get(events::get))
        .route(paths::TOKENS, post(tokens::create).get(tokens::list))
        .route(template::TOKEN_NAMED, delete(tokens::revoke))
        .route(paths::TOKEN, get(tokens::show))
        .route(template::ROOM, get(rooms::get))
        .route(template::MEMBERS, get(rooms::members))
        .route(template::MESSAGES, get(messages::get).post(messages::post))
        .route(template::STREAM, get(stream::get))
        .route(template::CURSOR, put(cursor::put))
        .route(template::PUSHES, get(pushes::get))
        .route(template::REFS, get(refs::get))
        .route(template::BLOB, get(blobs::get))
        .route(template::BUNDLES, get(bundles::get))
        .route(template::UPLOADS, post(uploads::begin))
        .route(
            template::UPLOAD,
            get(uploads::get).patch(uploads::append).delete(uploads::delete),
        )
        .fallback(async || Refusal::not_found())
        .method_not_allowed_fallback(method_not_allowed)
        .layer(from_fn_with_state(SharedState::clone(&state), guard))
        .layer(from_fn_with_state(SharedState::clone(&state), access_log))
        .with_state(state)
}

async fn method_not_allowed(request: Request) -> Refusal {
    Refusal::new(
        ErrorCode::MethodNotAllowed,
        format!("{} is not a method of this path", request.method()),
    )
}
