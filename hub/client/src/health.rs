//! Whether a hub serves, asked without saying who asks.

use http::header::DATE;
use parler_protocol::{HubId, paths};
use serde::Deserialize;

use crate::request::Request;
use crate::{Client, ClientError};

/// A hub that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its id.
    pub hub: HubId,
    /// The version of its program. The hub's word: escape it before it reaches a terminal.
    pub version: String,
    /// Its clock, as HTTP writes a date; none where something between takes that away.
    pub date: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    hub: HubId,
    version: String,
}

impl Client {
    /// Asks the hub once whether it serves. Opens no session.
    ///
    /// # Errors
    /// As every call; [`ClientError::NotAHub`] where something else answers.
    pub fn health(&self) -> Result<Health, ClientError> {
        let (parts, body) = self.exchange_openly(&Request::get(paths::HEALTH.to_owned()))?;
        let answer: Answer = self.read_json(&body)?;
        let date = parts.headers.get(DATE).and_then(|date| date.to_str().ok());
        Ok(Health {
            hub: answer.hub,
            version: answer.version,
            date: date.map(str::to_owned),
        })
    }
}
