//! Looking at everything that has to be right for `git parler`. Starts nothing and changes nothing: no key, no directory,
//! no session file and no hub is made. What it says holds no secret.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use git_remote_parler::git::{Git, GitError, Side};
use jiff::Timestamp;
use parler_client::{Client, ClientOptions, Deadlines, HubAddress, Identity, NoSessionCache, ReadFrom};
use parler_protocol::limits::MAX_CLOCK_SKEW;
use parler_protocol::{AccessToken, AgentKey, RoomName};
use rustix::fs::{Access, access};
use serde_json::{Value, json};

use crate::cli::Globals;
use crate::context::Context;
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::helper;
use crate::hubs::{HubChoice, require_secure};
use crate::installation::Places;
use crate::local_hub::LocalHub;
use crate::outbox::Outbox;
use crate::room_log::in_room;
use crate::settings;
use crate::text;

/// The oldest git that has all that is used, and is tested with.
const OLDEST_GIT: (u32, u32) = (2, 39);
/// How long a hub is waited for.
const DEADLINES: Deadlines = Deadlines {
    connect: std::time::Duration::from_secs(5),
    stall: std::time::Duration::from_secs(10),
    answer: std::time::Duration::from_secs(10),
    rest: std::time::Duration::ZERO,
    retry: std::time::Duration::ZERO,
    silence: std::time::Duration::from_secs(10),
    transfer: std::time::Duration::ZERO,
};

/// How it stands with one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Fine,
    /// It works, and not as well or not as meant.
    Warning,
    /// Something does not work.
    Problem,
}

impl Status {
    /// For people, and in `--json` output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) status: Status,
    /// How it stands; parts of it may be somebody else's words.
    pub(crate) what: String,
    /// How to mend it.
    pub(crate) mend: Option<String>,
}

impl Check {
    fn new(name: &'static str, status: Status, what: impl Into<String>) -> Self {
        Self {
            name,
            status,
            what: what.into(),
            mend: None,
        }
    }

    fn fine(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, Status::Fine, what)
    }

    fn failed(name: &'static str, error: &Error) -> Self {
        Self {
            mend: error.next().map(str::to_owned),
            ..Self::new(name, Status::Problem, error.what())
        }
    }

    fn mended_by(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "name": self.name, "status": self.status.word(), "message": self.what, "mend": self.mend })
    }
}

/// Looks at everything.
pub(crate) fn examine(environment: Environment, globals: Globals) -> Vec<Check> {
    let mut checks = vec![git(&environment), helper_program(&environment)];
    checks.extend(manual(&environment));
    let context = match Context::new(environment, globals) {
        Ok(context) => context,
        Err(error) => {
            checks.push(Check::failed("configuration", &error));
            return checks;
        }
    };
    checks.push(configuration(&context));
    checks.push(repository(&context));
    checks.extend(directories(&context));
    let (key, identity) = agent(&context);
    checks.push(key);
    checks.extend(outbox(&context, identity.as_ref()));
    let (hub, client) = hub(&context, identity);
    checks.extend(hub);
    checks.extend(client.as_ref().and_then(|client| token(&context, client)));
    checks.push(room(&context, client.as_ref()));
    checks
}

fn git(environment: &Environment) -> Check {
    let Some(program) = environment.git_program() else {
        return Check::new("git", Status::Problem, "there is none on PATH")
            .mended_by("install git, or set PARLER_GIT to its path");
    };
    let shown = program.path().display().to_string();
    let answer = Git::new(program, environment.for_git())
        .command(Side::Push, "version")
        .run();
    let answer = match answer {
        Ok(answer) => String::from_utf8_lossy(&answer).trim().to_owned(),
        Err(error) => return Check::failed("git", &error.into()),
    };
    let version = answer.strip_prefix("git version ").unwrap_or(&answer);
    let what = format!("{version} ({shown})");
    match numbers(version) {
        Some(found) if found >= OLDEST_GIT => Check::fine("git", what),
        _ => Check::new("git", Status::Problem, what)
            .mended_by(format!("install git {}.{} or newer", OLDEST_GIT.0, OLDEST_GIT.1)),
    }
}

