//! What is checked of every request before anything else: that it was meant for this hub, that no browser page sent
//! it, and that its body is not compressed.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Uri, header};
use parler_protocol::ErrorCode;

use crate::problem::Refusal;
use crate::state::{HubState, SharedState};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The authority (`host[:port]`) that the request named, once it is known to be this hub's.
#[derive(Debug, Clone)]
pub(crate) struct Authority(pub(crate) String);

impl FromRequestParts<SharedState> for Authority {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &SharedState) -> Result<Self, Refusal> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(|| Refusal::internal("a route without its guard"))
    }
}

/// Lets a request through, or refuses it.
pub(crate) fn guard(state: &HubState, request: &mut Request) -> Result<(), Refusal> {
    let authority = check(state, request.uri(), request.headers())?;
    request.extensions_mut().insert(authority);
    Ok(())
}

fn check(state: &HubState, uri: &Uri, headers: &HeaderMap) -> Result<Authority, Refusal> {
    let authority = authority(state, uri, headers)?;
    if headers.contains_key(header::ORIGIN) || is_cross_site(headers) {
        return Err(Refusal::new(
            ErrorCode::OriginRefused,
            "this hub does not answer browser pages",
        ));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        return Err(Refusal::new(
            ErrorCode::UnsupportedMediaType,
            "request bodies are sent without Content-Encoding",
        ));
    }
    Ok(authority)
}

fn authority(state: &HubState, uri: &Uri, headers: &HeaderMap) -> Result<Authority, Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next().map(|host| host.to_str()), hosts.next()) {
        (Some(Ok(host)), None) => host,
        _ => return Err(Refusal::new(ErrorCode::MisdirectedRequest, "a request names one Host")),
    };
    // `GET http://other/ HTTP/1.1` names a second authority, which must be the same.
    let is_ours = state.authorities.allows(host)
        && uri
            .authority()
            .is_none_or(|authority| authority.as_str().eq_ignore_ascii_case(host));
    if is_ours {
        Ok(Authority(host.to_owned()))
    } else {
        Err(Refusal::new(
            ErrorCode::MisdirectedRequest,
            "this hub is not called that; see --authority",
        ))
    }
}

/// Whether a browser says that another site's page is behind the request.
fn is_cross_site(headers: &HeaderMap) -> bool {
    headers
        .get_all(SEC_FETCH_SITE)
        .iter()
        .any(|site| site != "none" && site != "same-origin")
}
