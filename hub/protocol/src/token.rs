//! Tokens for CI: what one is called, what it may do, and the secret itself. A token says by itself whose name its
//! messages are from and which hub it is for, so that a job needs no question before its first push.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::MAX_TOKEN_NAME_BYTES;
use crate::{AgentName, HubId, ParseError, serde_as_string};

/// What the names of tokens begin with where agents are named; no agent's name begins so.
pub const TOKEN_SENDER_PREFIX: &str = "ci/";
/// What a token begins with: lets scanners of leaked secrets know what they found.
const SECRET_PREFIX: &str = "parler_ci_";
/// Hexadecimal digits of a token's secret: 256 bits.
const SECRET_DIGITS: usize = 64;

/// A token's name: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, unique on its hub without case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenName(String);

impl TokenName {
    /// The name as spelled.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name without case, which is what must be unique on a hub.
    pub fn key(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// Who its messages are from: `ci/NAME`.
    pub fn sender(&self) -> AgentName {
        format!("{TOKEN_SENDER_PREFIX}{self}")
            .parse()
            .expect("short visible text without blanks is a name")
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for TokenName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if (1..=MAX_TOKEN_NAME_BYTES).contains(&text.len())
            && text.bytes().all(good)
            && text.as_bytes()[0].is_ascii_alphanumeric()
        {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError::new(
                "token name",
                text,
                "is not 1 to 64 of A-Z a-z 0-9 . _ - beginning with a letter or digit",
            ))
        }
    }
}

serde_as_string!(TokenName);

/// One thing that a token may do in a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenScope {
    /// Post messages, bundles and refs; to that end read the room's refs and the messages that moved them.
    Post,
    /// Read everything.
    Read,
    /// Claim a service's jobs.
    Claim,
}

impl TokenScope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Post, Self::Read, Self::Claim];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Post => "post",
            Self::Read => "read",
            Self::Claim => "claim",
        }
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for TokenScope {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.as_str() == text)
            .ok_or_else(|| ParseError::new("scope", text, "is not post, read or claim"))
    }
}

/// A token: `parler_ci_NAME_HUB_SECRET`, HUB its hub's id, SECRET 64 lowercase hexadecimal digits. Shown by no `Debug`
/// and no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken {
    name: TokenName,
    hub: HubId,
    text: String,
}

impl AccessToken {
    /// The token of these random bytes.
    pub fn from_random(name: TokenName, hub: HubId, secret: [u8; 32]) -> Self {
        let text = format!("{SECRET_PREFIX}{name}_{hub}_{}", crate::digest::hex(&secret));
        Self { name, hub, text }
    }

    /// What it is called.
    pub fn name(&self) -> &TokenName {
        &self.name
    }

    /// The hub it is for.
    pub fn hub(&self) -> HubId {
        self.hub
    }

    /// The token itself: for a request's `Authorization`, and to be shown once to whoever made it.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Whether this claims to be a token, and not a session.
    pub fn is_form_of(text: &str) -> bool {
        text.starts_with(SECRET_PREFIX)
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessToken({}, ..)", self.name)
    }
}

/// Why a text is no token. The text itself is never repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token: parler_ci_, its name, its hub's id and 64 hexadecimal digits, with _ between")]
pub struct AccessTokenError;

impl FromStr for AccessToken {
    type Err = AccessTokenError;

    fn from_str(text: &str) -> Result<Self, AccessTokenError> {
        // From the end: a name may hold `_`.
        let read = || {
            let (rest, secret) = text.strip_prefix(SECRET_PREFIX)?.rsplit_once('_')?;
            let (name, hub) = rest.rsplit_once('_')?;
            let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            (secret.len() == SECRET_DIGITS && secret.bytes().all(is_hex)).then_some(())?;
            Some((name.parse().ok()?, hub.parse().ok()?))
        };
        let (name, hub) = read().ok_or(AccessTokenError)?;
        let text = text.to_owned();
        Ok(Self { name, hub, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_its_name_and_hub_and_hides_its_secret() {
        let hub = HubId::from_bytes([0xab; 16]);
        let token = AccessToken::from_random("nightly_build.2".parse().unwrap(), hub, [0xcd; 32]);
        assert_eq!(token.expose().parse::<AccessToken>().unwrap(), token);
        assert_eq!((token.name().as_str(), token.hub()), ("nightly_build.2", hub));
        assert_eq!(token.name().sender().as_str(), "ci/nightly_build.2");
        assert!(!format!("{token:?}").contains("cdcd"));
        let good = token.expose();
        for bad in [
            "",
            "parler_ci_",
            &good[..good.len() - 1],
            &good[1..],
            &good.to_uppercase(),
            &good.replace("nightly", "a b"),
            &good.replace("abab", "xyxy"),
            &format!("{good}\n"),
        ] {
            let error = bad.parse::<AccessToken>().unwrap_err();
            assert!(!error.to_string().contains("cdcd"));
        }
    }

    #[test]
    fn names_and_scopes_are_plain() {
        for bad in ["", "ci/x", "-x", "a b", "é", &"x".repeat(65)] {
            assert!(bad.parse::<TokenName>().is_err(), "{bad}");
        }
        assert_eq!("Deploy".parse::<TokenName>().unwrap().key(), "deploy");
        for scope in TokenScope::ALL {
            assert_eq!(scope.as_str().parse::<TokenScope>().unwrap(), scope);
        }
        assert!("Post".parse::<TokenScope>().is_err());
    }
}
