//! A message as somebody posts it, read and judged before anything is stored. Never changes a part: what is stored is
//! what came, byte for byte.

use std::collections::HashSet;

use bytes::Bytes;
use parler_protocol::api::{PostMessage, RoomAnswer};
use parler_protocol::{
    AgentId, BundleId, BundlePart, DispatchPart, ErrorCode, Fence, HubId, Message, MessageId, ObjectFormat, Oid, Part,
    RefName, RefUpdate, RefsPart, RoomName, ServiceName, TaskStatus, Verdict, limits, parse_json, part_kind,
    retry_digest, verify,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message_parts::{blob_references, bundles_built_on, carries_git};
use crate::problem::Refusal;
use crate::store::{Append, NewBlob, Principal, QueueWord};

/// Longest name a message may mention, and longest kind of a part.
const MAX_LABEL_BYTES: usize = limits::MAX_AGENT_NAME_BYTES;

/// What a request's headers say of the message it posts.
#[derive(Debug)]
pub(crate) struct PostHeaders {
    /// The idempotency key. None: the message's id.
    pub(crate) key: Option<String>,
    /// The key of a token's job.
    pub(crate) signed_by: Option<AgentId>,
    /// The claim of a service's job that it speaks of.
    pub(crate) fence: Option<Fence>,
}

/// A posted message of the documented form.
#[derive(Debug)]
pub(crate) struct PostedMessage {
    id: MessageId,
    /// One JSON array of the parts as they came.
    raw_parts: String,
    parts: Vec<Part>,
    digest: [u8; 32],
    mentions: Vec<String>,
    reply_to: Option<MessageId>,
}

impl PostedMessage {
    /// Reads a message, strictly.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let bad = |error: serde_json::Error| Refusal::bad_request(error.to_string());
        // Read whole first: a borrowed part is not looked into, and must not hide a key that comes twice.
        let whole = parse_json(body).map_err(|error| Refusal::bad_request(error.to_string()))?;
        let Value::Object(mut whole) = whole else {
            return Err(Refusal::bad_request("a message is a JSON object"));
        };
        let posted: PostMessage<'_> = serde_json::from_slice(body).map_err(bad)?;
        if posted.parts.is_empty() {
            return Err(Refusal::bad_request("a message has at least one part"));
        }
        if posted.parts.len() > limits::MAX_PARTS {
            return Err(Refusal::too_large("parts are", limits::MAX_PARTS as u64));
        }
        check_mentions(&posted.mentions)?;

        // The same parts, read above.
        let Some(Value::Array(values)) = whole.remove("parts") else {
            return Err(Refusal::bad_request("a message has at least one part"));
        };
        let raw_parts = joined(&posted.parts);
        let digest = retry_digest(&values, &posted.mentions, posted.reply_to);
        let parts: Vec<Part> = values.iter().map(Part::from_value).collect();
        for (part, value) in parts.iter().zip(&values) {
            check_part(part)?;
            if part_is_git(part) && !has_named_fields(value) {
                return Err(Refusal::bad_request(format!(
                    "the {} part is not of the documented form",
                    part.kind()
                )));
            }
        }
        let refs: Vec<_> = parts.iter().filter(|part| matches!(part, Part::Refs(_))).collect();
        if refs.len() > 1 {
            return Err(Refusal::bad_request("a message has at most one com.parler.refs part"));
        }
        Ok(Self {
            id: posted.id,
            raw_parts,
            parts,
            digest,
            mentions: posted.mentions,
            reply_to: posted.reply_to,
        })
    }

    /// Names it in its room.
    pub(crate) fn id(&self) -> MessageId {
        self.id
    }

    /// Whether it carries refs or a bundle.
    pub(crate) fn is_push(&self) -> bool {
        carries_git(&self.parts)
    }

    /// Whether it is a job for a service.
    pub(crate) fn is_dispatch(&self) -> bool {
        self.dispatch().is_some()
    }

    /// The blob that it brings: the one that a bundle or file part says is exactly this long.
    pub(crate) fn blob_of_size(&self, size: u64) -> Result<BundleId, Refusal> {
        let sized: HashSet<BundleId> = self
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Bundle(part) => Some((part.blob, part.size)),
                Part::File(part) => Some((part.blob, part.size)),
                _ => None,
            })
            .filter(|(_, named)| *named == size)
            .map(|(blob, _)| blob)
            .collect();
        let mut sized = sized.into_iter();
        match (sized.next(), sized.next()) {
            (Some(blob), None) => Ok(blob),
            (None, _) => Err(Refusal::new(
                ErrorCode::BlobMismatch,
                format!("{size} bytes follow the message, and no bundle or file part is of that size"),
            )),
            (Some(_), Some(_)) => Err(Refusal::bad_request(format!("several parts are of {size} bytes"))),
        }
    }

    /// Checks that the message is signed by its author, or by `signed_by` in the author's name, for this hub, room and
    /// moment.
    pub(crate) fn check_signature(
        &self,
        hub: &HubId,
        room: &RoomAnswer,
        by: &Principal,
        signed_by: Option<AgentId>,
        now: i64,
    ) -> Result<(), Refusal> {
        // The message as it would be stored: `verify` looks at it the way every reader will.
        let stored = serde_json::to_vec(&WouldBeStored {
            seq: room.head.seq.next().get(),
            id: self.id,
            room: room.room.as_str(),
            from: From {
                id: signed_by.unwrap_or(by.agent).to_string(),
                name: by.name.as_str(),
                role: by.role.as_ref().map(|role| role.as_str()),
            },
            parts: serde_json::from_str(&self.raw_parts).map_err(Refusal::internal)?,
            mentions: &self.mentions,
            reply_to: self.reply_to,
            ts: now,
        })
        .map_err(Refusal::internal)?;
        let message = Message::parse(&stored).map_err(|error| Refusal::bad_request(error.to_string()))?;
        let why = match verify(&message, hub) {
            Verdict::Valid => return Ok(()),
            Verdict::ValidUnbound => "it has no com.parler.seen part".to_owned(),
            Verdict::Unsigned => "it is not signed".to_owned(),
            Verdict::Invalid(error) => error.to_string(),
        };
        Err(Refusal::new(
            ErrorCode::BadSignature,
            format!("a message with refs or a bundle, or by a token, must be signed: {why}"),
        ))
    }

    /// What it dispatches, where it is a job.
    fn dispatch(&self) -> Option<&DispatchPart> {
        self.parts.iter().find_map(|part| match part {
            Part::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        })
    }

    /// What it says became of which messages: those that its parts name, or the one that it answers.
    fn receipts(&self) -> Vec<(MessageId, TaskStatus)> {
        let receipts = self.parts.iter().filter_map(|part| match part {
            Part::Task(task) => Some((task.about(self.reply_to)?, task.status)),
            _ => None,
        });
        receipts.collect()
    }

    /// Whether it is a job of this service, or says what became of one. Refuses what is not of the form that every reader
    /// understands, and a job that is for another service, or that comes back to one that it is for.
    pub(crate) fn check_for(&self, service: &ServiceName) -> Result<bool, Refusal> {
        let kinds: Vec<_> = self.parts.iter().map(Part::kind).collect();
        let named = |kind| kinds.iter().filter(|named| **named == kind).count();
        // Each names its message: one that the hub cannot read could be a word about a job to others.
        if self.receipts().len() != named(part_kind::TASK) {
            return Err(Refusal::bad_request(
                "a com.parler.task part is of the documented form here, and task the id of a message",
            ));
        }
        if named(part_kind::DISPATCH) == 0 {
            return Ok(named(part_kind::TASK) > 0);
        }
        let Some(dispatch) = self.dispatch().filter(|_| named(part_kind::DISPATCH) == 1) else {
            return Err(Refusal::bad_request(
                "a job has one com.parler.dispatch part, of the documented form",
            ));
        };
        let is_this = |name: &str| name.parse().is_ok_and(|named: ServiceName| named == *service);
        if !is_this(&dispatch.role) {
            return Err(Refusal::bad_request(format!("the job's role is not {service}")));
        }
        if dispatch.chain.len() > limits::MAX_JOB_DEPTH as usize {
            let most = limits::MAX_JOB_DEPTH;
            return Err(Refusal::bad_request(format!(
                "more than {most} jobs stand above this one"
            )));
        }
        let mut seen = HashSet::from([service]);
        if let Some(twice) = dispatch.chain.iter().find(|name| !seen.insert(name)) {
            return Err(Refusal::bad_request(format!(
                "the job comes back to {twice}, which already works on what it is for"
            )));
        }
        let cause = dispatch.caused_by.as_ref().map(|cause| cause.room.key());
        if cause != dispatch.chain.last().map(|last| last.room().key()) {
            return Err(Refusal::bad_request(
                "causedBy is a job of the last service of the chain",
            ));
        }
        Ok(true)
    }

    /// The transaction that stores it.
    pub(crate) fn into_append(
        self,
        by: Principal,
        room: RoomName,
        headers: PostHeaders,
        blob: Option<NewBlob>,
        now: i64,
    ) -> Append {
        let is_push = self.is_push();
        let refers_to = blob_references(&self.parts);
        let builds_on = bundles_built_on(&self.parts);
        let queue = QueueWord {
            is_job: self.is_dispatch(),
            receipts: self.receipts(),
            fence: headers.fence,
        };
        let refs = self.parts.into_iter().find_map(|part| match part {
            Part::Refs(refs) => Some(refs),
            _ => None,
        });
        Append {
            by,
            signed_by: headers.signed_by,
            room,
            id: self.id,
            key: headers.key.unwrap_or_else(|| self.id.to_string()),
            digest: self.digest,
            parts: Bytes::from(self.raw_parts),
            mentions: self.mentions,
            reply_to: self.reply_to,
            refs,
            is_push,
            refers_to,
            builds_on,
            blob,
            queue,
            now,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WouldBeStored<'a> {
    seq: u64,
    id: MessageId,
    room: &'a str,
    from: From<'a>,
    parts: &'a RawValue,
    mentions: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_to: Option<MessageId>,
    ts: i64,
}

#[derive(Serialize)]
struct From<'a> {
    id: String,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
}

