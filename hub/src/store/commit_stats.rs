//! How the writer of a store fares, counted: how many operations shared a commit, and how long it took. Counts nothing
//! of what is stored.

use std::time::Duration;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Counters that a store adds to and whoever measures the hub reads. Clones count together.
#[derive(Debug, Clone)]
pub struct CommitStats {
    operations: Histogram,
    seconds: Histogram,
}

impl Default for CommitStats {
    fn default() -> Self {
        Self {
            // 1 to 1,024: the most that one transaction takes.
            operations: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            // 125 us to about 4 s.
            seconds: Histogram::new(exponential_buckets(0.000_125, 2.0, 16)),
        }
    }
}

impl CommitStats {
    /// One more transaction is on disk.
    pub(super) fn committed(&self, operations: usize, took: Duration) {
        self.operations.observe(operations as f64);
        self.seconds.observe(took.as_secs_f64());
    }

    /// Lets them be read.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "commit_operations",
            "Operations that shared a commit",
            self.operations.clone(),
        );
        registry.register(
            "commit_seconds",
            "Time from the begin of a transaction until it was on disk",
            self.seconds.clone(),
        );
    }
}
