//! What an agent has read.

use axum::http::StatusCode;
use axum::response::Response;
use parler_protocol::api::Cursor;

use crate::answer::room_json;
use crate::body::Json;
use crate::problem::Refusal;
use crate::room_call::RoomCall;

/// `PUT /v1/rooms/{room}/cursor`
pub(crate) async fn put(call: RoomCall, Json(request): Json<Cursor>) -> Result<Response, Refusal> {
    if i64::try_from(request.cursor.get()).is_err() {
        return Err(Refusal::bad_request("cursor is a message number"));
    }
    let agent = call.principal.agent;
    let (cursor, head) = call
        .run(|| call.store().acknowledge(agent, &call.room, request.cursor))
        .await?;
    call.state.wake.notify_facts(&call.room.key());
    room_json(StatusCode::OK, &Cursor { cursor }, &head)
}
