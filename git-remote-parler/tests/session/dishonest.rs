//! A hub that lies about a room is found out. Between agent and hub stands something that changes what passes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use git_remote_parler::signing::sign_for_room;
use parler_client::{BlobSource, ReadFrom};
use parler_protocol::{BaseHint, BundleId, BundlePart, BundleRef, Draft, ObjectFormat, Oid, RefUpdate, RefsPart};
use sha2::{Digest, Sha256};

use crate::sandbox::Repo;
use crate::world::{Agent, World, is_complete, refs};

/// Text to be replaced by another of the same length.
type Change<'a> = (&'a str, &'a str);

/// Passes everything on to the hub, with one change to what is asked and one to what is answered.
fn in_between(hub: SocketAddr, asked: Option<Change<'_>>, answered: Option<Change<'_>>) -> SocketAddr {
    let owned = |change: Option<Change<'_>>| change.map(|(from, to)| (from.to_owned(), to.to_owned()));
    let (asked, answered) = (owned(asked), owned(answered));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let host = (format!("host: {address}"), format!("host: {hub}"));
    // Ends with the test's process; a connection ends with its client.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(hub).unwrap();
            let (from_client, to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let mut changes = vec![host.clone()];
            changes.extend(asked.clone());
            std::thread::spawn(move || pass(from_client, to_server, &changes));
            let changes: Vec<_> = answered.clone().into_iter().collect();
            std::thread::spawn(move || pass(server, client, &changes));
        }
    });
    address
}

fn pass(mut from: TcpStream, mut to: TcpStream, changes: &[(String, String)]) {
    let mut buffer = vec![0; 1 << 20];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..count].to_vec();
        for (old, new) in changes.iter().filter(|(old, new)| old.len() == new.len()) {
            while let Some(at) = bytes.windows(old.len()).position(|window| window == old.as_bytes()) {
                bytes[at..at + new.len()].copy_from_slice(new.as_bytes());
            }
        }
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn refs_that_nobody_signed_are_not_believed() {
    let world = World::new();
    let mut agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["HEAD:refs/heads/topic"]);
    // A proof is for one address: what stands between could not open a session, only pass on what it sees.
    agent.session = Some(agent.client().open_session().unwrap());
    agent.hub = in_between(world.address, None, None);
    agent.talk(None, "list\n\n").1.unwrap();
    agent.hub = in_between(world.address, None, Some(("refs/heads/topic", "refs/heads/TOPIC")));
    let (said, result) = agent.talk(None, "list\n\n");
    let error = result.unwrap_err().to_string();
    assert_eq!(
        error,
        "the log of room 'x' cannot be trusted: message 1: the signature does not match the message"
    );
    assert_eq!(said.stdout, "");
}

#[test]
fn another_rooms_log_is_not_taken_for_this_ones() {
    let world = World::new();
    let mut agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["HEAD:refs/heads/topic"]);
    let y = agent.client();
    y.create_room(&"y".parse().unwrap(), parler_protocol::RoomKind::Channel)
        .unwrap();
    agent.session = Some(y.open_session().unwrap());
    agent.hub = in_between(world.address, Some(("/rooms/x/pushes", "/rooms/y/pushes")), None);
    let error = agent.talk(None, "list\n\n").1.unwrap_err().to_string();
    assert!(error.contains("asked for room 'x' and answered with 'y'"), "{error}");
}

#[test]
fn a_log_that_became_shorter_is_noticed() {
    let world = World::new();
    let agent = world.agent("alice");
    let repository = world.sandbox.init("r", &[]);
    repository.commit("a", "1\n");
    agent.pushes(&repository, &["HEAD:refs/heads/topic"]);
    let listed = agent.list(&repository);
    let cached: Vec<_> = fs::read_dir(repository.git_dir().join("parler/rooms"))
        .unwrap()
        .flatten()
        .collect();
    let file = cached[0].path();
    let kept = fs::read_to_string(&file).unwrap();
    // Changed behind our back, it is not believed.
    let changed = kept.replace(&repository.oid("HEAD").to_string(), &"9".repeat(40));
    assert_ne!(changed, kept);
    fs::write(&file, changed).unwrap();
    assert_eq!(agent.list(&repository), listed);
    // As if a later message had been seen.
    let (_, json) = kept.split_once('\n').unwrap();
    let later = json.replace("\"version\":1", "\"version\":7");
    let digest: String = Sha256::digest(&later)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    fs::write(&file, format!("{digest}\n{later}")).unwrap();
    let error = agent
        .talk(Some(&repository.git_dir()), "list\n\n")
        .1
        .unwrap_err()
        .to_string();
    assert!(error.contains("not the one seen before"), "{error}");
    assert!(error.ends_with(": git parler trust --history --room x"), "{error}");
    fs::remove_file(&file).unwrap();
    assert_eq!(agent.list(&repository), listed);
}

