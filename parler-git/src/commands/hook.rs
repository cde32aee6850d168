//! `git parler hook HOST EVENT`: what a coding agent's hook runs. Whatever goes wrong here, the host sees nothing of it: no
//! text, exit code 0, and in no more time than it has. Starts no hub (but for `claude wait`), makes no key, and acknowledges nothing to the hub.

pub(super) mod install;
mod park;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use parler_client::{Client, Identity};
use parler_protocol::BundleId;
use parler_protocol::api::WakePath;

use crate::cli::Globals;
use crate::context::Context;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::hook::host::{Event, HOSTS, Host, Moment, Reply};
use crate::hook::memory::Memory;
use crate::hook::spool::Spool;
use crate::hook::{Rules, TURNS_PER_HOUR, Waiting, offer};
use crate::hubs::HubChoice;
use crate::state_file::{Durability, Kept, StateFile};
use crate::time::now_ms;
use crate::{output, trace};

/// How long the hub is waited for where somebody waits for the agent, in milliseconds, and the longest that may be said.
const WAIT_MS: u64 = 300;
const LONGEST_WAIT_MS: u64 = 10_000;
/// How many times as long where a turn has just ended.
const AFTER_A_TURN: u32 = 3;
/// Most that is read of what a host says: a prompt may be a long one.
const MAX_INPUT_BYTES: u64 = 16 << 20; // 16 MiB

/// Answers a hook's call. Only somebody at a terminal is told what is wrong with it.
pub(super) fn answer(environment: Environment, globals: Globals, words: &[OsString]) -> ExitCode {
    let called_at = now_ms();
    // A trace that cannot be written is none.
    let _ = trace::start(&environment);
    let reply = match reply(environment, globals, words, called_at) {
        Ok(reply) => reply,
        Err(Silence::Usage(error)) if is_called_by_hand() => return crate::fail(&error),
        Err(Silence::Usage(error) | Silence::Because(error)) => {
            tracing::debug!("hook: nothing is said: {error}");
            Reply::default()
        }
    };
    // Where nobody reads any more nobody can be told.
    let _ = io::stdout().write_all(reply.stdout.as_bytes());
    let _ = io::stdout().flush();
    let _ = io::stderr().write_all(reply.stderr.as_bytes());
    ExitCode::from(reply.code)
}

/// Why nothing is said.
enum Silence {
    /// The command line is none of a hook.
    Usage(Error),
    Because(Error),
}

impl From<Error> for Silence {
    fn from(error: Error) -> Self {
        Self::Because(error)
    }
}

/// Whether somebody calls it by hand.
pub(super) fn is_called_by_hand() -> bool {
    io::stdin().is_terminal() && output::has_terminal()
}

fn reply(
    environment: Environment,
    globals: Globals,
    words: &[OsString],
    called_at: i64,
) -> std::result::Result<Reply, Silence> {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    let name = words.next().unwrap_or_default();
    let host = Host::named(&name).ok_or_else(|| Silence::Usage(unknown_host(&name)))?;
    let name = words.next().unwrap_or_default();
    let moment = host.moment(&name).ok_or_else(|| unknown_event(host, &name))?;
    let input = match moment {
        // What is notified stands in the arguments.
        Moment::TurnOver => words.next().unwrap_or_default().into_owned().into_bytes(),
        _ => read_input()?,
    };
    let event = host
        .read(moment, &input)
        .map_err(|error| Error::fatal(format_args!("what {} says is not understood: {error}", host.name())))?;
    let Some(caller) = Caller::find(environment, globals, event, called_at)? else {
        return Ok(Reply::default());
    };
    let text = match moment {
        Moment::Wait => park::wait(&caller)?,
        _ => caller.look(),
    };
    Ok(text.map_or_else(Reply::default, |text| host.reply(moment, &text)))
}

fn unknown_host(name: &str) -> Error {
    let names = HOSTS.map(Host::name).join(", ");
    Error::usage(format_args!("'{name}' is none of {names}")).then("git parler hook -h")
}

fn unknown_event(host: Host, name: &str) -> Silence {
    let names: Vec<_> = host.events().iter().map(|(name, _)| *name).collect();
    let what = format!("'{name}' is none of {}: {}", host.name(), names.join(", "));
    Silence::Usage(Error::usage(what).then("git parler hook -h"))
}

fn read_input() -> Result<Vec<u8>> {
    let mut input = Vec::new();
    if !io::stdin().is_terminal() {
        let mut stdin = io::stdin().take(MAX_INPUT_BYTES);
        let read = stdin.read_to_end(&mut input);
        read.map_err(|error| Error::io("read standard input", &error))?;
    }
    Ok(input)
}

/// The agent that a hook is called for, and where what is known of its handoffs is kept.
struct Caller {
    context: Context,
    event: Event,
    hub: HubChoice,
    me: Identity,
    called_at: i64,
    /// Of this agent on this hub.
    directory: PathBuf,
}

