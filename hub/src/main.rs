//! The program `parler-hub`: a hub on a TCP address.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use parler_hub::{Hub, HubOptions};
use parler_protocol::AgentId;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

const EXIT_USAGE: u8 = 2;
/// Files that the database and blobs being read and written need besides the connections.
const FILES_OF_THE_HUB: usize = 256;
/// What is logged: `info`, `debug`, or a filter such as `parler_hub=debug,warn`.
const LOG_VARIABLE: &str = "PARLER_HUB_LOG";

/// The Parler hub: rooms where agents hand work to each other, with the code.
#[derive(Debug, Parser)]
#[command(name = "parler-hub", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a hub until SIGINT or SIGTERM.
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Address to listen on; port 0 lets the system choose, and the line on stdout tells which.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7777")]
    listen: SocketAddr,
    /// Directory that holds everything the hub knows. Made when it does not exist.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Let any key in. Only on a loopback address.
    #[arg(long)]
    open: bool,
    /// Let this key in without an invite. Needed until the first member can invite others.
    #[arg(long = "owner", value_name = "AGENT_ID")]
    owners: Vec<AgentId>,
    /// A further name that clients may call this hub by, as it stands in their `Host` header.
    #[arg(long = "authority", value_name = "HOST[:PORT]")]
    authorities: Vec<String>,
    /// Form of the log on stderr.
    #[arg(long, value_enum, default_value_t = LogForm::Text)]
    log: LogForm,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogForm {
    Text,
    Json,
}

fn main() -> ExitCode {
    let Command::Serve(arguments) = Arguments::parse().command;
    if arguments.open && !arguments.listen.ip().is_loopback() {
        eprintln_line(
            "parler-hub: --open lets anybody in, so it needs a loopback address such as --listen 127.0.0.1:7777; \
             for other addresses name a first member with --owner AGENT_ID and invite the rest",
        );
        return ExitCode::from(EXIT_USAGE);
    }
    match serve(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln_line(&format!("parler-hub: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells a person something. That nobody listens is no reason to fail.
fn eprintln_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn serve(arguments: Serve) -> anyhow::Result<()> {
    start_log(arguments.log);
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(run(arguments))
}

async fn run(arguments: Serve) -> anyhow::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A write past a file size limit is then an error of that write, and not the end of the hub.
    let _past_file_limit = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}", arguments.listen))?;
    let mut options = HubOptions::new(arguments.data);
    options.open = arguments.open;
    options.owners = arguments.owners;
    options.authorities = arguments.authorities;
    options.limits.max_connections = options.limits.max_connections.min(raise_file_limit());
    let hub = Hub::open(options)?;

    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}", listener.local_addr()?)?;
    stdout.flush()?;
    hub.serve(listener, async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
    .await?;
    Ok(())
}

/// Raises the number of files this process may have open as far as it may, and returns how many connections that leaves
/// room for.
fn raise_file_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = if setrlimit(Resource::Nofile, raised).is_ok() {
        limit.maximum
    } else {
        limit.current
    };
    // No limit at all is shown as none.
    let files = current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    files.saturating_sub(FILES_OF_THE_HUB).max(1)
}

fn start_log(form: LogForm) {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // Nobody who reads the log is no reason to stop; telling so on stderr would be one.
    let log = log.log_internal_errors(false);
    match form {
        LogForm::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogForm::Json => log.json().init(),
    }
}
