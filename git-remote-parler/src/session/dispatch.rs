//! A push to a service: one branch or tag is one job, which stands in the sender's own place. Says what a service takes and
//! what it does not; how it is pushed is decided where all pushes are.

use std::io::Write;

use parler_protocol::{DispatchPart, ServiceName};

use super::push_batch::{Verdict, Wish};
use super::{Session, SessionError};
use crate::push::{Force, PushReport};

/// Why none of several refs becomes a job.
const ONE_JOB: &str = "one push to a service is one job";

impl<O: Write, E: Write> Session<'_, O, E> {
    /// Leaves at most one change among the wishes: of the ref in the sender's place that a job is about.
    pub(super) fn wish_for_one_job(&mut self, wishes: &mut [Wish], service: &ServiceName) -> Result<(), SessionError> {
        let is_change = |wish: &&Wish| matches!(wish.verdict, Verdict::Change(_));
        if wishes.iter().filter(is_change).count() > 1 {
            self.say(&format!(
                "{ONE_JOB}: push one branch or tag, and leave others out with --no-follow-tags"
            ));
            wishes.iter_mut().for_each(|wish| wish.refuse(ONE_JOB));
            return Ok(());
        }
        self.connect()?;
        let name = self.connected()?.client.identity().name.clone();
        for wish in wishes {
            let Verdict::Change(change) = &mut wish.verdict else {
                continue;
            };
            let called = change.destination.as_str();
            let is_job = ["refs/heads/", "refs/tags/"]
                .iter()
                .any(|kind| called.starts_with(kind));
            if change.source.is_none() {
                wish.refuse(&format!(
                    "nothing is deleted at a service; a job is called off with git parler cancel N --service {service}"
                ));
            } else if !is_job {
                wish.refuse("a job is a branch or a tag");
            } else {
                match change.destination.requested_by(&name) {
                    Ok(place) => (change.destination, change.force) = (place, Force::Always),
                    Err(error) => wish.refuse(&error.to_string()),
                }
            }
        }
        Ok(())
    }

    /// The part that makes the push a job.
    pub(super) fn dispatch_part(&self, service: &ServiceName) -> Result<DispatchPart, SessionError> {
        self.surroundings.dispatch(service).map_err(SessionError::Cause)
    }

    /// What became of the job, for people.
    pub(super) fn tell_job(&mut self, report: &PushReport, service: &ServiceName) {
        let Some(posted) = report.posted.as_ref().filter(|_| !self.options.is_quiet()) else {
            return;
        };
        let bundle = report.bundle_id.map(|id| format!("bundle {}, ", id.short()));
        self.say(&format!(
            "{}job {} for service {service}: git parler status {} --service {service} --wait done",
            bundle.unwrap_or_default(),
            posted.seq,
            posted.seq
        ));
    }
}