/// Posts a bundle part with these refs, and these bytes, as a member may.
fn post_bundle(agent: &Agent, bytes: &[u8], refs: &[(&str, Oid)]) {
    post_bundle_with(agent, bytes, refs, |_| ());
}

/// As [`post_bundle`], with a change to the part.
fn post_bundle_with(agent: &Agent, bytes: &[u8], refs: &[(&str, Oid)], change: impl FnOnce(&mut BundlePart)) {
    let mut part = BundlePart {
        blob: BundleId::of(bytes),
        vcs: "git".into(),
        size: bytes.len() as u64,
        media_type: None,
        tip: None,
        base: None,
        summary: None,
        refs: refs
            .iter()
            .map(|(name, oid)| BundleRef {
                name: name.parse().unwrap(),
                oid: *oid,
            })
            .collect(),
        prerequisites: Vec::new(),
        object_format: None,
        commits: None,
        objects: None,
        needs: Vec::new(),
        base_hint: None,
    };
    change(&mut part);
    post(agent, Draft::new(vec![part.into()]), Some(bytes.into()));
}

/// Posts anything a member may.
fn post(agent: &Agent, draft: Draft, blob: Option<Arc<[u8]>>) {
    let client = agent.client();
    let room = "x".parse().unwrap();
    let head = client
        .messages(
            &room,
            &ReadFrom {
                limit: Some(0),
                ..ReadFrom::default()
            },
        )
        .unwrap()
        .head;
    let signed = sign_for_room(&client, &client.hub_id().unwrap(), &room, &head, &draft);
    let blob = blob.as_ref().map(|blob| blob as &dyn BlobSource);
    client.post(&room, &signed, None, blob).unwrap();
}

/// What `git bundle` makes of everything that HEAD reaches.
fn whole(repository: &Repo<'_>) -> Vec<u8> {
    let file = repository.directory.join("whole.bundle");
    repository.git(&["bundle", "create", "-q", file.to_str().unwrap(), "main"]);
    fs::read(file).unwrap()
}

