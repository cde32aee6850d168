//! Ends what a client does, from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// What one client asks while it waits.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    is_said: AtomicBool,
    news: Notify,
}

impl Stop {
    /// Returns once stop was said.
    pub(crate) async fn said(&self) {
        // Said before this one asks, the notice waits for it; a second one who asks finds the word itself.
        while !self.is_said.load(Ordering::SeqCst) {
            self.news.notified().await;
        }
    }
}

/// Makes a client stop that was made [beside](crate::Client::beside) another.
#[derive(Debug, Clone)]
pub struct Stopper(Arc<Stop>);

impl Stopper {
    pub(crate) const fn of(stop: Arc<Stop>) -> Self {
        Self(stop)
    }

    /// The call under way, and every later one, fails with [`ClientError::ToldToStop`](crate::ClientError::ToldToStop).
    pub fn stop(&self) {
        self.0.is_said.store(true, Ordering::SeqCst);
        self.0.news.notify_one();
    }
}
