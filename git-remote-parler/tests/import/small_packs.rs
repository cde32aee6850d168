//! Packs of small pushes, made without git: they hold what git's would, git takes them, and what is not ordinary git packs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use git_remote_parler::bundle::{BundleHeader, HeaderRef};
use git_remote_parler::pack::{BuiltBundle, PackError, build_bundle};
use git_remote_parler::repository::Repository;
use parler_protocol::Oid;

use crate::bundle::bytes_of;
use crate::rejected::{raw, write_object};
use crate::sandbox::{Repo, Sandbox};

/// Something that is done to a repository.
type Work<T> = (&'static str, fn(&Repo<'_>) -> T);

fn put(repo: &Repo<'_>, file: &str, content: &str) {
    let path = repo.directory.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn committed(repo: &Repo<'_>) -> Oid {
    repo.git(&["add", "--all", ":!module"]);
    repo.git(&["commit", "-q", "--allow-empty", "-m", "Work"]);
    repo.oid("HEAD")
}

/// A text that is worth a delta.
fn text(version: &str) -> String {
    let lines = (0..300_u64).map(|line| format!("{} is in line {line}\n", (line * 7_919 + 13) * 104_729));
    lines.chain([format!("{version}\n")]).collect()
}

/// Work that is packed in-process: on what was pushed as far as `base`, up to these tips.
const ORDINARY: &[Work<Vec<Oid>>] = &[
    ("edit", |repo| {
        put(repo, "long/one", &text("edited"));
        vec![committed(repo)]
    }),
    ("several edits of a file", |repo| {
        for version in 0..5 {
            put(repo, "long/one", &text(&format!("version {version}")));
            committed(repo);
        }
        vec![repo.oid("HEAD")]
    }),
    ("add", |repo| {
        put(repo, "a/new/er/file", "new");
        vec![committed(repo)]
    }),
    ("delete all", |repo| {
        repo.git(&["rm", "-q", "-r", "."]);
        vec![committed(repo)]
    }),
    ("move a file", |repo| {
        repo.git(&["mv", "long/one", "moved"]);
        vec![committed(repo)]
    }),
    ("move and edit a file", |repo| {
        repo.git(&["mv", "long/one", "a/one"]);
        put(repo, "a/one", &text("edited"));
        vec![committed(repo)]
    }),
    ("move a directory", |repo| {
        repo.git(&["mv", "a/b", "b"]);
        put(repo, "b/beside", "edited");
        vec![committed(repo)]
    }),
    ("two trees change places", |repo| {
        for (from, to) in [("a", "c"), ("long", "a"), ("c", "long")] {
            repo.git(&["mv", from, to]);
        }
        vec![committed(repo)]
    }),
    ("copies", |repo| {
        put(repo, "a/one", &text("one"));
        put(repo, "copy", "copied");
        put(repo, "a/copy", "copied");
        vec![committed(repo)]
    }),
    ("modes and links", |repo| {
        let path = repo.directory.join("a/b/deep");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("a/b/deep", repo.directory.join("link")).unwrap();
        fs::remove_file(repo.directory.join("top")).unwrap();
        std::os::unix::fs::symlink("a", repo.directory.join("top")).unwrap();
        vec![committed(repo)]
    }),
    ("a submodule", |repo| {
        let entry = format!("160000,{},module", repo.oid("HEAD"));
        repo.git(&["update-index", "--add", "--cacheinfo", &entry]);
        put(repo, "beside", "x");
        committed(repo);
        // Another commit that is not here, where there was one.
        let other = format!("160000,{},module", repo.oid("HEAD:long"));
        repo.git(&["update-index", "--cacheinfo", &other]);
        vec![committed(repo)]
    }),
    ("a file where a directory was", |repo| {
        repo.git(&["rm", "-q", "-r", "a"]);
        put(repo, "a", "now a file");
        vec![committed(repo)]
    }),
    ("a directory where a file was", |repo| {
        repo.git(&["rm", "-q", "top"]);
        put(repo, "top/file", "x");
        vec![committed(repo)]
    }),
    ("an empty tree", |repo| {
        let empty = write_object(repo, "tree", b"");
        let tree = [b"40000 empty\0".as_slice(), &raw(&empty)].concat();
        let tree = write_object(repo, "tree", &tree);
        let commit = repo.git(&["commit-tree", "-p", "HEAD", "-m", "Empty", &tree]);
        vec![commit.parse().unwrap()]
    }),
    ("nothing", |repo| vec![committed(repo)]),
    ("taken back", |repo| {
        put(repo, "long/one", &text("edited"));
        put(repo, "a/b/deep", "edited");
        repo.git(&["rm", "-q", "-r", "-f", "a/b"]);
        committed(repo);
        repo.git(&["revert", "--no-edit", "HEAD"]);
        vec![repo.oid("HEAD")]
    }),
    ("taken back in part", |repo| {
        repo.git(&["rm", "-q", "-r", "a"]);
        committed(repo);
        repo.git(&["checkout", "-q", "HEAD~1", "--", "a/b/deep"]);
        vec![committed(repo)]
    }),
    ("back and forth", |repo| {
        for version in ["x", "y", "x", "y", "x"] {
            put(repo, "long/one", &text(version));
            committed(repo);
        }
        vec![repo.oid("HEAD")]
    }),
    ("merge", |repo| {
        repo.git(&["checkout", "-q", "-b", "side"]);
        put(repo, "a/side", "s");
        committed(repo);
        repo.git(&["checkout", "-q", "-"]);
        put(repo, "top", "m");
        committed(repo);
        repo.git(&["merge", "-q", "--no-edit", "side"]);
        vec![repo.oid("HEAD")]
    }),
    ("a merge that changes something", |repo| {
        repo.git(&["checkout", "-q", "-b", "side"]);
        put(repo, "long/one", &text("theirs"));
        committed(repo);
        repo.git(&["checkout", "-q", "-"]);
        put(repo, "long/one", &text("ours"));
        committed(repo);
        repo.git(&["merge", "-q", "--no-commit", "-s", "ours", "side"]);
        put(repo, "long/one", &text("both"));
        vec![committed(repo)]
    }),
    ("criss-cross", |repo| {
        repo.git(&["checkout", "-q", "-b", "one"]);
        put(repo, "a/one", "1");
        let one = committed(repo);
        repo.git(&["checkout", "-q", "-b", "two", "HEAD~1"]);
        put(repo, "a/two", "2");
        let two = committed(repo);
        repo.git(&["merge", "-q", "--no-edit", &one.to_string()]);
        put(repo, "long/one", &text("in two"));
        let of_two = committed(repo);
        repo.git(&["checkout", "-q", "one"]);
        repo.git(&["merge", "-q", "--no-edit", &two.to_string()]);
        put(repo, "long/one", &text("in one"));
        vec![committed(repo), of_two]
    }),
    ("several tips, one below the other", |repo| {
        put(repo, "top", "1");
        let first = committed(repo);
        put(repo, "top", "2");
        let second = committed(repo);
        repo.git(&["checkout", "-q", &first.to_string()]);
        put(repo, "long/one", &text("elsewhere"));
        vec![second, first, committed(repo), second]
    }),
    ("a tag of a tag", |repo| {
        put(repo, "top", "tagged");
        let commit = committed(repo);
        repo.git(&["tag", "-a", "-m", "one", "one"]);
        repo.git(&["tag", "-a", "-m", "two", "two", "one"]);
        vec![commit, repo.oid("two"), repo.oid("one")]
    }),
    ("a tag of what is had", |repo| {
        repo.git(&["tag", "-a", "-m", "base", "based", "base"]);
        vec![repo.oid("based")]
    }),
    ("a tip that is had", |repo| vec![repo.oid("base")]),
    ("what replace refs and grafts say is not seen", |repo| {
        put(repo, "top", "real");
        let real = committed(repo);
        put(repo, "top", "another");
        let another = committed(repo);
        repo.git(&[
            "replace",
            &repo.oid("base:long").to_string(),
            &repo.oid("base:a").to_string(),
        ]);
        repo.git(&["replace", &another.to_string(), &repo.oid("base").to_string()]);
        fs::create_dir_all(repo.git_dir().join("info")).unwrap();
        fs::write(repo.git_dir().join("info/grafts"), format!("{another}\n")).unwrap();
        assert_ne!(real, another);
        vec![another]
    }),
];

/// A repository and its base, named so.
fn beginning<'s>(sandbox: &'s Sandbox, format: &str) -> (Repo<'s>, Oid) {
    let sender = sandbox.init("sender", &["--object-format", format]);
    put(&sender, "a/b/deep", "deep");
    put(&sender, "a/b/beside", "beside");
    put(&sender, "long/one", &text("one"));
    put(&sender, "long/two", &text("two"));
    sender.commit("root", "root\n");
    let base = sender.commit("top", "top");
    sender.git(&["branch", "base"]);
    (sender, base)
}

