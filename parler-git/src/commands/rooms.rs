//! `git parler rooms`: the rooms this agent is in.

use crate::context::Context;
use crate::error::Result;
use crate::output::Output;
use crate::text;

pub(super) fn run(context: &Context, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let rooms = context.client()?.rooms()?;
    if output.is_json() {
        return output.json(&rooms);
    }
    if rooms.rooms.is_empty() {
        output.remark("you are in no room: git parler join CODE, or make one: git parler invite --group ROOM");
    }
    let width = rooms
        .rooms
        .iter()
        .map(|room| room.room.as_str().len())
        .max()
        .unwrap_or_default();
    for room in &rooms.rooms {
        output.line(&format!(
            "{:<width$}  {} · {} · {} unread · head {}",
            room.room.as_str(),
            room.kind,
            text::count(room.members, "member"),
            room.unread,
            room.head.seq
        ))?;
    }
    Ok(())
}
