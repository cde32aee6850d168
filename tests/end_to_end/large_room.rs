//! A room of 5,000 refs and 2,000 pushes costs what a small one costs: in requests and git children, whoever lists it,
//! clones it, or pushes and fetches one commit there.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Instant;

use parler_client::BlobSource;
use parler_harness::{GitCounter, LocalHub, RawClient, Repository, Snapshot, World};
use parler_protocol::{
    BundleId, BundlePart, BundleRef, Head, ObjectFormat, Oid, Part, RefName, RefUpdate, RefsPart, RoomKind, RoomName,
};

use super::{hub_server, room_refs, world};

/// Messages that carry refs.
const PUSHES: usize = 2000;
/// Refs at the end.
const REFS: usize = 5000;
/// Commits of the first push, each with a branch.
const FIRST: usize = 20;
/// Most requests of a clone: a session is two of them.
const MOST_REQUESTS: usize = 6;
/// Most git children of the helper in a clone.
const MOST_CHILDREN: usize = 40;

/// A commit a push, in a chain: each changes one of some files.
fn history() -> String {
    let mut stream = String::new();
    for number in 0..FIRST + PUSHES {
        let message = format!("Change {number}\n");
        let content = format!("{number}\n{}", "a line of some text\n".repeat(number % 9));
        let _ = write!(
            stream,
            "commit refs/heads/all\ncommitter Somebody <somebody@example.com> {} +0000\ndata {}\n{message}\n\
             M 100644 inline src/file{}.txt\ndata {}\n{content}\n",
            1_700_000_000 + number,
            message.len(),
            number % 50,
            content.len(),
        );
    }
    stream
}

/// Fills a room by hand: as many real pushes would take a quarter of an hour.
struct Builder<'w> {
    source: Repository<'w>,
    client: RawClient,
    room: RoomName,
    head: Head,
    refs: BTreeMap<RefName, Oid>,
    pushes: usize,
}

impl<'w> Builder<'w> {
    fn new(world: &'w World, hub: &LocalHub, room: &str) -> Self {
        let source = world.init("source.git", "--bare");
        source.import(history().as_bytes());
        let client = hub.raw_client("builder");
        let made = client
            .calls
            .create_room(&room.parse().unwrap(), RoomKind::Channel)
            .unwrap();
        Self {
            source,
            client,
            room: made.room,
            head: made.head,
            refs: BTreeMap::new(),
            pushes: 0,
        }
    }

