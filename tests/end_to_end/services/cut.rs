//! Jobs whose connections are cut at places all over them: each is asked for once, or it is said that nobody knows.

use parler_harness::{CuttingProxy, Mishap, Point, RawClient};
use parler_protocol::ServiceName;
use serde_json::json;

use super::{log_of, place};
use crate::cut_commands::cuts;
use crate::{hub_server, world};

#[test]
fn a_job_is_asked_for_once_wherever_the_connection_is_cut() {
    let world = world();
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(&world, &proxy);
    let worker = RawClient::new(&hub.url(), "worker");
    let service: ServiceName = "review".parse().unwrap();
    worker.calls.serve(&service).unwrap();
    let work = world.clone_of(&world.origin(), "work");
    // Nobody waits for long for a hub that has gone.
    let alice = world
        .stranger("alice")
        .at(&work)
        .with("PARLER_HUB", proxy.url())
        .with("PARLER_TIMEOUT", "1");
    let push = "push parler::service/review HEAD:refs/heads/main";
    alice.git(push).success();
    work.commit("a.txt", "before\n");
    proxy.cut([]);
    alice.git(push).success();
    let carried = proxy.carried();
    let gone =
        [Point::Up(1), Point::Up(carried.up - 1), Point::Down(carried.down - 2)].map(|point| (point, Mishap::Gone));
    let cut = cuts(&carried).into_iter().filter(|(_, fault)| *fault == Mishap::Cut);
    let mut unknown = 0;
    for (point, fault) in cut.chain(gone) {
        let what = format!("{point:?} {fault:?}");
        let tip = work.commit("a.txt", &format!("{what}\n"));
        proxy.break_at(point, fault);
        let pushed = alice.git(push).either();
        let jobs = log_of(&worker, &service);
        let stored = jobs.iter().filter(|job| place(job).2 == json!(tip)).count();
        if pushed.is_success() {
            assert_eq!(stored, 1, "{what}: {pushed:?}");
            continue;
        }
        assert_eq!(fault, Mishap::Gone, "{what}: {pushed:?}");
        let is_unknown = pushed.err().contains("may or may not have stored the message");
        if is_unknown {
            unknown += 1;
            assert!(stored <= 1, "{what}: {pushed:?}");
            // To run it again would be to ask again.
            pushed.warns("git parler status --service review shows whether it is");
            pushed.warns_no("run the same git command again");
        } else {
            assert_eq!(stored, 0, "{what}: {pushed:?}");
        }
    }
    assert!(unknown > 0, "none was cut in its answer");
}
