//! Members that leave, are removed, or become owners: what ends with a membership, and who wins a race.

use std::time::Duration;

use futures_util::future::join_all;
use parler_protocol::api::{InviteCreated, InviteList, InvitesRevoked, MemberList, RoomAnswer, UploadProgress};
use parler_protocol::{AgentId, BundleId, ErrorCode, Head, InviteCode, RoomName, Seq, UploadId, paths};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::streams::Stream;
use crate::support::{Agent, Answer, Push, TestHub, bytes, in_time, text_message};
use crate::tokens;

/// Rounds of each race.
const ROUNDS: usize = 12;

/// Three agents in a room that the first of them owns.
pub(crate) async fn room_of_three(hub: &TestHub) -> ([Agent; 3], RoomName) {
    let agents = [
        hub.agent("alice").await,
        hub.agent("bob").await,
        hub.agent("carol").await,
    ];
    let room = agents[0].create_room("r").await.room;
    for other in &agents[1..] {
        agents[0].invite(&room, other).await;
    }
    (agents, room)
}

pub(crate) async fn end(by: &Agent, room: &RoomName, agent: AgentId) -> Answer {
    by.delete(&paths::member(room, &agent)).await
}

async fn set_owner(by: &Agent, room: &RoomName, agent: AgentId, owner: bool) -> Answer {
    by.put(&paths::member(room, &agent), &json!({ "owner": owner })).await
}

/// The members' keys, and whether each is an owner.
pub(crate) async fn members(agent: &Agent, room: &RoomName) -> Vec<(AgentId, bool)> {
    let list: MemberList = agent.get(&paths::members(room)).await.expect(200).json();
    list.members.iter().map(|member| (member.id, member.owner)).collect()
}

async fn invite(agent: &Agent, body: Value) -> InviteCreated {
    agent.post(paths::INVITES, &body).await.expect(201).json()
}

async fn join(agent: &Agent, code: &InviteCode) -> Answer {
    agent.post(paths::JOIN, &json!({ "code": code })).await
}

#[tokio::test]
async fn who_leaves_is_out_and_the_others_are_not() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let of_bob = invite(&bob, json!({ "room": room })).await;
    assert_eq!(end(&bob, &room, bob.id()).await.status, 204);
    for path in [
        paths::room(&room),
        paths::messages(&room),
        paths::members(&room),
        paths::pushes(&room, Seq::ZERO),
    ] {
        bob.get(&path).await.problem(ErrorCode::NotFound);
    }
    end(&bob, &room, bob.id()).await.problem(ErrorCode::NotFound);
    assert_eq!(members(&carol, &room).await, [(alice.id(), true), (carol.id(), false)]);
    // Its invites went with it.
    let dave = hub.agent("dave").await;
    join(&dave, &of_bob.code).await.problem(ErrorCode::InvalidInvite);
    // It was not removed: an invite that was open brings it back.
    alice.invite(&room, &bob).await;
    assert_eq!(members(&bob, &room).await.len(), 3);
}

#[tokio::test]
async fn owners_remove_and_an_older_invite_does_not_bring_back() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let open = invite(&carol, json!({ "room": room })).await;
    end(&bob, &room, carol.id()).await.problem(ErrorCode::NotOwner);
    end(&alice, &room, hub.agent("dave").await.id())
        .await
        .problem(ErrorCode::NotFound);
    assert_eq!(end(&alice, &room, bob.id()).await.status, 204);
    bob.get(&paths::messages(&room)).await.problem(ErrorCode::NotFound);
    join(&bob, &open.code).await.problem(ErrorCode::InvalidInvite);
    hub.pass(Duration::from_millis(1));
    let newer = invite(&carol, json!({ "room": room })).await;
    assert_eq!(join(&bob, &newer.code).await.status, 200);
    assert_eq!(join(&bob, &open.code).await.status, 200, "a member again");
}

#[tokio::test]
async fn a_room_with_members_keeps_an_owner() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    end(&alice, &room, alice.id()).await.problem(ErrorCode::LastOwner);
    set_owner(&alice, &room, alice.id(), false)
        .await
        .problem(ErrorCode::LastOwner);
    set_owner(&bob, &room, bob.id(), true)
        .await
        .problem(ErrorCode::NotOwner);
    assert_eq!(set_owner(&alice, &room, bob.id(), true).await.status, 200);
    assert_eq!(end(&alice, &room, alice.id()).await.status, 204);
    assert_eq!(members(&bob, &room).await, [(bob.id(), true), (carol.id(), false)]);
    assert_eq!(end(&bob, &room, carol.id()).await.status, 204);
    // Alone it may.
    assert_eq!(end(&bob, &room, bob.id()).await.status, 204);
    // The room is there, and nobody's.
    alice
        .post(paths::ROOMS, &json!({ "room": room, "kind": "channel" }))
        .await
        .problem(ErrorCode::RoomExists);
}

