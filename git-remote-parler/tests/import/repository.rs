//! A repository answers alike whether gix or git is asked, and in every shape repositories have.

use std::num::NonZeroU32;

use git_remote_parler::repository::{Lines, LocalHead, ObjectKind, Place, Repository, RepositoryError};
use parler_protocol::{ObjectFormat, Oid};

use crate::sandbox::{Repo, Sandbox};

/// Setting this asks git children for everything.
const ASK_GIT: (&str, &str) = ("GIT_CONFIG_PARAMETERS", "'parler.probe'='seen'");

fn both(sandbox: &Sandbox, repo: &Repo) -> [Repository; 2] {
    let by_git = Repository::open(sandbox.git_with(&[ASK_GIT]), &repo.git_dir()).unwrap();
    let by_gix = sandbox.open(repo);
    assert!(by_git.asks_git());
    assert!(!by_gix.asks_git());
    [by_gix, by_git]
}

fn history(sandbox: &Sandbox, options: &[&str]) -> (Repo<'static>, Vec<Oid>) {
    // The repositories live as long as the sandbox, which outlives every use in a test.
    let repo = sandbox.init("work", options);
    let repo = Repo {
        sandbox: Box::leak(Box::new(Sandbox::new())),
        directory: repo.directory,
    };
    let mut commits = vec![repo.commit("a", "1"), repo.commit("a", "2")];
    repo.git(&["checkout", "-q", "-b", "side"]);
    commits.push(repo.commit("b", "1"));
    repo.git(&["checkout", "-q", "main"]);
    commits.push(repo.commit("a", "3"));
    repo.git(&["merge", "-q", "--no-edit", "side"]);
    commits.push(repo.oid("HEAD"));
    repo.git(&["tag", "-a", "-m", "t", "v1"]);
    repo.git(&["tag", "light", "side"]);
    repo.git(&["tag", "blob", "main:a"]);
    repo.git(&["update-ref", "refs/heads/é/ü", "side"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/main"]);
    repo.git(&["symbolic-ref", "refs/remotes/gone/HEAD", "refs/heads/nowhere"]);
    (repo, commits)
}

#[test]
fn gix_and_git_give_the_same_answers() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let (repo, commits) = history(&sandbox, &["--object-format", format]);
        repo.git(&["pack-refs", "--all"]);
        repo.git(&["update-ref", "refs/heads/late", "main~1"]);
        let [gix, git] = both(&sandbox, &repo);
        let tag = repo.oid("v1");
        let blob = repo.oid("main:a");
        let missing: Oid = "1".repeat(commits[0].to_string().len()).parse().unwrap();

        assert_eq!(gix.object_format().to_string(), format);
        assert_eq!(git.object_format(), gix.object_format());

        let refs = gix.refs("refs/").unwrap();
        assert_eq!(refs, git.refs("refs/").unwrap());
        let names: Vec<_> = refs.iter().map(|local| local.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "refs/heads/late",
                "refs/heads/main",
                "refs/heads/side",
                "refs/heads/é/ü",
                "refs/remotes/origin/HEAD",
                "refs/tags/blob",
                "refs/tags/light",
                "refs/tags/v1",
            ]
        );
        assert_eq!(refs.iter().find(|local| local.name == "refs/tags/v1").unwrap().oid, tag);
        assert_eq!(gix.refs("refs/tags/").unwrap().len(), 3);

        for revision in [
            "HEAD",
            "main",
            "v1",
            "light",
            "main~2",
            "side^{tree}",
            "main:a",
            "main^2",
            "v1^{}",
            "@",
        ] {
            let answer = gix.resolve(revision).unwrap();
            assert_eq!(answer, git.resolve(revision).unwrap(), "{revision}");
            assert_eq!(answer.oid, repo.oid(revision), "{revision}");
        }
        let annotated = gix.resolve("v1").unwrap();
        assert_eq!((annotated.kind, annotated.commit), (ObjectKind::Tag, Some(commits[4])));
        assert_eq!(gix.resolve("main:a").unwrap().commit, None);
        for revision in ["", "--all", "-x", "nothing", "main..side", "a\nb", "main:zzz"] {
            for repository in [&gix, &git] {
                let error = repository.resolve(revision).unwrap_err();
                assert!(
                    matches!(error, RepositoryError::UnknownRevision { .. }),
                    "{revision}: {error}"
                );
            }
        }

        let asked = [commits[0], missing, tag, blob];
        for repository in [&gix, &git] {
            assert_eq!(repository.contains(&asked).unwrap(), [true, false, true, true]);
            assert_eq!(repository.contains(&[]).unwrap(), [] as [bool; 0]);
            let digits = if asked[0].as_bytes().len() == 20 { 64 } else { 40 };
            let of_other_hash: Oid = "a".repeat(digits).parse().unwrap();
            let here = repository.contains(&[of_other_hash, asked[0], of_other_hash]).unwrap();
            assert_eq!(here, [false, true, false]);
            assert_eq!(repository.subject(&commits[1]).unwrap(), "Change a");
            assert_eq!(repository.find_ref("refs/heads/side").unwrap(), Some(commits[2]));
            assert_eq!(repository.find_ref("refs/heads/sid").unwrap(), None);
            assert_eq!(repository.find_ref("side").unwrap(), None);
            let here = LocalHead::Branch {
                name: "refs/heads/main".to_owned(),
                oid: commits[4],
            };
            assert_eq!(repository.head().unwrap(), here);
        }

        for ancestor in &commits {
            for descendant in &commits {
                let (a, d) = (ancestor.to_string(), descendant.to_string());
                let expected = sandbox
                    .command(&repo.directory, ["merge-base", "--is-ancestor", &a, &d])
                    .status()
                    .unwrap()
                    .success();
                assert_eq!(gix.is_ancestor(ancestor, descendant).unwrap(), expected, "{a} {d}");
                assert_eq!(git.is_ancestor(ancestor, descendant).unwrap(), expected, "{a} {d}");
                let boundary = gix.boundary(&[*descendant], &[*ancestor]).unwrap();
                assert_eq!(boundary, git.boundary(&[*descendant], &[*ancestor]).unwrap());
                let range = format!("{a}..{d}");
                assert_eq!(boundary.commits.to_string(), repo.git(&["rev-list", "--count", &range]));
            }
        }
        let parties: Vec<Vec<Oid>> = commits.iter().map(|commit| vec![*commit]).collect();
        for repository in [&gix, &git] {
            let reaching = repository.reaching(&commits, &parties).unwrap();
            for (ancestor, positions) in commits.iter().zip(reaching) {
                let is_reached = |party: &usize| repository.is_ancestor(ancestor, &commits[*party]).unwrap();
                let expected: Vec<usize> = (0..commits.len()).filter(is_reached).collect();
                assert_eq!(positions, expected, "{ancestor}");
            }
            let odd = [vec![missing, blob], vec![], vec![blob, tag]];
            let reaching = repository.reaching(&[missing, commits[0]], &odd).unwrap();
            assert_eq!(reaching, [vec![], vec![2]]);
            let none = repository.reaching(&commits[..1], &[]).unwrap();
            assert_eq!(none, [Vec::<usize>::new()]);
        }
        for repository in [&gix, &git] {
            assert!(repository.is_ancestor(&missing, &commits[0]).is_err());
            assert!(repository.is_ancestor(&commits[0], &tag).unwrap());
            // Haves that are not here, or are no commits, do not matter; tips must lead to commits.
            let boundary = repository
                .boundary(&[tag, commits[2]], &[missing, blob, commits[1]])
                .unwrap();
            assert_eq!(
                (boundary.commits, boundary.prerequisites.as_slice()),
                (3, &commits[1..2])
            );
            assert_eq!(repository.boundary(&[tag], &[]).unwrap().commits, 5);
            assert!(repository.boundary(&[blob], &[]).is_err());
            assert!(repository.boundary(&[missing], &[]).is_err());
        }
    }
}

