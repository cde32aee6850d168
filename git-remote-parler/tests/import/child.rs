//! Git children behave badly in every way, and the caller gets an error, in time, and no child is left.

use std::fs;
use std::time::{Duration, Instant};

use git_remote_parler::git::{ChildLimits, Git, GitCommand, GitEnvironment, GitError, GitProgram, Leash, Side};

use crate::sandbox::Sandbox;

/// A command whose program is this shell text; its arguments are ignored.
fn child(sandbox: &Sandbox, text: &str) -> GitCommand {
    program(sandbox, text).command(Side::Push, "test")
}

fn program(sandbox: &Sandbox, text: &str) -> Git {
    let script = sandbox.script("program", &format!("#!/bin/sh\n{text}\n"));
    Git::new(GitProgram::at(script), GitEnvironment::new(sandbox.variables()))
}

#[test]
fn input_and_output_larger_than_any_pipe_do_not_block_each_other() {
    let sandbox = Sandbox::new();
    let input: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let answer = child(&sandbox, "cat; head -c 3000000 /dev/zero >&2")
        .run_with(&input)
        .unwrap();
    assert!(answer == input);

    let mut streaming = child(&sandbox, "cat").spawn().unwrap();
    streaming.feed_while_reading(input.clone());
    let (mut read, mut piece) = (Vec::new(), vec![0; 10_000]);
    loop {
        match streaming.read_output(&mut piece).unwrap() {
            0 => break,
            count => read.extend_from_slice(&piece[..count]),
        }
    }
    streaming.finish().unwrap();
    assert!(read == input);
}

#[test]
fn a_failure_is_told_by_the_childs_own_words() {
    let sandbox = Sandbox::new();
    let error = child(
        &sandbox,
        "echo 'hint: x' >&2; printf 'fatal: no \\033[31m such thing\\n' >&2; exit 3",
    )
    .run()
    .unwrap_err();
    assert_eq!(error.to_string(), "git test: no \\u{1b}[31m such thing");
    assert!(matches!(error, GitError::Failed { code: Some(3), .. }));
    // Also when it ends before it has read its input.
    let input = vec![0; 1 << 20];
    let error = child(&sandbox, "echo 'error: enough' >&2; exit 1")
        .run_with(&input)
        .unwrap_err();
    assert_eq!(error.to_string(), "git test: enough");
    let error = child(&sandbox, "kill -KILL $$").run().unwrap_err();
    assert_eq!(error.to_string(), "git test was ended by signal 9 (SIGKILL)");
    // What it does to itself is its own doing.
    let error = child(&sandbox, "kill -SEGV $$").run().unwrap_err();
    assert!(matches!(error, GitError::Failed { code: None, .. }), "{error}");
    assert!(error.to_string().contains("signal: 11"), "{error}");
    let error = child(&sandbox, "exec 0<&-; true").run_with(&input).unwrap_err();
    assert!(matches!(error, GitError::Pipe { .. }), "{error}");
    let nothing = Git::new(GitProgram::at("/nonexistent/git"), GitEnvironment::default());
    let error = nothing.command(Side::Import, "version").run().unwrap_err();
    assert!(matches!(error, GitError::Spawn { .. }), "{error}");
}