#[tokio::test]
async fn of_two_owners_who_remove_each_other_one_stays() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    for _ in 0..ROUNDS {
        let owners: Vec<_> = members(&carol, &room).await;
        for (agent, other) in [(&alice, &bob), (&bob, &alice)] {
            let is_in = owners.iter().any(|(id, _)| *id == agent.id());
            if !is_in {
                other.invite(&room, agent).await;
                assert_eq!(set_owner(other, &room, agent.id(), true).await.status, 200);
            } else if !owners.contains(&(agent.id(), true)) {
                assert_eq!(set_owner(other, &room, agent.id(), true).await.status, 200);
            }
        }
        hub.pass(Duration::from_millis(1));
        let (one, two) = tokio::join!(end(&alice, &room, bob.id()), end(&bob, &room, alice.id()));
        let mut statuses = [one.status, two.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [204, 404]);
        let left = members(&carol, &room).await;
        assert_eq!(left.iter().filter(|(_, is_owner)| *is_owner).count(), 1);
        hub.pass(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn of_a_removal_and_posts_at_once_nothing_comes_after_the_removal() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let mut stored = 0;
    for _ in 0..ROUNDS {
        let posts = join_all((0..4).map(|_| async { bob.post(&paths::messages(&room), &text_message("hello")).await }));
        let (posts, removed) = tokio::join!(posts, end(&alice, &room, bob.id()));
        assert_eq!(removed.status, 204);
        for post in &posts {
            match post.status {
                201 => stored += 1,
                _ => drop(post.problem(ErrorCode::NotFound)),
            }
        }
        bob.post(&paths::messages(&room), &text_message("late"))
            .await
            .problem(ErrorCode::NotFound);
        hub.pass(Duration::from_millis(1));
        alice.invite(&room, &bob).await;
    }
    let head: Head = alice.get(&paths::messages(&room)).await.expect(200).head();
    assert_eq!(head.seq, Seq::new(stored));
}

#[tokio::test]
async fn an_invite_is_listed_without_its_code_and_revoked() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    let list = async |agent: &Agent| -> Vec<_> {
        let list: InviteList = agent.get(&paths::room_invites(&room)).await.expect(200).json();
        list.invites
            .into_iter()
            .map(|invite| (invite.id, invite.uses))
            .collect()
    };
    let earlier = list(&alice).await;
    assert_eq!(earlier.len(), 2, "those by which bob and carol came");
    let [of_bob, of_carol] = [
        invite(&bob, json!({ "room": room, "maxUses": 1 })).await,
        invite(&carol, json!({ "room": room })).await,
    ];
    assert_eq!(list(&bob).await, [(of_bob.code.id(), 0)]);
    assert_eq!(list(&alice).await.len(), 4);
    let one = |invite: &InviteCreated| paths::room_invite(&room, &invite.code.id());
    bob.delete(&one(&of_carol)).await.problem(ErrorCode::InvalidInvite);
    let revoked: InvitesRevoked = alice.delete(&one(&of_carol)).await.expect(200).json();
    assert_eq!(revoked.revoked, 1);
    alice.delete(&one(&of_carol)).await.problem(ErrorCode::InvalidInvite);
    let dave = hub.agent("dave").await;
    join(&dave, &of_carol.code).await.problem(ErrorCode::InvalidInvite);
    assert_eq!(join(&dave, &of_bob.code).await.status, 200);
    assert_eq!(list(&bob).await, [], "used up");
    dave.delete(&paths::room_invites(&room))
        .await
        .expect(200)
        .json::<InvitesRevoked>();
    let all: InvitesRevoked = alice.delete(&paths::room_invites(&room)).await.expect(200).json();
    assert_eq!((all.revoked, list(&alice).await), (2, Vec::new()));
    hub.agent("erin")
        .await
        .get(&paths::room_invites(&room))
        .await
        .problem(ErrorCode::NotFound);
}

