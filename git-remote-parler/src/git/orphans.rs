//! Git children of processes of ours that were killed. They go on without anybody who reads them, write into what a sweep
//! has removed, or hold a lock for as long as their remote is silent. They are known by what no other process is started
//! with, and ended. Linux tells what a process was started with; elsewhere none is found.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
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

/// Whether a child of this process, or one that it has started, has this file open.
pub(crate) fn is_held_by_ours(file: &Metadata) -> bool {
    let own = std::process::id();
    all().any(|found| found.started_by() == i32::try_from(own).ok() && found.has_open(file))
}

/// Whether a process that we may look at has this file open.
pub(crate) fn is_held(file: &Metadata) -> bool {
    all().any(|found| found.has_open(file))
}

/// A process of this user.
struct Process {
    handle: OwnedFd,
    /// Each with a zero byte behind it.
    variables: Vec<u8>,
    arguments: Vec<u8>,
    parent: Option<i32>,
    /// Its directory in `/proc`.
    place: PathBuf,
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
            place,
        })
    }

    fn has_variable(&self, variable: &[u8]) -> bool {
        self.variables.split(|byte| *byte == 0).any(|found| found == variable)
    }

    fn has_argument(&self, argument: &[u8]) -> bool {
        self.arguments.split(|byte| *byte == 0).any(|found| found == argument)
    }

    /// The process that started it, or one before it, if that is one of ours.
    fn started_by(&self) -> Option<i32> {
        let mut variables = self.variables.split(|byte| *byte == 0);
        let pid = variables.find_map(|found| found.strip_prefix(PARENT.as_bytes())?.strip_prefix(b"="))?;
        let pid = str::from_utf8(pid).ok()?.parse().ok()?;
        // In another namespace, such as a container, the number is another process's.
        self.counts_as_we_do().then_some(pid)
    }

    fn counts_as_we_do(&self) -> bool {
        let namespace = |place: &Path| fs::read_link(place.join("ns/pid")).ok();
        let own = namespace(Path::new("/proc/self"));
        own.is_some() && own == namespace(&self.place)
    }

    /// Whether it has another parent by now than the one that started it.
    fn is_orphan(&self) -> bool {
        matches!((self.started_by(), self.parent), (Some(first), Some(now)) if first != now)
    }

    fn has_open(&self, file: &Metadata) -> bool {
        let open = fs::read_dir(self.place.join("fd")).into_iter().flatten().flatten();
        // What the link leads to, wherever that has its name.
        let mut open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
        open.any(|open| (open.dev(), open.ino()) == (file.dev(), file.ino()))
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
    use std::io::Read;
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
            let child = command.arg("600").env("GIT_OBJECT_DIRECTORY", place).spawn().unwrap();
            // The start returns before the kernel shows with which environment.
            let environment = format!("/proc/{}/environ", child.id());
            while std::fs::read(&environment).unwrap().is_empty() {
                std::thread::yield_now();
            }
            child
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

    #[test]
    fn a_fetch_in_another_namespace_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let option = format!("--git-dir={}", directory.path().display());
        let variable = format!("{PARENT}=1");
        let waits = ["sh", "-c", "echo ready; read line", option.as_str(), "fetch"];
        let mut command = Command::new("unshare");
        let inside = command.args(["--user", "--map-root-user", "--pid", "--fork", "env", variable.as_str()]);
        let started = inside
            .args(waits)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut container) = started else {
            println!("not tried: there is no unshare");
            return;
        };
        let mut ready = [0; 5];
        if container.stdout.as_mut().unwrap().read_exact(&mut ready).is_err() {
            println!("not tried: no namespaces for this user");
            container.wait().unwrap();
            return;
        }
        end_fetches(directory.path());
        assert!(container.try_wait().unwrap().is_none());
        // Its input is over then.
        drop(container.stdin.take());
        assert!(
            !container.wait().unwrap().success(),
            "it read no line, and was not ended"
        );
    }

    #[test]
    fn an_open_file_is_known_by_whatever_name() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        fs::write(&one, "").unwrap();
        fs::hard_link(&one, &other).unwrap();
        let meta = fs::metadata(&other).unwrap();
        assert!(!is_held(&meta));
        let holder = |parent: u32| {
            let mut command = Command::new("sleep");
            let command = command.arg("600").env(PARENT, parent.to_string());
            command.stdin(fs::File::open(&one).unwrap()).spawn().unwrap()
        };
        for (parent, is_ours) in [(std::process::id(), true), (1, false)] {
            let mut holder = holder(parent);
            assert!(is_held(&meta));
            assert_eq!(is_held_by_ours(&meta), is_ours);
            holder.kill().unwrap();
            holder.wait().unwrap();
        }
        assert!(!is_held(&meta));
    }
}
