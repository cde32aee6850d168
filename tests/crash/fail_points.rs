//! A hub that dies at each step there is (`hub/src/fail_point.rs`), in the middle of a mixed load, while it starts on data of
//! several kinds, or while it ends; and is started again. A step that nothing here leads to fails the test.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Mutex;
use std::thread;

use parler_harness::{HubProcess, PlainHttp, RawClient, audit_room};
use parler_hub::fail_point::FailPoint;
use parler_protocol::{BundleId, RoomKind, RoomName, TextPart};

use super::load::load;
use super::stage::{Stage, copy, hub_at, make_directory, rows};
use super::worker::Plan;

/// Trials at one time.
const AT_ONCE: usize = 2;
/// What SIGKILL is to a process.
const KILLED: Option<i32> = Some(9);

#[test]
fn a_hub_that_dies_at_any_step_keeps_what_it_acknowledged() {
    let stage = Stage::new();
    let left = Mutex::new(FailPoint::ALL.iter());
    let missed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().unwrap().next();
                    let Some(point) = next else { break };
                    if !dies(&stage, *point) {
                        missed.lock().unwrap().push(*point);
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "no trial comes to {missed:?}");
}

/// Lets hubs die at this point wherever they come to it, and checks each. Whether any did.
fn dies(stage: &Stage, point: FailPoint) -> bool {
    // In full swing, or else when it comes to it at all.
    if working(stage, point, 2, &Plan::SHORT) || working(stage, point, 1, &Plan::SHORT) {
        return true;
    }
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/data/1");
    let in_new = starting(stage, point, "new", None);
    let in_old = starting(stage, point, "old", Some(&fixture));
    in_new || in_old || working(stage, point, 1, &Plan::HEAVY)
}

fn armed(point: FailPoint, nth: u32) -> Vec<(&'static str, std::ffi::OsString)> {
    vec![("PARLER_HUB_FAIL_POINT", format!("{point}:{nth}").into())]
}

/// Starts the hub, and again without the point where it died of it.
#[track_caller]
fn start(hub: &mut HubProcess) -> bool {
    match hub.try_restart() {
        Ok(()) => false,
        Err(status) => {
            assert_killed(hub, status);
            hub.set_variables(Vec::new());
            hub.restart();
            true
        }
    }
}

/// Ends the hub, which may die of the point, and starts it without.
#[track_caller]
fn end_and_start(hub: &mut HubProcess) -> bool {
    let status = hub.terminate();
    if !status.success() {
        assert_killed(hub, status);
    }
    hub.set_variables(Vec::new());
    hub.restart();
    !status.success()
}

#[track_caller]
fn assert_killed(hub: &HubProcess, status: ExitStatus) {
    assert_eq!(status.signal(), KILLED, "{status}\n{}", hub.log().text());
}

/// A hub with members, who are at work.
fn working(stage: &Stage, point: FailPoint, nth: u32, plan: &Plan) -> bool {
    let mut hub = stage.hub(&format!("{point}-{nth}-{}", plan.small_pushes));
    let orphan = plant_orphan(hub.data());
    hub.set_variables(armed(point, nth));
    let mut died = start(&mut hub);
    let loaded = load(stage, &mut hub, plan);
    for status in loaded.ends {
        assert_killed(&hub, status);
        died = true;
    }
    died |= end_and_start(&mut hub);
    stage.audit(&hub, &loaded.work);
    assert!(!orphan.exists(), "{point}");
    hub.kill();
    fs::remove_dir_all(hub.data()).unwrap();
    died
}

/// A blob that no message brought.
fn plant_orphan(data: &Path) -> PathBuf {
    let id = BundleId::of(b"an orphan").to_string();
    let directory = data.join("blobs").join(&id[..2]);
    make_directory(&directory);
    let path = directory.join(id);
    fs::write(&path, "an orphan").unwrap();
    path
}

/// A hub that is started on this data, or on none.
fn starting(stage: &Stage, point: FailPoint, kind: &str, from: Option<&Path>) -> bool {
    let mut hub = hub_at(&stage.world, &format!("{point}-{kind}"));
    let before = from.map(|from| {
        copy(from, hub.data());
        rows(hub.data())
    });
    hub.set_variables(armed(point, 1));
    let mut died = start(&mut hub);
    died |= end_and_start(&mut hub);

    let client = RawClient::new(&hub.url(), "alice");
    let room: RoomName = "after".parse().unwrap();
    client.calls.create_room(&room, RoomKind::Channel).unwrap();
    let text = "it works".to_owned();
    client.post(&room, vec![TextPart { text }.into()]).unwrap();
    let http = PlainHttp {
        authority: hub.authority().to_owned(),
        token: client.calls.open_session().unwrap().token,
    };
    assert_eq!(audit_room(&client.calls, &http, &room).messages.len(), 1);
    assert!(hub.terminate().success());
    if let Some(before) = before {
        assert!(before.len() > 10, "{before:?}");
        assert!(before.is_subset(&rows(hub.data())), "{point}");
    }
    fs::remove_dir_all(hub.data()).unwrap();
    died
}