fn header(repository: &Repository, tips: &[Oid], prerequisites: Vec<Oid>) -> BundleHeader {
    BundleHeader {
        object_format: repository.object_format(),
        prerequisites,
        refs: (0..)
            .zip(tips)
            .map(|(number, oid)| HeaderRef {
                name: format!("refs/heads/tip{number}").parse().unwrap(),
                oid: *oid,
            })
            .collect(),
    }
}

fn built(repository: &Repository, header: &BundleHeader, commits: u64) -> Result<BuiltBundle, PackError> {
    build_bundle(repository, header, commits, &repository.parler_dir(), None)
}

/// Its pack.
fn pack_of(bundle: &BuiltBundle, header: &BundleHeader) -> Vec<u8> {
    bytes_of(bundle).split_off(header.to_bytes().len())
}

/// What git finds of these revisions, on standard input.
fn objects_by_git(repo: &Repo<'_>, revisions: &str) -> BTreeSet<Oid> {
    let arguments = [
        "--no-replace-objects",
        "rev-list",
        "--objects",
        "--no-object-names",
        "--stdin",
    ];
    let listed = repo.feed(&arguments, revisions.as_bytes());
    listed.lines().map(|line| line.parse().unwrap()).collect()
}

/// Every object of an object directory.
fn all_objects(repo: &Repo<'_>) -> BTreeSet<Oid> {
    let listed = repo.git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    listed.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn what_is_new_is_in_the_pack_and_git_takes_it() {
    let (mut ours, mut gits) = (0, 0);
    for format in ["sha1", "sha256"] {
        for (name, work) in ORDINARY {
            let sandbox = Sandbox::new();
            let (sender, base) = beginning(&sandbox, format);
            let receiver = sandbox.clone(&sender, "receiver", &["--bare"]);
            let tips = work(&sender);
            let repository = Repository::open(sandbox.counting_git("log"), &sender.git_dir()).unwrap();
            let boundary = repository.boundary(&tips, &[base]).unwrap();
            let prerequisites = match boundary.prerequisites.is_empty() {
                true => vec![base],
                false => boundary.prerequisites,
            };
            let header = header(&repository, &tips, prerequisites.clone());
            let bundle = built(&repository, &header, boundary.commits).unwrap();
            assert_eq!(sandbox.lines("log"), [""; 0], "{format}, {name}");

            let pack = pack_of(&bundle, &header);
            let had = all_objects(&receiver);
            receiver.feed_bytes(&["index-pack", "--stdin", "--fix-thin", "--strict"], &pack);
            let came = &all_objects(&receiver) - &had;
            let mut revisions: String = tips.iter().map(|oid| format!("{oid}\n")).collect();
            revisions.extend(prerequisites.iter().map(|oid| format!("^{oid}\n")));
            let _ = fs::remove_file(sender.git_dir().join("info/grafts"));
            let new = &objects_by_git(&sender, &revisions) - &had;
            assert_eq!(came, new, "{format}, {name}");
            for (number, tip) in tips.iter().enumerate() {
                receiver.git(&["update-ref", &format!("refs/tips/{number}"), &tip.to_string()]);
            }
            receiver.git(&["fsck", "--full", "--strict"]);

            let arguments = [
                "pack-objects",
                "--revs",
                "--stdout",
                "--thin",
                "--delta-base-offset",
                "-q",
            ];
            let by_git = sender.feed_bytes(&arguments, revisions.as_bytes());
            assert!(
                bundle.objects <= u32::from_be_bytes(by_git[8..12].try_into().unwrap()),
                "{format}, {name}"
            );
            let by_git = by_git.len();
            assert!(
                pack.len() <= by_git + by_git / 20 + 20,
                "{format}, {name}: {} {by_git}",
                pack.len()
            );
            ours += pack.len();
            gits += by_git;
        }
    }
    assert!(ours <= gits, "{ours} {gits}");
}

/// Settings and states of the sender's repository for which git packs.
const NOT_ORDINARY: &[Work<()>] = &[
    ("a format that is not known", |repo| {
        set(repo, "extensions.unknown", "1")
    }),
    ("history that is cut", |repo| {
        fs::write(repo.git_dir().join("shallow"), format!("{}\n", repo.oid("base"))).unwrap();
    }),
    ("objects that are elsewhere", |repo| {
        set(repo, "remote.origin.url", "/nowhere");
        set(repo, "remote.origin.promisor", "true");
    }),
    ("objects that are elsewhere, as git said it once", |repo| {
        set(repo, "core.repositoryFormatVersion", "1");
        set(repo, "extensions.partialClone", "origin");
    }),
    ("how well to compress", |repo| set(repo, "core.compression", "-1")),
    ("how well to compress packs", |repo| set(repo, "pack.compression", "-1")),
    ("what is large", |repo| set(repo, "core.bigFileThreshold", "512m")),
    ("a window", |repo| set(repo, "pack.window", "10")),
    ("a depth", |repo| set(repo, "Pack.Depth", "50")),
    ("memory", |repo| set(repo, "pack.windowMemory", "1g")),
    ("something else about packs", |repo| set(repo, "pack.threads", "1")),
];

fn set(repo: &Repo<'_>, key: &str, value: &str) {
    repo.git(&["config", key, value]);
}

/// The git children that made a bundle, or failed to.
fn children(sandbox: &Sandbox, sender: &Repo<'_>, header: &BundleHeader, commits: u64) -> (Vec<String>, bool) {
    let repository = Repository::open(sandbox.counting_git("log"), &sender.git_dir()).unwrap();
    let _ = fs::remove_file(sandbox.path("log"));
    let is_built = built(&repository, header, commits).is_ok();
    (sandbox.lines("log"), is_built)
}

#[track_caller]
fn git_packs(name: &str, (children, is_built): &(Vec<String>, bool)) {
    let of_pack: Vec<_> = children
        .iter()
        .filter(|child| child.contains(" pack-objects "))
        .collect();
    assert_eq!(of_pack.len(), 1, "{name}: {children:#?}");
    assert!(is_built, "{name}");
}

#[test]
fn a_repository_that_is_not_ordinary_is_packed_by_git() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let tip = sender.commit("top", "edited");
    let header = header(&sandbox.open(&sender), &[tip], vec![base]);
    let config = fs::read(sender.git_dir().join("config")).unwrap();
    for (name, state) in NOT_ORDINARY {
        state(&sender);
        git_packs(name, &children(&sandbox, &sender, &header, 1));
        fs::write(sender.git_dir().join("config"), &config).unwrap();
        let _ = fs::remove_file(sender.git_dir().join("shallow"));
        assert_eq!(
            children(&sandbox, &sender, &header, 1),
            (vec![], true),
            "without {name}"
        );
    }
    // What git alone sees.
    let variables = [("GIT_CONFIG_COUNT", "0")];
    let repository = Repository::open(sandbox.counting_git_with("log", &variables), &sender.git_dir()).unwrap();
    let bundle = built(&repository, &header, 1);
    git_packs("a variable", &(sandbox.lines("log"), bundle.is_ok()));
}

