//! Jobs that people do: one is claimed and shown with the commands that go on, and kept until it has ended, in whichever
//! terminal that was said.

use std::time::Duration;

use parler_client::{Client, ClientError, ReadFrom, rests_of_a_stream};
use parler_protocol::api::{ClaimedJob, RoomAnswer};
use parler_protocol::limits::{MAX_PAGE_MESSAGES, MAX_WAIT};
use parler_protocol::{AgentId, ErrorCode, Fence, Part, Seq, ServiceName, TaskStatus};

use crate::context::Context;
use crate::ending;
use crate::error::{Error, ErrorKind, Result};
use crate::log_entry::LogEntry;
use crate::output::{BANNER, Output, styled};
use crate::screen;
use crate::text::{self, Extent};
use crate::view::{When, render_parts, verbatim};
use crate::worker::{Claim, Claimer, Claims, Job, Lease, Past, Standing, Stop, Told, say_alone};

use super::LEAVING;

/// Claims jobs one after the other, or one.
pub(super) fn run(
    context: &Context,
    client: &Client,
    service: &ServiceName,
    answer: &RoomAnswer,
    (lease, once): (Duration, bool),
    output: &mut Output,
) -> Result<()> {
    let stop = Stop::default();
    let told_to_stop = stop.clone();
    let busy = stop.begin();
    ending::do_first(move || {
        told_to_stop.say();
        told_to_stop.wait_until_idle(LEAVING);
    });
    output.remark(&format!("serving '{service}' by hand"));
    let desk = Desk {
        context,
        client,
        service,
        told: Told::new(answer.head),
        past: Past::new(context.shared_trust()),
        claims: Claims::of(&context.home, &client.hub_id()?, client),
        lease,
        stop: &stop,
    };
    let claimer = Claimer::new(client, service, (lease, false), &stop)?;
    let mut ended = Ok(());
    while let Some(claimed) = claimer.claim(|line| output.remark(&line))? {
        ended = desk.work(claimed, output);
        context.trust().keep();
        output.warn(&context.trust().warnings());
        if once || ended.is_err() || stop.is_said() {
            break;
        }
    }
    if stop.is_said() {
        drop(busy);
        // The process ends by the signal.
        std::thread::sleep(LEAVING);
        return Err(Error::interrupted());
    }
    ended
}

struct Desk<'a> {
    context: &'a Context,
    client: &'a Client,
    service: &'a ServiceName,
    told: Told,
    past: Past,
    claims: Claims,
    lease: Duration,
    stop: &'a Stop,
}

/// How a job that somebody has came to its end.
enum Ended {
    /// It was said so.
    Said(TaskStatus),
    /// The claim is over, and why.
    Lost(String),
    /// The worker was told to stop.
    Stopped,
}

