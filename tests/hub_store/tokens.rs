//! Tokens: what each may do where, and what ends it.

use parler_hub::store::{Append, JobToken, NewToken, Principal, Store, StoreError};
use parler_protocol::{AgentKey, BundleId, Message, Seq, TokenName, TokenScope};

use crate::support::{DAY_MS, Fixture, NOW, principal, room, text};

const HASH: [u8; 32] = [7; 32];

fn name(name: &str) -> TokenName {
    name.parse().unwrap()
}

fn token(by: &Principal, called: &str, rooms: &[&str], can: &[TokenScope]) -> NewToken {
    NewToken {
        by: by.agent,
        name: name(called),
        account: principal(called).agent,
        hash: HASH,
        rooms: rooms.iter().map(|name| room(name)).collect(),
        can: can.to_vec(),
        expires_at: NOW + DAY_MS,
        now: NOW,
    }
}

/// What a job posts: from its token, signed by a key of its own.
fn job(called: &str, key: u8, to: &str, what: &str) -> Append {
    let author = Principal {
        name: name(called).sender(),
        ..principal(called)
    };
    Append {
        signed_by: Some(AgentKey::from_random([key; 32]).id()),
        ..text(&author, to, what)
    }
}

fn is_not_found<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound))
}

#[tokio::test]
async fn a_token_may_what_it_says_and_is_no_member() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "build").await;
    hub.owner("bob", "ops").await;
    let (build, account) = (room("build"), principal("deploy").agent);
    let store = &hub.store;
    store
        .create_token(token(&alice, "deploy", &["build", "Build"], &[TokenScope::Post]))
        .await
        .unwrap();

    let posted = hub.append(job("deploy", 1, "build", "green")).await.unwrap();
    let message = Message::parse(&posted.stored).unwrap();
    assert_eq!(
        (message.from.name.as_str(), message.from.id),
        ("ci/deploy", AgentKey::from_random([1; 32]).id())
    );
    // To push is to know where the refs are, and nothing else of the room.
    store.room(account, &build).await.unwrap();
    store.refs(account, &build).await.unwrap();
    store.pushes(account, &build, Seq::ZERO, usize::MAX).await.unwrap();
    assert!(is_not_found(store.read(account, &build, None, 1, 1).await));
    assert!(is_not_found(store.blob(account, &build, &BundleId::of(b"")).await));
    assert!(is_not_found(store.members(account, &build).await));
    assert!(is_not_found(store.acknowledge(account, &build, Seq::new(1)).await));
    assert!(is_not_found(hub.append(job("deploy", 1, "ops", "x")).await));
    assert!(store.rooms(account).await.unwrap().is_empty());
    let (_, members) = store.members(alice.agent, &build).await.unwrap();
    assert_eq!(members.len(), 1);

    let mut reader = token(&alice, "mirror", &["build"], &[TokenScope::Read]);
    reader.hash = [8; 32];
    store.create_token(reader).await.unwrap();
    let account = principal("mirror").agent;
    // It has no cursor: it begins at the start.
    let page = store.read(account, &build, None, 10, usize::MAX).await.unwrap();
    assert_eq!(page.messages.len(), 1);
    assert!(is_not_found(hub.append(job("mirror", 1, "build", "x")).await));
    assert!(is_not_found(store.check_append(&job("mirror", 1, "build", "x")).await));
}

#[tokio::test]
async fn a_job_that_runs_again_with_another_key_gets_the_first_answer() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "build").await;
    hub.store
        .create_token(token(&alice, "deploy", &["build"], &[TokenScope::Post]))
        .await
        .unwrap();
    let run = |key: u8, what: &str| Append {
        key: "run 7".into(),
        ..job("deploy", key, "build", what)
    };
    let first = hub.append(run(1, "green")).await.unwrap();
    let again = hub.append(run(2, "green")).await.unwrap();
    assert_eq!((again.is_new, &again.stored), (false, &first.stored));
    assert!(matches!(
        hub.append(run(2, "red")).await,
        Err(StoreError::IdempotencyConflict)
    ));
    // The key is the token's: another author may use the same.
    let other = Append {
        key: "run 7".into(),
        ..text(&alice, "build", "green")
    };
    assert!(hub.append(other).await.unwrap().is_new);
}

