//! What is so plain that git need not be asked about it, and that nothing gets in by it that git would refuse.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git_remote_parler::git::GitProgram;
use git_remote_parler::import::{ImportError, ImportLimits, PinTiming};
use git_remote_parler::repository::Repository;
use parler_protocol::Oid;

use crate::accepted::import;
use crate::bundle::{bundle_of, bytes_of};
use crate::rejected::{commit_object, header, pack, pair, raw, refused, write_object};
use crate::sandbox::{Repo, Sandbox, program};

/// A change that somebody makes in a work tree, and commits.
type Change = (&'static str, fn(&Repo<'_>));

fn put(repo: &Repo<'_>, file: &str, content: &str) {
    let path = repo.directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// The children where git has to look.
const JUDGED_BY_GIT: [&str; 2] = ["unpack-objects --strict", "rev-list"];

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
fn ordinary_work_takes_no_child_and_arrives_whole() {
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
            assert_eq!(seen, [""; 0], "{what}");
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
        assert_eq!(children(&receiver, &whole, "log-empty"), [""; 0]);
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
        assert_eq!(seen, JUDGED_BY_GIT, "{what}");
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
    assert_eq!(seen, JUDGED_BY_GIT);
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

/// A tree of these entries, in their order.
fn tree(sender: &Repo<'_>, entries: &[(&str, &str, &str)]) -> String {
    let entry = |(mode, name, oid): &(&str, &str, &str)| [format!("{mode} {name}\0").into_bytes(), raw(oid)].concat();
    write_object(sender, "tree", &entries.iter().flat_map(entry).collect::<Vec<u8>>())
}

fn bundle(sender: &Repo<'_>, prerequisites: &[Oid], tip: &str, objects: &[&str]) -> Vec<u8> {
    [header(prerequisites, &[("refs/heads/x", tip)]), pack(sender, objects)].concat()
}

/// A submodule that would make git run something.
const EVIL: &[u8] = b"[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n";

#[test]
fn what_no_tip_reaches_is_for_git_too() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let blob = sender.git(&["rev-parse", &format!("{base}:a")]);
    let kept = tree(&sender, &[("100644", "b", &blob)]);
    let commit = commit_object(&sender, &kept, Some(&base.to_string()));
    let dangerous = tree(&sender, &[("40000", ".git", &kept)]);
    let bytes = bundle(&sender, &[base], &commit, &[&commit, &kept, &dangerous]);
    refused(&receiver, &bytes, "a tree that lies about");
}

#[test]
fn trees_that_git_cannot_search_are_refused() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let blob = sender.git(&["rev-parse", &format!("{base}:a")]);
    for (what, names) in [("out of order", ["b", "a"]), ("twice", ["a", "a"])] {
        let odd = tree(&sender, &names.map(|name| ("100644", name, blob.as_str())));
        let commit = commit_object(&sender, &odd, Some(&base.to_string()));
        refused(&receiver, &bundle(&sender, &[base], &commit, &[&commit, &odd]), what);
    }
    // A file that reads like a directory, and a directory in place of a file.
    let content = [b"100644 a\0".to_vec(), raw(&blob)].concat();
    let (file, directory) = (
        write_object(&sender, "blob", &content),
        write_object(&sender, "tree", &content),
    );
    for (mode, inner) in [("40000", &file), ("100644", &directory)] {
        let odd = tree(&sender, &[(mode, "a", inner)]);
        let commit = commit_object(&sender, &odd, Some(&base.to_string()));
        let bytes = bundle(&sender, &[base], &commit, &[&commit, &odd, inner]);
        refused(&receiver, &bytes, "of another type");
    }
    // The same name as before, and a directory then.
    let below = sender.commit("d/e", "x");
    receiver.git(&[
        "fetch",
        "-q",
        sender.directory.to_str().unwrap(),
        &format!("{below}:refs/heads/below"),
    ]);
    let inner = sender.git(&["rev-parse", &format!("{below}:d")]);
    let odd = tree(&sender, &[("100644", "a", &blob), ("100644", "d", &inner)]);
    let commit = commit_object(&sender, &odd, Some(&below.to_string()));
    refused(
        &receiver,
        &bundle(&sender, &[below], &commit, &[&commit, &odd]),
        "a directory as a file",
    );
}

