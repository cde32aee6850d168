//! Whether a job that shows an identity token is let in, and what the operator is told where it is not. Whoever asks is
//! told what is wrong with the token itself, and of rules only that none fits.

use std::collections::BTreeMap;
use std::time::Duration;

use parler_protocol::RoomName;
use parler_protocol::limits::MAX_CLOCK_SKEW;
use sha2::{Digest, Sha256};

use super::file::MAX_MAX_AGE;
use super::identity_token::IdentityToken;
use super::{Issuer, Rule};
use crate::store::TokenHash;

/// Claims that tell people which job it was, besides those that a rule asks for.
const TOLD: &[&str] = &[
    "actor",
    "environment",
    "event_name",
    "job_id",
    "pipeline_id",
    "pipeline_source",
    "project_id",
    "project_path",
    "ref",
    "repository",
    "repository_id",
    "run_attempt",
    "run_id",
    "sha",
    "sub",
    "user_login",
    "workflow_ref",
];
/// Longest value of a claim that is told to people, bytes.
const MAX_TOLD_BYTES: usize = 256;
/// Most claims that are told to people.
const MAX_TOLD: usize = 32;
/// Longest that the operator is told of one job.
const MAX_REASON_CHARS: usize = 1000;

/// A job that may come in.
pub(crate) struct Admitted<'a> {
    pub(crate) rule: &'a Rule,
    /// What the token says of the job.
    pub(crate) claims: BTreeMap<String, String>,
    /// What makes the token one of its kind.
    pub(crate) identity: TokenHash,
    /// From when on no file of rules would have it taken, milliseconds since 1970.
    pub(crate) ends: i64,
}

/// A job that may not.
#[derive(Debug)]
pub(crate) struct Refused {
    /// For whoever asks.
    pub(crate) told: String,
    /// For the operator, besides that.
    pub(crate) reason: String,
}

impl Refused {
    /// For something that whoever holds the token can see in it.
    pub(crate) fn token(what: &str) -> Self {
        Self {
            told: format!("the identity token is not accepted: {what}"),
            reason: String::new(),
        }
    }

    /// For a rule that does not let the job in: the operator is told why, and whoever asks only that none does.
    pub(crate) fn rule(reason: &str) -> Self {
        Self {
            told: Self::no_rule(),
            reason: reason.chars().take(MAX_REASON_CHARS).collect(),
        }
    }

    /// The same words for every rule, and for none.
    fn no_rule() -> String {
        "no rule of this hub lets this job in there; the hub's log says which claims were not those of a rule"
            .to_owned()
    }
}

/// Whose signature it has: the issuer that it names, if that signed it.
pub(crate) async fn key_of<'a>(
    issuers: &'a [Issuer],
    token: &IdentityToken<'_>,
    now: i64,
) -> Result<&'a Issuer, Refused> {
    let named = token.claim("iss");
    let issuer = issuers.iter().find(|issuer| named == Some(issuer.name.as_str()));
    let issuer = issuer.ok_or_else(|| Refused::token("this hub trusts no such issuer"))?;
    let id = token.header("kid").ok_or_else(|| Refused::token("it names no key"))?;
    let keys = issuer.keys.named(id, now).await.map_err(|why| Refused {
        told: "the hub cannot have the issuer's keys now; try again in a minute".to_owned(),
        reason: why,
    })?;
    if keys.is_empty() {
        return Err(Refused::token("its issuer has no key of that id"));
    }
    // The key's algorithm, whatever the token says: it may say so, and no more.
    let algorithm = token.header("alg");
    let mut keys = keys.iter().filter(|key| algorithm == Some(key.algorithm())).peekable();
    if keys.peek().is_none() {
        return Err(Refused::token("its algorithm is not that of the key"));
    }
    if !keys.any(|key| key.verifies(token.signed(), token.signature())) {
        return Err(Refused::token("its signature is not the issuer's"));
    }
    Ok(issuer)
}

