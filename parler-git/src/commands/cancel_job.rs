//! `git parler cancel N --service`: a job is called off by whoever asked for it. Its worker learns of it when it renews.

use parler_client::Client;
use parler_protocol::api::JobSummary;
use parler_protocol::{Draft, ErrorCode, ServiceName, TaskPart, TaskStatus};
use serde_json::json;

use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::posting::{Place, mentions, post_draft};
use crate::text;

/// Calls a job off.
pub(super) fn run(
    client: &Client,
    service: &ServiceName,
    job: &JobSummary,
    note: Option<String>,
    key: Option<&str>,
    output: &mut Output,
) -> Result<()> {
    let seq = job.seq;
    let status = format!("git parler status {seq} --service {service}");
    let is_mine = match client.token() {
        Some(token) => job.requester.name.as_str() == token.name().sender().as_str(),
        None => job.requester.id == client.identity().key.id(),
    };
    if !is_mine {
        let whose = text::name(job.requester.name.as_str());
        return Err(Error::new(ErrorKind::Refused, format_args!("job {seq} is {whose}'s to call off")).then(status));
    }
    let ended =
        |state| Error::new(ErrorKind::Conflict, format_args!("job {seq} is {state} already")).then(status.as_str());
    if !job.state.is_open() && key.is_none() {
        return Err(ended(job.state.as_str()));
    }
    let place = Place::ask(client, &service.room())?;
    let part = TaskPart {
        status: TaskStatus::Cancelled,
        task: Some(job.id.to_string()),
        note,
        result: None,
        tokens: None,
        elapsed_ms: None,
    };
    let mut draft = Draft::new(vec![part.into()]);
    draft.mentions = mentions(job.claimed_by.iter().map(|holder| holder.name.as_str()));
    draft.reply_to = Some(job.id);
    let posted = post_draft(client, &place, &draft, key, None).map_err(|error| match error.code() {
        Some(ErrorCode::JobState) => ended("over"),
        _ => error,
    })?;
    output.either(
        &format!("called off job {seq} of service {service}, as message {}", posted.seq),
        &json!({
            "room": posted.room, "service": service, "seq": posted.seq, "id": posted.id, "handoff": seq, "task": job.id,
            "status": TaskStatus::Cancelled, "result": null, "repeated": false,
        }),
    )
}
