//! A directory of our own with real git in it: own home, own configuration, fixed identity and dates. Nothing of the
//! machine's git configuration is seen, and everything is removed at the end.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use git_remote_parler::git::{Git, GitEnvironment, GitProgram};
use git_remote_parler::repository::Repository;
use parler_protocol::Oid;

pub struct Sandbox {
    root: tempfile::TempDir,
}

impl Sandbox {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("home")).unwrap();
        Self { root }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    /// The environment of every git here.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let home = self.path("home").into_os_string();
        let path = std::env::var_os("PATH").unwrap();
        let fixed = [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.invalid"),
            ("GIT_COMMITTER_NAME", "C"),
            ("GIT_COMMITTER_EMAIL", "c@example.invalid"),
            ("GIT_AUTHOR_DATE", "1700000000 +0000"),
            ("GIT_COMMITTER_DATE", "1700000000 +0000"),
        ];
        let mut variables: Vec<(OsString, OsString)> = vec![("HOME".into(), home), ("PATH".into(), path)];
        variables.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        variables
    }

    /// Git for the code under test, with these variables besides.
    pub fn git_with(&self, more: &[(&str, &str)]) -> Git {
        Git::new(program(), self.environment_with(more))
    }

    fn environment_with(&self, more: &[(&str, &str)]) -> GitEnvironment {
        let more = more
            .iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value)));
        GitEnvironment::new(self.variables().into_iter().chain(more))
    }

    /// Git for the code under test, as another program.
    pub fn git_by(&self, program: GitProgram) -> Git {
        Git::new(program, GitEnvironment::new(self.variables()))
    }

    /// An executable with this text. Another process copies it into its place: what a thread of this one forks meanwhile
    /// would hold a file that is written here open, and nobody could run it (ETXTBSY).
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        let source = self.path(&format!("{name}.text"));
        fs::write(&source, text).unwrap();
        let copied = Command::new("install")
            .args(["-m", "755"])
            .args([&source, &path])
            .status();
        assert!(copied.unwrap().success());
        path
    }

    /// Git for the code under test that notes every start in the file `log`.
    pub fn counting_git(&self, log: &str) -> Git {
        self.counting_git_with(log, &[])
    }

    /// The same, with these variables besides.
    pub fn counting_git_with(&self, log: &str, more: &[(&str, &str)]) -> Git {
        let log = self.path(log).display().to_string();
        let git = program().path().display().to_string();
        let script = format!("#!/bin/sh\necho \"$*\" >> '{log}'\nexec '{git}' \"$@\"\n");
        let program = GitProgram::at(self.script("counting-git", &script));
        Git::new(program, self.environment_with(more))
    }

    pub fn lines(&self, log: &str) -> Vec<String> {
        fs::read_to_string(self.path(log))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    pub fn open(&self, repository: &Repo) -> Repository {
        Repository::open(self.git_with(&[]), &repository.git_dir()).unwrap()
    }

    /// A new repository with a work tree.
    pub fn init(&self, name: &str, options: &[&str]) -> Repo<'_> {
        let directory = self.path(name);
        self.git(
            &self.path(""),
            [&["init", "-q", "-b", "main"], options, &[directory.to_str().unwrap()]].concat(),
        );
        Repo {
            sandbox: self,
            directory,
        }
    }

    /// A clone by git's own transport.
    pub fn clone(&self, from: &Repo, name: &str, options: &[&str]) -> Repo<'_> {
        let directory = self.path(name);
        let url = format!("file://{}", from.directory.display());
        self.git(
            &self.path(""),
            [&["clone", "-q"], options, &[&url, directory.to_str().unwrap()]].concat(),
        );
        Repo {
            sandbox: self,
            directory,
        }
    }

    pub fn command(&self, directory: &Path, args: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> Command {
        let mut command = Command::new(program().path());
        command
            .args(args)
            .current_dir(directory)
            .env_clear()
            .envs(self.variables())
            .stdin(Stdio::null());
        command
    }

    pub fn git(&self, directory: &Path, args: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> String {
        let mut command = self.command(directory, args);
        succeeded(&command.output().unwrap(), &format!("{command:?}"))
    }
}

pub fn program() -> GitProgram {
    GitProgram::find(&std::env::var_os("PATH").unwrap()).expect("git is on PATH")
}

pub fn succeeded(output: &Output, what: &str) -> String {
    assert!(
        output.status.success(),
        "{what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap().trim_end().to_owned()
}

/// A repository in a sandbox.
pub struct Repo<'a> {
    pub sandbox: &'a Sandbox,
    pub directory: PathBuf,
}

impl Repo<'_> {
    pub fn git(&self, args: &[&str]) -> String {
        self.sandbox.git(&self.directory, args)
    }

    /// Says how loose objects are written, which git alone does then.
    pub fn has_git_write(&self) {
        self.git(&["config", "core.looseCompression", "1"]);
    }

    /// Says that each ref has a log, which git alone writes.
    pub fn has_git_pin(&self) {
        self.git(&["config", "core.logAllRefUpdates", "always"]);
    }

    pub fn git_dir(&self) -> PathBuf {
        PathBuf::from(self.git(&["rev-parse", "--absolute-git-dir"]))
    }

    /// Commits a file with this content, and gives the commit.
    pub fn commit(&self, file: &str, content: &str) -> Oid {
        let path = self.directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "-q", "-m", &format!("Change {file}")]);
        self.oid("HEAD")
    }

    pub fn oid(&self, revision: &str) -> Oid {
        self.git(&["rev-parse", revision]).parse().unwrap()
    }

    /// Runs git with bytes on its stdin.
    pub fn feed(&self, args: &[&str], input: &[u8]) -> String {
        let output = self.feed_bytes(args, input);
        String::from_utf8(output).unwrap().trim_end().to_owned()
    }

    /// Runs git with bytes on its stdin, and gives bytes.
    pub fn feed_bytes(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        use std::io::Write;

        let mut command = self.sandbox.command(&self.directory, args);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }
}
