//! `git parler invite`: a code that lets others into a room.

use parler_protocol::api::CreateInvite;
use serde_json::json;

use crate::cli::Invite;
use crate::context::{Context, parse_room};
use crate::error::{Error, Result};
use crate::hubs::HubChoice;
use crate::output::Output;
use crate::room_log::in_room;
use crate::text;

pub(super) fn run(context: &Context, args: &Invite, output: &mut Output) -> Result<()> {
    // A code that nobody sees would let nobody in.
    output.require_open()?;
    let room = match &args.group {
        Some(group) => parse_room(group, "--group")?,
        None => context.room()?,
    };
    let invite = CreateInvite {
        room,
        ttl_secs: Some(parse_ttl(&args.ttl)?),
        max_uses: args.max_uses,
    };
    let client = context.client()?;
    let made = client
        .create_invite(&invite)
        .map_err(|error| in_room(&invite.room, error))?;
    // A link to this machine leads nobody else anywhere: there the code alone is what works.
    let link = format!("{}/join/{}", client.address(), made.code);
    let command = match context.hub()? {
        HubChoice::Local => format!("git parler join {}", made.code),
        HubChoice::At(_) => format!("git parler join {link}"),
    };
    output.remark(&format!(
        "room '{}', until {}: {command}",
        made.room,
        text::local_time(made.expires_at)
    ));
    output.either(
        made.code.as_str(),
        &json!({
            "code": made.code, "link": link, "room": made.room, "kind": made.kind, "expiresAt": made.expires_at,
        }),
    )
}

/// Seconds of `90s`, `30m`, `24h`, `7d`; a number alone is seconds.
fn parse_ttl(text: &str) -> Result<u64> {
    let (digits, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let seconds = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => 0,
    };
    let ttl = digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(seconds))
        .filter(|ttl| *ttl > 0);
    ttl.ok_or_else(|| Error::usage(format_args!("--ttl '{text}' is not a time such as 90s, 30m, 24h or 7d")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("24h", 86_400), ("7d", 604_800), ("60", 60)] {
            assert_eq!(parse_ttl(text).unwrap(), seconds);
        }
        for bad in [
            "",
            "h",
            "0",
            "0h",
            "-1h",
            "1w",
            "1.5h",
            "h24",
            "99999999999999999d",
            "é",
        ] {
            assert!(parse_ttl(bad).is_err(), "{bad}");
        }
    }
}
