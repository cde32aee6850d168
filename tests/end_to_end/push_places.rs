//! Pushes from wherever git can be called: from hooks, linked work trees, bare repositories, submodules, below and
//! beside a work tree, and with settings from everywhere. Each beside the same push to a plain repository over smart HTTP.

use parler_harness::write_executable;

use super::side_by_side::{Side, SideBySide};
use super::world;

/// A clone with a commit more than its origin and the remote `there`.
fn work(side: &Side<'_>) {
    work_at(side, "work");
}

fn work_at(side: &Side<'_>, name: &str) {
    let agent = side.agent.clone();
    agent.git(["clone", "--quiet", "origin", name]).success();
    side.commit(name, "mine");
    side.at(name).git(["remote", "add", "there", &side.url]).success();
}

#[test]
fn from_hooks_of_a_work_tree() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        work(side);
        for (hook, branch) in [("post-commit", "committed"), ("pre-push", "pushing"), ("post-checkout", "switched")] {
            let script = format!(
                "#!/bin/sh\nbranch=$(git rev-parse HEAD)\ngit push --no-verify there HEAD:refs/heads/{branch} 2>&1 >&2\n"
            );
            write_executable(&side.directory.join("work/.git/hooks").join(hook), &script);
        }
    });
    both.alike(|side| side.at("work").git("commit --allow-empty -m again"));
    both.alike(|side| side.at("work").git("switch -c other"));
    both.alike(|side| side.at("work").git("push there other"));
    let shown = both
        .room
        .agent
        .git(["ls-remote", &both.room.url])
        .success()
        .listed_refs();
    for branch in ["committed", "other", "pushing", "switched"] {
        assert!(shown.contains_key(&format!("refs/heads/{branch}")), "{shown:?}");
    }
}

/// The hooks of a bare repository that receives a push and hands it on.
fn middle(side: &Side<'_>, hook: &str, script: &str) {
    work(side);
    side.agent.git("clone --quiet --bare origin middle.git").success();
    let middle = side.repository("middle.git");
    middle.git(["remote", "add", "there", &side.url]).success();
    let script = format!("#!/bin/sh\n{script}\n");
    write_executable(&middle.path().join("hooks").join(hook), &script);
}

#[test]
fn from_hooks_of_a_repository_that_receives() {
    for (hook, script) in [
        (
            "pre-receive",
            "while read old new name; do git push there \"$new:$name\" || exit 1; done",
        ),
        ("update", "git push there \"$3:$1\""),
        (
            "post-receive",
            "while read old new name; do git push there \"$name\" || exit 1; done",
        ),
        ("post-update", "git push there \"$1\""),
    ] {
        let world = world();
        let both = SideBySide::new(&world);
        both.both(|side| middle(side, hook, script));
        // What the hook's push says arrives as `remote:` lines, which differ by the room's own.
        both.alike(|side| side.at("work").git("push ../middle.git main:refs/heads/topic"));
        let tip = both.room.repository("work").rev("main");
        for side in [&both.plain, &both.room] {
            let shown = side.agent.git(["ls-remote", &side.url]).success().listed_refs();
            assert_eq!(shown["refs/heads/topic"], tip, "{hook}");
            let middle = side.repository("middle.git");
            assert_eq!(middle.rev("refs/heads/topic"), tip, "{hook}");
            middle.fsck();
        }
        let copy = both.room.clone("origin", "copy", "");
        copy.git(["fetch", "--quiet", &both.room.url, "topic"]).success();
        assert_eq!(copy.rev("FETCH_HEAD"), tip);
        copy.fsck();
    }
}

#[test]
fn from_every_kind_of_repository() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        work(side);
        side.agent.git("clone --quiet --bare work bare.git").success();
        side.at("work").git("worktree add --quiet --detach ../linked").success();
        side.agent
            .git("clone --quiet --separate-git-dir=elsewhere.git work apart")
            .success();
        work_at(side, "with blank and \u{fc} 'quoted'");
        side.agent.git("init --quiet outer").success();
        side.at("outer")
            .git("-c protocol.file.allow=always submodule --quiet add ../work inner")
            .success();
        side.commit("outer/inner", "inner");
        side.commit("linked", "linked");
    });
    for (number, place) in [
        "bare.git",
        "linked",
        "apart",
        "with blank and \u{fc} 'quoted'",
        "outer/inner",
        "work/.git",
    ]
    .into_iter()
    .enumerate()
    {
        let refspec = format!("HEAD:refs/heads/from{number}");
        both.alike(|side| side.at(place).git(["push", &side.url, &refspec]));
    }
    // The submodule's pushes on the way.
    both.both(|side| {
        side.at("outer/inner")
            .git(["remote", "set-url", "origin", &side.url])
            .success();
        side.at("outer/inner").git("fetch --quiet").success();
        side.at("outer/inner").git("switch --quiet --create sub").success();
        side.at("outer/inner")
            .git("push --quiet --set-upstream origin sub")
            .success();
        side.commit("outer/inner", "more of inner");
        side.at("outer").git("add inner").success();
        side.commit("outer", "with inner");
        side.agent.git("init --quiet --bare outer.git").success();
    });
    both.alike(|side| {
        side.at("outer")
            .git("push --recurse-submodules=on-demand ../outer.git HEAD:refs/heads/main")
    });
    both.alike(|side| side.at("linked").git("push there HEAD"));
    both.alike(|side| side.at("linked").git("push there HEAD:refs/heads/linked"));
}