/// Each is the same as the other was before, so that neither is new at its place.
#[test]
fn two_trees_that_change_places_do_not_account_for_each_other() {
    let sandbox = Sandbox::new();
    let (sender, receiver, _) = pair(&sandbox);
    let blob = write_object(&sender, "blob", b"x");
    let evil = write_object(&sender, "blob", EVIL);
    let nowhere = "de".repeat(20);
    for (what, mode, name, inner) in [
        ("a hole", "40000", "z", &nowhere),
        ("what git obeys", "100644", ".gitmodules", &evil),
    ] {
        let one = tree(&sender, &[(mode, name, inner)]);
        let other = if mode == "40000" {
            tree(&sender, &[("100644", "w", &blob), (mode, name, inner)])
        } else {
            tree(&sender, &[(mode, name, inner), ("100644", "w", &blob)])
        };
        let root = |x: &str, y: &str| {
            let files = [("100644", "plain", evil.as_str()), ("40000", "x", x), ("40000", "y", y)];
            tree(&sender, &files)
        };
        let (before, after) = (root(&other, &one), root(&one, &other));
        let first = commit_object(&sender, &before, None);
        let second = commit_object(&sender, &after, Some(&first));
        let objects = [&second, &first, &after, &before, &one, &other, &blob, &evil].map(String::as_str);
        refused(&receiver, &bundle(&sender, &[], &second, &objects), what);
    }
}

#[test]
fn what_was_accounted_for_at_one_place_is_not_at_another() {
    let sandbox = Sandbox::new();
    let (sender, receiver, _) = pair(&sandbox);
    let blob = write_object(&sender, "blob", b"x");
    let evil = write_object(&sender, "blob", EVIL);
    // It came by another way, where it does no harm.
    let harmless = tree(&sender, &[("100644", ".gitmodules", &evil)]);
    let held = tree(&sender, &[("40000", "test", &harmless)]);
    let base = commit_object(&sender, &held, None);
    let objects = [&base, &held, &harmless, &evil].map(String::as_str);
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &objects));
    receiver.git(&["update-ref", "refs/heads/base", &base]);
    let base_oid: Oid = base.parse().unwrap();
    // Beside the old tree it is nothing new; then it is the root.
    let grown = tree(&sender, &[("100644", ".gitmodules", &evil), ("100644", "w", &blob)]);
    let below = tree(&sender, &[("40000", "test", &grown)]);
    let first = commit_object(&sender, &below, Some(&base));
    let second = commit_object(&sender, &grown, Some(&first));
    let objects = [&second, &first, &below, &grown, &blob].map(String::as_str);
    refused(&receiver, &bundle(&sender, &[base_oid], &second, &objects), "a root");

    // Sixty levels that each commit puts on top of those of the one before.
    let mut objects = vec![blob.clone()];
    let mut top = tree(&sender, &[("100644", "a", &blob)]);
    let mut tip = base.clone();
    objects.push(top.clone());
    for _ in 0..2 {
        for _ in 0..60 {
            top = tree(&sender, &[("40000", "a", &top)]);
            objects.push(top.clone());
        }
        tip = commit_object(&sender, &top, Some(&tip));
        objects.push(tip.clone());
    }
    let objects: Vec<&str> = objects.iter().map(String::as_str).collect();
    let deep = bundle(&sender, &[base_oid], &tip, &objects);
    let seen = children(&receiver, &deep, "log-deep");
    assert!(seen.iter().any(|child| child == "rev-list"), "{seen:?}");
}

#[test]
fn a_prerequisite_that_only_looks_like_a_commit_vouches_for_nothing() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let tree = sender.git(&["rev-parse", &format!("{base}^{{tree}}")]);
    let words = format!("tree {tree}\nauthor A <a> 1 +0000\ncommitter A <a> 1 +0000\n\nx\n");
    let blob = write_object(&sender, "blob", words.as_bytes());
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &[&blob]));
    receiver.git(&["update-ref", "refs/tags/key", &blob]);
    let commit = commit_object(&sender, &tree, Some(&blob));
    let bytes = bundle(&sender, &[blob.parse().unwrap()], &commit, &[&commit]);
    refused(&receiver, &bytes, "a blob as a parent");
}

