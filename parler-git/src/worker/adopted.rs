//! Processes whose parents have ended and that have come to this one instead (Linux): a guard ends all of them, a worker those
//! of jobs whose guards were ended. Never ends a child that this process has started itself.

#[cfg(target_os = "linux")]
use std::fs;
#[cfg(target_os = "linux")]
use std::path::Path;
#[cfg(target_os = "linux")]
use std::thread;
#[cfg(target_os = "linux")]
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::process::Pid;
#[cfg(target_os = "linux")]
use rustix::process::{Signal, WaitOptions, kill_process, set_child_subreaper, wait, waitpid};

/// How often it is looked whether they have ended.
#[cfg(target_os = "linux")]
const LOOKS: u32 = 500;
/// Between two looks.
#[cfg(target_os = "linux")]
const PAUSE: Duration = Duration::from_millis(4);

/// What comes to a worker when a guard has ended.
pub(crate) struct Orphans {
    /// What the main thread had started itself, before.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing comes to us there"))]
    own: Vec<Pid>,
    /// One that threads start, and that goes on when these have ended: the local hub.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nothing comes to us there"))]
    hub: Box<dyn Fn() -> Option<Pid> + Send + Sync>,
}

#[cfg(target_os = "linux")]
impl Orphans {
    /// From here on they come to this process, and to its main thread. That is the one that calls, and it starts no process
    /// any more: so what is its child then, and is not the local hub, has come to it.
    pub(crate) fn take_in(hub: impl Fn() -> Option<Pid> + Send + Sync + 'static) -> Self {
        // Where it cannot be done they go where they always went.
        let _ = set_child_subreaper(Pid::from_raw(1));
        Self {
            own: children_of_main(),
            hub: Box::new(hub),
        }
    }

    /// Ends those that have come, and what comes in their place.
    pub(super) fn end(&self) {
        let hub = (self.hub)();
        for _ in 0..LOOKS {
            let mut came = children_of_main();
            came.retain(|pid| !self.own.contains(pid) && hub != Some(*pid));
            if came.is_empty() {
                return;
            }
            for pid in came {
                // Not reaped by anybody else, so its number is its own.
                let _ = kill_process(pid, Signal::KILL);
                let _ = waitpid(Some(pid), WaitOptions::NOHANG);
            }
            thread::sleep(PAUSE);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Orphans {
    pub(crate) fn take_in(hub: impl Fn() -> Option<Pid> + Send + Sync + 'static) -> Self {
        Self {
            own: Vec::new(),
            hub: Box::new(hub),
        }
    }

    pub(super) fn end(&self) {}
}

/// Ends every child of this process, what comes in their place, and reaps them.
#[cfg(target_os = "linux")]
pub(super) fn end_all() {
    for _ in 0..LOOKS {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        for child in tasks.flat_map(|task| children(&task.path().join("children"))) {
            // It is ours, and not reaped, so its number is its own.
            let _ = kill_process(child, Signal::KILL);
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Err(Errno::CHILD) => return,
                Ok(None) | Err(_) => break,
            }
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(target_os = "linux")]
fn children_of_main() -> Vec<Pid> {
    let main = std::process::id();
    children(format!("/proc/self/task/{main}/children").as_ref())
}

/// The processes that a list of the kernel names.
#[cfg(target_os = "linux")]
fn children(list: &Path) -> Vec<Pid> {
    let list = fs::read_to_string(list).unwrap_or_default();
    let numbers = list.split_ascii_whitespace().filter_map(|number| number.parse().ok());
    numbers.filter_map(Pid::from_raw).collect()
}
