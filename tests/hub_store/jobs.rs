//! The queue of a service: who gets which job, how long it is whose, and how it ends. Time is what each call brings.

use parler_hub::store::{Append, Appended, Claim, HeldJob, MayServe, Principal, Queue, QueueWord, Renewal, StoreError};
use parler_protocol::api::{JobState, JobSummary};
use parler_protocol::limits::MAX_JOB_ATTEMPTS;
use parler_protocol::{AgentId, Fence, Message, MessageId, Seq, TaskStatus};

use crate::support::{DAY_MS, Fixture, NOW, room, text};

pub(crate) const SERVICE: &str = "svc.review";
pub(crate) const LEASE_MS: i64 = 60_000;

/// A store with a service that `worker` has made.
pub(crate) async fn service() -> (Fixture, Principal) {
    let fixture = Fixture::new();
    let worker = fixture.agent("worker").await;
    let (_, is_new) = fixture
        .store
        .serve(worker.agent, &room(SERVICE), MayServe::First, NOW)
        .await
        .unwrap();
    assert!(is_new);
    (fixture, worker)
}

/// An agent that may ask for jobs.
pub(crate) async fn requester(fixture: &Fixture, name: &str) -> Principal {
    let principal = fixture.agent(name).await;
    fixture
        .store
        .enter_service(principal.agent, &room(SERVICE), false, NOW)
        .await
        .unwrap();
    principal
}

/// One more that works.
pub(crate) async fn another_worker(fixture: &Fixture, name: &str) -> Principal {
    let principal = fixture.agent(name).await;
    fixture
        .store
        .serve(principal.agent, &room(SERVICE), MayServe::Everybody, NOW)
        .await
        .unwrap();
    principal
}

pub(crate) fn job(by: &Principal, what: &str) -> Append {
    Append {
        queue: QueueWord {
            is_job: true,
            ..QueueWord::default()
        },
        ..text(by, SERVICE, what)
    }
}

pub(crate) async fn dispatch(fixture: &Fixture, by: &Principal, what: &str) -> Appended {
    fixture.append(job(by, what)).await.unwrap()
}

/// What somebody says of a job.
pub(crate) fn receipt(by: &Principal, job: MessageId, status: TaskStatus, fence: Option<Fence>, now: i64) -> Append {
    Append {
        queue: QueueWord {
            is_job: false,
            receipts: vec![(job, status)],
            fence,
        },
        now,
        ..text(by, SERVICE, status.as_str())
    }
}

pub(crate) async fn claim(fixture: &Fixture, by: &Principal, now: i64) -> Option<HeldJob> {
    let claim = Claim {
        by: by.agent,
        room: room(SERVICE),
        id: MessageId::generate(),
        lease_ms: LEASE_MS,
        own: false,
        now,
    };
    fixture.store.claim(claim).await.unwrap().job
}

/// It is the worker's until then.
pub(crate) fn until(lease_until: i64, is_sooner: bool) -> Renewal {
    Renewal::Until { lease_until, is_sooner }
}

pub(crate) fn id_of(job: &HeldJob) -> MessageId {
    Message::parse(&job.stored).unwrap().id
}

fn author_of(job: &HeldJob) -> AgentId {
    Message::parse(&job.stored).unwrap().from.id
}

pub(crate) async fn jobs(fixture: &Fixture, by: &Principal, now: i64) -> Vec<JobSummary> {
    let page = fixture
        .store
        .jobs(by.agent, &room(SERVICE), Seq::ZERO, 1000, None, now)
        .await
        .unwrap();
    assert_eq!(page.next, None);
    page.jobs
}

pub(crate) async fn states(fixture: &Fixture, by: &Principal, now: i64) -> Vec<(JobState, u32)> {
    let jobs = jobs(fixture, by, now).await;
    jobs.iter().map(|job| (job.state, job.attempts)).collect()
}

