//! The command of a job while it runs: started behind its guard in an environment that holds nothing of the worker's, read as
//! it writes, ended when its time is over, the claim is lost, or the worker is told to stop.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use git_remote_parler::git;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::adopted::Orphans;
use super::capture::Capture;
use super::guard::{COMMAND_NAME, ENDING_PATIENCE};
use super::watch::{End, Watch};
use crate::error::{Error, Result};

/// One read.
const PIECE_BYTES: usize = 64 << 10; // 64 KiB
/// Most reads at once: more than a pipe holds, and few enough that a command which writes without end is ended in time.
const MOST_READS: u32 = 32;
/// How much longer than what it ends a guard may take.
const GUARD_PATIENCE: Duration = Duration::from_secs(5);

/// What is to run.
pub(super) struct Prepared<'a> {
    /// This program.
    pub(super) executable: &'a Path,
    /// The command and its arguments.
    pub(super) argv: Vec<OsString>,
    /// All of its environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) directory: PathBuf,
    pub(super) input: PathBuf,
    /// What it leaves where it ends its guard.
    pub(super) orphans: &'a Orphans,
}

/// What is left of a command.
pub(super) struct Ran {
    pub(super) end: End,
    pub(super) output: Vec<u8>,
    pub(super) took: Duration,
}

/// A guard that runs. Dropped, it ends what it guards and is waited for.
struct Guarded {
    guard: Child,
    /// Closed, it says that the command is to end. At the other end, that the guard has ended.
    line: UnixStream,
    output: Option<PipeReader>,
}

/// Runs a command to its end, whatever that is.
pub(super) fn run(prepared: &Prepared<'_>, watch: &Watch<'_>) -> Result<Ran> {
    let begun = Instant::now();
    let mut guarded = prepared
        .start()
        .map_err(|error| Error::io("start the job's command", &error))?;
    let mut capture = Capture::default();
    let end = guarded
        .follow(watch, &mut capture, prepared.orphans)
        .map_err(|error| Error::io("follow the job's command", &error))?;
    let took = begun.elapsed();
    Ok(Ran {
        end,
        output: capture.into_bytes(),
        took,
    })
}

impl Prepared<'_> {
    fn start(&self) -> io::Result<Guarded> {
        let (line, other) = UnixStream::pair()?;
        let (output, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let mut command = Command::new(self.executable);
        command
            // Not the file's own name, which may be the helper's.
            .arg0(COMMAND_NAME)
            .args([
                "job-guard".into(),
                "--input".into(),
                self.input.clone().into_os_string(),
                "--".into(),
            ])
            .args(&self.argv)
            .current_dir(&self.directory)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            // Ctrl-C in a terminal is for the worker, which says what follows from it.
            .process_group(0)
            .stdin(OwnedFd::from(other))
            .stdout(writer.try_clone()?)
            .stderr(writer);
        // The command is dropped with what it holds: the pipe ends with those who write into it.
        let _others = git::starting();
        let guard = command.spawn()?;
        Ok(Guarded {
            guard,
            line,
            output: Some(output),
        })
    }
}

impl Guarded {
    fn follow(&mut self, watch: &Watch<'_>, capture: &mut Capture, orphans: &Orphans) -> io::Result<End> {
        let mut verdict = None;
        let mut deadline = None;
        loop {
            if verdict.is_none() {
                verdict = watch.verdict();
                if verdict.is_some() {
                    self.tell_to_end();
                    deadline = Some(Instant::now() + ENDING_PATIENCE + GUARD_PATIENCE);
                }
            }
            let left = match deadline {
                None => watch.left(),
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            };
            if deadline.is_some() && left.is_zero() {
                break;
            }
            let ready = self.wait(watch, left, verdict.is_none())?;
            if ready.output {
                self.read(capture)?;
            }
            if ready.news {
                watch.take_news();
            }
            if ready.ended {
                break;
            }
        }
        // What it wrote before it ended. Somebody else may hold the pipe open, so the end of it is not waited for.
        self.read(capture)?;
        // Fails only where it has ended.
        let _ = self.guard.kill();
        let status = self.guard.wait()?;
        if status.code().is_none() {
            // What it guarded goes on without it, and was started by it to come here.
            orphans.end();
            self.read(capture)?;
        }
        Ok(match (verdict, status.code()) {
            (Some(verdict), _) => verdict,
            (None, Some(code)) => End::Exited(code),
            (None, None) => watch.verdict().unwrap_or(End::Unguarded),
        })
    }

    fn tell_to_end(&self) {
        // Fails only where the guard has ended.
        let _ = self.line.shutdown(Shutdown::Write);
    }

    fn wait(&self, watch: &Watch<'_>, longest: Duration, with_news: bool) -> io::Result<Ready> {
        let mut polled = vec![PollFd::from_borrowed_fd(self.line.as_fd(), PollFlags::IN)];
        if with_news {
            polled.push(PollFd::from_borrowed_fd(watch.news(), PollFlags::IN));
        }
        if let Some(output) = &self.output {
            polled.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
        }
        let timeout = Timespec::try_from(longest).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let mut next = |polled: bool| polled && ready.next().unwrap_or(false);
        Ok(Ready {
            ended: next(true),
            news: next(with_news),
            output: next(self.output.is_some()),
        })
    }

    /// Reads what is there.
    fn read(&mut self, capture: &mut Capture) -> io::Result<()> {
        let mut piece = vec![0; PIECE_BYTES];
        for _ in 0..MOST_READS {
            let Some(output) = &mut self.output else { break };
            match output.read(&mut piece) {
                Ok(0) => self.output = None,
                Ok(read) => capture.take(&piece[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.tell_to_end();
        let _ = self.guard.wait();
    }
}

struct Ready {
    ended: bool,
    news: bool,
    output: bool,
}
