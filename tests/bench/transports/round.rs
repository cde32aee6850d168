//! Rounds in which the transports take turns.

use parler_harness::Repository;

use crate::Stage;
use crate::meter::Taken;
use crate::report::{Report, Row};
use crate::transport::{TRACKING, Transport};

/// One transport's clients in a scenario.
pub(crate) struct Seat<'s, 'w> {
    pub(crate) transport: &'s (dyn Transport<'w> + 'w),
    pub(crate) remote: String,
    /// Who pushes.
    pub(crate) author: Repository<'w>,
    /// Who fetches.
    pub(crate) reader: Repository<'w>,
}

impl Seat<'_, '_> {
    /// Pushes the author's branch.
    pub(crate) fn push(&self, stage: &Stage<'_>, base: Option<&str>) -> Taken {
        stage
            .meter
            .run(&self.transport.push(self.author.path(), &self.remote, base))
    }

    /// Fetches, and asserts that this came.
    pub(crate) fn fetch(&self, stage: &Stage<'_>, expected: &str) -> Taken {
        let taken = stage.meter.run(&self.transport.fetch(self.reader.path(), &self.remote));
        assert_eq!(self.reader.rev(TRACKING), expected, "{:?}", self.transport.name());
        taken
    }

    pub(crate) fn add(&self, report: &mut Report, row: Row, taken: Taken) {
        report.add(row, self.transport.name(), taken);
    }
}
