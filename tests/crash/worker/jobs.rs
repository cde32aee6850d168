//! What an agent of a mixed load does as one that serves: it asks for jobs, takes one, keeps it, gives it back, and brings
//! another to its end; and what must be true of all jobs afterwards.

use std::collections::{BTreeMap, BTreeSet};

use parler_harness::{Acknowledged, PlainHttp, RawClient, audit_acknowledged, read_log};
use parler_protocol::api::{ClaimedJob, JobState, JobSummary, Posted};
use parler_protocol::{
    DispatchPart, Fence, Head, Message, MessageId, Part, Seq, ServiceName, TaskPart, TaskStatus, paths,
};
use serde_json::json;

use super::{Work, Worker};
use crate::stage::Stage;

/// Longer than any trial, seconds.
const LEASE_SECONDS: u64 = 3600;

/// What an agent did with jobs.
pub(crate) struct JobWork {
    head: Head,
    acknowledged: Vec<Acknowledged>,
    /// Every claim of its own.
    claims: Vec<Fence>,
    /// Those by which it ended the job.
    done: Vec<Fence>,
}

impl JobWork {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            head: stage.queue_head,
            acknowledged: Vec::new(),
            claims: Vec::new(),
            done: Vec::new(),
        }
    }
}

/// The part of a job.
pub(crate) fn dispatch(service: &ServiceName) -> Part {
    DispatchPart {
        role: service.to_string(),
        ..DispatchPart::default()
    }
    .into()
}

impl Worker<'_> {
    /// One of everything.
    pub(super) fn serve(&mut self) {
        let job = dispatch(&self.stage.service);
        self.say_to_queue(vec![job], None);
        let Some(held) = self.claim() else { return };
        self.renew(&held);
        self.release(&held);
        let Some(held) = self.claim() else { return };
        let id = Message::parse(held.job.get().as_bytes()).unwrap().id;
        let done = TaskPart {
            status: TaskStatus::Done,
            task: Some(id.to_string()),
            note: None,
            result: None,
            tokens: None,
            elapsed_ms: None,
        };
        let fence = fence_of(&held);
        self.say_to_queue(vec![done.into()], Some(fence));
        self.work.jobs.done.push(fence);
    }

    /// Takes the next job, under one id until it is known which.
    fn claim(&mut self) -> Option<ClaimedJob> {
        let asked = json!({ "id": MessageId::generate(), "leaseSeconds": LEASE_SECONDS });
        let answer = self.ask_queue("POST", &paths::claims(&self.stage.service), &asked);
        if answer.status == 204 {
            return None;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        let held: ClaimedJob = serde_json::from_slice(&answer.body).unwrap();
        let fence = fence_of(&held);
        let last = self.work.jobs.claims.last().map(|fence| fence.number);
        assert!(last < Some(fence.number), "{fence} after {last:?}");
        self.work.jobs.claims.push(fence);
        Some(held)
    }

    fn renew(&self, held: &ClaimedJob) {
        let path = paths::claim(&self.stage.service, held.seq);
        let asked = json!({ "fence": held.fence, "leaseSeconds": LEASE_SECONDS });
        let answer = self.ask_queue("PUT", &path, &asked);
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    fn release(&self, held: &ClaimedJob) {
        let path = paths::release(&self.stage.service, fence_of(held));
        let answer = self.ask("DELETE", &path, &[], b"");
        // It was given back by a request that was not answered, and somebody else has it.
        let is_anothers = answer.status == 409 && answer.code() == "stale_fence";
        assert!(answer.status == 204 || is_anothers, "{answer:?}");
    }

    /// Posts into the service's room until it is known what became of it.
    fn say_to_queue(&mut self, parts: Vec<Part>, fence: Option<Fence>) {
        let room = self.stage.service.room();
        let message = self.stage.sign_in(&room, self.seat, &self.work.jobs.head, parts);
        let fence = fence.map(|fence| fence.to_string());
        let mut fields = vec![("content-type", "application/json")];
        fields.extend(fence.as_deref().map(|fence| (paths::FENCE_HEADER, fence)));
        let answer = self.ask("POST", &paths::messages(&room), &fields, &message.body);
        assert!(matches!(answer.status, 200 | 201), "{answer:?}");
        let posted: Posted = serde_json::from_slice(&answer.body).unwrap();
        self.work.jobs.head = posted.head;
        let body = message.body;
        self.work.jobs.acknowledged.push(Acknowledged {
            posted,
            body,
            key: None,
        });
        self.progress.acknowledged();
    }

    fn ask_queue(&self, method: &str, path: &str, body: &serde_json::Value) -> parler_harness::PlainAnswer {
        let fields = [("content-type", "application/json")];
        self.ask(method, path, &fields, &serde_json::to_vec(body).unwrap())
    }
}

fn fence_of(held: &ClaimedJob) -> Fence {
    Fence {
        seq: held.seq,
        number: held.fence,
    }
}

/// No job is lost, none was completed twice, and no two claims have one number.
#[track_caller]
pub(crate) fn audit(stage: &Stage, auditor: &RawClient, http: impl Fn(&str) -> PlainHttp, work: &[Work]) {
    let room = auditor.join(stage.queue_code());
    let log = read_log(&auditor.calls, &stage.hub, &room);
    let mut acknowledged = stage.queue_head.seq.get();
    let mut numbers = BTreeSet::new();
    let mut claims: BTreeMap<Seq, u64> = BTreeMap::new();
    let mut done: BTreeMap<Seq, u64> = BTreeMap::new();
    for work in work {
        let jobs = &work.jobs;
        audit_acknowledged(&http(&work.http.token), &room, &log, &jobs.acknowledged);
        acknowledged += jobs.acknowledged.len() as u64;
        for fence in &jobs.claims {
            assert!(numbers.insert(fence.number), "two claims have number {}", fence.number);
            let newest = claims.entry(fence.seq).or_default();
            *newest = fence.number.max(*newest);
        }
        for fence in &jobs.done {
            assert_eq!(done.insert(fence.seq, fence.number), None, "{fence} was done before");
        }
    }
    assert_eq!(log.messages.len() as u64, acknowledged);
    let mut listed: Vec<JobSummary> = Vec::new();
    loop {
        let after = listed.last().map_or(Seq::ZERO, |job| job.seq);
        let page = auditor.calls.jobs(&stage.service, after).unwrap();
        let is_last = page.next.is_none();
        listed.extend(page.jobs);
        if is_last {
            break;
        }
    }
    let dispatched = log.messages.iter().filter(|message| {
        let is_job = |part: &Part| matches!(part, Part::Dispatch(_));
        message.parts.iter().any(is_job)
    });
    let dispatched: Vec<_> = dispatched.map(|message| message.seq).collect();
    assert_eq!(listed.iter().map(|job| job.seq).collect::<Vec<_>>(), dispatched, "jobs");
    for job in &listed {
        let seq = job.seq;
        let state = match done.get(&seq) {
            Some(number) => {
                assert_eq!(claims.get(&seq), Some(number), "job {seq} was done by its newest claim");
                JobState::Done
            }
            None => JobState::Waiting,
        };
        assert_eq!((job.state, job.attempts), (state, 0), "job {seq}");
    }
}
