//! `git parler mcp`: the tools for a coding agent, on this process's stdin and stdout.

use std::ffi::OsString;

use crate::cli::Globals;
use crate::environment::Environment;
use crate::error::{Error, Result};
use crate::mcp::{Program, serve};

pub(super) fn run(environment: &Environment, globals: &Globals) -> Result<()> {
    let executable = environment.executable.clone();
    let executable = executable.ok_or_else(|| Error::fatal("the system does not say where this program is"))?;
    let chosen = [
        ("--as", &globals.agent),
        ("--hub", &globals.hub),
        ("--room", &globals.room),
    ];
    let chosen = chosen
        .into_iter()
        .filter_map(|(option, value)| Some(OsString::from(format!("{option}={}", value.as_ref()?))));
    serve(Program {
        executable,
        directory: environment.directory.clone(),
        globals: chosen.collect(),
    })
}
