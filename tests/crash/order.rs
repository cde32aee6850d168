//! The disk has it before the hub says so. Killing a process cannot show that: what it wrote is in the kernel still. So the
//! calls of the real program are noted in their order (`parler_harness::SystemCalls`), and read here as a power failure
//! would: what was written and not synced is gone, and so is a name whose directory was not.

use std::collections::BTreeSet;

use parler_harness::{Call, CallKind, HubProcess, PlainHttp, SystemCalls, read_trace};

use super::load::load;
use super::stage::Stage;
use super::worker::Plan;

/// Messages whose syncs are counted.
const COUNTED: u32 = 40;

/// The first answer that a power failure would make a lie, and what it would take.
pub(crate) fn broken_promise(trace: &[Call]) -> Option<String> {
    let mut unsynced: BTreeSet<&str> = BTreeSet::new();
    for call in trace {
        let what = call.what.as_str();
        match call.kind {
            // The hub's own log.
            CallKind::Write if !what.contains("/data/") => {}
            // The index is made anew from the database's log, an upload's note is nobody's promise.
            CallKind::Write | CallKind::Truncate if what.ends_with("-shm") || what.ends_with(".json") => {}
            CallKind::Write | CallKind::Truncate => {
                unsynced.insert(what);
            }
            CallKind::Sync | CallKind::Unlink if call.result == 0 => {
                unsynced.remove(what);
            }
            CallKind::Rename | CallKind::Link if call.result == 0 => {
                let directory = what.rsplit_once('/').map_or(what, |(directory, _)| directory);
                // A blob in a place where nobody looks.
                if directory.ends_with("/blobs/tmp") {
                    continue;
                }
                let is_content = |path: &&&str| path.contains("/blobs/tmp/") || path.contains("/blobs/uploads/");
                if let Some(content) = unsynced.iter().find(is_content) {
                    return Some(format!("{what} is named before {content} is on disk"));
                }
                unsynced.insert(directory);
            }
            CallKind::Send if is_success(what) => {
                // Bytes of an upload are promised by nobody until a message brings them.
                if let Some(lost) = unsynced.iter().find(|path| !path.contains("/blobs/uploads/")) {
                    return Some(format!("'{what}' is sent before {lost} is on disk"));
                }
            }
            _ => {}
        }
    }
    None
}

fn is_success(line: &str) -> bool {
    line.starts_with("HTTP/1.1 2")
}

/// What happened between one answer and the next, without what happens to files of no promise.
fn answers(trace: &[Call]) -> Vec<Vec<String>> {
    let mut answers = vec![Vec::new()];
    let of_data = |call: &&Call| call.kind == CallKind::Send || call.what.contains("/data");
    for call in trace.iter().filter(of_data).filter(|call| !call.what.ends_with("-shm")) {
        let what = call.what.as_str();
        let (kind, is_last) = match call.kind {
            CallKind::Send if what.starts_with("HTTP/1.1 ") => ("send", true),
            // The rest of an answer.
            CallKind::Send => continue,
            CallKind::Write => ("write", false),
            CallKind::Sync => ("sync", false),
            CallKind::Rename => ("name", false),
            _ => continue,
        };
        let shown = match is_last {
            true => format!("{kind} {}", what.trim_start_matches("HTTP/1.1 ")),
            false => format!("{kind} {}", place(what)),
        };
        let answer = answers.last_mut().unwrap();
        // However many pieces there are.
        if answer.last() != Some(&shown) {
            answer.push(shown);
        }
        if is_last {
            answers.push(Vec::new());
        }
    }
    answers
}

/// A path below the data directory, without what differs from run to run.
fn place(path: &str) -> &'static str {
    let below = path.split_once("/data").map_or("", |(_, below)| below);
    match below {
        "" => "data",
        "/hub.db-wal" => "log",
        "/blobs" => "blobs",
        _ if below.starts_with("/blobs/tmp/") => "blobs/tmp/upload",
        _ if below.ends_with(".json") => "blobs/uploads/ID.json",
        _ if below.starts_with("/blobs/uploads/") => "blobs/uploads/ID",
        _ if below.starts_with("/blobs/") && below.len() == "/blobs/ab".len() => "blobs/ab",
        _ if below.starts_with("/blobs/") => "blobs/ab/BLOB",
        _ => "another",
    }
}

fn watched(stage: &Stage, name: &str) -> HubProcess {
    let calls = SystemCalls::watched_in(&stage.world);
    let mut hub = stage.hub(name);
    let trace = hub.data().with_file_name("trace");
    hub.set_variables(calls.variables(&trace));
    hub
}

fn trace_of(hub: &HubProcess) -> Vec<Call> {
    read_trace(&hub.data().with_file_name("trace"))
}

