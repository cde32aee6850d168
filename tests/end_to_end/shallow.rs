//! Clones of depth 1, as CI jobs and agents in the cloud have them: what is built on one travels thin, and where nobody
//! could go on from where its history ends, the push is refused or the rest is fetched.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use parler_harness::{Repository, Running, World, end_process, look_for};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};

use super::ended_commands::half_written;
use super::{room_refs, world};

/// A depth-1 clone with a commit of its own, whose base nobody is said to have.
fn below_the_boundary<'w>(world: &'w World, origin: &Repository<'w>) -> Repository<'w> {
    let url = format!("file://{}", origin.path().display());
    let shallow = world.clone_with(&url, "shallow", "--depth=1");
    shallow.git("config parler.base none").success();
    shallow.commit("a.txt", "one\n");
    shallow
}

fn is_shallow(repository: &Repository<'_>) -> bool {
    repository.git("rev-parse --is-shallow-repository").success().out() == "true\n"
}

#[test]
fn what_a_job_builds_on_a_ref_that_it_fetched_by_name_travels_thin() {
    let world = world();
    let origin = world.origin();
    let request = world.clone_of(&origin, "request");
    let merge = request.commit("asked.txt", "for\n");
    request.git("push --quiet origin HEAD:refs/pull/7/merge").success();

    // As the jobs of hosted CI check out what somebody asks to be merged.
    let job = world.init("job", "");
    let url = format!("file://{}", origin.path().display());
    job.git(["remote", "add", "origin", &url]).success();
    job.git("fetch --quiet --depth=1 origin +refs/pull/7/merge:refs/remotes/pull/7/merge")
        .success();
    job.git("checkout --quiet --detach refs/remotes/pull/7/merge").success();

    // Without a commit of its own there is nothing to make a bundle of.
    job.git("push --quiet parler::room/job HEAD:refs/heads/asked").success();
    let fix = job.commit("fix.txt", "it\n");
    let pushed = job
        .user()
        .parler("push --json --room job HEAD:refs/heads/fix")
        .success()
        .json();
    assert_eq!(pushed["bundle"]["prerequisites"], serde_json::json!([merge]));
    assert_eq!(pushed["bundle"]["commits"], 1);
    assert!(is_shallow(&job));

    for (name, options) in [("full", ""), ("other", "--depth=1")] {
        let receiver = world.clone_with(&url, name, options);
        receiver.git("fetch --quiet parler::room/job refs/heads/fix").success();
        assert_eq!(receiver.rev("FETCH_HEAD"), fix, "{name}");
        receiver.fsck();
        receiver
            .git("fetch --quiet parler::room/job refs/heads/asked")
            .success();
        assert_eq!(receiver.rev("FETCH_HEAD"), merge, "{name}");
        assert_eq!(is_shallow(&receiver), !options.is_empty());
    }
}

#[test]
fn where_the_configuration_says_so_the_rest_of_the_history_is_fetched() {
    let world = world();
    let origin = world.origin();
    let shallow = below_the_boundary(&world, &origin);
    shallow.git("config parler.deepen auto").success();
    let before = shallow.refs();
    shallow
        .git("push parler::room/try HEAD:refs/heads/topic")
        .success()
        .warns("parler: fetching the rest of the history from origin (parler.deepen)");
    assert!(!is_shallow(&shallow));
    let mut after = shallow.refs();
    after.retain(|name, _| !name.starts_with("refs/parler/"));
    assert_eq!(after, before, "no ref but the bundle's has moved");
    assert!(!shallow.path().join(".git/FETCH_HEAD").exists());
    let clone = world.clone_with("parler::room/try", "clone", "--branch=topic");
    assert_eq!(clone.rev("HEAD"), shallow.rev("HEAD"));
    clone.fsck();

    // git parler does the same.
    let other = world.clone_with(format!("file://{}", origin.path().display()), "other", "--depth=1");
    other.git("config parler.deepen auto").success();
    other.git("config parler.base none").success();
    other.commit("b.txt", "two\n");
    other
        .user()
        .parler("push --room new HEAD:refs/heads/topic")
        .success()
        .warns("fetching the rest of the history from origin");
    assert!(!is_shallow(&other));
}

#[test]
fn a_server_that_gives_only_what_its_refs_name_is_asked_for_those() {
    let world = world();
    let origin = world.origin();
    let shallow = below_the_boundary(&world, &origin);
    let ahead = world.clone_of(&origin, "ahead");
    ahead.commit("later.txt", "later\n");
    ahead.git("push --quiet origin HEAD:refs/heads/main").success();
    shallow.git("config parler.deepen auto").success();
    // Of this version of git's protocol, a server sends no commit that none of its refs is at.
    shallow.git("config protocol.version 0").success();
    let before = shallow.refs();
    shallow
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    assert!(!is_shallow(&shallow));
    assert_eq!(
        shallow.rev("refs/remotes/origin/main"),
        before["refs/remotes/origin/main"]
    );
    shallow.fsck();
}

