//! `git parler room`: what a room's HEAD points at, which is what a clone of it checks out.

use git_remote_parler::room::Room as RoomRead;
use parler_protocol::{ObjectFormat, RefName, RefsPart};
use serde_json::json;

use crate::cli::{Room, RoomVerb};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::posting::{Place, post};
use crate::text;

pub(super) fn run(context: &Context, args: &Room, output: &mut Output) -> Result<()> {
    let RoomVerb::Head { branch } = &args.what;
    let name = context.room()?;
    let client = context.client()?;
    context.require_sent()?;
    let RoomRead { state, head: end } = RoomRead::read(&client, &name, &context.room_cache())?;
    let room = state.room();
    let current = state.head_ref();
    let Some(branch) = branch else {
        let oid = current.and_then(|head| state.refs().get(head)).map(|found| found.oid);
        let shown = current.map(|head| text::name(head.as_str()));
        let told = match (shown, oid) {
            (Some(head), Some(_)) => format!("HEAD of '{room}' is {head}"),
            (Some(head), None) => format!("HEAD of '{room}' is {head}, which is not there"),
            (None, _) => format!("'{room}' has no branch yet: the first that is pushed becomes HEAD"),
        };
        return output.either(&told, &json!({ "room": room, "head": current, "oid": oid }));
    };
    let wanted = branch_name(branch)?;
    let Some(found) = state.refs().get(&wanted) else {
        return Err(Error::new(
            ErrorKind::NotFound,
            format_args!("room '{room}' has no branch '{branch}'"),
        )
        .then(format!("git ls-remote --heads parler::room/{room}, or push it first")));
    };
    if current == Some(&wanted) {
        return output.either(
            &format!("HEAD of '{room}' is {} already", text::name(wanted.as_str())),
            &json!({ "room": room, "head": wanted, "oid": found.oid, "seq": null, "id": null }),
        );
    }
    let part = RefsPart {
        updates: Vec::new(),
        atomic: false,
        object_format: state.object_format().unwrap_or(ObjectFormat::Sha1),
        head: Some(wanted.clone()),
        base_hint: None,
    };
    let place = Place {
        room: room.clone(),
        head: end,
    };
    let posted = post(&client, &place, vec![part.into()], Vec::new(), None, None)?;
    output.either(
        &format!(
            "HEAD of '{room}' is now {}, by message {}",
            text::name(wanted.as_str()),
            posted.seq
        ),
        &json!({ "room": room, "head": wanted, "oid": found.oid, "seq": posted.seq, "id": posted.id }),
    )
}

fn branch_name(text: &str) -> Result<RefName> {
    let full = if text.starts_with("refs/") {
        text.to_owned()
    } else {
        format!("refs/heads/{text}")
    };
    let name: RefName = full.parse().map_err(Error::usage)?;
    match name.branch() {
        Some(_) => Ok(name),
        None => Err(Error::usage(format_args!("{name} is not a branch")).then("git parler room head BRANCH")),
    }
}
