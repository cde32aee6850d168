//! The parts a message is made of. Unknown kinds, and known ones of a form this program does not understand, are
//! kept as they came; nothing here decides what a part may do.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AgentName, BundleId, ChainHash, HubId, MessageId, ObjectFormat, Oid, ParseError, RefName, ReviewPart, RoomName,
    Seq, ServiceName, Target, limits, serde_as_string,
};

/// The `kind` strings of Parler's vocabulary.
pub mod part_kind {
    /// Plain text.
    pub const TEXT: &str = "text";
    /// Any JSON.
    pub const DATA: &str = "data";
    /// The next action, for somebody or for anybody.
    pub const HANDOFF: &str = "com.parler.handoff";
    /// A git bundle.
    pub const BUNDLE: &str = "com.parler.bundle";
    /// Ref changes.
    pub const REFS: &str = "com.parler.refs";
    /// A file.
    pub const FILE: &str = "com.parler.file";
    /// What became of a task.
    pub const TASK: &str = "com.parler.task";
    /// The status of a commit, and what was found in it.
    pub const REVIEW: &str = "com.parler.review";
    /// A job for a service.
    pub const DISPATCH: &str = "com.parler.dispatch";
    /// What the sender saw when it signed.
    pub const SEEN: &str = "com.parler.seen";
    /// The sender's signature.
    pub const SIG: &str = "com.parler.sig";
}

/// The media type of a git bundle.
pub const BUNDLE_MEDIA_TYPE: &str = "application/x-git-bundle";

macro_rules! parts {
    ($( $(#[doc = $doc:literal])+ $variant:ident($type:ty) = $kind:path ;)+) => {
        /// One part of a message, by its `kind`.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Part {
            $( $(#[doc = $doc])+ $variant($type), )+
            /// A kind this program does not know, or a known kind of an unknown form. Kept verbatim.
            Other(Value),
        }

        impl Part {
            /// Reads one element of a message's `parts`. Never fails: what is not understood is [`Part::Other`].
            pub fn from_value(value: &Value) -> Self {
                let read = match value.get("kind").and_then(Value::as_str) {
                    $( Some($kind) => <$type>::deserialize(value).ok().map(Self::$variant), )+
                    _ => None,
                };
                read.unwrap_or_else(|| Self::Other(value.clone()))
            }

            /// The part's JSON, `kind` included.
            pub fn to_value(&self) -> Value {
                let (kind, body) = match self {
                    $( Self::$variant(part) => ($kind, serde_json::to_value(part)), )+
                    Self::Other(value) => return value.clone(),
                };
                let mut body = body.expect("a part is made of strings, numbers and lists of them");
                body["kind"] = kind.into();
                body
            }

            /// The part's `kind`, or an empty string where there is none.
            pub fn kind(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $kind, )+
                    Self::Other(value) => value.get("kind").and_then(Value::as_str).unwrap_or_default(),
                }
            }
        }

        impl JsonSchema for Part {
            fn schema_name() -> Cow<'static, str> {
                "Part".into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                Self::any(vec![$( ($kind, generator.subschema_for::<$type>()), )+])
            }
        }

        $( impl From<$type> for Part {
            fn from(part: $type) -> Self { Self::$variant(part) }
        } )+
    };
}

parts! {
    /// Plain text.
    Text(TextPart) = part_kind::TEXT;
    /// The next action.
    Handoff(HandoffPart) = part_kind::HANDOFF;
    /// A git bundle.
    Bundle(BundlePart) = part_kind::BUNDLE;
    /// Ref changes.
    Refs(RefsPart) = part_kind::REFS;
    /// A file.
    File(FilePart) = part_kind::FILE;
    /// What became of a task.
    Task(TaskPart) = part_kind::TASK;
    /// The status of a commit.
    Review(ReviewPart) = part_kind::REVIEW;
    /// A job for a service.
    Dispatch(DispatchPart) = part_kind::DISPATCH;
    /// What the sender saw.
    Seen(SeenPart) = part_kind::SEEN;
    /// The signature.
    Sig(SigPart) = part_kind::SIG;
}

/// Plain text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextPart {
    /// The text, as its sender wrote it: escape it before it reaches a terminal.
    pub text: String,
}

/// The next action, handed to somebody or to anybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandoffPart {
    /// What to do next.
    pub next: String,
    /// What has been done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Agent name or role, without case; absent: for anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The bundle that goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle: Option<BundleId>,
    /// The number of an earlier handoff in this room, of the same key, which this one takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revises: Option<Seq>,
    /// What its author's program found in git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// For how many seconds it leads whom it is for ([`Message::until`](crate::Message::until)); absent: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<NonZeroU32>,
}