/// The rule that lets a job in whose token the issuer has signed.
pub(crate) fn judge<'a>(
    issuer: &'a Issuer,
    token: &IdentityToken<'_>,
    room: Option<&RoomName>,
    now: i64,
) -> Result<Admitted<'a>, Refused> {
    if !token.is_for(&issuer.audience) {
        return Err(Refused::token("it is for another audience"));
    }
    let ends = check_times(issuer, token, now)?;
    let once = token.claim("jti").filter(|id| !id.is_empty());
    let once = once.ok_or_else(|| Refused::token("it has no jti, by which it could be taken once only"))?;

    let mut reasons = Vec::new();
    for rule in &issuer.rules {
        let is_for_room = room.is_none_or(|room| rule.rooms.iter().any(|of| of.key() == room.key()));
        let misfit = if is_for_room {
            misfit(rule, token)
        } else {
            Some("it is for other rooms".to_owned())
        };
        match misfit {
            Some(misfit) => reasons.push(format!("rule '{}': {misfit}", rule.name)),
            None => {
                return Ok(Admitted {
                    rule,
                    claims: told(rule, token),
                    identity: identity(&issuer.name, once),
                    ends,
                });
            }
        }
    }
    let job = token.claim("sub").unwrap_or_default();
    Err(Refused::rule(&format!(
        "{job:?} of {}: {}",
        issuer.name,
        reasons.join("; ")
    )))
}

/// When it is over, if it is not, and has begun.
fn check_times(issuer: &Issuer, token: &IdentityToken<'_>, now: i64) -> Result<i64, Refused> {
    let (Some(expires), Some(issued)) = (token.time("exp"), token.time("iat")) else {
        return Err(Refused::token("it does not say when it was made and ends"));
    };
    let begins = if token.has("nbf") {
        token.time("nbf").ok_or_else(|| Refused::token("its nbf is no time"))?
    } else {
        issued
    };
    if expires <= now {
        return Err(Refused::token("it has expired"));
    }
    let ahead = now.saturating_add(millis(MAX_CLOCK_SKEW));
    if begins > ahead || issued > ahead {
        return Err(Refused::token("it is not valid yet"));
    }
    let oldest = issued.saturating_add(millis(issuer.max_age));
    if oldest <= now {
        let age = humantime::format_duration(issuer.max_age);
        return Err(Refused::token(&format!(
            "it was made more than {age} ago: ask for a new one"
        )));
    }
    // Remembered for as long as any file could have it taken, and for as long as clocks may be apart.
    let longest = issued.saturating_add(millis(MAX_MAX_AGE));
    Ok(expires.min(longest).saturating_add(millis(MAX_CLOCK_SKEW)))
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Why a rule does not let a job in.
fn misfit(rule: &Rule, token: &IdentityToken<'_>) -> Option<String> {
    for (name, values) in &rule.claims {
        match token.claim(name) {
            Some(value) if values.iter().any(|allowed| allowed == value) => {}
            Some(value) => return Some(format!("{name} is {value:?}")),
            None => return Some(format!("there is no {name}")),
        }
    }
    // What a fork sends in runs in such an event or pipeline; which repository its head is of is not told.
    let of_forks = ["event_name", "pipeline_source"].into_iter().find_map(|name| {
        let value = token.claim(name).filter(|value| is_of_forks(value))?;
        Some((name, value))
    });
    if let Some((name, value)) = of_forks.filter(|_| !rule.allow_pull_requests) {
        return Some(format!("{name} is {value:?}, and it does not say allow_pull_requests"));
    }
    let says_itself = rule.claims.iter().any(|(name, _)| name == "ref_protected");
    let is_unprotected = token.has("ref_protected") && token.claim("ref_protected") != Some("true");
    if is_unprotected && !says_itself && !rule.allow_unprotected_refs {
        return Some("ref_protected is not \"true\", and it does not say allow_unprotected_refs".to_owned());
    }
    None
}

/// Whether code of a fork may run in an event of GitHub's, or a pipeline of GitLab's, of this name.
fn is_of_forks(name: &str) -> bool {
    name.starts_with("pull_request")
        || [
            "workflow_run",
            "issue_comment",
            "merge_request_event",
            "external_pull_request_event",
        ]
        .contains(&name)
}

/// What people are told of the job.
fn told(rule: &Rule, token: &IdentityToken<'_>) -> BTreeMap<String, String> {
    let asked = rule.claims.iter().map(|(name, _)| name.as_str());
    let names = asked.chain(TOLD.iter().copied());
    names
        .filter_map(|name| {
            let value = token.claim(name).filter(|value| value.len() <= MAX_TOLD_BYTES)?;
            Some((name.to_owned(), value.to_owned()))
        })
        .take(MAX_TOLD)
        .collect()
}

fn identity(issuer: &str, id: &str) -> TokenHash {
    let mut hash = Sha256::new();
    hash.update((issuer.len() as u64).to_be_bytes());
    hash.update(issuer);
    hash.update(id);
    hash.finalize().into()
}
