//! Hubs that keep their clients waiting: that accept and never answer, answer byte by byte, or have no end of what they
//! say. Each command ends in its time with one clear line, and leaves nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use parler_harness::{Agent, CuttingProxy, HubProcess, Mishap, Point, Repository, Snapshot, World};

use super::untouched::assert_tidy;
use super::{hub_server, noise, world};

/// What these commands are told to wait for a hub that says nothing.
const TIMEOUT: &str = "1";
/// Longest that anything with that timeout may take: the whole of a small answer gets ten times as long.
const LONGEST: Duration = Duration::from_secs(40);
/// Between two bytes of a slow answer.
const DRIP: Duration = Duration::from_millis(50);

/// What a bad hub does with each connection, once a request has begun.
type Deed = fn(&mut TcpStream) -> std::io::Result<()>;

fn silent(stream: &mut TcpStream) -> std::io::Result<()> {
    // Until the client has gone.
    while stream.read(&mut [0; 4096])? > 0 {}
    Ok(())
}

fn drip(stream: &mut TcpStream, text: &str) -> std::io::Result<()> {
    for byte in text.as_bytes().iter().cycle() {
        stream.write_all(&[*byte])?;
        thread::sleep(DRIP);
    }
    Ok(())
}

fn slow_head(stream: &mut TcpStream) -> std::io::Result<()> {
    drip(stream, "HTTP/1.1 200 OK\r\n")
}

fn endless_head(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
    loop {
        stream.write_all(b"X-More: of the same\r\n")?;
    }
}

fn endless_remarks(stream: &mut TcpStream) -> std::io::Result<()> {
    loop {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
}

fn slow_body(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 100000\r\n\r\n")?;
    drip(stream, " ")
}

fn endless_body(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 401 Unauthorized\r\n\r\n")?;
    loop {
        stream.write_all(&[b' '; 4096])?;
    }
}

/// Where such a hub is. Gone with the test's process.
fn bad_hub(deed: Deed) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || stream.read(&mut [0; 1]).and_then(|_| deed(&mut stream)));
        }
    });
    url
}

#[test]
fn a_hub_that_is_none_is_given_up_in_time() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let before = Snapshot::of(&work);
    thread::scope(|scope| {
        for (what, deed, words) in [
            ("silent", silent as Deed, "gave no answer within 1 s"),
            ("slow head", slow_head, "gave no answer within 1 s"),
            ("endless head", endless_head, "was lost: message head is too large"),
            ("endless remarks", endless_remarks, "gave no answer within 1 s"),
            ("slow body", slow_body, "given up as too slow"),
            ("endless body", endless_body, "an answer of more than 4194304 bytes"),
        ] {
            let agent = world
                .stranger("bob")
                .with("PARLER_HUB", bad_hub(deed))
                .with("PARLER_TIMEOUT", TIMEOUT)
                .at(&work);
            scope.spawn(move || {
                let begun = Instant::now();
                let rooms = agent.parler("rooms").failure();
                rooms.warns(words);
                assert_eq!(rooms.exit_code(), Some(5), "{what}: {rooms:?}");
                assert_eq!(rooms.err().lines().count(), 1, "{what}: {rooms:?}");
                for command in [
                    "push parler::room/x main",
                    "fetch parler::room/x",
                    "ls-remote parler::room/x",
                ] {
                    let git = agent.git(command).failure();
                    git.warns(words);
                    assert_eq!(git.exit_code(), Some(128), "{what}: {git:?}");
                }
                assert!(begun.elapsed() < LONGEST, "{what}: {:?}", begun.elapsed());
            });
        }
    });
    let allowed = [".git/FETCH_HEAD"];
    Snapshot::of(&work).assert_same_as(&before, &allowed);
}

/// A hub behind a proxy, and two repositories that have met there.
struct Stage<'w> {
    proxy: CuttingProxy,
    _hub: HubProcess,
    author: Repository<'w>,
    alice: Agent<'w>,
    place: Repository<'w>,
    bob: Agent<'w>,
}

