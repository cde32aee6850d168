//! `git parler push`.

use crate::cli::Push;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn run(_context: &Context, _args: &Push, _output: &mut Output) -> Result<()> {
    Err(Error::fatal("not yet"))
}
