//! A hub behind TLS, with an authority of one's own: git and the watcher as on any other hub, and a certificate that is
//! not to be trusted is told by what is wrong with it and what to do.

use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::World;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::watching::{interrupt, lines, number_and_text};
use super::{hub_server, world};

/// An authority, and what it has signed.
struct Authority {
    directory: PathBuf,
    certificate: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(world: &World, name: &str) -> Self {
        let directory = world.directory(name);
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = directory.join("ca.pem");
        fs::write(&certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        Self {
            directory,
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// A certificate for this host, and its key.
    fn sign(&self, host: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        let (certificate, key_file) = (self.file(host, "pem"), self.file(host, "key"));
        fs::write(&certificate, params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        (certificate, key_file)
    }

    fn file(&self, host: &str, extension: &str) -> PathBuf {
        Path::new(&self.directory).join(format!("{host}.{extension}"))
    }
}

#[test]
fn git_and_a_watcher_speak_tls() {
    let world = world();
    let authority = Authority::new(&world, "authority");
    let hub = hub_server::start_with_tls(&world, authority.sign("127.0.0.1"));
    assert!(hub.url().starts_with("https://"));
    let origin = world.origin();
    let clone = world.clone_of(&origin, "work");
    let trusting = clone.user().on(&hub).with("SSL_CERT_FILE", &authority.certificate);
    let (alice, bob) = (
        trusting.with("PARLER_AGENT", "alice"),
        trusting.with("PARLER_AGENT", "bob"),
    );
    let code = alice.parler("invite --group team").success().word().to_owned();
    bob.parler(format!("join {code}")).success();
    let watch = bob.start_parler("recv --room team --watch --json");

    let tip = clone.commit("a.txt", "one\n");
    alice
        .git("push --quiet parler::room/team HEAD:refs/heads/feature")
        .success();
    alice.parler("send --room team hello").success();
    let output = watch.wait_for_output(|output| output.contains("hello"));
    let watched = lines(&output);
    assert_eq!(number_and_text(watched.last().unwrap()), (2, "hello".to_owned()));
    interrupt(watch);
    bob.git("fetch --quiet parler::room/team feature").success();
    assert_eq!(clone.rev("FETCH_HEAD"), tip);
}

#[test]
fn a_certificate_that_is_not_to_be_trusted_is_refused_with_its_reason() {
    let world = world();
    let (own, other) = (Authority::new(&world, "own"), Authority::new(&world, "other"));
    let hub = hub_server::start_with_tls(&world, own.sign("127.0.0.1"));
    let clone = world.clone_of(&world.origin(), "work");
    let user = clone.user().on(&hub);
    let host = hub.authority();

    let by_other = user.with("SSL_CERT_FILE", &other.certificate);
    let refused = by_other.parler("rooms").code(7);
    refused
        .warns(host)
        .warns("no authority that this machine trusts")
        .warns("SSL_CERT_FILE");
    assert!(refused.one_error_line().contains("certificate"), "{refused:?}");
    by_other
        .git("push parler::room/team HEAD:refs/heads/x")
        .code(128)
        .warns(host)
        .warns("SSL_CERT_FILE");
    // A watcher does not try again for ever what cannot become right.
    by_other.parler("recv --room team --watch").code(7).warns(host);

    // The right authority, and another name.
    let by_name = user
        .with("SSL_CERT_FILE", &own.certificate)
        .with("PARLER_HUB", hub.url().replace("127.0.0.1", "localhost"));
    by_name
        .parler("rooms")
        .code(7)
        .warns("localhost")
        .warns("is not for that name");
}

#[test]
fn the_other_scheme_is_told_at_once() {
    let world = world();
    let authority = Authority::new(&world, "authority");
    let sealed = hub_server::start_with_tls(&world, authority.sign("127.0.0.1"));
    let other_world = super::world();
    let plain = hub_server::start(&other_world);
    let other = |url: String, from: &str, to: &str| url.replacen(from, to, 1);
    for (url, meant) in [
        (other(sealed.url(), "https:", "http:"), "https://"),
        (other(plain.url(), "http:", "https:"), "http://"),
    ] {
        let user = world.user().within(world.directory("place")).with("PARLER_HUB", &url);
        let began = std::time::Instant::now();
        let refused = user.parler("rooms").code(5);
        let line = refused.one_error_line();
        assert!(line.contains(&format!("a hub of {meant} ?")), "{line}");
        // It is not tried again and again.
        assert!(
            began.elapsed() < std::time::Duration::from_secs(5),
            "{:?}",
            began.elapsed()
        );
    }
}
