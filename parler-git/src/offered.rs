//! How far rooms were shown to this agent's readers, whether or not it was acknowledged: kept on this machine, so that a
//! reader that died in between is told what comes again. Decides nothing: what is unread only the hub's cursor says.

use std::collections::BTreeMap;

use parler_client::Client;
use parler_protocol::{HubId, RoomName, Seq};

use crate::home::Home;
use crate::state_file::{Durability, Kept, StateFile};

/// One agent's rooms on one hub, by [`RoomName::key`].
type Rooms = BTreeMap<String, Seq>;

/// Where it is kept.
pub(crate) struct Offered {
    file: StateFile,
}

impl Offered {
    /// Of the agent that a client speaks for. None: of a token nothing is kept.
    pub(crate) fn of(home: &Home, hub: &HubId, client: &Client) -> Option<Self> {
        if client.token().is_some() {
            return None;
        }
        let agent = client.identity().key.id();
        let path = home.offered_dir().join(hub.to_string()).join(format!("{agent}.json"));
        Some(Self {
            file: StateFile::at(path),
        })
    }

    /// The last message that was shown, where that is beyond what was acknowledged.
    pub(crate) fn beyond(&self, room: &RoomName, acknowledged: Seq) -> Option<Seq> {
        match self.file.load::<Rooms>() {
            Kept::Content(rooms) => rooms.get(&room.key()).copied().filter(|seq| *seq > acknowledged),
            Kept::Nothing | Kept::Damaged | Kept::Newer => None,
        }
    }

    /// Everything up to this message is about to be shown. Where that cannot be kept, nothing depends on it.
    pub(crate) fn note(&self, room: &RoomName, seq: Seq) {
        self.file.update(Durability::Soon, |rooms: Option<Rooms>| {
            let mut rooms = rooms.unwrap_or_default();
            let offered = rooms.entry(room.key()).or_default();
            *offered = seq.max(*offered);
            rooms
        });
    }
}
