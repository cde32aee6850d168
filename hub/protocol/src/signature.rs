//! Signing messages and verifying them (`com.parler.sig` and `com.parler.seen`).
//!
//! A signature shows who wrote a message, for which hub, room and moment. It is a mark for the reader, never a
//! permission to act.

use std::borrow::Cow;

use data_encoding::BASE64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::json::{write_canonical_array, write_scalar};
use crate::{
    AgentId, AgentKey, AgentName, Head, HubId, Message, MessageId, Part, RoomName, SeenPart, SigPart, canonical_json,
    part_kind,
};

/// What a message is addressed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// A room.
    Room {
        /// Its name.
        room: RoomName,
    },
    /// The room of two agents.
    Dm {
        /// The other agent.
        agent: AgentId,
    },
    /// Whoever serves.
    Service {
        /// The service's name.
        service: String,
    },
}

/// A message that is about to be signed.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The id it will have for ever.
    pub id: MessageId,
    /// Its parts, without signature.
    pub parts: Vec<Part>,
    /// Names it mentions: lowercase, without blanks at the ends, each once.
    pub mentions: Vec<String>,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
}

impl Draft {
    /// A draft of these parts with a new id.
    pub fn new(parts: Vec<Part>) -> Self {
        Self {
            id: MessageId::generate(),
            parts,
            mentions: Vec::new(),
            reply_to: None,
        }
    }
}

/// A signed message: the JSON body to post, `{id, parts, mentions?, replyTo?}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// The message's id.
    pub id: MessageId,
    /// The body.
    pub body: Vec<u8>,
}

/// What a signature is made with besides the draft.
#[derive(Debug, Clone, Copy)]
pub struct SignContext<'a> {
    /// The author's key.
    pub key: &'a AgentKey,
    /// The author's name, as the hub knows it.
    pub name: &'a AgentName,
    /// The author's role, as the hub knows it.
    pub role: Option<&'a AgentName>,
    /// The hub.
    pub hub: &'a HubId,
    /// The room, as its maker spelled it.
    pub room: &'a RoomName,
    /// What the message is addressed to.
    pub target: &'a Target,
    /// The newest head the author was told.
    pub head: &'a Head,
    /// The author's clock, milliseconds since 1970.
    pub now_ms: i64,
}

/// Signs a draft.
pub fn sign(draft: &Draft, context: &SignContext<'_>) -> Signed {
    let seen = SeenPart {
        v: 1,
        hub: *context.hub,
        room: context.room.clone(),
        id: draft.id,
        name: context.name.clone(),
        role: context.role.cloned(),
        mentions: draft.mentions.clone(),
        seq: context.head.seq,
        h: context.head.h,
    };
    let mut parts: Vec<Value> = draft.parts.iter().map(Part::to_value).collect();
    parts.push(Part::Seen(seen).to_value());
    let mut sig = SigPart {
        alg: "ed25519".to_owned(),
        sig: String::new(),
        target: context.target.clone(),
        ts: context.now_ms,
        uid: draft.id.to_string(),
        v: 1,
    };
    let signed = signed_bytes(&context.key.id(), &sig, &parts, draft.reply_to);
    sig.sig = BASE64.encode(&context.key.sign(&signed));
    parts.push(Part::Sig(sig).to_value());

    let mut body = json!({ "id": draft.id, "parts": parts });
    if !draft.mentions.is_empty() {
        body["mentions"] = json!(draft.mentions);
    }
    if let Some(reply_to) = draft.reply_to {
        body["replyTo"] = json!(reply_to);
    }
    Signed {
        id: draft.id,
        body: body.to_string().into_bytes(),
    }
}

/// The bytes under a signature: the canonical JSON of version, author, target, all parts but signatures, the message
/// answered, time and uid.
fn signed_bytes(from: &AgentId, sig: &SigPart, parts: &[Value], reply_to: Option<MessageId>) -> Vec<u8> {
    let parts: Vec<&Value> = parts.iter().filter(|part| part["kind"] != part_kind::SIG).collect();
    let mut signed = json!({
        "v": sig.v, "from": from, "target": sig.target, "parts": parts, "ts": sig.ts, "uid": sig.uid,
    });
    if let Some(reply_to) = reply_to {
        signed["replyTo"] = json!(reply_to);
    }
    canonical_json(&signed)
}

/// What a message's signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Signed by its author for this hub, room and message.
    Valid,
    /// Signed by its author for this room, but without `com.parler.seen`: another client's message, which its author
    /// or the hub could have copied here.
    ValidUnbound,
    /// Not signed.
    Unsigned,
    /// Signed, and not to be believed.
    Invalid(VerifyError),
}

impl Verdict {
    /// True only for a message bound to its place.
    pub fn is_valid(&self) -> bool {
        *self == Self::Valid
    }
}

