//! Requests and answers of the hub, call by call. `docs/protocol.md` shows each with curl.

mod joining;
mod services;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    AgentId, AgentName, BundleId, Challenge, DroppedMessage, Head, HubId, InviteCode, Message, MessageId, ObjectFormat,
    Oid, Part, RefName, RoomKind, RoomName, Seq, StatusText, TokenName, TokenScope, UploadId, limits,
};

pub use joining::{
    ChangeMember, CreateInvite, InviteCreated, InviteList, InvitesRevoked, Join, JoinPending, JoinRequest, Joined,
    OpenInvite,
};
pub use services::{
    ClaimJob, ClaimRenewed, ClaimedJob, JobFilter, JobList, JobState, JobSummary, Party, RenewClaim, Serve,
};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `POST /v1/session`: proves a key. Without `challenge` and `sig` the answer is a 401 with a challenge. Holds secrets, so
/// it has no `Debug`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct OpenSession {
    /// The agent's key.
    pub id: AgentId,
    /// What it is called from now on.
    pub name: AgentName,
    /// Its role from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
    /// The challenge answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<Challenge>,
    /// Signature over [`crate::session_proof_bytes`], standard base64 with padding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sig: Option<String>,
    /// What the local hub's file holds: shows that the agent is of the hub's own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// An invite that lets a key in which the hub does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invite: Option<InviteCode>,
}

/// The answer to [`OpenSession`]. Holds a secret, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionOpened {
    /// Sent as `Authorization: Bearer`. A secret.
    pub token: String,
    /// When the token ends, milliseconds since 1970.
    pub expires_at: i64,
    /// The hub.
    pub hub: HubId,
    /// The room that the invite led into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<RoomAnswer>,
    /// The room that the invite leads to, where an owner has to let the agent in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<JoinPending>,
}

/// `POST /v1/oidc`: exchanges a CI job's identity token for a token of the hub, which [`TokenCreated`] brings. Holds a
/// secret, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeIdentity {
    /// What the CI system signed for the job: a JSON Web Token. A secret.
    pub token: String,
    /// The room that the job wants; left out: the first rule that lets it in decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<RoomName>,
}

/// `POST /v1/tokens`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateToken {
    /// What it is to be called. A name of mine whose token has ended may be used again.
    pub name: TokenName,
    /// The rooms it is for: rooms I am in.
    pub rooms: Vec<RoomName>,
    /// What it may do in each of them.
    pub can: Vec<TokenScope>,
    /// How long it works, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_secs: Option<u64>,
}

/// The answer to [`CreateToken`]. Holds a secret, so it has no `Debug`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenCreated {
    /// The token: a secret, told this once.
    pub token: String,
    /// What it may do.
    #[serde(flatten)]
    pub summary: TokenSummary,
}

/// `GET /v1/tokens`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TokenList {
    /// The tokens I made, and those for rooms that I own, by name.
    pub tokens: Vec<TokenSummary>,
}

/// A token, without its secret. Also the answer to `GET /v1/token`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenSummary {
    /// What it is called; its messages are from `ci/NAME`.
    pub name: TokenName,
    /// What its maker is called now.
    pub by: AgentName,
    /// What it may do where, by room. Nothing where its maker is no longer in the room.
    pub rooms: Vec<TokenGrant>,
    /// When it was made, milliseconds since 1970.
    pub created_at: i64,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// When it last posted something, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<i64>,
    /// When it was revoked, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<i64>,
    /// Jobs that got it for an identity token lately, the newest first. Of a job that asks about its own token: that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<TokenJob>,
}

/// A CI job that got a token for its identity token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenJob {
    /// Who signed what it is.
    pub issuer: String,
    /// What was signed of it, as far as it tells which job this is.
    pub claims: BTreeMap<String, String>,
    /// When it got the token, milliseconds since 1970.
    pub created_at: i64,
    /// When that ends, milliseconds since 1970.
    pub expires_at: i64,
}

/// What a token may do in one room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenGrant {
    /// The room.
    pub room: RoomName,
    /// What it may do there.
    pub can: Vec<TokenScope>,
}

/// `POST /v1/rooms`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreateRoom {
    /// The new room's name.
    pub room: RoomName,
    /// Its kind: `channel`.
    pub kind: RoomKind,
}

/// A room I am in now: the answer to [`Join`], [`CreateRoom`] and `GET /v1/rooms/{room}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoomAnswer {
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// Its kind.
    pub kind: RoomKind,
    /// Its log's head.
    pub head: Head,
}

