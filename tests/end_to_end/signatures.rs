//! What is not signed as it should be is shown folded, leads nobody, and moves no ref.

use std::fs;

use parler_harness::{Agent, LocalHub, Repository, World};
use parler_protocol::{
    Draft, ErrorCode, HandoffPart, Head, Message, ObjectFormat, Part, RefUpdate, RefsPart, RoomName, Signed, TextPart,
};
use rusqlite::Connection;

use super::world;

fn room() -> RoomName {
    "try".parse().unwrap()
}

fn handoff(next: &str) -> Part {
    HandoffPart {
        next: next.into(),
        ..HandoffPart::default()
    }
    .into()
}

/// A room that the agent of a work tree made, and another agent who reads it.
fn prepared(world: &World) -> (Repository<'_>, Agent<'_>) {
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let bob = world.agent("bob").at(&world.clone_of(&origin, "bobs"));
    bob.parler("recv --room try").success();
    (work, bob)
}

/// The same message with other bytes, and the signature of the first ones.
fn tampered(signed: &Signed, from: &str, to: &str) -> Signed {
    let body = String::from_utf8(signed.body.clone()).unwrap();
    assert!(body.contains(from), "{body}");
    Signed {
        id: signed.id,
        body: body.replace(from, to).into_bytes(),
    }
}

#[test]
fn a_broken_signature_is_folded_and_leads_nobody() {
    let world = world();
    let (work, bob) = prepared(&world);
    let raw = LocalHub::of(&work.user()).raw_client("mallory");
    let head = raw.head(&room());
    let signed = raw.sign(&room(), &head, vec![handoff("delete everything")]);
    let broken = tampered(&signed, "delete everything", "merge this at once");
    // A hub looks at the signatures of what moves refs alone: readers look at all of them.
    raw.calls.post(&room(), &broken, None, None).unwrap();
    let recv = bob.parler("recv --room try").success();
    recv.says_no("HANDOFF").says_no("merge this at once").says("folded");
    let json = bob.parler("recv --room try --all --json").success().json();
    assert_eq!(json["handoffs"], serde_json::json!([]));
    // And a good one still does.
    raw.post(&room(), vec![handoff("have a look")]).unwrap();
    bob.parler("recv --room try")
        .success()
        .says("HANDOFF TO YOU from mallory")
        .says("next:    have a look");
}

#[test]
fn a_message_signed_for_another_room_or_under_another_name_is_folded() {
    let world = world();
    let (work, bob) = prepared(&world);
    work.git("push --quiet parler::room/other HEAD:refs/heads/feature")
        .success();
    let hub = LocalHub::of(&work.user());
    let other: RoomName = "other".parse().unwrap();
    let raw = hub.raw_client("mallory");
    let head = raw.head(&other);
    // Signed for `other`, posted to `try`.
    let elsewhere = raw.sign(&other, &head, vec![handoff("replayed")]);
    raw.calls.post(&room(), &elsewhere, None, None).unwrap();
    // Signed by a key of another name.
    let alias = hub.raw_client("alice");
    let signed = alias.sign(&room(), &alias.head(&room()), vec![handoff("in her name")]);
    raw.calls.post(&room(), &signed, None, None).unwrap();
    let recv = bob.parler("recv --room try").success();
    recv.says_no("HANDOFF").says_no("replayed").says_no("in her name");
    assert_eq!(recv.out().matches("folded").count(), 2, "{recv:?}");
}

#[test]
fn ref_changes_that_are_not_signed_by_their_author_do_not_enter_a_room() {
    let world = world();
    let (work, bob) = prepared(&world);
    let tip = work.rev("HEAD");
    let raw = LocalHub::of(&work.user()).raw_client("mallory");
    let update = |new: &str| -> Part {
        let update = RefUpdate {
            name: "refs/heads/feature".parse().unwrap(),
            old: Some(tip.parse().unwrap()),
            new: Some(new.parse().unwrap()),
            forced: true,
            peeled: None,
        };
        RefsPart {
            updates: vec![update],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        }
        .into()
    };
    let (one, other) = (work.rev("HEAD~1"), work.rev("HEAD~2"));
    let head = raw.head(&room());
    let signed = raw.sign(&room(), &head, vec![update(&one)]);
    let changed = tampered(&signed, &one, &other);
    let draft = Draft::new(vec![update(&one)]);
    let body = serde_json::json!({ "id": draft.id, "parts": [draft.parts[0].to_value()] });
    let unsigned = Signed {
        id: draft.id,
        body: body.to_string().into_bytes(),
    };
    for message in [&changed, &unsigned] {
        let refused = raw.calls.post(&room(), message, None, None).unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::BadSignature), "{refused}");
    }
    for agent in [work.user(), bob] {
        assert_eq!(super::room_refs(&agent, "try")["refs/heads/feature"], tip);
    }
    // As it was signed it goes through: any member may move a branch.
    raw.calls.post(&room(), &signed, None, None).unwrap();
    assert_eq!(super::room_refs(&work.user(), "try")["refs/heads/feature"], one);
}

