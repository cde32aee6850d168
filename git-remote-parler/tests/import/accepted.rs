//! Imports that succeed, in every shape of repository: the commits are there, pinned, and nothing else has changed.

use std::fs;

use git_remote_parler::bundle::HeaderRef;
use git_remote_parler::git::GitProgram;
use git_remote_parler::import::{ExpectedHeader, Import, ImportError, ImportLimits, Imported, Incoming, PinTiming};
use git_remote_parler::pins;
use git_remote_parler::repository::Repository;
use parler_protocol::{BundleId, Oid};

use crate::bundle::{bundle_of, bytes_of};
use crate::sandbox::{Repo, Sandbox, program, succeeded};
use crate::snapshot::Snapshot;

/// Takes everything in as packs.
pub fn packs() -> ImportLimits {
    ImportLimits {
        small_objects: 0,
        ..ImportLimits::default()
    }
}

/// Bundles are for git alone to look through, one by one.
pub fn alone() -> ImportLimits {
    ImportLimits {
        joined_bytes: 0,
        ..ImportLimits::default()
    }
}

pub fn ways() -> [ImportLimits; 2] {
    [ImportLimits::default(), packs()]
}

pub fn incoming<'a>(bytes: &[u8], reader: &'a mut &[u8]) -> Incoming<'a> {
    Incoming {
        id: BundleId::of(bytes),
        size: bytes.len() as u64,
        expected: None,
        short_pin: true,
        reader,
    }
}

/// Imports bundles, in order, in one go.
pub fn import(
    repository: &Repository,
    limits: ImportLimits,
    timing: PinTiming,
    bundles: &[&[u8]],
) -> Result<Imported, ImportError> {
    let mut import = Import::begin(repository, limits)?;
    for bytes in bundles {
        let mut reader = *bytes;
        import.add(incoming(bytes, &mut reader))?;
    }
    import.finish(timing)
}

fn import_now(repository: &Repository, limits: ImportLimits, bytes: &[u8]) -> Vec<pins::Pin> {
    import(repository, limits, PinTiming::Now, &[bytes]).unwrap().pins
}

/// A sender with a base, and what it made on top: two commits and an annotated tag.
struct Work<'a> {
    sender: Repo<'a>,
    base: Oid,
    tip: Oid,
    tag: Oid,
}

fn work<'a>(sandbox: &'a Sandbox, options: &[&str]) -> Work<'a> {
    let sender = sandbox.init("sender", options);
    sender.commit("a", &"line\n".repeat(200));
    let base = sender.commit("deep/b", "1");
    sender.git(&["branch", "base"]);
    sender.commit("a", &format!("{}more\n", "line\n".repeat(200)));
    let tip = sender.commit("deep/b", "2");
    sender.git(&["tag", "-a", "-m", "t", "v1"]);
    let tag = sender.oid("v1");
    Work { sender, base, tip, tag }
}

impl Work<'_> {
    fn full(&self) -> Vec<u8> {
        let repository = self.sender.sandbox.open(&self.sender);
        bytes_of(&bundle_of(&repository, &[("refs/heads/main", self.tip)], &[]))
    }

    fn thin(&self) -> Vec<u8> {
        let repository = self.sender.sandbox.open(&self.sender);
        bytes_of(&bundle_of(&repository, &[("refs/heads/main", self.tip)], &[self.base]))
    }

    /// A clone of the base alone.
    fn receiver(&self, name: &str, options: &[&str]) -> Repo<'_> {
        let options = [&["--no-tags", "--single-branch", "-b", "base"], options].concat();
        self.sender.sandbox.clone(&self.sender, name, &options)
    }
}

fn short(bytes: &[u8]) -> String {
    format!("refs/parler/{}", BundleId::of(bytes).short())
}

