//! The calls as a router, with what is done before and after each of them. Which calls there are says `calls`.

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use parler_protocol::ErrorCode;

use crate::access_log::access_log;
use crate::calls::calls;
use crate::guard::guard;
use crate::problem::Refusal;
use crate::state::SharedState;

/// The hub's calls, guarded and logged.
pub(crate) fn router(state: SharedState) -> Router {
    let mut router = Router::new();
    for call in calls() {
        let (path, handler) = call.into_route();
        router = router.route(path, handler);
    }
    router
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