/// Why a signed message is not to be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// The signature part is not of a known form.
    #[error("the signature is of an unknown form")]
    UnknownForm,
    /// The signature is not the author's over these parts.
    #[error("the signature does not match the message")]
    Mismatch,
    /// The author addressed something else.
    #[error("signed for another room")]
    OtherRoom,
    /// Signed for another hub, room or message, or under another name, role or mentions.
    #[error("signed with another {0}")]
    OtherPlace(&'static str),
}

/// Verifies a message's signature and that it belongs to this hub and to the room, id, name, role and mentions that
/// the message carries. Whether the name belongs to the key is the reader's to know.
pub fn verify(message: &Message, hub: &HubId) -> Verdict {
    // As in Parler Protocol the first signature counts; a second one would not be covered by it.
    let sig = match message.parts.iter().find(|part| part.kind() == part_kind::SIG) {
        None => return Verdict::Unsigned,
        Some(Part::Sig(sig)) => sig,
        Some(_) => return Verdict::Invalid(VerifyError::UnknownForm),
    };
    match verify_sig(message, sig).and_then(|()| verify_seen(message, hub)) {
        Ok(true) => Verdict::Valid,
        Ok(false) => Verdict::ValidUnbound,
        Err(error) => Verdict::Invalid(error),
    }
}

fn verify_sig(message: &Message, sig: &SigPart) -> Result<(), VerifyError> {
    if sig.alg != "ed25519" || sig.v != 1 {
        return Err(VerifyError::UnknownForm);
    }
    let signature: [u8; 64] = BASE64
        .decode(sig.sig.as_bytes())
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or(VerifyError::UnknownForm)?;
    let bytes = signed_bytes(&message.from.id, sig, message.raw_parts(), message.reply_to);
    if !message.from.id.verifies(&bytes, &signature) {
        return Err(VerifyError::Mismatch);
    }
    match &sig.target {
        Target::Room { room } if room.key() != message.room.key() => Err(VerifyError::OtherRoom),
        Target::Service { service } if message.room.key() != format!("svc.{service}").to_ascii_lowercase() => {
            Err(VerifyError::OtherRoom)
        }
        // Which two agents a dm room is of is known to its members only; `seen` names the room.
        _ => Ok(()),
    }
}

/// Whether the message says where it belongs, and says it truly.
fn verify_seen(message: &Message, hub: &HubId) -> Result<bool, VerifyError> {
    let seen = match message.parts.iter().find(|part| part.kind() == part_kind::SEEN) {
        None => return Ok(false),
        Some(Part::Seen(seen)) if seen.v == 1 => seen,
        Some(_) => return Err(VerifyError::UnknownForm),
    };
    let checks = [
        ("hub", seen.hub == *hub),
        ("room", seen.room == message.room),
        ("message id", seen.id == message.id),
        ("name", seen.name.as_str() == message.from.name),
        (
            "role",
            seen.role.as_ref().map(AgentName::as_str) == message.from.role.as_deref(),
        ),
        ("mentions", seen.mentions == message.mentions),
        ("number", seen.seq < message.seq),
    ];
    match checks.into_iter().find(|(_, holds)| !holds) {
        Some((what, _)) => Err(VerifyError::OtherPlace(what)),
        None => Ok(true),
    }
}

/// What two requests under one idempotency key must agree on: whom the message mentions, what it answers, and the parts
/// without signature and `seen`, a bundle reduced to refs, prerequisites and object format, because packing the same
/// objects again may give other bytes, and a handoff without what its author's program counted, which changes with the
/// work tree.
pub fn retry_digest(parts: &[Value], mentions: &[String], reply_to: Option<MessageId>) -> [u8; 32] {
    let own_bundles: Vec<&Value> = parts
        .iter()
        .filter(|part| part["kind"] == part_kind::BUNDLE)
        .map(|part| &part["blob"])
        .collect();
    let compared = parts
        .iter()
        .filter(|part| part["kind"] != part_kind::SIG && part["kind"] != part_kind::SEEN);
    let reduced: Vec<Cow<'_, Value>> = compared.map(|part| reduced(part, &own_bundles)).collect();
    // Keys in their canonical order. Written here, because as one value it would be a copy of the message.
    let mut canonical = Vec::with_capacity(1 << 10);
    canonical.extend_from_slice(b"{\"mentions\":");
    write_scalar(mentions, &mut canonical);
    canonical.extend_from_slice(b",\"parts\":");
    write_canonical_array(reduced.iter().map(|part| &**part), &mut canonical);
    canonical.extend_from_slice(b",\"replyTo\":");
    write_scalar(&reply_to, &mut canonical);
    canonical.push(b'}');
    Sha256::digest(&canonical).into()
}

