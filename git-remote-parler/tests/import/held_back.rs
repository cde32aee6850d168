//! What git has been given when a bundle turns out to be another: never all of a pack, so that no child can have ended
//! well.

use std::fs;

use git_remote_parler::git::GitProgram;
use git_remote_parler::import::{Import, ImportError, ImportLimits, Incoming};
use git_remote_parler::repository::Repository;
use parler_harness::noise;
use parler_protocol::BundleId;

use crate::accepted::packs;
use crate::sandbox::{Repo, Sandbox, program};
use crate::snapshot::Snapshot;

/// A pack's checksum.
const HELD_BACK: usize = 20;

/// A whole bundle with a file that does not compress, and where its pack begins.
fn bundle(sender: &Repo, noise_bytes: usize) -> (Vec<u8>, usize) {
    fs::write(sender.directory.join("noise"), noise(noise_bytes, 0)).unwrap();
    sender.commit("a", &noise_bytes.to_string());
    let file = sender.sandbox.path("noise.bundle");
    sender.git(&["bundle", "create", "-q", file.to_str().unwrap(), "main"]);
    let bytes = fs::read(file).unwrap();
    let pack = bytes.windows(4).position(|four| four == b"PACK").unwrap();
    (bytes, pack)
}

/// Refuses the bytes under the id of others.
#[track_caller]
fn is_another(repository: &Repository, limits: ImportLimits, bytes: &[u8]) {
    let incoming = Incoming {
        id: BundleId::of(b"other"),
        size: bytes.len() as u64,
        expected: None,
        short_pin: true,
        reader: &mut &bytes[..],
    };
    let mut import = Import::begin(repository, limits).unwrap();
    let error = import.add(incoming).cloned().unwrap_err();
    assert!(matches!(error, ImportError::WrongId { .. }), "{error}");
}

#[test]
fn a_large_pack_is_given_to_git_up_to_its_checksum_and_no_further() {
    let sandbox = Sandbox::new();
    let (sender, receiver) = (sandbox.init("sender", &[]), sandbox.init("receiver", &[]));
    let (bytes, pack) = bundle(&sender, 5 << 20);
    let pack = &bytes[pack..];
    let given = sandbox.path("given");
    // Takes what surely comes, and what else has come when it is told to end. `head` takes no byte more than it is told.
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *index-pack*) ;; *) exec '{git}' \"$@\";; esac\n\
         trap \"dd iflag=nonblock bs=1M 2>/dev/null >>'{given}'; kill \\$!; exit\" TERM\n\
         head -c {surely} >'{given}'\nsleep 600 >/dev/null 2>&1 &\nwait\n",
        git = program().path().display(),
        given = given.display(),
        surely = pack.len() - HELD_BACK,
    );
    let git = sandbox.git_by(GitProgram::at(sandbox.script("taking-git", &script)));
    let repository = Repository::open(git, &receiver.git_dir()).unwrap();
    let before = Snapshot::of(&receiver);
    is_another(&repository, packs(), &bytes);
    let given = fs::read(given).unwrap();
    assert!(given == pack[..pack.len() - HELD_BACK], "{} bytes", given.len());
    Snapshot::of(&receiver).assert_is(&before, "another bundle");
}

#[test]
fn a_small_pack_is_not_given_to_git_at_all() {
    let sandbox = Sandbox::new();
    let (sender, receiver) = (sandbox.init("sender", &[]), sandbox.init("receiver", &[]));
    // Such as are joined with others, and such as are not.
    for noise_bytes in [1 << 10, 1 << 20] {
        let (bytes, _) = bundle(&sender, noise_bytes);
        for limits in [ImportLimits::default(), packs()] {
            let repository = Repository::open(sandbox.counting_git("starts"), &receiver.git_dir()).unwrap();
            let starts = sandbox.lines("starts").len();
            is_another(&repository, limits, &bytes);
            let started = sandbox.lines("starts").split_off(starts);
            assert_eq!(started, [] as [&str; 0]);
        }
    }
}
