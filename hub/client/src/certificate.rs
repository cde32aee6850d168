//! Why a hub's certificate is not trusted, or its scheme is another, in words that say what to do. Decides nothing: that
//! rustls and hyper have done.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// What is wrong with the certificate, where that is why there was no connection.
pub(crate) fn distrust(error: &reqwest::Error) -> Option<String> {
    causes(error).find_map(|cause| match cause.downcast_ref()? {
        rustls::Error::InvalidCertificate(why) => Some(reason(why)),
        _ => None,
    })
}

/// What to do where the address says `http` and TLS is spoken there, or the other way round.
pub(crate) fn other_scheme(error: &reqwest::Error) -> Option<&'static str> {
    causes(error).find_map(|cause| {
        if let Some(rustls::Error::InvalidMessage(_)) = cause.downcast_ref() {
            return Some("it speaks no TLS; is it a hub of http:// ?");
        }
        let parsed = cause.downcast_ref::<hyper::Error>()?;
        // A head without end is HTTP. Only a server of hyper's is told apart by a method.
        let is_other = parsed.is_parse() && parsed.to_string() != "message head is too large";
        is_other.then_some("it speaks no HTTP; is it a hub of https:// ?")
    })
}

/// What is behind an error, from the outside to the inside.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| {
        // An I/O error hands on what is behind its own cause, and that cause not.
        let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        inner
            .map(|inner| inner as &(dyn Error + 'static))
            .or_else(|| cause.source())
    })
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