#[tokio::test]
async fn of_a_revocation_and_joins_at_once_those_are_in_who_were_told_so() {
    let hub = TestHub::start().await;
    let ([alice, ..], room) = room_of_three(&hub).await;
    let mut joiners = Vec::new();
    for number in 0..ROUNDS {
        joiners.push(hub.agent(&format!("joiner {number}")).await);
    }
    for some in joiners.chunks(3) {
        let open = invite(&alice, json!({ "room": room })).await;
        let path = paths::room_invite(&room, &open.code.id());
        let (joined, revoked) = tokio::join!(
            join_all(some.iter().map(|joiner| join(joiner, &open.code))),
            alice.delete(&path),
        );
        assert_eq!(revoked.status, 200);
        let inside = members(&alice, &room).await;
        for (joiner, joined) in some.iter().zip(joined) {
            let is_in = inside.contains(&(joiner.id(), false));
            assert_eq!(joined.status == 200, is_in);
            if !is_in {
                joined.problem(ErrorCode::InvalidInvite);
            }
        }
    }
}

/// What waits for a room, or is being sent from it or to it, ends when its member is gone.
#[tokio::test]
async fn what_is_under_way_ends_with_the_membership() {
    let hub = TestHub::start().await;
    let ([alice, bob, carol], room) = room_of_three(&hub).await;
    // More than sockets hold on the way.
    let blob = bytes(16 << 20, 1);
    let answer: RoomAnswer = alice.get(&paths::room(&room)).await.expect(200).json();
    let push = Push::new()
        .branch("main", None, Some(crate::support::oid('a')))
        .bundle(&blob);
    let signed = push.sign(&alice, &answer);
    alice
        .post_with_blob(&room, &signed.body, &blob)
        .await
        .expect(201)
        .head();
    let after = "after=1";

    let hints = Stream::begin(&bob, paths::EVENTS, None).await;
    let stream = Stream::begin(&bob, &format!("{}?{after}", paths::stream(&room)), None).await;
    let mut others = Stream::begin(&carol, &format!("{}?{after}", paths::stream(&room)), None).await;
    let mut poll = open(
        &bob,
        "GET",
        &format!("{}?{after}&wait=50", paths::messages(&room)),
        "",
        0,
    )
    .await;
    let seen = format!("{}/messages/1/receipts", paths::room(&room));
    let version = bob.get(&seen).await.expect(200).json::<Value>()["version"].clone();
    let mut receipts = open(
        &bob,
        "GET",
        &format!("{seen}?since={}&wait=50", version.as_str().unwrap()),
        "",
        0,
    )
    .await;
    let mut download = begin_download(&bob, &paths::blob(&room, &BundleId::of(&blob))).await;
    let begun: UploadProgress = bob.post(&paths::uploads(&room), &json!({})).await.expect(201).json();
    let mut upload = begin_upload(&bob, &room, &begun.upload).await;
    let other = bytes(1 << 20, 2);
    let push = Push::new()
        .branch("other", None, Some(crate::support::oid('b')))
        .bundle(&other);
    let mut post = begin_post(&bob, &room, &push.sign(&bob, &answer).body, &other).await;
    // All of them are at it, as far as the hub knows.
    wait_for_text(&mut download, "200 OK").await;

    assert_eq!(end(&alice, &room, bob.id()).await.status, 204);
    assert!(stream.end().await.iter().all(|event| event.name.is_empty()));
    for (name, waiting) in [
        ("poll", &mut poll),
        ("receipts", &mut receipts),
        ("upload", &mut upload),
        ("post", &mut post),
    ] {
        let text = rest(waiting).await;
        assert!(text.starts_with("HTTP/1.1 404"), "{name}: {text}");
    }
    let got = rest_bytes(&mut download).await;
    assert!(got < blob.len(), "the whole blob was sent");
    // Nobody else noticed.
    alice
        .post(&paths::messages(&room), &text_message("on"))
        .await
        .expect(201)
        .head();
    assert_eq!(others.event().await.name, "message");
    // The stream of hints goes on for its other rooms.
    let mine = bob.create_room("mine").await.room;
    let mut hints = hints;
    let hint = async {
        loop {
            let hint = hints.event().await;
            if hint.name == "hint" {
                break hint;
            }
        }
    };
    let hint = in_time("a hint", hint).await;
    assert_eq!(hint.json()["room"], mine.as_str());
}

