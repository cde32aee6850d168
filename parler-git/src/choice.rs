//! Who this work tree acts as and which hub it speaks to, as `connect` and `join` choose it. Kept once the hub has
//! answered, so that the next command means the same without being told again.

use parler_client::Client;
use parler_protocol::AgentName;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::hubs::HubChoice;
use crate::identity::{Agent, Agents};

/// What a command line chose.
pub(crate) struct Choice {
    /// The agent, with the role it is to have.
    pub(crate) agent: Agent,
    pub(crate) hub: HubChoice,
    /// The role that was asked for; `Some(None)` takes it away.
    role: Option<Option<AgentName>>,
    keeps_hub: bool,
}

impl Choice {
    /// The agent that acts, with `role` where one is said (an empty text is none), at `hub`, which is kept where
    /// `keeps_hub` says that somebody chose it.
    pub(crate) fn new(context: &Context, hub: HubChoice, keeps_hub: bool, role: Option<&str>) -> Result<Self> {
        let (mut agent, _) = context.agent()?;
        let role = match role {
            None => None,
            Some("") => Some(None),
            Some(role) => {
                let role = role.parse::<AgentName>();
                Some(Some(
                    role.map_err(|error| Error::usage(format_args!("--role: {error}")))?,
                ))
            }
        };
        if let Some(role) = &role {
            agent.identity.role.clone_from(role);
        }
        Ok(Self {
            agent,
            hub,
            role,
            keeps_hub,
        })
    }

    /// A client that speaks as chosen.
    pub(crate) fn client(&self, context: &Context) -> Result<Client> {
        context.client_of(&self.hub, self.agent.identity.clone())
    }

    /// Keeps what was chosen, and nothing that was not.
    pub(crate) fn keep(&self, context: &Context) -> Result<()> {
        let name = &self.agent.identity.name;
        if let Some(role) = &self.role {
            Agents::of(&context.home).set_role(name, role.as_ref())?;
        }
        if context.globals.agent.is_some() {
            context.set_agent(name)?;
        }
        if self.keeps_hub {
            context.set_config("parler.hub", &self.hub.to_config())?;
        }
        Ok(())
    }
}
