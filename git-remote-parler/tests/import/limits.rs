//! What a git child may take, set anew while it works.

use std::time::Duration;

use git_remote_parler::git::{ChildLimits, Git, GitEnvironment, GitProgram, Side};
use git_remote_parler::import::{ImportError, ImportLimits, PinTiming};
use git_remote_parler::repository::Repository;
use parler_harness::noise;
use parler_protocol::Oid;

use crate::accepted::import;
use crate::rejected::{header, pack_of, packed, varint};
use crate::sandbox::{Repo, Sandbox, program};

const MIB: u64 = 1 << 20;
/// What a child may have for any pack of a few MiB.
const PLAIN_MIB: u64 = 480;

fn limits(data_bytes: u64, cpu: u64) -> ChildLimits {
    ChildLimits {
        data_bytes: Some(data_bytes),
        cpu: Some(Duration::from_secs(cpu)),
    }
}

#[test]
fn a_child_has_the_limits_that_were_set_last() {
    let sandbox = Sandbox::new();
    let script = "#!/bin/sh\nwhile read -r _; do ulimit -Sd; ulimit -St; echo; done\n";
    let program = GitProgram::at(sandbox.script("program", script));
    let git = Git::new(program, GitEnvironment::new(sandbox.variables()));
    let command = git.command(Side::Import, "test").limits(limits(64 * MIB, 70));
    let command = command.patience(Duration::from_secs(60));
    let mut child = command.spawn().unwrap();
    // Less as well as more, of memory. Of time only less: more takes a right that not everybody has.
    let mut told = String::new();
    for (mib, cpu) in [(64, 70), (200, 60), (32, 50), (100, 40)] {
        child.set_limits(limits(mib * MIB, cpu)).unwrap();
        child.feed(b"\n").unwrap();
        child
            .wait_for_answer(format!("{}\n{cpu}\n\n", mib * 1024).as_bytes())
            .unwrap();
        told.push_str(&format!("{}\n{cpu}\n\n", mib * 1024));
    }
    // What is not said stays.
    child.set_limits(ChildLimits::default()).unwrap();
    child.feed(b"\n").unwrap();
    told.push_str(&format!("{}\n40\n\n", 100 * 1024));
    assert_eq!(String::from_utf8(child.finish().unwrap()).unwrap(), told);
    // One that has ended needs none.
    child.set_limits(limits(MIB, 1)).unwrap();
}

/// Imports a pack by a git that takes it and says what memory it may have when all has come. In KiB.
fn memory_for(receiver: &Repo, base: &Oid, objects: &[Vec<u8>]) -> u64 {
    let sandbox = receiver.sandbox;
    let told = sandbox.path("told");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *index-pack*) cat >/dev/null; ulimit -Sd >'{}'; echo no >&2; exit 1;; esac\nexec '{}' \"$@\"\n",
        told.display(),
        program().path().display(),
    );
    let git = sandbox.git_by(GitProgram::at(sandbox.script("measuring-git", &script)));
    let repository = Repository::open(git, &receiver.git_dir()).unwrap();
    let bytes = [header(&[*base], &[("refs/heads/x", &"4".repeat(40))]), pack_of(objects)].concat();
    assert!(
        bytes.len() > 4 << 20,
        "a smaller one is looked through before git is started"
    );
    let refused = import(&repository, ImportLimits::default(), PinTiming::Now, &[&bytes]).map(|done| done.pins);
    assert!(matches!(refused, Err(ImportError::Refused { .. })), "{refused:?}");
    std::fs::read_to_string(told).unwrap().trim().parse().unwrap()
}

#[test]
fn git_gets_room_for_what_it_has_to_hold_when_that_is_seen() {
    const LARGE: u64 = 130 * MIB;
    let sandbox = Sandbox::new();
    let receiver = sandbox.init("receiver", &[]);
    let base = receiver.commit("a", "1");
    let large: Oid = receiver
        .feed(&["hash-object", "-w", "--stdin"], &vec![0; LARGE as usize])
        .trim()
        .parse()
        .unwrap();
    let noise = || packed(3, &[], &noise(5 << 20, 1));
    // A delta on what is here, of which a little more is made than that. What it says is never done here.
    let delta = |made: u64| {
        packed(
            7,
            large.as_bytes(),
            &[varint(LARGE), varint(made), vec![1, b'x']].concat(),
        )
    };
    assert_eq!(memory_for(&receiver, &base, &[noise()]), PLAIN_MIB * 1024);
    // Of each object that is held, what it is made of and what is made: so many bytes for each beyond 128 MiB.
    assert_eq!(
        memory_for(&receiver, &base, &[noise(), delta(LARGE + MIB)]),
        (PLAIN_MIB + 4 * 3) * 1024
    );
    // The largest of them counts, wherever it comes, and what follows takes nothing back.
    assert_eq!(
        memory_for(&receiver, &base, &[noise(), delta(140 * MIB), delta(LARGE), noise()]),
        (PLAIN_MIB + 4 * 12) * 1024
    );
}
