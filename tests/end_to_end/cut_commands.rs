//! Real pushes and fetches whose connections are cut at places all over them, answers that come too late, and requests
//! that arrive twice: what was asked for happens once, and git and the exit code say what is known. Each byte of both is
//! cut in the session's own suite.

use std::collections::BTreeMap;

use parler_harness::{
    Agent, Carried, CuttingProxy, HubProcess, Mishap, Point, RawClient, Repository, Snapshot, World, read_log,
};
use parler_protocol::{Part, RoomName};

use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// How many places in each direction.
const PLACES: u64 = 9;

/// A hub behind a proxy, an author, and a room that both have seen.
pub(crate) struct Stage<'w> {
    pub(crate) proxy: CuttingProxy,
    pub(crate) hub: HubProcess,
    pub(crate) author: Repository<'w>,
    pub(crate) alice: Agent<'w>,
    pub(crate) code: String,
    reader: RawClient,
    room: RoomName,
}

pub(crate) fn stage(world: &World) -> Stage<'_> {
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(world, &proxy);
    let author = world.clone_of(&world.origin(), "author");
    // Nobody waits for long for a hub that has gone.
    let alice = world
        .stranger("alice")
        .with("PARLER_HUB", proxy.url())
        .with("PARLER_TIMEOUT", "1")
        .at(&author);
    let code = alice.parler("invite --group cuts").success().word().to_owned();
    alice.git("push --quiet parler::room/cuts main").success();
    let reader = RawClient::new(&hub.url(), "reader");
    let room = reader.join(&code);
    Stage {
        proxy,
        hub,
        author,
        alice,
        code,
        reader,
        room,
    }
}

impl Stage<'_> {
    /// How often a ref was moved to each place, and each text was said or handed over, read past the proxy.
    pub(crate) fn happened(&self) -> BTreeMap<String, usize> {
        let calls = &self.reader.calls;
        let log = read_log(calls, &calls.hub_id().unwrap(), &self.room);
        let mut happened = BTreeMap::new();
        for part in log.messages.iter().flat_map(|message| &message.parts) {
            match part {
                Part::Refs(refs) => {
                    for new in refs.updates.iter().filter_map(|update| update.new) {
                        *happened.entry(new.to_string()).or_default() += 1;
                    }
                }
                Part::Text(text) => *happened.entry(text.text.clone()).or_default() += 1,
                Part::Handoff(handoff) => {
                    let summary = handoff.summary.clone().unwrap_or_default();
                    *happened.entry(summary).or_default() += 1;
                }
                _ => {}
            }
        }
        happened
    }
}

/// Places spread over what was carried, in both directions: the first ones, the last ones, and what is between. Every third
/// time nobody comes back.
pub(crate) fn cuts(carried: &Carried) -> Vec<(Point, Mishap)> {
    let directions = [(carried.up, Point::Up as fn(u64) -> Point), (carried.down, Point::Down)];
    let places = directions.into_iter().flat_map(|(bytes, point)| {
        let spread = (0..PLACES).map(move |number| number * bytes / PLACES);
        spread.chain([1, bytes - 2, bytes - 1]).map(point)
    });
    let faults = [Mishap::Gone, Mishap::Cut, Mishap::Cut].into_iter().cycle();
    places.zip(faults).collect()
}

#[test]
fn a_push_is_told_as_what_it_was_wherever_it_is_cut() {
    let world = world();
    let stage = stage(&world);
    let Stage {
        proxy, author, alice, ..
    } = &stage;
    let push = "push parler::room/cuts HEAD:refs/heads/main";
    author.commit("a.txt", "before\n");
    proxy.cut([]);
    alice.git(push).success();
    let mut unknown = 0;
    for (point, fault) in cuts(&proxy.carried()) {
        let what = format!("{point:?} {fault:?}");
        let tip = author.commit("a.txt", &format!("{what}\n"));
        proxy.break_at(point, fault);
        let pushed = alice.git(push).either();
        let stored = stage.happened().contains_key(&tip);
        if pushed.is_success() {
            assert!(stored, "{what}: {pushed:?}");
        } else {
            assert_eq!(fault, Mishap::Gone, "{what}: {pushed:?}");
            let is_unknown = pushed.err().contains("may or may not have stored the message");
            unknown += usize::from(is_unknown);
            assert!(is_unknown || !stored, "{what}: {pushed:?}");
            pushed.warns("run the same git command again");
            proxy.cut([]);
            alice.git(push).success();
        }
        assert_eq!(stage.happened()[&tip], 1, "{what}");
    }
    assert!(unknown > 0, "none was cut in its answer");
    author.fsck();
    assert_tidy("pushes that were cut", &Snapshot::of(author));
}

