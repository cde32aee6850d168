//! `git parler invite`: a code that lets others into a room.

use parler_client::Client;
use parler_protocol::RoomName;
use parler_protocol::api::CreateInvite;
use parler_protocol::limits::MAX_INVITE_TTL;
use serde_json::json;

use crate::cli::Invite;
use crate::context::{Context, parse_room};
use crate::error::Result;
use crate::hubs::HubChoice;
use crate::output::Output;
use crate::room_log::in_room;
use crate::time::parse_ttl;
use crate::{screen, text};

pub(super) fn run(context: &Context, args: &Invite, output: &mut Output) -> Result<()> {
    // A code that nobody sees would let nobody in.
    output.require_open()?;
    let room = match &args.group {
        Some(group) => parse_room(group, "--group")?,
        None => context.room()?,
    };
    let client = context.client()?;
    if args.list {
        return list(&client, &room, output);
    }
    let invite = CreateInvite {
        room,
        approve: args.approve,
        ttl_secs: Some(parse_ttl("--ttl", &args.ttl, MAX_INVITE_TTL)?),
        max_uses: args.max_uses,
    };
    let made = client
        .create_invite(&invite)
        .map_err(|error| in_room(&invite.room, error))?;
    // A link to this machine leads nobody else anywhere: there the code alone is what works.
    let link = format!("{}/join/{}", client.address(), made.code);
    let command = match context.hub()? {
        HubChoice::Local => format!("git parler join {}", made.code),
        HubChoice::At(_) => format!("git parler join {link}"),
    };
    output.remark(&format!(
        "room '{}', until {}: {command}",
        made.room,
        text::local_time(made.expires_at)
    ));
    output.either(
        made.code.as_str(),
        &json!({
            "code": made.code, "link": link, "room": made.room, "kind": made.kind, "expiresAt": made.expires_at,
            "approve": made.approve,
        }),
    )
}

/// The open invites that this agent may revoke.
fn list(client: &Client, room: &RoomName, output: &mut Output) -> Result<()> {
    let list = client.invites(room).map_err(|error| in_room(room, error))?;
    if output.is_json() {
        return output.json(&list);
    }
    if list.invites.is_empty() {
        output.remark(&format!("no invite into room '{room}' is open that you may revoke"));
    }
    for invite in &list.invites {
        let approve = if invite.approve { " · approve" } else { "" };
        let facts = format!(
            " · used {} of {} · until {}{approve}",
            invite.uses,
            invite.max_uses,
            text::local_time(invite.expires_at)
        );
        let by = text::name(invite.by.as_str());
        output.line(&screen::fit(&format!("{} · by ", invite.id), &by, &facts))?;
    }
    Ok(())
}
