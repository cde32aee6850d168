//! More clients of the same hub, as the same agent, each for a thread of its own: a connection carries one answer at a
//! time. Shares the session, the witness and the help of the first; opens no session where that one is still good.

use std::sync::Arc;

use crate::stop::{Stop, Stopper};
use crate::{CachedSession, Client, ClientError, ClientOptions, SessionCache};

/// The session of the first client. A new one is not kept: the first sees for itself that it needs one.
struct Shared(Option<CachedSession>);

impl SessionCache for Shared {
    fn load(&self) -> Option<CachedSession> {
        self.0.clone()
    }

    fn store(&self, _session: &CachedSession) {}
}

impl Client {
    /// Says how many clients, this one with them, read answers at the same time: an answer may be as many times slower.
    pub fn share_line(&self, clients: usize) {
        self.on_the_line.set(clients as u64);
    }

    /// Another client, with connections of its own, to be used in another thread. With what makes it stop at once, in the
    /// middle of a call too. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ClientError::Setup`] when the system gives no event queue.
    pub fn beside(&self) -> Result<(Self, Stopper), ClientError> {
        let options = ClientOptions {
            address: self.options.address.clone(),
            identity: self.options.identity.clone(),
            secret: self.reviving.secret(),
            token: self.options.token.clone(),
            sessions: Box::new(Shared(self.kept_session())),
            deadlines: self.options.deadlines,
        };
        let stop = Arc::new(Stop::default());
        let mut other = Self::with_tls(options, self.tls.clone())?.seen_by(Arc::clone(&self.witness));
        other.reviving = self.reviving.shared();
        other.stop = Some(Arc::clone(&stop));
        Ok((other, Stopper::of(stop)))
    }
}
