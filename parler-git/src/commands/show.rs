//! `git parler show`: one message, or the message that brought a bundle. Acknowledges nothing.

use parler_protocol::{RoomName, Seq};

use crate::cli::Show;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::naming::{Reference, find_bundle};
use crate::output::Output;
use crate::room_log::read_message;
use crate::text::Extent;
use crate::view::render;

pub(super) fn run(context: &Context, args: &Show, output: &mut Output) -> Result<()> {
    let reference = Reference::require(&args.what)?;
    let client = context.client()?;
    let hub = client.hub_id()?;
    let show = |room: &RoomName, seq: Seq, output: &mut Output| -> Result<bool> {
        let Some(entry) = read_message(&client, &hub, room, seq)? else {
            return Ok(false);
        };
        if output.is_json() {
            output.json(&entry.to_json())?;
        } else {
            output.text(&render(&entry, context.repository_if_any(), Extent::Whole))?;
        }
        Ok(true)
    };
    if let Some(number) = reference.number {
        // Digits alone need a room, unless they can be the beginning of an id.
        let room = if reference.prefix.is_some() {
            context.room_if_any()?
        } else {
            Some(context.room()?)
        };
        if let Some(room) = &room
            && show(room, number, output)?
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
    let found = find_bundle(context, &client, &reference)?;
    show(found.room.state.room(), found.bundle.seq, output)?;
    Ok(())
}
