//! What ends the work on a job before its own end: its time is over, the claim is lost, the job called off, or the worker told
//! to stop. Says so; what is ended is somebody else's.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::lease::{Lease, Standing};
use super::stop::Stop;

/// How the work on a job came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// By itself; as a shell says it.
    Exited(i32),
    /// Its time was over.
    TimedOut,
    /// Its job was called off.
    Cancelled,
    /// The claim was lost, and why.
    Lost(String),
    /// The worker was told to stop.
    Stopped,
    /// Its command had ended what guards it.
    Unguarded,
}

/// Looks at all that can end it.
pub(super) struct Watch<'a> {
    lease: &'a Lease,
    stop: &'a Stop,
    wake: &'a PipeReader,
    deadline: Instant,
}

impl<'a> Watch<'a> {
    /// For so long from now on; woken by what is written into `wake`, which does not block.
    pub(super) fn begin(lease: &'a Lease, stop: &'a Stop, wake: &'a PipeReader, time: Duration) -> Self {
        let deadline = Instant::now() + time;
        Self {
            lease,
            stop,
            wake,
            deadline,
        }
    }

    /// Why it is to end now, if it is.
    pub(super) fn verdict(&self) -> Option<End> {
        if self.stop.is_said() {
            return Some(End::Stopped);
        }
        match self.lease.standing() {
            Standing::Cancelled => Some(End::Cancelled),
            Standing::Lost(why) => Some(End::Lost(why)),
            Standing::Held if Instant::now() >= self.deadline => Some(End::TimedOut),
            Standing::Held => None,
        }
    }

    /// How long nothing can change that nobody tells.
    pub(super) fn left(&self) -> Duration {
        self.deadline
            .min(self.lease.ends())
            .saturating_duration_since(Instant::now())
    }

    /// Ready where something is told.
    pub(super) fn news(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Takes what woke.
    pub(super) fn take_news(&self) {
        let mut piece = [0; 64];
        while matches!((&*self.wake).read(&mut piece), Ok(read) if read == piece.len()) {}
    }

    /// Does something, and calls `end` meanwhile as soon as it is to end. Gives why that was called, if it was.
    pub(super) fn over<T>(&self, end: impl Fn() + Send, work: impl FnOnce() -> T) -> io::Result<(T, Option<End>)> {
        let (done, is_done) = io::pipe().map(|(reader, writer)| (writer, reader))?;
        thread::scope(|scope| {
            let watching = thread::Builder::new().name("watch".to_owned());
            let watching = watching.spawn_scoped(scope, move || -> io::Result<_> {
                let verdict = self.verdict_before(&is_done)?;
                if verdict.is_some() {
                    end();
                }
                Ok(verdict)
            })?;
            let worked = work();
            drop(done);
            let verdict = watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((worked, verdict?))
        })
    }

    /// Waits until it is to end, or the other side of `is_done` is closed.
    fn verdict_before(&self, is_done: &PipeReader) -> io::Result<Option<End>> {
        loop {
            if let Some(verdict) = self.verdict() {
                return Ok(Some(verdict));
            }
            let timeout = Timespec::try_from(self.left()).map_err(io::Error::other)?;
            let mut polled = [self.news(), is_done.as_fd()].map(|end| PollFd::from_borrowed_fd(end, PollFlags::IN));
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let [news, done] = polled.map(|polled| !polled.revents().is_empty());
            if done {
                return Ok(None);
            }
            if news {
                self.take_news();
            }
        }
    }
}
