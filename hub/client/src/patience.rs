//! How long a large transfer goes on after its connection was lost: as long as bytes move now and then. Never counts how
//! long the whole takes.

use std::time::{Duration, Instant};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use parler_protocol::ErrorCode;

use crate::{Client, ClientError};

/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How often a hub may answer and then end before the next byte. A blob that is damaged there ends at the same byte each
/// time, however long one waits.
const MOST_EMPTY_ANSWERS: u32 = 5;

/// The patience of one transfer.
pub(crate) struct Patience {
    /// Without a byte of progress.
    most: Duration,
    /// When the first try failed since then.
    failing_since: Option<Instant>,
    /// Answers since then that began and brought nothing.
    empty_answers: u32,
    pauses: ExponentialBackoff,
}

impl Patience {
    pub(crate) fn new(most: Duration) -> Self {
        Self {
            most,
            failing_since: None,
            empty_answers: 0,
            pauses: pauses(),
        }
    }

    /// Bytes have moved.
    pub(crate) fn progressed(&mut self) {
        if self.failing_since.take().is_some() {
            self.empty_answers = 0;
            self.pauses = pauses();
        }
    }

    /// The hub has begun an answer; what counts is whether bytes follow.
    pub(crate) fn answered(&mut self) {
        self.empty_answers += 1;
    }

    /// Waits a moment after this failure, or gives it back where waiting does not help, or not any more.
    pub(crate) fn pause(&mut self, client: &Client, failure: ClientError) -> Result<(), ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let pause = self.pauses.next().unwrap_or(LONGEST_PAUSE);
        let in_time = since.elapsed() + pause < self.most && self.empty_answers < MOST_EMPTY_ANSWERS;
        if !in_time || !(client.revived_after(&failure) || is_passing(&failure)) {
            return Err(failure);
        }
        client.rest(pause);
        Ok(())
    }
}

fn pauses() -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(Duration::from_millis(50))
        .with_max_delay(LONGEST_PAUSE)
        .without_max_times()
        .build()
}

/// Whether a hub that was reached a moment ago may answer otherwise a moment later.
pub(crate) fn is_passing(failure: &ClientError) -> bool {
    match failure {
        ClientError::Lost { .. } | ClientError::Deadline { .. } | ClientError::Unreachable { .. } => true,
        ClientError::Problem(problem) => {
            matches!(
                problem.code,
                ErrorCode::RequestTimeout | ErrorCode::Unavailable | ErrorCode::UploadOffset
            )
        }
        _ => false,
    }
}
