//! The builder of every git child process: the only place that starts git.
//!
//! A child has one of two sides. On the push side it sees git's own environment (`git -c`, an object directory, a
//! quarantine). On the import side, where bytes from outside are handled, it sees none of that and no configuration
//! but the repository's. Output is always captured and bounded, waiting is bounded, a child never outlives its handle.
//! No shell, and nothing of a child's output reaches a terminal unescaped, the states of git's meters aside.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

mod child;
mod ended;
mod environment;
mod living;
mod message;
mod meter_line;
#[cfg(target_os = "linux")]
pub(crate) mod orphans;
mod stderr;
mod trace;

pub use child::GitChild;
pub use ended::{Ended, was_ended};
pub use environment::GitEnvironment;
pub use living::{Leash, end_children};
pub use message::one_line;
pub(crate) use message::whole_line;
#[cfg(test)]
pub(crate) use meter_line::is_meter;
use stderr::Onlookers;
use trace::ChildTrace;

use crate::terminal::Terminal;

/// Held by many while they start children; by one alone while its child is to hold a file of ours, or so that nobody starts
/// another.
static STARTING: RwLock<()> = RwLock::new(());

/// While the result lives no git child is started with a file of ours that another child could get as well: for whoever starts
/// a program that is none of git's.
pub fn starting() -> impl Drop {
    STARTING.read().unwrap_or_else(PoisonError::into_inner)
}

/// Says which process started a child that may go on without it.
const PARENT: &str = "PARLER_CHILD_OF";

/// Longest wait for a child that answers a question or moves refs.
pub const QUERY_PATIENCE: Duration = Duration::from_secs(120);
/// Longest wait for a child that makes or takes in a pack. Time spent in waiting for the network does not count.
pub const BULK_PATIENCE: Duration = Duration::from_secs(3600);
/// Most that a child may answer on stdout when the answer is kept in memory.
pub const MAX_ANSWER_BYTES: usize = 256 << 20; // 256 MiB

/// Settings of the import side: nothing there runs a program that a configuration names, or tidies up behind our back.
const IMPORT_SETTINGS: [&str; 4] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
];
/// The whole of git's environment on the import side, but for where it writes a trace.
const IMPORT_ENVIRONMENT: [(&str, &str); 9] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("LC_ALL", "C"),
];

/// Grafts rewrite history for one repository alone; what we make and check is for others. A path that cannot exist: git
/// says something about a file that it finds, even an empty one.
const NO_GRAFTS: (&str, &str) = ("GIT_GRAFT_FILE", "/dev/null/grafts");

/// Where the git program is. Chosen once, by the program's edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitProgram(PathBuf);

impl GitProgram {
    /// The program at this path.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The first executable `git` in a search path as `$PATH` writes it, if there is one. An absolute program is
    /// started without a search, and never from the directory we happen to be in.
    pub fn find(search_path: &OsStr) -> Option<Self> {
        std::env::split_paths(search_path)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join("git"))
            .find(|path| {
                path.metadata()
                    .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
            })
            .map(Self)
    }

    /// The program's path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Which environment a child sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The environment that git gave us.
    Push,
    /// A clean one: no configuration but the repository's, no network, no prompts, no replace refs. Where git writes a
    /// trace is as in the one that git gave us.
    Import,
}

/// The git program with the environment its children are given.
#[derive(Debug, Clone)]
pub struct Git {
    program: GitProgram,
    environment: Arc<GitEnvironment>,
    meters: Terminal,
    traces: Terminal,
    leash: Option<Leash>,
}

impl Git {
    /// Git as this program, with this environment.
    pub fn new(program: GitProgram, environment: GitEnvironment) -> Self {
        Self {
            program,
            environment: Arc::new(environment),
            meters: Terminal::none(),
            traces: Terminal::none(),
            leash: None,
        }
    }

    /// The same git, whose children somebody else can end, but for those that write refs.
    #[must_use]
    pub fn on_leash(self, leash: Leash) -> Self {
        let leash = Some(leash);
        Self { leash, ..self }
    }

    /// The same git, whose children that make or take in a pack show their meters here.
    #[must_use]
    pub fn with_meters(self, meters: Terminal) -> Self {
        Self { meters, ..self }
    }

