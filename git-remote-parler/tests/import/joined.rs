//! Small bundles are taken in together: by few children, with the same result as one by one, and with no more trust.

use std::collections::HashSet;
use std::fs;

use git_remote_parler::git::GitProgram;
use git_remote_parler::import::{Import, ImportError, ImportLimits, PinTiming};
use git_remote_parler::repository::Repository;
use parler_protocol::{BundleId, Oid};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::accepted::{import, incoming, packs, ways};
use crate::bundle::{bundle_of, bytes_of};
use crate::sandbox::{Repo, Sandbox, program};
use crate::snapshot::Snapshot;

fn one_by_one() -> ImportLimits {
    ImportLimits {
        joined_bytes: 0,
        ..packs()
    }
}

/// One commit: the files that it writes.
type Change = Vec<(String, String)>;

/// A repository whose `main` has a commit for each change. Gives the commits, oldest first.
fn history<'a>(sandbox: &'a Sandbox, name: &str, format: &str, changes: &[Change]) -> (Repo<'a>, Vec<Oid>) {
    let sender = sandbox.init(name, &["--object-format", format]);
    let mut stream = String::new();
    for (number, change) in changes.iter().enumerate() {
        let date = 1_700_000_000 + number;
        stream.push_str(&format!(
            "commit refs/heads/main\ncommitter C <c@example.invalid> {date} +0000\ndata 2\nx\n"
        ));
        for (file, content) in change {
            stream.push_str(&format!("M 100644 inline {file}\ndata {}\n{content}\n", content.len()));
        }
    }
    sender.feed(&["fast-import", "--quiet"], stream.as_bytes());
    let commits = sender.git(&["rev-list", "--first-parent", "--reverse", "main"]);
    (sender, commits.lines().map(|oid| oid.parse().unwrap()).collect())
}

/// Bundles that end at these commits, each building on the one before; the first on `base`, if there is one.
fn chain(sender: &Repo, base: Option<Oid>, tips: &[Oid]) -> Vec<Vec<u8>> {
    let repository = sender.sandbox.open(sender);
    let before = std::iter::once(base).chain(tips.iter().copied().map(Some));
    before
        .zip(tips)
        .map(|(base, tip)| bytes_of(&bundle_of(&repository, &[("refs/heads/main", *tip)], base.as_slice())))
        .collect()
}

fn slices(bundles: &[Vec<u8>]) -> Vec<&[u8]> {
    bundles.iter().map(Vec::as_slice).collect()
}

/// Text in which a change of one line is a small delta.
fn text(version: usize) -> String {
    let line = |number: usize| match number {
        100 => format!("version {version}\n"),
        _ => format!("line {number} of a text that is long enough\n"),
    };
    (0..200).map(line).collect()
}

/// Every object with its kind and its bytes.
fn objects(repo: &Repo) -> Vec<u8> {
    repo.feed_bytes(&["cat-file", "--batch-all-objects", "--batch"], &[])
}

/// Reads everything back, as it is and after git has packed it anew.
#[track_caller]
fn assert_same_objects(receiver: &Repo, sender: &Repo) {
    receiver.git(&["fsck", "--full", "--strict"]);
    assert!(objects(receiver) == objects(sender), "other objects");
    receiver.git(&["repack", "-a", "-d", "-f", "-q"]);
    assert!(objects(receiver) == objects(sender), "other objects after a repack");
}

/// The children that worked. Git before 2.44 refuses the first way in which it is asked, and is asked again.
fn children(sandbox: &Sandbox, log: &str) -> Vec<String> {
    let lines = sandbox.lines(log);
    let is_old = lines
        .iter()
        .any(|line| line.contains(" index-pack ") && line.contains(" --strict="));
    let was_refused = |line: &String| is_old && line.contains(" --fsck-objects=");
    lines.into_iter().filter(|line| !was_refused(line)).collect()
}

/// The children that took in objects.
fn intakes(sandbox: &Sandbox, log: &str) -> Vec<String> {
    let is_intake = |line: &String| line.contains(" index-pack ") || line.contains(" unpack-objects ");
    children(sandbox, log).into_iter().filter(is_intake).collect()
}

fn open_counting(sandbox: &Sandbox, receiver: &Repo, log: &str) -> Repository {
    Repository::open(sandbox.counting_git(log), &receiver.git_dir()).unwrap()
}

