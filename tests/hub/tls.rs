//! `parler-hub` with a certificate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parler_hub::TlsIdentity;
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{RunningProgram, TestHub, in_time, program};

/// A certificate for `localhost` that nobody vouches for, in files.
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
    der: CertificateDer<'static>,
}

impl Identity {
    fn write(directory: &Path, name: &str) -> Self {
        let pair = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .self_signed(&pair)
            .unwrap();
        let identity = Self {
            certificate: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}.key")),
            der: certificate.der().clone(),
        };
        std::fs::write(&identity.certificate, certificate.pem()).unwrap();
        std::fs::write(&identity.key, pair.serialize_pem()).unwrap();
        identity
    }
}

/// A connection to the hub of whoever trusts just this certificate.
async fn connect(address: std::net::SocketAddr, trusted: &Identity) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Asks on an open connection whether the hub is well.
async fn ask(stream: &mut TlsStream<TcpStream>, port: u16) {
    let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let coming = async {
        while !answer.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
        }
    };
    in_time("an answer", coming).await;
    assert!(answer.starts_with(b"HTTP/1.1 200 "));
}

fn serve_with(command: &mut std::process::Command, identity: &Identity) {
    command
        .args(["--log", "json", "--tls-cert"])
        .arg(&identity.certificate)
        .arg("--tls-key")
        .arg(&identity.key);
}

#[tokio::test]
async fn a_certificate_is_read_again_and_open_connections_stay() {
    let directory = tempfile::TempDir::new().unwrap();
    let first = Identity::write(directory.path(), "first");
    let second = Identity::write(directory.path(), "second");
    let hub = RunningProgram::with(&directory.path().join("data"), |command| serve_with(command, &first));
    let mut old = connect(hub.address, &first).await.unwrap();
    ask(&mut old, hub.address.port()).await;

    // A key without its certificate changes nothing.
    std::fs::copy(&second.key, &first.key).unwrap();
    hub.signal(Signal::HUP);
    hub.wait_for_log("is not that of the certificate");
    ask(&mut connect(hub.address, &first).await.unwrap(), hub.address.port()).await;

    std::fs::copy(&second.certificate, &first.certificate).unwrap();
    hub.signal(Signal::HUP);
    // The signal is heard some time soon.
    let mut new = loop {
        if let Ok(stream) = connect(hub.address, &second).await {
            break stream;
        }
        tokio::task::yield_now().await;
    };
    ask(&mut new, hub.address.port()).await;
    ask(&mut old, hub.address.port()).await;
    let (ended_well, log) = hub.end(Signal::TERM);
    assert!(ended_well, "{log}");
    assert!(log.contains("the certificate was read again"), "{log}");
    assert!(!log.contains("PRIVATE"), "{log}");
}

#[tokio::test]
async fn plain_http_and_half_a_handshake_are_given_up() {
    let directory = tempfile::TempDir::new().unwrap();
    let identity = Identity::write(directory.path(), "hub");
    let hub = TestHub::with(|options| {
        options.tls = Some(TlsIdentity::load(&identity.certificate, &identity.key).unwrap());
        options.limits.header_timeout = Duration::from_millis(50);
        options.limits.max_connections = 1;
    })
    .await;
    for begun in [&b"GET /healthz HTTP/1.1\r\n\r\n"[..], &[0x16, 0x03, 0x01], b""] {
        let mut stream = TcpStream::connect(hub.address).await.unwrap();
        stream.write_all(begun).await.unwrap();
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got).await;
        assert!(!String::from_utf8_lossy(&got).contains("200 OK"));
    }
    // Each held the only place for a moment and no longer.
    ask(&mut connect(hub.address, &identity).await.unwrap(), hub.address.port()).await;
}

#[test]
fn files_that_will_not_do_are_named() {
    let directory = tempfile::TempDir::new().unwrap();
    let (one, other) = (
        Identity::write(directory.path(), "one"),
        Identity::write(directory.path(), "other"),
    );
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let garbled = directory.path().join("garbled.key");
    std::fs::write(
        &garbled,
        "-----BEGIN PRIVATE KEY-----\nc2VjcmV0!!\n-----END PRIVATE KEY-----\n",
    )
    .unwrap();
    let missing = directory.path().join("missing");
    for (certificate, key, expected) in [
        (&missing, &one.key, "cannot read"),
        (&one.certificate, &missing, "cannot read"),
        (&empty, &one.key, "holds no certificate"),
        (&one.key, &one.key, "holds no certificate"),
        (&one.certificate, &one.certificate, "holds no private key"),
        (&one.certificate, &garbled, "holds no private key"),
        (&one.certificate, &other.key, "is not that of the certificate"),
    ] {
        let output = program()
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(directory.path().join("data"))
            .arg("--tls-cert")
            .arg(certificate)
            .env("PARLER_HUB_TLS_KEY", key)
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{stderr}");
        let named = [certificate, key]
            .iter()
            .any(|file| stderr.contains(file.to_str().unwrap()));
        assert!(named && !stderr.contains("c2VjcmV0"), "{stderr}");
    }
    let half = program()
        .args(["serve", "--data", "x", "--tls-key", "y"])
        .output()
        .unwrap();
    assert_eq!(half.status.code(), Some(2));
    assert!(String::from_utf8(half.stderr).unwrap().contains("--tls-cert"));
}
