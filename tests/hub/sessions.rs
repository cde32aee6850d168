//! Proving a key, and what a token is good for.

use std::time::Duration;

use parler_protocol::{Challenge, ErrorCode, limits, paths};

use crate::support::{Agent, TestHub};

#[tokio::test]
async fn a_proved_key_gets_a_token_that_works_until_it_ends() {
    let hub = TestHub::start().await;
    let agent = hub.agent("alice").await;
    assert!(agent.token.starts_with("parler_"));
    agent.get(paths::ROOMS).await.expect(200).json::<serde_json::Value>();

    hub.pass(limits::SESSION_TTL - Duration::from_millis(1));
    assert_eq!(agent.get(paths::ROOMS).await.status, 200);
    hub.pass(Duration::from_millis(1));
    let ended = agent.get(paths::ROOMS).await;
    assert!(ended.problem(ErrorCode::Unauthenticated).challenge.is_some());
    assert_eq!(ended.header("www-authenticate"), "Bearer");
}

#[tokio::test]
async fn a_challenge_in_a_401_of_any_call_opens_a_session() {
    let hub = TestHub::start().await;
    let agent = Agent::new(hub.address, hub.id, "alice");
    let challenge = agent
        .get(paths::ROOMS)
        .await
        .problem(ErrorCode::Unauthenticated)
        .challenge;
    assert_eq!(agent.post(paths::SESSION, &agent.proof(challenge)).await.status, 200);
}

#[tokio::test]
async fn a_challenge_is_answered_once() {
    let hub = TestHub::start().await;
    let agent = Agent::new(hub.address, hub.id, "alice");
    let proof = agent.proof(Some(agent.challenge().await));
    assert_eq!(agent.post(paths::SESSION, &proof).await.status, 200);
    let again = agent.post(paths::SESSION, &proof).await;
    assert!(
        again
            .problem(ErrorCode::Unauthenticated)
            .challenge
            .is_some_and(|new| Some(new) != proof.challenge)
    );
}

#[tokio::test]
async fn no_other_proof_is_accepted() {
    let hub = TestHub::start().await;
    let agent = Agent::new(hub.address, hub.id, "alice");
    let other = Agent::new(hub.address, hub.id, "mallory");
    let elsewhere = TestHub::start().await;

    let mut wrong_key = other.proof(Some(agent.challenge().await));
    wrong_key.id = agent.id();
    let of_other_hub = Agent::new(elsewhere.address, elsewhere.id, "x").challenge().await;
    let tampered: Challenge = {
        let challenge = agent.challenge().await.to_string();
        let expires_at = challenge.split(':').nth(3).unwrap();
        challenge.replace(expires_at, "9999999999999").parse().unwrap()
    };
    let mut no_signature = agent.proof(Some(agent.challenge().await));
    no_signature.sig = Some("not base64".to_owned());
    let proofs = [
        ("another key", wrong_key),
        (
            "another authority",
            agent.proof_for(Some(agent.challenge().await), "hub.example:7777"),
        ),
        ("another hub's challenge", agent.proof(Some(of_other_hub))),
        ("a challenge with a changed expiry", agent.proof(Some(tampered))),
        (
            "an invented challenge",
            agent.proof(Some("parler-auth:v1:x".parse().unwrap())),
        ),
        ("no signature", no_signature),
    ];
    for (what, proof) in proofs {
        let answer = agent.post(paths::SESSION, &proof).await;
        assert_eq!(answer.status, 401, "{what}");
        assert!(answer.problem(ErrorCode::Unauthenticated).challenge.is_some(), "{what}");
    }

    let late = agent.proof(Some(agent.challenge().await));
    hub.pass(limits::CHALLENGE_TTL);
    agent
        .post(paths::SESSION, &late)
        .await
        .problem(ErrorCode::Unauthenticated);
}

#[tokio::test]
async fn every_bad_token_gets_the_same_answer() {
    let hub = TestHub::start().await;
    let agent = hub.agent("alice").await;
    let flipped = format!(
        "{}{}",
        &agent.token[..70],
        if agent.token.ends_with('0') { '1' } else { '0' }
    );
    let values = [
        "".to_owned(),
        "Bearer".to_owned(),
        "Bearer x".to_owned(),
        format!("Bearer {flipped}"),
    ];
    let mut details = Vec::new();
    for value in values.into_iter().chain([format!("Basic {}", agent.token)]) {
        let mut stranger = Agent::new(hub.address, hub.id, "x");
        stranger.token.clear();
        let answer = stranger
            .send(
                "GET",
                paths::ROOMS,
                |request| request.header("authorization", value.clone()),
                "",
            )
            .await;
        details.push(answer.problem(ErrorCode::Unauthenticated).detail);
    }
    details.dedup();
    assert_eq!(details.len(), 1, "{details:?}");
}

#[tokio::test]
async fn a_closed_hub_lets_in_its_owner_and_nobody_else() {
    let mut seeded = Agent::new(
        "127.0.0.1:1".parse().unwrap(),
        parler_protocol::HubId::from_bytes([0; 16]),
        "owner",
    );
    let owner_id = seeded.id();
    let hub = TestHub::with(|options| options.owners = vec![owner_id]).await;
    (seeded.address, seeded.hub) = (hub.address, hub.id);
    seeded.open_session().await;
    let stranger = Agent::new(hub.address, hub.id, "stranger");
    stranger.prove().await.problem(ErrorCode::NotAdmitted);

    // Once in, an owner stays in when it is named no longer.
    let directory = std::sync::Arc::clone(&hub.directory);
    hub.stop().await.unwrap().unwrap();
    let hub = TestHub::on(directory, |_| ()).await;
    assert_eq!(hub.id, seeded.hub);
    seeded.address = hub.address;
    assert_eq!(
        seeded.get(paths::ROOMS).await.status,
        200,
        "a session outlives a restart"
    );
    seeded.open_session().await;
}

#[tokio::test]
async fn proofs_from_afar_are_rate_limited_and_local_ones_are_not() {
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.proof_burst = 0;
        options.limits.proofs_per_minute = 1;
    })
    .await;
    let agent = Agent::new(hub.address, hub.id, "alice");
    let answer = agent.prove().await;
    answer.problem(ErrorCode::RateLimited);
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    // A challenge costs nothing.
    agent.challenge().await;

    let generous = TestHub::start().await;
    for _ in 0..100 {
        Agent::new(generous.address, generous.id, "alice").open_session().await;
    }
}

#[tokio::test]
async fn a_new_session_changes_name_and_role() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("alice").await;
    let room = agent.create_room("names").await;
    agent.name = "alice the second".parse().unwrap();
    agent.role = Some("planner".parse().unwrap());
    agent.open_session().await;
    let members = agent.get(&paths::members(&room.room)).await.expect(200);
    let members: parler_protocol::api::MemberList = members.json();
    assert_eq!(members.members[0].name, agent.name);
    assert_eq!(members.members[0].role, agent.role);
    assert!(members.members[0].owner);
}
