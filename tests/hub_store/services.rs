//! Who serves a service, who may ask it for jobs, and what a token of such an agent may do.

use parler_hub::store::{Claim, MayServe, NewInvite, NewToken, Principal, Queue, Store, StoreError};
use parler_protocol::api::JobState;
use parler_protocol::{InviteCode, MessageId, RoomKind, TaskStatus, TokenScope};

use crate::jobs::{LEASE_MS, SERVICE, dispatch, id_of, job, receipt, requester, service, states};
use crate::support::{DAY_MS, Fixture, NOW, principal, room, text};

#[tokio::test]
async fn who_serves_was_invited_or_is_the_first() {
    let fixture = Fixture::new();
    let service = room(SERVICE);
    let (alice, bob, carol) = (
        fixture.agent("alice").await,
        fixture.agent("bob").await,
        fixture.agent("carol").await,
    );
    let serve = async |by: &Principal, may| {
        let served = fixture.store.serve(by.agent, &service, may, NOW).await;
        served.map(|(room, is_new)| (room.room.to_string(), room.kind, is_new))
    };
    assert!(matches!(
        serve(&alice, MayServe::Invited).await,
        Err(StoreError::NotFound)
    ));
    let entered = fixture.store.enter_service(bob.agent, &service, false, NOW).await;
    assert!(matches!(entered, Err(StoreError::NotFound)), "there is none yet");
    let made = (SERVICE.to_owned(), RoomKind::Service, true);
    assert_eq!(serve(&alice, MayServe::First).await.unwrap(), made);
    let there = (SERVICE.to_owned(), RoomKind::Service, false);
    assert_eq!(serve(&alice, MayServe::Invited).await.unwrap(), there, "again");
    for may in [MayServe::Invited, MayServe::First] {
        assert!(matches!(serve(&bob, may).await, Err(StoreError::NotFound)));
    }

    // Who asks for jobs is in the room, and that opens neither the work nor the door.
    let invite = |by: &Principal, code: &str| NewInvite {
        by: by.agent,
        room: service.clone(),
        code: code.parse::<InviteCode>().unwrap(),
        expires_at: NOW + DAY_MS,
        max_uses: 1,
        needs_approval: false,
        now: NOW,
    };
    let (_, is_new) = fixture
        .store
        .enter_service(bob.agent, &service, false, NOW)
        .await
        .unwrap();
    assert!(is_new);
    let (_, is_new) = fixture
        .store
        .enter_service(bob.agent, &service, false, NOW)
        .await
        .unwrap();
    assert!(!is_new);
    assert!(matches!(
        serve(&bob, MayServe::First).await,
        Err(StoreError::NotServing(_))
    ));
    let claim_of = |by: &Principal| Claim {
        by: by.agent,
        room: service.clone(),
        id: MessageId::generate(),
        lease_ms: LEASE_MS,
        own: false,
        now: NOW,
    };
    assert!(matches!(
        fixture.store.claim(claim_of(&bob)).await,
        Err(StoreError::NotServing(_))
    ));
    assert!(matches!(
        fixture.store.claim(claim_of(&carol)).await,
        Err(StoreError::NotFound)
    ));
    let refused = fixture.store.create_invite(invite(&bob, "BCDEFGHJKM22")).await;
    assert!(matches!(refused, Err(StoreError::NotServing(_))), "{refused:?}");
    let refused = fixture.store.create_invite(invite(&carol, "BCDEFGHJKM23")).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");

    // With an invite a member comes to serve as well, once.
    let made = fixture
        .store
        .create_invite(invite(&alice, "BCDEFGHJKM24"))
        .await
        .unwrap();
    assert_eq!(made.kind, RoomKind::Service);
    fixture.store.join(bob.agent, &made.code, NOW).await.unwrap();
    assert!(fixture.store.claim(claim_of(&bob)).await.unwrap().job.is_none());
    fixture.store.join(bob.agent, &made.code, NOW).await.unwrap();
    let used_up = fixture.store.join(carol.agent, &made.code, NOW).await;
    assert!(matches!(used_up, Err(StoreError::InvalidInvite)));
    // Where everybody is one user's.
    assert_eq!(serve(&carol, MayServe::Everybody).await.unwrap(), there);
    assert!(fixture.store.claim(claim_of(&carol)).await.unwrap().job.is_none());

    // An invite to a service makes it, and no channel has a service's name.
    let other = NewInvite {
        room: room("svc.build"),
        ..invite(&carol, "BCDEFGHJKM25")
    };
    assert_eq!(
        fixture.store.create_invite(other).await.unwrap().kind,
        RoomKind::Service
    );
    let spelled = NewInvite {
        room: room("SVC.Deploy"),
        ..invite(&carol, "BCDEFGHJKM26")
    };
    assert!(matches!(
        fixture.store.create_invite(spelled).await,
        Err(StoreError::ServiceReserved(_))
    ));
    let channel = fixture
        .store
        .create_room(&room("svc.x"), RoomKind::Channel, carol.agent, NOW)
        .await;
    assert!(matches!(channel, Err(StoreError::ServiceReserved(_))), "{channel:?}");
}

#[tokio::test]
async fn a_token_works_on_jobs_as_long_as_its_maker_does() {
    let (fixture, worker) = service().await;
    let alice = requester(&fixture, "alice").await;
    let token = |by: &Principal, name: &str, can: TokenScope| NewToken {
        by: by.agent,
        name: name.parse().unwrap(),
        account: principal(name).agent,
        hash: [name.as_bytes()[0]; 32],
        rooms: vec![room(SERVICE)],
        can: vec![can],
        expires_at: NOW + DAY_MS,
        now: NOW,
    };
    for (by, name, can) in [
        (&worker, "works", TokenScope::Claim),
        (&worker, "posts-only", TokenScope::Post),
        (&alice, "requesters", TokenScope::Claim),
    ] {
        fixture.store.create_token(token(by, name, can)).await.unwrap();
    }
    let as_token = |name: &str| Principal {
        name: format!("ci/{name}").parse().unwrap(),
        ..principal(name)
    };
    dispatch(&fixture, &alice, "review").await;
    let asks = async |name: &str| {
        let claim = Claim {
            by: principal(name).agent,
            room: room(SERVICE),
            id: MessageId::generate(),
            lease_ms: LEASE_MS,
            own: false,
            now: NOW,
        };
        fixture.store.claim(claim).await.map(|outcome| outcome.job)
    };
    assert!(matches!(asks("posts-only").await, Err(StoreError::NotFound)));
    assert!(matches!(asks("requesters").await, Err(StoreError::NotServing(_))));
    let held = asks("works").await.unwrap().unwrap();
    // It posts what becomes of the job, and nothing else.
    let by = as_token("works");
    assert!(matches!(
        fixture.append(text(&by, SERVICE, "hello")).await,
        Err(StoreError::NotFound)
    ));
    assert!(matches!(
        fixture.append(job(&by, "another")).await,
        Err(StoreError::NotFound)
    ));
    let done = receipt(&by, id_of(&held), TaskStatus::Done, Some(held.fence), NOW);
    fixture.append(done).await.unwrap();
    // One that may post asks for jobs, and does not become a member by it.
    let by = as_token("posts-only");
    let entered = fixture.store.enter_service(by.agent, &room(SERVICE), false, NOW).await;
    assert!(matches!(entered, Err(StoreError::NotFound)));
    dispatch(&fixture, &by, "from CI").await;
    assert_eq!(
        states(&fixture, &alice, NOW).await,
        [(JobState::Done, 0), (JobState::Waiting, 0)]
    );
}
