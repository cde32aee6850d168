//! What commands cost beside requests and children (`counts.rs`): bytes on the wire, and what the hub writes to its disk and
//! syncs. Counted, never timed: the numbers are the same on every machine, and a regression in them fails.

use std::path::PathBuf;

use parler_harness::{
    Agent, Arguments, CallKind, CuttingProxy, GitCounter, HubProcess, Output, Repository, SystemCalls, World, look_for,
    read_trace,
};

use serde_json::Value;

use super::{hub_server, noise, world};

/// The most that may go over the wire beside a bundle.
const BESIDE: u64 = 4 << 10; // 4 KiB
/// The most that may go over the wire to learn that nothing is new.
const UNCHANGED: u64 = 1 << 10; // 1 KiB
/// The most that the hub may write for a message: pages of its database's log.
const SMALL_PUSH: u64 = 96 << 10; // 96 KiB
/// The same for who was sent a bundle.
const NOTE: u64 = 32 << 10; // 32 KiB
/// How a large bundle comes to the hub.
const LARGE_PUSH: [&str; 4] = [
    "GET /v1/rooms/{room}/pushes 304",
    "POST /v1/rooms/{room}/uploads 201",
    "PATCH /v1/rooms/{room}/uploads/{id} 200",
    "POST /v1/rooms/{room}/messages 201",
];

/// Of the new `packed-refs`, and of the directory that gives it its name.
const PINS_SYNCS: usize = 2;

/// A hub whose calls and connections are counted, and two agents in a room of it.
struct Stage<'w> {
    proxy: CuttingProxy,
    hub: HubProcess,
    trace: PathBuf,
    clients_trace: PathBuf,
    counter: GitCounter,
    alice: Agent<'w>,
    bob: Agent<'w>,
    work: Repository<'w>,
    copy: Repository<'w>,
}

/// What one command did.
#[derive(Debug)]
struct Cost {
    requests: Vec<String>,
    children: Vec<String>,
    /// Bytes between client and hub, both ways.
    wire: u64,
    /// Files and directories of which the client waited for the disk.
    syncs: Vec<String>,
    hub: Disk,
}

/// What the hub did to its disk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Disk {
    syncs: usize,
    bytes: u64,
}

impl<'w> Stage<'w> {
    /// Both have a session and the room in their caches, and what was pushed so far.
    fn new(world: &'w World) -> Self {
        let proxy = CuttingProxy::listen();
        let mut hub = hub_server::start_behind(world, &proxy);
        hub.terminate();
        let (trace, clients_trace) = (world.path().join("calls"), world.path().join("clients-calls"));
        let watched = SystemCalls::watched_in(world);
        hub.set_variables(watched.variables(&trace));
        hub.restart();
        let counter = GitCounter::new(world);
        let (work, copy) = (world.init("work", ""), world.init("copy", ""));
        let [alice, bob] = [("alice", &work), ("bob", &copy)].map(|(name, place)| {
            place.git("remote add team parler::room/try").success();
            let mut agent = world.stranger(name).with("PARLER_HUB", proxy.url());
            for (name, value) in watched.variables(&clients_trace) {
                agent = agent.with(name, value);
            }
            agent.at(place).counted_by(&counter)
        });
        let code = alice.parler("invite --group try").success().word().to_owned();
        bob.parler(["join", &code]).success();
        work.commit("a.txt", "one\n");
        let stage = Self {
            proxy,
            hub,
            trace,
            clients_trace,
            counter,
            alice,
            bob,
            work,
            copy,
        };
        stage.push();
        // Its own push, as the hub has stored it.
        stage.push();
        stage.fetch();
        stage
    }

    fn disk(&self) -> Disk {
        let mut disk = Disk::default();
        for call in read_trace(&self.trace) {
            // The index of the log is made anew after every start: nobody waits for it.
            let is_kept = call.what.contains("/data/") && !call.what.ends_with("-shm");
            match call.kind {
                CallKind::Sync if is_kept => disk.syncs += 1,
                CallKind::Write if is_kept => disk.bytes += u64::try_from(call.result).unwrap(),
                _ => {}
            }
        }
        disk
    }

    /// What a client has waited for the disk for, since the last time this was asked. git's own waits for the refs that it
    /// writes are left out.
    fn clients_syncs(&self) -> Vec<String> {
        let calls = read_trace(&self.clients_trace);
        let _ = std::fs::remove_file(&self.clients_trace);
        let syncs = calls.into_iter().filter(|call| call.kind == CallKind::Sync);
        syncs
            .map(|call| call.what)
            .filter(|path| !path.contains("/refs/"))
            .collect()
    }

