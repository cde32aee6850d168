//! The messages that carry refs or bundles: what a git client folds into the room's refs.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parler_protocol::{Head, HubId, RoomName, Seq};
use serde::Serialize;

use crate::answer::{tell_head, with_messages};
use crate::problem::Refusal;
use crate::query::Parameters;
use crate::room_call::RoomCall;

#[derive(Serialize)]
struct Before<'a> {
    room: &'a RoomName,
    hub: HubId,
    version: Seq,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Seq>,
}

#[derive(Serialize)]
struct After {
    head: Head,
}

/// `GET /v1/rooms/{room}/pushes?since=`
pub(crate) async fn get(call: RoomCall, mut query: Parameters, headers: HeaderMap) -> Result<Response, Refusal> {
    let since = query.take("since")?.unwrap_or(Seq::ZERO);
    query.finish()?;
    let most = call.state.options.limits.pushes_bytes;
    let log = call
        .run(|| call.store().pushes(call.principal.agent, &call.room, since, most))
        .await?;
    // Who has a part knows the part's tag, which is not the one by which nothing is new.
    let etag = format!("\"{}\"", log.next.unwrap_or(log.version));
    let is_known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|tag| tag.trim().trim_start_matches("W/") == etag);
    let mut response = if is_known && log.next.is_none() {
        let mut response = (StatusCode::NOT_MODIFIED, Body::empty()).into_response();
        tell_head(&mut response, &log.head);
        response
    } else {
        let before = Before {
            room: &log.room,
            hub: call.state.hub,
            version: log.version,
            next: log.next,
        };
        with_messages(&before, log.messages, &After { head: log.head }, &log.head)?
    };
    response
        .headers_mut()
        .insert(header::ETAG, HeaderValue::try_from(etag).map_err(Refusal::internal)?);
    Ok(response)
}
