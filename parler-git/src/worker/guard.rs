//! The process between a worker and the command of a job: it ends the command with everything that it started, when the
//! command is over, when the worker says so, and when the worker is gone, however that ended. Does nothing else.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Command, ExitCode, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, setsid, waitid};

#[cfg(target_os = "linux")]
use super::adopted;
use crate::cli::{JobExec, JobGuard};

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
/// `executable` is this program.
pub(crate) fn run(args: &JobGuard, executable: Option<&Path>) -> ExitCode {
    #[cfg(target_os = "linux")]
    // What leaves its group comes back here when its parent ends. Without that the group alone is ended.
    let _ = rustix::process::set_child_subreaper(Pid::from_raw(1));
    let executable = executable.ok_or_else(|| io::Error::other("the system does not say where this program is"));
    let started = executable.and_then(|executable| {
        let input = File::open(&args.input)?;
        let mut command = Command::new(executable);
        command.arg0(COMMAND_NAME).args(["job-exec", "--guard"]);
        command.arg(process::id().to_string()).arg("--").args(&args.command);
        command.stdin(input).spawn()
    });
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return not_run(&args.command, &error),
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
        signal(leader, Signal::TERM);
        let _ = heard.recv_timeout(ENDING_PATIENCE);
    }
    signal(leader, Signal::KILL);
    let status = child.wait();
    #[cfg(target_os = "linux")]
    adopted::end_all();
    status.map_or(ExitCode::from(NOT_STARTED), exit_code)
}

/// Signals the command and what is in its group; alone where it has none yet. Its number is its own until it is reaped.
fn signal(leader: Pid, signal: Signal) {
    if kill_process_group(leader, signal).is_err() {
        let _ = kill_process(leader, signal);
    }
}

/// Becomes the command, in a session of its own: the worker's terminal is none of its. Gives an exit code where it cannot.
pub(crate) fn become_command(args: &JobExec) -> ExitCode {
    let _ = setsid();
    #[cfg(target_os = "linux")]
    {
        // Whoever ends its guard ends itself.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get().unsigned_abs());
        if parent != Some(args.guard) {
            return ExitCode::from(NOT_STARTED);
        }
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return ExitCode::from(NOT_STARTED);
    };
    let error = Command::new(program).args(arguments).exec();
    not_run(&args.command, &error)
}

/// Says that it is not run, where its output goes: that is what the requester is shown.
fn not_run(command: &[OsString], error: &io::Error) -> ExitCode {
    let program = command.first().map(|program| program.display());
    let _ = writeln!(
        io::stderr(),
        "cannot run {}: {error}",
        program.unwrap_or(OsStr::new("").display())
    );
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_STARTED
    })
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let by_signal = || status.signal().map(|signal| BY_SIGNAL + signal);
    let code = status.code().or_else(by_signal).unwrap_or_default();
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
