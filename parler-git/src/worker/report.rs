//! What a worker says of a job: posted under the claim's number, so that a worker whose claim is over says nothing. What was
//! written goes with it as a file, and what was committed as a bundle and a handoff to the requester.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use git_remote_parler::base::BasePolicy;
use git_remote_parler::git::was_ended;
use git_remote_parler::push::{Force, PushError, PushPolicy, PushRequest, Pusher, RefChange, RefOutcome, RoomLookup};
use git_remote_parler::repository::Repository;
use git_remote_parler::room_cache::RoomCache;
use parler_client::{BlobSource, Client, ClientError, rests_of_a_stream};
use parler_protocol::api::Posted;
use parler_protocol::{
    BundleId, ErrorCode, Fence, FilePart, HandoffPart, Head, MessageId, Oid, Part, RefName, Sender, Seq, ServiceName,
    TaskPart, TaskStatus, TextPart,
};
use tempfile::TempDir;

use super::job::{Job, answer};
use super::lease::{Lease, Standing};
use super::stop::Stop;
use crate::error::{Error, ErrorKind, Result};
use crate::outgoing::Outgoing;
use crate::posting::mentions;
use crate::text;

/// Where a room keeps what its jobs have made.
const RESULTS: &str = "refs/results/";
/// What the output of a command is called.
const OUTPUT: &str = "output.txt";
/// How long a hub without room is asked to take all of it, before it is asked to take the end of the job alone.
const FULL_PATIENCE: Duration = Duration::from_secs(60);
/// How often a bundle is made again whose git child somebody has ended.
const MOST_INTERRUPTIONS: u32 = 3;

/// The newest head that was told, for all jobs of a worker.
pub(crate) struct Told(Mutex<Head>);

impl Told {
    pub(crate) const fn new(head: Head) -> Self {
        Self(Mutex::new(head))
    }

    fn lock(&self) -> MutexGuard<'_, Head> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Head {
        *self.lock()
    }

    fn note(&self, posted: &Posted) {
        let mut head = self.lock();
        if posted.head.seq > head.seq {
            *head = posted.head;
        }
    }
}

/// How a job ended, as it is told.
pub(super) struct Verdict {
    pub(super) status: TaskStatus,
    /// One line.
    pub(super) note: String,
    /// How long its command took, where it ran.
    pub(super) took: Option<Duration>,
    /// What that wrote.
    pub(super) output: Vec<u8>,
    /// What that committed.
    pub(super) commits: Option<Commits>,
}

/// Commits on top of the job's.
pub(super) struct Commits {
    pub(super) repository: Repository,
    pub(super) tip: Oid,
    /// Where the repository is: there as long as they may have to be sent.
    pub(super) _directory: TempDir,
}

/// What was posted, and as what.
pub(super) struct Ended {
    pub(super) status: TaskStatus,
    pub(super) note: String,
    pub(super) took: Option<Duration>,
    pub(super) line: String,
    pub(super) posted: Posted,
    pub(super) bundle: Option<BundleId>,
    pub(super) output: Option<BundleId>,
}

/// The message, the bundle and the output that are in the room now.
type InRoom = (Posted, Option<BundleId>, Option<BundleId>);

/// Why nothing was.
pub(super) enum Untold {
    /// The claim is over.
    Late(String),
    /// The worker was told to stop, and why it was not told before.
    GiveBack(String),
    /// It cannot be told.
    Failed(Error),
}

/// Who tells of one job.
pub(super) struct Reporter<'a> {
    pub(super) client: &'a Client,
    pub(super) told: &'a Told,
    pub(super) lease: &'a Lease,
    pub(super) cache: &'a RoomCache,
    pub(super) stop: &'a Stop,
    /// Tells whoever looks on why it takes longer.
    pub(super) remark: &'a dyn Fn(String),
    /// What is posted of the text of an error.
    pub(super) for_others: &'a dyn Fn(&str) -> String,
}

