//! How long a large transfer goes on after its connection was lost: as long as bytes move now and then. Never counts how
//! long the whole takes.

use std::time::{Duration, Instant};

use backon::ExponentialBackoff;
use parler_protocol::ErrorCode;

use crate::{Client, ClientError, Deadlines, rests, trace};

/// How often a hub may answer and then end before the next byte. A blob that is damaged there ends at the same byte each
/// time, however long one waits.
const MOST_EMPTY_ANSWERS: u32 = 5;

/// The patience of one transfer.
pub(crate) struct Patience {
    /// Without a byte of progress.
    most: Duration,
    /// The first rest.
    first: Duration,
    /// When the first try failed since then.
    failing_since: Option<Instant>,
    /// Answers since then that began and brought nothing.
    empty_answers: u32,
    rests: ExponentialBackoff,
}

impl Patience {
    pub(crate) fn new(deadlines: &Deadlines) -> Self {
        Self {
            most: deadlines.transfer,
            first: deadlines.rest,
            failing_since: None,
            empty_answers: 0,
            rests: rests::of_a_call(deadlines.rest),
        }
    }

    /// Bytes have moved.
    pub(crate) fn progressed(&mut self) {
        // Also where nothing failed: an answer that was asked for in the ordinary course is not empty any more.
        self.empty_answers = 0;
        if self.failing_since.take().is_some() {
            self.rests = rests::of_a_call(self.first);
        }
    }

    /// The hub has begun an answer; what counts is whether bytes follow.
    pub(crate) fn answered(&mut self) {
        self.empty_answers += 1;
    }

    /// Waits a moment after this failure, or gives it back where waiting does not help, or not any more.
    pub(crate) fn pause(&mut self, client: &Client, failure: ClientError) -> Result<(), ClientError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        let rest = self.rests.next().expect("rests have no end");
        let in_time = since.elapsed() + rest < self.most && self.empty_answers < MOST_EMPTY_ANSWERS;
        if !in_time || !(client.revived_after(&failure) || is_passing(&failure)) {
            return Err(failure);
        }
        trace::again(rest, &failure);
        client.rest(rest);
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of many bundles asks for what is left after each one that was cut; each brings bytes, and none is a failure.
    #[test]
    fn an_answer_that_brings_bytes_is_not_empty() {
        let mut patience = Patience::new(&Deadlines::default());
        for _ in 0..MOST_EMPTY_ANSWERS {
            patience.answered();
            patience.progressed();
        }
        assert_eq!(patience.empty_answers, 0);
    }
}
