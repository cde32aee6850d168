//! The edge of `git-remote-parler`, the program that git starts for `parler::` remotes: arguments, environment and
//! streams of the process around the library's session.

use std::cell::Cell;
use std::error::Error as StdError;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use git_remote_parler::address::{Address, Destination, HubChoice as AddressHub};
use git_remote_parler::fetch::FetchError;
use git_remote_parler::git::was_ended;
use git_remote_parler::push::PushError;
use git_remote_parler::repository::{Repository, RepositoryError};
use git_remote_parler::room::RoomError;
use git_remote_parler::session::{Connected, Session, SessionError, Surroundings, decline};
use git_remote_parler::terminal::Terminal;
use parler_client::{Client, ClientError};
use parler_protocol::{DispatchPart, ErrorCode, RoomName, ServiceName};

use crate::cli::Globals;
use crate::contacts::Opening;
use crate::context::Context;
use crate::ending;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::hubs::HubChoice;
use crate::{job_cause, text, trace};

/// What git expects of a helper that failed.
const FAILED: u8 = 128;

/// Serves git on stdin and stdout; asked for its version, tells that. Git calls no remote so.
pub(crate) fn run(environment: Environment) -> ExitCode {
    if environment
        .arguments
        .get(1)
        .is_some_and(|argument| argument == "--version")
    {
        let told = writeln!(io::stdout(), "{}", version());
        return told.map_or(ExitCode::from(FAILED), |()| ExitCode::SUCCESS);
    }
    ending::tidy_up_on_signals();
    let mut is_serving = false;
    match trace::start(&environment)
        .map_err(|error| error.line())
        .and_then(|()| serve(environment, &mut is_serving))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(line) => {
            // Where stderr is gone as well nobody can be told.
            let _ = writeln!(io::stderr(), "fatal: {}", text::own_line(&line));
            // Who calls this program by hand is not kept waiting.
            if !is_serving && !io::stdin().is_terminal() {
                // Git, if it is there, has been told all there is to tell.
                let _ = decline(io::stdin().lock(), io::stdout().lock());
            }
            ExitCode::from(FAILED)
        }
    }
}

/// What somebody has to do about who this agent is: the next command is told, as `git parler` tells it.
const KEEPS_ITS_NEXT: &[ErrorCode] = &[
    ErrorCode::ApprovalPending,
    ErrorCode::ApprovalRefused,
    ErrorCode::NameReserved,
    ErrorCode::NameTaken,
    ErrorCode::NotAdmitted,
];

/// What the helper says of its version.
pub(crate) fn version() -> String {
    format!("{} {}", crate::HELPER_NAME, env!("CARGO_PKG_VERSION"))
}

/// `is_serving` is set when the conversation with git begins.
fn serve(environment: Environment, is_serving: &mut bool) -> std::result::Result<(), String> {
    let arguments: Vec<String> = environment
        .arguments
        .iter()
        .skip(1)
        .map(|argument| {
            argument
                .to_str()
                .map(str::to_owned)
                .ok_or("the remote's name or URL is not UTF-8")
        })
        .collect::<std::result::Result<_, _>>()?;
    let (name, url) = match arguments.as_slice() {
        [name] => (name.as_str(), None),
        [name, url] => (name.as_str(), Some(url.as_str())),
        _ => return Err("this program is started by git: git push parler::room/ROOM BRANCH".to_owned()),
    };
    let context = Context::new(environment, Globals::default()).map_err(|error| error.line())?;
    refuse_unless_asked(&context).map_err(|error| error.line())?;
    // A configuration that cannot be read allows nothing; it is told when the agent is looked for.
    let insecure = |authority: &str| context.allows_plain_http(authority).unwrap_or(false);
    let address = Address::from_arguments(name, url, insecure).map_err(|error| error.to_string())?;
    context.goes_to(
        None,
        match &address.destination {
            Destination::Room(room) => Some(room.clone()),
            Destination::Service(service) => Some(service.room()),
            Destination::Dm(_) => None,
        },
    );
    let program = Program {
        context: &context,
        opened: Cell::new(false),
    };
    *is_serving = true;
    let remarks = EscapedLines::new(io::stderr());
    let ended = Session::run(io::stdin().lock(), io::stdout().lock(), remarks, &address, &program);
    context.trust().keep();
    for line in context.trust().warnings().into_iter().chain(context.notices()) {
        // Where stderr is gone nobody can be told.
        let _ = writeln!(io::stderr(), "parler: {}", text::own_line(&line));
    }
    ended.map_err(|error| told(&context, &address, &error))
}

