//! A claim that is kept while somebody works: renewed at a third of its time, by a thread of its own. Says when it is lost,
//! or the job called off; what follows from that its holder decides.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parler_client::{Client, ClientError, Stopper};
use parler_protocol::{ErrorCode, Fence, ServiceName};

use crate::error::{Error, ErrorKind, Result};

/// Between two tries where the hub cannot be reached.
const REST: Duration = Duration::from_secs(1);

/// How a claim stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is mine.
    Held,
    /// The job was called off.
    Cancelled,
    /// It is not mine any more, and why.
    Lost(String),
}

/// A claim that is renewed as long as this lives.
pub(crate) struct Lease {
    shared: Arc<Shared>,
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    standing: Standing,
    ends: Instant,
    over: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for so long. False: there is nothing to renew any more.
    fn rest(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), time, |state| !state.over);
        !waited.unwrap_or_else(PoisonError::into_inner).0.over
    }

    fn settle(&self, standing: Standing, wake: &dyn Fn()) {
        let mut state = self.lock();
        // The first word counts.
        if state.standing == Standing::Held {
            state.standing = standing;
        }
        drop(state);
        wake();
    }
}

impl Lease {
    /// Keeps the claim that `client` has been given, of which `left` is left, for `lease` each time. Wakes when it is over.
    pub(crate) fn keep(
        client: &Client,
        service: &ServiceName,
        fence: Fence,
        lease: Duration,
        left: Duration,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self> {
        let (client, stopper) = client.beside()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                standing: Standing::Held,
                ends: Instant::now() + left,
                over: false,
            }),
            changed: Condvar::new(),
        });
        let (seen, service) = (Arc::clone(&shared), service.clone());
        let thread = thread::Builder::new()
            .name("lease".to_owned())
            .spawn(move || renew(&client, &service, fence, lease, &seen, &wake))
            .map_err(|error| Error::io("start a thread", &error))?;
        Ok(Self {
            shared,
            stopper,
            thread: Some(thread),
        })
    }

    /// How it stands: lost also where its time is over and nothing else was heard.
    pub(crate) fn standing(&self) -> Standing {
        let state = self.shared.lock();
        match state.standing {
            Standing::Held if Instant::now() >= state.ends => Standing::Lost(OUT_OF_TIME.to_owned()),
            ref standing => standing.clone(),
        }
    }

    /// Until when it is mine, unless it is renewed.
    pub(crate) fn ends(&self) -> Instant {
        self.shared.lock().ends
    }

    /// The hub has said of another request that it is not mine any more.
    pub(crate) fn lost(&self, why: &str) {
        let mut state = self.shared.lock();
        if state.standing == Standing::Held {
            state.standing = Standing::Lost(why.to_owned());
        }
    }
}

/// What is said where the hub was not reached in time.
const OUT_OF_TIME: &str = "the hub could not be reached before the claim ended";

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.shared.changed.notify_all();
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            // It panics for nothing that is known.
            let _ = thread.join();
        }
    }
}

fn renew(client: &Client, service: &ServiceName, fence: Fence, lease: Duration, shared: &Shared, wake: &dyn Fn()) {
    // A claim that was asked for again has less left than a new one.
    let mut rest = shared.lock().ends.saturating_duration_since(Instant::now()) / 3;
    while shared.rest(rest) {
        let asked = Instant::now();
        match client.renew_claim(service, fence, lease) {
            Ok(renewed) if renewed.cancelled => return shared.settle(Standing::Cancelled, wake),
            Ok(renewed) => {
                // From when it was asked: what the hub has by its clock is not less.
                shared.lock().ends = asked + Duration::from_millis(renewed.lease_ms);
                rest = lease / 3;
            }
            Err(ClientError::ToldToStop) => return,
            Err(error) if error.code() == Some(ErrorCode::StaleFence) => {
                return shared.settle(Standing::Lost("somebody else may have it now".to_owned()), wake);
            }
            Err(error) => {
                let error = Error::from(error);
                let is_passing = error.kind == ErrorKind::Unreachable;
                if is_passing && Instant::now() < shared.lock().ends {
                    rest = REST;
                    continue;
                }
                let why = if is_passing { OUT_OF_TIME } else { error.what() };
                return shared.settle(Standing::Lost(why.to_owned()), wake);
            }
        }
    }
}