/// `POST /v1/dms`: the direct room of me and another agent, which is made once. The answer is a [`RoomAnswer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenDm {
    /// The other agent.
    pub agent: AgentId,
}

/// `GET /v1/agents`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The agents I share a room with; on the local hub all of them. In the order in which the hub came to know them.
    pub agents: Vec<Contact>,
}

/// One agent I can write to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Contact {
    /// The agent's key.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
    /// Its newest role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
    /// When the hub last heard from it, milliseconds since 1970.
    pub last_seen: i64,
    /// The rooms that both of us are in, by name.
    pub rooms: Vec<RoomName>,
    /// Our direct room, where both of us are in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dm: Option<RoomName>,
}

/// `GET /v1/rooms`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RoomList {
    /// The rooms I am in, by name.
    pub rooms: Vec<RoomSummary>,
}

/// One room of a [`RoomList`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoomSummary {
    /// The room.
    pub room: RoomName,
    /// Its kind.
    pub kind: RoomKind,
    /// How many members it has.
    pub members: u64,
    /// Messages of others above my cursor. Of more than 1,000 above it those of my own that are older count as well.
    pub unread: u64,
    /// My cursor. Absent from older hubs, which count my own messages as unread, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Seq>,
    /// Its log's head.
    pub head: Head,
    /// Of a direct room: who the other one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<Peer>,
    /// Of a room that I own: how many ask to be let in.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub requests: u64,
}

/// The other one of a direct room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// The agent's key.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
    /// Its newest role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
}

/// `GET /v1/rooms/{room}/members`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MemberList {
    /// The room.
    pub room: RoomName,
    /// Its members, in the order they came.
    pub members: Vec<Member>,
    /// Who asks to be let in, told to owners, the first that asked first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<JoinRequest>,
}

/// One member of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Member {
    /// The agent's key.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
    /// Its newest role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
    /// Whether it made the room, or was made an owner of it.
    pub owner: bool,
    /// What it has acknowledged.
    pub cursor: Seq,
    /// When the hub last heard from it, milliseconds since 1970.
    pub last_seen: i64,
    /// What would tell it of a message now.
    #[serde(default)]
    pub wake: WakePath,
    /// What it says that it is at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusText>,
    /// Whether it may work on the jobs of the service whose room this is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub serves: bool,
}

/// `PUT /v1/status`: what I say that I am at, for those who look at a roster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetStatus {
    /// It; absent: nothing any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusText>,
}

/// `GET /v1/rooms/{room}/messages?after=&limit=&wait=`: a page of the log. `after` left out: my cursor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// The room.
    pub room: RoomName,
    /// The messages, each exactly as stored, and notes in place of those that are no longer kept.
    #[schemars(with = "Vec<StoredMessage>")]
    pub messages: Vec<Box<RawValue>>,
    /// The last message of this page, or `after` where it is empty: what to ask for next.
    pub cursor: Seq,
    /// The log's head.
    pub head: Head,
}

/// `GET /v1/rooms/{room}/messages/{seq}/receipts?wait=&since=`: what the hub knows of a message and those it is for. What
/// they say of it themselves is in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receipts {
    /// The room.
    pub room: RoomName,
    /// The message.
    pub seq: Seq,
    /// When it was stored, milliseconds since 1970.
    pub stored_at: i64,
    /// Names what is told here, and how far the log reaches: another one where any of it has changed. The next `since`.
    pub version: String,
    /// The room's members but its author, in the order they came.
    pub readers: Vec<Reader>,
}

/// One member of a room, as a reader of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["id", "name", "acknowledged", "fetched", "lastSeen", "wake"]))]
pub struct Reader {
    /// The agent's key.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
    /// Its newest role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<AgentName>,
    /// Whether its cursor is at the message or behind it.
    pub acknowledged: bool,
    /// Whether it was sent every blob of the message to the end; `null` where the message has none.
    pub fetched: Option<bool>,
    /// When it was sent the last of them, milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched_at: Option<i64>,
    /// When the hub last heard from it, milliseconds since 1970.
    pub last_seen: i64,
    /// What would tell it of a message now.
    pub wake: WakePath,
}

/// What would tell an agent of a new message now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WakePath {
    /// It has a stream open that tells of this room, or waits for its next message.
    Stream,
    /// A hook of a coding agent waits beside its session: an idle one begins a turn with the message.
    Session,
    /// Hooks of a coding agent look for it: its next turn begins with the message.
    Turn,
    /// Nothing: it will see the message when it looks.
    #[default]
    #[serde(other)]
    None,
}