#[tokio::test]
async fn a_job_is_one_workers_until_it_is_done() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    assert_eq!(claim(&fixture, &worker, NOW).await, None);
    let dispatched = dispatch(&fixture, &alice, "review").await;
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    assert_eq!((held.stored.clone(), held.attempt), (dispatched.stored, 1));
    assert_eq!(
        (held.fence.seq, held.lease_until),
        (dispatched.posted.seq, NOW + LEASE_MS)
    );
    assert_eq!(claim(&fixture, &worker, NOW).await, None, "it is taken");
    let known = jobs(&fixture, &alice, NOW).await.remove(0);
    assert_eq!((known.state, known.requester.id), (JobState::Claimed, alice.agent));
    assert_eq!(known.claimed_by.unwrap().id, worker.agent);
    assert_eq!(known.lease_until, Some(NOW + LEASE_MS));

    // Said on the way, and at the end.
    let accepted = receipt(&worker, id_of(&held), TaskStatus::Accepted, Some(held.fence), NOW);
    fixture.append(accepted).await.unwrap();
    let done = receipt(&worker, id_of(&held), TaskStatus::Done, Some(held.fence), NOW + 1);
    let first = fixture.append(done.clone()).await.unwrap();
    assert_eq!(states(&fixture, &alice, NOW).await, [(JobState::Done, 0)]);
    assert_eq!(claim(&fixture, &worker, NOW + DAY_MS).await, None, "it is over");

    // Again under the same id: the first answer, long after the lease. Anew: refused.
    let again = Append {
        now: NOW + DAY_MS,
        ..done.clone()
    };
    let again = fixture.append(again).await.unwrap();
    assert_eq!((again.is_new, again.posted), (false, first.posted));
    let anew = receipt(&worker, id_of(&held), TaskStatus::Failed, Some(held.fence), NOW + 2);
    let refused = fixture.append(anew).await.unwrap_err();
    assert!(matches!(refused, StoreError::StaleFence(_)), "{refused}");
    assert_eq!(fixture.messages(&alice, SERVICE).await.len(), 3);
}

#[tokio::test]
async fn a_late_worker_is_refused_and_leaves_nothing() {
    let (fixture, slow) = service().await;
    let quick = another_worker(&fixture, "quick").await;
    let alice = requester(&fixture, "alice").await;
    dispatch(&fixture, &alice, "review").await;
    let late = claim(&fixture, &slow, NOW).await.unwrap();
    let over = NOW + LEASE_MS;
    // To the last moment it is its own, and from then on not, even where nobody else has asked.
    let working = receipt(&slow, id_of(&late), TaskStatus::Working, Some(late.fence), over - 1);
    fixture.append(working).await.unwrap();
    let try_everything = async |fence: Fence| {
        for status in [TaskStatus::Accepted, TaskStatus::Done, TaskStatus::Failed] {
            let refused = fixture
                .append(receipt(&slow, id_of(&late), status, Some(fence), over))
                .await
                .unwrap_err();
            assert!(matches!(refused, StoreError::StaleFence(_)), "{refused}");
        }
        let renewed = fixture
            .store
            .renew(slow.agent, &room(SERVICE), fence, LEASE_MS, over)
            .await;
        assert!(matches!(renewed, Err(StoreError::StaleFence(_))), "{renewed:?}");
        let released = fixture.store.release(slow.agent, &room(SERVICE), fence, over).await;
        assert!(matches!(released, Err(StoreError::StaleFence(_))), "{released:?}");
    };
    try_everything(late.fence).await;
    assert_eq!(states(&fixture, &alice, over).await, [(JobState::Waiting, 1)]);

    let held = claim(&fixture, &quick, over).await.unwrap();
    assert_eq!((id_of(&held), held.attempt), (id_of(&late), 2));
    assert!(held.fence.number > late.fence.number);
    try_everything(late.fence).await;
    // With the number of the claim that counts it is still not the one that has it.
    try_everything(held.fence).await;
    assert_eq!(fixture.messages(&alice, SERVICE).await.len(), 2);
    let done = receipt(&quick, id_of(&held), TaskStatus::Done, Some(held.fence), over + 1);
    fixture.append(done).await.unwrap();
    assert_eq!(states(&fixture, &alice, over).await, [(JobState::Done, 1)]);
    // Nothing of a refused receipt is remembered: its key is free.
    assert_eq!(fixture.messages(&alice, SERVICE).await.len(), 3);
}

