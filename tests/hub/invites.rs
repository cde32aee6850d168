//! Invite codes, from making to the last use.

use std::time::Duration;

use parler_protocol::api::{InviteCreated, RoomAnswer, SessionOpened};
use parler_protocol::{ErrorCode, InviteCode, limits, paths};
use serde_json::{Value, json};

use crate::support::{Agent, TestHub};

async fn invite(agent: &Agent, body: Value) -> InviteCreated {
    agent.post(paths::INVITES, &body).await.expect(201).json()
}

async fn join(agent: &Agent, code: &InviteCode) -> crate::support::Answer {
    agent.post(paths::JOIN, &json!({ "code": code })).await
}

#[tokio::test]
async fn an_invite_makes_its_room_and_leads_into_it() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    let made = invite(&alice, json!({ "room": "Build" })).await;
    assert_eq!(
        made.expires_at,
        hub.now_ms() + i64::try_from(limits::DEFAULT_INVITE_TTL.as_millis()).unwrap()
    );

    let answer = join(&bob, &made.code).await.expect(200);
    let joined: RoomAnswer = answer.json();
    assert_eq!(joined.room.as_str(), "Build");
    assert_eq!(answer.head(), joined.head);
    // Lower case, and as a link.
    let link = format!("parler://hub.example/join/{}", made.code.as_str().to_lowercase());
    assert_eq!(bob.post(paths::JOIN, &json!({ "code": link })).await.status, 200);
}

#[tokio::test]
async fn a_code_that_does_not_work_gets_one_answer_whatever_the_reason() {
    let hub = TestHub::start().await;
    let (alice, bob, carol) = (
        hub.agent("alice").await,
        hub.agent("bob").await,
        hub.agent("carol").await,
    );
    let used_up = invite(&alice, json!({ "room": "a", "maxUses": 1 })).await;
    let expired = invite(&alice, json!({ "room": "a", "ttlSecs": 60 })).await;
    assert_eq!(join(&bob, &used_up.code).await.status, 200);
    assert_eq!(join(&bob, &used_up.code).await.status, 200, "a member spends nothing");
    hub.pass(Duration::from_secs(60));
    let mut bodies = Vec::new();
    for code in [used_up.code, expired.code, InviteCode::from_random([7; 12])] {
        let answer = join(&carol, &code).await;
        answer.problem(ErrorCode::InvalidInvite);
        bodies.push(answer.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
}

#[tokio::test]
async fn of_many_who_race_for_one_use_one_gets_in() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let made = invite(&alice, json!({ "room": "race", "maxUses": 1 })).await;
    let mut racers = Vec::new();
    for index in 0..20 {
        racers.push(hub.agent(&format!("racer {index}")).await);
    }
    let results = futures_util::future::join_all(racers.iter().map(|racer| join(racer, &made.code))).await;
    assert_eq!(results.iter().filter(|answer| answer.status == 200).count(), 1);
    assert_eq!(results.iter().filter(|answer| answer.status == 404).count(), 19);
}

#[tokio::test]
async fn an_invite_lets_an_unknown_key_into_a_closed_hub() {
    let owner = Agent::new(
        "127.0.0.1:1".parse().unwrap(),
        parler_protocol::HubId::from_bytes([0; 16]),
        "owner",
    );
    let owner_id = owner.id();
    let hub = TestHub::with(|options| options.owners = vec![owner_id]).await;
    let mut owner = Agent {
        address: hub.address,
        hub: hub.id,
        ..owner
    };
    owner.open_session().await;
    let made = invite(&owner, json!({ "room": "team", "maxUses": 1 })).await;

    let newcomer = Agent::new(hub.address, hub.id, "newcomer");
    let mut proof = newcomer.proof(Some(newcomer.challenge().await));
    proof.invite = Some(made.code.clone());
    let opened: SessionOpened = newcomer.post(paths::SESSION, &proof).await.expect(200).json();
    assert_eq!(opened.joined.unwrap().room.as_str(), "team");
    assert!(newcomer.prove().await.status == 200, "known from now on");

    let late = Agent::new(hub.address, hub.id, "late");
    let mut proof = late.proof(Some(late.challenge().await));
    proof.invite = Some(made.code);
    late.post(paths::SESSION, &proof)
        .await
        .problem(ErrorCode::InvalidInvite);
    late.prove().await.problem(ErrorCode::NotAdmitted);
}

#[tokio::test]
async fn only_members_invite_and_within_limits() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    alice.create_room("mine").await;
    bob.post(paths::INVITES, &json!({ "room": "mine" }))
        .await
        .problem(ErrorCode::NotFound);
    let too_long = limits::MAX_INVITE_TTL.as_secs() + 1;
    for body in [
        json!({ "room": "mine", "ttlSecs": 0 }),
        json!({ "room": "mine", "ttlSecs": too_long }),
        json!({ "room": "mine", "maxUses": 0 }),
        json!({ "room": "mine", "maxUses": -1 }),
        json!({ "room": "../x" }),
        json!({}),
    ] {
        alice.post(paths::INVITES, &body).await.problem(ErrorCode::BadRequest);
    }
}
