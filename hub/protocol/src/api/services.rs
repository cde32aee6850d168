//! Services: their queues of jobs, and who works on which.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{AgentId, AgentName, Message, MessageId, ParseError, Seq, ServiceName};

/// `POST /v1/services`: serve from now on. The answer is a [`super::RoomAnswer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The service.
    pub service: ServiceName,
}

/// `POST /v1/services/{service}/claims`: asks for a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimJob {
    /// Names this request: sent again, it gets the job that it got, as long as the lease is its own.
    pub id: MessageId,
    /// How long the job is mine unless I renew, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
    /// How long to wait where there is no job, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_seconds: Option<u64>,
    /// Whether a job will do that I asked for myself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

/// The answer to [`ClaimJob`], where there was a job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedJob {
    /// The service.
    pub service: ServiceName,
    /// The job's number in the room.
    pub seq: Seq,
    /// The claim's number: goes with everything that is said of the job.
    pub fence: u64,
    /// Until when it is mine by the hub's clock, milliseconds since 1970.
    pub lease_until: i64,
    /// How much of that is left, milliseconds: what to go by where clocks differ.
    pub lease_ms: u64,
    /// Which try of the job this is, from 1.
    pub attempt: u32,
    /// The message that dispatched it, exactly as stored.
    #[schemars(with = "Message")]
    pub job: Box<RawValue>,
}

/// `PUT /v1/services/{service}/claims/{seq}`: keeps a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RenewClaim {
    /// The claim's number.
    pub fence: u64,
    /// How long the job is mine from now on, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
}

/// The answer to [`RenewClaim`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRenewed {
    /// Until when it is mine by the hub's clock, milliseconds since 1970.
    pub lease_until: i64,
    /// How much of that is left, milliseconds; 0 where the job was cancelled.
    pub lease_ms: u64,
    /// Whether its requester has called it off, or left: nobody waits for a result any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

/// How a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// For whoever asks next.
    Waiting,
    /// Somebody works on it.
    Claimed,
    /// Finished.
    Done,
    /// Given up by who worked on it.
    Failed,
    /// Called off by who asked for it.
    Cancelled,
    /// Given up by the hub: too many of those who took it were never heard of again, or who asked for it has left, or was a
    /// token that was revoked.
    Dead,
}

impl JobState {
    /// Its word on the wire, and for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Claimed => "claimed",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Dead => "dead",
        }
    }

    /// Whether it may still come to a result.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Claimed)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let all = [
            Self::Waiting,
            Self::Claimed,
            Self::Done,
            Self::Failed,
            Self::Cancelled,
            Self::Dead,
        ];
        let found = all.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| ParseError::new("job state", text, "is not one that a job has"))
    }
}

/// Which jobs are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobFilter {
    /// Those that may still come to a result.
    Open,
    /// Those that the hub has given up.
    Dead,
}

impl JobFilter {
    /// Its word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Dead => "dead",
        }
    }

    /// Whether a job that stands so is one of them.
    pub const fn takes(self, state: JobState) -> bool {
        match self {
            Self::Open => state.is_open(),
            Self::Dead => matches!(state, JobState::Dead),
        }
    }
}

impl FromStr for JobFilter {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let found = [Self::Open, Self::Dead]
            .into_iter()
            .find(|filter| filter.as_str() == text);
        found.ok_or_else(|| ParseError::new("job filter", text, "is not open or dead"))
    }
}

/// `GET /v1/services/{service}/jobs?after=&limit=&state=`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobList {
    /// The service.
    pub service: ServiceName,
    /// Its jobs after the number asked for, in order.
    pub jobs: Vec<JobSummary>,
    /// Where to go on, where more follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Seq>,
}

/// How one job stands. Also the answer to `POST /v1/services/{service}/jobs/{seq}/retry`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobSummary {
    /// Its number in the room.
    pub seq: Seq,
    /// The id of its message, which its receipts name.
    pub id: MessageId,
    /// Who asked for it.
    pub requester: Party,
    /// How it stands.
    pub state: JobState,
    /// How many who took it were never heard of again.
    pub attempts: u32,
    /// Who took it last, of those who did not give it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<Party>,
    /// Until when it is that one's, milliseconds since 1970; while it is claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<i64>,
}

/// Somebody who has to do with a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Party {
    /// The key; of a token, that of its account.
    pub id: AgentId,
    /// Its newest name.
    pub name: AgentName,
}