#[tokio::test]
async fn renewed_in_time_it_stays_and_given_back_it_counts_for_nothing() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    dispatch(&fixture, &alice, "review").await;
    let mut now = NOW;
    let held = claim(&fixture, &worker, now).await.unwrap();
    for _ in 0..2 * MAX_JOB_ATTEMPTS {
        now += LEASE_MS - 1;
        let renewed = fixture
            .store
            .renew(worker.agent, &room(SERVICE), held.fence, LEASE_MS, now)
            .await
            .unwrap();
        assert_eq!(renewed, until(now + LEASE_MS, false));
    }
    // A restart forgets nothing.
    let fixture = fixture.restart().await;
    assert_eq!(states(&fixture, &alice, now).await, [(JobState::Claimed, 0)]);
    let mut fence = held.fence;
    for _ in 0..2 * MAX_JOB_ATTEMPTS {
        for _ in 0..2 {
            fixture
                .store
                .release(worker.agent, &room(SERVICE), fence, now)
                .await
                .unwrap();
        }
        let next = claim(&fixture, &worker, now).await.unwrap();
        assert_eq!((id_of(&next), next.attempt), (id_of(&held), 1));
        assert!(next.fence.number > fence.number);
        fence = next.fence;
    }
    let refused = fixture
        .store
        .release(worker.agent, &room(SERVICE), held.fence, now)
        .await;
    assert!(
        matches!(refused, Err(StoreError::StaleFence(_))),
        "the first claim: {refused:?}"
    );
}

#[tokio::test]
async fn a_claim_that_is_sent_again_gets_the_same_job() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    for what in ["one", "two"] {
        dispatch(&fixture, &alice, what).await;
    }
    let asked = Claim {
        by: worker.agent,
        room: room(SERVICE),
        id: MessageId::generate(),
        lease_ms: LEASE_MS,
        own: false,
        now: NOW,
    };
    let first = fixture.store.claim(asked.clone()).await.unwrap().job.unwrap();
    let later = Claim {
        now: NOW + 1,
        ..asked.clone()
    };
    assert_eq!(fixture.store.claim(later).await.unwrap().job.as_ref(), Some(&first));
    let other = claim(&fixture, &worker, NOW).await.unwrap();
    assert_ne!(id_of(&other), id_of(&first));
    // Also where nothing else is left, and not once it has ended.
    assert_eq!(
        fixture.store.claim(asked.clone()).await.unwrap().job.as_ref(),
        Some(&first)
    );
    let done = receipt(&worker, id_of(&first), TaskStatus::Done, Some(first.fence), NOW);
    fixture.append(done).await.unwrap();
    let none = fixture.store.claim(asked).await.unwrap();
    assert_eq!((none.job, none.next_expiry), (None, Some(NOW + LEASE_MS)));
}

#[tokio::test]
async fn what_nobody_brings_to_an_end_is_offered_three_times() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    let poison = dispatch(&fixture, &alice, "poison").await.posted;
    let mut now = NOW;
    for attempt in 1..=MAX_JOB_ATTEMPTS {
        assert_eq!(claim(&fixture, &worker, now).await.unwrap().attempt, attempt);
        now += LEASE_MS;
    }
    let dead = [(JobState::Dead, MAX_JOB_ATTEMPTS)];
    // Seen before anybody asks for a job, and afterwards.
    assert_eq!(states(&fixture, &alice, now).await, dead);
    assert_eq!(claim(&fixture, &worker, now).await, None);
    assert_eq!(states(&fixture, &alice, now).await, dead);
    // Its requester cannot call off what is over, nor offer it again. A worker can.
    let cancel = receipt(&alice, poison.id, TaskStatus::Cancelled, None, now);
    let refused = fixture.append(cancel).await.unwrap_err();
    assert!(matches!(refused, StoreError::JobState(seq, JobState::Dead) if seq == poison.seq));
    let retry = async |by: &Principal| {
        let retried = fixture.store.retry_job(by.agent, &room(SERVICE), poison.seq, now).await;
        retried.map(|(summary, _)| summary)
    };
    assert!(matches!(retry(&alice).await, Err(StoreError::NotServing(_))));
    let again = retry(&worker).await.unwrap();
    assert_eq!(
        (again.seq, again.state, again.attempts),
        (poison.seq, JobState::Waiting, 0)
    );
    let refused = retry(&worker).await;
    assert!(
        matches!(refused, Err(StoreError::JobState(_, JobState::Waiting))),
        "{refused:?}"
    );
    assert_eq!(claim(&fixture, &worker, now).await.unwrap().attempt, 1);
}

