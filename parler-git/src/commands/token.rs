//! `git parler token`: tokens for CI, made, listed and revoked by members. A new one is printed once, alone on stdout, to
//! be piped into where a CI system keeps its secrets.

use data_encoding::BASE32_NOPAD;
use parler_protocol::api::{CreateToken, TokenSummary};
use parler_protocol::limits::{MAX_TOKEN_NAME_BYTES, MAX_TOKEN_TTL};
use parler_protocol::{ErrorCode, TokenName};
use serde_json::json;

use crate::cli::{Token, TokenVerb};
use crate::context::{Context, parse_room};
use crate::error::{Error, ErrorKind, Result};
use crate::hubs::HubChoice;
use crate::output::Output;
use crate::text;
use crate::time::parse_ttl;

/// Random bytes in the name of a token that nobody named: 8 characters.
const RANDOM_NAME_BYTES: usize = 5;

pub(super) fn run(context: &Context, args: &Token, output: &mut Output) -> Result<()> {
    match &args.what {
        TokenVerb::Create { name, can, ttl } => create(context, name.as_deref(), can, ttl, output),
        TokenVerb::Exchange => exchange(context, output),
        TokenVerb::List => list(context, output),
        TokenVerb::Revoke { name } => revoke(context, name, output),
    }
}

fn create(context: &Context, name: Option<&str>, can: &[String], ttl: &str, output: &mut Output) -> Result<()> {
    let rooms = match &context.globals.room {
        Some(rooms) => rooms
            .split(',')
            .map(|room| parse_room(room.trim(), "--room"))
            .collect::<Result<Vec<_>>>()?,
        None => vec![context.room()?],
    };
    let can = can
        .iter()
        .map(|scope| scope.trim().parse())
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|error| Error::usage(format_args!("--can: {error}")))?;
    let name = match name {
        Some(name) => parse_name(name)?,
        None => random_name(rooms[0].as_str())?,
    };
    let ttl_secs = Some(parse_ttl("--ttl", ttl, MAX_TOKEN_TTL)?);
    // The secret is told once: where nobody can read it, none is made.
    output.require_open()?;
    if context.hub()? == HubChoice::Local {
        let what = "the local hub serves this user alone, and makes no tokens";
        return Err(Error::new(ErrorKind::Refused, what).then("git parler connect --hub https://HOST"));
    }
    let client = context.client()?;
    let wish = CreateToken {
        name,
        rooms,
        can,
        ttl_secs,
    };
    let made = client.create_token(&wish).map_err(|error| match error.code() {
        Some(ErrorCode::NotFound) => {
            let rooms: Vec<_> = wish.rooms.iter().map(|room| format!("'{room}'")).collect();
            match &wish.rooms[..] {
                [room] => Error::no_room(room),
                _ => Error::new(
                    ErrorKind::NotFound,
                    format_args!("not every one of {} is a room that you belong to", rooms.join(", ")),
                )
                .then("git parler rooms"),
            }
        }
        Some(ErrorCode::TokenExists) => {
            let what = format!("the token name '{}' is taken", wish.name);
            Error::new(ErrorKind::Conflict, what)
                .then(format!("git parler token revoke {}, or another name", wish.name))
        }
        _ => error.into(),
    })?;
    let summary = &made.summary;
    output.remark(&format!(
        "token '{}' may {} until {}; shown this once: PARLER_HUB={} and this as PARLER_TOKEN are all a job needs",
        summary.name,
        text::grants(&summary.rooms),
        text::local_time(summary.expires_at),
        client.address()
    ));
    let mut value = serde_json::to_value(&made).map_err(|error| Error::fatal(format_args!("no JSON: {error}")))?;
    value["hub"] = json!(client.address().to_string());
    output.either(&made.token, &value)
}

fn exchange(context: &Context, output: &mut Output) -> Result<()> {
    output.require_open()?;
    if context.token_at_hand().is_some() {
        let what = "PARLER_TOKEN acts here already";
        return Err(Error::usage(what).then("unset PARLER_TOKEN"));
    }
    let made = context.exchange()?;
    let summary = &made.summary;
    output.remark(&format!(
        "token '{}' may {} until {}; in PARLER_TOKEN it is for all commands of this job",
        summary.name,
        text::grants(&summary.rooms),
        text::local_time(summary.expires_at),
    ));
    output.either(&made.token, &made)
}

fn list(context: &Context, output: &mut Output) -> Result<()> {
    output.require_open()?;
    let tokens = context.client()?.tokens()?;
    if output.is_json() {
        return output.json(&tokens);
    }
    if tokens.tokens.is_empty() {
        output.remark("no token of yours, and none for a room of yours: git parler token create --room ROOM");
    }
    for token in &tokens.tokens {
        output.line(&described(token))?;
    }
    Ok(())
}

fn revoke(context: &Context, name: &str, output: &mut Output) -> Result<()> {
    let name = parse_name(name)?;
    let revoked = context
        .client()?
        .revoke_token(&name)
        .map_err(|error| match error.code() {
            Some(ErrorCode::NotFound) => Error::new(
                ErrorKind::NotFound,
                format_args!("no token '{name}' that you made, or that is for a room you own"),
            )
            .then("git parler token list"),
            _ => error.into(),
        })?;
    output.either(&format!("revoked the token '{}'", revoked.name), &revoked)
}

/// A token in one line.
pub(super) fn described(token: &TokenSummary) -> String {
    let end = match token.revoked_at {
        Some(at) => format!("revoked {}", text::local_time(at)),
        None => format!("until {}", text::local_time(token.expires_at)),
    };
    let used = token.last_used.map_or_else(
        || "has posted nothing".to_owned(),
        |at| format!("posted {}", text::local_time(at)),
    );
    format!(
        "{} · {} · by {} · {end} · {used}",
        token.name,
        text::grants(&token.rooms),
        text::name(token.by.as_str())
    )
}

fn parse_name(name: &str) -> Result<TokenName> {
    name.parse().map_err(Error::usage)
}

/// A name for a token of this room.
fn random_name(room: &str) -> Result<TokenName> {
    let mut random = [0; RANDOM_NAME_BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| Error::fatal(format_args!("no random numbers for a name: {error}")))?;
    let tail = BASE32_NOPAD.encode(&random).to_ascii_lowercase();
    let room: String = room.chars().take(MAX_TOKEN_NAME_BYTES - tail.len() - 1).collect();
    parse_name(&format!("{room}-{tail}"))
}
