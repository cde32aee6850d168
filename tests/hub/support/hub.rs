//! A hub that serves until its test ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parler_hub::{Clock, Hub, HubError, HubOptions};
use parler_protocol::HubId;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Agent;

/// Where every test's clock begins: some day in 2026.
const START_MS: i64 = 1_796_000_000_000;

pub(crate) struct TestHub {
    pub(crate) address: SocketAddr,
    pub(crate) id: HubId,
    pub(crate) directory: Arc<TempDir>,
    clock: Arc<AtomicI64>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), HubError>>,
}

impl TestHub {
    /// A hub that lets any key in.
    pub(crate) async fn start() -> Self {
        Self::with(|options| options.open = true).await
    }

    /// A hub with other options than the defaults.
    pub(crate) async fn with(change: impl FnOnce(&mut HubOptions)) -> Self {
        Self::on(Arc::new(TempDir::new().unwrap()), change).await
    }

    /// A hub on a directory that may have been a hub's before.
    pub(crate) async fn on(directory: Arc<TempDir>, change: impl FnOnce(&mut HubOptions)) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), directory, change).await
    }

    /// The same, at an address where another listened before.
    pub(crate) async fn at(address: SocketAddr, directory: Arc<TempDir>, change: impl FnOnce(&mut HubOptions)) -> Self {
        let clock = Arc::new(AtomicI64::new(START_MS));
        let mut options = HubOptions::new(directory.path().join("hub"));
        let shown = Arc::clone(&clock);
        options.clock = Clock::from_fn(move || shown.load(Ordering::SeqCst));
        options.limits.drain_timeout = Duration::from_secs(60);
        change(&mut options);
        let hub = Hub::open(options).unwrap();
        let id = hub.id();
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(hub.serve(listener, async move {
            // A test that ends drops its side, which stops the hub as well.
            let _ = stopped.await;
        }));
        Self {
            address,
            id,
            directory,
            clock,
            stop,
            serving,
        }
    }

    /// An agent with a new key and an open session.
    pub(crate) async fn agent(&self, name: &str) -> Agent {
        let mut agent = Agent::new(self.address, self.id, name);
        agent.open_session().await;
        agent
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Lets time pass for everything that expires.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock
            .fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Asks the hub to stop, and returns what tells that it has.
    pub(crate) fn stop(self) -> JoinHandle<Result<(), HubError>> {
        let _ = self.stop.send(());
        self.serving
    }
}