/// What a session failed for, for people. A hub that does not know this agent's key says so of whichever agent acts, and
/// in a new clone that is a new one.
fn told(context: &Context, address: &Address, error: &SessionError) -> String {
    if let SessionError::Room(rewritten @ RoomError::Rewritten { .. })
    | SessionError::Push(PushError::Room(rewritten @ RoomError::Rewritten { .. })) = error
    {
        // The line ends with a command.
        return format!("{rewritten}{}", context.trust().hub_option());
    }
    if let SessionError::Room(RoomError::Unknown { room })
    | SessionError::Push(PushError::Room(RoomError::Unknown { room })) = error
    {
        return context.naming_the_agent(Error::no_room(room)).line();
    }
    let client = match error {
        SessionError::Client(error)
        | SessionError::Room(RoomError::Client(error))
        | SessionError::Push(PushError::Client(error) | PushError::Room(RoomError::Client(error)))
        | SessionError::Fetch(FetchError::Client(error)) => Some(error),
        _ => None,
    };
    match client {
        Some(ClientError::Problem(problem)) if KEEPS_ITS_NEXT.contains(&problem.code) => {
            context.naming_the_agent(problem.clone().into()).line()
        }
        Some(
            ClientError::Lost { .. }
            | ClientError::Deadline { .. }
            | ClientError::TooSlow { .. }
            | ClientError::Stopped { .. }
            | ClientError::Unreachable { .. },
        ) => {
            format!("{error}; run the same git command again")
        }
        Some(ClientError::OutcomeUnknown { .. }) => match &address.destination {
            // The same command again would ask for one job more.
            Destination::Service(service) => {
                let hub = context.trust().hub_option();
                format!("{error}; git parler status --service {service}{hub} shows whether it is")
            }
            Destination::Room(_) | Destination::Dm(_) => {
                format!("{error}; run the same git command again: what was stored is up to date then")
            }
        },
        _ if was_ended(error) => format!("{error}; run the same git command again"),
        _ => error.to_string(),
    }
}

/// Git sets a variable when nobody typed the URL: a submodule's comes from the repository that was cloned. Git itself
/// refuses then, unless `protocol.parler.allow` is `always`; that says nothing about submodules, so it is asked again.
fn refuse_unless_asked(context: &Context) -> Result<()> {
    let asked = context
        .environment
        .variable("GIT_PROTOCOL_FROM_USER")
        .is_none_or(|from_user| from_user != "0");
    if asked || context.is_set("parler.allowSubmodules")? {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Refused,
        "a room's URL that nobody typed, such as a submodule's, is not followed",
    )
    .then("git config --global parler.allowSubmodules true"))
}

/// This process, as a session sees it.
struct Program<'a> {
    context: &'a Context,
    /// Whether the repository that was found at the start has been handed out.
    opened: Cell<bool>,
}

impl Surroundings for Program<'_> {
    fn repository(&self) -> std::result::Result<Option<Repository>, RepositoryError> {
        if !self.opened.replace(true) {
            return Ok(self.context.repository_if_any().cloned());
        }
        match Repository::discover(self.context.git().clone(), &self.context.environment.directory) {
            Ok(repository) => Ok(Some(repository)),
            Err(RepositoryError::NotARepository { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn connect(&self, hub: &AddressHub) -> std::result::Result<Connected, Box<dyn StdError + Send + Sync>> {
        let connect = || -> Result<Connected> {
            let hub = match hub {
                AddressHub::Configured => self.context.hub()?,
                AddressHub::At(address) => {
                    let hub = self.context.recognised(HubChoice::At(address.clone()))?;
                    self.context.trust().name_hub(&hub.to_config());
                    hub
                }
            };
            self.context.goes_to(Some(hub.clone()), None);
            let (agent, _) = self.context.agent()?;
            let client = self.context.client_of(&hub, agent.identity)?;
            Ok(Connected {
                client,
                is_local: hub == HubChoice::Local,
            })
        };
        Ok(connect()?)
    }

    fn direct_room(
        &self,
        client: &Client,
        agent: &str,
    ) -> std::result::Result<RoomName, Box<dyn StdError + Send + Sync>> {
        Ok(self.context.direct_room(client, agent, Opening::Made)?)
    }

    fn dispatch(&self, service: &ServiceName) -> std::result::Result<DispatchPart, Box<dyn StdError + Send + Sync>> {
        Ok(job_cause::dispatch(&self.context.environment, service)?)
    }

    fn terminal(&self) -> Terminal {
        self.context.terminal().clone()
    }
}

/// Lines for people, part of which others may have written, escaped on their way to the terminal.
struct EscapedLines<W: Write> {
    inner: W,
    line: Vec<u8>,
}

impl<W: Write> EscapedLines<W> {
    const fn new(inner: W) -> Self {
        Self {
            inner,
            line: Vec::new(),
        }
    }
}

impl<W: Write> Write for EscapedLines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            if *byte == b'\n' {
                let line = text::own_line(&String::from_utf8_lossy(&self.line));
                self.line.clear();
                writeln!(self.inner, "{line}")?;
            } else {
                self.line.push(*byte);
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_reach_the_terminal_escaped_and_whole() {
        let mut shown = Vec::new();
        let mut remarks = EscapedLines::new(&mut shown);
        remarks.write_all(b"parler: a\x1b[2J").unwrap();
        remarks.write_all("b\nparler: \u{202e}\n".as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(shown).unwrap(),
            "parler: a\\u{1b}[2Jb\nparler: \\u{202e}\n"
        );
    }
}
