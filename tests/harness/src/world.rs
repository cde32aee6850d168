//! One test's world: a temporary directory that holds homes, settings, repositories and the built programs, and the
//! processes that were started in it. When it is dropped, nothing of it is left.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::{end_process, started_with_mention_of};
use crate::{Agent, Arguments, Repository, signals};

/// What a user's git is set up with, and nothing else.
const GIT_CONFIG: &str = "[user]\n\tname = Somebody\n\temail = somebody@example.com\n[init]\n\tdefaultBranch = main\n";

/// Where git finds the world's repositories under an address that could be another machine's.
const AFAR: &str = "https://git.example/";

/// A world of its own for one test.
#[derive(Debug)]
pub struct World {
    root: TempDir,
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

impl World {
    /// A world with this `git-parler`, and the helper that was built beside it; where there is none it plays that too.
    pub fn new(program: impl AsRef<Path>) -> Self {
        signals::hand_down_as_usual();
        let root = tempfile::Builder::new()
            .prefix("parler-")
            .tempdir()
            .expect("a temporary directory");
        let path = root.path().canonicalize().expect("just made");
        for directory in ["bin", "home", "parler", "tmp"] {
            fs::create_dir(path.join(directory)).expect("just made");
        }
        let program = program.as_ref().to_owned();
        let beside = Some(program.with_file_name("git-remote-parler")).filter(|helper| helper.exists());
        for (name, program) in [
            ("git-parler", &program),
            ("git-remote-parler", beside.as_ref().unwrap_or(&program)),
        ] {
            symlink(program, path.join("bin").join(name)).expect("an empty directory");
        }
        let afar = format!("[url \"{}/\"]\n\tinsteadOf = {AFAR}\n", path.display());
        fs::write(path.join("home/.gitconfig"), format!("{GIT_CONFIG}{afar}")).expect("just made");
        let environment = environment(&path);
        Self {
            root,
            program,
            environment,
        }
    }

    /// The directory that everything is in.
    pub fn path(&self) -> PathBuf {
        self.root.path().canonicalize().expect("kept until the world ends")
    }

    /// The executable that plays `git-parler`, and `git-remote-parler` where it is called that.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where agents keep their keys and the local hub its data, unless told otherwise.
    pub fn parler_home(&self) -> PathBuf {
        self.path().join("parler")
    }

    /// Where programs of this world put what is to be gone again soon.
    pub fn temporary(&self) -> PathBuf {
        self.path().join("tmp")
    }

    /// The variables every program of this world starts with.
    pub(crate) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    /// A user without a name of its own, who stands in the world's directory: the work tree says which agent it is.
    pub fn user(&self) -> Agent<'_> {
        Agent::new(self, self.path())
    }

    /// An agent of this name.
    pub fn agent(&self, name: &str) -> Agent<'_> {
        self.user().with("PARLER_AGENT", name)
    }

    /// An agent of this name with a home of its own: another machine, as far as keys and the local hub are concerned.
    pub fn stranger(&self, name: &str) -> Agent<'_> {
        self.agent(name)
            .with("PARLER_HOME", self.path().join(format!("parler-of-{name}")))
    }

    /// A new directory.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(&path).expect("a new directory");
        path
    }

    /// Makes a repository with `git init` and these options. It has no commit.
    #[track_caller]
    pub fn init(&self, name: &str, options: impl Arguments) -> Repository<'_> {
        let path = self.path().join(name);
        let mut arguments: Vec<OsString> = vec!["init".into(), "--quiet".into()];
        arguments.extend(options.list());
        arguments.push(path.clone().into());
        self.user().git(arguments).success();
        Repository::new(self, path)
    }

    /// A bare repository whose `main` has three commits.
    #[track_caller]
    pub fn origin(&self) -> Repository<'_> {
        let origin = self.init("origin.git", "--bare");
        origin.import(&crate::repository::three_commits());
        origin
    }

    /// A clone, with these options.
    #[track_caller]
    pub fn clone_with(&self, from: impl AsRef<OsStr>, name: &str, options: impl Arguments) -> Repository<'_> {
        let path = self.path().join(name);
        let mut arguments: Vec<OsString> = vec!["clone".into(), "--quiet".into()];
        arguments.extend(options.list());
        arguments.extend([from.as_ref().to_owned(), path.clone().into()]);
        self.user().git(arguments).success();
        Repository::new(self, path)
    }

    /// A clone.
    #[track_caller]
    pub fn clone_of(&self, from: &Repository<'_>, name: &str) -> Repository<'_> {
        self.clone_with(from.path(), name, "")
    }

    /// A clone whose remote has an address that others can be told, not a path. Git resolves it inside the world.
    #[track_caller]
    pub fn clone_from_afar(&self, from: &Repository<'_>, name: &str) -> Repository<'_> {
        let directory = from
            .path()
            .file_name()
            .expect("a directory of the world")
            .to_string_lossy();
        self.clone_with(format!("{AFAR}{directory}"), name, "")
    }

    /// A repository that is there already.
    pub fn repository(&self, path: impl Into<PathBuf>) -> Repository<'_> {
        Repository::new(self, path.into())
    }

    /// The processes that this world's programs have left running.
    pub fn processes(&self) -> Vec<u32> {
        started_with_mention_of(&self.path())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Local hubs outlive the commands that started them, by design; they end with the test.
        for process in self.processes() {
            end_process(process);
        }
    }
}

fn environment(root: &Path) -> BTreeMap<OsString, OsString> {
    let home = root.join("home");
    let mut path = OsString::from(root.join("bin"));
    if let Some(inherited) = std::env::var_os("PATH") {
        path.push(":");
        path.push(inherited);
    }
    let variables: [(&str, OsString); 16] = [
        ("COLUMNS", "120".into()),
        // What is made twice is the same, and at no other time than what it is compared with.
        ("GIT_AUTHOR_DATE", "1700000100 +0000".into()),
        ("GIT_COMMITTER_DATE", "1700000100 +0000".into()),
        ("GIT_CONFIG_GLOBAL", home.join(".gitconfig").into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("HOME", home.clone().into()),
        ("LC_ALL", "C".into()),
        ("PARLER_HOME", root.join("parler").into()),
        ("PATH", path),
        ("TMPDIR", root.join("tmp").into()),
        ("TZ", "UTC".into()),
        ("XDG_CACHE_HOME", home.join(".cache").into()),
        ("XDG_CONFIG_HOME", home.join(".config").into()),
        ("XDG_DATA_HOME", home.join(".local/share").into()),
        ("XDG_STATE_HOME", home.join(".local/state").into()),
    ];
    variables
        .into_iter()
        .map(|(name, value)| (name.into(), value))
        .collect()
}
