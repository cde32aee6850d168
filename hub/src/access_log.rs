//! One line for each answer, and the headers that every answer has. Never logs a query string, a header or a body: they
//! may hold secrets.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use parler_protocol::{AgentId, TokenName};

use crate::auth::Peer;
use crate::problem::{Fatal, Refusal};
use crate::state::{Phase, SharedState};

/// Where the request's author is noted once known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller(Arc<OnceLock<Who>>);

#[derive(Debug)]
enum Who {
    Agent(AgentId),
    Token(TokenName),
}

impl Caller {
    pub(crate) fn is(&self, agent: AgentId) {
        // Set once: a request has one author.
        let _ = self.0.set(Who::Agent(agent));
    }

    pub(crate) fn is_token(&self, name: &TokenName) {
        let _ = self.0.set(Who::Token(name.clone()));
    }

    fn agent(&self) -> Option<&AgentId> {
        match self.0.get() {
            Some(Who::Agent(agent)) => Some(agent),
            _ => None,
        }
    }

    fn token(&self) -> Option<&TokenName> {
        match self.0.get() {
            Some(Who::Token(name)) => Some(name),
            _ => None,
        }
    }
}

/// Runs the request, and notes what became of it.
pub(crate) async fn access_log(State(state): State<SharedState>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let client = request.extensions().get::<Peer>().map(|peer| peer.0);
    let caller = Caller::default();
    request.extensions_mut().insert(caller.clone());

    // A panic is a mistake of one request; the others of its connection, and its log line, should not suffer.
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| Refusal::internal("a handler panicked").into_response());

    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let (took, route) = (began.elapsed(), route.as_ref().map_or("unmatched", MatchedPath::as_str));
    state.metrics.answered(&method, route, response.status(), took);
    tracing::info!(
        method = method.as_str(),
        route,
        status = response.status().as_u16(),
        elapsed_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        client = client.map(tracing::field::display),
        agent = caller.agent().map(tracing::field::display),
        token = caller.token().map(tracing::field::display),
        "request"
    );
    if let Some(Fatal(why)) = response.extensions_mut().remove::<Fatal>() {
        state.phase.send_replace(Phase::Failed(why));
    }
    response
}