#[test]
fn a_chain_of_bundles_costs_one_indexing_child() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let changes: Vec<Change> = (0..70).map(|number| vec![("a".into(), text(number))]).collect();
        let (sender, commits) = history(&sandbox, "sender", format, &changes);
        let bundles = chain(&sender, None, &commits);
        let receiver = sandbox.init("receiver", &["--object-format", format]);
        let repository = open_counting(&sandbox, &receiver, "log");
        let done = import(&repository, ImportLimits::default(), PinTiming::Now, &slices(&bundles)).unwrap();
        assert_eq!(done.pins.len(), 140);
        let children = children(&sandbox, "log");
        assert_eq!(intakes(&sandbox, "log").len(), 1, "{children:#?}");
        assert!(
            intakes(&sandbox, "log")[0].contains("--check-self-contained-and-connected"),
            "{children:#?}"
        );
        assert!(children.len() <= 3, "{children:#?}");
        // Each version is a delta on the one before, and yet no chain of them is longer than git makes it.
        assert!((40..=50).contains(&longest_chain(&receiver)));
        assert_same_objects(&receiver, &sender);
    }
}

/// The most deltas between an object of the only pack and a whole one.
fn longest_chain(repo: &Repo) -> usize {
    let packs = fs::read_dir(repo.git_dir().join("objects/pack")).unwrap();
    let mut indexes = packs.map(|entry| entry.unwrap().path());
    let index = indexes
        .find(|path| path.extension().is_some_and(|end| end == "idx"))
        .unwrap();
    let verified = repo.git(&["verify-pack", "-v", index.to_str().unwrap()]);
    let lengths = verified.lines().filter_map(|line| line.strip_prefix("chain length = "));
    lengths
        .filter_map(|rest| rest.split(':').next()?.parse().ok())
        .max()
        .unwrap()
}

#[test]
fn a_few_commits_become_loose_objects_as_one_bundle_of_them_would() {
    let sandbox = Sandbox::new();
    let changes: Vec<Change> = (0..8).map(|number| vec![("a".into(), text(number))]).collect();
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    sender.git(&["branch", "base", &commits[2].to_string()]);
    let options = ["--single-branch", "-b", "base"];
    let bundles = chain(&sender, Some(commits[2]), &commits[3..]);
    for (name, children) in [("ours", [].as_slice()), ("gits", &["unpack-objects", "update-ref"])] {
        let receiver = sandbox.clone(&sender, name, &options);
        if !children.is_empty() {
            receiver.has_git_write();
            receiver.has_git_pin();
        }
        let packs_of = |repo: &Repo| fs::read_dir(repo.git_dir().join("objects/pack")).unwrap().count();
        let (log, before) = (format!("{name}.log"), packs_of(&receiver));
        let repository = open_counting(&sandbox, &receiver, &log);
        import(&repository, ImportLimits::default(), PinTiming::Now, &slices(&bundles)).unwrap();
        let seen = sandbox.lines(&log);
        assert_eq!(seen.len(), children.len(), "{seen:#?}");
        let has = |(line, child): (&String, &&str)| line.contains(&format!(" {child} "));
        assert!(seen.iter().zip(children).all(has), "{seen:#?}");
        assert_eq!(packs_of(&receiver), before);
        assert_same_objects(&receiver, &sender);
    }
}

/// The old blob comes back as a delta on the new one, whose own base is the old one: twice in one pack they could not be
/// told apart.
#[test]
fn what_goes_back_and_forth_can_be_read() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let changes: Vec<Change> = (0..50)
            .map(|number| {
                vec![
                    ("a".into(), text(number % 2)),
                    ("b".into(), text(number % 3)),
                    ("c".into(), text(number)),
                ]
            })
            .collect();
        let (sender, commits) = history(&sandbox, "sender", format, &changes);
        sender.git(&["branch", "base", &commits[0].to_string()]);
        for limits in ways() {
            let bundles = chain(&sender, None, &commits);
            let receiver = sandbox.init(&format!("whole-{}", limits.small_objects), &["--object-format", format]);
            import(&sandbox.open(&receiver), limits, PinTiming::Now, &slices(&bundles)).unwrap();
            assert_same_objects(&receiver, &sender);
            // Here the first version is outside, and what comes first is a delta on it.
            let options = ["--single-branch", "-b", "base"];
            let receiver = sandbox.clone(&sender, &format!("thin-{}", limits.small_objects), &options);
            import(&sandbox.open(&receiver), limits, PinTiming::Now, &slices(&bundles[1..])).unwrap();
            assert_same_objects(&receiver, &sender);
        }
    }
}