#[test]
fn heads_are_told_apart() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("work", &[]);
    let unborn = LocalHead::Unborn {
        name: "refs/heads/main".to_owned(),
    };
    for repository in both(&sandbox, &repo) {
        assert_eq!(repository.head().unwrap(), unborn);
    }
    let oid = repo.commit("a", "1");
    repo.git(&["checkout", "-q", "--detach"]);
    for repository in both(&sandbox, &repo) {
        assert_eq!(repository.head().unwrap(), LocalHead::Detached { oid });
    }
}

#[test]
fn configuration_is_read_alike() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("work", &[]);
    repo.git(&["config", "parler.base", "none"]);
    repo.git(&["config", "--add", "parler.base", "v1 v2"]);
    repo.git(&["config", "parler.createRoom", "yes"]);
    repo.git(&["config", "parler.Odd Sub.x", "é \"q\" # no comment"]);
    repo.git(&["remote", "add", "origin", "https://example.invalid/x.git"]);
    repo.git(&["config", "--add", "remote.origin.url", "second"]);
    repo.git(&["remote", "add", "My.Fork", "parler::room/x"]);
    repo.git(&["config", "remote.My.Fork.pushurl", "elsewhere"]);
    let path = repo.git_dir().join("config");
    let mut text = std::fs::read_to_string(&path).unwrap();
    text.push_str("[parler]\n\tbare\n\twrong = perhaps\n");
    std::fs::write(&path, text).unwrap();

    let [gix, git] = both(&sandbox, &repo);
    assert_eq!(gix.config_string("parler.probe").unwrap(), None);
    assert_eq!(git.config_string("parler.probe").unwrap().as_deref(), Some("seen"));
    for repository in [gix, git] {
        assert_eq!(
            repository.config_string("Parler.Base").unwrap().as_deref(),
            Some("v1 v2")
        );
        assert_eq!(repository.config_bool("parler.createroom").unwrap(), Some(true));
        assert_eq!(repository.config_bool("parler.bare").unwrap(), Some(true));
        assert_eq!(repository.config_bool("parler.absent").unwrap(), None);
        assert!(repository.config_bool("parler.wrong").is_err());
        assert_eq!(
            repository.config_string("parler.Odd Sub.x").unwrap().as_deref(),
            Some("é \"q\" # no comment")
        );
        let remotes = repository.remotes().unwrap();
        assert_eq!(remotes.len(), 2);
        assert_eq!(remotes[0].name, "origin");
        assert_eq!(remotes[0].urls, ["https://example.invalid/x.git", "second"]);
        assert_eq!(remotes[0].fetch, ["+refs/heads/*:refs/remotes/origin/*"]);
        assert_eq!(remotes[1].name, "My.Fork");
        assert_eq!(remotes[1].push_urls, ["elsewhere"]);
    }
}