impl Caller {
    /// None: nothing can be said, the agent here has no key yet, or a token speaks, which nobody hands over to.
    fn find(environment: Environment, globals: Globals, event: Event, called_at: i64) -> Result<Option<Self>> {
        // Nothing is said inside of the agent, and nobody waits for what no host has started.
        if event.is_subagent || event.moment == Moment::Wait && !event.is_complete {
            return Ok(None);
        }
        let mut environment = environment;
        if let Some(directory) = place(&event, &environment) {
            environment.directory = directory;
        }
        let context = Context::new(environment, globals)?;
        if context.is_job() {
            return Ok(None);
        }
        let (_, _, Some(agent)) = context.agent_if_made()? else {
            return Ok(None);
        };
        let hub = context.hub()?;
        let (place, me) = (hub.to_config(), agent.identity);
        let name = BundleId::of(format!("{place}\0{}", me.key.id()).as_bytes());
        let directory = context.home.hooks_dir().join(name.short());
        Ok(Some(Self {
            context,
            event,
            hub,
            me,
            called_at,
            directory,
        }))
    }

    fn file(&self, name: &str) -> StateFile {
        StateFile::at(self.directory.join(name))
    }

    /// Asks the hub for what is new as far as there is time, and says what there is to say.
    fn look(&self) -> Option<String> {
        // It is only noted that the turn had what it was told.
        if self.event.moment == Moment::TurnOver {
            return self.say(&Waiting::default());
        }
        let time = match self.event.moment {
            Moment::TurnEnd => self.patience() * AFTER_A_TURN,
            _ => self.patience(),
        };
        let moment = Instant::now() + time;
        // Only a host that passes on what is said at a prompt begins a turn with it.
        let begins_turns = self.event.moment == Moment::Prompt && self.event.is_heard;
        let client = self.context.client_until(&self.hub, self.me.clone(), moment);
        let client = client
            .map(|client| match begins_turns {
                true => client.waking(WakePath::Turn),
                false => client,
            })
            .inspect_err(|error| tracing::debug!("hook: no hub: {error}"))
            .ok();
        let waiting = self.waiting(client.as_ref());
        if let Some(client) = client {
            client.leave();
        }
        self.say(&waiting)
    }

    /// What waits for the agent: what was known, and what the hub says now.
    fn waiting(&self, client: Option<&Client>) -> Waiting {
        let file = self.file("unread.json");
        let before: Spool = match file.load() {
            Kept::Content(spool) => spool,
            Kept::Nothing | Kept::Damaged | Kept::Newer => Spool::default(),
        };
        let mut spool = before.clone();
        let unread = client.and_then(|client| {
            let read = spool.read_on(&self.context, client);
            read.inspect_err(|error| tracing::debug!("hook: the hub does not say it all: {error}"))
                .ok()
        });
        let mut waiting = spool.waiting(&self.context, &self.me, client);
        waiting.unread = unread;
        self.context.trust().keep();
        if spool != before {
            file.update(Durability::Soon, |kept: Option<Spool>| {
                // Only what another process wrote since: what was here before was given up with reason.
                if let Some(kept) = kept.filter(|kept| *kept != before) {
                    spool.join(kept);
                }
                spool.clone()
            });
        }
        waiting
    }

    /// What is to be said of it, noted as told. Where that cannot be noted nothing is said: it would be said for ever.
    fn say(&self, waiting: &Waiting) -> Option<String> {
        let rules = Rules {
            called_at: self.called_at,
            now: now_ms(),
            turns_per_hour: self.turns_per_hour(),
        };
        let file = self.file("told.json");
        let decide = |memory: &mut Memory| offer(memory, &self.event, waiting, &self.me, rules);
        let before: Memory = match file.load() {
            Kept::Content(memory) => memory,
            Kept::Nothing | Kept::Damaged | Kept::Newer => Memory::default(),
        };
        let mut after = before.clone();
        // Most calls have nothing to say and nothing to note.
        if decide(&mut after).is_none() && after == before {
            return None;
        }
        let mut text = None;
        let kept = file.update(Durability::Soon, |kept: Option<Memory>| {
            let mut memory = kept.unwrap_or_default();
            text = decide(&mut memory);
            memory
        });
        kept.and(text)
    }

    fn turns_per_hour(&self) -> u32 {
        self.number("parler.hook.maxPerHour").unwrap_or(TURNS_PER_HOUR)
    }

    fn patience(&self) -> Duration {
        let said = self.number("parler.hook.wait").unwrap_or(WAIT_MS);
        Duration::from_millis(said.min(LONGEST_WAIT_MS))
    }

    /// A number that is configured; one that is none counts as nothing said.
    fn number<T: FromStr>(&self, key: &str) -> Option<T> {
        let said = self.context.config(key).ok().flatten()?;
        said.trim().parse().ok()
    }
}

/// Where the agent works, if that is a directory.
fn place(event: &Event, environment: &Environment) -> Option<PathBuf> {
    let cursors = || environment.filled("CURSOR_PROJECT_DIR").map(PathBuf::from);
    let said = event.directory.clone().or_else(cursors);
    said.filter(|path| path.is_absolute() && Path::is_dir(path))
}
