//! Several fetches at once in one repository, and fetches while git tidies it: nothing that a ref names is ever lost,
//! and a fetch that fails says so in git's words about locks.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use parler_harness::{Answer, Repository, Running, SetOnDrop, Snapshot, World};

use super::untouched::assert_tidy;
use super::world;

/// How many fetches are started at once.
const AT_ONCE: usize = 8;
/// How often they are.
const ROUNDS: usize = 2;
/// How many pushes are fetched one after the other while git tidies.
const PUSHES: usize = 8;
/// How often a fetch is run that git's pruning disturbs, before the pruning pauses for it.
const DISTURBED: usize = 3;
/// More objects than are unpacked one by one: the import goes through a pack.
const FILES: usize = 150;

/// Rooms that somebody pushes to, and a repository that has each as a remote of its name.
struct Stage<'w> {
    authors: Vec<(String, Repository<'w>)>,
    reader: Repository<'w>,
}

fn stage<'w>(world: &'w World, rooms: &[&str]) -> Stage<'w> {
    let origin = world.origin();
    let reader = world.clone_of(&origin, "reader");
    // Automatic tidying would be a second one.
    reader.git("config gc.auto 0").success();
    let mut authors = Vec::new();
    for room in rooms {
        let author = world.clone_of(&origin, &format!("author-of-{room}"));
        author
            .git(["remote", "add", "team", &format!("parler::room/{room}")])
            .success();
        reader
            .git(["remote", "add", room, &format!("parler::room/{room}")])
            .success();
        author.git("push --quiet team main").success();
        reader.git(["fetch", "--quiet", room]).success();
        authors.push(((*room).to_owned(), author));
    }
    Stage { authors, reader }
}

/// A push of as many files, with a tag, to a branch of that name. Gives the commit.
fn push(author: &Repository<'_>, name: &str, files: usize) -> String {
    for file in 0..files {
        author.write(
            &format!("{name}/{file}"),
            format!("{name} {file} {}\n", author.path().display()),
        );
    }
    author.git("add .").success();
    author.git(["commit", "--quiet", "--message", name]).success();
    author.git(["tag", "--annotate", name, "--message", name]).success();
    author
        .git([
            "push",
            "--quiet",
            "team",
            "main",
            &format!("main:refs/heads/{name}"),
            name,
        ])
        .success();
    author.rev("main")
}

/// What another process's lock makes git say.
fn is_about_a_lock(answer: &Answer) -> bool {
    let words = ["cannot lock ref", "Unable to create", "is at ", "incorrect old value"];
    words.iter().any(|words| answer.err().contains(words))
}

#[track_caller]
fn assert_whole(reader: &Repository<'_>) {
    reader.git("fsck --connectivity-only --no-dangling").success();
    assert_tidy("reader", &Snapshot::of(reader));
}

#[track_caller]
fn assert_has(reader: &Repository<'_>, commits: &[String]) {
    let names = commits.join("\n");
    let found = reader.user().feed("git", "cat-file --batch-check", names.as_bytes());
    let found = found.success().out().to_owned();
    assert_eq!(found.lines().count(), commits.len());
    for line in found.lines() {
        assert!(line.contains(" commit "), "{line}");
    }
}

#[test]
fn eight_fetches_at_once_of_eight_branches_all_succeed() {
    let world = world();
    let Stage { authors, reader } = stage(&world, &["one", "two"]);
    for round in 0..ROUNDS {
        let mut expected = Vec::new();
        for number in 0..AT_ONCE {
            let (room, author) = &authors[number % authors.len()];
            let name = format!("r{round}n{number}");
            let files = if number % 4 < 2 { 2 } else { FILES };
            expected.push((room, name.clone(), push(author, &name, files)));
        }
        let running: Vec<Running> = expected
            .iter()
            .map(|(room, name, _)| {
                let refspec = format!("refs/heads/{name}:refs/x/{name}");
                reader.user().start_git(["fetch", "--no-tags", room, &refspec])
            })
            .collect();
        for fetch in running {
            fetch.wait().success();
        }
        let pins = reader.pins();
        for (_, name, commit) in &expected {
            assert_eq!(&reader.rev(&format!("refs/x/{name}")), commit);
            assert!(
                pins.values().any(|oid| oid == commit),
                "{name} is not pinned: {pins:#?}"
            );
        }
        assert_whole(&reader);
    }
}

#[test]
fn eight_fetches_at_once_of_the_same_refs_succeed_or_name_the_lock() {
    let world = world();
    let Stage { authors, reader } = stage(&world, &["one", "two"]);
    let mut failed = 0;
    for round in 0..ROUNDS {
        let mut expected = Vec::new();
        for (room, author) in &authors {
            expected.push((room, push(author, &format!("{room}-r{round}"), 2)));
        }
        let running: Vec<Running> = (0..AT_ONCE)
            .map(|number| reader.user().start_git(["fetch", &authors[number % authors.len()].0]))
            .collect();
        for fetch in running {
            let answer = fetch.wait().either();
            if !answer.is_success() {
                failed += 1;
                assert_eq!(answer.exit_code(), Some(1), "{answer:?}");
                assert!(is_about_a_lock(&answer), "{answer:?}");
                answer.warns_no("fatal: ");
            }
        }
        for (room, commit) in expected {
            // Whoever lost a race has its ref from whoever won it.
            assert_eq!(reader.rev(&format!("refs/remotes/{room}/main")), commit);
            reader.git(["fetch", room]).success();
            assert_eq!(reader.rev(&format!("refs/tags/{room}-r{round}^{{}}")), commit);
        }
        assert_whole(&reader);
    }
    println!("{failed} of {} ended at another's lock", ROUNDS * AT_ONCE);
}

