//! A hub that is killed again and again under a mixed load, always on the same data: what was acknowledged is there, once and
//! in order, the refs are those of the log, and no file is left that nothing needs.

use super::load::load;
use super::stage::{Stage, forget};
use super::worker::Plan;

/// How often, unless `PARLER_TEST_KILLS` says otherwise.
const KILLS: u32 = 30;

#[test]
fn a_hub_that_is_killed_again_and_again_keeps_what_it_acknowledged() {
    let wanted = std::env::var("PARLER_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let stage = Stage::new();
    let mut hub = stage.hub("killed");
    hub.restart();
    let plan = Plan {
        rounds: u32::MAX,
        kills: wanted,
        ..Plan::MIXED
    };
    let loaded = load(&stage, &mut hub, &plan);
    assert!(!loaded.ends.is_empty());
    hub.kill();
    hub.restart();
    stage.audit(&hub, &loaded.work);
    let acknowledged: usize = loaded.work.iter().map(|work| work.acknowledged.len()).sum();
    println!("{} kills, {acknowledged} messages acknowledged", loaded.ends.len());
    forget(hub);
}