    /// Runs a command, and waits until the hub has noted `later` things behind the answer's back.
    #[track_caller]
    fn cost_with(&self, later: usize, run: impl FnOnce() -> Output) -> Cost {
        self.proxy.cut([]);
        self.counter.take();
        self.clients_syncs();
        let (mark, before) = (self.hub.log().mark(), self.disk());
        run().success();
        let disk = look_for(
            || {
                let now = self.disk();
                (now.syncs >= before.syncs + later).then_some(now)
            },
            || format!("{:?}", self.disk()),
        );
        let carried = self.proxy.carried();
        Cost {
            requests: self.hub.log().since(mark),
            children: self.counter.take(),
            wire: carried.up + carried.down,
            syncs: self.clients_syncs(),
            hub: Disk {
                syncs: disk.syncs - before.syncs,
                bytes: disk.bytes - before.bytes,
            },
        }
    }

    #[track_caller]
    fn push(&self) -> Cost {
        self.cost_with(0, || self.alice.git("push --quiet team HEAD:refs/heads/try"))
    }

    /// A fetch of what is new. That it was sent is noted once, behind the answer.
    #[track_caller]
    fn fetch(&self) -> Cost {
        let cost = self.cost_with(1, || self.bob.git("fetch --quiet team"));
        assert_eq!(self.copy.rev("team/try"), self.work.rev("HEAD"));
        cost
    }

    /// A call of `git parler`.
    #[track_caller]
    fn parler(&self, agent: &Agent<'_>, arguments: impl Arguments) -> Cost {
        self.cost_with(0, || agent.parler(arguments))
    }

    /// How large the bundle of the room's last push is.
    #[track_caller]
    fn last_bundle(&self) -> u64 {
        let log = self.alice.parler("log --room try --json").success();
        let messages = log
            .out()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut sizes = messages.flat_map(|message| {
            let parts = message["parts"].as_array().unwrap().clone();
            parts.into_iter().filter_map(|part| part["size"].as_u64())
        });
        sizes.next().unwrap_or_else(|| panic!("{log:?}"))
    }
}

/// What a push of one commit costs is what a push of any small bundle costs.
#[track_caller]
fn assert_ordinary_push(cost: &Cost, bundle: u64, children: usize) {
    assert_eq!(cost.requests.len(), 2, "{cost:#?}");
    assert_eq!(cost.children.len(), children, "{cost:#?}");
    assert!(cost.wire <= bundle + BESIDE, "{bundle} {cost:#?}");
    assert_eq!(cost.syncs.len(), PINS_SYNCS, "{cost:#?}");
    // The message, its bundle and the refs become durable together.
    assert_eq!(cost.hub.syncs, 1, "{cost:#?}");
    assert!(cost.hub.bytes <= 2 * bundle + SMALL_PUSH, "{bundle} {cost:#?}");
}

#[track_caller]
fn assert_ordinary_fetch(cost: &Cost, bundle: u64, children: usize) {
    assert_eq!(cost.requests.len(), 2, "{cost:#?}");
    assert_eq!(cost.children.len(), children, "{cost:#?}");
    assert!(cost.wire <= bundle + BESIDE, "{bundle} {cost:#?}");
    // git waits for the pack that it indexes, and for both of its indexes.
    assert_eq!(cost.syncs.len(), PINS_SYNCS + 3 * children, "{cost:#?}");
    // Who was sent what: behind the answer, which waits for no disk.
    assert_eq!(cost.hub.syncs, 1, "{cost:#?}");
    assert!(cost.hub.bytes <= NOTE, "{cost:#?}");
}

/// One conditional request, no child, and nothing written.
#[track_caller]
fn assert_nothing_new(cost: &Cost) {
    assert_eq!(cost.requests, ["GET /v1/rooms/{room}/pushes 304"], "{cost:#?}");
    assert_eq!(cost.children, [""; 0], "{cost:#?}");
    assert_eq!(cost.syncs, [""; 0], "{cost:#?}");
    assert!(cost.wire <= UNCHANGED, "{cost:#?}");
    assert_eq!(cost.hub, Disk::default(), "{cost:#?}");
}

#[test]
fn one_commit() {
    let world = world();
    let stage = Stage::new(&world);
    stage.work.commit("b.txt", "two\n");
    let push = stage.push();
    let bundle = stage.last_bundle();
    assert_ordinary_push(&push, bundle, 0);
    // The pusher sees its own push as the hub has stored it, once.
    let own = stage.push();
    assert_eq!(own.requests, ["GET /v1/rooms/{room}/pushes 200"], "{own:#?}");
    assert!(own.children.is_empty() && own.wire <= BESIDE, "{own:#?}");
    assert_eq!(own.hub, Disk::default(), "{own:#?}");
    assert_nothing_new(&stage.push());

    assert_ordinary_fetch(&stage.fetch(), bundle, 0);
    assert_nothing_new(&stage.cost_with(0, || stage.bob.git("fetch --quiet team")));
}

