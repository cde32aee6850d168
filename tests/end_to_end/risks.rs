//! What is legal in a bundle and dangerous to check out is told before anybody does: by `apply`, `show` and the banner, to
//! people and programs, and nothing of it happens.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use parler_harness::{Repository, Snapshot, World};
use serde_json::{Value, json};

use super::world;

/// A work tree with a harmless base that is pushed, and somebody who has that.
fn desk(world: &World) -> [Repository<'_>; 2] {
    let origin = world.origin();
    let [work, bobs] = ["work", "bobs"].map(|name| world.clone_of(&origin, name));
    work.write("package.json", r#"{"name":"x","scripts":{"test":"true"}}"#);
    work.write(".gitattributes", "*.bin filter=lfs\n");
    work.write("AGENTS.md", "be kind\n");
    commit_all(&work);
    work.git("push --quiet parler::room/try HEAD:refs/heads/main").success();
    bobs.user().parler("recv --room try").success();
    bobs.git("fetch --quiet parler::room/try").success();
    [work, bobs]
}

fn commit_all(work: &Repository<'_>) {
    work.git("add --all").success();
    work.git("commit --quiet --message change").success();
}

/// Pushes with a handoff to anybody, and gives its message's number.
fn hand_over(work: &Repository<'_>) -> String {
    let push = "parler push --room try --next look --json HEAD:refs/heads/main";
    work.git(push).success().json()["seq"].to_string()
}

/// Kinds, paths and details of a report.
fn told(report: &Value) -> BTreeSet<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let risks = report["risks"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    risks
        .iter()
        .map(|risk| (text(&risk["kind"]), text(&risk["path"]), text(&risk["detail"])))
        .collect()
}

#[test]
fn what_is_dangerous_at_checkout_is_told_and_does_not_happen() {
    let world = world();
    let [work, bobs] = desk(&world);
    bobs.git("config core.hooksPath tools/hooks").success();
    for file in [
        ".claude/settings.json",
        ".claude/skills/x.md",
        "docs/CLAUDE.md",
        ".vscode/tasks.json",
        "tools/hooks/post-checkout",
        ".husky/pre-commit",
        "Read.me",
        "read.ME",
        "a\\b",
        "CON.txt",
        "esc\x1b[2J",
        "plain.txt",
    ] {
        work.write(file, "x\n");
    }
    work.write("sub/.gitattributes", "*.c filter=mine diff=cpp\n");
    work.write(".gitattributes", "*.bin filter=lfs\n*.x merge=theirs\n");
    work.write("package.json", r#"{"name":"x","scripts":{"postinstall":"id"}}"#);
    work.write(".gitmodules", "[submodule \"m\"]\n\tpath = m\n\turl = ext::sh -c id\n");
    symlink("/etc/passwd", work.path().join("absolute")).unwrap();
    symlink("../../x", work.path().join("docs/above")).unwrap();
    symlink("../.git/hooks", work.path().join("docs/inside")).unwrap();
    symlink("../plain.txt", work.path().join("docs/harmless")).unwrap();
    commit_all(&work);
    let number = hand_over(&work);

    let bob = bobs.user();
    let show = format!("show {number} --room try --json");
    let apply = format!("apply {number} --room try");
    // Nothing is known of what has not come.
    let banner = bob.parler("recv --room try").success();
    banner.says("HANDOFF TO YOU").says_no("risk:");
    assert_eq!(bob.parler(&*show).success().json()["risks"], Value::Null);

    let before = Snapshot::of(&bobs);
    let applied = bob.parler(format!("{apply} --json").as_str()).success().json();
    let expected = [
        ("agent-configuration", ".claude/", ""),
        ("agent-configuration", "docs/CLAUDE.md", ""),
        ("tool-configuration", ".vscode/", ""),
        ("tool-configuration", "package.json", ""),
        ("hook", ".husky/", ""),
        ("hook", "tools/hooks/", ""),
        ("filter", ".gitattributes", "merge=theirs"),
        ("filter", "sub/.gitattributes", "filter=mine"),
        ("submodule", ".gitmodules", "ext::sh -c id"),
        ("link", "absolute", "/etc/passwd"),
        ("link", "docs/above", "../../x"),
        ("link", "docs/inside", "../.git/hooks"),
        ("collision", "read.ME", "Read.me"),
        ("odd-name", "a\\b", ""),
        ("odd-name", "CON.txt", ""),
        ("odd-name", "esc\x1b[2J", ""),
    ];
    let expected: BTreeSet<_> = expected
        .map(|(kind, path, detail)| (kind.to_owned(), path.to_owned(), detail.to_owned()))
        .into();
    let report = &applied["risks"];
    assert_eq!(told(report), expected, "{report:#}");
    assert_eq!((&report["more"], &report["complete"]), (&json!(0), &json!(true)));
    let risks = report["risks"].as_array().unwrap();
    let claude = risks.iter().find(|risk| risk["path"] == ".claude/").unwrap();
    assert_eq!(claude["files"], 2);
    Snapshot::of(&bobs).assert_same_as(
        &before,
        &[
            "ref refs/parler/",
            ".git/refs/parler",
            ".git/packed-refs",
            ".git/objects",
            ".git/parler",
        ],
    );
    assert!(!bobs.path().join("tools").exists());

    // The same for people, escaped, and again wherever somebody looks at it.
    let lines = [
        "risk:    agent configuration: .claude/ (2 files), docs/CLAUDE.md",
        "risk:    links out of the tree: absolute -> /etc/passwd, docs/above -> ../../x, docs/inside -> ../.git/hooks",
        "risk:    submodules: .gitmodules from \"ext::sh -c id\"",
        "\"esc\\u{1b}[2J\"",
    ];
    let again = format!(
        "handoff --room try --next again --bundle {}",
        applied["id"].as_str().unwrap()
    );
    work.user().parler(&*again).success();
    for command in [&*apply, &*format!("show {number} --room try"), "recv --room try"] {
        let shown = bob.parler(command).success();
        for line in lines {
            shown.says(line);
        }
        assert!(!shown.out().contains('\x1b'), "{shown:?}");
    }
    let shown = bob.parler(&*show).success().json();
    assert_eq!(&shown["risks"], report);
    assert_eq!(&shown["handoff"]["risks"], report);

    // What was there already is no news.
    work.write("plain.txt", "y\n");
    work.write("package.json", r#"{"name":"y","scripts":{"postinstall":"id"}}"#);
    work.write(".gitattributes", "*.y merge=theirs\n");
    fs::remove_file(work.path().join("absolute")).unwrap();
    commit_all(&work);
    let number = hand_over(&work);
    let applied = bob
        .parler(["apply", &number, "--room", "try", "--json"])
        .success()
        .json();
    assert_eq!(applied["risks"], json!({ "risks": [], "more": 0, "complete": true }));
    bob.parler(["apply", &number, "--room", "try"])
        .success()
        .says_no("risk:");
}

#[test]
fn what_comes_with_a_bundle_is_looked_at_too_and_so_is_a_file() {
    let world = world();
    let [work, bobs] = desk(&world);
    work.write(".envrc", "id\n");
    commit_all(&work);
    hand_over(&work);
    work.write("plain.txt", "x\n");
    commit_all(&work);
    let number = hand_over(&work);
    let envrc = BTreeSet::from([("tool-configuration".to_owned(), ".envrc".to_owned(), String::new())]);
    let applied = bobs
        .user()
        .parler(["apply", &number, "--room", "try", "--json"])
        .success()
        .json();
    assert_eq!(told(&applied["risks"]), envrc);
    // As git makes them.
    work.git("bundle create --quiet all.bundle main~2..main").success();
    let file = work.path().join("all.bundle");
    let applied = bobs
        .user()
        .parler(["apply", file.to_str().unwrap(), "--json"])
        .success()
        .json();
    assert_eq!(told(&applied["risks"]), envrc);
}

/// A few trees that name each other ten times over are millions of paths.
#[test]
fn a_tree_without_end_is_not_looked_through_to_its_end() {
    let world = world();
    let [work, bobs] = desk(&world);
    let tree = |entries: String| {
        let list = work.write(".git/list", entries);
        let made = work
            .user()
            .run("sh", ["-c", &format!("git mktree <{}", list.display())]);
        made.success().word().to_owned()
    };
    let blob = work.ask("rev-parse HEAD:AGENTS.md");
    let mut inner = tree(format!("100644 blob {blob}\tx\n"));
    for _ in 0..10 {
        inner = tree(
            (0..10)
                .map(|number| format!("040000 tree {inner}\t{number}\n"))
                .collect(),
        );
    }
    let commit = work.ask(["commit-tree", "-p", "HEAD", "-m", "bomb", &inner]);
    let push = format!("parler push --room try --json {commit}:refs/heads/bomb");
    let number = work.git(push.as_str()).success().json()["seq"].to_string();
    let applied = bobs
        .user()
        .parler(["apply", &number, "--room", "try", "--json"])
        .success()
        .json();
    assert_eq!(applied["risks"]["complete"], false);
    bobs.user()
        .parler(["apply", &number, "--room", "try"])
        .success()
        .says("risk:    not all of it was looked at");
}
