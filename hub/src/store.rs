//! Where a hub keeps its state. Each method of [`Store`] is one whole transaction with a meaning in the domain, so that
//! an embedded database and a remote one can both stand behind it. It keeps no bytes of large blobs
//! ([`crate::blob_store`]) and wakes nobody ([`crate::wake`]).

mod commit_stats;
mod error;
mod job;
mod sqlite;
mod token;
mod upkeep;

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;
use parler_protocol::api::{
    Contact, InviteCreated, JoinRequest, Joined, Member, OpenInvite, Posted, RefList, RoomAnswer, RoomSummary,
    TokenSummary,
};
use parler_protocol::{
    AgentId, AgentName, BundleId, Head, HubId, InviteCode, InviteId, MessageId, RefsPart, RoomKind, RoomName, Seq,
    StatusText, TokenName,
};
use serde::{Deserialize, Serialize};

pub use commit_stats::CommitStats;
pub use error::StoreError;
pub use job::{Claim, ClaimOutcome, HeldJob, JobPage, MayServe, Queue, QueueWord, Renewal};
pub(crate) use sqlite::{
    Inspector, RoomBlobRow, RoomEnd, Snapshot, SnapshotSource, StoredBlob, StoredJob, StoredMessage, StoredRoom, shrink,
};
pub use sqlite::{OpenError, SqliteOptions, SqliteStore};
pub use token::{JobToken, Need, NewToken, TokenHolder};
pub use upkeep::{BlobDrop, DroppedBlobs, DroppedMessages, RoomMark, SlicedMessage};

/// Who a request is from: a key with the name and role it goes by in its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The key.
    pub agent: AgentId,
    /// Its name.
    pub name: AgentName,
    /// Its role.
    pub role: Option<AgentName>,
}

/// SHA-256 of the token of a session or of a job. The token itself is never stored.
pub type TokenHash = [u8; 32];

/// A session about to be opened for a key that has been proved.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Who.
    pub principal: Principal,
    /// Hash of the new token.
    pub token: TokenHash,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// Whether a key that the hub does not know is let in without an invite.
    pub admit: bool,
    /// An invite to redeem in the same transaction.
    pub invite: Option<InviteCode>,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// What letting a key in has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// Whether the hub did not know the key before.
    pub is_new: bool,
    /// Rooms made for it.
    pub made: Vec<RoomName>,
    /// Rooms that were there, and that it was not in.
    pub joined: Vec<RoomName>,
}

/// An invite about to be made.
#[derive(Debug, Clone)]
pub struct NewInvite {
    /// The inviter: a member of the room, or its owner from now on where the room does not exist.
    pub by: AgentId,
    /// The room.
    pub room: RoomName,
    /// The new code.
    pub code: InviteCode,
    /// When it ends, milliseconds since 1970.
    pub expires_at: i64,
    /// How often it works.
    pub max_uses: u32,
    /// Whether an owner has to let in whoever comes by it.
    pub needs_approval: bool,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// A room that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedRoom {
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// Who was in it.
    pub members: Vec<AgentId>,
    /// Blobs whose files no room needs any more.
    pub files: Vec<BundleId>,
}

/// To whom an agent can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To those who are in a room with it.
    SharedRooms,
    /// To everybody that the hub knows.
    Everybody,
}

/// A direct room that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedDm {
    /// The room.
    pub room: RoomAnswer,
    /// Whether it was made now.
    pub is_new: bool,
    /// Whether the other one is in it, too: who has left is not brought back.
    pub is_met: bool,
}

/// The blob that a message brings.
#[derive(Debug, Clone)]
pub enum NewBlob {
    /// Small: stored in the message's own transaction.
    Inline {
        /// Its id; the bytes have been checked against it.
        id: BundleId,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Large: already durable in the blob store under its id.
    File {
        /// Its id.
        id: BundleId,
        /// Its length in bytes.
        size: u64,
    },
}

impl NewBlob {
    /// The blob's id.
    pub fn id(&self) -> BundleId {
        match self {
            Self::Inline { id, .. } | Self::File { id, .. } => *id,
        }
    }