#[test]
fn thin_and_full_bundles_are_pinned_and_nothing_else_changes() {
    for limits in ways() {
        for format in ["sha1", "sha256"] {
            let sandbox = Sandbox::new();
            let work = work(&sandbox, &["--object-format", format]);
            for (name, bytes) in [("thin", work.thin()), ("full", work.full())] {
                let receiver = work.receiver(name, &[]);
                let before = Snapshot::of(&receiver);
                let repository = sandbox.open(&receiver);
                let pins = import_now(&repository, limits, &bytes);
                assert_eq!(pins.len(), 2);
                assert_eq!(pins[0].name, short(&bytes));
                assert_eq!(pins[1].name, format!("refs/parler/{}", BundleId::of(&bytes)));
                for pin in &pins {
                    assert_eq!((pin.oid, receiver.oid(&pin.name)), (work.tip, work.tip));
                }
                let after = Snapshot::of(&receiver);
                after.untouchable().assert_is(&before.untouchable(), "success");
                let odd = |name: &&str| name.contains("tmp") || name.ends_with(".keep") || name.ends_with(".lock");
                assert_eq!(after.news(&before).into_iter().find(odd), None);
                receiver.git(&["fsck", "--strict", "--connectivity-only"]);
                let changes = receiver.git(&["diff", "--stat", &format!("base...{}", pins[0].name)]);
                assert_eq!(changes.lines().count(), 3, "{changes}");

                // Once more is the same again.
                assert_eq!(import_now(&repository, limits, &bytes), pins);
                Snapshot::of(&receiver)
                    .untouchable()
                    .assert_is(&before.untouchable(), "success");
                receiver.git(&["-c", "gc.pruneExpire=now", "gc", "-q"]);
                assert_eq!(receiver.oid(&pins[1].name), work.tip);
                receiver.git(&["fsck", "--strict"]);
            }
        }
    }
}

#[test]
fn an_import_takes_no_child_to_two() {
    for (limits, command, count) in [
        (ImportLimits::default(), "", 0),
        (packs(), "index-pack", 1),
        // What is not looked through has to be walked.
        (alone(), "unpack-objects", 2),
    ] {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        for (name, bytes) in [("thin", work.thin()), ("full", work.full())] {
            let receiver = work.receiver(name, &[]);
            let log = format!("{name}.log");
            let repository = Repository::open(sandbox.counting_git(&log), &receiver.git_dir()).unwrap();
            import_now(&repository, limits, &bytes);
            let children = sandbox.lines(&log);
            assert_eq!(children.len(), count, "{children:#?}");
            assert!(
                children.iter().take(1).all(|child| child.contains(command)),
                "{children:#?}"
            );
            let walks_to_all = children.iter().any(|child| child.contains("--all"));
            assert_eq!(walks_to_all, count == 2 && name == "full", "{children:#?}");
        }
    }
}

#[test]
fn several_refs_lie_below_the_bundles_name() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        let refs = [
            ("HEAD", work.tip),
            ("refs/heads/a/b", work.tip),
            ("refs/tags/v1", work.tag),
        ];
        let bytes = bytes_of(&bundle_of(&sandbox.open(&work.sender), &refs, &[work.base]));
        let receiver = work.receiver("receiver", &[]);
        import_now(&sandbox.open(&receiver), limits, &bytes);
        let name = short(&bytes);
        // HEAD is the branch's, and has no name of its own.
        assert_eq!(receiver.oid(&format!("{name}/heads/a/b")), work.tip);
        assert_eq!(receiver.oid(&format!("{name}/tags/v1")), work.tag);
        assert_eq!(receiver.git(&["for-each-ref", "refs/parler/"]).lines().count(), 4);
        assert_eq!(receiver.git(&["tag"]), "", "tags stay under refs/parler/");
    }
}

