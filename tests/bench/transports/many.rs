//! About a thousand commits at once, as after some days of work.

use crate::Stage;
use crate::report::{Report, Row};
use crate::transport::BRANCH;

/// Pushes them to a new remote each round.
pub(crate) fn run(stage: &Stage<'_>, report: &mut Report) {
    let prepared = &stage.prepared;
    let older = prepared.older();
    let base = stage.world.repository(older.repository.clone()).rev(BRANCH);
    for round in 0..stage.arguments.long_rounds() {
        for transport in &stage.transports {
            let remote = format!("many-{round}");
            transport.make(&remote, Some(&older.repository));
            let name = format!("many-{:?}.git", transport.name());
            let url = transport.url(&remote);
            let client = prepared.client(&name, Some(&prepared.long), &url, Some(&base));
            let taken = stage.meter.run(&transport.push(client.path(), &remote, Some(&base)));
            report.add(Row::PushMany, transport.name(), taken);
        }
    }
    report.note(format!("About 1,000 commits are {} here.", older.missing));
}
