//! What a handoff brings, counted in git: commits, changed files and lines against their base, and whether the work tree
//! had changes besides. What cannot be counted in a few seconds is left out; a push never fails for it.

use std::time::Duration;

use parler_protocol::{BundleId, Oid, Work};

use crate::git::{GitError, Side};
use crate::repository::{Repository, from_gix, kind_of};
use crate::room_state::RoomState;

/// How long git may take for each count.
const PATIENCE: Duration = Duration::from_secs(10);
/// As much of a status as is read: any of it says that there are changes.
const STATUS_BYTES: usize = 1 << 20; // 1 MiB

/// What `commits` commits up to `tip` bring over these prerequisites of theirs; with `is_of_work_tree` also whether that
/// has other changes. None where git cannot say.
pub(super) fn count(
    repository: &Repository,
    tip: &Oid,
    prerequisites: &[Oid],
    commits: u64,
    base: Option<String>,
    is_of_work_tree: bool,
) -> Option<Work> {
    let from = base_of(repository, prerequisites);
    let counted = difference(repository, from, tip)
        .inspect_err(|error| tracing::debug!(%error, "push: what changed is not counted"));
    let (files, insertions, deletions) = counted.ok().flatten()?;
    Some(Work {
        commits,
        files,
        insertions,
        deletions,
        base,
        dirty: is_of_work_tree.then(|| is_dirty(repository)).flatten(),
    })
}

/// What a bundle of the room brings, as far as this repository has it, and whether the work tree has other changes, as
/// [`count`] does. None where it cannot say.
pub(super) fn of_bundle(
    repository: &Repository,
    state: &RoomState,
    id: &BundleId,
    is_of_work_tree: bool,
) -> Option<Work> {
    let part = &state.bundle(id)?.part;
    let tip = part.refs.first().map(|first| first.oid)?;
    if part.refs.iter().any(|other| other.oid != tip) {
        return None;
    }
    let base = part.base.clone().or_else(|| base_in_room(state, &part.prerequisites));
    count(
        repository,
        &tip,
        &part.prerequisites,
        part.commits?,
        base,
        is_of_work_tree,
    )
}

/// Inside the room the base is where a ref of it was.
pub(super) fn base_in_room(state: &RoomState, prerequisites: &[Oid]) -> Option<String> {
    let mut refs = state.refs().iter();
    let (name, _) = refs.find(|(_, found)| prerequisites.contains(&found.oid))?;
    Some(name.branch().unwrap_or(name.as_str()).to_owned())
}

/// The prerequisite that contains the others, where one does: a branch that took in its base again builds on two.
fn base_of(repository: &Repository, prerequisites: &[Oid]) -> Option<Oid> {
    let contains = |newest: &Oid| {
        let mut others = prerequisites.iter().filter(|other| *other != newest);
        others.all(|other| repository.is_ancestor(other, newest).unwrap_or(false))
    };
    let newest = prerequisites.iter().find(|oid| contains(oid));
    newest.or(prerequisites.first()).copied()
}

/// Files, added and removed lines.
fn difference(repository: &Repository, from: Option<Oid>, to: &Oid) -> Result<Option<(u64, u64, u64)>, GitError> {
    // The tree without entries git knows without having it.
    let empty = || from_gix(&gix::ObjectId::empty_tree(kind_of(repository.object_format())));
    let from = from.unwrap_or_else(empty).to_string();
    let answer = repository
        .command(Side::Push, "diff-tree")
        .args(["-r", "-M", "--shortstat", &from, &to.to_string()])
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        // What a partial clone lacks is not fetched for a number.
        .env("GIT_NO_LAZY_FETCH", "1")
        .patience(PATIENCE)
        .run()?;
    Ok(read_shortstat(&String::from_utf8_lossy(&answer)))
}

/// Reads ` 3 files changed, 340 insertions(+), 25 deletions(-)`; nothing at all where nothing changed.
fn read_shortstat(text: &str) -> Option<(u64, u64, u64)> {
    let mut counted = (0, 0, 0);
    for piece in text.trim().split(", ").filter(|piece| !piece.is_empty()) {
        let (number, what) = piece.split_once(' ')?;
        let number = number.parse().ok()?;
        match what {
            _ if what.starts_with("file") => counted.0 = number,
            _ if what.starts_with("insertion") => counted.1 = number,
            _ if what.starts_with("deletion") => counted.2 = number,
            _ => return None,
        }
    }
    Some(counted)
}

/// Whether the work tree has changes that are not committed, as `git status` tells its user. None without a work tree, or
/// where that cannot be told in time.
fn is_dirty(repository: &Repository) -> Option<bool> {
    let work_dir = repository.work_dir()?;
    let answer = repository
        .command(Side::Push, "status")
        .args(["--porcelain", "-z"])
        .env("GIT_WORK_TREE", &work_dir)
        // The index is nobody's to write while they push.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .current_dir(&work_dir)
        .answer_bytes(STATUS_BYTES)
        .patience(PATIENCE)
        .run();
    match answer {
        Ok(answer) => Some(!answer.is_empty()),
        Err(GitError::TooMuchOutput { .. }) => Some(true),
        Err(error) => {
            tracing::debug!(%error, "push: whether the work tree is clean is not known");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gits_numbers_are_read() {
        for (text, expected) in [
            (
                " 12 files changed, 340 insertions(+), 25 deletions(-)\n",
                Some((12, 340, 25)),
            ),
            (" 1 file changed, 1 insertion(+)\n", Some((1, 1, 0))),
            (" 1 file changed, 1 deletion(-)\n", Some((1, 0, 1))),
            (" 2 files changed, 0 insertions(+), 0 deletions(-)\n", Some((2, 0, 0))),
            ("", Some((0, 0, 0))),
            (" x files changed\n", None),
            (" 1 horse changed\n", None),
        ] {
            assert_eq!(read_shortstat(text), expected, "{text:?}");
        }
    }
}