#[test]
fn a_tip_that_is_here_already_gets_its_name() {
    let sandbox = Sandbox::new();
    let work = work(&sandbox, &[]);
    let receiver = work.receiver("receiver", &[]);
    let empty = bytes_of(&bundle_of(
        &sandbox.open(&work.sender),
        &[("refs/heads/x", work.base)],
        &[work.base],
    ));
    let tagged = bytes_of(&bundle_of(
        &sandbox.open(&work.sender),
        &[("refs/tags/v1", work.tag)],
        &[work.tip],
    ));
    for limits in ways() {
        assert_eq!(import_now(&sandbox.open(&receiver), limits, &empty)[0].oid, work.base);
        // A tag object alone, on a commit that another bundle brought.
        import_now(&sandbox.open(&receiver), limits, &work.thin());
        assert_eq!(import_now(&sandbox.open(&receiver), limits, &tagged)[0].oid, work.tag);
    }
}

#[test]
fn every_shape_of_repository_takes_bundles() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        let thin = work.thin();
        for (name, options) in [
            ("bare", &["--bare"][..]),
            ("shallow", &["--depth", "1"]),
            ("reftable", &["--ref-format=reftable"]),
            (
                "shared",
                &["--no-local", "--reference", work.sender.directory.to_str().unwrap()],
            ),
            ("colon:\"quote\" \\ é", &[]),
        ] {
            let receiver = work.receiver(name, options);
            let before = Snapshot::of(&receiver);
            let pins = import_now(&sandbox.open(&receiver), limits, &thin);
            assert_eq!(receiver.oid(&pins[0].name), work.tip, "{name}");
            Snapshot::of(&receiver)
                .untouchable()
                .assert_is(&before.untouchable(), "success");
            receiver.git(&["fsck"]);
        }
        let receiver = work.receiver("with-worktree", &[]);
        let linked = sandbox.path("linked");
        receiver.git(&["worktree", "add", "-q", "--detach", linked.to_str().unwrap()]);
        let before = Snapshot::of(&receiver);
        let repository = Repository::discover(sandbox.git_with(&[]), &linked).unwrap();
        let pins = import_now(&repository, limits, &thin);
        assert_eq!(receiver.oid(&pins[0].name), work.tip);
        Snapshot::of(&receiver)
            .untouchable()
            .assert_is(&before.untouchable(), "success");
    }
}

#[test]
fn objects_go_where_git_was_told_to_keep_them() {
    for limits in ways() {
        for timing in [PinTiming::Now, PinTiming::Deferred] {
            let sandbox = Sandbox::new();
            let work = work(&sandbox, &[]);
            let receiver = work.receiver("receiver", &[]);
            let (elsewhere, objects) = (sandbox.path("elsewhere"), receiver.git_dir().join("objects"));
            fs::create_dir(&elsewhere).unwrap();
            let told = [
                ("GIT_OBJECT_DIRECTORY", elsewhere.to_str().unwrap()),
                ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.to_str().unwrap()),
            ];
            let before = Snapshot::of(&receiver);
            let repository = Repository::open(sandbox.git_with(&told), &receiver.git_dir()).unwrap();
            let done = import(&repository, limits, timing, &[&work.thin()]).unwrap();
            let pins = match timing {
                PinTiming::Now => done.pins,
                PinTiming::Deferred => pins::commit(&repository, done).unwrap(),
            };
            let after = Snapshot::of(&receiver);
            assert!(after.news(&before).iter().all(|name| !name.contains("objects/")));
            let mut command = sandbox.command(&receiver.directory, ["cat-file", "-t", &pins[0].name]);
            assert!(!command.output().unwrap().status.success());
            let output = command.envs(told).output().unwrap();
            assert_eq!(succeeded(&output, "cat-file"), "commit");
        }
    }
}

#[test]
fn a_partial_clone_takes_bundles_and_fetches_nothing() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        work.sender.git(&["config", "uploadpack.allowFilter", "true"]);
        let receiver = work.receiver("partial", &["--filter=blob:none", "--bare"]);
        // Not thin against blobs that are missing there.
        let repository = sandbox.open(&work.sender);
        work.sender.git(&["config", "pack.window", "0"]);
        let bytes = bytes_of(&bundle_of(&repository, &[("refs/heads/main", work.tip)], &[work.base]));
        let pins = import_now(&sandbox.open(&receiver), limits, &bytes);
        assert_eq!(receiver.oid(&pins[0].name), work.tip);
        let missing = receiver.git(&["rev-list", "--objects", "--missing=print", "base"]);
        assert!(
            missing.lines().any(|line| line.starts_with('?')),
            "the base's blobs were fetched"
        );
    }
}