/// `2.39` of `2.39.5 (Apple Git-154)`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(|character: char| !character.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Git starts the helper by name; one of another version would speak for this program.
fn helper_program(environment: &Environment) -> Check {
    const NAME: &str = "helper";
    let mend = "cargo install --path parler-git puts both programs side by side; their directory belongs on PATH";
    let Some(path) = environment.program(crate::HELPER_NAME) else {
        let what = format!("there is no {} on PATH, so git cannot reach a room", crate::HELPER_NAME);
        return Check::new(NAME, Status::Problem, what).mended_by(mend);
    };
    let told = Command::new(&path)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let first_line = |text: &str| text.lines().next().unwrap_or_default().trim().to_owned();
    let told = told.map(|output| first_line(&String::from_utf8_lossy(&output.stdout)));
    let shown = path.display();
    match told {
        Ok(told) if told == helper::version() => {
            // It starts the local hub with the program beside its file.
            let other = path.canonicalize().unwrap_or_else(|_| path.clone());
            let other = other.with_file_name(crate::PROGRAM_NAME);
            if other.is_file() || cfg!(not(feature = "local-hub")) {
                Check::fine(NAME, format!("{told} ({shown})"))
            } else {
                let what = format!("{shown} cannot start the local hub: there is no {}", other.display());
                Check::new(NAME, Status::Warning, what).mended_by(mend)
            }
        }
        Ok(told) => {
            let told = if told.is_empty() { "no version" } else { &told };
            let what = format!("{shown} tells '{told}', and this is {}", env!("CARGO_PKG_VERSION"));
            Check::new(NAME, Status::Problem, what).mended_by(mend)
        }
        Err(error) => Check::new(NAME, Status::Problem, format!("{shown} does not start: {error}")).mended_by(mend),
    }
}

/// Whether `git parler --help` shows something, where there is a `man` that could.
fn manual(environment: &Environment) -> Option<Check> {
    environment.program("man")?;
    let places = Places::of(environment, None).ok()?;
    let page = places.manual.join("man1/git-parler.1");
    Some(match (page.is_file(), places.manual_is_found(environment)) {
        (true, true) => Check::fine("manual", page.display().to_string()),
        (true, false) => Check::new(
            "manual",
            Status::Warning,
            format!("man does not look for {}", page.display()),
        )
        .mended_by(format!("export MANPATH=\"{}:\"", places.manual.display())),
        (false, _) => {
            Check::new("manual", Status::Warning, "no pages are installed").mended_by("git parler man --install")
        }
    })
}

fn configuration(context: &Context) -> Check {
    const NAME: &str = "configuration";
    let listed = context
        .git()
        .command(Side::Push, "config")
        .args(["-z", "--name-only", "--get-regexp", "^parler\\."])
        .run();
    let listed = match listed {
        Ok(listed) => listed,
        // Nothing matches.
        Err(GitError::Failed { code: Some(1), .. }) => Vec::new(),
        Err(error) => return Check::failed(NAME, &error.into()),
    };
    let mut keys: Vec<_> = listed
        .split(|byte| *byte == 0)
        .filter(|key| !key.is_empty())
        .map(|key| String::from_utf8_lossy(key).into_owned())
        .collect();
    keys.sort();
    keys.dedup();
    let Some(unknown) = keys.iter().find(|key| !settings::is_known(key)) else {
        return Check::fine(NAME, text::count(keys.len() as u64, "key"));
    };
    let check = Check::new(NAME, Status::Warning, format!("nothing reads {unknown}"));
    match settings::similar(unknown) {
        Some(meant) => check.mended_by(format!("perhaps {meant} is meant: git config --unset {unknown}")),
        None => check.mended_by(format!("git config --unset {unknown}")),
    }
}

fn repository(context: &Context) -> Check {
    match (context.repository_if_any(), context.refused_repository()) {
        (Some(repository), _) => Check::fine("repository", repository.git_dir().display().to_string()),
        (None, Some(error)) => Check::failed("repository", &error),
        (None, None) => Check::fine("repository", "none here: push, apply and handoff --bundle need one"),
    }
}

