//! `git parler trust`: whose keys belong to names in a room and what is in doubt about its history; accepting a key, or
//! the history as the hub has it now.

use parler_client::Client;
use parler_protocol::{HubId, RoomName};
use serde_json::json;

use crate::cli::Trust;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::names::NamedKey;
use crate::output::Output;
use crate::posting::Place;
use crate::trust::stranger_line;
use crate::view::short_key;
use crate::{screen, text};

pub(super) fn run(context: &Context, args: &Trust, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let room = context.room()?;
    let client = context.client()?;
    let place = Place::ask(&client, &room)?;
    let hub = client.hub_id()?;
    match &args.name {
        name if name.is_some() || args.key.is_some() => {
            accept_key(context, &hub, &place.room, name.as_deref(), args.key.as_deref(), output)
        }
        _ if args.history => accept_history(context, &hub, &place, output),
        _ => list(context, &client, &hub, &place.room, output),
    }
}

fn accept_history(context: &Context, hub: &HubId, place: &Place, output: &mut Output) -> Result<()> {
    let (room, head) = (&place.room, place.head);
    // What was in doubt is being answered.
    context.trust().warnings();
    if !context.trust().accept_history(hub, room, &head) {
        return Err(not_kept());
    }
    let forgotten = context.room_cache().forget(hub, room);
    forgotten.map_err(|error| Error::io("remove what this repository remembers of the room", &error))?;
    output.either(
        &format!(
            "the history of room '{room}' is accepted as it is now, up to message {}",
            head.seq
        ),
        &json!({ "room": room, "accepted": "history", "head": head }),
    )
}

fn accept_key(
    context: &Context,
    hub: &HubId,
    room: &RoomName,
    name: Option<&str>,
    key: Option<&str>,
    output: &mut Output,
) -> Result<()> {
    let (strange, is_known) = context.trust().with_names(hub, room, |names| {
        let strange: Vec<NamedKey> = match name {
            Some(name) => names.strange(name).cloned().collect(),
            None => names.all().filter(|known| !known.accepted).cloned().collect(),
        };
        (strange, name.is_none_or(|name| names.has(name)))
    });
    let shown = name.map_or_else(|| "anybody".to_owned(), text::name);
    let meant: Vec<&NamedKey> = strange
        .iter()
        .filter(|known| key.is_none_or(|key| known.key.to_string().starts_with(key)))
        .collect();
    let found = match meant.as_slice() {
        [one] => *one,
        [] => {
            let what = match (is_known, key) {
                (true, Some(key)) => format!("no new key {} was seen for {shown} in room '{room}'", text::name(key)),
                (true, None) => format!("no new key was seen for {shown} in room '{room}'"),
                (false, _) => format!("nobody called {shown} was seen in room '{room}'"),
            };
            return Err(Error::new(ErrorKind::NotFound, what).then(format!("git parler trust --room {room}")));
        }
        several if name.is_none() => {
            let names: Vec<_> = several.iter().map(|known| text::name(&known.name)).collect();
            let what = format!("several new keys begin so, of {}", names.join(", "));
            return Err(Error::usage(what).then("say which: NAME --key ID, or more of the key"));
        }
        several => {
            let keys: Vec<_> = several.iter().map(|known| short_key(&known.key)).collect();
            let what = format!("several keys are new for {shown}: {}", keys.join(", "));
            return Err(Error::usage(what).then("say which: --key ID"));
        }
    };
    let shown = name.map_or_else(|| text::name(&found.name), text::name);
    if !context.trust().accept_key(hub, room, &found.name, &found.key) {
        return Err(not_kept());
    }
    output.either(
        &format!("key {} is accepted for {shown} in room '{room}'", short_key(&found.key)),
        &json!({ "room": room, "accepted": "key", "name": found.name, "key": found.key }),
    )
}

fn not_kept() -> Error {
    Error::fatal("what is accepted cannot be remembered: the state directory cannot be written")
        .then("set PARLER_HOME to a directory that can be")
}

fn list(context: &Context, client: &Client, hub: &HubId, room: &RoomName, output: &mut Output) -> Result<()> {
    let trust = context.trust();
    let history = trust.history(hub, room);
    let names: Vec<NamedKey> = trust.with_names(hub, room, |names| names.all().cloned().collect());
    if output.is_json() {
        let names: Vec<_> = names
            .iter()
            .map(|known| {
                json!({ "name": known.name, "key": known.key, "since": known.since, "accepted": known.accepted })
            })
            .collect();
        let known = |found: Option<(parler_protocol::Seq, &parler_protocol::KnownHead)>| {
            found.map(|(seq, known)| json!({ "seq": seq, "h": known.h, "at": known.at }))
        };
        return output.json(&json!({
            "room": room, "names": names, "told": known(history.newest_head()),
            "verified": known(history.newest_computed()), "history": trust.history_json(hub, room),
        }));
    }
    let verified = match history.newest_computed() {
        Some((seq, _)) => format!("read and verified up to message {seq}"),
        None => "not read yet".to_owned(),
    };
    let known = format!("room '{room}': known up to message {}, {verified}", history.newest());
    output.line(&screen::wrap(&known, 0))?;
    for stranger in history.strangers() {
        output.line(&format!("  {}", stranger_line(stranger, room)))?;
    }
    let me = client.identity().key.id();
    for known in &names {
        let mark = match known.accepted {
            true => "",
            false => " · new key, not accepted",
        };
        let own = if known.key == me { " · you" } else { "" };
        let facts = format!(
            " · {} · since message {}{own}{mark}",
            short_key(&known.key),
            known.since
        );
        output.line(&screen::fit("  ", &text::name(&known.name), &facts))?;
    }
    Ok(())
}
