//! What the requests of one serving hub share.

use std::sync::Arc;

use parler_protocol::{ErrorCode, HubId, Problem};
use tokio::sync::watch;

use crate::authority::Authorities;
use crate::blob_store::BlobStore;
use crate::challenge::Challenges;
use crate::fetches::Fetches;
use crate::log_events::LogEvents;
use crate::metrics::Metrics;
use crate::options::HubOptions;
use crate::presence::Presence;
use crate::problem::Refusal;
use crate::rate::RateLimit;
use crate::sessions::Sessions;
use crate::shared_pages::SharedPages;
use crate::store::Store;
use crate::streams::Streams;
use crate::uploads::Uploads;
use crate::wake::Wake;

/// Shared by all requests.
pub(crate) type SharedState = Arc<HubState>;

/// Whether the hub goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are answered.
    Serving,
    /// Long polls end; requests in flight are finished.
    Draining,
    /// As draining, because of a fault that only a restart can mend.
    Failed(String),
}

pub(crate) struct HubState {
    pub(crate) hub: HubId,
    pub(crate) options: HubOptions,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) wake: Arc<dyn Wake>,
    pub(crate) authorities: Authorities,
    pub(crate) challenges: Challenges,
    pub(crate) sessions: Sessions,
    pub(crate) proofs: RateLimit,
    pub(crate) streams: Streams,
    pub(crate) shared_pages: SharedPages<LogEvents>,
    pub(crate) uploads: Uploads,
    pub(crate) presence: Arc<Presence>,
    pub(crate) fetches: Fetches,
    pub(crate) metrics: Metrics,
    pub(crate) phase: watch::Sender<Phase>,
}

impl HubState {
    pub(crate) fn now_ms(&self) -> i64 {
        self.options.clock.now_ms()
    }

    /// A 401, which always brings a challenge to answer.
    pub(crate) fn unauthenticated(&self, detail: &str) -> Refusal {
        self.challenging(ErrorCode::Unauthenticated, detail)
    }

    /// A refusal with this code, which brings a challenge to answer.
    pub(crate) fn challenging(&self, code: ErrorCode, detail: &str) -> Refusal {
        let mut problem = Problem::new(code, detail);
        problem.challenge = Some(self.challenges.issue(self.now_ms()));
        problem.into()
    }

    /// Returns when the hub stops serving.
    pub(crate) async fn stopping(&self) {
        let mut phase = self.phase.subscribe();
        // An error means that the sender is gone, and the hub with it.
        let _ = phase.wait_for(|phase| *phase != Phase::Serving).await;
    }
}
