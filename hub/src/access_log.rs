//! One line for each answer, and the headers that every answer has. Never logs a query string, a header or a body: they
//! may hold secrets.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use parler_protocol::{AgentId, TokenName};

use crate::auth::Peer;
use crate::problem::{Fatal, Refusal};
use crate::state::{Phase, SharedState};

/// Where the request's author and the call are noted once known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    who: OnceLock<Who>,
    route: OnceLock<Cow<'static, str>>,
}

#[derive(Debug)]
enum Who {
    Agent(AgentId),
    Token(TokenName),
}

impl Caller {
    pub(crate) fn is(&self, agent: AgentId) {
        // Set once: a request has one author.
        let _ = self.0.who.set(Who::Agent(agent));
    }

    pub(crate) fn is_token(&self, name: &TokenName) {
        let _ = self.0.who.set(Who::Token(name.clone()));
    }

    /// The template of the path that it asks for.
    pub(crate) fn calls(&self, route: Cow<'static, str>) {
        let _ = self.0.route.set(route);
    }

    fn agent(&self) -> Option<&AgentId> {
        match self.0.who.get() {
            Some(Who::Agent(agent)) => Some(agent),
            _ => None,
        }
    }

    fn token(&self) -> Option<&TokenName> {
        match self.0.who.get() {
            Some(Who::Token(name)) => Some(name),
            _ => None,
        }
    }
}

/// Runs the request, and notes what became of it.
pub(crate) async fn access_log<F>(
    state: SharedState,
    mut request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response
where
    F: Future<Output = Response>,
{
    let began = Instant::now();
    let method = request.method().clone();
    let client = request.extensions().get::<Peer>().map(|peer| peer.0);
    let caller = Caller::default();
    request.extensions_mut().insert(caller.clone());

    // A panic is a mistake of one request; the others of its connection, and its log line, should not suffer.
    let answer = AssertUnwindSafe(answer(request)).catch_unwind().await;
    let mut response = answer.unwrap_or_else(|_| Refusal::internal("a handler panicked").into_response());

    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    let route = caller.0.route.get().cloned().unwrap_or(Cow::Borrowed("unmatched"));
    let took = began.elapsed();
    tracing::info!(
        method = method.as_str(),
        route = &*route,
        status = response.status().as_u16(),
        elapsed_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        client = client.map(tracing::field::display),
        agent = caller.agent().map(tracing::field::display),
        token = caller.token().map(tracing::field::display),
        "request"
    );
    state.metrics.answered(&method, route, response.status(), took);
    if let Some(Fatal(why)) = response.extensions_mut().remove::<Fatal>() {
        state.phase.send_replace(Phase::Failed(why));
    }
    response
}
