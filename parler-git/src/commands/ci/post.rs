//! `git parler ci post`: how a commit stands, what was found in it, whose turn it is and the commits that mend it, in one signed
//! message. Moves no ref, and under a key is said once.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use git_remote_parler::base::repository_id;
use git_remote_parler::push::{LooseTip, PushReport, PushRequest, RoomLookup};
use git_remote_parler::repository::Place;
use parler_client::Client;
use parler_protocol::api::Posted;
use parler_protocol::{
    BundleId, BundleRefName, CommitStatus, Draft, MessageId, Oid, Part, ReviewPart, RoomName, RunUrl, ServiceName,
    StatusContext, TaskPart,
};
use serde_json::{Value, json};

use super::named_commit;
use crate::ci::environment::CiEnvironment;
use crate::ci::findings::{Findings, fit_text};
use crate::ci::report::{MAX_REPORT_BYTES, Report, ReportFormat};
use crate::ci::secrets::Secrets;
use crate::cli::{CiPost, Instruction as InstructionOptions};
use crate::commands::handoff::{Subject, find_subject, queued_bundle};
use crate::commands::receipts::may_answer;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::input::text_of;
use crate::naming::Reference;
use crate::outbox::{Sending, post_or_queue};
use crate::output::Output;
use crate::posting::{Place as RoomPlace, mentions, parse_key, post_draft, tell_if_for_nobody};
use crate::pushing::{Destination, Instruction, bundle_json, bundle_line, push_policy, pushed};
use crate::review_view::counted;
use crate::room_handoffs::find_handoff;
use crate::text;
use crate::time::parse_word_ttl;
use crate::view::{SHORT_OID_DIGITS, field};

pub(super) fn run(context: &Context, args: &CiPost, output: &mut Output) -> Result<()> {
    let room = context.room()?;
    if ServiceName::of_room(&room).is_some() {
        return Err(Error::usage("statuses of commits are not said in a service's queue").then("--room ROOM"));
    }
    let word = Word::read(context, args, output)?;
    if args.queue {
        return queue(context, args, &room, &word, output);
    }
    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let client = context.client_of(&hub, agent.identity)?;
    context.require_sent()?;
    let answered = match filled(args.reply_to.as_ref()) {
        Some(named) => Some(Answered::find(context, &client, named, word.review.status, output)?),
        None => None,
    };
    let subject = match filled(args.bundle.as_ref()) {
        Some(named) => find_subject(context, &client, (&room, None), named)?,
        None => Subject::Nothing,
    };
    let revision = match subject {
        Subject::Nothing => return post(&client, &room, &word, None, answered.as_ref(), output),
        Subject::Bundle(id, _) => return post(&client, &room, &word, Some(id), answered.as_ref(), output),
        Subject::Ref(name) => name,
        Subject::Commit(revision) => revision,
    };
    let policy = push_policy(context.repository()?, &hub, None)?;
    let extra = |bundle: Option<BundleId>| word.parts(bundle, answered.as_ref());
    let request = PushRequest {
        loose: vec![LooseTip {
            name: BundleRefName::Head,
            revision,
        }],
        extra: Some(&extra),
        mentions: word.mentions(answered.as_ref()),
        reply_to: answered.as_ref().map(|answered| answered.id),
        key: word.key.as_deref(),
        name_every_tip: true,
        ..PushRequest::default()
    };
    let destination = Destination {
        client: &client,
        room: &room,
        policy: &policy,
        lookup: RoomLookup::Unread,
        can_force: false,
    };
    let (report, failure) = pushed(context, destination, &request, output)?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let Some(posted) = &report.posted else {
        return Err(Error::fatal("nothing was posted"));
    };
    let place = (&report.room, posted.seq, posted.id);
    tell(&word, place, report.replayed, Some(&report), report.bundle_id, output)?;
    tell_if_for_nobody(&client, &report.room, word.to(), output);
    Ok(())
}

/// What the job has to say, before any hub is asked.
struct Word {
    review: ReviewPart,
    handoff: Option<Instruction>,
    key: Option<String>,
    /// How many findings point to what is not there.
    misplaced: u64,
}