impl Reporter<'_> {
    /// Says on the way how it stands. A hub that cannot be reached is told at the end.
    pub(super) fn say(&self, job: &Job, status: TaskStatus) -> std::result::Result<(), Untold> {
        let parts = vec![task(job.id, status, None, None).into()];
        match self.post(job, parts, None, None) {
            Ok(_) => Ok(()),
            Err(Tried::Late(why)) => Err(Untold::Late(why)),
            Err(Tried::Again(_) | Tried::Interrupted(_) | Tried::Full(_)) => Ok(()),
            Err(Tried::Failed(error)) => Err(Untold::Failed(error)),
        }
    }

    /// Says how it ended, again until the hub has heard it, the claim is over, or the worker is told to stop. Where the room
    /// does not take what was committed or written, without that.
    pub(super) fn end(&self, job: &Job, mut verdict: Verdict) -> std::result::Result<Ended, Untold> {
        let mut rests = rests_of_a_stream();
        let mut is_remarked = false;
        let mut interruptions = 0;
        let mut full_since = None;
        loop {
            let tried = match &verdict.commits {
                None => self.end_without_commits(job, &verdict),
                Some(commits) => self.end_with_commits(job, &verdict, commits),
            };
            let error = match tried {
                Ok((posted, bundle, output)) => {
                    let line = verdict.line();
                    let Verdict { status, note, took, .. } = verdict;
                    return Ok(Ended {
                        status,
                        note,
                        took,
                        line,
                        posted,
                        bundle,
                        output,
                    });
                }
                Err(Tried::Late(why)) => return Err(Untold::Late(why)),
                Err(Tried::Failed(error)) if verdict.has_more() => {
                    verdict.leave_more(&(self.for_others)(error.what()));
                    continue;
                }
                Err(Tried::Full(error)) => {
                    let since = *full_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= FULL_PATIENCE && verdict.has_more() {
                        verdict.leave_more(&(self.for_others)(error.what()));
                        continue;
                    }
                    error
                }
                Err(Tried::Failed(error)) => return Err(Untold::Failed(error)),
                Err(Tried::Interrupted(error)) => {
                    interruptions += 1;
                    if interruptions < MOST_INTERRUPTIONS {
                        continue;
                    }
                    error
                }
                Err(Tried::Again(error)) => error,
            };
            if let Standing::Lost(_) | Standing::Cancelled = self.lease.standing() {
                return Err(Untold::Late(error.what().to_owned()));
            }
            if self.stop.is_said() {
                return Err(Untold::GiveBack(error.what().to_owned()));
            }
            if !is_remarked {
                is_remarked = true;
                let why = text::one_line(error.what());
                (self.remark)(format!("how it ended cannot be told yet: {why}"));
            }
            let left = self.lease.ends().saturating_duration_since(Instant::now());
            self.stop.rest(rests.next().expect("rests have no end").min(left));
        }
    }

    fn end_without_commits(&self, job: &Job, verdict: &Verdict) -> std::result::Result<InRoom, Tried> {
        let output = output(verdict)?;
        let mut parts = said(job.id, verdict, None);
        parts.extend(output.as_ref().map(file_part));
        let blob = output.as_ref().map(|output| output as &dyn BlobSource);
        let posted = self.post(job, parts, Some("end"), blob)?;
        Ok((posted, None, output.map(|output| output.id)))
    }

    /// A message brings one blob, so the output comes first.
    fn end_with_commits(&self, job: &Job, verdict: &Verdict, commits: &Commits) -> std::result::Result<InRoom, Tried> {
        let output = output(verdict)?;
        if let Some(output) = &output {
            let parts = vec![task(job.id, TaskStatus::Working, None, None).into(), file_part(output)];
            self.post(job, parts, Some("output"), Some(output))?;
        }
        let key = key(job, "end");
        let service = &job.service;
        let extra = |bundle: Option<BundleId>| -> Vec<Part> {
            let mut parts = said(job.id, verdict, bundle);
            parts.extend(output.as_ref().map(file_part));
            let summary = format!("job {} of '{service}': {}", job.seq(), verdict.note);
            parts.push(look_at(service, bundle, &job.requester.name, summary));
            parts
        };
        let request = PushRequest {
            changes: vec![RefChange {
                destination: result_ref(job.seq()),
                source: Some(commits.tip.to_string()),
                force: Force::Always,
            }],
            extra: Some(&extra),
            mentions: mentions([job.requester.name.as_str()]),
            reply_to: Some(job.id),
            key: Some(&key),
            fence: Some(job.fence),
            name_every_tip: true,
            ..PushRequest::default()
        };
        let policy = PushPolicy {
            base: BasePolicy::RoomOnly,
            ..PushPolicy::default()
        };
        let pusher = Pusher::new(&commits.repository, self.client, &job.room, &policy, self.cache);
        let report = match pusher.push(&request, RoomLookup::Unread) {
            Ok(report) => report,
            Err(PushError::Client(error)) => return Err(self.tried(error)),
            // The job's commits are not to blame.
            Err(error) if was_ended(&error) => return Err(Tried::Interrupted(error.into())),
            Err(error) => return Err(Tried::of(error.into())),
        };
        let refused = report.refs.iter().find_map(|found| match &found.outcome {
            RefOutcome::Refused(why) => Some(format!("{} was not moved: {why}", found.name)),
            _ => None,
        });
        let posted = report.posted.ok_or_else(|| {
            let why = refused.unwrap_or_else(|| "there was nothing to send".to_owned());
            Tried::Failed(Error::fatal(format_args!(
                "the result of job {} was not sent: {why}",
                job.seq()
            )))
        })?;
        self.told.note(&posted);
        Ok((posted, report.bundle_id, output.map(|output| output.id)))
    }

    fn post(
        &self,
        job: &Job,
        parts: Vec<Part>,
        key_of: Option<&str>,
        blob: Option<&dyn BlobSource>,
    ) -> std::result::Result<Posted, Tried> {
        let signed = job.receipt(self.client, &self.told.get(), parts).map_err(Tried::of)?;
        let key = key_of.map(|what| key(job, what));
        let posted = self
            .client
            .post_with_fence(&job.room, job.fence, &signed, key.as_deref(), blob);
        let posted = posted.map_err(|error| self.tried(error))?;
        self.told.note(&posted);
        Ok(posted)
    }

    fn tried(&self, error: ClientError) -> Tried {
        match error.code() {
            Some(ErrorCode::StaleFence) => {
                let why = "somebody else may have it now, or it has ended";
                self.lease.lost(why);
                Tried::Late(why.to_owned())
            }
            Some(ErrorCode::StorageFull) => Tried::Full(error.into()),
            _ => Tried::of(error.into()),
        }
    }
}

