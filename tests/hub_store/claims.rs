//! Claims when the clock is wrong, the disk full, or the hub was away, and what is known of them when they are over.

use parler_hub::FreeFloor;
use parler_hub::store::{Principal, Queue, Renewal, SqliteOptions, Store, StoreError};
use parler_protocol::api::{JobFilter, JobState};
use parler_protocol::limits::{MAX_JOB_ATTEMPTS, MAX_LEASE, RESTART_LEASE};
use parler_protocol::{Fence, TaskStatus};

use crate::jobs::{
    LEASE_MS, SERVICE, another_worker, claim, dispatch, id_of, jobs, receipt, requester, service, states, until,
};
use crate::support::{DAY_MS, Fixture, NOW, push, room};

async fn renew(
    fixture: &Fixture,
    by: &Principal,
    fence: Fence,
    lease_ms: i64,
    now: i64,
) -> Result<Renewal, StoreError> {
    fixture
        .store
        .renew(by.agent, &room(SERVICE), fence, lease_ms, now)
        .await
}

async fn release(fixture: &Fixture, by: &Principal, fence: Fence, now: i64) -> Result<(), StoreError> {
    fixture.store.release(by.agent, &room(SERVICE), fence, now).await
}

#[tokio::test]
async fn a_clock_that_goes_back_keeps_no_job_from_others() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    dispatch(&fixture, &alice, "review").await;
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    // As far back as a lease can be long, and requests may overtake each other, it is its worker's.
    let longest = i64::try_from((MAX_LEASE + RESTART_LEASE).as_millis()).unwrap();
    let back = NOW + LEASE_MS - longest;
    assert_eq!(states(&fixture, &alice, back).await, [(JobState::Claimed, 0)]);
    assert_eq!(claim(&fixture, &worker, back).await, None);
    // Farther than that it has ended, for whoever looks.
    let back = back - 1;
    assert_eq!(states(&fixture, &alice, back).await, [(JobState::Waiting, 1)]);
    let refused = renew(&fixture, &worker, held.fence, LEASE_MS, back).await;
    assert!(matches!(refused, Err(StoreError::StaleFence(_))), "{refused:?}");
    let done = receipt(&worker, id_of(&held), TaskStatus::Done, Some(held.fence), back);
    assert!(matches!(fixture.append(done).await, Err(StoreError::StaleFence(_))));
    let again = claim(&fixture, &worker, back).await.unwrap();
    assert_eq!((id_of(&again), again.attempt), (id_of(&held), 2));
    assert_eq!(again.lease_until, back + LEASE_MS);
}

#[tokio::test]
async fn a_hub_that_was_away_gives_workers_time_to_come_back() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    for what in ["short", "long", "waiting"] {
        dispatch(&fixture, &alice, what).await;
    }
    let short = claim(&fixture, &worker, NOW).await.unwrap();
    let long = claim(&fixture, &worker, NOW).await.unwrap();
    renew(&fixture, &worker, long.fence, 50 * LEASE_MS, NOW).await.unwrap();
    let fixture = fixture.restart().await;
    let extend = async |now| fixture.store.extend_leases(now, now + LEASE_MS).await.unwrap();
    let now = NOW + 10 * LEASE_MS;
    assert_eq!((extend(now).await, extend(now).await), (1, 0));
    let held = [(JobState::Claimed, 0), (JobState::Claimed, 0), (JobState::Waiting, 0)];
    assert_eq!(states(&fixture, &alice, now).await, held);
    // It is its worker's for so long, and no longer.
    let working = receipt(
        &worker,
        id_of(&short),
        TaskStatus::Working,
        Some(short.fence),
        now + LEASE_MS - 1,
    );
    fixture.append(working).await.unwrap();
    let late = renew(&fixture, &worker, short.fence, LEASE_MS, now + LEASE_MS).await;
    assert!(matches!(late, Err(StoreError::StaleFence(_))), "{late:?}");
    // Where the clock went back meanwhile, they have as long.
    let back = NOW - DAY_MS;
    assert_eq!((extend(back).await, extend(back).await), (2, 0));
    assert_eq!(states(&fixture, &alice, back).await, held);
    let working = receipt(
        &worker,
        id_of(&long),
        TaskStatus::Working,
        Some(long.fence),
        back + LEASE_MS - 1,
    );
    fixture.append(working).await.unwrap();
}

