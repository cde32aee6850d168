//! Query strings. Every parameter is known and comes once; anything else is refused, so that a misspelled one is
//! noticed.

use std::str::FromStr;

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;

use crate::problem::Refusal;
use crate::state::SharedState;

pub(crate) struct Parameters(Vec<(String, String)>);

impl FromRequestParts<SharedState> for Parameters {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &SharedState) -> Result<Self, Refusal> {
        Query::from_request_parts(parts, state)
            .await
            .map(|Query(pairs)| Self(pairs))
            .map_err(|_| Refusal::bad_request("the query string cannot be read"))
    }
}

impl Parameters {
    /// Takes the parameter of this name, if it is there.
    pub(crate) fn take<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, Refusal> {
        let Some(index) = self.0.iter().position(|(found, _)| found == name) else {
            return Ok(None);
        };
        let (_, value) = self.0.swap_remove(index);
        value
            .parse()
            .map(Some)
            .map_err(|_| Refusal::bad_request(format!("{name} cannot be read")))
    }

    /// Refuses what was not taken.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(Refusal::bad_request(format!(
                "parameter {name:?} is unknown or comes twice"
            ))),
        }
    }
}
