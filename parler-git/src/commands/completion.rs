//! `git parler completion`: a shell's completion script.

use serde_json::json;

use crate::cli::{Completion, Globals};
use crate::completion::script;
use crate::error::Result;
use crate::output::Output;

pub(super) fn run(globals: &Globals, args: &Completion) -> Result<()> {
    let mut output = Output::new(globals.json, anstream::ColorChoice::Never);
    output.require_open()?;
    let script = script(args.shell);
    match output.is_json() {
        true => output.json(&json!({ "shell": args.shell.program(), "script": script }))?,
        false => output.text(&script)?,
    }
    output.deliver()
}
