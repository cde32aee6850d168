//! A member who posts bundles that are not what they say: the others get all that is right, and it costs them little.

use std::sync::Arc;
use std::time::Instant;

use parler_client::BlobSource;
use parler_harness::{Answer, GitCounter, LocalHub, RawClient, Repository, World};
use parler_protocol::{
    BaseHint, BundleId, BundlePart, BundleRef, Head, ObjectFormat, Oid, Part, RefUpdate, RefsPart, RoomKind, RoomName,
};

use super::world;

/// A room on the local hub, and a repository that bundles are made in.
struct Stage<'w> {
    source: Repository<'w>,
    hub: LocalHub,
    room: RoomName,
    head: Head,
}

/// What a bundle is said to be, and its bytes.
type Bundle = (BundlePart, Arc<[u8]>);

impl<'w> Stage<'w> {
    /// The source has this many commits on `main`, each of which changes one line of a text.
    fn new(world: &'w World, commits: usize) -> (Self, RawClient, Vec<Oid>) {
        let source = world.init("source.git", "--bare");
        let mut stream = String::new();
        for number in 0..commits {
            let date = 1_700_000_000 + number;
            let text: String = (0..60)
                .map(|line| format!("line {line} {}\n", if line == 30 { number } else { 0 }))
                .collect();
            stream.push_str(&format!(
                "commit refs/heads/main\ncommitter Somebody <somebody@example.com> {date} +0000\ndata 2\nx\n\
                 M 100644 inline a.txt\ndata {}\n{text}\n",
                text.len()
            ));
        }
        source.import(stream.as_bytes());
        source.user().parler("hub start").success();
        let hub = LocalHub::of(&source.user());
        let alice = hub.raw_client("alice");
        let made = alice
            .calls
            .create_room(&"try".parse().unwrap(), RoomKind::Channel)
            .unwrap();
        let listed = source.git("rev-list --reverse main").success();
        let oids = listed.out().lines().map(|line| line.parse().unwrap()).collect();
        let stage = Self {
            source,
            hub,
            room: made.room,
            head: made.head,
        };
        (stage, alice, oids)
    }

    /// A bundle of one tip with this pack.
    fn bundle(&self, name: &str, tip: Oid, base: Option<Oid>, pack: &[u8]) -> Bundle {
        let base_line = base.map(|base| format!("-{base} \n")).unwrap_or_default();
        let header = format!("# v2 git bundle\n{base_line}{tip} {name}\n\n");
        let bytes = [header.as_bytes(), pack].concat();
        let part = BundlePart {
            blob: BundleId::of(&bytes),
            vcs: "git".into(),
            size: bytes.len() as u64,
            media_type: None,
            tip: None,
            base: None,
            summary: None,
            refs: vec![BundleRef {
                name: name.parse().unwrap(),
                oid: tip,
            }],
            prerequisites: base.into_iter().collect(),
            object_format: Some(ObjectFormat::Sha1),
            commits: None,
            objects: None,
            needs: Vec::new(),
            base_hint: None,
        };
        (part, bytes.into())
    }

    /// The pack of what this commit has and its base has not.
    fn pack(&self, tip: Oid, base: Option<Oid>) -> Vec<u8> {
        let base = base.map(|base| format!("^{base}\n")).unwrap_or_default();
        let pack = self.source.user().feed(
            "git",
            "pack-objects --revs --stdout --thin --delta-base-offset -q --threads=1",
            format!("{tip}\n{base}").as_bytes(),
        );
        pack.success().out_bytes().to_vec()
    }

    fn packed(&self, name: &str, tip: Oid, base: Option<Oid>) -> Bundle {
        self.bundle(name, tip, base, &self.pack(tip, base))
    }

    /// Posts a bundle, and moves the ref that it names from `old` to its tip.
    fn push(&mut self, author: &RawClient, old: Option<Oid>, (part, bytes): Bundle) {
        let moved = part.refs[0].clone();
        self.post(author, &moved.name.to_string(), old, moved.oid, Some((part, bytes)));
    }