    /// The blob's length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Inline { bytes, .. } => bytes.len() as u64,
            Self::File { size, .. } => *size,
        }
    }
}

/// A part's word on a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlobReference {
    /// Which blob.
    pub id: BundleId,
    /// How many bytes the part says it has, where it does: readers plan with that number, so it must be right.
    pub size: Option<u64>,
}

/// A message about to be appended.
#[derive(Debug, Clone)]
pub struct Append {
    /// Its author.
    pub by: Principal,
    /// The key that signed it, where that is not the author's: a token's job has one of its own.
    pub signed_by: Option<AgentId>,
    /// The room, in any case.
    pub room: RoomName,
    /// The id its author gave it.
    pub id: MessageId,
    /// What makes a repeated request known: unique for the author.
    pub key: String,
    /// What two requests under one key must agree on ([`parler_protocol::retry_digest`]).
    pub digest: [u8; 32],
    /// The parts as they came: one JSON array, byte for byte.
    pub parts: Bytes,
    /// Names it mentions.
    pub mentions: Vec<String>,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// Ref changes it carries.
    pub refs: Option<RefsPart>,
    /// Whether it carries refs or a bundle, and so belongs to the room's pushes.
    pub is_push: bool,
    /// Every blob its parts refer to. Each must be in the room already, or be `blob`.
    pub refers_to: Vec<BlobReference>,
    /// The bundles that its own builds on, as its author says. None may be one that the room no longer keeps.
    pub builds_on: Vec<BundleId>,
    /// The blob it brings.
    pub blob: Option<NewBlob>,
    /// What it says to the queue of a service.
    pub queue: QueueWord,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// What an append did.
#[derive(Debug, Clone)]
pub struct Appended {
    /// The answer for the author. A repeated request gets the first answer, with the head of that time.
    pub posted: Posted,
    /// The message as stored and as every read returns it.
    pub stored: Bytes,
    /// False when this was a repetition and nothing was stored.
    pub is_new: bool,
}

/// Part of a log.
#[derive(Debug, Clone)]
pub struct LogPage {
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// Messages in order, each as stored.
    pub messages: Vec<Bytes>,
    /// The last message of the page, or where the reading began when it is empty.
    pub cursor: Seq,
    /// The log's head in the same snapshot.
    pub head: Head,
    /// The last of the messages that is only a note of one that is no longer kept.
    pub last_note: Option<Seq>,
}

/// A room's messages that carry refs or bundles.
#[derive(Debug, Clone)]
pub struct PushLog {
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// The number of the newest such message, 0 when there is none.
    pub version: Seq,
    /// Those after the version asked for, in order, each as stored: the first of them where there are too many.
    pub messages: Vec<Bytes>,
    /// The number of the last of these, where more follow.
    pub next: Option<Seq>,
    /// What tells the blobs that the room no longer keeps from those of another time: none where it keeps all.
    pub drops: Option<String>,
    /// When a room of this name was deleted before this one was made, milliseconds since 1970.
    pub remade: Option<i64>,
    /// The log's head in the same snapshot.
    pub head: Head,
}

/// The members of a room as readers of something.
#[derive(Debug, Clone)]
pub struct RoomReaders {
    /// The log's head in the same snapshot.
    pub head: Head,
    /// All members, in the order they came.
    pub readers: Vec<StoredReader>,
}

/// One member as a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReader {
    /// Its key.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
    /// Its newest role.
    pub role: Option<AgentName>,
    /// What it has acknowledged.
    pub cursor: Seq,
    /// When it last did something that was written down, milliseconds since 1970.
    pub last_seen: i64,
    /// When it had been sent the last of the blobs asked about, milliseconds since 1970. None: not all of them, or none
    /// was asked about.
    pub fetched_at: Option<i64>,
}

/// Where a blob's bytes are.
#[derive(Debug, Clone)]
pub enum BlobLocation {
    /// In the database.
    Inline(Bytes),
    /// In the blob store, with this length in bytes.
    File(u64),
}