#[test]
fn a_push_that_is_not_small_is_packed_by_git() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let repository = sandbox.open(&sender);
    let of = |tip: Oid, base: &[Oid]| header(&repository, &[tip], base.to_vec());
    let assert_by_git = |name: &str, header: &BundleHeader, commits| {
        git_packs(name, &children(&sandbox, &sender, header, commits));
    };
    let assert_in_process = |name: &str, header: &BundleHeader, commits| {
        assert_eq!(children(&sandbox, &sender, header, commits), (vec![], true), "{name}");
    };
    let on_base = || {
        sender.git(&["checkout", "-q", "-f", "--detach", "base"]);
    };

    assert_by_git("a first push", &of(base, &[]), 2);

    let mut tip = base;
    for _ in 0..32 {
        sender.git(&["commit", "-q", "--allow-empty", "-m", "One more"]);
        tip = sender.oid("HEAD");
    }
    assert_in_process("32 commits", &of(tip, &[base]), 32);
    // A walk that comes to more than the plan has counted went past something.
    assert_by_git("another count", &of(tip, &[base]), 31);
    assert_by_git("commits that are had", &of(sender.oid("HEAD~16"), &[tip]), 0);
    sender.git(&["commit", "-q", "--allow-empty", "-m", "One too many"]);
    assert_by_git("33 commits", &of(sender.oid("HEAD"), &[base]), 33);

    on_base();
    for number in 0..300 {
        put(&sender, &format!("file{number}"), &number.to_string());
    }
    let wide = committed(&sender);
    for _ in 0..32 {
        sender.git(&["commit", "-q", "--allow-empty", "-m", "One more"]);
    }
    assert_in_process("few trees that are large", &of(sender.oid("HEAD~24"), &[wide]), 8);
    assert_by_git("many trees that are large", &of(sender.oid("HEAD"), &[wide]), 32);

    on_base();
    let mut bases = vec![base];
    for number in 0..8 {
        let tree = sender.git(&["rev-parse", "HEAD^{tree}"]);
        let commit = sender.git(&["commit-tree", "-m", &number.to_string(), "-p", "base", &tree]);
        bases.push(commit.parse().unwrap());
    }
    let octopus = |bases: &[Oid]| {
        let parents = bases.iter().flat_map(|oid| ["-p".to_owned(), oid.to_string()]);
        let tree = sender.git(&["rev-parse", "HEAD^{tree}"]);
        let words: Vec<String> = ["commit-tree", "-m", "All"]
            .map(str::to_owned)
            .into_iter()
            .chain(parents)
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).chain([tree.as_str()]).collect();
        sender.git(&words).parse().unwrap()
    };
    assert_in_process("8 prerequisites", &of(octopus(&bases[..8]), &bases[..8]), 1);
    assert_by_git("9 prerequisites", &of(octopus(&bases), &bases), 1);

    sender.git(&["checkout", "-q", "--orphan", "orphan"]);
    sender.git(&["commit", "-q", "-m", "A history of its own"]);
    let orphan = sender.oid("HEAD");
    on_base();
    let options = [
        "merge",
        "-q",
        "--no-edit",
        "--allow-unrelated-histories",
        "-s",
        "ours",
        "orphan",
    ];
    sender.git(&options);
    assert_by_git("a history of its own", &of(sender.oid("HEAD"), &[base]), 2);
    assert_in_process("beside it", &of(sender.oid("HEAD"), &[base, orphan]), 1);

    // With the commit, its tree and the directory.
    for (files, is_small) in [(253, true), (254, false)] {
        on_base();
        for number in 0..files {
            put(&sender, &format!("many/{number}"), &number.to_string());
        }
        let header = of(committed(&sender), &[base]);
        match is_small {
            true => assert_in_process("256 objects", &header, 1),
            false => assert_by_git("257 objects", &header, 1),
        }
    }
    for (kibibytes, is_small) in [(960, true), (1024, false)] {
        on_base();
        put(&sender, "large", &"line\n".repeat(kibibytes * 1024 / 5 + 1));
        let header = of(committed(&sender), &[base]);
        match is_small {
            true => assert_in_process("what is not quite large", &header, 1),
            false => assert_by_git("what is large", &header, 1),
        }
    }
    for (depth, is_small) in [(63, true), (64, false)] {
        on_base();
        put(&sender, &format!("{}file", "d/".repeat(depth)), "deep");
        let header = of(committed(&sender), &[base]);
        match is_small {
            true => assert_in_process("what is not quite deep", &header, 1),
            false => assert_by_git("what is deep", &header, 1),
        }
    }

    on_base();
    let tree = [b"100664 odd\0".as_slice(), sender.oid("base:top").as_bytes()].concat();
    let tree = write_object(&sender, "tree", &tree);
    let commit = |tree: String| -> Oid {
        let words = ["commit-tree", "-p", "base", "-m", "Odd", &tree];
        sender.git(&words).parse().unwrap()
    };
    assert_in_process("an old mode", &of(commit(tree), &[base]), 1);
    let tree = [b"130000 odd\0".as_slice(), sender.oid("base:top").as_bytes()].concat();
    let tree = write_object(&sender, "tree", &tree);
    assert_by_git("a mode that nothing has", &of(commit(tree), &[base]), 1);
    assert_by_git("a tip that is a tree", &of(sender.oid("base:a"), &[base]), 0);
    sender.git(&["tag", "-a", "-m", "blob", "of-a-blob", "base:top"]);
    assert_by_git("a tag of a file", &of(sender.oid("of-a-blob"), &[base]), 0);
}

