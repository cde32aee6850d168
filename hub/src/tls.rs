//! The certificate that a hub shows and the key behind it, read from PEM files and read again when told so. Connections
//! that are open keep what they began with. Never holds a key longer than rustls does.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What the hub speaks inside TLS.
const ALPN: &[u8] = b"http/1.1";

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file has nothing of what it is there for.
    #[error("{} holds no {what} in PEM form", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// The key is another certificate's.
    #[error("the key in {} is not that of the certificate in {}", key.display(), certificate.display())]
    Mismatch {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The two cannot be used together for another reason.
    #[error("cannot use the certificate in {}: {why}", certificate.display())]
    Unusable {
        /// The file of the certificate.
        certificate: PathBuf,
        /// Why.
        why: String,
    },
}

/// A certificate and its key. Clones show the same.
#[derive(Clone)]
pub struct TlsIdentity {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<RwLock<Arc<ServerConfig>>>,
}

impl TlsIdentity {
    /// Reads a certificate with those that lead to its authority, the hub's own first, and its private key.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let config = read(&certificate, &key)?;
        Ok(Self {
            certificate,
            key,
            current: Arc::new(RwLock::new(Arc::new(config))),
        })
    }

    /// Reads both files again, for the connections that come. After an error all stays as it was.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(read(&self.certificate, &self.key)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsIdentity {{ {} }}", self.certificate.display())
    }
}

fn read(certificate: &Path, key: &Path) -> Result<ServerConfig, TlsError> {
    let unusable = |error: rustls::Error| match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
        },
        other => TlsError::Unusable {
            certificate: certificate.to_owned(),
            why: other.to_string(),
        },
    };
    let chain = CertificateDer::pem_slice_iter(&content(certificate)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| no_pem(error, certificate, "certificate"))?;
    if chain.is_empty() {
        return Err(no_pem(pem::Error::NoItemsFound, certificate, "certificate"));
    }
    let private = PrivateKeyDer::from_pem_slice(&content(key)?).map_err(|error| no_pem(error, key, "private key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

fn content(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

/// The text of a PEM error may repeat what it could not read, so it is not told.
fn no_pem(_: pem::Error, path: &Path, what: &'static str) -> TlsError {
    TlsError::Missing {
        path: path.to_owned(),
        what,
    }
}
