//! A push into a room: every ref is decided as a git server would, what the room lacks becomes one thin bundle, and one
//! signed message carries both and whatever rides with them. Never merges, never sends an update again with another old
//! value, and changes nothing in the repository but the pins of its own bundle.

use parler_client::{Client, ClientError};
use parler_protocol::api::Posted;
use parler_protocol::{
    BundleId, BundleRefName, Fence, MessageId, ObjectFormat, Oid, Part, RefName, RefUpdate, RoomName, Work,
};

use crate::base::BasePolicy;
use crate::fetch::Notice;
use crate::git::GitError;
use crate::pack::PackError;
use crate::pins::Pin;
use crate::repository::{Repository, RepositoryError};
use crate::room::{Room, RoomError};
use crate::room_cache::RoomCache;
use crate::room_state::RoomState;

mod decision;
mod deepen;
mod kinship;
mod nearer_base;
mod plan;
mod post;
mod run;
mod work;

pub use decision::Refusal;
pub use deepen::DeepenPolicy;

/// What the caller's configuration says about pushes.
#[derive(Debug, Clone, Default)]
pub struct PushPolicy {
    /// Whether a room that does not exist is made: on the local hub, and where `parler.createRoom` is true.
    pub create_room: bool,
    /// What a bundle may be made against: `parler.base`.
    pub base: BasePolicy,
    /// What happens where history is cut off: `parler.deepen`.
    pub deepen: DeepenPolicy,
}

/// One ref to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefChange {
    /// The room's ref.
    pub destination: RefName,
    /// A revision of this repository; none deletes the ref.
    pub source: Option<String>,
    /// Whether the ref may move to something that does not contain what it points at.
    pub force: Force,
}

/// What lets a ref move to something that does not contain what it points at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Force {
    /// Nothing does.
    #[default]
    No,
    /// `+`, `--force`: whatever it points at. As in git, a lease beside it counts for nothing.
    Always,
    /// `--force-with-lease`: that the room has it at this object, or does not have it (none). Where that is not so it does
    /// not move at all.
    Lease(Option<Oid>),
}

/// A revision that is sent in a bundle without moving a ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LooseTip {
    /// What the bundle calls it.
    pub name: BundleRefName,
    /// A revision of this repository.
    pub revision: String,
}

/// Makes the parts that ride along, once the id of the bundle is known. Asked again when the message is signed again.
pub type ExtraParts<'a> = &'a dyn Fn(Option<BundleId>) -> Vec<Part>;

/// What a bundle that the room has brings over its base, as far as this repository can say. Whether the work tree has
/// other changes is said only where the bundle's commit is checked out: they are no part of it otherwise.
pub fn work_of_bundle(repository: &Repository, state: &RoomState, id: &BundleId) -> Option<Work> {
    let head = repository.resolve("HEAD").ok().map(|head| head.oid);
    let is_checked_out = state.bundle(id)?.refs().first().map(|tip| tip.oid) == head;
    work::of_bundle(repository, state, id, is_checked_out)
}

/// What is to be pushed.
#[derive(Clone, Default)]
pub struct PushRequest<'a> {
    /// Refs to move, at most one change for a ref.
    pub changes: Vec<RefChange>,
    /// Revisions to send without moving a ref. Where no bundle can bring them, and the room has none that does, nothing is
    /// posted.
    pub loose: Vec<LooseTip>,
    /// Text, a handoff and so on for the same message. With these the push is all or nothing, and is posted also when
    /// every ref is up to date.
    pub extra: Option<ExtraParts<'a>>,
    /// Names that the message mentions: lowercase, each once.
    pub mentions: Vec<String>,
    /// The message it answers.
    pub reply_to: Option<MessageId>,
    /// What makes the message known when the request is made again by another program, in place of the message's id.
    pub key: Option<&'a str>,
    /// The claim of the job that the message says something of.
    pub fence: Option<Fence>,
    /// Send all history, whatever the room or the base holds.
    pub full: bool,
    /// Make a bundle also for a commit in the middle of what the room has, so that it can be named.
    pub name_every_tip: bool,
    /// It is a job for the service whose room this is: its one change is of a ref in the sender's own place there, which
    /// moves whatever it pointed at. The message names a bundle with the tip in any case, and that builds on nothing but
    /// what the same sender brought: whoever takes the job can do without everybody else.
    pub is_job: bool,
    /// All refs move or none.
    pub atomic: bool,
    /// Decide everything and send nothing: the report tells what would be.
    pub dry_run: bool,
}

/// What became of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefOutcome {
    /// It moved.
    Moved(RefUpdate),
    /// It was there already.
    UpToDate,
    /// It was to be deleted and did not exist.
    NothingToDelete,
    /// It did not move.
    Refused(Refusal),
}

/// What became of one [`RefChange`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefReport {
    /// The room's ref.
    pub name: RefName,
    /// What became of it.
    pub outcome: RefOutcome,
}

/// A bundle that a push made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushedBundle {
    /// Its id.
    pub id: BundleId,
    /// Bytes.
    pub size: u64,
    /// New commits in it.
    pub commits: u64,
    /// Objects in its pack.
    pub objects: u64,
    /// What it expects the receiver to have.
    pub prerequisites: Vec<Oid>,
}