fn loose(repo: &Repo<'_>, oid: &str) -> std::path::PathBuf {
    repo.git_dir().join("objects").join(&oid[..2]).join(&oid[2..])
}

fn write_over(path: &Path, content: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, content).unwrap();
}

#[test]
fn what_is_missing_or_damaged_is_for_git_to_say() {
    for object in [
        "HEAD",
        "HEAD^{tree}",
        "HEAD:long",
        "HEAD:long/one",
        "base^{tree}",
        "base:long",
        "base:long/one",
    ] {
        let sandbox = Sandbox::new();
        let (sender, base) = beginning(&sandbox, "sha1");
        let tip = sender.commit("long/one", &text("edited"));
        let header = header(&sandbox.open(&sender), &[tip], vec![base]);
        assert_eq!(children(&sandbox, &sender, &header, 1), (vec![], true));
        let path = loose(&sender, &sender.git(&["rev-parse", object]));
        let whole = fs::read(&path).unwrap();
        // Another object in its place, which inflates well: only its hash tells.
        let kind = sender.git(&["cat-file", "-t", object]);
        let other = match kind.as_str() {
            "commit" => sender.oid("HEAD~2"),
            "tree" => sender.oid("base:a/b"),
            _ => sender.oid("base:top"),
        };
        write_over(&path, &fs::read(loose(&sender, &other.to_string())).unwrap());
        let (of_damaged, _) = children(&sandbox, &sender, &header, 1);
        write_over(&path, b"no object");
        let (of_spoiled, _) = children(&sandbox, &sender, &header, 1);
        fs::remove_file(&path).unwrap();
        let (of_missing, _) = children(&sandbox, &sender, &header, 1);
        for (what, children) in [
            ("damaged", of_damaged),
            ("spoiled", of_spoiled),
            ("missing", of_missing),
        ] {
            let is_by_git = children.iter().any(|child| child.contains(" pack-objects "));
            assert!(is_by_git, "{what} {object}: {children:?}");
        }
        fs::write(&path, whole).unwrap();
        assert_eq!(children(&sandbox, &sender, &header, 1), (vec![], true));
    }
}

