//! `git parler handoff`.

use crate::cli::Handoff;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn run(_context: &Context, _args: &Handoff, _output: &mut Output) -> Result<()> {
    Err(Error::fatal("not yet"))
}
