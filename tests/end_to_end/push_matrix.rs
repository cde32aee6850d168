//! `git push` into a room beside the same push into a plain repository over `file://`: what git prints, its exit code,
//! the refs on both sides afterwards, and the same again for the push repeated. [`Row::except`] lists what differs and
//! is meant to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parler_harness::{Agent, Answer, Repository, World};

use super::world;

/// One push.
struct Row {
    name: &'static str,
    /// What happens before: `work` or `rival`, then what git is told there.
    before: &'static [&'static str],
    /// The push, without `git push --porcelain`.
    push: &'static str,
    /// Words of the plain repository's answer, and those that stand for them in a room.
    except: &'static [(&'static str, &'static str)],
}

const fn row(name: &'static str, before: &'static [&'static str], push: &'static str) -> Row {
    Row {
        name,
        before,
        push,
        except: &[],
    }
}

impl Row {
    const fn except(self, except: &'static [(&'static str, &'static str)]) -> Self {
        Self { except, ..self }
    }
}

const REWIND: &str = "work reset -q --hard HEAD~2";
const COMMIT: &str = "work commit -q --allow-empty -m more";
const RIVAL: &str = "rival push -q there main";
/// `work` sees what the rival pushed, and does not build on it.
const SEEN: &str = "work fetch -q there";

/// Where a room decides something that git's own client does not know of, its word is that of a server.
const BY_THE_ROOM: (&str, &str) = (
    "[rejected] (atomic push failed)",
    "[remote rejected] (atomic push failed)",
);

const ROWS: &[Row] = &[
    row("fast-forward", &[], "there main"),
    row("quiet", &[], "--quiet there main"),
    row("verbose", &[], "--verbose there main"),
    row("nothing to do", &["work reset -q --hard there/main"], "there main"),
    row("new branch", &["work branch new"], "there new"),
    row("new branch by another name", &[], "there main:refs/heads/other"),
    row("short destination", &[], "there main:topic"),
    row("a destination that could be anything", &[], "there main^{commit}:new"),
    row("no such source", &[], "there nowhere"),
    row("set upstream", &["work branch new"], "--set-upstream there new"),
    row(
        "any revision",
        &[],
        "there HEAD~1:refs/heads/a main^{commit}:refs/heads/b @~2:refs/heads/c",
    ),
    row("an annotated tag's commit", &[], "there v2^{}:refs/heads/a"),
    row("an annotated tag", &[], "there v2"),
    row("an annotated tag as a branch", &[], "there v2:refs/heads/a").except(&[(
        "(failed to update ref)",
        "(a branch points at a commit, and this is a tag)",
    )]),
    row("tags", &["work tag light main~1"], "--tags there"),
    row("tags beside a branch", &["work tag light main~1"], "--tags there main"),
    row("follow tags", &["work tag light main~1"], "--follow-tags there main"),
    row("all", &["work branch new"], "--all there"),
    row("a tag that is there", &["work tag -f v1 main"], "there v1"),
    row(
        "a tag that is there, forced",
        &["work tag -f v1 main"],
        "--force there v1",
    ),
    row(
        "a tag that is there, among all",
        &["work tag -f v1 main"],
        "--tags there",
    ),
    row("push.default simple", &["work branch -q -u there/main"], ""),
    row(
        "push.default simple, another name",
        &["work branch -q -m mine", "work branch -q -u there/main"],
        "",
    ),
    row("push.default simple, no upstream", &["work switch -q -c new"], "there"),
    row(
        "push.default current",
        &["work config push.default current", "work switch -q -c new"],
        "there",
    ),
    row("push.default matching", &["work config push.default matching"], "there"),
    row(
        "push.default upstream",
        &[
            "work config push.default upstream",
            "work branch -q -m mine",
            "work branch -q -u there/main",
        ],
        "",
    ),
    row("push.default nothing", &["work config push.default nothing"], "there"),
    row(
        "a configured refspec",
        &["work config remote.there.push refs/heads/*:refs/heads/of-work/*"],
        "there",
    ),
    row(
        "a pattern",
        &["work branch a/1", "work branch a/2"],
        "there refs/heads/a/*:refs/heads/b/*",
    ),
    row(
        "a negative pattern",
        &["work branch a/1", "work branch a/2"],
        "there refs/heads/a/*:refs/heads/b/* ^refs/heads/a/1",
    ),
    row(
        "notes",
        &["work notes add -m well-done"],
        "there refs/notes/*:refs/notes/*",
    ),
    row("rewound", &[REWIND], "there main"),
    row("gone another way", &[REWIND, COMMIT], "there main"),
    row("gone another way, forced", &[REWIND, COMMIT], "--force there main"),
    row("gone another way, forced by plus", &[REWIND, COMMIT], "there +main"),
    row("fetch first", &[RIVAL], "there main"),
    row("fetch first, forced", &[RIVAL], "--force there main"),
    row("seen and not built on", &[RIVAL, SEEN], "there main"),
    row("forced where it is ahead", &[], "--force there main"),
    row(
        "one of several refused",
        &[RIVAL, SEEN, "work branch new"],
        "there main new topic:refs/heads/more",
    ),
    row(
        "one of several to be fetched first",
        &[RIVAL, "work branch new"],
        "there main new",
    ),
    row(
        "twice the same destination",
        &[],
        "there main:refs/heads/x topic:refs/heads/x",
    ),
    row("delete", &[], "there --delete topic"),
    row("delete by an empty source", &[], "there :topic"),
    row("delete a tag", &[], "there --delete v1"),
    row("delete several", &[], "there --delete topic v1"),
    row("delete what is not there", &[], "there --delete nowhere"),
    row(
        "delete what is not there, by its full name",
        &[],
        "there :refs/heads/nowhere",
    ),
    row("delete the current branch", &[], "there :main"),
    row("delete and make", &["work branch new"], "there new :topic"),
    row("a directory of a branch", &[], "there main:refs/heads/topic/x").except(&[(
        "(failed to update ref)",
        "('refs/heads/topic' exists; cannot create 'refs/heads/topic/x')",
    )]),
    row(
        "a directory of a branch that goes",
        &[],
        "there :topic main:refs/heads/topic/x",
    ),
    row(
        "a branch where a directory goes",
        &["work push -q there main:refs/heads/d/e"],
        "there :d/e main:refs/heads/d",
    ),
    row(
        "prune",
        &["work branch -q -D topic"],
        "--prune there refs/heads/*:refs/heads/*",
    ),
    row(
        "prune with a prefix",
        &["work push -q there main:refs/heads/p/1"],
        "--prune there refs/heads/none/*:refs/heads/p/*",
    ),
    row(
        "mirror",
        &[
            "work branch -q -D topic",
            "work update-ref -d refs/remotes/there/main",
            "work update-ref -d refs/remotes/there/topic",
        ],
        "--mirror there",
    ),
    row("dry run", &[], "--dry-run there main"),
    row(
        "dry run of several",
        &[RIVAL, SEEN, "work branch new"],
        "--dry-run there main new :topic",
    ),
    row("dry run to be fetched first", &[RIVAL], "--dry-run there main"),
    row("dry run, forced", &[REWIND, COMMIT], "--dry-run --force there main"),
    row(
        "dry run, atomic",
        &[RIVAL, "work branch new"],
        "--dry-run --atomic there main new",
    )
    .except(&[BY_THE_ROOM]),
    row(
        "dry run of all and tags",
        &["work branch new"],
        "--dry-run --all --follow-tags there",
    ),
    row("lease", &[REWIND, COMMIT], "--force-with-lease there main"),
    row("lease, where it is ahead", &[], "--force-with-lease there main"),
    row(
        "lease, moved and not seen",
        &[REWIND, COMMIT, RIVAL],
        "--force-with-lease there main",
    ),
    row(
        "lease, moved and seen",
        &[REWIND, COMMIT, RIVAL, SEEN],
        "--force-with-lease there main",
    ),
    row(
        "lease of a ref",
        &[REWIND, COMMIT],
        "--force-with-lease=main there main",
    ),
    row(
        "lease of another ref",
        &[REWIND, COMMIT],
        "--force-with-lease=topic there main",
    ),
    row(
        "lease without a tracking ref",
        &[REWIND, COMMIT, "work update-ref -d refs/remotes/there/main"],
        "--force-with-lease there main",
    ),
    row(
        "lease of a value",
        &[REWIND, COMMIT],
        "--force-with-lease=main:there/main there main",
    ),
    row(
        "lease of another value",
        &[REWIND, COMMIT],
        "--force-with-lease=main:there/main~1 there main",
    ),
    row(
        "lease of another value, where it is ahead",
        &[],
        "--force-with-lease=main:there/main~1 there main",
    ),
    row(
        "lease of a value that is up to date",
        &[],
        "--force-with-lease=topic:main there topic",
    ),
    row(
        "lease of nothing, new",
        &["work branch new"],
        "--force-with-lease=new: there new",
    ),
    row(
        "lease of nothing, there",
        &[REWIND, COMMIT],
        "--force-with-lease=main: there main",
    ),
    row(
        "lease and delete",
        &[],
        "--force-with-lease=topic:there/topic there :topic",
    ),
    row(
        "stale lease and delete",
        &[],
        "--force-with-lease=topic:main there :topic",
    ),
    row(
        "stale lease and delete of nothing",
        &[],
        "--force-with-lease=nowhere:main there :refs/heads/nowhere",
    ),
    row(
        "stale lease and force",
        &[REWIND, COMMIT],
        "--force --force-with-lease=main:topic there main",
    ),
    row(
        "stale lease and plus",
        &[REWIND, COMMIT],
        "--force-with-lease=main:topic there +main",
    ),
    row(
        "several leases",
        &[REWIND, COMMIT, "work branch new"],
        "--force-with-lease=main:there/main --force-with-lease=new: there main new",
    ),
    row(
        "several leases, one stale",
        &[REWIND, COMMIT, "work branch new"],
        "--force-with-lease=main:there/main --force-with-lease=new:main there main new",
    ),
    row(
        "lease of a tag",
        &["work tag -f v1 main"],
        "--force-with-lease=refs/tags/v1:refs/tags/old there v1",
    ),
    row(
        "lease of a tag that moved",
        &["work tag -f v1 main"],
        "--force-with-lease=refs/tags/v1:main there v1",
    ),
    row(
        "lease of a name beyond ascii",
        &["work push -q there main:refs/heads/é", REWIND, COMMIT],
        "--force-with-lease=refs/heads/é:refs/remotes/there/é there main:refs/heads/é",
    ),
    row(
        "lease if included",
        &[REWIND, COMMIT, "work branch -q -u there/main"],
        "--force-with-lease --force-if-includes there main",
    ),
    row(
        "lease if included, and it is not",
        &[REWIND, COMMIT, RIVAL, SEEN],
        "--force-with-lease --force-if-includes there main",
    ),
    row(
        "lease if included, always",
        &["work config push.useForceIfIncludes true", REWIND, COMMIT, RIVAL, SEEN],
        "--force-with-lease there main",
    ),
    row(
        "stale lease, dry run",
        &[REWIND, COMMIT],
        "--dry-run --force-with-lease=main:topic there main",
    ),
    row("atomic", &["work branch new"], "--atomic there main new"),
    row(
        "atomic, one refused by git",
        &[RIVAL, SEEN, "work branch new"],
        "--atomic there main new",
    ),
    row(
        "atomic, one to be fetched first",
        &[RIVAL, "work branch new"],
        "--atomic there main new",
    )
    .except(&[BY_THE_ROOM]),
    row(
        "atomic, one up to date",
        &[RIVAL, "work branch new"],
        "--atomic there main new topic",
    )
    .except(&[BY_THE_ROOM]),
    row(
        "atomic, a stale lease",
        &["work branch new"],
        "--atomic --force-with-lease=main:topic there main new",
    ),
    row(
        "atomic, a branch that cannot go",
        &["work branch new"],
        "--atomic there :main new",
    )
    .except(&[("(atomic push failure)", "(atomic push failed)")]),
    row(
        "atomic, a tag that is there",
        &["work tag -f v1 main"],
        "--atomic there main v1",
    ),
    row(
        "atomic and force",
        &[RIVAL, "work branch new"],
        "--atomic --force there main new",
    ),
    row("atomic, deleting", &["work branch new"], "--atomic there :topic new"),
    row("signed if asked", &["work config push.gpgSign if-asked"], "there main"),
];

/// What a plain repository says besides, and a room does not: there is no other end that hangs up, and what another
/// program would say in `remote:` lines is told as the reason for the ref.
const OF_A_PLAIN_REPOSITORY: [&str; 4] = [
    "remote: ",
    "error: atomic push failed for ref ",
    "fatal: the remote end hung up unexpectedly",
    "warning: not sending a push certificate ",
];

/// What a room says besides.
const OF_A_ROOM: &str = "parler: ";

/// A remote with the repositories that push to it.
struct Side<'w> {
    url: String,
    work: Repository<'w>,
    rival: Repository<'w>,
    agent: Agent<'w>,
}

