//! Running the real programs as one of the agents: its directory, an environment without anything of ours, and both of
//! its streams as one text, in the order in which they were written.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use super::interrupt::{Interrupt, describe};
use super::wrong;
use crate::error::{Error, Result};

/// Most of a command's output that is kept.
const MAX_OUTPUT_BYTES: u64 = 1 << 20; // 1 MiB

/// Somebody with a clone.
pub(super) struct Agent {
    pub(super) name: String,
    pub(super) directory: PathBuf,
}

/// What a command printed, and how it ended.
pub(super) struct Said {
    command: String,
    pub(super) text: String,
    status: ExitStatus,
}

impl Said {
    pub(super) fn must_succeed(&self) -> Result<()> {
        if self.status.success() {
            Ok(())
        } else {
            let last = self.text.lines().last().unwrap_or("it said nothing");
            Err(wrong(&format!("'{}' {}: {last}", self.command, describe(self.status))))
        }
    }

    pub(super) fn must_say(&self, what: &str) -> Result<()> {
        if self.text.contains(what) {
            Ok(())
        } else {
            Err(wrong(&format!("'{}' did not say '{what}'", self.command)))
        }
    }
}

/// How programs are run.
pub(super) struct Programs {
    /// The git program.
    pub(super) git: PathBuf,
    /// The whole environment.
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) interrupt: Interrupt,
}

impl Programs {
    /// Runs `command`, whose first word is git, in a directory.
    pub(super) fn run(&self, directory: &std::path::Path, command: &[&str]) -> Result<Said> {
        self.interrupt.check()?;
        let shown = command.join(" ");
        let failed = |error: &io::Error| Error::io(format_args!("run '{shown}'"), error);
        let (reader, writer) = io::pipe().map_err(|error| failed(&error))?;
        let mut child = {
            let mut program = Command::new(&self.git);
            program
                .args(command.iter().skip(1))
                .current_dir(directory)
                .env_clear()
                .envs(self.environment.iter().map(|(name, value)| (name, value)))
                .stdin(Stdio::null())
                .stdout(writer.try_clone().map_err(|error| failed(&error))?)
                .stderr(writer)
                // A group of its own: what a terminal's Ctrl-C would hit is ended by us, together with its children.
                .process_group(0);
            // Both ends of the pipe that are for the child are closed here with the command.
            program.spawn().map_err(|error| failed(&error))?
        };
        self.interrupt.guard(&child);
        let mut text = Vec::new();
        let read = reader.take(MAX_OUTPUT_BYTES).read_to_end(&mut text);
        let status = self.interrupt.wait(&mut child).map_err(|error| failed(&error))?;
        self.interrupt.check()?;
        read.map_err(|error| failed(&error))?;
        Ok(Said {
            command: shown,
            text: String::from_utf8_lossy(&text).into_owned(),
            status,
        })
    }
}
