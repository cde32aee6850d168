//! Where an issuer's keys are: an address that the operator named, or a file. Never asks anywhere else, follows no
//! redirect, and asks no more often than strangers must not make it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use reqwest::Url;
use tokio::sync::Mutex;

use super::key_set::{KeySet, VerifyingKey};

/// Largest key set that is read.
const MAX_BYTES: usize = 256 << 10; // 256 KiB
/// How long the whole of an answer is waited for.
const DEADLINE: Duration = Duration::from_secs(5);
/// After this time keys are fetched again, when one is needed.
const FRESH_MS: i64 = 3600 * 1000; // 1 h
/// How long keys count that cannot be fetched again: longer than any outage, shorter than a stolen key is of use.
const USABLE_MS: i64 = 24 * 3600 * 1000; // a day
/// Least time between two fetches that a token with an unknown key asks for, or that follow a failure.
const REST_MS: i64 = 60 * 1000; // a minute

/// Where keys are, and those that were last there.
pub(crate) struct KeySource {
    place: Place,
    known: RwLock<Arc<Known>>,
    /// When a fetch was last tried that may be tried in vain, milliseconds since 1970. Held while one is under way.
    tried: Mutex<Option<i64>>,
}

#[derive(Debug)]
enum Place {
    Address(Url, reqwest::Client),
    File(PathBuf),
}

#[derive(Default)]
struct Known {
    keys: KeySet,
    /// Milliseconds since 1970.
    fetched: Option<i64>,
}

impl KeySource {
    /// An https address, one of plain http on this machine, or a file, whose path begins in `directory`.
    pub(super) fn parse(written: &str, directory: &Path) -> Result<Self, String> {
        let place = if written.starts_with("https:") || written.starts_with("http:") {
            let (url, is_loopback) = address(written)?;
            let client = client(&url, is_loopback).map_err(|why| format!("keys: {why}"))?;
            Place::Address(url, client)
        } else if written.contains("://") || written.is_empty() {
            return Err("keys: no https address and no file".to_owned());
        } else {
            Place::File(directory.join(written))
        };
        Ok(Self {
            place,
            known: RwLock::default(),
            tried: Mutex::default(),
        })
    }

    /// The keys of this id, of which there may be none. The error says why keys cannot be had.
    pub(super) async fn named(self: &Arc<Self>, id: &str, now: i64) -> Result<Vec<VerifyingKey>, String> {
        let known = self.known();
        let of = |known: &Known| known.keys.named(id).cloned().collect::<Vec<_>>();
        if known.is_within(FRESH_MS, now) && known.keys.named(id).next().is_some() {
            return Ok(of(&known));
        }
        // On its own: whoever hangs up must not leave a fetch half done.
        let (source, seen) = (Arc::clone(self), known.fetched);
        let fetched = tokio::spawn(async move { source.fetch_again(seen, now).await }).await;
        fetched.map_err(|error| error.to_string())?;
        let known = self.known();
        if known.is_within(USABLE_MS, now) {
            return Ok(of(&known));
        }
        Err("the issuer's keys cannot be had".to_owned())
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fetches the keys, unless that was done or tried just now.
    async fn fetch_again(&self, seen: Option<i64>, now: i64) {
        let mut tried = self.tried.lock().await;
        let known = self.known();
        // Somebody else's fetch ended while this one waited.
        let is_done = known.fetched != seen;
        if is_done || tried.is_some_and(|at| (at - REST_MS..at + REST_MS).contains(&now)) {
            return;
        }
        let is_due = !known.is_within(FRESH_MS, now);
        match self.fetch().await {
            Ok(keys) => {
                // What was due leaves the next unknown key its fetch.
                *tried = (!is_due).then_some(now);
                let fetched = Some(now);
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(Known { keys, fetched });
            }
            Err(why) => {
                *tried = Some(now);
                tracing::warn!(keys = %self.place(), %why, "an issuer's keys cannot be had");
            }
        }
    }

    async fn fetch(&self) -> Result<KeySet, String> {
        match &self.place {
            Place::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
                let bytes = read
                    .map_err(|error| error.to_string())?
                    .map_err(|error| error.to_string())?;
                KeySet::parse(&bytes)
            }
            Place::Address(url, client) => {
                let answer = tokio::time::timeout(DEADLINE, get(client, url.clone())).await;
                KeySet::parse(&answer.map_err(|_| format!("no answer within {} s", DEADLINE.as_secs()))??)
            }
        }
    }

    fn place(&self) -> String {
        match &self.place {
            Place::Address(url, _) => url.to_string(),
            Place::File(path) => path.display().to_string(),
        }
    }
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeySource({})", self.place())
    }
}

impl Known {
    fn is_within(&self, age: i64, now: i64) -> bool {
        // A clock that was set back makes no keys good for longer.
        self.fetched
            .is_some_and(|at| (-REST_MS..age).contains(&now.saturating_sub(at)))
    }
}

fn address(written: &str) -> Result<(Url, bool), String> {
    let url: Url = written.parse().map_err(|error| format!("keys: no address: {error}"))?;
    // First: what follows says it again.
    if !url.username().is_empty() || url.password().is_some() {
        return Err("keys: the address holds a password".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    let ip = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    let is_loopback = host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback());
    if url.scheme() == "http" && !is_loopback {
        return Err(format!(
            "keys: '{written}': in the clear, anybody on the way could name keys of theirs: use https"
        ));
    }
    Ok((url, is_loopback))
}

fn client(url: &Url, is_loopback: bool) -> Result<reqwest::Client, String> {
    let mut roots = rustls::RootCertStore::empty();
    if url.scheme() == "https" {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("the system has no trusted certificates".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("parler-hub/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .timeout(DEADLINE);
    if is_loopback {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| error.to_string())
}

async fn get(client: &reqwest::Client, url: Url) -> Result<Vec<u8>, String> {
    let told = |error: reqwest::Error| causes(&error);
    let mut answer = client.get(url).send().await.map_err(told)?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(format!("the answer is {}", answer.status()));
    }
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await.map_err(told)? {
        if body.len() + piece.len() > MAX_BYTES {
            return Err(format!("it is over {MAX_BYTES} bytes"));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body)
}

/// The innermost cause: the outer ones only say that there was one.
fn causes(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