#[test]
fn two_hundred_commits_cost_what_one_does_and_their_bytes() {
    let world = world();
    let stage = Stage::new(&world);
    let mut stream = String::new();
    for number in 0..200 {
        let from = if number == 0 { "from refs/heads/main^0\n" } else { "" };
        let message = format!("Change {number}\n");
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter Somebody <somebody@example.com> {} +0000\ndata {}\n{message}{from}\
             M 100644 inline file{}\ndata {}\n{message}\n",
            1_700_000_200 + number,
            message.len(),
            number % 20,
            message.len()
        ));
    }
    stage.work.import(stream.as_bytes());
    let push = stage.push();
    let bundle = stage.last_bundle();
    // So many commits are packed by git.
    assert_ordinary_push(&push, bundle, 1);
    // So many objects are indexed as a pack.
    assert_ordinary_fetch(&stage.fetch(), bundle, 1);

    // All of the room in one request, however many bundles there are. That they were sent once is known.
    let clone = stage.cost_with(0, || stage.bob.git("clone --quiet parler::room/try clone"));
    assert_eq!(clone.requests.len(), 2, "{clone:#?}");
    assert!((1..=3).contains(&clone.children.len()), "{clone:#?}");
    assert!(clone.wire <= bundle + 2 * BESIDE, "{bundle} {clone:#?}");
    assert_eq!(clone.hub, Disk::default(), "{clone:#?}");
}

/// A bundle that is not kept in the database is a file, which is synced with the directories that lead to it.
#[test]
fn a_bundle_of_nine_mebibytes() {
    let world = world();
    let stage = Stage::new(&world);
    stage.work.write("noise", noise(9 << 20, 7));
    stage.work.git("add noise").success();
    stage.work.git("commit --quiet --message noise").success();
    let push = stage.push();
    let bundle = stage.last_bundle();
    let requests: Vec<_> = push.requests.iter().map(String::as_str).collect();
    assert_eq!(requests, LARGE_PUSH, "{push:#?}");
    assert_eq!(push.children.len(), 1, "{push:#?}");
    assert!(push.wire <= bundle + 2 * BESIDE, "{bundle} {push:#?}");
    // The bundle, the two directories that lead to it, and the message.
    assert!(push.hub.syncs <= 4, "{push:#?}");
    // Its bytes are written once.
    assert!(push.hub.bytes <= bundle + SMALL_PUSH, "{bundle} {push:#?}");
    let fetch = stage.fetch();
    assert_eq!(fetch.requests.len(), 2, "{fetch:#?}");
    assert!((1..=2).contains(&fetch.children.len()), "{fetch:#?}");
    assert!(fetch.wire <= bundle + BESIDE, "{bundle} {fetch:#?}");
}

#[test]
fn words_and_handoffs() {
    const SENT: [&str; 2] = [
        "GET /v1/rooms/{room}/messages 200",
        "POST /v1/rooms/{room}/messages 201",
    ];
    const SHOWN: [&str; 2] = ["GET /v1/rooms/{room}/messages 200", "PUT /v1/rooms/{room}/cursor 200"];
    let world = world();
    let stage = Stage::new(&world);
    stage.parler(&stage.bob, "recv --room try");
    // (who, what, requests, most bytes on the wire, syncs)
    let rows: [(_, &str, &[&str], _, _); 7] = [
        (&stage.alice, "send --room try hello", &SENT, BESIDE, 1),
        (&stage.bob, "recv --room try", &SHOWN, BESIDE, 1),
        (&stage.bob, "recv --room try", &SHOWN[..1], UNCHANGED, 0),
        (&stage.alice, "handoff --room try --next look", &SENT, BESIDE, 1),
        (&stage.bob, "recv --room try", &SHOWN, BESIDE, 1),
        (&stage.bob, "rooms", &["GET /v1/rooms 200"], BESIDE, 0),
        (&stage.bob, "log --room try", &[SENT[0], SENT[0]], 4 * BESIDE, 0),
    ];
    for (agent, command, requests, wire, syncs) in rows {
        let cost = stage.parler(agent, command);
        assert_eq!(cost.requests, requests, "{command}: {cost:#?}");
        assert!(cost.children.is_empty(), "{command}: {cost:#?}");
        assert!(cost.wire <= wire, "{command}: {cost:#?}");
        assert_eq!(cost.hub.syncs, syncs, "{command}: {cost:#?}");
        assert!(cost.hub.bytes <= SMALL_PUSH * syncs as u64, "{command}: {cost:#?}");
    }
    // A push with a handoff is one message.
    stage.work.commit("b.txt", "two\n");
    let handoff = stage.parler(&stage.alice, "push --room try --next look");
    assert_eq!(handoff.requests.len(), 2, "{handoff:#?}");
    assert_eq!(handoff.hub.syncs, 1, "{handoff:#?}");
    assert!(handoff.wire <= stage.last_bundle() + BESIDE, "{handoff:#?}");
}
