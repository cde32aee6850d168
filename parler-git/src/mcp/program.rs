//! One run of a verb for a tool: its arguments, what it reads on stdin, and what came of it.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::tools::Call;

/// Name under which it is called, whatever its file is called.
const NAME: &str = "git-parler";

/// This program, as the tools run it.
pub(crate) struct Program {
    /// Its file.
    pub(crate) executable: PathBuf,
    /// Where the server was started.
    pub(crate) directory: PathBuf,
    /// Options that the server was given, for every verb.
    pub(crate) globals: Vec<OsString>,
}

/// A verb that runs. Dropped before it has ended, tells it to.
struct Running(Option<Pid>);

impl Program {
    /// Runs it to its end. Dropped before, has it end.
    pub(super) async fn run(&self, call: &Call) -> io::Result<Output> {
        let mut command = Command::new(&self.executable);
        command
            .arg0(NAME)
            .arg(call.verb)
            .arg("--json")
            .args(self.globals.iter().filter(|option| !call.says(option)))
            .args(&call.arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let mut running = Running(pid);
        let input = child.stdin.take();
        let feed = async {
            if let Some(mut pipe) = input {
                // A verb that does not read it says why by its end.
                let _ = pipe.write_all(call.input.as_bytes()).await;
            }
        };
        let ((), output) = tokio::join!(feed, child.wait_with_output());
        running.0 = None;
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It has not been waited for, so the id is still its own. It gives back what it holds, and ends.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
