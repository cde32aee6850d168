//! A hub's data directory with a room and its members, made once and copied for each trial; and what must be true after it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parler_harness::{HubProcess, PlainHttp, RawClient, World, audit_acknowledged, audit_room, blobs_of};
use parler_protocol::api::CreateInvite;
use parler_protocol::limits::INLINE_BLOB_BYTES;
use parler_protocol::{
    AgentKey, AgentName, BundleId, BundlePart, BundleRef, BundleRefName, Draft, Head, HubId, ObjectFormat, Oid, Part,
    RefName, RefUpdate, RefsPart, RoomName, ServiceName, SignContext, Signed, Target, paths, sign,
};

use super::worker::{Work, jobs};

/// Jobs that wait when a trial begins.
const JOBS: usize = 8;
/// Agents there are.
const SEATS: usize = 3;

/// Somebody in the room.
pub(crate) struct Seat {
    pub(crate) key: Arc<AgentKey>,
    pub(crate) name: AgentName,
    pub(crate) token: String,
}

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) hub: HubId,
    pub(crate) room: RoomName,
    pub(crate) head: Head,
    /// A service that everybody serves, with some jobs of somebody else.
    pub(crate) service: ServiceName,
    pub(crate) queue_head: Head,
    pub(crate) seats: Vec<Seat>,
    code: String,
    queue_code: String,
    template: PathBuf,
}

/// The program, on a directory that no trial has touched.
pub(crate) fn hub_at(world: &World, name: &str) -> HubProcess {
    HubProcess::not_started(world, name, HubProcess::program(env!("CARGO_BIN_EXE_parler-hub")))
}

impl Stage {
    pub(crate) fn new() -> Self {
        let world = World::new("/no/program/is/needed");
        let mut hub = hub_at(&world, "template");
        hub.restart();
        let room: RoomName = "crash".parse().unwrap();
        let owner = RawClient::new(&hub.url(), "owner");
        let service: ServiceName = "crash".parse().unwrap();
        let [code, queue_code] = [room.clone(), service.room()].map(|room| {
            let invite = CreateInvite {
                room,
                ttl_secs: None,
                max_uses: None,
                approve: false,
            };
            owner.calls.create_invite(&invite).unwrap().code.to_string()
        });
        for _ in 0..JOBS {
            owner.post(&service.room(), vec![jobs::dispatch(&service)]).unwrap();
        }
        let seats = (0..SEATS).map(|number| {
            let client = RawClient::new(&hub.url(), &format!("agent{number}"));
            client.join(&code);
            client.join(&queue_code);
            let identity = client.calls.identity();
            Seat {
                key: Arc::clone(&identity.key),
                name: identity.name.clone(),
                token: client.calls.open_session().unwrap().token,
            }
        });
        let seats = seats.collect();
        let (id, head) = (owner.calls.hub_id().unwrap(), owner.head(&room));
        let queue_head = owner.head(&service.room());
        assert!(hub.terminate().success());
        Self {
            template: hub.data().to_owned(),
            world,
            hub: id,
            room,
            head,
            service,
            queue_head,
            seats,
            code,
            queue_code,
        }
    }

    /// An invite into the room.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// One into the service.
    pub(crate) fn queue_code(&self) -> &str {
        &self.queue_code
    }

    /// A hub of this name on a copy, not started yet.
    pub(crate) fn hub(&self, name: &str) -> HubProcess {
        let hub = hub_at(&self.world, name);
        copy(&self.template, hub.data());
        hub
    }

    /// Signs a message of this agent, which knows of this head.
    pub(crate) fn sign(&self, seat: &Seat, head: &Head, parts: Vec<Part>) -> Signed {
        self.sign_in(&self.room, seat, head, parts)
    }

    /// The same for another room.
    pub(crate) fn sign_in(&self, room: &RoomName, seat: &Seat, head: &Head, parts: Vec<Part>) -> Signed {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let context = SignContext {
            key: &seat.key,
            name: &seat.name,
            role: None,
            hub: &self.hub,
            room,
            target: &Target::Room { room: room.clone() },
            head,
            now_ms: i64::try_from(now).unwrap(),
        };
        sign(&Draft::new(parts), &context)
    }

