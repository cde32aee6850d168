//! The token by which a job speaks: given to it, or got from the hub for the identity token of its CI system, once a process and
//! when it is first needed. Kept in memory alone.

use std::sync::Arc;

use parler_client::{Client, ClientOptions, Identity, NoSessionCache};
use parler_protocol::api::{ExchangeIdentity, TokenCreated};
use parler_protocol::{AccessToken, AgentKey, ErrorCode, RoomName};

use super::Context;
use crate::agents::NameSource;
use crate::ci::environment::CiEnvironment;
use crate::error::{Error, Result};
use crate::hubs::{self, HubChoice};
use crate::identity::random_seed;

impl Context {
    /// The token by which this process speaks, where it is no agent. The hub is asked for it where the job shows who it is.
    pub(crate) fn token(&self) -> Result<Option<&AccessToken>> {
        if !self.shows_identity || self.token.get().is_some() {
            return Ok(self.token.get());
        }
        let made = self.exchange()?;
        let token = made.token.parse().map_err(Error::fatal)?;
        Ok(Some(self.token.get_or_init(|| token)))
    }

    /// The token by which this process speaks, as far as it has one.
    pub(crate) fn token_at_hand(&self) -> Option<&AccessToken> {
        self.token.get()
    }

    /// The CI system that runs this process, if one does.
    pub(crate) fn ci_environment(&self) -> Option<CiEnvironment> {
        CiEnvironment::of(|name| self.environment.filled(name)?.to_str().map(str::to_owned))
    }

    /// What a job lacks that the hub does not know and for which nobody chose an agent is no invite.
    pub(super) fn naming_the_token(&self, error: Error) -> Error {
        let is_shut_out = matches!(error.code(), Some(ErrorCode::NotAdmitted | ErrorCode::NotFound));
        let is_token = self.shows_identity || self.token.get().is_some();
        // The local hub makes no tokens: what a job lacks there is another hub, or the room.
        let is_local = matches!(self.hub(), Ok(HubChoice::Local));
        if !is_shut_out || is_token || is_local || self.ci_environment().is_none() {
            return error;
        }
        if matches!(self.agent(), Ok((_, source)) if !matches!(source, NameSource::Place)) {
            return error;
        }
        let what = format_args!("{}, and this job has no PARLER_TOKEN", error.what()).to_string();
        Error::new(error.kind, what).then(
            "set it from the secrets, which jobs of forks and, on GitLab, of branches that are not protected may not get; or PARLER_OIDC=1",
        )
    }

    /// What makes this process a job, for people.
    pub(crate) fn token_source(&self) -> &'static str {
        if self.shows_identity {
            "PARLER_OIDC"
        } else {
            "PARLER_TOKEN"
        }
    }

    /// Tells where the job is about to speak, where no option and no variable does.
    pub(crate) fn goes_to(&self, hub: Option<HubChoice>, room: Option<RoomName>) {
        let mut goes_to = self.goes_to.borrow_mut();
        goes_to.0 = hub.or(goes_to.0.take());
        goes_to.1 = room.or(goes_to.1.take());
    }

    /// Shows the hub who this job is, and gets a token for it.
    pub(crate) fn exchange(&self) -> Result<TokenCreated> {
        let (hub, room) = self.goes_to.borrow().clone();
        let hub = match hub {
            Some(hub) => hub,
            None => self.hub()?,
        };
        let HubChoice::At(address) = self.recognised(hub)? else {
            return Err(Error::usage("the local hub makes no tokens"));
        };
        hubs::require_secure(&address, |authority| self.allows_plain_http(authority))?;
        // Another hub could show it to the one that it is for.
        let is_said = self.globals.hub.is_some() || self.environment.hub.is_some();
        if is_said && self.environment.identity.is_for_one_hub() && self.hub()? != HubChoice::At(address.clone()) {
            return Err(Error::usage(format_args!(
                "the job's identity token is for the hub of PARLER_HUB, and not for {address}"
            )));
        }
        let directory = &self.environment.directory;
        let token = self.environment.identity.token(directory, &address.to_string())?;
        let seed = random_seed()?;
        let options = ClientOptions {
            address,
            // Nobody is told it: the token says who this is.
            identity: Identity {
                key: Arc::new(AgentKey::from_random(seed)),
                name: "job".parse().map_err(Error::fatal)?,
                role: None,
            },
            secret: None,
            token: None,
            sessions: Box::new(NoSessionCache),
            deadlines: self.deadlines()?,
        };
        let room = match room {
            Some(room) => Some(room),
            None => self.room_named()?,
        };
        Ok(Client::new(options)?.exchange_identity(&ExchangeIdentity { token, room })?)
    }

    /// The room that an option or a setting names; not that of two agents.
    fn room_named(&self) -> Result<Option<RoomName>> {
        let config = self.config("parler.room")?;
        let named = [
            self.globals.room.as_deref(),
            self.environment.room.as_deref(),
            config.as_deref(),
        ];
        let named = named.into_iter().flatten().next();
        // What cannot be read is told where the room is needed.
        Ok(named.and_then(|name| name.parse().ok()))
    }
}