#[test]
fn reftable_is_read_by_git() {
    let sandbox = Sandbox::new();
    let (repo, commits) = history(&sandbox, &["--ref-format=reftable"]);
    let repository = sandbox.open(&repo);
    assert!(repository.asks_git());
    assert_eq!(repository.refs("refs/heads/").unwrap().len(), 3);
    assert_eq!(repository.resolve("side").unwrap().oid, commits[2]);
    assert_eq!(repository.boundary(&[commits[4]], &[commits[3]]).unwrap().commits, 2);
}

#[test]
fn an_object_directory_of_its_own_is_seen() {
    let sandbox = Sandbox::new();
    let (repo, commits) = history(&sandbox, &[]);
    let elsewhere = sandbox.path("objects-elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let objects = repo.git_dir().join("objects");
    let git = sandbox.git_with(&[
        ("GIT_OBJECT_DIRECTORY", elsewhere.to_str().unwrap()),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", objects.to_str().unwrap()),
    ]);
    let repository = Repository::open(git, &repo.git_dir()).unwrap();
    assert_eq!(repository.objects_dir(), elsewhere);
    assert_eq!(repository.contains(&[commits[0]]).unwrap(), [true]);
}

#[test]
fn work_trees_bare_and_shallow_repositories_are_found() {
    let sandbox = Sandbox::new();
    let (repo, commits) = history(&sandbox, &[]);

    let inside = repo.directory.join("deep/down");
    std::fs::create_dir_all(&inside).unwrap();
    let found = Repository::discover(sandbox.git_with(&[]), &inside).unwrap();
    assert_eq!(found.git_dir(), repo.git_dir());
    assert_eq!(found.common_dir(), repo.git_dir());
    assert_eq!(found.work_dir().as_deref(), Some(repo.directory.as_path()));
    assert!(found.work_dir().is_some() && !found.is_shallow());
    assert_eq!(found.parler_dir(), repo.git_dir().join("parler"));

    let linked = sandbox.path("linked");
    repo.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "side"]);
    let found = Repository::discover(sandbox.git_with(&[]), &linked).unwrap();
    assert_eq!(found.git_dir(), repo.git_dir().join("worktrees/linked"));
    assert_eq!(found.common_dir(), repo.git_dir());
    assert_eq!(found.work_dir().as_deref(), Some(linked.as_path()));
    assert_eq!(
        found.head().unwrap(),
        LocalHead::Branch {
            name: "refs/heads/side".to_owned(),
            oid: commits[2]
        }
    );
    // As git hands it to a helper: relative, from the work tree's root.
    let git = sandbox.git_with(&[("GIT_DIR", ".git")]);
    assert_eq!(
        Repository::discover(git, &repo.directory).unwrap().git_dir(),
        repo.git_dir()
    );

    let bare = sandbox.clone(&repo, "bare.git", &["--bare"]);
    let found = Repository::discover(sandbox.git_with(&[]), &bare.directory).unwrap();
    assert_eq!(found.work_dir(), None);
    assert_eq!(found.work_dir(), None);
    assert_eq!(found.object_format(), ObjectFormat::Sha1);

    let shallow = sandbox.clone(&repo, "shallow", &["--depth", "1"]);
    for repository in both(&sandbox, &shallow) {
        assert!(repository.is_shallow());
        let boundary = repository.boundary(&[commits[4]], &[]).unwrap();
        assert_eq!((boundary.commits, boundary.shallow), (1, vec![commits[4]]));
    }
    let new = shallow.commit("a", "4");
    for repository in both(&sandbox, &shallow) {
        assert!(repository.is_ancestor(&commits[4], &new).unwrap());
        assert!(!repository.is_ancestor(&new, &commits[4]).unwrap());
        let boundary = repository.boundary(&[new], &[commits[4]]).unwrap();
        assert_eq!((boundary.prerequisites, boundary.shallow), (vec![commits[4]], vec![]));
    }

    let nowhere = sandbox.path("home");
    let error = Repository::discover(sandbox.git_with(&[]), &nowhere).unwrap_err();
    assert!(matches!(error, RepositoryError::NotARepository { .. }), "{error}");
}

