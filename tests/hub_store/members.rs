//! Sessions, rooms, invites, members and cursors.

use std::collections::HashSet;
use std::sync::Arc;

use parler_hub::store::{NewInvite, NewSession, NewToken, Principal, Store, StoreError};
use parler_protocol::{InviteCode, RoomKind, Seq, TokenScope};
use tokio::task::JoinSet;

use crate::support::{DAY_MS, Fixture, NOW, principal, room, session, text};

fn code(letter: char) -> InviteCode {
    letter.to_string().repeat(12).parse().unwrap()
}

fn invite(by: &Principal, name: &str, letter: char, max_uses: u32) -> NewInvite {
    NewInvite {
        by: by.agent,
        room: room(name),
        code: code(letter),
        expires_at: NOW + DAY_MS,
        max_uses,
        needs_approval: false,
        now: NOW,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_invite_raced_by_fifty_lets_in_as_many_as_it_says() {
    let fixture = Fixture::new();
    let owner = fixture.agent("owner").await;
    fixture.store.create_invite(invite(&owner, "a", 'A', 7)).await.unwrap();
    let mut joins = JoinSet::new();
    for number in 0..50 {
        let agent = fixture.agent(&format!("agent{number}")).await;
        let store = Arc::clone(&fixture.store);
        joins.spawn(async move { (agent.clone(), store.join(agent.agent, &code('A'), NOW).await) });
    }
    let (joined, refused): (Vec<_>, Vec<_>) = joins
        .join_all()
        .await
        .into_iter()
        .partition(|(_, result)| result.is_ok());
    assert_eq!(joined.len(), 7);
    assert!(
        refused
            .iter()
            .all(|(_, result)| matches!(result, Err(StoreError::InvalidInvite)))
    );
    let (_, members) = fixture.store.members(owner.agent, &room("a")).await.unwrap();
    assert_eq!(members.len(), 8);
    assert!(members[0].owner && members[0].id == owner.agent);
    // Who is in already spends nothing, even when nothing is left.
    let again = fixture.store.join(joined[0].0.agent, &code('A'), NOW).await.unwrap();
    assert_eq!(again.room().unwrap().room, room("a"));
}

#[tokio::test]
async fn joining_again_spends_nothing() {
    let fixture = Fixture::new();
    let owner = fixture.agent("owner").await;
    fixture.store.create_invite(invite(&owner, "a", 'A', 2)).await.unwrap();
    let (one, two, three) = (
        fixture.agent("one").await,
        fixture.agent("two").await,
        fixture.agent("three").await,
    );
    for agent in [&one, &one, &owner, &one, &two] {
        fixture.store.join(agent.agent, &code('A'), NOW).await.unwrap();
    }
    assert!(matches!(
        fixture.store.join(three.agent, &code('A'), NOW).await,
        Err(StoreError::InvalidInvite)
    ));
}

#[tokio::test]
async fn unknown_expired_and_used_up_invites_are_one_answer() {
    let fixture = Fixture::new();
    let (owner, guest) = (fixture.agent("owner").await, fixture.agent("guest").await);
    fixture.store.create_invite(invite(&owner, "a", 'A', 1)).await.unwrap();
    fixture.store.create_invite(invite(&owner, "a", 'B', 0)).await.unwrap();
    let results = [
        fixture.store.join(guest.agent, &code('C'), NOW).await,
        fixture.store.join(guest.agent, &code('A'), NOW + DAY_MS).await,
        fixture.store.join(guest.agent, &code('B'), NOW).await,
    ];
    let told: Vec<String> = results
        .into_iter()
        .map(|result| result.unwrap_err().to_string())
        .collect();
    assert!(
        told.iter().all(|told| *told == StoreError::InvalidInvite.to_string()),
        "{told:?}"
    );
    fixture
        .store
        .join(guest.agent, &code('A'), NOW + DAY_MS - 1)
        .await
        .unwrap();

    // Codes are not in the files.
    fixture.store.close().await.unwrap();
    let database = std::fs::read(fixture.path().join("hub.db")).unwrap();
    let secret = code('A');
    assert!(!database.windows(12).any(|window| window == secret.as_str().as_bytes()));
}

#[tokio::test]
async fn an_invite_makes_the_channel_and_only_members_invite() {
    let fixture = Fixture::new();
    let (owner, other) = (fixture.agent("owner").await, fixture.agent("other").await);
    let made = fixture
        .store
        .create_invite(invite(&owner, "New", 'A', 5))
        .await
        .unwrap();
    assert_eq!(
        (made.room.as_str(), made.kind, made.code),
        ("New", RoomKind::Channel, code('A'))
    );
    let again = fixture
        .store
        .create_invite(invite(&owner, "nEW", 'B', 5))
        .await
        .unwrap();
    assert_eq!(again.room.as_str(), "New");
    let outside = fixture.store.create_invite(invite(&other, "new", 'C', 5)).await;
    assert!(matches!(outside, Err(StoreError::NotFound)), "{outside:?}");
    let taken = fixture
        .store
        .create_room(&room("NEW"), RoomKind::Channel, other.agent, NOW)
        .await;
    assert!(
        matches!(&taken, Err(StoreError::RoomExists(name)) if name.as_str() == "New"),
        "{taken:?}"
    );
}

#[tokio::test]
async fn a_key_comes_in_by_admission_or_invite_and_is_known_then() {
    let fixture = Fixture::new();
    let owner = fixture.agent("owner").await;
    fixture.store.create_invite(invite(&owner, "a", 'A', 1)).await.unwrap();
    let guest = principal("guest");
    let open = |admit, invite| {
        let session = NewSession {
            admit,
            invite,
            ..session(&guest)
        };
        async { fixture.store.open_session(session).await }
    };
    assert!(matches!(open(false, None).await, Err(StoreError::NotAdmitted)));
    assert!(matches!(
        open(false, Some(code('B'))).await,
        Err(StoreError::InvalidInvite)
    ));
    // The refused invite let nobody in on the way.
    assert!(matches!(open(false, None).await, Err(StoreError::NotAdmitted)));
    assert!(matches!(
        open(true, Some(code('B'))).await,
        Err(StoreError::InvalidInvite)
    ));
    let joined = open(false, Some(code('A'))).await.unwrap().unwrap();
    assert_eq!(joined.room().unwrap().room, room("a"));
    assert_eq!(open(false, None).await.unwrap(), None);
    fixture.store.room(guest.agent, &room("a")).await.unwrap();
}

#[tokio::test]
async fn sessions_end_and_carry_the_name_they_were_opened_with() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    let renamed = Principal {
        name: "Owner II".parse().unwrap(),
        role: Some("lead".parse().unwrap()),
        ..owner.clone()
    };
    let (old, new) = (
        session(&owner),
        NewSession {
            now: NOW + 5,
            ..session(&renamed)
        },
    );
    fixture.store.open_session(old.clone()).await.unwrap();
    fixture.store.open_session(new.clone()).await.unwrap();
    // Under a name that is no longer asked about when its agent comes into a room, nothing goes on.
    assert_eq!(fixture.store.session(old.token, NOW).await.unwrap(), None);
    assert_eq!(
        fixture.store.session(new.token, NOW).await.unwrap(),
        Some(renamed.clone())
    );
    assert_eq!(fixture.store.session([9; 32], NOW).await.unwrap(), None);
    assert_eq!(fixture.store.session(new.token, NOW + DAY_MS).await.unwrap(), None);
    let (_, members) = fixture.store.members(owner.agent, &room("a")).await.unwrap();
    assert_eq!(
        (&members[0].name, &members[0].role, members[0].last_seen),
        (&renamed.name, &renamed.role, NOW + 5)
    );
    // An append is a sign of life, and its author keeps the name of its session.
    let late = parler_hub::store::Append {
        now: NOW + 90_000,
        ..text(&owner, "a", "still here")
    };
    let stored = fixture.append(late).await.unwrap().stored;
    assert_eq!(parler_protocol::Message::parse(&stored).unwrap().from.name, "owner");
    let (_, members) = fixture.store.members(owner.agent, &room("a")).await.unwrap();
    assert_eq!((&members[0].name, members[0].last_seen), (&renamed.name, NOW + 90_000));

    let fixture = fixture.restart().await;
    assert_eq!(fixture.store.session(new.token, NOW).await.unwrap(), Some(renamed));
    // Opened two days later, when the others have ended.
    let later = NewSession {
        now: NOW + 2 * DAY_MS,
        expires_at: NOW + 3 * DAY_MS,
        ..session(&owner)
    };
    fixture.store.open_session(later).await.unwrap();
    fixture.store.close().await.unwrap();
    let database = rusqlite::Connection::open(fixture.path().join("hub.db")).unwrap();
    let left: i64 = database
        .query_row("SELECT count(*) FROM sessions", (), |row| row.get(0))
        .unwrap();
    assert_eq!(left, 1);
}

#[tokio::test]
async fn a_cursor_moves_forward_and_stays_within_the_log() {
    let fixture = Fixture::new();
    let (owner, name) = (fixture.owner("owner", "a").await, room("a"));
    let other = fixture.member("other", "a").await;
    for _ in 0..5 {
        fixture.append(text(&owner, "a", "x")).await.unwrap();
    }
    let unread = |rooms: Vec<parler_protocol::api::RoomSummary>| (rooms[0].unread, rooms[0].members);
    // What somebody wrote is no news to it.
    assert_eq!(unread(fixture.store.rooms(owner.agent).await.unwrap()), (0, 2));
    for (to, expected) in [(3, 3), (1, 3), (0, 3), (99, 5), (4, 5), (u64::MAX, 5)] {
        let (cursor, head) = fixture
            .store
            .acknowledge(owner.agent, &name, Seq::new(to))
            .await
            .unwrap();
        assert_eq!((cursor.get(), head.seq.get()), (expected, 5), "to {to}");
    }
    assert_eq!(unread(fixture.store.rooms(owner.agent).await.unwrap()), (0, 2));
    assert_eq!(unread(fixture.store.rooms(other.agent).await.unwrap()), (5, 2));
    let fixture = fixture.restart().await;
    let page = fixture
        .store
        .read(owner.agent, &name, None, 10, usize::MAX)
        .await
        .unwrap();
    assert_eq!((page.cursor, page.messages.len()), (Seq::new(5), 0));
}

#[tokio::test]
async fn who_is_not_in_a_room_gets_one_answer_to_everything() {
    let fixture = Fixture::new();
    let owner = fixture.owner("owner", "a").await;
    fixture.append(text(&owner, "a", "x")).await.unwrap();
    let (stranger, unknown) = (fixture.agent("stranger").await, principal("unknown"));
    let id = parler_protocol::BundleId::of(b"x");
    for who in [&stranger, &unknown] {
        for name in ["a", "nothing"] {
            let (agent, name) = (who.agent, room(name));
            let store = &fixture.store;
            let results = [
                store.room(agent, &name).await.map(drop),
                store.members(agent, &name).await.map(drop),
                store.read(agent, &name, None, 1, 1).await.map(drop),
                store.pushes(agent, &name, Seq::ZERO, usize::MAX).await.map(drop),
                store.refs(agent, &name).await.map(drop),
                store.acknowledge(agent, &name, Seq::ZERO).await.map(drop),
                store.blob(agent, &name, &id).await.map(drop),
                store.append(text(who, name.as_str(), "x")).await.map(drop),
                store.check_append(&text(who, name.as_str(), "x")).await.map(drop),
            ];
            for (index, result) in results.iter().enumerate() {
                assert!(
                    matches!(result, Err(StoreError::NotFound)),
                    "call {index} in {name}: {result:?}"
                );
            }
            assert!(store.rooms(agent).await.unwrap().is_empty());
        }
    }
    let missing = fixture.store.join_channel(stranger.agent, &room("nothing"), NOW).await;
    assert!(matches!(missing, Err(StoreError::NotFound)), "{missing:?}");
    fixture
        .store
        .create_room(&room("d"), RoomKind::Dm, owner.agent, NOW)
        .await
        .unwrap();
    let private = fixture.store.join_channel(stranger.agent, &room("d"), NOW).await;
    assert!(matches!(private, Err(StoreError::NotFound)), "{private:?}");
    fixture
        .store
        .join_channel(stranger.agent, &room("A"), NOW)
        .await
        .unwrap();
    fixture
        .store
        .join_channel(stranger.agent, &room("A"), NOW)
        .await
        .unwrap();
    assert_eq!(fixture.messages(&stranger, "a").await.len(), 1);
}

#[tokio::test]
async fn the_keeper_lets_nobody_in_under_anothers_name() {
    let fixture = Fixture::new();
    fixture.owner("alice", "a").await;
    let other = fixture.agent("ALICE").await;
    let admitted = fixture.store.admit(other.agent, &[room("a")], NOW).await;
    assert!(matches!(admitted, Err(StoreError::NameTaken(..))), "{admitted:?}");
    fixture.store.room(other.agent, &room("a")).await.unwrap_err();
}

/// What is read for several agents is for those, and is that, which each of them would read alone.
#[tokio::test]
async fn a_page_for_several_is_for_those_who_could_read_it_alone() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    let owner = fixture.owner("owner", "a").await;
    let name = room("a");
    let [member, removed, left, maker] = [
        fixture.member("member", "a").await,
        fixture.member("removed", "a").await,
        fixture.member("left", "a").await,
        fixture.member("maker", "a").await,
    ];
    let [waiting, refused, outside] = [
        fixture.agent("waiting").await,
        fixture.agent("refused").await,
        fixture.owner("outside", "b").await,
    ];
    let tokens = [
        ("reads", &owner, "a", TokenScope::Read),
        ("posts", &owner, "a", TokenScope::Post),
        ("revoked", &owner, "a", TokenScope::Read),
        ("elsewhere", &outside, "b", TokenScope::Read),
        ("of-one-that-left", &maker, "a", TokenScope::Read),
    ];
    for (number, (called, by, of, can)) in (1..).zip(tokens) {
        let token = NewToken {
            by: by.agent,
            name: called.parse().unwrap(),
            account: principal(called).agent,
            hash: [number; 32],
            rooms: vec![room(of)],
            can: vec![can],
            expires_at: NOW + DAY_MS,
            now: NOW,
        };
        store.create_token(token).await.unwrap();
    }
    store
        .revoke_token(owner.agent, &"revoked".parse().unwrap(), NOW)
        .await
        .unwrap();
    let asked = NewInvite {
        needs_approval: true,
        ..invite(&owner, "a", 'A', 5)
    };
    store.create_invite(asked).await.unwrap();
    for asks in [&waiting, &refused] {
        store.join(asks.agent, &code('A'), NOW).await.unwrap();
    }
    store
        .answer_request(&name, owner.agent, refused.agent, false, NOW)
        .await
        .unwrap();
    for (by, gone) in [(&owner, &removed), (&left, &left), (&maker, &maker)] {
        store.end_membership(&name, by.agent, gone.agent, NOW).await.unwrap();
    }
    for number in 0..5 {
        fixture.append(text(&owner, "a", &number.to_string())).await.unwrap();
    }

    let mut agents = vec![principal("nobody").agent];
    agents.extend([&owner, &member, &removed, &left, &maker, &waiting, &refused, &outside].map(|agent| agent.agent));
    agents.extend(tokens.map(|(called, ..)| principal(called).agent));
    for (after, limit, bytes) in [(0, 100, usize::MAX), (2, 2, usize::MAX), (1, 100, 1), (5, 100, 1)] {
        let after = Seq::new(after);
        let (page, readers) = store
            .read_for(agents.clone(), &name, after, limit, bytes)
            .await
            .unwrap();
        let mut could = HashSet::new();
        for agent in &agents {
            let Ok(alone) = store.read(*agent, &name, Some(after), limit, bytes).await else {
                continue;
            };
            assert_eq!(
                (&alone.messages, alone.cursor, alone.head),
                (&page.messages, page.cursor, page.head)
            );
            could.insert(*agent);
        }
        assert_eq!(readers, could);
        assert_eq!(could.len(), 3, "the owner, a member and a token");
    }
    let nowhere = store.read_for(agents, &room("c"), Seq::ZERO, 1, 1).await;
    assert!(matches!(nowhere, Err(StoreError::NotFound)));
}
