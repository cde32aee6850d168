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
    build_bundle(repository, &header, &repository.parler_dir()).unwrap()
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
    let error = build_bundle(&repository, &header, &repository.parler_dir())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("pack-objects") && error.contains(&blob) && !error.contains('\n'),
        "{error}"
    );
}
