//! A small push and a small fetch whose connections are cut at each byte, in both directions: each happens once or not at
//! all, says which, and a rerun completes it. At each byte what a session sends and reads is sent and read without git;
//! whole sessions, with their git children, are cut at every so many.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use git_remote_parler::fetch::FetchError;
use git_remote_parler::push::PushError;
use git_remote_parler::room::RoomError;
use git_remote_parler::session::SessionError;
use git_remote_parler::signing::sign_for_room;
use parler_client::{Client, ClientError, Deadlines, PushesAnswer, ReadFrom};
use parler_harness::{CuttingProxy, Mishap, Point};
use parler_protocol::{
    BundleId, BundlePart, BundleRef, Draft, Head, ObjectFormat, Oid, RefUpdate, RefsPart, RoomKind, RoomName, Seq,
};

use crate::sandbox::Repo;
use crate::world::{Agent, World, is_complete, refs};

/// How many work at once, each behind a proxy of its own: much of their time they wait for a disk or a child.
const WORKERS: usize = 3;
/// Whole sessions are cut behind every so many bytes. No divisor of anything, so that all sorts of places are met.
const STRIDE: u64 = 83;

/// Sends again at once.
const PATIENT: Deadlines = Deadlines {
    connect: Duration::from_secs(10),
    stall: Duration::from_secs(60),
    answer: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    rest: Duration::from_millis(1),
    retry: Duration::from_secs(60),
    transfer: Duration::from_secs(60),
};
/// Sends nothing again.
const IMPATIENT: Deadlines = Deadlines {
    retry: Duration::ZERO,
    transfer: Duration::ZERO,
    ..PATIENT
};

/// Where a cut is, by bytes.
type At = fn(u64) -> Point;

/// Both directions, and what they are called.
const DIRECTIONS: [(At, &str); 2] = [(Point::Up, "up"), (Point::Down, "down")];

/// A hub behind these proxies, one for each worker.
fn world(proxies: &[CuttingProxy]) -> World {
    let world = World::behind(proxies.iter().map(|proxy| proxy.authority().to_owned()).collect());
    for proxy in proxies {
        proxy.lead_to(&world.address.to_string());
    }
    world
}

/// The same agent behind a proxy: it sends again where that helps.
fn behind(proxy: &CuttingProxy, agent: &Agent, fault: Mishap) -> Agent {
    Agent {
        hub: proxy.authority().parse().unwrap(),
        deadlines: if fault == Mishap::Gone { IMPATIENT } else { PATIENT },
        ..agent.clone()
    }
}

