//! Bundles that we write are bundles to git.

use std::fs;
use std::io::Read;
use std::path::PathBuf;

use git_remote_parler::bundle::{BundleHeader, HeaderEnd, HeaderRef, find_header_end};
use git_remote_parler::pack::{BuiltBundle, build_bundle};
use git_remote_parler::repository::Repository;
use parler_protocol::Oid;

use crate::sandbox::{Repo, Sandbox};

/// A bundle of these refs, thin against these prerequisites.
pub fn bundle_of(repository: &Repository, refs: &[(&str, Oid)], prerequisites: &[Oid]) -> BuiltBundle {
    let header = BundleHeader {
        object_format: repository.object_format(),
        prerequisites: prerequisites.to_vec(),
        refs: refs
            .iter()
            .map(|(name, oid)| HeaderRef {
                name: name.parse().unwrap(),
                oid: *oid,
            })
            .collect(),
    };
    build_bundle(
        repository,
        &header,
        commits(repository, &header),
        &repository.parler_dir(),
        None,
    )
    .unwrap()
}

/// How many commits the header's refs have beyond its prerequisites.
pub fn commits(repository: &Repository, header: &BundleHeader) -> u64 {
    let tips: Vec<Oid> = header.refs.iter().map(|tip| tip.oid).collect();
    repository.boundary(&tips, &header.prerequisites).unwrap().commits
}

pub fn bytes_of(bundle: &BuiltBundle) -> Vec<u8> {
    let mut bytes = Vec::new();
    bundle.spool.reader().read_to_end(&mut bytes).unwrap();
    bytes
}

fn write(repo: &Repo, bundle: &BuiltBundle) -> PathBuf {
    let path = repo.directory.join("../a.bundle");
    fs::write(&path, bytes_of(bundle)).unwrap();
    path
}

#[test]
fn git_takes_the_bundles_we_write() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let sender = sandbox.init("sender", &["--object-format", format]);
        let base = sender.commit("a", "1");
        sender.git(&["commit", "-q", "--allow-empty", "-m", "empty"]);
        let receiver = sandbox.clone(&sender, "receiver", &[]);
        let tip = sender.commit("deep/b", "2");
        sender.git(&["tag", "-a", "-m", "t", "v1"]);
        let tag = sender.oid("v1");
        let repository = sandbox.open(&sender);

        let full = bundle_of(
            &repository,
            &[("HEAD", tip), ("refs/heads/main", tip), ("refs/tags/v1", tag)],
            &[],
        );
        assert_eq!(full.objects, 9);
        let path = write(&sender, &full);
        let path = path.to_str().unwrap();
        sender.git(&["bundle", "verify", path]);
        let clone = sandbox.path("clone");
        sandbox.git(&sandbox.path(""), ["clone", "-q", path, clone.to_str().unwrap()]);
        assert_eq!(
            sandbox.git(&clone, ["rev-parse", "HEAD", "v1"]),
            format!("{tip}\n{tag}")
        );

        let prerequisites = repository
            .boundary(&[tip], &[receiver.oid("HEAD")])
            .unwrap()
            .prerequisites;
        assert_ne!(prerequisites, [base]);
        let thin = bundle_of(&repository, &[("refs/heads/other", tip)], &prerequisites);
        assert_eq!(thin.objects, 4);
        write(&sender, &thin);
        receiver.git(&["bundle", "verify", path]);
        receiver.git(&["fetch", "-q", path, "refs/heads/other:refs/heads/other"]);
        assert_eq!(receiver.oid("other"), tip);

        // A tip that is had already travels without an object.
        let empty = bundle_of(&repository, &[("refs/heads/same", tip)], &[tip]);
        assert_eq!(empty.objects, 0);
        write(&sender, &empty);
        receiver.git(&["fetch", "-q", path, "refs/heads/same"]);
    }
}