#[test]
fn what_else_has_to_be_here_is_looked_for_again_at_the_end() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    // A file that is here and that nothing names, as a branch leaves it that was deleted.
    let lost = write_object(&sender, "blob", b"lost and found");
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &[&lost]));
    let kept = sender.git(&["rev-parse", &format!("{base}:a")]);
    let found = tree(&sender, &[("100644", "a", &kept), ("100644", "found", &lost)]);
    let commit = commit_object(&sender, &found, Some(&base.to_string()));
    let bytes = bundle(&sender, &[base], &commit, &[&commit, &found]);
    let object = receiver.git_dir().join("objects").join(&lost[..2]).join(&lost[2..]);
    receiver.has_git_write();
    gone_meanwhile(&receiver, &bytes, &format!("rm -f '{}'", object.display()));
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &[&lost]));
    assert_eq!(children(&receiver, &bytes, "log"), ["unpack-objects"]);

    // One that comes is not written by git where a pack has it, which may be gone next.
    let other = write_object(&sender, "blob", b"packed and lost");
    let place = receiver.git_dir().join("objects/pack/pack");
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &[&other]));
    receiver.feed_bytes(&["pack-objects", "-q", place.to_str().unwrap()], other.as_bytes());
    receiver.git(&["prune-packed", "-q"]);
    let found = tree(&sender, &[("100644", "a", &kept), ("100644", "found", &other)]);
    let commit = commit_object(&sender, &found, Some(&base.to_string()));
    let bytes = bundle(&sender, &[base], &commit, &[&commit, &found, &other]);
    let repack = format!(
        "'{}' -C '{}' repack -a -d -q",
        program().path().display(),
        receiver.directory.display()
    );
    gone_meanwhile(&receiver, &bytes, &format!("env -u GIT_OBJECT_DIRECTORY {repack}"));
}

/// As a loss of power leaves it: git does not write it again, and takes it for there. We do.
#[test]
fn an_object_that_is_here_and_damaged_vouches_for_nothing() {
    let sandbox = Sandbox::new();
    let (sender, receiver, base) = pair(&sandbox);
    let blob = sender.git(&["rev-parse", &format!("{base}:a")]);
    let below = tree(&sender, &[("100644", "b", &blob)]);
    let root = tree(&sender, &[("40000", "d", &below)]);
    let commit = commit_object(&sender, &root, Some(&base.to_string()));
    let bytes = bundle(&sender, &[base], &commit, &[&commit, &root, &below]);
    let place = receiver.git_dir().join("objects").join(&below[..2]);
    fs::create_dir_all(&place).unwrap();
    let whole = fs::read(sender.git_dir().join("objects").join(&below[..2]).join(&below[2..])).unwrap();
    let repository = sandbox.open(&receiver);
    let damage = |left: usize| {
        let _ = fs::remove_file(place.join(&below[2..]));
        fs::write(place.join(&below[2..]), &whole[..left]).unwrap();
    };
    for left in [0, whole.len() - 8] {
        damage(left);
        import(&repository, ImportLimits::default(), PinTiming::Now, &[&bytes]).unwrap();
        receiver.git(&["fsck", "--strict", "--no-dangling"]);
        for pin in receiver
            .git(&["for-each-ref", "--format=%(refname)", "refs/parler"])
            .lines()
        {
            receiver.git(&["update-ref", "-d", pin]);
        }
    }
    receiver.has_git_write();
    let repository = sandbox.open(&receiver);
    for left in [0, whole.len() - 8] {
        damage(left);
        let error = import(&repository, ImportLimits::default(), PinTiming::Now, &[&bytes]).unwrap_err();
        assert!(matches!(error, ImportError::Storage(_)), "{left}: {error}");
        assert_eq!(receiver.git(&["for-each-ref", "refs/parler"]), "");
    }
    fs::remove_file(place.join(&below[2..])).unwrap();
    assert_eq!(children(&receiver, &bytes, "log"), ["unpack-objects"]);
}

/// Imports where a command runs as soon as the bundle is unpacked, which takes away what it rests on.
fn gone_meanwhile(receiver: &Repo<'_>, bytes: &[u8], command: &str) {
    let pins = receiver.git(&["for-each-ref", "refs/parler"]);
    let script = format!(
        "#!/bin/sh\n'{}' \"$@\"\ncode=$?\ncase \" $* \" in\n\
         *' unpack-objects '*) {command} >/dev/null </dev/null;;\nesac\nexit $code\n",
        program().path().display(),
    );
    let sandbox = receiver.sandbox;
    let pruning = sandbox.git_by(GitProgram::at(sandbox.script("pruning-git", &script)));
    let repository = Repository::open(pruning, &receiver.git_dir()).unwrap();
    let error = import(&repository, ImportLimits::default(), PinTiming::Now, &[bytes]).unwrap_err();
    assert!(matches!(error, ImportError::Storage(_)), "{error}");
    assert_eq!(receiver.git(&["for-each-ref", "refs/parler"]), pins);
}

