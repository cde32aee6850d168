//! A hub in a process of its own that is not the local one: this very test program, started again as a server. The
//! program `parler-hub` belongs to another package, whose tests start it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use parler_harness::{CuttingProxy, HubProcess, World};
use parler_hub::{Clock, Hub, HubLimits, HubOptions, OidcTrust, TlsIdentity};

const LISTEN: &str = "PARLER_TEST_LISTEN";
const DATA: &str = "PARLER_TEST_DATA";
const AUTHORITY: &str = "PARLER_TEST_AUTHORITY";
const OWNER: &str = "PARLER_TEST_OWNER";
const CERTIFICATE: &str = "PARLER_TEST_CERTIFICATE";
const KEY: &str = "PARLER_TEST_KEY";
const LARGEST_BLOB: &str = "PARLER_TEST_LARGEST_BLOB";
const FREE_FLOOR: &str = "PARLER_TEST_FREE_FLOOR";
const UPLOADS: &str = "PARLER_TEST_UPLOADS";
const PUSHES_PAGE: &str = "PARLER_TEST_PUSHES_PAGE";
const OIDC: &str = "PARLER_TEST_OIDC";
const CLOCK: &str = "PARLER_TEST_CLOCK";

/// Starts a hub that lets every key in.
#[track_caller]
pub(crate) fn start(world: &World) -> HubProcess {
    start_for(world, "", "")
}

/// Starts a hub that lets in this key, and others by invite.
#[track_caller]
pub(crate) fn start_closed(world: &World, owner: &str) -> HubProcess {
    start_for(world, owner, "")
}

/// Starts a hub that lets every key in and is reached through this proxy.
#[track_caller]
pub(crate) fn start_behind(world: &World, proxy: &CuttingProxy) -> HubProcess {
    let hub = start_for(world, "", proxy.authority());
    proxy.lead_to(hub.authority());
    hub
}

/// Starts a hub that lets every key in and is reached as this authority.
#[track_caller]
pub(crate) fn start_known_as(world: &World, authority: &str) -> HubProcess {
    start_for(world, "", authority)
}

#[track_caller]
fn start_for(world: &World, owner: &str, authority: &str) -> HubProcess {
    start_with_variables(world, &[(OWNER, owner.into()), (AUTHORITY, authority.into())])
}

/// Starts a hub that lets every key in and shows this certificate, the first of the files, whose key is the second.
#[track_caller]
pub(crate) fn start_with_tls(world: &World, (certificate, key): (PathBuf, PathBuf)) -> HubProcess {
    start_with_variables(world, &[(CERTIFICATE, certificate.into()), (KEY, key.into())])
}

/// Starts a hub that lets every key in, and jobs by the rules of this file.
#[track_caller]
pub(crate) fn start_trusting(world: &World, file: &Path) -> HubProcess {
    start_with_variables(world, &[(OIDC, file.into())])
}

/// Starts a hub that lets every key in and takes blobs of at most so many bytes.
#[track_caller]
pub(crate) fn start_for_small_blobs(world: &World, largest: u64) -> HubProcess {
    start_with_variables(world, &[(LARGEST_BLOB, largest.to_string().into())])
}

/// Starts a hub that lets every key in and leaves so much of the disk free, in percent.
#[track_caller]
pub(crate) fn start_with_free_floor(world: &World, percent: u8) -> HubProcess {
    start_with_variables(world, &[(FREE_FLOOR, percent.to_string().into())])
}

/// Starts a hub that lets every key in and lets nobody have more uploads under way than this.
#[track_caller]
pub(crate) fn start_with_uploads(world: &World, most: usize) -> HubProcess {
    start_with_variables(world, &[(UPLOADS, most.to_string().into())])
}

/// Starts a hub that lets every key in and ends an answer with a room's pushes when it passes so many bytes.
#[track_caller]
pub(crate) fn start_with_pushes_page(world: &World, bytes: usize) -> HubProcess {
    start_with_variables(world, &[(PUSHES_PAGE, bytes.to_string().into())])
}

/// Starts a hub that lets every key in, whose clock is ahead by what this file says at any time, in milliseconds.
#[track_caller]
pub(crate) fn start_with_clock(world: &World, ahead: &Path) -> HubProcess {
    start_with_variables(world, &[(CLOCK, ahead.into())])
}

#[track_caller]
fn start_with_variables(world: &World, variables: &[(&'static str, OsString)]) -> HubProcess {
    let variables = variables.to_vec();
    HubProcess::start(world, "hub", move |listen: &str, data: &Path| {
        // Not by its path: it may have been built anew since this test began.
        let mut command = Command::new("/proc/self/exe");
        command
            .args([
                "--ignored",
                "--exact",
                "--nocapture",
                "hub_server::serve_for_another_test",
            ])
            .env_clear()
            .env(LISTEN, listen)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env(DATA, data);
        command
    })
}

/// A clock that is ahead by what a file says.
fn ahead_by(file: OsString) -> Clock {
    let system = Clock::system();
    Clock::from_fn(move || {
        let ahead = std::fs::read_to_string(&file).unwrap_or_default();
        system.now_ms() + ahead.trim().parse().unwrap_or(0)
    })
}

#[test]
#[ignore = "serves the tests that start it"]
fn serve_for_another_test() {
    let (Some(listen), Some(data)) = (std::env::var_os(LISTEN), std::env::var_os(DATA)) else {
        return; // Somebody ran all ignored tests.
    };
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async {
            let listener = tokio::net::TcpListener::bind(listen.to_str().unwrap()).await.unwrap();
            let address = listener.local_addr().unwrap();
            let owner = std::env::var(OWNER).unwrap_or_default();
            let tls = std::env::var_os(CERTIFICATE)
                .zip(std::env::var_os(KEY))
                .map(|(certificate, key)| TlsIdentity::load(certificate, key).unwrap());
            let scheme = if tls.is_some() { "https" } else { "http" };
            let mut limits = HubLimits::default();
            let limit = |name| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
            limits.max_blob_bytes = limit(LARGEST_BLOB).unwrap_or(limits.max_blob_bytes);
            limits.free_floor_percent = limit(FREE_FLOOR).map_or(limits.free_floor_percent, |floor| floor as u8);
            limits.pushes_bytes = limit(PUSHES_PAGE).map_or(limits.pushes_bytes, |bytes| bytes as usize);
            limits.max_uploads = limit(UPLOADS).map_or(limits.max_uploads, |most| most as usize);
            let clock = std::env::var_os(CLOCK).map_or_else(Clock::system, ahead_by);
            let oidc = std::env::var_os(OIDC).map(|file| OidcTrust::load(file).unwrap());
            let options = HubOptions {
                oidc,
                clock,
                limits,
                tls,
                open: owner.is_empty(),
                authorities: vec![std::env::var(AUTHORITY).unwrap_or_default()],
                owners: owner.parse().into_iter().collect(),
                ..HubOptions::new(PathBuf::from(data))
            };
            let hub = Hub::open(options).unwrap();
            println!("listening on {scheme}://{address}");
            hub.serve(listener, std::future::pending()).await.unwrap();
        });
}