    /// The same git. What its children trace to stderr, because the environment has them do so, is shown here.
    #[must_use]
    pub fn with_traces(self, traces: Terminal) -> Self {
        let traces = if self.environment.has_visible_traces() {
            traces
        } else {
            Terminal::none()
        };
        Self { traces, ..self }
    }

    /// Where meters are shown, if anywhere.
    pub fn meters(&self) -> &Terminal {
        &self.meters
    }

    /// The environment that push-side children see.
    pub fn environment(&self) -> &GitEnvironment {
        &self.environment
    }

    /// A command that needs no repository, or finds it by itself.
    pub fn command(&self, side: Side, name: &'static str) -> GitCommand {
        let mut command = Command::new(self.program.path());
        command.env_clear();
        match side {
            Side::Push => {
                command.envs(self.environment.all());
                // Messages are read by us (their first word decides what we show), so they must not be translated.
                command.env("LC_ALL", "C");
                if self.traces.is_there() {
                    // Lines of a trace are known by the time before them.
                    environment::TIMELESS_TRACES
                        .iter()
                        .for_each(|name| _ = command.env_remove(name));
                }
            }
            Side::Import => {
                command
                    .envs(self.environment.without_git())
                    .envs(self.environment.of_traces())
                    .envs(IMPORT_ENVIRONMENT);
                for setting in IMPORT_SETTINGS {
                    command.args(["-c", setting]);
                }
            }
        }
        command.env(NO_GRAFTS.0, NO_GRAFTS.1);
        GitCommand {
            name,
            named: false,
            command,
            limits: ChildLimits::default(),
            patience: QUERY_PATIENCE,
            answer_bytes: MAX_ANSWER_BYTES,
            meters: self.meters.clone(),
            onlookers: Onlookers {
                meters: Terminal::none(),
                traces: self.traces.clone(),
            },
            shared: None,
            leash: self.leash.clone(),
        }
    }

    /// A command on the repository whose git directory this is.
    pub fn command_in(&self, side: Side, git_dir: &Path, name: &'static str) -> GitCommand {
        let mut git = self.command(side, name);
        let mut option = OsString::from("--git-dir=");
        option.push(git_dir);
        git.command.arg(option);
        git
    }
}

/// What the kernel allows a child. Linux only; elsewhere a child is bounded in waiting and output alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChildLimits {
    /// Most private memory, in bytes. Not address space: git maps packs, and mapped files cost nothing.
    pub data_bytes: Option<u64>,
    /// Most processor time.
    pub cpu: Option<Duration>,
}

/// One git command that has not been started.
#[derive(Debug)]
pub struct GitCommand {
    name: &'static str,
    named: bool,
    command: Command,
    limits: ChildLimits,
    patience: Duration,
    answer_bytes: usize,
    meters: Terminal,
    onlookers: Onlookers,
    shared: Option<OwnedFd>,
    leash: Option<Leash>,
}

impl GitCommand {
    /// `-c setting`, from a constant: text from outside never becomes configuration.
    pub fn setting(mut self, setting: &'static str) -> Self {
        debug_assert!(!self.named, "settings stand before the command's name");
        self.command.args(["-c", setting]);
        self
    }

