//! More pins than git should make files of: they are lines of `packed-refs`, as git itself would have written them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use git_remote_parler::import::{ImportError, ImportLimits, PinTiming};
use git_remote_parler::pins;
use parler_harness::SetOnDrop;
use parler_protocol::{BundleId, Oid};

use crate::accepted::{import, packs};
use crate::bundle::{bundle_of, bytes_of};
use crate::sandbox::{Repo, Sandbox};
use crate::snapshot::Snapshot;

/// Branches of a bundle: just enough that its pins are many.
const BRANCHES: usize = 51;
/// Pins of a bundle: each ref under the short and the whole id.
const PINS: usize = 2 * (BRANCHES + 1);

/// A sender with a base, and a bundle of many branches on top of it and of an annotated tag.
struct Many<'a> {
    sender: Repo<'a>,
    base: Oid,
    refs: Vec<(String, Oid)>,
}

fn many<'a>(sandbox: &'a Sandbox, options: &[&str]) -> Many<'a> {
    let sender = sandbox.init("sender", options);
    let base = sender.commit("a", "0\n");
    sender.git(&["branch", "base"]);
    let mut stream = String::new();
    for number in 0..BRANCHES {
        let name = format!("refs/heads/topic/{number}");
        let _ = write!(
            stream,
            "commit {name}\ncommitter A <a@example.invalid> 1700000000 +0000\ndata 1\nx\nfrom {base}\n\
             M 100644 inline b\ndata {}\n{number}\n",
            number.to_string().len(),
        );
    }
    sender.feed(&["fast-import", "--quiet"], stream.as_bytes());
    sender.git(&["tag", "-a", "-m", "t", "v1", "topic/7"]);
    let listed = sender.git(&[
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "refs/heads/topic/",
        "refs/tags/",
    ]);
    let of_line = |line: &str| {
        let (oid, name) = line.split_once(' ').unwrap();
        (name.to_owned(), oid.parse().unwrap())
    };
    let refs: Vec<_> = listed.lines().map(of_line).collect();
    assert_eq!(refs.len(), BRANCHES + 1);
    Many { sender, base, refs }
}

impl Many<'_> {
    fn bundle(&self, prerequisites: &[Oid]) -> Vec<u8> {
        let refs: Vec<_> = self.refs.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
        bytes_of(&bundle_of(
            &self.sender.sandbox.open(&self.sender),
            &refs,
            prerequisites,
        ))
    }

    fn receiver(&self, name: &str, options: &[&str]) -> Repo<'_> {
        let options = [&["--no-tags", "--single-branch", "-b", "base"], options].concat();
        self.sender.sandbox.clone(&self.sender, name, &options)
    }

    /// Fails unless git sees every pin of this bundle and no other, with what tags lead to, and finds nothing wrong.
    #[track_caller]
    fn assert_pinned(&self, receiver: &Repo, bytes: &[u8]) {
        let id = BundleId::of(bytes);
        let mut expected = Vec::new();
        for (name, oid) in &self.refs {
            for base in [id.short(), id.to_string()] {
                expected.push(format!("{oid} refs/parler/{base}/{}", &name["refs/".len()..]));
                if name.contains("tags") {
                    let peeled = self.sender.oid(&format!("{name}^{{}}"));
                    expected.push(format!("{peeled} refs/parler/{base}/{}^{{}}", &name["refs/".len()..]));
                }
            }
        }
        expected.sort_unstable();
        let shown = receiver.git(&["show-ref", "-d"]);
        let mut pins: Vec<_> = shown.lines().filter(|line| line.contains(" refs/parler/")).collect();
        pins.sort_unstable();
        assert_eq!(pins, expected);
        assert_eq!(receiver.git(&["fsck", "--strict"]), "");
    }
}

/// The pins that are files of their own.
fn loose(receiver: &Repo) -> usize {
    let root = common_dir(receiver).join("refs/parler");
    let mut files = 0;
    let mut open = vec![root];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => files += 1,
            }
        }
    }
    files
}

