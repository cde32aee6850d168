//! Whether everything that a bundle's tips reach is there. Ours is the only such check: once the tips are pinned, git
//! takes them for complete.

use std::collections::HashSet;

use parler_protocol::Oid;

use crate::git::{ChildLimits, GitCommand, GitError, Side};
use crate::pins::Pin;
use crate::quarantine::Quarantine;
use crate::repository::{LocalRef, Repository};

use super::{ImportError, ImportLimits};

/// Memory that a walk may take: it grows with the repository, not with the bundle.
const WALK_DATA_BYTES: u64 = 8 << 30; // 8 GiB

/// Where is looked, and how long.
pub(super) struct Context<'a> {
    pub(super) repository: &'a Repository,
    pub(super) quarantine: &'a Quarantine,
    pub(super) limits: &'a ImportLimits,
}

/// What is to be proven.
pub(super) struct Claim {
    /// Tips of packs that refer to nothing outside them.
    pub(super) contained: Vec<Oid>,
    /// Tips of others.
    pub(super) open: Vec<Oid>,
    /// Whether everything that those reach is there, if all is that `external` reach.
    pub(super) is_connected: bool,
    /// Their prerequisites among the repository's own objects.
    pub(super) external: HashSet<Oid>,
}

/// What the check rested on.
#[derive(Debug, Default)]
pub(super) struct Proof {
    /// Refs that name prerequisites, which is why the walk could stop there. They must still do so when the pins are
    /// written.
    pub(super) refs: Vec<LocalRef>,
}

impl Context<'_> {
    /// Proves the tips.
    pub(super) fn prove(&self, claim: &Claim, local: &[LocalRef]) -> Result<Proof, ImportError> {
        let contained = &claim.contained;
        let whole = self.commits_in_quarantine(contained)?;
        let (complete, doubtful): (Vec<_>, Vec<_>) = contained.iter().copied().partition(|tip| whole.contains(tip));
        let tips = [claim.open.as_slice(), &doubtful].concat();
        if tips.is_empty() {
            return Ok(Proof::default());
        }
        let external = &claim.external;
        let around = |command| self.quarantine.around(command);
        let is_connected = claim.is_connected && doubtful.is_empty();
        let vouching = if doubtful.is_empty() {
            refs_naming(external, local)
        } else {
            None
        };
        match vouching {
            Some(refs) if is_connected => Ok(Proof { refs }),
            Some(refs) => {
                let known: Vec<_> = external.iter().copied().chain(complete).collect();
                walk(self.repository, around, &tips, &known, false, self.limits)?;
                Ok(Proof { refs })
            }
            None if is_connected && external.is_empty() => Ok(Proof::default()),
            None => {
                walk(self.repository, around, &tips, &complete, true, self.limits)?;
                Ok(Proof::default())
            }
        }
    }

    /// Which of these tips of self-contained packs are commits, or tags of commits, in the quarantine itself.
    fn commits_in_quarantine(&self, tips: &[Oid]) -> Result<HashSet<Oid>, ImportError> {
        if tips.is_empty() {
            return Ok(HashSet::new());
        }
        let asked: String = tips.iter().map(|oid| format!("{oid}\n{oid}^{{commit}}\n")).collect();
        let cat_file = self
            .repository
            .command(Side::Import, "cat-file")
            .arg("--batch-check=%(objecttype)");
        let answer = limited(self.quarantine.alone(cat_file), self.limits).run_with(asked.as_bytes())?;
        let lines: Vec<_> = answer.split(|byte| *byte == b'\n').collect();
        let is_commit = |pair: &[&[u8]]| matches!(pair[0], b"commit" | b"tag") && pair[1] == b"commit";
        Ok(tips
            .iter()
            .zip(lines.chunks_exact(2))
            .filter(|(_, pair)| is_commit(pair))
            .map(|(tip, _)| *tip)
            .collect())
    }
}

/// Proves pins against all refs of the repository: always right, and slow where there are thousands of refs.
pub(super) fn check_against_all(
    repository: &Repository,
    around: impl FnOnce(GitCommand) -> GitCommand,
    pins: &[Pin],
    limits: &ImportLimits,
) -> Result<(), ImportError> {
    let tips: Vec<_> = pins.iter().map(|pin| pin.oid).collect();
    walk(repository, around, &tips, &[], true, limits)
}

/// Walks from the tips to what is known to be complete. A tip that is not a commit, nor a tag of one, fails too.
fn walk(
    repository: &Repository,
    around: impl FnOnce(GitCommand) -> GitCommand,
    tips: &[Oid],
    known: &[Oid],
    not_all: bool,
    limits: &ImportLimits,
) -> Result<(), ImportError> {
    let mut input: String = tips.iter().map(|oid| format!("{oid}\n{oid}^{{commit}}\n")).collect();
    input.extend(known.iter().map(|oid| format!("^{oid}\n")));
    let mut rev_list = repository
        .command(Side::Import, "rev-list")
        .args(["--objects", "--quiet", "--stdin"]);
    if not_all {
        rev_list = rev_list.args(["--not", "--all"]);
    }
    if repository.promisor()?.is_some() {
        rev_list = rev_list.arg("--exclude-promisor-objects");
    }
    match limited(around(rev_list), limits).run_with(input.as_bytes()) {
        Ok(answer) if answer.is_empty() => Ok(()),
        // Told to be quiet, it says nothing where all is well.
        Ok(answer) => Err(GitError::answer("rev-list", &answer).into()),
        Err(GitError::Failed { message, .. }) => Err(ImportError::Incomplete { message }),
        Err(error) => Err(error.into()),
    }
}

fn limited(command: GitCommand, limits: &ImportLimits) -> GitCommand {
    let of_walk = ChildLimits {
        data_bytes: Some(WALK_DATA_BYTES),
        cpu: Some(limits.cpu),
    };
    command.limits(of_walk).patience(limits.patience)
}

/// A ref for each of these objects, if each is exactly what some ref names. Pins and tags first: they do not move. What is
/// called `HEAD` last: it leads to another.
fn refs_naming(oids: &HashSet<Oid>, local: &[LocalRef]) -> Option<Vec<LocalRef>> {
    let mobility = |name: &str| {
        ["refs/parler/", "refs/tags/", "refs/remotes/"]
            .iter()
            .position(|root| name.starts_with(root))
            .unwrap_or(3)
    };
    let naming = |oid: &Oid| {
        let candidates = local.iter().filter(|candidate| candidate.oid == *oid);
        let rank = |candidate: &&LocalRef| (candidate.name.ends_with("/HEAD"), mobility(&candidate.name));
        candidates.min_by_key(rank).cloned()
    };
    // Without any prerequisite nothing bounds the walk, and the refs do.
    if oids.is_empty() {
        None
    } else {
        oids.iter().map(naming).collect()
    }
}