#[test]
fn from_below_and_beside_a_work_tree() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(work);
    let git_dir = |side: &Side<'_>| side.directory.join("work/.git").display().to_string();
    both.alike(|side| side.at("work/src").git("push there HEAD:refs/heads/1"));
    both.alike(|side| side.agent.git("-C work push there HEAD:refs/heads/2"));
    both.alike(|side| {
        side.agent
            .git(["--git-dir", &git_dir(side), "push", "there", "HEAD:refs/heads/3"])
    });
    both.alike(|side| {
        side.agent
            .git("--git-dir=work/.git --work-tree=work push there HEAD:refs/heads/4")
    });
    both.alike(|side| {
        side.agent
            .with("GIT_DIR", git_dir(side))
            .git("push there HEAD:refs/heads/5")
    });
    both.alike(|side| {
        side.at("work/src")
            .with("GIT_DIR", "../.git")
            .with("GIT_WORK_TREE", "..")
            .git("push there HEAD:refs/heads/6")
    });
    both.alike(|side| side.agent.git(["push", &side.url, "HEAD:refs/heads/7"]));
}

#[test]
fn with_settings_from_everywhere() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        work(side);
        side.at("work").git("switch --quiet --create topic").success();
    });
    both.alike(|side| side.at("work").git("-c push.default=current push there"));
    both.both(|side| side.commit("work", "two"));
    both.alike(|side| side.at("work").git("-c push.default=nothing push there"));
    both.alike(|side| {
        side.at("work").git([
            "-c",
            &format!("remote.elsewhere.url={}", side.url),
            "push",
            "elsewhere",
            "HEAD:refs/heads/1",
        ])
    });
    both.alike(|side| {
        side.at("work")
            .with("GIT_CONFIG_COUNT", "2")
            .with("GIT_CONFIG_KEY_0", "remote.counted.url")
            .with("GIT_CONFIG_VALUE_0", &side.url)
            .with("GIT_CONFIG_KEY_1", "remote.counted.push")
            .with("GIT_CONFIG_VALUE_1", "refs/heads/topic:refs/heads/2")
            .git("push counted")
    });
    both.alike(|side| {
        side.at("work").git([
            "-c",
            &format!("url.{}.insteadOf=short:", side.url),
            "push",
            "short:",
            "HEAD:refs/heads/3",
        ])
    });
    both.alike(|side| {
        side.at("work").git([
            "-c",
            "remote.there.url=nowhere",
            "-c",
            &format!("remote.there.pushurl={}", side.url),
            "push",
            "there",
            "HEAD:refs/heads/4",
        ])
    });
    both.alike(|side| {
        side.at("work")
            .git("-c advice.pushUpdateRejected=false push --force there HEAD~1:topic")
    });
    both.alike(|side| {
        side.at("work")
            .git("-c advice.pushUpdateRejected=false push there HEAD~2:topic")
    });
    both.alike(|side| side.at("work").git("-c color.ui=always push there HEAD:refs/heads/5"));
    both.alike(|side| {
        side.at("work")
            .git("-c remote.there.mirror=true push there HEAD:refs/heads/6")
    });
    both.alike(|side| {
        let work = side.at("work");
        work.git("config extensions.worktreeConfig true").success();
        work.git(["config", "--worktree", "remote.mine.url", &side.url])
            .success();
        work.git("config --worktree remote.mine.push HEAD:refs/heads/7")
            .success();
        work.git("push mine")
    });
    both.alike(|side| {
        let work = side.at("work");
        work.git("worktree add --quiet --detach ../linked").success();
        let linked = side.at("linked");
        linked
            .git(["config", "--worktree", "remote.its.url", &side.url])
            .success();
        linked.git("push its HEAD:refs/heads/8")
    });
    // Its own, which only the room reads.
    let work = both.room.at("work");
    work.git("-c parler.agent=someone-else push --quiet there HEAD:refs/heads/9")
        .success();
}

#[test]
fn in_a_namespace() {
    let world = world();
    let both = SideBySide::new(&world);
    both.both(|side| {
        work(side);
        let work = side.repository("work");
        work.git("update-ref refs/namespaces/part/refs/heads/main HEAD~1")
            .success();
        work.git("update-ref refs/namespaces/part/refs/heads/topic HEAD")
            .success();
    });
    for push in [
        "there main",
        "there topic",
        "there refs/heads/*:refs/heads/of/*",
        "there HEAD:refs/heads/head",
    ] {
        both.alike(|side| {
            side.at("work")
                .with("GIT_NAMESPACE", "part")
                .git(format!("push {push}"))
        });
    }
}
