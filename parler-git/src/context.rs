//! What every command starts from: the surroundings, the options, the repository if there is one, its configuration,
//! and from these the agent, the hub and the room that are meant.

mod agent;
mod exchange;

use std::cell::{OnceCell, RefCell};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use git_remote_parler::git::{Git, GitError, Side, was_ended};
use git_remote_parler::repository::{Repository, RepositoryError, parse_bool};
use git_remote_parler::room_cache::RoomCache;
use git_remote_parler::terminal::Terminal;
use parler_client::{Client, Deadlines, Identity};
use parler_protocol::api::RoomList;
use parler_protocol::{AccessToken, RoomName, ServiceName};

use crate::agents::NameSource;
use crate::cli::Globals;
use crate::contacts::Opening;
use crate::environment::Environment;
use crate::error::{AGAIN, Error, ErrorKind, Result};
use crate::home::Home;
use crate::hubs::{self, Chosen, HubChoice};
use crate::identity::Agent;
use crate::outbox::{Flushed, Outbox};
use crate::room_labels::DIRECT;
use crate::trust::Trust;
use crate::{contacts, output, text};

/// How long somebody may have a hub waited for that says nothing.
const TIMEOUT_SECONDS: RangeInclusive<u64> = 1..=3600;

/// The start of a command.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) globals: Globals,
    pub(crate) home: Home,
    trust: Arc<Trust>,
    repository: Option<Repository>,
    /// Why there is no repository.
    no_repository: Option<RepositoryError>,
    git: Git,
    terminal: Terminal,
    global_config: OnceCell<Vec<(String, String)>>,
    /// By which this process speaks, in place of an agent: at hand, or once the job has shown who it is.
    token: OnceCell<AccessToken>,
    /// Whether the job shows that, when the token is needed.
    shows_identity: bool,
    /// The hub and the room that the job is about to speak to, where nothing else says so.
    goes_to: RefCell<(Option<HubChoice>, Option<RoomName>)>,
    /// Who signs what a token posts: one key a process.
    job: OnceCell<Agent>,
    /// What people are told when the command is done.
    notices: RefCell<Vec<String>>,
    /// The direct room that is meant, once it has been asked for.
    direct: OnceCell<RoomName>,
    /// Why what waits for the hub could not be sent first.
    held_up: RefCell<Option<Error>>,
}