/// Does this with a cut behind each byte of a direction, or every so many, the workers one after the other; then no byte
/// is left to be cut at. The hub is there again at once, or not any more: each of it at two bytes of three, and at
/// every one where bytes are passed over. Gives how many bytes.
fn at_each_byte<T>(
    proxies: &[CuttingProxy],
    stride: u64,
    point: At,
    begin: impl Fn(usize) -> T + Sync,
    once: impl Fn(&T, &CuttingProxy, Point, Mishap) + Sync,
) -> usize {
    let (begin, once) = (&begin, &once);
    let work = |(worker, proxy): (usize, &CuttingProxy)| {
        let own = begin(worker);
        let places = (worker as u64 * stride..).step_by(stride as usize * proxies.len());
        for (cut, byte) in places.enumerate() {
            let faults = [Mishap::Cut, Mishap::Gone];
            for (number, fault) in faults.into_iter().enumerate() {
                if stride == 1 && byte % 3 == number as u64 {
                    continue;
                }
                proxy.break_at(point(byte), fault);
                once(&own, proxy, point(byte), fault);
            }
            if !proxy.has_broken() {
                return cut;
            }
        }
        0
    };
    thread::scope(|scope| {
        let working: Vec<_> = proxies
            .iter()
            .enumerate()
            .map(|worker| scope.spawn(move || work(worker)))
            .collect();
        working.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

/// A push without git: a ref moves, and bytes come with it.
struct Pusher {
    room: RoomName,
    owner: Client,
}

impl Pusher {
    fn new(agent: &Agent, room: &str) -> Self {
        let owner = agent.client();
        let made = owner.create_room(&room.parse().unwrap(), RoomKind::Channel);
        let room = made.unwrap().room;
        Self { room, owner }
    }

    /// How many messages the hub has stored.
    fn stored(&self) -> u64 {
        let from = ReadFrom {
            after: Some(Seq::ZERO),
            limit: Some(0),
            wait: None,
        };
        self.owner.messages(&self.room, &from).unwrap().head.seq.get()
    }

    /// The push that makes message `number`: a look, and a message unless it is there.
    fn push(&self, client: &Client, number: u64) -> Result<(), ClientError> {
        match client.pushes(&self.room, Some(Seq::new(number - 1)), None, None)? {
            PushesAnswer::NotModified { head } => self.post(client, number, &head),
            PushesAnswer::Changed(pushes) => {
                assert_eq!(pushes.version, Seq::new(number));
                Ok(())
            }
        }
    }

    fn post(&self, client: &Client, number: u64, head: &Head) -> Result<(), ClientError> {
        let oid = |number: u64| -> Oid { format!("{number:040x}").parse().unwrap() };
        let update = RefUpdate {
            name: "refs/heads/main".parse().unwrap(),
            old: (number > 1).then(|| oid(number - 1)),
            new: Some(oid(number)),
            forced: false,
            peeled: None,
        };
        let bytes: Arc<[u8]> = format!("bundle {number} ").repeat(5).into_bytes().into();
        let bundle = BundlePart {
            blob: BundleId::of(&bytes),
            vcs: "git".into(),
            size: bytes.len() as u64,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: vec![BundleRef {
                name: "refs/heads/main".parse().unwrap(),
                oid: oid(number),
            }],
            prerequisites: Vec::new(),
            object_format: None,
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        };
        let refs = RefsPart {
            updates: vec![update],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let draft = Draft::new(vec![bundle.into(), refs.into()]);
        let signed = sign_for_room(client, &client.hub_id()?, &self.room, head, &draft);
        client.post(&self.room, &signed, None, Some(&bytes)).map(|_| ())
    }
}

#[test]
fn a_push_that_is_cut_at_any_byte_happens_once_or_not_at_all() {
    let proxies: [_; WORKERS] = std::array::from_fn(|_| CuttingProxy::listen());
    let world = world(&proxies);
    let mut alice = world.agent("alice");
    alice.session = Some(alice.client().open_session().unwrap());
    for (point, name) in DIRECTIONS {
        let begin = |worker| Pusher::new(&alice, &format!("{name}-{worker}"));
        let cuts = at_each_byte(&proxies, 1, point, begin, |pusher, proxy, point, fault| {
            let what = format!("{point:?} {fault:?}");
            let number = pusher.stored() + 1;
            let client = behind(proxy, &alice, fault).client();
            let Err(error) = pusher.push(&client, number) else {
                assert_eq!(pusher.stored(), number, "{what}");
                return;
            };
            assert_eq!(fault, Mishap::Gone, "{what}: {error}");
            let is_known = assert_told(&what, &error);
            if is_known {
                assert_eq!(pusher.stored(), number - 1, "{what}: {error}");
            }
            pusher.push(&pusher.owner, number).unwrap();
            assert_eq!(pusher.stored(), number, "{what}");
        });

        assert!(cuts > 500, "{cuts}");
    }
}

/// Whether the words for this failure say that nothing was stored, or that it is not known.
#[track_caller]
fn assert_told(what: &str, error: &ClientError) -> bool {
    match error {
        ClientError::OutcomeUnknown { .. } => false,
        ClientError::Lost { .. } | ClientError::Unreachable { .. } | ClientError::Stopped { .. } => true,
        other => panic!("{what}: {other}"),
    }
}

#[test]
fn a_read_that_is_cut_at_any_byte_gives_every_byte_or_fails() {
    let proxies: [_; WORKERS] = std::array::from_fn(|_| CuttingProxy::listen());
    let world = world(&proxies);
    let mut alice = world.agent("alice");
    alice.session = Some(alice.client().open_session().unwrap());
    let pusher = Pusher::new(&alice, "x");
    pusher.push(&pusher.owner, 1).unwrap();
    let room = &pusher.room;
    let read = |client: &Client| -> Result<(), ClientError> {
        let PushesAnswer::Changed(pushes) = client.pushes(room, None, None, None)? else {
            panic!("nothing is known yet");
        };
        assert_eq!(pushes.messages.len(), 1);
        // Twice, so that an answer is cut between two.
        let ids = [BundleId::of("bundle 1 ".repeat(5).as_bytes()); 2];
        let mut bundles = client.bundles(room, &ids)?;
        for id in ids {
            let mut bundle = bundles.next()?.expect("two");
            let mut bytes = Vec::new();
            if let Err(error) = bundle.read_to_end(&mut bytes) {
                return Err(error.downcast::<ClientError>().expect("of the client"));
            }
            assert_eq!((bundle.id, BundleId::of(&bytes)), (id, id));
        }
        assert!(bundles.next()?.is_none());
        Ok(())
    };
    for (point, _) in DIRECTIONS {
        let cuts = at_each_byte(
            &proxies,
            1,
            point,
            |_| (),
            |(), proxy, point, fault| {
                let what = format!("{point:?} {fault:?}");
                if let Err(error) = read(&behind(proxy, &alice, fault).client()) {
                    assert_eq!(fault, Mishap::Gone, "{what}: {error}");
                    assert_told(&what, &error);
                }
            },
        );
        assert!(cuts > 500, "{cuts}");
    }
}

#[test]
fn a_session_whose_opening_is_cut_is_opened_or_not() {
    let proxies: [_; WORKERS] = std::array::from_fn(|_| CuttingProxy::listen());
    let world = world(&proxies);
    let alice = world.agent("alice");
    for (point, _) in DIRECTIONS {
        let cuts = at_each_byte(
            &proxies,
            3,
            point,
            |_| (),
            |(), proxy, point, fault| {
                let what = format!("{point:?} {fault:?}");
                if let Err(error) = behind(proxy, &alice, fault).client().rooms() {
                    assert_eq!(fault, Mishap::Gone, "{what}: {error}");
                    assert!(assert_told(&what, &error), "{what}: {error}");
                }
            },
        );
        assert!(cuts > 200, "{cuts}");
    }
}

/// What a session failed for, at its hub.
fn cause(error: &SessionError) -> &ClientError {
    match error {
        SessionError::Client(error)
        | SessionError::Room(RoomError::Client(error))
        | SessionError::Push(PushError::Client(error) | PushError::Room(RoomError::Client(error)))
        | SessionError::Fetch(FetchError::Client(error)) => error,
        other => panic!("not of the hub: {other}"),
    }
}

#[test]
fn a_session_that_pushes_and_is_cut_pushes_once_or_not_at_all() {
    let proxies: [_; WORKERS] = std::array::from_fn(|_| CuttingProxy::listen());
    let world = world(&proxies);
    let places: Vec<Repo<'_>> = (0..WORKERS)
        .map(|worker| world.sandbox.init(&format!("place{worker}"), &[]))
        .collect();
    for place in &places {
        place.commit("a", "1\n");
    }
    let alice = world.agent("alice");
    for (point, _) in DIRECTIONS {
        let begin = |worker: usize| &places[worker];
        let cuts = at_each_byte(&proxies, STRIDE, point, begin, |place, proxy, point, fault| {
            let what = format!("{point:?} {fault:?}");
            // A room for each cut, so that what happened can be counted.
            let room = what.replace(|byte: char| !byte.is_alphanumeric(), "-");
            let room = Pusher::new(&alice, &room);
            let mut agent = behind(proxy, &alice, fault);
            agent.room = room.room.to_string();
            let lines = "list for-push\npush HEAD:refs/heads/main\n\n\n";
            let (said, result) = agent.talk(Some(&place.git_dir()), lines);
            if let Err(error) = result {
                assert_eq!(fault, Mishap::Gone, "{what}: {error}");
                assert!(!said.stdout.contains("ok "), "{what}: {said:?}");
                if assert_told(&what, cause(&error)) {
                    assert_eq!(room.stored(), 0, "{what}: {error}");
                }
                agent.hub = world.address;
                let (again, result) = agent.talk(Some(&place.git_dir()), lines);
                result.unwrap();
                let status = again.blocks()[1].concat();
                let is_there = ["ok refs/heads/main", "error refs/heads/main up to date"].contains(&status.as_str());
                assert!(is_there, "{what}: {status}");
            } else {
                assert!(said.stdout.ends_with("ok refs/heads/main\n\n"), "{what}: {said:?}");
            }
            assert_eq!(room.stored(), 1, "{what}");
        });
        assert!(cuts > 10, "{cuts}");
    }
    for place in &places {
        assert_eq!(leftovers(&place.git_dir()), Vec::<PathBuf>::new());
        place.git(&["fsck", "--strict"]);
        assert_eq!(refs(place, "refs/parler/").len(), 2, "the same bundle each time");
    }
}

#[test]
fn a_session_that_fetches_and_is_cut_imports_all_or_nothing() {
    let proxies: [_; WORKERS] = std::array::from_fn(|_| CuttingProxy::listen());
    let world = world(&proxies);
    let alice = world.agent("alice");
    let author = world.sandbox.init("author", &[]);
    author.commit("a", "1\n");
    alice.pushes(&author, &["HEAD:refs/heads/main"]);
    let tip = author.commit("a", "2\n");
    alice.pushes(&author, &["HEAD:refs/heads/main"]);
    for (point, _) in DIRECTIONS {
        let cuts = at_each_byte(
            &proxies,
            STRIDE,
            point,
            |_| (),
            |(), proxy, point, fault| {
                let what = format!("{point:?} {fault:?}");
                let place = world.sandbox.init(&what.replace(' ', "-"), &[]);
                let git_dir = place.git_dir();
                let mut agent = behind(proxy, &alice, fault);
                let lines = format!("list\nfetch {tip} refs/heads/main\n\n\n");
                let (said, result) = agent.talk(Some(&git_dir), &lines);
                assert_eq!(leftovers(&git_dir), Vec::<PathBuf>::new(), "{what}");
                if let Err(error) = result {
                    assert_eq!(fault, Mishap::Gone, "{what}: {error}");
                    assert!(assert_told(&what, cause(&error)), "{what}: a fetch stores nothing");
                    assert!(
                        said.blocks().len() <= 1,
                        "git is not told that it has anything: {what}: {said:?}"
                    );
                    assert_eq!(refs(&place, "refs/"), Vec::<String>::new(), "{what}");
                    assert_eq!(place.git(&["count-objects"]), "0 objects, 0 kilobytes", "{what}");
                    agent.hub = world.address;
                    agent.talk(Some(&git_dir), &lines).1.unwrap();
                }
                assert_eq!(refs(&place, "refs/parler/").len(), 4, "{what}");
                assert!(is_complete(&place, &[tip]), "{what}");
                assert_eq!(leftovers(&git_dir), Vec::<PathBuf>::new(), "{what}");
                fs::remove_dir_all(&place.directory).unwrap();
            },
        );
        assert!(cuts > 10, "{cuts}");
    }
}

/// What is left in a repository of something that was not finished.
fn leftovers(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.contains("tmp") || name.ends_with(".lock") || name.ends_with(".keep") || name.starts_with('.') {
            found.push(path);
        } else if path.is_dir() {
            found.extend(leftovers(&path));
        }
    }
    found
}
