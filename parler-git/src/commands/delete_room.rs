//! `git parler delete-room`: a room goes, with all it holds. There is no way back, so it is said twice.

use serde_json::json;

use crate::cli::DeleteRoom;
use crate::context::{Context, parse_room};
use crate::error::{Error, Result};
use crate::output::Output;
use crate::room_log::in_room;

pub(super) fn run(context: &Context, args: &DeleteRoom, output: &mut Output) -> Result<()> {
    let room = parse_room(&args.name, "NAME")?;
    let is_meant = |again: &String| again == &args.name;
    if args.again.as_ref().is_some_and(|again| !is_meant(again)) {
        return Err(
            Error::usage("the two names are not the same").then(format!("git parler delete-room {room} {room}"))
        );
    }
    if !args.yes && args.again.is_none() {
        return Err(Error::usage(format_args!(
            "room '{room}' would be gone for all its members, with its log, refs and bundles"
        ))
        .then(format!("say it again: git parler delete-room {room} {room}")));
    }
    let client = context.client()?;
    client.delete_room(&room).map_err(|error| in_room(&room, error))?;
    // What was known of it is known of no other room of that name.
    let hub = client.hub_id()?;
    context.trust().forget_history(&hub, &room);
    let forgotten = context.room_cache().forget(&hub, &room);
    forgotten.map_err(|error| Error::io("remove what this repository remembers of the room", &error))?;
    output.either(
        &format!("deleted room '{room}'"),
        &json!({ "room": room, "deleted": true }),
    )
}
