//! The children that fetch from other remotes and have not ended. They hold locks of the repository while they wait for
//! their remote, and would go on without us; told so, git removes its locks. Children that live on what we feed them end
//! with us.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The command that is meant.
const FETCH: &str = "fetch";
/// How long they may take to end.
const ENDING_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Held while one is reaped: an id in it is of no other process.
static LIVING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn living() -> MutexGuard<'static, Vec<Pid>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A child has been started.
pub(super) fn started(command: &str, child: &Child) {
    if command == FETCH {
        living().push(Pid::from_child(child));
    }
}

/// Reaps the child if it has ended.
pub(super) fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let mut living = living();
    let status = child.try_wait()?;
    if status.is_some() {
        living.retain(|pid| *pid != Pid::from_child(child));
    }
    Ok(status)
}

/// Ends a child by force and reaps it.
pub(super) fn kill(child: &mut Child) {
    let mut living = living();
    // Both fail only when the child is gone already.
    let _ = child.kill();
    let _ = child.wait();
    living.retain(|pid| *pid != Pid::from_child(child));
}

/// Tells every `git fetch` of this process to end, and waits a little until they have: for a process that is itself told
/// to end by a signal.
pub fn end_fetches() {
    for pid in living().iter() {
        // One that has ended is not reaped yet, so its id is still its own.
        let _ = kill_process(*pid, Signal::TERM);
    }
    let began = Instant::now();
    while !living().is_empty() && began.elapsed() < ENDING_PATIENCE {
        std::thread::sleep(PAUSE);
    }
}
