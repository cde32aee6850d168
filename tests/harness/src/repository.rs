//! A repository of a test, and quick ways to fill it and to ask it something.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Agent, Answer, Arguments, Output, World};

/// A repository, with a work tree or bare.
#[derive(Debug, Clone)]
pub struct Repository<'w> {
    world: &'w World,
    path: PathBuf,
}

impl<'w> Repository<'w> {
    pub(crate) fn new(world: &'w World, path: PathBuf) -> Self {
        Self { world, path }
    }

    /// Its work tree, or the bare repository itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The user of this work tree, whom nobody named.
    pub fn user(&self) -> Agent<'w> {
        self.world.user().at(self)
    }

    /// Runs git in it.
    #[track_caller]
    pub fn git(&self, arguments: impl Arguments) -> Output {
        self.user().git(arguments)
    }

    /// What git says in it, without the line's end.
    #[track_caller]
    pub fn ask(&self, arguments: impl Arguments) -> String {
        self.git(arguments).success().word().to_owned()
    }

    /// Writes a file of the work tree.
    pub fn write(&self, file: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(file);
        fs::create_dir_all(path.parent().expect("inside the work tree")).expect("a directory of the work tree");
        fs::write(&path, content).expect("a file of the work tree");
        path
    }

    /// Writes a file, commits it, and returns the commit.
    #[track_caller]
    pub fn commit(&self, file: &str, content: &str) -> String {
        self.write(file, content);
        self.git(["add", file]).success();
        // What git tidies afterwards is no business of a test that needs a commit.
        let message = format!("Write {file}");
        self.git([
            "-c",
            "maintenance.auto=false",
            "commit",
            "--quiet",
            "--message",
            &message,
        ])
        .success();
        self.head_in_files().unwrap_or_else(|| self.rev("HEAD"))
    }

    /// What `HEAD` leads to, where that is a file of the repository's own.
    fn head_in_files(&self) -> Option<String> {
        let git_dir = self.own_git_dir()?;
        let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
        let name = head.strip_prefix("ref: ")?.trim_end();
        let oid = fs::read_to_string(git_dir.join(name)).ok()?;
        Some(oid.trim_end().to_owned())
    }

    /// `.git`, where it is a directory that is shared with no other work tree: git has not to be asked for it.
    fn own_git_dir(&self) -> Option<PathBuf> {
        let directory = fs::canonicalize(self.path.join(".git")).ok()?;
        let is_own = directory.join("HEAD").is_file() && !directory.join("commondir").exists();
        is_own.then_some(directory)
    }

    /// The object that an expression means.
    #[track_caller]
    pub fn rev(&self, expression: &str) -> String {
        self.ask(["rev-parse", "--verify", expression])
    }

    /// Whether an object is here.
    pub fn has(&self, oid: &str) -> bool {
        self.git(["cat-file", "-e", oid]).either().is_success()
    }

    /// Every ref with the object it names.
    #[track_caller]
    pub fn refs(&self) -> BTreeMap<String, String> {
        parse_refs(
            &self
                .git(["for-each-ref", "--format=%(objectname) %(refname)"])
                .success(),
        )
    }

    /// The refs under `refs/parler/`.
    #[track_caller]
    pub fn pins(&self) -> BTreeMap<String, String> {
        self.refs()
            .into_iter()
            .filter(|(name, _)| name.starts_with("refs/parler/"))
            .collect()
    }

    /// The repository's own directory, or that of this work tree where it is a linked one.
    #[track_caller]
    pub fn git_dir(&self) -> PathBuf {
        self.own_git_dir()
            .unwrap_or_else(|| PathBuf::from(self.ask("rev-parse --absolute-git-dir")))
    }

    /// The directory that all work trees of the repository share.
    #[track_caller]
    pub fn common_dir(&self) -> PathBuf {
        self.own_git_dir()
            .unwrap_or_else(|| PathBuf::from(self.ask("rev-parse --path-format=absolute --git-common-dir")))
    }

    /// Feeds a stream to `git fast-import`.
    #[track_caller]
    pub fn import(&self, stream: &[u8]) {
        self.user().feed("git", "fast-import --quiet --force", stream).success();
    }

    /// Says that each ref has a log. Only git writes those, so that a child of its own pins what comes.
    #[track_caller]
    pub fn has_git_pin(&self) {
        self.git("config core.logAllRefUpdates always").success();
    }

    /// Says how packs are made, as git makes them anyhow. Who says anything of it has git make the pack of each push.
    #[track_caller]
    pub fn has_git_pack(&self) {
        self.git("config pack.window 10").success();
    }

    /// Asserts that everything it holds fits together.
    #[track_caller]
    pub fn fsck(&self) {
        let answer = self.git("fsck --strict --no-dangling").success();
        assert!(
            answer.err().lines().all(|line| line.starts_with("notice:")),
            "{answer:?}"
        );
    }
}

/// `git ls-remote` and `git for-each-ref` lines as a map of names to objects.
pub(crate) fn parse_refs(answer: &Answer) -> BTreeMap<String, String> {
    answer
        .out()
        .lines()
        .filter_map(|line| line.split_once([' ', '\t']))
        .map(|(oid, name)| (name.to_owned(), oid.to_owned()))
        .collect()
}

impl Answer {
    /// The refs that `git ls-remote` listed.
    #[track_caller]
    pub fn listed_refs(&self) -> BTreeMap<String, String> {
        parse_refs(self)
    }
}

/// A stream of three commits on `main`.
pub(crate) fn three_commits() -> Vec<u8> {
    let mut stream = String::new();
    for (number, file) in ["README.md", "src/lib.rs", "src/main.rs"].iter().enumerate() {
        let content = format!("file {file}\n{}", "a line of some text\n".repeat(40));
        let message = format!("Add {file}\n");
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter Somebody <somebody@example.com> {} +0000\ndata {}\n{message}\nM 100644 inline {file}\ndata {}\n{content}\n",
            1_700_000_000 + number,
            message.len(),
            content.len(),
        ));
    }
    stream.into_bytes()
}
