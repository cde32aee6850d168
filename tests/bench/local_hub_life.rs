//! Measures the local hub's life: `cargo bench -p parler-git --bench local_hub_life`. Prints how long it takes from the
//! start of the process to its first answer, at the first start ever and after a clean stop, and how often the idle hub
//! is woken, alone and with one watcher. Gates nothing: the times are the machine's as much as the program's.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a program that prints what it measured"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_git-parler");
const FIRST_STARTS: usize = 15;
const RESTARTS: usize = 40;
/// How long the idle hub is looked at.
const IDLE: Duration = Duration::from_secs(30);
/// Threads of a pool that have nothing to do end after 10 s.
const SETTLED: Duration = Duration::from_secs(12);

fn main() {
    println!("load: {}", fs::read_to_string("/proc/loadavg").unwrap().trim());
    let first = (0..FIRST_STARTS).map(|_| {
        let home = TempDir::new_in(".").unwrap();
        let (hub, took) = start(home.path());
        stop(hub);
        took
    });
    report("first start ever", first.collect());

    let home = TempDir::new_in(".").unwrap();
    stop(start(home.path()).0);
    let restarts = (0..RESTARTS).map(|_| {
        let (hub, took) = start(home.path());
        stop(hub);
        took
    });
    report("after a clean stop", restarts.collect());

    let (hub, _) = start(home.path());
    command(home.path(), &["invite", "--group", "idle"]).output().unwrap();
    sleep(SETTLED);
    println!("{:>24} {} switches in {IDLE:?}", "idle alone", switches_in(&hub, IDLE));
    let mut watcher = command(home.path(), &["recv", "--room", "idle", "--watch"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    sleep(SETTLED);
    let woken = switches_in(&hub, IDLE);
    println!("{:>24} {woken} switches in {IDLE:?}", "idle with a watcher");
    end(&watcher, Signal::INT);
    watcher.wait().unwrap();
    stop(hub);
}

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(home).env("PARLER_HOME", home);
    command
}

/// Starts a hub as commands do, and waits for its answer to a request.
fn start(home: &Path) -> (Child, Duration) {
    let directory = home.join("data/hub");
    fs::create_dir_all(&directory).unwrap();
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(directory.join("hub.log"));
    let begun = Instant::now();
    let mut hub = command(home, &["hub", "run", "--announce"])
        .arg0("git-parler")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log.unwrap())
        .spawn()
        .unwrap();
    let mut word = String::new();
    BufReader::new(hub.stdout.take().unwrap()).read_line(&mut word).unwrap();
    assert_eq!(word, "ready\n");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(directory.join("hub.json")).unwrap()).unwrap();
    let address = record["address"].as_str().unwrap().strip_prefix("http://").unwrap();
    let mut connection = TcpStream::connect(address).unwrap();
    write!(
        connection,
        "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    (hub, begun.elapsed())
}

fn end(process: &Child, signal: Signal) {
    kill_process(Pid::from_child(process), signal).unwrap();
}

fn stop(mut hub: Child) {
    end(&hub, Signal::TERM);
    assert!(hub.wait().unwrap().success());
}

/// How often threads of the process were put to work or aside, in this time.
fn switches_in(process: &Child, time: Duration) -> u64 {
    let before = parler_harness::context_switches(process.id());
    sleep(time);
    parler_harness::context_switches(process.id()) - before
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |index: usize| times[index].as_secs_f64() * 1000.0;
    println!(
        "{what:>24} median {:.1} ms, min {:.1} ms, max {:.1} ms of {}",
        ms(times.len() / 2),
        ms(0),
        ms(times.len() - 1),
        times.len()
    );
}
