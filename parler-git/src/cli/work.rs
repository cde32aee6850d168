//! What a worker of a service is told on the command line, and what its own processes are told.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The service
    #[arg(id = "served", value_name = "SERVICE")]
    pub(crate) service: String,
    /// The command for each job, split into words as a shell would, started without one. It runs the requester's code
    /// where it runs what came with the job
    #[arg(long, value_name = "CMD", conflicts_with = "command")]
    pub(crate) exec: Option<String>,
    /// End after one job
    #[arg(long)]
    pub(crate) once: bool,
    /// How many jobs at the same time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) max_parallel: u16,
    /// How long a command may take, and before it its clone: 90s, 30m, 24h, 7d. Then it is ended, and the job has failed
    #[arg(long, value_name = "TIME", default_value = "30m")]
    pub(crate) timeout: String,
    /// For how long a job is claimed each time: when this worker is gone, another is offered the job after it
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) lease: String,
    /// Where the directories of jobs are made [default: among this user's state]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<PathBuf>,
    /// Keep the directories of jobs that failed
    #[arg(long)]
    pub(crate) keep: bool,
    /// A command with its options that runs the command, such as bwrap .. --; split in the same way
    #[arg(long, value_name = "CMD")]
    pub(crate) sandbox: Option<String>,
    /// Leave jobs that I have asked for myself to other workers
    #[arg(long, conflicts_with = "retry")]
    pub(crate) others: bool,
    /// Let the command have this variable of mine; may be repeated
    #[arg(long = "env", value_name = "NAME")]
    pub(crate) environment: Vec<String>,
    /// Offer a dead job again, and end
    #[arg(long, value_name = "N", conflicts_with_all = ["exec", "command", "once"])]
    pub(crate) retry: Option<String>,
    /// The command for each job, in words of its own
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What the process between a worker and a command is told.
#[derive(Debug, Args)]
pub(crate) struct JobGuard {
    /// What the command finds on its standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// What the process is told that becomes a command.
#[derive(Debug, Args)]
pub(crate) struct JobExec {
    /// Without which it does not go on
    #[arg(long, value_name = "PID")]
    pub(crate) guard: u32,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