impl WakePath {
    /// As it stands on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Session => "session",
            Self::Turn => "turn",
            Self::None => "none",
        }
    }

    /// Whether a message reaches it now, without anybody's doing.
    pub const fn is_now(self) -> bool {
        matches!(self, Self::Stream | Self::Session)
    }
}

/// What stands in a log.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum StoredMessage {
    /// A message.
    Kept(Message),
    /// What stands in place of one that is no longer kept.
    Dropped(DroppedMessage),
}

/// The data of the first event of `GET /v1/events`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoomHints {
    /// All my rooms, by name.
    pub rooms: Vec<RoomHint>,
}

/// How far one of my rooms reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RoomHint {
    /// The room.
    pub room: RoomName,
    /// Its log's head.
    pub head: Head,
    /// As in [`RoomSummary`].
    pub unread: u64,
    /// Whether a message since the last hint mentions me, or hands over to me or to anybody. The hub's word, before any
    /// signature is checked. Absent where it did not look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addressed: Option<bool>,
}

/// The body of `POST /v1/rooms/{room}/messages`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PostMessage<'a> {
    /// The message's id, chosen by the sender.
    pub id: MessageId,
    /// The parts, stored byte for byte.
    #[serde(borrow)]
    #[schemars(with = "Vec<Part>", length(min = 1, max = limits::MAX_PARTS))]
    pub parts: Vec<&'a RawValue>,
    /// Names it mentions: lowercase, without blanks at the ends, each once.
    #[serde(default)]
    #[schemars(length(max = limits::MAX_MENTIONS))]
    pub mentions: Vec<String>,
    /// The message it answers.
    #[serde(default)]
    pub reply_to: Option<MessageId>,
}

/// The answer to [`PostMessage`]: 201 the first time, 200 with the same content when it was repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Posted {
    /// The message's id.
    pub id: MessageId,
    /// Its number.
    pub seq: Seq,
    /// The room.
    pub room: RoomName,
    /// The log's head with it.
    pub head: Head,
}

/// `POST /v1/rooms/{room}/uploads`: begins to upload a blob that a message will bring.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginUpload {
    /// How many bytes it will have, where that is known already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// How far an upload is: what every call on it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UploadProgress {
    /// The upload.
    pub upload: UploadId,
    /// How many bytes the hub has: where the next ones go.
    pub offset: u64,
    /// How many there will be, where its beginning said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How many there may be.
    pub max_bytes: u64,
    /// When the hub forgets it unless more bytes come, milliseconds since 1970.
    pub expires_at: i64,
}

/// `POST /v1/rooms/{room}/bundles`: more bundles than the query of the GET takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedBundles {
    /// Which, in the order they are wanted.
    #[schemars(length(min = 1, max = limits::MAX_BUNDLES_PER_REQUEST))]
    pub ids: Vec<BundleId>,
}

/// `PUT /v1/rooms/{room}/cursor`, and its answer: a cursor only moves forward, at most to the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// The newest message acknowledged.
    pub cursor: Seq,
}

/// `GET /v1/rooms/{room}/pushes?since=`: the messages after version `since` that carry refs or a bundle, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Pushes {
    /// The room.
    pub room: RoomName,
    /// The hub, to verify the messages with.
    pub hub: HubId,
    /// The newest such message's number: where it is among these, the next `since` and the answer's ETag.
    pub version: Seq,
    /// Present where more follow than are here: the last of these, which is the next `since` and the answer's ETag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Seq>,
    /// Present where some blobs of the room are no longer kept: stands for which. With it in the tag that is asked with,
    /// `dropped` is told only when it has changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<String>,
    /// The blobs that the room held and no longer keeps: all of them, or absent where that is as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Vec<BundleId>>,
    /// Present where a room of this name was deleted before this one was made: when. Whoever knows another value, or none,
    /// knows another room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remade: Option<i64>,
    /// The messages, each exactly as stored.
    #[schemars(with = "Vec<Message>")]
    pub messages: Vec<Box<RawValue>>,
    /// The log's head.
    pub head: Head,
}

/// `GET /v1/rooms/{room}/refs`: the hub's own fold, for people.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["room", "headRef", "objectFormat", "refs"]))]
pub struct RefList {
    /// The room.
    pub room: RoomName,
    /// What HEAD points at.
    pub head_ref: Option<RefName>,
    /// The hash of the room's first push.
    pub object_format: Option<ObjectFormat>,
    /// The refs, by name.
    pub refs: Vec<RefEntry>,
}

/// One ref of a [`RefList`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefEntry {
    /// The ref.
    pub name: RefName,
    /// Where it is.
    pub oid: Oid,
    /// The message that moved it there.
    pub seq: Seq,
}
