//! The file in which an operator says whom a hub trusts: JSON, read strictly. A rule that would let in whoever comes is
//! refused when it is read, and not when somebody comes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parler_protocol::{AgentId, RoomName, TokenName, TokenScope, limits, parse_json};
use serde::Deserialize;

use super::key_source::KeySource;
use super::{Issuer, Rule};

/// Claims that say which repository a job is of, and do not change when it is renamed and its name given to another.
const STABLE: [&str; 3] = ["repository_id", "project_id", "sub"];
/// How long ago an identity token may have been made, where the file says nothing.
const DEFAULT_MAX_AGE: Duration = Duration::from_secs(600); // 10 min
/// The longest that the file may say: of what is older nothing is remembered.
pub(super) const MAX_MAX_AGE: Duration = Duration::from_secs(3600); // 1 h

/// Why a file with trusted issuers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no JSON, or not of this form.
    #[error("{}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why, and in which line.
        why: String,
    },
    /// What an issuer or a rule says cannot be.
    #[error("{}: {whose}: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The issuer or the rule.
        whose: String,
        /// Why.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    issuers: Vec<WrittenIssuer>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenIssuer {
    issuer: String,
    keys: String,
    audience: String,
    max_age: Option<String>,
    rules: Vec<WrittenRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRule {
    name: TokenName,
    owner: AgentId,
    rooms: Vec<RoomName>,
    can: Vec<TokenScope>,
    ttl: Option<String>,
    claims: BTreeMap<String, OneOrSeveral>,
    #[serde(default)]
    allow_pull_requests: bool,
    #[serde(default)]
    allow_unprotected_refs: bool,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a string, or a list of strings")]
enum OneOrSeveral {
    One(String),
    Several(Vec<String>),
}

pub(super) fn read(path: &Path) -> Result<Vec<Issuer>, OidcError> {
    let bytes = std::fs::read(path).map_err(|source| OidcError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let malformed = |error: &dyn std::fmt::Display| OidcError::Malformed {
        path: path.to_owned(),
        why: error.to_string(),
    };
    // A key that stands there twice is one that somebody did not see.
    parse_json(&bytes).map_err(|error| malformed(&error))?;
    let written: Written = serde_json::from_slice(&bytes).map_err(|error| malformed(&error))?;
    let unusable = |whose: String, why: String| OidcError::Unusable {
        path: path.to_owned(),
        whose,
        why,
    };
    let (mut names, mut rules) = (BTreeSet::new(), BTreeSet::new());
    let mut issuers = Vec::new();
    for written in written.issuers {
        let whose = format!("issuer '{}'", written.issuer);
        if !names.insert(written.issuer.clone()) {
            return Err(unusable(whose, "it is there twice".to_owned()));
        }
        let twice = written.rules.iter().find(|rule| !rules.insert(rule.name.key()));
        if let Some(rule) = twice {
            let why = "there are two of that name, and a token has the rights of one".to_owned();
            return Err(unusable(format!("rule '{}'", rule.name), why));
        }
        let mut checked = Vec::new();
        for rule in written.rules {
            let name = rule.name.clone();
            checked.push(check(rule).map_err(|why| unusable(format!("rule '{name}'"), why))?);
        }
        let read = issuer(
            path,
            &written.issuer,
            &written.keys,
            &written.audience,
            written.max_age.as_deref(),
        );
        let (keys, max_age) = read.map_err(|why| unusable(whose, why))?;
        issuers.push(Issuer {
            name: written.issuer,
            keys: Arc::new(keys),
            audience: written.audience,
            max_age,
            rules: checked,
        });
    }
    Ok(issuers)
}

fn issuer(
    path: &Path,
    name: &str,
    keys: &str,
    audience: &str,
    max_age: Option<&str>,
) -> Result<(KeySource, Duration), String> {
    if name.is_empty() || audience.is_empty() {
        return Err("issuer and audience say something".to_owned());
    }
    let max_age = max_age.map_or(Ok(DEFAULT_MAX_AGE), |time| duration("max_age", time, MAX_MAX_AGE))?;
    let keys = KeySource::parse(keys, path.parent().unwrap_or(Path::new(".")))?;
    Ok((keys, max_age))
}

fn check(written: WrittenRule) -> Result<Rule, String> {
    if written.can.is_empty() {
        return Err("can: it may do something: post, read or claim".to_owned());
    }
    if !(1..=limits::MAX_TOKEN_ROOMS).contains(&written.rooms.len()) {
        return Err(format!("rooms: 1 to {}", limits::MAX_TOKEN_ROOMS));
    }
    if let Some(direct) = written.rooms.iter().find(|room| room.is_direct()) {
        return Err(format!("rooms: '{direct}' is the room of two agents"));
    }
    let ttl = written
        .ttl
        .as_deref()
        .map_or(Ok(limits::DEFAULT_OIDC_TOKEN_TTL), |time| {
            duration("ttl", time, limits::MAX_OIDC_TOKEN_TTL)
        })?;
    let mut claims = Vec::new();
    for (name, values) in written.claims {
        let values = match values {
            OneOrSeveral::One(value) => vec![value],
            OneOrSeveral::Several(values) => values,
        };
        if values.is_empty() || values.iter().any(String::is_empty) {
            return Err(format!("claims: '{name}' has no value"));
        }
        claims.push((name, values));
    }
    if !claims.iter().any(lasts) {
        return Err(format!(
            "claims: none says which repository it is in a way that lasts: one of {}, and no sub made of names",
            STABLE.join(", ")
        ));
    }
    Ok(Rule {
        name: written.name,
        owner: written.owner,
        rooms: written.rooms,
        can: written.can,
        ttl,
        claims,
        allow_pull_requests: written.allow_pull_requests,
        allow_unprotected_refs: written.allow_unprotected_refs,
    })
}

fn duration(what: &str, written: &str, longest: Duration) -> Result<Duration, String> {
    let read = humantime::parse_duration(written).map_err(|error| format!("{what}: '{written}': {error}"))?;
    if read.is_zero() || read > longest {
        return Err(format!(
            "{what}: '{written}' is not within {}",
            humantime::format_duration(longest)
        ));
    }
    Ok(read)
}

/// Whether a claim names a repository in a way that lasts. Most systems make `sub` of names.
fn lasts((name, values): &(String, Vec<String>)) -> bool {
    let is_of_names = |sub: &String| {
        sub.starts_with("project_path:")
            || sub.starts_with("organization:")
            // GitHub's newer ones have ids as well: repo:OWNER@1/NAME@2:..
            || sub.strip_prefix("repo:").is_some_and(|rest| {
                rest.split(':').next().unwrap_or_default().matches('@').count() != 2
            })
    };
    STABLE.contains(&name.as_str()) && (name != "sub" || !values.iter().any(is_of_names))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &str = r#"{ "name": "main", "owner": "OWNER", "rooms": ["build"], "can": ["post"],
        "claims": { "repository_id": "1", "ref": ["refs/heads/main"] } }"#;

    fn refusal(rule: &str, rest: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("oidc.json");
        let owner = parler_protocol::AgentKey::from_random([7; 32]).id().to_string();
        let rule = rule.replace("OWNER", &owner);
        let issuer = format!(
            "{{ \"issuer\": \"https://ci.example\",\n\"keys\": \"https://ci.example/jwks\",\n\"audience\": \"hub\",\n{rest}\
             \"rules\": [{rule}] }}"
        );
        std::fs::write(&path, format!("{{ \"issuers\": [{issuer}] }}")).unwrap();
        read(&path).map_or_else(
            |error| error.to_string(),
            |issuers| issuers[0].rules[0].name.to_string(),
        )
    }

    #[test]
    fn what_is_no_good_is_named() {
        assert_eq!(refusal(RULE, ""), "main");
        for (rule, rest, why) in [
            (
                RULE.replace("repository_id", "repository"),
                "",
                "none says which repository",
            ),
            (RULE.replace("\"1\"", "[]"), "", "'repository_id' has no value"),
            (RULE.replace("\"1\"", "1"), "", "a string, or a list of strings"),
            (RULE.replace("[\"post\"]", "[]"), "", "it may do something"),
            (RULE.replace("[\"build\"]", "[]"), "", "rooms: 1 to 64"),
            (
                RULE.replace("\"claims\"", "\"ttl\": \"2h\", \"claims\""),
                "",
                "ttl: '2h' is not within 1h",
            ),
            (RULE.replace("\"claims\"", "\"claim\""), "", "unknown field `claim`"),
            (RULE.replace("\"ref\"", "\"repository_id\""), "", "line 5"),
            (format!("{RULE}, {RULE}"), "", "two of that name"),
            (
                RULE.to_owned(),
                "\"max_age\": \"1d\",\n",
                "max_age: '1d' is not within 1h",
            ),
            (RULE.to_owned(), "\"jku\": true,\n", "unknown field `jku`"),
        ] {
            let refused = refusal(&rule, rest);
            assert!(refused.contains(why), "{why}: {refused}");
        }
        assert!(refusal(RULE, "\"jku\": true,\n").contains("line 4"));
    }
}
