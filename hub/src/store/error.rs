//! Why a store did not do what it was asked for, as facts of the domain. What a caller is told is the edge's business.

use parler_protocol::api::JobState;
use parler_protocol::{AgentName, BundleId, RefConflict, RefName, RoomName, Seq, TokenName};

/// Why a transaction did not happen. Nothing is stored then, and no idempotency record is kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No such room, blob or member for this agent: one answer for "is not" and "is not yours".
    #[error("nothing there for this agent")]
    NotFound,
    /// No such invite, or expired, or used up.
    #[error("invite unknown, expired or used up")]
    InvalidInvite,
    /// A key nobody let in.
    #[error("this key has not been let in")]
    NotAdmitted,
    /// The room's name is taken.
    #[error("a room {0} exists")]
    RoomExists(RoomName),
    /// Only an owner does this.
    #[error("only an owner of room '{0}' does this")]
    NotOwner(RoomName),
    /// The agent asked to come in, and no owner has said yes or no.
    #[error("room '{0}' waits for an owner to let you in")]
    ApprovalPending(RoomName),
    /// An owner has said no.
    #[error("an owner of room '{0}' did not let you in")]
    ApprovalRefused(RoomName),
    /// The room would have no owner.
    #[error("room '{0}' has no other owner")]
    LastOwner(RoomName),
    /// The name is that of the direct room of two agents, whether there is one or not.
    #[error("'{0}' is the name of a direct room, which has no owner and no invites")]
    RoomReserved(RoomName),
    /// Another member of the room has a name that looks the same.
    #[error("the name '{0}' is, or looks like, that of another member of room '{1}'")]
    NameTaken(AgentName, RoomName),
    /// The name is that of a service's room.
    #[error("'{0}' is the name of a service's room, which whoever serves makes")]
    ServiceReserved(RoomName),
    /// The agent does not serve the service.
    #[error("to work on the jobs of '{0}' takes an invite to it")]
    NotServing(RoomName),
    /// In a service's room who does not serve moves refs in a place of its own.
    #[error("{0} of '{1}' is not yours to move: it is not below refs/requests/ and your name, and you do not serve")]
    NotYourPlace(RefName, RoomName),
    /// The job is not the worker's, or no longer.
    #[error("job {0} is not yours, or no longer: its lease ended, another has it, or it is over")]
    StaleFence(Seq),
    /// What was asked does not go with how the job stands.
    #[error("job {0} is {1}")]
    JobState(Seq, JobState),
    /// A word about a job that is not the author's to say, or not in this way.
    #[error("{0}")]
    BadReceipt(&'static str),
    /// The name is that of a token that is in use, or of another maker's.
    #[error("the token name '{0}' is taken")]
    TokenExists(TokenName),
    /// The identity token was exchanged before.
    #[error("the identity token was used before")]
    IdentityTaken,
    /// More identity tokens were exchanged lately than are remembered.
    #[error("too many identity tokens were exchanged in the last minutes")]
    TooManyIdentities,
    /// The key or the message id was used for something else.
    #[error("the idempotency key or message id was used for another message")]
    IdempotencyConflict,
    /// Refs that were not where the message expected them, all of them.
    #[error("{} ref(s) moved meanwhile", .0.len())]
    RefMoved(Vec<RefConflict>),
    /// Two refs of the final state cannot both exist.
    #[error("{0} and {1} cannot both exist")]
    RefDirectoryConflict(RefName, RefName),
    /// The room's objects are named by the other hash.
    #[error("the room's object format is {0}")]
    ObjectFormatMismatch(parler_protocol::ObjectFormat),
    /// HEAD was to point at a ref that the room does not have.
    #[error("HEAD cannot point at {0}, which the room does not have")]
    NoSuchRef(RefName),
    /// A part refers to a blob that is not in the room.
    #[error("blob {0} is not in this room")]
    UnknownBlob(BundleId),
    /// The room held this blob and no longer keeps it.
    #[error("blob {0} is no longer kept")]
    NoLongerKept(BundleId),
    /// A bundle that the one of the message builds on is no longer kept.
    #[error("bundle {0}, on which this one builds, is no longer kept: push again")]
    BaseNoLongerKept(BundleId),
    /// A part says another length of a blob than it has.
    #[error("blob {0} is not as long as the message says")]
    BlobSize(BundleId),
    /// No space left: the transaction was rolled back and may be tried again.
    #[error("no space left to store it")]
    StorageFull,
    /// The store has stopped taking writes, because an earlier write may not have reached the disk.
    #[error("the store takes no more writes: {0}")]
    Stopped(String),
    /// What the database holds is not what this program wrote.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The database failed in another way.
    #[error("the database failed: {0}")]
    Database(String),
}
