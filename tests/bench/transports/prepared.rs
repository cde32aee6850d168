//! The repositories that scenarios begin with: made once from those that the command line names, and kept below cargo's
//! target directory, since the making takes longer than the measuring. Never changed: a client is a copy with links.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Repository, World};

use crate::arguments::Arguments;
use crate::transport::{BRANCH, TRACKING};

/// Commits that are pushed one by one.
const AHEAD: usize = 256;
/// Commits that are pushed at once, about.
const MANY: usize = 1000;
/// Lines of the file that each of them changes.
const LINES: usize = 20;

/// Bare repositories with one branch.
#[derive(Debug)]
pub(crate) struct Prepared<'w> {
    world: &'w World,
    /// The long history.
    pub(crate) long: PathBuf,
    /// The same with the objects of commits that are not on the branch.
    pub(crate) ahead: PathBuf,
    /// Those commits, each on the one before it, behind the branch's own.
    pub(crate) commits: Vec<String>,
    /// Where what is made of it is kept.
    kept: PathBuf,
    /// What is moved as a whole, as it was named, and where a copy is kept.
    whole: (PathBuf, PathBuf),
}

/// The long history before its last commits.
#[derive(Debug)]
pub(crate) struct Older {
    pub(crate) repository: PathBuf,
    /// How many are missing.
    pub(crate) missing: usize,
}

impl<'w> Prepared<'w> {
    /// Takes what is there from an earlier run, and makes what is always needed.
    pub(crate) fn new(world: &'w World, arguments: &Arguments) -> Self {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("transports-1");
        let long = cache.join(tip_of(world, &arguments.long, "--long"));
        let whole = cache.join(tip_of(world, &arguments.whole, "--whole"));
        made(&long.join("all.git"), |to| copy(world, &arguments.long, "HEAD", to));
        let all = world.repository(long.join("all.git"));
        let tip = all.rev(BRANCH);
        made(&long.join("ahead.git"), |to| {
            link_repository(all.path(), to);
            let ahead = world.repository(to);
            ahead.git("config fastimport.unpackLimit 100000").success();
            ahead.import(commits_ahead(&tip).as_bytes());
        });
        let listed = world.repository(long.join("ahead.git"));
        let listed = listed.ask(["rev-list", "--reverse", &format!("{BRANCH}..refs/ahead")]);
        Self {
            world,
            commits: [tip].into_iter().chain(listed.lines().map(str::to_owned)).collect(),
            ahead: long.join("ahead.git"),
            long: long.join("all.git"),
            kept: long,
            whole: (arguments.whole.clone(), whole.join("all.git")),
        }
    }

    /// What is moved as a whole.
    pub(crate) fn whole(&self) -> &Path {
        let (named, kept) = &self.whole;
        made(kept, |to| copy(self.world, named, "HEAD", to));
        kept
    }

    /// The long history before its last commits.
    pub(crate) fn older(&self) -> Older {
        let all = self.world.repository(self.long.clone());
        let (commit, repository) = (before_many(&all), self.kept.join("older.git"));
        made(&repository, |to| copy(self.world, all.path(), &commit, to));
        let missing = all.ask(["rev-list", "--count", &format!("{commit}..{BRANCH}")]);
        Older {
            repository,
            missing: missing.parse().unwrap(),
        }
    }

    /// A new client of a remote: a copy of this repository, that knows the remote's branch at this commit.
    pub(crate) fn client(&self, name: &str, from: Option<&Path>, url: &str, known: Option<&str>) -> Repository<'w> {
        let path = self.world.path().join("clients").join(name);
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        match from {
            Some(from) => link_repository(from, &path),
            None => drop(self.world.init(&format!("clients/{name}"), "--bare")),
        }
        let client = self.world.repository(path);
        client.git(["remote", "add", "origin", url]).success();
        if let Some(known) = known {
            client.git(["update-ref", TRACKING, known]).success();
        }
        client
    }
}

/// The commit at a repository's HEAD.
fn tip_of(world: &World, repository: &Path, option: &str) -> String {
    let path = repository.canonicalize().unwrap_or_else(|_| repository.to_owned());
    let answer = world
        .user()
        .git(["-C", path.to_str().unwrap(), "rev-parse", "--verify", "HEAD^{commit}"])
        .either();
    if !answer.is_success() {
        eprintln!(
            "{option} {}: no repository with a HEAD: {}",
            path.display(),
            answer.err().trim()
        );
        std::process::exit(2);
    }
    answer.out().trim().to_owned()
}

/// Makes a repository, beside its place first, so that what is there is whole.
fn made(place: &Path, make: impl FnOnce(&Path)) {
    if place.exists() {
        return;
    }
    eprintln!("making {}", place.display());
    let fresh = place.with_extension("new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).unwrap();
    }
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    make(&fresh);
    fs::rename(fresh, place).unwrap();
}

/// A bare repository with what leads to a commit, as its one branch.
fn copy(world: &World, from: &Path, commit: &str, to: &Path) {
    let from = format!("file://{}", from.canonicalize().unwrap().display());
    let user = world.user();
    user.git(["init", "--quiet", "--bare", to.to_str().unwrap()]).success();
    let fetch = user
        .within(to)
        .command(
            "git",
            [
                "-c",
                "uploadpack.allowAnySHA1InWant=true",
                "fetch",
                "--quiet",
                "--no-tags",
                "--no-auto-maintenance",
                &from,
                &format!("{commit}:{BRANCH}"),
            ],
        )
        // Minutes, which no command of a test may take.
        .status();
    assert!(fetch.unwrap().success());
    world.repository(to).git(["symbolic-ref", "HEAD", BRANCH]).success();
}

fn commits_ahead(tip: &str) -> String {
    let mut stream = String::new();
    for number in 0..AHEAD {
        let from = if number == 0 {
            format!("from {tip}\n")
        } else {
            String::new()
        };
        let (message, content) = (format!("Change {number}\n"), format!("line {number}\n").repeat(LINES));
        let _ = write!(
            stream,
            "commit refs/ahead\ncommitter Somebody <somebody@example.com> {} +0000\ndata {}\n{message}{from}\
             M 100644 inline measured.txt\ndata {}\n{content}\n",
            1_900_000_000 + number,
            message.len(),
            content.len()
        );
    }
    stream
}

/// The nearest commit of the branch that so many are not behind.
fn before_many(repository: &Repository<'_>) -> String {
    let line = repository.ask(["rev-list", "--first-parent", "--max-count=2000", BRANCH]);
    let candidates: Vec<&str> = line.lines().collect();
    let missing = |commit: &str| -> usize {
        let count = repository.ask(["rev-list", "--count", &format!("{commit}..{BRANCH}")]);
        count.parse().unwrap()
    };
    let nearest = candidates.partition_point(|commit| missing(commit) < MANY);
    candidates[nearest.min(candidates.len() - 1)].to_owned()
}

/// A copy whose objects are links to the other's, and whose settings and refs are its own.
pub(crate) fn link_repository(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let is_directory = entry.file_type().unwrap().is_dir();
        match entry.file_name().to_str() {
            Some("hooks") => {}
            Some("objects") => link_directory(&from, &to),
            _ if is_directory => parler_harness::copy_directory(&from, &to),
            _ => drop(fs::copy(&from, &to).unwrap()),
        }
    }
}

fn link_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            link_directory(&from, &to);
        } else if fs::hard_link(&from, &to).is_err() {
            // Another disk.
            fs::copy(&from, &to).unwrap();
        }
    }
}
