//! `git push` into a room beside the same push into a plain repository over `file://`: what git prints, its exit code,
//! the refs on both sides afterwards, and the same again for the push repeated. [`Row::except`] lists what differs and
//! is meant to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parler_harness::{Agent, Answer, Repository, World};

use super::world;

mod rows;

use rows::{ROWS, Row};

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
