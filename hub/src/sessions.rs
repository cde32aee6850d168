//! Session tokens: how they are made and hashed, and a short memory of those seen lately, so that a request of a
//! known agent costs no database read. Never holds a token itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use data_encoding::HEXLOWER;
use parler_protocol::{AgentId, AgentName};
use sha2::{Digest, Sha256};

use crate::store::{Principal, TokenHash};

/// Lets scanners of leaked secrets know what they found.
const PREFIX: &str = "parler_";
const SECRET_BYTES: usize = 32; // 256 bits
/// How long a session is taken for granted before the store is asked again.
pub(crate) const REMEMBERED_MS: i64 = 30_000;
const MAX_REMEMBERED: usize = 10_000;

/// A new token, which is a secret, and its hash.
pub(crate) fn new_token() -> Result<(String, TokenHash), getrandom::Error> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret)?;
    let token = format!("{PREFIX}{}", HEXLOWER.encode(&secret));
    let hash = hash(&token);
    Ok((token, hash))
}

/// The hash of what claims to be a token, unless it does not even have the form of one.
pub(crate) fn token_hash(token: &str) -> Option<TokenHash> {
    let secret = token.strip_prefix(PREFIX)?;
    (secret.len() == 2 * SECRET_BYTES).then(|| hash(token))
}

fn hash(token: &str) -> TokenHash {
    Sha256::digest(token).into()
}

/// Sessions seen lately.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<TokenHash, Remembered>>);

struct Remembered {
    principal: Principal,
    until_ms: i64,
}

impl Sessions {
    pub(crate) fn get(&self, token: &TokenHash, now_ms: i64) -> Option<Principal> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions
            .get(token)
            .filter(|session| session.until_ms > now_ms)
            .map(|session| session.principal.clone())
    }

    /// Forgets the sessions of an agent under other names than this one.
    pub(crate) fn forget_other_names(&self, agent: &AgentId, name: &AgentName) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| session.principal.agent != *agent || session.principal.name == *name);
    }

    /// Remembers a session for a while.
    pub(crate) fn put(&self, token: TokenHash, principal: Principal, now_ms: i64) {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_REMEMBERED {
            sessions.retain(|_, session| session.until_ms > now_ms);
            if sessions.len() >= MAX_REMEMBERED {
                sessions.clear();
            }
        }
        sessions.insert(
            token,
            Remembered {
                principal,
                until_ms: now_ms.saturating_add(REMEMBERED_MS),
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_recognisable_and_unalike() {
        let (one, hash) = new_token().unwrap();
        assert!(one.starts_with("parler_") && one.len() == 71);
        assert_eq!(token_hash(&one), Some(hash));
        assert_ne!(new_token().unwrap().0, one);
        assert_eq!(token_hash("parler_short"), None);
        assert_eq!(token_hash(&"x".repeat(71)), None);
    }
}
