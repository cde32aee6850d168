//! What `parler-hub` does: reads its command line, and ends with one line and the right code where that cannot be done.

mod admit;
mod arguments;
mod backup;
mod check;
#[cfg(debug_assertions)]
mod fail_point;
mod limit_options;
mod log;
mod manual;
mod meter;
mod mistake;
mod open_files;
mod prune;
mod serve;

use std::io::Write;
use std::process::ExitCode;

use self::arguments::Command;

/// The command line asks for what cannot be.
const EXIT_USAGE: u8 = 2;
/// The data could not be looked at, so that nothing is known of it.
const EXIT_CANNOT_LOOK: u8 = 3;

/// Why a command was not done.
enum Failure {
    /// The command line asks for what cannot be.
    Usage(String),
    /// It was tried.
    Failed(anyhow::Error),
    /// It was done, and what was found has been told.
    Found,
    /// Nothing could be found out.
    CannotLook(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let arguments = mistake::arguments();
    #[cfg(debug_assertions)]
    let arguments = arguments.and_then(|arguments| fail_point::arm().map(|()| arguments));
    let done = arguments.and_then(|arguments| match arguments.command {
        Command::Admit(arguments) => admit::admit(&arguments),
        Command::Backup(arguments) => backup::backup(&arguments),
        Command::Prune(arguments) => prune::prune(&arguments),
        Command::Restore(arguments) => backup::restore(&arguments),
        Command::Check(arguments) => check::check(&arguments),
        Command::Serve(arguments) => serve::serve(*arguments),
        Command::Man => manual::print().map_err(Failure::from),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(mistake)) => {
            tell(&format!("parler-hub: {mistake}"));
            ExitCode::from(EXIT_USAGE)
        }
        Err(Failure::Failed(error)) => {
            tell(&format!("parler-hub: {}", causes(&error)));
            ExitCode::FAILURE
        }
        Err(Failure::Found) => ExitCode::FAILURE,
        Err(Failure::CannotLook(error)) => {
            tell(&format!("parler-hub: {}", causes(&error)));
            ExitCode::from(EXIT_CANNOT_LOOK)
        }
    }
}

/// An error with its causes, each once: some tell theirs themselves.
fn causes(error: &anyhow::Error) -> String {
    error
        .chain()
        .map(ToString::to_string)
        .fold(String::new(), |told, cause| {
            match (told.is_empty(), told.ends_with(&cause)) {
                (true, _) => cause,
                (_, true) => told,
                (_, false) => format!("{told}: {cause}"),
            }
        })
}

/// Tells a person something. That nobody listens is no reason to fail.
fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
