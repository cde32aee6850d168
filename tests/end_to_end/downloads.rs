//! A fetch of several large bundles reads several answers side by side, where it may: each goes on alone where its
//! connection is lost, they are imported in their order, and nothing is left of them however the fetch ends.

use std::fs;
use std::path::PathBuf;

use parler_harness::{
    Agent, CallKind, Cut, CuttingProxy, Fault, HubProcess, Mishap, Point, Repository, Snapshot, SystemCalls, World,
    copy_directory,
};
use rustix::process::Signal;

use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// Each bundle is a little larger.
const SIZE: usize = 5 << 20; // 5 MiB
const BUNDLES: usize = 4;
const FETCH: &str = "fetch parler::room/big main:refs/remotes/there/main";
const BEGUN: &str = "GET /v1/rooms/{room}/bundles 200";
const GONE_ON: &str = "GET /v1/rooms/{room}/blobs/{id} 206";

/// A hub behind a proxy, a room with several large bundles, and a reader who has none of them.
struct Stage<'w> {
    proxy: CuttingProxy,
    hub: HubProcess,
    reader: Repository<'w>,
    bob: Agent<'w>,
    /// The reader's repository as it was.
    kept: PathBuf,
    /// The tip of each bundle, in the order of the pushes.
    tips: Vec<String>,
}

impl Stage<'_> {
    /// What is there once everything came.
    #[track_caller]
    fn assert_complete(&self, what: &str) {
        assert_eq!(self.reader.rev("there/main"), self.tips[BUNDLES - 1], "{what}");
        let pins = self.reader.pins();
        for tip in &self.tips {
            assert!(pins.iter().any(|(_, oid)| oid == tip), "{what}: {pins:?}");
        }
        self.reader.fsck();
        self.assert_tidy(what);
    }

    #[track_caller]
    fn assert_tidy(&self, what: &str) {
        assert_tidy(what, &Snapshot::of(&self.reader));
        let ours = fs::read_dir(self.reader.common_dir().join("parler"));
        let ours: Vec<_> = ours
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert!(ours.iter().all(|name| name == "rooms"), "{what}: {ours:?}");
    }

    /// The reader has none of them again.
    fn forget(&self) {
        fs::remove_dir_all(self.reader.path()).unwrap();
        copy_directory(&self.kept, self.reader.path());
        assert!(!self.reader.has(&self.tips[0]));
    }

    /// The answers that brought bundles since then.
    fn answers(&self, mark: parler_harness::Mark) -> (usize, usize) {
        let answers = self.hub.log().since(mark);
        let count = |what| answers.iter().filter(|answer| *answer == what).count();
        (count(BEGUN), count(GONE_ON))
    }
}

fn stage(world: &World) -> Stage<'_> {
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(world, &proxy);
    let (author, reader) = (world.init("author", ""), world.init("reader", ""));
    author.git("config pack.compression 0").success();
    author.git("config core.compression 0").success();
    author.git("config core.bigFileThreshold 1m").success();
    reader.git("config parler.downloads 3").success();
    let alice = world.stranger("alice").with("PARLER_HUB", proxy.url()).at(&author);
    // What stands still here is not given up meanwhile.
    let bob = world
        .stranger("bob")
        .with("PARLER_TIMEOUT", "600")
        .with("PARLER_HUB", proxy.url());
    let bob = bob.at(&reader);
    let code = alice.parler("invite --group big").success().word().to_owned();
    bob.parler(["join", &code]).success();
    let tips = (0..BUNDLES).map(|number| {
        author.write(&format!("noise{number}"), noise(SIZE, number as u64));
        author.git("add .").success();
        author.git("commit --quiet --message noise").success();
        alice.git("push --quiet parler::room/big main").success();
        author.rev("HEAD")
    });
    let kept = world.path().join("kept");
    copy_directory(reader.path(), &kept);
    Stage {
        tips: tips.collect(),
        kept,
        proxy,
        hub,
        reader,
        bob,
    }
}

#[test]
fn several_answers_are_read_at_once_and_each_may_end_as_it_likes() {
    let world = world();
    let stage = stage(&world);
    they_come_at_once_and_are_imported_in_order(&stage);
    stage.forget();
    each_goes_on_alone_where_it_was_cut(&stage);
    stage.forget();
    one_that_cannot_go_on_ends_the_others(&stage);
    stage.forget();
    nothing_is_left_of_those_that_a_signal_ends(&stage);
    where_nothing_may_be_put_down_each_comes_when_it_is_its_turn(&world, &stage);
}