#[test]
fn an_answer_comes_after_what_it_promises_is_on_disk() {
    let stage = Stage::new();
    let mut hub = watched(&stage, "order");
    hub.restart();
    let plan = Plan {
        workers: 1,
        ..Plan::MIXED
    };
    let loaded = load(&stage, &mut hub, &plan);
    assert!(hub.terminate().success());
    let trace = trace_of(&hub);
    assert_eq!(broken_promise(&trace), None);

    let answers = answers(&trace);
    let shown = |answer: &[&str]| {
        let found = answers.iter().any(|found| found == answer);
        assert!(found, "{answer:?} is not among {answers:#?}");
    };
    shown(&["write log", "sync log", "send 201 Created"]);
    // The first blob of a run brings its directories along.
    let to_disk = ["sync blobs/ab", "sync blobs", "sync data", "write log", "sync log"];
    let with_message = ["write blobs/tmp/upload", "sync blobs/tmp/upload", "name blobs/ab/BLOB"];
    let with_message = [&with_message[..], &to_disk, &["send 201 Created"]].concat();
    shown(&with_message);
    let before = [
        "sync blobs/uploads/ID",
        "name blobs/ab/BLOB",
        "sync blobs/ab",
        "sync blobs",
        "write log",
        "sync log",
        "send 201 Created",
    ];
    shown(&before);

    // The hub is well, and knows it all.
    hub.set_variables(Vec::new());
    hub.restart();
    stage.audit(&hub, &loaded.work);
}

/// One sync a message that is alone, and no more than one and a tenth for each batch of many.
#[test]
fn a_batch_costs_one_sync() {
    let stage = Stage::new();
    let mut hub = watched(&stage, "counted");
    hub.add_variable("PARLER_HUB_METRICS_LISTEN", "127.0.0.1:0");
    hub.restart();
    let said = hub.said();
    let metrics = said.iter().find_map(|line| line.strip_prefix("metrics on http://"));
    let metrics = PlainHttp {
        authority: metrics.unwrap().trim_end_matches("/metrics").to_owned(),
        token: String::new(),
    };
    let batches = || -> usize {
        let page = String::from_utf8(metrics.get("/metrics").body).unwrap();
        let mut lines = page.lines();
        let count = lines.find_map(|line| line.strip_prefix("parler_hub_commit_seconds_count "));
        count.unwrap().parse().unwrap()
    };
    let http = PlainHttp {
        authority: hub.authority().to_owned(),
        token: stage.seats[0].token.clone(),
    };
    let path = parler_protocol::paths::messages(&stage.room);
    let post = |http: &PlainHttp, number: u32| {
        let id = parler_protocol::MessageId::generate();
        let text = format!("message {number}");
        let body = serde_json::json!({ "id": id, "parts": [{ "kind": "text", "text": text }] });
        let fields = [("content-type", "application/json")];
        let answer = http.ask("POST", &path, &fields, &serde_json::to_vec(&body).unwrap());
        assert_eq!(answer.unwrap().status, 201);
    };
    let syncs_of_log = || {
        let is_sync = |call: &&Call| call.kind == CallKind::Sync && call.what.ends_with("/hub.db-wal");
        trace_of(&hub).iter().filter(is_sync).count()
    };
    // The first write of a run begins the log.
    post(&http, 0);
    let before = syncs_of_log();
    (0..COUNTED).for_each(|number| post(&http, number));
    assert_eq!(syncs_of_log() - before, COUNTED as usize, "one sync a message");

    let (before, batches_before) = (syncs_of_log(), batches());
    std::thread::scope(|scope| {
        for seat in &stage.seats {
            let http = PlainHttp {
                token: seat.token.clone(),
                ..http.clone()
            };
            scope.spawn(move || (0..COUNTED).for_each(|number| post(&http, number)));
        }
    });
    let (syncs, batches) = (syncs_of_log() - before, batches() - batches_before);
    let messages = COUNTED as usize * stage.seats.len();
    println!("{syncs} syncs in {batches} batches for {messages} messages of three agents at once");
    assert!(
        batches <= messages && 10 * syncs <= 11 * batches,
        "{syncs} syncs, {batches} batches"
    );
}

#[test]
fn a_trace_that_breaks_the_promise_is_told_apart() {
    let parse = |text: &str| text.lines().map(|line| Call::parse(line.trim())).collect::<Vec<_>>();
    let good = parse(
        "write 9 /x/data/blobs/tmp/upload-1
         sync 0 /x/data/blobs/tmp/upload-1
         rename 0 /x/data/blobs/ab/abcd
         sync 0 /x/data/blobs/ab
         write 9 /x/data/hub.db-wal
         sync 0 /x/data/hub.db-wal
         write 1 /x/data/hub.db-shm
         send 9 HTTP/1.1 201 Created",
    );
    assert_eq!(broken_promise(&good), None);
    // Each sync that is left out, or fails, is missed.
    for missing in [1, 3, 5] {
        let mut without = good.clone();
        without.remove(missing);
        assert!(broken_promise(&without).is_some(), "{missing}");
        let mut failed = good.clone();
        failed[missing].result = -1;
        assert!(broken_promise(&failed).is_some(), "{missing}");
    }
    // So is one that comes too late.
    for (late, before) in [(1, 2), (3, 7), (5, 7)] {
        let mut swapped = good.clone();
        let call = swapped.remove(late);
        swapped.insert(before, call);
        assert!(broken_promise(&swapped).is_some(), "{late}");
    }
    let refused = parse("write 9 /x/data/hub.db-wal\nsend 9 HTTP/1.1 503 Service Unavailable");
    assert_eq!(broken_promise(&refused), None);
}
