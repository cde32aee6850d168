//! Which jobs this agent has claimed by hand: kept on this machine, so that what is said of one in another terminal goes with
//! the claim's number. Decides nothing: whether a claim still counts the hub knows.

use std::collections::BTreeMap;

use parler_client::Client;
use parler_protocol::{Fence, HubId, MessageId, Seq, ServiceName};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::home::Home;
use crate::state_file::{Durability, Kept, StateFile};

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) fence: Fence,
    /// The id of the job's message.
    pub(crate) id: MessageId,
    /// What its requester is called.
    pub(crate) requester: String,
}

/// One agent's claims on one hub, by service and number.
type Held = BTreeMap<String, Claim>;

/// Where they are kept.
pub(crate) struct Claims {
    file: StateFile,
}

fn key(service: &ServiceName, seq: Seq) -> String {
    format!("{service} {seq}")
}

impl Claims {
    /// Of the agent that a client speaks for.
    pub(crate) fn of(home: &Home, hub: &HubId, client: &Client) -> Self {
        let agent = client.identity().key.id();
        let path = home.claims_dir().join(hub.to_string()).join(format!("{agent}.json"));
        Self {
            file: StateFile::at(path),
        }
    }

    /// The claim of a job, if this agent has it.
    pub(crate) fn get(&self, service: &ServiceName, seq: Seq) -> Option<Claim> {
        match self.file.load::<Held>() {
            Kept::Content(mut held) => held.remove(&key(service, seq)),
            Kept::Nothing | Kept::Damaged | Kept::Newer => None,
        }
    }

    /// Notes a claim.
    pub(crate) fn add(&self, service: &ServiceName, claim: &Claim) -> Result<()> {
        let noted = self.file.update(Durability::Now, |held: Option<Held>| {
            let mut held = held.unwrap_or_default();
            held.insert(key(service, claim.fence.seq), claim.clone());
            held
        });
        let kept = || Error::fatal(format_args!("cannot write {}", self.file.path().display()));
        noted.map(drop).ok_or_else(kept)
    }

    /// Forgets it: it is over. One that was made after it stays.
    pub(crate) fn remove(&self, service: &ServiceName, fence: Fence) {
        self.file.update(Durability::Soon, |held: Option<Held>| {
            let mut held = held.unwrap_or_default();
            let key = key(service, fence.seq);
            if held.get(&key).is_some_and(|claim| claim.fence == fence) {
                held.remove(&key);
            }
            held
        });
    }
}
