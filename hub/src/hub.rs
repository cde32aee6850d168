//! A hub: opened on its data directory, then serving on a listener until it is told to stop.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use parler_protocol::{HubId, limits};
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admin::AdminSocket;
use crate::authority::Authorities;
use crate::blob_store::{BlobStore, FileBlobStore};
use crate::challenge::Challenges;
use crate::disk_space::FreeFloor;
use crate::fetches::Fetches;
use crate::forwarded::TrustedProxies;
use crate::metrics::Metrics;
use crate::metrics_page;
use crate::options::HubOptions;
use crate::orphans;
use crate::presence::Presence;
use crate::rate::RateLimit;
use crate::retention;
use crate::router::Calls;
use crate::server::{self, Door};
use crate::sessions::Sessions;
use crate::shared_pages::SharedPages;
use crate::state::{HubState, Phase, SharedState};
use crate::store::{CommitStats, OpenError, SqliteOptions, SqliteStore, Store, StoreError};
use crate::streams::Streams;
use crate::uploads::Uploads;
use crate::wake::{LocalWake, Wake};

/// Where the blobs too large for the database are, below the data directory.
pub(crate) const BLOBS_DIRECTORY: &str = "blobs";
/// Messages are small, and the people on a disk that is nearly full have something to say to each other: they are taken
/// for longer than files are.
const MESSAGES_FREE_FLOOR_BYTES: u64 = 1 << 30; // 1 GiB

/// Why a hub cannot be opened or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The directory of the blobs cannot be used.
    #[error("cannot open the blobs in {}: {source}", path.display())]
    Blobs {
        /// The directory.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The listener has no address.
    #[error("the listener has no address: {0}")]
    Listener(std::io::Error),
    /// The system gives no random bytes.
    #[error("no random bytes: {0}")]
    Random(getrandom::Error),
    /// The hub could no longer keep its promises and stopped; what it had acknowledged is safe.
    #[error("the hub stopped: {0}")]
    Failed(String),
    /// The store cannot be read.
    #[error("cannot read the store: {0}")]
    Store(StoreError),
    /// The store did not close in order; what it had acknowledged is safe.
    #[error("the store did not close: {0}")]
    Close(StoreError),
}

/// An opened hub.
pub struct Hub {
    options: HubOptions,
    store: Arc<dyn Store>,
    blobs: Arc<dyn BlobStore>,
    wake: Arc<dyn Wake>,
    metrics: Metrics,
    metrics_listener: Option<TcpListener>,
}

impl Hub {
    /// Opens the data directory, which is made if need be, and which no other process may have open.
    pub fn open(options: HubOptions) -> Result<Self, HubError> {
        let floor = options.limits.free_floor_percent;
        let commits = CommitStats::default();
        let store = SqliteStore::open(
            &options.data_dir,
            SqliteOptions {
                free_floor: FreeFloor::percent(floor).at_most(MESSAGES_FREE_FLOOR_BYTES),
                commits: commits.clone(),
                ..SqliteOptions::default()
            },
        )?;
        // After the store, which holds the directory's lock.
        let path = options.data_dir.join(BLOBS_DIRECTORY);
        let blobs = FileBlobStore::open_with_floor(&path, floor).map_err(|source| HubError::Blobs { path, source })?;
        Ok(Self {
            metrics: Metrics::new(&options.data_dir, &options.version, &commits),
            metrics_listener: None,
            options,
            store: Arc::new(store),
            blobs: Arc::new(blobs),
            wake: Arc::new(LocalWake::new()),
        })
    }

    /// The hub's id.
    pub fn id(&self) -> HubId {
        self.store.hub()
    }

    /// Whether any key was ever let in. Where none was, owners are the only ones who can come.
    pub async fn knows_anybody(&self) -> Result<bool, HubError> {
        self.store.knows_anybody().await.map_err(HubError::Store)
    }

    /// Answers `GET /metrics` on this listener while the hub serves, without asking who reads it. Nothing else is answered
    /// there, and no measurements anywhere else.
    #[must_use]
    pub fn with_metrics(mut self, listener: TcpListener) -> Self {
        self.metrics_listener = Some(listener);
        self
    }

