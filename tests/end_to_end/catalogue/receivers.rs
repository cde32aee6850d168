//! What is configured where a bundle comes in: nothing of it runs, vouches for what is missing, or lets pass what is
//! dangerous.

use std::fs;

use parler_harness::{Repository, Snapshot, World, write_executable};

use super::forge::{commit, header, object, pack, tree_entry};
use super::stage::{Stage, assert_visible};
use crate::world;

/// A program that notes that it was run, and under which name.
struct Canary {
    program: String,
    log: std::path::PathBuf,
}

impl Canary {
    fn new(world: &World) -> Self {
        let directory = world.directory("canary");
        let (program, log) = (directory.join("program"), directory.join("log"));
        write_executable(
            &program,
            &format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\nexit 1\n", log.display()),
        );
        Self {
            program: program.to_str().unwrap().to_owned(),
            log,
        }
    }

    #[track_caller]
    fn is_silent(&self, what: &str) {
        assert!(!self.log.exists(), "{what}: {}", fs::read_to_string(&self.log).unwrap());
    }

    /// Configures it wherever git may be told to run a program, and whatever else could change what an import does.
    fn configure(&self, repository: &Repository<'_>) {
        let hooks = repository.common_dir().join("canary-hooks");
        fs::create_dir(&hooks).unwrap();
        for hook in [
            "applypatch-msg",
            "fsmonitor-watchman",
            "post-checkout",
            "post-index-change",
            "post-merge",
            "post-receive",
            "post-rewrite",
            "post-update",
            "pre-auto-gc",
            "pre-receive",
            "proc-receive",
            "push-to-checkout",
            "reference-transaction",
            "update",
        ] {
            std::os::unix::fs::symlink(&self.program, hooks.join(hook)).unwrap();
        }
        let shell = format!("!{}", self.program);
        for (key, value) in [
            ("core.hooksPath", hooks.to_str().unwrap()),
            ("core.alternateRefsCommand", &self.program),
            ("core.askPass", &self.program),
            ("core.editor", &self.program),
            ("core.fsmonitor", &self.program),
            ("core.gitProxy", &self.program),
            ("core.pager", &self.program),
            ("core.sshCommand", &self.program),
            ("core.logAllRefUpdates", "always"),
            ("core.bigFileThreshold", "1"),
            ("credential.helper", &shell),
            ("diff.external", &self.program),
            ("fetch.fsckObjects", "false"),
            ("fetch.fsck.hasDotdot", "ignore"),
            ("fetch.prune", "true"),
            ("fetch.pruneTags", "true"),
            ("fetch.unpackLimit", "1"),
            ("fetch.writeCommitGraph", "true"),
            ("fsck.hasDotdot", "ignore"),
            ("fsck.skipList", "/dev/null"),
            ("gc.auto", "1"),
            ("gc.autoDetach", "false"),
            ("gc.pruneExpire", "now"),
            ("gpg.program", &self.program),
            ("maintenance.strategy", "incremental"),
            ("pack.packSizeLimit", "1m"),
            ("receive.fsck.hasDotdot", "ignore"),
            ("remote.origin.tagOpt", "--tags"),
            ("remote.origin.uploadpack", &self.program),
            ("transfer.bundleURI", "true"),
            ("transfer.fsckObjects", "false"),
            ("transfer.hideRefs", "refs/parler"),
            ("transfer.unpackLimit", "1"),
            ("uploadpack.packObjectsHook", &self.program),
        ] {
            repository.git(["config", key, value]).success();
        }
        let _ = fs::remove_file(&self.log);
    }
}

/// A bundle of a commit on the base whose tree leads out of itself.
fn dangerous(stage: &Stage<'_>) -> Vec<u8> {
    let blob = stage.sender.rev("HEAD:src/lib.rs");
    let tree = object(&stage.sender, "tree", &tree_entry("100644", "..", &blob));
    let tip = commit(&stage.sender, &tree, Some(&stage.base));
    let bytes = pack(&stage.sender, &[&tip, &tree, &blob]);
    [header(&[&stage.base], &[("refs/heads/x", &tip)]), bytes].concat()
}