#[test]
fn a_child_that_never_ends_is_ended() {
    let sandbox = Sandbox::new();
    let pid_file = sandbox.path("pid");
    for text in ["exec sleep 1000", "exec >&- 2>&-; exec sleep 1000", "exec yes >&2"] {
        let began = Instant::now();
        let text = format!("echo $$ > '{}'; {text}", pid_file.display());
        let error = child(&sandbox, &text)
            .patience(Duration::from_millis(300))
            .run()
            .unwrap_err();
        assert!(matches!(error, GitError::TooSlow { .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(60));
        assert!(!is_alive(&fs::read_to_string(&pid_file).unwrap()));
    }
    let error = child(&sandbox, "exec yes").answer_bytes(100_000).run().unwrap_err();
    assert!(
        matches!(error, GitError::TooMuchOutput { most: 100_000, .. }),
        "{error}"
    );
}

#[test]
fn children_on_a_leash_end_with_it_and_others_do_not() {
    let sandbox = Sandbox::new();
    let git = program(&sandbox, "echo begun; exec cat");
    let mut other = git.command(Side::Push, "other").spawn().unwrap();
    let leash = Leash::default();
    let held = git.on_leash(leash.clone());
    let mut first = held.command(Side::Push, "first").spawn().unwrap();
    for child in [&mut other, &mut first] {
        child.wait_for_answer(b"begun\n").unwrap();
    }
    leash.end();
    let is_ended = |error| matches!(error, GitError::Ended { .. });
    assert!(is_ended(first.wait_for_answer(b"never said").unwrap_err()));
    assert!(is_ended(held.command(Side::Push, "later").run().unwrap_err()));
    assert_eq!(other.finish().unwrap(), b"begun\n");
}

#[test]
fn a_child_that_is_ended_may_remove_its_locks() {
    let sandbox = Sandbox::new();
    let receiver = sandbox.init("receiver", &[]);
    let commit = receiver.commit("a", "1\n");
    let git = sandbox.open(&receiver).git().clone();
    let mut update = git
        .command_in(Side::Import, &receiver.git_dir(), "update-ref")
        .arg("--stdin")
        .patience(Duration::from_millis(500))
        .spawn()
        .unwrap();
    let lines = format!("start\nupdate refs/parler/x {commit}\nprepare\n");
    update.feed(lines.as_bytes()).unwrap();
    update.wait_for_answer(b"prepare: ok\n").unwrap();
    let lock = receiver.git_dir().join("refs/parler/x.lock");
    assert!(lock.exists());
    let error = update.wait_for_answer(b"never said").unwrap_err();
    assert!(matches!(error, GitError::TooSlow { .. }), "{error}");
    assert!(!lock.exists());

    // One that does not care is ended all the same.
    let began = Instant::now();
    let deaf = child(&sandbox, "trap '' TERM; exec sleep 1000").patience(Duration::from_millis(300));
    assert!(matches!(deaf.run().unwrap_err(), GitError::TooSlow { .. }));
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_dropped_child_is_gone() {
    let sandbox = Sandbox::new();
    let mut running = child(&sandbox, "echo $$; exec sleep 1000").spawn().unwrap();
    let mut pid = [0; 32];
    let read = running.read_output(&mut pid).unwrap();
    let pid = str::from_utf8(&pid[..read]).unwrap().to_owned();
    assert!(is_alive(&pid));
    drop(running);
    assert!(!is_alive(&pid));
}

fn is_alive(pid: &str) -> bool {
    fs::exists(format!("/proc/{}", pid.trim())).unwrap()
}

#[test]
fn each_side_sees_its_own_environment() {
    let sandbox = Sandbox::new();
    let script = sandbox.script("program", "#!/bin/sh\nenv; cat /proc/self/status; echo \"$*\"\n");
    let mut variables = sandbox.variables();
    variables.push(("GIT_CONFIG_PARAMETERS".into(), "'a.b'='c'".into()));
    let git = Git::new(GitProgram::at(script), GitEnvironment::new(variables));
    let seen = |side| String::from_utf8(git.command(side, "test").arg("argument").run().unwrap()).unwrap();
    let (push, import) = (seen(Side::Push), seen(Side::Import));
    assert!(push.contains("GIT_CONFIG_PARAMETERS") && push.ends_with("\ntest argument\n"));
    let names = |text: &str| -> Vec<String> {
        let mut names: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("GIT_"))
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        names
    };
    assert_eq!(
        names(&import),
        [
            "GIT_ALLOW_PROTOCOL=none",
            "GIT_ATTR_NOSYSTEM=1",
            "GIT_CONFIG_GLOBAL=/dev/null",
            "GIT_CONFIG_NOSYSTEM=1",
            "GIT_CONFIG_SYSTEM=/dev/null",
            "GIT_GRAFT_FILE=/dev/null/grafts",
            "GIT_NO_LAZY_FETCH=1",
            "GIT_NO_REPLACE_OBJECTS=1",
            "GIT_TERMINAL_PROMPT=0",
        ]
    );
    assert!(import.contains("-c core.hooksPath=/dev/null"));
    // A broken pipe ends git as it always has: Rust ignores the signal, its children must not.
    let ignored = import.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap();
    assert_eq!(
        u64::from_str_radix(ignored, 16).unwrap() & (1 << 12),
        0,
        "SIGPIPE is ignored"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn limits_hold() {
    let sandbox = Sandbox::new();
    let limits = ChildLimits {
        data_bytes: Some(123 << 20),
        cpu: Some(Duration::from_secs(77)),
    };
    // The limits are set right after the start and before the first byte: wait for that.
    let text = "read line; cat /proc/self/limits";
    let seen = String::from_utf8(child(&sandbox, text).limits(limits).run_with(b"go\n").unwrap()).unwrap();
    let limit = |name: &str| seen.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(limit("Max data size").contains(&(123 << 20).to_string()), "{seen}");
    assert!(limit("Max cpu time").contains(" 77 "), "{seen}");
}
