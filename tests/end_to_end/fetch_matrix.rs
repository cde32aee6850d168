//! What takes from a room (`git fetch`, `pull`, `clone`, `remote`) beside the same command and a plain repository: what
//! git prints, its exit code, and refs, `FETCH_HEAD`, `HEAD`, configuration and work tree afterwards; and the same again
//! for the command repeated. [`Row::except`] and [`Row::apart`] list what differs and is meant to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Answer, Repository, copy_directory};

use super::world;

mod clones;
mod fetches;
mod row;
mod stage;

use row::{Place, Row};
use stage::{Side, Stage};

/// What a room says besides.
const OF_A_ROOM: &str = "parler: ";
/// What a connection to a plain repository makes git say besides, at its end or while it negotiates aloud.
const OF_A_SERVER: [&str; 6] = [
    "remote: ",
    "Marking ",
    "want ",
    "have ",
    "already have ",
    "POST git-upload-pack ",
];

#[derive(Debug)]
struct Seen {
    code: Option<i32>,
    printed: Vec<String>,
    told: Vec<String>,
    /// What there is afterwards, by what it is.
    left: BTreeMap<&'static str, Vec<String>>,
    answer: Answer,
}

impl Side<'_> {
    /// Where a row's commands are given: a copy of what is fetched into, or an empty directory.
    fn place(&self, row: &Row, number: usize) -> PathBuf {
        let directory = self.directory_of(number);
        fs::create_dir(&directory).unwrap();
        match row.place {
            Place::Empty => directory,
            Place::In(template) => {
                let place = directory.join(template);
                copy_directory(&self.directory.join(template), &place);
                place
            }
        }
    }

    fn directory_of(&self, number: usize) -> PathBuf {
        self.world.path().join(format!("{}-row{number}", self.name))
    }

    fn words(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (url, name) in self.urls() {
            text = text.replace(&url, name);
        }
        text
    }

    fn lines(&self, row: &Row, text: &str, directory: &Path) -> Vec<String> {
        let parent = directory.parent().unwrap().to_str().unwrap();
        let text = self
            .words(text)
            .replace(directory.to_str().unwrap(), "HERE")
            .replace(parent, "ABOVE");
        let is_of_a_room = |line: &&str| {
            line.starts_with(OF_A_ROOM)
                || line.contains("/parler/")
                || row.says.iter().any(|words| line.contains(words))
        };
        let is_of_a_server = |line: &&str| OF_A_SERVER.iter().any(|start| line.starts_with(start));
        let is_along = |line: &&str| {
            let is_named = |tag: &&str| {
                line.contains(&format!("[new tag] {tag} -> "))
                    || line.contains(&format!("\ttag '{tag}' of "))
                    || line.starts_with(&format!("refs/tags/{tag}="))
            };
            row.along.iter().any(is_named)
        };
        // Bundles' names are long, and git aligns columns.
        let squeezed: Vec<String> = text
            .lines()
            .map(|line| match line.contains('\t') {
                true => line.to_owned(),
                false => line
                    .split(' ')
                    .filter(|word| !word.is_empty())
                    .collect::<Vec<_>>()
                    .join(" "),
            })
            .collect();
        let lines = squeezed.iter().map(String::as_str);
        let mut lines: Vec<String> = if self.is_plain() {
            lines.filter(|line| !is_of_a_server(line)).map(str::to_owned).collect()
        } else {
            let lines = lines.filter(|line| !is_of_a_room(line) && !is_along(line));
            lines.map(str::to_owned).collect()
        };
        lines.retain(|line| !line.is_empty());
        if row.in_any_order {
            lines.sort();
        }
        lines
    }

    /// Runs a row's command, and tells what there is to compare.
    fn run(&self, row: &Row, place: &Path) -> Seen {
        let command = match row.beside {
            Some(beside) if self.is_plain() => self.with_names(beside),
            _ => self.with_names(row.command),
        };
        let agent = self.agent.within(place);
        let answer = agent.feed("git", command.as_str(), row.input.as_bytes()).either();
        let mut left = self.left(row, &self.world.repository(place.join(row.made)), place);
        left.retain(|what, _| !row.apart_from.contains(what));
        Seen {
            code: answer.exit_code(),
            printed: self.lines(row, answer.out(), place),
            told: self.lines(row, answer.err(), place),
            left,
            answer,
        }
    }

    fn left(&self, row: &Row, repository: &Repository<'_>, place: &Path) -> BTreeMap<&'static str, Vec<String>> {
        let inside = repository.path().join(".git");
        if !inside.exists() && !repository.path().join("HEAD").exists() {
            return BTreeMap::from([("repository", Vec::new())]);
        }
        let git = |arguments: &str| self.agent.at(repository).git(arguments).either().out().to_owned();
        let git_dir = match inside.is_dir() {
            true => inside,
            false => repository.git_dir(),
        };
        let file = |name: &str| fs::read_to_string(git_dir.join(name)).unwrap_or_default();
        let object = if row.merges {
            "%(tree)%(parent)"
        } else {
            "%(objectname)"
        };
        let left = [
            (
                "refs",
                git(&format!(
                    "for-each-ref --format=%(refname)={object}%(symref)%(upstream:track)"
                )),
            ),
            ("FETCH_HEAD", file("FETCH_HEAD")),
            ("HEAD", file("HEAD")),
            ("shallow", file("shallow")),
            ("configuration", file("config")),
            (
                "status",
                match row.touches_files() {
                    true => git("status --porcelain --branch"),
                    false => String::new(),
                },
            ),
            ("alternates", (!file("objects/info/alternates").is_empty()).to_string()),
        ];
        left.into_iter()
            .map(|(what, text)| (what, self.lines(row, &text, place)))
            .collect()
    }
}

