//! `git parler push --service` and `git parler send --service`: a job for whoever serves, with a branch or without code.
//! One message is one job; who works on it, the service's queue decides.

use git_remote_parler::base::BasePolicy;
use git_remote_parler::push::{Force, PushPolicy, PushReport, PushRequest, RefChange, RoomLookup};
use git_remote_parler::room::Room;
use parler_protocol::{BundleId, DispatchPart, Draft, Part, ServiceName, TextPart};
use serde_json::json;

use super::send::tell_sending;
use crate::cli::{Push, Send};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::input::text_of;
use crate::job_cause::dispatch;
use crate::outbox::post_or_queue;
use crate::outgoing::Outgoing;
use crate::output::Output;
use crate::posting::{Place, mentions, parse_key, post_draft};
use crate::pushing::{Destination, current_branch, parse_change, push as push_and_tell, push_policy};
use crate::text;

/// Pushes a branch or tag as a job.
pub(super) fn push(context: &Context, args: &Push, service: &ServiceName, output: &mut Output) -> Result<()> {
    let repository = context.repository()?;
    refuse_what_is_for_rooms(args, service)?;
    let change = match args.refs.as_slice() {
        [] => current_branch(repository)?,
        [one] => parse_change(repository, one)?,
        _ => {
            return Err(Error::usage("one push to a service is one job")
                .then(format!("git parler push --service {service} REF, for each of them")));
        }
    };
    let texts = [("--note", &args.note), ("--next", &args.next)];
    let texts = texts
        .into_iter()
        .filter_map(|(option, text)| Some(text_of(option, text.as_deref()?)))
        .collect::<Result<Vec<_>>>()?;
    let key = args.idempotency_key.as_deref().map(parse_key).transpose()?;
    let dispatch = dispatch(&context.environment, service)?;

    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let change = in_own_place(change, service, &agent.identity.name)?;
    let client = context.client_of(&hub, agent.identity)?;
    context.require_sent()?;
    let policy = PushPolicy {
        // A worker has no other remote to get anything from.
        base: args.base.as_deref().map_or(BasePolicy::RoomOnly, |base| {
            let Ok(base) = base.parse();
            base
        }),
        ..push_policy(repository, &hub, None)?
    };
    let room = service.room();
    let read = Room::read_for_job(&client, service, &context.room_cache())?;
    let extra = |_: Option<BundleId>| parts(&dispatch, &texts);
    let request = PushRequest {
        changes: vec![change],
        extra: Some(&extra),
        full: args.full,
        is_job: true,
        atomic: args.atomic,
        dry_run: args.dry_run,
        key,
        ..PushRequest::default()
    };
    let headline = |report: &PushReport| match &report.posted {
        Some(posted) => asked_for(service, posted.seq),
        None => format!("this would be a job for service {service}; nothing was sent"),
    };
    let destination = Destination {
        client: &client,
        room: &room,
        policy: &policy,
        lookup: RoomLookup::Read(Box::new(read)),
        can_force: true,
    };
    push_and_tell(context, destination, &request, headline, output)
}

/// Posts a job without code.
pub(super) fn send(context: &Context, args: &Send, service: &ServiceName, output: &mut Output) -> Result<()> {
    let file = match args.file.as_slice() {
        [] => None,
        [one] => Some(one),
        _ => {
            return Err(Error::usage("a job brings one file, and there are several")
                .then("tar -c FILE FILE | git parler send --file - --name NAME.tar"));
        }
    };
    let key = args.idempotency_key.as_deref().map(parse_key).transpose()?;
    let text = args.text.as_deref().map(|text| text_of("the text", text)).transpose()?;
    let file = file
        .map(|file| Outgoing::open(&context.environment, file, args.name.as_deref()))
        .transpose()?;
    let texts: Vec<String> = text.into_iter().collect();
    let mut parts = parts(&dispatch(&context.environment, service)?, &texts);
    parts.extend(file.as_ref().map(|file| file.part().into()));
    let mut draft = Draft::new(parts);
    draft.mentions = mentions(args.mention.iter().map(String::as_str));
    let room = service.room();
    if args.queue {
        let sending = post_or_queue(context, &room, &draft, key)?;
        let done = format!("asked service {service}");
        return tell_sending(&room, &draft, &sending, &done, &json!({ "service": service }), output);
    }
    let client = context.client()?;
    context.require_sent()?;
    let place = Place::ask_for_job(&client, service)?;
    if let (Some(most), Some(file)) = (client.blob_limit(), &file) {
        file.check_fits(most)?;
    }
    let blob = file.as_ref().map(|file| file as &dyn parler_client::BlobSource);
    let posted = post_draft(&client, &place, &draft, key, blob)?;
    output.either(
        &asked_for(service, posted.seq),
        &json!({ "room": posted.room, "service": service, "seq": posted.seq, "id": posted.id }),
    )
}

fn asked_for(service: &ServiceName, seq: parler_protocol::Seq) -> String {
    format!("job {seq} for service {service}; git parler status {seq} --service {service} --wait done")
}

/// What makes a message a job, and what it says.
fn parts(dispatch: &DispatchPart, texts: &[String]) -> Vec<Part> {
    let texts = texts.iter().cloned().map(|text| TextPart { text }.into());
    std::iter::once(dispatch.clone().into()).chain(texts).collect()
}

/// The change of a ref as one of the sender's own place in the service's room.
fn in_own_place(change: RefChange, service: &ServiceName, name: &parler_protocol::AgentName) -> Result<RefChange> {
    let called = &change.destination;
    if change.source.is_none() {
        return Err(
            Error::usage("nothing is deleted at a service").then(format!("git parler cancel N --service {service}"))
        );
    }
    if !["refs/heads/", "refs/tags/"]
        .iter()
        .any(|kind| called.as_str().starts_with(kind))
    {
        let shown = text::name(called.as_str());
        return Err(
            Error::usage(format_args!("a job is a branch or a tag, and {shown} is neither"))
                .then(format!("git parler push --service {service} SRC:refs/heads/NAME")),
        );
    }
    Ok(RefChange {
        destination: called.requested_by(name).map_err(Error::usage)?,
        force: Force::Always,
        ..change
    })
}

fn refuse_what_is_for_rooms(args: &Push, service: &ServiceName) -> Result<()> {
    let of_handoff = &args.instruction;
    let told = [
        ("--delete", args.delete),
        ("--force-with-lease", !args.force_with_lease.is_empty()),
        ("--summary", of_handoff.summary.is_some()),
        ("--for", of_handoff.to.is_some()),
        ("--revises", of_handoff.revises.is_some()),
    ];
    match told.iter().find(|(_, is_told)| *is_told) {
        None => Ok(()),
        Some((option @ ("--delete" | "--force-with-lease"), _)) => Err(Error::usage(format_args!(
            "{option} is for a room's refs, and a job is asked for with any"
        ))
        .then(format!("git parler cancel N --service {service} calls a job off"))),
        Some((option, _)) => Err(Error::usage(format_args!(
            "{option} is for a handoff, and whoever serves {service} takes a job"
        ))
        .then("say it with --next TEXT alone")),
    }
}
