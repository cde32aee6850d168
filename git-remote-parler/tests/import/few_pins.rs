//! The pins of an ordinary bundle: lines of `packed-refs` too, written while what the bundle builds on cannot move.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use git_remote_parler::bundle::HeaderRef;
use git_remote_parler::import::{Import, ImportError, ImportLimits, PinTiming};
use git_remote_parler::pins;
use git_remote_parler::repository::Repository;
use parler_harness::{DEADLINE, SetOnDrop};
use parler_protocol::{BundleId, Oid};

use crate::accepted::{import, incoming};
use crate::bundle::{bundle_of, bytes_of};
use crate::many_pins::object_file;
use crate::rejected::pair;
use crate::sandbox::{Repo, Sandbox};

/// What vouches for the base, where nothing was changed.
const VOUCHING: &str = "refs/remotes/origin/main";

fn thin(sender: &Repo<'_>, base: &Oid, content: &str) -> (Oid, Vec<u8>) {
    let tip = sender.commit("a", content);
    let bytes = bytes_of(&bundle_of(
        &sender.sandbox.open(sender),
        &[("refs/heads/main", tip)],
        std::slice::from_ref(base),
    ));
    (tip, bytes)
}

fn pinned(receiver: &Repo<'_>, bytes: &[u8]) -> Oid {
    receiver.oid(&format!("refs/parler/{}", BundleId::of(bytes)))
}

fn loose_pins(receiver: &Repo<'_>) -> usize {
    fs::read_dir(receiver.git_dir().join("refs/parler")).map_or(0, Iterator::count)
}

/// Locks and claims, wherever they lie.
fn left(receiver: &Repo<'_>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![receiver.git_dir()];
    while let Some(directory) = open.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                open.push(path);
            } else if name.ends_with(".lock") || name.starts_with("locks.") || name.starts_with("packed-refs.") {
                found.push(path);
            }
        }
    }
    found
}

fn open_counting(receiver: &Repo<'_>, log: &str) -> Repository {
    Repository::open(receiver.sandbox.counting_git(log), &receiver.git_dir()).unwrap()
}

#[test]
fn they_take_no_child_whether_what_vouches_is_packed_or_a_file() {
    for packed in [true, false] {
        let sandbox = Sandbox::new();
        let (sender, receiver, base) = pair(&sandbox);
        if packed {
            receiver.git(&["pack-refs", "--all"]);
            // As git leaves it.
            let _ = fs::remove_dir(receiver.git_dir().join("refs/remotes/origin"));
        } else {
            receiver.git(&["update-ref", VOUCHING, &base.to_string()]);
        }
        let mut below = base;
        // The second builds on a pin.
        for content in ["2", "3"] {
            let (tip, bytes) = thin(&sender, &below, content);
            let repository = open_counting(&receiver, "log");
            import(&repository, ImportLimits::default(), PinTiming::Now, &[&bytes]).unwrap();
            assert_eq!(sandbox.lines("log"), [""; 0], "{packed}");
            assert_eq!(pinned(&receiver, &bytes), tip);
            assert_eq!((loose_pins(&receiver), left(&receiver)), (0, Vec::new()));
            below = tip;
        }
        receiver.git(&["fsck", "--strict"]);
        receiver.git(&["pack-refs", "--all", "--prune"]);
        assert_eq!(receiver.git(&["for-each-ref", "refs/parler"]).lines().count(), 4);
    }
}

#[test]
fn where_packed_refs_is_large_git_makes_files() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let refs: String = (0..5000)
        .map(|number| format!("create refs/tags/{number:010} {base}\n"))
        .collect();
    receiver.feed(&["update-ref", "--stdin"], refs.as_bytes());
    receiver.git(&["pack-refs", "--all"]);
    let packed = receiver.git_dir().join("packed-refs");
    let before = fs::read(&packed).unwrap();
    let (tip, bytes) = thin(&sender, &base, "2");
    import(
        &open_counting(&receiver, "log"),
        ImportLimits::default(),
        PinTiming::Now,
        &[&bytes],
    )
    .unwrap();
    assert_eq!(sandbox.lines("log").len(), 1);
    assert_eq!(pinned(&receiver, &bytes), tip);
    assert_eq!(loose_pins(&receiver), 2);
    assert!(fs::read(&packed).unwrap() == before);
}

