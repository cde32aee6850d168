//! How fast an answer comes. A hub that sends a byte now and then is never silent for long, and has no end of it.

use std::time::Duration;

use crate::{Client, ClientError};

/// Slower than this no answer has to be waited for: an eighth of what a hub asks of whoever sends it a body.
const SLOWEST_BYTES_PER_SECOND: u64 = 2 << 10; // 2 KiB/s

/// The pace of one answer.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Time spent in waiting for the hub since the answer was last found to be fast enough.
    waited: Duration,
    /// What came in that time.
    bytes: u64,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self {
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// A piece has come after this wait. What its reader takes its time for does not count.
    ///
    /// # Errors
    /// [`ClientError::TooSlow`] where all that was waited for, at least as long as a hub may be silent, was not worth it.
    pub(crate) fn came(&mut self, client: &Client, bytes: usize, waited: Duration) -> Result<(), ClientError> {
        self.bytes += bytes as u64;
        self.waited += waited;
        if self.waited < client.deadlines().stall {
            return Ok(());
        }
        let seconds = self.waited.as_secs().max(1);
        if self.bytes < SLOWEST_BYTES_PER_SECOND * seconds / client.on_the_line.get().max(1) {
            return Err(client.too_slow(self.bytes, seconds));
        }
        *self = Self::new();
        Ok(())
    }
}
