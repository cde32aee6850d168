//! `parler-hub serve`: opens the hub, tells where it listens, and serves until a signal ends it.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::Context;
use parler_hub::{Hub, HubOptions, OidcTrust, RetentionOptions, TlsIdentity, TrustedProxies};
use rustix::process::Signal;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

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
    let tls = match (arguments.tls_cert, arguments.tls_key) {
        (Some(certificate), Some(key)) => Some(TlsIdentity::load(certificate, key)?),
        _ => None,
    };
    let oidc = arguments.oidc.map(OidcTrust::load).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let listener = bind(arguments.listen).await?;
    let metrics_listener = match arguments.metrics_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };
    if tls.is_none() && !arguments.listen.ip().is_loopback() {
        tracing::warn!(
            "without --tls-cert everything travels in the clear up to here: keep this address behind a proxy"
        );
    }
    let needs_somebody = !arguments.open && arguments.owners.is_empty();
    let mut options = HubOptions::new(&arguments.data);
    options.open = arguments.open;
    options.owners = arguments.owners;
    options.authorities = arguments.authorities;
    options.tls.clone_from(&tls);
    options.oidc.clone_from(&oidc);
    options.proxies = TrustedProxies {
        networks: arguments.trusted_proxies,
        header: arguments.forwarded_header.into(),
    };
    options.admin_socket = true;
    options.retention = RetentionOptions {
        messages: arguments.retain_messages.map(|time| time.0),
        blobs: arguments.retain_blobs.map(|time| time.0),
    };
    options.limits = arguments.limits.limits();
    let room = open_files::raise_limit();
    options.limits.max_connections = options.limits.max_connections.min(room.connections);
    options.limits.max_uploads_of_all = options.limits.max_uploads_of_all.min(room.uploads);
    let mut hub = Hub::open(options)?;
    if needs_somebody && !hub.knows_anybody().await? {
        tracing::warn!(
            "this hub knows no key yet, so nobody can come in: let the first member in with `parler-hub admit --data {} \
             AGENT_ID` (`git parler whoami` shows theirs), who then invites the others",
            arguments.data.display()
        );
    }

    let mut stdout = std::io::stdout();
    if let Some(listener) = metrics_listener {
        writeln!(stdout, "metrics on http://{}/metrics", listener.local_addr()?)?;
        hub = hub.with_metrics(listener);
    }
    writeln!(stdout, "listening on {scheme}://{}", listener.local_addr()?)?;
    stdout.flush()?;
    if tls.is_some() || oidc.is_some() {
        // Where there is nothing to read again a hang-up ends the hub as it ends any program.
        tokio::spawn(reload(tls, oidc, signal(SignalKind::hangup())?));
    }
    hub.serve(listener, async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
    .await?;
    Ok(())
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
}

/// Reads the certificate and the trusted issuers again whenever the signal comes.
async fn reload(tls: Option<TlsIdentity>, oidc: Option<OidcTrust>, mut hangup: Signals) {
    while hangup.recv().await.is_some() {
        match tls.as_ref().map(TlsIdentity::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("the certificate was read again"),
            Some(Err(error)) => tracing::error!(%error, "the certificate stays what it was"),
        }
        match oidc.as_ref().map(OidcTrust::reload) {
            None => {}
            Some(Ok(())) => tracing::info!("the trusted issuers were read again"),
            Some(Err(error)) => tracing::error!(%error, "the trusted issuers stay what they were"),
        }
    }
}
