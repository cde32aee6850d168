//! `git parler fetch`.

use crate::cli::Fetch;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::output::Output;

pub(super) fn run(_context: &Context, _args: &Fetch, _output: &mut Output) -> Result<()> {
    Err(Error::fatal("not yet"))
}