    /// Serves on `listener` until `shutdown` is ready; then ends the long polls, lets the requests in flight finish within
    /// [`crate::HubLimits::drain_timeout`], and closes the store.
    pub async fn serve(mut self, listener: TcpListener, shutdown: impl Future<Output = ()>) -> Result<(), HubError> {
        let bound = listener.local_addr().map_err(HubError::Listener)?;
        let (store, metrics_listener) = (Arc::clone(&self.store), self.metrics_listener.take());
        let hub = store.hub();
        let state = self.into_state(bound).await?;
        tracing::info!(%hub, address = %bound, version = state.options.version, "serving");
        let door = Door {
            answers: Box::new(Calls::new(Arc::clone(&state))),
            tls: state.options.tls.clone(),
            proxies: state.options.proxies.clone(),
            connections: state.metrics.connections.clone(),
        };
        let administered = admin_socket(&state).map(|socket| tokio::spawn(socket.serve(Arc::clone(&state))));
        let retained = tokio::spawn(retention::run(Arc::clone(&state)));
        let measured = metrics_listener.map(|listener| measure(Arc::clone(&state), listener));
        let failure = server::serve(state, door, listener, shutdown).await;
        // All of them end when the hub does.
        let _ = retained.await;
        if let Some(measured) = measured {
            let _ = measured.await;
        }
        if let Some(administered) = administered {
            let _ = administered.await;
        }
        let closed = store.close().await;
        tracing::info!(%hub, "stopped");
        match failure {
            Some(why) => Err(HubError::Failed(why)),
            None => closed.map_err(HubError::Close),
        }
    }

    /// What the requests of a hub at this address share.
    pub(crate) async fn into_state(self, bound: SocketAddr) -> Result<SharedState, HubError> {
        match orphans::collect(&*self.store, &*self.blobs).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "blobs that no message brought"),
            // They take space and nothing else: no reason not to serve.
            Err(error) => tracing::warn!(%error, "cannot look for blobs that no message brought"),
        }
        let now = self.options.clock.now_ms();
        let until = now.saturating_add(i64::try_from(limits::RESTART_LEASE.as_millis()).unwrap_or(i64::MAX));
        match self.store.extend_leases(now, until).await {
            Ok(0) => {}
            Ok(extended) => tracing::info!(extended, "jobs whose workers have time to come back"),
            // They are offered to others, and nothing is lost but work.
            Err(error) => tracing::warn!(%error, "cannot give the workers of jobs time to come back"),
        }
        let hub = self.store.hub();
        let (blobs, hub_limits) = (Arc::clone(&self.blobs), self.options.limits.clone());
        let uploads = Uploads::open(blobs, hub_limits, now).await;
        Ok(Arc::new(HubState {
            hub,
            authorities: Authorities::new(bound, self.options.tls.is_some(), &self.options.authorities),
            challenges: Challenges::new(hub).map_err(HubError::Random)?,
            sessions: Sessions::default(),
            proofs: RateLimit::new(self.options.limits.proof_burst, self.options.limits.proofs_per_minute),
            uploads,
            presence: Arc::new(Presence::new(Arc::clone(&self.wake))),
            fetches: Fetches::default(),
            shared_pages: SharedPages::default(),
            streams: Streams::new(self.options.limits.max_streams, self.metrics.streams.clone()),
            metrics: self.metrics,
            phase: watch::Sender::new(Phase::Serving),
            store: self.store,
            blobs: self.blobs,
            wake: self.wake,
            options: self.options,
        }))
    }
}

fn admin_socket(state: &HubState) -> Option<AdminSocket> {
    if !state.options.admin_socket {
        return None;
    }
    AdminSocket::bind(&state.options.data_dir)
        // A path that is too long for a socket, or a file system without them: no reason not to serve.
        .inspect_err(
            |error| tracing::warn!(%error, "no admin socket: `parler-hub admit` has to wait until the hub is stopped"),
        )
        .ok()
}

/// Serves the measurements until the hub stops.
fn measure(state: SharedState, listener: TcpListener) -> JoinHandle<Option<String>> {
    let bound = listener.local_addr().unwrap_or(([0, 0, 0, 0], 0).into());
    let door = Door {
        answers: Box::new(metrics_page::router(Arc::clone(&state), bound)),
        tls: None,
        proxies: TrustedProxies::default(),
        connections: Gauge::default(),
    };
    tracing::info!(address = %bound, "measurements are served");
    tokio::spawn(server::serve(state, door, listener, std::future::pending()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    /// A store that stops, as after a failed fsync, ends the hub: it must not go on as if it could still promise.
    #[tokio::test]
    async fn a_store_that_stopped_ends_the_hub() {
        let directory = tempfile::TempDir::new().unwrap();
        let hub = Hub::open(HubOptions::new(directory.path())).unwrap();
        let store = Arc::clone(&hub.store);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(hub.serve(listener, std::future::pending()));
        store.close().await.unwrap();

        let mut stream = TcpStream::connect(address).await.unwrap();
        let token = format!("parler_{}", "0".repeat(64));
        let request = format!("GET /v1/rooms HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"unavailable\""),
            "{answer}"
        );
        assert!(matches!(serving.await.unwrap(), Err(HubError::Failed(_))));
    }
}
