//! `git parler connect`: says hello to a hub as an agent, and keeps what was chosen for this work tree.

use parler_protocol::AgentName;
use serde_json::json;

use crate::cli::Connect;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::hubs::{self, HubChoice};
use crate::identity::Agents;
use crate::output::Output;
use crate::text;

pub(super) fn run(context: &Context, args: &Connect, output: &mut Output) -> Result<()> {
    let hub = if args.local { HubChoice::Local } else { context.hub()? };
    let (mut agent, _) = context.agent()?;
    let role = match args.role.as_deref() {
        None => None,
        Some("") => Some(None),
        Some(role) => {
            let role = role
                .parse::<AgentName>()
                .map_err(|error| Error::usage(format_args!("--role: {error}")))?;
            Some(Some(role))
        }
    };
    if let Some(role) = &role {
        agent.identity.role.clone_from(role);
    }

    // Nothing is kept before the hub has answered. A new session also tells it the name and the role.
    let client = hubs::client(&hub, agent.identity.clone(), &context.home, &context.environment)?;
    let session = client.open_session()?;
    if let Some(role) = &role {
        Agents::of(&context.home).set_role(&agent.identity.name, role.as_ref())?;
    }
    if context.globals.agent.is_some() {
        context.set_agent(&agent.identity.name)?;
    }
    if args.local || context.globals.hub.is_some() {
        context.set_config("parler.hub", &hub.to_config())?;
    }

    let identity = client.identity();
    let who = text::name_and_role(identity.name.as_str(), identity.role.as_ref().map(AgentName::as_str));
    let which = if hub == HubChoice::Local {
        "the local hub"
    } else {
        "the hub"
    };
    output.either(
        &format!("connected to {which} at {} as {who}", client.address()),
        &json!({
            "hub": { "choice": hub.to_config(), "address": client.address().to_string(), "id": session.hub },
            "name": identity.name,
            "role": identity.role,
            "id": identity.key.id(),
        }),
    )
}
