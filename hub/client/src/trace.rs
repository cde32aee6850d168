//! What a client tells whoever traces it: each request, how it ended and how long that took. Never a header, never a body,
//! so no token, key or invite.

use std::time::Duration;

use reqwest::Response;

use crate::ClientError;
use crate::request::Request;

/// A request and its answer, or why there was none. Of an answer that is still to be read the length is told where the
/// hub has announced it.
pub(crate) fn request(request: &Request<'_>, answer: &Result<Response, ClientError>, took: Duration, attempt: u32) {
    let (method, path, sent) = (&request.method, request.path.as_str(), request.body.size());
    let ms = millis(took);
    match answer {
        Ok(response) => {
            let (status, received) = (response.status().as_u16(), response.content_length());
            tracing::debug!(status, sent, received, ms, attempt, "{method} {path}");
        }
        Err(error) => tracing::debug!(%error, sent, ms, attempt, "{method} {path}"),
    }
}

/// That something is asked for again, and after which rest.
pub(crate) fn again(rest: Duration, failure: &ClientError) {
    tracing::debug!(ms = millis(rest), %failure, "trying again after a rest");
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
