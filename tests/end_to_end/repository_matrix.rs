//! Every kind of sender, every kind of receiver, every base: each fetch ends with the exact tip and everything it
//! reaches, or with the documented refusal and nothing changed.

use parler_harness::{Repository, Snapshot, World};

use super::untouched::assert_tidy;
use super::world;

/// How a repository is made, or what was done to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Full,
    Depth1,
    Partial,
    /// Of the other hash.
    Sha256,
    LinkedWorkTree,
    Bare,
    Reftable,
    /// Nothing, and no remote.
    Empty,
    /// Some commits of origin have never come.
    Behind,
    /// With commits of its own.
    Ahead,
    /// The base is there, and no ref leads to it.
    Reset,
}

const RECEIVERS: [Kind; 11] = [
    Kind::Full,
    Kind::Depth1,
    Kind::Partial,
    Kind::Sha256,
    Kind::LinkedWorkTree,
    Kind::Bare,
    Kind::Reftable,
    Kind::Empty,
    Kind::Behind,
    Kind::Ahead,
    Kind::Reset,
];

/// What the bundle builds on, and what happened to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// What the sender has of origin.
    Auto,
    /// Nothing.
    None,
    /// As `Auto`, and origin has moved on since.
    Moved,
}

impl Base {
    fn room(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::Moved => "moved",
        }
    }
}

/// How a fetch ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Fetched,
    /// The two name their objects by different hashes.
    OtherHash,
    /// What the bundle builds on cannot be had.
    BaseMissing,
}

/// What is documented: docs/cli.md and design 4.3 to 4.5.
fn expected(sender: Kind, receiver: Kind, base: Base) -> End {
    let is_thin = base != Base::None && sender != Kind::Bare;
    match receiver {
        _ if is_sha256(sender, sender) != is_sha256(sender, receiver) => End::OtherHash,
        // Without a remote there is nowhere to get the base from.
        Kind::Empty if is_thin => End::BaseMissing,
        _ => End::Fetched,
    }
}

/// Whether a repository is made with the longer hash: those that are made for their state alone follow the sender.
fn is_sha256(sender: Kind, kind: Kind) -> bool {
    let follows_sender = matches!(kind, Kind::Empty | Kind::Behind | Kind::Ahead | Kind::Reset);
    kind == Kind::Sha256 || (follows_sender && sender == Kind::Sha256)
}

/// Origins whose `main` has four commits, one for each hash.
struct Origins<'w> {
    world: &'w World,
    sha1: Repository<'w>,
    sha256: Repository<'w>,
}

impl<'w> Origins<'w> {
    fn new(world: &'w World) -> Self {
        let origin = |hash: &str| {
            let origin = world.init(&format!("{hash}.git"), format!("--bare --object-format={hash}"));
            origin.git("config uploadpack.allowFilter true").success();
            (1..=4).for_each(|number| add(&origin, "main", number));
            origin
        };
        Self {
            world,
            sha1: origin("sha1"),
            sha256: origin("sha256"),
        }
    }

    fn of(&self, sender: Kind, kind: Kind) -> &Repository<'w> {
        if is_sha256(sender, kind) {
            &self.sha256
        } else {
            &self.sha1
        }
    }

    /// A repository of this kind with what origin has now.
    fn repository(&self, sender: Kind, kind: Kind, name: &str) -> Repository<'w> {
        let origin = self.of(sender, kind);
        let url = format!("file://{}", origin.path().display());
        let clone = |options: &str| self.world.clone_with(&url, name, options);
        match kind {
            Kind::Full | Kind::Sha256 => clone(""),
            Kind::Depth1 => clone("--depth=1"),
            Kind::Partial => clone("--filter=blob:none --no-checkout"),
            Kind::Bare => clone("--bare"),
            Kind::Reftable => clone("--ref-format=reftable"),
            Kind::LinkedWorkTree => {
                let linked = format!("{name}-linked");
                clone("")
                    .git(["worktree", "add", "--quiet", "-b", "linked", &format!("../{linked}")])
                    .success();
                self.world.repository(self.world.path().join(linked))
            }
            Kind::Empty => {
                let format = origin.ask("rev-parse --show-object-format");
                self.world.init(name, format!("--object-format={format}"))
            }
            Kind::Ahead => {
                let ahead = clone("");
                ahead.commit("ahead.txt", "1\n");
                ahead.commit("ahead.txt", "2\n");
                ahead
            }
            Kind::Behind | Kind::Reset => {
                let there = clone("");
                let old = there.rev("HEAD~3");
                there.git(["reset", "--quiet", "--hard", &old]).success();
                there.git("remote set-head --delete origin").success();
                there.git(["update-ref", "refs/remotes/origin/main", &old]).success();
                there.git("reflog expire --expire=now --all").success();
                if kind == Kind::Behind {
                    there.git("gc --quiet --prune=now").success();
                }
                there
            }
        }
    }
}