#[test]
fn a_remote_update_over_two_rooms_at_once_brings_both() {
    let world = world();
    let Stage { authors, reader } = stage(&world, &["one", "two"]);
    for jobs in ["1", "2", "4"] {
        let mut expected = Vec::new();
        for (room, author) in &authors {
            expected.push((room, push(author, &format!("{room}-j{jobs}"), 2)));
        }
        let before = reader.pins();
        reader
            .git(["-c", &format!("fetch.parallel={jobs}"), "remote", "update", "--prune"])
            .success();
        for (room, commit) in expected {
            assert_eq!(reader.rev(&format!("refs/remotes/{room}/main")), commit, "{jobs}");
            assert_eq!(reader.rev(&format!("refs/tags/{room}-j{jobs}^{{}}")), commit, "{jobs}");
        }
        let pins = reader.pins();
        assert!(before.iter().all(|(name, oid)| pins.get(name) == Some(oid)), "{jobs}");
        assert_eq!(pins.len(), before.len() + 2 * authors.len() * PINS_A_PUSH, "{jobs}");
        assert_whole(&reader);
    }
}

/// Of a branch, another and a tag.
const PINS_A_PUSH: usize = 3;

/// Runs git commands one after the other, again and again, until the fetches are over. While they hold the lock that they
/// are given, none runs.
fn meanwhile(reader: &Repository<'_>, commands: &[&str], fetches: impl FnOnce(&RwLock<()>)) -> Vec<Answer> {
    let is_over = AtomicBool::new(false);
    let pause = RwLock::new(());
    thread::scope(|scope| {
        let tidying = scope.spawn(|| {
            let mut answers = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                for command in commands {
                    // Who waits to write goes first.
                    let _running = pause.read().unwrap();
                    answers.push(reader.user().git(*command).either());
                }
            }
            answers
        });
        {
            let _over = SetOnDrop(&is_over);
            fetches(&pause);
        }
        tidying.join().unwrap()
    })
}

/// Pushes of so many files, in turns, are fetched while these commands are given again and again.
fn fetched_while(commands: &[&str], files: &[usize], may_fail: bool) {
    let world = world();
    let Stage { authors, reader } = stage(&world, &["one", "two"]);
    let mut all = Vec::new();
    let mut failed = 0;
    let answers = meanwhile(&reader, commands, |pause| {
        for number in 0..PUSHES {
            for (room, author) in &authors {
                let commit = {
                    // What git tidies before there is news shows nothing.
                    let _nobody_tidies = pause.write().unwrap();
                    push(author, &format!("{room}-{number}"), files[number % files.len()])
                };
                let fetch = || reader.git(["fetch", "--quiet", room]).either();
                let mut answer = fetch();
                for _ in 1..DISTURBED {
                    if may_fail && !answer.is_success() {
                        failed += 1;
                        answer = fetch();
                    }
                }
                if may_fail && !answer.is_success() {
                    let _nobody_prunes = pause.write().unwrap();
                    answer = fetch();
                }
                assert!(answer.is_success(), "{answer:?}");
                assert_eq!(reader.rev(&format!("refs/remotes/{room}/main")), commit);
                all.push(commit);
            }
        }
    });
    println!("{failed} fetches had to be run again");
    println!("tidied {} times during {} fetches", answers.len(), all.len());
    assert!(!answers.is_empty());
    for answer in &answers {
        assert!(answer.is_success(), "{answer:?}");
    }
    assert_has(&reader, &all);
    assert_whole(&reader);
    // Pins alone keep it all.
    let is_fetched = |name: &String| {
        let others = ["refs/parler/", "refs/remotes/origin/", "refs/heads/"];
        !others.iter().any(|other| name.starts_with(other))
    };
    let fetched = reader.refs().into_keys().filter(is_fetched);
    let deletions: String = fetched.map(|name| format!("delete {name}\n")).collect();
    let deleted = reader
        .user()
        .feed("git", "update-ref --no-deref --stdin", deletions.as_bytes());
    deleted.success();
    reader.git("reflog expire --expire=now --all").success();
    reader.git("gc --quiet --prune=now").success();
    assert_has(&reader, &all);
    reader.fsck();
}

#[test]
fn everything_fetched_while_git_repacks_stays() {
    fetched_while(&["repack -adq"], &[2, FILES], false);
}

#[test]
fn everything_fetched_while_git_collects_garbage_stays() {
    fetched_while(&["gc --quiet"], &[2, FILES], false);
}

#[test]
fn everything_fetched_while_refs_are_packed_stays() {
    fetched_while(&["pack-refs --all --prune"], &[2, FILES], false);
}

/// `--prune=now` is for a repository where nothing else happens: git takes what is being received for garbage, ours as
/// its own. A fetch may find its quarantine gone and say so. What came in a pack is safe once the fetch has succeeded.
#[test]
fn what_is_fetched_in_packs_while_git_prunes_at_once_stays() {
    fetched_while(&["gc --quiet --prune=now"], &[FILES], true);
}