/// The state of a hub.
///
/// A room's messages are numbered from 1 without gaps in the order in which their transactions commit, and an answer
/// is given only after the commit is on disk. Every method that takes an agent and a room answers
/// [`StoreError::NotFound`] unless the agent is a member; those that say what they need ([`Need`]), also unless it is the
/// account of a token that may do that there.
#[async_trait]
pub trait Store: Queue {
    /// The hub's id, made with the store.
    fn hub(&self) -> HubId;

    /// Records a session, the agent's newest name and role, and redeems the invite, all or nothing. Returns what
    /// became of the invite.
    async fn open_session(&self, session: NewSession) -> Result<Option<Joined>, StoreError>;

    /// Whose token this is, unless it has ended.
    async fn session(&self, token: TokenHash, now: i64) -> Result<Option<Principal>, StoreError>;

    /// Lets a key in without an invite, and into these channels, which are made, with it as their owner, where there are
    /// none of these names. All or nothing; what is so already stays so. `NotFound`: one of the rooms is no channel.
    async fn admit(&self, agent: AgentId, rooms: &[RoomName], now: i64) -> Result<Admission, StoreError>;

    /// Notes what an agent says that it is at.
    async fn set_status(&self, agent: AgentId, status: Option<StatusText>) -> Result<(), StoreError>;

    /// Whether any key was ever let in.
    async fn knows_anybody(&self) -> Result<bool, StoreError>;

    /// Makes a room with its owner as first member.
    async fn create_room(
        &self,
        room: &RoomName,
        kind: RoomKind,
        owner: AgentId,
        now: i64,
    ) -> Result<RoomAnswer, StoreError>;

    /// Makes an invite, and the channel it leads into where there is none of that name.
    async fn create_invite(&self, invite: NewInvite) -> Result<InviteCreated, StoreError>;

    /// Redeems an invite. A member who redeems again spends nothing.
    async fn join(&self, agent: AgentId, code: &InviteCode, now: i64) -> Result<Joined, StoreError>;

    /// Joins an existing channel without an invite, as the local hub lets its own user's agents.
    async fn join_channel(&self, agent: AgentId, room: &RoomName, now: i64) -> Result<RoomAnswer, StoreError>;

    /// Ends a membership: an agent's own, or, by an owner, another's. Its invites end with it, what tokens it made may
    /// do there, and what it has to do with a service's jobs; whoever was removed comes in again only by an invite made later. `LastOwner`: the room would have none.
    async fn end_membership(
        &self,
        room: &RoomName,
        by: AgentId,
        agent: AgentId,
        now: i64,
    ) -> Result<RoomName, StoreError>;

    /// Makes a member an owner, or no longer one. By an owner.
    async fn set_owner(
        &self,
        room: &RoomName,
        by: AgentId,
        agent: AgentId,
        is_owner: bool,
    ) -> Result<RoomAnswer, StoreError>;

    /// Deletes a room with all it holds. By an owner.
    async fn delete_room(&self, room: &RoomName, by: AgentId, now: i64) -> Result<DeletedRoom, StoreError>;

    /// Who asked to come into a room and waits for an owner's word: for an owner all of them, for others nobody.
    async fn requests(&self, agent: AgentId, room: &RoomName) -> Result<Vec<JoinRequest>, StoreError>;

    /// Lets somebody in who asked, or refuses it. By an owner. Who is in already stays so.
    async fn answer_request(
        &self,
        room: &RoomName,
        by: AgentId,
        agent: AgentId,
        admits: bool,
        now: i64,
    ) -> Result<RoomName, StoreError>;

    /// The invites of a room that are open: for an owner all of them, for others those they made.
    async fn invites(
        &self,
        agent: AgentId,
        room: &RoomName,
        now: i64,
    ) -> Result<(RoomAnswer, Vec<OpenInvite>), StoreError>;

    /// Ends one of these, or all. Says how many there were. `InvalidInvite`: there is no such one.
    async fn revoke_invites(
        &self,
        agent: AgentId,
        room: &RoomName,
        id: Option<InviteId>,
        now: i64,
    ) -> Result<u64, StoreError>;