#[test]
fn a_fetch_brings_all_or_says_that_it_did_not_wherever_it_is_cut() {
    let world = world();
    let stage = stage(&world);
    let Stage {
        proxy, author, alice, ..
    } = &stage;
    let place = world.clone_of(&world.origin(), "place");
    let bob = world
        .stranger("bob")
        .with("PARLER_HUB", proxy.url())
        .with("PARLER_TIMEOUT", "1")
        .at(&place);
    bob.parler(["join", &stage.code]).success();
    let fetch = "fetch parler::room/cuts main:refs/remotes/there/main";
    bob.git(fetch).success();
    let push = || {
        alice
            .git("push --quiet parler::room/cuts HEAD:refs/heads/main")
            .success()
    };
    author.commit("a.txt", "before\n");
    push();
    proxy.cut([]);
    bob.git(fetch).success();
    let mut failed = 0;
    for (point, fault) in cuts(&proxy.carried()) {
        let what = format!("{point:?} {fault:?}");
        let tip = author.commit("a.txt", &format!("{what}\n"));
        proxy.cut([]);
        push();
        let before = place.refs();
        proxy.break_at(point, fault);
        let fetched = bob.git(fetch).either();
        if !fetched.is_success() {
            failed += 1;
            assert_eq!(fault, Mishap::Gone, "{what}: {fetched:?}");
            assert_eq!(fetched.exit_code(), Some(128), "{what}: {fetched:?}");
            fetched.warns("run the same git command again");
            assert_eq!(place.refs(), before, "{what}");
            assert!(!place.has(&tip), "{what}");
            assert_tidy(&what, &Snapshot::of(&place));
            proxy.cut([]);
            bob.git(fetch).success();
        }
        assert_eq!(place.rev("there/main"), tip, "{what}");
        assert_tidy(&what, &Snapshot::of(&place));
    }
    assert!(failed > 5, "{failed}");
    place.fsck();
}

#[test]
fn a_push_whose_deadline_passes_may_be_acted_on_later_and_happens_once() {
    let world = world();
    let stage = stage(&world);
    let Stage {
        proxy, author, alice, ..
    } = &stage;
    let push = "push parler::room/cuts HEAD:refs/heads/main";
    author.commit("a.txt", "before\n");
    // Each look finds what it knows, so that the answers to it are of one length.
    let look = || alice.git("ls-remote parler::room/cuts").success();
    look();
    proxy.cut([]);
    alice.git(push).success();
    let carried = proxy.carried();
    for (text, point) in [
        // The last bytes of the request arrive when nobody waits any more.
        ("late request", Point::Up(carried.up - 40)),
        // The answer to it does.
        ("late answer", Point::Down(carried.down - 40)),
        ("no answer", Point::Down(carried.down - 400)),
    ] {
        let tip = author.commit("a.txt", &format!("{text}\n"));
        proxy.cut([]);
        look();
        proxy.break_at(point, Mishap::Stall);
        let late = alice.git(push).failure();
        late.warns("gave no answer within 1 s")
            .warns("may or may not have stored the message")
            .warns("run the same git command again: what was stored is up to date then");
        if matches!(point, Point::Up(_)) {
            assert!(!stage.happened().contains_key(&tip), "{text}");
        }
        let passed = proxy.carried();
        proxy.release();
        if matches!(point, Point::Up(_)) {
            // The hub acts, and answers nobody.
            proxy.wait_for_down(passed.down + 1);
        }
        assert_eq!(stage.happened()[&tip], 1, "{text}");
        proxy.cut([]);
        alice.git(push).success().warns("Everything up-to-date");
        assert_eq!(stage.happened()[&tip], 1, "{text}");
    }
}

#[test]
fn what_arrives_twice_happens_once() {
    let world = world();
    let stage = stage(&world);
    let Stage {
        proxy, author, alice, ..
    } = &stage;
    author.git("config pack.compression 0").success();
    author.git("config core.bigFileThreshold 1m").success();
    let small = author.commit("a.txt", "doubled\n");
    author.write("noise", noise(9 << 20, 5));
    author.git("add noise").success();
    author.git("commit --quiet --message noise").success();
    let large = author.rev("HEAD");
    for (what, command) in [
        (
            small.as_str(),
            format!("push parler::room/cuts {small}:refs/heads/main"),
        ),
        // In an upload of its own, whose pieces arrive twice as well.
        (&large, "push parler::room/cuts HEAD:refs/heads/main".to_owned()),
        ("twice", "parler send --room cuts twice".to_owned()),
        ("over", "parler handoff --room cuts --next go --summary over".to_owned()),
    ] {
        proxy.double();
        alice.git(&command).success();
        // At the same moment, and once more when all is over.
        let answers = proxy.wait_for_doubled(2);
        let (once, before) = (stage.happened(), stage.messages());
        println!("{command}: {answers:?}");
        assert_eq!(once.get(what), Some(&1), "{command}");
        proxy.replay();
        assert_eq!((stage.happened(), stage.messages()), (once, before), "{command}");
    }
    assert!(stage.hub.log().text().contains("/messages"));
    author.fsck();
}

impl Stage<'_> {
    fn messages(&self) -> u64 {
        self.reader.head(&self.room).seq.get()
    }
}