/// What is compared of a part.
fn reduced<'a>(part: &'a Value, own_bundles: &[&Value]) -> Cow<'a, Value> {
    let reduced = match part["kind"].as_str() {
        // A bundle of another client names no refs: there its id is all there is to compare.
        Some(part_kind::BUNDLE) if !part["refs"].is_null() => json!({
            "kind": part_kind::BUNDLE,
            "refs": part["refs"],
            "prerequisites": part["prerequisites"],
            "objectFormat": part["objectFormat"],
        }),
        Some(part_kind::HANDOFF) => {
            let mut part = part.clone();
            if own_bundles.contains(&&part["bundle"]) {
                part["bundle"] = json!("own");
            }
            if let Some(part) = part.as_object_mut() {
                part.remove("work");
            }
            part
        }
        Some(part_kind::TASK) if own_bundles.contains(&&part["result"]) => {
            let mut part = part.clone();
            part["result"] = json!("own");
            part
        }
        _ => return Cow::Borrowed(part),
    };
    Cow::Owned(reduced)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BundleId, ChainHash, HandoffPart, Seq, TextPart};

    struct Place {
        key: AgentKey,
        name: AgentName,
        hub: HubId,
        room: RoomName,
    }

    impl Place {
        fn new() -> Self {
            Self {
                key: AgentKey::from_random([3; 32]),
                name: "alice".parse().unwrap(),
                hub: HubId::from_bytes([1; 16]),
                room: "build".parse().unwrap(),
            }
        }

        fn sign(&self, draft: &Draft) -> Signed {
            let head = Head {
                seq: Seq::new(4),
                h: ChainHash::start(&self.hub, &self.room),
            };
            let target = Target::Room {
                room: self.room.clone(),
            };
            sign(
                draft,
                &SignContext {
                    key: &self.key,
                    name: &self.name,
                    role: None,
                    hub: &self.hub,
                    room: &self.room,
                    target: &target,
                    head: &head,
                    now_ms: 1_796_000_000_000,
                },
            )
        }

        /// The message as a hub would store it, after `change` tampered with it.
        fn stored(&self, signed: &Signed, change: impl FnOnce(&mut Value)) -> Message {
            let mut value: Value = serde_json::from_slice(&signed.body).unwrap();
            value["seq"] = json!(5);
            value["room"] = json!("build");
            value["from"] = json!({ "id": self.key.id(), "name": "alice" });
            value["ts"] = json!(1_796_000_000_001_i64);
            change(&mut value);
            Message::parse(value.to_string().as_bytes()).unwrap()
        }
    }

    fn draft() -> Draft {
        let mut draft = Draft::new(vec![
            TextPart {
                text: "✓ é \"quoted\"".into(),
            }
            .into(),
            HandoffPart {
                next: "review".into(),
                summary: None,
                to: Some("bob".into()),
                ..HandoffPart::default()
            }
            .into(),
        ]);
        draft.mentions = vec!["bob".into()];
        draft.reply_to = Some(MessageId::generate());
        draft
    }

    #[test]
    fn a_signed_message_is_valid_where_it_belongs() {
        let place = Place::new();
        let message = place.stored(&place.sign(&draft()), |_| ());
        assert_eq!(verify(&message, &place.hub), Verdict::Valid);
        assert!(matches!(
            verify(&message, &HubId::from_bytes([2; 16])),
            Verdict::Invalid(_)
        ));
    }

    #[test]
    fn no_changed_field_stays_valid() {
        let place = Place::new();
        let signed = place.sign(&draft());
        let other = AgentKey::from_random([9; 32]).id();
        type Change = Box<dyn Fn(&mut Value)>;
        let changes: [(&str, Change); 10] = [
            ("text", Box::new(|value| value["parts"][0]["text"] = json!("other"))),
            ("next", Box::new(|value| value["parts"][1]["next"] = json!("merge"))),
            ("room", Box::new(|value| value["room"] = json!("other"))),
            ("id", Box::new(|value| value["id"] = json!(MessageId::generate()))),
            ("name", Box::new(|value| value["from"]["name"] = json!("mallory"))),
            ("role", Box::new(|value| value["from"]["role"] = json!("admin"))),
            ("author", Box::new(move |value| value["from"]["id"] = json!(other))),
            ("mentions", Box::new(|value| value["mentions"] = json!(["carol"]))),
            (
                "replyTo",
                Box::new(|value| value["replyTo"] = json!(MessageId::generate())),
            ),
            ("seq", Box::new(|value| value["seq"] = json!(4))),
        ];
        for (what, change) in changes {
            let message = place.stored(&signed, change);
            assert!(matches!(verify(&message, &place.hub), Verdict::Invalid(_)), "{what}");
        }
    }

    #[test]
    fn other_clients_and_unsigned_messages_are_told_apart() {
        let place = Place::new();
        let unsigned = place.stored(&place.sign(&draft()), |value| {
            value["parts"].as_array_mut().unwrap().pop();
        });
        assert_eq!(verify(&unsigned, &place.hub), Verdict::Unsigned);
        let garbled = place.stored(&place.sign(&draft()), |value| value["parts"][3]["sig"] = json!("?"));
        assert!(matches!(verify(&garbled, &place.hub), Verdict::Invalid(_)));
        let stripped = place.stored(&place.sign(&draft()), |value| {
            value["parts"].as_array_mut().unwrap().remove(2);
        });
        assert!(matches!(verify(&stripped, &place.hub), Verdict::Invalid(_)));
    }

    #[test]
    fn the_first_signature_counts_and_has_the_one_form() {
        let place = Place::new();
        let changed = |change: &dyn Fn(&mut Vec<Value>)| {
            let message = place.stored(&place.sign(&draft()), |value| {
                change(value["parts"].as_array_mut().unwrap())
            });
            verify(&message, &place.hub)
        };
        let unknown = Verdict::Invalid(VerifyError::UnknownForm);
        for (field, value) in [
            ("alg", json!("rsa")),
            ("alg", json!("Ed25519")),
            ("v", json!(2)),
            ("sig", json!("AAAA")),
        ] {
            assert_eq!(changed(&|parts| parts[3][field] = value.clone()), unknown, "{field}");
        }
        let second = |parts: &[Value]| {
            let mut sig = parts[3].clone();
            sig["sig"] = json!(BASE64.encode(&[7; 64]));
            sig
        };
        // What stands behind it says nothing, and what stands before it does not stand for it.
        assert_eq!(changed(&|parts| parts.push(second(parts))), Verdict::Valid);
        let mismatch = Verdict::Invalid(VerifyError::Mismatch);
        assert_eq!(changed(&|parts| parts.insert(0, second(parts))), mismatch);
    }

    /// Hubs have stored it, and compare it with what comes.
    #[test]
    fn a_retry_digest_is_that_of_the_canonical_json() {
        let parts = [
            json!({ "text": "é \" \u{1}", "kind": "text" }),
            json!({ "kind": "data", "data": { "b": [1.5, null], "a": {} } }),
            json!({ "kind": part_kind::SIG }),
        ];
        let mentions = ["bob".to_owned(), "\"".to_owned()];
        for reply_to in [None, Some(MessageId::generate())] {
            let compared = json!({ "parts": parts[..2], "mentions": mentions, "replyTo": reply_to });
            let whole: [u8; 32] = Sha256::digest(canonical_json(&compared)).into();
            assert_eq!(retry_digest(&parts, &mentions, reply_to), whole);
        }
    }

    #[test]
    fn packing_again_is_the_same_request_and_other_refs_are_not() {
        let parts = |bundle: &[u8], oid: char| {
            let id = BundleId::of(bundle);
            let oid = oid.to_string().repeat(40);
            vec![
                json!({"kind": "com.parler.bundle", "blob": id, "vcs": "git", "size": bundle.len(),
                       "refs": [{"name": "refs/heads/x", "oid": oid}]}),
                json!({"kind": "com.parler.handoff", "next": "review", "bundle": id}),
                json!({"kind": "com.parler.sig", "sig": id}),
            ]
        };
        let digest = |parts: &[Value]| retry_digest(parts, &[], None);
        assert_eq!(digest(&parts(b"one", 'a')), digest(&parts(b"two", 'a')));
        assert_ne!(digest(&parts(b"one", 'a')), digest(&parts(b"one", 'b')));
        // Nor is a result that was packed again, or another word on the work tree; another instruction is.
        let with = |bundle: &[u8], part: Value| {
            let mut parts = parts(bundle, 'a');
            parts.push(part);
            digest(&parts)
        };
        let result =
            |bundle: &[u8]| json!({"kind": "com.parler.task", "status": "done", "result": BundleId::of(bundle)});
        assert_eq!(with(b"one", result(b"one")), with(b"two", result(b"two")));
        assert_ne!(with(b"one", result(b"one")), with(b"one", result(b"two")));
        let next =
            |next: &str, dirty: bool| json!({"kind": "com.parler.handoff", "next": next, "work": {"dirty": dirty}});
        assert_eq!(with(b"one", next("x", true)), with(b"one", next("x", false)));
        assert_ne!(with(b"one", next("x", true)), with(b"one", next("y", true)));
        let one = parts(b"one", 'a');
        assert_ne!(retry_digest(&one, &["bob".into()], None), digest(&one));
        assert_ne!(retry_digest(&one, &[], Some(MessageId::generate())), digest(&one));
    }
}