    /// Opens the direct room of two agents, which is made once. `NotFound`: the other one is not known, not within reach, or
    /// has left it.
    async fn open_dm(&self, agent: AgentId, other: AgentId, reach: Reach, now: i64) -> Result<OpenedDm, StoreError>;

    /// The agents that this one can write to, in the order in which they became known.
    async fn contacts(&self, agent: AgentId, reach: Reach) -> Result<Vec<Contact>, StoreError>;

    /// Makes a token. `NotFound`: the maker is not in one of its rooms.
    async fn create_token(&self, token: NewToken) -> Result<TokenSummary, StoreError>;

    /// Makes a token for a CI job that showed an identity token, which is taken once. Several jobs may have one of the same
    /// name at once. `NotAdmitted`, `NotFound`: its maker is unknown, or not in the room; `TokenExists`: the name is taken;
    /// `IdentityTaken`: the identity token was taken before; `TooManyIdentities`: too many were taken lately to remember another.
    async fn exchange_identity(&self, job: JobToken) -> Result<TokenSummary, StoreError>;

    /// Whose token this is, also when it has ended.
    async fn token(&self, hash: TokenHash) -> Result<Option<TokenHolder>, StoreError>;

    /// The tokens that the agent made, and those for rooms it owns, by name.
    async fn tokens(&self, agent: AgentId) -> Result<Vec<TokenSummary>, StoreError>;

    /// Ends a token, for its maker or an owner of one of its rooms. What it works on is given back, and what it asked for
    /// given up. What it was, and all its rooms, whoever may know of them.
    async fn revoke_token(
        &self,
        by: AgentId,
        name: &TokenName,
        now: i64,
    ) -> Result<(TokenSummary, Vec<RoomName>), StoreError>;

    /// The room ([`Need::Head`]).
    async fn room(&self, agent: AgentId, room: &RoomName) -> Result<RoomAnswer, StoreError> {
        self.room_for(agent, room, Need::Head).await
    }

    /// The room, for one that may do this there.
    async fn room_for(&self, agent: AgentId, room: &RoomName, need: Need) -> Result<RoomAnswer, StoreError>;

    /// The rooms the agent is in, by name.
    async fn rooms(&self, agent: AgentId) -> Result<Vec<RoomSummary>, StoreError>;

    /// One of them; `NotFound` where the agent is not in it.
    async fn room_summary(&self, agent: AgentId, room: &RoomName) -> Result<RoomSummary, StoreError>;

    /// The room and its members, in the order they came.
    async fn members(&self, agent: AgentId, room: &RoomName) -> Result<(RoomAnswer, Vec<Member>), StoreError>;

    /// Says what [`Store::append`] would refuse now, without storing: a large blob is read only after this. A
    /// repetition returns what the first request got ([`Need::Post`]).
    async fn check_append(&self, append: &Append) -> Result<Option<Appended>, StoreError>;

    /// Appends a message, moves the refs it carries by compare-and-swap, stores or links the blob it brings, and makes or
    /// ends a job where the room is a service's: all of it or nothing. The first ref update of a room fixes its object format
    /// and its HEAD ([`Need::Post`]).
    async fn append(&self, append: Append) -> Result<Appended, StoreError>;

    /// Messages after `after` (the agent's cursor where absent), at most `limit` and about `max_bytes` of them. `limit`
    /// 0 tells the head only ([`Need::Read`]; a token has no cursor and begins at the start).
    async fn read(
        &self,
        agent: AgentId,
        room: &RoomName,
        after: Option<Seq>,
        limit: u32,
        max_bytes: usize,
    ) -> Result<LogPage, StoreError>;

    /// Messages after `after`, as [`Store::read`] would give them to each of these agents in one snapshot, and to which of them it
    /// would. `NotFound`: there is no such room.
    async fn read_for(
        &self,
        agents: Vec<AgentId>,
        room: &RoomName,
        after: Seq,
        limit: u32,
        max_bytes: usize,
    ) -> Result<(LogPage, HashSet<AgentId>), StoreError>;