#[test]
fn a_small_pack_that_the_hub_does_not_take_is_refused_as_gits() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let tip = sender.commit("top", "edited");
    let repository = Repository::open(sandbox.counting_git("log"), &sender.git_dir()).unwrap();
    let header = header(&repository, &[tip], vec![base]);
    let bundle = |most| build_bundle(&repository, &header, 1, &repository.parler_dir(), Some(most));
    let bytes = built(&repository, &header, 1).unwrap().spool.size();
    assert_eq!(bundle(bytes).unwrap().spool.size(), bytes);
    assert_eq!(sandbox.lines("log"), [""; 0]);
    let refused = bundle(100);
    assert!(
        matches!(refused, Err(PackError::TooLarge { most: 100, .. })),
        "{refused:?}"
    );
    assert_eq!(sandbox.lines("log").len(), 1);
}

#[test]
fn a_tree_that_git_takes_for_a_submodule_is_not_with_the_receiver() {
    let sandbox = Sandbox::new();
    let (sender, base) = beginning(&sandbox, "sha1");
    let repository = sandbox.open(&sender);
    let tree_of = |mode: &str, name: &str, id: &str| {
        let entry = [format!("{mode} {name}\0").into_bytes(), raw(id)].concat();
        write_object(&sender, "tree", &entry)
    };
    let on = |parent: Oid, tree: &str| -> Oid {
        let words = ["commit-tree", "-m", "Odd", "-p", &parent.to_string(), tree];
        sender.git(&words).parse().unwrap()
    };
    let file = write_object(&sender, "blob", b"nowhere else");
    let inner = tree_of("100644", "file", &file);
    for mode in ["140000", "0140000", "140755", "040000"] {
        let had = on(base, &tree_of(mode, "x", &inner));
        let tip = on(had, &tree_of("40000", "x", &inner));
        git_packs(
            mode,
            &children(&sandbox, &sender, &header(&repository, &[tip], vec![had]), 1),
        );
    }
}
