//! Invites by which one comes in only when an owner says so.

use std::time::Duration;

use parler_hub::LocalPolicy;
use parler_protocol::api::{InviteCreated, JoinPending, MemberList, RoomList, SessionOpened};
use parler_protocol::{AgentId, ErrorCode, RoomName, paths};
use serde_json::json;

use crate::membership::{end, members, room_of_three};
use crate::streams::Stream;
use crate::support::{Agent, Answer, TestHub, text_message, until};

async fn gated(agent: &Agent, room: &RoomName) -> InviteCreated {
    let invite = json!({ "room": room, "approve": true, "maxUses": 3 });
    agent.post(paths::INVITES, &invite).await.expect(201).json()
}

async fn join(agent: &Agent, invite: &InviteCreated) -> Answer {
    agent.post(paths::JOIN, &json!({ "code": invite.code })).await
}

async fn admit(by: &Agent, room: &RoomName, agent: AgentId) -> Answer {
    by.put(&paths::request(room, &agent), &json!({})).await
}

async fn refuse(by: &Agent, room: &RoomName, agent: AgentId) -> Answer {
    by.delete(&paths::request(room, &agent)).await
}

async fn waiting(agent: &Agent, room: &RoomName) -> Vec<AgentId> {
    let list: MemberList = agent.get(&paths::members(room)).await.expect(200).json();
    list.requests.iter().map(|request| request.id).collect()
}

#[tokio::test]
async fn who_comes_by_it_waits_until_an_owner_says_yes() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let [dave, erin] = [hub.agent("dave").await, hub.agent("erin").await];
    let invite = gated(&bob, &room).await;
    assert!(invite.approve);
    let pending: JoinPending = join(&dave, &invite).await.expect(202).json();
    assert_eq!(pending.room, room);
    assert_eq!(join(&dave, &invite).await.status, 202, "once is enough");
    assert_eq!(join(&erin, &invite).await.status, 202);
    for path in [paths::messages(&room), paths::members(&room), paths::room(&room)] {
        let refused = dave.get(&path).await;
        refused.problem(ErrorCode::ApprovalPending);
        assert!(!refused.headers.contains_key(paths::HEAD_HEADER));
    }
    dave.post(&paths::messages(&room), &text_message("hello"))
        .await
        .problem(ErrorCode::ApprovalPending);
    // Owners are told, and nobody else.
    assert_eq!(waiting(&alice, &room).await, [dave.id(), erin.id()]);
    assert_eq!(waiting(&bob, &room).await, []);
    let requests = async |agent: &Agent| -> u64 {
        let list: RoomList = agent.get(paths::ROOMS).await.expect(200).json();
        list.rooms[0].requests
    };
    assert_eq!((requests(&alice).await, requests(&bob).await), (2, 0));
    admit(&bob, &room, dave.id()).await.problem(ErrorCode::NotOwner);

    let mut hints = Stream::begin(&dave, paths::EVENTS, None).await;
    assert_eq!(hints.event().await.name, "heads");
    assert_eq!(admit(&alice, &room, dave.id()).await.status, 204);
    assert_eq!(hints.event().await.json()["room"], room.as_str());
    assert_eq!(dave.get(&paths::messages(&room)).await.status, 200);

    assert_eq!(refuse(&alice, &room, erin.id()).await.status, 204);
    erin.get(&paths::messages(&room))
        .await
        .problem(ErrorCode::ApprovalRefused);
    join(&erin, &invite).await.problem(ErrorCode::ApprovalRefused);
    assert_eq!(waiting(&alice, &room).await, []);
    // A newer invite is a new question; and an owner may think again.
    hub.pass(Duration::from_millis(1));
    let newer = gated(&alice, &room).await;
    assert_eq!(join(&erin, &newer).await.status, 202);
    assert_eq!(refuse(&alice, &room, erin.id()).await.status, 204);
    assert_eq!(admit(&alice, &room, erin.id()).await.status, 204);
    assert_eq!(erin.get(&paths::messages(&room)).await.status, 200);
    refuse(&alice, &room, erin.id()).await.problem(ErrorCode::NotFound);
    // Who never asked is not let in so, nor who was removed.
    let frank = hub.agent("frank").await;
    admit(&alice, &room, frank.id()).await.problem(ErrorCode::NotFound);
    assert_eq!(end(&alice, &room, erin.id()).await.status, 204);
    admit(&alice, &room, erin.id()).await.problem(ErrorCode::NotFound);
    join(&erin, &newer).await.problem(ErrorCode::InvalidInvite);
}

#[tokio::test]
async fn asking_opens_no_door_that_was_closed() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let open = async || -> InviteCreated {
        let invite = json!({ "room": room, "maxUses": 3 });
        alice.post(paths::INVITES, &invite).await.expect(201).json()
    };
    let older = open().await;
    assert_eq!(end(&alice, &room, bob.id()).await.status, 204);
    join(&bob, &older).await.problem(ErrorCode::InvalidInvite);
    hub.pass(Duration::from_secs(1));
    assert_eq!(join(&bob, &gated(&alice, &room).await).await.status, 202);
    assert_eq!(join(&bob, &older).await.status, 202, "it waits, as before");
    bob.get(&paths::room(&room)).await.problem(ErrorCode::ApprovalPending);
    // What an owner says afterwards counts.
    hub.pass(Duration::from_secs(1));
    assert_eq!(join(&bob, &open().await).await.status, 200);
}

