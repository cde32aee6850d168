//! Imports beside other imports, and beside git at work in the same repository.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use git_remote_parler::git::GitProgram;
use git_remote_parler::import::{ImportError, PinTiming};
use git_remote_parler::repository::Repository;
use parler_harness::SetOnDrop;
use parler_protocol::Oid;

use crate::accepted::{import, ways};
use crate::bundle::{bundle_of, bytes_of};
use crate::sandbox::{Repo, Sandbox, program};

/// Bundles of one commit each, one on top of the other.
fn chain(sender: &Repo, count: usize) -> (Oid, Vec<(Oid, Vec<u8>)>) {
    let base = sender.commit("a", "0");
    let repository = sender.sandbox.open(sender);
    let mut before = base;
    let bundle = |number: usize| {
        let tip = sender.commit("a", &format!("{number}\n"));
        let bytes = bytes_of(&bundle_of(&repository, &[("refs/heads/main", tip)], &[before]));
        before = tip;
        (tip, bytes)
    };
    (base, (1..=count).map(bundle).collect())
}

#[test]
fn two_imports_of_one_bundle_agree() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let sender = sandbox.init("sender", &[]);
        let (base, bundles) = chain(&sender, 8);
        let receiver = sandbox.init("receiver", &[]);
        receiver.git(&[
            "fetch",
            "-q",
            sender.directory.to_str().unwrap(),
            &format!("{base}:refs/heads/base"),
        ]);
        for (tip, bytes) in &bundles {
            let start = Barrier::new(3);
            let one = || {
                start.wait();
                import(&sandbox.open(&receiver), limits, PinTiming::Now, &[bytes]).map(|done| done.pins)
            };
            let results: Vec<_> = thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for result in results {
                let pins = result.unwrap();
                assert_eq!(pins.len(), 2);
                assert!(
                    pins.iter()
                        .all(|pin| pin.oid == *tip && receiver.oid(&pin.name) == *tip)
                );
            }
        }
        receiver.git(&["fsck", "--strict"]);
        let left = receiver.git(&["count-objects", "-v"]);
        assert!(left.contains("garbage: 0"), "{left}");
    }
}

#[test]
fn a_repack_meanwhile_takes_nothing_away() {
    for limits in ways() {
        for timing in [PinTiming::Now, PinTiming::Deferred] {
            let sandbox = Sandbox::new();
            let sender = sandbox.init("sender", &[]);
            let (base, bundles) = chain(&sender, 12);
            let receiver = sandbox.init("receiver", &[]);
            receiver.git(&[
                "fetch",
                "-q",
                sender.directory.to_str().unwrap(),
                &format!("{base}:refs/heads/base"),
            ]);
            let done = AtomicBool::new(false);
            thread::scope(|scope| {
                let repacking = scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        receiver.git(&["repack", "-a", "-d", "-q"]);
                    }
                });
                let end = SetOnDrop(&done);
                for (tip, bytes) in &bundles {
                    let repository = sandbox.open(&receiver);
                    let imported = import(&repository, limits, timing, &[bytes]).unwrap();
                    let pins = if timing == PinTiming::Deferred {
                        receiver.git(&["repack", "-a", "-d", "-q"]);
                        git_remote_parler::pins::commit(&repository, imported).unwrap()
                    } else {
                        imported.pins
                    };
                    assert_eq!(receiver.oid(&pins[0].name), *tip);
                }
                drop(end);
                repacking.join().unwrap();
            });
            receiver.git(&["fsck", "--strict"]);
        }
    }
}

/// `git prune --expire=now` removes what is in a quarantine, whoever uses it.
#[test]
fn what_is_removed_between_its_proof_and_its_move_is_not_imported() {
    for limits in ways() {
        let sandbox = Sandbox::new();
        let sender = sandbox.init("sender", &[]);
        let (base, bundles) = chain(&sender, 1);
        let (_, bytes) = &bundles[0];
        let receiver = sandbox.init("receiver", &[]);
        let from = sender.directory.to_str().unwrap();
        receiver.git(&["fetch", "-q", from, &format!("{base}:refs/heads/base")]);
        receiver.has_git_write();
        let before = receiver.git(&["count-objects", "-v"]);
        // The walk is what proves; what is plain has been proven before git has it.
        let script = format!(
            "#!/bin/sh\n'{}' \"$@\"\ncode=$?\ncase \" $* \" in\n\
             *' unpack-objects '*|*' index-pack '*) rm -rf \"$GIT_OBJECT_DIRECTORY\"/pack/* \"$GIT_OBJECT_DIRECTORY\"/??;;\nesac\nexit $code\n",
            program().path().display()
        );
        let git = sandbox.git_by(GitProgram::at(sandbox.script("pruning-git", &script)));
        let repository = Repository::open(git, &receiver.git_dir()).unwrap();
        let error = import(&repository, limits, PinTiming::Deferred, &[bytes]).unwrap_err();
        assert!(matches!(error, ImportError::Storage(_)), "{error}");
        assert_eq!(receiver.git(&["count-objects", "-v"]), before);
        import(&sandbox.open(&receiver), limits, PinTiming::Now, &[bytes]).unwrap();
        receiver.git(&["fsck", "--strict"]);
    }
}