fn common_dir(receiver: &Repo) -> PathBuf {
    PathBuf::from(receiver.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]))
}

fn packed_refs(receiver: &Repo) -> PathBuf {
    common_dir(receiver).join("packed-refs")
}

/// Refs that are packed already, among them some that come before and after the pins, and an annotated tag. Written by
/// hand, because git makes a file of each first; git packs them again.
fn pack_many_refs(receiver: &Repo, count: usize) {
    let head = receiver.oid("HEAD");
    receiver.git(&["tag", "-a", "-m", "old", "old/v1"]);
    receiver.git(&["pack-refs", "--all"]);
    let packed = fs::read_to_string(packed_refs(receiver)).unwrap();
    let (header, rest) = packed.split_once('\n').unwrap();
    let mut records = BTreeMap::new();
    let mut last = String::new();
    for line in rest.split_inclusive('\n') {
        if let Some((_, name)) = line.split_once(' ') {
            last = name.to_owned();
        }
        *records.entry(last.clone()).or_insert_with(String::new) += line;
    }
    for number in 0..count / 2 {
        for root in ["refs/heads/old", "refs/zoo"] {
            let name = format!("{root}/{number}\n");
            records.insert(name.clone(), format!("{head} {name}"));
        }
    }
    let records: String = records.into_values().collect();
    fs::write(packed_refs(receiver), format!("{header}\n{records}")).unwrap();
    receiver.git(&["update-ref", "refs/heads/last", "HEAD"]);
    receiver.git(&["pack-refs", "--all"]);
}

#[test]
fn many_pins_are_what_git_would_have_written_itself() {
    for (name, options, of_clone, refs) in [
        ("plain", &[][..], &[][..], 5000),
        ("bare", &[], &["--bare"], 50),
        ("sha256", &["--object-format=sha256"], &[], 50),
        ("apart", &[], &["--separate-git-dir=apart.git"], 50),
    ] {
        let sandbox = Sandbox::new();
        let many = many(&sandbox, options);
        let receiver = many.receiver(name, of_clone);
        pack_many_refs(&receiver, refs);
        let before = fs::read_to_string(packed_refs(&receiver)).unwrap();
        let snapshot = Snapshot::of(&receiver);
        for (bytes, timing) in [
            (many.bundle(&[]), PinTiming::Now),
            (many.bundle(&[many.base]), PinTiming::Deferred),
        ] {
            let repository = sandbox.open(&receiver);
            let done = import(&repository, packs(), timing, &[&bytes]).unwrap();
            let pins = match timing {
                PinTiming::Now => done.pins,
                PinTiming::Deferred => pins::commit(&repository, done).unwrap(),
            };
            assert_eq!((pins.len(), loose(&receiver)), (PINS, 0), "{name}");
        }
        let refs = receiver.git(&["show-ref", "-d"]);
        let count = |what: &str| {
            refs.lines()
                .filter(|line| line.contains(" refs/parler/") && line.ends_with(what))
                .count()
        };
        assert_eq!(
            (count(""), count("tags/v1"), count("tags/v1^{}")),
            (2 * PINS + 4, 4, 4),
            "{name}"
        );
        assert_eq!(receiver.git(&["fsck", "--strict"]), "", "{name}");
        let after = fs::read_to_string(packed_refs(&receiver)).unwrap();
        // A second line says what the tag above it leads to.
        let mut of_pin = false;
        let others = after.split_inclusive('\n').filter(|line| {
            of_pin = line.contains(" refs/parler/") || (of_pin && line.starts_with('^'));
            !of_pin
        });
        assert_eq!(others.collect::<String>(), before, "{name}");
        let mut snapshots = [Snapshot::of(&receiver), snapshot];
        snapshots.iter_mut().for_each(|snapshot| snapshot.forget("packed-refs"));
        let [now, then] = snapshots;
        now.untouchable().assert_is(&then.untouchable(), name);
        receiver.git(&["pack-refs", "--all"]);
        assert_eq!(fs::read_to_string(packed_refs(&receiver)).unwrap(), after, "{name}");
    }
}

