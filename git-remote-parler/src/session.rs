//! A remote-helper session: git's questions on one side, a room on the other. Speaks the protocol of
//! gitremote-helpers(7) with the capabilities `fetch`, `push` and `option` over any reader and writer; not a byte but
//! protocol goes to the output, and lines for people go to a third stream.

use std::error::Error;
use std::io::{self, BufRead, Write};

use parler_client::{Client, ClientError};
use parler_protocol::{DispatchPart, ObjectFormat, Oid, RoomName, ServiceName};

use crate::address::{Address, Destination, HubChoice};
use crate::advertisement;
use crate::fetch::{FetchError, Fetched};
use crate::git::whole_line;
use crate::lock_claim;
use crate::packed_refs;
use crate::push::{PushError, RoomLookup};
use crate::quarantine;
use crate::repository::{LocalHead, ReadAhead, Repository, RepositoryError};
use crate::room::{Room, RoomError};
use crate::room_cache::RoomCache;
use crate::terminal::Terminal;

mod dispatch;
mod fetch_batch;
mod line;
mod options;
mod policy;
mod push_batch;
mod push_options;

use line::Lines;
use options::Options;
pub use policy::Policy;

/// What git is told that we can do. Not `check-connectivity`: git would believe us for one pack with a `lock` line alone,
/// so it walks what it fetched itself.
const CAPABILITIES: &str = "fetch\npush\noption\nobject-format\n\n";

/// A hub that answers for an address.
pub struct Connected {
    /// The hub, spoken to as the agent that acts.
    pub client: Client,
    /// Whether it is this user's own hub, where a push makes the room it names.
    pub is_local: bool,
}

/// What a session asks of the program around it, as late as possible.
pub trait Surroundings {
    /// The repository that git works in; none for `git ls-remote` outside of one. Asked again when `git clone` has
    /// finished making it.
    ///
    /// # Errors
    /// When there is one and it cannot be read.
    fn repository(&self) -> Result<Option<Repository>, RepositoryError>;

    /// A client of the hub that an address means.
    ///
    /// # Errors
    /// When there is no such hub, or no key to speak with: one line for people.
    fn connect(&self, hub: &HubChoice) -> Result<Connected, Box<dyn Error + Send + Sync>>;

    /// The direct room with the agent of this name, role or key.
    ///
    /// # Errors
    /// When there is no such agent, or more than one: one line for people.
    fn direct_room(&self, client: &Client, agent: &str) -> Result<RoomName, Box<dyn Error + Send + Sync>>;

    /// The part that makes a job for this service of a message, with what the job is for.
    ///
    /// # Errors
    /// When what the job is for is not told as it should be: one line for people.
    fn dispatch(&self, service: &ServiceName) -> Result<DispatchPart, Box<dyn Error + Send + Sync>>;

    /// Where meters are shown when git asks for them.
    fn terminal(&self) -> Terminal {
        Terminal::none()
    }
}

