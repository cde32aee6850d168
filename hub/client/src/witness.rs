//! Who keeps in mind what a hub says about its rooms, as a client sees it. Which contradictions matter, and where the
//! memory is kept, is the witness's business.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use parler_protocol::{Claim, Head, HubId, RoomName, Seq, paths};

use crate::{Client, ClientError};

/// How far each room's log was known to reach when a request was sent, by [`RoomName::key`]. A room that is not in it
/// was not known.
pub type Asked = BTreeMap<String, Seq>;

/// Sees every head that a client is told, and may object to signing anything for a room.
pub trait Witness: Send + Sync {
    /// A request about this room, or about all of them, is about to be sent.
    fn asking(&self, hub: &HubId, room: Option<&RoomName>) -> Asked;

    /// The hub told a room's head in the answer to such a request.
    fn told(&self, hub: &HubId, room: &RoomName, head: &Head, asked: &Asked);

    /// Verified messages, not read one after the other, say what their authors were told.
    fn claimed(&self, hub: &HubId, room: &RoomName, claims: &[Claim]);

    /// Why nothing should be signed for this room: one line for people.
    fn objection(&self, hub: &HubId, room: &RoomName) -> Option<String>;
}

/// Keeps nothing in mind.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWitness;

impl Witness for NoWitness {
    fn asking(&self, _hub: &HubId, _room: Option<&RoomName>) -> Asked {
        Asked::new()
    }

    fn told(&self, _hub: &HubId, _room: &RoomName, _head: &Head, _asked: &Asked) {}

    fn claimed(&self, _hub: &HubId, _room: &RoomName, _claims: &[Claim]) {}

    fn objection(&self, _hub: &HubId, _room: &RoomName) -> Option<String> {
        None
    }
}

impl Client {
    /// The same client, whose answers this witness sees.
    #[must_use]
    pub fn seen_by(mut self, witness: Arc<dyn Witness>) -> Self {
        self.witness = witness;
        self
    }

    /// Who sees the answers.
    pub fn witness(&self) -> &dyn Witness {
        &*self.witness
    }

    /// Fails where the witness objects to signing anything for this room. Asks nobody but it; a message is not
    /// [posted](Self::post) then either.
    ///
    /// # Errors
    /// [`ClientError::InDoubt`]; as every call where no session is at hand.
    pub fn check_history(&self, room: &RoomName) -> Result<(), ClientError> {
        match self.witness.objection(&self.hub_id()?, room) {
            None => Ok(()),
            Some(why) => Err(ClientError::InDoubt {
                room: room.clone(),
                why,
            }),
        }
    }
}

/// The head that an answer tells.
pub(crate) fn head_of(headers: &HeaderMap) -> Option<Head> {
    headers.get(paths::HEAD_HEADER)?.to_str().ok()?.parse().ok()
}