impl<'w> Side<'w> {
    fn copy(world: &'w World, name: &str, url: String, of: &Templates<'w>) -> Self {
        let copy = |template: &Repository<'w>, name: String| {
            let path = world.path().join(name);
            copy(template.path(), &path);
            let config = path.join(".git/config");
            let changed = fs::read_to_string(&config)
                .unwrap()
                .replace(of.bare.path().to_str().unwrap(), &url);
            fs::write(config, changed).unwrap();
            world.repository(path)
        };
        Self {
            work: copy(&of.work, format!("{name}-work")),
            rival: copy(&of.rival, format!("{name}-rival")),
            agent: steady(world),
            url,
        }
    }

    /// What happens before the push.
    fn prepare(&self, row: &Row) {
        for line in row.before {
            let (who, command) = line.split_once(' ').unwrap();
            let place = if who == "rival" { &self.rival } else { &self.work };
            self.agent.at(place).git(command).success();
        }
    }

    /// What there is to compare after a push.
    fn push(&self, row: &Row) -> Seen {
        let answer = self
            .agent
            .at(&self.work)
            .git(format!("push --porcelain {}", row.push))
            .either();
        let mut there = self.agent.git(["ls-remote", &self.url]).success().listed_refs();
        let mut here = self.work.refs();
        for refs in [&mut there, &mut here] {
            refs.retain(|name, _| !name.starts_with("refs/parler/"));
        }
        Seen {
            code: answer.exit_code(),
            printed: self.words(answer.out()),
            told: self.words(answer.err()),
            there,
            here,
            answer,
        }
    }

    /// Lines without what must differ: the address, what one of the two has to say besides, and the refs of bundles.
    fn words(&self, text: &str) -> Vec<String> {
        let text = text.replace(&self.url, "URL");
        text.lines()
            .filter(|line| !line.starts_with(OF_A_ROOM) && !line.contains("refs/parler/"))
            .filter(|line| !OF_A_PLAIN_REPOSITORY.iter().any(|start| line.starts_with(start)))
            .map(str::to_owned)
            .collect()
    }
}