#[test]
fn an_empty_repository_gets_its_first_packed_refs() {
    let sandbox = Sandbox::new();
    let many = many(&sandbox, &[]);
    let empty = sandbox.init("empty", &[]);
    let bytes = many.bundle(&[]);
    import(
        &sandbox.open(&empty),
        ImportLimits::default(),
        PinTiming::Now,
        &[&bytes],
    )
    .unwrap();
    assert_eq!(loose(&empty), 0);
    many.assert_pinned(&empty, &bytes);
    let after = fs::read(packed_refs(&empty)).unwrap();
    empty.git(&["pack-refs", "--all"]);
    assert_eq!(fs::read(packed_refs(&empty)).unwrap(), after);
    // Once more, where all of it is there.
    import(
        &sandbox.open(&empty),
        ImportLimits::default(),
        PinTiming::Now,
        &[&bytes],
    )
    .unwrap();
    assert_eq!(fs::read(packed_refs(&empty)).unwrap(), after);
}

#[test]
fn pins_of_a_linked_work_tree_are_those_of_its_repository() {
    let sandbox = Sandbox::new();
    let many = many(&sandbox, &[]);
    let main = many.receiver("main", &[]);
    let directory = sandbox.path("linked");
    main.git(&["worktree", "add", "-q", "--detach", directory.to_str().unwrap()]);
    let linked = Repo {
        sandbox: &sandbox,
        directory,
    };
    let bytes = many.bundle(&[many.base]);
    import(&sandbox.open(&linked), packs(), PinTiming::Now, &[&bytes]).unwrap();
    assert_eq!(loose(&main), 0);
    many.assert_pinned(&main, &bytes);
    many.assert_pinned(&linked, &bytes);
}

#[test]
fn a_file_for_everybody_or_for_nobody_else_is_one_as_git_makes_it() {
    for shared in ["umask", "group", "everybody", "0600", "0640"] {
        let sandbox = Sandbox::new();
        let many = many(&sandbox, &[]);
        let receiver = many.receiver("receiver", &[]);
        receiver.git(&["config", "core.sharedRepository", shared]);
        let bytes = many.bundle(&[many.base]);
        import(&sandbox.open(&receiver), packs(), PinTiming::Now, &[&bytes]).unwrap();
        assert_eq!(loose(&receiver), 0);
        let mode = || fs::metadata(packed_refs(&receiver)).unwrap().permissions().mode();
        let ours = mode();
        receiver.git(&["update-ref", "refs/heads/more", "HEAD"]);
        receiver.git(&["pack-refs", "--all"]);
        assert_eq!(format!("{ours:o}"), format!("{:o}", mode()), "{shared}");
    }
}