/// One JSON array of these.
fn joined(parts: &[&RawValue]) -> String {
    let length: usize = parts.iter().map(|part| part.get().len() + 1).sum();
    let mut array = String::with_capacity(1 + length);
    for part in parts {
        array.push(if array.is_empty() { '[' } else { ',' });
        array.push_str(part.get());
    }
    array.push(']');
    array
}

fn check_mentions(mentions: &[String]) -> Result<(), Refusal> {
    if mentions.len() > limits::MAX_MENTIONS {
        return Err(Refusal::too_large("mentions are", limits::MAX_MENTIONS as u64));
    }
    let mut seen = HashSet::new();
    for mention in mentions {
        let is_normal = !mention.is_empty() && mention.trim() == mention && mention.to_lowercase() == *mention;
        if !is_normal || mention.len() > MAX_LABEL_BYTES || !seen.insert(mention) {
            return Err(Refusal::bad_request(
                "mentions are lowercase, without blanks at the ends, at most 128 bytes, and each once",
            ));
        }
    }
    Ok(())
}

fn check_part(part: &Part) -> Result<(), Refusal> {
    match part {
        Part::Refs(refs) => check_refs(refs),
        Part::Bundle(bundle) => check_bundle(bundle),
        Part::Other(_) if matches!(part.kind(), part_kind::REFS | part_kind::BUNDLE) => Err(Refusal::bad_request(
            format!("the {} part is not of the documented form", part.kind()),
        )),
        Part::Other(_) if !is_known_form(part.kind()) => Err(Refusal::bad_request(
            "a part is an object whose kind is text, data or a reverse-DNS name such as com.example.thing",
        )),
        _ => Ok(()),
    }
}

