//! Agents with sessions, and rooms that they are in.

use std::sync::Arc;

use parler_harness::{HubProcess, RawClient};
use parler_protocol::api::CreateInvite;
use parler_protocol::{
    AgentKey, AgentName, Draft, Head, HubId, MessageId, Part, RoomKind, RoomName, SignContext, Target, sign,
};

use crate::connection::Connection;

/// What a message says of its time, which nobody compares.
const NOW: i64 = 1_800_000_000_000;

/// Somebody with a session.
pub(crate) struct Seat {
    pub(crate) token: String,
    client: RawClient,
    authority: String,
}

impl Seat {
    pub(crate) fn new(hub: &HubProcess, name: &str) -> Self {
        let client = RawClient::new(&hub.url(), name);
        Self {
            token: client.calls.open_session().unwrap().token,
            client,
            authority: hub.authority().to_owned(),
        }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(&self.authority, &self.token)
    }

    /// Who signs for it.
    pub(crate) fn signer(&self, room: &RoomName) -> Signer {
        let identity = self.client.calls.identity();
        Signer {
            key: Arc::clone(&identity.key),
            name: identity.name.clone(),
            hub: self.client.calls.hub_id().unwrap(),
            room: room.clone(),
            head: self.client.head(room),
        }
    }

    /// Makes rooms that are called by this and a number.
    pub(crate) fn make_rooms(&self, prefix: &str, count: usize) -> Vec<RoomName> {
        let names = (0..count).map(|number| format!("{prefix}{number}").parse().unwrap());
        names
            .inspect(|room| {
                self.client.calls.create_room(room, RoomKind::Channel).unwrap();
            })
            .collect()
    }

    /// Lets others into a room of this one's.
    pub(crate) fn let_in(&self, room: &RoomName, others: &[Self]) {
        if others.is_empty() {
            return;
        }
        let invite = CreateInvite {
            room: room.clone(),
            ttl_secs: None,
            max_uses: u32::try_from(others.len()).ok(),
            approve: false,
        };
        let code = self.client.calls.create_invite(&invite).unwrap().code.to_string();
        for other in others {
            other.client.join(&code);
        }
    }
}

/// Signs for one agent in one room, on any thread.
pub(crate) struct Signer {
    key: Arc<AgentKey>,
    name: AgentName,
    hub: HubId,
    room: RoomName,
    head: Head,
}

impl Signer {
    /// Signs parts. The message has this id.
    pub(crate) fn sign(&self, parts: Vec<Part>) -> (MessageId, Vec<u8>) {
        let target = Target::Room {
            room: self.room.clone(),
        };
        let context = SignContext {
            key: &self.key,
            name: &self.name,
            role: None,
            hub: &self.hub,
            room: &self.room,
            target: &target,
            // What a room has come to meanwhile need not be known to whoever adds to it.
            head: &self.head,
            now_ms: NOW,
        };
        let signed = sign(&Draft::new(parts), &context);
        (signed.id, signed.body)
    }
}

/// Many of them.
pub(crate) fn seats(hub: &HubProcess, count: usize) -> Vec<Seat> {
    (0..count)
        .map(|number| Seat::new(hub, &format!("agent{number}")))
        .collect()
}