/// What a push did.
#[derive(Debug, Clone, PartialEq)]
pub struct PushReport {
    /// The room, as its maker spelled it.
    pub room: RoomName,
    /// The refs, in the order asked for.
    pub refs: Vec<RefReport>,
    /// The message, when one was posted.
    pub posted: Option<Posted>,
    /// Whether that is what an earlier program had posted under the same key.
    pub replayed: bool,
    /// The bundle that was sent.
    pub bundle: Option<PushedBundle>,
    /// The refs that name the bundle's tips here.
    pub pins: Vec<Pin>,
    /// The bundle with the first tip asked for: the one sent, or one that the room had.
    pub bundle_id: Option<BundleId>,
    /// Whether the room was made for this.
    pub room_created: bool,
    /// Why refs were refused for a shallow history, when some were.
    pub cut_off: Option<CutOff>,
    /// Lines for people: why something was refused and what helps, without a newline.
    pub notes: Vec<String>,
}

/// History ends here, in a shallow repository, at commits whose parents a receiver could have from nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {command}", self.what())]
pub struct CutOff {
    /// The room.
    pub room: RoomName,
    /// Where it ends; at least one.
    pub commits: Vec<Oid>,
    /// Why fetching the rest failed, where `parler.deepen` let us try.
    pub tried: Option<String>,
    /// The command that helps.
    pub command: String,
}

impl CutOff {
    /// What is wrong, without what helps.
    pub fn what(&self) -> String {
        let cut = self.commits.first().map(Oid::to_string).unwrap_or_default();
        let tried = self.tried.as_ref();
        let tried = tried.map(|why| format!("; fetching the rest failed: {why}"));
        format!(
            "history is cut off here at {cut}, which neither room '{}' nor the base holds{}",
            self.room,
            tried.unwrap_or_default()
        )
    }
}

/// Why a push as a whole failed. Nothing was posted, except where the client says that it is not known.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The room cannot be read or made.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// The two repositories name objects differently.
    #[error("room '{room}' holds {theirs} objects and this repository {ours} objects")]
    ObjectFormat {
        /// The room.
        room: RoomName,
        /// Its hash.
        theirs: ObjectFormat,
        /// The repository's.
        ours: ObjectFormat,
    },
    /// The revision does not name a commit.
    #[error("{revision:?} is not a commit")]
    NotACommit {
        /// As asked for.
        revision: String,
    },
    /// History is cut off here, and a bundle without a ref to refuse cannot be made.
    #[error(transparent)]
    CutOff(#[from] CutOff),
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The bundle could not be made.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The bundle is larger than what the hub takes. Nothing was sent.
    #[error("{error}")]
    TooLarge {
        /// The hub's limit, and where packing was stopped.
        error: PackError,
        /// A branch of another remote against which the bundle would be smaller, as `origin/topic`.
        nearer: Option<String>,
    },
    /// A git child failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The hub did not answer, or said no to the whole message.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// The room that a push goes to, as far as its caller has read it.
pub enum RoomLookup {
    /// Not read yet.
    Unread,
    /// Read a moment ago.
    Read(Box<Room>),
    /// Looked for a moment ago, and not there.
    Absent,
}

/// Pushes from one repository into one room.
pub struct Pusher<'a> {
    repository: &'a Repository,
    client: &'a Client,
    room: &'a RoomName,
    policy: &'a PushPolicy,
    cache: &'a RoomCache,
    notice: Option<Notice<'a>>,
}

impl<'a> Pusher<'a> {
    /// A pusher. Nothing happens yet.
    pub fn new(
        repository: &'a Repository,
        client: &'a Client,
        room: &'a RoomName,
        policy: &'a PushPolicy,
        cache: &'a RoomCache,
    ) -> Self {
        Self {
            repository,
            client,
            room,
            policy,
            cache,
            notice: None,
        }
    }

    /// Tells what is done meanwhile, a line at a time.
    pub fn telling(self, notice: Notice<'a>) -> Self {
        Self {
            notice: Some(notice),
            ..self
        }
    }

    /// Decides, packs and posts. One request when `target` has been read and something is to be sent, none when there is
    /// nothing.
    ///
    /// # Errors
    /// [`PushError`] where the whole push fails; what happens to a single ref is in the report.
    pub fn push(&self, request: &PushRequest<'_>, target: RoomLookup) -> Result<PushReport, PushError> {
        run::push(self, request, target)
    }

    /// The room, and whether it has to be made before something is posted.
    fn open(&self, target: RoomLookup) -> Result<(Room, bool), PushError> {
        let absent = match target {
            RoomLookup::Read(room) => return Ok((*room, false)),
            RoomLookup::Absent => RoomError::unknown(self.room),
            RoomLookup::Unread => match Room::read(self.client, self.room, self.cache) {
                Ok(room) => return Ok((room, false)),
                Err(error @ RoomError::Unknown { .. }) => error,
                Err(error) => return Err(error.into()),
            },
        };
        if self.policy.create_room && !Room::was_known(self.client, self.room, self.cache)? {
            Ok((Room::unmade(self.client, self.room)?, true))
        } else {
            Err(absent.into())
        }
    }
}
