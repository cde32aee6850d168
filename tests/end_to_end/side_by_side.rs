//! The same commands against a room and against a plain repository over smart HTTP, and what has to be alike.

use std::path::PathBuf;

use parler_harness::{Agent, Answer, Output, Repository, SmartHttp, World};

/// What a plain server says besides: its own program's words, which a room tells as the reason for a ref, and with
/// `--verbose` how many bytes go there.
const OF_A_PLAIN_SERVER: [&str; 2] = ["remote: ", "POST git-receive-pack ("];

/// What a room says besides.
const OF_A_ROOM: &str = "parler: ";

/// Lines without what must differ: the address, what one of the two has to say besides, and the refs of bundles.
pub(super) fn words(text: &str, url: &str) -> String {
    let text = text.replace(url, "URL");
    let is_of_one = |line: &str| {
        let mut starts = OF_A_PLAIN_SERVER.iter().chain([&OF_A_ROOM]);
        starts.any(|start| line.starts_with(start)) || line.contains("refs/parler/")
    };
    text.lines()
        .filter(|line| !is_of_one(line))
        .map(|line| format!("{line}\n"))
        .collect()
}

/// A remote, and a directory with repositories that use it.
pub(super) struct Side<'w> {
    pub(super) url: String,
    pub(super) directory: PathBuf,
    pub(super) agent: Agent<'w>,
    world: &'w World,
}

impl<'w> Side<'w> {
    fn new(world: &'w World, name: &str, url: String) -> Self {
        let directory = world.directory(name);
        Self {
            agent: world.agent("alice").within(&directory),
            world,
            directory,
            url,
        }
    }

    /// A repository in this side's directory.
    pub(super) fn repository(&self, name: &str) -> Repository<'w> {
        self.world.repository(self.directory.join(name))
    }

    /// A new clone, with these options of `git clone` before it.
    #[track_caller]
    pub(super) fn clone(&self, from: &str, name: &str, options: &str) -> Repository<'w> {
        let clone = format!("clone --quiet {options} {from} {name}");
        self.agent.git(clone).success();
        self.repository(name)
    }

    /// The agent at a repository of its directory.
    pub(super) fn at(&self, name: &str) -> Agent<'w> {
        self.agent.within(name)
    }

    /// A commit that is the same on both sides.
    #[track_caller]
    pub(super) fn commit(&self, name: &str, message: &str) {
        self.at(name)
            .git(["commit", "--quiet", "--allow-empty", "--message", message])
            .success();
    }

    fn shown(&self) -> String {
        let listed = self.agent.git(["ls-remote", "--symref", &self.url]).success();
        words(listed.out(), &self.url)
    }

    fn words(&self, text: &str) -> String {
        let directory = self.directory.display().to_string();
        words(text, &self.url).replace(&directory, "DIRECTORY")
    }
}

/// Both sides.
pub(super) struct SideBySide<'w> {
    pub(super) plain: Side<'w>,
    pub(super) room: Side<'w>,
    _server: SmartHttp,
}

impl<'w> SideBySide<'w> {
    /// A bare repository and a room, both with the `main` of `origin`, a repository of three commits that each side has.
    #[track_caller]
    pub(super) fn new(world: &'w World) -> Self {
        let both = Self::empty(world);
        both.both(|side| {
            side.at("origin").git(["push", "--quiet", &side.url, "main"]).success();
        });
        both
    }

    /// As [`SideBySide::new`], before anything was pushed.
    #[track_caller]
    pub(super) fn empty(world: &'w World) -> Self {
        let server = SmartHttp::serve(world);
        let there = world.init("there.git", "--bare");
        there.git("config receive.advertisePushOptions true").success();
        let agent = world.agent("alice");
        agent.parler("invite --group there").success();
        let plain = Side::new(world, "plain-side", server.url(there.path()));
        let room = Side::new(world, "room-side", "parler::room/there".to_owned());
        let origin = world.origin();
        for side in [&plain, &room] {
            side.clone(&origin.path().display().to_string(), "origin", "--bare");
        }
        Self {
            plain,
            room,
            _server: server,
        }
    }

    /// Does something on both sides.
    pub(super) fn both(&self, act: impl Fn(&Side<'w>)) {
        act(&self.plain);
        act(&self.room);
    }

    /// Runs a command on both sides and asserts that git says the same, ends the same and shows the same refs there.
    /// Gives what it said of the room.
    #[track_caller]
    pub(super) fn alike(&self, run: impl Fn(&Side<'w>) -> Output) -> Answer {
        self.alike_but(&[], run)
    }

    /// As [`SideBySide::alike`], but for words of the plain server that are others in a room.
    #[track_caller]
    pub(super) fn alike_but(&self, but: &[(&str, &str)], run: impl Fn(&Side<'w>) -> Output) -> Answer {
        let [plain, room] = [&self.plain, &self.room].map(|side| {
            let answer = run(side).either();
            let told = [answer.out(), answer.err()].map(|text| side.words(text));
            (answer, told, side.shown())
        });
        let excepted = |text: String| but.iter().fold(text, |text, (plain, room)| text.replace(plain, room));
        let told = plain.1.map(excepted);
        assert!(
            plain.0.exit_code() == room.0.exit_code() && told == room.1 && plain.2 == room.2,
            "expected\n{:?}\n{}\nfound\n{:?}\n{}",
            plain.0,
            plain.2,
            room.0,
            room.2
        );
        room.0
    }
}