#[test]
fn a_bundle_may_build_on_the_middle_of_another() {
    let sandbox = Sandbox::new();
    let changes: Vec<Change> = (0..12)
        .map(|number| vec![(format!("f{}", number % 3), text(number))])
        .collect();
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    let repository = sandbox.open(&sender);
    let mut bundles = chain(&sender, None, &[commits[6], commits[11]]);
    sender.git(&["checkout", "-q", &commits[3].to_string()]);
    let side = sender.commit("side", &text(77));
    bundles.push(bytes_of(&bundle_of(
        &repository,
        &[("refs/heads/side", side)],
        &[commits[3]],
    )));
    sender.git(&["update-ref", "refs/heads/side", &side.to_string()]);
    for limits in ways() {
        let receiver = sandbox.init(&format!("receiver-{}", limits.small_objects), &[]);
        receiver.has_git_write();
        let counting = open_counting(&sandbox, &receiver, "log");
        import(&counting, limits, PinTiming::Now, &slices(&bundles)).unwrap();
        assert_eq!(
            receiver.oid(&format!("refs/parler/{}", BundleId::of(&bundles[2]))),
            side
        );
        assert_same_objects(&receiver, &sender);
    }
    assert_eq!(intakes(&sandbox, "log").len(), 2);
}

#[test]
fn a_large_bundle_is_taken_in_in_its_place() {
    let sandbox = Sandbox::new();
    let noise: String = (0..60_000_u64)
        .map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let changes: Vec<Change> = (0..7)
        .map(|number| match number {
            3 => vec![("large".into(), noise.clone()), ("a".into(), text(3))],
            number => vec![("a".into(), text(number))],
        })
        .collect();
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    let bundles = chain(&sender, None, &commits);
    assert!(bundles[3].len() as u64 > ImportLimits::default().joined_bytes);
    let receiver = sandbox.init("receiver", &[]);
    receiver.has_git_write();
    let repository = open_counting(&sandbox, &receiver, "log");
    import(&repository, ImportLimits::default(), PinTiming::Now, &slices(&bundles)).unwrap();
    assert_eq!(intakes(&sandbox, "log").len(), 3);
    assert_same_objects(&receiver, &sender);
}

/// A small bundle whose objects are large, which is for git alone to look at.
#[test]
fn what_is_too_large_to_be_looked_at_goes_alone() {
    let sandbox = Sandbox::new();
    let (sender, mut commits) = history(&sandbox, "sender", "sha1", &[vec![("a".into(), text(0))]]);
    sender.git(&["checkout", "-q", "-f", "main"]);
    commits.push(sender.commit("a", &text(1)));
    fs::write(sender.directory.join("zeros"), vec![0; 80 << 20]).unwrap();
    commits.push(sender.commit("a", &text(2)));
    commits.push(sender.commit("a", &text(3)));
    commits.push(sender.commit("a", &text(4)));
    let bundles = chain(&sender, None, &commits);
    assert!(bundles[2].len() as u64 <= ImportLimits::default().joined_bytes);
    let receiver = sandbox.init("receiver", &[]);
    receiver.has_git_write();
    let repository = open_counting(&sandbox, &receiver, "log");
    import(&repository, ImportLimits::default(), PinTiming::Now, &slices(&bundles)).unwrap();
    assert_eq!(intakes(&sandbox, "log").len(), 3);
    receiver.git(&["fsck", "--full", "--strict"]);
    assert_eq!(receiver.git(&["rev-list", "--count", "--objects", "--all"]), "16");
}

/// Of long histories of large files only the last versions are held in memory.
#[test]
fn what_had_to_be_forgotten_is_found_again() {
    let sandbox = Sandbox::new();
    let large = |version: usize| format!("{}{}", text(version), "a line that stays as it is\n".repeat(40_000));
    let mut changes: Vec<Change> = (0..70).map(|number| vec![("a".into(), large(number))]).collect();
    changes[0].push(("cold".into(), text(0)));
    changes.push(vec![("cold".into(), text(1))]);
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    let bundles = chain(&sender, None, &commits);
    for (log, last, children) in [("warm", 70, 1), ("cold", 71, 2)] {
        let receiver = sandbox.init(log, &[]);
        let repository = open_counting(&sandbox, &receiver, &format!("{log}.log"));
        let bundles = slices(&bundles[..last]);
        import(&repository, ImportLimits::default(), PinTiming::Now, &bundles).unwrap();
        assert_eq!(intakes(&sandbox, &format!("{log}.log")).len(), children, "{log}");
        receiver.git(&["fsck", "--full", "--strict"]);
    }
}