#[test]
fn chains_of_bundles_arrive_together() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        let sender = sandbox.open(&work.sender);
        let mut bundles = vec![bytes_of(&bundle_of(&sender, &[("refs/heads/base", work.base)], &[]))];
        bundles.push(work.thin());
        let next = work.sender.commit("a", "changed\n");
        bundles.push(bytes_of(&bundle_of(&sender, &[("refs/heads/main", next)], &[work.tip])));
        let bundles: Vec<_> = bundles.iter().map(Vec::as_slice).collect();

        let empty = sandbox.init("empty", &[]);
        let done = import(&sandbox.open(&empty), limits, PinTiming::Now, &bundles).unwrap();
        assert_eq!(done.pins.len(), 6);
        assert_eq!(empty.oid(&short(bundles[2])), next);
        empty.git(&["fsck", "--strict"]);

        let receiver = work.receiver("receiver", &[]);
        import(&sandbox.open(&receiver), limits, PinTiming::Now, &bundles[1..]).unwrap();
        assert_eq!(receiver.oid(&short(bundles[2])), next);

        let wrong_order = [bundles[2], bundles[1]];
        let receiver = work.receiver("other", &[]);
        let before = Snapshot::of(&receiver);
        let error = import(&sandbox.open(&receiver), limits, PinTiming::Now, &wrong_order).unwrap_err();
        assert!(matches!(error, ImportError::MissingPrerequisites { .. }), "{error}");
        Snapshot::of(&receiver).assert_is(&before, "failure");
    }
}

#[test]
fn what_the_sender_signed_is_compared() {
    let sandbox = Sandbox::new();
    let work = work(&sandbox, &[]);
    let thin = work.thin();
    let receiver = work.receiver("receiver", &[]);
    let repository = sandbox.open(&receiver);
    let signed = ExpectedHeader {
        refs: vec![HeaderRef {
            name: "refs/heads/main".parse().unwrap(),
            oid: work.tip,
        }],
        prerequisites: vec![work.base],
        object_format: Some(repository.object_format()),
    };
    let try_with = |expected: ExpectedHeader| {
        let mut import = Import::begin(&repository, ImportLimits::default()).unwrap();
        let mut reader = thin.as_slice();
        import
            .add(Incoming {
                expected: Some(expected),
                ..incoming(&thin, &mut reader)
            })
            .cloned()
    };
    let before = Snapshot::of(&receiver);
    let mut other_name = signed.clone();
    other_name.refs[0].name = "refs/heads/other".parse().unwrap();
    let mut other_tip = signed.clone();
    other_tip.refs[0].oid = work.base;
    let mut more = signed.clone();
    more.refs.push(HeaderRef {
        name: "refs/heads/two".parse().unwrap(),
        oid: work.tip,
    });
    let other_base = ExpectedHeader {
        prerequisites: vec![work.tip],
        ..signed.clone()
    };
    let no_base = ExpectedHeader {
        prerequisites: vec![],
        ..signed.clone()
    };
    for wrong in [other_name, other_tip, more, other_base, no_base] {
        let error = try_with(wrong).unwrap_err();
        assert!(matches!(error, ImportError::NotAsSigned { .. }), "{error}");
    }
    Snapshot::of(&receiver).assert_is(&before, "failure");
    assert_eq!(try_with(signed).unwrap().refs[0].oid, work.tip);
}

