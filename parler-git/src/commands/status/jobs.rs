//! `git parler status --service`: the jobs of a service, or one of them, and the wait for what becomes of it. Claims are in
//! no message, so the hub's queue is asked beside the log. Acknowledges nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use git_remote_parler::room::Room;
use parler_client::Client;
use parler_protocol::api::{JobState, JobSummary};
use parler_protocol::limits::{MAX_PAGE_MESSAGES, MAX_WAIT};
use parler_protocol::{RoomName, Seq, ServiceName};
use serde_json::json;

use crate::cli::Status;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Job, JobStep, summary_json};
use crate::ladder::Outcome;
use crate::naming::{Reference, one_bundle};
use crate::output::{HEADER, Output, styled};
use crate::room_log::{in_room, read_page, wait_for_more};
use crate::time::left_until;
use crate::{screen, text};

/// Jobs that have ended which a list shows: the newest.
const MOST_ENDED: usize = 20;
/// How long the log is waited for at least where a lease may end, of which no message tells: clocks may differ.
const SHORTEST_WAIT: Duration = Duration::from_secs(2);

/// The job of this name, and the room's refs and bundles where they were read to find it. None: there is none, so that it may
/// be something else that is meant.
pub(in crate::commands) fn find(
    context: &Context,
    client: &Client,
    service: &ServiceName,
    reference: &Reference,
) -> Result<Option<(JobSummary, Option<Room>)>> {
    if let Some(number) = reference.number
        && let Some(job) = ask(client, service, number)?
    {
        return Ok(Some((job, None)));
    }
    let Some(prefix) = &reference.prefix else {
        return Ok(None);
    };
    let read = Room::read(client, &service.room(), &context.room_cache())?;
    let bundle = one_bundle(&read, prefix)?.and_then(|id| read.state.bundle(&id));
    let job = match bundle {
        Some(bundle) => ask(client, service, bundle.seq)?,
        None => None,
    };
    Ok(job.map(|job| (job, Some(read))))
}

/// The job of this number as the hub has it now.
fn ask(client: &Client, service: &ServiceName, seq: Seq) -> Result<Option<JobSummary>> {
    client
        .job(service, seq)
        .map_err(|error| in_room(&service.room(), error))
}

/// Shows one job, and waits where that is asked for.
pub(super) fn show(
    context: &Context,
    client: &Client,
    job: Job,
    args: &Status,
    deadline: Option<Instant>,
    output: &mut Output,
) -> Result<()> {
    let step = args.wait.as_deref().map(parse_step).transpose()?;
    let mut log = JobLog {
        context,
        client,
        room: job.service.room(),
        at: Seq::new(job.summary.seq.get().saturating_sub(1)),
        job,
    };
    loop {
        log.read_on()?;
        if log.job.is_ahead() {
            // It ended between the two questions.
            log.ask_again()?;
        }
        output.warn(&context.trust().warnings());
        let outcome = step.map_or(Outcome::Reached, |step| log.job.outcome(step));
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if outcome != Outcome::Pending || left.is_some_and(|left| left.is_zero()) {
            return tell(&log.job, args, outcome, output);
        }
        log.wait(left.unwrap_or(MAX_WAIT).min(MAX_WAIT))?;
        log.ask_again()?;
    }
}

fn parse_step(word: &str) -> Result<JobStep> {
    JobStep::of(word).ok_or_else(|| {
        let words: Vec<_> = JobStep::WORDS.iter().map(|(word, _)| *word).collect();
        Error::usage(format_args!(
            "--wait '{word}' is no state of a job: there are {}",
            words.join(", ")
        ))
    })
}

/// The log from a job on.
struct JobLog<'a> {
    context: &'a Context,
    client: &'a Client,
    room: RoomName,
    /// The last message read.
    at: Seq,
    job: Job,
}

