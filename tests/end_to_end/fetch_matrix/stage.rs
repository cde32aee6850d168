//! A plain repository and a room of the same history, and repositories that saw each before its refs moved.
//!
//! Words of a command that stand for something: `URL`, `SECOND` (another with the same beginning), `EMPTY` (nothing in
//! it), `TAGGED` (a tag and no branch), `LARGE` (SHA-256 objects); `TIP` (what `main` is), `INNER` (a commit that no ref names), `TREE`, `BLOB`,
//! `UNKNOWN` (an object that is nowhere).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Agent, Repository, SmartHttp, World};

/// What is fetched from, with what was cloned of it.
pub(super) struct Side<'w> {
    pub(super) world: &'w World,
    pub(super) name: &'static str,
    /// Holds the repositories that a row's place is a copy of.
    pub(super) directory: PathBuf,
    pub(super) agent: Agent<'w>,
    base: String,
    objects: BTreeMap<&'static str, String>,
}

/// Both sides.
pub(super) struct Stage<'w> {
    pub(super) plain: Side<'w>,
    pub(super) room: Side<'w>,
    _server: SmartHttp,
}

/// Longest first where one begins another.
const REMOTES: [(&str, &str); 5] = [
    ("EMPTY", "empty"),
    ("LARGE", "large"),
    ("SECOND", "second"),
    ("TAGGED", "tagged"),
    ("URL", "first"),
];

pub(super) fn version_of_git(world: &World) -> (u32, u32) {
    let answer = world.user().git("version").success();
    let mut numbers = answer.word().trim_start_matches("git version ").split('.');
    let mut next = || numbers.next().and_then(|number| number.parse().ok()).unwrap_or(0);
    (next(), next())
}

impl<'w> Side<'w> {
    /// Addresses, and what stands for them.
    pub(super) fn urls(&self) -> impl Iterator<Item = (String, &'static str)> {
        REMOTES
            .iter()
            .map(|(word, name)| (format!("{}{name}", self.base), *word))
    }

    /// A command with what its words stand for.
    pub(super) fn with_names(&self, command: &str) -> String {
        let mut words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        for word in &mut words {
            for (name, oid) in &self.objects {
                *word = word.replace(name, oid);
            }
            for (url, name) in self.urls() {
                *word = word.replace(name, &url);
            }
        }
        words.join(" ")
    }

    pub(super) fn is_plain(&self) -> bool {
        self.name == "plain"
    }

    fn url(&self, word: &str) -> String {
        self.urls().find(|(_, name)| *name == word).unwrap().0
    }

    /// Clones, as the refs are now.
    fn make_clones(&self) {
        fs::create_dir(&self.directory).unwrap();
        let url = self.url("URL");
        for (name, options) in [
            ("work", ""),
            ("mirror", "--mirror"),
            ("bare", "--bare"),
            ("single", "--single-branch --branch topic"),
        ] {
            let command = format!("clone --quiet --origin there {options} {url} {name}");
            self.agent.within(&self.directory).git(command).success();
            let place = self.world.repository(self.directory.join(name));
            // Examples, which would be copied for every row.
            let _ = fs::remove_dir_all(place.git_dir().join("hooks"));
        }
    }
}

impl<'w> Stage<'w> {
    pub(super) fn build(world: &'w World) -> Self {
        let agent = world.agent("worker");
        let author = world.clone_with(world.origin().path(), "author", "");
        // With it, pushes would leave out what it has.
        author.git("remote remove origin").success();
        let server = SmartHttp::serve(world);
        for (_, name) in REMOTES {
            let format = if name == "large" { "sha256" } else { "sha1" };
            let place = world.init(&format!("web/{name}"), ["--bare", &format!("--object-format={format}")]);
            place.git("config http.receivepack true").success();
        }
        let side = |name, base| Side {
            world,
            name,
            directory: world.path().join(name),
            agent: agent.clone(),
            base,
            objects: BTreeMap::new(),
        };
        let mut stage = Self {
            plain: side("plain", format!("{}/", server.url("web"))),
            room: side("room", "parler::room/".to_owned()),
            _server: server,
        };
        stage.begin(&author);
        for side in [&stage.plain, &stage.room] {
            side.make_clones();
        }
        let objects = stage.go_on(&author);
        stage.plain.objects.clone_from(&objects);
        stage.room.objects = objects;
        stage
    }