impl Word {
    fn read(context: &Context, args: &CiPost, output: &mut Output) -> Result<Self> {
        let job = context.ci_environment();
        let repository = context.repository_if_any();
        let secrets = Secrets::of(
            &context.environment,
            context.token_at_hand().map(|token| token.expose()),
        );
        let status = CommitStatus::from(args.status);
        let ttl_secs = filled(args.ttl.as_ref()).map(parse_word_ttl).transpose()?;
        let said = (
            filled(args.context.as_ref()),
            job.as_ref().and_then(|job| job.context.clone()),
        );
        let status_context = match said {
            (Some(said), _) => secrets.mask(said).parse::<StatusContext>().map_err(Error::usage)?,
            (None, Some(told)) => told,
            (None, None) => {
                let what = "--context is missing, and no variable says what the job is called";
                return Err(Error::usage(what).then("add --context NAME"));
            }
        };
        let commit = commit(context, args, job.as_ref())?;
        let url = match filled(args.url.as_ref()) {
            Some(url) => Some(secrets.mask(url).parse::<RunUrl>().map_err(Error::usage)?),
            None => job.as_ref().and_then(|job| job.url.clone()),
        };
        let repository_id = match job.as_ref().and_then(|job| job.repository.clone()) {
            Some(told) => Some(told),
            None => repository.map(repository_id).transpose()?.flatten(),
        };
        let summary = filled(args.summary.as_ref())
            .map(|text| text_of("--summary", text))
            .transpose()?;
        let report = args.report.as_ref().filter(|path| !path.is_empty());
        let report = match report.map(|path| read_report(context, Path::new(path))).transpose() {
            // A job that failed before its tool wrote anything has failed all the same, and somebody waits to be told.
            Err(error) if status.is_bad() && error.kind == ErrorKind::NotFound => {
                output.remark(&format!("without findings: {}", error.what()));
                None
            }
            read => read?,
        };
        let summary = summary.or_else(|| report.as_ref()?.summary.clone());
        let found = fit(context, report, &secrets, &commit)?;
        found.remarks.iter().for_each(|remark| output.remark(remark));
        let wants_handoff = !args.if_bad || status.is_bad();
        let handoff = match filled(args.next.as_ref()).filter(|_| wants_handoff) {
            Some(next) => {
                let options = InstructionOptions {
                    summary: None,
                    to: filled(args.to.as_ref()).map(str::to_owned),
                    revises: None,
                };
                let instruction = Instruction::new(next, &options)?;
                Some(Instruction {
                    next: secrets.mask(&instruction.next).into_owned(),
                    ttl_secs,
                    ..instruction
                })
            }
            None => None,
        };
        let key = match filled(args.idempotency_key.as_ref()) {
            Some("auto") => Some(key_of_job(job.as_ref(), &status_context, &commit, status)?),
            key => key.map(parse_key).transpose()?.map(str::to_owned),
        };
        Ok(Self {
            review: ReviewPart {
                commit,
                context: status_context,
                status,
                repository: repository_id,
                summary: summary.map(|summary| fit_text(&summary, &secrets)),
                url,
                findings: found.findings,
                omitted: found.omitted,
                ttl_secs,
            },
            handoff,
            key,
            misplaced: found.misplaced,
        })
    }

    /// The parts of the message, once it is known which bundle goes with it.
    fn parts(&self, bundle: Option<BundleId>, answered: Option<&Answered>) -> Vec<Part> {
        let task = TaskPart {
            status: self.review.status.task(),
            // Nobody's task but that of whoever asked: else the review says what it is about.
            task: answered.map(|answered| answered.id.to_string()),
            note: answered.map(|_| self.verdict()),
            result: bundle,
            tokens: None,
            elapsed_ms: None,
        };
        let handoff = self.handoff.as_ref().map(|handoff| handoff.part(bundle).into());
        [self.review.clone().into(), task.into()]
            .into_iter()
            .chain(handoff)
            .collect()
    }

    fn mentions(&self, answered: Option<&Answered>) -> Vec<String> {
        let asker = answered.map(|answered| answered.from.as_str());
        mentions(self.to().into_iter().chain(asker))
    }

    fn to(&self) -> Option<&str> {
        self.handoff.as_ref()?.to.as_deref()
    }