/// A commit on top of a branch, or of `main` where that is new, made without a work tree.
fn add(repository: &Repository<'_>, branch: &str, number: u32) {
    let name = format!("refs/heads/{branch}");
    let refs = repository.refs();
    let parent = refs.get(&name).or_else(|| refs.get("refs/heads/main"));
    let from = parent.map(|parent| format!("from {parent}\n")).unwrap_or_default();
    let content: String = (0..20).map(|line| format!("{branch} {line} of {number}\n")).collect();
    let stream = format!(
        "commit {name}\ncommitter Somebody <somebody@example.com> {} +0000\ndata 5\nwork\n{from}\
         M 644 inline {branch}/file{number}.txt\ndata {}\n{content}\n",
        1_700_000_000 + number,
        content.len(),
    );
    repository.import(stream.as_bytes());
}

fn each_receiver_of(sender: Kind) {
    let world = world();
    let origins = Origins::new(&world);
    let work = origins.repository(sender, sender, "work");
    add(&work, "topic", 11);
    add(&work, "topic", 12);
    let tip = work.rev("topic");

    for base in [Base::Auto, Base::None, Base::Moved] {
        if base == Base::Moved {
            for origin in [&origins.sha1, &origins.sha256] {
                (5..=6).for_each(|number| add(origin, "main", number));
            }
        }
        let policy = if base == Base::None { "none" } else { "auto" };
        let url = format!("parler::room/{}", base.room());
        let setting = format!("parler.base={policy}");
        let push = work.git(["-c", &setting, "push", "--quiet", &url, "topic"]).either();
        if sender == Kind::Depth1 && base == Base::None {
            assert_eq!(push.exit_code(), Some(1), "{push:?}");
            push.warns("(shallow update not allowed)")
                .warns(": git fetch --unshallow origin\n");
            continue;
        }
        assert!(push.is_success(), "{sender:?} {base:?}: {push:?}");
        for receiver in RECEIVERS {
            let cell = format!("{sender:?} to {receiver:?}, base {base:?}");
            let name = format!("{receiver:?}-{}", base.room());
            let there = origins.repository(sender, receiver, &name);
            fetch_into(&there, &url, &tip, expected(sender, receiver, base), &cell);
        }
    }
}

#[track_caller]
fn fetch_into(there: &Repository<'_>, url: &str, tip: &str, end: End, cell: &str) {
    let before = Snapshot::of(there);
    let was_shallow = there.ask("rev-parse --is-shallow-repository");
    let fetch = there.git(["fetch", "--quiet", url, "refs/heads/topic"]).either();
    let after = Snapshot::of(there);
    assert_tidy(cell, &after);
    match end {
        End::Fetched => {
            assert!(fetch.is_success(), "{cell}: {fetch:?}");
            assert_eq!(there.rev("FETCH_HEAD"), tip, "{cell}");
            // Pinned, so that what it reaches counts for the check of the whole.
            assert_eq!(there.pins().len(), 2, "{cell}");
            there.fsck();
            assert_eq!(there.ask("rev-parse --is-shallow-repository"), was_shallow, "{cell}");
            return;
        }
        End::OtherHash => fetch.warns("sha256").warns("sha1"),
        End::BaseMissing => fetch.warns(" needs commit ").warns("git parler push --full"),
    };
    assert_eq!(fetch.exit_code(), Some(128), "{cell}: {fetch:?}");
    fetch.one_error_line();
    // git empties it before it asks.
    let fetch_head = there.git_dir().join("FETCH_HEAD");
    let fetch_head = fetch_head.strip_prefix(there.common_dir()).unwrap().to_str().unwrap();
    after.assert_same_as(&before, &[&format!(".git/{fetch_head}"), ".git/parler"]);
}

#[test]
fn a_full_clone_reaches_each_receiver() {
    each_receiver_of(Kind::Full);
}

#[test]
fn a_clone_of_depth_1_reaches_each_receiver() {
    each_receiver_of(Kind::Depth1);
}

#[test]
fn a_partial_clone_reaches_each_receiver() {
    each_receiver_of(Kind::Partial);
}

#[test]
fn a_sha256_repository_reaches_each_receiver_of_its_hash() {
    each_receiver_of(Kind::Sha256);
}

#[test]
fn a_linked_work_tree_reaches_each_receiver() {
    each_receiver_of(Kind::LinkedWorkTree);
}

#[test]
fn a_bare_repository_reaches_each_receiver() {
    each_receiver_of(Kind::Bare);
}

#[test]
fn a_reftable_repository_reaches_each_receiver() {
    each_receiver_of(Kind::Reftable);
}