impl Seen {
    /// What is not as with the plain repository.
    fn differs_from(&self, plain: &Self, row: &Row) -> Vec<String> {
        let mut different = Vec::new();
        let excepted = |lines: &[String]| -> Vec<String> {
            let replace = |line: &String| {
                row.except
                    .iter()
                    .fold(line.clone(), |line, (plain, room)| line.replace(plain, room))
            };
            let lines = lines.iter().map(replace);
            lines.filter(|line| !line.is_empty()).collect()
        };
        if let Some((code, _)) = row.apart {
            if self.code != Some(code) {
                different.push(format!("code: expected {code}, found {:?}", self.code));
            }
            return different;
        }
        if self.code != plain.code {
            different.push(format!("code: expected {:?}, found {:?}", plain.code, self.code));
        }
        let mut compare = |what: &str, expected: &[String], found: &[String]| {
            let expected = excepted(expected);
            if expected != found {
                let missing = expected.iter().filter(|line| !found.contains(line));
                let more = found.iter().filter(|line| !expected.contains(line));
                let lines = missing.map(|line| format!("\n      - {line}"));
                let lines = lines.chain(more.map(|line| format!("\n      + {line}")));
                different.push(format!("{what}: {}", lines.collect::<String>()));
            }
        };
        compare("stdout", &plain.printed, &self.printed);
        compare("stderr", &plain.told, &self.told);
        let what: std::collections::BTreeSet<_> = plain.left.keys().chain(self.left.keys()).collect();
        for what in what {
            let none = vec!["nothing of the kind".to_owned()];
            compare(
                what,
                plain.left.get(what).unwrap_or(&none),
                self.left.get(what).unwrap_or(&none),
            );
        }
        different
    }