    /// Everything that was acknowledged is there, once and in order, and nothing else; and the files are those that it
    /// needs. The hub has just been started.
    #[track_caller]
    pub(crate) fn audit(&self, hub: &HubProcess, work: &[Work]) {
        let auditor = RawClient::new(&hub.url(), "auditor");
        auditor.join(&self.code);
        let http = |token: &str| PlainHttp {
            authority: hub.authority().to_owned(),
            token: token.to_owned(),
        };
        let log = audit_room(&auditor.calls, &http(&self.seats[0].token), &self.room);
        for work in work {
            let http = http(&work.http.token);
            audit_acknowledged(&http, &self.room, &log, &work.acknowledged);
            assert_eq!(log.refs.get(&work.branch), work.at.as_ref(), "{}", work.branch);
            let page = http.get(&format!("{}?limit=0", paths::messages(&self.room)));
            assert_eq!(page.json()["cursor"].as_u64(), Some(work.cursor));
        }
        let acknowledged: usize = work.iter().map(|work| work.acknowledged.len()).sum();
        assert_eq!(
            log.messages.len(),
            acknowledged,
            "every message was acknowledged in the end, so there are no more"
        );
        jobs::audit(self, &auditor, http, work);

        assert_checked(hub.data());
        let files = blobs_of(&log).into_iter().filter(|(_, size)| *size > INLINE_BLOB_BYTES);
        let files: BTreeSet<_> = files.map(|(id, _)| id.to_string()).collect();
        assert_eq!(blob_files(hub.data()), files);
        for empty in ["blobs/tmp", "blobs/uploads"] {
            assert_eq!(names(&hub.data().join(empty)), Vec::<String>::new(), "{empty}");
        }
    }
}

/// A change of one ref.
pub(crate) fn move_of(name: RefName, old: Option<Oid>, new: Oid) -> Part {
    let update = RefUpdate {
        name,
        old,
        new: Some(new),
        forced: false,
        peeled: None,
    };
    RefsPart {
        updates: vec![update],
        atomic: false,
        object_format: ObjectFormat::Sha1,
        head: None,
        base_hint: None,
    }
    .into()
}

/// A bundle of one commit on this branch.
pub(crate) fn bundle_of(branch: RefName, tip: Oid, bytes: &[u8]) -> Part {
    BundlePart {
        blob: BundleId::of(bytes),
        vcs: "git".into(),
        size: bytes.len() as u64,
        media_type: None,
        tip: Some(tip.to_string()),
        base: None,
        summary: None,
        refs: vec![BundleRef {
            name: BundleRefName::Ref(branch),
            oid: tip,
        }],
        prerequisites: Vec::new(),
        object_format: Some(ObjectFormat::Sha1),
        commits: Some(1),
        objects: None,
        needs: Vec::new(),
        base_hint: None,
    }
    .into()
}

/// Removes what a trial left.
pub(crate) fn forget(mut hub: HubProcess) {
    hub.kill();
    let directory = hub.data().parent().unwrap().to_owned();
    fs::remove_dir_all(directory).unwrap();
}

/// The program's own check finds nothing, of use or not.
#[track_caller]
pub(crate) fn assert_checked(data: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parler-hub"));
    let checked = command
        .args(["check", "--data"])
        .arg(data)
        .env_clear()
        .output()
        .unwrap();
    let told = String::from_utf8(checked.stdout).unwrap();
    assert!(
        checked.status.success() && told.ends_with("all is well\n") && !told.contains("(harmless)"),
        "{told}{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

/// Copies a directory.
pub(crate) fn copy(from: &Path, to: &Path) {
    make_directory(to);
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Makes a directory as a hub would.
pub(crate) fn make_directory(path: &Path) {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).unwrap();
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// The files that have a blob's name.
fn blob_files(data: &Path) -> BTreeSet<String> {
    let blobs = data.join("blobs");
    let directories = names(&blobs).into_iter().filter(|name| name.len() == 2);
    directories.flat_map(|name| names(&blobs.join(name))).collect()
}

/// What a database holds that no start may change.
pub(crate) fn rows(data: &Path) -> BTreeSet<String> {
    let database = rusqlite::Connection::open(data.join("hub.db")).unwrap();
    let mut rows = BTreeSet::new();
    for select in [
        "SELECT 'hub', hex(id) FROM hub",
        "SELECT 'message', room || ' ' || seq || ' ' || hex(h) || ' ' || body FROM messages",
        "SELECT 'ref', room || ' ' || name || ' ' || hex(oid) || ' ' || seq FROM refs",
        "SELECT 'blob', hex(id) || ' ' || size || ' ' || hex(bytes) FROM blobs WHERE bytes IS NOT NULL",
        "SELECT 'blob', hex(id) || ' ' || size FROM blobs",
        "SELECT 'room of blob', room || ' ' || blob FROM room_blobs",
        "SELECT 'key', key || ' ' || message FROM idempotency",
        "SELECT 'member', room || ' ' || agent || ' ' || cursor FROM members",
        "SELECT 'room', name || ' ' || head_seq || ' ' || hex(head_h) FROM rooms",
    ] {
        let mut statement = database.prepare(select).unwrap();
        let found = statement.query_map((), |row| {
            Ok(format!("{} {}", row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        rows.extend(found.unwrap().map(Result::unwrap));
    }
    rows
}