#[tokio::test]
async fn who_asked_for_a_job_can_call_it_off_and_nobody_else() {
    let (fixture, worker) = service().await;
    let (alice, bob) = (requester(&fixture, "alice").await, requester(&fixture, "bob").await);
    let waiting = dispatch(&fixture, &alice, "one").await.posted;
    let claimed = dispatch(&fixture, &alice, "two").await.posted;
    let off = async |by: &Principal, id| fixture.append(receipt(by, id, TaskStatus::Cancelled, None, NOW)).await;
    for by in [&bob, &worker] {
        let refused = off(by, waiting.id).await.unwrap_err();
        assert!(matches!(refused, StoreError::BadReceipt(_)), "{refused}");
    }
    // Nor may it say that it is done.
    let done = receipt(&alice, waiting.id, TaskStatus::Done, None, NOW);
    assert!(matches!(fixture.append(done).await, Err(StoreError::BadReceipt(_))));
    off(&alice, waiting.id).await.unwrap();
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    assert_eq!(id_of(&held), claimed.id);
    off(&alice, claimed.id).await.unwrap();
    let cancelled = [(JobState::Cancelled, 0); 2];
    assert_eq!(states(&fixture, &alice, NOW).await, cancelled);
    // The worker is told when it asks for more time, and what it found out nobody takes.
    let renewed = fixture
        .store
        .renew(worker.agent, &room(SERVICE), held.fence, LEASE_MS, NOW)
        .await
        .unwrap();
    assert_eq!(renewed, Renewal::Cancelled);
    let done = receipt(&worker, claimed.id, TaskStatus::Done, Some(held.fence), NOW);
    assert!(matches!(fixture.append(done).await, Err(StoreError::StaleFence(_))));
    assert!(matches!(
        off(&alice, claimed.id).await,
        Err(StoreError::JobState(_, JobState::Cancelled))
    ));
    assert_eq!(states(&fixture, &alice, NOW + DAY_MS).await, cancelled);
    assert_eq!(claim(&fixture, &worker, NOW + DAY_MS).await, None);
}

#[tokio::test]
async fn a_receipt_is_one_word_about_the_job_of_its_fence() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    let other = dispatch(&fixture, &alice, "one").await.posted;
    dispatch(&fixture, &alice, "two").await;
    let first = claim(&fixture, &worker, NOW).await.unwrap();
    assert_eq!(id_of(&first), other.id);
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    let word = |receipts: &[(MessageId, TaskStatus)], is_job| Append {
        queue: QueueWord {
            is_job,
            receipts: receipts.to_vec(),
            fence: Some(held.fence),
        },
        ..text(&worker, SERVICE, "x")
    };
    let done = (id_of(&held), TaskStatus::Done);
    for refused in [
        word(&[], false),
        word(&[(other.id, TaskStatus::Done)], false),
        word(&[done, done], false),
        word(&[done, (other.id, TaskStatus::Done)], false),
        word(&[done], true),
        word(&[(id_of(&held), TaskStatus::Cancelled)], false),
        word(&[(id_of(&held), TaskStatus::Declined)], false),
    ] {
        let refused = fixture.append(refused).await.unwrap_err();
        assert!(matches!(refused, StoreError::BadReceipt(_)), "{refused}");
    }
    // What is said of messages that are no jobs is like everywhere.
    let note = fixture.append(text(&alice, SERVICE, "a note")).await.unwrap().posted;
    fixture
        .append(receipt(&worker, note.id, TaskStatus::Done, None, NOW))
        .await
        .unwrap();
    // In a room that is no service's nothing is a job, and no claim is right.
    let channel = fixture.owner("carol", "build").await;
    let elsewhere = Append {
        room: room("build"),
        ..job(&channel, "no job")
    };
    fixture.append(elsewhere).await.unwrap();
    let fenced = Append {
        room: room("build"),
        ..receipt(&channel, note.id, TaskStatus::Done, Some(held.fence), NOW)
    };
    assert!(matches!(fixture.append(fenced).await, Err(StoreError::BadReceipt(_))));
    let listed = fixture
        .store
        .jobs(channel.agent, &room("build"), Seq::ZERO, 10, None, NOW)
        .await;
    assert!(matches!(listed, Err(StoreError::NotFound)));
}

