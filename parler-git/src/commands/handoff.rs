//! `git parler handoff`: hands over the next action, and with it a bundle of the room, or a branch or commit that is
//! pushed in the same message.

use git_remote_parler::push::{LooseTip, PushRequest, RoomLookup, work_of_bundle};
use git_remote_parler::room::Room;
use parler_client::Client;
use parler_protocol::{BundleId, BundleRefName, Draft, HandoffPart, Part, RoomName, Work};
use serde_json::json;

use super::send::tell_sending;
use crate::cli::Handoff;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::naming::{Reference, one_bundle};
use crate::outbox::post_or_queue;
use crate::output::Output;
use crate::posting::{Place, mentions, parse_key, post, tell_if_for_nobody};
use crate::pushing::{Destination, Instruction, local_name, parse_change, push, push_policy};
use crate::room_log::read_message;

/// What a handoff is about.
pub(super) enum Subject {
    Nothing,
    /// A bundle that the room holds, and the room as it was read to find it.
    Bundle(BundleId, Box<Room>),
    /// A branch or tag, which moves in the room.
    Ref(String),
    /// Another commit, sent without moving a ref.
    Commit(String),
}

pub(super) fn run(context: &Context, args: &Handoff, output: &mut Output) -> Result<()> {
    let room = context.room()?;
    let instruction = Instruction::new(&args.next, &args.instruction)?;
    let key = args.idempotency_key.as_deref().map(parse_key).transpose()?;
    if args.queue {
        let bundle = queued_bundle(context, &room, args.bundle.as_deref())?;
        let mut draft = Draft::new(vec![instruction.part(bundle).into()]);
        draft.mentions = mentions(instruction.to.as_deref());
        let sending = post_or_queue(context, &room, &draft, key)?;
        let done = format!("handed over to {}", instruction.addressee());
        return tell_sending(&room, &draft, &sending, &done, &json!({ "bundleId": bundle }), output);
    }
    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let client = context.client_of(&hub, agent.identity)?;
    context.require_sent()?;
    instruction.check_revised(context, &client, &room)?;
    let subject = match &args.bundle {
        Some(named) => find_subject(context, &client, (&room, None), named)?,
        None => Subject::Nothing,
    };
    let request = match subject {
        Subject::Nothing => {
            let place = Place::ask(&client, &room)?;
            return hand_over(&client, &place, &instruction, None, key, output);
        }
        Subject::Bundle(id, read) => {
            let work = work_of(context, &client, &read, &id)?;
            let place = Place {
                room: read.state.room().clone(),
                head: read.head,
            };
            return hand_over(&client, &place, &instruction, Some((id, work)), key, output);
        }
        Subject::Ref(name) => PushRequest {
            changes: vec![parse_change(context.repository()?, &name)?],
            name_every_tip: true,
            ..PushRequest::default()
        },
        Subject::Commit(revision) => PushRequest {
            loose: vec![LooseTip {
                name: BundleRefName::Head,
                revision,
            }],
            name_every_tip: true,
            ..PushRequest::default()
        },
    };
    let policy = push_policy(context.repository()?, &hub, None)?;
    let extra = |bundle: Option<BundleId>| -> Vec<Part> { vec![instruction.part(bundle).into()] };
    let request = PushRequest {
        extra: Some(&extra),
        mentions: mentions(instruction.to.as_deref()),
        key,
        ..request
    };
    let headline = |report: &git_remote_parler::push::PushReport| {
        let number = report.posted.as_ref().map(|posted| posted.seq).unwrap_or_default();
        format!(
            "handed over to {} as message {number} of '{}'",
            instruction.addressee(),
            report.room
        )
    };
    let destination = Destination {
        client: &client,
        room: &room,
        policy: &policy,
        lookup: RoomLookup::Unread,
        can_force: false,
    };
    push(context, destination, &request, headline, output)?;
    tell_if_for_nobody(&client, &room, instruction.to.as_deref(), output);
    Ok(())
}

