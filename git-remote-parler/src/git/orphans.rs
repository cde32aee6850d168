//! Git children of processes of ours that were killed. They go on without anybody who reads them, write into what a sweep
//! has removed, or hold a lock for as long as their remote is silent. They are known by what no other process is started
//! with, and ended. Linux tells what a process was started with; elsewhere none is found.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::PARENT;

/// How long one that is told to end may take to remove its locks.
const ENDING_PATIENCE: Duration = Duration::from_secs(2);
/// How long the kernel may take to end one.
const KILLING_PATIENCE: Duration = Duration::from_secs(5);

/// Ends those that write into this quarantine, which nobody holds any more. One that writes refs is let finish: it does,
/// or gives up, when its input is over.
pub(crate) fn end_writers(quarantine: &Path) {
    let mut variable = b"GIT_OBJECT_DIRECTORY=".to_vec();
    variable.extend_from_slice(quarantine.as_os_str().as_bytes());
    for found in all().filter(|found| found.has_variable(&variable)) {
        if found.has_argument(b"update-ref") {
            ends_within(&found.handle, ENDING_PATIENCE);
        } else {
            found.end();
        }
    }
}

/// Ends fetches of this repository whose parent has gone. Told so, git removes its locks.
pub(crate) fn end_fetches(git_dir: &Path) {
    let mut option = b"--git-dir=".to_vec();
    option.extend_from_slice(git_dir.as_os_str().as_bytes());
    let is_ours = |found: &Process| found.has_argument(b"fetch") && found.has_argument(&option);
    for found in all().filter(is_ours).filter(Process::is_orphan) {
        found.end();
    }
}

/// A process of this user.
struct Process {
    handle: OwnedFd,
    /// Each with a zero byte behind it.
    variables: Vec<u8>,
    arguments: Vec<u8>,
    parent: Option<i32>,
}

impl Process {
    fn of(pid: Pid) -> Option<Self> {
        // First: what is read below is of the process that the handle means, or is not used.
        let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let place = Path::new("/proc").join(pid.as_raw_pid().to_string());
        Some(Self {
            handle,
            variables: fs::read(place.join("environ")).ok()?,
            arguments: fs::read(place.join("cmdline")).ok()?,
            parent: parent_of(&fs::read(place.join("stat")).ok()?),
        })
    }

    fn has_variable(&self, variable: &[u8]) -> bool {
        self.variables.split(|byte| *byte == 0).any(|found| found == variable)
    }

    fn has_argument(&self, argument: &[u8]) -> bool {
        self.arguments.split(|byte| *byte == 0).any(|found| found == argument)
    }

    /// Whether it has another parent by now than the one that started it.
    fn is_orphan(&self) -> bool {
        let mut variables = self.variables.split(|byte| *byte == 0);
        let started_by = variables.find_map(|found| found.strip_prefix(PARENT.as_bytes())?.strip_prefix(b"="));
        let started_by: Option<i32> = started_by.and_then(|pid| str::from_utf8(pid).ok()?.parse().ok());
        matches!((started_by, self.parent), (Some(first), Some(now)) if first != now)
    }

    /// Ends it, in order if it can.
    fn end(&self) {
        // Both fail only where it has ended.
        let _ = pidfd_send_signal(&self.handle, Signal::TERM);
        if !ends_within(&self.handle, ENDING_PATIENCE) {
            let _ = pidfd_send_signal(&self.handle, Signal::KILL);
            ends_within(&self.handle, KILLING_PATIENCE);
        }
    }
}

/// The processes that this one may look at, itself aside.
fn all() -> impl Iterator<Item = Process> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries
        .map(|entry| entry.file_name())
        .filter(move |name| name != OsStr::new(&own));
    numbers.filter_map(|name| Process::of(Pid::from_raw(name.to_str()?.parse().ok()?)?))
}

/// The fourth field of `/proc/PID/stat`. The second is a name in brackets, which may hold anything.
fn parent_of(stat: &[u8]) -> Option<i32> {
    let behind = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let rest = str::from_utf8(stat.get(behind..)?).ok()?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn ends_within(handle: &OwnedFd, patience: Duration) -> bool {
    let patience = Timespec::try_from(patience).ok();
    matches!(
        poll(&mut [PollFd::new(handle, PollFlags::IN)], patience.as_ref()),
        Ok(1)
    )
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_parent_stands_behind_any_name() {
        assert_eq!(parent_of(b"12 (git) S 7 12 12 0"), Some(7));
        assert_eq!(parent_of(b"12 (a) (b) S 8 12"), Some(8));
        assert_eq!(parent_of(b""), None);
    }

    #[test]
    fn only_who_writes_there_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let sleeper = |place: &Path| {
            let mut command = Command::new("sleep");
            command.arg("600").env("GIT_OBJECT_DIRECTORY", place).spawn().unwrap()
        };
        let (mut there, mut elsewhere) = (sleeper(directory.path()), sleeper(other.path()));
        end_writers(directory.path());
        assert!(there.wait().unwrap().code().is_none(), "by a signal");
        assert!(elsewhere.try_wait().unwrap().is_none());
        elsewhere.kill().unwrap();
        elsewhere.wait().unwrap();
    }

    #[test]
    fn only_fetches_whose_parent_has_gone_are_ended() {
        let directory = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        // Waits for a line that never comes.
        let fetch = |place: &Path, parent: u32| {
            let option = format!("--git-dir={}", place.display());
            let mut command = Command::new("sh");
            let waiting = command.args(["-c", "read line", option.as_str(), "fetch"]);
            waiting.stdin(Stdio::piped()).env(PARENT, parent.to_string());
            waiting.spawn().unwrap()
        };
        let mut orphan = fetch(directory.path(), 1);
        let others = [fetch(directory.path(), std::process::id()), fetch(other.path(), 1)];
        end_fetches(directory.path());
        assert!(orphan.wait().unwrap().code().is_none(), "by a signal");
        for mut other in others {
            assert!(other.try_wait().unwrap().is_none());
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