#[test]
fn i15_nothing_that_is_configured_runs_or_changes_the_result() {
    let world = world();
    let stage = Stage::new(&world);
    let canary = Canary::new(&world);
    canary.configure(&stage.receiver);
    stage.takes(&stage.good(), "a bundle");
    canary.is_silent("apply");
    let pins = stage.receiver.pins();
    assert_eq!(pins.len(), 2);
    stage.refuses(
        &dangerous(&stage),
        7,
        "git refused the bundle's objects",
        "a dangerous tree",
    );
    canary.is_silent("a refusal");

    // From a room: of what git itself does, its hook for refs is a part, and nothing of ours.
    stage.receiver.git("config --unset transfer.hideRefs").success();
    let hooks = stage.receiver.common_dir().join("canary-hooks");
    for hook in ["reference-transaction", "pre-auto-gc"] {
        fs::remove_file(hooks.join(hook)).unwrap();
    }
    let next = stage.sender.commit("src/main.rs", "changed there\n");
    stage
        .sender
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    let before = stage.receiver.refs();
    // What git asks its monitor is about the work tree, which this leaves alone.
    stage
        .receiver
        .git("-c core.fsmonitor=false fetch --no-auto-maintenance parler::room/try topic:refs/remotes/team/topic")
        .success();
    canary.is_silent("fetch");
    let mut after = stage.receiver.refs();
    assert_eq!(after.remove("refs/remotes/team/topic").as_deref(), Some(next.as_str()));
    let own = |refs: &std::collections::BTreeMap<String, String>| -> Vec<(String, String)> {
        let kept = refs.iter().filter(|(name, _)| !name.starts_with("refs/parler/"));
        kept.map(|(name, oid)| (name.clone(), oid.clone())).collect()
    };
    assert_eq!(own(&after), own(&before), "a fetch that prunes, of another remote");
    assert!(
        pins.iter().all(|(name, oid)| after.get(name) == Some(oid)),
        "pins were pruned"
    );
}

#[test]
fn i15_grafts_replacements_and_shallow_cuts_vouch_for_nothing() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = &stage.sender;
    // A commit whose parent nobody brings.
    let tree = sender.rev("HEAD^{tree}");
    let listed = sender.ask([
        "rev-list",
        "--objects",
        "--no-object-names",
        &stage.tip,
        &format!("^{}", stage.base),
    ]);
    let absent = object(
        sender,
        "commit",
        super::forge::commit_text(&tree, Some(&stage.base), "absent").as_bytes(),
    );
    let tip = commit(sender, &tree, Some(&absent));
    let mut oids: Vec<_> = listed.lines().filter(|oid| *oid != stage.tip).collect();
    oids.push(&tip);
    let hollow = [header(&[&stage.base], &[("refs/heads/x", &tip)]), pack(sender, &oids)].concat();
    stage.refuses(&hollow, 7, "bundle", "without its parent");
    // A commit without its tree.
    let bare = [
        header(&[&stage.base], &[("refs/heads/x", &stage.tip)]),
        pack(sender, &[&stage.tip]),
    ]
    .concat();
    stage.refuses(&bare, 7, "bundle", "without its tree");

    let git_dir = stage.receiver.git_dir();
    // It has no parents, as far as this repository is concerned.
    fs::write(git_dir.join("info/grafts"), format!("{tip}\n{absent} {}\n", stage.base)).unwrap();
    stage.refuses(&hollow, 7, "bundle", "with a graft");
    fs::remove_file(git_dir.join("info/grafts")).unwrap();
    // Another stands for it.
    for name in [&tip, &absent, &stage.tip] {
        stage
            .receiver
            .git(["update-ref", &format!("refs/replace/{name}"), &stage.base])
            .success();
    }
    stage.refuses(&hollow, 7, "bundle", "with a replacement");
    stage.refuses(&bare, 7, "bundle", "with a replacement");
    // What is right is taken for what it is.
    stage.takes(&stage.good(), "with a replacement");
    let pinned = stage.receiver.pins().into_values().next().unwrap();
    assert_eq!(pinned, stage.tip);
    let parents = stage.receiver.ask([
        "--no-replace-objects",
        "rev-list",
        "--parents",
        "--max-count=1",
        &stage.tip,
    ]);
    assert_eq!(parents, format!("{} {}", stage.tip, stage.base));
}

