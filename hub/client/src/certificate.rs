//! Why a hub's certificate is not trusted, in words that say what to do. Decides nothing: that rustls has done.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// What is wrong with the certificate, where that is why there was no connection.
pub(crate) fn distrust(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&(dyn Error + 'static)> = error.source();
    while let Some(error) = cause {
        // An I/O error hands on what is behind its own cause, and that cause not.
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let inner = inner.map(|inner| inner as &(dyn Error + 'static));
        if let Some(rustls::Error::InvalidCertificate(why)) = inner.unwrap_or(error).downcast_ref() {
            return Some(reason(why));
        }
        cause = inner.or_else(|| error.source());
    }
    None
}

fn reason(why: &CertificateError) -> String {
    use CertificateError as Why;
    match why {
        Why::UnknownIssuer => {
            "it is signed by no authority that this machine trusts; where it is one of your own, name \
                               that one's certificate in SSL_CERT_FILE"
                .to_owned()
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "it is not for that name; call the hub by a name that its certificate has".to_owned()
        }
        Why::Expired | Why::ExpiredContext { .. } => "it has expired; the hub's keeper has to renew it".to_owned(),
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "it is not valid yet; see whether this machine's clock is right".to_owned()
        }
        other => other.to_string(),
    }
}
