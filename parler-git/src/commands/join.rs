//! `git parler join`: a code, or a link with a code in it, makes this agent a member of a room.

use parler_client::{HubAddress, Identity};
use parler_protocol::InviteCode;
use parler_protocol::api::JoinPending;
use parler_protocol::api::Joined;
use serde_json::json;

use crate::choice::Choice;
use crate::cli::Join;
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::hubs::{Chosen, HubChoice};
use crate::output::Output;
use crate::text;

pub(super) fn run(context: &Context, args: &Join, output: &mut Output) -> Result<()> {
    context.require_agent()?;
    // What was typed may be most of a code, so it is not repeated.
    let code: InviteCode = args.code.parse().map_err(|_| {
        Error::usage("that is no invite code: 8 to 32 of A-Z 2-9 without I and O").then("git parler join CODE")
    })?;
    let linked = match linked_hub(&args.code, |authority| context.allows_plain_http(authority))? {
        Some(address) => Some(HubChoice::At(address).recognised(&context.home)?),
        None => None,
    };
    let chosen = context.globals.hub.is_some();
    let configured = context.config("parler.hub")?;
    let hub = match linked {
        Some(linked) if chosen && context.hub()? != linked => {
            return Err(Error::usage("the link and --hub name different hubs").then("leave --hub out"));
        }
        Some(linked) => linked,
        None => context.hub()?,
    };
    let is_linked = args.code.contains('/');
    // Somebody who came by a link and has chosen no hub means this one from now on.
    let keeps_hub = chosen || (is_linked && configured.is_none() && hub != HubChoice::Local);
    let choice = Choice::new(context, hub, keeps_hub, args.role.as_deref())?;
    let client = choice.client(context)?;
    let joined = client.join(&code)?;
    choice.keep(context)?;
    let place = choice.hub.to_config();
    if keeps_hub {
        output.remark(&format!("the hub is {place} from now on (git config parler.hub)"));
    }
    let later = Chosen {
        flag: None,
        environment: context.environment.hub.as_deref(),
        config: if keeps_hub { Some(&place) } else { configured.as_deref() },
    };
    let later = later.winner()?.recognised(&context.home)?;
    if later != choice.hub {
        output.remark(&format!(
            "other commands speak to another hub here, {}: git parler connect --hub {place}",
            later.to_config()
        ));
    }
    let address = client.address().to_string();
    let joined = match joined {
        Joined::In(joined) => joined,
        Joined::Waiting(waiting) => return tell_waiting(&waiting, &address, client.identity(), output),
    };
    output.either(
        &format!("joined room '{}'", joined.room),
        &json!({
            "room": joined.room, "kind": joined.kind, "head": joined.head, "hub": address, "waiting": false,
        }),
    )
}

/// An owner has to let this agent in. Whether one has, each command about the room finds out.
fn tell_waiting(waiting: &JoinPending, address: &str, me: &Identity, output: &mut Output) -> Result<()> {
    let room = &waiting.room;
    let what = format!(
        "room '{room}' waits for an owner to let you in: git parler admit {} --room {room}",
        text::name(me.name.as_str())
    );
    let error = Error::new(ErrorKind::NotFound, what).then(format!("git parler recv --room {room} when one has"));
    if !output.is_json() {
        return Err(error);
    }
    output.json(&json!({
        "room": room, "kind": waiting.kind, "head": null, "hub": address, "waiting": true,
    }))?;
    Err(error.told())
}

/// The hub of a link `https://HOST/join/CODE` or `parler://HOST/join/CODE`; none of a code alone.
pub(crate) fn linked_hub(link: &str, insecure: impl Fn(&str) -> Result<bool>) -> Result<Option<HubAddress>> {
    let Some((base, _)) = link.rsplit_once("/join/") else {
        return Ok(None);
    };
    let wrong =
        |error: &dyn std::fmt::Display| Error::usage(format_args!("the link: {error}")).then("git parler join CODE");
    let Some(rest) = base.strip_prefix("parler://") else {
        return base.parse().map(Some).map_err(|error| wrong(&error));
    };
    let plain: HubAddress = format!("http://{rest}").parse().map_err(|error| wrong(&error))?;
    if plain.is_loopback() || insecure(&plain.authority())? {
        return Ok(Some(plain));
    }
    format!("https://{rest}")
        .parse()
        .map(Some)
        .map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_its_hub() {
        let insecure = |authority: &str| Ok(authority == "lab.example:7777");
        let hub = |link: &str| linked_hub(link, insecure).map(|hub| hub.map(|hub| hub.to_string()));
        assert_eq!(hub("ABCDEFGHJK99").unwrap(), None);
        assert_eq!(
            hub("https://hub.example/x/join/ABCDEFGHJK99").unwrap().as_deref(),
            Some("https://hub.example/x")
        );
        assert_eq!(
            hub("parler://hub.example/join/ABCDEFGHJK99").unwrap().as_deref(),
            Some("https://hub.example")
        );
        assert_eq!(
            hub("parler://127.0.0.1:7/join/ABCDEFGHJK99").unwrap().as_deref(),
            Some("http://127.0.0.1:7")
        );
        assert_eq!(
            hub("parler://lab.example:7777/join/ABCDEFGHJK99").unwrap().as_deref(),
            Some("http://lab.example:7777")
        );
        for bad in [
            "ftp://x/join/ABCDEFGHJK99",
            "https://u:p@x/join/ABCDEFGHJK99",
            "/join/ABCDEFGHJK99",
        ] {
            let error = hub(bad).unwrap_err();
            assert!(!error.line().contains("u:p"), "{error}");
        }
    }
}
