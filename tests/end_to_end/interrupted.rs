//! Large pushes and fetches over connections that are cut, and past hubs that are ended: they go on where they stopped,
//! and happen once.

use std::cell::Cell;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parler_client::{BlobSource, ClientError, Deadlines};
use parler_harness::{Agent, Cut, CuttingProxy, Gate, HubProcess, RawClient, Repository, World, read_log};
use parler_protocol::{BundleId, BundlePart, FilePart, Part, RoomName, Seq};
use sha2::{Digest, Sha256};

use super::{hub_server, noise, world};

/// More than is sent in one request, and more than any buffer on the way holds.
const SIZE: usize = 24 << 20; // 24 MiB
/// What may have to be sent again after a cut: bytes that the kernel had for a hub that no longer asked for them.
const LOST_A_CUT: u64 = 4 << 20; // 4 MiB
/// What two hubs that were ended had in their kernel's hands. To begin anew each time would be 26 MiB.
const LOST_TO_KILLS: u64 = 20 << 20; // 20 MiB
/// Heads, small requests, and the messages.
const SMALL: u64 = 64 << 10; // 64 KiB

/// A hub behind a proxy, and a repository with a commit that is not small.
struct Stage<'w> {
    proxy: CuttingProxy,
    hub: HubProcess,
    place: Repository<'w>,
    alice: Agent<'w>,
    code: String,
    /// How many have read the room, each under a name of its own.
    readers: Cell<usize>,
}

fn stage(world: &World) -> Stage<'_> {
    let proxy = CuttingProxy::listen();
    let hub = hub_server::start_behind(world, &proxy);
    let origin = world.origin();
    let place = world.clone_of(&origin, "place");
    let alice = world.stranger("alice").with("PARLER_HUB", proxy.url()).at(&place);
    let code = alice.parler("invite --group big").success().word().to_owned();
    place.git("config pack.compression 0").success();
    place.git("config core.bigFileThreshold 1m").success();
    place.write("noise", noise(SIZE, 7));
    place.git("add noise").success();
    place.git("commit --quiet --message noise").success();
    Stage {
        proxy,
        hub,
        place,
        alice,
        code,
        readers: Cell::new(0),
    }
}

impl Stage<'_> {
    /// Everything the room holds, read past the proxy: its bundles, each of them hashed.
    #[track_caller]
    fn bundles(&self) -> Vec<BundlePart> {
        self.readers.set(self.readers.get() + 1);
        let reader = RawClient::new(&self.hub.url(), &format!("reader{}", self.readers.get()));
        let room = reader.join(&self.code);
        let log = read_log(&reader.calls, &reader.calls.hub_id().unwrap(), &room);
        let parts = log.messages.iter().flat_map(|message| message.parts.iter());
        let bundles: Vec<BundlePart> = parts
            .filter_map(|part| {
                if let Part::Bundle(part) = part {
                    Some(part.clone())
                } else {
                    None
                }
            })
            .collect();
        for bundle in &bundles {
            assert_eq!(digest(reader.calls.blob(&room, &bundle.blob).unwrap()), bundle.blob);
        }
        bundles
    }
}

fn digest(mut from: impl Read) -> BundleId {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 18];
    loop {
        match from.read(&mut piece).unwrap() {
            0 => return BundleId::from_digest(hash.finalize().into()),
            count => hash.update(&piece[..count]),
        }
    }
}