#[test]
fn where_git_may_see_something_else_git_is_asked() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let bytes = thin(&sender, sender.commit("top", "more"), &base);
    // A link into git's own directory, and one whose target came before as a file.
    let receiver = sandbox.clone(&sender, "linked", &["--branch", "main"]);
    receiver.git(&["reset", "-q", "--hard", &base.to_string()]);
    receiver.git(&["tag", "base"]);
    let target = write_object(&sender, "blob", b".git/hooks");
    let linked = tree(&sender, &[("120000", "link", &target)]);
    let commit = commit_object(&sender, &linked, Some(&base.to_string()));
    let link = bundle(&sender, &[base], &commit, &[&commit, &linked, &target]);
    let into_git = sandbox.clone(&sender, "into-git", &["--branch", "main"]);
    into_git.git(&["reset", "-q", "--hard", &base.to_string()]);
    into_git.git(&["tag", "base"]);
    assert_eq!(children(&into_git, &link, "log-into-git"), JUDGED_BY_GIT);
    receiver.feed_bytes(&["unpack-objects", "-q"], &pack(&sender, &[&target]));
    let link = bundle(&sender, &[base], &commit, &[&commit, &linked]);
    assert_eq!(children(&receiver, &link, "log-link"), JUDGED_BY_GIT);
    // The alternates of an alternate.
    let (store, middle) = (sandbox.init("store", &[]), sandbox.init("middle", &[]));
    let receiver = sandbox.init("receiver", &[]);
    for (from, to) in [(&middle, &store), (&receiver, &middle)] {
        let alternates = from.git_dir().join("objects/info/alternates");
        fs::write(alternates, format!("{}/objects\n", to.git_dir().display())).unwrap();
    }
    let url = sender.directory.to_str().unwrap();
    receiver.git(&["fetch", "-q", url, &format!("{base}:refs/tags/base")]);
    assert_eq!(children(&receiver, &bytes, "log-alternates"), JUDGED_BY_GIT);
}

/// What there is of loose objects: where, with which permissions, and what they say.
fn loose(repo: &Repo<'_>) -> BTreeMap<PathBuf, (u32, Option<String>)> {
    let objects = repo.git_dir().join("objects");
    let mut found = BTreeMap::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
    for directory in fs::read_dir(&objects).unwrap().map(|entry| entry.unwrap().path()) {
        let name = directory.file_name().unwrap().to_owned();
        if name.len() != 2 {
            continue;
        }
        found.insert(PathBuf::from(&name), (mode(&directory), None));
        for object in fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()) {
            let file = object.file_name().unwrap();
            let oid = format!("{}{}", name.display(), file.display());
            let content = format!(
                "{}\n{}",
                repo.git(&["cat-file", "-t", &oid]),
                repo.git(&["cat-file", "-p", &oid])
            );
            found.insert(Path::new(&name).join(file), (mode(&object), Some(content)));
        }
    }
    found
}

#[test]
fn what_we_write_is_what_git_writes() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let (sender, base) = beginning(&sandbox, format);
        let tip = sender.commit("a/b/deep", "deeper");
        let bytes = thin(&sender, tip, &base);
        let from = sender.directory.to_str().unwrap();
        let received = |name: &str, settings: &[[&str; 2]]| {
            let receiver = sandbox.init(name, &["--object-format", format]);
            receiver.git(&["fetch", "-q", from, &format!("{base}:refs/tags/base")]);
            receiver.git(&["repack", "-a", "-d", "-q"]);
            assert!(loose(&receiver).is_empty());
            for [key, value] in settings {
                receiver.git(&["config", key, value]);
            }
            let seen = children(&receiver, &bytes, &format!("log-{name}"));
            (seen, loose(&receiver))
        };
        let (seen, ours) = received("ours", &[]);
        assert_eq!(seen, [""; 0]);
        assert!(
            ours.values().filter(|(_, content)| content.is_some()).count() == 5,
            "{ours:#?}"
        );
        // Where it is to be otherwise, git does it.
        for [key, value] in [
            ["core.looseCompression", "1"],
            ["core.compression", "0"],
            ["core.sharedRepository", "0640"],
            ["core.fsync", "all"],
            ["core.fsyncMethod", "batch"],
            ["core.fsyncObjectFiles", "true"],
        ] {
            let (seen, gits) = received(key, &[[key, value]]);
            assert_eq!(seen[0], "unpack-objects", "{key}");
            let is_shared = key == "core.sharedRepository";
            assert_eq!(gits == ours, !is_shared, "{key}: {gits:#?} {ours:#?}");
        }
    }
}
