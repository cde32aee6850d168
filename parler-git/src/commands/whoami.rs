//! `git parler whoami`: the agent that acts here and the hub it speaks to. Asks no hub, starts none; save that what a
//! token may do only its hub can tell.

use serde_json::json;

use crate::agents::NameSource;
use crate::context::Context;
use crate::error::Result;
use crate::hubs::HubChoice;
use crate::local_hub::LocalHub;
use crate::output::Output;
use crate::text;
use crate::view::{field, verbatim};

pub(super) fn run(context: &Context, output: &mut Output) -> Result<()> {
    output.require_open()?;
    if context.is_job() {
        return of_token(context, output);
    }
    let (agent, source) = context.agent()?;
    let hub = context.hub()?;
    let (hub_text, address) = match &hub {
        HubChoice::At(address) => (address.to_string(), Some(address.to_string())),
        HubChoice::Local => match LocalHub::of(&context.home).running()? {
            Some(record) => (format!("local ({})", record.address), Some(record.address)),
            None => ("local (started when needed)".to_owned(), None),
        },
    };
    let room = context.room_if_any()?;
    let identity = &agent.identity;
    let waiting = context.outbox_if_any()?.map_or(0, |outbox| outbox.count());
    let id = identity.key.id();
    if output.is_json() {
        return output.json(&json!({
            "name": identity.name,
            "role": identity.role,
            "id": id,
            "source": source.describe(),
            "hub": { "choice": hub.to_config(), "address": address },
            "room": room,
            "waiting": waiting,
        }));
    }
    let who = text::name_and_role(identity.name.as_str(), identity.role.as_ref().map(|role| role.as_str()));
    output.line(&who)?;
    output.text(&verbatim("key", &id.to_string()))?;
    output.text(&field("by", source.describe()))?;
    output.text(&verbatim("hub", &hub_text))?;
    if let Some(room) = room {
        output.text(&field("room", room.as_str()))?;
    }
    if waiting > 0 {
        let what = text::count(waiting as u64, "message");
        output.text(&field("waiting", &format!("{what} to be sent · git parler outbox")))?;
    }
    Ok(())
}

/// The token by which this process speaks. Never the secret.
fn of_token(context: &Context, output: &mut Output) -> Result<()> {
    let client = context.client()?;
    let token = client.describe_token()?;
    let (name, address) = (&client.identity().name, client.address().to_string());
    let room = context.room_if_any()?;
    if output.is_json() {
        return output.json(&json!({
            "name": name,
            "role": null,
            "id": null,
            "source": context.token_source(),
            "hub": { "choice": address, "address": address },
            "room": room,
            "token": token,
        }));
    }
    output.line(&text::name(name.as_str()))?;
    output.text(&field("by", NameSource::Token.describe()))?;
    output.text(&verbatim("hub", &address))?;
    output.text(&field("may", &text::grants(&token.rooms)))?;
    output.text(&field("until", &text::local_time(token.expires_at)))?;
    output.text(&field("made by", &text::name(token.by.as_str())))?;
    if let Some(room) = room {
        output.text(&field("room", room.as_str()))?;
    }
    Ok(())
}
