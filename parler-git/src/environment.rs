//! What the process was started with: the only place that reads environment variables, the arguments, the working
//! directory, the machine's and the user's name. Everything else is given an [`Environment`].

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use etcetera::base_strategy::{BaseStrategy, Xdg};
use git_remote_parler::git::{GitEnvironment, GitProgram};
use rustix::fs::{Access, access};

use crate::job_identity::JobIdentity;
use crate::token::TokenVariables;

/// Directories that a user's programs share, before anything of ours is appended.
#[derive(Debug, Clone)]
pub(crate) struct UserDirectories {
    pub(crate) config: PathBuf,
    pub(crate) state: PathBuf,
    pub(crate) data: PathBuf,
}

/// The surroundings of one run.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// The name the program was called by, and its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// Where the program was called.
    pub(crate) directory: PathBuf,
    /// The file of the program itself, if the system tells.
    pub(crate) executable: Option<PathBuf>,
    /// The directory that replaces the user's directories: `PARLER_HOME`.
    pub(crate) parler_home: Option<PathBuf>,
    /// The user's directories by XDG; none where the user has no home.
    pub(crate) directories: Option<UserDirectories>,
    /// `PARLER_AGENT`
    pub(crate) agent: Option<String>,
    /// `PARLER_ROOM`
    pub(crate) room: Option<String>,
    /// `PARLER_HUB`
    pub(crate) hub: Option<String>,
    /// `PARLER_TIMEOUT`
    pub(crate) timeout: Option<String>,
    /// The user's login name.
    pub(crate) user: String,
    /// The machine's name, without domain.
    pub(crate) host: String,
    /// `PARLER_TOKEN`, `PARLER_TOKEN_FILE`
    pub(crate) token: TokenVariables,
    /// What this job can show of who it is.
    pub(crate) identity: JobIdentity,
    /// Every variable, those with secrets of a job aside: no child inherits them.
    pub(crate) variables: Vec<(OsString, OsString)>,
}

impl Environment {
    /// Reads the process.
    pub(crate) fn from_process() -> std::io::Result<Self> {
        let variables: Vec<_> = std::env::vars_os().collect();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let directories = Xdg::new().ok().map(|base| UserDirectories {
            config: base.config_dir(),
            state: base.state_dir().unwrap_or_else(|| base.data_dir()),
            data: base.data_dir(),
        });
        Ok(Self {
            arguments: std::env::args_os().collect(),
            directory: std::env::current_dir()?,
            executable: std::env::current_exe().ok(),
            // The account's name, not $USER: that is missing in containers and services, and an agent must not change
            // its name with the way it is started.
            user: whoami::username().unwrap_or_else(|_| "user".to_owned()),
            ..Self::of(variables, directories, host)
        })
    }

    /// Whether this process was started as a coding agent's hook, of which no failure may be seen.
    pub(crate) fn is_of_a_hook() -> bool {
        let mut words = std::env::args_os().skip(1);
        // To install hooks is no hook's doing.
        words.next().is_some_and(|verb| verb == "hook") && words.all(|word| word != "install")
    }

    /// The environment of these variables; the rest is neutral.
    fn of(mut variables: Vec<(OsString, OsString)>, directories: Option<UserDirectories>, host: String) -> Self {
        let token = TokenVariables::take_from(&mut variables);
        let identity = JobIdentity::take_from(&mut variables);
        let text = |name: &str| {
            let value = lookup(&variables, name)?.to_string_lossy().into_owned();
            (!value.is_empty()).then_some(value)
        };
        let parler_home = lookup(&variables, "PARLER_HOME")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        Self {
            arguments: Vec::new(),
            directory: PathBuf::from("/"),
            executable: None,
            agent: text("PARLER_AGENT"),
            room: text("PARLER_ROOM"),
            hub: text("PARLER_HUB"),
            timeout: text("PARLER_TIMEOUT"),
            parler_home,
            directories,
            token,
            identity,
            user: "user".to_owned(),
            host: host.split('.').next().unwrap_or_default().to_owned(),
            variables,
        }
    }

    /// A variable's value.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        lookup(&self.variables, name)
    }

    /// A variable's value where it is set to something.
    pub(crate) fn filled(&self, name: &str) -> Option<&OsStr> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// The git program: `PARLER_GIT`, else the first of the search path.
    pub(crate) fn git_program(&self) -> Option<GitProgram> {
        match self.filled("PARLER_GIT") {
            Some(path) => Some(GitProgram::at(self.directory.join(path))),
            None => GitProgram::find(self.variable("PATH")?),
        }
    }

    /// The directories in which programs are looked for.
    pub(crate) fn search_path(&self) -> impl Iterator<Item = PathBuf> {
        let directories: Vec<_> = self
            .variable("PATH")
            .map(|path| std::env::split_paths(path).collect())
            .unwrap_or_default();
        // An empty entry is the working directory: nothing is to be found by chance.
        directories.into_iter().filter(|directory| directory.is_absolute())
    }

    /// The search path of a program that stands elsewhere: none of it is looked up from there. None: nothing is left.
    pub(crate) fn absolute_path(&self) -> Option<OsString> {
        let path = std::env::join_paths(self.search_path()).ok();
        // An empty one would be the working directory.
        path.filter(|path| !path.is_empty())
    }

    /// The file of a program on the search path.
    pub(crate) fn program(&self, name: &str) -> Option<PathBuf> {
        let candidates = self.search_path().map(|directory| directory.join(name));
        let is_program = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
        candidates.into_iter().find(is_program)
    }

    /// Where what is to be gone again soon is put: `TMPDIR`.
    pub(crate) fn temporary_directory(&self) -> PathBuf {
        let named = self.filled("TMPDIR");
        named.map_or_else(|| PathBuf::from("/tmp"), |path| self.directory.join(path))
    }

    /// The environment for git children.
    pub(crate) fn for_git(&self) -> GitEnvironment {
        GitEnvironment::new(self.variables.iter().cloned())
    }

    /// Every variable that is none of git's: for programs that must not take this repository for theirs.
    pub(crate) fn without_git(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        let of_git = |name: &OsStr| name.as_encoded_bytes().starts_with(b"GIT_");
        self.variables
            .iter()
            .map(|(name, value)| (name.as_os_str(), value.as_os_str()))
            .filter(move |(name, _)| !of_git(name))
    }
}

fn lookup<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    variables
        .iter()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.as_os_str())
}

#[cfg(test)]
impl Environment {
    /// An environment of these variables, for tests.
    pub(crate) fn for_test(variables: &[(&str, &str)]) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)))
            .collect();
        Self {
            user: "ada".to_owned(),
            ..Self::of(variables, None, "engine.example".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_as_good_as_none() {
        let environment = Environment::for_test(&[("PARLER_AGENT", ""), ("PARLER_ROOM", "build"), ("PARLER_HOME", "")]);
        assert_eq!(environment.agent, None);
        assert_eq!(environment.room.as_deref(), Some("build"));
        assert_eq!(environment.parler_home, None);
        assert_eq!(environment.host, "engine");
    }

    #[test]
    fn programs_beside_git_do_not_inherit_its_repository() {
        let environment = Environment::for_test(&[("PATH", "/bin"), ("GIT_DIR", "x"), ("GITHUB_RUN", "1")]);
        let kept: Vec<_> = environment.without_git().map(|(name, _)| name.to_owned()).collect();
        assert_eq!(kept, ["PATH", "GITHUB_RUN"]);
    }
}
