//! A running git child: fed, drained and waited for by one thread, without ever blocking on a single pipe.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::message::reason;
use super::stderr::{Onlookers, Stderr};
use super::trace::ChildTrace;
use super::{ChildLimits, Ended, GitError, living};

/// One read from a pipe.
const PIPE_BYTES: usize = 64 << 10; // 64 KiB
/// Longest pause between two looks at a child that has closed its streams and not yet ended.
const LONGEST_PAUSE: Duration = Duration::from_millis(5);
/// How long a child that is told to end may take to remove its lock files.
const ENDING_PATIENCE: Duration = Duration::from_secs(2);

/// How much processor time passes between the limit's own signal and the one that nobody survives.
#[cfg(target_os = "linux")]
const CPU_GRACE: Duration = Duration::from_secs(5);

/// A git child with pipes to all three of its streams. Dropping it ends and reaps the process.
///
/// Whatever is done with it (fed, read, waited for), the other streams are drained meanwhile, so neither side can wait
/// for the other for ever. Only the time spent in waiting for the child counts against its patience.
#[derive(Debug)]
pub struct GitChild {
    command: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    captured: Vec<u8>,
    complaints: Stderr,
    answer_bytes: usize,
    patience: Duration,
    left: Duration,
    ended: bool,
    trace: ChildTrace,
    /// Input given by `feed_while_reading`, and how far it has been written.
    waiting_input: (Vec<u8>, usize),
}

