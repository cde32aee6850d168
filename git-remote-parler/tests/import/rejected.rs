//! Bundles that are refused, and after each of them the repository is byte for byte as it was.

use std::io::Write;

use git_remote_parler::git::GitProgram;
use git_remote_parler::import::{Import, ImportError, ImportLimits, Incoming, PinTiming};
use git_remote_parler::repository::Repository;
use parler_protocol::{BundleId, Oid};

use crate::accepted::{import, incoming, ways};
use crate::bundle::{bundle_of, bytes_of};
use crate::sandbox::{Repo, Sandbox, program};
use crate::snapshot::Snapshot;

/// Imports the bytes under their own id, both ways, and expects a refusal that changes nothing.
pub fn refused(receiver: &Repo, bytes: &[u8], what: &str) -> Vec<ImportError> {
    let before = Snapshot::of(receiver);
    let refuse = |limits| {
        let repository = receiver.sandbox.open(receiver);
        let error = import(&repository, limits, PinTiming::Now, &[bytes])
            .map(|done| done.pins)
            .expect_err(what);
        assert!(!error.to_string().contains(['\n', '\x1b']), "{what}: {error}");
        Snapshot::of(receiver).assert_is(&before, what);
        error
    };
    ways().map(refuse).into()
}

pub fn header(prerequisites: &[Oid], refs: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::from("# v2 git bundle\n");
    for oid in prerequisites {
        text.push_str(&format!("-{oid} \n"));
    }
    for (name, oid) in refs {
        text.push_str(&format!("{oid} {name}\n"));
    }
    text.push('\n');
    text.into_bytes()
}

