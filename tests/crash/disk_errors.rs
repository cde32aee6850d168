//! A disk that fails: each sync, each write and each new name of the real program in turn ends with EIO. Whatever failed,
//! nobody was told otherwise, no sync is tried again, nothing is shown that was not acknowledged, and after a restart
//! everything that was acknowledged is there. `io_error.rs` of the store's suite looks closer at one such error.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use parler_harness::{Call, CallKind, Fault, HubProcess, PlainHttp, SetOnDrop, SystemCalls, read_trace};
use parler_protocol::paths;

use super::load::load;
use super::stage::{Stage, forget, hub_at};
use super::worker::Plan;

/// Trials at one time.
const AT_ONCE: usize = 2;
/// Writes are many and alike: of those after the first ones, each so manieth fails.
const WRITES_IN_A_ROW: usize = 12;
const WRITES_STRIDE: usize = 9;
/// More than there are calls of any kind in one trial.
const MOST: usize = 2_000;

/// One hub whose `nth` call of a kind fails.
struct Trial<'a> {
    stage: &'a Stage,
    calls: &'a SystemCalls,
    fault: Fault,
}

/// What a trial came to.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Came {
    /// There were fewer calls.
    Nowhere,
    /// The hub ended of it.
    Ended,
    /// The hub went on.
    Refused,
}

impl Trial<'_> {
    fn run(&self) -> Came {
        let name = format!("{:?}-{}", self.fault.call, self.fault.nth);
        let mut hub = self.stage.hub(&name);
        let trace = hub.data().with_file_name("trace");
        hub.set_variables(self.calls.variables_with(&trace, &self.fault));
        if hub.try_restart().is_err() {
            // It could not start, and does when the disk is well.
            hub.set_variables(Vec::new());
            hub.restart();
            self.stage.audit(&hub, &[]);
            forget(hub);
            return Came::Ended;
        }
        // Jobs are rows like others, and each of their steps would be a trial.
        let plan = Plan {
            jobs: false,
            ..Plan::SHORT
        };
        let seen = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        let loaded = thread::scope(|scope| {
            let reader = PlainHttp {
                authority: hub.authority().to_owned(),
                token: self.stage.seats[2].token.clone(),
            };
            let (seen, over) = (&seen, &over);
            scope.spawn(move || self.read_on(&reader, seen, over));
            let _end = SetOnDrop(over);
            load(self.stage, &mut hub, &plan)
        });
        let is_fatal = !loaded.ends.is_empty();
        for status in &loaded.ends {
            assert_eq!(status.code(), Some(1), "it ends as after a failure");
        }
        let mut closed_well = true;
        if !is_fatal {
            closed_well = hub.terminate().success();
            hub.set_variables(Vec::new());
            hub.restart();
        }
        if is_fatal {
            let acknowledged = loaded.work.iter().map(|work| work.acknowledged_in_first_life);
            let (seen, acknowledged) = (seen.load(Ordering::Relaxed), acknowledged.max());
            assert!(
                Some(seen) <= acknowledged,
                "message {seen} was shown and never acknowledged: {acknowledged:?}"
            );
        }
        let trace = read_trace(&trace);
        self.look_at(&trace);
        self.stage.audit(&hub, &loaded.work);
        let came = match trace.iter().any(|call| call.kind == CallKind::Fault) {
            false => Came::Nowhere,
            true if is_fatal || !closed_well => Came::Ended,
            true => Came::Refused,
        };
        assert!(came != Came::Nowhere || closed_well);
        forget(hub);
        came
    }

    /// Asks where the log ends until the hub does.
    fn read_on(&self, http: &PlainHttp, seen: &AtomicU64, over: &AtomicBool) {
        let path = format!("{}?limit=0", paths::messages(&self.stage.room));
        while !over.load(Ordering::Relaxed) {
            match http.ask("GET", &path, &[], b"") {
                Ok(answer) if answer.status == 200 => {
                    let seq = answer.json()["head"]["seq"].as_u64().unwrap();
                    seen.fetch_max(seq, Ordering::Relaxed);
                }
                // It ends: what the next one shows is another matter.
                _ => return,
            }
        }
    }

    /// No sync was tried again, and nothing was written behind one that failed.
    fn look_at(&self, calls: &[Call]) {
        let Some(fault) = calls.iter().position(|call| call.kind == CallKind::Fault) else {
            return;
        };
        if self.fault.call != CallKind::Sync {
            return;
        }
        let path = &calls[fault].what;
        // SQLite syncs the directory behind the first sync of its log and does not look at what came of it: the hub has
        // done so before.
        let synced_before = calls[..fault]
            .iter()
            .any(|call| call.kind == CallKind::Sync && call.what == *path);
        if path.ends_with("/data") && synced_before {
            return;
        }
        let again = calls[fault + 1..].iter().find(|call| {
            let touches = matches!(call.kind, CallKind::Sync | CallKind::Write | CallKind::Truncate);
            touches && call.what == *path
        });
        assert_eq!(again, None, "{path} is not touched again");
    }
}