/// What a handoff brings, as its author's program counted it in git: facts where the rest of a handoff is prose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Commits that the receiver does not have from elsewhere.
    pub commits: u64,
    /// Files that differ from the base.
    pub files: u64,
    /// Lines added to the base.
    pub insertions: u64,
    /// Lines taken away from it.
    pub deletions: u64,
    /// For people: what it was compared with, such as `origin/main`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Whether the author's work tree had changes that are not committed. Absent where there is no work tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty: Option<bool>,
}

/// A ref's name inside a bundle: a room's ref, or `HEAD` as `git bundle create` writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BundleRefName {
    /// `HEAD`
    Head,
    /// A full ref name.
    Ref(RefName),
}

impl fmt::Display for BundleRefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Head => f.write_str("HEAD"),
            Self::Ref(name) => name.fmt(f),
        }
    }
}

impl FromStr for BundleRefName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text == "HEAD" {
            Ok(Self::Head)
        } else {
            text.parse().map(Self::Ref)
        }
    }
}

serde_as_string!(BundleRefName);

/// A ref of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BundleRef {
    /// Its name in the bundle's header.
    pub name: BundleRefName,
    /// What it points at: a commit, or an annotated tag.
    pub oid: Oid,
}

/// Where a receiver gets commits that a thin bundle expects and the room does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaseHint {
    /// The branch the base was on: `refs/heads/main`.
    #[serde(rename = "ref")]
    pub name: RefName,
    /// The remote's URL without credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// A git bundle. Bundles of other clients have only the fields that are not optional or empty here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundlePart {
    /// SHA-256 of the bundle's bytes.
    pub blob: BundleId,
    /// Always `git`.
    #[schemars(extend("const" = "git"))]
    pub vcs: String,
    /// Bytes of the bundle.
    pub size: u64,
    /// `application/x-git-bundle`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What the first ref points at: `HEAD`, where the bundle has it. Other clients may write anything here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// For people: what the bundle was made against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// For people: the newest commit's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The refs of the bundle's header, exactly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_REF_UPDATES))]
    pub refs: Vec<BundleRef>,
    /// The prerequisites of the bundle's header, exactly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_PREREQUISITES))]
    pub prerequisites: Vec<Oid>,
    /// The hash of the repository it was made in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_format: Option<ObjectFormat>,
    /// New commits in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<u64>,
    /// Objects in its pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<u64>,
    /// Bundles of this room that hold prerequisites. A hint: may be incomplete or wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_NEEDS))]
    pub needs: Vec<BundleId>,
    /// Where prerequisites that no bundle of this room holds come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_hint: Option<BaseHint>,
}

impl BundlePart {
    /// Its refs, without a `HEAD` that only says which of the others its author had checked out.
    pub fn named_refs(&self) -> impl Iterator<Item = &BundleRef> {
        let is_head = |tip: &BundleRef| tip.name == BundleRefName::Head;
        self.refs.iter().filter(move |tip| {
            let mut others = self.refs.iter().filter(|other| !is_head(other));
            !is_head(tip) || !others.any(|other| other.oid == tip.oid)
        })
    }
}

/// The change of one ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefUpdate {
    /// The ref.
    pub name: RefName,
    /// Where the sender saw it; `null`: it must not exist.
    pub old: Option<Oid>,
    /// Where it goes; `null`: it is deleted.
    pub new: Option<Oid>,
    /// The sender's word that it meant to move the ref although `new` does not contain `old`.
    #[serde(default)]
    pub forced: bool,
    /// The commit behind `new` where that is an annotated tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peeled: Option<Oid>,
}

/// Ref changes of one push: all of them happen, or none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefsPart {
    /// The changes, at most one for a ref.
    #[schemars(length(max = limits::MAX_REF_UPDATES))]
    pub updates: Vec<RefUpdate>,
    /// Whether the sender asked for all or nothing.
    #[serde(default)]
    pub atomic: bool,
    /// The hash of the sender's repository; a room keeps that of its first push.
    pub object_format: ObjectFormat,
    /// What HEAD is to point at from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<RefName>,
    /// Where the commits come from when no bundle of the room holds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_hint: Option<BaseHint>,
}