/// How a child ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl GitChild {
    pub(super) fn new(
        command: &'static str,
        mut child: Child,
        limits: ChildLimits,
        patience: Duration,
        answer_bytes: usize,
        onlookers: Onlookers,
        trace: ChildTrace,
    ) -> Result<Self, GitError> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let this = Self {
            command,
            child,
            stdin,
            stdout,
            stderr,
            captured: Vec::new(),
            complaints: Stderr::new(onlookers),
            answer_bytes,
            patience,
            left: patience,
            ended: false,
            trace,
            waiting_input: (Vec::new(), 0),
        };
        // From here on the handle's drop ends the child when something fails.
        this.prepare(limits)
            .map_err(|source| GitError::Pipe { command, source })?;
        Ok(this)
    }

    fn prepare(&self, limits: ChildLimits) -> io::Result<()> {
        if let Some(pipe) = &self.stdin {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stdout {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        if let Some(pipe) = &self.stderr {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        limit(&self.child, limits)
    }

    /// Sets other limits than it was started with.
    ///
    /// # Errors
    /// When the system refuses them. Where it allows only lower ones those stay.
    pub fn set_limits(&self, limits: ChildLimits) -> Result<(), GitError> {
        limit(&self.child, limits).map_err(|source| GitError::Pipe {
            command: self.command,
            source,
        })
    }

    /// Writes all of `bytes` to the child's stdin. When the child has stopped reading, gives the reason it ended for.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if self.stdin.is_none() {
                return Err(self.why_it_stopped_reading());
            }
            let written = self.turn(rest, None)?.written;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Takes input to be written while the output is read, then ends the child's stdin.
    pub fn feed_while_reading(&mut self, input: Vec<u8>) {
        self.waiting_input = (input, 0);
        if self.waiting_input.0.is_empty() {
            self.stdin = None;
        }
    }

    /// Reads output as it comes; 0 at its end. Whether the child succeeded is known after [`GitChild::finish`] only.
    pub fn read_output(&mut self, buffer: &mut [u8]) -> Result<usize, GitError> {
        while self.stdout.is_some() && !buffer.is_empty() {
            let (input, mut done) = std::mem::take(&mut self.waiting_input);
            let turn = self.turn(&input[done..], Some(buffer))?;
            done += turn.written;
            if done == input.len() {
                self.stdin = None;
            } else {
                self.waiting_input = (input, done);
            }
            if turn.read > 0 {
                return Ok(turn.read);
            }
        }
        Ok(0)
    }

    /// Ends the child's input, reads what it still says, waits for it, and requires success. Gives its stdout.
    pub fn finish(&mut self) -> Result<Vec<u8>, GitError> {
        let end = self.end()?;
        if end.status.success() {
            Ok(end.stdout)
        } else {
            Err(self.failed(&end))
        }
    }

    /// As [`GitChild::finish`], with one more exit code that is no failure. Gives the code too.
    pub fn finish_with(&mut self, also: Option<i32>) -> Result<(i32, Vec<u8>), GitError> {
        let end = self.end()?;
        match end.status.code() {
            Some(code) if code == 0 || Some(code) == also => Ok((code, end.stdout)),
            _ => Err(self.failed(&end)),
        }
    }

    /// As [`GitChild::finish`], whatever the exit code. Gives it with the stdout.
    pub(super) fn finish_with_status(&mut self) -> Result<(ExitStatus, Vec<u8>), GitError> {
        let end = self.end()?;
        match Ended::of(end.status) {
            Some(_) => Err(self.failed(&end)),
            None => Ok((end.status, end.stdout)),
        }
    }

    /// Waits until the child's answer so far ends with `mark`. A child that ends without saying so has failed.
    pub fn wait_for_answer(&mut self, mark: &[u8]) -> Result<(), GitError> {
        while !self.captured.ends_with(mark) {
            if self.stdout.is_none() {
                let answer = self.finish()?;
                return Err(GitError::answer(self.command, &answer));
            }
            self.turn(&[], None)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<End, GitError> {
        self.stdin = None;
        while self.stdout.is_some() || self.stderr.is_some() {
            self.turn(&[], None)?;
        }
        let status = self.wait()?;
        Ok(End {
            status,
            stdout: std::mem::take(&mut self.captured),
            stderr: self.complaints.end(),
        })
    }

    fn failed(&self, end: &End) -> GitError {
        let command = self.command;
        if let Some(source) = Ended::of(end.status) {
            return GitError::Ended { command, source };
        }
        let message = reason(&end.stderr, end.status);
        GitError::Failed {
            command,
            code: end.status.code(),
            message,
        }
    }

    fn why_it_stopped_reading(&mut self) -> GitError {
        match self.end() {
            Ok(end) if end.status.success() => GitError::Pipe {
                command: self.command,
                source: io::ErrorKind::BrokenPipe.into(),
            },
            Ok(end) => self.failed(&end),
            Err(error) => error,
        }
    }

    /// Waits until at least one pipe is ready and serves those that are.
    fn turn(&mut self, input: &[u8], output: Option<&mut [u8]>) -> Result<Turn, GitError> {
        let began = Instant::now();
        let ready = self.wait_for_pipes(!input.is_empty());
        self.left = self.left.saturating_sub(began.elapsed());
        let ready = ready.map_err(|source| GitError::Pipe {
            command: self.command,
            source,
        })?;
        if !ready.any() {
            return Err(self.too_slow());
        }
        self.serve(ready, input, output)
    }

    fn wait_for_pipes(&self, with_input: bool) -> io::Result<Ready> {
        let mut polled = Vec::with_capacity(3);
        let stdin = self.stdin.as_ref().filter(|_| with_input);
        if let Some(pipe) = stdin {
            polled.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::OUT));
        }
        if let Some(pipe) = &self.stdout {
            polled.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
        }
        if let Some(pipe) = &self.stderr {
            polled.push(PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN));
        }
        let timeout = Timespec::try_from(self.left).map_err(io::Error::other)?;
        loop {
            match poll(&mut polled, Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        let mut ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let mut next = |polled: bool| polled && ready.next().unwrap_or(false);
        Ok(Ready {
            stdin: next(stdin.is_some()),
            stdout: next(self.stdout.is_some()),
            stderr: next(self.stderr.is_some()),
        })
    }

    fn serve(&mut self, ready: Ready, input: &[u8], output: Option<&mut [u8]>) -> Result<Turn, GitError> {
        let mut turn = Turn::default();
        let command = self.command;
        let broken = |source| GitError::Pipe { command, source };
        if ready.stderr
            && let Some(pipe) = &mut self.stderr
        {
            let mut buffer = [0; 4096];
            match unblocked(pipe.read(&mut buffer)).map_err(broken)? {
                Some(0) => self.stderr = None,
                Some(read) => self.complaints.take(&buffer[..read]),
                None => {}
            }
        }
        if ready.stdout
            && let Some(pipe) = &mut self.stdout
        {
            let mut own = Vec::new();
            let wanted = output.is_some();
            let buffer = match output {
                Some(buffer) => buffer,
                None => {
                    own.resize(PIPE_BYTES, 0);
                    &mut own
                }
            };
            match unblocked(pipe.read(buffer)).map_err(broken)? {
                Some(0) => self.stdout = None,
                Some(read) if wanted => turn.read = read,
                Some(read) if self.captured.len() + read > self.answer_bytes => {
                    self.kill();
                    return Err(GitError::TooMuchOutput {
                        command,
                        most: self.answer_bytes,
                    });
                }
                Some(read) => self.captured.extend_from_slice(&buffer[..read]),
                None => {}
            }
        }
        if ready.stdin
            && let Some(pipe) = &mut self.stdin
        {
            match pipe.write(input) {
                Ok(written) => turn.written = written,
                // The child has ended or will take no more: what it says on stderr is the reason.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.stdin = None,
                Err(error) => turn.written = unblocked(Err(error)).map_err(broken)?.unwrap_or(0),
            }
        }
        Ok(turn)
    }

    fn wait(&mut self) -> Result<ExitStatus, GitError> {
        let mut left = self.left;
        let waited = wait_for(&mut self.child, &mut left);
        self.left = left;
        match waited {
            Ok(Some(status)) => {
                self.ended = true;
                self.trace.ended(status);
                Ok(status)
            }
            Ok(None) => Err(self.too_slow()),
            Err(source) => Err(GitError::Pipe {
                command: self.command,
                source,
            }),
        }
    }

    fn too_slow(&mut self) -> GitError {
        self.kill();
        GitError::TooSlow {
            command: self.command,
            patience: self.patience,
        }
    }

    fn kill(&mut self) {
        if !self.ended {
            // Told so, git removes its locks (`shallow.lock` would stop every later fetch) and ends its own children.
            let told = rustix::process::kill_process(
                rustix::process::Pid::from_child(&self.child),
                rustix::process::Signal::TERM,
            );
            let mut left = ENDING_PATIENCE;
            let has_ended = told.is_ok() && matches!(wait_for(&mut self.child, &mut left), Ok(Some(_)));
            if !has_ended {
                living::kill(&mut self.child);
            }
            self.ended = true;
        }
    }
}

impl Drop for GitChild {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the process to end, at most for what is left: the streams close a moment before it can be reaped.
fn wait_for(child: &mut Child, left: &mut Duration) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(20);
    let mut end = EndOf::open(child);
    loop {
        if let Some(status) = living::try_wait(child)? {
            return Ok(Some(status));
        }
        if left.is_zero() {
            return Ok(None);
        }
        let began = Instant::now();
        // Once: who traces the process may have it before it can be reaped.
        match end.take() {
            Some(told) if told.wait(*left).is_ok() => {}
            _ => {
                // There is no portable wait with a deadline.
                std::thread::sleep(pause.min(*left));
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        *left = left.saturating_sub(began.elapsed());
    }
}

/// The end of a process, where the system tells of it.
struct EndOf(#[cfg(target_os = "linux")] OwnedFd);

#[cfg(target_os = "linux")]
impl EndOf {
    /// None on Linux before 5.3.
    fn open(child: &Child) -> Option<Self> {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};

        pidfd_open(Pid::from_child(child), PidfdFlags::empty()).ok().map(Self)
    }

    /// Comes back when the process has ended, or when the time is over.
    fn wait(&self, most: Duration) -> io::Result<()> {
        let timeout = Timespec::try_from(most).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl EndOf {
    const fn open(_: &Child) -> Option<Self> {
        None
    }

    fn wait(&self, _: Duration) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What one turn moved, in bytes.
#[derive(Debug, Default)]
struct Turn {
    written: usize,
    read: usize,
}

/// Which pipes have something to do.
#[derive(Debug, Clone, Copy)]
struct Ready {
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Ready {
    const fn any(self) -> bool {
        self.stdin || self.stdout || self.stderr
    }
}

/// A pipe that was not ready after all is no error.
fn unblocked(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(target_os = "linux")]
fn limit(child: &Child, limits: ChildLimits) -> io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    let pid = Pid::from_child(child);
    let set = |resource, most: u64, end: Option<u64>| {
        let limit = Rlimit {
            current: Some(most),
            maximum: end,
        };
        match prlimit(Some(pid), resource, limit) {
            // An already lower hard limit of ours is as good, and a child that has ended needs none.
            Ok(_) | Err(rustix::io::Errno::PERM | rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(io::Error::from(error)),
        }
    };
    if let Some(bytes) = limits.data_bytes {
        // A child that passes it fails. The hard limit stays, so that we can raise it; git raises none.
        let hard = getrlimit(Resource::Data).maximum;
        set(Resource::Data, hard.map_or(bytes, |hard| hard.min(bytes)), hard)?;
    }
    if let Some(cpu) = limits.cpu {
        // First a signal that says why. The other limit's is what anybody ends processes by.
        let seconds = cpu.as_secs().max(1);
        set(Resource::Cpu, seconds, Some(seconds + CPU_GRACE.as_secs()))?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn limit(_child: &Child, _limits: ChildLimits) -> io::Result<()> {
    Ok(())
}
