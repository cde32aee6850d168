//! Pushes and fetches whose hub is ended, politely or at once, and started again at places all over them: what was asked for
//! happens once, whether the command outlived that or had to be run again.

use parler_harness::{Agent, Answer, Carried, CuttingProxy, HubProcess, Mishap, Point, RawClient, Snapshot};
use rustix::process::{Pid, Signal, kill_process};

use super::cut_commands::{Stage, stage};
use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// How a hub ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    AtOnce,
    Politely,
}

/// Places spread over what was carried, the last one in the last answer, and an end for each.
fn places(carried: &Carried) -> Vec<(Point, End)> {
    let (up, down) = (carried.up, carried.down);
    let points = [
        Point::Up(0),
        Point::Down(down / 4),
        Point::Up(up / 2),
        Point::Down(down / 2),
        Point::Up(up - up / 8),
        Point::Down(down - 2),
        Point::Up(up - 2),
    ];
    let ends = [End::AtOnce, End::Politely].into_iter().cycle();
    points.into_iter().zip(ends).collect()
}

/// Runs a command, and ends the hub and starts it again when it has come to this place. None: it did not come there.
fn past_restart(
    (proxy, hub): (&CuttingProxy, &mut HubProcess),
    agent: &Agent<'_>,
    command: &str,
    (point, end): (Point, End),
) -> Option<Answer> {
    proxy.break_at(point, Mishap::Stall);
    let running = agent.start_git(command);
    if !proxy.breaks_before_end_of(&running) {
        running.wait().success();
        return None;
    }
    match end {
        End::AtOnce => {
            hub.kill();
            proxy.release();
        }
        // It may finish what it has begun.
        End::Politely => {
            let pid = i32::try_from(hub.pid()).ok().and_then(Pid::from_raw).unwrap();
            kill_process(pid, Signal::TERM).unwrap();
            proxy.release();
            hub.wait_for_end();
        }
    }
    hub.restart();
    Some(running.wait().either())
}

#[test]
fn a_hub_that_restarts_between_two_calls_is_waited_for() {
    let world = world();
    let mut hub = hub_server::start(&world);
    let alice = RawClient::new(&hub.url(), "alice");
    alice.calls.rooms().unwrap();
    hub.kill();
    let second = std::thread::spawn(move || alice.calls.rooms().map(|list| list.rooms.len()));
    hub.restart();
    assert_eq!(second.join().unwrap().unwrap(), 0);
    // Where nobody ever answered nothing is waited for.
    hub.kill();
    let bob = RawClient::new(&hub.url(), "bob");
    let refused = bob.calls.rooms().unwrap_err();
    assert!(refused.is_unreachable(), "{refused}");
}

#[test]
fn a_push_happens_once_wherever_its_hub_is_started_again() {
    let world = world();
    let mut stage = stage(&world);
    let alice = stage.alice.without("PARLER_TIMEOUT");
    stage.author.git("config pack.compression 0").success();
    let push = "push parler::room/cuts HEAD:refs/heads/main";
    // In one request with its message, and in an upload of its own before it.
    for size in [100, 9 << 20] {
        let change = |stage: &Stage<'_>, seed: u64| {
            stage.author.write("noise", noise(size, seed));
            stage.author.git("add noise").success();
            stage.author.git("commit --quiet --message noise").success();
            stage.author.rev("HEAD")
        };
        change(&stage, 1);
        stage.proxy.cut([]);
        alice.git(push).success();
        let mut reached = 0;
        for (number, place) in places(&stage.proxy.carried()).into_iter().enumerate() {
            let what = format!("{size} bytes, {place:?}");
            let tip = change(&stage, 2 + number as u64);
            let pushed = past_restart((&stage.proxy, &mut stage.hub), &alice, push, place);
            reached += usize::from(pushed.is_some());
            let stored = stage.happened().get(&tip).copied().unwrap_or(0);
            match pushed {
                Some(pushed) if !pushed.is_success() => {
                    pushed.warns("run the same git command again");
                    let is_unknown = pushed.err().contains("may or may not have stored the message");
                    assert!(is_unknown || stored == 0, "{what}: {pushed:?}");
                }
                pushed => assert_eq!(stored, 1, "{what}: {pushed:?}"),
            }
            stage.proxy.cut([]);
            alice.git(push).success();
            assert_eq!(stage.happened()[&tip], 1, "{what}");
        }
        assert!(reached > 4, "{size} bytes: only {reached}");
    }
    stage.author.fsck();
    assert_tidy("pushes", &Snapshot::of(&stage.author));
}

#[test]
fn a_fetch_brings_all_wherever_its_hub_is_started_again() {
    let world = world();
    let mut stage = stage(&world);
    let place = world.clone_of(&world.origin(), "place");
    let bob = world.stranger("bob").with("PARLER_HUB", stage.proxy.url()).at(&place);
    bob.parler(["join", &stage.code]).success();
    let fetch = "fetch parler::room/cuts main:refs/remotes/there/main";
    bob.git(fetch).success();
    let change = |stage: &Stage<'_>, text: &str| {
        let tip = stage.author.commit("a.txt", &format!("{text}\n"));
        stage.proxy.cut([]);
        stage
            .alice
            .git("push --quiet parler::room/cuts HEAD:refs/heads/main")
            .success();
        tip
    };
    change(&stage, "before");
    stage.proxy.cut([]);
    bob.git(fetch).success();
    let mut reached = 0;
    for at in places(&stage.proxy.carried()) {
        let what = format!("{at:?}");
        let tip = change(&stage, &what);
        let before = place.refs();
        let fetched = past_restart((&stage.proxy, &mut stage.hub), &bob, fetch, at);
        reached += usize::from(fetched.is_some());
        if let Some(fetched) = fetched.filter(|fetched| !fetched.is_success()) {
            fetched.warns("run the same git command again");
            assert_eq!(place.refs(), before, "{what}");
            assert_tidy(&what, &Snapshot::of(&place));
            stage.proxy.cut([]);
            bob.git(fetch).success();
        }
        assert_eq!(place.rev("there/main"), tip, "{what}");
        assert_tidy(&what, &Snapshot::of(&place));
    }
    assert!(reached > 4, "only {reached}");
    place.fsck();
}
