//! Progress meters: a push or fetch with a room shows what git shows with a repository over smart HTTP, where git would show it, and
//! not a byte elsewhere.

use std::fs;

use parler_harness::{Answer, Repository, SmartHttp, World, large_history};

use super::{CACHE, noise, world};

/// What a command counted on this machine: title and last state of each meter, without sizes and rates.
fn counted(answer: &Answer) -> Vec<String> {
    let lines = answer
        .err()
        .split(['\r', '\n'])
        .filter(|line| !line.starts_with("remote: "));
    lines
        .filter_map(|line| match line.strip_suffix('.')?.rsplit_once(", ")? {
            // `, done`, or what git completed a thin pack with: which objects a server leaves out is its own choice.
            (counts, _) if counts.contains(')') => counts.split_inclusive(')').next().map(str::to_owned),
            (counts, "done") => Some(counts.to_owned()),
            _ => None,
        })
        .collect()
}

/// Asserts that nothing on stderr is a meter, or the beginning of one.
#[track_caller]
fn shows_no_meter(answer: &Answer) {
    for trace in ["objects", "deltas", "bundle:", "bundles:", "Total ", "%", "\r"] {
        answer.warns_no(trace);
    }
}

/// A clone with commits of its own, enough of them for each kind of meter, and a plain repository beside it.
fn two_remotes<'w>(world: &'w World, http: &SmartHttp, commits: usize) -> (Repository<'w>, String) {
    let history = large_history(world, CACHE, commits);
    let plain = world.init("plain.git", "--bare");
    let work = world.clone_with(&history, "work", "");
    // The room gets all of it as well: its base is nobody's.
    work.git("config parler.base none").success();
    // Beside bitmaps git counts otherwise, and an increment for a room is made without.
    work.git("config pack.useBitmaps false").success();
    plain.git("config http.receivepack true").success();
    (work, http.url(plain.path()))
}

#[test]
fn a_push_counts_what_it_counts_with_a_plain_repository() {
    let world = world();
    let http = SmartHttp::serve(&world);
    let (work, plain) = two_remotes(&world, &http, 300);
    for (round, branch) in ["first", "second"].iter().enumerate() {
        let push = |url: &str| {
            work.git(format!("push --progress {url} HEAD:refs/heads/main"))
                .success()
        };
        let (there, here) = (push(&plain), push("parler::room/try"));
        let expected = counted(&there);
        assert!(expected.len() >= 4, "{there:?}");
        assert_eq!(counted(&here), expected, "{branch}: {here:?}");
        for answer in [&there, &here] {
            answer.warns("Writing objects: 100% (").warns("Total ");
        }
        here.warns(", done.\nTotal ");
        shows_no_meter(
            &work
                .git(format!("push --progress {plain} HEAD:refs/heads/main"))
                .success(),
        );
        work.commit(&format!("file{round}.txt"), "of this branch\n");
    }
}

#[test]
fn a_fetch_counts_what_it_counts_with_a_plain_repository() {
    let world = world();
    let http = SmartHttp::serve(&world);
    let (work, plain) = two_remotes(&world, &http, 300);
    let readers = ["there", "here"].map(|name| world.init(name, ""));
    for (round, title) in ["Receiving objects: 100% (", "completed with ", ""].iter().enumerate() {
        match round {
            0 => {}
            // Enough for a pack, which is thin.
            1 => {
                let files = work.ask("ls-files");
                for file in files.lines() {
                    let mut content = fs::read(work.path().join(file)).unwrap();
                    content.extend_from_slice(b"one more line\n");
                    fs::write(work.path().join(file), content).unwrap();
                }
                work.git("commit --quiet --all --message lines").success();
            }
            // Too little for one: git counts this on a terminal only.
            _ => _ = work.commit("small.txt", "small\n"),
        }
        for url in [plain.as_str(), "parler::room/try"] {
            work.git(format!("push --quiet {url} HEAD:refs/heads/main")).success();
        }
        let fetch = |reader: &Repository<'_>, url: &str| {
            reader
                .git(format!("fetch --progress {url} main:refs/heads/theirs"))
                .success()
        };
        let (there, here) = (fetch(&readers[0], &plain), fetch(&readers[1], "parler::room/try"));
        let titled = |answer: &Answer| -> Vec<String> {
            // How many deltas there are is the sender's choice.
            let title = |line: String| match line.starts_with("Resolving deltas") {
                true => "Resolving deltas".to_owned(),
                false => line,
            };
            counted(answer).into_iter().map(title).collect()
        };
        assert_eq!(titled(&here), titled(&there), "{here:?}\n{there:?}");
        there.warns(title);
        here.warns(title);
        assert_eq!(readers[1].rev("theirs"), work.rev("HEAD"));
    }
}