struct Seen {
    code: Option<i32>,
    printed: Vec<String>,
    told: Vec<String>,
    there: BTreeMap<String, String>,
    here: BTreeMap<String, String>,
    answer: Answer,
}

impl Seen {
    /// What is not as in the plain repository.
    fn differs_from(&self, plain: &Self, row: &Row) -> Vec<String> {
        let mut different = Vec::new();
        let mut compare = |what: &str, expected: String, found: String| {
            if expected != found {
                different.push(format!("{what}: expected {expected}\n      found {found}"));
            }
        };
        let excepted = |lines: &[String]| {
            let replace = |line: &String| {
                row.except
                    .iter()
                    .fold(line.clone(), |line, (plain, room)| line.replace(plain, room))
            };
            format!("{:#?}", lines.iter().map(replace).collect::<Vec<_>>())
        };
        compare("code", format!("{:?}", plain.code), format!("{:?}", self.code));
        compare("stdout", excepted(&plain.printed), format!("{:#?}", self.printed));
        compare("stderr", excepted(&plain.told), format!("{:#?}", self.told));
        compare(
            "refs there",
            format!("{:#?}", plain.there),
            format!("{:#?}", self.there),
        );
        compare("refs here", format!("{:#?}", plain.here), format!("{:#?}", self.here));
        different
    }
}