    /// Moves refs, and brings the bundle of their tips where one is given.
    fn push(&mut self, moves: &[(String, Oid)], bundle: Option<(BundlePart, Arc<[u8]>)>) {
        let mut updates = Vec::new();
        for (name, oid) in moves {
            let name: RefName = name.parse().unwrap();
            updates.push(RefUpdate {
                old: self.refs.insert(name.clone(), *oid),
                name,
                new: Some(*oid),
                forced: false,
                peeled: None,
            });
        }
        let refs = RefsPart {
            updates,
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let (part, bytes) = bundle.unzip();
        let parts = part.map(Part::from).into_iter().chain([refs.into()]).collect();
        let signed = self.client.sign(&self.room, &self.head, parts);
        let blob = bytes.as_ref().map(|bytes| bytes as &dyn BlobSource);
        let posted = self.client.calls.post(&self.room, &signed, None, blob).unwrap();
        self.head = posted.head;
        self.pushes += 1;
    }

    /// The bundle that brings these tips to whoever has the base.
    fn bundle(&self, tips: &[(String, Oid)], base: Option<Oid>) -> (BundlePart, Arc<[u8]>) {
        let mut header = String::from("# v2 git bundle\n");
        let mut wanted = String::new();
        if let Some(base) = base {
            let _ = writeln!(header, "-{base} ");
            let _ = writeln!(wanted, "^{base}");
        }
        for (name, oid) in tips {
            let _ = writeln!(header, "{oid} {name}");
            let _ = writeln!(wanted, "{oid}");
        }
        header.push('\n');
        let pack = self.source.user().feed(
            "git",
            "pack-objects --revs --stdout --thin --delta-base-offset -q --threads=1",
            wanted.as_bytes(),
        );
        let bytes = [header.as_bytes(), pack.success().out_bytes()].concat();
        let bundled = |(name, oid): &(String, Oid)| BundleRef {
            name: name.parse().unwrap(),
            oid: *oid,
        };
        let part = BundlePart {
            blob: BundleId::of(&bytes),
            vcs: "git".into(),
            size: bytes.len() as u64,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: tips.iter().map(bundled).collect(),
            prerequisites: base.into_iter().collect(),
            object_format: Some(ObjectFormat::Sha1),
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        };
        (part, bytes.into())
    }

    fn fill(&mut self) {
        let commits: Vec<Oid> = self
            .source
            .git("rev-list --reverse all")
            .success()
            .out()
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        let (old, new) = commits.split_at(FIRST);
        let mut tips: Vec<_> = (0..)
            .zip(old)
            .map(|(number, oid)| (format!("refs/heads/old/{number}"), *oid))
            .collect();
        tips.push(("refs/heads/main".to_owned(), old[FIRST - 1]));
        let bundle = self.bundle(&tips, None);
        self.push(&tips, Some(bundle));
        // Every other push makes a branch of its own, as agents do; tags are what is missing then.
        let branches = (PUSHES - 2) / 2;
        let tags: Vec<_> = (0..REFS - tips.len() - branches)
            .map(|number| (format!("refs/tags/v{number}"), old[number % FIRST]))
            .collect();
        self.push(&tags, None);
        let mut base = old[FIRST - 1];
        for (number, commit) in (0..PUSHES - 2).zip(new) {
            let name = match number % 2 {
                0 => format!("refs/heads/topic/{number}"),
                _ => "refs/heads/main".to_owned(),
            };
            let tip = [(name, *commit)];
            let bundle = self.bundle(&tip, Some(base));
            self.push(&tip, Some(bundle));
            base = *commit;
        }
        assert_eq!((self.pushes, self.refs.len()), (PUSHES, REFS));
    }

    fn refs(&self, below: &str) -> BTreeMap<String, String> {
        let of = |(name, oid): (&RefName, &Oid)| Some((name.as_str().strip_prefix(below)?.to_owned(), oid.to_string()));
        self.refs.iter().filter_map(of).collect()
    }
}

/// What a command cost.
struct Cost {
    requests: Vec<String>,
    children: usize,
}

/// Runs git with the hub's answers and the helper's git children counted.
#[track_caller]
fn cost(hub: &LocalHub, counter: &GitCounter, place: &Repository<'_>, arguments: &str) -> Cost {
    let begun = Instant::now();
    counter.take();
    let mark = hub.log().mark();
    place.user().counted_by(counter).git(arguments).success();
    let cost = Cost {
        requests: hub.log().since(mark),
        children: counter.take().len(),
    };
    println!(
        "{arguments}: {} requests, {} children, {:?}",
        cost.requests.len(),
        cost.children,
        begun.elapsed()
    );
    cost
}

#[track_caller]
fn assert_cost(cost: &Cost, requests: &[&str], children: usize) {
    assert_eq!(cost.requests, requests);
    assert!(cost.children <= children, "{} children", cost.children);
}

#[test]
fn a_room_of_5000_refs_and_2000_pushes_costs_what_a_small_one_costs() {
    let world = world();
    let home = world.init("home", "");
    home.user().parler("hub start").success();
    let hub = LocalHub::of(&home.user());
    let begun = Instant::now();
    let mut builder = Builder::new(&world, &hub, "large");
    builder.fill();
    println!("filled in {:?}", begun.elapsed());
    let counter = GitCounter::new(&world);

    // Nobody has seen the room yet.
    let bobs = world.repository(world.path().join("bobs"));
    let cloned = cost(
        &hub,
        &counter,
        &home,
        &format!("clone --quiet parler::room/large {}", bobs.path().display()),
    );
    assert!(cloned.requests.len() <= MOST_REQUESTS, "{:#?}", cloned.requests);
    assert!(cloned.children <= MOST_CHILDREN, "{} children", cloned.children);
    let of_bundles = cloned.requests.iter().filter(|request| request.contains("/bundles"));
    // All in one answer, which has none of them twice.
    assert_eq!(of_bundles.count(), 1, "{:#?}", cloned.requests);
    let has = bobs.refs();
    let below = |root: &str| -> BTreeMap<String, String> {
        let of = |(name, oid): (&String, &String)| Some((name.strip_prefix(root)?.to_owned(), oid.clone()));
        has.iter().filter_map(of).filter(|(name, _)| name != "HEAD").collect()
    };
    // As files of their own they would cost as much as all the rest, and slow down every git command.
    let snapshot = Snapshot::of(&bobs);
    let loose = snapshot.names().filter(|name| name.starts_with(".git/refs/parler/"));
    assert_eq!(loose.collect::<Vec<_>>(), [""; 0]);
    assert!(has.keys().filter(|name| name.starts_with("refs/parler/")).count() > 2 * (PUSHES - 2));
    assert_eq!(below("refs/tags/"), builder.refs("refs/tags/"));
    assert_eq!(below("refs/remotes/origin/"), builder.refs("refs/heads/"));
    assert_eq!(room_refs(&bobs.user(), "large"), {
        let mut all = builder.refs("");
        all.insert("HEAD".to_owned(), all["refs/heads/main"].clone());
        all
    });

    const NOTHING_NEW: &str = "GET /v1/rooms/{room}/pushes 304";
    const NEWS: &str = "GET /v1/rooms/{room}/pushes 200";
    const BUNDLES: &str = "GET /v1/rooms/{room}/bundles 200";
    const POSTED: &str = "POST /v1/rooms/{room}/messages 201";
    assert_cost(&cost(&hub, &counter, &bobs, "ls-remote origin"), &[NOTHING_NEW], 1);
    assert_cost(&cost(&hub, &counter, &bobs, "fetch --quiet"), &[NOTHING_NEW], 3);
    bobs.commit("b.txt", "two\n");
    let pushed = cost(&hub, &counter, &bobs, "push --quiet origin HEAD:refs/heads/main");
    assert_cost(&pushed, &[NOTHING_NEW, POSTED], 2);
    let first = cost(&hub, &counter, &bobs, "fetch --quiet");
    assert_cost(&first, &[NEWS], 3);

    // Another one, who has all of it but the last push.
    let carols = world.clone_with("parler::room/large", "carols", "");
    bobs.commit("b.txt", "three\n");
    bobs.git("push --quiet origin HEAD:refs/heads/main").success();
    let fetched = cost(&hub, &counter, &carols, "fetch --quiet");
    assert_cost(&fetched, &[NEWS, BUNDLES], 3);
    assert_eq!(carols.rev("origin/main"), bobs.rev("HEAD"));
}

#[test]
fn what_comes_in_several_answers_is_read_to_its_end() {
    let world = world();
    // A few pushes fill an answer.
    let hub = hub_server::start_with_pushes_page(&world, 5_000);
    let requests = |mark| {
        let is_pushes = |line: &String| line.starts_with("GET /v1/rooms/{room}/pushes ");
        let answers: Vec<_> = hub.log().since(mark).into_iter().filter(is_pushes).collect();
        answers.len()
    };
    let origin = world.origin();
    let work = world.clone_of(&origin, "work");
    let alice = work.user().on(&hub);
    let code = alice.parler("invite --group try").success().word().to_owned();
    for number in 0..12 {
        work.commit("a.txt", &format!("{number}\n"));
        alice
            .git("push --quiet parler::room/try HEAD:refs/heads/topic")
            .success();
    }
    let bobs = world.clone_of(&origin, "bobs");
    let bob = bobs.user().on(&hub);
    bob.parler(["join", &code]).success();
    let mark = hub.log().mark();
    bob.git("fetch --quiet parler::room/try topic").success();
    assert_eq!(bobs.rev("FETCH_HEAD"), work.rev("HEAD"));
    assert!((3..=12).contains(&requests(mark)), "{:#?}", hub.log().since(mark));
    // What is known is not asked for again.
    let mark = hub.log().mark();
    bob.git("fetch --quiet parler::room/try topic").success();
    assert_eq!(requests(mark), 1);
}