    /// What the room says besides without a reason.
    fn unexpected(&self, row: &Row) -> Vec<String> {
        let is_usual = |line: &&str| {
            let line = line.strip_prefix(OF_A_ROOM).unwrap_or_default();
            line.contains(" pinned as refs/parler/") || line.ends_with(" pinned under refs/parler/")
        };
        let is_expected = |line: &&str| row.says.iter().any(|words| line.contains(words));
        let lines = self.answer.err().lines().filter(|line| line.starts_with(OF_A_ROOM));
        let unexpected = lines.filter(|line| !is_usual(line) && !is_expected(line));
        unexpected.map(|line| format!("said: {line}")).collect()
    }

    /// What the room was to say and did not.
    fn unsaid(&self, row: &Row) -> Vec<String> {
        let apart = row.apart.map(|(_, says)| says);
        let expected = row.says.iter().copied().chain(apart);
        let is_unsaid = |words: &&str| !self.answer.err().contains(words);
        expected
            .filter(is_unsaid)
            .map(|words| format!("not said: {words}"))
            .collect()
    }
}

#[test]
fn fetches_end_as_from_a_plain_repository_1() {
    compare(fetches::ROWS, 0, 3);
}

#[test]
fn fetches_end_as_from_a_plain_repository_2() {
    compare(fetches::ROWS, 1, 3);
}

#[test]
fn fetches_end_as_from_a_plain_repository_3() {
    compare(fetches::ROWS, 2, 3);
}

#[test]
fn clones_end_as_of_a_plain_repository() {
    compare(clones::ROWS, 0, 1);
}

fn compare(rows: &[Row], part: usize, parts: usize) {
    let world = world();
    let stage = Stage::build(&world);
    let git = stage::version_of_git(&world);
    let mut different = Vec::new();
    for (number, row) in rows.iter().enumerate().skip(part).step_by(parts) {
        if git < row.since {
            println!("{}: needs git {:?}, and this is {git:?}", row.name, row.since);
            continue;
        }
        for line in differences(&stage, number, row) {
            different.push(format!("{}: git {}\n  {line}", row.name, row.command));
        }
    }
    assert!(
        different.is_empty(),
        "{} differences\n{}",
        different.len(),
        different.join("\n")
    );
}

fn differences(stage: &Stage<'_>, number: usize, row: &Row) -> Vec<String> {
    let sides = [&stage.plain, &stage.room];
    let places = sides.map(|side| side.place(row, number));
    for (side, place) in sides.iter().zip(&places) {
        for line in row.before {
            side.agent.within(place).git(side.with_names(line).as_str()).success();
        }
    }
    let mut different = Vec::new();
    let times: &[&str] = if row.again { &["first", "again"] } else { &["first"] };
    for time in times {
        let plain = stage.plain.run(row, &places[0]);
        let room = stage.room.run(row, &places[1]);
        let mut found = room.differs_from(&plain, row);
        if *time == "first" {
            found.extend(room.unsaid(row));
        }
        found.extend(room.unexpected(row));
        let made = places[1].join(row.made);
        if made.exists() {
            found.extend(stage.room.left_behind(&made));
        }
        if !found.is_empty() {
            different.push(format!(
                "{time}: {}\n{:?}\n{:?}",
                found.join("\n    "),
                plain.answer,
                room.answer
            ));
        }
    }
    for side in sides {
        fs::remove_dir_all(side.directory_of(number)).unwrap();
    }
    different
}

impl Side<'_> {
    /// What a fetch from a room must not leave behind, and a history with holes.
    fn left_behind(&self, repository: &Path) -> Vec<String> {
        let mut found = Vec::new();
        let git_dir = self.world.repository(repository).common_dir();
        stage::each_file(&git_dir, &mut |path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_left = name.ends_with(".lock") || name.ends_with(".keep") || name.starts_with("tmp_");
            if is_left && !path.ends_with("parler/cache.lock") {
                found.push(format!("left: {}", path.display()));
            }
        });
        let checked = self
            .agent
            .within(repository)
            .git("fsck --connectivity-only --no-dangling")
            .either();
        if !checked.is_success() {
            found.push(format!("{checked:?}"));
        }
        found
    }
}