/// What vouched has moved when the pins are written: all refs are asked instead, and decide.
#[test]
fn what_has_moved_vouches_for_nothing() {
    for packed in [true, false] {
        let sandbox = Sandbox::new();
        let (sender, receiver, base) = pair(&sandbox);
        // Without a second name of the base.
        receiver.git(&["checkout", "-q", "--orphan", "other"]);
        receiver.git(&["commit", "-q", "-m", "other"]);
        receiver.git(&["branch", "-q", "-D", "main"]);
        receiver.git(&["remote", "set-head", "origin", "--delete"]);
        let (_, bytes) = thin(&sender, &base, "2");
        let repository = open_counting(&receiver, "log");
        let deferred = || import(&repository, ImportLimits::default(), PinTiming::Deferred, &[&bytes]).unwrap();
        let done = deferred();
        receiver.git(&["update-ref", VOUCHING, "other"]);
        if packed {
            receiver.git(&["pack-refs", "--all"]);
        }
        pins::commit(&repository, done).unwrap();
        let children = sandbox.lines("log");
        assert!(
            children
                .iter()
                .any(|child| child.contains("rev-list") && child.contains("--all")),
            "{children:#?}"
        );
        for name in receiver
            .git(&["for-each-ref", "--format=%(refname)", "refs/parler"])
            .lines()
        {
            receiver.git(&["update-ref", "-d", name]);
        }
        // And where that is no proof, nothing is pinned.
        receiver.git(&["update-ref", VOUCHING, &base.to_string()]);
        let done = deferred();
        receiver.git(&["update-ref", "-d", VOUCHING]);
        fs::remove_file(object_file(&receiver, &base)).unwrap();
        let error = pins::commit(&repository, done).unwrap_err();
        assert!(matches!(error, ImportError::Incomplete { .. }), "{error}");
        assert_eq!(receiver.git(&["for-each-ref", "refs/parler"]), "");
        assert_eq!(left(&receiver), Vec::<PathBuf>::new());
    }
}

/// git moves, removes and packs what vouches while many imports rest on it.
#[test]
fn refs_that_move_meanwhile_lose_nothing() {
    const ROUNDS: usize = 24;
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let elsewhere = receiver.git(&["commit-tree", "-m", "elsewhere", "HEAD^{tree}"]);
    let bundles: Vec<_> = (0..ROUNDS)
        .map(|round| thin(&sender, &base, &format!("round {round}")))
        .collect();
    let done = AtomicBool::new(false);
    let moved = thread::scope(|scope| {
        let moving = scope.spawn(|| {
            let mut moved = 0;
            while !done.load(Ordering::Relaxed) {
                for value in [elsewhere.as_str(), &base.to_string()] {
                    receiver.git(&["-c", "core.filesRefLockTimeout=20000", "update-ref", VOUCHING, value]);
                }
                receiver.git(&["-c", "core.packedRefsTimeout=20000", "pack-refs", "--all"]);
                moved += 1;
            }
            moved
        });
        let end = SetOnDrop(&done);
        thread::scope(|scope| {
            for half in bundles.chunks(ROUNDS / 2) {
                let (sandbox, receiver) = (&sandbox, &receiver);
                scope.spawn(move || {
                    for (_, bytes) in half {
                        import(
                            &sandbox.open(receiver),
                            ImportLimits::default(),
                            PinTiming::Now,
                            &[bytes],
                        )
                        .unwrap();
                    }
                });
            }
        });
        drop(end);
        moving.join().unwrap()
    });
    assert!(moved > 0);
    for (tip, bytes) in &bundles {
        assert_eq!(pinned(&receiver, bytes), *tip);
    }
    assert_eq!(receiver.oid(VOUCHING), base);
    receiver.git(&["fsck", "--strict"]);
    assert_eq!(left(&receiver), Vec::<PathBuf>::new());
}