impl Context {
    /// Looks around. A directory outside of any repository is no error yet.
    pub(crate) fn new(environment: Environment, globals: Globals) -> Result<Self> {
        let token = environment.token.read(&environment.directory)?;
        let shows_identity = token.is_none() && environment.identity.is_on()?;
        let is_job = token.is_some() || shows_identity;
        let home = match Home::of(&environment) {
            Err(_) if is_job => Home::nowhere(),
            home => home?,
        };
        let program = environment.git_program().ok_or_else(|| {
            Error::fatal("there is no git on PATH").then("install git, or set PARLER_GIT to its path")
        })?;
        let terminal = output::terminal();
        let git = Git::new(program, environment.for_git()).with_traces(terminal.clone());
        let (repository, no_repository) = match Repository::discover(git.clone(), &environment.directory) {
            Ok(repository) => (Some(repository), None),
            Err(
                error @ (RepositoryError::NotARepository { .. }
                | RepositoryError::NotOurs { .. }
                | RepositoryError::NoWorkTree { .. }),
            ) => (None, Some(error)),
            // Of a configuration that cannot be read git names the file and the line.
            Err(error @ RepositoryError::Read { .. }) => {
                let listed = git.command(Side::Push, "config").arg("--list").run();
                return Err(listed.map_or_else(Error::from, |_| error.into()));
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self {
            environment,
            globals,
            trust: Arc::new(if is_job { Trust::of_job() } else { Trust::of(&home) }),
            home,
            repository,
            no_repository,
            git,
            terminal,
            global_config: OnceCell::new(),
            token: token.map_or_else(OnceCell::new, OnceCell::from),
            shows_identity,
            goes_to: RefCell::default(),
            job: OnceCell::new(),
            notices: RefCell::default(),
            direct: OnceCell::new(),
            held_up: RefCell::default(),
        })
    }

    /// Whether this is a job that speaks by a token: it keeps nothing.
    pub(crate) fn is_job(&self) -> bool {
        self.shows_identity || self.token.get().is_some()
    }

    /// Where people look on.
    pub(crate) fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Shows meters from now on, where work takes a while.
    pub(crate) fn show_meters(&mut self) {
        let terminal = self.terminal.clone();
        self.repository = self
            .repository
            .take()
            .map(|repository| repository.with_meters(terminal.clone()));
        self.git = self.git.clone().with_meters(terminal);
    }

    /// The repository this command works in, if any.
    pub(crate) fn repository_if_any(&self) -> Option<&Repository> {
        self.repository.as_ref()
    }

    /// Why the repository that is here is none to work in: it belongs to somebody else, or its work tree is not there.
    pub(crate) fn refused_repository(&self) -> Option<Error> {
        match &self.no_repository {
            Some(RepositoryError::NotOurs { .. } | RepositoryError::NoWorkTree { .. }) => self.repository().err(),
            _ => None,
        }
    }

    /// The repository this command needs.
    pub(crate) fn repository(&self) -> Result<&Repository> {
        match (&self.repository, &self.no_repository) {
            (Some(repository), _) => Ok(repository),
            (None, Some(RepositoryError::NotOurs { directory })) => Err(RepositoryError::NotOurs {
                directory: directory.clone(),
            }
            .into()),
            (None, Some(RepositoryError::NoWorkTree { directory })) => Err(RepositoryError::NoWorkTree {
                directory: directory.clone(),
            }
            .into()),
            (None, _) => Err(RepositoryError::NotARepository {
                directory: self.environment.directory.clone(),
            }
            .into()),
        }
    }

    /// Git, for commands that need no repository.
    pub(crate) fn git(&self) -> &Git {
        &self.git
    }

    /// A value of git's configuration: the repository's view where there is one.
    pub(crate) fn config(&self, key: &str) -> Result<Option<String>> {
        let value = match &self.repository {
            Some(repository) => repository.config_string(key)?,
            None => {
                let entries = match self.global_config.get() {
                    Some(entries) => entries,
                    None => {
                        let read = self.read_global_config()?;
                        self.global_config.get_or_init(|| read)
                    }
                };
                let key = listed_key(key);
                entries
                    .iter()
                    .rev()
                    .find(|(name, _)| *name == key)
                    .map(|(_, value)| value.clone())
            }
        };
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// Whether a setting that is off unless set is on.
    pub(crate) fn is_set(&self, key: &str) -> Result<bool> {
        match self.config(key)? {
            None => Ok(false),
            Some(value) => parse_bool(Some(&value))
                .ok_or_else(|| Error::usage(format_args!("{key} is '{value}', which is neither true nor false"))),
        }
    }

    fn read_global_config(&self) -> Result<Vec<(String, String)>> {
        let listed = self
            .git
            .command(Side::Push, "config")
            .args([
                "-z",
                "--get-regexp",
                "^(parler|color)\\.|^(core\\.pager|pager\\.parler)$",
            ])
            .run();
        let listed = match listed {
            Ok(listed) => listed,
            // Nothing matches.
            Err(GitError::Failed { code: Some(1), .. }) => Vec::new(),
            // A file that cannot be read may hold the hub that is meant: git names it.
            Err(error) => return Err(error.into()),
        };
        let entries = listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        let entry = |entry: &[u8]| {
            let text = String::from_utf8_lossy(entry);
            let (key, value) = text.split_once('\n').unwrap_or((&text, "true"));
            (key.to_owned(), value.to_owned())
        };
        Ok(entries.map(entry).collect())
    }

    /// Sets a value of git's configuration: the repository's, or the user's outside of one.
    pub(crate) fn set_config(&self, key: &'static str, value: &str) -> Result<()> {
        let command = match &self.repository {
            Some(repository) => self
                .git
                .command_in(Side::Push, repository.git_dir(), "config")
                .arg("--local"),
            None => self.git.command(Side::Push, "config").arg("--global"),
        };
        command.args([key, value]).run()?;
        Ok(())
    }

    /// The hub that is meant.
    pub(crate) fn hub(&self) -> Result<HubChoice> {
        let config = self.config("parler.hub")?;
        let chosen = Chosen {
            flag: self.globals.hub.as_deref(),
            environment: self.environment.hub.as_deref(),
            config: config.as_deref(),
        };
        self.recognised(chosen.winner()?)
    }

    /// The choice as the hub it is: this user's own goes by its name. A token is for no such hub.
    pub(crate) fn recognised(&self, choice: HubChoice) -> Result<HubChoice> {
        if !self.is_job() {
            return choice.recognised(&self.home);
        }
        // Where no local hub can be found there is none.
        match choice.clone().recognised(&self.home).unwrap_or(choice) {
            HubChoice::Local => Err(Error::usage(format_args!(
                "{} is no token of the local hub, which makes none",
                self.token_source()
            ))
            .then("set PARLER_HUB to the URL of the hub that made it")),
            at => Ok(at),
        }
    }

    /// A client of the hub that is meant, speaking as the agent that acts.
    pub(crate) fn client(&self) -> Result<Client> {
        let (agent, _) = self.agent()?;
        self.client_of(&self.hub()?, agent.identity)
    }

    /// A client of this hub, speaking as this agent. What waits for the hub is sent first.
    pub(crate) fn client_of(&self, hub: &HubChoice, identity: Identity) -> Result<Client> {
        let client = self.client_that_sends_nothing(hub, identity)?;
        if let Some(outbox) = self.outbox_of(hub, client.identity()) {
            match outbox.flush(&client) {
                Ok(flushed) => self.notice_flushed(&flushed),
                // What only reads goes on; what posts does not overtake.
                Err(error) => *self.held_up.borrow_mut() = Some(error),
            }
        }
        Ok(client)
    }

    /// As [`Context::client_of`], for what looks after the outbox itself.
    pub(crate) fn client_that_sends_nothing(&self, hub: &HubChoice, identity: Identity) -> Result<Client> {
        self.client_if(hub, identity, hubs::Start::IfNeeded)
    }

    /// As [`Context::client_that_sends_nothing`], for somebody who must not be kept waiting and starts no hub: everything
    /// that this client does is given up at that moment, and nothing is sent again.
    pub(crate) fn client_until(&self, hub: &HubChoice, identity: Identity, moment: Instant) -> Result<Client> {
        let client = self.client_if(hub, identity, hubs::Start::Never)?;
        Ok(client.without_retries().until(moment))
    }

    fn client_if(&self, hub: &HubChoice, identity: Identity, start: hubs::Start) -> Result<Client> {
        let insecure = |authority: &str| self.allows_plain_http(authority);
        let token = self.token()?;
        if let Some(flag) = &self.globals.hub {
            self.trust.name_hub(flag);
        }
        let client = hubs::client(
            hub,
            identity,
            token,
            self.deadlines()?,
            &self.home,
            &self.environment,
            start,
            insecure,
        )?;
        Ok(client.seen_by(self.trust.clone()))
    }

    /// Tells what became of messages that waited.
    pub(crate) fn notice_flushed(&self, flushed: &Flushed) {
        let mut notices = self.notices.borrow_mut();
        for (_, posted) in &flushed.sent {
            notices.push(format!(
                "sent what waited, as message {} of '{}'",
                posted.seq, posted.room
            ));
        }
        if flushed.held > 0 {
            let what = text::count(flushed.held as u64, "message");
            notices.push(format!(
                "{what} of yours wait for the hub that was here before: another one answers now; git parler outbox"
            ));
        }
        for (number, _, error) in &flushed.refused {
            notices.push(format!(
                "the hub refused what waited as {number}: {}; git parler outbox",
                error.what()
            ));
        }
    }

    /// What people are told when the command is done.
    pub(crate) fn notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// Refuses to post while older messages of this agent wait: they would come behind it.
    pub(crate) fn require_sent(&self) -> Result<()> {
        match self.held_up.take() {
            None => Ok(()),
            Some(error) => Err(error.about("messages that wait have to be sent first")),
        }
    }

    /// What waits for a hub. None: a token keeps nothing.
    fn outbox_of(&self, hub: &HubChoice, agent: &Identity) -> Option<Outbox> {
        (!self.is_job()).then(|| Outbox::of(&self.home, hub, agent))
    }

    /// What waits for the hub that is meant. None: a token keeps nothing.
    pub(crate) fn outbox_if_any(&self) -> Result<Option<Outbox>> {
        if self.is_job() {
            return Ok(None);
        }
        Ok(self.outbox_of(&self.hub()?, &self.agent()?.0.identity))
    }

    /// How long hubs are waited for.
    fn deadlines(&self) -> Result<Deadlines> {
        let config = self.config("parler.timeout")?;
        let places = [
            (self.environment.timeout.as_deref(), "PARLER_TIMEOUT"),
            (config.as_deref(), "parler.timeout"),
        ];
        let Some((seconds, from)) = places.into_iter().find_map(|(value, from)| Some((value?, from))) else {
            return Ok(Deadlines::default());
        };
        let chosen = seconds
            .trim()
            .parse()
            .ok()
            .filter(|seconds| TIMEOUT_SECONDS.contains(seconds));
        let chosen = chosen.ok_or_else(|| {
            let (least, most) = (TIMEOUT_SECONDS.start(), TIMEOUT_SECONDS.end());
            Error::usage(format_args!(
                "{from} is '{seconds}', which is no number of seconds from {least} to {most}"
            ))
        })?;
        Ok(Deadlines::of_stall(Duration::from_secs(chosen)))
    }

    /// What is remembered of hubs: every client of this command adds to it.
    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// The same, for threads.
    pub(crate) fn shared_trust(&self) -> Arc<Trust> {
        Arc::clone(&self.trust)
    }

    /// Whether plain http is allowed to this host (`host[:port]`), which is not this machine.
    pub(crate) fn allows_plain_http(&self, authority: &str) -> Result<bool> {
        self.is_set(&hubs::insecure_key(authority))
    }

    /// Says in an error about a key that the hub has not let in whose key that is, and how to act as another agent.
    pub(crate) fn naming_the_agent(&self, error: Error) -> Error {
        let error = self.naming_the_token(error);
        if !error.is_stranger() {
            return error;
        }
        let Ok((agent, source)) = self.agent() else {
            return error;
        };
        let name = text::name(agent.identity.name.as_str());
        let next = match source {
            // Nobody chose this agent: a new directory is a new one.
            NameSource::Place => {
                "git parler join CODE, or act as an agent that is in: PARLER_AGENT=NAME, git clone -c parler.agent=NAME .."
            }
            _ => "git parler join CODE",
        };
        let what = format!("{} (agent {name}, by {})", error.what(), source.describe());
        Error::new(error.kind, what).then(next)
    }

    /// The room that is meant, where one is.
    pub(crate) fn room_if_any(&self) -> Result<Option<RoomName>> {
        self.room_said_if_any(Opening::Made)
    }

    /// As [`Context::room_if_any`]; `opening` is for a direct room that is not there.
    fn room_said_if_any(&self, opening: Opening) -> Result<Option<RoomName>> {
        let config = self.config("parler.room")?;
        let places = [
            (self.globals.room.as_deref(), "--room"),
            (self.environment.room.as_deref(), "PARLER_ROOM"),
            (config.as_deref(), "parler.room"),
        ];
        let Some((name, from)) = places.into_iter().find_map(|(name, from)| Some((name?, from))) else {
            return Ok(None);
        };
        if let Some(agent) = name.strip_prefix(DIRECT) {
            if let Some(room) = self.direct.get() {
                return Ok(Some(room.clone()));
            }
            let room = self.direct_room(&self.client()?, agent, opening)?;
            return Ok(Some(self.direct.get_or_init(|| room).clone()));
        }
        let room = parse_room(name, from)?;
        if room.is_direct() && self.direct.set(room.clone()).is_ok() {
            // Only what it is called depends on the answer.
            let _ = self.client().and_then(|client| self.rooms(&client));
        }
        Ok(Some(room))
    }

    /// The direct room with an agent that a remote names, where the agent is known and the room is there.
    pub(crate) fn direct_room_if_any(&self, agent: &str) -> Result<Option<RoomName>> {
        match contacts::direct_room(&self.client()?, &self.trust, agent, Opening::Missing, &mut Vec::new()) {
            Ok(room) => Ok(Some(room)),
            Err(error)
                if matches!(
                    error.kind,
                    ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::Refused
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The direct room with an agent, by its name, role or key.
    pub(crate) fn direct_room(&self, client: &Client, agent: &str, opening: Opening) -> Result<RoomName> {
        let mut remarks = Vec::new();
        let room = contacts::direct_room(client, &self.trust, agent, opening, &mut remarks);
        self.notices.borrow_mut().extend(remarks);
        room
    }

    /// The rooms that the agent is in. Direct ones go by their labels from now on.
    pub(crate) fn rooms(&self, client: &Client) -> Result<RoomList> {
        let list = client.rooms()?;
        contacts::know_rooms(&list);
        Ok(list)
    }

    /// What a command that is named as the next one has to say of the room: ` --room ROOM` where this one was told it
    /// by option, else nothing.
    pub(crate) fn room_option(&self) -> String {
        match (&self.globals.service, &self.globals.room) {
            (Some(service), _) => format!(" --service {service}"),
            (None, Some(room)) => format!(" --room {room}"),
            (None, None) => String::new(),
        }
    }

    /// The service that the command line names: what is pushed or sent there is a job.
    pub(crate) fn service(&self) -> Option<ServiceName> {
        ServiceName::of_room(
            &self
                .globals
                .service
                .as_ref()
                .and(self.globals.room.as_ref())?
                .parse()
                .ok()?,
        )
    }

    /// The room that a command needs.
    pub(crate) fn room(&self) -> Result<RoomName> {
        self.room_said(Opening::Made)
    }

    /// As [`Context::room`]; with [`Opening::Missing`] a direct room is one that the agent is in already.
    pub(crate) fn room_said(&self, opening: Opening) -> Result<RoomName> {
        self.room_said_if_any(opening)?.ok_or_else(|| {
            Error::usage("which room is not said").then("add --room ROOM, or once: git config parler.room ROOM")
        })
    }

    /// Where what is known of rooms is kept between commands.
    pub(crate) fn room_cache(&self) -> RoomCache {
        self.repository.as_ref().map_or_else(RoomCache::none, |repository| {
            RoomCache::in_directory(&repository.parler_dir())
        })
    }
}

/// A key as git lists it: section and variable in lower case, what is between as it is.
fn listed_key(key: &str) -> String {
    match (key.find('.'), key.rfind('.')) {
        (Some(first), Some(last)) => {
            let (section, name) = (&key[..first], &key[last..]);
            format!(
                "{}{}{}",
                section.to_ascii_lowercase(),
                &key[first..last],
                name.to_ascii_lowercase()
            )
        }
        _ => key.to_ascii_lowercase(),
    }
}

/// Reads a room's name. `from` is where it was said.
pub(crate) fn parse_room(name: &str, from: &str) -> Result<RoomName> {
    name.parse()
        .map_err(|error| Error::usage(format_args!("{from}: {error}")).then("git parler rooms"))
}

impl From<RepositoryError> for Error {
    fn from(error: RepositoryError) -> Self {
        match error {
            _ if was_ended(&error) => Self::fatal(error).then(AGAIN),
            RepositoryError::NotARepository { .. } => {
                Self::fatal(error).then("run it inside of a repository, or make one: git init")
            }
            RepositoryError::NoWorkTree { .. } => Self::fatal(error).then("unset GIT_WORK_TREE, or make the directory"),
            RepositoryError::NotOurs { .. } | RepositoryError::UnknownObjectFormat => Self::fatal(error),
            RepositoryError::UnknownRevision { .. } => {
                Self::new(ErrorKind::NotFound, error).then("git branch -a, git log")
            }
            RepositoryError::NotACommit { .. }
            | RepositoryError::NotABoolean { .. }
            | RepositoryError::NotACount { .. }
            | RepositoryError::NotASize { .. } => Self::usage(error),
            RepositoryError::Path { .. }
            | RepositoryError::MissingObject { .. }
            | RepositoryError::Read { .. }
            | RepositoryError::Git(_) => Self::fatal(error),
        }
    }
}

impl From<git_remote_parler::git::GitError> for Error {
    fn from(error: git_remote_parler::git::GitError) -> Self {
        let is_ended = was_ended(&error);
        let error = Self::fatal(error);
        if is_ended { error.then(AGAIN) } else { error }
    }
}
