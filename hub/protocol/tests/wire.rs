//! The wire against files: recorded frames of Parler Protocol parse and verify, and what this version says is what
//! `fixtures/wire` holds. Run with `UPDATE_FIXTURES=1` to write the files anew, and read the difference.

#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;

use parler_protocol::api::{
    AgentList, BeginUpload, ChangeMember, Contact, CreateInvite, CreateRoom, CreateToken, Cursor, ExchangeIdentity,
    InviteCreated, InviteList, InvitesRevoked, Join, JoinPending, JoinRequest, Member, MemberList, OpenDm, OpenInvite,
    OpenSession, Page, PostMessage, Posted, Pushes, Reader, Receipts, RefEntry, RefList, RoomAnswer, RoomHint,
    RoomHints, RoomList, RoomSummary, SessionOpened, SetStatus, TokenCreated, TokenGrant, TokenJob, TokenList,
    TokenSummary, UploadProgress, WakePath, WantedBundles,
};
use parler_protocol::{
    AccessToken, AgentKey, BUNDLE_MEDIA_TYPE, BaseHint, BundleId, BundlePart, BundleRef, ChainHash, CommitStatus,
    Draft, ErrorCode, Finding, HandoffPart, Head, HubId, InviteCode, Message, MessageId, ObjectFormat, Part, Problem,
    RefConflict, RefUpdate, RefsPart, RepositoryId, ReviewPart, RoomKind, RoomName, Seq, Severity, SignContext, Signed,
    Target, TaskPart, TaskStatus, TextPart, TokenScope, Verdict, Work, parse_json, session_proof_bytes, sign, verify,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/wire")
        .join(name)
}

/// Compares text with a fixture, or writes the fixture.
fn assert_fixture(name: &str, text: &str) {
    let path = fixture(name);
    if std::env::var_os("UPDATE_FIXTURES").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let held = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(held, text, "{name} differs");
}

/// The type writes what the file holds, and reads the file back as itself.
fn golden<T: Serialize + DeserializeOwned>(name: &str, value: &T) {
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    assert_fixture(name, &text);
    let read: T = serde_json::from_str(&text).unwrap();
    assert_eq!(
        serde_json::to_value(&read).unwrap(),
        serde_json::to_value(value).unwrap(),
        "{name} reads back changed"
    );
}

struct Sample {
    key: AgentKey,
    hub: HubId,
    room: RoomName,
    head: Head,
}

impl Sample {
    fn new() -> Self {
        let (hub, room) = (HubId::from_bytes([0x42; 16]), "feature-checkout".parse().unwrap());
        let head = Head {
            seq: Seq::new(41),
            h: ChainHash::start(&hub, &room),
        };
        Self {
            key: AgentKey::from_random([7; 32]),
            hub,
            room,
            head,
        }
    }

    fn draft(&self) -> Draft {
        let bundle = BundleId::of(b"a bundle");
        let oid = |digit: char| digit.to_string().repeat(40).parse().unwrap();
        let name = "refs/heads/feature";
        let mut draft = Draft::new(vec![
            BundlePart {
                blob: bundle,
                vcs: "git".into(),
                size: 994,
                media_type: Some(BUNDLE_MEDIA_TYPE.into()),
                tip: Some("a".repeat(40)),
                base: Some("origin/main".into()),
                summary: Some("checkout: Keep the basket".into()),
                refs: vec![BundleRef {
                    name: name.parse().unwrap(),
                    oid: oid('a'),
                }],
                prerequisites: vec![oid('b')],
                object_format: Some(ObjectFormat::Sha1),
                commits: Some(3),
                objects: Some(12),
                needs: Vec::new(),
                base_hint: Some(BaseHint {
                    name: "refs/heads/main".parse().unwrap(),
                    url: Some("https://git.example/shop.git".into()),
                }),
            }
            .into(),
            RefsPart {
                updates: vec![RefUpdate {
                    name: name.parse().unwrap(),
                    old: None,
                    new: Some(oid('a')),
                    forced: false,
                    peeled: None,
                }],
                atomic: false,
                object_format: ObjectFormat::Sha1,
                head: Some(name.parse().unwrap()),
                base_hint: None,
            }
            .into(),
            HandoffPart {
                next: "review the diff and flag blockers before merge".into(),
                summary: Some("feature branch pushed, tests green ✓".into()),
                to: Some("reviewer".into()),
                bundle: Some(bundle),
                revises: Some(Seq::new(40)),
                work: Some(Work {
                    commits: 3,
                    files: 12,
                    insertions: 340,
                    deletions: 25,
                    base: Some("origin/main".into()),
                    dirty: Some(false),
                }),
                ttl_secs: None,
            }
            .into(),
            TextPart {
                text: "é \"quoted\"".into(),
            }
            .into(),
        ]);
        draft.id = "01a22848-7edc-7640-a607-d7a11145b430".parse().unwrap();
        draft.mentions = vec!["reviewer".into()];
        draft
    }