/// A pack of exactly these objects.
pub fn pack(sender: &Repo, oids: &[&str]) -> Vec<u8> {
    let mut command = sender
        .sandbox
        .command(&sender.directory, ["pack-objects", "--stdout", "-q"]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(oids.join("\n").as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

pub fn write_object(sender: &Repo, kind: &str, content: &[u8]) -> String {
    sender.feed(&["hash-object", "-t", kind, "-w", "--stdin", "--literally"], content)
}

pub fn raw(oid: &str) -> Vec<u8> {
    (0..oid.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&oid[at..at + 2], 16).unwrap())
        .collect()
}

pub fn commit_object(sender: &Repo, tree: &str, parent: Option<&str>) -> String {
    let parent = parent.map(|oid| format!("parent {oid}\n")).unwrap_or_default();
    let who = "A <a@example.invalid> 1700000000 +0000";
    write_object(
        sender,
        "commit",
        format!("tree {tree}\n{parent}author {who}\ncommitter {who}\n\nx\n").as_bytes(),
    )
}

/// A sender and a receiver that share one commit.
pub fn pair(sandbox: &Sandbox) -> (Repo<'_>, Repo<'_>, Oid) {
    let sender = sandbox.init("sender", &[]);
    let base = sender.commit("a", "1");
    let receiver = sandbox.clone(&sender, "receiver", &[]);
    receiver.git(&["fetch", "-q"]);
    (sender, receiver, base)
}

#[test]
fn bytes_that_are_not_the_bundle_are_refused() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let tip = sender.commit("a", "2");
    let good = bytes_of(&bundle_of(&sandbox.open(&sender), &[("refs/heads/main", tip)], &[base]));
    let before = Snapshot::of(&receiver);
    let repository = sandbox.open(&receiver);
    for limits in ways() {
        let try_with = |id: BundleId, size: u64, bytes: &[u8]| {
            let mut import = Import::begin(&repository, limits).unwrap();
            let mut reader = bytes;
            let error = import
                .add(Incoming {
                    id,
                    size,
                    ..incoming(bytes, &mut reader)
                })
                .cloned()
                .unwrap_err();
            let again = import.add(incoming(&good, &mut good.as_slice())).cloned().unwrap_err();
            assert!(matches!(again, ImportError::FailedBefore), "{again}");
            assert!(matches!(import.finish(PinTiming::Now), Err(ImportError::FailedBefore)));
            Snapshot::of(&receiver).assert_is(&before, "failure");
            error
        };
        let (id, size) = (BundleId::of(&good), good.len() as u64);
        let error = try_with(BundleId::of(b"other"), size, &good);
        assert!(matches!(error, ImportError::WrongId { .. }), "{error}");
        // Cut on the way: the announced size and id are those of the whole.
        for length in 0..good.len() {
            let error = try_with(id, size, &good[..length]);
            assert!(matches!(error, ImportError::Truncated { .. }), "{length}: {error}");
        }
        // Damaged on the way is told from a bad bundle, wherever the damage is.
        for at in (good.len() - 120)..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 0x10;
            let error = try_with(id, size, &damaged);
            assert!(matches!(error, ImportError::WrongId { .. }), "{at}: {error}");
        }
        let error = try_with(id, u64::MAX, &good);
        assert!(matches!(error, ImportError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_bundle_that_was_cut_by_its_sender_is_refused_wherever_it_was_cut() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let tip = sender.commit("a", "2");
    let good = bytes_of(&bundle_of(&sandbox.open(&sender), &[("refs/heads/main", tip)], &[base]));
    let before = Snapshot::of(&receiver);
    let repository = sandbox.open(&receiver);
    for limits in ways() {
        for length in 0..good.len() {
            let cut = &good[..length];
            assert!(import(&repository, limits, PinTiming::Now, &[cut]).is_err(), "{length}");
        }
    }
    Snapshot::of(&receiver).assert_is(&before, "failure");
    for more in [&b"\n"[..], b"\nok refs/heads/x\n", b"\x1b[31m", &[0; 100_000]] {
        refused(&receiver, &[&good, more].concat(), "trailing bytes");
    }
}

#[test]
fn tips_must_be_commits_that_came_along() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let tip = sender.commit("a", "2").to_string();
    let tree = sender.git(&["rev-parse", "HEAD^{tree}"]);
    let blob = sender.git(&["rev-parse", "HEAD:a"]);
    sender.git(&["tag", "-a", "-m", "t", "of-blob", &blob]);
    sender.git(&["tag", "-a", "-m", "t", "of-tree", &tree]);
    sender.git(&["tag", "-a", "-m", "t", "of-tag", "of-blob"]);
    sender.git(&["tag", "-a", "-m", "t", "good", &tip]);
    let (of_blob, of_tree) = (
        sender.git(&["rev-parse", "of-blob"]),
        sender.git(&["rev-parse", "of-tree"]),
    );
    let (of_tag, good) = (sender.git(&["rev-parse", "of-tag"]), sender.git(&["rev-parse", "good"]));
    let all = pack(&sender, &[&tip, &tree, &blob, &of_blob, &of_tree, &of_tag, &good]);
    let absent = "1".repeat(40);
    for prerequisites in [&[base][..], &[]] {
        for (what, oid) in [
            ("a blob", &blob),
            ("a tree", &tree),
            ("a tag of a blob", &of_blob),
            ("a tag of a tree", &of_tree),
            ("a tag of a tag of a blob", &of_tag),
            ("an absent object", &absent),
        ] {
            let one = [header(prerequisites, &[("refs/heads/x", oid)]), all.clone()].concat();
            refused(&receiver, &one, what);
            let second = [
                header(prerequisites, &[("refs/heads/a", &tip), ("refs/heads/x", oid)]),
                all.clone(),
            ]
            .concat();
            refused(&receiver, &second, what);
        }
    }
    // The same beside a pack that is complete by itself, and an object that is here and not in the pack.
    let everything = sender.git(&[
        "rev-list",
        "--objects",
        "--no-object-names",
        "HEAD",
        "of-tag",
        "of-tree",
        "good",
    ]);
    let everything = pack(&sender, &everything.lines().collect::<Vec<_>>());
    let loose = receiver.feed(&["hash-object", "-w", "--stdin"], b"only here");
    for oid in [&blob, &tree, &of_blob, &of_tree, &of_tag, &absent, &loose] {
        for refs in [
            vec![("refs/heads/x", oid.as_str())],
            vec![("refs/heads/a", &tip), ("refs/heads/x", oid)],
        ] {
            refused(&receiver, &[header(&[], &refs), everything.clone()].concat(), oid);
        }
    }
    // A tag without its commit.
    refused(
        &receiver,
        &[header(&[base], &[("refs/tags/x", &good)]), pack(&sender, &[&good])].concat(),
        "half a tag",
    );
}

#[test]
fn everything_that_a_tip_reaches_must_be_there() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    sender.commit("deep/er/b", "2");
    let middle = sender.git(&["rev-parse", "HEAD"]);
    let tip = sender.commit("deep/er/b", "3").to_string();
    let objects = sender.git(&["rev-list", "--objects", "--no-object-names", &tip, &format!("^{base}")]);
    let objects: Vec<_> = objects.lines().collect();
    assert_eq!(objects.len(), 10);
    let head = header(&[base], &[("refs/heads/x", &tip)]);
    for left_out in &objects {
        let rest: Vec<_> = objects.iter().copied().filter(|oid| oid != left_out).collect();
        for error in refused(&receiver, &[head.clone(), pack(&sender, &rest)].concat(), left_out) {
            let told = matches!(error, ImportError::Incomplete { .. } | ImportError::Refused { .. });
            assert!(told, "{error}");
        }
    }
    // Everything is there, and no prerequisite is named: then it must be complete by itself.
    let whole = sender.git(&["rev-list", "--objects", "--no-object-names", &tip]);
    let whole: Vec<_> = whole.lines().collect();
    let unnamed = [header(&[], &[("refs/heads/x", &tip)]), pack(&sender, &whole[..3])].concat();
    refused(&receiver, &unnamed, "no prerequisite named");
    // Missing prerequisites are named.
    let absent: Oid = "2".repeat(40).parse().unwrap();
    let middle: Oid = middle.parse().unwrap();
    let bytes = [
        header(&[absent, base, middle], &[("refs/heads/x", &tip)]),
        pack(&sender, &objects),
    ]
    .concat();
    for error in refused(&receiver, &bytes, "missing prerequisite") {
        let ImportError::MissingPrerequisites { oids } = error else {
            panic!("{error}")
        };
        assert_eq!(oids, [absent, middle]);
    }
}

#[test]
fn a_prerequisite_with_holes_behind_it_does_not_vouch() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    sender.commit("b", "2");
    let middle = sender.oid("HEAD");
    let blob = sender.git(&["rev-parse", "HEAD:b"]);
    // The tip itself does not need what is missing.
    sender.git(&["rm", "-q", "b"]);
    let tip = sender.commit("a", "3");
    let thin = bytes_of(&bundle_of(&sandbox.open(&sender), &[("refs/heads/x", tip)], &[middle]));
    // The commit before the bundle is here, as an interrupted fetch may leave it: without its blob, and unreachable.
    let objects = sender.git(&[
        "rev-list",
        "--objects",
        "--no-object-names",
        "HEAD~1",
        &format!("^{base}"),
    ]);
    let present: Vec<_> = objects.lines().filter(|oid| *oid != blob).collect();
    let partial = pack(&sender, &present);
    receiver.feed_bytes(&["unpack-objects", "-q"], &partial);
    assert!(sandbox.open(&receiver).contains(&[middle]).unwrap()[0]);
    refused(&receiver, &thin, "a prerequisite with a hole");
    // Nor does it when the bundle does not even name it.
    let objects = sender.git(&["rev-list", "--objects", "--no-object-names", "HEAD", "^HEAD~1"]);
    let unnamed = pack(&sender, &objects.lines().collect::<Vec<_>>());
    refused(
        &receiver,
        &[header(&[], &[("refs/heads/x", &tip.to_string())]), unnamed].concat(),
        "an unnamed hole",
    );
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &[&blob]));
    import(
        &sandbox.open(&receiver),
        ImportLimits::default(),
        PinTiming::Now,
        &[&thin],
    )
    .unwrap();
}

