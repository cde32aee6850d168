//! `git parler`: the command line, and the edge of the remote helper that git starts for `parler::` remotes.
//!
//! One program plays both, by the name it is called by: [`run`] is all that its file holds. The other is the helper alone,
//! which git starts often. This crate is the edge of Parler: only here the environment is read, text reaches a terminal,
//! keys and sessions are kept, and a process ends.

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

mod agents;
mod answers;
mod banner;
mod bundles;
mod choice;
mod ci;
mod cli;
mod commands;
mod completion;
mod contacts;
mod context;
mod demo;
mod digest;
mod doctor;
mod ending;
mod environment;
mod error;
mod file_lock;
mod handoffs;
mod helper;
mod home;
mod hook;
mod hubs;
mod identity;
mod input;
mod installation;
mod job;
mod job_cause;
mod job_identity;
mod ladder;
mod leases;
mod local_hub;
mod log_entry;
mod manual;
#[cfg(feature = "mcp")]
mod mcp;
mod names;
mod naming;
mod new_file;
mod offered;
mod outbox;
mod outgoing;
mod output;
mod pager;
mod posting;
mod pushing;
mod retold;
mod review_view;
mod risks;
mod room_handoffs;
mod room_labels;
mod room_log;
mod screen;
mod sessions;
mod settings;
mod state_file;
mod text;
mod time;
mod token;
mod trace;
mod trust;
mod usage;
mod view;
mod visible_json;
mod worker;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use environment::Environment;
use error::Error;

/// The name under which this program is git's helper for `parler::` remotes.
const HELPER_NAME: &str = "git-remote-parler";

/// The name of the program for people, and of what serves the local hub.
const PROGRAM_NAME: &str = "git-parler";

/// Plays the program this process was called as, and gives its exit code.
pub fn run() -> ExitCode {
    begun().map_or_else(std::convert::identity, |environment| {
        let name = environment.arguments.first().map(Path::new).and_then(Path::file_stem);
        if name.is_some_and(|name| name == HELPER_NAME) {
            helper::run(environment)
        } else {
            commands::run(environment)
        }
    })
}

/// Plays git's helper, whatever this process was called as, and gives its exit code. A program that holds only this is
/// less than half of the other, and starts that where it has to.
pub fn run_helper() -> ExitCode {
    begun().map_or_else(std::convert::identity, |mut environment| {
        environment.executable = environment.executable.map(|own| own.with_file_name(PROGRAM_NAME));
        helper::run(environment)
    })
}

fn begun() -> Result<Environment, ExitCode> {
    let environment = Environment::from_process().map_err(|error| {
        if Environment::is_of_a_hook() {
            // Whose directory is gone has nothing to be told.
            ExitCode::SUCCESS
        } else {
            fail(&Error::io("tell the working directory", &error))
        }
    })?;
    // At a limit of the size of files a write fails and is told, instead of ending the process. Fails for no signal
    // that a program may handle.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    Ok(environment)
}

/// Says why a program failed, and gives its exit code.
fn fail(error: &Error) -> ExitCode {
    if error.kind != error::ErrorKind::OutputClosed {
        // Where stderr is gone as well nobody can be told.
        let _ = writeln!(std::io::stderr(), "parler: {error}");
    }
    ExitCode::from(error.kind.exit_code())
}