#[test]
fn i18_objects_of_alternates_count_and_are_not_copied() {
    let world = world();
    let stage = Stage::new(&world);
    let sender = stage.sender.path().to_str().unwrap().to_owned();
    let borrowing = world.clone_with(&sender, "borrowing", ["--shared", "--quiet", "--bare"]);
    borrowing.git(["update-ref", "refs/heads/main", &stage.base]).success();
    let next = stage.sender.commit("src/main.rs", "later\n");
    let file = world.path().join("next.bundle");
    let name = file.to_str().unwrap();
    stage
        .sender
        .git(["bundle", "create", "--quiet", name, "HEAD~1..main"])
        .success();
    let before = Snapshot::of(&borrowing);
    let lender = Snapshot::of(&stage.sender);
    // Its base is in the alternate alone, and no ref of this one leads there.
    borrowing.user().parler(["apply", name]).success();
    assert!(borrowing.has(&next));
    let allowed = [
        "ref refs/parler/",
        ".git/refs/parler",
        ".git/logs",
        ".git/objects/",
        ".git/packed-refs",
        ".git/parler",
    ];
    Snapshot::of(&borrowing).assert_same_as(&before, &allowed);
    Snapshot::of(&stage.sender).assert_same_as(&lender, &[]);
    borrowing.fsck();
}

#[test]
fn i22_a_git_that_misbehaves_is_told_and_leaves_nothing() {
    let world = world();
    let stage = Stage::new(&world);
    let directory = world.directory("bad");
    stage.receiver.has_git_pin();
    // Of such a name git has to judge, so that all three children are needed.
    stage.sender.write("back~", "x\n");
    stage.sender.git("add --all").success();
    stage.sender.git("commit --quiet --amend --no-edit").success();
    let good = stage.good();
    let file = world.path().join("x.bundle");
    fs::write(&file, good).unwrap();
    for (number, (what, text)) in [
        ("garbage", "head -c 3000 /bin/sh; exit 0"),
        ("escapes", "printf '\\033[2J\\033]0;x\\007\\n' >&2; exit 1"),
        ("a flood", "exec cat /dev/zero"),
        ("a killed child", "kill -KILL $$"),
        (
            "nothing, well done",
            "case \"$*\" in *rev-list*) cat >/dev/null;; esac; exit 0",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        // Each of the three children alone, and then all.
        for bad in ["unpack-objects", "rev-list", "update-ref", ""] {
            let program = directory.join(format!("git-{number}-{bad}"));
            let script = format!("#!/bin/sh\ncase \"$*\" in *{bad}*) {text};; esac\nexec git \"$@\"\n");
            write_executable(&program, &script);
            let user = stage.receiver.user().with("PARLER_GIT", &program);
            let before = Snapshot::of(&stage.receiver);
            let answer = user.parler(["apply", file.to_str().unwrap()]).either();
            let cell = format!("{what} of {bad:?}");
            if what == "nothing, well done" && bad == "rev-list" {
                // All is well, it says, as the real one would.
                assert!(answer.is_success(), "{cell}: {answer:?}");
                for name in stage.receiver.pins().into_keys() {
                    stage.receiver.git(["update-ref", "-d", &name]).success();
                }
                continue;
            }
            assert!(!answer.is_success(), "{cell}: {answer:?}");
            assert!(answer.exit_code().is_some(), "{cell}: {answer:?}");
            answer.one_error_line();
            assert_visible(&answer, &cell);
            Snapshot::of(&stage.receiver).assert_same_as(&before, &[]);
        }
    }
}