/// Lets each of these calls fail, and says how many hubs ended of it and how many refused something.
fn each(call: CallKind, numbers: impl Iterator<Item = usize> + Send) -> (usize, usize) {
    let stage = Stage::new();
    let calls = SystemCalls::watched_in(&stage.world);
    let (numbers, over) = (Mutex::new(numbers), AtomicBool::new(false));
    let came = Mutex::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let next = numbers.lock().unwrap().next();
                    let Some(nth) = next else { break };
                    let trial = Trial {
                        stage: &stage,
                        calls: &calls,
                        fault: Fault {
                            call,
                            nth,
                            and_on: false,
                            error: "EIO",
                            path: "/data".into(),
                        },
                    };
                    match trial.run() {
                        Came::Nowhere => over.store(true, Ordering::Relaxed),
                        Came::Ended => came.lock().unwrap().0 += 1,
                        Came::Refused => came.lock().unwrap().1 += 1,
                    }
                }
            });
        }
    });
    assert!(over.load(Ordering::Relaxed), "there are more calls than {MOST}");
    came.into_inner().unwrap()
}

#[test]
fn a_sync_that_fails_ends_the_hub_and_no_acknowledged_message() {
    let (ended, refused) = each(CallKind::Sync, 1..MOST);
    println!("{ended} hubs ended, {refused} went on");
    assert!(ended > 10, "only {ended}");
    assert!(
        refused <= 1,
        "after a sync that failed nothing can be promised: {refused}"
    );
}

#[test]
fn a_write_that_fails_is_acknowledged_by_nobody() {
    let numbers = (1..WRITES_IN_A_ROW).chain((WRITES_IN_A_ROW..MOST).step_by(WRITES_STRIDE));
    let (ended, refused) = each(CallKind::Write, numbers);
    println!("{ended} hubs ended, {refused} went on");
    assert!(ended > 5, "only {ended}");
}

#[test]
fn a_name_that_cannot_be_given_is_acknowledged_by_nobody() {
    let (ended, refused) = each(CallKind::Rename, 1..MOST);
    println!("{ended} hubs ended, {refused} went on");
    assert!(ended + refused >= 4, "only {ended} and {refused}");
}

/// The first start of all, each of whose syncs, writes and names fails once.
#[test]
fn a_directory_that_cannot_be_made_is_made_by_the_next_start() {
    let stage = Stage::new();
    let calls = SystemCalls::watched_in(&stage.world);
    for call in [CallKind::Sync, CallKind::Rename, CallKind::Make, CallKind::Write] {
        let numbers: Box<dyn Iterator<Item = usize>> = match call {
            CallKind::Write => Box::new((1..MOST).step_by(WRITES_STRIDE)),
            _ => Box::new(1..MOST),
        };
        for nth in numbers {
            let mut hub = hub_at(&stage.world, &format!("new-{call:?}-{nth}"));
            let trace: PathBuf = hub.data().with_file_name("trace");
            let fault = Fault {
                call,
                nth,
                and_on: false,
                error: if call == CallKind::Make { "ENOSPC" } else { "EIO" },
                path: "/data/".into(),
            };
            hub.set_variables(calls.variables_with(&trace, &fault));
            let started = hub.try_restart();
            if started.is_ok() {
                hub.kill();
            }
            let failed = read_trace(&trace).iter().any(|call| call.kind == CallKind::Fault);
            if let Err(status) = started {
                assert_eq!(status.code(), Some(1), "{fault:?}");
                let told = hub.log().text();
                let told: Vec<_> = told.lines().filter(|line| line.starts_with("parler-hub: ")).collect();
                assert!(told.len() == 1 && told[0].contains("/data"), "{fault:?}: {told:?}");
            }
            hub.set_variables(Vec::new());
            hub.restart();
            hub_is_well(&mut hub);
            forget(hub);
            if !failed {
                break;
            }
        }
    }
}

fn hub_is_well(hub: &mut HubProcess) {
    let client = parler_harness::RawClient::new(&hub.url(), "alice");
    let room = "after".parse().unwrap();
    client
        .calls
        .create_room(&room, parler_protocol::RoomKind::Channel)
        .unwrap();
    let text = "it works".to_owned();
    client
        .post(&room, vec![parler_protocol::TextPart { text }.into()])
        .unwrap();
    assert!(hub.terminate().success());
}