#[test]
fn a_history_that_cannot_be_fetched_is_refused_with_the_reason() {
    let world = world();
    let origin = world.origin();
    let shallow = below_the_boundary(&world, &origin);
    shallow.git("config parler.deepen auto").success();
    // A dry run fetches nothing.
    shallow
        .git("push --dry-run parler::room/try HEAD:refs/heads/topic")
        .failure()
        .warns("shallow update not allowed");
    assert!(is_shallow(&shallow));
    shallow
        .git("remote set-url origin file:///nonexistent/origin.git")
        .success();
    let refused = shallow.git("push parler::room/try HEAD:refs/heads/topic").failure();
    refused
        .warns("; fetching the rest failed: git fetch: ")
        .warns(": git fetch --unshallow origin");
    assert!(is_shallow(&shallow));
    shallow
        .user()
        .parler("push --room try HEAD:refs/heads/topic")
        .code(8)
        .warns("fetching the rest failed");
    shallow.git("config parler.base auto").success();
    shallow
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    assert_eq!(room_refs(&shallow.user(), "try").len(), 2);
}

/// Lets `origin` of this clone send the beginning of an answer, and the rest when a byte is written to the pipe.
fn send_slowly(world: &World, shallow: &Repository<'_>) -> std::fs::File {
    let script = world.path().join("slow");
    let text = "git upload-pack \"$@\" | { dd bs=1 count=1500 2>/dev/null; read -r go <\"$0.go\"; cat; }\n";
    std::fs::write(&script, text).unwrap();
    let pipe = world.path().join("slow.go");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let command = format!("sh {}", script.display());
    shallow.git(["config", "remote.origin.uploadpack", &command]).success();
    // Both ends at once: opening one end of a pipe waits for somebody at the other.
    std::fs::OpenOptions::new().read(true).write(true).open(pipe).unwrap()
}

/// Gives `main` a past that fills more than one pipe.
fn lengthen(world: &World, origin: &Repository<'_>) {
    let ahead = world.clone_of(origin, "ahead");
    let mixed = |number: u32| {
        format!(
            "{:08x}\n",
            number.wrapping_mul(number) ^ number.wrapping_mul(2_654_435_761)
        )
    };
    ahead.commit("large.txt", &(0..40_000).map(mixed).collect::<String>());
    ahead.commit("large.txt", "gone\n");
    ahead.git("push --quiet origin HEAD:refs/heads/main").success();
}

/// The helper that runs in this world.
pub(crate) fn helper_of(world: &World) -> Pid {
    let is_helper = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        let program = line.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        program.ends_with(b"git-remote-parler")
    };
    let found = world.processes().into_iter().find(is_helper).expect("a helper");
    Pid::from_raw(i32::try_from(found).unwrap()).unwrap()
}

/// Waits until git has begun to deepen.
fn wait_for_lock(shallow: &Repository<'_>) {
    let lock = shallow.path().join(".git/shallow.lock");
    look_for(|| lock.exists().then_some(()), || "git does not deepen".to_owned());
}

/// A push whose helper gets this signal while it deepens from a remote that says nothing more; its child does not hear of
/// it. A new command finds the remote as it was; the pipe keeps the child waiting.
fn ended_while_it_deepens(world: &World, signal: Signal) -> (Repository<'_>, std::fs::File) {
    let origin = world.origin();
    lengthen(world, &origin);
    let shallow = below_the_boundary(world, &origin);
    shallow.git("config parler.deepen auto").success();
    let pipe = send_slowly(world, &shallow);
    let push = shallow.user().start_git("push parler::room/try HEAD:refs/heads/topic");
    wait_for_lock(&shallow);
    kill_process(helper_of(world), signal).unwrap();
    push.wait().failure();
    shallow.git("config --unset remote.origin.uploadpack").success();
    (shallow, pipe)
}

#[test]
fn a_push_that_is_ended_while_it_deepens_leaves_no_lock() {
    let world = world();
    let (shallow, _pipe) = ended_while_it_deepens(&world, Signal::TERM);
    assert!(!shallow.path().join(".git/shallow.lock").exists());
    shallow
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    assert!(!is_shallow(&shallow));
    shallow.fsck();
}

