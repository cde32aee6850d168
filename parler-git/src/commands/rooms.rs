//! `git parler rooms`: the rooms this agent is in.

use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::output::Output;
use crate::view::verbatim;
use crate::{room_labels, text};

pub(super) fn run(context: &Context, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let client = context.client()?;
    let rooms = context.rooms(&client)?;
    if output.is_json() {
        let hub = client.hub_id()?;
        let list = rooms.rooms.iter().map(|room| {
            let mut value = json!(room);
            value["history"] = context.trust().history_json(&hub, &room.room);
            value
        });
        return output.json(&json!({ "rooms": list.collect::<Vec<_>>() }));
    }
    if rooms.rooms.is_empty() {
        output.remark("you are in no room: git parler join CODE, or make one: git parler invite --group ROOM");
    }
    let labels = room_labels::column(rooms.rooms.iter().map(|room| &room.room));
    for (room, label) in rooms.rooms.iter().zip(&labels) {
        output.line(&format!(
            "{label}  {} · {} · {} unread · head {}",
            room.kind,
            text::count(room.members, "member"),
            room.unread,
            room.head.seq,
        ))?;
        if room.requests > 0 {
            let roster = format!("{} to come in · git parler roster --room {}", room.requests, room.room);
            output.text(&verbatim("asking", &roster))?;
        }
    }
    Ok(())
}