/// Why a session ended before git was done. The program prints it, `fatal: ` before it, and ends with 128, as git
/// expects.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// git closed a pipe, or it broke.
    #[error("cannot talk to git: {0}")]
    Pipe(#[from] io::Error),
    /// A command was longer than git ever writes.
    #[error("git sent a line of more than {} bytes", line::MAX_LINE_BYTES)]
    LineTooLong,
    /// The input ended where more must come.
    #[error("git stopped in the middle of a command")]
    CutOff,
    /// A command of no known form.
    #[error("git sent a command that is not understood: {line:?}")]
    Command {
        /// The line, cut.
        line: String,
    },
    /// `--signed`. In git's words, which it has for servers that take no certificates either.
    #[error("the receiving end does not support --signed push")]
    NoCertificates,
    /// Something that needs a repository, outside of one.
    #[error("not a git repository")]
    NoRepository,
    /// git is too old to be told of SHA-256.
    #[error("room '{room}' holds {format} objects, and this git does not know of them")]
    ObjectFormat {
        /// The room.
        room: RoomName,
        /// Its hash.
        format: ObjectFormat,
    },
    /// The hub could not be reached, by the words of the program.
    #[error("{0}")]
    Connect(Box<dyn Error + Send + Sync>),
    /// What a job is for is not told as it should be, by the words of the program.
    #[error("{0}")]
    Cause(Box<dyn Error + Send + Sync>),
    /// The hub failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The repository cannot be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The room cannot be read.
    #[error(transparent)]
    Room(#[from] RoomError),
    /// A push failed as a whole.
    #[error(transparent)]
    Push(#[from] PushError),
    /// A fetch failed.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// Ends a conversation for which nothing could be set up. Git adds a line of its own about a helper that is gone before it
/// has told what it can do, and breaks off where it writes to one; later it leaves the last word to the helper.
///
/// # Errors
/// [`SessionError`], when git is gone already.
pub fn decline(input: impl BufRead, mut output: impl Write) -> Result<(), SessionError> {
    let mut lines = Lines::new(input);
    if lines.next()?.as_deref() == Some(b"capabilities".as_slice()) {
        output.write_all(CAPABILITIES.as_bytes())?;
        output.flush()?;
        lines.next()?;
    }
    Ok(())
}

/// One run of the helper.
pub struct Session<'a, O, E> {
    address: &'a Address,
    /// The direct room that the address means, once it is known.
    direct: Option<RoomName>,
    surroundings: &'a dyn Surroundings,
    output: O,
    errors: E,
    options: Options,
    connected: Option<Connected>,
    repository: Option<Repository>,
    room: Option<Looked>,
    /// Imports whose pins wait until git has written its refs.
    unpinned: Fetched,
}

/// A room that was looked for.
enum Looked {
    There(Box<Room>),
    /// Not there, and a push may make it.
    Absent,
}

impl<'a, O: Write, E: Write> Session<'a, O, E> {
    /// Serves git until it says that it is done.
    ///
    /// # Errors
    /// [`SessionError`], to be shown to the user; git has not been told that anything succeeded that did not.
    pub fn run(
        input: impl BufRead,
        output: O,
        errors: E,
        address: &'a Address,
        surroundings: &'a dyn Surroundings,
    ) -> Result<(), SessionError> {
        let mut session = Self {
            address,
            direct: None,
            surroundings,
            output,
            errors,
            options: Options::default(),
            connected: None,
            repository: None,
            room: None,
            unpinned: Fetched::default(),
        };
        session.serve(Lines::new(input))
    }

    fn serve(&mut self, mut lines: Lines<impl BufRead>) -> Result<(), SessionError> {
        let mut ahead = None;
        while let Some(line) = lines.next()? {
            drop(ahead.take());
            match line.as_slice() {
                b"" => break,
                b"capabilities" => self.answer(CAPABILITIES)?,
                b"list" => {
                    let shown = self.list()?;
                    self.answer(&shown)?;
                    self.sweep();
                }
                b"list for-push" => {
                    let shown = self.list_for_push()?;
                    self.answer(&shown)?;
                    ahead = self.read_ahead();
                }
                other => match split_word(other) {
                    (b"option", rest) => self.set_option(rest)?,
                    (b"fetch", rest) => self.fetch_batch(&lines.batch(b"fetch", rest)?)?,
                    (b"push", rest) => self.push_batch(&lines.batch(b"push", rest)?)?,
                    _ => return Err(SessionError::command(other)),
                },
            }
        }
        self.pin_the_rest()
    }

    fn answer(&mut self, text: &str) -> Result<(), SessionError> {
        self.output.write_all(text.as_bytes())?;
        Ok(self.output.flush()?)
    }

    /// A line for people. Nobody may be there to read it.
    fn say(&mut self, line: &str) {
        let _ = writeln!(self.errors, "parler: {}", whole_line(line));
    }

    /// A line for people as git itself would say it, where another remote makes it say so.
    fn say_as_git(&mut self, line: &str) {
        let _ = writeln!(self.errors, "{line}");
    }

    fn set_option(&mut self, option: &[u8]) -> Result<(), SessionError> {
        let set = self.options.set(option);
        if let Some(line) = set.note {
            self.say(line);
        }
        self.answer(set.answer)
    }

    fn list(&mut self) -> Result<String, SessionError> {
        self.look(false)?;
        let Some(Looked::There(room)) = &self.room else {
            return Ok("\n".to_owned());
        };
        let format = room.state.object_format().or_else(|| self.own_format());
        let told = self.options.wants_object_format.then_some(format).flatten();
        match format {
            Some(format @ ObjectFormat::Sha256) if told.is_none() && room.state.object_format().is_some() => {
                Err(SessionError::ObjectFormat {
                    room: room.state.room().clone(),
                    format,
                })
            }
            _ => Ok(advertisement::for_fetch(&room.state, told)),
        }
    }

    /// Removes what a killed fetch left: it must not wait until there is something new to fetch. git has its answer by now.
    fn sweep(&self) {
        if let Some(repository) = &self.repository {
            quarantine::sweep(&repository.objects_dir());
            packed_refs::sweep(repository.common_dir());
            lock_claim::sweep(repository.common_dir());
        }
    }

    fn list_for_push(&mut self) -> Result<String, SessionError> {
        self.look(true)?;
        let own = self.repository()?.object_format();
        let told = |format| self.options.wants_object_format.then_some(format);
        Ok(match &self.room {
            Some(Looked::There(room)) => {
                let theirs = room.state.object_format().unwrap_or(own);
                if theirs != own {
                    let room = room.state.room().clone();
                    return Err(PushError::ObjectFormat {
                        room,
                        theirs,
                        ours: own,
                    }
                    .into());
                }
                match self.service() {
                    // What is pushed is a job, also where nothing has changed since the last one.
                    Some(_) => advertisement::nothing(told(own)),
                    None => advertisement::for_push(&room.state, told(own)),
                }
            }
            _ => advertisement::nothing(told(own)),
        })
    }

    /// Reads history while git does: it looks at each ref that is to move, and we do afterwards. What is checked out
    /// is what is mostly pushed.
    fn read_ahead(&self) -> Option<ReadAhead> {
        const MOST_HAVES: usize = 64;
        let repository = self.repository.as_ref()?;
        let Some(Looked::There(room)) = &self.room else {
            return None;
        };
        let (LocalHead::Branch { oid, .. } | LocalHead::Detached { oid }) = repository.head().ok()? else {
            return None;
        };
        let haves: Vec<Oid> = room.state.refs().values().map(|found| found.oid).collect();
        // What the room has is not pushed, and where it has nothing all of history is.
        let is_worth_it = !haves.is_empty() && haves.len() <= MOST_HAVES && !haves.contains(&oid);
        is_worth_it.then(|| ReadAhead::begin(repository, vec![oid], haves))?
    }

    /// What an empty room is said to hold: the same as the repository, unless that is being made.
    fn own_format(&self) -> Option<ObjectFormat> {
        self.repository
            .as_ref()
            .filter(|_| !self.options.cloning)
            .map(Repository::object_format)
    }

    /// The room that is meant. Of an agent only its hub knows which that is.
    fn room_name(&mut self) -> Result<RoomName, SessionError> {
        match &self.address.destination {
            Destination::Room(room) => Ok(room.clone()),
            Destination::Service(service) => Ok(service.room()),
            Destination::Dm(agent) => {
                if let Some(known) = &self.direct {
                    return Ok(known.clone());
                }
                self.connect()?;
                let found = self
                    .surroundings
                    .direct_room(&self.connected()?.client, agent)
                    .map_err(SessionError::Connect)?;
                Ok(self.direct.insert(found).clone())
            }
        }
    }

    /// The service for which a push is a job.
    fn service(&self) -> Option<&'a ServiceName> {
        match &self.address.destination {
            Destination::Service(service) => Some(service),
            Destination::Room(_) | Destination::Dm(_) => None,
        }
    }

    /// Reads the room: one request.
    fn look(&mut self, for_push: bool) -> Result<(), SessionError> {
        let name = self.room_name()?;
        self.connect()?;
        let cache = self.cache();
        let policy = self.policy()?;
        let client = &self.connected()?.client;
        let read = match self.service().filter(|_| for_push) {
            Some(service) => Room::read_for_job(client, service, &cache),
            None => Room::read(client, &name, &cache),
        };
        let looked = match read {
            Ok(room) => Looked::There(Box::new(room)),
            Err(RoomError::Unknown { .. })
                if for_push && policy.push.create_room && !Room::was_known(client, &name, &cache)? =>
            {
                Looked::Absent
            }
            Err(error) => return Err(error.into()),
        };
        self.room = Some(looked);
        Ok(())
    }

    fn connect(&mut self) -> Result<(), SessionError> {
        if self.repository.is_none() {
            self.open_repository()?;
        }
        if self.connected.is_none() {
            self.connected = Some(
                self.surroundings
                    .connect(&self.address.hub)
                    .map_err(SessionError::Connect)?,
            );
        }
        Ok(())
    }

    fn open_repository(&mut self) -> Result<(), SessionError> {
        let opened = self.surroundings.repository()?;
        self.repository = if self.options.shows_meters() {
            opened.map(|repository| repository.with_meters(self.surroundings.terminal()))
        } else {
            opened
        };
        Ok(())
    }

    fn connected(&self) -> Result<&Connected, SessionError> {
        self.connected.as_ref().ok_or_else(|| SessionError::command(b"list"))
    }

    fn repository(&self) -> Result<&Repository, SessionError> {
        self.repository.as_ref().ok_or(SessionError::NoRepository)
    }

    fn cache(&self) -> RoomCache {
        self.repository.as_ref().map_or_else(RoomCache::none, |repository| {
            RoomCache::in_directory(&repository.parler_dir())
        })
    }

    fn policy(&self) -> Result<Policy, SessionError> {
        let is_local = self.connected.as_ref().is_some_and(|connected| connected.is_local);
        match &self.repository {
            Some(repository) => Ok(Policy::of(repository, is_local)?),
            None => Ok(Policy::default()),
        }
    }

    fn pin_the_rest(&mut self) -> Result<(), SessionError> {
        match &self.repository {
            Some(repository) => Ok(self.unpinned.pin(repository)?),
            None => Ok(()),
        }
    }
}

impl From<Looked> for RoomLookup {
    fn from(looked: Looked) -> Self {
        match looked {
            Looked::There(room) => Self::Read(room),
            Looked::Absent => Self::Absent,
        }
    }
}

impl SessionError {
    fn command(line: &[u8]) -> Self {
        Self::Command {
            line: String::from_utf8_lossy(line).chars().take(80).collect(),
        }
    }
}

/// The first word, and what comes after one blank.
fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (&line[..at], &line[at + 1..]),
        None => (line, &[]),
    }
}
