//! The calls as a router, with what is done before and after each of them. Which calls there are says `calls`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::response::Response;
use futures_util::future::BoxFuture;
use parler_protocol::ErrorCode;

use crate::access_log::{Caller, access_log};
use crate::calls::calls;
use crate::guard::guard;
use crate::problem::Refusal;
use crate::server::{Answers, routed};
use crate::state::SharedState;

/// The hub's calls, guarded and logged.
pub(crate) struct Calls {
    state: SharedState,
    router: Router,
}

impl Calls {
    pub(crate) fn new(state: SharedState) -> Self {
        let mut router = Router::new();
        for call in calls() {
            let (path, handler) = call.into_route();
            router = router.route(path, handler);
        }
        let router = router
            .fallback(not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .with_state(Arc::clone(&state));
        Self { state, router }
    }
}

impl Answers for Calls {
    // About the router and not layers of it: it would copy them for every request.
    fn answer(&self, request: Request) -> BoxFuture<'static, Response> {
        let (state, router) = (Arc::clone(&self.state), self.router.clone());
        Box::pin(access_log(state, request, move |request| routed(router, request)))
    }
}

async fn not_found(State(state): State<SharedState>, mut request: Request) -> Refusal {
    guard(&state, &mut request).err().unwrap_or_else(Refusal::not_found)
}

async fn method_not_allowed(State(state): State<SharedState>, mut request: Request) -> Refusal {
    let extensions = request.extensions();
    if let (Some(caller), Some(path)) = (extensions.get::<Caller>(), extensions.get::<MatchedPath>()) {
        caller.calls(path.as_str().to_owned().into());
    }
    guard(&state, &mut request).err().unwrap_or_else(|| {
        Refusal::new(
            ErrorCode::MethodNotAllowed,
            format!("{} is not a method of this path", request.method()),
        )
    })
}
