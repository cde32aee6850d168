//! `git parler show`: one message, or the message that brought a bundle or a file. Acknowledges nothing.

use parler_client::Client;
use parler_protocol::{HubId, Part, RoomName, Seq};
use serde_json::json;

use crate::answers::Answers;
use crate::banner::banners;
use crate::cli::Show;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::log_entry::LogEntry;
use crate::naming::{Found, Reference, find_blob};
use crate::output::Output;
use crate::retold::Retold;
use crate::risks;
use crate::room_log::read_message;
use crate::text::Extent;
use crate::view::{render, verbatim};

pub(super) fn run(context: &Context, args: &Show, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let reference = Reference::require(&args.what)?;
    output.page(context)?;
    let client = context.client()?;
    let hub = client.hub_id()?;
    if let Some(number) = reference.number {
        // Digits alone need a room, unless they can be the beginning of an id.
        let room = if reference.prefix.is_some() {
            context.room_if_any()?
        } else {
            Some(context.room()?)
        };
        if let Some(room) = &room
            && show(context, &client, &hub, room, number, output)?
        {
            return Ok(());
        }
        if reference.prefix.is_none() {
            let room = context.room()?;
            return Err(Error::new(
                ErrorKind::NotFound,
                format_args!("no message {number} in room '{room}'"),
            )
            .then("git parler recv --all"));
        }
    }
    let (room, seq) = match find_blob(context, &client, &reference)? {
        Found::Bundle(found) => (found.room.state.room().clone(), found.bundle.seq),
        Found::File(found) => (found.room, found.seq),
    };
    show(context, &client, &hub, &room, seq, output)?;
    Ok(())
}

/// Shows a message, a handoff to this agent with its banner. False: there is none of this number.
fn show(
    context: &Context,
    client: &Client,
    hub: &HubId,
    room: &RoomName,
    seq: Seq,
    output: &mut Output,
) -> Result<bool> {
    let Some(mut entry) = read_message(client, hub, room, seq)? else {
        return Ok(false);
    };
    let room = entry
        .message()
        .map_or_else(|| room.clone(), |(message, _)| message.room.clone());
    let room = &room;
    let before = Seq::new(seq.get().saturating_sub(1));
    let (trust, me) = (context.trust(), client.identity());
    trust.read_on(hub, room, me, before, std::slice::from_mut(&mut entry));
    let log = (hub, room);
    Retold::default().mark(context, client, log, std::slice::from_mut(&mut entry), |_| true)?;
    output.warn(&trust.warnings());
    if !output.is_json() {
        Answers::default().name(client, hub, room, std::slice::from_mut(&mut entry));
    }
    let banner = banners(context, client, room, std::iter::once(&entry))?.pop();
    // What a handoff is about its banner says, and has looked at.
    let own = entry.message().and_then(|(message, _)| {
        message.parts.iter().find_map(|part| match (part, &banner) {
            (Part::Bundle(part), Some(banner)) if banner.handoff.bundle == Some(part.blob) => banner.risks.clone(),
            (Part::Bundle(part), _) => risks::of_bundle(part, context.repository_if_any()),
            _ => None,
        })
    });
    if output.is_json() {
        let mut value = entry.to_json();
        value["risks"] = json!(own);
        if let Some(banner) = &banner {
            value["handoff"] = json!(banner.to_json());
        }
        value["history"] = trust.history_json(hub, room);
        output.json(&value)?;
        return Ok(true);
    }
    if let Some(banner) = &banner {
        output.text(&banner.render(Extent::Whole))?;
        output.text("\n")?;
    }
    output.text(&render(&entry, context.repository_if_any(), Extent::Whole))?;
    if let Some(report) = own.filter(|_| banner.is_none()) {
        output.text(&risks::lines(&report))?;
    }
    // A banner has said it.
    let next = if banner.is_some() { None } else { next(&entry) };
    if let Some((label, command)) = next {
        output.text(&verbatim(label, &format!("{command} --room {room}")))?;
    }
    Ok(true)
}

/// The command that takes what a message brought.
fn next(entry: &LogEntry) -> Option<(&'static str, String)> {
    let (message, _) = entry.message()?;
    message.parts.iter().find_map(|part| match part {
        Part::Bundle(part) => Some(("apply", format!("git parler apply {}", part.blob.short()))),
        Part::Handoff(part) => {
            let bundle = part.bundle?;
            Some(("apply", format!("git parler apply {}", bundle.short())))
        }
        Part::Task(part) => {
            let result = part.result?;
            Some(("apply", format!("git parler apply {}", result.short())))
        }
        Part::File(_) => Some(("fetch", format!("git parler fetch {}", message.seq))),
        _ => None,
    })
}
