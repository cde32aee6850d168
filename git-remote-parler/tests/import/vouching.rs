//! What is so plain that git need not be asked about it, and that nothing gets in by it that git would refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use git_remote_parler::import::{ImportLimits, PinTiming};
use git_remote_parler::repository::Repository;
use parler_protocol::Oid;

use crate::accepted::import;
use crate::bundle::{bundle_of, bytes_of};
use crate::rejected::{header, pack};
use crate::sandbox::{Repo, Sandbox};

/// A change that somebody makes in a work tree, and commits.
type Change = (&'static str, fn(&Repo<'_>));

fn put(repo: &Repo<'_>, file: &str, content: &str) {
    let path = repo.directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// What ordinary work consists of.
const ORDINARY: &[Change] = &[
    ("edit", |repo| put(repo, "a/b/deep", "edited")),
    ("add", |repo| put(repo, "a/new/er/file", "new")),
    ("delete", |repo| {
        repo.git(&["rm", "-q", "a/b/deep"]);
    }),
    ("move a file", |repo| {
        repo.git(&["mv", "a/b/deep", "moved"]);
    }),
    ("move a directory", |repo| {
        repo.git(&["mv", "a/b", "b"]);
    }),
    ("mode", |repo| {
        let path = repo.directory.join("top");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }),
    ("link", |repo| {
        std::os::unix::fs::symlink("a/b/deep", repo.directory.join("link")).unwrap();
    }),
    ("submodule", |repo| {
        let entry = format!("160000,{},module", repo.oid("HEAD"));
        repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
        put(repo, "beside", "x");
        repo.git(&["add", "beside"]);
        repo.git(&["commit", "-q", "-m", "A submodule"]);
    }),
    ("ignore", |repo| put(repo, "a/.gitignore", "*.o\n")),
    ("beside what git obeys", |repo| put(repo, "attributed/file", "edited")),
    ("a file where a directory was", |repo| {
        repo.git(&["rm", "-q", "-r", "a"]);
        put(repo, "a", "now a file");
    }),
    ("nothing", |repo| {
        repo.git(&["commit", "-q", "--allow-empty", "-m", "Nothing"]);
    }),
    ("several", |repo| {
        repo.commit("a/b/deep", "first");
        repo.commit("a/c", "second");
        put(repo, "a/b/deep", "third");
    }),
    ("taken back", |repo| {
        repo.commit("top", "not long");
        repo.git(&["revert", "--no-edit", "HEAD"]);
    }),
    ("merge", |repo| {
        repo.git(&["checkout", "-q", "-b", "side"]);
        repo.commit("a/side", "s");
        repo.git(&["checkout", "-q", "main"]);
        repo.commit("top", "m");
        repo.git(&["merge", "-q", "--no-edit", "side"]);
    }),
];

/// What is good too, and takes more than a few looks to tell.
const UNUSUAL: &[Change] = &[
    ("attributes", |repo| put(repo, ".gitattributes", "*.c diff=cpp\n")),
    ("beyond ASCII", |repo| put(repo, "\u{e9}", "x")),
    ("a tilde", |repo| put(repo, "backup~", "x")),
    ("a person without a name", |repo| {
        let tree = repo.git(&["rev-parse", "HEAD^{tree}"]);
        let (parent, when) = (repo.oid("HEAD"), "1700000000 +0000");
        let text = format!("tree {tree}\nparent {parent}\nauthor <a> {when}\ncommitter C <c> {when}\n\nx\n");
        let commit = repo.feed(
            &["hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
            text.as_bytes(),
        );
        repo.git(&["reset", "-q", "--hard", &commit]);
    }),
];

/// A repository with some of everything, and its commit.
fn beginning<'s>(sandbox: &'s Sandbox, format: &str) -> (Repo<'s>, Oid) {
    let sender = sandbox.init("sender", &["--object-format", format]);
    put(&sender, "a/b/deep", "deep");
    put(&sender, "a/b/beside", "beside");
    put(&sender, "attributed/.gitattributes", "* text\n");
    put(&sender, "attributed/file", "file");
    let base = sender.commit("top", "top");
    (sender, base)
}

/// The tip after the change.
fn after(sender: &Repo<'_>, base: &Oid, change: fn(&Repo<'_>)) -> Oid {
    sender.git(&["checkout", "-q", "-f", "-B", "main", &base.to_string()]);
    sender.git(&["clean", "-q", "-f", "-d", "-x"]);
    change(sender);
    sender.git(&["add", "--all", ":!module"]);
    if !sender
        .git(&["status", "--porcelain", "-uno", "--ignore-submodules"])
        .is_empty()
    {
        sender.git(&["commit", "-q", "-m", "Work"]);
    }
    let tip = sender.oid("HEAD");
    assert_ne!(tip, *base);
    tip
}