#[tokio::test]
async fn approved_twice_at_once_it_is_in_once() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let owner = alice
        .put(&paths::member(&room, &bob.id()), &json!({ "owner": true }))
        .await;
    assert_eq!(owner.status, 200);
    for number in 0..8 {
        let dave = hub.agent(&format!("dave {number}")).await;
        assert_eq!(join(&dave, &gated(&alice, &room).await).await.status, 202);
        let (one, two) = tokio::join!(admit(&alice, &room, dave.id()), admit(&bob, &room, dave.id()));
        assert_eq!((one.status, two.status), (204, 204));
        let inside = members(&alice, &room).await;
        assert_eq!(inside.iter().filter(|(id, _)| *id == dave.id()).count(), 1);
        // And of a yes and a no one is told that it is decided.
        let erin = hub.agent(&format!("erin {number}")).await;
        assert_eq!(join(&erin, &gated(&alice, &room).await).await.status, 202);
        let (yes, no) = tokio::join!(admit(&alice, &room, erin.id()), refuse(&bob, &room, erin.id()));
        let is_in = members(&alice, &room).await.contains(&(erin.id(), false));
        assert_eq!((yes.status, is_in), (204, true));
        assert!(no.status == 404 || no.status == 204, "{no:?}");
    }
}

#[tokio::test]
async fn a_key_that_the_hub_does_not_know_may_ask() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let invite = gated(&alice, &room).await;
    let (address, directory) = (hub.address, std::sync::Arc::clone(&hub.directory));
    hub.stop().await.unwrap().unwrap();
    let hub = TestHub::at(address, directory, |_| ()).await;
    let newcomer = Agent::new(hub.address, hub.id, "newcomer");
    let mut proof = newcomer.proof(Some(newcomer.challenge().await));
    proof.invite = Some(invite.code.clone());
    let opened: SessionOpened = newcomer.post(paths::SESSION, &proof).await.expect(200).json();
    assert!(opened.joined.is_none());
    assert_eq!(opened.waiting.unwrap().room, room);
    assert_eq!(waiting(&alice, &room).await, [newcomer.id()]);
}

/// On the local hub channels are joined by using them: not by who waits, nor by who was removed.
#[tokio::test]
async fn on_the_local_hub_the_owners_word_counts_too() {
    let hub = TestHub::with(|options| {
        options.local = Some(LocalPolicy {
            secret: "secret".to_owned(),
        })
    })
    .await;
    let agent = async |name: &str| {
        let mut agent = Agent::new(hub.address, hub.id, name);
        agent.secret = Some("secret".to_owned());
        agent.open_session().await;
        agent
    };
    let [alice, bob, carol, dave] = [
        agent("alice").await,
        agent("bob").await,
        agent("carol").await,
        agent("dave").await,
    ];
    let room = alice.create_room("r").await.room;
    let path = paths::messages(&room);
    for user in [&bob, &carol] {
        assert_eq!(user.get(&path).await.status, 200);
    }
    assert_eq!(end(&alice, &room, bob.id()).await.status, 204);
    bob.get(&path).await.problem(ErrorCode::NotFound);
    assert_eq!(join(&dave, &gated(&alice, &room).await).await.status, 202);
    dave.get(&path).await.problem(ErrorCode::ApprovalPending);
    // Who left may come back by using it; a read that waited does not bring it back.
    assert_eq!(end(&carol, &room, carol.id()).await.status, 204);
    assert_eq!(members(&alice, &room).await, [(alice.id(), true)]);
    let waited = format!("{path}?after=0&wait=50");
    let (left, read) = tokio::join!(
        async {
            // It is counted as soon as it waits.
            until("it waits", async || {
                let list: MemberList = alice.get(&paths::members(&room)).await.expect(200).json();
                let waits = |member: &parler_protocol::api::Member| {
                    member.id == carol.id() && member.wake == parler_protocol::api::WakePath::Stream
                };
                list.members.iter().any(waits)
            })
            .await;
            end(&carol, &room, carol.id()).await.status
        },
        carol.get(&waited)
    );
    assert_eq!(left, 204);
    read.problem(ErrorCode::NotFound);
    // Nor does a stream that goes on where it was.
    let stream = format!("{}?after=0", paths::stream(&room));
    let opened = tokio::time::timeout(Duration::from_secs(30), carol.get(&stream)).await;
    opened.expect("no stream").problem(ErrorCode::NotFound);
    assert_eq!(members(&alice, &room).await, [(alice.id(), true)]);
    // What its last member has left is whose comes first.
    assert_eq!(end(&alice, &room, alice.id()).await.status, 204);
    assert_eq!(members(&carol, &room).await, [(carol.id(), true)]);
}