#[tokio::test]
async fn every_requester_has_its_turn() {
    let (fixture, worker) = service().await;
    let names = ["alice", "bob", "carol"];
    let mut requesters = Vec::new();
    for name in names {
        requesters.push(requester(&fixture, name).await);
    }
    // The first asks for much, before the others ask for anything.
    for (requester, count) in requesters.iter().zip([6, 2, 1]) {
        for number in 0..count {
            dispatch(&fixture, requester, &number.to_string()).await;
        }
    }
    let name = |job: &HeldJob| {
        let found = requesters
            .iter()
            .position(|requester| requester.agent == author_of(job));
        names[found.unwrap()]
    };
    // Who has the fewest in work comes first; of these, whoever has waited longest.
    let mut held = Vec::new();
    for expected in ["alice", "bob", "carol", "alice", "bob"] {
        let job = claim(&fixture, &worker, NOW).await.unwrap();
        assert_eq!(name(&job), expected);
        held.push(job);
    }
    // One after the other, each done before the next: turns are kept although nothing is in work.
    for job in &held {
        let done = receipt(&worker, id_of(job), TaskStatus::Done, Some(job.fence), NOW);
        fixture.append(done).await.unwrap();
    }
    dispatch(&fixture, &requesters[1], "more").await;
    dispatch(&fixture, &requesters[2], "more").await;
    let mut order = Vec::new();
    while let Some(job) = claim(&fixture, &worker, NOW).await {
        order.push(name(&job));
        let done = receipt(&worker, id_of(&job), TaskStatus::Done, Some(job.fence), NOW);
        fixture.append(done).await.unwrap();
    }
    assert_eq!(order, ["carol", "alice", "bob", "alice", "alice", "alice"]);
    // Whose turn was last comes first where it has less in work.
    for requester in [0, 0, 1, 1, 1] {
        dispatch(&fixture, &requesters[requester], "more").await;
    }
    let mut order = Vec::new();
    for is_done in [true, false, true, true] {
        let job = claim(&fixture, &worker, NOW).await.unwrap();
        order.push(name(&job));
        if is_done {
            let done = receipt(&worker, id_of(&job), TaskStatus::Done, Some(job.fence), NOW);
            fixture.append(done).await.unwrap();
        }
    }
    assert_eq!(order, ["bob", "alice", "bob", "bob"]);
}

#[tokio::test]
async fn nobody_is_given_a_job_of_its_own() {
    let (fixture, worker) = service().await;
    let other = another_worker(&fixture, "other").await;
    let mine = dispatch(&fixture, &worker, "mine").await.posted;
    assert_eq!(claim(&fixture, &worker, NOW).await, None);
    // Nor where somebody else's waits behind it.
    let alice = requester(&fixture, "alice").await;
    let hers = dispatch(&fixture, &alice, "hers").await.posted;
    assert_eq!(id_of(&claim(&fixture, &worker, NOW).await.unwrap()), hers.id);
    assert_eq!(claim(&fixture, &worker, NOW).await, None);
    assert_eq!(id_of(&claim(&fixture, &other, NOW).await.unwrap()), mine.id);
    // But one that will do with its own.
    let again = dispatch(&fixture, &worker, "again").await.posted;
    let asked = Claim {
        by: worker.agent,
        room: room(SERVICE),
        id: MessageId::generate(),
        lease_ms: LEASE_MS,
        own: true,
        now: NOW,
    };
    let given = fixture.store.claim(asked).await.unwrap().job.unwrap();
    assert_eq!(id_of(&given), again.id);
}

#[tokio::test]
async fn jobs_are_listed_in_pages() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    for number in 0..5 {
        dispatch(&fixture, &alice, &number.to_string()).await;
        fixture.append(text(&alice, SERVICE, "and a note")).await.unwrap();
    }
    let mut after = Seq::ZERO;
    let mut seqs = Vec::new();
    for expected in [2, 2, 1] {
        let page = fixture
            .store
            .jobs(worker.agent, &room(SERVICE), after, 2, None, NOW)
            .await
            .unwrap();
        assert_eq!(page.jobs.len(), expected);
        seqs.extend(page.jobs.iter().map(|job| job.seq.get()));
        assert_eq!(page.next.is_some(), seqs.len() < 5);
        after = page.next.unwrap_or(after);
    }
    assert_eq!(seqs, [1, 3, 5, 7, 9]);
    let stranger = fixture.agent("stranger").await;
    let refused = fixture
        .store
        .jobs(stranger.agent, &room(SERVICE), Seq::ZERO, 2, None, NOW)
        .await;
    assert!(matches!(refused, Err(StoreError::NotFound)));
}
