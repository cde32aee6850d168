//! How long is rested between two tries to reach a hub: longer each time up to a most, and never as long as another client
//! rests. Neither counts the tries nor looks at a clock.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// The rests of a call or a transfer, without end: somebody waits for it. Up to 2 s, to which chance adds as much again.
pub(crate) fn of_a_call(first: Duration) -> ExponentialBackoff {
    rests(first, Duration::from_secs(2))
}

/// The rests of a stream, without end: nobody waits for more than the next message, and a hub that comes back must not be
/// met by everybody at once. Up to 5 s, to which chance adds as much again.
pub fn rests_of_a_stream() -> impl Iterator<Item = Duration> {
    of_a_stream()
}

pub(crate) fn of_a_stream() -> ExponentialBackoff {
    rests(Duration::from_millis(100), Duration::from_secs(5))
}

fn rests(first: Duration, longest: Duration) -> ExponentialBackoff {
    ExponentialBuilder::new()
        .with_jitter()
        .with_min_delay(first)
        .with_max_delay(longest)
        .without_max_times()
        .build()
}