#[tokio::test]
async fn on_a_full_disk_no_job_is_given_out_whose_end_could_not_be_stored() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    for what in ["one", "two"] {
        dispatch(&fixture, &alice, what).await;
    }
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    let full = SqliteOptions {
        free_floor: FreeFloor::percent(100),
        ..SqliteOptions::default()
    };
    let fixture = fixture.restart_with(full).await;
    let asked = |id| parler_hub::store::Claim {
        by: worker.agent,
        room: room(SERVICE),
        id,
        lease_ms: LEASE_MS,
        own: false,
        now: NOW,
    };
    let refused = fixture.store.claim(asked(parler_protocol::MessageId::generate())).await;
    assert!(matches!(refused, Err(StoreError::StorageFull)), "{refused:?}");
    // What somebody has stays its own, and what takes no space goes on.
    let kept = renew(&fixture, &worker, held.fence, LEASE_MS, NOW + 1).await.unwrap();
    assert_eq!(kept, until(NOW + 1 + LEASE_MS, false));
    release(&fixture, &worker, held.fence, NOW + 1).await.unwrap();
    assert_eq!(states(&fixture, &alice, NOW + 1).await, [(JobState::Waiting, 0); 2]);
    let fixture = fixture.restart().await;
    assert_eq!(claim(&fixture, &worker, NOW).await.unwrap().attempt, 1);
}

#[tokio::test]
async fn a_renewal_that_shortens_a_lease_says_so() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    dispatch(&fixture, &alice, "review").await;
    let fence = claim(&fixture, &worker, NOW).await.unwrap().fence;
    let longer = renew(&fixture, &worker, fence, 2 * LEASE_MS, NOW).await.unwrap();
    assert_eq!(longer, until(NOW + 2 * LEASE_MS, false));
    let shorter = renew(&fixture, &worker, fence, LEASE_MS, NOW + 1).await.unwrap();
    assert_eq!(shorter, until(NOW + 1 + LEASE_MS, true));
}

/// Whether anybody has asked since the third lease ended makes no difference.
#[tokio::test]
async fn what_is_given_up_cannot_be_called_off_whether_anybody_has_looked_or_not() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    let posted = dispatch(&fixture, &alice, "poison").await.posted;
    let mut now = NOW;
    for attempt in 1..=MAX_JOB_ATTEMPTS {
        assert_eq!(claim(&fixture, &worker, now).await.unwrap().attempt, attempt);
        now += LEASE_MS;
    }
    let off = receipt(&alice, posted.id, TaskStatus::Cancelled, None, now);
    let refused = fixture.append(off).await.unwrap_err();
    assert!(matches!(refused, StoreError::JobState(_, JobState::Dead)), "{refused}");
    // A moment before, it could.
    let off = receipt(&alice, posted.id, TaskStatus::Cancelled, None, now - 1);
    fixture.append(off).await.unwrap();
}

#[tokio::test]
async fn open_and_dead_jobs_are_listed_by_themselves_in_pages() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    let poison = dispatch(&fixture, &alice, "poison").await.posted.seq;
    let mut now = NOW;
    for _ in 1..MAX_JOB_ATTEMPTS {
        claim(&fixture, &worker, now).await.unwrap();
        now += LEASE_MS;
    }
    claim(&fixture, &worker, now).await.unwrap();
    let mut seqs = Vec::new();
    for what in ["done", "claimed", "waiting", "dead", "last"] {
        seqs.push(dispatch(&fixture, &alice, what).await.posted.seq);
    }
    let done = claim(&fixture, &worker, now).await.unwrap();
    let said = receipt(&worker, id_of(&done), TaskStatus::Done, Some(done.fence), now);
    fixture.append(said).await.unwrap();
    let held = claim(&fixture, &worker, now).await.unwrap();
    renew(&fixture, &worker, held.fence, 10 * LEASE_MS, now).await.unwrap();
    let bob = requester(&fixture, "bob").await;
    let given_up = dispatch(&fixture, &bob, "of one that goes").await.posted.seq;
    fixture
        .store
        .end_membership(&room(SERVICE), bob.agent, bob.agent, now)
        .await
        .unwrap();
    let list = async |only, now| {
        let (mut after, mut found) = (parler_protocol::Seq::ZERO, Vec::new());
        loop {
            let page = fixture
                .store
                .jobs(alice.agent, &room(SERVICE), after, 2, Some(only), now)
                .await
                .unwrap();
            assert!(page.jobs.len() <= 2);
            found.extend(page.jobs.iter().map(|job| job.seq));
            match page.next {
                Some(next) => after = next,
                None => return found,
            }
        }
    };
    // The third lease of the first has ended whether anybody has looked or not.
    assert_eq!(list(JobFilter::Dead, now).await, [given_up]);
    assert_eq!(
        list(JobFilter::Open, now).await,
        [poison, seqs[1], seqs[2], seqs[3], seqs[4]]
    );
    now += LEASE_MS;
    assert_eq!(list(JobFilter::Dead, now).await, [poison, given_up]);
    assert_eq!(list(JobFilter::Open, now).await, seqs[1..]);
    assert_eq!(states(&fixture, &alice, now).await.len(), 7);
}

