//! What somebody tells this user's own hub.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Hub {
    #[command(subcommand)]
    pub(crate) what: HubVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HubVerb {
    /// Serve in this process
    #[command(hide = true)]
    Run {
        /// Say on standard output when it serves
        #[arg(long)]
        announce: bool,
        /// Nothing that the starter had open is open here
        #[arg(long, requires = "announce")]
        alone: bool,
    },
    /// Start it unless it runs
    Start,
    /// End it
    Stop,
    /// Say whether it runs
    Status,
}
