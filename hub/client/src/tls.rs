//! The TLS settings of a client: which roots it trusts. Brings its own provider, so that none has to be installed.

use std::sync::Arc;

use crate::{ClientError, HubAddress};

/// TLS for this address.
pub(crate) fn tls_config(address: &HubAddress) -> Result<rustls::ClientConfig, ClientError> {
    tls_of(address.is_https())
}

/// Loading the system's roots costs milliseconds, so what speaks plain http gets an empty store.
pub(crate) fn tls_of(is_https: bool) -> Result<rustls::ClientConfig, ClientError> {
    let mut roots = rustls::RootCertStore::empty();
    if is_https {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            return Err(ClientError::Setup("the system has no trusted certificates".to_owned()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| ClientError::Setup(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
