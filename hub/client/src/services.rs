//! The calls about services: serve one, ask for its jobs, keep, end and look at them. Which worker takes how many, and for how
//! long, its caller decides.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use parler_protocol::api::{
    ClaimJob, ClaimRenewed, ClaimedJob, JobList, JobSummary, Posted, RenewClaim, RoomAnswer, Serve,
};
use parler_protocol::limits::{MAX_PAGE_MESSAGES, MAX_WAIT};
use parler_protocol::{Fence, MessageId, RoomName, Seq, ServiceName, Signed, paths};

use crate::request::{Request, RequestBody};
use crate::{BlobSource, Client, ClientError};

impl Client {
    /// Serves a service from now on; where the hub lets anybody, it is made for whoever comes first.
    ///
    /// # Errors
    /// `not_found` and `not_serving` for who was not invited, and as every call.
    pub fn serve(&self, service: &ServiceName) -> Result<RoomAnswer, ClientError> {
        let service = service.clone();
        self.call(&self.json(Method::POST, paths::SERVICES, &Serve { service })?)
    }

    /// Asks for a job, and waits for at most `wait`, or 55 seconds, where there is none. Sent again after a lost answer, it
    /// gets the job that the hub gave it.
    ///
    /// # Errors
    /// `not_serving`, and as every call.
    pub fn claim_job(
        &self,
        service: &ServiceName,
        lease: Duration,
        wait: Duration,
    ) -> Result<Option<ClaimedJob>, ClientError> {
        let asked = ClaimJob {
            id: MessageId::generate(),
            lease_seconds: Some(lease.as_secs()),
            wait_seconds: None,
            own: false,
        };
        self.claim_job_as(service, &asked, wait)
    }

    /// As [`Client::claim_job`], as asked: again under the same id the same job is given, as long as its lease lasts. How
    /// long to wait is `wait`'s to say.
    ///
    /// # Errors
    /// As [`Client::claim_job`].
    pub fn claim_job_as(
        &self,
        service: &ServiceName,
        asked: &ClaimJob,
        wait: Duration,
    ) -> Result<Option<ClaimedJob>, ClientError> {
        let wait = wait.min(MAX_WAIT);
        let asked = ClaimJob {
            wait_seconds: (!wait.is_zero()).then(|| wait.as_secs().max(1)),
            ..asked.clone()
        };
        let request = Request {
            patience: wait,
            ..self.json(Method::POST, &paths::claims(service), &asked)?
        };
        let (parts, body) = self.exchange(&request)?;
        match parts.status {
            StatusCode::NO_CONTENT => Ok(None),
            _ => self.read_json(&body).map(Some),
        }
    }

    /// Keeps a job for `lease` from now on.
    ///
    /// # Errors
    /// `stale_fence` where it is no longer mine, and as every call.
    pub fn renew_claim(
        &self,
        service: &ServiceName,
        fence: Fence,
        lease: Duration,
    ) -> Result<ClaimRenewed, ClientError> {
        let asked = RenewClaim {
            fence: fence.number,
            lease_seconds: Some(lease.as_secs()),
        };
        self.call(&self.json(Method::PUT, &paths::claim(service, fence.seq), &asked)?)
    }

    /// Gives a job back: somebody else is offered it at once.
    ///
    /// # Errors
    /// `stale_fence` where it is no longer mine, and as every call.
    pub fn release_claim(&self, service: &ServiceName, fence: Fence) -> Result<(), ClientError> {
        self.exchange(&Request {
            method: Method::DELETE,
            ..Request::get(paths::release(service, fence))
        })
        .map(drop)
    }

    /// Jobs of a service after this number, in order; a page of them.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn jobs(&self, service: &ServiceName, after: Seq) -> Result<JobList, ClientError> {
        self.call(&Request::get(paths::jobs(service, after, MAX_PAGE_MESSAGES)))
    }

    /// The job of this number; none where the message is no job.
    ///
    /// # Errors
    /// `not_found`, and as every call.
    pub fn job(&self, service: &ServiceName, seq: Seq) -> Result<Option<JobSummary>, ClientError> {
        let before = Seq::new(seq.get().saturating_sub(1));
        let list: JobList = self.call(&Request::get(paths::jobs(service, before, 1)))?;
        Ok(list.jobs.into_iter().next().filter(|job| job.seq == seq))
    }

    /// Offers a dead job again.
    ///
    /// # Errors
    /// `job_state` where it is not dead, and as every call.
    pub fn retry_job(&self, service: &ServiceName, seq: Seq) -> Result<JobSummary, ClientError> {
        self.call(&Request {
            method: Method::POST,
            ..Request::get(paths::job_retry(service, seq))
        })
    }

    /// As [`Client::post`]; with a fence it says what becomes of a job that I have claimed. `done` and `failed` end it,
    /// together with the message or not at all.
    ///
    /// # Errors
    /// `stale_fence` where the job is no longer mine: nothing is stored then. As [`Client::post`].
    pub fn post_with_fence(
        &self,
        room: &RoomName,
        fence: impl Into<Option<Fence>>,
        message: &Signed,
        key: Option<&str>,
        blob: Option<&dyn BlobSource>,
    ) -> Result<Posted, ClientError> {
        let fence = fence.into();
        if let Some(blob) = blob {
            return self.attachment(room, blob).with_fence(fence).post(message, key);
        }
        self.check_history(room)?;
        let body = RequestBody::Json(message.body.clone().into());
        self.post_request(room, key, body, None, fence)
    }
}

/// The header that names the claim.
pub(crate) fn fence_field(fence: Fence) -> (HeaderName, String) {
    (HeaderName::from_static(paths::FENCE_HEADER), fence.to_string())
}