/// The bundle of a handoff that may have to wait: one that the room has, because nothing can be pushed then.
pub(super) fn queued_bundle(context: &Context, room: &RoomName, named: Option<&str>) -> Result<Option<BundleId>> {
    let Some(named) = named else { return Ok(None) };
    if let Ok(id) = named.parse() {
        return Ok(Some(id));
    }
    let has_to_be_pushed = || {
        let what = format_args!("--queue: '{named}' would have to be pushed, and that cannot wait").to_string();
        Error::usage(what).then("push it first, and name the bundle by its id; or leave out --queue")
    };
    let is_here = context
        .repository_if_any()
        .is_some_and(|here| here.resolve(named).is_ok());
    let may_be_id = Reference::parse(named).is_some_and(|reference| reference.prefix.is_some());
    if is_here && !may_be_id {
        return Err(has_to_be_pushed());
    }
    match context
        .client()
        .and_then(|client| find_subject(context, &client, (room, None), named))
    {
        Ok(Subject::Bundle(id, _)) => Ok(Some(id)),
        Ok(_) => Err(has_to_be_pushed()),
        Err(error) if error.kind == ErrorKind::Unreachable => {
            let what =
                format_args!("--queue: which bundle '{named}' is only the hub can tell, and it cannot be reached");
            Err(Error::usage(what).then("name it by all 64 digits of its id"))
        }
        Err(error) => Err(error),
    }
}

/// A bundle of the room where one has that id, else a revision of the repository; both at once is not for us to decide.
/// Reads the room, unless it was read a moment ago.
pub(super) fn find_subject(
    context: &Context,
    client: &Client,
    (room, read): (&RoomName, Option<Room>),
    named: &str,
) -> Result<Subject> {
    let reference = Reference::parse(named).and_then(|reference| reference.prefix);
    let local = match context.repository_if_any() {
        Some(repository) => local_name(repository, named)?,
        None => None,
    };
    if let Some(prefix) = &reference {
        let read = read.map_or_else(|| Room::read(client, room, &context.room_cache()), Ok);
        let found = match read {
            Ok(read) => one_bundle(&read, prefix)?.map(|id| (id, read)),
            // A push may make the room; a bundle cannot be in it.
            Err(git_remote_parler::room::RoomError::Unknown { .. }) if local.is_some() => None,
            Err(error) => return Err(error.into()),
        };
        match (found, &local) {
            (Some((id, _)), Some(name)) => {
                return Err(
                    Error::usage(format_args!("'{named}' is both bundle {} and {name}", id.short()))
                        .then(format!("--bundle {name}, or more digits of the id")),
                );
            }
            (Some((id, read)), None) => return Ok(Subject::Bundle(id, Box::new(read))),
            (None, _) => {}
        }
    }
    if let Some(name) = local {
        return Ok(Subject::Ref(name));
    }
    match context.repository_if_any() {
        Some(repository) if repository.resolve(named).is_ok() => Ok(Subject::Commit(named.to_owned())),
        _ => Err(Error::new(
            ErrorKind::NotFound,
            format_args!("'{named}' is neither a bundle of room '{room}' nor a revision here"),
        )
        .then("git parler recv --all, git branch")),
    }
}

/// What a bundle of the room brings: as git counts it where this repository has it, else as the handoff says that came
/// with it.
fn work_of(context: &Context, client: &Client, read: &Room, id: &BundleId) -> Result<Option<Work>> {
    let counted = context
        .repository_if_any()
        .and_then(|repository| work_of_bundle(repository, &read.state, id));
    let Some(bundle) = read.state.bundle(id).filter(|_| counted.is_none()) else {
        return Ok(counted);
    };
    let entry = match read_message(client, &client.hub_id()?, read.state.room(), bundle.seq) {
        // A token may post, and not read what others said.
        Err(error) if error.kind == ErrorKind::NotAuthorised => return Ok(None),
        entry => entry?,
    };
    let message = entry.as_ref().and_then(|entry| entry.message());
    let Some((message, _)) = message.filter(|(_, verdict)| verdict.is_valid()) else {
        return Ok(None);
    };
    let told = message.parts.iter().find_map(|part| match part {
        Part::Handoff(part) if part.bundle == Some(*id) => part.work.clone(),
        _ => None,
    });
    // That was another work tree, at another time.
    Ok(told.map(|told| Work { dirty: None, ..told }))
}

/// Posts the instruction alone, or about a bundle that is there.
fn hand_over(
    client: &Client,
    place: &Place,
    instruction: &Instruction,
    about: Option<(BundleId, Option<Work>)>,
    key: Option<&str>,
    output: &mut Output,
) -> Result<()> {
    let (bundle, work) = about.unzip();
    let part = Part::from(HandoffPart {
        work: work.flatten(),
        ..instruction.part(bundle)
    });
    let mentioned = mentions(instruction.to.as_deref());
    let posted = post(client, place, vec![part], mentioned, key, None)?;
    tell_if_for_nobody(client, &posted.room, instruction.to.as_deref(), output);
    output.either(
        &format!(
            "handed over to {} as message {} of '{}'",
            instruction.addressee(),
            posted.seq,
            posted.room
        ),
        &json!({ "room": posted.room, "seq": posted.seq, "id": posted.id, "bundleId": bundle }),
    )
}