#[test]
fn a_large_push_that_nobody_disturbs_sends_each_byte_once() {
    let world = world();
    let stage = stage(&world);
    // With a session, and the room in the cache.
    stage
        .alice
        .git("push --quiet parler::room/big HEAD~:refs/heads/small")
        .success();
    stage.proxy.cut([]);
    let mark = stage.hub.log().mark();
    stage
        .alice
        .git("push --quiet parler::room/big HEAD:refs/heads/big")
        .success();
    let requests = stage.hub.log().since(mark);
    let carried = stage.proxy.carried();
    assert_eq!(
        requests[1..],
        [
            "POST /v1/rooms/{room}/uploads 201",
            "PATCH /v1/rooms/{room}/uploads/{id} 200",
            "POST /v1/rooms/{room}/messages 201",
        ],
        "{requests:#?}"
    );
    let bundles = stage.bundles();
    let size = bundles.last().unwrap().size;
    assert!(size > SIZE as u64);
    assert!(carried.up < size + SMALL, "{carried:?} for {size}");
    assert!(
        stage
            .hub
            .data()
            .join("blobs/uploads")
            .read_dir()
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn a_large_push_that_is_cut_again_and_again_goes_on_and_happens_once() {
    let world = world();
    let stage = stage(&world);
    let megabyte = 1 << 20;
    let mut plan = vec![Cut::Up(100), Cut::Up(700), Cut::Down(0)];
    for step in 0..6 {
        // In the middle of the bytes, and an answer that is lost or cut in its head.
        plan.push(Cut::Up(3 * megabyte + step * 4099));
        plan.push(Cut::Down(0));
        plan.push(Cut::Up(200 + step));
        plan.push(Cut::Down(90 * step));
    }
    let cuts = plan.len() as u64;
    stage.proxy.cut(plan);
    stage.alice.git("push parler::room/big HEAD:refs/heads/big").success();
    let carried = stage.proxy.carried();
    assert!(carried.cuts > 12, "{carried:?} of {cuts}");
    let bundles = stage.bundles();
    assert_eq!(bundles.len(), 1, "one message");
    let most = bundles[0].size + carried.cuts * LOST_A_CUT + SMALL;
    assert!(
        carried.up < most.min(3 * bundles[0].size),
        "{carried:?} for {}",
        bundles[0].size
    );
    println!(
        "sent {} bytes of {} with {} cuts",
        carried.up, bundles[0].size, carried.cuts
    );
}

#[test]
fn a_message_whose_answer_is_lost_is_there_once() {
    let world = world();
    let stage = stage(&world);
    stage
        .alice
        .git("push --quiet parler::room/big HEAD~:refs/heads/small")
        .success();
    // The request for the room, the beginning, the bytes and the message share a connection: it is cut in the answer of
    // each in turn. Answers before it are a few hundred bytes long.
    for (round, down) in [0, 600, 1200, 1500, 1800, 2100, 2400].into_iter().enumerate() {
        stage.proxy.cut([Cut::Down(down)]);
        let branch = format!("HEAD:refs/heads/round{round}");
        if round > 0 {
            stage.place.write("noise", noise(9 << 20, round as u64));
            stage.place.git("commit --quiet --all --message more").success();
        }
        stage.alice.git(["push", "parler::room/big", &branch]).success();
        assert_eq!(stage.bundles().len(), round + 2, "cut after {down}");
    }
}

#[test]
fn a_large_fetch_that_is_cut_again_and_again_goes_on() {
    let world = world();
    let stage = stage(&world);
    stage
        .alice
        .git("push --quiet parler::room/big HEAD:refs/heads/big")
        .success();
    let size = stage.bundles()[0].size;
    let bobs = world.clone_with(world.path().join("origin.git"), "bobs", "");
    let bob = world.stranger("bob").with("PARLER_HUB", stage.proxy.url()).at(&bobs);
    bob.parler(["join", &stage.code]).success();
    let megabyte = 1 << 20;
    let plan: Vec<_> = (0..12)
        .flat_map(|step| [Cut::Down(2 * megabyte + step * 4099), Cut::Up(50), Cut::Down(20 * step)])
        .collect();
    stage.proxy.cut(plan);
    bob.git("fetch parler::room/big refs/heads/big:refs/heads/big")
        .success();
    let carried = stage.proxy.carried();
    assert!(carried.cuts > 15, "{carried:?}");
    assert!(carried.down < size + size / 4, "{carried:?} for {size}");
    assert_eq!(bobs.rev("refs/heads/big"), stage.place.rev("HEAD"));
    bobs.fsck();
    println!("received {} bytes of {size} with {} cuts", carried.down, carried.cuts);
}

#[test]
fn a_hub_that_is_killed_in_the_middle_of_an_upload_goes_on_with_it() {
    let world = world();
    let mut stage = stage(&world);
    stage.proxy.cut([]);
    let push = stage.alice.start_git("push parler::room/big HEAD:refs/heads/big");
    for bytes in [8 << 20, 18 << 20] {
        stage.proxy.wait_for_up(bytes);
        stage.hub.kill();
        stage.hub.restart();
    }
    push.wait().success();
    let carried = stage.proxy.carried();
    let bundles = stage.bundles();
    assert_eq!(bundles.len(), 1);
    assert!(
        carried.up < bundles[0].size + LOST_TO_KILLS,
        "{carried:?} for {}",
        bundles[0].size
    );
    println!("sent {} bytes of {} past two kills", carried.up, bundles[0].size);
}

#[test]
fn a_hub_that_is_killed_in_the_middle_of_a_download_goes_on_with_it() {
    let world = world();
    let mut stage = stage(&world);
    let reader = RawClient::new(&stage.proxy.url(), "bob");
    stage
        .alice
        .git("push --quiet parler::room/big HEAD:refs/heads/big")
        .success();
    let room = reader.join(&stage.code);
    let bundle = stage.bundles()[0].clone();
    let mut stream = reader.calls.bundles(&room, &[bundle.blob, bundle.blob]).unwrap();
    for round in 0..2 {
        let mut blob = stream.next().unwrap().unwrap();
        let mut first = vec![0; 1 << 20];
        blob.read_exact(&mut first).unwrap();
        stage.hub.kill();
        stage.hub.restart();
        let whole = first.as_slice().chain(blob);
        assert_eq!(digest(whole), bundle.blob, "round {round}");
    }
    assert!(stream.next().unwrap().is_none());
}

#[test]
fn thousands_of_small_bundles_that_are_cut_again_and_again_come_once() {
    const COPIES: usize = 20;
    let world = world();
    let stage = stage(&world);
    let carol = RawClient::new(&stage.proxy.url(), "carol");
    let room: RoomName = carol.join(&stage.code);
    let ids: Vec<BundleId> = (0..100)
        .map(|number| {
            let bytes: Arc<[u8]> = noise(3000, number).into();
            let part = FilePart {
                blob: BundleId::of(&bytes),
                name: "noise".to_owned(),
                size: bytes.len() as u64,
                media_type: None,
                summary: None,
            };
            let signed = carol.sign(&room, &carol.head(&room), vec![part.clone().into()]);
            carol.calls.post(&room, &signed, None, Some(&bytes)).unwrap();
            part.blob
        })
        .collect();
    let wanted: Vec<BundleId> = ids.iter().cycle().take(ids.len() * COPIES).copied().collect();
    let plan = (0..8).flat_map(|step| [Cut::Down(300_000 + step * 4099), Cut::Up(50), Cut::Down(40 * step)]);
    stage.proxy.cut(plan);
    let mut stream = carol.calls.bundles(&room, &wanted).unwrap();
    for id in &wanted {
        let blob = stream.next().unwrap().unwrap();
        assert_eq!((blob.id, digest(blob)), (*id, *id));
    }
    assert!(stream.next().unwrap().is_none());
    let (carried, size) = (stage.proxy.carried(), wanted.len() as u64 * 3000);
    assert!(carried.cuts > 10, "{carried:?}");
    assert!(carried.down < size + size / 4, "{carried:?} for {size}");
}

#[test]
fn a_push_that_loses_its_race_sends_its_bytes_once() {
    let world = world();
    let stage = stage(&world);
    stage
        .alice
        .git("push --quiet parler::room/big HEAD~:refs/heads/main")
        .success();
    let other = world.clone_with(world.path().join("origin.git"), "other", "");
    let bob = world.stranger("bob").with("PARLER_HUB", stage.proxy.url()).at(&other);
    bob.parler(["join", &stage.code]).success();
    let mut gate = Gate::before_pushes(&world, &stage.place);
    stage.proxy.cut([]);
    let push = gate
        .holds_pushes_of(&stage.alice)
        .start_git("push parler::room/big HEAD:refs/heads/main HEAD:refs/heads/rest");
    gate.wait_for_arrival();
    other.commit("theirs.txt", "first\n");
    bob.git("push --quiet parler::room/big HEAD:refs/heads/main").success();
    gate.open();
    push.wait().failure().warns("(fetch first)").warns("HEAD -> rest");
    let carried = stage.proxy.carried();
    let large = stage.bundles().pop().unwrap();
    assert!(large.size > SIZE as u64);
    assert!(carried.up < large.size + 2 * SMALL, "{carried:?} for {}", large.size);
}

/// Bytes that know their name.
struct Named(Arc<[u8]>);

impl BlobSource for Named {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn open(&self) -> std::io::Result<Box<dyn Read + Send>> {
        self.0.open()
    }

    fn id(&self) -> Option<BundleId> {
        Some(BundleId::of(&self.0))
    }
}

#[test]
fn without_progress_an_upload_ends_and_is_found_again() {
    let world = world();
    let stage = stage(&world);
    let deadlines = Deadlines {
        retry: Duration::from_millis(200),
        transfer: Duration::from_millis(500),
        ..Deadlines::default()
    };
    let carol = RawClient::with(&stage.proxy.url(), "carol", None, deadlines);
    let room: RoomName = carol.join(&stage.code);
    let bytes: Arc<[u8]> = noise(SIZE, 3).into();
    let part = FilePart {
        blob: BundleId::of(&bytes),
        name: "noise".to_owned(),
        size: bytes.len() as u64,
        media_type: None,
        summary: None,
    };
    let post = || {
        let signed = carol.sign(&room, &carol.head(&room), vec![part.clone().into()]);
        carol.calls.post(&room, &signed, None, Some(&Named(Arc::clone(&bytes))))
    };
    // In the middle of the bytes, and from then on at once.
    stage.proxy.cut([Cut::Up(10 << 20)].into_iter().chain([Cut::Up(0); 64]));
    let error = post().unwrap_err();
    assert!(
        matches!(error, ClientError::Stopped { what: "upload", size, .. } if size == SIZE as u64),
        "{error:?}"
    );
    // A rerun, as another program would do it: only the rest is sent.
    stage.proxy.cut([]);
    assert_eq!(post().unwrap().seq, Seq::new(1));
    let carried = stage.proxy.carried();
    assert!(carried.up < SIZE as u64 - (5 << 20), "{carried:?}");
    let read = carol.calls.blob(&room, &part.blob).unwrap();
    assert_eq!(digest(read), part.blob);
}
