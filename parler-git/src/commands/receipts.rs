//! `git parler accept`, `decline`, `done`, `fail` and `cancel`: a signed receipt for a handoff, which says how it stands
//! from now on. With a result, that is a bundle of the room, or a branch or commit that is pushed in the same message.

use git_remote_parler::push::{LooseTip, PushReport, PushRequest, RoomLookup};
use git_remote_parler::signing::sign_for_room;
use parler_client::Client;
use parler_protocol::{BundleId, BundleRefName, Draft, Part, Seq, ServiceName, TaskPart, TaskStatus};
use serde_json::json;

use super::cancel_job;
use super::handoff::{Subject, find_subject};
use super::job_receipts;
use super::status::jobs;
use crate::cli::Receipt;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::handoffs::Handoff;
use crate::input::text_of;
use crate::naming::Reference;
use crate::output::Output;
use crate::posting::{mentions, parse_key};
use crate::pushing::{Destination, parse_change, push, push_policy};
use crate::room_handoffs::{RoomHandoffs, addressee, find_handoff};
use crate::room_log::in_room;
use crate::text;

pub(super) fn run(context: &Context, status: TaskStatus, args: &Receipt, output: &mut Output) -> Result<()> {
    let verb = verb(status);
    let reference = Reference::require(&args.what)?;
    let note = args.note.as_deref().map(|note| text_of("--note", note)).transpose()?;
    let of_service = context.room_if_any()?.as_ref().and_then(ServiceName::of_room);
    let gives_back = status == TaskStatus::Declined && of_service.is_some();
    let is_silent = matches!(status, TaskStatus::Declined | TaskStatus::Failed) && note.is_none();
    let says_why = || Error::usage(format_args!("{verb} says why")).then("add --note TEXT");
    if is_silent && !gives_back {
        return Err(says_why());
    }
    let key = args.idempotency_key.as_deref().map(parse_key).transpose()?;
    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let client = context.client_of(&hub, agent.identity)?;
    context.require_sent()?;
    // What a result hands back to its requester is a handoff as any other.
    if let Some(service) = &of_service
        && let Some((job, pushes)) = jobs::find(context, &client, service, &reference)?
    {
        return match status {
            TaskStatus::Cancelled if args.bundle.is_some() => {
                Err(Error::usage("a job that is called off has no result").then("leave out --bundle"))
            }
            TaskStatus::Cancelled => cancel_job::run(&client, service, &job, note, key, output),
            _ => job_receipts::run(
                context,
                &client,
                (service, pushes),
                (status, job.seq),
                args,
                note,
                output,
            ),
        };
    }
    if is_silent {
        return Err(says_why());
    }
    let (mut handoffs, seq) = find_handoff(context, &client, &reference, 0)?;
    output.warn(&context.trust().warnings());
    let pushes = handoffs.pushes.take();
    let handoff = handoffs.get(seq)?;
    may_answer(&client, &handoffs, handoff, status)?;
    let subject = match &args.bundle {
        Some(named) => find_subject(context, &client, (&handoffs.room, pushes), named)?,
        None => Subject::Nothing,
    };
    let part = |result: Option<BundleId>| TaskPart {
        status,
        task: Some(handoff.id.to_string()),
        note: note.clone(),
        result,
        tokens: None,
        elapsed_ms: None,
    };
    let change = match subject {
        Subject::Nothing => return answer(&client, &handoffs, handoff, part(None), key, output),
        Subject::Bundle(id, _) => return answer(&client, &handoffs, handoff, part(Some(id)), key, output),
        Subject::Ref(name) => PushRequest {
            changes: vec![parse_change(context.repository()?, &name)?],
            ..PushRequest::default()
        },
        Subject::Commit(revision) => PushRequest {
            loose: vec![LooseTip {
                name: BundleRefName::Head,
                revision,
            }],
            ..PushRequest::default()
        },
    };
    let policy = push_policy(context.repository()?, &hub, None)?;
    let extra = |bundle: Option<BundleId>| -> Vec<Part> { vec![part(bundle).into()] };
    let request = PushRequest {
        extra: Some(&extra),
        mentions: mentions([handoff.from.name.as_str()]),
        reply_to: Some(handoff.id),
        name_every_tip: true,
        key,
        ..change
    };
    let headline = |report: &PushReport| {
        let number = report.posted.as_ref().map(|posted| posted.seq).unwrap_or_default();
        told(status, seq, number, &report.room)
    };
    let destination = Destination {
        client: &client,
        room: &handoffs.room,
        policy: &policy,
        lookup: RoomLookup::Unread,
        can_force: false,
    };
    push(context, destination, &request, headline, output)
}

/// The verb that says this.
const fn verb(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Declined => "decline",
        TaskStatus::Done => "done",
        TaskStatus::Failed => "fail",
        TaskStatus::Cancelled => "cancel",
        _ => "accept",
    }
}