#[tokio::test]
async fn tokens_end_with_their_makers_membership() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let made = bob
        .post(
            paths::TOKENS,
            &json!({ "name": "deploy", "rooms": [room], "can": ["read"] }),
        )
        .await
        .expect(201);
    let job = tokens::job(&hub, &made);
    let stream = Stream::begin(&job, &format!("{}?after=0", paths::stream(&room)), None).await;
    assert_eq!(end(&alice, &room, bob.id()).await.status, 204);
    assert!(stream.end().await.iter().all(|event| event.name.is_empty()));
    job.get(&paths::messages(&room)).await.problem(ErrorCode::TokenScope);
    hub.pass(Duration::from_millis(1));
    alice.invite(&room, &bob).await;
    job.get(&paths::messages(&room)).await.problem(ErrorCode::TokenScope);
}

#[tokio::test]
async fn a_direct_room_is_left_and_each_comes_back_by_itself() {
    let hub = TestHub::start().await;
    let ([alice, bob, _], room) = room_of_three(&hub).await;
    let opens = async |agent: &Agent, other: &Agent| agent.post(paths::DMS, &json!({ "agent": other.id() })).await;
    let direct: RoomAnswer = opens(&alice, &bob).await.expect(201).json();
    end(&alice, &direct.room, bob.id()).await.problem(ErrorCode::NotOwner);
    alice
        .delete(&paths::room(&direct.room))
        .await
        .problem(ErrorCode::NotOwner);
    assert_eq!(end(&bob, &direct.room, bob.id()).await.status, 204);
    // Nobody brings it back, also not by leaving and coming again.
    opens(&alice, &bob).await.problem(ErrorCode::NotFound);
    assert_eq!(end(&alice, &direct.room, alice.id()).await.status, 204);
    opens(&alice, &bob).await.problem(ErrorCode::NotFound);
    assert_eq!(members(&alice, &direct.room).await, [(alice.id(), false)]);
    // It comes by itself.
    assert_eq!(
        opens(&bob, &alice).await.expect(200).json::<RoomAnswer>().room,
        direct.room
    );
    assert_eq!(opens(&alice, &bob).await.status, 200);
    assert_eq!(members(&alice, &room).await.len(), 3);
}

/// A request of which `body` is sent, of `length` bytes in all.
async fn open(agent: &Agent, method: &str, path: &str, fields: &str, length: usize) -> TcpStream {
    let mut stream = TcpStream::connect(agent.address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n{fields}\r\n",
        agent.address, agent.token
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// An upload that has sent its first bytes, which the hub has taken.
async fn begin_upload(agent: &Agent, room: &RoomName, upload: &UploadId) -> TcpStream {
    let path = paths::upload(room, upload);
    let fields = format!(
        "Content-Type: {}\r\nUpload-Offset: 0\r\nExpect: 100-continue\r\n",
        paths::PARTIAL_UPLOAD_TYPE
    );
    let mut stream = open(agent, "PATCH", &path, &fields, 1 << 20).await;
    // It says so when it begins to read.
    wait_for_text(&mut stream, "100 Continue\r\n\r\n").await;
    stream.write_all(b"first").await.unwrap();
    stream
}

/// A message with the first bytes of its blob, which the hub reads.
async fn begin_post(agent: &Agent, room: &RoomName, message: &[u8], blob: &[u8]) -> TcpStream {
    let fields = format!(
        "Content-Type: {}\r\n{}: {}\r\nExpect: 100-continue\r\n",
        paths::MESSAGE_WITH_BLOB_TYPE,
        paths::MESSAGE_LENGTH_HEADER,
        message.len()
    );
    let length = message.len() + blob.len();
    let mut stream = open(agent, "POST", &paths::messages(room), &fields, length).await;
    wait_for_text(&mut stream, "100 Continue\r\n\r\n").await;
    stream.write_all(message).await.unwrap();
    stream.write_all(&blob[..blob.len() / 2]).await.unwrap();
    stream
}

async fn begin_download(agent: &Agent, path: &str) -> TcpStream {
    open(agent, "GET", path, "", 0).await
}

/// Reads until this has come, and no more than it has to.
async fn wait_for_text(stream: &mut TcpStream, text: &str) {
    let coming = async {
        let mut read = Vec::new();
        while !read.ends_with(text.as_bytes()) {
            read.push(stream.read_u8().await.unwrap());
        }
    };
    in_time(text, coming).await;
}

async fn rest(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 64 << 10];
    let count = in_time("an answer", stream.read(&mut buffer)).await.unwrap();
    String::from_utf8_lossy(&buffer[..count]).into_owned()
}

/// How many bytes come until the connection ends.
async fn rest_bytes(stream: &mut TcpStream) -> usize {
    let mut buffer = vec![0; 1 << 20];
    let coming = async {
        let mut all = 0;
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return all,
                Ok(count) => all += count,
            }
        }
    };
    in_time("an end", coming).await
}
