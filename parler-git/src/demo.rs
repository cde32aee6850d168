//! demo
use crate::cli::Demo;
use crate::environment::Environment;
use crate::error::Result;
pub(crate) fn run(_environment: &Environment, _args: &Demo) -> Result<()> {
    Ok(())
}
