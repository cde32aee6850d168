//! The messages that carry refs or bundles: what a git client folds into the room's refs.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parler_protocol::{BundleId, Head, HubId, RoomName, Seq};
use serde::Serialize;

use crate::answer::{tell_blob_limit, tell_head, with_messages};
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
    #[serde(skip_serializing_if = "Option::is_none")]
    drops: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<Vec<BundleId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remade: Option<i64>,
}

#[derive(Serialize)]
struct After {
    head: Head,
}

/// `GET /v1/rooms/{room}/pushes?since=`
pub(crate) async fn get(call: RoomCall, query: Parameters, headers: HeaderMap) -> Response {
    let most = call.state.options.limits.max_blob_bytes;
    let mut response = answer(call, query, headers).await.into_response();
    // Whoever is going to push asks here first, also for a room that is not there yet.
    tell_blob_limit(&mut response, most);
    response
}

async fn answer(call: RoomCall, mut query: Parameters, headers: HeaderMap) -> Result<Response, Refusal> {
    let since = query.take("since")?.unwrap_or(Seq::ZERO);
    query.finish()?;
    let most = call.state.options.limits.pushes_bytes;
    let log = call
        .run(|| call.store().pushes(call.principal.agent, &call.room, since, most))
        .await?;
    // Who has a part knows the part's tag, which is not the one by which nothing is new.
    let place = log.next.unwrap_or(log.version);
    let drops = log.drops.as_ref().map_or_else(String::new, |drops| format!("-{drops}"));
    // A room made anew under a name is another one, however far it has come.
    let remade = log.remade.map_or_else(String::new, |at| format!("+{at}"));
    let etag = format!("\"{place}{drops}{remade}\"");
    let known: Vec<&str> = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .collect();
    let is_known = known.contains(&etag.as_str());
    // The list is long where much was given up: it is told when it has changed.
    let of_drops = |tag: &&str| {
        let (_, drops) = tag.trim_matches('"').split_once('-')?;
        Some(drops.split('+').next().unwrap_or_default().to_owned())
    };
    let dropped = match &log.drops {
        Some(drops) if !known.iter().any(|tag| of_drops(tag).as_ref() == Some(drops)) => {
            // Whoever has left meanwhile does not come back by it.
            Some(call.store().dropped_blobs(call.principal.agent, &call.room).await?)
        }
        // They are all back.
        None if known.iter().any(|tag| of_drops(tag).is_some()) => Some(Vec::new()),
        _ => None,
    };
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
            drops: log.drops,
            dropped,
            remade: log.remade,
        };
        with_messages(&before, log.messages, &After { head: log.head }, &log.head)?
    };
    response
        .headers_mut()
        .insert(header::ETAG, HeaderValue::try_from(etag).map_err(Refusal::internal)?);
    Ok(response)
}
