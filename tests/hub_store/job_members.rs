//! What becomes of jobs when those who have to do with them come and go: workers, requesters, tokens, and the service itself.

use parler_hub::store::{Claim, HeldJob, MayServe, NewInvite, NewToken, Principal, Queue, Renewal, Store, StoreError};
use parler_protocol::api::JobState;
use parler_protocol::{MessageId, RoomKind, TaskStatus, TokenScope};

use crate::jobs::{
    LEASE_MS, SERVICE, another_worker, claim, dispatch, id_of, job, receipt, requester, service, states,
};
use crate::support::{DAY_MS, Fixture, NOW, principal, room, text};

async fn leave(fixture: &Fixture, by: &Principal, agent: &Principal, now: i64) {
    let ended = fixture
        .store
        .end_membership(&room(SERVICE), by.agent, agent.agent, now)
        .await;
    assert_eq!(ended.unwrap(), room(SERVICE));
}

async fn renew(fixture: &Fixture, by: &Principal, held: &HeldJob, now: i64) -> Result<Renewal, StoreError> {
    let service = room(SERVICE);
    fixture.store.renew(by.agent, &service, held.fence, LEASE_MS, now).await
}

async fn make_token(fixture: &Fixture, by: &Principal, name: &str, can: TokenScope) -> Principal {
    let token = NewToken {
        by: by.agent,
        name: name.parse().unwrap(),
        account: principal(name).agent,
        hash: [name.as_bytes()[0]; 32],
        rooms: vec![room(SERVICE)],
        can: vec![can],
        expires_at: NOW + DAY_MS,
        now: NOW,
    };
    fixture.store.create_token(token).await.unwrap();
    Principal {
        name: format!("ci/{name}").parse().unwrap(),
        ..principal(name)
    }
}

