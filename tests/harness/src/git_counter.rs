//! Counts the git processes that the helper and the command line start, by standing where they look for git.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::World;

/// A git program that notes every call.
#[derive(Debug)]
pub struct GitCounter {
    program: PathBuf,
}

impl GitCounter {
    /// A counter of its own.
    pub fn new(world: &World) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("count-")
            .tempdir_in(world.path())
            .expect("the world's directory");
        let program = directory.keep().join("git");
        // A link, not a copy: a program file that was just written cannot be started while another thread's new
        // process still holds it open.
        symlink(concat!(env!("CARGO_MANIFEST_DIR"), "/programs/count-git"), &program).expect("an empty directory");
        Self { program }
    }

    /// What to give as `PARLER_GIT`.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The calls since the last time this was asked, one line each.
    pub fn take(&self) -> Vec<String> {
        let log = self.program.with_file_name("git.log");
        let calls = fs::read_to_string(&log).unwrap_or_default();
        let _ = fs::remove_file(log);
        calls.lines().map(str::to_owned).collect()
    }
}
