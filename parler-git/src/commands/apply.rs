//! `git parler apply`.

use crate::cli::Apply;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn run(_context: &Context, _args: &Apply, _output: &mut Output) -> Result<()> {
    Err(Error::fatal("not yet"))
}