#[test]
fn a_repository_in_the_middle_of_a_clone_opens() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("work", &[]);
    // What `git clone` leaves until the helper has listed the refs.
    let git_dir = repo.git_dir();
    std::fs::write(git_dir.join("HEAD"), "ref: refs/heads/.invalid\n").unwrap();
    std::fs::remove_dir_all(git_dir.join("refs")).unwrap();
    std::fs::create_dir(git_dir.join("refs")).unwrap();
    repo.sandbox.git(
        &sandbox.path(""),
        [
            "config",
            "--file",
            git_dir.join("config").to_str().unwrap(),
            "parler.x",
            "1",
        ],
    );
    for git in [sandbox.git_with(&[]), sandbox.git_with(&[ASK_GIT])] {
        let repository = Repository::open(git, &git_dir).unwrap();
        assert_eq!(repository.config_string("parler.x").unwrap().as_deref(), Some("1"));
        assert!(repository.work_dir().is_some());
    }
}

#[test]
fn commit_dates_that_run_backwards_do_not_mislead() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("work", &[]);
    repo.commit("a", "0");
    let tree = repo.oid("HEAD^{tree}").to_string();
    let mut commits = vec![repo.oid("HEAD")];
    // A chain of 40 whose dates jump about, with a side line leaving every fifth commit.
    for number in 0_u64..40 {
        let date = 1_700_000_000 + (number * 7919 % 41) * 1000;
        let parent = commits.last().unwrap().to_string();
        let mut command = repo.sandbox.command(
            &repo.directory,
            ["commit-tree", &tree, "-p", &parent, "-m", &number.to_string()],
        );
        command.env("GIT_COMMITTER_DATE", format!("{date} +0000"));
        commits.push(
            crate::sandbox::succeeded(&command.output().unwrap(), "commit-tree")
                .parse()
                .unwrap(),
        );
    }
    let repository = sandbox.open(&repo);
    let parties: Vec<Vec<Oid>> = commits.iter().map(|commit| vec![*commit]).collect();
    let reaching = repository.reaching(&commits, &parties).unwrap();
    for (position, reached) in reaching.into_iter().enumerate().skip(1) {
        assert_eq!(reached, (position..commits.len()).collect::<Vec<_>>());
    }
    for (position, commit) in commits.iter().enumerate() {
        for (other, have) in commits.iter().enumerate() {
            assert_eq!(
                repository.is_ancestor(have, commit).unwrap(),
                other <= position,
                "{other} {position}"
            );
            let boundary = repository.boundary(&[*commit], &[*have]).unwrap();
            let least = position.saturating_sub(other) as u64;
            assert!(boundary.commits >= least);
            assert!(other != position || boundary.commits == 0);
            for prerequisite in &boundary.prerequisites {
                assert!(
                    repository.is_ancestor(prerequisite, have).unwrap(),
                    "a prerequisite that is not had"
                );
            }
        }
    }
}