#[test]
fn without_a_terminal_or_in_quiet_there_is_no_byte_of_a_meter() {
    let world = world();
    let http = SmartHttp::serve(&world);
    let (work, _) = two_remotes(&world, &http, 300);
    let agent = work.user().with("GIT_PROGRESS_DELAY", "0");
    let reader = world.init("reader", "");
    for (round, flags) in ["", "--quiet", "--no-progress", "--quiet --progress"]
        .iter()
        .enumerate()
    {
        work.commit(&format!("file{round}.txt"), "more\n");
        shows_no_meter(
            &agent
                .git(format!("push {flags} parler::room/try HEAD:refs/heads/main"))
                .success(),
        );
        let fetch = format!("fetch {flags} parler::room/try main");
        shows_no_meter(&agent.at(&reader).git(fetch).success());
    }
    work.commit("last.txt", "more\n");
    let pushed = agent.parler("push --room try --json").success();
    shows_no_meter(&pushed);
    let id = pushed.json()["bundle"]["id"].as_str().unwrap()[..12].to_owned();
    shows_no_meter(&agent.at(&reader).parler(["apply", "--room", "try", &id]).success());
    shows_no_meter(&agent.parler(["fetch", "--room", "try", &id]).success());
}

#[test]
fn an_upload_and_many_bundles_have_meters_of_their_own() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.git("config parler.base none").success();
    work.write("large.bin", noise(12 << 20, 1));
    work.git("add large.bin").success();
    work.git("commit --quiet --message large").success();
    let agent = work.user().with("GIT_PROGRESS_DELAY", "0");
    let pushed = agent
        .git("push --progress parler::room/try HEAD:refs/heads/main")
        .success();
    let done = pushed
        .err()
        .split(['\r', '\n'])
        .find(|line| line.starts_with("Uploading bundle: 100% (") && line.ends_with("/s, done."))
        .unwrap_or_else(|| panic!("no meter: {pushed:?}"));
    assert!(done.contains(" MiB | "), "{done}");
    // Git's own form, which programs around git read: the counts are whole numbers.
    let counts = done.split(['(', ')']).nth(1).unwrap();
    let (units, total) = counts.split_once('/').unwrap();
    assert_eq!(units, total);
    assert!(total.parse::<u64>().unwrap() > 12 << 20, "{done}");
    // What takes no time has none, unless git's delay says otherwise.
    work.commit("small.txt", "small\n");
    work.git("push --progress parler::room/try HEAD:refs/heads/main")
        .success()
        .warns("Writing objects: 100%")
        .warns_no("Uploading");

    let reader = world.init("reader", "");
    let fetched = agent
        .at(&reader)
        .git("fetch --progress parler::room/try main")
        .success();
    fetched.warns("Fetching bundles: 100% (2/2), ").warns("/s, done.\n");
    fetched.warns("Receiving objects: 100% (");
}

#[test]
fn what_imitates_a_meter_with_control_characters_is_not_shown() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    work.git("config parler.base none").success();
    // Git repeats a tag's name when it complains of it.
    let name = "x\rReceiving objects: 100% (1/1)\u{1b}[2J\u{1b}]0;owned\u{7}, done.\r\u{1b}[1A";
    let tag = format!(
        "object {}\ntype commit\ntag {name}\ntagger Somebody <somebody@example.com> 1700000000 +0000\n\nhello\n",
        work.rev("HEAD")
    );
    let made = work
        .user()
        .feed("git", "hash-object -t tag -w --literally --stdin", tag.as_bytes())
        .success();
    let pushed = work
        .git([
            "push",
            "--progress",
            "parler::room/try",
            &format!("{}:refs/tags/odd", made.word()),
        ])
        .success();
    let reader = world.init("reader", "");
    for flags in ["--progress", ""] {
        let fetched = reader
            .git(format!("fetch {flags} parler::room/try refs/tags/odd"))
            .success();
        for answer in [&pushed, &fetched] {
            answer.warns_no("\u{1b}").warns_no("\u{7}").warns_no("owned");
        }
    }
    assert!(reader.has(made.word()));
}
