//! `git parler push`: a branch becomes a bundle in a room, the room's ref moves, and an instruction may ride along.

use git_remote_parler::push::{Force, PushRequest, RoomLookup};
use git_remote_parler::room::Room;
use parler_protocol::{BundleId, Part, TextPart};

use super::dispatch;
use crate::cli::Push;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::input::text_of;
use crate::leases::Leases;
use crate::output::Output;
use crate::posting::{mentions, parse_key, tell_if_for_nobody};
use crate::pushing::{Destination, Instruction, current_branch, deletions, parse_change, push, push_policy};

pub(super) fn run(context: &Context, args: &Push, output: &mut Output) -> Result<()> {
    if let Some(service) = context.service() {
        return dispatch::push(context, args, &service, output);
    }
    let repository = context.repository()?;
    let room = context.room()?;
    let mut changes = if args.refs.is_empty() {
        vec![current_branch(repository)?]
    } else if args.delete {
        // Which refs are meant the room knows.
        Vec::new()
    } else {
        args.refs
            .iter()
            .map(|text| parse_change(repository, text))
            .collect::<Result<_>>()?
    };
    let instruction = match &args.next {
        Some(next) => Some(Instruction::new(next, &args.instruction)?),
        None if args.instruction.summary.is_some()
            || args.instruction.to.is_some()
            || args.instruction.revises.is_some() =>
        {
            return Err(
                Error::usage("--summary, --for and --revises say more about --next, which is not there")
                    .then("add --next TEXT"),
            );
        }
        None => None,
    };
    let key = args.idempotency_key.as_deref().map(parse_key).transpose()?;
    let note = args.note.as_deref().map(|note| text_of("--note", note)).transpose()?;

    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let client = context.client_of(&hub, agent.identity)?;
    context.require_sent()?;
    if let Some(instruction) = &instruction {
        instruction.check_revised(context, &client, &room)?;
    }
    let policy = push_policy(repository, &hub, args.base.as_deref())?;
    let mut lookup = RoomLookup::Unread;
    if args.delete {
        let read = Room::read(&client, &room, &context.room_cache())?;
        changes = deletions(&read.state, &args.refs)?;
        lookup = RoomLookup::Read(Box::new(read));
    }
    if args.force {
        changes.iter_mut().for_each(|change| change.force = Force::Always);
    }
    Leases::parse(&args.force_with_lease)?.apply(context, &hub, &room, &mut changes)?;
    let extra = |bundle: Option<BundleId>| -> Vec<Part> {
        let note = note.clone().map(|text| TextPart { text }.into());
        let handoff = instruction.as_ref().map(|instruction| instruction.part(bundle).into());
        note.into_iter().chain(handoff).collect()
    };
    let request = PushRequest {
        changes,
        extra: (note.is_some() || instruction.is_some()).then_some(&extra),
        mentions: mentions(instruction.iter().filter_map(|instruction| instruction.to.as_deref())),
        full: args.full,
        atomic: args.atomic,
        dry_run: args.dry_run,
        key,
        ..PushRequest::default()
    };
    let headline = |report: &git_remote_parler::push::PushReport| match (&report.posted, &instruction) {
        (Some(posted), Some(instruction)) => {
            format!(
                "pushed and handed over to {} as message {} of '{}'",
                instruction.addressee(),
                posted.seq,
                report.room
            )
        }
        (Some(posted), None) => format!("pushed as message {} of '{}'", posted.seq, report.room),
        (None, _) if args.dry_run => format!("this would go to '{}'; nothing was sent", report.room),
        (None, _) => format!("'{}' is up to date", report.room),
    };
    let destination = Destination {
        client: &client,
        room: &room,
        policy: &policy,
        lookup,
        can_force: true,
    };
    push(context, destination, &request, headline, output)?;
    let to = instruction.as_ref().and_then(|instruction| instruction.to.as_deref());
    tell_if_for_nobody(&client, &room, to, output);
    Ok(())
}
