//! The place where the demo is played: a temporary directory with an origin, two clones of it, a hub, and homes and
//! programs of its own. What is here never touches the user's own agents, and all of it is removed, hub first.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

use super::Source;
use super::interrupt::Interrupt;
use super::programs::{Agent, Programs, Said};
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::local_hub::LocalHub;

/// What alice adds to the repository.
const WORK: &str = "\
# The basket

A basket outlives the session: it is kept under the customer's id
and comes back when they sign in again.
";
/// Files of the sample repository.
const SAMPLE: [(&str, &str); 2] = [
    ("README.md", "# A small shop\n\nSells one thing well.\n"),
    (
        "checkout.txt",
        "1. look into the basket\n2. ask for the address\n3. take the money\n",
    ),
];
/// Git's configuration on the stage. No hook runs, nothing happens behind the scenes.
const GIT_CONFIG: &str = "\
[core]
\thooksPath = /dev/null
\tfsmonitor = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[advice]
\tdetachedHead = false
";

/// The stage. Dropping it stops the hub and removes everything.
pub(super) struct Stage {
    programs: Programs,
    hub: LocalHub,
    root: Option<TempDir>,
}

impl Stage {
    /// Builds it around what is shown; without a source, around a sample.
    pub(super) fn build(environment: &Environment, source: Option<&Source>) -> Result<Self> {
        // First of all, so that nothing is left behind by a signal during the building.
        let interrupt = Interrupt::watch()?;
        let root = tempfile::Builder::new()
            .prefix("parler-demo-")
            .tempdir()
            .map_err(|error| Error::io("make a temporary directory", &error))?;
        let git = environment
            .git_program()
            .ok_or_else(|| Error::fatal("there is no git on PATH"))?;
        let own = Environment {
            parler_home: Some(root.path().join("parler")),
            agent: None,
            room: None,
            hub: None,
            ..environment.clone()
        };
        let programs = Programs {
            git: git.path().to_owned(),
            environment: variables(environment, root.path(), git.path()),
            interrupt,
        };
        let stage = Self {
            programs,
            hub: LocalHub::of(&Home::of(&own)?),
            root: Some(root),
        };
        stage.make_programs(environment)?;
        stage.write("home/.gitconfig", GIT_CONFIG.as_bytes())?;
        stage.make_origin(source)?;
        for (name, full_name) in [("alice", "Alice"), ("bob", "Bob")] {
            stage.make_clone(name, full_name)?;
        }
        // The hub is started here, not by the first command, so that a signal finds it either running or not there.
        stage.hub.ensure(&own)?;
        stage.programs.interrupt.check()?;
        Ok(stage)
    }

    fn root(&self) -> &Path {
        self.root
            .as_ref()
            .map_or_else(|| Path::new("/nonexistent"), TempDir::path)
    }

    /// Links of both names to this program, first on the agents' PATH: only one of them may have been built.
    fn make_programs(&self, environment: &Environment) -> Result<()> {
        let executable = environment
            .executable
            .as_deref()
            .ok_or_else(|| Error::fatal("the demo cannot tell where its own program is"))?;
        let directory = self.root().join("bin");
        let link = |name: &str| symlink(executable, directory.join(name));
        fs::create_dir(&directory)
            .and_then(|()| link("git-parler"))
            .and_then(|()| link("git-remote-parler"))
            .map_err(|error| Error::io("link the programs", &error))
    }

    fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let path = self.root().join(path);
        let parent = path.parent().unwrap_or(&path);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, content))
            .map_err(|error| Error::io(format_args!("write {}", path.display()), &error))
    }

    /// An origin with one branch, main. Borrows the source's objects instead of copying them, however many there are,
    /// and takes over neither its configuration nor its hooks.
    fn make_origin(&self, source: Option<&Source>) -> Result<()> {
        let format = source.map_or("sha1".to_owned(), |source| source.format.to_string());
        self.git(
            self.root(),
            &[
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                &format!("--object-format={format}"),
                "origin.git",
            ],
        )?;
        let origin = self.root().join("origin.git");
        let Some(source) = source else {
            return self.make_sample();
        };
        let mut objects = source
            .objects
            .canonicalize()
            .unwrap_or_else(|_| source.objects.clone())
            .into_os_string()
            .into_encoded_bytes();
        objects.push(b'\n');
        self.write("origin.git/objects/info/alternates", &objects)?;
        if let Some(shallow) = &source.shallow {
            self.write("origin.git/shallow", shallow)?;
        }
        self.git(&origin, &["update-ref", "refs/heads/main", &source.commit.to_string()])
    }

    fn make_sample(&self) -> Result<()> {
        self.git(self.root(), &["clone", "--quiet", "origin.git", "sample"])?;
        let sample = self.root().join("sample");
        self.name(&sample, "Sample")?;
        self.git(&sample, &["switch", "--quiet", "-C", "main"])?;
        for (name, content) in SAMPLE {
            self.write(&format!("sample/{name}"), content.as_bytes())?;
            self.git(&sample, &["add", name])?;
            self.git(&sample, &["commit", "--quiet", "-m", &format!("Add {name}")])?;
        }
        self.git(&sample, &["push", "--quiet", "origin", "main"])
    }

    /// A clone with only the files of the top directory checked out: enough to work in, and quick for large trees.
    fn make_clone(&self, name: &str, full_name: &str) -> Result<()> {
        self.git(
            self.root(),
            &["clone", "--quiet", "--shared", "--sparse", "origin.git", name],
        )?;
        self.name(&self.root().join(name), full_name)
    }

    fn name(&self, clone: &Path, full_name: &str) -> Result<()> {
        self.git(clone, &["config", "user.name", full_name])?;
        self.git(
            clone,
            &[
                "config",
                "user.email",
                &format!("{}@demo.invalid", full_name.to_lowercase()),
            ],
        )
    }

    fn git(&self, directory: &Path, arguments: &[&str]) -> Result<()> {
        let command: Vec<&str> = ["git"].into_iter().chain(arguments.iter().copied()).collect();
        self.programs.run(directory, &command)?.must_succeed()
    }

    /// One of the two agents.
    pub(super) fn agent(&self, name: &str) -> Result<Agent> {
        Ok(Agent {
            name: name.to_owned(),
            directory: self.root().join(name),
        })
    }

    /// Runs a command as an agent.
    pub(super) fn run(&self, agent: &Agent, command: &[&str]) -> Result<Said> {
        self.programs.run(&agent.directory, command)
    }

    /// Runs a command that is not part of the show, and requires success.
    pub(super) fn quiet(&self, agent: &Agent, command: &[&str]) -> Result<Said> {
        let said = self.run(agent, command)?;
        said.must_succeed()?;
        Ok(said)
    }

    /// Puts a new file into an agent's clone, ready to be committed.
    pub(super) fn write_work(&self, agent: &Agent) -> Result<()> {
        let mut names = (1..).map(|number| {
            if number == 1 {
                "basket.md".to_owned()
            } else {
                format!("basket-{number}.md")
            }
        });
        let is_free = |name: &String| fs::symlink_metadata(agent.directory.join(name)).is_err();
        let name = names.find(is_free).unwrap_or_default();
        self.write(&format!("{}/{name}", agent.name), WORK.as_bytes())?;
        // The repository may ignore such files.
        self.git(&agent.directory, &["add", "--force", "--", &name])
    }

    /// What a review must leave alone: where HEAD is, and what differs in index and work tree.
    pub(super) fn snapshot(&self, agent: &Agent) -> Result<String> {
        let head = self
            .quiet(agent, &["git", "rev-parse", "--symbolic-full-name", "HEAD"])?
            .text;
        let commit = self.quiet(agent, &["git", "rev-parse", "HEAD"])?.text;
        let status = self.quiet(agent, &["git", "status", "--porcelain=v1"])?.text;
        Ok(format!("{head}{commit}{status}"))
    }

    /// Stops the hub and removes everything.
    pub(super) fn strike(mut self) -> Result<()> {
        self.clean_up()
    }

    fn clean_up(&mut self) -> Result<()> {
        let Some(root) = self.root.take() else { return Ok(()) };
        let stopped = self.hub.stop().map(|_| ());
        let removed = root
            .close()
            .map_err(|error| Error::io("remove the demo's directory", &error));
        stopped.and(removed)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // On this way out there is an error to report already.
        let _ = self.clean_up();
    }
}

/// The environment of everything on the stage: the user's, without what belongs to git or to us.
fn variables(environment: &Environment, root: &Path, git: &Path) -> Vec<(OsString, OsString)> {
    let dropped = |name: &str| name.starts_with("PARLER_") || name.starts_with("XDG_") || name.starts_with("LC_");
    let mut variables: Vec<_> = environment
        .without_git()
        .filter(|(name, _)| !dropped(&name.to_string_lossy()))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut path = root.join("bin").into_os_string();
    if let Some(rest) = environment.filled("PATH") {
        path.push(":");
        path.push(rest);
    }
    let set: [(&str, OsString); 11] = [
        ("PATH", path),
        ("HOME", root.join("home").into()),
        ("PARLER_HOME", root.join("parler").into()),
        ("PARLER_GIT", git.into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_CONFIG_GLOBAL", root.join("home/.gitconfig").into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("GIT_PAGER", "cat".into()),
        ("GIT_EDITOR", "false".into()),
        ("GIT_ADVICE", "0".into()),
        ("LC_ALL", "C.UTF-8".into()),
    ];
    variables.retain(|(name, _)| set.iter().all(|(own, _)| name != own));
    variables.extend(set.map(|(name, value)| (name.into(), value)));
    variables
}
