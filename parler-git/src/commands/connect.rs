//! `git parler connect`: says hello to a hub as an agent, and keeps what was chosen for this work tree.

use parler_client::Client;
use parler_protocol::{AgentName, ErrorCode, StatusText};
use serde_json::json;

use crate::choice::Choice;
use crate::cli::Connect;
use crate::commands::hook::install::{Wired, wire_installed};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::hook::install::Scope;
use crate::hubs::HubChoice;
use crate::output::Output;
use crate::text;

pub(super) fn run(context: &Context, args: &Connect, output: &mut Output) -> Result<()> {
    context.require_agent()?;
    let status = parse_status(args)?;
    let hub = if args.local { HubChoice::Local } else { context.hub()? };
    let keeps_hub = args.local || context.globals.hub.is_some();
    let choice = Choice::new(context, hub, keeps_hub, args.role.as_deref())?;

    // Nothing is kept before the hub has answered. A new session also tells it the name and the role.
    let client = choice.client(context)?;
    let hub_id = match client.open_session() {
        Ok(session) => Some(session.hub),
        // An answer: the hub is there, and an invite, which is redeemed there, lets this agent in.
        Err(error) if error.code() == Some(ErrorCode::NotAdmitted) && choice.hub != HubChoice::Local => None,
        Err(error) => return Err(error.into()),
    };
    choice.keep(context)?;
    let status = set_status(status, &client, hub_id.is_some(), output)?;
    if context.globals.agent.is_some() && context.repository_if_any().is_none() {
        output.remark(
            "outside of a repository --as names the agent of every work tree (git config --global parler.agent); \
             run it in a work tree to name that one's alone",
        );
    }

    let identity = client.identity();
    let who = text::name_and_role(identity.name.as_str(), identity.role.as_ref().map(AgentName::as_str));
    let address = client.address();
    let line = match (&hub_id, &choice.hub) {
        (Some(_), HubChoice::Local) => format!("connected to the local hub at {address} as {who}"),
        (Some(_), HubChoice::At(_)) => format!("connected to the hub at {address} as {who}"),
        (None, _) => {
            output.remark("the hub does not know this agent yet: git parler join CODE");
            format!("{who} is to speak to the hub at {address}, and is not let in yet")
        }
    };
    let mut value = json!({
        "hub": { "choice": choice.hub.to_config(), "address": address.to_string(), "id": hub_id },
        "admitted": hub_id.is_some(),
        "name": identity.name,
        "role": identity.role,
        "id": identity.key.id(),
    });
    if let Some(status) = status {
        value["status"] = json!(status);
    }
    if !args.hosts {
        return output.either(&line, &value);
    }
    let mut lines = vec![line];
    let mut hosts = Vec::new();
    let mut failed = None;
    for Wired { host, done } in wire_installed(context) {
        let (word, json) = match &done {
            None => ("not installed here".to_owned(), json!(null)),
            Some(Ok((file, true))) => {
                let next = host.next_step(Scope::User);
                let word = format!("its hooks are in {} now; {next}", file.display());
                (word, json!({ "file": file, "changed": true, "next": next }))
            }
            Some(Ok((file, false))) => {
                let word = format!("its hooks were in {} already", file.display());
                (word, json!({ "file": file, "changed": false, "next": null }))
            }
            Some(Err(error)) => (error.what().to_owned(), json!({ "error": error.to_json() })),
        };
        lines.push(format!("{}: {}", host.name(), text::one_line(&word)));
        hosts.push(json!({ "host": host.name(), "installed": done.is_some(), "hooks": json }));
        if let Some(Err(error)) = done {
            failed.get_or_insert(error);
        }
    }
    value["hosts"] = json!(hosts);
    output.either(&lines.join("\n"), &value)?;
    // The others are done all the same.
    failed.map_or(Ok(()), |error| Err(if output.is_json() { error.told() } else { error }))
}

/// What this agent is at, where that is said: the outer none where it is not.
fn parse_status(args: &Connect) -> Result<Option<Option<StatusText>>> {
    args.status
        .as_deref()
        .map(|text| match text {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(Error::usage),
        })
        .transpose()
}

/// Tells the hub what this agent is at, where that is said. Gives what it is from now on.
fn set_status(
    said: Option<Option<StatusText>>,
    client: &Client,
    is_admitted: bool,
    output: &mut Output,
) -> Result<Option<Option<StatusText>>> {
    let Some(status) = said else { return Ok(None) };
    if !is_admitted {
        output.remark("what this agent is at is not told: the hub has not let it in yet");
        return Ok(None);
    }
    Ok(Some(client.set_status(status)?.status))
}