/// What became of one try.
enum Tried {
    Late(String),
    /// The hub cannot be reached.
    Again(Error),
    /// A git child of ours was ended by somebody else: by us, where the worker is told to stop.
    Interrupted(Error),
    /// The hub has no room for it. Less may have.
    Full(Error),
    Failed(Error),
}

impl Tried {
    fn of(error: Error) -> Self {
        match error.kind {
            ErrorKind::Unreachable => Self::Again(error),
            _ => Self::Failed(error),
        }
    }
}

/// Says of a job, outside of the work on it, how it stands.
pub(crate) fn say_alone(
    client: &Client,
    told: &Told,
    (service, fence): (&ServiceName, Fence),
    (id, requester): (MessageId, &Sender),
    status: TaskStatus,
    note: Option<&str>,
) -> Result<Posted> {
    let room = service.room();
    let parts = vec![task(id, status, note.map(str::to_owned), None).into()];
    let signed = answer(client, &told.get(), &room, id, requester, parts)?;
    let posted = client.post_with_fence(&room, fence, &signed, None, None)?;
    told.note(&posted);
    Ok(posted)
}

/// Where a room keeps what its job of this number has made.
pub(crate) fn result_ref(seq: Seq) -> RefName {
    format!("{RESULTS}{seq}").parse().expect("a ref's name")
}

/// The handoff of what was made of a job, to whoever asked for it.
pub(crate) fn look_at(service: &ServiceName, bundle: Option<BundleId>, requester: &str, summary: String) -> Part {
    let named = bundle.map(|id| id.short()).unwrap_or_default();
    HandoffPart {
        next: format!("look at what was made of it: git parler apply {named} --service {service}"),
        summary: Some(summary),
        to: Some(requester.to_owned()),
        bundle,
        ..HandoffPart::default()
    }
    .into()
}

/// What makes a message about this claim known when it is posted again.
fn key(job: &Job, what: &str) -> String {
    format!("job:{}:{}:{}:{what}", job.service, job.fence.seq, job.fence.number)
}

fn task(id: MessageId, status: TaskStatus, note: Option<String>, result: Option<BundleId>) -> TaskPart {
    TaskPart {
        status,
        task: Some(id.to_string()),
        note,
        result,
        tokens: None,
        elapsed_ms: None,
    }
}

fn said(id: MessageId, verdict: &Verdict, bundle: Option<BundleId>) -> Vec<Part> {
    let took = verdict.took;
    let elapsed_ms = took.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let part = TaskPart {
        elapsed_ms,
        ..task(id, verdict.status, Some(verdict.note.clone()), bundle)
    };
    let text = TextPart { text: verdict.line() };
    vec![part.into(), text.into()]
}

impl Verdict {
    /// Says why what was committed stays behind.
    pub(super) fn leave_commits(&mut self, why: &str) {
        self.commits = None;
        self.note.push_str("; what it committed is not sent: ");
        self.note.push_str(why);
    }

    /// Whether it says more than how the job ended.
    fn has_more(&self) -> bool {
        self.commits.is_some() || !self.output.is_empty()
    }

    /// Leaves out what was committed, then what was written, and says why.
    fn leave_more(&mut self, why: &str) {
        if self.commits.is_some() {
            return self.leave_commits(why);
        }
        self.output.clear();
        self.note.push_str("; what it wrote is not sent: ");
        self.note.push_str(why);
    }

    /// How it ended and how long it took.
    pub(super) fn line(&self) -> String {
        match self.took {
            Some(took) => format!("{} after {:.1} s", self.note, took.as_secs_f64()),
            None => self.note.clone(),
        }
    }
}

fn output(verdict: &Verdict) -> std::result::Result<Option<Outgoing>, Tried> {
    if verdict.output.is_empty() {
        return Ok(None);
    }
    let output = Outgoing::of_bytes(OUTPUT, &verdict.output);
    output.map(Some).map_err(Tried::Failed)
}

fn file_part(output: &Outgoing) -> Part {
    FilePart {
        media_type: Some("text/plain".to_owned()),
        ..output.part()
    }
    .into()
}
