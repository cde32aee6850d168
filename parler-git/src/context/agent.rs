//! Which agent acts: one that somebody named, the one of this place, or the job that a token stands for. Keeps nothing but
//! the name of a work tree's agent.

use std::path::PathBuf;

use parler_protocol::{AccessToken, AgentName};

use super::Context;
use crate::agents::{NameSource, Named, default_name};
use crate::error::{Error, Result};
use crate::identity::{Agent, Agents};

/// Longest name that is read from the work tree's file.
const MAX_NAME_FILE_BYTES: u64 = 1024;

impl Context {
    /// The agent that acts, and who said so. Its key is made if this is its first use.
    pub(crate) fn agent(&self) -> Result<(Agent, NameSource)> {
        if let Some(token) = self.token()? {
            return Ok((self.job(token)?, NameSource::Token));
        }
        let agents = Agents::of(&self.home);
        if let Some((name, source)) = self.named_agent()? {
            return Ok((agents.named(&name)?, source));
        }
        let (name, place) = self.default_agent();
        Ok((agents.of_place(&name, place.as_deref())?, NameSource::Place))
    }

    /// What the agent that acts is called and who said so, and the agent itself if it has a key already.
    pub(crate) fn agent_if_made(&self) -> Result<(AgentName, NameSource, Option<Agent>)> {
        if let Some(token) = self.token()? {
            let job = self.job(token)?;
            return Ok((job.identity.name.clone(), NameSource::Token, Some(job)));
        }
        let agents = Agents::of(&self.home);
        if let Some((name, source)) = self.named_agent()? {
            let known = agents.known(&name)?;
            return Ok((name, source, known));
        }
        let (name, place) = self.default_agent();
        let known = agents.known_of_place(&name, place.as_deref())?;
        let name = known.as_ref().map_or(name, |agent| agent.identity.name.clone());
        Ok((name, NameSource::Place, known))
    }

    /// The name that somebody chose.
    fn named_agent(&self) -> Result<Option<(AgentName, NameSource)>> {
        let work_tree = self.work_tree_agent()?;
        let config = self.config("parler.agent")?;
        let named = Named {
            flag: self.globals.agent.as_deref(),
            environment: self.environment.agent.as_deref(),
            work_tree: work_tree.as_deref(),
            config: config.as_deref(),
        };
        named.winner()
    }

    /// What an agent is called that nobody named, and the place it is the agent of.
    fn default_agent(&self) -> (AgentName, Option<PathBuf>) {
        let place = self
            .repository
            .as_ref()
            .map(|repository| repository.work_dir().unwrap_or_else(|| repository.git_dir().to_owned()));
        let place = place.map(|place| place.canonicalize().unwrap_or(place));
        let name = default_name(&self.environment.user, &self.environment.host, place.as_deref());
        (name, place)
    }

    /// Who acts for a token.
    fn job(&self, token: &AccessToken) -> Result<Agent> {
        if self.globals.agent.is_some() {
            let source = self.token_source();
            let what = format!("--as: {source} acts here, as '{}'", token.name().sender());
            return Err(Error::usage(what).then(format!("leave out --as, or unset {source}")));
        }
        if let Some(job) = self.job.get() {
            return Ok(job.clone());
        }
        let job = Agent::of_token(token)?;
        Ok(self.job.get_or_init(|| job).clone())
    }

    /// Refuses what only an agent does, before anything is asked or kept.
    pub(crate) fn require_agent(&self) -> Result<()> {
        if !self.is_job() {
            return Ok(());
        }
        let source = self.token_source();
        // Nobody is asked for a token only to be told that it is not needed.
        let job = self
            .token_at_hand()
            .map_or_else(|| "a job".to_owned(), |token| format!("'{}'", token.name().sender()));
        let what = format!("{source} acts here, as {job}, and needs none of this");
        Err(Error::usage(what).then(format!("unset {source} to act as an agent")))
    }

    fn work_tree_agent(&self) -> Result<Option<String>> {
        let Some(repository) = &self.repository else {
            return Ok(None);
        };
        let path = repository.git_dir().join("parler/agent");
        let length = path.metadata().map_or(0, |meta| meta.len());
        match std::fs::read_to_string(&path) {
            Ok(name) if length <= MAX_NAME_FILE_BYTES => Ok(Some(name.trim_end_matches('\n').to_owned())),
            Ok(_) => Err(Error::usage(format_args!("{} is too long for a name", path.display()))
                .then("git parler connect --as NAME")),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io(format_args!("read {}", path.display()), &error)),
        }
    }

    /// Names this work tree's agent; outside of a repository, the user's.
    pub(crate) fn set_agent(&self, name: &AgentName) -> Result<()> {
        let Some(repository) = &self.repository else {
            return self.set_config("parler.agent", name.as_str());
        };
        let directory = repository.git_dir().join("parler");
        std::fs::create_dir_all(&directory)
            .map_err(|error| Error::io(format_args!("make {}", directory.display()), &error))?;
        crate::home::write_private(&directory.join("agent"), format!("{name}\n").as_bytes())
    }
}