    fn sign(&self) -> Signed {
        sign(
            &self.draft(),
            &SignContext {
                key: &self.key,
                name: &"alice".parse().unwrap(),
                role: Some(&"planner".parse().unwrap()),
                hub: &self.hub,
                room: &self.room,
                target: &Target::Room {
                    room: self.room.clone(),
                },
                head: &self.head,
                now_ms: 1_796_000_000_000,
            },
        )
    }

    /// The message as a hub stores it: the parts untouched.
    fn stored(&self) -> String {
        let signed = self.sign();
        let post: PostMessage<'_> = serde_json::from_slice(&signed.body).unwrap();
        let parts: Vec<&str> = post.parts.iter().map(|part| part.get()).collect();
        format!(
            r#"{{"seq":42,"id":"{}","room":"{}","from":{{"id":"{}","name":"alice","role":"planner"}},"parts":[{}],"mentions":["reviewer"],"ts":1796000000001}}"#,
            post.id,
            self.room,
            self.key.id(),
            parts.join(",")
        )
    }
}

/// A receipt is a task part that names its handoff's message, under a signature like every other part.
#[test]
fn a_receipt_reads_back_and_one_from_the_future_is_kept() {
    let receipt = TaskPart {
        status: TaskStatus::Declined,
        task: Some("01a22848-7edc-7640-a607-d7a11145b430".into()),
        note: Some("no time before friday".into()),
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    let value = json!({
        "kind": "com.parler.task", "status": "declined", "task": receipt.task, "note": receipt.note,
    });
    assert_eq!(Part::from(receipt.clone()).to_value(), value);
    assert_eq!(Part::from_value(&value), receipt.into());
    let unknown = json!({ "kind": "com.parler.task", "status": "delegated", "task": "x" });
    assert_eq!(Part::from_value(&unknown), Part::Other(unknown.clone()));
    // A newer hub's word for how somebody is woken is nothing that we know of.
    assert_eq!(
        serde_json::from_value::<WakePath>(json!("hook")).unwrap(),
        WakePath::None
    );
}

/// What a job posts of the commit it looked at.
#[test]
fn a_review_is_as_written_down() {
    let review = ReviewPart {
        commit: "a".repeat(40).parse().unwrap(),
        context: "tests / linux".parse().unwrap(),
        status: CommitStatus::Failure,
        repository: RepositoryId::of_address("git@github.com:Org/Shop.git"),
        summary: Some("2 of 310 tests failed".parse().unwrap()),
        url: Some("https://ci.example/runs/7".parse().unwrap()),
        findings: vec![
            Finding {
                path: Some("src/basket.rs".parse().unwrap()),
                line: NonZeroU32::new(7),
                end_line: NonZeroU32::new(9),
                severity: Severity::Error,
                rule: Some("overflow".parse().unwrap()),
                text: "the sum does not fit".parse().unwrap(),
                fingerprint: Some("3f2a9c".parse().unwrap()),
            },
            Finding {
                path: None,
                line: None,
                end_line: None,
                severity: Severity::Note,
                rule: None,
                text: "one test was left out".parse().unwrap(),
                fingerprint: None,
            },
        ],
        omitted: 3,
        ttl_secs: NonZeroU32::new(86_400),
    };
    let part = Part::from(review.clone());
    assert_fixture(
        "review-part.json",
        &(serde_json::to_string_pretty(&part.to_value()).unwrap() + "\n"),
    );
    assert_eq!(Part::from_value(&part.to_value()), part);
    let least =
        json!({ "kind": "com.parler.review", "commit": "b".repeat(64), "context": "lint", "status": "pending" });
    let part = Part::from_value(&least);
    assert!(matches!(part, Part::Review(_)));
    assert_eq!(part.to_value(), least);
    let unknown =
        json!({ "kind": "com.parler.review", "commit": "b".repeat(40), "context": "a,b", "status": "success" });
    assert_eq!(Part::from_value(&unknown), Part::Other(unknown.clone()));
}

#[test]
fn a_signed_push_with_handoff_is_stored_verified_and_chained_as_written_down() {
    let sample = Sample::new();
    let body = String::from_utf8(sample.sign().body).unwrap();
    assert_fixture("post-message.json", &(body + "\n"));
    assert_fixture("message.json", &(sample.stored() + "\n"));

    let stored = std::fs::read_to_string(fixture("message.json")).unwrap();
    let message = Message::parse(stored.trim_end().as_bytes()).unwrap();
    assert_eq!(verify(&message, &sample.hub), Verdict::Valid);
    let kinds: Vec<_> = message.parts.iter().map(Part::kind).collect();
    assert_eq!(
        kinds,
        [
            "com.parler.bundle",
            "com.parler.refs",
            "com.parler.handoff",
            "text",
            "com.parler.seen",
            "com.parler.sig"
        ]
    );
    assert!(!message.parts.iter().any(|part| matches!(part, Part::Other(_))));
    // Typed and back loses nothing: what was signed is what the types write.
    for (part, raw) in message.parts.iter().zip(message.raw_parts()) {
        assert_eq!(part.to_value(), *raw);
    }

    let h = sample.head.h.next(stored.trim_end().as_bytes());
    let chain = json!({
        "hub": sample.hub, "room": sample.room, "h0": ChainHash::start(&sample.hub, &sample.room), "h1": h,
    });
    assert_fixture("chain.json", &(serde_json::to_string_pretty(&chain).unwrap() + "\n"));
}

#[test]
fn every_request_and_answer_is_as_written_down() {
    let sample = Sample::new();
    let stored = RawValue::from_string(sample.stored()).unwrap();
    let challenge = "parler-auth:v1:42424242424242424242424242424242:1796000060000:nonce:mac"
        .parse()
        .unwrap();
    let proof = session_proof_bytes(&challenge, "Hub.Example:8080");
    assert_fixture("session-proof.txt", std::str::from_utf8(&proof).unwrap());
    let code = "ABCDEFGHJKLM";
    let room = RoomAnswer {
        room: sample.room.clone(),
        kind: RoomKind::Channel,
        head: sample.head,
    };

    golden(
        "session-request.json",
        &OpenSession {
            id: sample.key.id(),
            name: "alice".parse().unwrap(),
            role: Some("planner".parse().unwrap()),
            challenge: Some(challenge.clone()),
            sig: Some(data_encoding::BASE64.encode(&sample.key.sign(&proof))),
            secret: None,
            invite: Some(code.parse().unwrap()),
        },
    );
    golden(
        "session-answer.json",
        &SessionOpened {
            token: "parler_example".into(),
            expires_at: 1_796_086_400_000,
            hub: sample.hub,
            joined: Some(room.clone()),
            waiting: None,
        },
    );
    golden(
        "invite-request.json",
        &CreateInvite {
            room: sample.room.clone(),
            ttl_secs: Some(3600),
            max_uses: Some(1),
            approve: false,
        },
    );
    golden(
        "invite-answer.json",
        &InviteCreated {
            code: code.parse().unwrap(),
            room: sample.room.clone(),
            kind: RoomKind::Channel,
            expires_at: 1_796_003_600_000,
            approve: false,
        },
    );
    golden(
        "invites-answer.json",
        &InviteList {
            room: sample.room.clone(),
            invites: vec![OpenInvite {
                id: code.parse::<InviteCode>().unwrap().id(),
                by: "alice".parse().unwrap(),
                created_at: 1_796_000_000_000,
                expires_at: 1_796_003_600_000,
                max_uses: 50,
                uses: 1,
                approve: true,
            }],
        },
    );
    golden("invites-revoked-answer.json", &InvitesRevoked { revoked: 2 });
    golden("member-request.json", &ChangeMember { owner: true });
    golden(
        "join-pending-answer.json",
        &JoinPending {
            room: sample.room.clone(),
            kind: RoomKind::Channel,
        },
    );
    golden(
        "status-request.json",
        &SetStatus {
            status: Some("reviewing the checkout".parse().unwrap()),
        },
    );
    golden(
        "join-request.json",
        &Join {
            code: code.parse().unwrap(),
        },
    );
    let token = AccessToken::from_random("deploy".parse().unwrap(), sample.hub, [0xab; 32]);
    let summary = TokenSummary {
        name: token.name().clone(),
        by: "alice".parse().unwrap(),
        rooms: vec![TokenGrant {
            room: sample.room.clone(),
            can: vec![TokenScope::Post],
        }],
        created_at: 1_796_000_000_000,
        expires_at: 1_796_086_400_000,
        last_used: None,
        revoked_at: None,
        jobs: Vec::new(),
    };
    golden(
        "oidc-request.json",
        &ExchangeIdentity {
            token: "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiIuLiJ9.c2lnbmF0dXJl".to_owned(),
            room: Some(sample.room.clone()),
        },
    );
    golden(
        "oidc-answer.json",
        &TokenCreated {
            token: token.expose().to_owned(),
            summary: TokenSummary {
                jobs: vec![TokenJob {
                    issuer: "https://ci.example".to_owned(),
                    claims: [("repository_id", "1234"), ("ref", "refs/heads/main")]
                        .map(|(name, value)| (name.to_owned(), value.to_owned()))
                        .into(),
                    created_at: 1_796_000_000_000,
                    expires_at: 1_796_000_900_000,
                }],
                ..summary.clone()
            },
        },
    );
    golden(
        "token-request.json",
        &CreateToken {
            name: token.name().clone(),
            rooms: vec![sample.room.clone()],
            can: vec![TokenScope::Post],
            ttl_secs: Some(86_400),
        },
    );
    golden(
        "token-created-answer.json",
        &TokenCreated {
            token: token.expose().to_owned(),
            summary: summary.clone(),
        },
    );
    golden("token-answer.json", &summary);
    golden(
        "tokens-answer.json",
        &TokenList {
            tokens: vec![summary.clone()],
        },
    );
    golden(
        "token-revoked-answer.json",
        &TokenSummary {
            last_used: Some(1_796_000_060_000),
            revoked_at: Some(1_796_000_120_000),
            ..summary
        },
    );
    golden(
        "room-request.json",
        &CreateRoom {
            room: sample.room.clone(),
            kind: RoomKind::Channel,
        },
    );
    golden("room-answer.json", &room);
    golden(
        "rooms-answer.json",
        &RoomList {
            rooms: vec![RoomSummary {
                room: sample.room.clone(),
                kind: RoomKind::Channel,
                members: 2,
                unread: 1,
                cursor: Some(Seq::new(41)),
                head: sample.head,
                with: None,
                requests: 0,
            }],
        },
    );
    let bob = AgentKey::from_random([8; 32]).id();
    golden("dm-request.json", &OpenDm { agent: bob });
    golden(
        "agents-answer.json",
        &AgentList {
            agents: vec![Contact {
                id: bob,
                name: "bob".parse().unwrap(),
                role: Some("reviewer".parse().unwrap()),
                last_seen: 1_796_000_000_000,
                rooms: vec![sample.room.clone()],
                dm: Some(RoomName::direct(&sample.key.id(), &bob)),
            }],
        },
    );
    let hint = RoomHint {
        room: sample.room.clone(),
        head: sample.head,
        unread: 1,
        addressed: None,
    };
    let told = RoomHint {
        addressed: Some(true),
        ..hint.clone()
    };
    golden("heads-event.json", &RoomHints { rooms: vec![hint] });
    golden("hint-event.json", &told);
    golden(
        "members-answer.json",
        &MemberList {
            room: sample.room.clone(),
            members: vec![Member {
                id: sample.key.id(),
                name: "alice".parse().unwrap(),
                role: Some("planner".parse().unwrap()),
                owner: true,
                cursor: Seq::new(41),
                last_seen: 1_796_000_000_000,
                wake: WakePath::Stream,
                status: Some("reviewing the checkout".parse().unwrap()),
                serves: false,
            }],
            requests: vec![JoinRequest {
                id: bob,
                name: "bob".parse().unwrap(),
                role: Some("reviewer".parse().unwrap()),
                since: 1_796_000_000_000,
            }],
        },
    );
    golden(
        "receipts-answer.json",
        &Receipts {
            room: sample.room.clone(),
            seq: Seq::new(42),
            stored_at: 1_796_000_000_001,
            version: "9d4a3c1f0b6e2d75".into(),
            readers: vec![
                Reader {
                    id: AgentKey::from_random([8; 32]).id(),
                    name: "bob".parse().unwrap(),
                    role: Some("reviewer".parse().unwrap()),
                    acknowledged: true,
                    fetched: Some(true),
                    fetched_at: Some(1_796_000_000_900),
                    last_seen: 1_796_000_001_000,
                    wake: WakePath::Stream,
                },
                Reader {
                    id: AgentKey::from_random([9; 32]).id(),
                    name: "carol".parse().unwrap(),
                    role: None,
                    acknowledged: false,
                    fetched: Some(false),
                    fetched_at: None,
                    last_seen: 1_795_000_000_000,
                    wake: WakePath::None,
                },
            ],
        },
    );
    golden(
        "page-answer.json",
        &Page {
            room: sample.room.clone(),
            messages: vec![stored.clone()],
            cursor: Seq::new(42),
            head: sample.head,
        },
    );
    golden(
        "posted-answer.json",
        &Posted {
            id: "01a22848-7edc-7640-a607-d7a11145b430".parse().unwrap(),
            seq: Seq::new(42),
            room: sample.room.clone(),
            head: sample.head,
        },
    );
    golden("cursor.json", &Cursor { cursor: Seq::new(42) });
    golden(
        "pushes-answer.json",
        &Pushes {
            room: sample.room.clone(),
            hub: sample.hub,
            version: Seq::new(42),
            next: None,
            drops: None,
            dropped: None,
            remade: None,
            messages: vec![stored],
            head: sample.head,
        },
    );
    let name: parler_protocol::RefName = "refs/heads/feature".parse().unwrap();
    let oid = "a".repeat(40).parse().unwrap();
    golden(
        "refs-answer.json",
        &RefList {
            room: sample.room.clone(),
            head_ref: Some(name.clone()),
            object_format: Some(ObjectFormat::Sha1),
            refs: vec![RefEntry {
                name: name.clone(),
                oid,
                seq: Seq::new(42),
            }],
        },
    );
    let wanted = WantedBundles {
        ids: vec![BundleId::of(b"# v2 git bundle\n")],
    };
    golden("bundles-request.json", &wanted);
    golden("upload-request.json", &BeginUpload { size: Some(20_000_000) });
    let upload = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
    golden(
        "upload-answer.json",
        &UploadProgress {
            upload,
            offset: 8_000_000,
            size: Some(20_000_000),
            max_bytes: 8 << 30,
            expires_at: 1_796_086_400_000,
        },
    );
    let mut problem = Problem::new(ErrorCode::UploadOffset, "the hub has 8000000 bytes of this upload");
    problem.offset = Some(8_000_000);
    golden("problem-upload-offset.json", &problem);
    let mut problem = Problem::new(ErrorCode::RefMoved, "1 ref moved meanwhile");
    problem.conflicts = vec![RefConflict {
        name,
        expected: None,
        actual: Some(oid),
    }];
    golden("problem-ref-moved.json", &problem);
    let mut problem = Problem::new(ErrorCode::Unauthenticated, "no session, or one that ended");
    problem.challenge = Some(challenge);
    golden("problem-unauthenticated.json", &problem);
}

/// The recorded messages: those read from a log, and those sent, as a hub would store them. Of a sent one the
/// recording does not always tell the author; then it is there once for each agent of the recording.
fn recorded_messages() -> Vec<Vec<Value>> {
    let text = std::fs::read_to_string(fixture("parler-frames.jsonl")).unwrap();
    let frames: Vec<Value> = text
        .lines()
        .map(|line| parse_json(line.as_bytes()).unwrap()["frame"].clone())
        .collect();
    let mut agents = BTreeMap::new();
    let mut messages = Vec::new();
    let read = |frame: &Value| {
        let many = frame["messages"].as_array().cloned().unwrap_or_default();
        many.into_iter()
            .chain(frame["message"].is_object().then(|| frame["message"].clone()))
            .collect::<Vec<_>>()
    };
    for frame in &frames {
        if frame["op"] == "hello" {
            agents.insert(
                frame["id"].to_string(),
                json!({ "id": frame["id"], "name": frame["name"] }),
            );
        }
        for message in read(frame) {
            agents.insert(message["from"]["id"].to_string(), message["from"].clone());
            messages.push(vec![message]);
        }
    }
    for frame in frames.iter().filter(|frame| frame["op"] == "send") {
        let target = &frame["target"];
        let room = target["room"].as_str().map(str::to_owned);
        let room = room.unwrap_or_else(|| format!("svc.{}", target["service"].as_str().unwrap_or("dm")));
        let by = |agent: &Value| {
            let mut message = json!({
                "seq": 1, "id": MessageId::generate(), "room": room, "from": agent, "parts": frame["parts"], "ts": 0,
            });
            for field in ["mentions", "replyTo"] {
                if !frame[field].is_null() {
                    message[field] = frame[field].clone();
                }
            }
            message
        };
        messages.push(agents.values().map(by).collect());
    }
    messages
}

#[test]
fn recorded_frames_parse_and_their_signatures_verify() {
    let hub = HubId::from_bytes([0; 16]);
    let (mut signed, mut kinds) = (0, BTreeSet::new());
    for authors in recorded_messages() {
        let texts: Vec<String> = authors.iter().map(Value::to_string).collect();
        let verdicts: Vec<_> = texts
            .iter()
            .map(|text| {
                let message = Message::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
                for (part, raw) in message.parts.iter().zip(message.raw_parts()) {
                    assert_eq!(part.to_value(), *raw, "a part changed between reading and writing");
                    kinds.insert(part.kind().to_owned());
                }
                verify(&message, &hub)
            })
            .collect();
        if verdicts.iter().all(|verdict| *verdict == Verdict::Unsigned) {
            continue;
        }
        let valid: Vec<_> = verdicts
            .iter()
            .filter(|verdict| **verdict == Verdict::ValidUnbound)
            .collect();
        assert_eq!(valid.len(), 1, "{verdicts:?}: {}", texts[0]);
        signed += 1;
        // The same message, one letter of it changed, is nobody's.
        let changed = texts.iter().filter_map(|text| {
            let at = text.find("\"text\":\"")? + "\"text\":\"".len();
            Some(format!("{}x{}", &text[..at], &text[at..]))
        });
        for text in changed {
            let message = Message::parse(text.as_bytes()).unwrap();
            assert!(matches!(verify(&message, &hub), Verdict::Invalid(_)), "{text}");
        }
    }
    assert!(signed >= 10, "only {signed} recorded signatures verified");
    for kind in [
        "text",
        "com.parler.bundle",
        "com.parler.handoff",
        "com.parler.dispatch",
        "com.parler.sig",
    ] {
        assert!(kinds.contains(kind), "no recorded part of kind {kind}");
    }
}