#[test]
fn dangerous_trees_are_refused() {
    let sandbox = Sandbox::new();
    let (sender, receiver, _) = pair(&sandbox);
    let blob = write_object(&sender, "blob", b"x");
    let entry = |mode: &str, name: &str, oid: &str| [format!("{mode} {name}\0").into_bytes(), raw(oid)].concat();
    let gitmodules = write_object(&sender, "blob", b"[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n");
    let dotdot = write_object(
        &sender,
        "blob",
        b"[submodule \"../x\"]\n\tpath = x\n\turl = https://example.invalid\n",
    );
    let mut trees = vec![
        ("100644", ".git", &blob),
        ("100644", ".GIT", &blob),
        ("100644", "git~1", &blob),
        ("100644", ".g\u{200c}it", &blob),
        ("100644", "..", &blob),
        ("100644", ".", &blob),
        ("100644", "a/b", &blob),
        ("120000", ".gitmodules", &blob),
        ("100644", ".gitmodules", &gitmodules),
    ];
    trees.push(("100644", ".gitmodules", &dotdot));
    for (mode, name, oid) in trees {
        let tree = write_object(&sender, "tree", &entry(mode, name, oid));
        let commit = commit_object(&sender, &tree, None);
        let bytes = [
            header(&[], &[("refs/heads/x", &commit)]),
            pack(&sender, &[&commit, &tree, oid, &blob]),
        ]
        .concat();
        for error in refused(&receiver, &bytes, name) {
            assert!(matches!(error, ImportError::Refused { .. }), "{name}: {error}");
        }
        // Deep down as well.
        let outer = write_object(&sender, "tree", &entry("40000", "sub", &tree));
        let commit = commit_object(&sender, &outer, None);
        if name.starts_with(".gitm") {
            continue; // has a meaning at the root only
        }
        let objects = [commit.as_str(), &outer, &tree, oid, &blob];
        refused(
            &receiver,
            &[header(&[], &[("refs/heads/x", &commit)]), pack(&sender, &objects)].concat(),
            name,
        );
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let tip = sender.commit("a", "2").to_string();
    let good = bytes_of(&bundle_of(
        &sandbox.open(&sender),
        &[("refs/heads/main", tip.parse().unwrap())],
        &[base],
    ));
    let pack = good[header(&[base], &[("refs/heads/main", &tip)]).len()..].to_vec();
    for (what, head) in [
        (
            "duplicate refs",
            header(&[base], &[("refs/heads/x", &tip), ("refs/heads/x", &tip)]),
        ),
        (
            "a ref inside another",
            header(&[base], &[("refs/heads/x", &tip), ("refs/heads/x/y", &tip)]),
        ),
        ("an option", header(&[base], &[("--upload-pack=touch", &tip)])),
        ("a way out", header(&[base], &[("refs/heads/../../../x", &tip)])),
        ("an escape", header(&[base], &[("refs/heads/\x1b]0;x", &tip)])),
        (
            "a duplicate prerequisite",
            header(&[base, base], &[("refs/heads/x", &tip)]),
        ),
    ] {
        for error in refused(&receiver, &[head, pack.clone()].concat(), what) {
            assert!(matches!(error, ImportError::Bundle(_)), "{what}: {error}");
        }
    }
    let filtered = format!("# v3 git bundle\n@filter=blob:none\n{tip} refs/heads/x\n\n").into_bytes();
    refused(&receiver, &[filtered, pack.clone()].concat(), "a filter");
    let other_format = format!(
        "# v3 git bundle\n@object-format=sha256\n{} refs/heads/x\n\n",
        "3".repeat(64)
    );
    for error in refused(
        &receiver,
        &[other_format.into_bytes(), pack.clone()].concat(),
        "another hash",
    ) {
        assert!(matches!(error, ImportError::ObjectFormat { .. }), "{error}");
    }
    refused(&receiver, b"<!DOCTYPE html>\n\n", "a web page");
    refused(&receiver, &header(&[base], &[("refs/heads/x", &tip)]), "a header alone");
    let mut many = pack.clone();
    many[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    refused(
        &receiver,
        &[header(&[base], &[("refs/heads/x", &tip)]), many].concat(),
        "a wrong count",
    );
}

#[test]
fn a_ref_in_the_way_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let tip = sender.commit("a", "2");
    let good = bytes_of(&bundle_of(&sandbox.open(&sender), &[("refs/heads/main", tip)], &[base]));
    receiver.git(&["update-ref", &format!("refs/parler/{}/x", BundleId::of(&good)), "HEAD"]);
    for error in refused(&receiver, &good, "a ref in the way") {
        assert!(matches!(error, ImportError::Pins(_)), "{error}");
    }
}

#[test]
fn imports_within_a_quarantine_of_git_are_refused() {
    let sandbox = Sandbox::new();
    let (_, receiver, _) = pair(&sandbox);
    let git = sandbox.git_with(&[("GIT_QUARANTINE_PATH", "/nowhere")]);
    let repository = git_remote_parler::repository::Repository::open(git, &receiver.git_dir()).unwrap();
    let begun = Import::begin(&repository, ImportLimits::default());
    assert!(matches!(begun.err(), Some(ImportError::InsideQuarantine)));
}

/// One object of a pack: kind, size, and the bytes between them and the deflated content.
pub fn packed(kind: u8, base: &[u8], content: &[u8]) -> Vec<u8> {
    let mut size = content.len();
    let mut bytes = vec![(kind << 4) | (size & 15) as u8];
    size >>= 4;
    while size > 0 {
        *bytes.last_mut().unwrap() |= 0x80;
        bytes.push((size & 127) as u8);
        size >>= 7;
    }
    bytes.extend_from_slice(base);
    let mut deflate = flate2::write::ZlibEncoder::new(bytes, flate2::Compression::best());
    deflate.write_all(content).unwrap();
    deflate.finish().unwrap()
}

pub fn pack_of(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"PACK\0\0\0\x02".to_vec();
    bytes.extend_from_slice(&(objects.len() as u32).to_be_bytes());
    bytes.extend(objects.concat());
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(&bytes);
    bytes.extend_from_slice(hasher.try_finalize().unwrap().as_slice());
    bytes
}

pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push((number & 127) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A difference that copies the whole base `times` times, in pieces that fit a copy instruction.
fn repeat(base: u64, times: u64) -> Vec<u8> {
    const LARGEST: u64 = 0xff_ffff;
    let mut bytes = [varint(base), varint(base * times)].concat();
    for _ in 0..times {
        let mut at = 0;
        while at < base {
            let piece = LARGEST.min(base - at);
            bytes.push(0xff);
            bytes.extend_from_slice(&(at as u32).to_le_bytes());
            bytes.extend_from_slice(&(piece as u32).to_le_bytes()[..3]);
            at += piece;
        }
    }
    bytes
}

#[test]
fn a_bomb_is_seen_before_git_sees_it() {
    let sandbox = Sandbox::new();
    let (_, receiver, base) = pair(&sandbox);
    // 64 KiB, then 1 MiB, 16 MiB, 128 MiB and 4 GiB out of a few hundred bytes.
    let mut objects = vec![packed(3, &[], &[b'x'; 1 << 16])];
    let mut size = 1_u64 << 16;
    for times in [16, 16, 8, 32] {
        let back = objects.last().unwrap().len();
        assert!(back < 1 << 13);
        // The distance to the base, in the pack's own kind of varint.
        let distance = if back < 128 {
            vec![back as u8]
        } else {
            vec![((back >> 7) as u8 - 1) | 0x80, (back & 127) as u8]
        };
        objects.push(packed(6, &distance, &repeat(size, times)));
        size *= times;
    }
    let bytes = [header(&[base], &[("refs/heads/x", &"4".repeat(40))]), pack_of(&objects)].concat();
    assert!(bytes.len() < 4096, "{}", bytes.len());
    for error in refused(&receiver, &bytes, "a bomb") {
        assert!(matches!(error, ImportError::Pack { .. }), "{error}");
        assert!(error.to_string().contains("parler.maxObjectSize"), "{error}");
    }
}

/// What follows a pack git hands on, and lists what it could not check: that is no verdict.
#[test]
fn what_git_says_besides_its_verdict_is_a_refusal() {
    let sandbox = Sandbox::new();
    let sender = sandbox.init("sender", &[]);
    sender.commit("a", "1");
    let file = sandbox.path("good.bundle");
    sender.git(&["bundle", "create", "-q", file.to_str().unwrap(), "main"]);
    let bytes = std::fs::read(file).unwrap();
    let receiver = sandbox.init("receiver", &[]);
    let git = program().path().display().to_string();
    let script = format!(
        "#!/bin/sh\n'{git}' \"$@\" || exit $?\ncase \"$*\" in *index-pack*|*unpack-objects*) echo and more;; esac\n"
    );
    let program = GitProgram::at(sandbox.script("talking-git", &script));
    receiver.has_git_write();
    let before = Snapshot::of(&receiver);
    for limits in ways() {
        let repository = Repository::open(sandbox.git_by(program.clone()), &receiver.git_dir()).unwrap();
        let error = import(&repository, limits, PinTiming::Now, &[&bytes]).unwrap_err();
        assert!(error.to_string().contains("more than a pack"), "{error}");
        Snapshot::of(&receiver).assert_is(&before, "more than a verdict");
    }
}
