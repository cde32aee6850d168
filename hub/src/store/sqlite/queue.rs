//! The calls about jobs of services, each of them one transaction of [`super::jobs`].

use async_trait::async_trait;
use parler_protocol::api::{JobSummary, RoomAnswer};
use parler_protocol::{AgentId, Fence, RoomName, Seq};

use super::{SMALL_BYTES, SqliteStore, job_list, jobs, services};
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
        now: i64,
    ) -> Result<JobPage, StoreError> {
        let room = room.clone();
        self.readers
            .run(move |connection| job_list::list(connection, &room, &agent, after, limit, now))
            .await
    }
}
