//! The client's stream of hints, and how a client comes back to a hub that was restarted under it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parler_client::{
    Client, ClientError, ClientOptions, Deadlines, Hinted, Identity, NoSessionCache, Revived, Streamed,
};
use parler_harness::DEADLINE;
use parler_hub::{Clock, LocalPolicy};
use parler_protocol::api::RoomHints;
use parler_protocol::{AgentKey, ErrorCode, HubId, RoomName, Seq, paths};
use tempfile::TempDir;
use tokio::sync::mpsc;

use crate::client::{blocking, client};
use crate::support::{Agent, TestHub, text_message};

const RESTARTS: usize = 5;

/// A client whose patience with a silent stream is this.
fn impatient(agent: &Agent, silence: Duration) -> Client {
    Client::new(ClientOptions {
        deadlines: Deadlines {
            silence,
            ..Deadlines::default()
        },
        ..options(agent, None)
    })
    .unwrap()
}

fn options(agent: &Agent, secret: Option<String>) -> ClientOptions {
    ClientOptions {
        address: format!("http://{}", agent.address).parse().unwrap(),
        identity: Identity {
            key: Arc::new(AgentKey::from_seed(&agent.key.to_seed()).unwrap()),
            name: agent.name.clone(),
            role: None,
        },
        secret,
        token: None,
        sessions: Box::new(NoSessionCache),
        deadlines: Deadlines::default(),
    }
}

/// What somebody who follows all rooms is told, heartbeats aside.
struct Follower(mpsc::UnboundedReceiver<Result<Hinted, ClientError>>);

impl Follower {
    /// `make` makes the client on the thread that is to use it.
    fn of(make: impl FnOnce() -> Client + Send + 'static) -> Self {
        let (told, hear) = mpsc::unbounded_channel();
        thread::spawn(move || {
            let client = make();
            let mut hints = client.hints();
            loop {
                let hinted = hints.next();
                let is_last = hinted.is_err();
                let is_news = !matches!(hinted, Ok(Hinted::Heartbeat));
                // Nobody listens: the test is over.
                if is_news && told.send(hinted).is_err() || is_last {
                    return;
                }
            }
        });
        Self(hear)
    }

    async fn next(&mut self) -> Result<Hinted, ClientError> {
        let next = tokio::time::timeout(DEADLINE, self.0.recv()).await;
        next.expect("in time").expect("no end")
    }

    async fn heads(&mut self) -> Vec<(String, u64)> {
        match self.next().await.unwrap() {
            Hinted::Heads(RoomHints { rooms }) => {
                let heads = rooms
                    .into_iter()
                    .map(|room| (room.room.to_string(), room.head.seq.get()));
                heads.collect()
            }
            other => panic!("{other:?}"),
        }
    }

    async fn hint(&mut self) -> (String, u64) {
        match self.next().await.unwrap() {
            Hinted::Hint(hint) => (hint.room.to_string(), hint.head.seq.get()),
            other => panic!("{other:?}"),
        }
    }

    async fn away(&mut self) {
        let told = self.next().await.unwrap();
        assert!(matches!(told, Hinted::Away(_)), "{told:?}");
    }
}

fn named(room: &str, seq: usize) -> (String, u64) {
    (room.to_owned(), seq as u64)
}

async fn say(agent: &Agent, room: &RoomName, text: &str) {
    let path = paths::messages(room);
    agent.post(&path, &text_message(text)).await.expect(201).head();
}

async fn stop(hub: TestHub) -> (SocketAddr, Arc<TempDir>) {
    let (address, directory) = (hub.address, Arc::clone(&hub.directory));
    hub.stop().await.unwrap().unwrap();
    (address, directory)
}

#[tokio::test]
async fn hints_go_on_through_restarts_and_expired_sessions() {
    let mut hub = TestHub::start().await;
    let [mut alice, bob] = [hub.agent("alice").await, hub.agent("bob").await];
    let room = alice.create_room("one").await.room;
    alice.invite(&room, &bob).await;
    let mut follower = {
        let (key, id) = (bob.key.to_seed(), hub.id);
        let mut bob = Agent::new(hub.address, id, "bob");
        bob.key = AgentKey::from_seed(&key).unwrap();
        Follower::of(move || client(&bob))
    };
    assert_eq!(follower.heads().await, [named("one", 0)]);
    say(&alice, &room, "first").await;
    assert_eq!(follower.hint().await, named("one", 1));
    // A room that is new to the agent, without anything being said in it.
    bob.create_room("two").await;
    assert_eq!(follower.hint().await, named("two", 0));

    for restart in 1..=RESTARTS {
        let (address, directory) = stop(hub).await;
        follower.away().await;
        // Every session has ended by now, as when both machines were asleep for a week.
        let week_ms = i64::try_from(restart).unwrap() * 7 * 24 * 3_600_000;
        let now_ms = 1_796_000_000_000 + week_ms;
        hub = TestHub::at(address, directory, |options| {
            options.open = true;
            options.clock = Clock::from_fn(move || now_ms);
        })
        .await;
        let heads = follower.heads().await;
        assert_eq!(heads, [named("one", 2 * restart - 1), named("two", 0)]);
        alice.open_session().await;
        for number in 0..2 {
            say(&alice, &room, "more").await;
            assert_eq!(follower.hint().await, named("one", 2 * restart + number));
        }
    }
}

