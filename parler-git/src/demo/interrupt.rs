//! Being told to stop in the middle of the demo: the command that runs is ended, and no further one begins, so that
//! the way back through the cleanup is short.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::error::{Error, Result};

/// Watches for signals while it lives.
pub(super) struct Interrupt {
    shared: Arc<Shared>,
    handle: Handle,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// The process group of the command that runs. Emptied before the process is reaped: after that the number may be
    /// somebody else's.
    running: Mutex<Option<Pid>>,
}

impl Interrupt {
    pub(super) fn watch() -> Result<Self> {
        let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])
            .map_err(|error| Error::io("listen for signals", &error))?;
        let handle = signals.handle();
        let shared = Arc::<Shared>::default();
        let seen = Arc::clone(&shared);
        std::thread::spawn(move || {
            for _ in signals.forever() {
                seen.stopped.store(true, Ordering::SeqCst);
                let running = seen.running.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(group) = *running {
                    // Fails only when the whole group has ended.
                    let _ = kill_process_group(group, Signal::TERM);
                }
            }
        });
        Ok(Self { shared, handle })
    }

    /// Fails when a signal came.
    pub(super) fn check(&self) -> Result<()> {
        if self.shared.stopped.load(Ordering::SeqCst) {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Makes `child`, the leader of its process group, the one that a signal ends.
    pub(super) fn guard(&self, child: &Child) {
        *self.shared.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(Pid::from_child(child));
        // A signal may have come before there was anything to end.
        if self.check().is_err() {
            let _ = kill_process_group(Pid::from_child(child), Signal::TERM);
        }
    }

    /// Waits for the child that has closed its output.
    pub(super) fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        let mut running = self.shared.running.lock().unwrap_or_else(PoisonError::into_inner);
        *running = None;
        child.wait()
    }
}

impl Drop for Interrupt {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// An exit status in words.
pub(super) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}