    /// Adds an argument after the command's name.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.put_name();
        self.command.arg(arg);
        self
    }

    /// Adds arguments after the command's name.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.put_name();
        self.command.args(args);
        self
    }

    /// Sets a variable of the child's environment.
    pub fn env(mut self, name: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs in this directory.
    pub fn current_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Limits memory and processor time.
    pub fn limits(mut self, limits: ChildLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How long to wait for the child in all; [`QUERY_PATIENCE`] unless said.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How much the child may answer on stdout, in bytes; [`MAX_ANSWER_BYTES`] unless said.
    pub fn answer_bytes(mut self, most: usize) -> Self {
        self.answer_bytes = most;
        self
    }

    /// Has the child show meters, if anybody looks on: adds `loud` to its arguments then, `quiet` otherwise.
    pub(crate) fn metered(mut self, loud: &[&str], quiet: &[&str]) -> Self {
        if self.meters.is_there() {
            self.onlookers.meters = self.meters.clone();
            self.args(loud)
        } else {
            self.args(quiet)
        }
    }

    /// Lets the child be known as ours when it goes on without us.
    pub(crate) fn known_as_ours(self) -> Self {
        self.env(PARENT, std::process::id().to_string())
    }

    /// Has the child hold this open file as well, with the lock of it that the kernel knows, until both have ended.
    pub(crate) fn sharing(mut self, file: OwnedFd) -> Self {
        self.shared = Some(file);
        self
    }

    /// Starts the child with pipes to all three streams. Its limits hold before it is fed a byte.
    pub fn spawn(mut self) -> Result<GitChild, GitError> {
        self.put_name();
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let trace = ChildTrace::of(&self.command);
        let child = self.start().map_err(|source| GitError::Spawn {
            program: self.command.get_program().into(),
            source,
        })?;
        GitChild::new(
            self.name,
            child,
            self.limits,
            self.patience,
            self.answer_bytes,
            self.onlookers,
            trace,
        )
    }

    /// Runs to the end without input. The child must succeed.
    pub fn run(self) -> Result<Vec<u8>, GitError> {
        self.run_with(&[])
    }

    /// Runs to the end with this input, fed while the answer is read. The child must succeed.
    pub fn run_with(self, input: &[u8]) -> Result<Vec<u8>, GitError> {
        let mut child = self.spawn()?;
        child.feed(input)?;
        child.finish()
    }

    /// Runs to the end with this input and gives the exit status beside the answer, for commands that answer by status.
    pub fn run_for_status(self, input: &[u8]) -> Result<(ExitStatus, Vec<u8>), GitError> {
        let mut child = self.spawn()?;
        child.feed(input)?;
        child.finish_with_status()
    }

    fn start(&mut self) -> io::Result<Child> {
        let Some(file) = self.shared.take() else {
            let _others = STARTING.read().unwrap_or_else(PoisonError::into_inner);
            return self.spawn_known();
        };
        let _alone = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        // A plain duplicate is what the next child gets, whichever that is.
        let _inherited = rustix::io::dup(file)?;
        self.spawn_known()
    }

    fn spawn_known(&mut self) -> io::Result<Child> {
        let child = self.command.spawn()?;
        living::started(self.name, &child, self.leash.as_ref());
        Ok(child)
    }

    fn put_name(&mut self) {
        if !self.named {
            self.named = true;
            self.command.arg(self.name);
        }
    }
}

/// Why a git child did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// There is no such program, or it cannot be started.
    #[error("cannot run {}: {source}", program.display())]
    Spawn {
        /// The program's path.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It ended with a failure, or by a signal that is its own doing; the message is git's own, one escaped line.
    #[error("git {command}: {message}")]
    Failed {
        /// The git command.
        command: &'static str,
        /// The exit code; none when a signal ended it.
        code: Option<i32>,
        /// The line of stderr that tells most.
        message: String,
    },
    /// Somebody else ended it.
    #[error("git {command} was ended by {source}")]
    Ended {
        /// The git command.
        command: &'static str,
        /// The signal.
        source: Ended,
    },
    /// It was waited for as long as we wait, and was ended.
    #[error("git {command} did not finish within {} s", patience.as_secs())]
    TooSlow {
        /// The git command.
        command: &'static str,
        /// How long it was waited for.
        patience: Duration,
    },
    /// It answered more than we take, and was ended.
    #[error("git {command} answered more than {most} bytes")]
    TooMuchOutput {
        /// The git command.
        command: &'static str,
        /// The cap.
        most: usize,
    },
    /// It succeeded and its answer makes no sense.
    #[error("git {command} answered {answer:?}")]
    Answer {
        /// The git command.
        command: &'static str,
        /// The beginning of the answer.
        answer: String,
    },
    /// A pipe or the process table failed.
    #[error("git {command}: {source}")]
    Pipe {
        /// The git command.
        command: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl GitError {
    /// An answer that makes no sense, cut to what can be shown.
    pub(crate) fn answer(command: &'static str, answer: &[u8]) -> Self {
        Self::Answer {
            command,
            answer: one_line(&answer[..answer.len().min(message::MAX_LINE_BYTES)]),
        }
    }
}
