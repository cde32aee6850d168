//! Somebody who stands somewhere and calls programs: an environment and a directory.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Arguments, GitCounter, HubProcess, Output, Repository, Running, World};

/// An agent of a world, at a place.
#[derive(Debug, Clone)]
pub struct Agent<'w> {
    world: &'w World,
    directory: PathBuf,
    changes: BTreeMap<OsString, Option<OsString>>,
}

impl<'w> Agent<'w> {
    pub(crate) fn new(world: &'w World, directory: PathBuf) -> Self {
        Self {
            world,
            directory,
            changes: BTreeMap::new(),
        }
    }

    /// The same agent in another directory.
    pub fn within(&self, directory: impl AsRef<Path>) -> Self {
        Self {
            directory: self.directory.join(directory),
            ..self.clone()
        }
    }

    /// The same agent in this repository.
    pub fn at(&self, repository: &Repository<'_>) -> Self {
        self.within(repository.path())
    }

    /// The same agent with a variable set.
    pub fn with(&self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut changed = self.clone();
        changed.changes.insert(name.into(), Some(value.as_ref().to_owned()));
        changed
    }

    /// The same agent with a variable unset.
    pub fn without(&self, name: &str) -> Self {
        let mut changed = self.clone();
        changed.changes.insert(name.into(), None);
        changed
    }

    /// The same agent, for whom `parler::room/NAME` means a room of this hub.
    pub fn on(&self, hub: &HubProcess) -> Self {
        self.with("PARLER_HUB", hub.url())
    }

    /// The same agent, whose git children are noted.
    pub fn counted_by(&self, counter: &GitCounter) -> Self {
        self.with("PARLER_GIT", counter.program())
    }

    /// Where it stands.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its directory of keys and state.
    pub fn parler_home(&self) -> PathBuf {
        match self.changes.get(OsStr::new("PARLER_HOME")) {
            Some(Some(home)) => home.into(),
            _ => self.world.parler_home(),
        }
    }

    /// A command that has this agent's environment and directory.
    pub fn command(&self, program: impl AsRef<OsStr>, arguments: impl Arguments) -> Command {
        let mut environment = self.world.environment().clone();
        for (name, value) in &self.changes {
            match value {
                Some(value) => environment.insert(name.clone(), value.clone()),
                None => environment.remove(name),
            };
        }
        let mut command = Command::new(program);
        command
            .args(arguments.list())
            .current_dir(&self.directory)
            .env_clear()
            .envs(environment);
        command
    }

    /// Starts any program.
    #[track_caller]
    pub fn start(&self, program: impl AsRef<OsStr>, arguments: impl Arguments) -> Running {
        Running::start(&mut self.command(program, arguments), b"")
    }

    /// Runs any program.
    #[track_caller]
    pub fn run(&self, program: impl AsRef<OsStr>, arguments: impl Arguments) -> Output {
        self.start(program, arguments).wait()
    }

    /// Runs any program with this on its standard input.
    #[track_caller]
    pub fn feed(&self, program: impl AsRef<OsStr>, arguments: impl Arguments, input: &[u8]) -> Output {
        Running::start(&mut self.command(program, arguments), input).wait()
    }

    /// Runs git.
    #[track_caller]
    pub fn git(&self, arguments: impl Arguments) -> Output {
        self.run("git", arguments)
    }

    /// Starts git.
    #[track_caller]
    pub fn start_git(&self, arguments: impl Arguments) -> Running {
        self.start("git", arguments)
    }

    /// Runs `git parler`, the way people do: git finds the program.
    #[track_caller]
    pub fn parler(&self, arguments: impl Arguments) -> Output {
        self.start_parler(arguments).wait()
    }

    /// Starts `git parler`.
    #[track_caller]
    pub fn start_parler(&self, arguments: impl Arguments) -> Running {
        let mut all: Vec<OsString> = vec!["parler".into()];
        all.extend(arguments.list());
        self.start_git(all)
    }
}