/// Commits made by this agent at any time are the same commits.
fn steady(world: &World) -> Agent<'_> {
    world
        .agent("worker")
        .with("GIT_AUTHOR_DATE", "1700000100 +0000")
        .with("GIT_COMMITTER_DATE", "1700000100 +0000")
}

/// What each side is a copy of.
struct Templates<'w> {
    bare: Repository<'w>,
    work: Repository<'w>,
    rival: Repository<'w>,
}

impl<'w> Templates<'w> {
    fn make(world: &'w World) -> Self {
        let bare = world.origin();
        let agent = steady(world);
        bare.git("branch topic main~1").success();
        agent
            .at(&bare)
            .git(["tag", "-a", "v1", "-m", "first", "main~1"])
            .success();
        let clone = |name: &str| world.clone_with(bare.path(), name, "--origin there");
        let work = clone("work");
        work.git("branch -q topic there/topic").success();
        work.git("tag old v1").success();
        let rival = clone("rival");
        for repository in [&bare, &work, &rival] {
            // Examples, which would be copied for every row.
            remove(&repository.git_dir().join("hooks"));
        }
        for (repository, message) in [(&work, "mine"), (&rival, "theirs")] {
            agent
                .at(repository)
                .git(["commit", "-q", "--allow-empty", "-m", message])
                .success();
        }
        agent
            .at(&work)
            .git(["tag", "-a", "v2", "-m", "second", "main"])
            .success();
        Self { bare, work, rival }
    }
}