impl RefsPart {
    /// What HEAD becomes by a room's first branches when their author did not say: main, master, or the first. Hub and
    /// readers must agree on it, for it is in no message.
    pub fn first_head(updates: &[RefUpdate]) -> Option<&RefName> {
        let mut branches = updates
            .iter()
            .filter(|update| update.new.is_some())
            .map(|update| &update.name)
            .filter(|name| name.branch().is_some());
        let named = |branch| branches.clone().find(|name| name.branch() == Some(branch));
        named("main").or_else(|| named("master")).or_else(|| branches.next())
    }
}

/// A file among the room's blobs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePart {
    /// SHA-256 of its bytes.
    pub blob: BundleId,
    /// What its sender calls it. Never a path of the receiver.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskStatus {
    /// Somebody took it.
    Accepted,
    /// In work.
    Working,
    /// Waiting for an answer.
    Awaiting,
    /// Finished.
    Done,
    /// Given up.
    Failed,
    /// Called off.
    Cancelled,
    /// Turned down.
    Declined,
}

impl TaskStatus {
    /// Its word on the wire, and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Working => "working",
            Self::Awaiting => "awaiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Declined => "declined",
        }
    }
}

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskPart {
    /// How it stands.
    pub status: TaskStatus,
    /// Which task. The id of a handoff's message, where it is the receipt of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The blob with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BundleId>,
    /// Model tokens spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Milliseconds spent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_ms: Option<u64>,
}

impl TaskPart {
    /// The message that it speaks of: the one that it names, or the one that its own message answers.
    pub fn about(&self, reply_to: Option<MessageId>) -> Option<MessageId> {
        match &self.task {
            Some(task) => task.parse().ok(),
            None => reply_to,
        }
    }
}

/// A job for whoever serves this role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DispatchPart {
    /// The role: the service's name.
    pub role: String,
    /// The job on which its sender works, where this one is for that.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "with_named_fields"
    )]
    pub caused_by: Option<Cause>,
    /// The services whose jobs stand above this one, the first of them first. None of them is there twice, nor this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_JOB_DEPTH))]
    pub chain: Vec<ServiceName>,
}

/// An object, or null. serde would take a list of the fields as well, which no other reader expects.
fn with_named_fields<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: serde::de::DeserializeOwned,
    D: serde::Deserializer<'de>,
{
    let value = Option::<serde_json::Map<String, Value>>::deserialize(deserializer)?;
    let read = value.map(|fields| T::deserialize(Value::Object(fields)));
    read.transpose().map_err(serde::de::Error::custom)
}

/// A job that another one is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// The room it is in: that of the last service of the chain.
    pub room: RoomName,
    /// Its number there.
    pub seq: Seq,
}

/// What the sender saw and was when it signed: it ties the signature to one hub, room, message and name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenPart {
    /// 1.
    pub v: u32,
    /// The hub.
    pub hub: HubId,
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// The message's own id.
    pub id: MessageId,
    /// The sender's name.
    pub name: AgentName,
    /// The sender's role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
    /// The message's mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// The newest message the sender was told of.
    pub seq: Seq,
    /// The chain there.
    pub h: ChainHash,
}

/// The sender's signature over all other parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SigPart {
    /// `ed25519`.
    pub alg: String,
    /// The signature, standard base64 with padding.
    pub sig: String,
    /// What the sender addressed.
    pub target: Target,
    /// When it signed, milliseconds since 1970 by its own clock.
    pub ts: i64,
    /// Unique for this signature.
    pub uid: String,
    /// 1.
    pub v: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rooms_first_head_is_a_branch_that_exists() {
        let head = |names: &[(&str, bool)]| {
            let update = |(name, made): &(&str, bool)| RefUpdate {
                name: name.parse().unwrap(),
                old: (!made).then(|| "a".repeat(40).parse().unwrap()),
                new: made.then(|| "b".repeat(40).parse().unwrap()),
                forced: false,
                peeled: None,
            };
            let updates: Vec<_> = names.iter().map(update).collect();
            RefsPart::first_head(&updates).map(ToString::to_string)
        };
        let (a, main, master) = ("refs/heads/a", "refs/heads/main", "refs/heads/master");
        for (names, expected) in [
            (&[(a, true), (master, true), (main, true)][..], Some(main)),
            (&[(a, true), (master, true), (main, false)], Some(master)),
            (&[("refs/tags/main", true), (a, true), ("refs/heads/b", true)], Some(a)),
            (&[("refs/heads/x/main", true)], Some("refs/heads/x/main")),
            (&[("refs/tags/main", true), (main, false)], None),
        ] {
            assert_eq!(head(names).as_deref(), expected, "{names:?}");
        }
    }
}