#[test]
fn where_refs_are_kept_otherwise_git_writes_them() {
    type Change = fn(&Repo);
    let ways: [(&str, Change); 6] = [
        ("logged", |repo| {
            repo.git(&["config", "core.logAllRefUpdates", "always"]);
        }),
        ("of an older git", |repo| {
            pack_many_refs(repo, 10);
            let text = fs::read_to_string(packed_refs(repo)).unwrap();
            fs::write(packed_refs(repo), text.replace(" sorted", "")).unwrap();
        }),
        ("a link", |repo| {
            pack_many_refs(repo, 10);
            let elsewhere = repo.directory.join("../elsewhere");
            fs::rename(packed_refs(repo), &elsewhere).unwrap();
            symlink(&elsewhere, packed_refs(repo)).unwrap();
        }),
        ("a link to nothing", |repo| {
            repo.git(&["update-ref", "-d", "refs/remotes/origin/base"]);
            let _ = fs::remove_file(packed_refs(repo));
            symlink(repo.directory.join("../nothing"), packed_refs(repo)).unwrap();
        }),
        ("locked", |repo| {
            repo.git(&["config", "core.packedRefsTimeout", "0"]);
            fs::write(packed_refs(repo).with_extension("lock"), "").unwrap();
        }),
        ("pinned elsewhere", |repo| {
            // A pin that somebody has moved: git moves it back, and the others with it.
            let bytes = fs::read(repo.directory.join("../bundle")).unwrap();
            let pin = format!("refs/parler/{}/heads/topic/3", BundleId::of(&bytes));
            repo.git(&["update-ref", &pin, "HEAD"]);
        }),
    ];
    for (name, change) in ways {
        let sandbox = Sandbox::new();
        let many = many(&sandbox, &[]);
        let receiver = many.receiver("receiver", &[]);
        let bytes = many.bundle(&[many.base]);
        fs::write(receiver.directory.join("../bundle"), &bytes).unwrap();
        change(&receiver);
        let before = fs::read(packed_refs(&receiver)).ok();
        import(&sandbox.open(&receiver), packs(), PinTiming::Now, &[&bytes]).unwrap();
        assert_eq!(loose(&receiver), PINS, "{name}");
        assert_eq!(fs::read(packed_refs(&receiver)).ok(), before, "{name}");
        assert!(name != "a link" || packed_refs(&receiver).is_symlink());
        many.assert_pinned(&receiver, &bytes);
        let logs = common_dir(&receiver).join("logs/refs/parler");
        assert_eq!(logs.exists(), name == "logged");
    }
}

#[test]
fn reftables_are_written_by_git() {
    let sandbox = Sandbox::new();
    let many = many(&sandbox, &[]);
    let receiver = many.receiver("receiver", &["--ref-format=reftable"]);
    let bytes = many.bundle(&[many.base]);
    import(&sandbox.open(&receiver), packs(), PinTiming::Now, &[&bytes]).unwrap();
    assert!(!packed_refs(&receiver).exists());
    many.assert_pinned(&receiver, &bytes);
}

#[test]
fn a_ref_in_the_way_of_one_pin_keeps_all_of_them_out() {
    for packed in [true, false] {
        let sandbox = Sandbox::new();
        let many = many(&sandbox, &[]);
        let receiver = many.receiver("receiver", &[]);
        let bytes = many.bundle(&[many.base]);
        let in_the_way = format!("refs/parler/{}/heads/topic", BundleId::of(&bytes));
        receiver.git(&["update-ref", &in_the_way, "HEAD"]);
        if packed {
            receiver.git(&["pack-refs", "--all"]);
        }
        let before = Snapshot::of(&receiver);
        let error = import(&sandbox.open(&receiver), packs(), PinTiming::Now, &[&bytes]).unwrap_err();
        assert!(matches!(error, ImportError::Pins(_)), "{error}");
        // Git leaves empty directories.
        let [now, before] = [Snapshot::of(&receiver), before].map(|snapshot| snapshot.untouchable());
        now.assert_is(&before, "failure");
        let pins = receiver.git(&["for-each-ref", "--format=%(refname)", "refs/parler/"]);
        assert_eq!(pins, in_the_way);
    }
}