#[tokio::test]
async fn a_hub_that_never_was_there_is_waited_for() {
    let (address, directory) = stop(TestHub::start().await).await;
    let agent = Agent::new(address, HubId::from_bytes([0; 16]), "alice");
    let mut follower = Follower::of(move || client(&agent));
    follower.away().await;
    let _hub = TestHub::at(address, directory, |options| options.open = true).await;
    assert!(follower.heads().await.is_empty());
}

#[tokio::test]
async fn who_is_not_let_in_is_told_so() {
    let hub = TestHub::with(|_| {}).await;
    let stranger = Agent::new(hub.address, hub.id, "stranger");
    let mut follower = Follower::of(move || client(&stranger));
    let told = follower.next().await.unwrap_err();
    assert_eq!(told.code(), Some(ErrorCode::NotAdmitted));
}

/// A hub that hangs, and a machine that was asleep: nothing comes, nothing ends.
#[tokio::test]
async fn silence_is_an_end_like_every_other() {
    const SILENCE: Duration = Duration::from_millis(100);
    let hub = TestHub::with(|options| {
        options.open = true;
        options.limits.heartbeat = Duration::from_secs(3600);
    })
    .await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("quiet").await.room;
    say(&alice, &room, "one").await;
    let alice = Arc::new(alice);
    let mut follower = {
        let alice = Arc::clone(&alice);
        Follower::of(move || impatient(&alice, SILENCE))
    };
    for _ in 0..3 {
        assert_eq!(follower.heads().await, [named("quiet", 1)]);
        follower.away().await;
    }
    let reader = Arc::clone(&alice);
    blocking(move || {
        let client = impatient(&reader, SILENCE);
        let mut stream = client.stream(&room, Some(Seq::ZERO)).unwrap();
        let mut seen = 0;
        let error = loop {
            match stream.next() {
                Ok(streamed) => seen += usize::from(matches!(streamed, Some(Streamed::Message { .. }))),
                Err(error) => break error,
            }
        };
        assert_eq!(seen, 1);
        assert!(matches!(error, ClientError::Deadline { .. }), "{error}");
    })
    .await;
}

/// A hub that ends between two calls is started again by whoever knows how, with a secret of its own.
#[tokio::test]
async fn a_client_that_can_start_its_hub_does_so() {
    let local = |secret: &str| {
        let secret = secret.to_owned();
        move |options: &mut parler_hub::HubOptions| options.local = Some(LocalPolicy { secret })
    };
    let hub = TestHub::with(local("secret 0")).await;
    let agent = Agent::new(hub.address, hub.id, "alice");
    let (address, directory) = stop(hub).await;
    let starts = Arc::new(AtomicUsize::new(0));
    let (running, mut hubs) = mpsc::unbounded_channel();
    let revive = {
        let (runtime, starts) = (tokio::runtime::Handle::current(), Arc::clone(&starts));
        move || {
            let start = starts.fetch_add(1, Ordering::SeqCst) + 1;
            let secret = format!("secret {start}");
            let hub = runtime.block_on(TestHub::at(address, Arc::clone(&directory), local(&secret)));
            running.send(hub).unwrap();
            Some(Revived {
                address: format!("http://{address}").parse().unwrap(),
                secret: Some(secret),
            })
        }
    };
    let runtime = tokio::runtime::Handle::current();
    blocking(move || {
        let client = || Client::new(options(&agent, Some("secret 0".to_owned()))).unwrap();
        let (first, second, helpless) = (client(), client(), client());
        assert!(helpless.hub_id().unwrap_err().is_unreachable());
        let client = first.reviving(Box::new(revive.clone()));
        client.hub_id().unwrap();
        client.rooms().unwrap();
        // Ended in between: the connection is found closed, then nobody listens.
        runtime.block_on(async { stop(hubs.recv().await.unwrap()).await });
        client.rooms().unwrap();
        // One that learnt the first secret meets a hub that has another by now.
        assert_eq!(helpless.hub_id().unwrap_err().code(), Some(ErrorCode::NotAdmitted));
        let told = starts.load(Ordering::SeqCst);
        let second = second.reviving(Box::new(move || {
            Some(Revived {
                address: format!("http://{address}").parse().unwrap(),
                secret: Some(format!("secret {told}")),
            })
        }));
        second.hub_id().unwrap();
        assert_eq!(starts.load(Ordering::SeqCst), 2);
        drop(hubs);
    })
    .await;
}
