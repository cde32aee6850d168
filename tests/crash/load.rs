//! A mixed load on a hub that ends in the middle of it: agents that post, push, upload, race for a ref and acknowledge, and
//! who repeat what they know no outcome of when the hub is there again.

use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{DEADLINE, HubProcess, end_process, wait_for_end_of};

use super::stage::Stage;
use super::worker::{Plan, Work, Worker};

/// However slow the machine: after this long a hub has been killed often enough, unless more was asked for.
const LONGEST: Duration = Duration::from_secs(60);

/// The lives of a hub, counted: a worker whose request found none waits for the next.
#[derive(Default)]
pub(crate) struct Lives {
    begun: Mutex<u64>,
    changed: Condvar,
    over: AtomicBool,
}

impl Lives {
    /// How many began before this one.
    pub(crate) fn now(&self) -> u64 {
        *self.begun.lock().unwrap()
    }

    /// Whether the work is to end with this round.
    pub(crate) fn are_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn next(&self) {
        *self.begun.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    #[track_caller]
    fn wait_after(&self, life: u64) {
        let begun = self.begun.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(begun, DEADLINE, |begun| *begun <= life)
            .unwrap();
        assert!(!waited.1.timed_out(), "the hub answers nothing and does not end");
    }
}

enum Event {
    Acknowledged,
    /// A worker waits for the next life.
    Waiting,
    WorkerDone,
    HubEnded,
}

/// Where a worker says what it does, and that it is done, however it ended.
pub(crate) struct Progress(Sender<Event>);

impl Progress {
    pub(crate) fn acknowledged(&self) {
        // Who listens may have failed.
        let _ = self.0.send(Event::Acknowledged);
    }

    /// Waits until a later life than this one has begun.
    #[track_caller]
    pub(crate) fn wait_after(&self, life: u64, lives: &Lives) {
        if lives.now() <= life {
            let _ = self.0.send(Event::Waiting);
            lives.wait_after(life);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let _ = self.0.send(Event::WorkerDone);
    }
}

/// What came of a load.
pub(crate) struct Loaded {
    /// How the hub ended, each time that it did.
    pub(crate) ends: Vec<ExitStatus>,
    pub(crate) work: Vec<Work>,
}

/// Lets every agent of the stage do its work. The hub is started again when it ends, without the variables of its first
/// life.
pub(crate) fn load(stage: &Stage, hub: &mut HubProcess, plan: &Plan) -> Loaded {
    let lives = Lives::default();
    let (events, happened) = mpsc::channel();
    let authority = hub.authority().to_owned();
    thread::scope(|scope| {
        let workers: Vec<_> = stage
            .seats
            .iter()
            .zip(0..)
            .take(plan.workers)
            .map(|(seat, number)| {
                let (progress, lives, authority) = (Progress(events.clone()), &lives, &authority);
                scope.spawn(move || Worker::new(stage, seat, number, authority, lives, progress).work(plan))
            })
            .collect();
        let watch = |pid| {
            let events = events.clone();
            thread::spawn(move || {
                wait_for_end_of(pid);
                // Nobody may listen any more.
                let _ = events.send(Event::HubEnded);
            });
        };
        watch(hub.pid());
        let (mut ends, mut left) = (Vec::new(), workers.len());
        let (mut waiting, mut has_ended) = (0, false);
        let mut kills = Kills::new(plan);
        while left > 0 {
            lives.over.store(kills.are_over(), Ordering::Relaxed);
            match happened.recv_timeout(DEADLINE).expect("something happens") {
                Event::Acknowledged if kills.is_next() => end_process(hub.pid()),
                Event::Acknowledged => {}
                Event::Waiting => waiting += 1,
                Event::WorkerDone => left -= 1,
                Event::HubEnded => has_ended = true,
            }
            // Not before each worker has read what the life that ended answered: else it would not know who did.
            if has_ended && waiting == left {
                ends.push(hub.wait_for_end());
                hub.set_variables(Vec::new());
                hub.restart();
                watch(hub.pid());
                (waiting, has_ended) = (0, false);
                lives.next();
                kills.again();
            }
        }
        let work = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        Loaded { ends, work }
    })
}

/// When a hub is killed: sometimes at once, sometimes in full swing.
struct Kills {
    wanted: u32,
    done: u32,
    acknowledged: u32,
    is_down: bool,
    began: Instant,
}

impl Kills {
    fn new(plan: &Plan) -> Self {
        Self {
            wanted: plan.kills,
            done: 0,
            acknowledged: 0,
            is_down: false,
            began: Instant::now(),
        }
    }

    /// One more message was acknowledged. Whether that was the last of this life.
    fn is_next(&mut self) -> bool {
        if self.is_down || self.are_over() {
            return false;
        }
        self.acknowledged += 1;
        if self.acknowledged <= self.done * 37 % 23 {
            return false;
        }
        self.done += 1;
        self.is_down = true;
        true
    }

    fn again(&mut self) {
        self.acknowledged = 0;
        self.is_down = false;
    }

    fn are_over(&self) -> bool {
        self.done >= self.wanted || self.began.elapsed() > LONGEST.max(self.wanted * Duration::from_secs(1))
    }
}