/// `text`, `data`, or at least two labels of letters, digits and `-` with dots between.
fn is_known_form(kind: &str) -> bool {
    let is_label =
        |label: &str| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    matches!(kind, part_kind::TEXT | part_kind::DATA)
        || (kind.len() <= MAX_LABEL_BYTES && kind.contains('.') && kind.split('.').all(is_label))
}

fn part_is_git(part: &Part) -> bool {
    matches!(part, Part::Refs(_) | Part::Bundle(_))
}

/// Whether what a part with refs or a bundle consists of are objects. serde would take lists of their fields as well,
/// which no other reader expects.
fn has_named_fields(part: &Value) -> bool {
    let listed = ["updates", "refs"]
        .into_iter()
        .filter_map(|list| part.get(list)?.as_array());
    listed.flatten().all(Value::is_object)
        && part
            .get("baseHint")
            .is_none_or(|hint| hint.is_object() || hint.is_null())
}

fn check_refs(refs: &RefsPart) -> Result<(), Refusal> {
    if refs.updates.is_empty() && refs.head.is_none() {
        return Err(Refusal::bad_request("a com.parler.refs part changes a ref or the head"));
    }
    if refs.updates.len() > limits::MAX_REF_UPDATES {
        return Err(Refusal::too_large("ref updates are", limits::MAX_REF_UPDATES as u64));
    }
    let mut names: HashSet<&RefName> = HashSet::new();
    for update in &refs.updates {
        let RefUpdate {
            name, old, new, peeled, ..
        } = update;
        if !names.insert(name) {
            return Err(Refusal::bad_request(format!("{name} is updated twice")));
        }
        if old.is_none() && new.is_none() {
            return Err(Refusal::bad_request(format!(
                "the update of {name} has neither old nor new"
            )));
        }
        check_oids([old, new, peeled].into_iter().flatten(), refs.object_format)?;
    }
    Ok(())
}

fn check_bundle(bundle: &BundlePart) -> Result<(), Refusal> {
    if bundle.vcs != "git" {
        return Err(Refusal::bad_request("a com.parler.bundle part's vcs is git"));
    }
    if bundle.refs.len() > limits::MAX_REF_UPDATES {
        return Err(Refusal::too_large(
            "a bundle's refs are",
            limits::MAX_REF_UPDATES as u64,
        ));
    }
    if bundle.prerequisites.len() > limits::MAX_PREREQUISITES {
        return Err(Refusal::too_large(
            "a bundle's prerequisites are",
            limits::MAX_PREREQUISITES as u64,
        ));
    }
    if bundle.needs.len() > limits::MAX_NEEDS {
        return Err(Refusal::too_large("a bundle's needs are", limits::MAX_NEEDS as u64));
    }
    let mut oids = bundle.refs.iter().map(|entry| &entry.oid).chain(&bundle.prerequisites);
    match bundle.object_format.or_else(|| oids.clone().next().map(Oid::format)) {
        Some(format) => check_oids(&mut oids, format),
        None => Ok(()),
    }
}

fn check_oids<'a>(oids: impl IntoIterator<Item = &'a Oid>, format: ObjectFormat) -> Result<(), Refusal> {
    for oid in oids {
        if oid.is_null() {
            return Err(Refusal::bad_request(
                "the null oid names no object; leave it out or use null",
            ));
        }
        if oid.format() != format {
            return Err(Refusal::bad_request(format!("{oid} is not a {format} object id")));
        }
    }
    Ok(())
}
