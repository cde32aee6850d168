//! Liveness.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::{ErrorCode, HubId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::json;
use crate::problem::Refusal;
use crate::state::{Phase, SharedState};

/// What there is to know without a token.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health<'a> {
    /// `ok`
    #[schemars(extend("const" = "ok"))]
    status: &'static str,
    /// The hub.
    hub: HubId,
    /// Of the program.
    version: &'a str,
}

/// `GET /healthz`: 200 while the hub serves, 503 once it is stopping.
pub(crate) async fn get(State(state): State<SharedState>) -> Result<Response, Refusal> {
    if *state.phase.borrow() != Phase::Serving {
        return Err(Refusal::new(ErrorCode::Unavailable, "the hub is stopping"));
    }
    json(
        StatusCode::OK,
        &Health {
            status: "ok",
            hub: state.hub,
            version: &state.options.version,
        },
    )
}
