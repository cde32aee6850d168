//! Holds pushes after they have looked at the remote, so that several can be let go at the same moment.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::{Agent, DEADLINE, Repository, World};

/// A gate for one push at a time: git's `pre-push` hook waits at it.
#[derive(Debug)]
pub struct PushGate {
    directory: PathBuf,
    arrived: File,
    open: File,
}

impl PushGate {
    /// A closed gate before the pushes that this repository's agents make with [`PushGate::holds`].
    #[track_caller]
    pub fn before(world: &World, repository: &Repository<'_>) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("gate-")
            .tempdir_in(world.path())
            .expect("the world's directory");
        let directory = directory.keep();
        let pipe = |name: &str| {
            let path = directory.join(name);
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("an empty directory");
            // Both ends at once: opening one end of a pipe waits for somebody at the other.
            OpenOptions::new().read(true).write(true).open(path).expect("just made")
        };
        let hooks = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/hooks");
        repository
            .git(["config", "core.hooksPath", hooks.to_str().expect("a path of UTF-8")])
            .success();
        Self {
            arrived: pipe("arrived"),
            open: pipe("open"),
            directory,
        }
    }

    /// The same agent, whose next push waits.
    pub fn holds<'w>(&self, agent: &Agent<'w>) -> Agent<'w> {
        agent.with("PARLER_TEST_GATE", &self.directory)
    }

    /// Waits until the push has come to the gate.
    #[track_caller]
    pub fn wait_for_arrival(&mut self) {
        let patience = Timespec {
            tv_sec: DEADLINE.as_secs() as i64,
            tv_nsec: 0,
        };
        let come = poll(&mut [PollFd::new(&self.arrived, PollFlags::IN)], Some(&patience));
        assert_eq!(come, Ok(1), "no push came to the gate");
        let mut line = [0; 5];
        self.arrived.read_exact(&mut line).expect("a pipe");
        assert_eq!(&line, b"here\n");
    }

    /// Lets the push go on.
    pub fn open(&mut self) {
        self.open.write_all(b"go\n").expect("a pipe");
    }
}