    /// `failure of test at 0123456789`
    fn verdict(&self) -> String {
        let commit = self.review.commit.to_string();
        let (status, context) = (self.review.status.as_str(), text::name(self.review.context.as_str()));
        format!("{status} of {context} at {}", &commit[..SHORT_OID_DIGITS])
    }
}

/// The handoff that this is the end of.
struct Answered {
    id: MessageId,
    from: String,
}

impl Answered {
    fn find(
        context: &Context,
        client: &Client,
        named: &str,
        status: CommitStatus,
        output: &mut Output,
    ) -> Result<Self> {
        let reference = Reference::require(named)?;
        let (handoffs, seq) = find_handoff(context, client, &reference, 0)?;
        output.warn(&context.trust().warnings());
        let handoff = handoffs.get(seq)?;
        may_answer(client, &handoffs, handoff, status.task())?;
        Ok(Self {
            id: handoff.id,
            from: handoff.from.name.clone(),
        })
    }
}

/// The commit that is meant: the one said, else the one that the job is for where that is here, else HEAD.
fn commit(context: &Context, args: &CiPost, job: Option<&CiEnvironment>) -> Result<Oid> {
    let repository = context.repository_if_any();
    if let Some(revision) = filled(args.commit.as_ref()) {
        return named_commit(repository, revision);
    }
    let told = job.and_then(|job| job.commit);
    match (repository, told) {
        (None, Some(told)) => Ok(told),
        (Some(repository), Some(told)) if repository.contains(&[told])?[0] => Ok(told),
        _ => {
            context.repository()?;
            named_commit(repository, "HEAD")
        }
    }
}

/// An option's value: an empty one is as good as none, so that who passes variables on need not look whether they are set.
fn filled(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

fn key_of_job(
    job: Option<&CiEnvironment>,
    status_context: &StatusContext,
    commit: &Oid,
    status: CommitStatus,
) -> Result<String> {
    let key = job.and_then(|job| job.key(status_context, commit, status));
    key.ok_or_else(|| {
        let what = match job {
            Some(job) => format!("--idempotency-key auto: {} does not say which run this is", job.system),
            None => "--idempotency-key auto: no CI system that is known runs this".to_owned(),
        };
        Error::usage(what).then("--idempotency-key KEY, which stays the same when the job posts again")
    })
}

fn read_report(context: &Context, path: &Path) -> Result<Report> {
    let shown = path.display();
    let path = context.environment.directory.join(path);
    let mut bytes = Vec::new();
    File::open(path)
        // One byte more than fits shows that it does not fit.
        .and_then(|file| file.take(MAX_REPORT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format_args!("there is no file {shown}")),
            _ => Error::io(format_args!("read {shown}"), &error),
        })?;
    if bytes.len() as u64 > MAX_REPORT_BYTES {
        let what = format_args!("{shown} is longer than {MAX_REPORT_BYTES} bytes").to_string();
        return Err(Error::new(ErrorKind::Refused, what));
    }
    ReportFormat::of(&bytes).read(&bytes).map_err(|error| {
        let what = format!("{shown} is no report that is read: {}", text::one_line(&error));
        Error::usage(what).then("docs/ci.md has the form")
    })
}

/// What was reported, as a message says it of this commit.
fn fit(context: &Context, report: Option<Report>, secrets: &Secrets, commit: &Oid) -> Result<Findings> {
    let Some(report) = report else {
        return Ok(Findings::default());
    };
    let has_places = report.findings.iter().any(|found| found.path.is_some());
    if !has_places {
        return Ok(Findings::fit(report.findings, secrets, None, |_, _| Place::Nowhere));
    }
    let repository = context.repository()?;
    if !repository.contains(&[*commit])?[0] {
        let what = format!("commit {commit} is not here, so that no finding's place can be looked at");
        return Err(Error::new(ErrorKind::BaseMissing, what).then(format!("git fetch --depth 1 origin {commit}")));
    }
    let work_dir = repository.work_dir();
    let mut places = repository.places(commit);
    let place = |path: &_, line| places.place(path, line);
    Ok(Findings::fit(report.findings, secrets, work_dir.as_deref(), place))
}