/// The header of a whole bundle with another pack behind it.
fn with_pack(bundle: &[u8], pack: &[u8]) -> Vec<u8> {
    let end = bundle.windows(2).position(|two| two == b"\n\n").unwrap() + 2;
    [&bundle[..end], pack].concat()
}

/// A pack of exactly these objects.
fn pack_of(sender: &Repo, oids: &[Oid]) -> Vec<u8> {
    let list: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
    sender.feed_bytes(&["pack-objects", "--stdout", "-q"], list.as_bytes())
}

#[test]
fn one_that_is_wrong_among_many_stops_them_all_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    let changes: Vec<Change> = (0..200).map(|number| vec![("a".into(), text(number))]).collect();
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    let good = chain(&sender, None, &commits);
    let receiver = sandbox.init("receiver", &[]);
    let before = Snapshot::of(&receiver);
    let fails = |bundles: &[Vec<u8>], log: &str| {
        let repository = open_counting(&sandbox, &receiver, log);
        let result = import(&repository, ImportLimits::default(), PinTiming::Now, &slices(bundles));
        let error = result.map(|done| done.pins).unwrap_err();
        Snapshot::of(&receiver).assert_is(&before, log);
        let children = children(&sandbox, log);
        assert!(children.len() <= 3, "{children:#?}");
        error
    };

    // Objects that git refuses: a tree with a name that leads out of it.
    let blob = sender.oid("main:a");
    let line = format!("100644 blob {blob}\t..\n");
    let tree: Oid = sender.feed(&["mktree"], line.as_bytes()).parse().unwrap();
    let commit = sender.git(&[
        "commit-tree",
        "-m",
        "x",
        "-p",
        &commits[99].to_string(),
        &tree.to_string(),
    ]);
    let commit: Oid = commit.parse().unwrap();
    let dangerous = bundle_of(&sandbox.open(&sender), &[("refs/heads/main", commit)], &[commits[99]]);
    let mut bundles = good.clone();
    bundles.insert(100, bytes_of(&dangerous));
    let error = fails(&bundles, "dangerous");
    let ImportError::Among { ids, source } = error else {
        panic!("{error}");
    };
    assert!(matches!(*source, ImportError::Refused { .. }), "{source}");
    // Git names the tree, and one bundle alone has it.
    assert_eq!(ids, [BundleId::of(&bundles[100])]);

    // The commit without its tree: seen only by the walk.
    let mut bundles = good.clone();
    bundles[100] = with_pack(&good[100], &pack_of(&sender, &commits[100..=100]));
    let error = fails(&bundles, "hollow");
    let source = match error {
        ImportError::Among { source, .. } => *source,
        source => source,
    };
    assert!(
        matches!(source, ImportError::Incomplete { .. } | ImportError::Refused { .. }),
        "{source}"
    );

    // A commit that nobody brings: known at once, and of which bundle.
    let mut bundles = good.clone();
    bundles.remove(100);
    let repository = open_counting(&sandbox, &receiver, "gap");
    let mut import = Import::begin(&repository, ImportLimits::default()).unwrap();
    for (number, bytes) in bundles.iter().enumerate() {
        match import.add(incoming(bytes, &mut bytes.as_slice())) {
            Ok(_) => assert!(number < 100),
            Err(ImportError::MissingPrerequisites { oids }) => {
                assert_eq!((number, oids), (100, vec![commits[100]]));
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    drop(import);
    Snapshot::of(&receiver).assert_is(&before, "gap");
    assert_eq!(sandbox.lines("gap").len(), 0);

    import_all_of(&sandbox, &receiver, &good, &sender);
}

fn import_all_of(sandbox: &Sandbox, receiver: &Repo, bundles: &[Vec<u8>], sender: &Repo) {
    import(
        &sandbox.open(receiver),
        ImportLimits::default(),
        PinTiming::Now,
        &slices(bundles),
    )
    .unwrap();
    let reachable = |repo: &Repo, options: &[&str]| -> HashSet<String> {
        let listed = repo.git(&[&["rev-list", "--objects", "--no-object-names"], options].concat());
        listed.lines().map(str::to_owned).collect()
    };
    assert_eq!(reachable(receiver, &["--all"]), reachable(sender, &["main"]));
}

/// A pack that git refuses stays refused in company: nothing is repaired on the way.
#[test]
fn a_broken_pack_stays_one_in_company() {
    let sandbox = Sandbox::new();
    let changes: Vec<Change> = (0..5).map(|number| vec![("a".into(), text(number))]).collect();
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    let good = chain(&sender, None, &commits);
    let pack_at = good[2].windows(4).position(|four| four == b"PACK").unwrap();
    let mut broken = Vec::new();
    // The checksum; the count; an entry; a byte too many; the end missing.
    for at in [good[2].len() - 1, pack_at + 11, pack_at + 40] {
        let mut bytes = good[2].clone();
        bytes[at] ^= 1;
        broken.push(bytes);
    }
    broken.push([&good[2][..], b"x"].concat());
    broken.push(good[2][..good[2].len() - 7].to_vec());
    let receiver = sandbox.init("receiver", &[]);
    let before = Snapshot::of(&receiver);
    for bytes in broken {
        let mut bundles = good.clone();
        bundles[2] = bytes;
        for limits in ways() {
            let result = import(&sandbox.open(&receiver), limits, PinTiming::Now, &slices(&bundles));
            let error = result.map(|done| done.pins).unwrap_err();
            let is_refused = matches!(error, ImportError::Refused { .. } | ImportError::Pack { .. });
            assert!(is_refused, "{error}");
            Snapshot::of(&receiver).assert_is(&before, "broken");
        }
    }
}

/// Whatever a history does, and however it is cut into bundles.
#[test]
fn joined_is_what_comes_one_by_one() {
    // Which version of which file; few of each, so that what was there comes back.
    let change = proptest::collection::btree_map(0..4_usize, 0..5_usize, 1..4);
    let histories = (
        proptest::collection::vec(change, 2..14),
        proptest::collection::vec(any::<bool>(), 14),
        0..3_usize,
    );
    let config = ProptestConfig {
        cases: 6,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let result = TestRunner::new(config).run(&histories, |(changes, cuts, base)| {
        let sandbox = Sandbox::new();
        let written = |(file, version): (&usize, &usize)| (format!("d{}/f{file}", file % 2), text(*version));
        let changes: Vec<Change> = changes
            .iter()
            .map(|change| change.iter().map(written).collect())
            .collect();
        let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
        let base = base.min(commits.len() - 2);
        sender.git(&["branch", "base", &commits[base].to_string()]);
        let last = commits[commits.len() - 1];
        let tips: Vec<Oid> = commits[base + 1..]
            .iter()
            .zip(cuts)
            .filter(|(oid, cut)| *cut || **oid == last)
            .map(|(oid, _)| *oid)
            .collect();
        let bundles = chain(&sender, Some(commits[base]), &tips);
        let mut all = Vec::new();
        for (number, limits) in [one_by_one(), packs(), ImportLimits::default()].into_iter().enumerate() {
            let options = ["--single-branch", "-b", "base"];
            let receiver = sandbox.clone(&sender, &format!("receiver-{number}"), &options);
            import(&sandbox.open(&receiver), limits, PinTiming::Now, &slices(&bundles)).unwrap();
            assert_same_objects(&receiver, &sender);
            all.push(receiver.git(&["for-each-ref"]));
        }
        prop_assert!(all.windows(2).all(|two| two[0] == two[1]));
        Ok(())
    });
    result.unwrap();
}

/// The oldest git that we work with, where the machine has it.
#[test]
fn git_2_39_takes_joined_packs() {
    let old = GitProgram::at("/usr/bin/git");
    let sandbox = Sandbox::new();
    let is_there = old.path().exists() && old != program();
    if !is_there {
        return;
    }
    let changes: Vec<Change> = (0..60).map(|number| vec![("a".into(), text(number % 7))]).collect();
    let (sender, commits) = history(&sandbox, "sender", "sha1", &changes);
    let bundles = chain(&sender, None, &commits);
    let receiver = sandbox.init("receiver", &[]);
    let repository = Repository::open(sandbox.git_by(old), &receiver.git_dir()).unwrap();
    import(&repository, ImportLimits::default(), PinTiming::Now, &slices(&bundles)).unwrap();
    assert_same_objects(&receiver, &sender);
}
