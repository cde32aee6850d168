//! Signing a message for a room as the agent that a client speaks for. Posts nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use parler_client::Client;
use parler_protocol::{Draft, Head, HubId, RoomName, SignContext, Signed, Target, sign};

/// Signs a draft for a room of a hub, with the newest head of the room's log that was told.
pub fn sign_for_room(client: &Client, hub: &HubId, room: &RoomName, head: &Head, draft: &Draft) -> Signed {
    let identity = client.identity();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    sign(
        draft,
        &SignContext {
            key: &identity.key,
            name: &identity.name,
            role: identity.role.as_ref(),
            hub,
            room,
            target: &Target::Room { room: room.clone() },
            head,
            now_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
        },
    )
}