#[test]
fn a_member_who_posts_rubbish_keeps_nobody_from_the_rest() {
    let world = World::new();
    let (alice, bob, mallory) = (world.agent("alice"), world.agent("bob"), world.agent("mallory"));
    let ours = world.sandbox.init("ours", &[]);
    let first = ours.commit("a", "1\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    let second = ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    // Each looks better than the real one: newer, and without prerequisites.
    post_bundle(&mallory, b"no bundle at all", &[("refs/heads/main", second)]);
    let empty = [
        format!("# v2 git bundle\n{first} refs/heads/main\n\n").as_bytes(),
        &empty_pack(),
    ]
    .concat();
    post_bundle(&mallory, &empty, &[("refs/heads/main", first)]);
    post_bundle(
        &mallory,
        b"names in the way",
        &[("refs/heads/a", first), ("refs/heads/a/b", first)],
    );

    let theirs = world.sandbox.init("theirs", &[]);
    bob.fetches(&theirs, &["refs/heads/main"]);
    assert!(is_complete(&theirs, &[second]));
    let pinned = refs(&theirs, "refs/parler/");
    assert_eq!(pinned.len(), 4, "{pinned:?}");

    // A bundle that is asked for by its own id is refused for what it is.
    let other = world.sandbox.init("other", &[]);
    let name = format!("refs/parler/{}", BundleId::of(b"no bundle at all"));
    bob.fetches(&other, &[&name]);
    assert!(is_complete(&other, &[second]), "another bundle has the same tip");
}

#[test]
fn any_number_of_bundles_may_be_wrong_when_one_is_right() {
    let world = World::new();
    let (alice, bob, mallory) = (world.agent("alice"), world.agent("bob"), world.agent("mallory"));
    let mut carol = world.agent("carol");
    let ours = world.sandbox.init("ours", &[]);
    ours.commit("a", "1\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    let tip = ours.commit("a", "2\n");
    let said = alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    let whole = whole(&ours);
    post_bundle(&bob, &whole, &[("refs/heads/main", tip)]);
    for number in 0..20 {
        let rubbish = format!("no bundle at all {number:02}");
        post_bundle(&mallory, rubbish.as_bytes(), &[("refs/heads/main", tip)]);
    }
    // The hub announces another size for the one that is asked for first: it is of whoever moved the branch.
    let id = ours.git(&["for-each-ref", "--format=%(refname:lstrip=2)", "refs/parler/"]);
    let is_last = |id: &&str| {
        id.rsplit('/')
            .next()
            .is_some_and(|id| id.len() == 64 && id.starts_with(said.bundle()))
    };
    let id = id.lines().find(is_last).unwrap().rsplit('/').next().unwrap();
    carol.session = Some(carol.client().open_session().unwrap());
    let size = |first: char| format!("{id} {first}");
    for digit in '1'..='9' {
        carol.hub = in_between(world.address, None, Some((&size(digit), &size('0'))));
        let theirs = world.sandbox.init(&format!("theirs-{digit}"), &[]);
        carol.fetches(&theirs, &["refs/heads/main"]);
        assert!(is_complete(&theirs, &[tip]));
        if !refs(&theirs, &format!("refs/parler/{id}")).is_empty() {
            continue;
        }
        let pinned = refs(&theirs, "refs/parler/");
        assert!(
            pinned.iter().any(|pin| pin.contains(&BundleId::of(&whole).to_string())),
            "{pinned:?}"
        );
        return;
    }
    panic!("no size was changed");
}

#[test]
fn a_base_that_nobody_has_is_the_bundles_fault() {
    let world = World::new();
    let (alice, bob, mallory) = (world.agent("alice"), world.agent("bob"), world.agent("mallory"));
    let (_, ours) = world.origin_and_clone("ours");
    let first = ours.commit("a", "2\n");
    let thin = alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    let tip = ours.commit("a", "3\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    // Not the base of the chain, and expects what does not exist; and one that says another holds it, which does not.
    let unknown: Oid = "9".repeat(40).parse().unwrap();
    post_bundle_with(&mallory, b"one", &[("refs/heads/main", first)], |part| {
        part.prerequisites = vec![unknown]
    });
    post_bundle_with(&mallory, b"two", &[("refs/heads/main", tip)], |part| {
        part.prerequisites = vec![unknown];
        part.needs = vec![BundleId::of(b"one")];
    });
    let theirs = world.sandbox.init("theirs", &[]);
    let error = bob.fetch(&theirs, &["refs/heads/main"]).1.unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("bundle {} of room 'x' needs commit", thin.bundle())),
        "{error}"
    );
    assert_eq!(refs(&theirs, "refs/"), Vec::<String>::new());

    // Of somebody who never moved the branch.
    post_bundle(&world.agent("dave"), &whole(&ours), &[("refs/heads/main", tip)]);
    bob.fetches(&theirs, &["refs/heads/main"]);
    assert!(is_complete(&theirs, &[tip]));
    let by_oid = world.sandbox.init("by-oid", &[]);
    let lines = format!("list\nfetch {tip} {tip}\n\n\n");
    bob.talk(Some(&by_oid.git_dir()), &lines).1.unwrap();
    assert!(is_complete(&by_oid, &[tip]));
}

#[test]
fn a_ref_at_a_commit_that_exists_nowhere_is_named_with_who_set_it() {
    let world = World::new();
    let (alice, bob, mallory) = (world.agent("alice"), world.agent("bob"), world.agent("mallory"));
    let ours = world.sandbox.init("ours", &[]);
    ours.commit("a", "1\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    let unknown: Oid = "9".repeat(40).parse().unwrap();
    post_bundle(&alice, b"rubbish", &[]);
    let made_up = BaseHint {
        name: "refs/heads/main".parse().unwrap(),
        url: None,
    };
    for (number, hint) in [None, Some(made_up)].into_iter().enumerate() {
        let name = format!("refs/heads/x{number}");
        let update = RefUpdate {
            name: name.parse().unwrap(),
            old: None,
            new: Some(unknown),
            forced: false,
            peeled: None,
        };
        let part = RefsPart {
            updates: vec![update],
            atomic: false,
            object_format: ObjectFormat::Sha1,
            head: None,
            base_hint: hint,
        };
        post(&mallory, Draft::new(vec![part.into()]), None);
        let theirs = world.sandbox.init(&format!("theirs-{number}"), &[]);
        let error = bob
            .fetch(&theirs, &["refs/heads/main", &name])
            .1
            .unwrap_err()
            .to_string();
        let message = 3 + 3 * number;
        assert!(
            error.starts_with(&format!(
                "{name}, set by message {message} of mallory, of room 'x' needs commit {unknown}"
            )),
            "{error}"
        );
        assert!(
            error.ends_with(&format!("or else git push parler::room/x :{name}")),
            "{error}"
        );
        mallory.pushes(&ours, &[&format!(":{name}")]);
        bob.fetches(&theirs, &["refs/heads/main"]);
        alice.pushes(&ours, &[&format!("HEAD:refs/heads/y{number}")]);
    }
}

#[test]
fn bundles_of_another_hash_are_passed_over() {
    let world = World::new();
    let (alice, bob, mallory) = (world.agent("alice"), world.agent("bob"), world.agent("mallory"));
    let ours = world.sandbox.init("ours", &[]);
    let middle = ours.commit("a", "1\n");
    ours.commit("a", "2\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
    alice.pushes(&ours, &["HEAD~1:refs/heads/middle"]);
    let long: Oid = "b".repeat(64).parse().unwrap();
    post_bundle_with(&mallory, b"long", &[("refs/heads/main", long)], |part| {
        part.object_format = Some(ObjectFormat::Sha256);
        part.prerequisites = vec!["c".repeat(64).parse().unwrap()];
    });
    // The middle of a bundle is looked for in all of them.
    let theirs = world.sandbox.init("theirs", &[]);
    bob.fetches(&theirs, &["refs/heads/middle"]);
    assert!(is_complete(&theirs, &[middle]));
    let shown = bob.list(&theirs);
    assert!(!shown.iter().any(|line| line.contains(&long.to_string())), "{shown:?}");
    ours.commit("a", "3\n");
    alice.pushes(&ours, &["HEAD:refs/heads/main"]);
}

/// It is taken in together with those that build on it, and what is wrong is seen when all are there.
#[test]
fn a_hollow_bundle_among_many_is_found_by_halves() {
    let world = World::new();
    let (alice, mut bob, mallory) = (world.agent("alice"), world.agent("bob"), world.agent("mallory"));
    let ours = world.sandbox.init("ours", &[]);
    let mut middle = None;
    for number in 0..24 {
        let tip = ours.commit("a", &format!("{number}\n"));
        let author = if number == 8 { &mallory } else { &alice };
        author.pushes(&ours, &["HEAD:refs/heads/main"]);
        if number == 8 {
            middle = Some(tip);
        }
    }
    let (tip, middle) = (ours.oid("main"), middle.unwrap());
    // The commit and nothing of what it holds. It seems to need nothing, and is of whoever moved the branch there.
    let pack = ours.feed_bytes(&["pack-objects", "--stdout", "-q"], format!("{middle}\n").as_bytes());
    let header = format!("# v2 git bundle\n{middle} refs/heads/main\n\n");
    let hollow = [header.as_bytes(), &pack].concat();
    post_bundle(&mallory, &hollow, &[("refs/heads/main", middle)]);

    bob.git = world.sandbox.counting_git("log");
    let theirs = world.sandbox.init("theirs", &[]);
    bob.fetches(&theirs, &["refs/heads/main"]);
    assert!(is_complete(&theirs, &[tip]));
    let pinned = refs(&theirs, "refs/parler/");
    assert_eq!(pinned.len(), 2 * 24, "{pinned:#?}");
    let hollow = BundleId::of(&hollow).to_string();
    assert!(!pinned.iter().any(|pin| pin.contains(&hollow)), "{pinned:#?}");
    // 16 bundles, 8, 4, 2, the hollow one; then 1, 2, 4, 8 and the rest. One by one they would be 24 times three.
    let children = world.sandbox.lines("log");
    assert!(children.len() <= 30, "{}: {children:#?}", children.len());
}

/// A pack without objects.
fn empty_pack() -> Vec<u8> {
    let header = b"PACK\0\0\0\x02\0\0\0\0";
    // SHA-1 of these 12 bytes.
    let sum = [
        0x02, 0x9d, 0x08, 0x82, 0x3b, 0xd8, 0xa8, 0xea, 0xb5, 0x10, 0xad, 0x6a, 0xc7, 0x5c, 0x82, 0x3c, 0xfd, 0x3e,
        0xd3, 0x1e,
    ];
    [&header[..], &sum].concat()
}
