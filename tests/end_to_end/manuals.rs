//! Manual pages and completion as people meet them: through man, git and the shells themselves, where they are there.

use std::fs;
use std::path::{Path, PathBuf};

use parler_harness::{Agent, Answer, World};

use super::world;

fn user(world: &World) -> Agent<'_> {
    // What the tests themselves were started with says nothing about this world's user.
    world.user().within(world.directory("place"))
}

/// Whether a program is on this machine.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    if !there {
        println!("no {program} here: nothing is shown with it");
    }
    there
}

fn pages(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut pages: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    pages
}

#[test]
fn installed_pages_are_found_by_man_and_git() {
    let world = world();
    let user = user(&world);
    let installed = user.parler("man --install --json").success();
    let told = installed.json();
    // Beside the directory of the program, where man looks.
    let manual = world.path().join("share/man");
    assert_eq!(told["manual"], manual.to_str().unwrap());
    assert_eq!(told["found"], true);
    installed.warns_no("MANPATH");
    let files = pages(&manual.join("man1"));
    assert_eq!(told["changed"], files.len());
    // Again: nothing to do.
    let again = user.parler("man --install --json").success().json();
    assert_eq!(again["changed"], 0);
    if has("man") {
        let man = user.with("PAGER", "cat").with("MANPAGER", "cat").with("MANWIDTH", "80");
        for (program, arguments) in [
            ("man", "git-remote-parler"),
            ("man", "git-parler-recv"),
            ("git", "parler --help"),
            ("git", "help parler"),
        ] {
            let shown = man.run(program, arguments).success();
            shown.says("SYNOPSIS").says("parler");
        }
    }
    // A page of somebody else stays, and what is ours goes.
    let theirs = manual.join("man1/git-parler.1");
    fs::write(&theirs, "theirs").unwrap();
    let refused = user.parler("man --install").code(6);
    assert!(refused.one_error_line().contains("git-parler.1"), "{refused:?}");
    let removed = user.parler("man --remove --json").success().json();
    assert!(removed["removed"].as_array().unwrap().len() >= files.len() - 1);
    assert_eq!(pages(&manual.join("man1")), [theirs]);
    assert_eq!(
        user.parler("man --remove --json").success().json()["removed"],
        serde_json::json!([])
    );
}

#[test]
fn pages_that_man_would_not_find_say_what_to_add() {
    let world = world();
    let user = user(&world).with("MANPATH", "/usr/share/man");
    let installed = user.parler("man --install").success();
    let manual = world.path().join("share/man");
    installed.warns(&format!("export MANPATH=\"{}:\"", manual.display()));
    // Somebody who packs them gets the pages and nothing else.
    let pack = world.path().join("pack/share/man");
    let packed = user
        .parler(["man", "--install", "--json", "--dir", pack.to_str().unwrap()])
        .success();
    assert_eq!(packed.json()["completions"], serde_json::json!([]));
    packed.warns_no("MANPATH");
    assert_eq!(pages(&pack.join("man1")).len(), pages(&manual.join("man1")).len());
}

#[test]
fn every_page_is_clean() {
    let world = world();
    let user = user(&world);
    let directory = world.path().join("pages");
    user.parler(["man", "--install", "--dir", directory.to_str().unwrap()])
        .success();
    let files = pages(&directory.join("man1"));
    assert!(files.len() > 15);
    for file in &files {
        let file = file.to_str().unwrap();
        if has("mandoc") {
            let lint = user.run("mandoc", ["-Tlint", "-Wwarning", file]).either();
            assert_eq!(lint.out(), "", "{lint:?}");
        }
        if has("groff") {
            let lint = user
                .run("groff", ["-Kutf8", "-ww", "-man", "-z", "-Tutf8", file])
                .success();
            assert_eq!(lint.err(), "", "{lint:?}");
        }
    }
}

