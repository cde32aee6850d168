//! `parler-hub serve`: opens the hub, tells where it listens, and serves until a signal ends it.

use std::io::Write;

use anyhow::Context;
use parler_hub::{Hub, HubOptions};
use rustix::process::Signal;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::Serve;
use super::{Failure, log, open_files};

/// Serves until SIGINT or SIGTERM.
pub(super) fn serve(arguments: Serve) -> Result<(), Failure> {
    if arguments.open && !arguments.listen.ip().is_loopback() {
        return Err(Failure::Usage(
            "--open lets anybody in, so it needs a loopback address such as --listen 127.0.0.1:7777; \
             for other addresses name a first member with --owner AGENT_ID and invite the rest"
                .to_owned(),
        ));
    }
    log::start(arguments.log)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(run(arguments))
}

async fn run(arguments: Serve) -> Result<(), Failure> {
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
    options.limits = arguments.limits.limits();
    options.limits.max_connections = options.limits.max_connections.min(open_files::raise_limit());
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