fn directories(context: &Context) -> Vec<Check> {
    let directory = |(what, path): (&str, &Path)| {
        let nearest = path.ancestors().find(|path| path.exists()).unwrap_or(path);
        let usable = nearest.is_dir() && access(nearest, Access::WRITE_OK | Access::EXEC_OK).is_ok();
        (!usable).then(|| {
            let told = format!("{} cannot be written, where {what} would be", nearest.display());
            Check::new("directories", Status::Problem, told).mended_by(format!(
                "make it yours, or set PARLER_HOME: ls -ld '{}'",
                nearest.display()
            ))
        })
    };
    let all = context.home.directories();
    let problems: Vec<_> = all.into_iter().filter_map(directory).collect();
    if !problems.is_empty() {
        return problems;
    }
    let shown: Vec<_> = all.iter().map(|(_, path)| path.display().to_string()).collect();
    vec![Check::fine("directories", shown.join(", "))]
}

fn agent(context: &Context) -> (Check, Option<Identity>) {
    const NAME: &str = "agent";
    match context.agent_if_made() {
        Ok((name, source, None)) => {
            let what = format!(
                "{name}, by {}; its key is made when it is first used",
                source.describe()
            );
            (Check::fine(NAME, what), None)
        }
        Ok((_, source, Some(agent))) => {
            let identity = agent.identity;
            let role = identity.role.as_ref().map(|role| role.as_str());
            let who = text::name_and_role(identity.name.as_str(), role);
            let key = match context.token_at_hand() {
                // Of this process alone: it is nobody's to be let in.
                Some(_) => "with a key of its own".to_owned(),
                None => format!("key {}", identity.key.id()),
            };
            let what = format!("{who}, by {}, {key}", source.describe());
            (Check::fine(NAME, what), Some(identity))
        }
        Err(error) => (Check::failed(NAME, &error), None),
    }
}

/// What waits to be sent, where something does.
fn outbox(context: &Context, identity: Option<&Identity>) -> Option<Check> {
    const NAME: &str = "outbox";
    let agent = identity.filter(|_| !context.is_job())?;
    let outbox = Outbox::of(&context.home, &context.hub().ok()?, agent);
    let waiting = match outbox.waiting() {
        Ok(waiting) => waiting,
        Err(error) => return Some(Check::failed(NAME, &error)),
    };
    let refused = waiting
        .iter()
        .filter(|waiting| waiting.queued.refused.is_some())
        .count();
    let here = outbox.hub();
    let held = waiting
        .iter()
        .filter(|waiting| waiting.queued.refused.is_none() && waiting.queued.is_for_another(here))
        .count();
    let count = text::count(waiting.len() as u64, "message");
    match (waiting.len(), refused, held) {
        (0, _, _) => None,
        (_, 0, 0) => Some(
            Check::new(NAME, Status::Warning, format!("{count} not sent yet"))
                .mended_by("the next command that reaches the hub sends them"),
        ),
        (_, 0, _) => Some(
            Check::new(
                NAME,
                Status::Warning,
                format!("{count} not sent yet, {held} of them for the hub that was here before"),
            )
            .mended_by("git parler outbox"),
        ),
        _ => Some(
            Check::new(
                NAME,
                Status::Problem,
                format!("{count} not sent, {refused} of them refused by the hub"),
            )
            .mended_by("git parler outbox"),
        ),
    }
}

/// What is to be said of the hub, and a client where it serves and this agent has a key.
fn hub(context: &Context, identity: Option<Identity>) -> (Vec<Check>, Option<Client>) {
    const NAME: &str = "hub";
    let place = match hub_place(context) {
        Ok(Some(place)) => place,
        Ok(None) => {
            let what = "the local one, which does not run: it starts when something needs it";
            return (vec![Check::fine(NAME, what)], None);
        }
        Err(error) => return (vec![Check::failed(NAME, &error)], None),
    };
    // Whether it serves is asked without a name; any key will do.
    let has_key = identity.is_some();
    let client = match client(place, identity, context.token_at_hand().cloned()) {
        Ok(client) => client,
        Err(error) => return (vec![Check::failed(NAME, &error)], None),
    };
    let health = match client.health() {
        Ok(health) => health,
        Err(error) => {
            let failed = Check::failed(NAME, &error.into());
            return (
                vec![
                    failed.mended_by("git parler whoami tells which hub is meant, and git parler connect chooses one"),
                ],
                None,
            );
        }
    };
    let what = format!(
        "{} serves, version {}, id {}",
        client.address(),
        health.version,
        health.hub
    );
    let mut checks = vec![Check::fine(NAME, what)];
    checks.extend(health.date.as_deref().and_then(clock));
    (checks, has_key.then_some(client))
}