#[test]
fn deferred_pins_come_later_and_the_objects_are_safe_meanwhile() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        let receiver = work.receiver("receiver", &[]);
        let repository = sandbox.open(&receiver);
        let done = import(&repository, limits, PinTiming::Deferred, &[&work.thin()]).unwrap();
        assert_eq!(receiver.git(&["for-each-ref", "refs/parler/"]), "");
        // Small bundles become loose objects, which a repack leaves alone.
        let keeps = || {
            let packs = fs::read_dir(receiver.git_dir().join("objects/pack")).unwrap();
            let names = packs.map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.as_encoded_bytes().ends_with(b".keep")).count()
        };
        assert_eq!(keeps(), usize::from(limits.small_objects == 0));
        receiver.git(&["repack", "-a", "-d", "-q"]);
        // The ref that vouched for the prerequisite may go meanwhile, as long as another reaches it.
        receiver.git(&["checkout", "-q", "--detach"]);
        for name in ["refs/heads/base", "refs/remotes/origin/base"] {
            receiver.git(&["update-ref", "-d", name]);
        }
        let pins = pins::commit(&repository, done).unwrap();
        assert_eq!(receiver.oid(&pins[0].name), work.tip);
        assert_eq!(keeps(), 0);
        receiver.git(&["fsck", "--strict"]);
    }
}

#[test]
fn a_deferred_import_that_is_given_up_leaves_no_ref_and_no_keep() {
    let sandbox = Sandbox::new();
    let work = work(&sandbox, &[]);
    let receiver = work.receiver("receiver", &[]);
    let before = Snapshot::of(&receiver);
    drop(import(&sandbox.open(&receiver), packs(), PinTiming::Deferred, &[&work.thin()]).unwrap());
    let after = Snapshot::of(&receiver);
    after.untouchable().assert_is(&before.untouchable(), "success");
    assert!(
        after
            .news(&before)
            .iter()
            .all(|name| !name.ends_with(".keep") && !name.contains("tmp"))
    );
}

#[test]
fn a_ref_that_moves_while_it_vouches_is_noticed() {
    let sandbox = Sandbox::new();
    let work = work(&sandbox, &[]);
    for keep_reachable in [true, false] {
        let receiver = work.receiver(if keep_reachable { "moved" } else { "gone" }, &[]);
        receiver.has_git_pin();
        let repository = sandbox.open(&receiver);
        // All that names the base moves after it was found, and before the pins are locked.
        let elsewhere = receiver.git(&["commit-tree", "-m", "elsewhere", "HEAD^{tree}"]);
        let on_top = receiver.git(&["commit-tree", "-m", "on top", "-p", "HEAD", "HEAD^{tree}"]);
        let to = if keep_reachable { &on_top } else { &elsewhere };
        let git = program().path().display().to_string();
        let directory = receiver.git_dir().display().to_string();
        let log = sandbox.path("moving.log").display().to_string();
        let script = format!(
            "#!/bin/sh\necho \"$*\" >> '{log}'\n\
             case \"$*\" in *update-ref*) for r in heads/base remotes/origin/base; do \
             '{git}' --git-dir='{directory}' update-ref refs/$r {to}; done;; esac\nexec '{git}' \"$@\"\n"
        );
        let wrapper = sandbox.script("moving-git", &script);
        let git = sandbox.git_by(GitProgram::at(wrapper));
        let moving = Repository::open(git, repository.git_dir()).unwrap();
        // The walk against all refs passes in both cases: the objects are all there. What counts is that it was made.
        let pins = import_now(&moving, ImportLimits::default(), &work.thin());
        assert_eq!(receiver.oid(&pins[0].name), work.tip);
        let children = sandbox.lines("moving.log");
        fs::remove_file(&log).unwrap();
        assert_eq!(children.len(), 3, "{children:#?}");
        assert!(
            children[1].contains("rev-list") && children[1].contains("--all"),
            "{children:#?}"
        );
        receiver.git(&["fsck", "--strict"]);
    }
}

