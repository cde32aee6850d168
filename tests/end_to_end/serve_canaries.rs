//! What a branch brings along that would run by itself elsewhere: hooks, filters, settings of shells, editors and agents,
//! submodules, links. In a job nothing of it does, nor anything that the worker's own configuration names.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::serve::{part, script, stage};
use super::world;

/// Every file below a directory, with its content.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.insert(path.display().to_string(), fs::read_to_string(&path).unwrap());
        }
    }
    found
}

#[test]
fn nothing_that_a_branch_brings_runs_by_itself() {
    let world = world();
    let stage = stage(&world);
    let place = &stage.place;
    let fired = world.directory("fired");
    let outside = world.directory("outside");
    fs::write(outside.join("kept"), "as it was\n").unwrap();
    // Says by a file that it ran, and is a filter as well.
    let canary = |name: &str| script(&world, name, &format!("touch '{}/{name}'; exec cat", fired.display()));

    let hook = |name: &str| {
        let path = place.write(name, format!("#!/bin/sh\ntouch '{}/hook'\n", fired.display()));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in [
        "post-checkout",
        "pre-commit",
        "post-commit",
        "post-index-change",
        "reference-transaction",
    ] {
        hook(&format!(".husky/{name}"));
    }
    hook("evil.sh");
    let run = format!("touch '{}/settings'", fired.display());
    place.write(".envrc", format!("{run}\n"));
    place.write(
        ".gitattributes",
        "[attr]odd filter=canary\n*.txt odd diff=canary merge=canary\n*.bin filter=lfs\n",
    );
    place.write("sub/.gitattributes", "*.txt filter=canary\n");
    place.write("sub/inner.txt", "inner\n");
    place.write(
        "large.bin",
        "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
    );
    let agent = format!("{{\"hooks\": {{\"SessionStart\": [{{\"command\": \"{run}\"}}]}}}}\n");
    place.write(".claude/settings.json", &agent);
    place.write(".codex/config.toml", format!("notify = [\"sh\", \"-c\", \"{run}\"]\n"));
    place.write(
        ".mcp.json",
        format!("{{\"mcpServers\": {{\"x\": {{\"command\": \"{run}\"}}}}}}\n"),
    );
    place.write(
        ".vscode/tasks.json",
        format!("{{\"tasks\": [{{\"command\": \"{run}\"}}]}}\n"),
    );
    let module = format!(
        "[submodule \"m\"]\n\tpath = m\n\turl = {}\n",
        world.path().join("origin.git").display()
    );
    place.write(".gitmodules", module);
    symlink(&outside, place.path().join("away")).unwrap();
    symlink(outside.join("kept"), place.path().join("file-away")).unwrap();
    place.git("add --all").success();
    place
        .git([
            "update-index",
            "--add",
            "--cacheinfo",
            &format!("160000,{},m", place.rev("main")),
        ])
        .success();
    place.git("commit --quiet --message traps").success();

    // A user for whom all of it would run.
    let template = world.directory("template");
    let config = [
        "[core]\n\thooksPath = .husky\n\tfsmonitor = ",
        &canary("fsmonitor"),
        "\n[submodule]\n\trecurse = true\n[protocol]\n\tallow = always\n[init]\n\ttemplateDir = ",
        template.to_str().unwrap(),
        "\n[filter \"canary\"]\n\trequired = true\n\tsmudge = ",
        &canary("smudge"),
        "\n\tclean = ",
        &canary("clean"),
        "\n[filter \"lfs\"]\n\trequired = true\n\tprocess = ",
        &canary("process"),
        "\n[diff \"canary\"]\n\ttextconv = ",
        &canary("textconv"),
        "\n[credential]\n\thelper = ",
        &canary("credential"),
        "\n[user]\n\tname = Bob\n\temail = bob@example.com\n",
    ];
    let config_file = world.path().join("bob.gitconfig");
    fs::write(&config_file, config.concat()).unwrap();
    fs::create_dir(template.join("hooks")).unwrap();
    fs::copy(place.path().join("evil.sh"), template.join("hooks/post-checkout")).unwrap();
    let home = world.directory("home-of-bob");
    fs::copy(&config_file, home.join(".gitconfig")).unwrap();
    let bob = stage
        .bob
        .with("GIT_CONFIG_GLOBAL", &config_file)
        .with("HOME", &home)
        .with("BASH_ENV", place.path().join("evil.sh"))
        .with("GIT_EXTERNAL_DIFF", canary("external-diff"));
    let before = (files(&outside), files(&home));

    stage.make_service();
    stage.push();
    // What any project's tests may do.
    let lines = "set -e; cat sub/inner.txt large.bin; git status --short; git log -p >/dev/null; git diff HEAD~1 >/dev/null; \
        echo changed >>new.txt; git commit --quiet --all --message changed; git checkout --quiet -b other; \
        git stash list; git submodule update --init 2>/dev/null && echo 'a submodule came'; git checkout --quiet feature; \
        test ! -e m/.git; git config --get-regexp 'filter|helper' || echo done";
    let command = script(&world, "work", lines);
    let served = stage.start(&bob, &["--once"], &[&command]).wait().success();
    served.says("done · exit status 0");
    let done = stage.said("done");
    let output = stage.output(&done[0]);
    assert_eq!(
        output,
        "inner\nversion https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\ncredential.helper \n"
    );
    assert!(part(&done[0], "com.parler.bundle")["blob"].is_string());
    let fired: Vec<_> = fs::read_dir(&fired)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(fired.is_empty(), "{fired:?}");
    assert_eq!((files(&outside), files(&home)), before);
}

#[test]
fn what_a_command_does_to_its_repository_leads_the_worker_nowhere() {
    let world = world();
    let stage = stage(&world);
    let fired = world.directory("fired");
    let canary = script(&world, "canary", &format!("touch '{}/it'; exec cat", fired.display()));
    let private = world.init("private", "");
    let secret = private.commit("secret", "secret\n");
    stage.make_service();
    stage.push();
    // Settings that would run something in whoever reads the repository next, and a commit on top.
    let lines = format!(
        "echo x >>new.txt; git commit --quiet --all --message one; \
         for key in core.fsmonitor core.sshCommand core.hooksPath diff.external uploadpack.packObjectsHook core.pager \
             core.alternateRefsCommand; do git config $key '{canary}'; done; \
         git config remote.x.url 'ext::{canary}'; git config remote.x.promisor true; git config extensions.partialClone x; \
         git config protocol.allow always; git config pack.packSizeLimit 1"
    );
    let command = script(&world, "settings", &lines);
    stage
        .start(&stage.bob, &["--once"], &[&command])
        .wait()
        .success()
        .says("done");
    assert!(part(&stage.said("done")[0], "com.parler.bundle")["blob"].is_string());
    assert_eq!(fs::read_dir(&fired).unwrap().count(), 0);

    // The history of a repository that only the worker may read, named by its commit.
    stage.push();
    let objects = private.path().join(".git/objects");
    let lines = format!(
        "echo '{}' >.git/objects/info/alternates; \
         git update-ref refs/heads/feature $(git commit-tree -p HEAD -p {secret} -m take HEAD^{{tree}})",
        objects.display()
    );
    let command = script(&world, "take", &format!("mkdir -p .git/objects/info; {lines}"));
    let served = stage.start(&stage.bob, &["--once"], &[&command]).wait().success();
    served.says("what it committed is not sent");
    let done = stage.said("done").pop().unwrap();
    assert!(part(&done, "com.parler.bundle").is_null());
}