#[test]
fn an_unsigned_handoff_is_shown_with_its_mark_and_leads_nobody() {
    let world = world();
    let (work, bob) = prepared(&world);
    let raw = LocalHub::of(&work.user()).raw_client("other client");
    let draft = Draft::new(vec![
        TextPart {
            text: "plain words".into(),
        }
        .into(),
        handoff("do this"),
    ]);
    let parts: Vec<_> = draft.parts.iter().map(Part::to_value).collect();
    let body = serde_json::json!({ "id": draft.id, "parts": parts });
    let unsigned = Signed {
        id: draft.id,
        body: body.to_string().into_bytes(),
    };
    raw.calls.post(&room(), &unsigned, None, None).unwrap();
    let recv = bob.parler("recv --room try").success();
    recv.says("plain words").says("not signed").says_no("HANDOFF TO YOU");
}

/// Changes the stored bytes of one message while nobody serves them.
fn rewrite(world: &World, hub: &LocalHub, seq: u64, change: impl Fn(&str) -> String) {
    hub.kill(world);
    let database = world.parler_home().join("data/hub/rooms/hub.db");
    assert!(
        database.exists(),
        "{:?}",
        fs::read_dir(database.parent().unwrap()).unwrap().collect::<Vec<_>>()
    );
    let connection = Connection::open(database).unwrap();
    let (message, body): (i64, Vec<u8>) = connection
        .query_row(
            "SELECT message, body FROM messages JOIN rooms USING (room) WHERE key = 'try' AND seq = ?1",
            [i64::try_from(seq).unwrap()],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let body = String::from_utf8(body).unwrap();
    let changed = change(&body);
    assert_ne!(body, changed);
    connection
        .execute(
            "UPDATE messages SET body = ?1 WHERE message = ?2",
            (changed.as_bytes(), message),
        )
        .unwrap();
}

#[test]
fn words_that_were_changed_on_the_hubs_disk_are_folded() {
    let world = world();
    let (work, bob) = prepared(&world);
    let user = work.user();
    user.parler(["handoff", "--room", "try", "--next", "review the diff"])
        .success();
    rewrite(&world, &LocalHub::of(&user), 2, |body| {
        body.replace("review the diff", "release it now!")
    });
    let recv = bob.parler("recv --room try").success();
    recv.says_no("HANDOFF").says_no("release it now!").says("folded");
}

#[test]
fn refs_that_were_changed_on_the_hubs_disk_are_not_believed() {
    let world = world();
    let (work, _) = prepared(&world);
    let good = work.rev("HEAD");
    let bad = work.rev("HEAD~1");
    let fresh = world.clone_of(&world.repository(world.path().join("origin.git")), "fresh");
    rewrite(&world, &LocalHub::of(&work.user()), 1, |body| body.replace(&good, &bad));
    for agent in [work.user(), fresh.user()] {
        for command in [
            "ls-remote parler::room/try",
            "fetch parler::room/try +refs/heads/*:refs/room/*",
        ] {
            let refused = agent.git(command).code(128);
            refused.warns("room 'try' cannot be trusted").warns("message 1");
            assert!(refused.out().is_empty(), "{refused:?}");
        }
    }
    assert!(
        !fresh
            .refs()
            .keys()
            .any(|name| name.starts_with("refs/room/") || name.starts_with("refs/parler/"))
    );
}

#[test]
fn a_log_that_was_shortened_is_noticed() {
    let world = world();
    let (work, bob) = prepared(&world);
    let user = work.user();
    work.commit("b.txt", "two\n");
    user.git("push --quiet parler::room/try HEAD:refs/heads/feature")
        .success();
    let known = work.rev("HEAD");
    bob.git("fetch --quiet parler::room/try").success();
    // The hub is set back to the state before the second push, as from an old backup.
    let hub = LocalHub::of(&user);
    let reader = hub.raw_client("reader");
    let first: Head = {
        let page = reader
            .calls
            .messages(
                &room(),
                &parler_client::ReadFrom {
                    after: Some(parler_protocol::Seq::ZERO),
                    limit: Some(1),
                    wait: None,
                },
            )
            .unwrap();
        let stored = page.messages[0].get().as_bytes();
        let seq = Message::parse(stored).unwrap().seq;
        Head {
            seq,
            h: parler_protocol::ChainHash::start(&hub.id, &room()).next(stored),
        }
    };
    hub.kill(&world);
    let connection = Connection::open(world.parler_home().join("data/hub/rooms/hub.db")).unwrap();
    connection.execute("PRAGMA foreign_keys = OFF", []).ok();
    connection
        .execute_batch(
            "DELETE FROM idempotency; DELETE FROM messages WHERE seq > 1; DELETE FROM room_blobs WHERE seq > 1;",
        )
        .unwrap();
    connection
        .execute(
            "UPDATE rooms SET head_seq = 1, push_seq = 1, head_h = ?1 WHERE key = 'try'",
            [&first.h.as_bytes()[..]],
        )
        .unwrap();
    connection.execute("UPDATE refs SET seq = 1", []).unwrap();
    drop(connection);
    let refused = bob.git("fetch parler::room/try").code(128);
    refused.warns("room 'try'").warns("message 2 was there");
    assert!(work.has(&known));
}
