//! Many that work on many jobs and are as unreliable as workers are: they give back, say nothing more, come too late, ask twice.
//! Each job is completed once, by its newest claim. Time goes on as they say; nobody waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parler_hub::store::{Claim, HeldJob, Principal, Queue, SqliteStore, Store, StoreError};
use parler_protocol::api::JobState;
use parler_protocol::{MessageId, Seq, TaskStatus};

use crate::jobs::{LEASE_MS, SERVICE, another_worker, dispatch, id_of, receipt, requester, service, states};
use crate::support::{NOW, room};

const WORKERS: u64 = 20;
const JOBS: usize = 200;
const REQUESTERS: usize = 4;

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct Worker {
    store: Arc<SqliteStore>,
    by: Principal,
    /// The hub's clock, milliseconds since 1970.
    clock: Arc<AtomicI64>,
    dice: Dice,
    claims: Vec<(Seq, u64)>,
    done: Vec<(Seq, u64)>,
}

impl Worker {
    fn now(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    fn pass(&mut self, at_most: i64) {
        let passed = self.dice.roll(at_most.unsigned_abs()).cast_signed();
        self.clock.fetch_add(passed, Ordering::SeqCst);
    }

    async fn claim(&self, id: MessageId) -> Option<HeldJob> {
        let claim = Claim {
            by: self.by.agent,
            room: room(SERVICE),
            id,
            lease_ms: LEASE_MS,
            own: false,
            now: self.now(),
        };
        self.store.claim(claim).await.unwrap().job
    }

    /// Works until every job has ended well.
    async fn work(mut self) -> Self {
        loop {
            let id = MessageId::generate();
            let Some(held) = self.claim(id).await else {
                if self.is_over().await {
                    return self;
                }
                // Whoever has the last ones may never be heard of again.
                self.pass(LEASE_MS / 4);
                tokio::task::yield_now().await;
                continue;
            };
            self.claims.push((held.fence.seq, held.fence.number));
            match self.dice.roll(10) {
                0 => self.give_back(&held).await,
                // Not heard of again.
                1 => self.pass(LEASE_MS / 4),
                2 => {
                    // Too late, as far as its own lease goes.
                    let until = held.lease_until;
                    self.clock.fetch_max(until, Ordering::SeqCst);
                    let is_taken = self.complete(&held).await;
                    assert!(!is_taken, "job {} was completed after its lease", held.fence.seq);
                }
                3 => {
                    // The answer was lost. By now it may be another's, and then there may be another for this one.
                    if let Some(again) = self.claim(id).await {
                        let is_same = again.fence == held.fence;
                        assert!(is_same || again.fence.number > held.fence.number);
                        if !is_same {
                            self.claims.push((again.fence.seq, again.fence.number));
                        }
                        self.complete(&again).await;
                    }
                }
                4 => {
                    self.pass(LEASE_MS / 8);
                    let renewed = self
                        .store
                        .renew(self.by.agent, &room(SERVICE), held.fence, LEASE_MS, self.now())
                        .await;
                    assert!(matches!(renewed, Ok(_) | Err(StoreError::StaleFence(_))), "{renewed:?}");
                    let is_kept = renewed.is_ok();
                    let completed = self.complete(&held).await;
                    // Whoever was refused once is refused for ever.
                    assert!(is_kept || !completed);
                }
                _ => {
                    self.complete(&held).await;
                }
            }
        }
    }

    async fn give_back(&self, held: &HeldJob) {
        let given = self
            .store
            .release(self.by.agent, &room(SERVICE), held.fence, self.now())
            .await;
        assert!(matches!(given, Ok(()) | Err(StoreError::StaleFence(_))), "{given:?}");
    }

    /// Says that it is done. Whether that was taken.
    async fn complete(&mut self, held: &HeldJob) -> bool {
        let done = receipt(&self.by, id_of(held), TaskStatus::Done, Some(held.fence), self.now());
        match self.store.append(done).await {
            Ok(_) => {
                self.done.push((held.fence.seq, held.fence.number));
                true
            }
            Err(StoreError::StaleFence(seq)) => {
                assert_eq!(seq, held.fence.seq);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Whether all are done. Offers again what too many have lost.
    async fn is_over(&self) -> bool {
        let page = self
            .store
            .jobs(self.by.agent, &room(SERVICE), Seq::ZERO, 1000, None, self.now())
            .await
            .unwrap();
        for job in page.jobs.iter().filter(|job| job.state == JobState::Dead) {
            let retried = self
                .store
                .retry_job(self.by.agent, &room(SERVICE), job.seq, self.now())
                .await;
            // Another may have done that.
            assert!(matches!(retried, Ok(_) | Err(StoreError::JobState(..))), "{retried:?}");
        }
        page.jobs.iter().all(|job| job.state == JobState::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn unreliable_workers_complete_each_job_once() {
    let (fixture, owner) = service().await;
    let mut requesters = Vec::new();
    for number in 0..REQUESTERS {
        requesters.push(requester(&fixture, &format!("requester{number}")).await);
    }
    let mut all = BTreeSet::new();
    for number in 0..JOBS {
        let by = &requesters[number % REQUESTERS];
        all.insert(dispatch(&fixture, by, "review").await.posted.seq);
    }
    let clock = Arc::new(AtomicI64::new(NOW));
    let mut tasks = Vec::new();
    for number in 0..WORKERS {
        let worker = Worker {
            store: Arc::clone(&fixture.store),
            by: another_worker(&fixture, &format!("worker{number}")).await,
            clock: Arc::clone(&clock),
            dice: Dice(number),
            claims: Vec::new(),
            done: Vec::new(),
        };
        tasks.push(tokio::spawn(worker.work()));
    }
    let (mut numbers, mut newest, mut done) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    for task in tasks {
        let worker = task.await.unwrap();
        for (seq, number) in worker.claims {
            assert!(numbers.insert(number), "two claims have number {number}");
            let newest: &mut u64 = newest.entry(seq).or_default();
            *newest = number.max(*newest);
        }
        for (seq, number) in worker.done {
            assert_eq!(done.insert(seq, number), None, "{seq} was completed twice");
        }
    }
    assert_eq!(done, newest, "each by the newest claim");
    assert_eq!(done.into_keys().collect::<BTreeSet<_>>(), all);
    let states = states(&fixture, &owner, clock.load(Ordering::SeqCst)).await;
    assert!(states.iter().all(|(state, _)| *state == JobState::Done));
    let messages = fixture.messages(&owner, SERVICE).await;
    assert_eq!(messages.len(), 2 * JOBS, "the jobs, and one end of each");
}