#[tokio::test]
async fn a_worker_that_goes_gives_back_what_it_has_and_can_complete_nothing() {
    for is_removed in [false, true] {
        let (fixture, owner) = service().await;
        let worker = another_worker(&fixture, "other").await;
        let alice = requester(&fixture, "alice").await;
        for what in ["held", "late"] {
            dispatch(&fixture, &alice, what).await;
        }
        let late = claim(&fixture, &worker, NOW - LEASE_MS).await.unwrap();
        let held = claim(&fixture, &worker, NOW).await.unwrap();
        assert_eq!(held.fence.seq, late.fence.seq, "the first is offered again at once");
        let second = claim(&fixture, &worker, NOW - LEASE_MS + 1).await.unwrap();
        let by = if is_removed { &owner } else { &worker };
        // The lease of the second has ended by now, which is an attempt whatever comes afterwards.
        leave(&fixture, by, &worker, NOW + 1).await;
        assert_eq!(states(&fixture, &alice, NOW + 1).await, [(JobState::Waiting, 1); 2]);
        let done = |held: &HeldJob| receipt(&worker, id_of(held), TaskStatus::Done, Some(held.fence), NOW + 1);
        let refused = fixture.append(done(&held)).await;
        assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
        // Back as one who asks, it still has nothing of what it worked on.
        let entered = fixture
            .store
            .enter_service(worker.agent, &room(SERVICE), false, NOW + 1)
            .await;
        assert_eq!(
            entered.is_ok(),
            !is_removed,
            "who was removed does not come back by itself"
        );
        if !is_removed {
            for held in [&held, &second] {
                let refused = fixture.append(done(held)).await;
                assert!(matches!(refused, Err(StoreError::StaleFence(_))), "{refused:?}");
            }
            let refused = renew(&fixture, &worker, &held, NOW + 1).await;
            assert!(matches!(refused, Err(StoreError::NotServing(_))), "{refused:?}");
            // Nor as one who serves again.
            another_worker(&fixture, "other").await;
            let refused = renew(&fixture, &worker, &held, NOW + 1).await;
            assert!(matches!(refused, Err(StoreError::StaleFence(_))), "{refused:?}");
        }
        for _ in 0..2 {
            let next = claim(&fixture, &owner, NOW + 1).await.unwrap();
            assert_eq!(next.attempt, 2);
            assert!(next.fence.number > second.fence.number);
            let done = receipt(&owner, id_of(&next), TaskStatus::Done, Some(next.fence), NOW + 1);
            fixture.append(done).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_who_has_left_asked_for_is_given_up_and_a_worker_may_take_it_up_again() {
    let (fixture, worker) = service().await;
    let (alice, bob) = (requester(&fixture, "alice").await, requester(&fixture, "bob").await);
    let ended = dispatch(&fixture, &alice, "done").await.posted;
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    let done = receipt(&worker, ended.id, TaskStatus::Done, Some(held.fence), NOW);
    fixture.append(done).await.unwrap();
    dispatch(&fixture, &alice, "claimed").await;
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    let waiting = dispatch(&fixture, &alice, "waiting").await.posted;
    dispatch(&fixture, &bob, "of another").await;

    leave(&fixture, &worker, &alice, NOW).await;
    let of_alice = [(JobState::Done, 0), (JobState::Dead, 0), (JobState::Dead, 0)];
    assert_eq!(states(&fixture, &bob, NOW).await[..3], of_alice);
    // Its worker is told, and nobody takes what it found.
    assert_eq!(renew(&fixture, &worker, &held, NOW).await.unwrap(), Renewal::Cancelled);
    let done = receipt(&worker, id_of(&held), TaskStatus::Done, Some(held.fence), NOW);
    assert!(matches!(fixture.append(done).await, Err(StoreError::StaleFence(_))));
    let next = claim(&fixture, &worker, NOW).await.unwrap();
    assert_eq!(next.fence.seq.get(), waiting.seq.get() + 1, "what bob asked for");
    assert_eq!(claim(&fixture, &worker, NOW).await, None);

    let retried = fixture
        .store
        .retry_job(worker.agent, &room(SERVICE), waiting.seq, NOW)
        .await
        .unwrap();
    assert_eq!(retried.0.state, JobState::Waiting);
    let again = claim(&fixture, &worker, NOW).await.unwrap();
    assert_eq!((id_of(&again), again.attempt), (waiting.id, 1));
    let done = receipt(&worker, waiting.id, TaskStatus::Done, Some(again.fence), NOW);
    fixture.append(done).await.unwrap();
}

#[tokio::test]
async fn tokens_go_with_their_maker_and_give_back_what_they_have_when_they_are_revoked() {
    let (fixture, owner) = service().await;
    let (worker, alice) = (
        another_worker(&fixture, "other").await,
        requester(&fixture, "alice").await,
    );
    let works = make_token(&fixture, &worker, "works", TokenScope::Claim).await;
    let asks = make_token(&fixture, &alice, "asks", TokenScope::Post).await;
    dispatch(&fixture, &alice, "by alice").await;
    fixture.append(job(&asks, "by its token")).await.unwrap();
    let claimed = async |id, by: &Principal| {
        let claim = Claim {
            by: by.agent,
            room: room(SERVICE),
            id,
            lease_ms: LEASE_MS,
            own: false,
            now: NOW,
        };
        fixture.store.claim(claim).await.map(|outcome| outcome.job)
    };
    let held = claimed(MessageId::generate(), &works).await.unwrap().unwrap();
    let by_maker = claim(&fixture, &worker, NOW).await.unwrap();
    // One token's end is nobody else's.
    let name = "works".parse().unwrap();
    fixture.store.revoke_token(worker.agent, &name, NOW).await.unwrap();
    assert_eq!(
        states(&fixture, &alice, NOW).await,
        [(JobState::Waiting, 0), (JobState::Claimed, 0)]
    );
    let done = receipt(&works, id_of(&held), TaskStatus::Done, Some(held.fence), NOW);
    assert!(matches!(fixture.append(done).await, Err(StoreError::NotFound)));
    assert!(matches!(
        claimed(MessageId::generate(), &works).await,
        Err(StoreError::NotFound)
    ));

    // A new one, which goes with its maker. So does what the maker itself has.
    let works = make_token(&fixture, &worker, "xworks", TokenScope::Claim).await;
    let held = claimed(MessageId::generate(), &works).await.unwrap().unwrap();
    leave(&fixture, &worker, &worker, NOW).await;
    assert_eq!(states(&fixture, &alice, NOW).await, [(JobState::Waiting, 0); 2]);
    for (by, held) in [(&works, &held), (&worker, &by_maker)] {
        let done = receipt(by, id_of(held), TaskStatus::Done, Some(held.fence), NOW);
        assert!(matches!(fixture.append(done).await, Err(StoreError::NotFound)));
    }
    // And what a requester's token has asked for, with that one.
    leave(&fixture, &alice, &alice, NOW).await;
    assert_eq!(states(&fixture, &owner, NOW).await, [(JobState::Dead, 0); 2]);
    assert_eq!(claim(&fixture, &owner, NOW).await, None);
}

#[tokio::test]
async fn what_a_token_asked_for_its_maker_calls_off_and_its_end_gives_up() {
    let (fixture, worker) = service().await;
    let (alice, bob) = (requester(&fixture, "alice").await, requester(&fixture, "bob").await);
    let asks = make_token(&fixture, &alice, "asks", TokenScope::Post).await;
    let mut ids = Vec::new();
    for what in ["claimed", "called off", "waiting"] {
        ids.push(fixture.append(job(&asks, what)).await.unwrap().posted.id);
    }
    let held = claim(&fixture, &worker, NOW).await.unwrap();
    assert_eq!(id_of(&held), ids[0]);
    let off = |by: &Principal| receipt(by, ids[1], TaskStatus::Cancelled, None, NOW);
    let refused = fixture.append(off(&bob)).await;
    assert!(matches!(refused, Err(StoreError::BadReceipt(_))), "{refused:?}");
    fixture.append(off(&alice)).await.unwrap();

    let name = "asks".parse().unwrap();
    let (_, rooms) = fixture.store.revoke_token(alice.agent, &name, NOW).await.unwrap();
    assert_eq!(rooms, [room(SERVICE)]);
    let ended = [(JobState::Dead, 0), (JobState::Cancelled, 0), (JobState::Dead, 0)];
    assert_eq!(states(&fixture, &alice, NOW).await, ended);
    assert_eq!(renew(&fixture, &worker, &held, NOW).await.unwrap(), Renewal::Cancelled);
    assert_eq!(claim(&fixture, &worker, NOW).await, None);
}

#[tokio::test]
async fn a_service_that_all_have_left_is_whose_comes_first_and_one_made_anew_knows_no_jobs() {
    let (fixture, worker) = service().await;
    leave(&fixture, &worker, &worker, NOW).await;
    let bob = fixture.agent("bob").await;
    let serve = async |may| fixture.store.serve(bob.agent, &room(SERVICE), may, NOW).await;
    let entered = fixture.store.enter_service(bob.agent, &room(SERVICE), false, NOW).await;
    assert!(matches!(entered, Err(StoreError::NotFound)), "there is nobody to ask");
    assert!(matches!(serve(MayServe::Invited).await, Err(StoreError::NotFound)));
    let (_, is_new) = serve(MayServe::First).await.unwrap();
    assert!(!is_new);
    let alice = requester(&fixture, "alice").await;
    dispatch(&fixture, &alice, "of then").await;
    let held = claim(&fixture, &bob, NOW).await.unwrap();

    let deleted = fixture.store.delete_room(&room(SERVICE), bob.agent, NOW).await.unwrap();
    assert_eq!(deleted.members, [bob.agent, alice.agent], "it was bob's");
    let refused = renew(&fixture, &bob, &held, NOW).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    let (made, is_new) = serve(MayServe::First).await.unwrap();
    assert_eq!((made.kind, made.head.seq.get(), is_new), (RoomKind::Service, 0, true));
    assert_eq!(states(&fixture, &bob, NOW).await, []);
    // The same numbers, and another job.
    let alice = requester(&fixture, "alice").await;
    let posted = dispatch(&fixture, &alice, "of now").await.posted;
    let anew = claim(&fixture, &bob, NOW).await.unwrap();
    assert_eq!((anew.fence, id_of(&anew)), (held.fence, posted.id));
    let done = receipt(&bob, id_of(&held), TaskStatus::Done, Some(held.fence), NOW);
    let refused = fixture.append(done).await;
    assert!(matches!(refused, Err(StoreError::BadReceipt(_))), "{refused:?}");
    assert_eq!(states(&fixture, &bob, NOW).await, [(JobState::Claimed, 0)]);
}

#[tokio::test]
async fn owners_serve_whenever_they_like_and_lookalikes_do_not_come_in() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    let service = room(SERVICE);
    let serve = async || fixture.store.serve(alice.agent, &service, MayServe::Invited, NOW).await;
    let roster = async || {
        let (_, members) = fixture.store.members(worker.agent, &service).await.unwrap();
        let serving = members
            .iter()
            .map(|member| (member.name.to_string(), member.owner, member.serves));
        serving.collect::<Vec<_>>()
    };
    assert!(matches!(serve().await, Err(StoreError::NotServing(_))));
    fixture
        .store
        .set_owner(&service, worker.agent, alice.agent, true)
        .await
        .unwrap();
    let seen = |serves| [("worker".to_owned(), true, true), ("alice".to_owned(), true, serves)];
    assert_eq!(roster().await, seen(false));
    // An owner lets others in, and itself.
    let invite = NewInvite {
        by: alice.agent,
        room: service.clone(),
        code: "BCDEFGHJKM22".parse().unwrap(),
        expires_at: NOW + DAY_MS,
        max_uses: 1,
        needs_approval: false,
        now: NOW,
    };
    fixture.store.create_invite(invite).await.unwrap();
    serve().await.unwrap();
    assert_eq!(roster().await, seen(true));

    let lookalike = fixture.agent("ALICE").await;
    let entered = fixture.store.enter_service(lookalike.agent, &service, false, NOW).await;
    assert!(matches!(entered, Err(StoreError::NameTaken(..))), "{entered:?}");
    assert_eq!(roster().await.len(), 2);
    let refused = fixture.append(text(&lookalike, SERVICE, "hello")).await;
    assert!(matches!(refused, Err(StoreError::NotFound)));
    // Where all are one user's nobody is taken for another.
    let entered = fixture.store.enter_service(lookalike.agent, &service, true, NOW).await;
    assert!(entered.unwrap().1);
}