/// Where the hub that is meant listens, and what it asks of its own user; none for a local one that does not run.
fn hub_place(context: &Context) -> Result<Option<(HubAddress, Option<String>)>> {
    match context.hub()? {
        HubChoice::At(address) => {
            require_secure(&address, |authority| context.allows_plain_http(authority))?;
            Ok(Some((address, None)))
        }
        HubChoice::Local => match LocalHub::of(&context.home).status() {
            Ok(record) => Ok(Some((record.address()?, Some(record.secret)))),
            Err(error) if error.kind == ErrorKind::Negative => Ok(None),
            Err(error) => Err(error),
        },
    }
}

fn client(
    (address, secret): (HubAddress, Option<String>),
    identity: Option<Identity>,
    token: Option<AccessToken>,
) -> Result<Client> {
    let identity = match identity {
        Some(identity) => identity,
        // Never shown to the hub: whether it serves is asked without a session.
        None => Identity {
            key: Arc::new(AgentKey::from_random([0; 32])),
            name: "doctor".parse().map_err(Error::fatal)?,
            role: None,
        },
    };
    let options = ClientOptions {
        address,
        identity,
        secret,
        token,
        // A session of a moment: nothing of it is written.
        sessions: Box::new(NoSessionCache),
        deadlines: DEADLINES,
    };
    Ok(Client::new(options)?)
}

/// What the token may do by which this process speaks, if it is one.
fn token(context: &Context, client: &Client) -> Option<Check> {
    const NAME: &str = "token";
    context.token_at_hand()?;
    Some(match client.describe_token() {
        Ok(token) => {
            let until = text::local_time(token.expires_at);
            Check::fine(NAME, format!("may {}, until {until}", text::grants(&token.rooms)))
        }
        Err(error) => Check::failed(NAME, &error.into()),
    })
}

/// This machine's clock against the hub's.
fn clock(date: &str) -> Option<Check> {
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    let skew = Timestamp::now().as_second() - theirs.as_second();
    Some(match skew.abs() {
        seconds if seconds.unsigned_abs() <= MAX_CLOCK_SKEW.as_secs() => Check::fine("clock", "agrees with the hub's"),
        seconds => {
            let way = if skew > 0 { "ahead of" } else { "behind" };
            Check::new("clock", Status::Warning, format!("{seconds} s {way} the hub's"))
                .mended_by("set the clock of whichever is wrong, best by NTP")
        }
    })
}

fn room(context: &Context, client: Option<&Client>) -> Check {
    const NAME: &str = "room";
    let room = match context.room_if_any() {
        Ok(Some(room)) => room,
        Ok(None) => return Check::fine(NAME, "none is chosen: verbs need --room ROOM"),
        Err(error) => return Check::failed(NAME, &error),
    };
    let Some(client) = client else {
        return Check::fine(NAME, format!("'{room}', which cannot be asked for now"));
    };
    match head(client, &room) {
        Ok(head) => Check::fine(NAME, format!("'{room}', head {head}")),
        Err(error) => Check::failed(NAME, &error),
    }
}

fn head(client: &Client, room: &RoomName) -> Result<String> {
    let from = ReadFrom {
        limit: Some(0),
        ..ReadFrom::default()
    };
    let page = client.messages(room, &from).map_err(|error| in_room(room, error))?;
    Ok(page.head.seq.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_however_they_are_built() {
        assert_eq!(numbers("2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(numbers("2.47.3"), Some((2, 47)));
        assert_eq!(numbers("2.50.0.rc1.windows.1"), Some((2, 50)));
        assert_eq!(numbers("three"), None);
        assert!(numbers("2.9.1").unwrap() < OLDEST_GIT);
    }

    #[test]
    fn a_clock_that_is_far_off_is_told_with_its_side() {
        let at = |seconds: i64| {
            let moment = Timestamp::from_second(Timestamp::now().as_second() + seconds).unwrap();
            let date = moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
            clock(&date).unwrap()
        };
        assert_eq!(at(0).status, Status::Fine);
        assert_eq!(at(-30).status, Status::Fine);
        for (seconds, way) in [(3600, "behind"), (-3600, "ahead of")] {
            assert_eq!(at(seconds).status, Status::Warning);
            assert!(at(seconds).what.contains(way), "{}", at(seconds).what);
        }
        assert!(clock("yesterday").is_none());
    }
}