fn they_come_at_once_and_are_imported_in_order(stage: &Stage<'_>) {
    let (proxy, reader, bob) = (&stage.proxy, &stage.reader, &stage.bob);
    // One of them stands still, whichever it is: all that may come beside it comes.
    proxy.break_at(Point::Down(2 << 20), Mishap::Stall);
    let mark = stage.hub.log().mark();
    let fetch = bob.start_git(FETCH);
    proxy.wait_for_down(2 * SIZE as u64);
    assert!(proxy.has_broken());
    assert!(!reader.has(&stage.tips[BUNDLES - 1]));
    proxy.release();
    let answer = fetch.wait().success();
    stage.assert_complete("side by side");
    assert_eq!(stage.answers(mark), (BUNDLES, 0));
    // Told in the order in which they were taken in.
    let told: Vec<_> = answer
        .err()
        .lines()
        .filter(|line| line.contains(" pinned as "))
        .collect();
    let pins = reader.refs();
    let told: Vec<_> = told
        .iter()
        .map(|line| pins[line.rsplit(' ').next().unwrap()].clone())
        .collect();
    assert_eq!(told, stage.tips);

    // From a hub on this machine all come in one answer, unless something else is said.
    stage.forget();
    reader.git("config --unset parler.downloads").success();
    let mark = stage.hub.log().mark();
    bob.git(FETCH).success();
    assert_eq!(stage.answers(mark), (1, 0));
    stage.assert_complete("one after the other");
    reader.git("config parler.downloads 3").success();
}

fn each_goes_on_alone_where_it_was_cut(stage: &Stage<'_>) {
    let mark = stage.hub.log().mark();
    // The first carries the room, and then a bundle.
    stage
        .proxy
        .cut([Cut::Down(4 << 20), Cut::Down(1 << 20), Cut::Never, Cut::Down(6 << 20)]);
    stage.bob.git(FETCH).success();
    let carried = stage.proxy.carried();
    // On a slow machine the first is idle for so long after the room that a bundle comes on another.
    assert!((2..=3).contains(&carried.cuts), "{carried:?}");
    assert_eq!(stage.answers(mark), (BUNDLES, carried.cuts as usize));
    // What was on its way when a connection was cut is lost; what had come is not asked for again.
    let most = (BUNDLES * SIZE + (2 << 20)) as u64;
    assert!(carried.down < most, "{carried:?}");
    stage.assert_complete("cut");
}

fn one_that_cannot_go_on_ends_the_others(stage: &Stage<'_>) {
    let bob = stage.bob.clone().with("PARLER_TIMEOUT", "1");
    let before = stage.reader.refs();
    stage.proxy.break_at(Point::Down(8 << 20), Mishap::Gone);
    let failed = bob.git(FETCH).failure();
    failed
        .warns("the download came to a stop")
        .warns("run the same git command again");
    assert_eq!(failed.exit_code(), Some(128));
    assert_eq!(stage.reader.refs(), before);
    stage.reader.fsck();
    stage.assert_tidy("gone");
    stage
        .proxy
        .cut([Cut::Down(2 << 20), Cut::Down(1 << 20), Cut::Down(3 << 20)]);
    bob.git(FETCH).success();
    stage.assert_complete("again");
}

fn nothing_is_left_of_those_that_a_signal_ends(stage: &Stage<'_>) {
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        stage.proxy.break_at(Point::Down(7 << 20), Mishap::Stall);
        let fetch = stage.bob.start_git(FETCH);
        stage.proxy.wait_for_down(7 << 20);
        fetch.signal_group(signal);
        let answer = fetch.wait().either();
        assert!(!answer.is_success(), "{answer:?}");
        stage.proxy.cut([]);
        assert!(
            !stage.reader.refs().contains_key("refs/remotes/there/main"),
            "{answer:?}"
        );
        stage.reader.fsck();
        stage.bob.git(FETCH).success();
        stage.assert_complete(&format!("{signal:?}"));
        stage.forget();
    }
}

fn where_nothing_may_be_put_down_each_comes_when_it_is_its_turn(world: &World, stage: &Stage<'_>) {
    let directory = world.directory("calls");
    let (library, trace) = (SystemCalls::watched_in(world), directory.join("trace"));
    // At once, and in the middle of a bundle that is being read meanwhile.
    for nth in [1, 60] {
        let fault = Fault {
            call: CallKind::Write,
            nth,
            and_on: true,
            error: "ENOSPC",
            // Their files have no name but their number.
            path: ".git/parler/#".to_owned(),
        };
        let mut bob = stage.bob.clone();
        for (name, value) in library.variables_with(&trace, &fault) {
            bob = bob.with(name, value);
        }
        bob.git(FETCH).success();
        let calls = fs::read_to_string(&trace).unwrap();
        assert!(calls.lines().any(|line| line.starts_with("fault ")), "{nth}");
        fs::remove_file(&trace).unwrap();
        stage.assert_complete(&format!("{nth}"));
        stage.forget();
    }
}

#[test]
fn a_number_of_downloads_that_is_none_is_named() {
    let world = world();
    let work = world.init("work", "");
    work.user().parler("hub start").success();
    work.commit("a.txt", "one\n");
    work.git("push --quiet parler::room/try main").success();
    for bad in ["0", "17", "many", "-1"] {
        work.git(["config", "parler.downloads", bad]).success();
        let fetch = work.git("fetch parler::room/try refs/parler/*:refs/there/*").failure();
        fetch.warns(&format!(
            "parler.downloads is set to \"{bad}\", which is no number from 1 to 16"
        ));
        assert_eq!(fetch.exit_code(), Some(128), "{bad}");
    }
    work.git("config parler.downloads 16").success();
    work.git("fetch parler::room/try refs/parler/*:refs/there/*").success();
}
