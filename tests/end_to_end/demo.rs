//! The demo, as a new user runs it: one program on disk, any repository or none, nothing left behind.

use std::fs;
use std::path::Path;

use parler_harness::{Agent, Answer, Repository, Snapshot, World, copy_executable, large_history};
use rustix::process::Signal;

use super::{CACHE, world};

/// Somebody who has `git-parler` alone, in a directory that is not on PATH, and git.
fn newcomer(world: &World) -> (Agent<'_>, String) {
    let alone = world.directory("alone");
    let program = alone.join("git-parler");
    copy_executable(world.program(), &program);
    let path = std::env::var("PATH").unwrap();
    let clear = path
        .split(':')
        .filter(|directory| !Path::new(directory).join("git-parler").exists())
        .collect::<Vec<_>>()
        .join(":");
    let agent = world.user().with("PATH", clear).within(&alone);
    (agent, program.to_str().unwrap().to_owned())
}

#[track_caller]
fn assert_shows_everything(answer: &Answer) {
    answer
        .says("git push parler::room/demo")
        .says("HANDOFF TO YOU from alice")
        .says("signature valid");
    answer
        .says("refs/parler/")
        .says("1 file changed")
        .says("git parler apply");
}

/// Nothing of the demo is left in this world.
#[track_caller]
fn assert_gone(world: &World) {
    let left: Vec<_> = fs::read_dir(world.temporary()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(world.processes(), [0_u32; 0]);
    assert_eq!(
        fs::read_dir(world.parler_home()).unwrap().count(),
        0,
        "the user's own agents and hub are not the demo's"
    );
}

#[test]
fn it_runs_where_there_is_no_repository_with_one_program_alone() {
    let world = world();
    let (agent, program) = newcomer(&world);
    let demo = agent.run(program, "demo").success();
    assert_shows_everything(&demo);
    assert_gone(&world);
}

fn repositories(world: &World) -> Vec<(&'static str, Repository<'_>)> {
    let origin = world.origin();
    let url = format!("file://{}", origin.path().display());
    let detached = world.clone_of(&origin, "detached");
    detached.git("checkout --quiet --detach HEAD~1").success();
    let dirty = world.clone_of(&origin, "dirty");
    dirty.write("src/lib.rs", "changed\n");
    dirty.write("basket.md", "mine\n");
    dirty.git("add src/lib.rs").success();
    dirty.git("worktree add --quiet ../linked -b linked").success();
    let unborn = world.init("unborn", "");
    let odd = world.clone_of(&origin, "with blank and ü");
    odd.git("config core.hooksPath /nonexistent").success();
    odd.git("config commit.gpgSign true").success();
    odd.git("config push.gpgSign if-asked").success();
    odd.write(".gitignore", "*\n");
    vec![
        ("shallow", world.clone_with(&url, "shallow", "--depth=1")),
        ("detached", detached),
        ("dirty", dirty),
        ("linked", world.repository(world.path().join("linked"))),
        ("bare", origin),
        ("unborn", unborn),
        ("sha256", {
            let repository = world.init("sha256", "--object-format=sha256");
            repository.commit("a.txt", "one\n");
            repository
        }),
        ("reftable", world.clone_with(&url, "reftable", "--ref-format=reftable")),
        ("odd", odd),
    ]
}

#[test]
fn it_runs_in_every_kind_of_repository_and_only_reads_it() {
    let world = world();
    let repositories = repositories(&world);
    let (agent, program) = newcomer(&world);
    for (number, (kind, repository)) in repositories.iter().enumerate() {
        println!("{kind}");
        let before = Snapshot::of(repository);
        // In it, and from elsewhere, in turn.
        let demo = match number % 2 {
            0 => agent.at(repository).run(&program, "demo"),
            _ => agent.run(&program, ["demo", "--repo", repository.path().to_str().unwrap()]),
        };
        assert_shows_everything(&demo.success());
        Snapshot::of(repository).assert_same_as(&before, &[]);
        assert_gone(&world);
    }
}

#[test]
fn it_runs_on_a_long_history() {
    let world = world();
    let long = world.clone_with(large_history(&world, CACHE, 20_000), "long", "");
    let before = Snapshot::of(&long);
    let (agent, program) = newcomer(&world);
    let demo = agent.at(&long).run(program, "demo").success();
    assert_shows_everything(&demo);
    Snapshot::of(&long).assert_same_as(&before, &[]);
    assert_gone(&world);
}

#[test]
fn it_is_a_verb_of_git_too() {
    let world = world();
    let demo = world.user().parler("demo").success();
    assert_shows_everything(&demo);
    assert_gone(&world);
}

#[test]
fn ctrl_c_cleans_up_at_every_moment() {
    let world = world();
    let work = world.clone_of(&world.origin(), "work");
    let before = Snapshot::of(&work);
    let (agent, program) = newcomer(&world);
    for moment in ["parler connect", "git push", "HANDOFF TO YOU", "git diff"] {
        let demo = agent.at(&work).start(&program, "demo");
        demo.wait_for_output(|output| output.contains(moment));
        demo.signal_group(Signal::INT);
        let answer = demo.wait().either();
        assert!(!answer.is_success(), "{moment}: {answer:?}");
        println!("{moment}: {:?} {:?}", answer.exit_code(), answer.signal());
        assert_gone(&world);
    }
    Snapshot::of(&work).assert_same_as(&before, &[]);
}

#[test]
fn a_repository_that_is_none_is_named() {
    let world = world();
    let (agent, program) = newcomer(&world);
    let refused = agent
        .run(program, ["demo", "--repo", world.directory("empty").to_str().unwrap()])
        .code(128);
    assert!(refused.one_error_line().contains("not a git repository"), "{refused:?}");
    assert_gone(&world);
}
