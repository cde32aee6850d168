//! What the store knows of a service's jobs: the words about them that messages bring, and claims, which are in no message.

use async_trait::async_trait;
use bytes::Bytes;
use parler_protocol::api::{JobFilter, JobSummary, RoomAnswer};
use parler_protocol::{AgentId, Fence, Head, MessageId, RoomName, Seq, TaskStatus};

use super::StoreError;

/// What a message says to the queue of the room it is posted into. In a room that is no service's it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueWord {
    /// Whether it is a job.
    pub is_job: bool,
    /// What it says became of which messages.
    pub receipts: Vec<(MessageId, TaskStatus)>,
    /// The claim by which its author says that.
    pub fence: Option<Fence>,
}

/// Who comes to serve a service without having been invited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MayServe {
    /// Nobody.
    Invited,
    /// Whoever is the first: the service is made for it.
    First,
    /// Everybody whom the hub knows.
    Everybody,
}

/// A job that is asked for.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Who asks: an agent that serves, or a token's account.
    pub by: AgentId,
    /// The service's room.
    pub room: RoomName,
    /// Names the request: again, it gets the same job.
    pub id: MessageId,
    /// How long the job is to be its, milliseconds.
    pub lease_ms: i64,
    /// Whether a job will do that the same agent asked for.
    pub own: bool,
    /// Now, milliseconds since 1970.
    pub now: i64,
}

/// What came of a claim.
#[derive(Debug, Clone)]
pub struct ClaimOutcome {
    /// The job, where there was one.
    pub job: Option<HeldJob>,
    /// Where there was none, when the next lease in the room ends, whoever has it, milliseconds since 1970.
    pub next_expiry: Option<i64>,
    /// The log's head.
    pub head: Head,
}

/// A job that somebody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldJob {
    /// Which, and by which claim.
    pub fence: Fence,
    /// Until when, milliseconds since 1970.
    pub lease_until: i64,
    /// Which try of it this is, from 1.
    pub attempt: u32,
    /// Its message as stored.
    pub stored: Bytes,
}

/// What came of asking for more time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// It is the worker's.
    Until {
        /// Until then, milliseconds since 1970.
        lease_until: i64,
        /// Whether that is sooner than it was before.
        is_sooner: bool,
    },
    /// Its requester has called it off, or left.
    Cancelled,
}

/// Some jobs of a service.
#[derive(Debug, Clone)]
pub struct JobPage {
    /// Its room.
    pub room: RoomAnswer,
    /// In order.
    pub jobs: Vec<JobSummary>,
    /// Where to go on, where more follow.
    pub next: Option<Seq>,
}

/// The part of a [`Store`](super::Store) that has to do with the jobs of services, besides the messages about them.
#[async_trait]
pub trait Queue: Send + Sync + 'static {
    /// Makes an agent one that serves, as far as it may be without an invite; an owner always may. Whether the service was
    /// made for it: with it as its owner. `NotServing`: it is a member that does not serve.
    async fn serve(
        &self,
        agent: AgentId,
        room: &RoomName,
        may: MayServe,
        now: i64,
    ) -> Result<(RoomAnswer, bool), StoreError>;

    /// The room of a service, for an agent that may ask it for jobs and need not have done so. `NameTaken` as below.
    async fn service_to_enter(&self, agent: AgentId, room: &RoomName, any_name: bool)
    -> Result<RoomAnswer, StoreError>;

    /// Whether the agent has posted a message with this id in the room, or one under this key.
    async fn has_posted(
        &self,
        agent: AgentId,
        room: &RoomName,
        id: MessageId,
        key: &str,
        now: i64,
    ) -> Result<bool, StoreError>;

    /// Makes an agent one that may ask a service for jobs. Whether it was not one before. `NameTaken`: it looks like another
    /// member, unless `any_name` is right.
    async fn enter_service(
        &self,
        agent: AgentId,
        room: &RoomName,
        any_name: bool,
        now: i64,
    ) -> Result<(RoomAnswer, bool), StoreError>;

    /// Gives the next job to who asks, or the one that the same request was given. Of the requesters that with the fewest
    /// jobs in work comes first, then whose turn is longest ago; of one requester the oldest job. Nobody is given a job of
    /// its own that has not asked for such. Takes back first what nobody kept in time ([`Need::Claim`](super::Need)).
    async fn claim(&self, claim: Claim) -> Result<ClaimOutcome, StoreError>;

    /// Gives every lease at least until then, as a hub begins to serve: nobody could keep one while it was away. How many.
    async fn extend_leases(&self, now: i64, until: i64) -> Result<u64, StoreError>;

    /// Gives a worker more time for a job that it has ([`Need::Claim`](super::Need)).
    async fn renew(
        &self,
        agent: AgentId,
        room: &RoomName,
        fence: Fence,
        lease_ms: i64,
        now: i64,
    ) -> Result<Renewal, StoreError>;

    /// Gives a job back as if it had not been claimed ([`Need::Claim`](super::Need)).
    async fn release(&self, agent: AgentId, room: &RoomName, fence: Fence, now: i64) -> Result<(), StoreError>;

    /// Offers a job again that too many have lost ([`Need::Claim`](super::Need)).
    async fn retry_job(
        &self,
        agent: AgentId,
        room: &RoomName,
        seq: Seq,
        now: i64,
    ) -> Result<(JobSummary, RoomAnswer), StoreError>;

    /// Jobs of a service after `after`, at most `limit` of them, or of those that `only` takes ([`Need::Jobs`](super::Need)).
    async fn jobs(
        &self,
        agent: AgentId,
        room: &RoomName,
        after: Seq,
        limit: u32,
        only: Option<JobFilter>,
        now: i64,
    ) -> Result<JobPage, StoreError>;
}