#[tokio::test]
async fn only_rooms_of_its_maker_and_names_that_are_free() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "build").await;
    let bob = hub.owner("bob", "ops").await;
    let store = &hub.store;
    let elsewhere = token(&alice, "deploy", &["build", "ops"], &[TokenScope::Post]);
    assert!(is_not_found(store.create_token(elsewhere).await));
    assert!(store.tokens(alice.agent).await.unwrap().is_empty(), "half a token");

    let mine = token(&alice, "deploy", &["build"], &[TokenScope::Post]);
    store.create_token(mine.clone()).await.unwrap();
    let again = NewToken {
        name: name("DEPLOY"),
        hash: [8; 32],
        ..mine.clone()
    };
    assert!(matches!(
        store.create_token(again.clone()).await,
        Err(StoreError::TokenExists(_))
    ));
    // Once it ended its maker has it again, and nobody else.
    let later = NewToken {
        now: NOW + DAY_MS,
        expires_at: NOW + 2 * DAY_MS,
        ..again
    };
    let theirs = NewToken {
        hash: [9; 32],
        now: later.now,
        ..token(&bob, "deploy", &["ops"], &[TokenScope::Post])
    };
    assert!(matches!(
        store.create_token(theirs).await,
        Err(StoreError::TokenExists(_))
    ));
    let renewed = store.create_token(later.clone()).await.unwrap();
    assert_eq!(
        (renewed.name.as_str(), renewed.expires_at),
        ("DEPLOY", later.expires_at)
    );
    assert_eq!(store.token(HASH).await.unwrap(), None, "the earlier secret");
    let found = store.token([8; 32]).await.unwrap().unwrap();
    assert_eq!(found.account, principal("deploy").agent);
}

#[tokio::test]
async fn a_token_ends_when_its_maker_or_an_owner_says_so() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "build").await;
    let bob = hub.member("bob", "build").await;
    let carol = hub.member("carol", "build").await;
    let store = &hub.store;
    store
        .create_token(token(&bob, "deploy", &["build"], &[TokenScope::Post]))
        .await
        .unwrap();
    assert!(is_not_found(
        store.revoke_token(carol.agent, &name("deploy"), NOW).await
    ));
    assert!(store.tokens(carol.agent).await.unwrap().is_empty());
    assert_eq!(store.tokens(alice.agent).await.unwrap().len(), 1);
    hub.append(job("deploy", 1, "build", "x")).await.unwrap();

    let (revoked, _) = store.revoke_token(alice.agent, &name("Deploy"), NOW + 1).await.unwrap();
    assert_eq!((revoked.revoked_at, revoked.last_used), (Some(NOW + 1), Some(NOW)));
    let (again, _) = store.revoke_token(bob.agent, &name("deploy"), NOW + 2).await.unwrap();
    assert_eq!(again.revoked_at, Some(NOW + 1));
    assert!(is_not_found(hub.append(job("deploy", 1, "build", "x")).await));
    let holder = store.token(HASH).await.unwrap().unwrap();
    assert_eq!(holder.summary.revoked_at, Some(NOW + 1));
}

/// Removed by whatever means: the row of the membership is what counts.
#[tokio::test]
async fn a_token_ends_with_its_makers_membership_and_does_not_come_back() {
    let hub = Fixture::new();
    hub.owner("alice", "build").await;
    let bob = hub.member("bob", "build").await;
    let store = &hub.store;
    store
        .create_token(token(&bob, "deploy", &["build"], &[TokenScope::Post]))
        .await
        .unwrap();
    hub.append(job("deploy", 1, "build", "x")).await.unwrap();
    let database = rusqlite::Connection::open(hub.path().join("hub.db")).unwrap();
    let removed = database
        .execute(
            "DELETE FROM members WHERE agent = (SELECT agent FROM agents WHERE name = 'bob')",
            (),
        )
        .unwrap();
    assert_eq!(removed, 1);
    for _ in 0..2 {
        assert!(is_not_found(hub.append(job("deploy", 1, "build", "x")).await));
        assert!(store.token(HASH).await.unwrap().unwrap().summary.rooms.is_empty());
        store.join_channel(bob.agent, &room("build"), NOW).await.unwrap();
    }
}

#[tokio::test]
async fn identity_tokens_are_remembered_until_they_are_too_old_and_no_more_of_them_than_so_many() {
    let hub = Fixture::new();
    let alice = hub.owner("alice", "build").await;
    let job = |number: u8, now: i64| JobToken {
        token: NewToken {
            hash: [number; 32],
            now,
            expires_at: now + 60_000,
            ..token(&alice, "deploy", &["build"], &[TokenScope::Post])
        },
        room: None,
        issuer: "https://ci.example".into(),
        claims: std::collections::BTreeMap::new(),
        identity: [number; 32],
        identity_ends: NOW + 600_000,
        most_identities: 2,
    };
    let exchange = async |number, now| hub.store.exchange_identity(job(number, now)).await;
    exchange(1, NOW).await.unwrap();
    exchange(2, NOW).await.unwrap();
    assert!(matches!(exchange(3, NOW).await, Err(StoreError::TooManyIdentities)));
    assert!(matches!(
        exchange(1, NOW + 599_999).await,
        Err(StoreError::IdentityTaken)
    ));
    // What is refused leaves nothing.
    assert_eq!(hub.store.tokens(alice.agent).await.unwrap()[0].jobs.len(), 2);
    assert!(hub.store.token([3; 32]).await.unwrap().is_none());
    exchange(3, NOW + 600_000).await.unwrap();
    // The name is in use.
    let made = hub
        .store
        .create_token(token(&alice, "deploy", &["build"], &[TokenScope::Read]))
        .await;
    assert!(matches!(made, Err(StoreError::TokenExists(_))));
}