#[test]
fn pushes_end_as_in_a_plain_repository_1() {
    compare(0);
}

#[test]
fn pushes_end_as_in_a_plain_repository_2() {
    compare(1);
}

#[test]
fn pushes_end_as_in_a_plain_repository_3() {
    compare(2);
}

#[test]
fn pushes_end_as_in_a_plain_repository_4() {
    compare(3);
}

/// Tests that compare a part of the rows each.
const PARTS: usize = 4;

fn compare(part: usize) {
    let world = world();
    let templates = Templates::make(&world);
    let mut different = Vec::new();
    for (number, row) in ROWS.iter().enumerate().skip(part).step_by(PARTS) {
        for line in differences(&world, &templates, number, row) {
            different.push(format!("{}: git push {}\n  {line}", row.name, row.push));
        }
    }
    assert!(
        different.is_empty(),
        "{} differences\n{}",
        different.len(),
        different.join("\n")
    );
}

fn differences(world: &World, templates: &Templates<'_>, number: usize, row: &Row) -> Vec<String> {
    let bare = world.path().join(format!("plain{number}.git"));
    copy(templates.bare.path(), &bare);
    let room = format!("parler::room/row{number}");
    steady(world)
        .at(&templates.bare)
        .git([
            "push",
            "-q",
            &room,
            "refs/heads/*:refs/heads/*",
            "refs/tags/*:refs/tags/*",
        ])
        .success();
    let plain = Side::copy(
        world,
        &format!("plain{number}"),
        format!("file://{}", bare.display()),
        templates,
    );
    let room = Side::copy(world, &format!("room{number}"), room, templates);
    let mut different = Vec::new();
    for side in [&plain, &room] {
        side.prepare(row);
    }
    for time in ["first", "again"] {
        let (plain, room) = (plain.push(row), room.push(row));
        let found = room.differs_from(&plain, row);
        if !found.is_empty() {
            different.push(format!("{time}: {}\n{:?}", found.join("\n    "), room.answer));
        }
    }
    for side in [&plain, &room] {
        remove(side.work.path());
        remove(side.rival.path());
    }
    remove(&bare);
    different
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn remove(directory: &Path) {
    fs::remove_dir_all(directory).unwrap();
}