impl JobLog<'_> {
    fn read_on(&mut self) -> Result<()> {
        let (trust, me, hub) = (self.context.trust(), self.client.identity(), self.client.hub_id()?);
        loop {
            let mut page = read_page(self.client, &hub, &self.room, Some(self.at), MAX_PAGE_MESSAGES)?;
            trust.read_on(&hub, &page.room, me, self.at, &mut page.entries);
            page.entries.iter().for_each(|entry| self.job.add(entry));
            match page.entries.last() {
                Some(last) => self.at = last.seq,
                None => return Ok(()),
            }
            if self.at >= page.head.seq {
                return Ok(());
            }
        }
    }

    fn ask_again(&mut self) -> Result<()> {
        let (service, seq) = (&self.job.service, self.job.summary.seq);
        let asked = ask(self.client, service, seq)?;
        self.job.summary = asked.ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format_args!("job {seq} of service '{service}' is gone"),
            )
            .then("git parler status")
        })?;
        Ok(())
    }

    /// Waits until the log grows, or a lease ends that nobody keeps.
    fn wait(&self, most: Duration) -> Result<()> {
        let lease_left = self.job.summary.lease_until;
        let lease_left = lease_left.map(|until| left_until(until).max(SHORTEST_WAIT));
        let most = lease_left.unwrap_or(most).min(most);
        wait_for_more(self.client, &self.room, self.at, most)
    }
}

/// Shows the job, and fails where the wait was for something else.
fn tell(job: &Job, args: &Status, outcome: Outcome, output: &mut Output) -> Result<()> {
    let seq = job.summary.seq;
    if output.is_json() {
        let mut value = job.to_json();
        value["room"] = json!(job.service.room());
        value["wait"] = json!(args.wait);
        value["reached"] = json!(args.wait.as_ref().map(|_| outcome == Outcome::Reached));
        output.json(&value)?;
    } else {
        output.text(&job.render())?;
    }
    let wanted = args.wait.as_deref().unwrap_or_default();
    let error = match outcome {
        Outcome::Reached => return Ok(()),
        Outcome::Ended => {
            let what = format_args!("job {seq} is {}, not {wanted}", job.state()).to_string();
            Error::new(ErrorKind::Negative, what)
        }
        Outcome::Pending => Error::new(ErrorKind::NotFound, format_args!("job {seq} is not {wanted} yet")),
    };
    Err(if output.is_json() { error.told() } else { error })
}

/// The jobs of a service: those that wait, are worked on or were given up by the hub, and the newest of the others.
pub(super) fn list(context: &Context, service: &ServiceName, output: &mut Output) -> Result<()> {
    let client = context.client()?;
    let (mut open, mut ended) = (Vec::new(), VecDeque::new());
    let (mut after, mut all) = (Seq::ZERO, 0);
    loop {
        let page = client.jobs(service, after);
        let page = page.map_err(|error| in_room(&service.room(), error))?;
        all += page.jobs.len();
        for job in page.jobs {
            if job.state.is_open() || job.state == JobState::Dead {
                open.push(job);
            } else {
                ended.push_front(job);
                ended.truncate(MOST_ENDED);
            }
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let more = all - open.len() - ended.len();
    output.warn(&context.trust().warnings());
    if output.is_json() {
        let jobs = open.iter().chain(&ended).map(|job| summary_json(service, job));
        return output.json(&json!({
            "room": service.room(), "service": service, "jobs": jobs.collect::<Vec<_>>(), "more": more,
        }));
    }
    if all == 0 {
        output.remark(&format!("service '{service}' has no jobs"));
    }
    for (title, jobs) in [("to do", open), ("ended", ended.into())] {
        if jobs.is_empty() {
            continue;
        }
        output.line(&styled(HEADER, title))?;
        for job in &jobs {
            output.line(&line(job))?;
        }
    }
    if more > 0 {
        output.line(&format!("{} that ended before", text::count(more as u64, "job")))?;
    }
    Ok(())
}

/// A job on a line.
fn line(job: &JobSummary) -> String {
    let by = job.claimed_by.as_ref().map(|holder| {
        let until = job.lease_until.map(text::local_time);
        let until = until.map(|until| format!(", until {until} unless renewed"));
        let holder = text::name(holder.name.as_str());
        format!(" by {}{}", screen::sixth(&holder), until.unwrap_or_default())
    });
    let lost = match job.attempts {
        0 => String::new(),
        lost => format!(" · lost by {}", text::count(lost.into(), "worker")),
    };
    let from = text::name(job.requester.name.as_str());
    let after = format!(" · {}{}{lost}", job.state, by.unwrap_or_default());
    screen::fit(&format!("  job {} from ", job.seq), &from, &after)
}