fn thin(sender: &Repo<'_>, tip: Oid, base: &Oid) -> Vec<u8> {
    bytes_of(&bundle_of(
        &sender.sandbox.open(sender),
        &[("refs/heads/x", tip)],
        std::slice::from_ref(base),
    ))
}

/// The git children of an import, without what they are told.
fn children(receiver: &Repo<'_>, bytes: &[u8], log: &str) -> Vec<String> {
    let repository = Repository::open(receiver.sandbox.counting_git(log), &receiver.git_dir()).unwrap();
    import(&repository, ImportLimits::default(), PinTiming::Now, &[bytes]).unwrap();
    let name = |line: String| {
        let strict = if line.contains("--strict") { " --strict" } else { "" };
        let known = ["unpack-objects", "rev-list", "update-ref"];
        let name = known.into_iter().find(|name| line.contains(name));
        format!("{}{strict}", name.unwrap_or(&line))
    };
    receiver.sandbox.lines(log).into_iter().map(name).collect()
}

#[test]
fn ordinary_work_takes_two_children_and_arrives_whole() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let (sender, base) = beginning(&sandbox, format);
        for (number, (what, change)) in ORDINARY.iter().enumerate() {
            let receiver = sandbox.clone(
                &sender,
                &format!("receiver-{number}"),
                &["--branch", "main", "--single-branch"],
            );
            let tip = after(&sender, &base, *change);
            let bytes = thin(&sender, tip, &base);
            let seen = children(&receiver, &bytes, &format!("log-{number}"));
            assert_eq!(seen, ["unpack-objects", "update-ref"], "{what}");
            receiver.git(&["fsck", "--strict", "--no-dangling"]);
            assert_eq!(
                receiver.git(&["rev-parse", &format!("{tip}^{{tree}}")]),
                sender.git(&["rev-parse", "HEAD^{tree}"]),
                "{what}"
            );
            sender.git(&["checkout", "-q", "-f", "-B", "main", &base.to_string()]);
        }
        // Without a prerequisite everything is in the bundle.
        let receiver = sandbox.init("empty", &["--object-format", format]);
        sender.git(&["rm", "-q", "-r", "attributed"]);
        sender.git(&["commit", "-q", "--amend", "-m", "Whole"]);
        let whole = bytes_of(&bundle_of(
            &sandbox.open(&sender),
            &[("refs/heads/x", sender.oid("HEAD"))],
            &[],
        ));
        let seen = children(&receiver, &whole, "log-empty");
        assert_eq!(seen, ["unpack-objects", "update-ref"]);
    }
}

#[test]
fn what_is_unusual_goes_to_git_and_arrives_too() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    for (number, (what, change)) in UNUSUAL.iter().enumerate() {
        let receiver = sandbox.clone(
            &sender,
            &format!("receiver-{number}"),
            &["--branch", "main", "--single-branch"],
        );
        let bytes = thin(&sender, after(&sender, &base, *change), &base);
        let seen = children(&receiver, &bytes, &format!("log-{number}"));
        assert_eq!(seen, ["unpack-objects --strict", "rev-list", "update-ref"], "{what}");
        sender.git(&["checkout", "-q", "-f", "-B", "main", &base.to_string()]);
    }
}

#[test]
fn a_prerequisite_that_no_ref_names_is_walked_to() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let bytes = thin(&sender, sender.commit("top", "more"), &base);
    let receiver = sandbox.clone(&sender, "receiver", &["--branch", "main"]);
    // The commit is reached, and named by nothing.
    receiver.git(&["reset", "-q", "--hard", &base.to_string()]);
    receiver.commit("other", "work");
    receiver.git(&["remote", "remove", "origin"]);
    let seen = children(&receiver, &bytes, "log");
    assert_eq!(seen, ["unpack-objects", "rev-list", "update-ref"]);
}

#[test]
fn nothing_that_is_reached_may_be_left_out_of_ordinary_work() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let receiver = sandbox.clone(&sender, "receiver", &["--branch", "main", "--single-branch"]);
    let repository = sandbox.open(&receiver);
    for (what, change) in ORDINARY {
        let tip = after(&sender, &base, *change);
        let (spec, except) = (tip.to_string(), format!("^{base}"));
        let objects = sender.git(&["rev-list", "--objects", "--no-object-names", &spec, &except]);
        let objects: Vec<&str> = objects.lines().collect();
        let head = header(&[base], &[("refs/heads/x", &spec)]);
        for left_out in &objects {
            let rest: Vec<&str> = objects.iter().copied().filter(|oid| oid != left_out).collect();
            let bytes = [head.clone(), pack(&sender, &rest)].concat();
            let imported = import(&repository, ImportLimits::default(), PinTiming::Now, &[&bytes]);
            assert!(imported.is_err(), "{what} without {left_out}");
        }
    }
}