#[test]
fn git_at_work_meanwhile_loses_nothing_and_neither_do_we() {
    const ROUNDS: usize = 6;
    let sandbox = Sandbox::new();
    let many = many(&sandbox, &[]);
    let receiver = many.receiver("receiver", &[]);
    // Bundles that differ, because each has a commit more.
    let bundles: Vec<_> = (0..ROUNDS)
        .map(|round| {
            let tip = many.sender.commit("c", &round.to_string());
            let mut refs: Vec<_> = many.refs.iter().map(|(name, oid)| (name.as_str(), *oid)).collect();
            refs.push(("refs/heads/main", tip));
            bytes_of(&bundle_of(&sandbox.open(&many.sender), &refs, &[many.base]))
        })
        .collect();
    let done = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        let packing = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                receiver.git(&["-c", "core.packedRefsTimeout=20000", "pack-refs", "--all"]);
            }
        });
        let making = scope.spawn(|| {
            let mut made = 0;
            while !done.load(Ordering::Relaxed) {
                receiver.git(&["update-ref", &format!("refs/heads/made/{made}"), "HEAD"]);
                receiver.git(&["update-ref", "refs/heads/gone", "HEAD"]);
                receiver.git(&[
                    "-c",
                    "core.packedRefsTimeout=20000",
                    "update-ref",
                    "-d",
                    "refs/heads/gone",
                ]);
                made += 1;
            }
            made
        });
        let end = SetOnDrop(&done);
        thread::scope(|scope| {
            for bytes in &bundles {
                scope.spawn(|| import(&sandbox.open(&receiver), packs(), PinTiming::Now, &[bytes]).unwrap());
            }
        });
        drop(end);
        packing.join().unwrap();
        making.join().unwrap()
    });
    let refs = receiver.git(&["for-each-ref", "--format=%(refname)"]);
    let below = |root: &str| refs.lines().filter(|name| name.starts_with(root)).count();
    assert_eq!(below("refs/parler/"), ROUNDS * (PINS + 2));
    assert_eq!(below("refs/heads/made/"), made);
    assert_eq!(below("refs/heads/gone"), 0);
    receiver.git(&["fsck", "--strict"]);
    let names = fs::read_dir(common_dir(&receiver)).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let is_left = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("packed-refs.");
    assert!(!names.iter().any(is_left), "{names:?}");
}

#[test]
fn what_a_thin_bundle_builds_on_must_still_be_named_when_its_pins_are_written() {
    let sandbox = Sandbox::new();
    let many = many(&sandbox, &[]);
    let receiver = many.receiver("receiver", &[]);
    let bytes = many.bundle(&[many.base]);
    let repository = sandbox.open(&receiver);
    let done = import(&repository, packs(), PinTiming::Deferred, &[&bytes]).unwrap();
    // Nothing leads to the base any more, and git could throw it away.
    let elsewhere = receiver.git(&["commit-tree", "-m", "elsewhere", "HEAD^{tree}"]);
    for name in ["refs/heads/base", "refs/remotes/origin/base"] {
        receiver.git(&["update-ref", name, &elsewhere]);
    }
    receiver.git(&["reflog", "expire", "--expire=now", "--all"]);
    let kept = fs::read_dir(common_dir(&receiver).join("objects/pack")).unwrap();
    assert!(
        kept.map(|entry| entry.unwrap().path())
            .any(|path| path.extension().is_some_and(|e| e == "keep"))
    );
    fs::remove_file(object_file(&receiver, &many.base)).unwrap();
    let error = pins::commit(&repository, done).unwrap_err();
    assert!(matches!(error, ImportError::Incomplete { .. }), "{error}");
    assert_eq!(receiver.git(&["for-each-ref", "refs/parler/"]), "");
    assert!(!packed_refs(&receiver).with_extension("lock").exists());
}

/// Takes an object out of its pack, and gives its file.
pub fn object_file(receiver: &Repo, oid: &Oid) -> PathBuf {
    let objects = common_dir(receiver).join("objects");
    for entry in fs::read_dir(objects.join("pack")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "pack") && !path.with_extension("keep").exists() {
            let bytes = fs::read(&path).unwrap();
            for extension in ["pack", "idx", "rev"] {
                let _ = fs::remove_file(path.with_extension(extension));
            }
            receiver.feed_bytes(&["unpack-objects", "-q"], &bytes);
        }
    }
    let hex = oid.to_string();
    objects.join(&hex[..2]).join(&hex[2..])
}
