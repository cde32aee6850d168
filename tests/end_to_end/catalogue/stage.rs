//! A sender, and a receiver in whose repository everything would be noticed: what is refused leaves it byte for byte as it
//! was, what is taken adds objects and pins and nothing else.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use parler_client::BlobSource;
use parler_harness::{Answer, LocalHub, RawClient, Repository, Snapshot, World};
use parler_protocol::{
    BundleId, BundlePart, BundleRef, Head, ObjectFormat, Part, RefUpdate, RefsPart, RoomKind, RoomName,
};

/// The most memory that a process may hold that refuses something.
const MOST_KIB: u64 = 512 << 10;
/// The most processor time that it may take.
const LONGEST: Duration = Duration::from_secs(20);
/// What an import may add.
const ADDED: [&str; 6] = [
    "ref refs/parler/",
    ".git/refs/parler",
    ".git/logs/refs/parler",
    ".git/objects/",
    ".git/packed-refs",
    ".git/parler",
];

pub(super) struct Stage<'w> {
    pub(super) world: &'w World,
    pub(super) sender: Repository<'w>,
    pub(super) receiver: Repository<'w>,
    /// What both have.
    pub(super) base: String,
    /// What the sender alone has, one commit on the base.
    pub(super) tip: String,
}

impl<'w> Stage<'w> {
    pub(super) fn new(world: &'w World) -> Self {
        let origin = world.origin();
        let sender = world.clone_of(&origin, "sender");
        let base = sender.rev("HEAD");
        let tip = sender.commit("src/lib.rs", "changed here\n");
        let receiver = world.clone_of(&origin, "receiver");
        // Work that is in the middle of something.
        receiver.git("fetch --quiet origin main").success();
        receiver.git("tag v1").success();
        receiver.git("update-ref ORIG_HEAD HEAD").success();
        receiver.write("src/lib.rs", "changed and not committed\n");
        receiver.git("add src/lib.rs").success();
        receiver.write("src/lib.rs", "changed once more\n");
        receiver.write("untracked.txt", "not git's\n");
        Self {
            world,
            sender,
            receiver,
            base,
            tip,
        }
    }

    /// What git makes of the sender's tip.
    pub(super) fn good(&self) -> Vec<u8> {
        let file = self.world.path().join("good.bundle");
        let name = file.to_str().unwrap();
        self.sender
            .git(["bundle", "create", "--quiet", name, "HEAD~1..main"])
            .success();
        fs::read(file).unwrap()
    }

    /// The pack of what the tip has and the base has not.
    pub(super) fn good_pack(&self) -> Vec<u8> {
        let good = self.good();
        let at = good.windows(4).position(|four| four == b"PACK").unwrap();
        good[at..].to_vec()
    }

    /// Applies a file of these bytes to the receiver, which has to refuse it with this code and these words.
    #[track_caller]
    pub(super) fn refuses(&self, bytes: &[u8], code: i32, words: &str, what: &str) {
        self.refuses_at(&self.receiver, bytes, code, words, what);
    }

    #[track_caller]
    pub(super) fn refuses_at(&self, receiver: &Repository<'_>, bytes: &[u8], code: i32, words: &str, what: &str) {
        let file = self.world.path().join("hostile.bundle");
        fs::write(&file, bytes).unwrap();
        let before = Snapshot::of(receiver);
        let answer = receiver.user().parler(["apply", file.to_str().unwrap()]).either();
        assert_eq!(answer.exit_code(), Some(code), "{what}: {answer:?}");
        self.assert_refused(&answer, words, what);
        Snapshot::of(receiver).assert_same_as(&before, &[]);
    }

    /// As [`Stage::refuses`], of what could cost much: with all memory and processor time counted.
    #[track_caller]
    pub(super) fn refuses_cheaply(&self, bytes: &[u8], words: &str, what: &str) {
        let file = self.world.path().join("hostile.bundle");
        fs::write(&file, bytes).unwrap();
        let before = Snapshot::of(&self.receiver);
        let apply = ["parler", "apply", file.to_str().unwrap()];
        let (output, spent) = self.receiver.user().measure_git(apply);
        let answer = output.either();
        println!("{what}, {} bytes: {spent:?}", bytes.len());
        assert_eq!(answer.exit_code(), Some(7), "{what}: {answer:?}");
        self.assert_refused(&answer, words, what);
        assert!(spent.peak_memory_kib < MOST_KIB, "{what}: {spent:?}");
        assert!(spent.processor < LONGEST, "{what}: {spent:?}");
        Snapshot::of(&self.receiver).assert_same_as(&before, &[]);
    }

