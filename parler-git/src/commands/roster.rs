//! `git parler roster`: who is in a room.

use parler_protocol::AgentName;
use parler_protocol::api::WakePath;

use crate::context::Context;
use crate::error::Result;
use crate::output::Output;
use crate::room_log::in_room;
use crate::view::field;
use crate::{screen, text};

/// How much of a key is shown.
const KEY_CHARS: usize = 9;

pub(super) fn run(context: &Context, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let room = context.room()?;
    let members = context
        .client()?
        .members(&room)
        .map_err(|error| in_room(&room, error))?;
    if output.is_json() {
        return output.json(&members);
    }
    for member in &members.members {
        let who = text::name_and_role(member.name.as_str(), member.role.as_ref().map(AgentName::as_str));
        let owner = if member.owner { " · owner" } else { "" };
        let key = &member.id.to_string()[..KEY_CHARS];
        let serves = if member.serves { " · serves" } else { "" };
        let facts = format!(" · key {key}{owner}{serves} · read to {}", member.cursor);
        output.line(&screen::fit("", &who, &facts))?;
        let wake = match member.wake {
            WakePath::Stream => "watching now",
            WakePath::Session => "woken by what comes",
            WakePath::Turn => "begins its next turn with what comes",
            WakePath::None => "sees what comes at its next recv",
        };
        let seen = text::local_time(member.last_seen);
        output.text(&field("seen", &format!("{seen} · {wake}")))?;
        if let Some(status) = &member.status {
            // It has nothing hidden in it, and may speak of direct rooms.
            output.text(&field("status", &text::one_line(status.as_str())))?;
        }
    }
    let option = context.room_option();
    for request in &members.requests {
        let who = text::name_and_role(request.name.as_str(), request.role.as_ref().map(AgentName::as_str));
        let key = &request.id.to_string()[..KEY_CHARS];
        let facts = format!(
            " · key {key} · asks to come in since {}: git parler admit {key}{option}, or refuse",
            text::local_time(request.since)
        );
        output.line(&screen::fit("", &who, &facts))?;
    }
    Ok(())
}
