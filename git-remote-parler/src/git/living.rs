//! The children that have not ended. Those that live on what we feed them would end with us, but may write into what is
//! being removed before they do; those that fetch from other remotes would go on. One that writes refs is let finish: it
//! does, or gives up, when its input is over.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
static LIVING: Mutex<Vec<Living>> = Mutex::new(Vec::new());

struct Living {
    pid: Pid,
    leash: Option<Leash>,
}

fn living() -> MutexGuard<'static, Vec<Living>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the children of one piece of work from another thread, and those that it starts afterwards.
#[derive(Debug, Clone, Default)]
pub struct Leash(Arc<AtomicBool>);

impl Leash {
    /// Tells them to end. What waits for one of them learns that somebody has ended it.
    pub fn end(&self) {
        let living = living();
        self.0.store(true, Ordering::SeqCst);
        let ours = |leash: &Self| Arc::ptr_eq(&leash.0, &self.0);
        for child in living.iter().filter(|child| child.leash.as_ref().is_some_and(ours)) {
            tell_to_end(child.pid);
        }
    }
}

/// A child has been started.
pub(super) fn started(command: &str, child: &Child, leash: Option<&Leash>) {
    if command == WRITES_REFS {
        return;
    }
    let (pid, mut living) = (Pid::from_child(child), living());
    if leash.is_some_and(|leash| leash.0.load(Ordering::SeqCst)) {
        tell_to_end(pid);
    }
    let leash = leash.cloned();
    living.push(Living { pid, leash });
}

/// One that has ended is not reaped, so its id is still its own.
fn tell_to_end(pid: Pid) {
    let _ = kill_process(pid, Signal::TERM);
}

/// Reaps the child if it has ended.
pub(super) fn try_wait(child: &mut Child) -> io::Result<Option<ExitStatus>> {
    let mut living = living();
    let status = child.try_wait()?;
    if status.is_some() {
        living.retain(|living| living.pid != Pid::from_child(child));
    }
    Ok(status)
}

/// Ends a child by force and reaps it.
pub(super) fn kill(child: &mut Child) {
    let mut living = living();
    // Both fail only when the child is gone already.
    let _ = child.kill();
    let _ = child.wait();
    living.retain(|living| living.pid != Pid::from_child(child));
}

/// Tells the children of this process to end, and waits a little until they have: for a process that is itself told to end
/// by a signal. While the result lives no thread starts another one, or learns that one has ended.
pub fn end_children() -> impl Drop {
    let starting = STARTING.write().unwrap_or_else(PoisonError::into_inner);
    let living = living();
    living.iter().for_each(|child| tell_to_end(child.pid));
    let began = Instant::now();
    while !living.iter().all(|child| has_ended(child.pid)) && began.elapsed() < ENDING_PATIENCE {
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
