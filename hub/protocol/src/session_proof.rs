//! What an agent signs to open a session.

use std::fmt;
use std::str::FromStr;

use crate::{ParseError, serde_as_string};

/// A hub's challenge: opaque to the client, 1 to 512 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Challenge(String);

impl Challenge {
    /// The challenge's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Challenge {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if (1..=512).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseError::new(
                "challenge",
                text,
                "is not 1 to 512 visible ASCII characters",
            ))
        }
    }
}

serde_as_string!(Challenge);

/// The bytes a session proof signs: a fixed first line, the challenge, and the authority (`host:port`) the client
/// sent its request to, each on a line of its own.
///
/// The authority makes a relayed proof useless: a hub that passes another hub's challenge on to its visitor gets a
/// signature that names itself. The fixed line keeps the proof from being a signature over anything else.
pub fn session_proof_bytes(challenge: &Challenge, authority: &str) -> Vec<u8> {
    format!("parler-session:v1\n{challenge}\n{}\n", authority.to_ascii_lowercase()).into_bytes()
}