#[test]
fn older_git_is_asked_in_its_own_words() {
    let sandbox = Sandbox::new();
    let work = work(&sandbox, &[]);
    let git = program().path().display().to_string();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--fsck-objects=*) echo 'usage: git index-pack' >&2; exit 129;; esac\nexec '{git}' \"$@\"\n"
    );
    let wrapper = sandbox.script("old-git", &script);
    let large: String = (0_u64..200_000)
        .map(|n| format!("{}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let tip = work.sender.commit("large", &large);
    let big = bytes_of(&bundle_of(
        &sandbox.open(&work.sender),
        &[("refs/heads/main", tip)],
        &[work.base],
    ));
    assert!(big.len() > 1 << 20, "larger than any pipe");
    for (name, bytes) in [("thin", work.thin()), ("full", work.full()), ("big", big)] {
        let receiver = work.receiver(name, &[]);
        let git = sandbox.git_by(GitProgram::at(&wrapper));
        let repository = Repository::open(git, &receiver.git_dir()).unwrap();
        let pins = import_now(&repository, packs(), &bytes);
        assert_eq!(receiver.oid(&pins[0].name), pins[0].oid);
    }
}

#[test]
fn no_hook_and_no_configured_program_runs() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        let receiver = work.receiver("receiver", &[]);
        let canary = sandbox.path("canary");
        let script = format!("#!/bin/sh\necho \"$0\" >> '{}'\n", canary.display());
        let program = sandbox.script("canary-program", &script).display().to_string();
        let hooks = sandbox.path("hooks");
        fs::create_dir(&hooks).unwrap();
        for hook in ["reference-transaction", "post-checkout", "pre-auto-gc", "post-merge"] {
            fs::copy(&program, hooks.join(hook)).unwrap();
        }
        for (key, value) in [
            ("core.hooksPath", hooks.to_str().unwrap()),
            ("core.fsmonitor", &program),
            ("core.pager", &program),
            ("core.sshCommand", &program),
            ("uploadpack.packObjectsHook", &program),
            ("gc.auto", "1"),
            ("fetch.prune", "true"),
            ("core.logAllRefUpdates", "always"),
            ("fetch.unpackLimit", "1"),
        ] {
            receiver.git(&["config", key, value]);
        }
        let before = Snapshot::of(&receiver);
        let pins = import_now(&sandbox.open(&receiver), limits, &work.thin());
        assert!(!canary.exists(), "{}", fs::read_to_string(&canary).unwrap_or_default());
        Snapshot::of(&receiver)
            .untouchable()
            .assert_is(&before.untouchable(), "success");
        assert!(receiver.git(&["reflog", &pins[0].name]).contains("parler: import"));
    }
}

#[test]
fn histories_with_old_flaws_are_taken() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let sender = sandbox.init("sender", &[]);
        sender.commit("dir/a", "1");
        let tree = sender.git(&["rev-parse", "HEAD:dir"]);
        let hex: Vec<u8> = (0..40)
            .step_by(2)
            .map(|at| u8::from_str_radix(&tree[at..at + 2], 16).unwrap())
            .collect();
        let padded = [b"040000 dir\0".to_vec(), hex].concat();
        let tree = sender.feed(&["hash-object", "-t", "tree", "-w", "--stdin", "--literally"], &padded);
        let text = format!("tree {tree}\nauthor A <a> 1 +051800\ncommitter C<c> 1 +0000\n\nold\n");
        let commit = sender.feed(
            &["hash-object", "-t", "commit", "-w", "--stdin", "--literally"],
            text.as_bytes(),
        );
        let who = "A <a@example.invalid> 1700000000 +0000";
        let literally = |kind, text: &str| {
            let args = ["hash-object", "-t", kind, "-w", "--stdin", "--literally"];
            sender.feed(&args, text.as_bytes())
        };
        let text = format!("tree {tree}\nparent {commit}\nauthor {who}\ncommitter {who}\n\nz\0ro\n");
        let nul = literally("commit", &text);
        let taggerless = literally("tag", &format!("object {nul}\ntype commit\ntag a b\n\nold\n"));
        let tip: Oid = commit.parse().unwrap();
        let [nul, taggerless]: [Oid; 2] = [nul, taggerless].map(|oid| oid.parse().unwrap());
        let refs = [
            ("refs/heads/nul", nul),
            ("refs/heads/old", tip),
            ("refs/tags/old", taggerless),
        ];
        let bytes = bytes_of(&bundle_of(&sandbox.open(&sender), &refs, &[]));
        let receiver = sandbox.init("receiver", &[]);
        let pins = import_now(&sandbox.open(&receiver), limits, &bytes);
        for (_, oid) in refs {
            assert!(pins.iter().any(|pin| pin.oid == oid), "{oid}");
        }
    }
}

