//! `GET /metrics`, on a listener of its own and nowhere else: what stands in front of the hub's calls, such as a proxy on
//! this machine, cannot show it to the world by mistake. Asks for no token, and tells nothing but numbers.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use parler_protocol::ErrorCode;

use crate::authority::Authorities;
use crate::metrics::TEXT_TYPE;
use crate::problem::Refusal;
use crate::state::SharedState;

/// The pages of the listener for measurements.
pub(crate) fn router(state: SharedState, bound: SocketAddr) -> Router {
    // On other addresses a scraper may call it by any name.
    let names = bound
        .ip()
        .is_loopback()
        .then(|| Arc::new(Authorities::new(bound, false, &[])));
    Router::new()
        .route("/metrics", get(page))
        .fallback(async || Refusal::not_found())
        .layer(from_fn_with_state(names, guard))
        .with_state(state)
}

/// No page that a browser shows reads this, whatever name it was led here by.
async fn guard(State(names): State<Option<Arc<Authorities>>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if names.is_some_and(|names| !host.is_some_and(|host| names.allows(host))) {
        return Refusal::new(
            ErrorCode::MisdirectedRequest,
            "these are not the measurements of that host",
        )
        .into_response();
    }
    if headers.contains_key(header::ORIGIN) {
        return Refusal::new(ErrorCode::OriginRefused, "this hub does not answer browser pages").into_response();
    }
    next.run(request).await
}

async fn page(State(state): State<SharedState>) -> Result<Response, Refusal> {
    let text = tokio::task::spawn_blocking(move || state.metrics.text())
        .await
        .map_err(Refusal::internal)?
        .map_err(Refusal::internal)?;
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(TEXT_TYPE))], text).into_response())
}
