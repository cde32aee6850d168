//! The process between a worker and the command of a job: it ends the command with everything that it started, when the
//! command is over, when the worker says so, and when the worker is gone, however that ended. Does nothing else.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::cli::JobGuard;

/// The name under which this program takes commands, whatever its file is called.
pub(super) const COMMAND_NAME: &str = "git-parler";
/// How long a command that is told to end may take.
pub(super) const ENDING_PATIENCE: Duration = Duration::from_secs(5);
/// What a shell says of a command that is not there, or cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;
/// What is added to the number of the signal that ended a command, as shells do.
const BY_SIGNAL: i32 = 128;

/// What is heard of.
enum Heard {
    /// The command has ended, and is not reaped.
    Ended,
    /// The worker has said that it is to end, or is gone.
    ToldToEnd,
}

/// Runs the command, with its standard input from a file and everything else as this process has it. Gives its exit code.
pub(crate) fn run(args: &JobGuard) -> ExitCode {
    #[cfg(target_os = "linux")]
    // What leaves its group comes back here when its parent ends. Without that the group alone is ended.
    let _ = rustix::process::set_child_subreaper(Pid::from_raw(1));
    let (program, arguments) = match args.command.split_first() {
        Some(split) => split,
        None => return ExitCode::from(NOT_STARTED),
    };
    let started = File::open(&args.input).and_then(|input| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(input).process_group(0).spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            // Where it goes is what the requester is shown.
            let _ = writeln!(io::stderr(), "cannot run {}: {error}", program.display());
            let code = if error.kind() == io::ErrorKind::NotFound {
                NOT_FOUND
            } else {
                NOT_STARTED
            };
            return ExitCode::from(code);
        }
    };
    let leader = Pid::from_child(&child);
    let (tell, heard) = mpsc::channel();
    let (tell_end, tell_told) = (tell.clone(), tell);
    thread::spawn(move || {
        // Not reaped: as long as it is there its group's number is no other's.
        while let Err(rustix::io::Errno::INTR) =
            waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        let _ = tell_end.send(Heard::Ended);
    });
    thread::spawn(move || {
        // Nothing is ever said but that it is over.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = tell_told.send(Heard::ToldToEnd);
    });
    if matches!(heard.recv(), Ok(Heard::ToldToEnd)) {
        let _ = kill_process_group(leader, Signal::TERM);
        let _ = heard.recv_timeout(ENDING_PATIENCE);
    }
    let _ = kill_process_group(leader, Signal::KILL);
    let status = child.wait();
    #[cfg(target_os = "linux")]
    end_adopted();
    status.map_or(ExitCode::from(NOT_STARTED), exit_code)
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let by_signal = || status.signal().map(|signal| BY_SIGNAL + signal);
    let code = status.code().or_else(by_signal).unwrap_or_default();
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Ends what the command had started outside of its group, and what that had started.
#[cfg(target_os = "linux")]
fn end_adopted() {
    use rustix::io::Errno;
    use rustix::process::{WaitOptions, kill_process, wait};

    /// How often it is looked whether they have ended.
    const LOOKS: u32 = 500;
    /// Between two looks.
    const PAUSE: Duration = Duration::from_millis(4);

    for _ in 0..LOOKS {
        for child in children() {
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

/// The processes whose parent this one is.
#[cfg(target_os = "linux")]
fn children() -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let numbers = |list: String| -> Vec<Pid> {
        let numbers = list.split_ascii_whitespace().filter_map(|number| number.parse().ok());
        numbers.filter_map(Pid::from_raw).collect()
    };
    lists.flat_map(numbers).collect()
}
