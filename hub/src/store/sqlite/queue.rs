//! The calls about jobs of services, each of them one transaction of [`super::jobs`].

use async_trait::async_trait;
use parler_protocol::api::{JobFilter, JobSummary, RoomAnswer};
use parler_protocol::{AgentId, Fence, MessageId, RoomName, Seq};

use super::{SMALL_BYTES, SqliteStore, job_list, jobs, repetition, services};
use crate::store::{Claim, ClaimOutcome, JobPage, MayServe, Queue, Renewal, StoreError};

#[async_trait]
impl Queue for SqliteStore {
    async fn serve(
        &self,
        agent: AgentId,
        room: &RoomName,
        may: MayServe,
        now: i64,
    ) -> Result<(RoomAnswer, bool), StoreError> {
        let (hub, room) = (self.hub, room.clone());
        self.writer
            .run(SMALL_BYTES, move |batch| {
                services::serve(batch, &hub, &room, &agent, may, now)
            })
            .await
    }

    async fn service_to_enter(
        &self,
        agent: AgentId,
        room: &RoomName,
        any_name: bool,
    ) -> Result<RoomAnswer, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| {
                let (room, ..) = services::to_enter(connection, &room, &agent, any_name)?;
                Ok(room.answer(room.end.head()))
            })
            .await
    }

    async fn has_posted(
        &self,
        agent: AgentId,
        room: &RoomName,
        id: MessageId,
        key: &str,
        now: i64,
    ) -> Result<bool, StoreError> {
        let (room, key) = (room.clone(), key.to_owned());
        self.readers
            .run(move |connection| repetition::is_known(connection, &agent, &room, &id, &key, now))
            .await
    }

    async fn enter_service(
        &self,
        agent: AgentId,
        room: &RoomName,
        any_name: bool,
        now: i64,
    ) -> Result<(RoomAnswer, bool), StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                services::enter(batch, &room, &agent, any_name, now)
            })
            .await
    }

    async fn claim(&self, claim: Claim) -> Result<ClaimOutcome, StoreError> {
        let asked = claim.clone();
        // Of all who are woken by one job, all but one find nothing: that costs no transaction.
        let nothing = self
            .readers
            .run(move |connection| jobs::nothing_to_claim(connection, &asked))
            .await?;
        match nothing {
            Some(outcome) => Ok(outcome),
            None => {
                self.writer
                    .run(SMALL_BYTES, move |batch| jobs::claim(batch, &claim))
                    .await
            }
        }
    }

    async fn extend_leases(&self, now: i64, until: i64) -> Result<u64, StoreError> {
        self.writer
            .run(SMALL_BYTES, move |batch| {
                jobs::extend_leases(batch.connection, now, until)
            })
            .await
    }

    async fn renew(
        &self,
        agent: AgentId,
        room: &RoomName,
        fence: Fence,
        lease_ms: i64,
        now: i64,
    ) -> Result<Renewal, StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                jobs::renew(batch, &room, &agent, fence, lease_ms, now)
            })
            .await
    }

    async fn release(&self, agent: AgentId, room: &RoomName, fence: Fence, now: i64) -> Result<(), StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| {
                jobs::release(batch, &room, &agent, fence, now)
            })
            .await
    }

    async fn retry_job(
        &self,
        agent: AgentId,
        room: &RoomName,
        seq: Seq,
        now: i64,
    ) -> Result<(JobSummary, RoomAnswer), StoreError> {
        let room = room.clone();
        self.writer
            .run(SMALL_BYTES, move |batch| jobs::retry(batch, &room, &agent, seq, now))
            .await
    }

    async fn jobs(
        &self,
        agent: AgentId,
        room: &RoomName,
        after: Seq,
        limit: u32,
        only: Option<JobFilter>,
        now: i64,
    ) -> Result<JobPage, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| job_list::list(connection, &room, &agent, after, limit, only, now))
            .await
    }
}
