//! `git parler join`: a code, or a link with a code in it, makes this agent a member of a room.

use parler_client::HubAddress;
use parler_protocol::InviteCode;
use serde_json::json;

use crate::cli::Join;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::hubs::{self, HubChoice};
use crate::output::Output;

pub(super) fn run(context: &Context, args: &Join, output: &mut Output) -> Result<()> {
    // What was typed may be most of a code, so it is not repeated.
    let code: InviteCode = args.code.parse().map_err(|_| {
        Error::usage("that is no invite code: 8 to 32 of A-Z 2-9 without I and O").then("git parler join CODE")
    })?;
    let linked = match linked_hub(&args.code)? {
        Some(address) => Some(HubChoice::At(address).recognised(&context.home)?),
        None => None,
    };
    let hub = match &linked {
        Some(hub) => hub.clone(),
        None => context.hub()?,
    };
    let (agent, _) = context.agent()?;
    let client = hubs::client(&hub, agent.identity, &context.home, &context.environment)?;
    let joined = client.join(&code)?;
    // Somebody who came by a link and has chosen no hub means this one from now on.
    if linked.is_some() && context.hub()? != hub && context.config("parler.hub")?.is_none() {
        context.set_config("parler.hub", &hub.to_config())?;
        output.remark(&format!(
            "the hub is {} from now on (git config parler.hub)",
            hub.to_config()
        ));
    }
    output.either(
        &format!("joined room '{}'", joined.room),
        &json!({ "room": joined.room, "kind": joined.kind, "head": joined.head, "hub": client.address().to_string() }),
    )
}

/// The hub of a link `https://HOST/join/CODE` or `parler://HOST/join/CODE`; none of a code alone.
fn linked_hub(link: &str) -> Result<Option<HubAddress>> {
    let Some((base, _)) = link.rsplit_once("/join/") else {
        return Ok(None);
    };
    let wrong =
        |error: &dyn std::fmt::Display| Error::usage(format_args!("the link: {error}")).then("git parler join CODE");
    let Some(rest) = base.strip_prefix("parler://") else {
        return base.parse().map(Some).map_err(|error| wrong(&error));
    };
    let plain: HubAddress = format!("http://{rest}").parse().map_err(|error| wrong(&error))?;
    if plain.is_loopback() {
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
        let hub = |link: &str| linked_hub(link).map(|hub| hub.map(|hub| hub.to_string()));
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
