//! The page about queues, as its reader types it: a worker runs a project's tests, and another mends what they found.

use crate::world;

/// Only the id that the reader would copy is found by a program.
#[test]
fn the_page_works_as_it_is_written() {
    const SHOWN_ID: &str = "7d40c19be2f6";
    let page = include_str!("../../../docs/queues.md");
    let blocks = page
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    let id = "$(git parler show 4 --service mend --json | jq -r .handoff.bundle.id | cut -c1-12)";
    let script = blocks.collect::<String>().replace(SHOWN_ID, id);
    assert!(script.lines().count() > 30 && !script.contains(SHOWN_ID), "{script}");
    let world = world();
    let user = world.user().within(world.directory("place"));
    let ran = user.run("sh", ["-e", "-c", &script]).success();
    ran.warns("job 1 for service test: git parler status 1 --service test --wait done");
    ran.warns("job 5 is failed, not done");
    for line in [
        "job 1 for service test from alice · done",
        "1 test passed",
        "job 5 for service test from alice · failed",
        "there is no basket",
        "job 1 for service mend from alice · done",
        "HANDOFF TO YOU from tester · message 4",
        "mender: Sell baskets again",
    ] {
        ran.says(line);
    }
}
