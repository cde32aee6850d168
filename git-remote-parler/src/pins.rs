//! Pins: refs under `refs/parler/` that say which bundle brought which commits, and keep gc away from them. Written in
//! one transaction, all or none: by git, or, where there are many, as lines of `packed-refs`. No other ref is ever
//! written here.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;

use parler_protocol::{BundleId, Oid};

use crate::bundle::HeaderRef;
use crate::git::{GitChild, GitCommand, GitError, Side};
use crate::import::{ImportError, Imported};
use crate::lock_claim::{self, HeldRefs, LockClaim};
use crate::packed_refs::{Haste, NewRef, Obstacle, PackedRefs};
use crate::repository::{LocalRef, Repository, RepositoryError};

mod peeled;

use peeled::Peeler;

/// `packed-refs` is written anew for a few pins where it has at most so many bytes. A larger one the disk takes longer for
/// than git takes to make a file of each.
const SMALL_PACKED_REFS: u64 = 64 << 10; // 64 KiB

/// Where pins live.
pub const PIN_ROOT: &str = "refs/parler/";

/// Another transaction may hold a lock for a moment; git's own patience is a tenth of a second.
const LOCK_PATIENCE: [&str; 3] = [
    "core.filesRefLockTimeout=10000",
    "core.packedRefsTimeout=10000",
    "reftable.lockTimeout=10000",
];

/// More pins than this in one transaction are many: git makes a file of each, and waits for the disk after each.
const MANY: usize = 100;

/// Hands many files to the disk without waiting for it after each: we wait once for all, before any ref has its name.
const WITHOUT_WAITING: &str = "core.fsyncMethod=writeout-only";

/// A ref of this repository that names what a bundle brought.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    /// `refs/parler/..`.
    pub name: String,
    /// What the bundle's ref names.
    pub oid: Oid,
}

/// The pins of a bundle: for one ref `refs/parler/<64 hex>`, for several `refs/parler/<64 hex>/heads/<name>` and so on,
/// and the same under the first 12 digits when `short` (those come first). `HEAD` is called `HEAD`, and is left out where
/// another ref names the same: then it only says which of them its author had checked out.
pub fn pins_of(id: &BundleId, refs: &[HeaderRef], short: bool) -> Vec<Pin> {
    let bases = short.then(|| id.short()).into_iter().chain([id.to_string()]);
    let is_named = |tip: &&HeaderRef| {
        let mut others = refs.iter().filter(|other| other.name.without_refs() != "HEAD");
        tip.name.as_str() != "HEAD" || !others.any(|other| other.oid == tip.oid)
    };
    let named: Vec<&HeaderRef> = refs.iter().filter(is_named).collect();
    let below = |base: String| {
        let count = named.len();
        named.clone().into_iter().map(move |tip| {
            let name = match count {
                1 => format!("{PIN_ROOT}{base}"),
                _ => format!("{PIN_ROOT}{base}/{}", tip.name.without_refs()),
            };
            Pin { name, oid: tip.oid }
        })
    };
    bases.flat_map(below).collect()
}

/// Pins what is here already: a bundle that this repository made. One child. In a hook that may yet decline what was
/// pushed nothing is pinned: git throws those objects away then, and refs at them would break the repository.
pub fn pin(repository: &Repository, id: &BundleId, refs: &[HeaderRef], short: bool) -> Result<Vec<Pin>, PinError> {
    if repository.git().environment().get("GIT_QUARANTINE_PATH").is_some() {
        return Ok(Vec::new());
    }
    let (base, below) = (
        format!("{PIN_ROOT}{}", id.short()),
        format!("{PIN_ROOT}{}/", id.short()),
    );
    let mut present = if short { repository.refs(&below)? } else { Vec::new() };
    if short && let Some(oid) = repository.find_ref(&base)? {
        present.push(LocalRef { name: base, oid });
    }
    let present: Vec<&LocalRef> = present.iter().collect();
    let pins = without_taken(pins_of(id, refs, short), id, &present);
    let update_ref = repository.command(Side::Import, "update-ref");
    Transaction::prepare(repository, update_ref, &pins, &[], None)?.commit()?;
    pack_if_many(repository, pins.len());
    Ok(pins)
}

