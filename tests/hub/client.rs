//! The client crate against the hub: the two halves of one contract.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parler_client::{BlobSource, Client, ClientOptions, Deadlines, Identity, NoSessionCache, PushesAnswer, ReadFrom};
use parler_protocol::api::CreateInvite;
use parler_protocol::{AgentKey, BundleId, ErrorCode, Message, RoomKind, Seq, limits, paths, verify};

use crate::support::{Agent, Push, TestHub, oid, text_message};

/// The agent's client. It stays on the thread it was made on.
pub(crate) fn client(agent: &Agent) -> Client {
    let key = AgentKey::from_seed(&agent.key.to_seed()).unwrap();
    let client = Client::new(ClientOptions {
        address: format!("http://{}", agent.address).parse().unwrap(),
        identity: Identity {
            key: Arc::new(key),
            name: agent.name.clone(),
            role: None,
        },
        secret: None,
        token: None,
        sessions: Box::new(NoSessionCache),
        deadlines: Deadlines::default(),
    });
    client.unwrap()
}

/// Runs blocking calls beside the hub.
pub(crate) async fn blocking<T: Send + 'static>(calls: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(calls).await.unwrap()
}

#[tokio::test]
async fn a_push_travels_from_one_client_to_another() {
    let hub = TestHub::start().await;
    let id = hub.id;
    let (author, reader) = (Agent::new(hub.address, id, "alice"), Agent::new(hub.address, id, "bob"));
    blocking(move || {
        let (alice, bob) = (client(&author), client(&reader));
        let room = alice.create_room(&"Build".parse().unwrap(), RoomKind::Channel).unwrap();
        assert_eq!(
            alice.create_room(&room.room, RoomKind::Channel).unwrap_err().code(),
            Some(ErrorCode::RoomExists)
        );
        let invite = CreateInvite {
            room: room.room.clone(),
            ttl_secs: None,
            max_uses: Some(1),
            approve: false,
        };
        let code = alice.create_invite(&invite).unwrap().code;
        assert_eq!(bob.rooms().unwrap().rooms, []);
        assert_eq!(
            bob.pushes(&room.room, None, None, None).unwrap_err().code(),
            Some(ErrorCode::NotFound)
        );
        assert_eq!(bob.join(&code).unwrap().room(), Some(room.clone()));
        assert_eq!(alice.members(&room.room).unwrap().members.len(), 2);

        let bundles = [vec![1; 1000], vec![2; (1 << 20) + 1]];
        for (index, bundle) in bundles.iter().enumerate() {
            let push = Push::new()
                .branch(&format!("b{index}"), None, Some(oid('a')))
                .bundle(bundle);
            let signed = push.sign(&author, &room);
            let source: Arc<[u8]> = bundle.clone().into();
            let posted = alice
                .post(&room.room, &signed, None, Some(&source as &dyn BlobSource))
                .unwrap();
            assert_eq!(posted.seq, Seq::new(index as u64 + 1));
            assert_eq!(
                alice.post(&room.room, &signed, None, Some(&source)).unwrap(),
                posted,
                "repeated"
            );
        }
        let stale = Push::new().branch("b0", None, Some(oid('b'))).sign(&author, &room);
        assert_eq!(
            alice.post(&room.room, &stale, None, None).unwrap_err().code(),
            Some(ErrorCode::RefMoved)
        );

        let PushesAnswer::Changed(pushes) = bob.pushes(&room.room, None, None, None).unwrap() else {
            panic!("there are pushes")
        };
        for stored in &pushes.messages {
            assert!(verify(&Message::parse(stored.get().as_bytes()).unwrap(), &id).is_valid());
        }
        let PushesAnswer::NotModified { head } = bob.pushes(&room.room, Some(pushes.version), None, None).unwrap()
        else {
            panic!("nothing is new");
        };
        assert_eq!(head, pushes.head);

        let ids: Vec<_> = bundles.iter().map(|bundle| BundleId::of(bundle)).collect();
        let mut stream = bob.bundles(&room.room, &ids).unwrap();
        for (id, bundle) in ids.iter().zip(&bundles) {
            let mut reader = stream.next().unwrap().unwrap();
            assert_eq!((reader.id, reader.size), (*id, bundle.len() as u64));
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert!(bytes == *bundle);
        }
        assert!(stream.next().unwrap().is_none());
        // More than a query takes.
        let many: Vec<_> = (0..100).map(|index| ids[index % 50 / 49]).collect();
        let mut stream = bob.bundles(&room.room, &many).unwrap();
        for id in &many {
            let mut reader = stream.next().unwrap().unwrap();
            assert_eq!(reader.id, *id);
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).unwrap();
            assert_eq!(BundleId::of(&bytes), *id);
        }
        assert!(stream.next().unwrap().is_none());
        let mut bytes = Vec::new();
        bob.blob(&room.room, &ids[1]).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == bundles[1]);

        let page = bob.messages(&room.room, &ReadFrom::default()).unwrap();
        assert_eq!((page.messages.len(), page.cursor), (2, Seq::new(2)));
        assert_eq!(bob.acknowledge(&room.room, page.cursor).unwrap().cursor, Seq::new(2));
        assert!(
            bob.messages(&room.room, &ReadFrom::default())
                .unwrap()
                .messages
                .is_empty()
        );
    })
    .await;
}

#[tokio::test]
async fn a_session_that_ended_is_renewed_on_the_way() {
    let hub = Arc::new(TestHub::start().await);
    let author = Agent::new(hub.address, hub.id, "alice");
    let clock = Arc::clone(&hub);
    blocking(move || {
        let alice = client(&author);
        let room = alice.create_room(&"r".parse().unwrap(), RoomKind::Channel).unwrap();
        let first = alice.open_session().unwrap();
        clock.pass(limits::SESSION_TTL + Duration::from_secs(1));
        assert_eq!(alice.members(&room.room).unwrap().members.len(), 1);
        assert_ne!(alice.open_session().unwrap().token, first.token);
    })
    .await;
}

#[tokio::test]
async fn a_waiting_client_hears_of_a_message() {
    let hub = TestHub::start().await;
    let author = hub.agent("alice").await;
    let room = author.create_room("r").await.room;
    let (reader, name) = (hub.agent("bob").await, room.clone());
    author.invite(&room, &reader).await;
    let wait = ReadFrom {
        after: Some(Seq::ZERO),
        limit: None,
        wait: Some(Duration::from_secs(50)),
    };
    let waiting = blocking(move || client(&reader).messages(&name, &wait).unwrap());
    let (path, message) = (paths::messages(&room), text_message("hello"));
    let (page, posted) = tokio::join!(waiting, author.post(&path, &message));
    posted.expect(201).head();
    assert_eq!(page.messages.len(), 1);
}
