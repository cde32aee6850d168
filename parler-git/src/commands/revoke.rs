//! `git parler revoke`: invites of a room that lead nobody in any more.

use parler_protocol::{ErrorCode, InviteCode, InviteId};
use serde_json::json;

use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::room_log::in_room;
use crate::text;

/// Means every invite.
const ALL: &str = "all";

pub(super) fn run(context: &Context, what: &str, output: &mut Output) -> Result<()> {
    let ids: Vec<InviteId> = if what == ALL {
        Vec::new()
    } else {
        // What reads as either is tried as either: the digits of an id may be a code.
        let id = what.parse().ok();
        let code = what.parse::<InviteCode>().ok().map(|code| code.id());
        id.into_iter().chain(code).collect()
    };
    if ids.is_empty() && what != ALL {
        // What was typed may be most of a code, so it is not repeated.
        let option = context.room_option();
        return Err(
            Error::usage("that is neither an invite code nor the id of an invite").then(format!(
                "git parler invite --list{option} shows the ids; or: git parler revoke all{option}"
            )),
        );
    }
    let room = context.room()?;
    let client = context.client()?;
    let mut revoked = None;
    for id in &ids {
        match client.revoke_invites(&room, Some(id)) {
            Ok(found) => {
                revoked = Some(found);
                break;
            }
            Err(error) if error.code() == Some(ErrorCode::InvalidInvite) => {}
            Err(error) => return Err(in_room(&room, error)),
        }
    }
    let revoked = match revoked {
        Some(revoked) => revoked,
        None if ids.is_empty() => client
            .revoke_invites(&room, None)
            .map_err(|error| in_room(&room, error))?,
        None => {
            let what = format!("no such invite into room '{room}' is open that you made, or that you own the room of");
            return Err(Error::new(ErrorKind::NotFound, what).then(format!("git parler invite --list --room {room}")));
        }
    };
    output.either(
        &format!("revoked {} into room '{room}'", text::count(revoked.revoked, "invite")),
        &json!({ "room": room, "revoked": revoked.revoked }),
    )
}