fn stage(world: &World) -> Stage<'_> {
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(world, &proxy);
    let origin = world.origin();
    let (author, place) = (world.clone_of(&origin, "author"), world.clone_of(&origin, "place"));
    let agent = |name: &str, place: &Repository<'_>| {
        let agent = world.stranger(name).with("PARLER_HUB", proxy.url());
        agent.with("PARLER_TIMEOUT", TIMEOUT).at(place)
    };
    let (alice, bob) = (agent("alice", &author), agent("bob", &place));
    let code = alice.parler("invite --group slow").success().word().to_owned();
    bob.parler(["join", &code]).success();
    alice.git("push --quiet parler::room/slow main").success();
    author.git("config pack.compression 0").success();
    author.git("config core.bigFileThreshold 1m").success();
    Stage {
        author,
        alice,
        place,
        bob,
        proxy,
        _hub: hub,
    }
}

#[test]
fn a_download_that_drips_is_given_up_and_one_that_stands_still_is_taken_up_again() {
    let world = world();
    let Stage {
        proxy,
        author,
        alice,
        place,
        bob,
        _hub,
    } = stage(&world);
    author.write("noise", noise(3 << 20, 4));
    author.git("add noise").success();
    author.git("commit --quiet --message noise").success();
    alice.git("push --quiet parler::room/slow main").success();
    let fetch = "fetch parler::room/slow main:refs/remotes/there/main";
    let before = place.refs();
    for (point, fault, words) in [
        (Point::Down(2 << 20), Mishap::Drip, "given up as too slow"),
        // Cut, and nobody there any more: after twice the timeout without a byte.
        (Point::Down(2 << 20), Mishap::Gone, "the download came to a stop"),
    ] {
        proxy.break_at(point, fault);
        let begun = Instant::now();
        let slow = bob.git(fetch).failure();
        slow.warns(words).warns("run the same git command again");
        assert_eq!(slow.exit_code(), Some(128));
        assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
        assert_eq!(place.refs(), before);
        assert_tidy("slow", &Snapshot::of(&place));
        place.fsck();
    }
    // On another connection.
    proxy.break_at(Point::Down(2 << 20), Mishap::Stall);
    bob.git(fetch).success();
    assert_eq!(place.rev("there/main"), author.rev("HEAD"));
}

#[test]
fn an_upload_that_nobody_takes_is_given_up() {
    let world = world();
    let Stage {
        proxy,
        author,
        alice,
        _hub,
        ..
    } = stage(&world);
    for (size, words, faults) in [
        // In one request with its message, which may be whole at the hub.
        (
            5 << 20,
            "may or may not have stored the message",
            [Mishap::Stall, Mishap::Drip],
        ),
        // Before its message.
        (12 << 20, "the upload came to a stop", [Mishap::Drip, Mishap::Gone]),
    ] {
        author.write("noise", noise(size, size as u64));
        author.git("add noise").success();
        author.git("commit --quiet --message noise").success();
        for fault in faults {
            proxy.break_at(Point::Up(2 << 20), fault);
            let begun = Instant::now();
            let slow = alice.git("push parler::room/slow main").failure();
            slow.warns(words).warns("run the same git command again");
            assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
        }
        proxy.cut([]);
        alice.git("push parler::room/slow main").success();
    }
    author.fsck();
}

#[test]
fn a_timeout_that_is_none_is_named() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    for bad in ["0", "soon", "-1", "3601", "1s"] {
        let agent = work.user().with("PARLER_TIMEOUT", bad);
        let rooms = agent.parler("rooms").failure();
        rooms.warns(&format!(
            "PARLER_TIMEOUT is '{bad}', which is no number of seconds from 1 to 3600"
        ));
        assert_eq!(rooms.exit_code(), Some(2), "{bad}");
    }
    work.git("config parler.timeout never").success();
    work.user().parler("rooms").failure().warns("parler.timeout is 'never'");
    work.user().with("PARLER_TIMEOUT", "30").parler("rooms").success();
}