#[tokio::test]
async fn in_a_services_room_who_asks_moves_refs_of_its_own_alone() {
    let (fixture, worker) = service().await;
    let (alice, bob) = (requester(&fixture, "alice").await, requester(&fixture, "bob").await);
    let place = "refs/requests/alice/heads/main";
    let moves = async |by: &Principal, updates: &[(&str, Option<char>, Option<char>)]| {
        fixture.append(push(by, SERVICE, updates)).await
    };
    moves(&alice, &[(place, None, Some('1'))]).await.unwrap();
    for (by, updates) in [
        (&bob, [(place, Some('1'), Some('2'))]),
        (&bob, [(place, Some('1'), None)]),
        (&alice, [("refs/heads/main", None, Some('1'))]),
        (&alice, [("refs/requests/alice", None, Some('1'))]),
        (&alice, [("refs/requests/alicex/heads/main", None, Some('1'))]),
    ] {
        let refused = moves(by, &updates).await;
        assert!(matches!(refused, Err(StoreError::NotYourPlace(..))), "{refused:?}");
    }
    // Nor do they say what others check out.
    let mut head = push(&bob, SERVICE, &[("refs/requests/bob/heads/x", None, Some('1'))]);
    if let Some(refs) = &mut head.refs {
        refs.head = Some(place.parse().unwrap());
    }
    let refused = fixture.append(head).await;
    assert!(matches!(refused, Err(StoreError::NotYourPlace(..))), "{refused:?}");
    assert_eq!(fixture.messages(&alice, SERVICE).await.len(), 1);
    moves(&alice, &[(place, Some('1'), Some('2'))]).await.unwrap();
    // Who serves moves any, and elsewhere everybody does.
    moves(
        &worker,
        &[("refs/heads/main", None, Some('3')), (place, Some('2'), None)],
    )
    .await
    .unwrap();
    let owner = fixture.owner("carol", "build").await;
    let elsewhere = push(&owner, "build", &[(place, None, Some('1'))]);
    fixture.append(elsewhere).await.unwrap();
}

#[tokio::test]
async fn giving_back_what_has_ended_is_refused() {
    let (fixture, worker) = service().await;
    let other = another_worker(&fixture, "other").await;
    let alice = requester(&fixture, "alice").await;
    for (what, status) in [("done", TaskStatus::Done), ("failed", TaskStatus::Failed)] {
        dispatch(&fixture, &alice, what).await;
        let held = claim(&fixture, &worker, NOW).await.unwrap();
        let said = receipt(&worker, id_of(&held), status, Some(held.fence), NOW);
        fixture.append(said).await.unwrap();
        let refused = release(&fixture, &worker, held.fence, NOW).await;
        assert!(matches!(refused, Err(StoreError::StaleFence(_))), "{what}: {refused:?}");
    }
    dispatch(&fixture, &alice, "cancelled").await;
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    let off = receipt(&alice, id_of(&held), TaskStatus::Cancelled, None, NOW);
    fixture.append(off).await.unwrap();
    let refused = release(&fixture, &worker, held.fence, NOW).await;
    assert!(matches!(refused, Err(StoreError::StaleFence(_))), "{refused:?}");
    // Given back and given back again is one thing, until another has it.
    dispatch(&fixture, &alice, "given back").await;
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    for _ in 0..2 {
        release(&fixture, &worker, held.fence, NOW).await.unwrap();
    }
    let taken = claim(&fixture, &other, NOW).await.unwrap();
    assert_eq!(id_of(&taken), id_of(&held));
    let refused = release(&fixture, &worker, held.fence, NOW).await;
    assert!(matches!(refused, Err(StoreError::StaleFence(_))), "{refused:?}");
}

#[tokio::test]
async fn who_gave_a_job_back_is_not_named_by_it() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    for what in ["given back", "lost", "kept"] {
        dispatch(&fixture, &alice, what).await;
    }
    let [given_back, lost, kept] = [
        claim(&fixture, &worker, NOW).await.unwrap(),
        claim(&fixture, &worker, NOW).await.unwrap(),
        claim(&fixture, &worker, NOW).await.unwrap(),
    ];
    renew(&fixture, &worker, kept.fence, 10 * LEASE_MS, NOW).await.unwrap();
    release(&fixture, &worker, given_back.fence, NOW).await.unwrap();
    let now = NOW + 2 * LEASE_MS;
    for held in [&given_back, &lost, &kept] {
        let off = receipt(&alice, id_of(held), TaskStatus::Cancelled, None, now);
        fixture.append(off).await.unwrap();
    }
    let listed = jobs(&fixture, &alice, now).await;
    assert!(listed.iter().all(|job| job.state == JobState::Cancelled));
    let named: Vec<_> = listed
        .iter()
        .map(|job| job.claimed_by.as_ref().map(|by| by.id))
        .collect();
    assert_eq!(named, [None, Some(worker.agent), Some(worker.agent)]);
}