    /// Moves a ref, with a bundle or without.
    fn post(&mut self, author: &RawClient, name: &str, old: Option<Oid>, new: Oid, bundle: Option<Bundle>) {
        let refs = RefsPart {
            updates: vec![RefUpdate {
                name: name.parse().unwrap(),
                old,
                new: Some(new),
                forced: false,
                peeled: None,
            }],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: None,
        };
        let (part, bytes) = bundle.unzip();
        let parts = part.map(Part::from).into_iter().chain([refs.into()]).collect();
        let signed = author.sign(&self.room, &self.head, parts);
        let blob = bytes.as_ref().map(|bytes| bytes as &dyn BlobSource);
        let posted = author.calls.post(&self.room, &signed, None, blob).unwrap();
        self.head = posted.head;
    }

    /// A commit on this one whose tree has a name that leads out of it.
    fn dangerous(&self, parent: Oid, number: usize) -> Oid {
        let blob = self.source.ask("rev-parse main:a.txt");
        let tree = self
            .source
            .user()
            .feed("git", "mktree", format!("100644 blob {blob}\t..\n").as_bytes());
        let tree = tree.success().word().to_owned();
        let message = format!("bad {number}");
        self.source
            .ask(["commit-tree", "-m", &message, "-p", &parent.to_string(), &tree])
            .parse()
            .unwrap()
    }
}

/// What a command cost, and what it said.
#[derive(Debug)]
struct Cost {
    answer: Answer,
    requests: usize,
    children: usize,
}

/// Runs a command with requests and git children counted.
fn cost(stage: &Stage<'_>, counter: &GitCounter, place: &Repository<'_>, command: &str) -> Cost {
    counter.take();
    let (mark, begun) = (stage.hub.log().mark(), Instant::now());
    let answer = place.user().counted_by(counter).git(command).either();
    let (requests, children) = (stage.hub.log().since(mark).len(), counter.take().len());
    println!(
        "{command}: {requests} requests, {children} children, {:?}",
        begun.elapsed()
    );
    Cost {
        answer,
        requests,
        children,
    }
}

/// Bad bundles in the room of the next test.
const BAD: usize = 12;

#[test]
fn bundles_that_git_refuses_among_many_are_found_one_by_one() {
    let world = world();
    let (mut stage, alice, commits) = Stage::new(&world, 10 * BAD);
    let mallory = stage.hub.raw_client("mallory");
    let mut base = None;
    for (number, commit) in commits.iter().enumerate() {
        let bundle = stage.packed("refs/heads/main", *commit, base);
        stage.push(&alice, base, bundle);
        base = Some(*commit);
        if number % 10 == 5 {
            let bad = stage.dangerous(*commit, number);
            let bundle = stage.packed(&format!("refs/heads/bad{number}"), bad, Some(*commit));
            stage.push(&mallory, None, bundle);
        }
    }
    let counter = GitCounter::new(&world);
    // Nobody needs them who asks for what is good.
    let bobs = world.init("bobs", "");
    let of_good = cost(&stage, &counter, &bobs, "fetch parler::room/try main");
    assert!(of_good.answer.is_success());
    assert!(of_good.requests <= 4 && of_good.children <= 4, "{of_good:?}");

    // Whoever asks for all is told which ref to leave out, and has what is good.
    let carols = world.init("carols", "");
    let all = "fetch parler::room/try refs/heads/*:refs/remotes/try/*";
    let of_all = cost(&stage, &counter, &carols, all);
    assert!(!of_all.answer.is_success());
    let told = of_all.answer.err();
    assert!(told.contains(" of room 'try' (refs/heads/bad"), "{told}");
    assert!(
        told.contains(" of mallory): git refused the bundle's objects: object "),
        "{told}"
    );
    assert!(of_all.requests <= 4 + 3 * BAD, "{}", of_all.requests);
    assert!(of_all.children <= 5 * BAD, "{}", of_all.children);
    assert!(carols.has(&commits[10 * BAD - 1].to_string()));
    // It is pinned, and none of git's own refs has moved.
    assert_eq!((carols.pins().len(), carols.refs().len()), (20 * BAD, 20 * BAD));
    let of_rest = cost(
        &stage,
        &counter,
        &carols,
        "fetch parler::room/try ^refs/heads/bad* refs/heads/*:refs/remotes/try/*",
    );
    assert!(of_rest.answer.is_success());
    carols.fsck();
}

