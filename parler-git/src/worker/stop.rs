//! Being told to stop, for the threads of a worker: who works gives its job back, who waits for one stops waiting. Or to take
//! no more: who works goes on. Ends nothing by itself.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parler_client::Stopper;

/// Gets a thread out of waiting for its command.
#[derive(Debug, Clone)]
pub(crate) struct Wake(Arc<PipeWriter>);

impl Wake {
    /// With the end to wait at.
    pub(crate) fn new() -> io::Result<(Self, PipeReader)> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        Ok((Self(Arc::new(writer)), reader))
    }

    /// There is news.
    pub(crate) fn wake(&self) {
        // A pipe that is full wakes as well; without a reader nobody waits.
        let _ = (&*self.0).write(&[1]);
    }
}

/// What the threads of a worker have in common.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    said: bool,
    /// Whether no more jobs are asked for.
    no_more: bool,
    /// How many are at something that has to be brought to an end.
    busy: usize,
    /// How many of these work on a job.
    working: usize,
    wakes: Vec<(u64, Wake)>,
    stoppers: Vec<Stopper>,
    next: u64,
}

/// Somebody who has to be waited for.
#[derive(Debug)]
pub(crate) struct Busy {
    stop: Stop,
    /// Where it works on a job: by what it is woken.
    work: Option<u64>,
}

impl Stop {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everybody.
    pub(crate) fn say(&self) {
        let mut state = self.lock();
        state.said = true;
        state.stoppers.drain(..).for_each(|stopper| stopper.stop());
        state.wakes.iter().for_each(|(_, wake)| wake.wake());
        drop(state);
        self.0.changed.notify_all();
    }

    /// Tells whoever waits for a job. Those that are worked on come to their own end.
    pub(crate) fn say_no_more(&self) {
        let mut state = self.lock();
        state.no_more = true;
        state.stoppers.drain(..).for_each(|stopper| stopper.stop());
        drop(state);
        self.0.changed.notify_all();
    }

    /// How many jobs are worked on.
    pub(crate) fn at_work(&self) -> usize {
        self.lock().working
    }

    /// Whether jobs are asked for.
    pub(crate) fn wants_more(&self) -> bool {
        self.lock().wants_more()
    }

    /// Whether it was said.
    pub(crate) fn is_said(&self) -> bool {
        self.lock().said
    }

    /// What is stopped with the rest.
    pub(crate) fn add_stopper(&self, stopper: Stopper) {
        let mut state = self.lock();
        match state.wants_more() {
            true => state.stoppers.push(stopper),
            false => stopper.stop(),
        }
    }

    /// Somebody begins who has to be waited for.
    pub(crate) fn begin(&self) -> Busy {
        self.lock().busy += 1;
        Busy {
            stop: self.clone(),
            work: None,
        }
    }

    /// Somebody begins to work on a job.
    pub(crate) fn begin_work(&self, wake: Wake) -> Busy {
        let mut state = self.lock();
        state.busy += 1;
        state.working += 1;
        let work = state.next;
        state.next += 1;
        if state.said {
            wake.wake();
        }
        state.wakes.push((work, wake));
        Busy {
            stop: self.clone(),
            work: Some(work),
        }
    }

    /// Waits until fewer than `most` work. False: no more are asked for.
    pub(crate) fn wait_for_room(&self, most: usize) -> bool {
        let waiting = self
            .0
            .changed
            .wait_while(self.lock(), |state| state.wants_more() && state.working >= most);
        waiting.unwrap_or_else(PoisonError::into_inner).wants_more()
    }

    /// Waits until nobody is at anything any more, or for so long.
    pub(crate) fn wait_until_idle(&self, longest: Duration) {
        // Either way what comes next is the end.
        let _ = self
            .0
            .changed
            .wait_timeout_while(self.lock(), longest, |state| state.busy > 0);
    }

    /// Rests, unless it was told to stop.
    pub(crate) fn rest(&self, time: Duration) {
        let _ = self
            .0
            .changed
            .wait_timeout_while(self.lock(), time, |state| !state.said);
    }

    /// Rests before a job is asked for again, unless none is any more.
    pub(crate) fn rest_from_asking(&self, time: Duration) {
        let _ = self
            .0
            .changed
            .wait_timeout_while(self.lock(), time, |state| state.wants_more());
    }
}

impl State {
    fn wants_more(&self) -> bool {
        !self.said && !self.no_more
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.stop.lock();
        state.busy -= 1;
        if let Some(work) = self.work {
            state.working -= 1;
            state.wakes.retain(|(other, _)| *other != work);
        }
        drop(state);
        self.stop.0.changed.notify_all();
    }
}
