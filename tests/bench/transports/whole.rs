//! A repository that comes to a remote for the first time, and is cloned from there.

use std::fs;

use crate::Stage;
use crate::report::{Report, Row};
use crate::transport::BRANCH;

/// Pushes it to a new remote each round, and clones that.
pub(crate) fn run(stage: &Stage<'_>, report: &mut Report) {
    let prepared = &stage.prepared;
    let whole = prepared.whole();
    let tip = stage.world.repository(whole).rev(BRANCH);
    for round in 0..stage.arguments.long_rounds() {
        for transport in &stage.transports {
            let remote = format!("whole-{round}");
            transport.make(&remote, None);
            let name = format!("whole-{:?}.git", transport.name());
            let client = prepared.client(&name, Some(whole), &transport.url(&remote), None);
            let taken = stage.meter.run(&transport.push(client.path(), &remote, None));
            report.add(Row::FirstPush, transport.name(), taken);
            let copy = stage.world.path().join("copy.git");
            let taken = stage.meter.run(&transport.clone_to(&remote, &copy));
            assert_eq!(stage.world.repository(copy.clone()).rev(BRANCH), tip);
            fs::remove_dir_all(copy).unwrap();
            report.add(Row::Clone, transport.name(), taken);
        }
    }
}