#[test]
fn a_push_pins_its_own_bundle_by_itself_or_by_one_child() {
    let sandbox = Sandbox::new();
    let work = work(&sandbox, &[]);
    let refs = [HeaderRef {
        name: "refs/heads/main".parse().unwrap(),
        oid: work.tip,
    }];
    let id = BundleId::of(b"some bundle");
    for children in [0, 2] {
        if children > 0 {
            work.sender.has_git_pin();
        }
        let repository = Repository::open(sandbox.counting_git("log"), &work.sender.git_dir()).unwrap();
        for _ in 0..2 {
            let pins = pins::pin(&repository, &id, &refs, true).unwrap();
            assert_eq!(pins.len(), 2);
            assert_eq!(work.sender.oid(&pins[0].name), work.tip);
        }
        assert_eq!(sandbox.lines("log").len(), children);
        for name in [id.short(), id.to_string()] {
            work.sender.git(&["update-ref", "-d", &format!("refs/parler/{name}")]);
        }
    }
    let repository = sandbox.open(&work.sender);
    work.sender
        .git(&["update-ref", &format!("refs/parler/{}", id.short()), "base"]);
    let pins = pins::pin(&repository, &id, &refs, true).unwrap();
    assert_eq!(pins.len(), 1, "a short name that names something else is not ours");
}

#[cfg(target_os = "linux")]
#[test]
fn each_child_that_judges_a_bundle_has_limits() {
    for limits in [ImportLimits::default(), packs(), alone()] {
        let sandbox = Sandbox::new();
        let work = work(&sandbox, &[]);
        let receiver = work.receiver("receiver", &[]);
        receiver.has_git_write();
        let (git, log) = (program().path().display().to_string(), sandbox.path("limits"));
        // They are set right after the start: noted at the end.
        let script = format!(
            "#!/bin/sh\n'{git}' \"$@\"\ncode=$?\n\
             echo \"$* $(grep -E '^Max (cpu|data)' /proc/$$/limits | tr -s ' \\n' ' ')\" >> '{}'\nexit $code\n",
            log.display()
        );
        let git = sandbox.git_by(GitProgram::at(sandbox.script("noting-git", &script)));
        let repository = Repository::open(git, &receiver.git_dir()).unwrap();
        let cpu = std::time::Duration::from_secs(77);
        import_now(&repository, ImportLimits { cpu, ..limits }, &work.thin());
        let lines = sandbox.lines("limits");
        let takes_in = |line: &&String| line.contains(" unpack-objects ") || line.contains(" index-pack ");
        let walks = |line: &&String| line.contains(" rev-list ");
        let judges: Vec<_> = lines.iter().filter(|line| takes_in(line) || walks(line)).collect();
        // What is plain needs no walk.
        let has_walk = lines.iter().any(|line| walks(&line));
        assert!(lines.iter().any(|line| takes_in(&line)), "{lines:#?}");
        assert_eq!(has_walk, limits == alone(), "{lines:#?}");
        for line in judges {
            assert!(line.contains("Max cpu time 77 "), "{line}");
            assert!(
                line.contains("Max data size ") && !line.contains("Max data size unlimited"),
                "{line}"
            );
        }
    }
}
