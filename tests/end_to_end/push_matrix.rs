//! `git push` into a room beside the same push into a plain repository over smart HTTP: what git prints, its exit code,
//! the refs on both sides afterwards, and the same again for the push repeated. [`Row::except`] lists what differs and
//! is meant to.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use parler_harness::{Agent, Answer, Repository, SmartHttp, World};

use super::side_by_side::words;
use super::world;

mod rows;

use rows::{ROWS, Row};

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
            agent: world.agent("alice"),
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
            .git(format!("push {}{}", row.style, row.push))
            .either();
        let mut there = self.agent.git(["ls-remote", &self.url]).success().listed_refs();
        let mut here = self.work.refs();
        for refs in [&mut there, &mut here] {
            refs.retain(|name, _| !name.starts_with("refs/parler/"));
        }
        Seen {
            code: answer.exit_code(),
            printed: words(answer.out(), &self.url),
            told: words(answer.err(), &self.url),
            there,
            here,
            answer,
        }
    }
}

struct Seen {
    code: Option<i32>,
    printed: String,
    told: String,
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
        let excepted = |text: &str| {
            row.except
                .iter()
                .fold(text.to_owned(), |text, (plain, room)| text.replace(plain, room))
        };
        compare("code", format!("{:?}", plain.code), format!("{:?}", self.code));
        compare("stdout", excepted(&plain.printed), self.printed.clone());
        compare("stderr", excepted(&plain.told), self.told.clone());
        compare(
            "refs there",
            format!("{:#?}", plain.there),
            format!("{:#?}", self.there),
        );
        compare("refs here", format!("{:#?}", plain.here), format!("{:#?}", self.here));
        different
    }
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
        let agent = world.agent("alice");
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
    let server = SmartHttp::serve(&world);
    let mut different = Vec::new();
    for (number, row) in ROWS.iter().enumerate().skip(part).step_by(PARTS) {
        for line in differences(&world, &server, &templates, number, row) {
            different.push(format!("{}: git push {}{}\n  {line}", row.name, row.style, row.push));
        }
    }
    assert!(
        different.is_empty(),
        "{} differences\n{}",
        different.len(),
        different.join("\n")
    );
}

fn differences(world: &World, server: &SmartHttp, templates: &Templates<'_>, number: usize, row: &Row) -> Vec<String> {
    let bare = world.path().join(format!("plain{number}.git"));
    copy(templates.bare.path(), &bare);
    let room = format!("parler::room/row{number}");
    world
        .agent("alice")
        .at(&templates.bare)
        .git([
            "push",
            "-q",
            &room,
            "refs/heads/*:refs/heads/*",
            "refs/tags/*:refs/tags/*",
        ])
        .success();
    let plain = Side::copy(world, &format!("plain{number}"), server.url(&bare), templates);
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