#[test]
fn we_read_the_bundles_that_git_writes() {
    let sandbox = Sandbox::new();
    let sender = sandbox.init("sender", &[]);
    let base = sender.commit("a", "1");
    let tip = sender.commit("a", "2");
    let path = sandbox.path("git.bundle");
    sender.git(&[
        "bundle",
        "create",
        "-q",
        path.to_str().unwrap(),
        "HEAD",
        "main",
        "^main~1",
    ]);
    let bytes = fs::read(&path).unwrap();
    let Ok(HeaderEnd::At(end)) = find_header_end(&bytes, 0) else {
        panic!("no header")
    };
    let header = BundleHeader::parse(&bytes[..end]).unwrap();
    assert_eq!(header.prerequisites, [base]);
    let refs: Vec<_> = header.refs.iter().map(|tip| (tip.name.as_str(), tip.oid)).collect();
    assert_eq!(refs, [("HEAD", tip), ("refs/heads/main", tip)]);
}

#[test]
fn a_failing_child_is_told_in_one_line() {
    let sandbox = Sandbox::new();
    let sender = sandbox.init("sender", &[]);
    let tip = sender.commit("a", "1");
    let blob = sender.oid("main:a").to_string();
    fs::remove_file(sender.git_dir().join("objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let repository = sandbox.open(&sender);
    let header = BundleHeader {
        object_format: repository.object_format(),
        prerequisites: vec![],
        refs: vec![HeaderRef {
            name: "HEAD".parse().unwrap(),
            oid: tip,
        }],
    };
    let error = build_bundle(&repository, &header, 1, &repository.parler_dir(), None)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("pack-objects") && error.contains(&blob) && !error.contains('\n'),
        "{error}"
    );
}

#[test]
fn git_does_not_try_hard_where_nothing_gets_smaller() {
    const LENGTH: usize = 17 << 20; // 17 MiB
    let sandbox = Sandbox::new();
    let sender = sandbox.init("sender", &[]);
    let base = sender.commit("a", "text\n");
    let mut state = 1_u64;
    let mut noise = |length: usize| -> Vec<u8> {
        let step = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(step).take(length).collect()
    };
    let commit = |name: &str, content: &[u8]| {
        fs::create_dir_all(sender.directory.join("deep")).unwrap();
        fs::write(sender.directory.join("deep").join(name), content).unwrap();
        sender.commit("a", &format!("text and {name}\n"))
    };
    // What one bundle from here to there is made with, by git also where it is small.
    sender.git(&["config", "pack.window", "10"]);
    let settings = |tip: Oid, base: Oid| -> Vec<String> {
        let repository = Repository::open(sandbox.counting_git("log"), &sender.git_dir()).unwrap();
        let built = bundle_of(&repository, &[("refs/heads/main", tip)], &[base]);
        sender.git(&["bundle", "verify", write(&sender, &built).to_str().unwrap()]);
        let lines = sandbox.lines("log");
        fs::remove_file(sandbox.path("log")).unwrap();
        let packing = lines.iter().find(|line| line.contains("pack-objects")).unwrap();
        let words: Vec<_> = packing.split(' ').map(str::to_owned).collect();
        words
            .windows(2)
            .filter(|pair| pair[0] == "-c")
            .map(|pair| pair[1].clone())
            .collect()
    };
    let noisy = commit("noise", &noise(LENGTH));
    assert_eq!(
        settings(noisy, base),
        ["pack.compression=0", "core.bigFileThreshold=8m"]
    );
    // What receivers have counts for nothing.
    assert_eq!(settings(sender.commit("b", "a word\n"), noisy), [""; 0]);
    let text = commit("text", &b"a line of some text\n".repeat(LENGTH / 20));
    assert_eq!(settings(text, noisy), [""; 0]);
    // Both together, noise beside much small text, and too little noise.
    assert_eq!(settings(text, base), [""; 0]);
    for number in 0..4 {
        fs::write(
            sender.directory.join(format!("small{number}")),
            b"text\n".repeat(120_000),
        )
        .unwrap();
    }
    let beside = commit("noise", &noise(LENGTH / 2));
    assert_eq!(settings(beside, text), [""; 0]);
    let little = commit("noise", &noise(LENGTH / 2));
    assert_eq!(settings(little, beside), [""; 0]);
    // Who has said how hard git is to try is obeyed.
    sender.git(&["config", "core.compression", "1"]);
    assert_eq!(settings(noisy, base), ["core.bigFileThreshold=8m"]);
    sender.git(&["config", "core.bigFileThreshold", "1g"]);
    assert_eq!(settings(noisy, base), [""; 0]);
}
