//! Names that could be taken for another's, at the two places where an agent says its name: opening a session, and coming
//! into a room.

use parler_protocol::{ErrorCode, paths};
use serde_json::json;

use crate::support::{Agent, Answer, TestHub};

/// What is wrong with each, and what the hub says.
const REFUSED: &[(&str, &str, ErrorCode)] = &[
    ("empty", "", ErrorCode::BadRequest),
    ("a blank", " ", ErrorCode::BadRequest),
    ("blanks at the ends", " alice", ErrorCode::BadRequest),
    ("a line break", "al\nice", ErrorCode::BadRequest),
    ("an escape", "al\u{1b}[31mice", ErrorCode::BadRequest),
    ("a NUL", "al\0ice", ErrorCode::BadRequest),
    ("C1", "al\u{9b}ice", ErrorCode::BadRequest),
    ("an override", "al\u{202e}ice", ErrorCode::BadRequest),
    ("an isolate", "al\u{2066}ice", ErrorCode::BadRequest),
    ("zero width", "al\u{200b}ice", ErrorCode::BadRequest),
    ("a joiner", "al\u{200d}ice", ErrorCode::BadRequest),
    ("a tag", "al\u{e0041}ice", ErrorCode::BadRequest),
    ("a token's", "ci/deploy", ErrorCode::NameReserved),
    ("a token's, so it looks", "\u{441}i/deploy", ErrorCode::NameReserved),
    ("Cyrillic and Latin", "\u{430}lice", ErrorCode::NameReserved),
    ("Greek and Latin", "\u{3b1}lice", ErrorCode::NameReserved),
];

async fn prove(agent: &Agent, name: &str, role: Option<&str>) -> Answer {
    let mut proof = serde_json::to_value(agent.proof(Some(agent.challenge().await))).unwrap();
    proof["name"] = json!(name);
    if let Some(role) = role {
        proof["role"] = json!(role);
    }
    agent.post(paths::SESSION, &proof).await
}

#[tokio::test]
async fn what_is_no_name_is_refused_and_said() {
    let hub = TestHub::start().await;
    let agent = Agent::new(hub.address, hub.id, "agent");
    let long = "x".repeat(129);
    let rows = REFUSED
        .iter()
        .copied()
        .chain([("over-long", long.as_str(), ErrorCode::BadRequest)]);
    for (what, name, code) in rows {
        let problem = prove(&agent, name, None).await.problem(code);
        assert!(problem.detail.contains("name"), "{what}: {}", problem.detail);
        assert!(
            !problem.detail.contains(parler_protocol::is_hidden),
            "{what}: {}",
            problem.detail
        );
        if !name.contains('/') {
            prove(&agent, "agent", Some(name)).await.problem(code);
        }
    }
    for name in [
        "Ada Lovelace",
        "user@host/project-2",
        "\u{410}\u{43b}\u{438}\u{441}\u{430}",
        "\u{6771}\u{4eac}bot",
    ] {
        assert_eq!(prove(&agent, name, None).await.status, 200, "{name}");
    }
}

#[tokio::test]
async fn in_a_room_no_two_names_look_alike() {
    let hub = TestHub::start().await;
    let alice = hub.agent("alice").await;
    let room = alice.create_room("r").await.room;
    let code = async |body: serde_json::Value| {
        let made = alice.post(paths::INVITES, &body).await.expect(201);
        made.json::<serde_json::Value>()["code"].clone()
    };
    let open = code(json!({ "room": room })).await;
    let gated = code(json!({ "room": room, "approve": true })).await;
    for name in ["alice", "ALICE", "a1ice", "al\u{131}ce", "\u{ff41}lice"] {
        let other = hub.agent(name).await;
        for code in [&open, &gated] {
            let refused = other.post(paths::JOIN, &json!({ "code": code })).await;
            let problem = refused.problem(ErrorCode::NameTaken);
            assert!(
                problem.detail.contains("another member of room 'r'"),
                "{}",
                problem.detail
            );
        }
        other.get(&paths::room(&room)).await.problem(ErrorCode::NotFound);
    }
    // Nor by a session from before it had another name.
    let mallory = hub.agent("alice").await;
    assert_eq!(prove(&mallory, "mallory", None).await.status, 200);
    let join = mallory.post(paths::JOIN, &json!({ "code": open })).await;
    join.problem(ErrorCode::Unauthenticated);
    // Nor by a new name, once it is in; its own in another case it may have.
    let bob = hub.agent("bob").await;
    bob.post(paths::JOIN, &json!({ "code": open })).await.expect(200).head();
    prove(&bob, "Alice", None).await.problem(ErrorCode::NameTaken);
    assert_eq!(prove(&bob, "Bob", None).await.status, 200);
    assert_eq!(prove(&bob, "bobby", None).await.status, 200);
    // Where the name is free it is anybody's again.
    let carol = hub.agent("bob").await;
    carol
        .post(paths::JOIN, &json!({ "code": gated }))
        .await
        .expect(202)
        .json::<serde_json::Value>();
    assert_eq!(prove(&bob, "bob", None).await.status, 200);
    let admitted = alice.put(&paths::request(&room, &carol.id()), &json!({})).await;
    admitted.problem(ErrorCode::NameTaken);
    assert_eq!(alice.delete(&paths::member(&room, &bob.id())).await.status, 204);
    assert_eq!(
        alice.put(&paths::request(&room, &carol.id()), &json!({})).await.status,
        204
    );
}
