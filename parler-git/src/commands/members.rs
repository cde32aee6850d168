//! `git parler leave`, `remove`, `owner`, `admit` and `refuse`: who is in a room, and who owns it.

use parler_client::{Client, ClientError};
use parler_protocol::api::MemberList;
use parler_protocol::{AgentId, AgentName, ErrorCode, RoomName};
use serde_json::json;

use crate::contacts::{self, Opening, Person};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::output::Output;
use crate::room_log::in_room;
use crate::text;

/// `git parler leave`
pub(super) fn leave(context: &Context, output: &mut Output) -> Result<()> {
    let room = context.room_said(Opening::Missing)?;
    let client = context.client()?;
    let me = client.identity().key.id();
    client.end_membership(&room, &me).map_err(|error| match error.code() {
        Some(ErrorCode::LastOwner) => Error::new(
            ErrorKind::Conflict,
            format_args!("you are the last owner of room '{room}', and others are in it"),
        )
        .then(format!(
            "git parler owner AGENT --room {room}, or git parler delete-room {room}"
        )),
        _ => in_room(&room, error),
    })?;
    output.either(&format!("left room '{room}'"), &json!({ "room": room, "left": true }))
}

/// `git parler remove AGENT`
pub(super) fn remove(context: &Context, wanted: &str, output: &mut Output) -> Result<()> {
    let (room, client) = (context.room()?, context.client()?);
    let members = ask(&client, &room)?;
    let person = member(context, &client, &members, wanted)?;
    if person.id == client.identity().key.id() {
        return Err(
            Error::usage(format_args!("{} is you", text::name(wanted))).then(format!("git parler leave --room {room}"))
        );
    }
    client
        .end_membership(&room, &person.id)
        .map_err(|error| about(&person, &room, error))?;
    output.either(
        &format!("removed {} from room '{room}'", shown(&person)),
        &json!({ "room": room, "removed": to_json(&person) }),
    )
}

/// What failed with a member that was there a moment ago.
fn about(person: &Person, room: &RoomName, error: ClientError) -> Error {
    match error.code() {
        Some(ErrorCode::NotFound) => Error::new(
            ErrorKind::NotFound,
            format_args!("{} is not in room '{room}' any more, or you are not", shown(person)),
        )
        .then(format!("git parler roster --room {room}")),
        _ => in_room(room, error),
    }
}

/// `git parler owner AGENT [--drop]`
pub(super) fn owner(context: &Context, wanted: &str, owns: bool, output: &mut Output) -> Result<()> {
    let (room, client) = (context.room()?, context.client()?);
    let members = ask(&client, &room)?;
    let person = member(context, &client, &members, wanted)?;
    client
        .set_owner(&room, &person.id, owns)
        .map_err(|error| about(&person, &room, error))?;
    let said = match owns {
        true => format!("{} is an owner of room '{room}' now", shown(&person)),
        false => format!("{} is no owner of room '{room}' any more", shown(&person)),
    };
    let mut value = to_json(&person);
    value["room"] = json!(room);
    value["owner"] = json!(owns);
    output.either(&said, &value)
}

/// `git parler admit AGENT` and `git parler refuse AGENT`
pub(super) fn answer(context: &Context, wanted: &str, admits: bool, output: &mut Output) -> Result<()> {
    let (room, client) = (context.room()?, context.client()?);
    let list = ask(&client, &room)?;
    let asking: Vec<Person> = list
        .requests
        .iter()
        .map(|request| Person {
            id: request.id,
            name: request.name.clone(),
            role: request.role.clone(),
        })
        .collect();
    let hub = client.hub_id()?;
    let person = match contacts::person(context.trust(), &hub, &room, &asking, wanted) {
        Ok(person) => person,
        Err(error) if error.kind == ErrorKind::NotFound => {
            // Another owner may have let it in meanwhile, which is as good; and whoever was refused is known by its key.
            let inside = people(&list);
            match contacts::person(context.trust(), &hub, &room, &inside, wanted) {
                Ok(person) if admits => person,
                _ => match wanted.parse::<AgentId>() {
                    Ok(id) => Person {
                        id,
                        name: wanted.parse().map_err(Error::usage)?,
                        role: None,
                    },
                    Err(_) => {
                        let what = format!("nobody called {} asks to come into room '{room}'", text::name(wanted));
                        return Err(
                            Error::new(ErrorKind::NotFound, what).then(format!("git parler roster --room {room}"))
                        );
                    }
                },
            }
        }
        Err(error) => return Err(error),
    };
    let answered = match admits {
        true => client.admit(&room, &person.id),
        false => client.refuse(&room, &person.id),
    };
    answered.map_err(|error| match error.code() {
        Some(ErrorCode::NotFound) => {
            let what = format!("{} does not ask to come into room '{room}'", shown(&person));
            Error::new(ErrorKind::NotFound, what).then(format!("git parler roster --room {room}"))
        }
        _ => in_room(&room, error),
    })?;
    let said = match admits {
        true => format!("{} is in room '{room}' now", shown(&person)),
        false => format!("{} is not let into room '{room}'", shown(&person)),
    };
    let key = if admits { "admitted" } else { "refused" };
    output.either(&said, &json!({ "room": room, key: to_json(&person) }))
}

fn ask(client: &Client, room: &RoomName) -> Result<MemberList> {
    client.members(room).map_err(|error| in_room(room, error))
}

fn people(list: &MemberList) -> Vec<Person> {
    list.members
        .iter()
        .map(|member| Person {
            id: member.id,
            name: member.name.clone(),
            role: member.role.clone(),
        })
        .collect()
}

/// The member that is meant.
fn member(context: &Context, client: &Client, list: &MemberList, wanted: &str) -> Result<Person> {
    contacts::person(context.trust(), &client.hub_id()?, &list.room, &people(list), wanted)
}

fn shown(person: &Person) -> String {
    text::name_and_role(person.name.as_str(), person.role.as_ref().map(AgentName::as_str))
}

fn to_json(person: &Person) -> serde_json::Value {
    json!({ "id": person.id, "name": person.name, "role": person.role })
}
