//! Whom an agent can write to, and the direct rooms of two.

use parler_hub::store::{NewToken, OpenedDm, Principal, Reach, Store, StoreError};
use parler_protocol::{AgentId, RoomName, TokenScope};

use crate::support::{DAY_MS, Fixture, NOW, principal, room};

async fn open(fixture: &Fixture, by: &Principal, other: AgentId, reach: Reach) -> Result<OpenedDm, StoreError> {
    fixture.store.open_dm(by.agent, other, reach, NOW).await
}

/// The contacts by name, each with the rooms that both are in and whether there is a direct one.
async fn contacts(fixture: &Fixture, by: &Principal, reach: Reach) -> Vec<(String, Vec<RoomName>, bool)> {
    let contacts = fixture.store.contacts(by.agent, reach).await.unwrap();
    let contacts = contacts.into_iter().map(|contact| {
        let direct = RoomName::direct(&by.agent, &contact.id);
        assert!(contact.dm.as_ref().is_none_or(|dm| *dm == direct));
        (contact.name.to_string(), contact.rooms, contact.dm.is_some())
    });
    contacts.collect()
}

#[tokio::test]
async fn a_list_of_everybody_has_everybody_once_and_no_token() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "a").await;
    let stranger = hub.agent("stranger").await;
    let bob = hub.member("bob", "a").await;
    hub.owner("bob", "b").await;
    hub.member("alice", "b").await;
    let token = NewToken {
        by: alice.agent,
        name: "deploy".parse().unwrap(),
        account: principal("deploy").agent,
        hash: [7; 32],
        rooms: vec![room("a")],
        can: vec![TokenScope::Post],
        expires_at: NOW + DAY_MS,
        now: NOW,
    };
    hub.store.create_token(token).await.unwrap();
    hub.agent("last").await;
    open(&hub, &stranger, alice.agent, Reach::Everybody).await.unwrap();

    let rooms = || vec![room("a"), room("b")];
    let name = str::to_owned;
    assert_eq!(
        contacts(&hub, &alice, Reach::Everybody).await,
        [
            (name("stranger"), Vec::new(), true),
            (name("bob"), rooms(), false),
            (name("last"), Vec::new(), false)
        ]
    );
    assert_eq!(
        contacts(&hub, &alice, Reach::SharedRooms).await,
        [(name("stranger"), Vec::new(), true), (name("bob"), rooms(), false)]
    );
    assert_eq!(
        contacts(&hub, &bob, Reach::SharedRooms).await,
        [(name("alice"), rooms(), false)]
    );
    // Nobody writes to a token, or to itself.
    for other in [principal("deploy").agent, alice.agent] {
        let refused = open(&hub, &alice, other, Reach::Everybody).await;
        assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    }
}

#[tokio::test]
async fn who_has_left_a_direct_room_is_not_brought_back_by_the_other() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "a").await;
    let bob = hub.member("bob", "a").await;
    let made = open(&hub, &alice, bob.agent, Reach::SharedRooms).await.unwrap();
    assert!(made.is_new);
    let leave = async |agent: &Principal, room: &RoomName| {
        let left = hub.store.end_membership(room, agent.agent, agent.agent, NOW).await;
        assert_eq!(left.unwrap(), *room);
    };
    leave(&bob, &made.room.room).await;
    let refused = open(&hub, &alice, bob.agent, Reach::Everybody).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    // Who is still in is told whom it was with.
    let rooms = hub.store.rooms(alice.agent).await.unwrap();
    let direct = rooms.iter().find(|found| found.room == made.room.room).unwrap();
    assert_eq!((direct.members, direct.with.as_ref().unwrap().id), (1, bob.agent));
    // By itself it comes back, into the same room.
    let back = open(&hub, &bob, alice.agent, Reach::SharedRooms).await.unwrap();
    assert!(!back.is_new);
    assert_eq!(back.room.room, made.room.room);
    // Where both are in, nothing else counts.
    leave(&bob, &room("a")).await;
    assert!(!open(&hub, &alice, bob.agent, Reach::SharedRooms).await.unwrap().is_new);
    // Who is out of it and out of reach is not.
    leave(&bob, &made.room.room).await;
    let refused = open(&hub, &bob, alice.agent, Reach::SharedRooms).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
}