#[test]
fn a_page_is_named_by_its_verb() {
    let world = world();
    let user = user(&world);
    user.parler("man recv")
        .success()
        .says(".SH SYNOPSIS")
        .says("TH GIT-PARLER-RECV 1");
    user.parler("man").success().says(".SH \"EXIT STATUS\"");
    user.parler("man git-remote-parler").success().says("refs/parler/");
    let refused = user.parler("man frobnicate").code(3);
    assert!(refused.one_error_line().contains("frobnicate"), "{refused:?}");
    user.parler("man recv --install").code(2).one_error_line();
    // It needs no repository, no key and no hub, and leaves nothing behind.
    assert!(world.processes().is_empty());
    assert!(fs::read_dir(world.parler_home()).unwrap().next().is_none());
}

/// What bash completes a command line with, through the function that is registered for its first word.
fn completed(user: &Agent<'_>, git: &str, line: &str) -> Answer {
    let script = format!(
        r#"
        source {git}
        source <(git parler completion bash)
        line='{line}'
        COMP_WORDS=($line)
        [[ $line == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_LINE=$line COMP_POINT=${{#line}}
        complete -p "${{COMP_WORDS[0]}}" > registered
        [[ $(< registered) =~ ' -F '([^ ]*) ]]
        "${{BASH_REMATCH[1]}}" "${{COMP_WORDS[0]}}" "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\n' "${{COMPREPLY[@]}}"
        "#
    );
    user.run("bash", ["-c", &script]).success()
}

#[test]
fn bash_completes_verbs_and_options_through_gits_own_completion() {
    let git = "/usr/share/bash-completion/completions/git";
    if !has("bash") || !Path::new(git).is_file() {
        println!("no completion of git for bash here");
        return;
    }
    let world = world();
    let user = user(&world);
    let lines = |words: &str| -> Vec<String> {
        let answer = completed(&user, git, words);
        answer.out().lines().map(str::to_owned).collect()
    };
    for line in ["git parler rec", "git-parler rec"] {
        assert_eq!(
            lines(line).iter().map(|word| word.trim()).collect::<Vec<_>>(),
            ["recv"],
            "{line}"
        );
    }
    assert!(lines("git parler ").contains(&"handoff ".to_owned()));
    // Behind git's own options too, and the blank behind a word is there.
    assert_eq!(lines("git -C /tmp parler recv --wat"), ["--watch "]);
    assert_eq!(lines("git parler --room try hando"), ["handoff "]);
    assert_eq!(lines("git parler hub sto"), ["stop "]);
    assert!(lines("git parler send --").contains(&"--file ".to_owned()));
}

#[test]
fn each_shell_reads_its_script() {
    let world = world();
    let user = user(&world);
    for shell in ["bash", "fish", "zsh"] {
        let script = user.parler(format!("completion {shell}")).success();
        let file = world.path().join(format!("script.{shell}"));
        fs::write(&file, script.out()).unwrap();
        if has(shell) {
            user.run(shell, ["-n", file.to_str().unwrap()]).success();
        }
    }
    // How a hub's process is started is nobody's to complete.
    for shell in ["bash", "fish", "zsh"] {
        let script = user.parler(format!("completion {shell}")).success();
        for hidden in ["run start", "'run:", "\"run\""] {
            assert!(!script.out().contains(hidden), "{shell}: {hidden}");
        }
        script.says("status");
    }
    let refused = user.parler("completion powershell").code(2);
    assert!(refused.one_error_line().contains("bash, fish, zsh"), "{refused:?}");
}

#[test]
fn what_is_installed_is_where_the_shells_look() {
    let world = world();
    let user = user(&world);
    let told = user.parler("man --install --json").success().json();
    let files: Vec<_> = told["completions"].as_array().unwrap().iter().collect();
    for shell in ["bash", "fish", "zsh"] {
        assert_eq!(files.iter().any(|file| file["shell"] == shell), has(shell), "{shell}");
    }
    let bash = world
        .path()
        .join("home/.local/share/bash-completion/completions/git-parler");
    assert_eq!(bash.is_file(), has("bash"));
    if has("fish") {
        let completed = user.run("fish", ["-c", "complete -C 'git-parler hando'"]).success();
        completed.says("handoff");
    }
    user.parler("man --remove").success();
    assert!(!bash.exists());
}