impl Desk<'_> {
    fn work(&self, claimed: ClaimedJob, output: &mut Output) -> Result<()> {
        let (seq, left) = (claimed.seq, Duration::from_millis(claimed.lease_ms));
        let fence = Fence {
            seq,
            number: claimed.fence,
        };
        let (watching, stopper) = self.client.beside()?;
        self.stop.add_stopper(stopper.clone());
        let lease = Lease::keep(self.client, self.service, fence, self.lease, left, move || {
            stopper.stop()
        })?;
        let job = match Job::read(claimed, &self.client.hub_id()?)? {
            Ok(job) => job,
            Err(refused) => {
                let (why, to) = (refused.error.what(), (refused.id, &refused.requester));
                let (claim, of) = ((self.service, fence), format!("job {seq} of '{}'", self.service));
                match say_alone(self.client, &self.told, claim, to, TaskStatus::Failed, Some(why)) {
                    Ok(_) => output.remark(&format!("{of} is none to work on: {why}")),
                    // It is somebody else's, or offered again when the claim has ended.
                    Err(error)
                        if error.code() == Some(ErrorCode::StaleFence) || error.kind == ErrorKind::Unreachable =>
                    {
                        output.remark(&format!(
                            "{of}: that it is none to work on was not told: {}",
                            error.what()
                        ));
                    }
                    Err(error) => return Err(error),
                }
                return Ok(());
            }
        };
        if let Some(again) = self.past.look(self.client, &self.client.hub_id()?, &job)? {
            // What there is to say of it was said. The claim ends by itself.
            output.remark(&format!("job {seq} of '{}': {again}", self.service));
            return Ok(());
        }
        let (held, to) = ((self.service, fence), (job.id, &job.requester));
        match say_alone(self.client, &self.told, held, to, TaskStatus::Accepted, None) {
            Err(error) if error.code() == Some(ErrorCode::StaleFence) => {
                output.remark(&format!("job {seq} of '{}' is no longer yours", self.service));
                return Ok(());
            }
            // What counts is how it ends.
            Err(error) if error.kind != ErrorKind::Unreachable => return Err(error),
            Ok(_) | Err(_) => {}
        }
        let claim = Claim {
            fence,
            id: job.id,
            requester: job.requester.name.clone(),
        };
        let shown = self
            .claims
            .add(self.service, &claim)
            .and_then(|()| self.show(&job, output));
        let ended = shown.and_then(|()| self.wait(&watching, &job, &lease, output));
        drop(lease);
        self.claims.remove(self.service, fence);
        match ended {
            Ok(Ended::Said(status)) => output.remark(&format!("job {seq} of '{}': {}", self.service, status.as_str())),
            Ok(Ended::Lost(why)) => {
                output.remark(&format!("job {seq} of '{}' is no longer yours: {why}", self.service))
            }
            Ok(Ended::Stopped) => {
                // What is not given back is free when the lease ends.
                let _ = self.client.release_claim(self.service, fence);
            }
            Err(error) => {
                let _ = self.client.release_claim(self.service, fence);
                return Err(error);
            }
        }
        Ok(())
    }

    fn show(&self, job: &Job, output: &mut Output) -> Result<()> {
        if output.is_json() {
            output.json(&job.to_json())?;
            return output.deliver();
        }
        let (seq, service) = (job.seq(), self.service);
        let marks = match job.attempt {
            1 => format!(" · message {seq} · signature valid"),
            attempt => format!(" · message {seq} · signature valid · attempt {attempt}"),
        };
        let headline = screen::fit("JOB FOR YOU from ", &text::name(&job.requester.name), &marks);
        let mut out = format!("{}\n", styled(BANNER, &headline));
        let message = job.entry.message().map(|(message, _)| message);
        let parts = message.map(|message| message.parts.as_slice()).unwrap_or_default();
        let when = message.map_or(When::NotYet, |message| When::Said(message, job.entry.read_at));
        let mut cut = false;
        out.push_str(&render_parts(
            parts,
            &[],
            self.context.repository_if_any(),
            when,
            Extent::Whole,
            &mut cut,
        ));
        let to = format!("--service {service}");
        if job.code.is_some() {
            out.push_str(&verbatim("apply", &format!("git parler apply {seq} {to}")));
        }
        out.push_str(&verbatim("done", &format!("git parler done {seq} {to}")));
        out.push_str(&verbatim("fail", &format!("git parler fail {seq} {to} --note TEXT")));
        out.push_str(&verbatim("back", &format!("git parler decline {seq} {to}")));
        output.text(&out)?;
        output.deliver()
    }

    /// Waits until somebody has said how it ended.
    fn wait(&self, watching: &Client, job: &Job, lease: &Lease, output: &mut Output) -> Result<Ended> {
        let mut rests = rests_of_a_stream();
        let mut is_told = false;
        let mut after = job.seq();
        let over = || match (self.stop.is_said(), lease.standing()) {
            (true, _) => Some(Ended::Stopped),
            (_, Standing::Cancelled) => Some(Ended::Said(TaskStatus::Cancelled)),
            (_, Standing::Lost(why)) => match self.claims.get(self.service, job.seq()) {
                Some(_) => Some(Ended::Lost(why)),
                None => Some(Ended::Lost("given back".to_owned())),
            },
            (_, Standing::Held) => None,
        };
        loop {
            let from = ReadFrom {
                after: Some(after),
                limit: Some(MAX_PAGE_MESSAGES),
                wait: Some(MAX_WAIT),
            };
            let page = match watching.messages(&job.room, &from) {
                Ok(page) => page,
                Err(ClientError::ToldToStop) => {
                    // It may have ended in the same moment.
                    return self.last_look(job, after, over);
                }
                Err(error) => {
                    if let Some(ended) = over() {
                        return Ok(ended);
                    }
                    let error = Error::from(error);
                    if error.kind != ErrorKind::Unreachable {
                        return Err(error);
                    }
                    // As long as the claim lasts the job is somebody's who works on it.
                    if !is_told {
                        output.remark(&format!("{}; waiting for it", error.what()));
                        is_told = true;
                    }
                    self.stop.rest(rests.next().expect("rests have no end"));
                    continue;
                }
            };
            rests = rests_of_a_stream();
            is_told = false;
            for raw in page.messages {
                let entry = LogEntry::read(raw, &self.client.hub_id()?, &job.room, after.next());
                after = entry.seq;
                if let Some(ended) = end_said(&entry, job, &self.client.identity().key.id()) {
                    return Ok(ended);
                }
            }
        }
    }

    fn last_look(&self, job: &Job, after: Seq, over: impl Fn() -> Option<Ended>) -> Result<Ended> {
        let from = ReadFrom {
            after: Some(after),
            limit: Some(MAX_PAGE_MESSAGES),
            wait: None,
        };
        let hub = self.client.hub_id()?;
        let page = self
            .client
            .messages(&job.room, &from)
            .map(|page| page.messages)
            .unwrap_or_default();
        let entries = page
            .into_iter()
            .map(|raw| LogEntry::read(raw, &hub, &job.room, Seq::ZERO));
        let me = self.client.identity().key.id();
        let said = entries.filter_map(|entry| end_said(&entry, job, &me)).next();
        Ok(said
            .or_else(over)
            .unwrap_or_else(|| Ended::Lost("the claim is over".to_owned())))
    }
}

/// The end of the job, where this message says it. The hub stores none that does not count.
fn end_said(entry: &LogEntry, job: &Job, me: &AgentId) -> Option<Ended> {
    let (message, _) = entry.message()?;
    let status = message.parts.iter().find_map(|part| match part {
        Part::Task(part) if part.task.as_deref() == Some(job.id.to_string().as_str()) => Some(part.status),
        _ => None,
    })?;
    match status {
        TaskStatus::Cancelled => Some(Ended::Said(status)),
        TaskStatus::Done | TaskStatus::Failed if message.from.id == *me => Some(Ended::Said(status)),
        TaskStatus::Done | TaskStatus::Failed => {
            let name = text::name(&message.from.name);
            Some(Ended::Lost(format!("{} by {name}", status.as_str())))
        }
        _ => None,
    }
}