    /// The messages after version `since` that carry refs or bundles, until they pass `max_bytes`. `since` equal to the
    /// version: none ([`Need::Refs`]).
    async fn pushes(
        &self,
        agent: AgentId,
        room: &RoomName,
        since: Seq,
        max_bytes: usize,
    ) -> Result<PushLog, StoreError>;

    /// The refs as this hub folded them, with the log's head ([`Need::Refs`]).
    async fn refs(&self, agent: AgentId, room: &RoomName) -> Result<(RefList, Head), StoreError>;

    /// Moves the agent's cursor forward to `seq`, at most to the head. Returns where it is then, and the head.
    async fn acknowledge(&self, agent: AgentId, room: &RoomName, seq: Seq) -> Result<(Seq, Head), StoreError>;

    /// Where the bytes of a blob of this room are ([`Need::Read`]).
    async fn blob(&self, agent: AgentId, room: &RoomName, id: &BundleId) -> Result<BlobLocation, StoreError>;

    /// The lengths of these blobs in bytes, in their order. `NotFound` where the room lacks one ([`Need::Read`]).
    async fn blob_sizes(&self, agent: AgentId, room: &RoomName, ids: &[BundleId]) -> Result<Vec<u64>, StoreError>;

    /// Where the bytes of the first of these blobs are: of one at least, and then of as many as hold about `max_bytes`
    /// together in the database, and no others ([`Need::Read`]).
    async fn blobs(
        &self,
        agent: AgentId,
        room: &RoomName,
        ids: &[BundleId],
        max_bytes: usize,
    ) -> Result<Vec<BlobLocation>, StoreError>;

    /// Notes that the member was sent all bytes of these blobs of the room; others are passed over. Whether that is news.
    /// Nobody waits for it: a crash may take back the newest.
    async fn record_fetches(
        &self,
        agent: AgentId,
        room: &RoomName,
        ids: &[BundleId],
        now: i64,
    ) -> Result<bool, StoreError>;

    /// The members of the room, and when each had been sent all of these blobs.
    async fn readers(&self, agent: AgentId, room: &RoomName, blobs: &[BundleId]) -> Result<RoomReaders, StoreError>;

    /// The blobs that the room held and no longer keeps ([`Need::Refs`]).
    async fn dropped_blobs(&self, agent: AgentId, room: &RoomName) -> Result<Vec<BundleId>, StoreError>;

    /// All rooms, by name: for the hub's own upkeep, as what follows.
    async fn all_rooms(&self) -> Result<Vec<RoomMark>, StoreError>;

    /// Some messages after `after`; none: the log ends there.
    async fn log_slice(&self, room: &RoomName, after: Seq) -> Result<Vec<SlicedMessage>, StoreError>;

    /// Blobs that came with messages up to `up_to`, after this one, each with its length in bytes: the first of them.
    async fn held_blobs(
        &self,
        room: &RoomName,
        up_to: Seq,
        after: Option<BundleId>,
    ) -> Result<Vec<(BundleId, u64)>, StoreError>;

    /// Puts notes in the place of some messages that may be given up and are older than `before`, milliseconds since 1970:
    /// goes on where it was left, or after `from`. With `dry_run` it only says how many.
    async fn drop_messages(
        &self,
        room: &RoomName,
        before: i64,
        now: i64,
        from: Option<Seq>,
        dry_run: bool,
    ) -> Result<DroppedMessages, StoreError>;

    /// Gives up blobs of a room. None, and nothing is done: the log has grown by something that may need them.
    async fn drop_blobs(&self, drop: BlobDrop) -> Result<Option<DroppedBlobs>, StoreError>;

    /// Every blob that is in the blob store and whose id begins with this byte.
    async fn file_blobs(&self, first_byte: u8) -> Result<HashSet<BundleId>, StoreError>;

    /// Writes everything out and closes. Later calls answer [`StoreError::Stopped`].
    async fn close(&self) -> Result<(), StoreError>;
}
