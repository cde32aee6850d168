//! The command line of `parler-hub`. Every option of `serve` can be given by a variable instead; the option wins.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand, ValueEnum};
use parler_hub::{ForwardedHeader, ProxyNetwork};
use parler_protocol::{AgentId, RoomName};

use super::limit_options::{LimitOptions, Time, time};
use super::log::LogForm;

/// The Parler hub: rooms where agents hand work to each other, with the code.
#[derive(Debug, Parser)]
#[command(name = "parler-hub", version)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve a hub until SIGINT or SIGTERM.
    Serve(Box<Serve>),
    /// Let a key in without an invite, while the hub runs or not. Doing it twice is doing it once.
    Admit(Admit),
    /// Look at everything a hub keeps, while it runs or not: log, signatures, refs, blobs, files.
    Check(Check),
    /// Copy a hub's data, while it runs or not. To the same place again, only blobs that are new are copied.
    Backup(Backup),
    /// Bring a hub's data back from a backup, checked whole, to a directory that is not there yet.
    Restore(Restore),
    /// Give up old content of a stopped hub, once, and make its database smaller where that is worth it. A running one gives it
    /// up with --retain-messages and --retain-blobs.
    Prune(Prune),
    /// Print this program's manual page, in roff.
    Man,
}

#[derive(Debug, clap::Args)]
pub(super) struct Admit {
    /// The hub's data directory.
    #[arg(long, value_name = "DIR", env = "PARLER_HUB_DATA")]
    pub(super) data: PathBuf,
    /// Also into this room, which is made, with the key as its owner, where there is none.
    #[arg(long = "room", value_name = "ROOM")]
    pub(super) rooms: Vec<RoomName>,
    /// The key, as `git parler whoami` shows it.
    #[arg(value_name = "AGENT_ID")]
    pub(super) agent: AgentId,
}

#[derive(Debug, clap::Args)]
pub(super) struct Check {
    /// The hub's data directory.
    #[arg(long, value_name = "DIR", env = "PARLER_HUB_DATA")]
    pub(super) data: PathBuf,
    /// Say it in JSON, one line each.
    #[arg(long)]
    pub(super) json: bool,
    /// Remove files that belong to nothing, as a hub does when it starts. Of a stopped hub only; nothing else is ever changed.
    #[arg(long)]
    pub(super) repair: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Backup {
    /// The hub's data directory.
    #[arg(long, value_name = "DIR", env = "PARLER_HUB_DATA")]
    pub(super) data: PathBuf,
    /// Where the backup is to be: a new directory, or one that has a backup of this hub.
    #[arg(long, value_name = "DIR")]
    pub(super) to: PathBuf,
    /// Copy blobs also where a second name for the same file would do.
    #[arg(long)]
    pub(super) copy: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Restore {
    /// The backup.
    #[arg(long, value_name = "DIR")]
    pub(super) from: PathBuf,
    /// Where the hub's data is to be.
    #[arg(long, value_name = "DIR", env = "PARLER_HUB_DATA")]
    pub(super) data: PathBuf,
    /// Copy blobs also where a second name for the same file would do.
    #[arg(long)]
    pub(super) copy: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Prune {
    /// The hub's data directory.
    #[arg(long, value_name = "DIR", env = "PARLER_HUB_DATA")]
    pub(super) data: PathBuf,
    /// Bodies of messages older than this, without refs, bundle, handoff or word of a task.
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present = "blobs")]
    pub(super) messages: Option<Time>,
    /// Blobs older than this that no live ref, handoff or task needs.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) blobs: Option<Time>,
    /// Only say how much it would be.
    #[arg(long)]
    pub(super) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Serve {
    /// Address to listen on; port 0 lets the system choose, and the line on stdout tells which.
    #[arg(
        long,
        value_name = "ADDR",
        env = "PARLER_HUB_LISTEN",
        default_value = "127.0.0.1:7777"
    )]
    pub(super) listen: SocketAddr,
    /// Directory that holds everything the hub knows. Made when it does not exist.
    #[arg(long, value_name = "DIR", env = "PARLER_HUB_DATA")]
    pub(super) data: PathBuf,
    /// Let any key in. Only on a loopback address.
    #[arg(long, env = "PARLER_HUB_OPEN", value_parser = BoolishValueParser::new())]
    pub(super) open: bool,
    /// Let this key in without an invite. Needed until the first member can invite others.
    #[arg(
        long = "owner",
        value_name = "AGENT_ID",
        env = "PARLER_HUB_OWNER",
        value_delimiter = ','
    )]
    pub(super) owners: Vec<AgentId>,
    /// A further name that clients may call this hub by, as it stands in their `Host` header.
    #[arg(
        long = "authority",
        value_name = "HOST[:PORT]",
        env = "PARLER_HUB_AUTHORITY",
        value_delimiter = ','
    )]
    pub(super) authorities: Vec<String>,
    /// Form of the log on stderr. PARLER_HUB_LOG says how much: info, debug, or a filter.
    #[arg(long, value_enum, env = "PARLER_HUB_LOG_FORM", default_value_t = LogForm::Text)]
    pub(super) log: LogForm,
    /// Show this certificate, in PEM form with those that lead to its authority, and speak HTTPS only. Read again on
    /// SIGHUP.
    #[arg(long, value_name = "FILE", env = "PARLER_HUB_TLS_CERT", requires = "tls_key")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM form.
    #[arg(long, value_name = "FILE", env = "PARLER_HUB_TLS_KEY", requires = "tls_cert")]
    pub(super) tls_key: Option<PathBuf>,
    /// Let CI jobs in that show an identity token of an issuer that this file names, by its rules. Read again on SIGHUP.
    #[arg(long, value_name = "FILE", env = "PARLER_HUB_OIDC")]
    pub(super) oidc: Option<PathBuf>,
    /// A proxy, or a range of addresses where proxies are, that says truly whom it speaks for.
    #[arg(
        long = "trusted-proxy",
        value_name = "CIDR|ADDR",
        env = "PARLER_HUB_TRUSTED_PROXY",
        value_delimiter = ','
    )]
    pub(super) trusted_proxies: Vec<ProxyNetwork>,
    /// The header in which those proxies say it. What their clients wrote into the other one is not looked at.
    #[arg(long, value_enum, env = "PARLER_HUB_FORWARDED_HEADER", default_value_t = ForwardedBy::XForwardedFor)]
    pub(super) forwarded_header: ForwardedBy,
    /// Answer GET /metrics on this address, to anybody who reaches it, and nothing else there.
    #[arg(long, value_name = "ADDR", env = "PARLER_HUB_METRICS_LISTEN")]
    pub(super) metrics_listen: Option<SocketAddr>,
    /// Give up bodies of messages that are older, without refs, bundle, handoff or word of a task. For ever unless told.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_RETAIN_MESSAGES", value_parser = time)]
    pub(super) retain_messages: Option<Time>,
    /// Give up blobs that are older and that no live ref, handoff or task needs. For ever unless told.
    #[arg(long, value_name = "TIME", env = "PARLER_HUB_RETAIN_BLOBS", value_parser = time)]
    pub(super) retain_blobs: Option<Time>,
    #[command(flatten)]
    pub(super) limits: LimitOptions,
}

/// A header that tells whom a proxy speaks for.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ForwardedBy {
    XForwardedFor,
    Forwarded,
}

impl From<ForwardedBy> for ForwardedHeader {
    fn from(header: ForwardedBy) -> Self {
        match header {
            ForwardedBy::XForwardedFor => Self::XForwardedFor,
            ForwardedBy::Forwarded => Self::Forwarded,
        }
    }
}
