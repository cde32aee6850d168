//! What somebody who works on a job by hand says of it: `git parler accept`, `done`, `fail`, and `decline`, which gives it
//! back. It goes with the number of the claim that `git parler serve` has noted.

use git_remote_parler::base::BasePolicy;
use git_remote_parler::push::{Force, PushPolicy, PushReport, PushRequest, RefChange, RoomLookup};
use git_remote_parler::room::Room;
use git_remote_parler::signing::sign_for_room;
use parler_client::{Client, ClientError};
use parler_protocol::{BundleId, Draft, ErrorCode, Part, Seq, ServiceName, TaskPart, TaskStatus};
use serde_json::json;

use super::handoff::{Subject, find_subject};
use crate::cli::Receipt;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::posting::{Place, mentions};
use crate::pushing::{Destination, push};
use crate::text;
use crate::worker::{Claim, Claims, look_at, result_ref};

/// Says it. `seq` is the job's number, `pushes` the room's refs and bundles where they were read a moment ago.
pub(super) fn run(
    context: &Context,
    client: &Client,
    (service, pushes): (&ServiceName, Option<Room>),
    (status, seq): (TaskStatus, Seq),
    args: &Receipt,
    note: Option<String>,
    output: &mut Output,
) -> Result<()> {
    let claims = Claims::of(&context.home, &client.hub_id()?, client);
    let claim = claims.get(service, seq).ok_or_else(|| not_claimed(service, seq))?;
    if status == TaskStatus::Declined {
        if note.is_some() || args.bundle.is_some() || args.idempotency_key.is_some() {
            return Err(Error::usage("a job that is given back is given back without a word")
                .then(format!("git parler decline {seq} --service {service}")));
        }
        client
            .release_claim(service, claim.fence)
            .map_err(|error| over(&claims, service, &claim, error))?;
        claims.remove(service, claim.fence);
        return output.either(
            &format!("gave job {seq} of '{service}' back"),
            &json!({ "service": service, "job": seq, "task": claim.id, "status": null }),
        );
    }
    let part = |result: Option<BundleId>| TaskPart {
        status,
        task: Some(claim.id.to_string()),
        note: note.clone(),
        result,
        tokens: None,
        elapsed_ms: None,
    };
    let (room, key) = (service.room(), args.idempotency_key.as_deref());
    let subject = match &args.bundle {
        Some(named) => find_subject(context, client, (&room, pushes), named)?,
        None => Subject::Nothing,
    };
    let told = match subject {
        Subject::Nothing => say(client, &claim, vec![part(None).into()], (status, service), key, output),
        Subject::Bundle(id, _) => {
            let parts = vec![part(Some(id)).into(), handoff(service, &claim, Some(id))];
            say(client, &claim, parts, (status, service), key, output)
        }
        Subject::Ref(revision) | Subject::Commit(revision) => {
            let extra = |bundle: Option<BundleId>| vec![part(bundle).into(), handoff(service, &claim, bundle)];
            let request = PushRequest {
                changes: vec![RefChange {
                    destination: result_ref(seq),
                    source: Some(revision),
                    force: Force::Always,
                }],
                extra: Some(&extra),
                mentions: mentions([claim.requester.as_str()]),
                reply_to: Some(claim.id),
                fence: Some(claim.fence),
                key,
                name_every_tip: true,
                ..PushRequest::default()
            };
            let policy = PushPolicy {
                base: BasePolicy::RoomOnly,
                ..PushPolicy::default()
            };
            let headline = |report: &PushReport| {
                let number = report.posted.as_ref().map(|posted| posted.seq).unwrap_or_default();
                line(status, seq, service, number)
            };
            let destination = Destination {
                client,
                room: &room,
                policy: &policy,
                lookup: RoomLookup::Unread,
                can_force: false,
            };
            push(context, destination, &request, headline, output)
        }
    };
    match told {
        Ok(()) if matches!(status, TaskStatus::Done | TaskStatus::Failed) => claims.remove(service, claim.fence),
        Ok(()) => {}
        Err(error) if error.code() == Some(ErrorCode::StaleFence) => {
            claims.remove(service, claim.fence);
            return Err(late(service, seq));
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn say(
    client: &Client,
    claim: &Claim,
    parts: Vec<Part>,
    (status, service): (TaskStatus, &ServiceName),
    key: Option<&str>,
    output: &mut Output,
) -> Result<()> {
    let room = &service.room();
    let place = Place::ask(client, room)?;
    let mut draft = Draft::new(parts);
    draft.mentions = mentions([claim.requester.as_str()]);
    draft.reply_to = Some(claim.id);
    let signed = sign_for_room(client, &client.hub_id()?, &place.room, &place.head, &draft);
    let posted = client.post_with_fence(room, claim.fence, &signed, key, None)?;
    let seq = claim.fence.seq;
    output.either(
        &line(status, seq, service, posted.seq),
        &json!({
            "room": posted.room, "service": service, "seq": posted.seq, "id": posted.id, "job": seq, "task": claim.id,
            "status": status,
        }),
    )
}

fn handoff(service: &ServiceName, claim: &Claim, bundle: Option<BundleId>) -> Part {
    let summary = format!("job {} of '{service}'", claim.fence.seq);
    look_at(service, bundle, &claim.requester, summary)
}

fn line(status: TaskStatus, seq: Seq, service: &ServiceName, number: Seq) -> String {
    let did = match status {
        TaskStatus::Done => "finished",
        TaskStatus::Failed => "gave up",
        _ => "accepted",
    };
    format!("{did} job {seq} of '{service}', as message {number}")
}

fn not_claimed(service: &ServiceName, seq: Seq) -> Error {
    let what = format_args!("job {seq} of '{service}' is not claimed by you here");
    Error::new(ErrorKind::Refused, what).then(format!("git parler serve {service}"))
}

fn late(service: &ServiceName, seq: Seq) -> Error {
    let what = format_args!("job {seq} of '{service}' is no longer yours, and nothing was said of it");
    Error::new(ErrorKind::Conflict, what).then(format!(
        "git parler show {seq} --service {}",
        text::name(service.as_str())
    ))
}

fn over(claims: &Claims, service: &ServiceName, claim: &Claim, error: ClientError) -> Error {
    match error.code() {
        Some(ErrorCode::StaleFence) => {
            claims.remove(service, claim.fence);
            late(service, claim.fence.seq)
        }
        _ => error.into(),
    }
}