/// Refuses what would not count, and says why.
pub(super) fn may_answer(
    client: &Client,
    handoffs: &RoomHandoffs<'_>,
    handoff: &Handoff,
    status: TaskStatus,
) -> Result<()> {
    let (me, seq) = (client.identity(), handoff.seq);
    let refused = |what: String| Error::new(ErrorKind::Refused, what);
    let show = format!("git parler show {seq}");
    if status == TaskStatus::Cancelled {
        return match handoff.is_by(me) {
            true => match handoff.holder() {
                Some(held) if held.part.status == TaskStatus::Done => Err(Error::new(
                    ErrorKind::Conflict,
                    format_args!(
                        "message {seq} is done, by {} in message {}",
                        text::name(&held.from.name),
                        held.seq
                    ),
                )
                .then(format!("git parler status {seq}"))),
                _ => Ok(()),
            },
            false => Err(refused(format!(
                "message {seq} is {}'s to call off",
                text::name(&handoff.from.name)
            ))
            .then(format!("git parler decline {seq} --note TEXT"))),
        };
    }
    if handoff.is_by(me) {
        return Err(
            refused(format!("message {seq} is your own handoff, for {}", addressee(handoff)))
                .then(format!("git parler status {seq}")),
        );
    }
    if !handoff.is_for(me) {
        let own = text::name_and_role(me.name.as_str(), me.role.as_ref().map(|role| role.as_str()));
        return Err(refused(format!(
            "message {seq} is for {}, and you are {own}",
            addressee(handoff)
        ))
        .then(show));
    }
    if !handoff.is_for_member(&me.key.id(), &me.name, None)
        && let Some(role) = me.role.as_ref()
        && handoffs.is_anothers(role.as_str(), &me.key.id())
    {
        return Err(refused(format!(
            "message {seq} is for {}: your role {} is another's name here",
            addressee(handoff),
            text::name(role.as_str())
        ))
        .then(show));
    }
    if !handoff.leads {
        let name = text::name(&handoff.from.name);
        return Err(refused(format!(
            "message {seq} is under the name {name} and a key that is new to it"
        ))
        .then(show));
    }
    if let Some(later) = handoff.superseded_by {
        return Err(Error::new(
            ErrorKind::Conflict,
            format_args!("message {seq} was revised by its author"),
        )
        .then(format!("git parler show {later}")));
    }
    match handoff.holder() {
        Some(held) if held.part.status == TaskStatus::Cancelled => Err(Error::new(
            ErrorKind::Conflict,
            format_args!("message {seq} was called off by {}", text::name(&held.from.name)),
        )
        .then(show)),
        _ => Ok(()),
    }
}

fn told(status: TaskStatus, handoff: Seq, number: Seq, room: &parler_protocol::RoomName) -> String {
    format!("{} message {handoff} of '{room}', as message {number}", past(status))
}

/// What was done, in words.
const fn past(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Done => "finished",
        TaskStatus::Failed => "gave up",
        TaskStatus::Cancelled => "called off",
        TaskStatus::Declined => "declined",
        _ => "accepted",
    }
}

/// Posts the receipt alone. One that says what the newest of this agent says is not posted again.
fn answer(
    client: &Client,
    handoffs: &RoomHandoffs<'_>,
    handoff: &Handoff,
    part: TaskPart,
    key: Option<&str>,
    output: &mut Output,
) -> Result<()> {
    let status = part.status;
    let json = |seq: Seq, id: Option<parler_protocol::MessageId>, is_new: bool| {
        json!({
            "room": handoffs.room, "seq": seq, "id": id, "handoff": handoff.seq, "task": handoff.id,
            "status": status, "result": part.result, "repeated": !is_new,
        })
    };
    let me = client.identity().key.id();
    if let Some(last) = handoff.last_of(&me)
        && handoff.holder().is_some_and(|held| held.seq == last.seq)
        && (last.part.status, &last.part.note, last.part.result) == (status, &part.note, part.result)
    {
        let line = told(status, handoff.seq, last.seq, &handoffs.room);
        return output.either(&format!("{line}, before"), &json(last.seq, Some(last.id), false));
    }
    if let Some(held) = handoff.holder().filter(|held| held.from.id != me) {
        output.remark(&format!(
            "{} has said {} in message {}",
            text::name(&held.from.name),
            held.part.status.as_str(),
            held.seq
        ));
    }
    let mut draft = Draft::new(vec![part.clone().into()]);
    draft.mentions = mentions([handoff.from.name.as_str()]);
    draft.reply_to = Some(handoff.id);
    let room = &handoffs.room;
    let signed = sign_for_room(client, &client.hub_id()?, room, &handoffs.head, &draft);
    let posted = client
        .post(room, &signed, key, None)
        .map_err(|error| in_room(room, error))?;
    output.either(
        &told(status, handoff.seq, posted.seq, &posted.room),
        &json(posted.seq, Some(posted.id), true),
    )
}
