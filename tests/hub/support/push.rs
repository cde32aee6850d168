//! Messages to post: plain texts, and pushes that are signed as a client signs them.

use parler_protocol::api::RoomAnswer;
use parler_protocol::{
    BundleId, BundlePart, BundleRef, Draft, Head, MessageId, ObjectFormat, Oid, Part, RefName, RefUpdate, RefsPart,
    SignContext, Signed, Target, sign,
};
use serde_json::{Value, json};

use super::Agent;

/// The body of an unsigned text.
pub(crate) fn text_message(text: &str) -> Value {
    json!({ "id": MessageId::generate(), "parts": [{ "kind": "text", "text": text }] })
}

/// The SHA-1 object id made of one digit.
pub(crate) fn oid(digit: char) -> Oid {
    digit.to_string().repeat(40).parse().unwrap()
}

/// A push being put together.
pub(crate) struct Push {
    updates: Vec<RefUpdate>,
    head: Option<RefName>,
    format: ObjectFormat,
    bundle: Option<BundlePart>,
    others: Vec<Part>,
}

impl Push {
    pub(crate) fn new() -> Self {
        Self {
            updates: Vec::new(),
            head: None,
            format: ObjectFormat::Sha1,
            bundle: None,
            others: Vec::new(),
        }
    }

    /// Moves a branch.
    pub(crate) fn branch(self, name: &str, old: Option<Oid>, new: Option<Oid>) -> Self {
        self.moving(&format!("refs/heads/{name}"), old, new)
    }

    /// Moves a ref.
    pub(crate) fn moving(mut self, name: &str, old: Option<Oid>, new: Option<Oid>) -> Self {
        let name = name.parse().unwrap();
        self.updates.push(RefUpdate {
            name,
            old,
            new,
            forced: false,
            peeled: None,
        });
        self
    }

    pub(crate) fn head(mut self, branch: &str) -> Self {
        self.head = Some(format!("refs/heads/{branch}").parse().unwrap());
        self
    }

    pub(crate) fn format(mut self, format: ObjectFormat) -> Self {
        self.format = format;
        self
    }

    /// Says that these bytes are the bundle.
    pub(crate) fn bundle(self, bytes: &[u8]) -> Self {
        self.bundle_called(BundleId::of(bytes), bytes.len() as u64)
    }

    /// Says something of a bundle that need not be true.
    pub(crate) fn bundle_called(mut self, blob: BundleId, size: u64) -> Self {
        let tips = self
            .updates
            .iter()
            .filter_map(|update| Some((update.name.to_string(), update.new?)));
        self.bundle = Some(BundlePart {
            blob,
            vcs: "git".to_owned(),
            size,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: tips
                .map(|(name, oid)| BundleRef {
                    name: name.parse().unwrap(),
                    oid,
                })
                .collect(),
            prerequisites: Vec::new(),
            object_format: Some(self.format),
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        });
        self
    }

    /// What the bundle expects, and the bundles that hold it.
    pub(crate) fn upon(mut self, prerequisites: &[Oid], needs: &[BundleId]) -> Self {
        let bundle = self.bundle.as_mut().unwrap();
        bundle.prerequisites = prerequisites.to_vec();
        bundle.needs = needs.to_vec();
        self
    }

    pub(crate) fn part(mut self, part: impl Into<Part>) -> Self {
        self.others.push(part.into());
        self
    }

    /// Signs it as `agent` would in this room.
    pub(crate) fn sign(self, agent: &Agent, room: &RoomAnswer) -> Signed {
        self.sign_at(agent, room, &room.head)
    }

    /// Signs it as having seen `head`.
    pub(crate) fn sign_at(self, agent: &Agent, room: &RoomAnswer, head: &Head) -> Signed {
        let mut parts = self.others;
        parts.extend(self.bundle.map(Part::from));
        if !self.updates.is_empty() || self.head.is_some() {
            let refs = RefsPart {
                updates: self.updates,
                atomic: false,
                object_format: self.format,
                head: self.head,
                base_hint: None,
            };
            parts.push(refs.into());
        }
        let target = Target::Room {
            room: room.room.clone(),
        };
        let context = SignContext {
            key: &agent.key,
            name: &agent.name,
            role: agent.role.as_ref(),
            hub: &agent.hub,
            room: &room.room,
            target: &target,
            head,
            now_ms: 1_796_000_000_000,
        };
        sign(&Draft::new(parts), &context)
    }
}