/// Writes the pins of an import that was finished with [`crate::import::PinTiming::Deferred`], then lets go of its
/// `.keep` files.
pub fn commit(repository: &Repository, mut imported: Imported) -> Result<Vec<Pin>, ImportError> {
    imported.write_pins(repository)?;
    Ok(std::mem::take(&mut imported.pins))
}

/// Puts pins into one file each time that a hundred more lie there as files of their own, which cost every git command
/// after this one; git does it only when it tidies objects. So no harm is done where it fails: before 2.42 git packs all
/// refs or none. `written` is how many pins were written just now; whoever imports says it at the end, once for all imports.
pub fn pack_if_many(repository: &Repository, written: usize) {
    let directory = repository.common_dir().join(PIN_ROOT);
    let files = std::fs::read_dir(directory).map_or(0, Iterator::count);
    if files / MANY > files.saturating_sub(written) / MANY {
        let _ = repository
            .command(Side::Import, "pack-refs")
            .args(["--prune", &format!("--include={PIN_ROOT}*")])
            .run();
    }
}

/// The pins without the short ones when another bundle whose id begins alike holds the short name.
pub(crate) fn without_taken(mut pins: Vec<Pin>, id: &BundleId, present: &[&LocalRef]) -> Vec<Pin> {
    let (base, below) = (
        format!("{PIN_ROOT}{}", id.short()),
        format!("{PIN_ROOT}{}/", id.short()),
    );
    let is_short = |name: &str| name == base || name.starts_with(&below);
    let is_ours = |local: &LocalRef| pins.iter().any(|pin| pin.name == local.name && pin.oid == local.oid);
    if present.iter().any(|local| is_short(&local.name) && !is_ours(local)) {
        pins.retain(|pin| !is_short(&pin.name));
    }
    pins
}

/// A ref transaction that is prepared: it will succeed, and nothing is written yet. Dropping it writes nothing.
pub(crate) struct Transaction {
    /// The pins, unless git writes them.
    packed: Option<PackedRefs>,
    /// What is to be as it was, where we hold the locks of that ourselves.
    held: Option<HeldRefs>,
    /// Holds the locks of what is to be as it was, and of the pins that it writes. None where there is neither.
    child: Option<GitChild>,
    /// What tells whose the child's locks are.
    claim: Option<LockClaim>,
    /// Lies on the disk that git was told not to wait for.
    unflushed: Option<File>,
}

impl Transaction {
    /// Locks the pins and checks that each ref of `verify` still has its value. `command` is an `update-ref`, which may
    /// be told of a quarantine: the pins' objects must be visible to it. Those that are not in the repository are in
    /// `quarantine`.
    pub(crate) fn prepare(
        repository: &Repository,
        mut command: GitCommand,
        pins: &[Pin],
        verify: &[LocalRef],
        quarantine: Option<&Path>,
    ) -> Result<Self, PinError> {
        if verify.is_empty() {
            // What was left by who was killed. A claim of our own looks for it, too.
            lock_claim::sweep(repository.common_dir());
        }
        let are_many = pins.len() > MANY;
        let are_packed = are_many || is_small(&repository.common_dir().join("packed-refs"));
        let held = match verify {
            [] => None,
            verify => are_packed.then(|| HeldRefs::take(repository, verify)).flatten(),
        };
        let are_held = verify.is_empty() || held.is_some();
        // git makes files of a few at once, and others may wait for what is held.
        let haste = match are_many && verify.is_empty() {
            true => Haste::None,
            false => Haste::Some,
        };
        let alone = (are_packed && are_held).then(|| packed(repository, pins, quarantine, verify, haste));
        if let Some(packed) = alone.flatten() {
            return Ok(Self {
                packed: Some(packed),
                held,
                child: None,
                claim: None,
                unflushed: None,
            });
        }
        // The child takes those locks.
        drop(held);
        let is_beside = are_many && !verify.is_empty();
        let packed = is_beside
            .then(|| packed(repository, pins, quarantine, &[], Haste::None))
            .flatten();
        let pins = if packed.is_some() { &[] } else { pins };
        for setting in LOCK_PATIENCE {
            command = command.setting(setting);
        }
        let unflushed = (pins.len() > MANY).then(|| disk_of_refs(repository)).flatten();
        if unflushed.is_some() {
            command = command.setting(WITHOUT_WAITING);
        }
        let claim = LockClaim::of_refs(repository, pins, verify);
        if let Some(shared) = claim.as_ref().and_then(LockClaim::shared) {
            command = command.sharing(shared);
        }
        let child = command.args(["--stdin", "-m", "parler: import"]).spawn()?;
        // From here on the drop removes what the child cannot.
        let mut this = Self {
            packed,
            held: None,
            child: Some(child),
            claim,
            unflushed,
        };
        let mut input = String::from("start\n");
        // First: git locks in this order and may have to wait, and a lock on a pin is known as ours at any moment.
        for pin in pins {
            input.push_str(&format!("update {} {}\n", pin.name, pin.oid));
        }
        for local in verify {
            // Not through a symbolic ref (refs/remotes/origin/HEAD): git would note the look in that ref's log, as a
            // move to nowhere.
            input.push_str(&format!("option no-deref\nverify {} {}\n", local.name, local.oid));
        }
        input.push_str("prepare\n");
        if let Some(child) = &mut this.child {
            child.feed(input.as_bytes())?;
            child.wait_for_answer(b"prepare: ok\n")?;
        }
        if let Some(claim) = &mut this.claim {
            claim.note();
        }
        Ok(this)
    }

