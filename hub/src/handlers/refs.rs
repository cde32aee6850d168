//! The hub's own fold of the refs, for people and curl. Programs fold the signed messages of `pushes` themselves.

use axum::http::StatusCode;
use axum::response::Response;

use crate::answer::room_json;
use crate::problem::Refusal;
use crate::room_call::RoomCall;

/// `GET /v1/rooms/{room}/refs`
pub(crate) async fn get(call: RoomCall) -> Result<Response, Refusal> {
    let (refs, head) = call.run(|| call.store().refs(call.principal.agent, &call.room)).await?;
    room_json(StatusCode::OK, &refs, &head)
}
