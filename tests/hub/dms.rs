//! Direct rooms: who can open one, and what it is not.

use std::sync::Arc;

use parler_protocol::api::{AgentList, MemberList, OpenDm, RoomAnswer, RoomList};
use parler_protocol::{AgentId, AgentKey, ErrorCode, RoomKind, RoomName, paths};
use serde_json::json;

use crate::fixtures::assert_shape;
use crate::support::{Agent, Answer, TestHub, text_message};

async fn open(agent: &Agent, other: AgentId) -> Answer {
    agent.post(paths::DMS, &json!(OpenDm { agent: other })).await
}

#[tokio::test]
async fn two_agents_have_one_room_whoever_asks() {
    let hub = TestHub::start().await;
    let (alice, bob, carol) = (
        hub.agent("alice").await,
        hub.agent("bob").await,
        hub.agent("carol").await,
    );
    let room = alice.create_room("feature-checkout").await.room;
    alice.invite(&room, &bob).await;
    let made: RoomAnswer = open(&alice, bob.id()).await.expect(201).json();
    assert_eq!(
        (made.kind, &made.room),
        (RoomKind::Dm, &RoomName::direct(&bob.id(), &alice.id()))
    );
    assert_eq!(open(&bob, alice.id()).await.expect(200).json::<RoomAnswer>(), made);
    alice
        .post(&paths::messages(&made.room), &text_message("hello"))
        .await
        .expect(201)
        .head();
    let rooms: RoomList = bob.get(paths::ROOMS).await.expect(200).json();
    let direct = rooms.rooms.iter().find(|found| found.room == made.room).unwrap();
    assert_eq!((direct.members, direct.unread), (2, 1));
    assert_eq!(direct.with.as_ref().unwrap().name.as_str(), "alice");
    let members: MemberList = bob.get(&paths::members(&made.room)).await.expect(200).json();
    assert!(members.members.iter().all(|member| !member.owner), "nobody owns it");
    let agents = bob.get(paths::AGENTS).await.expect(200);
    let list: AgentList = agents.json();
    let [contact] = list.agents.as_slice() else {
        panic!("{list:?}")
    };
    assert_eq!(
        (contact.id, &contact.rooms, &contact.dm),
        (alice.id(), &vec![room], &Some(made.room.clone()))
    );
    let mut shape: serde_json::Value = agents.json();
    shape["agents"][0]["role"] = json!("planner");
    assert_shape("agents-answer.json", &shape);
    // Nobody else sees it.
    carol
        .get(&paths::messages(&made.room))
        .await
        .problem(ErrorCode::NotFound);
    assert!(
        carol
            .get(paths::AGENTS)
            .await
            .expect(200)
            .json::<AgentList>()
            .agents
            .is_empty()
    );
}

#[tokio::test]
async fn who_is_out_of_reach_is_answered_like_nobody() {
    let hub = TestHub::start().await;
    let (alice, bob) = (hub.agent("alice").await, hub.agent("bob").await);
    // While it lets everybody in, everybody can be written to.
    let (address, directory) = (hub.address, Arc::clone(&hub.directory));
    hub.stop().await.unwrap().unwrap();
    let _closed = TestHub::at(address, directory, |_| ()).await;
    let nobody = AgentKey::from_random([77; 32]).id();
    let room = alice.create_room("r").await.room;
    let mut bodies = Vec::new();
    for agent in [nobody, bob.id(), alice.id()] {
        let answer = open(&alice, agent).await;
        answer.problem(ErrorCode::NotFound);
        bodies.push(answer.body);
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    alice.invite(&room, &bob).await;
    open(&alice, bob.id()).await.expect(201).head();
}

/// Whether two others speak to each other is told by no refusal.
#[tokio::test]
async fn its_name_is_nobodys_to_take_and_nobody_is_invited() {
    let hub = TestHub::start().await;
    let (alice, bob, mallory) = (
        hub.agent("alice").await,
        hub.agent("bob").await,
        hub.agent("mallory").await,
    );
    let shared = alice.create_room("r").await.room;
    alice.invite(&shared, &bob).await;
    let direct = RoomName::direct(&alice.id(), &bob.id());
    let mut bodies = Vec::new();
    for is_there in [false, true] {
        if is_there {
            open(&alice, bob.id()).await.expect(201).head();
        }
        for agent in [&alice, &mallory] {
            let made = agent
                .post(paths::ROOMS, &json!({ "room": direct, "kind": "channel" }))
                .await;
            made.problem(ErrorCode::NameReserved);
            let invited = agent.post(paths::INVITES, &json!({ "room": direct })).await;
            invited.problem(ErrorCode::NameReserved);
            bodies.extend([made.body, invited.body]);
        }
    }
    bodies.dedup();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
}