/// A killed process leaves its lock on what vouched for it, and the next one knows it.
#[test]
fn the_lock_of_a_dead_process_is_in_nobodys_way() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let claim = receiver.git_dir().join("locks.parler-dead");
    fs::write(&claim, format!("linked {VOUCHING}\nlinked refs/heads/others\n")).unwrap();
    fs::create_dir_all(receiver.git_dir().join("refs/remotes/origin")).unwrap();
    fs::hard_link(&claim, receiver.git_dir().join(format!("{VOUCHING}.lock"))).unwrap();
    // Somebody else's, who has taken it since.
    let others = receiver.git_dir().join("refs/heads/others.lock");
    fs::write(&others, "").unwrap();
    let (tip, bytes) = thin(&sender, &base, "2");
    import(
        &open_counting(&receiver, "log"),
        ImportLimits::default(),
        PinTiming::Now,
        &[&bytes],
    )
    .unwrap();
    assert_eq!(sandbox.lines("log"), [""; 0]);
    assert_eq!(pinned(&receiver, &bytes), tip);
    assert_eq!(left(&receiver), std::slice::from_ref(&others));
    // A push looks for it as well, although nothing vouches for what it pins.
    fs::write(&claim, format!("linked {VOUCHING}\n")).unwrap();
    fs::hard_link(&claim, receiver.git_dir().join(format!("{VOUCHING}.lock"))).unwrap();
    let refs = [HeaderRef {
        name: "refs/heads/main".parse().unwrap(),
        oid: base,
    }];
    pins::pin(&sandbox.open(&receiver), &BundleId::of(b"pushed"), &refs, true).unwrap();
    assert_eq!(left(&receiver), [others]);
}

/// Somebody who packs refs for long keeps nobody waiting who has a few pins to write: git makes files of them.
#[test]
fn who_packs_refs_for_long_is_in_nobodys_way() {
    for by_branch in [false, true] {
        let sandbox = Sandbox::new();
        let (sender, receiver, base) = pair(&sandbox);
        // For ever, as git does.
        receiver.git(&["config", "core.packedRefsTimeout", "-1"]);
        if by_branch {
            // Which git holds for a moment, and leaves unlocked when we are killed.
            receiver.git(&["remote", "set-head", "origin", "--delete"]);
            receiver.git(&["update-ref", "-d", VOUCHING]);
        }
        let packing = receiver.git_dir().join("packed-refs.lock");
        fs::write(&packing, "").unwrap();
        let (tip, bytes) = thin(&sender, &base, "2");
        let began = Instant::now();
        let repository = open_counting(&receiver, "log");
        import(&repository, ImportLimits::default(), PinTiming::Now, &[&bytes]).unwrap();
        assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
        assert_eq!(sandbox.lines("log").len(), 1);
        assert_eq!((pinned(&receiver, &bytes), loose_pins(&receiver)), (tip, 2));
        assert_eq!(left(&receiver), [packing]);
    }
}

/// What a newer git may keep in a way that we do not know is left alone.
#[test]
fn a_repository_of_a_format_that_is_not_known_is_for_git_to_refuse() {
    for config in [
        "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tweirdFuture = true\n",
        "[core]\n\trepositoryFormatVersion = 99\n",
    ] {
        let sandbox = Sandbox::new();
        let (sender, receiver, base) = pair(&sandbox);
        let (_, bytes) = thin(&sender, &base, "2");
        let (git_dir, file) = (receiver.git_dir(), receiver.git_dir().join("config"));
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{before}{config}")).unwrap();
        let repository = Repository::open(sandbox.git_with(&[]), &git_dir);
        let refused = repository.map(|repository| {
            let mut import = Import::begin(&repository, ImportLimits::default()).unwrap();
            let mut reader = bytes.as_slice();
            import
                .add(incoming(&bytes, &mut reader))
                .map(|_| ())
                .and_then(|()| import.finish(PinTiming::Now))
        });
        assert!(!matches!(refused, Ok(Ok(_))), "{config}: {refused:?}");
        fs::write(&file, before).unwrap();
        assert_eq!(receiver.git(&["for-each-ref", "refs/parler"]), "");
    }
}
