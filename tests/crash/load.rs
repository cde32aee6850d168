//! A mixed load on a hub that ends in the middle of it: agents that post, push, upload, race for a ref and acknowledge, and
//! who repeat what they know no outcome of when the hub is there again.

use std::process::ExitStatus;
use std::sync::mpsc::{self, Sender};
use std::sync::{Condvar, Mutex};
use std::thread;

use parler_harness::{DEADLINE, HubProcess, wait_for_end_of};

use super::stage::Stage;
use super::worker::{Plan, Work, Worker};

/// The lives of a hub, counted: a worker whose request found none waits for the next.
#[derive(Default)]
pub(crate) struct Lives {
    begun: Mutex<u64>,
    changed: Condvar,
}

impl Lives {
    /// How many began before this one.
    pub(crate) fn now(&self) -> u64 {
        *self.begun.lock().unwrap()
    }

    fn next(&self) {
        *self.begun.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    /// Waits until a later life than this one has begun.
    #[track_caller]
    pub(crate) fn wait_after(&self, life: u64) {
        let begun = self.begun.lock().unwrap();
        let waited = self
            .changed
            .wait_timeout_while(begun, DEADLINE, |begun| *begun <= life)
            .unwrap();
        assert!(!waited.1.timed_out(), "the hub answers nothing and does not end");
    }
}

enum Event {
    WorkerDone,
    HubEnded,
}

/// Says that a worker is done, however it ended.
struct Done(Sender<Event>);

impl Drop for Done {
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
                let (done, lives, authority) = (Done(events.clone()), &lives, &authority);
                scope.spawn(move || {
                    let work = Worker::new(stage, seat, number, authority, lives).work(plan);
                    drop(done);
                    work
                })
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
        while left > 0 {
            match happened.recv_timeout(DEADLINE).expect("something happens") {
                Event::WorkerDone => left -= 1,
                Event::HubEnded => {
                    ends.push(hub.wait_for_end());
                    hub.set_variables(Vec::new());
                    hub.restart();
                    watch(hub.pid());
                    lives.next();
                }
            }
        }
        let work = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
        Loaded { ends, work }
    })
}
