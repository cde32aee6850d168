//! A call's handler, with what is done for every call of its kind. One future about it and no layers: each layer of the
//! router would copy all that are below it, for every request.

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;

use crate::access_log::Caller;
use crate::guard::guard;
use crate::problem::Refusal;
use crate::state::SharedState;
use crate::to_its_end::ToItsEnd;

/// What kind of call it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// As in `parler_protocol::paths`.
    pub(super) path: &'static str,
    /// Whether it has parameters. Elsewhere every parameter is refused: a misspelled one should be noticed there, too.
    pub(super) takes_query: bool,
    /// Whether it goes on when its caller hangs up.
    pub(super) goes_on: bool,
}

/// The handler of one call.
#[derive(Debug, Clone)]
pub(super) struct Handled<H> {
    handler: H,
    manner: Manner,
}

impl<H> Handled<H> {
    pub(super) fn new(handler: H, manner: Manner) -> Self {
        Self { handler, manner }
    }
}

impl<H, T> Handler<T, SharedState> for Handled<H>
where
    H: Handler<T, SharedState>,
    T: 'static,
{
    type Future = BoxFuture<'static, Response>;

    fn call(self, mut request: Request, state: SharedState) -> Self::Future {
        let Self { handler, manner } = self;
        Box::pin(async move {
            if let Some(caller) = request.extensions().get::<Caller>() {
                caller.calls(manner.path.into());
            }
            if let Err(refusal) = guard(&state, &mut request) {
                return refusal.into_response();
            }
            if !manner.takes_query && request.uri().query().is_some_and(|query| !query.is_empty()) {
                return Refusal::bad_request("this call takes no query parameters").into_response();
            }
            let handled = handler.call(request, state);
            if manner.goes_on {
                ToItsEnd::new(handled).await
            } else {
                handled.await
            }
        })
    }
}