/// Posts what brings no commits of its own.
fn post(
    client: &Client,
    room: &RoomName,
    word: &Word,
    bundle: Option<BundleId>,
    answered: Option<&Answered>,
    output: &mut Output,
) -> Result<()> {
    let place = RoomPlace::ask(client, room)?;
    let draft = draft(word, bundle, answered);
    let posted = post_draft(client, &place, &draft, word.key.as_deref(), None)?;
    tell_posted(word, &draft, &posted, bundle, output)?;
    tell_if_for_nobody(client, &posted.room, word.to(), output);
    Ok(())
}

fn draft(word: &Word, bundle: Option<BundleId>, answered: Option<&Answered>) -> Draft {
    let mut draft = Draft::new(word.parts(bundle, answered));
    draft.mentions = word.mentions(answered);
    draft.reply_to = answered.map(|answered| answered.id);
    draft
}

/// Posts it, or lets it wait for the hub.
fn queue(context: &Context, args: &CiPost, room: &RoomName, word: &Word, output: &mut Output) -> Result<()> {
    context.require_agent()?;
    if filled(args.reply_to.as_ref()).is_some() {
        let what = "--queue: which handoff --reply-to means is only the hub can tell";
        return Err(Error::usage(what).then("leave out one of the two"));
    }
    let bundle = queued_bundle(context, room, filled(args.bundle.as_ref()))?;
    let draft = draft(word, bundle, None);
    match post_or_queue(context, room, &draft, word.key.as_deref())? {
        Sending::Sent(posted) => tell_posted(word, &draft, &posted, bundle, output),
        Sending::Queued => {
            let line = format!(
                "the hub cannot be reached: {} is kept for '{room}', and sent by the next command that reaches it; git parler outbox",
                word.verdict()
            );
            let mut value = told_json(word, None, bundle);
            value["room"] = json!(room);
            value["id"] = json!(draft.id);
            value["queued"] = json!(true);
            output.either(&line, &value)
        }
    }
}

fn tell_posted(
    word: &Word,
    draft: &Draft,
    posted: &Posted,
    bundle: Option<BundleId>,
    output: &mut Output,
) -> Result<()> {
    let place = (&posted.room, posted.seq, posted.id);
    tell(word, place, posted.id != draft.id, None, bundle, output)
}

/// Tells what was posted, now or before.
fn tell(
    word: &Word,
    (room, seq, id): (&RoomName, parler_protocol::Seq, MessageId),
    replayed: bool,
    report: Option<&PushReport>,
    bundle: Option<BundleId>,
    output: &mut Output,
) -> Result<()> {
    if output.is_json() {
        let mut value = told_json(word, report, bundle);
        value["room"] = json!(room);
        value["seq"] = json!(seq);
        value["id"] = json!(id);
        value["replayed"] = json!(replayed);
        return output.json(&value);
    }
    let before = if replayed { ", before" } else { "" };
    let handed = word.handoff.as_ref();
    let handed = handed.map(|handoff| format!(" and handed over to {}", handoff.addressee()));
    let ttl = word.review.ttl_secs;
    let ttl = ttl.map(|ttl| format!(" for {}", text::span(ttl))).unwrap_or_default();
    output.line(&format!(
        "posted {}{}{ttl} as message {seq} of '{room}'{before}",
        word.verdict(),
        handed.unwrap_or_default()
    ))?;
    let found = counted(&word.review);
    if !found.is_empty() {
        output.text(&field("found", &found))?;
    }
    if let Some(sent) = report.and_then(|report| report.bundle.as_ref()) {
        output.text(&field("bundle", &bundle_line(sent)))?;
    }
    Ok(())
}

fn told_json(word: &Word, report: Option<&PushReport>, bundle: Option<BundleId>) -> Value {
    let review = &word.review;
    let mut value = json!({
        "room": null, "seq": null, "id": null, "replayed": false, "queued": false,
        "commit": review.commit, "context": review.context, "status": review.status, "repository": review.repository,
        "url": review.url, "findings": review.findings.len(), "omitted": review.omitted, "misplaced": word.misplaced,
        "ttlSecs": review.ttl_secs,
        "handoff": word.handoff.as_ref().map(|handoff| json!({ "to": handoff.to, "next": handoff.next })),
        "idempotencyKey": word.key, "bundleId": bundle, "bundle": null, "ref": null, "pins": [],
    });
    if let Some(report) = report {
        bundle_json(report, &mut value);
    }
    value
}