#[test]
fn what_the_remote_of_a_partial_clone_does_not_have_stops_no_other_ref() {
    let world = world();
    let (mut stage, alice, commits) = Stage::new(&world, 4);
    let mallory = stage.hub.raw_client("mallory");
    let origin = world.init("origin.git", "--bare");
    origin.git("config uploadpack.allowFilter true").success();
    let to = origin.path().to_str().unwrap().to_owned();
    stage
        .source
        .git(["push", "--quiet", &to, &format!("{}:refs/heads/main", commits[0])])
        .success();
    let bundle = stage.packed("refs/heads/topic", commits[2], Some(commits[0]));
    stage.push(&alice, None, bundle);
    // Its deltas are made of what origin has never seen.
    let pack = stage.pack(commits[3], Some(commits[2]));
    let bundle = stage.bundle("refs/heads/bad", commits[3], Some(commits[0]), &pack);
    stage.push(&mallory, None, bundle);
    // In the middle of the first bundle: it is looked for, in the newest bundle first.
    stage.post(&alice, "refs/heads/middle", None, commits[1], None);

    let url = format!("file://{}", origin.path().display());
    let partial = world.clone_with(&url, "partial", "--filter=blob:none --no-checkout");
    partial.git("fetch parler::room/try middle").success();
    assert_eq!(partial.rev("FETCH_HEAD"), commits[1].to_string());
    let other = world.clone_with(&url, "other", "--filter=blob:none --no-checkout");
    other
        .git("fetch parler::room/try bad")
        .failure()
        .warns("refs/heads/bad, set by message 2 of mallory")
        .warns("partial clone has left at origin");
}

#[test]
fn a_bundle_that_git_refuses_makes_nobody_fetch_a_base_that_is_whole() {
    let world = world();
    let (mut stage, _, commits) = Stage::new(&world, 8);
    let mallory = stage.hub.raw_client("mallory");
    for (number, commit) in commits.iter().enumerate().skip(1) {
        let bad = stage.dangerous(*commit, number);
        let (mut part, bytes) = stage.packed(&format!("refs/heads/bad{number}"), bad, Some(*commit));
        part.base_hint = Some(BaseHint {
            name: "refs/heads/main".parse().unwrap(),
            url: None,
        });
        stage.push(&mallory, None, (part, bytes));
    }
    let counter = GitCounter::new(&world);
    let fetches_of = |place: &Repository<'_>| {
        counter.take();
        let fetch = "fetch parler::room/try refs/heads/bad*:refs/remotes/try/*";
        place.user().counted_by(&counter).git(fetch).code(128);
        let children = counter.take();
        children.iter().filter(|line| line.contains(" fetch ")).count()
    };
    // Not by its path: that would bring the objects that nothing leads to.
    let url = format!("file://{}", stage.source.path().display());
    let bobs = world.clone_with(&url, "bobs", "");
    assert_eq!(fetches_of(&bobs), 0, "a ref leads to each base");

    // Here none does: something may be missing, and is asked for in as few goes as there are places to ask.
    let carols = world.clone_with(&url, "carols", "");
    let first = commits[0].to_string();
    carols.git(["reset", "--quiet", "--hard", &first]).success();
    carols.git("remote set-head --delete origin").success();
    carols.git(["update-ref", "refs/remotes/origin/main", &first]).success();
    carols.git("update-ref -d ORIG_HEAD").success();
    assert_eq!(fetches_of(&carols), 2, "by name, and by what is missing");
}