#[test]
fn a_push_whose_helper_is_killed_while_it_deepens_keeps_no_other_waiting() {
    let world = world();
    let (shallow, _pipe) = ended_while_it_deepens(&world, Signal::KILL);
    assert!(shallow.path().join(".git/shallow.lock").exists(), "the child goes on");
    let begun = Instant::now();
    shallow
        .git("push --quiet parler::room/try HEAD:refs/heads/topic")
        .success();
    // Another command would have been waited for: a minute.
    assert!(begun.elapsed() < Duration::from_secs(45), "{:?}", begun.elapsed());
    assert!(!shallow.path().join(".git/shallow.lock").exists());
    assert!(!is_shallow(&shallow));
    shallow.fsck();
}

/// A push of `topic` that deepens from a remote which says nothing more, and whose lock is known as ours.
#[cfg(target_os = "linux")]
fn deepening<'w>(world: &'w World, shallow: &Repository<'w>) -> (Running, std::fs::File) {
    let pipe = send_slowly(world, shallow);
    let push = shallow.user().start_git("push parler::room/try HEAD:refs/heads/topic");
    wait_for_lock(shallow);
    let is_noted = || {
        let names = std::fs::read_dir(shallow.git_dir()).unwrap();
        let mut claims = names.map(|entry| entry.unwrap()).filter(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("locks.parler-")
        });
        claims.any(|claim| std::fs::read_to_string(claim.path()).is_ok_and(|text| text.contains("held ")))
    };
    look_for(|| is_noted().then_some(()), || "the lock is not noted".to_owned());
    shallow.git("config --unset remote.origin.uploadpack").success();
    (push, pipe)
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_a_killed_deepening_leaves_is_known_and_goes() {
    let world = world();
    let origin = world.origin();
    lengthen(&world, &origin);
    let shallow = below_the_boundary(&world, &origin);
    shallow.git("config parler.deepen auto").success();
    let push = "push --quiet parler::room/try HEAD:refs/heads/topic";
    let (running, _pipe) = deepening(&world, &shallow);
    running.signal_group(Signal::KILL);
    running.wait().either();
    assert!(shallow.git_dir().join("shallow.lock").exists());
    shallow.git(push).success();
    assert_eq!(half_written(&shallow.git_dir()), Vec::<PathBuf>::new());
    assert!(!is_shallow(&shallow));
    shallow.fsck();
}

#[cfg(target_os = "linux")]
#[test]
fn a_push_whose_deepening_child_is_killed_removes_its_lock_and_tries_the_next_way() {
    let world = world();
    let origin = world.origin();
    lengthen(&world, &origin);
    let shallow = below_the_boundary(&world, &origin);
    shallow.git("config parler.deepen auto").success();
    let (running, mut pipe) = deepening(&world, &shallow);
    let is_fetch = |process: &u32| {
        let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"fetch")
    };
    end_process(world.processes().into_iter().find(is_fetch).expect("it deepens"));
    // Its remote, which is a process of this machine, sees that it has gone.
    pipe.write_all(b"go\n").unwrap();
    running.wait().success();
    assert_eq!(half_written(&shallow.git_dir()), Vec::<PathBuf>::new());
    assert!(!is_shallow(&shallow));
    shallow.fsck();
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_of_nobody_who_is_seen_is_named_and_left() {
    let world = world();
    let shallow = below_the_boundary(&world, &world.origin());
    shallow.git("config parler.deepen auto").success();
    let lock = shallow.git_dir().join("shallow.lock");
    std::fs::write(&lock, "").unwrap();
    let push = "push parler::room/try HEAD:refs/heads/topic";
    let said = shallow.git(push).failure();
    let advice = format!("{} is there and nobody is seen to hold it", lock.display());
    assert!(said.err().contains(&advice), "{said:?}");
    assert!(said.err().contains("remove it"), "{said:?}");
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    shallow.git(push).success();
}

#[test]
fn two_pushes_that_deepen_at_once_both_succeed() {
    let world = world();
    let origin = world.origin();
    lengthen(&world, &origin);
    let shallow = below_the_boundary(&world, &origin);
    shallow.git("config parler.deepen auto").success();
    let mut pipe = send_slowly(&world, &shallow);
    let first = shallow.user().start_git("push parler::room/try HEAD:refs/heads/one");
    wait_for_lock(&shallow);
    shallow.git("config --unset remote.origin.uploadpack").success();
    let tracing = shallow.user().with("PARLER_TRACE", "1");
    let second = tracing.start_git("push parler::room/try HEAD:refs/heads/two");
    // Git has refused it for the other's lock.
    second.wait_for_errors(|said| said.contains(" fetch ") && said.contains("exit status: 128"));
    pipe.write_all(b"go\n").unwrap();
    first.wait().success();
    second.wait().success();
    assert!(!is_shallow(&shallow));
    assert_eq!(room_refs(&shallow.user(), "try").len(), 3);
}
