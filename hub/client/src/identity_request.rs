//! Asking a CI runner for its job's identity token, by the contract of GitHub's runners, which others keep as well: an
//! address and a bearer in the job's environment. Goes nowhere else, and tells nobody either of the two.

use std::time::Duration;

use serde::Deserialize;
use url::Url;

use crate::tls::tls_of;

/// Largest answer that is read: a token has 16 KiB at most.
const MAX_ANSWER_BYTES: usize = 64 << 10; // 64 KiB
/// How long a runner is waited for.
const DEADLINE: Duration = Duration::from_secs(30);

/// Why a runner gave no identity token. Says neither its address nor its bearer.
#[derive(Debug, thiserror::Error)]
pub enum IdentityRequestError {
    /// The address is none, or would be asked in the clear.
    #[error("the runner's address for identity tokens is no https address")]
    Address,
    /// There was no answer.
    #[error("the runner cannot be asked for the job's identity token: {0}")]
    NoAnswer(String),
    /// The runner gave none.
    #[error("the runner gives the job no identity token: it answers {0}")]
    Refused(u16),
    /// The answer is not of the form.
    #[error("the runner's answer holds no identity token")]
    NoToken,
}

#[derive(Deserialize)]
struct Answer {
    value: String,
}

/// The identity token of this job, for this audience. Blocks, at most for half a minute.
///
/// # Errors
/// See [`IdentityRequestError`].
pub fn request_identity_token(address: &str, bearer: &str, audience: &str) -> Result<String, IdentityRequestError> {
    let mut url: Url = address.parse().map_err(|_| IdentityRequestError::Address)?;
    let is_loopback = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        _ => false,
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_loopback) {
        return Err(IdentityRequestError::Address);
    }
    url.query_pairs_mut().append_pair("audience", audience);
    let no_answer = |why: &dyn std::fmt::Display| IdentityRequestError::NoAnswer(why.to_string());
    let tls = tls_of(url.scheme() == "https").map_err(|error| no_answer(&error))?;
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("parler/", env!("CARGO_PKG_VERSION")))
        // The bearer is for that address alone.
        .redirect(reqwest::redirect::Policy::none())
        .timeout(DEADLINE);
    if is_loopback {
        builder = builder.no_proxy();
    }
    let http = builder.build().map_err(|error| no_answer(&error.without_url()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| no_answer(&error))?;
    runtime.block_on(async {
        let failed = |error: reqwest::Error| no_answer(&error.without_url());
        let mut answer = http.get(url).bearer_auth(bearer).send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(IdentityRequestError::Refused(answer.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(failed)? {
            if body.len() + piece.len() > MAX_ANSWER_BYTES {
                return Err(IdentityRequestError::NoToken);
            }
            body.extend_from_slice(&piece);
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| IdentityRequestError::NoToken)?;
        Ok(answer.value)
    })
}
