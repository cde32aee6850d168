//! Holds processes at a known point, so that a test can let several go at the same moment, or end one just there.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Agent, DEADLINE, Repository, Running, World};

/// A closed gate. One process at a time waits at it.
#[derive(Debug)]
pub struct Gate {
    directory: PathBuf,
    arrived: File,
    open: File,
}

impl Gate {
    fn new(world: &World) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("gate-")
            .tempdir_in(world.path())
            .expect("the world's directory")
            .keep();
        let pipe = |name: &str| {
            let path = directory.join(name);
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("an empty directory");
            // Both ends at once: opening one end of a pipe waits for somebody at the other.
            OpenOptions::new().read(true).write(true).open(path).expect("just made")
        };
        Self {
            arrived: pipe("arrived"),
            open: pipe("open"),
            directory,
        }
    }

    /// A gate between the look that a push of this repository takes at the remote and its own part: git's `pre-push`
    /// hook waits at it, for agents that [`Gate::holds_pushes_of`] made.
    #[track_caller]
    pub fn before_pushes(world: &World, repository: &Repository<'_>) -> Self {
        let hooks = program("hooks");
        repository
            .git(["config", "core.hooksPath", hooks.to_str().expect("a path of UTF-8")])
            .success();
        Self::new(world)
    }

    /// The same agent, whose next push waits.
    pub fn holds_pushes_of<'w>(&self, agent: &Agent<'w>) -> Agent<'w> {
        agent.with("PARLER_TEST_GATE", &self.directory)
    }

    /// A gate before every git child of the helper and the command line.
    pub fn before_git(world: &World) -> Self {
        let gate = Self::new(world);
        symlink(program("hold-git"), gate.directory.join("git")).expect("a new directory");
        gate
    }

    /// A gate before each commit of a transaction of refs, when git holds all of its locks.
    pub fn before_commits_of_refs(world: &World) -> Self {
        let gate = Self::new(world);
        symlink(program("hold-commit"), gate.directory.join("git")).expect("a new directory");
        gate
    }

    /// The same agent, whose git children wait, one after the other.
    pub fn holds_git_of<'w>(&self, agent: &Agent<'w>) -> Agent<'w> {
        agent.with("PARLER_GIT", self.directory.join("git"))
    }

    /// Waits until somebody has come to the gate, and returns what was said there.
    #[track_caller]
    pub fn wait_for_arrival(&mut self) -> String {
        let come = poll(&mut [PollFd::new(&self.arrived, PollFlags::IN)], Some(&patience()));
        assert_eq!(come, Ok(1), "nobody came to the gate");
        self.read_arrival()
    }

    /// Waits until somebody has come to the gate, or this command has ended without anybody coming.
    #[track_caller]
    pub fn wait_for_arrival_or_end(&mut self, command: &Running) -> Option<String> {
        let end = command.end();
        let mut waited_for = [
            PollFd::new(&self.arrived, PollFlags::IN),
            PollFd::new(&end, PollFlags::IN),
        ];
        let come = poll(&mut waited_for, Some(&patience()));
        assert!(
            matches!(come, Ok(1 | 2)),
            "nobody came to the gate, and the command does not end"
        );
        let arrived = !waited_for[0].revents().is_empty();
        arrived.then(|| self.read_arrival())
    }

    fn read_arrival(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            let mut come = [PollFd::new(&self.arrived, PollFlags::IN)];
            assert_eq!(
                poll(&mut come, Some(&patience())),
                Ok(1),
                "half of a line came to the gate"
            );
            self.arrived.read_exact(&mut byte).expect("a pipe");
            line.extend(byte);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Lets whoever waits go on.
    pub fn open(&mut self) {
        self.open.write_all(b"go\n").expect("a pipe");
    }
}

fn patience() -> Timespec {
    Timespec {
        tv_sec: DEADLINE.as_secs() as i64,
        tv_nsec: 0,
    }
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name)
}
