//! Another way to a hub that has gone away while it was spoken to: whoever made the client may be able to start it again.
//! Never used for a hub that answers, whatever it answers, save that it no longer takes the secret it gave.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use parler_protocol::ErrorCode;

use crate::{Client, ClientError, HubAddress};

/// A hub that serves again.
pub struct Revived {
    /// Where. A client that was made for another address does not follow.
    pub address: HubAddress,
    /// What it asks of its own user's agents now.
    pub secret: Option<String>,
}

/// Starts the hub, or waits for its start. None: it does not serve. Called on a thread of its own.
pub type Revive = dyn Fn() -> Option<Revived> + Send + Sync;

/// How a client may be helped, and the secret as last told.
pub(crate) struct Reviving {
    revive: Option<Arc<Revive>>,
    secret: RefCell<Option<String>>,
}

impl fmt::Debug for Reviving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reviving { .. }")
    }
}

impl Reviving {
    /// No help; this secret for good.
    pub(crate) fn none(secret: Option<String>) -> Self {
        Self {
            revive: None,
            secret: RefCell::new(secret),
        }
    }

    /// The same help for another client.
    pub(crate) fn shared(&self) -> Self {
        Self {
            revive: self.revive.clone(),
            secret: self.secret.clone(),
        }
    }

    pub(crate) fn secret(&self) -> Option<String> {
        self.secret.borrow().clone()
    }
}

impl Client {
    /// The same client, which calls this where nobody listens any more, and then sends again. So what is said to a hub
    /// that is ended and started meanwhile is said.
    #[must_use]
    pub fn reviving(mut self, revive: Box<Revive>) -> Self {
        self.reviving.revive = Some(Arc::from(revive));
        self
    }

    /// Whether the hub serves again that a call failed so with.
    pub(crate) fn revived_after(&self, error: &ClientError) -> bool {
        let Some(revive) = &self.reviving.revive else {
            return false;
        };
        let stale_secret = error.code() == Some(ErrorCode::NotAdmitted);
        if !stale_secret && !error.is_unreachable() {
            return false;
        }
        // Apart from our event loop: it may have one of its own.
        let revived = std::thread::scope(|scope| scope.spawn(|| revive()).join());
        let Ok(Some(revived)) = revived else { return false };
        let is_ours = revived.address == *self.address();
        let told_before = self.reviving.secret.replace(revived.secret.clone());
        is_ours && (!stale_secret || told_before != revived.secret)
    }
}
