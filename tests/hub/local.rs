//! The local hub: for one user of one machine.

use parler_hub::LocalPolicy;
use parler_protocol::{ErrorCode, Seq, paths};
use serde_json::json;

use crate::support::{Agent, Push, TestHub, oid, text_message};

const SECRET: &str = "the content of a 0600 file";

async fn local_hub() -> TestHub {
    TestHub::with(|options| {
        options.local = Some(LocalPolicy {
            secret: SECRET.to_owned(),
        })
    })
    .await
}

async fn agent(hub: &TestHub, name: &str) -> Agent {
    let mut agent = Agent::new(hub.address, hub.id, name);
    agent.secret = Some(SECRET.to_owned());
    agent.open_session().await;
    agent
}

#[tokio::test]
async fn only_who_shows_the_secret_gets_in() {
    let hub = local_hub().await;
    let mut known = agent(&hub, "alice").await;
    for secret in [
        None,
        Some(String::new()),
        Some(SECRET[1..].to_owned()),
        Some(format!("{SECRET} ")),
    ] {
        known.secret.clone_from(&secret);
        known.prove().await.problem(ErrorCode::NotAdmitted);
        let mut stranger = Agent::new(hub.address, hub.id, "stranger");
        stranger.secret = secret;
        stranger.prove().await.problem(ErrorCode::NotAdmitted);
    }
}

#[tokio::test]
async fn a_channel_is_joined_by_using_it() {
    let hub = local_hub().await;
    let alice = agent(&hub, "alice").await;
    let room = alice.create_room("Shared").await;
    alice
        .post(&paths::messages(&room.room), &text_message("hello"))
        .await
        .expect(201)
        .head();
    let push = Push::new().branch("main", None, Some(oid('a'))).sign(&alice, &room);
    alice
        .post_bytes(&paths::messages(&room.room), push.body)
        .await
        .expect(201)
        .head();

    let reader = agent(&hub, "reader").await;
    assert_eq!(reader.get("/v1/rooms/shared/messages").await.expect(200).seqs(), [1, 2]);
    let author = agent(&hub, "author").await;
    author
        .post(&paths::messages(&room.room), &text_message("me too"))
        .await
        .expect(201)
        .head();
    let pusher = agent(&hub, "pusher").await;
    let push = Push::new()
        .branch("main", Some(oid('a')), Some(oid('b')))
        .sign(&pusher, &room);
    pusher
        .post_bytes(&paths::messages(&room.room), push.body)
        .await
        .expect(201)
        .head();
    let lister = agent(&hub, "lister").await;
    let pushes = lister.get(&paths::pushes(&room.room, Seq::ZERO)).await.expect(200);
    assert_eq!(pushes.seqs(), [2, 4]);
    let inviter = agent(&hub, "inviter").await;
    inviter
        .post(paths::INVITES, &json!({ "room": "shared" }))
        .await
        .expect(201)
        .json::<serde_json::Value>();
    let members: parler_protocol::api::MemberList = alice.get(&paths::members(&room.room)).await.expect(200).json();
    let names: Vec<_> = members.members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["alice", "reader", "author", "pusher", "lister", "inviter"]);
}

#[tokio::test]
async fn what_does_not_exist_is_not_joined() {
    let hub = local_hub().await;
    let alice = agent(&hub, "alice").await;
    alice.get("/v1/rooms/nowhere/refs").await.problem(ErrorCode::NotFound);
    alice
        .post("/v1/rooms/nowhere/messages", &text_message("x"))
        .await
        .problem(ErrorCode::NotFound);
    assert_eq!(
        alice.get(paths::ROOMS).await.expect(200).json::<serde_json::Value>(),
        json!({ "rooms": [] })
    );
}