    /// Writes the refs.
    pub(crate) fn commit(mut self) -> Result<(), PinError> {
        if let Some(packed) = self.packed.take() {
            packed.commit().map_err(PinError::Packed)?;
        }
        drop(self.held.take());
        let Some(child) = &mut self.child else { return Ok(()) };
        // The values stand in lock files by now, and get their names next.
        if let Some(disk) = self.unflushed.take() {
            flush(&disk).map_err(PinError::Flush)?;
        }
        child.feed(b"commit\n")?;
        let answer = child.finish()?;
        if answer.ends_with(b"commit: ok\n") {
            Ok(())
        } else {
            Err(GitError::answer("update-ref", &answer).into())
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // At the end of its input git gives up a prepared transaction and removes its locks. After a commit: no effect.
        let Some(child) = &mut self.child else { return };
        let end = child.finish();
        if let Some(claim) = self.claim.take() {
            claim.end(&end);
        }
    }
}

/// Pins as lines of `packed-refs`, ready to be written while `held` have their values. None where git has to do it.
fn packed(
    repository: &Repository,
    pins: &[Pin],
    quarantine: Option<&Path>,
    held: &[LocalRef],
    haste: Haste,
) -> Option<PackedRefs> {
    let peeler = Peeler::open(repository, quarantine);
    let lines = pins.iter().map(|pin| {
        Some(NewRef {
            name: &pin.name,
            oid: pin.oid,
            peeled: peeler.peeled(&pin.oid)?,
        })
    });
    let refs: Option<Vec<NewRef<'_>>> = lines.collect();
    let prepared = refs
        .ok_or(Obstacle::Unfamiliar("an object cannot be read"))
        .and_then(|refs| PackedRefs::prepare(repository, refs, held, haste));
    match &prepared {
        Ok(_) => tracing::debug!(pins = pins.len(), "pins: go into packed-refs at once"),
        Err(obstacle) => tracing::debug!(pins = pins.len(), %obstacle, "pins: go into files"),
    }
    prepared.ok()
}

/// Whether there is no such file, or one that is soon written anew.
fn is_small(packed_refs: &Path) -> bool {
    match std::fs::symlink_metadata(packed_refs) {
        Ok(found) => found.len() <= SMALL_PACKED_REFS,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// A place on the disk where each ref is a file, if the system can be told to write all of that disk.
#[cfg(target_os = "linux")]
fn disk_of_refs(repository: &Repository) -> Option<File> {
    let directory = || File::open(repository.common_dir()).ok();
    // A reftable is written as a whole, when it is committed.
    (!repository.asks_git()).then(directory).flatten()
}

#[cfg(not(target_os = "linux"))]
fn disk_of_refs(_: &Repository) -> Option<File> {
    None
}

#[cfg(target_os = "linux")]
fn flush(disk: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(disk)?)
}

#[cfg(not(target_os = "linux"))]
fn flush(_: &File) -> io::Result<()> {
    Ok(())
}

/// Two of these pins whose names differ in case alone, if there are such: where file names have no case, one of them is
/// all that a repository keeps.
pub fn twins(pins: &[Pin]) -> Option<(&Pin, &Pin)> {
    let mut seen = HashMap::new();
    pins.iter().find_map(|pin| {
        let before = seen.insert(pin.name.to_lowercase(), pin);
        before
            .filter(|before| before.name != pin.name)
            .map(|before| (before, pin))
    })
}

/// Why pins were not written.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// git refused, for example because a ref is in the way.
    #[error("cannot record the bundle under {PIN_ROOT}: {0}")]
    Git(#[from] GitError),
    /// The new `packed-refs` did not get its name.
    #[error("cannot record the bundles in packed-refs: {0}")]
    Packed(#[source] io::Error),
    /// The disk did not take them.
    #[error("cannot record the bundles under {PIN_ROOT}: {0}")]
    Flush(#[source] io::Error),
    /// The refs could not be read.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tip(name: &str, digit: &str) -> HeaderRef {
        HeaderRef {
            name: name.parse().unwrap(),
            oid: digit.repeat(40).parse().unwrap(),
        }
    }

    fn names(pins: &[Pin]) -> Vec<&str> {
        pins.iter().map(|pin| pin.name.as_str()).collect()
    }

    #[test]
    fn one_ref_is_the_bundle_and_several_are_below_it() {
        let id = BundleId::of(b"x");
        let (short, full) = (format!("refs/parler/{}", id.short()), format!("refs/parler/{id}"));
        assert_eq!(
            names(&pins_of(&id, &[tip("refs/heads/a/b", "a")], true)),
            [short.as_str(), &full]
        );
        assert_eq!(names(&pins_of(&id, &[tip("HEAD", "a")], false)), [full.as_str()]);
        let with_head = [tip("HEAD", "a"), tip("refs/heads/a/b", "a")];
        assert_eq!(names(&pins_of(&id, &with_head, false)), [full.as_str()]);
        let several = [tip("HEAD", "a"), tip("refs/heads/a/b", "a"), tip("refs/tags/v1", "b")];
        let below = |base: &str| ["heads/a/b", "tags/v1"].map(|name| format!("{base}/{name}"));
        assert_eq!(
            names(&pins_of(&id, &several, true)),
            [below(&short), below(&full)].concat()
        );
        let apart = [tip("HEAD", "c"), tip("refs/heads/a/b", "a")];
        assert_eq!(
            names(&pins_of(&id, &apart, false)),
            [format!("{full}/HEAD"), format!("{full}/heads/a/b")]
        );
    }

    #[test]
    fn names_that_differ_in_case_alone_are_found() {
        let id = BundleId::of(b"x");
        let pins = |names: &[&str]| {
            let refs: Vec<_> = names.iter().map(|name| tip(name, "a")).collect();
            pins_of(&id, &refs, true)
        };
        assert_eq!(twins(&pins(&["refs/heads/a", "refs/heads/b"])), None);
        assert_eq!(twins(&pins(&["refs/heads/main"])), None);
        for two in [
            ["refs/heads/Main", "refs/heads/main"],
            ["refs/heads/\u{c9}/x", "refs/heads/\u{e9}/X"],
        ] {
            let pins = pins(&two);
            assert_eq!(twins(&pins), Some((&pins[0], &pins[1])));
        }
    }

    #[test]
    fn a_short_name_that_another_bundle_holds_is_left_to_it() {
        let id = BundleId::of(b"x");
        let pins = pins_of(&id, &[tip("refs/heads/a", "a")], true);
        let local = |name: String, digit: &str| LocalRef {
            name,
            oid: digit.repeat(40).parse().unwrap(),
        };
        let without_taken =
            |pins, id: &BundleId, present: &[LocalRef]| without_taken(pins, id, &present.iter().collect::<Vec<_>>());
        let short = format!("refs/parler/{}", id.short());
        assert_eq!(without_taken(pins.clone(), &id, &[local(short.clone(), "a")]), pins);
        assert_eq!(
            without_taken(pins.clone(), &id, &[local(short.clone(), "b")]),
            pins[1..]
        );
        assert_eq!(
            without_taken(pins.clone(), &id, &[local(format!("{short}/heads/a"), "a")]),
            pins[1..]
        );
        assert_eq!(
            without_taken(pins.clone(), &id, &[local(format!("refs/parler/{id}"), "b")]),
            pins
        );
    }
}