    #[track_caller]
    fn assert_refused(&self, answer: &Answer, words: &str, what: &str) {
        let line = answer.one_error_line();
        assert!(line.contains(words), "{what}: expected {words:?}\n{answer:?}");
        assert!(line.len() < 1024, "{what}: {answer:?}");
        assert!(answer.out().is_empty(), "{what}: {answer:?}");
        assert_visible(answer, what);
        self.assert_nothing_left(what);
    }

    /// Applies a file of these bytes to the receiver, which has to take it.
    #[track_caller]
    pub(super) fn takes(&self, bytes: &[u8], what: &str) -> Answer {
        let file = self.world.path().join("taken.bundle");
        fs::write(&file, bytes).unwrap();
        let before = Snapshot::of(&self.receiver);
        let answer = self.receiver.user().parler(["apply", file.to_str().unwrap()]).success();
        Snapshot::of(&self.receiver).assert_same_as(&before, &ADDED);
        assert_visible(&answer, what);
        self.assert_nothing_left(what);
        let pin = format!("refs/parler/{}", BundleId::of(bytes));
        assert!(self.receiver.pins().keys().any(|name| name.starts_with(&pin)), "{what}");
        answer
    }

    /// No file that was to be gone again, and no process.
    #[track_caller]
    fn assert_nothing_left(&self, what: &str) {
        let left: Vec<_> = fs::read_dir(self.world.temporary()).unwrap().flatten().collect();
        assert!(left.is_empty(), "{what}: {left:?}");
        let hub = LocalHub::if_any(&self.world.parler_home()).map(|hub| hub.process);
        let processes = self.world.processes();
        assert!(
            processes.iter().all(|process| Some(*process) == hub),
            "{what}: {processes:?}"
        );
    }
}

/// Asserts that nothing in it moves a cursor or is not seen.
#[track_caller]
pub(super) fn assert_visible(answer: &Answer, what: &str) {
    let is_odd = |character: char| character != '\n' && parler_protocol::is_hidden(character);
    for text in [answer.out(), answer.err()] {
        assert!(!text.contains(is_odd), "{what}: {answer:?}");
    }
}

/// A room on the local hub, in which mallory posts what it likes.
pub(super) struct Room {
    pub(super) mallory: RawClient,
    pub(super) name: RoomName,
    head: Head,
}

impl Room {
    #[track_caller]
    pub(super) fn new(world: &World) -> Self {
        world.user().parler("hub start").success();
        let hub = LocalHub::of(&world.user());
        let mallory = hub.raw_client("mallory");
        let name: RoomName = "x".parse().unwrap();
        let head = mallory.calls.create_room(&name, RoomKind::Channel).unwrap().head;
        Self { mallory, name, head }
    }

    /// Posts these bytes as a bundle of this ref, and moves the ref in the room to what it says. `change` changes what is
    /// signed of the bundle.
    #[track_caller]
    pub(super) fn push(
        &mut self,
        name: &str,
        oid: &str,
        prerequisites: &[&str],
        bytes: &[u8],
        change: impl FnOnce(&mut BundlePart),
    ) {
        let mut part = BundlePart {
            blob: BundleId::of(bytes),
            vcs: "git".into(),
            size: bytes.len() as u64,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: vec![BundleRef {
                name: name.parse().unwrap(),
                oid: oid.parse().unwrap(),
            }],
            prerequisites: prerequisites.iter().map(|oid| oid.parse().unwrap()).collect(),
            object_format: Some(ObjectFormat::Sha1),
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        };
        change(&mut part);
        let refs = RefsPart {
            updates: vec![RefUpdate {
                name: name.parse().unwrap(),
                old: None,
                new: Some(oid.parse().unwrap()),
                forced: false,
                peeled: None,
            }],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let parts: Vec<Part> = vec![part.into(), refs.into()];
        let signed = self.mallory.sign(&self.name, &self.head, parts);
        let bytes: Arc<[u8]> = bytes.into();
        let blob: &dyn BlobSource = &bytes;
        self.head = self
            .mallory
            .calls
            .post(&self.name, &signed, None, Some(blob))
            .unwrap()
            .head;
    }
}