    fn push(&self, author: &Repository<'_>, word: &str, refspecs: &str) {
        for side in [&self.plain, &self.room] {
            let command = format!("push --quiet {} {refspecs}", side.url(word));
            side.agent.at(author).git(command).success();
        }
    }

    /// What clones see.
    fn begin(&self, author: &Repository<'_>) {
        let agent = self.plain.agent.at(author);
        let git = |command: &str| agent.git(command).success();
        git("branch -q topic main~1");
        git("switch -q topic");
        git("commit -q --allow-empty -m topic");
        git("switch -q main");
        git("branch -q gone main~1");
        git("branch -q deep/er main~2");
        git("tag -a v1 -m first main~1");
        git("tag old main~2");
        git("tag doomed main");
        git("notes add -m well-done main");
        self.push(
            author,
            "URL",
            "refs/heads/*:refs/heads/* refs/tags/*:refs/tags/* refs/notes/*:refs/notes/*",
        );
        self.push(author, "SECOND", "main topic:other v1");
        self.push(author, "TAGGED", "v1");
        let large = self.plain.world.init("large", "--object-format=sha256");
        agent.at(&large).git("commit -q --allow-empty -m large").success();
        self.push(&large, "LARGE", "main");
        self.room.agent.parler("invite --group empty").success();
    }

    /// What they have not seen yet. Gives what words stand for.
    fn go_on(&self, author: &Repository<'_>) -> BTreeMap<&'static str, String> {
        let agent = self.plain.agent.at(author);
        let git = |command: &str| agent.git(command).success();
        for message in ["zero", "one", "two"] {
            git(&format!("commit -q --allow-empty -m {message}"));
        }
        let inner = author.rev("HEAD~2");
        author.write("new.txt", "new\n");
        git("add new.txt");
        git("commit -q -m three");
        git("tag -a v2 -m second main~1");
        self.push(author, "URL", "main v2");
        git("switch -q -c fresh");
        git("commit -q --allow-empty -m fresh");
        git("tag -a v3 -m third fresh");
        git("tag -a nested -m of-a-tag v3");
        git("tag light fresh");
        git("tag middle main");
        self.push(author, "URL", "fresh v3 nested light middle");
        // Later than the commits they name, each in a push of its own.
        git("tag -a late -m late main~2");
        self.push(author, "URL", "late");
        git("switch -q topic");
        git("reset -q --hard HEAD~1");
        git("commit -q --allow-empty -m another-way");
        git("tag -f v1 main~1");
        self.push(author, "URL", "+topic +v1 :gone :refs/tags/doomed");
        // Its commit is on no branch.
        git("commit -q --allow-empty -m aside");
        git("tag -a aside -m aside HEAD");
        self.push(author, "URL", "aside");
        git("switch -q main");
        git("commit -q --allow-empty -m of-the-second");
        self.push(author, "SECOND", "main");
        let tip = author.rev("HEAD~1");
        BTreeMap::from([
            ("BLOB", author.rev("HEAD:new.txt")),
            ("INNER", inner),
            ("TIP", tip),
            ("TREE", author.rev("HEAD^{tree}")),
            ("UNKNOWN", "d".repeat(40)),
        ])
    }
}

/// Calls back for every file below.
pub(super) fn each_file(directory: &Path, call: &mut dyn FnMut(&Path)) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            call(&entry.path());
            each_file(&entry.path(), call);
        } else {
            call(&entry.path());
        }
    }
}
