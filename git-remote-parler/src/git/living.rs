//! The children that have not ended. Those that live on what we feed them would end with us, but may write into what is
//! being removed before they do; those that fetch from other remotes would go on. One that writes refs is let finish: it
//! does, or gives up, when its input is over.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::STARTING;

/// The command that writes refs.
const WRITES_REFS: &str = "update-ref";
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
    if command != WRITES_REFS {
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

/// Tells the children of this process to end, and waits a little until they have: for a process that is itself told to end
/// by a signal. While the result lives no thread starts another one, or learns that one has ended.
pub fn end_children() -> impl Drop {
    let starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let living = living();
    for pid in living.iter() {
        // One that has ended is not reaped, so its id is still its own.
        let _ = kill_process(*pid, Signal::TERM);
    }
    let began = Instant::now();
    while !living.iter().all(|pid| has_ended(*pid)) && began.elapsed() < ENDING_PATIENCE {
        std::thread::sleep(PAUSE);
    }
    Ending {
        _held: (starting, living),
    }
}

struct Ending<T> {
    _held: T,
}

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {}
}

/// Whether it waits to be reaped.
fn has_ended(pid: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error: it is not ours any more.
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}