#[test]
fn a_repository_of_another_user_is_refused_unless_git_named_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("work", &[]);
    let git_dir = repo.git_dir();
    for path in [&repo.directory, &git_dir] {
        if std::os::unix::fs::chown(path, Some(12345), None).is_err() {
            return; // only root can give a directory away
        }
    }
    let error = Repository::discover(sandbox.git_with(&[]), &repo.directory).unwrap_err();
    assert!(matches!(error, RepositoryError::NotOurs { .. }), "{error}");
    assert!(Repository::open(sandbox.git_with(&[]), &git_dir).is_ok());
}

#[test]
fn a_broken_configuration_is_not_called_a_missing_repository() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("work", &[]);
    let git_dir = repo.git_dir();
    std::fs::write(git_dir.join("config"), "[core\nbroken").unwrap();
    for result in [
        Repository::open(sandbox.git_with(&[]), &git_dir),
        Repository::discover(sandbox.git_with(&[]), &repo.directory),
    ] {
        let error = result.unwrap_err();
        assert!(matches!(error, RepositoryError::Read { .. }), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    let error = Repository::open(sandbox.git_with(&[]), &sandbox.path("home")).unwrap_err();
    assert!(matches!(error, RepositoryError::NotARepository { .. }), "{error}");
}

#[test]
fn a_place_is_a_line_of_a_file_that_the_commit_has() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("work", &["--object-format", format]);
        repo.commit("a", "1\n2\n3");
        repo.commit("dir/é b", "1\n2\n");
        let commit = repo.commit("empty", "");
        let before = repo.oid("HEAD~2");
        let opened = sandbox.open(&repo);
        let place = |commit: &Oid, path: &str| opened.places(commit).place(&path.parse().unwrap(), None);
        let lines = |count| Place::File(Some(Lines { count, asked: None }));
        for (path, expected) in [
            ("a", lines(3)),
            ("dir/é b", lines(2)),
            ("empty", lines(0)),
            ("dir", Place::NoFile),
            ("a/b", Place::Nowhere),
            ("dir/gone", Place::Nowhere),
            ("A", Place::Nowhere),
        ] {
            assert_eq!(place(&commit, path), expected, "{path}");
        }
        assert_eq!(place(&before, "empty"), Place::Nowhere);
        let mut places = opened.places(&commit);
        let mut said = |path: &str, line| match places.place(&path.parse().unwrap(), NonZeroU32::new(line)) {
            Place::File(Some(lines)) => lines.asked,
            _ => None,
        };
        assert_eq!(said("a", 3).as_deref(), Some("3"));
        assert_eq!(said("a", 1).as_deref(), Some("1"));
        assert_eq!(said("a", 4), None);
        assert_eq!(said("dir/é b", 2).as_deref(), Some("2"));
        let missing: Oid = "1".repeat(commit.to_string().len()).parse().unwrap();
        assert_eq!(place(&missing, "a"), Place::Unknown);
    }
}
