//! Thousands of connections that say nothing, and an agent that works beside them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use parler_harness::peak_memory_kib;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{hub_server, world};

/// Half of them are silent, half have begun a request.
const IDLE: u64 = 2_000;
/// The most memory that the hub may have held.
const MOST_KIB: usize = 96 << 10;
/// The hub gives a connection that says nothing 10 s. It may be much busier than that.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lets this process, and the hub that it starts, have as many files open as that needs.
fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = IDLE + 1_000;
    let most = limit.maximum.map_or(wanted, |most| most.min(wanted));
    assert_eq!(most, wanted, "this needs {wanted} open files");
    let raised = Rlimit {
        current: limit.current.map(|now| now.max(wanted)),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

#[test]
fn s11_connections_that_say_nothing_keep_nobody_from_work() {
    open_many_files();
    let world = world();
    let hub = hub_server::start(&world);
    let origin = world.origin();
    let (work, other) = (world.clone_of(&origin, "work"), world.clone_of(&origin, "other"));
    let alice = world.stranger("alice").on(&hub).at(&work);
    let code = alice.parler("invite --group x").success().word().to_owned();
    let bob = world.stranger("bob").on(&hub).at(&other);
    bob.parler(["join", &code]).success();

    let mut idle: Vec<TcpStream> = (0..IDLE)
        .map(|_| TcpStream::connect(hub.authority()).unwrap())
        .collect();
    for stream in idle.iter_mut().step_by(2) {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    }
    let tip = work.commit("a.txt", "one\n");
    alice.git("push --quiet parler::room/x HEAD:refs/heads/topic").success();
    bob.git("fetch --quiet parler::room/x topic").success();
    assert_eq!(other.rev("FETCH_HEAD"), tip);

    // Each is ended by the hub, without a word: nobody has asked anything yet.
    for (number, mut stream) in idle.into_iter().enumerate() {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = Vec::new();
        let ended = stream.read_to_end(&mut said).map_err(|error| error.kind());
        assert_eq!(
            (ended, String::from_utf8_lossy(&said).as_ref()),
            (Ok(0), ""),
            "{number}"
        );
    }
    // It was not the hub that ended.
    assert_eq!(crate::room_refs(&bob, "x")["refs/heads/topic"], tip);
    let peak = peak_memory_kib(hub.pid());
    println!("the hub held {peak} KiB with {IDLE} connections");
    assert!(peak < MOST_KIB, "{peak} KiB");
}
